/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/exchange.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/sum_id.h"
#include "coding/vector_digest.h"
#include "runtime/clock.h"

enum {
    WORD = 8,         /* what pieces are cut into, so that no number is in two */
    FIRST_PIECES = 4, /* that may come before anything is known of the way */
    LENT_PIECES = 4,  /* of one reader that the owner has at a time */
    PAUSES = 4,       /* while a sum is made: as long as a piece took, so often */
};
#define LEAST_PAUSE_NS UINT64_C(2000000)
/* On the way to one who gets something; and from one who gives, to all. */
#define WINDOW_MOST_BYTES (UINT64_C(64) << 20)
#define SERVED_MOST_BYTES (UINT64_C(64) << 20)

/* A state that was handed over, or is lent; those who get it share it. */
typedef struct handed {
    uint8_t *bytes;
    bool lent; /* the bytes are somebody else's */
    uint64_t size;
    tarry_sum_id after;
    uint64_t digest;
    unsigned users;
} handed;

/* A party that gets something from here. */
typedef struct reader {
    struct reader *next;
    uint32_t party, ticket;
    bool waits;    /* for `offer` */
    handed *state; /* NULL: it gets the sum `wanted` */
    tarry_sum_id wanted;
    uint64_t total, sent;
    uint64_t got, until; /* as it has said */
    unsigned lent;       /* pieces */
} reader;

/* What the owner has of a reader. */
typedef struct lending {
    struct passing *of;
    uint32_t party, ticket;
    handed *state;
    uint64_t since_ns;
    uint8_t numbers[]; /* of a sum */
} lending;

/* How much may be on its way: twice what comes in the shortest round trip. A round trip is from
 * saying that more may come until the first byte of that is there. */
typedef struct window {
    uint64_t bytes;
    uint64_t mark, marked_got, marked_ns; /* it was said that bytes from `mark` on may come */
    uint64_t shortest_ns;
} window;

typedef struct passing {
    exchange base;
    tarry_allocator allocator;
    exchange_settings settings;
    pthread_mutex_t lock; /* over all that follows */
    pthread_cond_t change;
    bool has_lock, has_change, woken;
    uint8_t *room; /* of a message and a piece; NULL: none was needed yet */
    /* What others may have. */
    void (*wanted)(void *user);
    void *user;
    tarry_sum_id held; /* step 0: nothing */
    exchange_numbers numbers;
    handed *newest; /* while it has users */
    handed *lent;
    reader *readers;
    unsigned reader_count, pieces; /* pieces that are lent */
    uint64_t next_ns;              /* of the next piece, while it gives way to sums */
    /* What it gets. */
    exchange_state state;
    char why[128]; /* FAILED */
    bool loads;    /* a state; else a sum */
    bool comes;    /* its source has it */
    bool fills;    /* the owner is writing a piece to its place */
    uint32_t from, ticket;
    tarry_sum_id sum; /* that is wanted; of a state that comes: what it is after */
    exchange_numbers into;
    uint8_t *place; /* of a state its own; of a sum room for a piece */
    uint64_t total, got, granted;
    uint64_t digest; /* of a state */
    window ahead;
} passing;

static passing *own_of(exchange *base)
{
    return (passing *)base;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- numbers in host memory ---- */

static int read_host(void *user, size_t first, size_t count, void *into)
{
    memcpy(into, (const float *)user + first, count * sizeof(float));
    return 0;
}

static int write_host(void *user, size_t first, size_t count, const void *from)
{
    memcpy((float *)user + first, from, count * sizeof(float));
    return 0;
}

exchange_numbers exchange_numbers_at(float *numbers, size_t count)
{
    return (exchange_numbers){count, sizeof(float), read_host, write_host, numbers};
}

static uint64_t bytes_of(const exchange_numbers *numbers)
{
    return (uint64_t)numbers->count * numbers->width;
}

/* ---- messages ---- */

/* With the lock held, so that they go in their order. */
static void say(const passing *own, uint32_t to, const wire_pass *message)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_PASS_BYTES];
    wire_encode(WIRE_PASS, message, frame);
    own->settings.pass(own->settings.user, to, frame + WIRE_HEAD_BYTES, WIRE_PASS_BYTES);
}

