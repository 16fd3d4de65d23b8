/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/pass_exchange.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <tarry/allocator.h>
#include <tarry/error.h>
#include <tarry/event.h>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/memory.h"
#include "base/sum_id.h"
#include "runtime/clock.h"
#include "runtime/worker/exchange.h"

enum { TICKET = 9, SUM = 24, RANGE = 12 };

static bool has_sum(pass_type type)
{
    return type == PASS_ASK_SUM_PIECE || type == PASS_ASK_STATE || type == PASS_STATE;
}

static bool has_range(pass_type type)
{
    return type == PASS_ASK_SUM_PIECE || type == PASS_ASK_STATE_PIECE || type == PASS_PIECE;
}

static size_t head_of(pass_type type)
{
    return TICKET + (has_sum(type) ? SUM : 0U) + (has_range(type) ? RANGE : 0U) +
           (type == PASS_STATE ? sizeof(uint64_t) + PASS_DIGEST : 0U);
}

size_t pass_encode(const pass_message *message, uint8_t bytes[PASS_MOST_HEAD])
{
    uint8_t *at = bytes_put(bytes, message->type, 1);
    at = bytes_put(at, message->ticket, 8);
    if (has_sum(message->type)) {
        at = bytes_put(at, message->sum.step, 8);
        at = bytes_put(at, message->sum.term, 4);
        at = bytes_put(at, message->sum.attempt, 4);
        at = bytes_put(at, message->sum.digest, 8);
    }
    if (has_range(message->type)) {
        at = bytes_put(at, message->first, 8);
        at = bytes_put(at, message->size, 4);
    }
    if (message->type == PASS_STATE) {
        at = bytes_put(at, message->first, 8);
        memcpy(at, message->digest, PASS_DIGEST);
    }
    return head_of(message->type);
}

/* False: these bytes, which may be any, are no message, or one of a longer piece. */
static bool pass_decode(const uint8_t *bytes, size_t size, uint32_t longest, pass_message *message)
{
    *message = (pass_message){.type = size > 0 ? bytes[0] : PASS_PIECE + 1U};
    if (message->type > PASS_PIECE || size < head_of(message->type))
        return false;
    const uint8_t *at = bytes + 1;
    message->ticket = bytes_get(at, 8);
    at += 8;
    if (has_sum(message->type)) {
        message->sum.step = bytes_get(at, 8);
        message->sum.term = (uint32_t)bytes_get(at + 8, 4);
        message->sum.attempt = (uint32_t)bytes_get(at + 12, 4);
        message->sum.digest = bytes_get(at + 16, 8);
        at += SUM;
    }
    if (has_range(message->type)) {
        message->first = bytes_get(at, 8);
        message->size = (uint32_t)bytes_get(at + 8, 4);
        at += RANGE;
    }
    if (message->type == PASS_STATE) {
        message->first = bytes_get(at, 8);
        memcpy(message->digest, at + 8, PASS_DIGEST);
    }
    message->bytes = at;
    size_t more = message->type == PASS_PIECE ? message->size : 0;
    return message->size <= longest && size == head_of(message->type) + more;
}

/* ---- exchange ---- */

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
    uint8_t *room;   /* for a piece that is given; NULL: none was yet */
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
    if (own->settings.unchecked) {
        own->state = EXCHANGE_DONE;
        return;
    }
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

