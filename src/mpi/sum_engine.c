/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/sum_engine.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/clock.h"
#include "mpi/cut.h"

enum {
    SHARE_NUMBERS = 32768, /* of a block of a coded part, at most */
    AHEAD_BYTES = 2 << 20, /* of its coded part that a member sends before it has the sum of it */
    LEAST_AHEAD = 2,       /* stripes */
    MOST_AHEAD = 16,
    /* A member may have the sum of `ahead` stripes more than this one, which have all come to be
     * decoded here, and sends its part `ahead` of that. */
    MOST_SLOTS = 2 * MOST_AHEAD + 2,
};

typedef enum block_type {
    BLOCK_CODED,  /* of a coded part: the receiver's share of a stripe */
    BLOCK_ZEROS,  /* the sender's coded part is zeros */
    BLOCK_SUMMED, /* the sender's share of a stripe of the sum, of all parts */
} block_type;

/* What a block begins with; it lies in the first POST_HEAD bytes. Ranks are of one kind of machine
 * as MPI has them here: messages are bytes. */
typedef struct block_head {
    uint64_t epoch;
    uint32_t type, stripe;
} block_head;

/* A block of a group that is still to be formed. */
typedef struct early_block {
    struct early_block *next;
    uint32_t from;
    post_block *block;
} early_block;

/* A stripe that is in progress. */
typedef struct stripe_slot {
    post_block **coded; /* per member; NULL: not there */
    uint32_t count;     /* of them */
    uint32_t summed;    /* members whose shares of the sum are there */
    bool decoded;       /* the own share is */
} stripe_slot;

typedef struct sum_engine {
    tarry_engine base;
    post *to;
    int kind;
    uint32_t rank, ranks;
    bool has_lock, has_change;
    pthread_mutex_t lock; /* over all that follows */
    pthread_cond_t change;
    bool woken;
    uint64_t epoch, least_epoch; /* blocks of groups below the second are dropped */
    uint32_t count, place;       /* of the group; count 0: none */
    uint32_t *worker;            /* of each member */
    uint32_t *place_of;          /* per rank; UINT32_MAX: no member */
    bool *lost;                  /* per rank: nothing reaches it */
    early_block *early;
    tarry_engine_progress progress;
    tarry_engine_sum sum; /* while it runs */
    cut cut;
    uint32_t ahead, slot_count; /* stripes; slots are taken in turn */
    stripe_slot slots[MOST_SLOTS];
    post_block **places; /* slots x count */
    bool *zeros;         /* per member */
    uint32_t zero_count;
    uint32_t sent;     /* stripes of the own coded part */
    uint32_t gathered; /* stripes of the sum that are whole */
    const float **in;  /* per member: what is decoded, */
    float *weights;    /* and with which weights */
} sum_engine;

static sum_engine *own_of(tarry_engine *engine)
{
    return (sum_engine *)engine;
}

static const block_head *head_of(const post_block *block)
{
    return (const block_head *)block->bytes;
}

static float *numbers_of(post_block *block)
{
    return (float *)(block->bytes + POST_HEAD);
}

static stripe_slot *slot_of(sum_engine *own, uint32_t stripe)
{
    return &own->slots[stripe % own->slot_count];
}

/* ---- the end of a sum ---- */

static void release_slot(const sum_engine *own, stripe_slot *slot)
{
    for (uint32_t i = 0; i < own->count; i++) {
        post_release(slot->coded[i]);
        slot->coded[i] = NULL;
    }
    slot->count = slot->summed = 0;
    slot->decoded = false;
}

/* Nothing of the sum is read or written any more. */
static void end(sum_engine *own, tarry_engine_state state)
{
    for (uint32_t i = 0; i < own->slot_count; i++)
        release_slot(own, &own->slots[i]);
    own->progress.state = state;
    size_t whole = own->gathered * own->cut.stripe_length;
    own->progress.whole =
        own->cut.whole + (whole < own->cut.part_length ? whole : own->cut.part_length);
    pthread_cond_broadcast(&own->change);
}

static void fail(sum_engine *own, uint32_t suspect, const char *why)
{
    own->progress.suspect = suspect;
    snprintf(own->progress.why, sizeof(own->progress.why), "%s", why);
    end(own, TARRY_ENGINE_FAILED);
}