static void say_word(const passing *own, uint32_t to, wire_pass_type type, uint32_t ticket)
{
    say(own, to, &(wire_pass){.type = type, .ticket = ticket});
}

/* ---- what it gets ---- */

static uint64_t first_window(const passing *own)
{
    return (uint64_t)FIRST_PIECES * own->settings.piece_bytes;
}

/* Got and granted are bytes, of whole pieces as far as there are. */
static void window_measure(window *ahead, uint64_t got, uint64_t granted, uint64_t now_ns,
                           uint32_t piece_bytes)
{
    if (ahead->marked_ns > 0 && got > ahead->mark) {
        uint64_t took = now_ns > ahead->marked_ns ? now_ns - ahead->marked_ns : 1;
        if (ahead->shortest_ns == 0 || took < ahead->shortest_ns)
            ahead->shortest_ns = took;
        double came = (double)(got - ahead->marked_got) / (double)took;
        double wanted = 2 * came * (double)ahead->shortest_ns;
        uint64_t pieces =
            (uint64_t)(wanted < (double)WINDOW_MOST_BYTES ? wanted : (double)WINDOW_MOST_BYTES) /
            piece_bytes;
        if (pieces * piece_bytes > ahead->bytes)
            ahead->bytes = pieces * piece_bytes;
    }
    if (ahead->marked_ns == 0 || got > ahead->mark)
        *ahead = (window){ahead->bytes, granted, got, now_ns, ahead->shortest_ns};
}

/* With the lock held: something came. Its source hears of it, also if no more may come for it, as
 * it has a bound of its own on what is on the way. */
static void grant(passing *own)
{
    window_measure(&own->ahead, own->got, own->granted, own->settings.now_ns(),
                   own->settings.piece_bytes);
    uint64_t until = least(own->got + own->ahead.bytes, own->total);
    if (until > own->granted)
        own->granted = until;
    say(own, own->from,
        &(wire_pass){.type = WIRE_PASS_MORE,
                     .ticket = own->ticket,
                     .first = own->got,
                     .until = own->granted});
}

static bool is_complete(const passing *own)
{
    return own->state == EXCHANGE_RUNNING && own->comes && own->got == own->total;
}

/* With the lock held. */
static void fail(passing *own, const char *why)
{
    own->state = EXCHANGE_FAILED;
    snprintf(own->why, sizeof(own->why), "worker %u: %s", own->from, why);
    pthread_cond_broadcast(&own->change);
}

/* The same, and its source is told. */
static void give_up(passing *own, const char *why)
{
    say_word(own, own->from, WIRE_PASS_DONE, own->ticket);
    fail(own, why);
}

/* With the lock held, which is let go meanwhile: ends what runs. */
static void drop(passing *own)
{
    if (own->state == EXCHANGE_RUNNING && !is_complete(own))
        say_word(own, own->from, WIRE_PASS_DONE, own->ticket);
    own->state = EXCHANGE_IDLE;
    if (own->fills) {
        pthread_mutex_unlock(&own->lock);
        own->settings.divert(own->settings.user);
        pthread_mutex_lock(&own->lock);
        own->fills = false;
    }
    memory_release(&own->allocator, own->place);
    own->place = NULL;
}

/* Begins to get something. With the lock held. */
static void begin(passing *own, uint32_t from, const tarry_sum_id *sum, bool loads)
{
    own->state = EXCHANGE_RUNNING;
    own->loads = loads;
    own->comes = false;
    own->from = from;
    own->ticket++;
    own->sum = *sum;
    own->got = 0;
    own->granted = first_window(own);
    own->ahead = (window){.bytes = own->granted};
    own->total = loads ? 0 : bytes_of(&own->into);
    say(own, from,
        &(wire_pass){.type = loads ? WIRE_PASS_ASK_STATE : WIRE_PASS_ASK_SUM,
                     .ticket = own->ticket,
                     .sum = *sum,
                     .until = own->granted});
}

static int fetch(exchange *base, uint32_t from, const tarry_sum_id *sum,
                 const exchange_numbers *into)
{
    passing *own = own_of(base);
    pthread_mutex_lock(&own->lock);
    drop(own);
    own->into = *into;
    own->place = memory_allocate(&own->allocator, own->settings.piece_bytes, 1);
    int error = own->place != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
    if (error == TARRY_OK)
        begin(own, from, sum, false);
    pthread_mutex_unlock(&own->lock);
    return error;
}

