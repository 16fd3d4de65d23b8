/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker gets of others outside of a sum: one request at a time. A sum goes straight to
 * where it belongs; a state is gathered, and counts once its SHA-256, which its last frame says, is
 * right.
 */
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/memory.h"
#include "protocol/wire/wire_layout.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh_state.h"

enum { NUMBER_BYTES = 4, SIGNS_MOST = 30 * MESH_SIGNS /* that a state is being written */ };

static mesh *of_exchange(exchange *its)
{
    return (mesh *)((char *)its - offsetof(mesh, exchange));
}

static void moves(mesh *self)
{
    mesh_pace_moves(&self->request.pace, clock_now_ns());
}

static bool is_from(const mesh *self, const mesh_link *link, uint32_t number)
{
    const mesh_request *request = &self->request;
    return request->kind != WIRE_ASK_NOTHING && request->sent && request->number == number &&
           link->member->worker == request->from;
}

/* It is over; the state that was got stays if it is whole. */
static void end_request(mesh *self, bool whole)
{
    mesh_request *request = &self->request;
    uint8_t unused[WIRE_DIGEST_BYTES];
    request->kind = WIRE_ASK_NOTHING;
    if (request->digest != NULL)
        digest_end(request->digest, unused);
    request->digest = NULL;
    if (whole)
        return;
    memory_release(&self->allocator, request->state);
    request->state = NULL;
}

/* Nothing of it is written from here on. */
static void let_go(mesh *self)
{
    mesh_request *request = &self->request;
    mesh_member *member = mesh_find(self, request->from);
    if (request->kind != WIRE_ASK_NOTHING && member != NULL && mesh_is_linked(member)) {
        uint8_t frame[WIRE_HEAD_BYTES + LAYOUT_ASK];
        const wire_ask ask = {.request = request->number, .kind = WIRE_ASK_NOTHING};
        channel_divert(member->link->channel, WIRE_PIECE);
        if (request->sent)
            channel_send(member->link->channel, frame, wire_ask_encode(&ask, frame));
    }
    end_request(self, false);
}

static void fail(mesh *self, const char *why)
{
    char text[sizeof(self->exchange_progress.why)];
    snprintf(text, sizeof(text), "worker %u: %s", self->request.from, why);
    let_go(self);
    mesh_exchange_is(self, EXCHANGE_FAILED, text);
}

static bool comes(mesh *self, const wire_answer *answer)
{
    mesh_request *request = &self->request;
    bool fits =
        !request->comes && (request->kind == WIRE_ASK_SUM ? answer->total == request->size
                                                          : answer->sum.step >= request->sum.step);
    if (!fits) {
        fail(self, "it sends something else than was asked for");
        return true;
    }
    moves(self);
    request->comes = true;
    if (request->kind == WIRE_ASK_SUM)
        return true;
    request->sum = answer->sum;
    request->size = answer->total;
    request->digest = digest_begin();
    /* Pages that nothing comes for take no memory. */
    request->state = memory_allocate(&self->allocator, answer->total > 0 ? answer->total : 1, 1);
    request->bytes = request->state;
    if (request->state == NULL || request->digest == NULL)
        fail(self, "there is no memory for its state");
    return true;
}

static void is_whole(mesh *self, const wire_answer *answer)
{
    mesh_request *request = &self->request;
    uint8_t found[WIRE_DIGEST_BYTES] = {0};
    bool whole = request->comes && request->got == request->size;
    if (request->digest != NULL) {
        whole = digest_end(request->digest, found) == 0 && whole;
        request->digest = NULL;
    }
    if (!whole || memcmp(found, answer->digest, sizeof(found)) != 0) {
        fail(self, "what came is not what its digest says");
        return;
    }
    end_request(self, true);
    mesh_exchange_is(self, EXCHANGE_DONE, "");
}

/* It is there, and has not written its state yet. Not for ever: its owner may never do so. */
static void waits(mesh *self)
{
    mesh_request *request = &self->request;
    if (request->comes || request->kind != WIRE_ASK_STATE)
        fail(self, "it sends something else than was asked for");
    else if (++request->signs > SIGNS_MOST)
        fail(self, "it does not write its state");
    else
        moves(self);
}