/* False: the rank is no member. */
static bool fail_without(sum_engine *own, uint32_t rank)
{
    bool member = own->place_of[rank] < own->count;
    if (member)
        fail(own, rank, "nothing reaches a member any more");
    return member;
}

static void release_group(sum_engine *own)
{
    free(own->places);
    free(own->zeros);
    free(own->in);
    free(own->weights);
    own->places = NULL;
    own->zeros = NULL;
    own->in = NULL;
    own->weights = NULL;
}

/* ---- what goes out ---- */

static post_block *make_block(const sum_engine *own, block_type type, uint32_t stripe,
                              size_t numbers)
{
    post_block *made = post_block_reuse(own->to, POST_HEAD + numbers * sizeof(float));
    if (made == NULL)
        return NULL;
    memset(made->bytes, 0, POST_HEAD);
    *(block_head *)made->bytes = (block_head){.epoch = own->epoch, .type = type, .stripe = stripe};
    return made;
}

static void put(sum_engine *own, uint32_t place, post_block *block)
{
    own->progress.moved += block->size - POST_HEAD;
    post_put(own->to, own->worker[place], own->kind, block);
}

/* Others learn that they need not wait for a coded part. False: there is no memory. */
static bool send_zeros(sum_engine *own)
{
    post_block *block = make_block(own, BLOCK_ZEROS, 0, 0);
    for (uint32_t i = 0; i < own->count && block != NULL; i++)
        if (i != own->place)
            put(own, i, post_hold(block));
    bool sent = block != NULL;
    post_release(block);
    return sent;
}

static bool send_stripe(sum_engine *own)
{
    for (uint32_t step = 1; step < own->count; step++) {
        uint32_t place = (own->place + step) % own->count; /* all begin with another one */
        cut_share its = cut_share_of(&own->cut, own->sent, place);
        if (its.length == 0)
            continue;
        post_block *block = make_block(own, BLOCK_CODED, own->sent, its.length);
        if (block == NULL)
            return false;
        memcpy(numbers_of(block), own->sum.part + own->cut.whole + its.first,
               its.length * sizeof(float));
        put(own, place, block);
    }
    own->sent++;
    return true;
}

/* ---- what is summed ---- */

static void tell_came(const sum_engine *own, uint32_t part, cut_share of)
{
    size_t count = cut_exists(&own->cut, part, of);
    if (own->sum.came != NULL && count > 0)
        own->sum.came(own->sum.user, cut_place(&own->cut, part, of), count);
}

/* Decodes the own share of a stripe into a block, which goes to all. */
static bool decode(sum_engine *own, uint32_t stripe)
{
    stripe_slot *slot = slot_of(own, stripe);
    cut_share its = cut_share_of(&own->cut, stripe, own->place);
    post_block *block = make_block(own, BLOCK_SUMMED, stripe, cut_numbers(&own->cut, its));
    if (block == NULL)
        return false;
    float *out = numbers_of(block);
    for (uint32_t part = 0; part < own->cut.parts; part++) {
        uint32_t terms = 0;
        for (uint32_t i = 0; i < own->count; i++) {
            if (i == own->place ? own->sum.part == NULL : own->zeros[i])
                continue;
            own->in[terms] = i == own->place ? own->sum.part + own->cut.whole + its.first
                                             : numbers_of(slot->coded[i]);
            own->weights[terms++] = own->sum.weights[(size_t)part * own->count + i];
        }
        size_t exists = cut_exists(&own->cut, part, its);
        cut_combine(out, own->in, own->weights, terms, exists);
        memcpy(own->sum.sum + cut_place(&own->cut, part, its), out, exists * sizeof(float));
        tell_came(own, part, its);
        out += exists;
    }
    for (uint32_t step = 1; step < own->count; step++)
        put(own, (own->place + step) % own->count, post_hold(block));
    post_release(block);
    slot->decoded = true;
    slot->summed++;
    return true;
}

static bool can_decode(sum_engine *own, uint32_t stripe)
{
    const stripe_slot *slot = slot_of(own, stripe);
    return !slot->decoded && cut_share_of(&own->cut, stripe, own->place).length > 0 &&
           slot->count + own->zero_count + 1 >= own->count;
}