static int load(exchange *base, uint32_t from, const tarry_sum_id *after)
{
    passing *own = own_of(base);
    pthread_mutex_lock(&own->lock);
    drop(own);
    begin(own, from, after, true);
    pthread_mutex_unlock(&own->lock);
    return TARRY_OK;
}

/* All has come. With the lock held, which is let go meanwhile: only this thread ends it. */
static void check(passing *own)
{
    uint64_t found = own->digest;
    if (own->loads && !own->settings.unchecked) {
        pthread_mutex_unlock(&own->lock);
        found = vector_digest_bytes(own->place, (size_t)own->total);
        pthread_mutex_lock(&own->lock);
    }
    if (own->loads && found != own->digest)
        fail(own, "what came is not what its digest says");
    else
        own->state = EXCHANGE_DONE;
}

static void wait(exchange *base, uint64_t until_ns, exchange_progress *progress)
{
    passing *own = own_of(base);
    pthread_mutex_lock(&own->lock);
    bool time_left = until_ns > 0;
    while (own->state == EXCHANGE_RUNNING && !is_complete(own) && !own->woken && time_left)
        time_left = clock_wait(&own->change, &own->lock, until_ns);
    own->woken = false;
    if (is_complete(own))
        check(own);
    *progress = (exchange_progress){.state = own->state, .got = own->got};
    if (own->state == EXCHANGE_DONE && own->loads) {
        progress->bytes = own->place;
        progress->size = own->total;
        progress->after = own->sum;
    }
    if (own->state == EXCHANGE_FAILED)
        memcpy(progress->why, own->why, sizeof(own->why));
    pthread_mutex_unlock(&own->lock);
}

static void wake(exchange *base)
{
    passing *own = own_of(base);
    pthread_mutex_lock(&own->lock);
    own->woken = true;
    pthread_cond_broadcast(&own->change);
    pthread_mutex_unlock(&own->lock);
}

static uint8_t *take(exchange *base)
{
    passing *own = own_of(base);
    pthread_mutex_lock(&own->lock);
    uint8_t *bytes = own->place;
    own->place = NULL;
    pthread_mutex_unlock(&own->lock);
    return bytes;
}

static void abandon(exchange *base)
{
    passing *own = own_of(base);
    pthread_mutex_lock(&own->lock);
    drop(own);
    pthread_mutex_unlock(&own->lock);
}

/* ---- what follows is of messages that came, with the lock held ---- */

/* Whether a message belongs to what runs, or to something that was abandoned. */
static bool is_wanted(const passing *own, uint32_t from, const wire_pass *message)
{
    return own->state == EXCHANGE_RUNNING && from == own->from && message->ticket == own->ticket;
}

static void take_comes(passing *own, const wire_pass *message)
{
    bool fits = !own->comes && (own->loads ? sum_id_suffices(&message->sum, &own->sum)
                                           : message->until == own->total);
    if (!fits) {
        give_up(own, "it sends something else than was asked for");
        return;
    }
    own->comes = true;
    own->total = message->until;
    if (own->loads) {
        own->sum = message->sum;
        own->digest = message->first;
        /* Pages that nothing comes for take no memory. */
        own->place =
            own->total <= SIZE_MAX ? memory_allocate(&own->allocator, (size_t)own->total, 1) : NULL;
        if (own->place == NULL)
            give_up(own, "there is no memory for its state");
    }
    if (is_complete(own))
        pthread_cond_broadcast(&own->change);
}

static bool is_next(const passing *own, const wire_pass *piece)
{
    return own->comes && piece->first == own->got && piece->count <= own->granted - own->got &&
           piece->count <= own->total - own->got && piece->count <= own->settings.piece_bytes &&
           (own->loads || piece->count % own->into.width == 0);
}

static void take_piece(passing *own, const wire_pass *piece)
{
    const exchange_numbers *into = &own->into;
    own->fills = false;
    own->got += piece->count;
    if (!own->loads && into->write(into->user, (size_t)(piece->first / into->width),
                                   (size_t)(piece->count / into->width), own->place) != 0)
        give_up(own, "its numbers can't be kept");
    else if (is_complete(own))
        pthread_cond_broadcast(&own->change);
    else
        grant(own);
}

