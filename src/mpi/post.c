/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/post.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"

enum {
    MOST_SENDS = 16, /* to a rank at a time */
    MOST_TAKEN = 64, /* messages that come in a turn */
    FIRST_NAP_NS = 10000,
    SPIN_NS = 50000,
    IDLE_NAP_NS = 1000000,  /* between two looks at MPI if nothing is expected, */
    SUM_NAP_NS = 100000,    /* and while a sum is made */
    SHELF_LEAST = 32 << 10, /* bytes of a block that is kept for another use, */
    SHELF_BYTES = 16 << 20, /* and of all that are */
};

#define END_NS UINT64_C(5000000000) /* for all ranks to come to the end */

/* The tags of messages. */
typedef enum post_tag {
    TAG_BLOCK,
    TAG_END, /* the sender has come to the end of the run; no bytes */
} post_tag;

/* A message to a rank, or from it. */
typedef struct letter {
    struct letter *next;
    post_block *block;
    uint32_t rank;
    post_tag tag;
    uint64_t group;
    bool comes; /* it is a receive */
} letter;

typedef struct letters {
    letter *first, **end;
} letters;

typedef struct lane {
    letters out;    /* MPI has not got them yet */
    unsigned sends; /* that MPI has */
    bool broken;
} lane;

struct post {
    post_settings settings;
    uint32_t own, ranks;
    lane *lanes;           /* per rank */
    MPI_Request *requests; /* that MPI has, */
    letter **moving;       /* and whose they are */
    MPI_Status *statuses;
    int *indices;
    size_t count, room;
    bool has_lock, has_change, has_shelf, has_thread;
    pthread_t thread;
    bool over;                  /* a finished rank has come to the end */
    bool finished, whole;       /* what post_end is told, and gives back */
    pthread_mutex_t shelf_lock; /* over the blocks that nobody uses, the last one first */
    post_block *shelf;
    size_t shelf_bytes;
    pthread_mutex_t lock; /* over what follows */
    pthread_cond_t change;
    bool woken, ending;
    letters put;      /* not yet in a lane */
    uint64_t dropped; /* groups up to this one are not sent any more */
};

/* ---- blocks ---- */

static post_block *block_make(size_t size)
{
    size_t align = _Alignof(post_block);
    size_t whole = (sizeof(post_block) + size + align - 1) / align * align;
    post_block *made = aligned_alloc(align, whole);
    if (made == NULL)
        return NULL;
    *made = (post_block){.size = size, .room = whole - sizeof(post_block)};
    atomic_init(&made->users, 1);
    return made;
}

/* The last block given back that fits, without half of it empty. */
static post_block *take_from_shelf(post *self, size_t size)
{
    pthread_mutex_lock(&self->shelf_lock);
    post_block **at = &self->shelf;
    while (*at != NULL && ((*at)->room < size || (*at)->room / 2 > size))
        at = &(*at)->next;
    post_block *found = *at;
    if (found != NULL) {
        *at = found->next;
        self->shelf_bytes -= found->room;
    }
    pthread_mutex_unlock(&self->shelf_lock);
    return found;
}

post_block *post_block_reuse(post *self, size_t size)
{
    if (size < SHELF_LEAST)
        return block_make(size);
    post_block *found = take_from_shelf(self, size);
    if (found == NULL) {
        found = block_make(size);
        if (found == NULL)
            return NULL;
        found->shelf = self;
    }
    found->size = size;
    found->next = NULL;
    atomic_store(&found->users, 1);
    return found;
}

/* False: it is full. */
static bool put_on_shelf(post *self, post_block *block)
{
    pthread_mutex_lock(&self->shelf_lock);
    bool fits = self->shelf_bytes + block->room <= SHELF_BYTES;
    if (fits) {
        block->next = self->shelf;
        self->shelf = block;
        self->shelf_bytes += block->room;
    }
    pthread_mutex_unlock(&self->shelf_lock);
    return fits;
}

post_block *post_hold(post_block *block)
{
    atomic_fetch_add(&block->users, 1);
    return block;
}

void post_release(post_block *block)
{
    if (block == NULL || atomic_fetch_sub(&block->users, 1) > 1)
        return;
    if (block->shelf == NULL || !put_on_shelf(block->shelf, block))
        free(block);
}