/* Members with a share of the stripe: their shares come. */
static uint32_t count_owners(const sum_engine *own, uint32_t stripe)
{
    uint32_t owners = 0;
    for (uint32_t i = 0; i < own->count; i++)
        owners += cut_share_of(&own->cut, stripe, i).length > 0;
    return owners;
}

/* Stripes that may be in progress now. */
static uint32_t horizon(const sum_engine *own)
{
    uint32_t left = own->cut.stripes - own->gathered;
    return own->gathered + (left < own->ahead ? left : own->ahead);
}

/* With the lock held: all that can be done. */
static void work(sum_engine *own)
{
    while (own->progress.state == TARRY_ENGINE_RUNNING) {
        bool done = false;
        if (own->sum.part != NULL && own->sent < horizon(own)) {
            done = true;
            if (!send_stripe(own)) {
                fail(own, TARRY_ENGINE_NOBODY, "there is no memory for its blocks");
                return;
            }
        }
        for (uint32_t stripe = own->gathered; stripe < horizon(own); stripe++) {
            if (!can_decode(own, stripe))
                continue;
            done = true;
            if (!decode(own, stripe)) {
                fail(own, TARRY_ENGINE_NOBODY, "there is no memory for its blocks");
                return;
            }
        }
        stripe_slot *first = slot_of(own, own->gathered);
        if (first->summed == count_owners(own, own->gathered)) {
            done = true;
            release_slot(own, first);
            if (++own->gathered == own->cut.stripes)
                end(own, TARRY_ENGINE_DONE);
        }
        if (!done)
            return;
    }
}

/* ---- what comes ---- */

/* A share of the sum. False: it is none. */
static bool take_summed(sum_engine *own, uint32_t place, post_block *block)
{
    uint32_t stripe = head_of(block)->stripe;
    cut_share its = cut_share_of(&own->cut, stripe, place);
    const float *from = numbers_of(block);
    if (block->size != POST_HEAD + cut_numbers(&own->cut, its) * sizeof(float))
        return false;
    for (uint32_t part = 0; part < own->cut.parts; part++) {
        size_t exists = cut_exists(&own->cut, part, its);
        memcpy(own->sum.sum + cut_place(&own->cut, part, its), from, exists * sizeof(float));
        tell_came(own, part, its);
        from += exists;
    }
    slot_of(own, stripe)->summed++;
    return true;
}

static bool take_coded(sum_engine *own, uint32_t place, post_block *block)
{
    uint32_t stripe = head_of(block)->stripe;
    cut_share its = cut_share_of(&own->cut, stripe, own->place);
    stripe_slot *slot = slot_of(own, stripe);
    if (block->size != POST_HEAD + its.length * sizeof(float) || slot->coded[place] != NULL)
        return false;
    slot->coded[place] = post_hold(block);
    slot->count++;
    return true;
}

/* A block of the sum that runs. */
static void use(sum_engine *own, uint32_t from, post_block *block)
{
    const block_head *head = head_of(block);
    uint32_t place = own->place_of[from];
    bool good = place < own->count && place != own->place;
    if (good && head->type == BLOCK_ZEROS) {
        own->zero_count += !own->zeros[place];
        own->zeros[place] = true;
        return;
    }
    good = good && head->stripe >= own->gathered && head->stripe < own->cut.stripes &&
           head->stripe - own->gathered < own->slot_count;
    if (good && head->type == BLOCK_CODED) {
        good = take_coded(own, place, block);
    } else if (good && head->type == BLOCK_SUMMED) {
        good = take_summed(own, place, block);
    } else {
        good = false;
    }
    if (!good)
        fail(own, TARRY_ENGINE_NOBODY, "a member cuts the sum in another way");
}

static void keep_early(sum_engine *own, uint32_t from, post_block *block)
{
    early_block *item = malloc(sizeof(*item));
    if (item == NULL)
        return; /* the sum will not be whole */
    *item = (early_block){.next = own->early, .from = from, .block = post_hold(block)};
    own->early = item;
}