/* ---- what others get ---- */

static void release_state(passing *own, handed *state)
{
    if (state == NULL || --state->users > 0)
        return;
    if (own->newest == state)
        own->newest = NULL;
    if (!state->lent)
        memory_release(&own->allocator, state->bytes);
    memory_release(&own->allocator, state);
}

static reader *find_reader(const passing *own, uint32_t party)
{
    reader *of = own->readers;
    while (of != NULL && of->party != party)
        of = of->next;
    return of;
}

/* It gets nothing more. */
static void forget(passing *own, reader *of)
{
    if (of == NULL)
        return;
    reader **at = &own->readers;
    while (*at != of)
        at = &(*at)->next;
    *at = of->next;
    own->reader_count--;
    release_state(own, of->state);
    memory_release(&own->allocator, of);
}

static void refuse(passing *own, reader *of)
{
    say_word(own, of->party, WIRE_PASS_NONE, of->ticket);
    forget(own, of);
}

static void say_comes(passing *own, reader *of, const tarry_sum_id *sum, uint64_t digest)
{
    say(own, of->party,
        &(wire_pass){.type = WIRE_PASS_COMES,
                     .ticket = of->ticket,
                     .sum = *sum,
                     .first = digest,
                     .until = of->total});
    if (of->total == 0)
        forget(own, of);
}

/* The reader gets the newest state, if that does. */
static bool give_newest(passing *own, reader *of)
{
    handed *state = own->newest;
    if (state == NULL || state->size > WIRE_BLOB_MOST ||
        !sum_id_suffices(&state->after, &of->wanted))
        return false;
    of->waits = false;
    of->state = state;
    of->total = state->size;
    state->users++;
    say_comes(own, of, &state->after, state->digest);
    return true;
}

static void give_held(passing *own, reader *of)
{
    of->total = bytes_of(&own->numbers);
    if (own->held.step > 0 && sum_id_same(&own->held, &of->wanted))
        say_comes(own, of, &own->held, 0);
    else
        refuse(own, of);
}

/* The owner is asked with the lock held, so that it is not asked any more once `serve` has said so;
 * it takes a lock of its own and calls nothing here. */
static void take_ask(passing *own, uint32_t from, const wire_pass *asked)
{
    forget(own, find_reader(own, from));
    reader *of = memory_allocate(&own->allocator, 1, sizeof(*of));
    if (of == NULL) {
        say_word(own, from, WIRE_PASS_NONE, asked->ticket);
        return;
    }
    *of = (reader){.next = own->readers,
                   .party = from,
                   .ticket = asked->ticket,
                   .waits = asked->type == WIRE_PASS_ASK_STATE,
                   .wanted = asked->sum,
                   .until = asked->until};
    own->readers = of;
    own->reader_count++;
    if (!of->waits)
        give_held(own, of);
    else if (give_newest(own, of))
        return;
    else if (own->wanted != NULL)
        own->wanted(own->user);
    else
        refuse(own, of);
}

static void take_more(reader *of, const wire_pass *more)
{
    if (more->first > of->got && more->first <= of->sent)
        of->got = more->first;
    if (more->until > of->until)
        of->until = more->until;
}

/* ---- sending ---- */

/* Bytes of the next piece; 0: none may go now. */
static uint64_t next_bytes(const passing *own, const reader *of)
{
    uint64_t share = SERVED_MOST_BYTES / own->reader_count;
    uint64_t until = least(of->until, of->total), most = own->settings.piece_bytes;
    if (of->waits || until <= of->sent || of->lent >= LENT_PIECES ||
        (of->sent - of->got >= share && of->sent > of->got))
        return 0;
    uint64_t count = least(until - of->sent, most);
    return of->sent + count == of->total ? count : count / WORD * WORD;
}

/* The bytes of the next piece, at `room` if they have no other place; NULL: they are not there. */
static const uint8_t *find_bytes(const passing *own, const reader *of, uint64_t count,
                                 uint8_t *room)
{
    const exchange_numbers *numbers = &own->numbers;
    if (of->state != NULL)
        return of->state->bytes + of->sent;
    bool there = own->held.step > 0 && sum_id_same(&own->held, &of->wanted) &&
                 of->total == bytes_of(numbers) &&
                 numbers->read(numbers->user, (size_t)(of->sent / numbers->width),
                               (size_t)(count / numbers->width), room) == 0;
    return there ? room : NULL;
}