static void wait(exchange *base, uint64_t until_ns, exchange_progress *progress)
{
    pass_exchange *own = own_of(base);
    pthread_mutex_lock(&own->lock);
    bool time_left = true;
    while (own->state == EXCHANGE_RUNNING && !is_complete(own) && !own->woken && time_left)
        time_left = clock_wait(&own->change, &own->lock, until_ns);
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

/* The answer to a party that waits for a state; NULL: there is none to be had. */
static void answer_reader(pass_exchange *own, uint32_t party, handed *state)
{
    pthread_mutex_lock(&own->lock);
    reader *of = &own->readers[party];
    if (of->waits && state != NULL && sum_id_suffices(&state->after, &of->wanted)) {
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
        if (!own->settings.unchecked && digest_of_bytes(bytes, (size_t)size, state->digest) != 0)
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
    if (piece != NULL && own->room == NULL)
        own->room = memory_allocate(&own->allocator, PASS_MOST_BYTES, 1);
    if (piece == NULL || own->room == NULL) {
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
    own->has_lock = pthread_mutex_init(&own->lock, NULL) == 0;
    own->has_change = clock_init_condition(&own->change) == 0;
    if (own->readers == NULL || !own->has_lock || !own->has_change) {
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

/* ---- mailbox ---- */

typedef struct mailbox_head {
    uint32_t sender;
    uint32_t size;
} mailbox_head;

static size_t entry_bytes(const mailbox_batch *batch)
{
    return sizeof(mailbox_head) + batch->stride;
}

static bool grow(mailbox *box, mailbox_batch *batch, size_t capacity, size_t stride)
{
    mailbox_batch larger = {.stride = stride, .count = batch->count, .capacity = capacity};
    larger.bytes = memory_allocate(&box->allocator, capacity, entry_bytes(&larger));
    if (larger.bytes == NULL)
        return false;
    for (size_t i = 0; i < batch->count; i++)
        memcpy(larger.bytes + i * entry_bytes(&larger), batch->bytes + i * entry_bytes(batch),
               entry_bytes(batch));
    memory_release(&box->allocator, batch->bytes);
    *batch = larger;
    return true;
}

static size_t stride_for(size_t size)
{
    return (size + 7) / 8 * 8;
}

static int init_conditions(mailbox *box)
{
    if (clock_init_condition(&box->filled) != 0)
        return -1;
    if (pthread_cond_init(&box->drained, NULL) != 0) {
        pthread_cond_destroy(&box->filled);
        return -1;
    }
    return 0;
}

int mailbox_init(mailbox *box, size_t max_size, size_t capacity, const tarry_allocator *allocator)
{
    *box = (mailbox){.allocator = memory_allocator(allocator)};
    size_t stride = stride_for(max_size);
    int error = TARRY_ERROR_NO_MEMORY;
    if (!grow(box, &box->incoming, capacity, stride) || !grow(box, &box->taken, capacity, stride))
        goto release_batches;
    error = TARRY_ERROR_SYSTEM;
    if (pthread_mutex_init(&box->lock, NULL) != 0)
        goto release_batches;
    if (init_conditions(box) != 0)
        goto destroy_lock;
    return TARRY_OK;

destroy_lock:
    pthread_mutex_destroy(&box->lock);
release_batches:
    memory_release(&box->allocator, box->incoming.bytes);
    memory_release(&box->allocator, box->taken.bytes);
    return error;
}

void mailbox_destroy(mailbox *box)
{
    pthread_cond_destroy(&box->drained);
    pthread_cond_destroy(&box->filled);
    pthread_mutex_destroy(&box->lock);
    memory_release(&box->allocator, box->incoming.bytes);
    memory_release(&box->allocator, box->taken.bytes);
}

static void append(mailbox *box, uint32_t sender, const void *bytes, size_t size)
{
    assert(size <= box->incoming.stride);
    mailbox_head head = {.sender = sender, .size = (uint32_t)size};
    uint8_t *entry = box->incoming.bytes + box->incoming.count * entry_bytes(&box->incoming);
    memcpy(entry, &head, sizeof(head));
    if (size > 0)
        memcpy(entry + sizeof(head), bytes, size);
    box->incoming.count++;
}

/* Who takes needs the lock, and would wait for it if it were told before. */
static void unlock_and_tell(mailbox *box)
{
    bool waiting = box->waiting;
    pthread_mutex_unlock(&box->lock);
    if (waiting)
        pthread_cond_signal(&box->filled);
}

bool mailbox_put(mailbox *box, uint32_t sender, const void *bytes, size_t size)
{
    pthread_mutex_lock(&box->lock);
    while (!box->closed && box->incoming.count == box->incoming.capacity)
        pthread_cond_wait(&box->drained, &box->lock);
    bool open = !box->closed;
    if (open)
        append(box, sender, bytes, size);
    unlock_and_tell(box);
    return open;
}

bool mailbox_put_growing(mailbox *box, uint32_t sender, const void *bytes, size_t size)
{
    pthread_mutex_lock(&box->lock);
    mailbox_batch *incoming = &box->incoming;
    size_t stride = size > incoming->stride ? stride_for(size) : incoming->stride;
    size_t capacity = incoming->capacity * (incoming->count < incoming->capacity ? 1 : 2);
    bool fits = stride == incoming->stride && capacity == incoming->capacity;
    bool put = !box->closed && (fits || grow(box, incoming, capacity, stride));
    if (put)
        append(box, sender, bytes, size);
    unlock_and_tell(box);
    return put;
}

static bool idle(const mailbox *box)
{
    return box->incoming.count == 0 && !box->woken && !box->closed;
}

size_t mailbox_take(mailbox *box, uint64_t until_ns)
{
    pthread_mutex_lock(&box->lock);
    box->waiting = true;
    bool expired = until_ns == 0;
    while (idle(box) && !expired)
        expired = !clock_wait(&box->filled, &box->lock, until_ns);
    box->waiting = false;
    box->woken = false;

    mailbox_batch batch = box->incoming;
    box->incoming = box->taken;
    box->incoming.count = 0;
    box->taken = batch;
    if (batch.count > 0)
        pthread_cond_broadcast(&box->drained);
    pthread_mutex_unlock(&box->lock);
    return batch.count;
}

mailbox_frame mailbox_frame_at(const mailbox *box, size_t index)
{
    assert(index < box->taken.count);
    const uint8_t *entry = box->taken.bytes + index * entry_bytes(&box->taken);
    mailbox_head head;
    memcpy(&head, entry, sizeof(head));
    return (mailbox_frame){head.sender, head.size, entry + sizeof(head)};
}

void mailbox_wake(mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    box->woken = true;
    unlock_and_tell(box);
}

void mailbox_close(mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    box->closed = true;
    pthread_cond_broadcast(&box->filled);
    pthread_cond_broadcast(&box->drained);
    pthread_mutex_unlock(&box->lock);
}

bool mailbox_closed(mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    bool closed = box->closed;
    pthread_mutex_unlock(&box->lock);
    return closed;
}