/* The blocks of this group that came early, and none of those before. */
static void use_early(sum_engine *own)
{
    early_block **at = &own->early;
    while (*at != NULL) {
        early_block *item = *at;
        uint64_t epoch = head_of(item->block)->epoch;
        if (epoch > own->epoch) {
            at = &item->next;
            continue;
        }
        *at = item->next;
        if (epoch == own->epoch && own->progress.state == TARRY_ENGINE_RUNNING)
            use(own, item->from, item->block);
        post_release(item->block);
        free(item);
    }
}

void sum_engine_take(tarry_engine *engine, uint32_t from, post_block *block)
{
    sum_engine *own = own_of(engine);
    if (block->size < POST_HEAD)
        return;
    pthread_mutex_lock(&own->lock);
    uint64_t epoch = head_of(block)->epoch;
    if (own->progress.state == TARRY_ENGINE_RUNNING && epoch == own->epoch)
        use(own, from, block);
    else if (epoch >= own->least_epoch)
        keep_early(own, from, block);
    pthread_mutex_unlock(&own->lock);
}

void sum_engine_lose(tarry_engine *engine, uint32_t rank)
{
    sum_engine *own = own_of(engine);
    pthread_mutex_lock(&own->lock);
    own->lost[rank] = true;
    if (own->progress.state == TARRY_ENGINE_RUNNING)
        fail_without(own, rank);
    pthread_mutex_unlock(&own->lock);
}

bool sum_engine_turn(tarry_engine *engine)
{
    sum_engine *own = own_of(engine);
    pthread_mutex_lock(&own->lock);
    work(own);
    bool running = own->progress.state == TARRY_ENGINE_RUNNING;
    pthread_mutex_unlock(&own->lock);
    return running;
}

/* ---- the engine's methods ---- */

static void get_address(tarry_engine *engine, uint8_t *bytes, size_t *size)
{
    const sum_engine *own = own_of(engine);
    memcpy(bytes, &own->rank, sizeof(own->rank));
    *size = sizeof(own->rank);
}

static void abandon(tarry_engine *engine)
{
    sum_engine *own = own_of(engine);
    pthread_mutex_lock(&own->lock);
    if (own->progress.state == TARRY_ENGINE_RUNNING)
        end(own, TARRY_ENGINE_IDLE);
    else
        own->progress.state = TARRY_ENGINE_IDLE;
    pthread_mutex_unlock(&own->lock);
}

/* With the lock held: who the members are. False: their addresses are none. */
static bool list_members(sum_engine *own, const tarry_engine_group *group)
{
    for (uint32_t rank = 0; rank < own->ranks; rank++)
        own->place_of[rank] = UINT32_MAX;
    for (uint32_t i = 0; i < group->count; i++) {
        const tarry_engine_member *member = &group->members[i];
        uint32_t rank = own->ranks;
        if (member->address_size == sizeof(rank))
            memcpy(&rank, member->address, sizeof(rank));
        if (rank >= own->ranks)
            return false;
        own->worker[i] = rank;
        own->place_of[rank] = i;
    }
    return own->worker[group->place] == own->rank;
}

static int form(tarry_engine *engine, const tarry_engine_group *group, tarry_diagnostic *diagnostic)
{
    sum_engine *own = own_of(engine);
    (void)diagnostic;
    abandon(engine);
    pthread_mutex_lock(&own->lock);
    release_group(own);
    own->count = 0;
    own->progress = (tarry_engine_progress){.suspect = TARRY_ENGINE_NOBODY};
    int error = list_members(own, group) ? TARRY_OK : TARRY_ERROR_ARGUMENT;
    if (error == TARRY_OK) {
        own->epoch = group->epoch;
        own->least_epoch = group->epoch;
        own->count = group->count;
        own->place = group->place;
        own->places = calloc((size_t)MOST_SLOTS * group->count, sizeof(post_block *));
        own->zeros = calloc(group->count, sizeof(bool));
        own->in = calloc(group->count, sizeof(float *));
        own->weights = calloc(group->count, sizeof(float));
        if (own->places == NULL || own->zeros == NULL || own->in == NULL || own->weights == NULL)
            error = TARRY_ERROR_NO_MEMORY;
    }
    if (error != TARRY_OK)
        own->count = 0;
    pthread_mutex_unlock(&own->lock);
    return error;
}