static bool pass_piece(passing *own, const reader *of, const wire_pass *head)
{
    if (own->room == NULL)
        own->room = memory_allocate(
            &own->allocator, WIRE_HEAD_BYTES + WIRE_PASS_BYTES + own->settings.piece_bytes, 1);
    if (own->room == NULL)
        return false;
    uint8_t *behind = own->room + wire_encode(WIRE_PASS, head, own->room);
    const uint8_t *bytes = find_bytes(own, of, head->count, behind);
    if (bytes == NULL)
        return false;
    if (bytes != behind)
        memcpy(behind, bytes, head->count);
    own->settings.pass(own->settings.user, of->party, own->room + WIRE_HEAD_BYTES,
                       WIRE_PASS_BYTES + head->count);
    return true;
}

static bool lend_piece(passing *own, reader *of, const wire_pass *head)
{
    lending *made =
        memory_allocate(&own->allocator, 1, sizeof(*made) + (of->state == NULL ? head->count : 0));
    if (made == NULL)
        return false;
    *made = (lending){own, of->party, of->ticket, of->state, own->settings.now_ns()};
    const uint8_t *bytes = find_bytes(own, of, head->count, made->numbers);
    if (bytes == NULL || !own->settings.lend(own->settings.user, of->party, head, bytes, made)) {
        memory_release(&own->allocator, made);
        return false;
    }
    if (made->state != NULL)
        made->state->users++;
    of->lent++;
    own->pieces++;
    return true;
}

/* Whether one has gone. Who has got all is forgotten. */
static bool send_piece(passing *own, reader *of, uint64_t count)
{
    const wire_pass head = {
        .type = WIRE_PASS_PIECE, .ticket = of->ticket, .first = of->sent, .count = count};
    bool lends = own->settings.lend != NULL;
    if (!(lends ? lend_piece(own, of, &head) : pass_piece(own, of, &head))) {
        refuse(own, of);
        return false;
    }
    of->sent += count;
    if (of->sent == of->total)
        forget(own, of);
    return true;
}

/* Whether the next piece waits for a sum: a sum that stands still may wait for the state. */
static bool gives_way(const passing *own)
{
    const exchange_settings *settings = &own->settings;
    return settings->sums != NULL && (own->pieces > 0 || settings->now_ns() < own->next_ns) &&
           settings->sums(settings->user);
}

/* A piece to each in turn. Gives back when to go on. */
static uint64_t pump(passing *own)
{
    bool sent = true;
    while (sent) {
        sent = false;
        for (reader *of = own->readers, *next; of != NULL; of = next) {
            next = of->next;
            uint64_t count = next_bytes(own, of);
            if (count == 0)
                continue;
            if (gives_way(own))
                return own->pieces > 0 ? TARRY_NEVER : own->next_ns;
            sent = send_piece(own, of, count) || sent;
        }
    }
    return TARRY_NEVER;
}

/* Something may go that could not before. */
static void go_on(passing *own)
{
    if (own->settings.lend != NULL)
        own->settings.pump(own->settings.user);
    else
        pump(own);
}

uint64_t exchange_pump(exchange *self)
{
    passing *own = own_of(self);
    pthread_mutex_lock(&own->lock);
    uint64_t due = pump(own);
    pthread_mutex_unlock(&own->lock);
    return due;
}

void exchange_released(void *owner)
{
    lending *made = owner;
    passing *own = made->of;
    pthread_mutex_lock(&own->lock);
    uint64_t now = own->settings.now_ns(), took = PAUSES * (now - made->since_ns);
    own->next_ns = now + (took > LEAST_PAUSE_NS ? took : LEAST_PAUSE_NS);
    own->pieces--;
    reader *of = find_reader(own, made->party);
    if (of != NULL && of->ticket == made->ticket)
        of->lent--;
    release_state(own, made->state);
    memory_release(&own->allocator, made);
    if (own->readers != NULL)
        go_on(own);
    pthread_mutex_unlock(&own->lock);
}

/* ---- what its user lets others have ---- */

