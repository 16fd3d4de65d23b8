/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/pass_exchange.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/memory.h"
#include "base/sum_id.h"
#include "runtime/clock.h"
#include "runtime/worker/pass_message.h"

/* Pieces that are asked for ahead of the one that has come. */
enum { PIECES_AHEAD = 4 };

/* A state that was handed over; those who get it share it. */
typedef struct handed {
    uint8_t *bytes;
    uint64_t size;
    tarry_sum_id after;
    uint8_t digest[PASS_DIGEST];
    unsigned users;
} handed;

/* A party that gets a state from here. */
typedef struct reader {
    bool waits; /* for `offer` */
    uint64_t ticket;
    tarry_sum_id wanted;
    handed *state; /* NULL: none yet */
} reader;

typedef struct pass_exchange {
    exchange base;
    tarry_allocator allocator;
    pass_exchange_settings settings;
    pthread_mutex_t lock; /* over all that follows */
    pthread_cond_t change;
    bool has_lock, has_change, woken;
    /* What others may have. */
    void (*wanted)(void *user);
    void *user;
    tarry_sum_id held; /* step 0: nothing */
    const float *numbers;
    size_t dimension;
    reader *readers; /* per party */
    uint8_t *room;   /* for a piece that is given */
    /* What it gets. */
    exchange_state state;
    const char *why; /* FAILED */
    bool loads;      /* a state; else a sum */
    uint32_t from;
    uint64_t ticket; /* counts what was begun */
    tarry_sum_id sum;
    uint8_t *into; /* of a state its own; NULL: how long it is is not known yet */
    uint64_t total, got, asked;
    tarry_sum_id after; /* of a state */
    uint8_t digest[PASS_DIGEST];
} pass_exchange;

static pass_exchange *own_of(exchange *base)
{
    return (pass_exchange *)base;
}

/* ---- messages ---- */

/* With the lock held, so that pieces are asked for in their order. */
static void say(const pass_exchange *own, uint32_t to, const pass_message *message)
{
    uint8_t bytes[PASS_MOST_HEAD];
    own->settings.pass(own->settings.user, to, bytes, pass_encode(message, bytes));
}

static void say_word(const pass_exchange *own, uint32_t to, pass_type type, uint64_t ticket)
{
    say(own, to, &(pass_message){.type = type, .ticket = ticket});
}

/* ---- what it gets ---- */

/* With the lock held: asks for what may be on its way. */
static void ask(pass_exchange *own)
{
    uint64_t most = own->got + (uint64_t)PIECES_AHEAD * PASS_PIECE_BYTES;
    while (own->asked < own->total && own->asked < most) {
        uint64_t left = own->total - own->asked;
        const pass_message message = {
            .type = own->loads ? PASS_ASK_STATE_PIECE : PASS_ASK_SUM_PIECE,
            .ticket = own->ticket,
            .sum = own->sum,
            .first = own->asked,
            .size = (uint32_t)(left < PASS_PIECE_BYTES ? left : PASS_PIECE_BYTES),
        };
        say(own, own->from, &message);
        own->asked += message.size;
    }
}

/* With the lock held. */
static void fail(pass_exchange *own, const char *why)
{
    own->state = EXCHANGE_FAILED;
    own->why = why;
    pthread_cond_broadcast(&own->change);
}

/* With the lock held: ends what runs. Its source drops its copy of a state. */
static void drop(pass_exchange *own)
{
    if (own->loads && own->state == EXCHANGE_RUNNING)
        say_word(own, own->from, PASS_DONE, own->ticket);
    if (own->loads)
        memory_release(&own->allocator, own->into);
    own->into = NULL;
    own->loads = false;
    own->state = EXCHANGE_IDLE;
}

/* Begins to get something. With the lock held. */
static void begin(pass_exchange *own, uint32_t from, const tarry_sum_id *sum)
{
    own->state = EXCHANGE_RUNNING;
    own->ticket++;
    own->from = from;
    own->sum = *sum;
    own->got = own->asked = own->total = 0;
}

static int fetch(exchange *base, uint32_t from, const tarry_sum_id *sum, float *into,
                 size_t dimension)
{
    pass_exchange *own = own_of(base);
    pthread_mutex_lock(&own->lock);
    drop(own);
    begin(own, from, sum);
    own->into = (uint8_t *)into;
    own->total = dimension * sizeof(float);
    ask(own);
    pthread_mutex_unlock(&own->lock);
    return TARRY_OK;
}