/* With the lock held. */
static int begin(sum_engine *own, const tarry_engine_sum *sum)
{
    if (own->count == 0 || own->progress.state == TARRY_ENGINE_RUNNING)
        return TARRY_ERROR_STATE;
    if (!cut_make(sum, own->count, SHARE_NUMBERS, &own->cut) ||
        sum->compress != TARRY_COMPRESS_NONE || sum->compress_down != TARRY_COMPRESS_NONE)
        return TARRY_ERROR_ARGUMENT;
    size_t stripe = own->cut.stripe_length * sizeof(float);
    size_t ahead = AHEAD_BYTES / stripe;
    own->ahead = (uint32_t)(ahead < LEAST_AHEAD  ? LEAST_AHEAD
                            : ahead > MOST_AHEAD ? MOST_AHEAD
                                                 : ahead);
    own->slot_count = 2 * own->ahead + 2;
    for (uint32_t i = 0; i < own->slot_count; i++)
        own->slots[i] = (stripe_slot){.coded = own->places + (size_t)i * own->count};
    own->sum = *sum;
    own->sent = own->gathered = own->zero_count = 0;
    own->progress =
        (tarry_engine_progress){.state = TARRY_ENGINE_RUNNING, .suspect = TARRY_ENGINE_NOBODY};
    own->least_epoch = own->epoch + 1;
    for (uint32_t rank = 0; rank < own->ranks; rank++)
        if (own->lost[rank] && fail_without(own, rank))
            return TARRY_OK;
    if (sum->part == NULL && !send_zeros(own)) {
        own->progress.state = TARRY_ENGINE_IDLE;
        return TARRY_ERROR_NO_MEMORY;
    }
    use_early(own);
    return TARRY_OK;
}

static int start(tarry_engine *engine, const tarry_engine_sum *sum)
{
    sum_engine *own = own_of(engine);
    pthread_mutex_lock(&own->lock);
    int error = begin(own, sum);
    pthread_mutex_unlock(&own->lock);
    post_wake(own->to);
    return error;
}

static void wait(tarry_engine *engine, uint64_t until_ns, tarry_engine_progress *progress)
{
    sum_engine *own = own_of(engine);
    pthread_mutex_lock(&own->lock);
    bool time_left = true;
    while (own->progress.state == TARRY_ENGINE_RUNNING && !own->woken && time_left)
        time_left = clock_wait(&own->change, &own->lock, until_ns);
    own->woken = false;
    *progress = own->progress;
    pthread_mutex_unlock(&own->lock);
}

static void wake(tarry_engine *engine)
{
    sum_engine *own = own_of(engine);
    pthread_mutex_lock(&own->lock);
    own->woken = true;
    pthread_cond_broadcast(&own->change);
    pthread_mutex_unlock(&own->lock);
}

static void release(tarry_engine *engine)
{
    sum_engine *own = own_of(engine);
    if (own->has_lock && own->has_change)
        abandon(engine);
    while (own->early != NULL) {
        early_block *item = own->early;
        own->early = item->next;
        post_release(item->block);
        free(item);
    }
    release_group(own);
    if (own->has_change)
        pthread_cond_destroy(&own->change);
    if (own->has_lock)
        pthread_mutex_destroy(&own->lock);
    free(own->worker);
    free(own->place_of);
    free(own->lost);
    free(own);
}

static const tarry_engine_methods methods = {
    .name = "mpi",
    .address = get_address,
    .form = form,
    .start = start,
    .wait = wait,
    .wake = wake,
    .abandon = abandon,
    .free = release,
};

tarry_engine *sum_engine_create(post *to, int kind, uint32_t rank, uint32_t ranks)
{
    sum_engine *own = calloc(1, sizeof(*own));
    if (own == NULL)
        return NULL;
    own->base.methods = &methods;
    own->to = to;
    own->kind = kind;
    own->rank = rank;
    own->ranks = ranks;
    own->has_lock = pthread_mutex_init(&own->lock, NULL) == 0;
    own->has_change = clock_init_condition(&own->change);
    own->worker = calloc(ranks, sizeof(*own->worker));
    own->place_of = calloc(ranks, sizeof(*own->place_of));
    own->lost = calloc(ranks, sizeof(*own->lost));
    if (!own->has_lock || !own->has_change || own->worker == NULL || own->place_of == NULL ||
        own->lost == NULL) {
        release(&own->base);
        return NULL;
    }
    return &own->base;
}