static void hold(exchange *base, const tarry_sum_id *sum, const exchange_numbers *numbers)
{
    passing *own = own_of(base);
    pthread_mutex_lock(&own->lock); /* numbers are read under it */
    own->held = sum != NULL ? *sum : (tarry_sum_id){0};
    own->numbers = sum != NULL ? *numbers : (exchange_numbers){0};
    pthread_mutex_unlock(&own->lock);
}

static handed *make_state(const passing *own, const tarry_sum_id *after, const uint8_t *bytes,
                          uint64_t size, bool lent)
{
    handed *state = memory_allocate(&own->allocator, 1, sizeof(*state));
    if (state == NULL)
        return NULL;
    *state = (handed){
        .bytes = (uint8_t *)bytes, .lent = lent, .size = size, .after = *after, .users = 1};
    if (!own->settings.unchecked && size <= WIRE_BLOB_MOST)
        state->digest = vector_digest_bytes(bytes, (size_t)size);
    return state;
}

/* Whoever waits gets it, or NONE. */
static void answer_all(passing *own, handed *state)
{
    if (state != NULL)
        own->newest = state;
    for (reader *of = own->readers, *next; of != NULL; of = next) {
        next = of->next;
        if (of->waits && (state == NULL || !give_newest(own, of)))
            refuse(own, of);
    }
}

static int offer(exchange *base, const tarry_sum_id *after, uint8_t *bytes, uint64_t size)
{
    passing *own = own_of(base);
    handed *state = bytes != NULL ? make_state(own, after, bytes, size, false) : NULL;
    pthread_mutex_lock(&own->lock);
    answer_all(own, state);
    go_on(own);
    release_state(own, state);
    pthread_mutex_unlock(&own->lock);
    if (bytes == NULL || state != NULL)
        return TARRY_OK;
    memory_release(&own->allocator, bytes);
    return TARRY_ERROR_NO_MEMORY;
}