static void clear_shelf(post *self)
{
    while (self->shelf != NULL) {
        post_block *first = self->shelf;
        self->shelf = first->next;
        free(first);
    }
}

/* ---- lists ---- */

static void letters_init(letters *list)
{
    list->first = NULL;
    list->end = &list->first;
}

static void letters_add(letters *list, letter *item)
{
    item->next = NULL;
    *list->end = item;
    list->end = &item->next;
}

static letter *letters_take(letters *list)
{
    letter *item = list->first;
    list->first = item->next;
    if (list->first == NULL)
        list->end = &list->first;
    return item;
}

static void letter_free(letter *item)
{
    post_release(item->block);
    free(item);
}

static void letters_clear(letters *list)
{
    while (list->first != NULL)
        letter_free(letters_take(list));
}

/* ---- what is put ---- */

static void put(post *self, letter as, post_block *block)
{
    letter *item = block != NULL ? malloc(sizeof(*item)) : NULL;
    if (item == NULL) {
        post_release(block);
        return; /* a sum will not be whole */
    }
    *item = as;
    item->block = block;
    pthread_mutex_lock(&self->lock);
    letters_add(&self->put, item);
    pthread_cond_signal(&self->change);
    pthread_mutex_unlock(&self->lock);
}

void post_put(post *self, uint32_t to, uint64_t group, post_block *block)
{
    put(self, (letter){.rank = to, .tag = TAG_BLOCK, .group = group}, block);
}

void post_drop(post *self, uint64_t group)
{
    pthread_mutex_lock(&self->lock);
    self->dropped = group > self->dropped ? group : self->dropped;
    pthread_mutex_unlock(&self->lock);
}

void post_wake(post *self)
{
    pthread_mutex_lock(&self->lock);
    self->woken = true;
    pthread_cond_signal(&self->change);
    pthread_mutex_unlock(&self->lock);
}

/* Brings what was put into the lanes. */
static bool sort_letters(post *self)
{
    pthread_mutex_lock(&self->lock);
    letters put = self->put;
    letters_init(&self->put);
    pthread_mutex_unlock(&self->lock);
    bool any = put.first != NULL;
    while (put.first != NULL) {
        letter *item = letters_take(&put);
        if (self->lanes[item->rank].broken)
            letter_free(item);
        else
            letters_add(&self->lanes[item->rank].out, item);
    }
    return any;
}

/* ---- what MPI has ---- */

static void break_lane(post *self, uint32_t rank)
{
    lane *of = &self->lanes[rank];
    if (of->broken)
        return;
    of->broken = true;
    letters_clear(&of->out);
    self->settings.broken(self->settings.user, rank);
}

static bool has_room(post *self)
{
    if (self->count < self->room)
        return true;
    size_t room = self->room > 0 ? 2 * self->room : 64;
    MPI_Request *requests = realloc(self->requests, room * sizeof(*requests));
    self->requests = requests != NULL ? requests : self->requests;
    letter **moving = realloc(self->moving, room * sizeof(letter *));
    self->moving = moving != NULL ? moving : self->moving;
    MPI_Status *statuses = realloc(self->statuses, room * sizeof(*statuses));
    self->statuses = statuses != NULL ? statuses : self->statuses;
    int *indices = realloc(self->indices, room * sizeof(*indices));
    self->indices = indices != NULL ? indices : self->indices;
    if (requests == NULL || moving == NULL || statuses == NULL || indices == NULL)
        return false;
    self->room = room;
    return true;
}

/* Begins to send what may be on its way. Without memory it is tried again in the next turn. */
static bool begin_sends(post *self, uint32_t rank, uint64_t dropped)
{
    lane *of = &self->lanes[rank];
    bool any = false;
    while (of->out.first != NULL && of->out.first->tag == TAG_BLOCK &&
           of->out.first->group <= dropped)
        letter_free(letters_take(&of->out));
    while (of->out.first != NULL && of->sends < MOST_SENDS && has_room(self)) {
        letter *item = letters_take(&of->out);
        int error = MPI_Isend(item->block->bytes, (int)item->block->size, MPI_BYTE, (int)rank,
                              (int)item->tag, self->settings.comm, &self->requests[self->count]);
        any = true;
        if (error != MPI_SUCCESS) {
            letter_free(item);
            break_lane(self, rank);
            return true;
        }
        self->moving[self->count++] = item;
        of->sends++;
    }
    return any;
}