static int load(exchange *base, uint32_t from, const tarry_sum_id *after)
{
    pass_exchange *own = own_of(base);
    pthread_mutex_lock(&own->lock);
    drop(own);
    begin(own, from, after);
    own->loads = true;
    say(own, from, &(pass_message){.type = PASS_ASK_STATE, .ticket = own->ticket, .sum = *after});
    pthread_mutex_unlock(&own->lock);
    return TARRY_OK;
}

/* All of a state has come. With the lock held, which is let go meanwhile: only this thread ends it.
 */
static void check_state(pass_exchange *own)
{
    uint8_t found[PASS_DIGEST];
    pthread_mutex_unlock(&own->lock);
    bool good = digest_of_bytes(own->into, (size_t)own->total, found) == 0;
    pthread_mutex_lock(&own->lock);
    if (own->state != EXCHANGE_RUNNING)
        return; /* its source was lost meanwhile */
    if (!good || memcmp(found, own->digest, sizeof(found)) != 0)
        fail(own, "the state is not what its digest says");
    else
        own->state = EXCHANGE_DONE;
}

static bool is_complete(const pass_exchange *own)
{
    return own->state == EXCHANGE_RUNNING && own->into != NULL && own->got == own->total;
}

/* With the lock held. False: it is until_ns. */
static bool wait_for_change(pass_exchange *own, uint64_t until_ns)
{
    if (until_ns == TARRY_NEVER)
        return pthread_cond_wait(&own->change, &own->lock) == 0;
    struct timespec until = clock_timespec(until_ns);
    return pthread_cond_timedwait(&own->change, &own->lock, &until) != ETIMEDOUT;
}

static void wait(exchange *base, uint64_t until_ns, exchange_progress *progress)
{
    pass_exchange *own = own_of(base);
    pthread_mutex_lock(&own->lock);
    bool time_left = true;
    while (own->state == EXCHANGE_RUNNING && !is_complete(own) && !own->woken && time_left)
        time_left = wait_for_change(own, until_ns);
    own->woken = false;
    if (is_complete(own) && own->loads)
        check_state(own);
    else if (is_complete(own))
        own->state = EXCHANGE_DONE;
    *progress = (exchange_progress){.state = own->state, .got = own->got};
    if (own->state == EXCHANGE_DONE && own->loads) {
        progress->bytes = own->into;
        progress->size = own->total;
        progress->after = own->after;
    }
    if (own->state == EXCHANGE_FAILED)
        snprintf(progress->why, sizeof(progress->why), "%s", own->why);
    pthread_mutex_unlock(&own->lock);
}

static void wake(exchange *base)
{
    pass_exchange *own = own_of(base);
    pthread_mutex_lock(&own->lock);
    own->woken = true;
    pthread_cond_broadcast(&own->change);
    pthread_mutex_unlock(&own->lock);
}

static uint8_t *take(exchange *base)
{
    pass_exchange *own = own_of(base);
    pthread_mutex_lock(&own->lock);
    uint8_t *bytes = own->into;
    own->into = NULL;
    pthread_mutex_unlock(&own->lock);
    return bytes;
}

static void abandon(exchange *base)
{
    pass_exchange *own = own_of(base);
    pthread_mutex_lock(&own->lock);
    drop(own);
    pthread_mutex_unlock(&own->lock);
}

/* What follows is of messages that came, with the lock held. */

static void take_state(pass_exchange *own, const pass_message *message)
{
    if (!own->loads || own->into != NULL)
        return;
    own->into = message->first <= SIZE_MAX && message->first > 0
                    ? memory_allocate(&own->allocator, (size_t)message->first, 1)
                    : NULL;
    if (own->into == NULL) {
        fail(own, "there is no memory for the state");
        say_word(own, own->from, PASS_DONE, own->ticket);
        return;
    }
    own->total = message->first;
    own->after = message->sum;
    memcpy(own->digest, message->digest, sizeof(own->digest));
    ask(own);
}

/* They come in the order in which they were asked for. */
static void take_piece(pass_exchange *own, const pass_message *message)
{
    if (own->into == NULL || message->first != own->got || own->got + message->size > own->asked)
        return;
    memcpy(own->into + own->got, message->bytes, message->size);
    own->got += message->size;
    ask(own);
    if (own->got < own->total)
        return;
    if (own->loads)
        say_word(own, own->from, PASS_DONE, own->ticket);
    pthread_cond_broadcast(&own->change);
}