int exchange_lend(exchange *self, const tarry_sum_id *after, const uint8_t *bytes, uint64_t size)
{
    passing *own = own_of(self);
    handed *state = make_state(own, after, bytes, size, true);
    pthread_mutex_lock(&own->lock);
    handed *before = own->lent;
    own->lent = state;
    for (reader *of = own->readers, *next; before != NULL && of != NULL; of = next) {
        next = of->next;
        if (of->state == before)
            refuse(own, of);
    }
    if (own->newest == before)
        own->newest = NULL;
    answer_all(own, state);
    go_on(own);
    pthread_mutex_unlock(&own->lock);
    if (before != NULL && own->settings.reclaim != NULL)
        own->settings.reclaim(own->settings.user);
    pthread_mutex_lock(&own->lock);
    release_state(own, before);
    pthread_mutex_unlock(&own->lock);
    return state != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

static void serve(exchange *base, void (*wanted)(void *user), void *user)
{
    passing *own = own_of(base);
    pthread_mutex_lock(&own->lock);
    own->wanted = wanted;
    own->user = user;
    pthread_mutex_unlock(&own->lock);
}

/* ---- for the owner ---- */

void exchange_take_message(exchange *self, uint32_t from, const wire_pass *message)
{
    passing *own = own_of(self);
    pthread_mutex_lock(&own->lock);
    reader *of = find_reader(own, from);
    bool known = of != NULL && of->ticket == message->ticket;
    switch (message->type) {
    case WIRE_PASS_ASK_SUM:
    case WIRE_PASS_ASK_STATE:
        take_ask(own, from, message);
        break;
    case WIRE_PASS_MORE:
        if (known)
            take_more(of, message);
        break;
    case WIRE_PASS_DONE:
        if (known)
            forget(own, of);
        break;
    case WIRE_PASS_COMES:
        if (is_wanted(own, from, message))
            take_comes(own, message);
        break;
    case WIRE_PASS_NONE:
        if (is_wanted(own, from, message))
            fail(own, "it does not have it any more");
        break;
    case WIRE_PASS_PIECE:
    case WIRE_PASSES:
        break;
    }
    if (own->settings.lend == NULL)
        pump(own);
    pthread_mutex_unlock(&own->lock);
}

int exchange_begin(exchange *self, uint32_t from, const wire_pass *piece, void **place)
{
    passing *own = own_of(self);
    pthread_mutex_lock(&own->lock);
    bool wanted = is_wanted(own, from, piece), fits = !wanted || is_next(own, piece);
    own->fills = own->fills || (wanted && fits);
    *place = !wanted || !fits ? NULL : own->loads ? own->place + own->got : own->place;
    pthread_mutex_unlock(&own->lock);
    return fits ? TARRY_OK : TARRY_ERROR_FORMAT;
}

void exchange_complete(exchange *self, uint32_t from, const wire_pass *piece)
{
    passing *own = own_of(self);
    pthread_mutex_lock(&own->lock);
    if (is_wanted(own, from, piece) && own->fills)
        take_piece(own, piece);
    pthread_mutex_unlock(&own->lock);
}

int exchange_take(exchange *self, uint32_t from, const void *bytes, size_t size)
{
    passing *own = own_of(self);
    wire_pass message;
    if (from >= own->settings.parties || size < WIRE_PASS_BYTES ||
        size > WIRE_PASS_BYTES + own->settings.piece_bytes)
        return TARRY_ERROR_FORMAT;
    const wire_head head = {.kind = WIRE_PASS, .length = (uint32_t)size};
    if (wire_decode(&head, bytes, &message) != TARRY_OK)
        return TARRY_ERROR_FORMAT;
    if (message.type != WIRE_PASS_PIECE) {
        exchange_take_message(self, from, &message);
        return TARRY_OK;
    }
    void *place;
    int error = exchange_begin(self, from, &message, &place);
    if (place == NULL)
        return error;
    memcpy(place, (const uint8_t *)bytes + WIRE_PASS_BYTES, message.count);
    exchange_complete(self, from, &message);
    return TARRY_OK;
}

void exchange_lose(exchange *self, uint32_t party, const char *why)
{
    passing *own = own_of(self);
    pthread_mutex_lock(&own->lock);
    forget(own, find_reader(own, party));
    if (own->from == party)
        own->fills = false;
    if (own->state == EXCHANGE_RUNNING && own->from == party && !is_complete(own))
        fail(own, why);
    pthread_mutex_unlock(&own->lock);
}

void exchange_give_up(exchange *self, const char *why)
{
    passing *own = own_of(self);
    pthread_mutex_lock(&own->lock);
    if (own->state == EXCHANGE_RUNNING && !is_complete(own))
        give_up(own, why);
    pthread_mutex_unlock(&own->lock);
}

exchange_expects exchange_awaits(exchange *self)
{
    passing *own = own_of(self);
    pthread_mutex_lock(&own->lock);
    exchange_expects expects = own->state != EXCHANGE_RUNNING || is_complete(own)
                                   ? EXCHANGE_EXPECTS_NOTHING
                               : own->loads && !own->comes ? EXCHANGE_EXPECTS_STATE
                                                           : EXCHANGE_EXPECTS_BYTES;
    pthread_mutex_unlock(&own->lock);
    return expects;
}

static const exchange_methods methods = {
    .fetch = fetch,
    .load = load,
    .wait = wait,
    .wake = wake,
    .take = take,
    .abandon = abandon,
    .hold = hold,
    .offer = offer,
    .serve = serve,
};

/* ---- creation and the end ---- */

int exchange_create(const exchange_settings *settings, const tarry_allocator *allocator,
                    exchange **made)
{
    passing *own = memory_allocate(allocator, 1, sizeof(*own));
    if (own == NULL)
        return TARRY_ERROR_NO_MEMORY;
    own->base.methods = &methods;
    own->allocator = memory_allocator(allocator);
    own->settings = *settings;
    own->has_lock = pthread_mutex_init(&own->lock, NULL) == 0;
    own->has_change = clock_init_condition(&own->change) == 0;
    if (!own->has_lock || !own->has_change) {
        exchange_free(&own->base);
        return TARRY_ERROR_SYSTEM;
    }
    *made = &own->base;
    return TARRY_OK;
}

void exchange_free(exchange *self)
{
    if (self == NULL)
        return;
    passing *own = own_of(self);
    tarry_allocator allocator = own->allocator;
    while (own->readers != NULL)
        forget(own, own->readers);
    release_state(own, own->lent);
    memory_release(&allocator, own->place);
    memory_release(&allocator, own->room);
    if (own->has_change)
        pthread_cond_destroy(&own->change);
    if (own->has_lock)
        pthread_mutex_destroy(&own->lock);
    memory_release(&allocator, own);
}