bool mesh_exchange_answer(mesh_link *link, const wire_answer *answer)
{
    mesh *self = link->mesh;
    if (!is_from(self, link, answer->request))
        return true;
    if (answer->outcome == WIRE_OUTCOME_COMES)
        return comes(self, answer);
    if (answer->outcome == WIRE_OUTCOME_WAITS)
        waits(self);
    else if (answer->outcome == WIRE_OUTCOME_WHOLE)
        is_whole(self, answer);
    else
        fail(self, "it does not have it any more");
    return true;
}

channel_verdict mesh_exchange_begin(mesh_link *link, const wire_piece *piece, void **place)
{
    mesh *self = link->mesh;
    const mesh_request *request = &self->request;
    *place = NULL;
    if (!is_from(self, link, piece->request))
        return CHANNEL_TAKE; /* to nowhere */
    if (!request->comes || piece->first != request->got ||
        piece->count > request->size - request->got) {
        mesh_misbehaves(link, "it sends another piece than the next one");
        return CHANNEL_END;
    }
    moves(self);
    *place = request->bytes + piece->first;
    return CHANNEL_TAKE;
}

static void count(mesh *self, uint64_t bytes)
{
    self->request.got += bytes;
    pthread_mutex_lock(&self->lock);
    self->exchange_progress.got = self->request.got;
    pthread_mutex_unlock(&self->lock);
}

bool mesh_exchange_complete(mesh_link *link, const wire_piece *piece)
{
    mesh *self = link->mesh;
    mesh_request *request = &self->request;
    if (!is_from(self, link, piece->request))
        return true;
    moves(self);
    if (request->digest != NULL &&
        digest_add_bytes(request->digest, request->bytes + piece->first, piece->count) != 0)
        fail(self, "no memory for a digest");
    else
        count(self, piece->count);
    return true;
}

static void send_request(mesh *self, mesh_member *member)
{
    mesh_request *request = &self->request;
    uint8_t frame[WIRE_HEAD_BYTES + LAYOUT_ASK];
    const wire_ask ask = {.request = request->number, .kind = request->kind, .sum = request->sum};
    request->sent = true;
    moves(self);
    channel_send(member->link->channel, frame, wire_ask_encode(&ask, frame));
}

void mesh_exchange_linked(mesh *self, mesh_member *member)
{
    const mesh_request *request = &self->request;
    if (request->kind != WIRE_ASK_NOTHING && request->from == member->worker && !request->sent)
        send_request(self, member);
}

void mesh_exchange_lost(mesh *self, mesh_member *member, const char *why)
{
    if (self->request.kind != WIRE_ASK_NOTHING && self->request.from == member->worker)
        fail(self, why);
}

uint64_t mesh_exchange_due_ns(const mesh *self)
{
    const mesh_request *request = &self->request;
    return request->kind != WIRE_ASK_NOTHING ? mesh_pace_due_ns(&request->pace) : TARRY_NEVER;
}

/* One that connects by itself may never do so. One that is stopped keeps its connection. */
void mesh_exchange_look(mesh *self, uint64_t now_ns)
{
    mesh_request *request = &self->request;
    if (request->kind != WIRE_ASK_NOTHING && mesh_pace_stands(&request->pace, now_ns))
        fail(self,
             request->sent ? "nothing came of it for the silence limit" : "it does not connect");
}

/* ---- what the caller asks for ---- */

typedef struct asking {
    wire_ask_kind kind;
    uint32_t from;
    const tarry_sum_id *sum;
    float *into;
    size_t dimension;
} asking;