/* The message is complete, or has failed. Blocks say what they are of: their order does not matter.
 */
static void settle(post *self, letter *item, bool failed)
{
    self->lanes[item->rank].sends -= !item->comes;
    if (failed)
        break_lane(self, item->rank);
    else if (item->comes && item->tag == TAG_END)
        self->over = true;
    else if (item->comes)
        self->settings.take(self->settings.user, item->rank, item->block);
    letter_free(item);
}

static bool settle_all(post *self)
{
    int done = 0;
    if (self->count == 0)
        return false;
    int error =
        MPI_Testsome((int)self->count, self->requests, &done, self->indices, self->statuses);
    if (done == MPI_UNDEFINED || done <= 0)
        return false;
    for (int i = 0; i < done; i++) {
        size_t at = (size_t)self->indices[i];
        bool failed = error == MPI_ERR_IN_STATUS && self->statuses[i].MPI_ERROR != MPI_SUCCESS;
        letter *item = self->moving[at];
        self->moving[at] = NULL;
        settle(self, item, failed);
    }
    size_t kept = 0;
    for (size_t i = 0; i < self->count; i++) {
        if (self->moving[i] == NULL)
            continue;
        self->moving[kept] = self->moving[i];
        self->requests[kept++] = self->requests[i];
    }
    self->count = kept;
    return true;
}

/* ---- what comes ---- */

/* Begins to receive a message that is there. False: there is none, or no memory for it. Nobody else
 * receives, so that it is the one that was probed; of MPI_Imrecv's requests Open MPI's pml ucx can
 * not say that they failed. */
static bool begin_receive(post *self)
{
    int there = 0, size = 0;
    MPI_Status status;
    if (!has_room(self) || MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, self->settings.comm, &there,
                                      &status) != MPI_SUCCESS)
        return false;
    if (!there)
        return false;
    MPI_Get_count(&status, MPI_BYTE, &size);
    letter *item = malloc(sizeof(*item));
    post_block *block = post_block_reuse(self, (size_t)size);
    uint32_t rank = (uint32_t)status.MPI_SOURCE;
    if (item == NULL || block == NULL) {
        post_release(block);
        free(item);
        return false;
    }
    if (MPI_Irecv(block->bytes, size, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG,
                  self->settings.comm, &self->requests[self->count]) != MPI_SUCCESS) {
        /* The block is lost, and its sum is not whole. */
        post_release(block);
        free(item);
        break_lane(self, rank);
        return true;
    }
    *item = (letter){.block = block, .rank = rank, .tag = (post_tag)status.MPI_TAG, .comes = true};
    self->moving[self->count++] = item;
    return true;
}

/* Does what can be done now. Gives back whether there was anything. */
static bool turn(post *self)
{
    bool any = sort_letters(self);
    pthread_mutex_lock(&self->lock);
    uint64_t dropped = self->dropped;
    pthread_mutex_unlock(&self->lock);
    for (uint32_t rank = 0; rank < self->ranks; rank++)
        any = begin_sends(self, rank, dropped) || any;
    for (int i = 0; i < MOST_TAKEN && begin_receive(self); i++)
        any = true;
    return settle_all(self) || any;
}

/* Sleeps until another thread has something, at most until the time. */
static bool nap(post *self, uint64_t until_ns)
{
    pthread_mutex_lock(&self->lock);
    if (self->put.first == NULL && !self->woken)
        clock_wait(&self->change, &self->lock, until_ns);
    bool woken = self->woken;
    self->woken = false;
    pthread_mutex_unlock(&self->lock);
    return woken;
}

/* Turns until something was done, it was woken, or until_ns of the monotonic clock. Spins for a
 * moment, and then sleeps, at most `nap_ns` at a time. */
static void wait_for_any(post *self, uint64_t until_ns, uint64_t nap_ns)
{
    uint64_t start = clock_now_ns(), now = start, length = FIRST_NAP_NS;
    while (!turn(self) && now < until_ns) {
        bool spins = now - start < SPIN_NS;
        uint64_t end = spins ? 0 : now + length < until_ns ? now + length : until_ns;
        if (!spins)
            length = 2 * length < nap_ns ? 2 * length : nap_ns;
        if (nap(self, end))
            return;
        now = clock_now_ns();
    }
}

/* ---- the thread ---- */