static void take_answer(pass_exchange *own, const pass_message *message)
{
    if (own->state != EXCHANGE_RUNNING || message->ticket != own->ticket)
        return; /* of what was abandoned */
    if (message->type == PASS_STATE)
        take_state(own, message);
    else if (message->type == PASS_PIECE)
        take_piece(own, message);
    else
        fail(own, own->loads ? "there is no such state" : "it does not hold the sum");
}

/* ---- what others get ---- */

static void hold(exchange *base, const tarry_sum_id *sum, const float *numbers, size_t dimension)
{
    pass_exchange *own = own_of(base);
    pthread_mutex_lock(&own->lock); /* numbers are read under it */
    own->held = sum != NULL ? *sum : (tarry_sum_id){0};
    own->numbers = numbers;
    own->dimension = dimension;
    pthread_mutex_unlock(&own->lock);
}

/* With the lock held: the reader gets nothing more. */
static void forget(pass_exchange *own, reader *of)
{
    handed *state = of->state;
    *of = (reader){.waits = false};
    if (state == NULL || --state->users > 0)
        return;
    memory_release(&own->allocator, state->bytes);
    memory_release(&own->allocator, state);
}

/* Whether a state after `after` does for one who wants that after `wanted`. */
static bool suffices(const tarry_sum_id *after, const tarry_sum_id *wanted)
{
    return after->step > wanted->step || sum_id_same(after, wanted);
}

/* The answer to a party that waits for a state; NULL: there is none to be had. */
static void answer_reader(pass_exchange *own, uint32_t party, handed *state)
{
    pthread_mutex_lock(&own->lock);
    reader *of = &own->readers[party];
    if (of->waits && state != NULL && suffices(&state->after, &of->wanted)) {
        pass_message message = {
            .type = PASS_STATE, .ticket = of->ticket, .sum = state->after, .first = state->size};
        memcpy(message.digest, state->digest, sizeof(message.digest));
        say(own, party, &message);
        of->waits = false;
        of->state = state;
        state->users++;
    } else if (of->waits) {
        say_word(own, party, PASS_NONE, of->ticket);
        forget(own, of);
    }
    pthread_mutex_unlock(&own->lock);
}

static int offer(exchange *base, const tarry_sum_id *after, uint8_t *bytes, uint64_t size)
{
    pass_exchange *own = own_of(base);
    const tarry_allocator *allocator = &own->allocator;
    handed *state = bytes != NULL ? memory_allocate(allocator, 1, sizeof(*state)) : NULL;
    int error = bytes != NULL && state == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
    if (state != NULL) {
        *state = (handed){.bytes = bytes, .size = size, .after = *after, .users = 1};
        if (digest_of_bytes(bytes, (size_t)size, state->digest) != 0)
            error = TARRY_ERROR_NO_MEMORY;
    }
    for (uint32_t party = 0; party < own->settings.parties; party++)
        answer_reader(own, party, error == TARRY_OK ? state : NULL);
    if (state == NULL) {
        memory_release(allocator, bytes);
        return error;
    }
    pthread_mutex_lock(&own->lock);
    forget(own, &(reader){.state = state}); /* that of this call */
    pthread_mutex_unlock(&own->lock);
    return error;
}

static void serve(exchange *base, void (*wanted)(void *user), void *user)
{
    pass_exchange *own = own_of(base);
    pthread_mutex_lock(&own->lock);
    own->wanted = wanted;
    own->user = user;
    pthread_mutex_unlock(&own->lock);
}

/* A party wants a state. The owner is asked with the lock held, so that it is not asked any more
 * once `serve` has said so; it takes a lock of its own and calls nothing here. */
static void take_ask_state(pass_exchange *own, uint32_t from, const pass_message *message)
{
    reader *of = &own->readers[from];
    forget(own, of);
    if (own->wanted == NULL) {
        say_word(own, from, PASS_NONE, message->ticket);
        return;
    }
    *of = (reader){.waits = true, .ticket = message->ticket, .wanted = message->sum};
    own->wanted(own->user);
}