static void ask(mesh *self, void *argument)
{
    const asking *asked = argument;
    mesh_request *request = &self->request;
    let_go(self);
    uint32_t number = request->number + 1;
    *request = (mesh_request){
        .number = number > 0 ? number : 1,
        .kind = asked->kind,
        .from = asked->from,
        .pace = {.limit_ns = self->silence_ns},
        .sum = *asked->sum,
        .bytes = (uint8_t *)asked->into,
        .size = (uint64_t)asked->dimension * NUMBER_BYTES,
    };
    moves(self);
    mesh_exchange_is(self, EXCHANGE_RUNNING, "");
    mesh_member *member = mesh_find(self, asked->from);
    if (member == NULL)
        fail(self, "it is no member");
    else if (mesh_is_linked(member))
        send_request(self, member);
    else
        mesh_reach(self, member);
    mesh_set_tick(self);
}

static int exchange_fetch(exchange *its, uint32_t from, const tarry_sum_id *sum, float *into,
                          size_t dimension)
{
    asking asked = {WIRE_ASK_SUM, from, sum, into, dimension};
    mesh_do(of_exchange(its), ask, &asked);
    return TARRY_OK;
}

static int exchange_load(exchange *its, uint32_t from, const tarry_sum_id *after)
{
    asking asked = {.kind = WIRE_ASK_STATE, .from = from, .sum = after};
    mesh_do(of_exchange(its), ask, &asked);
    return TARRY_OK;
}

static bool exchange_runs(const mesh *self)
{
    return self->exchange_progress.state == EXCHANGE_RUNNING;
}

static void exchange_wait(exchange *its, uint64_t until_ns, exchange_progress *progress)
{
    mesh *self = of_exchange(its);
    pthread_mutex_lock(&self->lock);
    mesh_wait(self, &self->exchange_woken, until_ns, exchange_runs);
    *progress = self->exchange_progress;
    pthread_mutex_unlock(&self->lock);
}

static void exchange_wake(exchange *its)
{
    mesh_wake(of_exchange(its), &of_exchange(its)->exchange_woken);
}

static void take(mesh *self, void *argument)
{
    uint8_t **bytes = argument;
    *bytes = self->request.state;
    self->request.state = NULL;
}

static uint8_t *exchange_take(exchange *its)
{
    uint8_t *bytes = NULL;
    mesh_do(of_exchange(its), take, &bytes);
    return bytes;
}

static void abandon(mesh *self, void *argument)
{
    (void)argument;
    let_go(self);
    mesh_exchange_is(self, EXCHANGE_IDLE, "");
}

static void exchange_abandon(exchange *its)
{
    mesh_do(of_exchange(its), abandon, NULL);
}

static void exchange_hold(exchange *its, const tarry_sum_id *sum, const float *numbers,
                          size_t dimension)
{
    mesh_streams_hold(of_exchange(its), sum, numbers, dimension);
}

static void offer(mesh *self, void *argument)
{
    mesh_streams_offer(self, argument);
}

static int exchange_offer(exchange *its, const tarry_sum_id *after, uint8_t *bytes, uint64_t size)
{
    mesh_copy given = {.bytes = bytes, .size = size};
    if (bytes != NULL)
        given.after = *after;
    mesh_do(of_exchange(its), offer, &given);
    return TARRY_OK;
}

void mesh_lend(mesh *self, const tarry_sum_id *after, const uint8_t *bytes, uint64_t size)
{
    mesh_copy lent = {.bytes = (uint8_t *)bytes, .lent = true, .size = size, .after = *after};
    mesh_do(self, offer, &lent);
}

static void exchange_serve(exchange *its, void (*wanted)(void *user), void *user)
{
    mesh *self = of_exchange(its);
    pthread_mutex_lock(&self->lock);
    self->wanted = wanted;
    self->wanted_user = user;
    pthread_mutex_unlock(&self->lock);
}

const exchange_methods mesh_exchange_methods = {
    .fetch = exchange_fetch,
    .load = exchange_load,
    .wait = exchange_wait,
    .wake = exchange_wake,
    .take = exchange_take,
    .abandon = exchange_abandon,
    .hold = exchange_hold,
    .offer = exchange_offer,
    .serve = exchange_serve,
};

void mesh_exchange_free(mesh *self)
{
    end_request(self, false);
}