static bool is_ending(post *self)
{
    pthread_mutex_lock(&self->lock);
    bool ending = self->ending;
    pthread_mutex_unlock(&self->lock);
    return ending;
}

/* Whether all that was put is out of our hands. */
static bool is_clear(post *self)
{
    bool clear = true;
    sort_letters(self);
    for (uint32_t rank = 0; rank < self->ranks; rank++)
        clear = clear && self->lanes[rank].out.first == NULL && self->lanes[rank].sends == 0;
    return clear;
}

static void tell_end(post *self)
{
    for (uint32_t rank = 0; rank < self->ranks; rank++)
        if (rank != self->own)
            put(self, (letter){.rank = rank, .tag = TAG_END}, block_make(0));
}

/* False: some ranks do not come within the time. */
static bool meet(post *self)
{
    while (!self->finished && !self->over)
        wait_for_any(self, TARRY_NEVER, IDLE_NAP_NS);
    if (self->finished)
        tell_end(self);
    uint64_t until = clock_from_now(END_NS);
    while (!is_clear(self) && clock_now_ns() < until)
        wait_for_any(self, until, SUM_NAP_NS);
    MPI_Request all;
    int here = 0;
    if (!is_clear(self) || MPI_Ibarrier(self->settings.comm, &all) != MPI_SUCCESS)
        return false;
    while (MPI_Test(&all, &here, MPI_STATUS_IGNORE) == MPI_SUCCESS && !here &&
           clock_now_ns() < until)
        wait_for_any(self, clock_from_now(SUM_NAP_NS), SUM_NAP_NS);
    return here;
}

static void *run(void *argument)
{
    post *self = argument;
    while (!is_ending(self)) {
        bool sums = self->settings.turn(self->settings.user);
        wait_for_any(self, TARRY_NEVER, sums ? SUM_NAP_NS : IDLE_NAP_NS);
    }
    self->whole = meet(self);
    return NULL;
}

bool post_begin(post *self)
{
    if (!self->has_thread)
        self->has_thread = pthread_create(&self->thread, NULL, run, self) == 0;
    return self->has_thread;
}

bool post_end(post *self, bool finished)
{
    self->finished = finished;
    if (!self->has_thread)
        return meet(self);
    pthread_mutex_lock(&self->lock);
    self->ending = true;
    self->woken = true;
    pthread_cond_signal(&self->change);
    pthread_mutex_unlock(&self->lock);
    pthread_join(self->thread, NULL);
    return self->whole;
}

/* ---- creation and the end ---- */

post *post_create(const post_settings *settings)
{
    int own, ranks;
    if (MPI_Comm_rank(settings->comm, &own) != MPI_SUCCESS ||
        MPI_Comm_size(settings->comm, &ranks) != MPI_SUCCESS)
        return NULL;
    post *self = calloc(1, sizeof(*self));
    if (self == NULL)
        return NULL;
    self->settings = *settings;
    self->own = (uint32_t)own;
    self->ranks = (uint32_t)ranks;
    letters_init(&self->put);
    self->has_lock = pthread_mutex_init(&self->lock, NULL) == 0;
    self->has_change = clock_init_condition(&self->change) == 0;
    self->has_shelf = pthread_mutex_init(&self->shelf_lock, NULL) == 0;
    self->lanes = calloc(self->ranks, sizeof(*self->lanes));
    if (!self->has_lock || !self->has_change || !self->has_shelf || self->lanes == NULL) {
        post_free(self);
        return NULL;
    }
    for (uint32_t rank = 0; rank < self->ranks; rank++)
        letters_init(&self->lanes[rank].out);
    return self;
}

void post_free(post *self)
{
    if (self == NULL)
        return;
    for (uint32_t rank = 0; self->lanes != NULL && rank < self->ranks; rank++)
        letters_clear(&self->lanes[rank].out);
    letters_clear(&self->put);
    clear_shelf(self);
    if (self->has_shelf)
        pthread_mutex_destroy(&self->shelf_lock);
    if (self->has_change)
        pthread_cond_destroy(&self->change);
    if (self->has_lock)
        pthread_mutex_destroy(&self->lock);
    if (self->count > 0)
        return; /* MPI reads and writes what is moving */
    free(self->indices);
    free(self->statuses);
    free(self->moving);
    free(self->requests);
    free(self->lanes);
    free(self);
}