/* What a message asks for a piece of; NULL: it is not there. */
static const uint8_t *find_piece(const pass_exchange *own, uint32_t from,
                                 const pass_message *message)
{
    const reader *of = &own->readers[from];
    const uint8_t *bytes = NULL;
    uint64_t size = 0;
    if (message->type == PASS_ASK_SUM_PIECE && own->held.step > 0 &&
        sum_id_same(&own->held, &message->sum)) {
        bytes = (const uint8_t *)own->numbers;
        size = own->dimension * sizeof(float);
    } else if (message->type == PASS_ASK_STATE_PIECE && of->state != NULL &&
               of->ticket == message->ticket) {
        bytes = of->state->bytes;
        size = of->state->size;
    }
    return bytes != NULL && message->first <= size && message->size <= size - message->first
               ? bytes + message->first
               : NULL;
}

/* With the lock held. */
static void give_piece(pass_exchange *own, uint32_t from, const pass_message *asked)
{
    const pass_exchange_settings *to = &own->settings;
    const uint8_t *piece = find_piece(own, from, asked);
    if (piece == NULL) {
        say_word(own, from, PASS_NONE, asked->ticket);
        return;
    }
    const pass_message answer = {
        .type = PASS_PIECE, .ticket = asked->ticket, .first = asked->first, .size = asked->size};
    size_t head = pass_encode(&answer, own->room);
    memcpy(own->room + head, piece, asked->size);
    to->pass(to->user, from, own->room, head + asked->size);
}

static void take_done(pass_exchange *own, uint32_t from, const pass_message *message)
{
    reader *of = &own->readers[from];
    if (of->ticket == message->ticket)
        forget(own, of);
}

/* ---- for the owner ---- */

int pass_exchange_take(exchange *self, uint32_t from, const void *bytes, size_t size)
{
    pass_exchange *own = own_of(self);
    pass_message message;
    if (from >= own->settings.parties || !pass_decode(bytes, size, PASS_PIECE_BYTES, &message))
        return TARRY_ERROR_FORMAT;
    pthread_mutex_lock(&own->lock);
    if (message.type == PASS_ASK_SUM_PIECE || message.type == PASS_ASK_STATE_PIECE)
        give_piece(own, from, &message);
    else if (message.type == PASS_ASK_STATE)
        take_ask_state(own, from, &message);
    else if (message.type == PASS_DONE)
        take_done(own, from, &message);
    else if (from == own->from)
        take_answer(own, &message);
    pthread_mutex_unlock(&own->lock);
    return TARRY_OK;
}

void pass_exchange_lose(exchange *self, uint32_t party)
{
    pass_exchange *own = own_of(self);
    pthread_mutex_lock(&own->lock);
    forget(own, &own->readers[party]);
    if (own->state == EXCHANGE_RUNNING && own->from == party)
        fail(own, "the worker is gone");
    pthread_mutex_unlock(&own->lock);
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

int pass_exchange_create(const pass_exchange_settings *settings, const tarry_allocator *allocator,
                         exchange **made)
{
    pass_exchange *own = memory_allocate(allocator, 1, sizeof(*own));
    if (own == NULL)
        return TARRY_ERROR_NO_MEMORY;
    own->base.methods = &methods;
    own->allocator = memory_allocator(allocator);
    own->settings = *settings;
    own->readers = memory_allocate(allocator, settings->parties, sizeof(*own->readers));
    own->room = memory_allocate(allocator, PASS_MOST_BYTES, 1);
    own->has_lock = pthread_mutex_init(&own->lock, NULL) == 0;
    own->has_change = clock_init_condition(&own->change) == 0;
    if (own->readers == NULL || own->room == NULL || !own->has_lock || !own->has_change) {
        int error = own->has_lock && own->has_change ? TARRY_ERROR_NO_MEMORY : TARRY_ERROR_SYSTEM;
        pass_exchange_free(&own->base);
        return error;
    }
    *made = &own->base;
    return TARRY_OK;
}

void pass_exchange_free(exchange *self)
{
    if (self == NULL)
        return;
    pass_exchange *own = own_of(self);
    tarry_allocator allocator = own->allocator;
    if (own->loads)
        memory_release(&allocator, own->into);
    for (uint32_t party = 0; own->readers != NULL && party < own->settings.parties; party++)
        forget(own, &own->readers[party]);
    if (own->has_change)
        pthread_cond_destroy(&own->change);
    if (own->has_lock)
        pthread_mutex_destroy(&own->lock);
    memory_release(&allocator, own->room);
    memory_release(&allocator, own->readers);
    memory_release(&allocator, own);
}
