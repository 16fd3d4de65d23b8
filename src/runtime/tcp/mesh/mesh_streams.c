/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/memory.h"
#include "base/sum_id.h"
#include "protocol/wire/wire_bodies.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh_state.h"

/* What other workers get: streams of the held sum, or of a copy of the state, to those who ask. */

enum { NUMBER_BYTES = 4, LOADS_MOST = 4 /* pieces of one stream in a channel */ };

static bool say(mesh_link *link, const wire_answer *answer)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    return channel_send(link->channel, frame, wire_encode(WIRE_ANSWER, answer, frame));
}

static bool refuse(mesh_link *link, uint32_t request)
{
    return say(link, &(wire_answer){.request = request, .outcome = WIRE_OUTCOME_NONE});
}

static void release_copy(mesh *self, mesh_copy *copy)
{
    if (copy == NULL || --copy->users > 0)
        return;
    if (!copy->lent)
        memory_release(&self->allocator, copy->bytes);
    memory_release(&self->allocator, copy);
}

static void drop_newest(mesh *self)
{
    mesh_copy *newest = self->newest;
    self->newest = NULL;
    release_copy(self, newest);
}

/* A copy that no stream reads is not kept. */
static void drop_unread(mesh *self)
{
    if (self->newest != NULL && !self->newest->lent && self->newest->users == 1)
        drop_newest(self);
}

/* Nothing of it is in the channel. */
static void end_stream(mesh_stream *stream)
{
    mesh *self = stream->link->mesh;
    wire_ask_kind kind = stream->kind;
    mesh_copy *copy = stream->copy;
    uint8_t unused[WIRE_DIGEST_BYTES];
    if (stream->digest != NULL)
        digest_end(stream->digest, unused);
    *stream = (mesh_stream){.request = 0};
    if (kind == WIRE_ASK_STATE) {
        release_copy(self, copy);
        drop_unread(self);
        return;
    }
    pthread_mutex_lock(&self->lock);
    self->held.streams--;
    pthread_mutex_unlock(&self->lock);
}

static uint32_t tag_of(wire_ask_kind kind)
{
    return kind == WIRE_ASK_SUM ? MESH_TAG_HELD : MESH_TAG_STATE;
}

/* Ends all streams of a kind that have begun to one peer, and tells it; `copy`: those of this copy.
 */
static void cut_streams(mesh_link *link, wire_ask_kind kind, const mesh_copy *copy)
{
    bool cut = false;
    for (int i = 0; i < MESH_STREAMS; i++) {
        mesh_stream *stream = &link->streams[i];
        stream->cut = stream->request != 0 && !stream->waits && stream->kind == kind &&
                      (copy == NULL || stream->copy == copy);
        cut = cut || stream->cut;
    }
    if (!cut)
        return;
    channel_drop(link->channel, tag_of(kind));
    bool detached = channel_detach(link->channel, tag_of(kind));
    for (int i = 0; i < MESH_STREAMS; i++) {
        mesh_stream *stream = &link->streams[i];
        if (!stream->cut)
            continue;
        refuse(link, stream->request);
        end_stream(stream);
    }
    if (!detached)
        mesh_misbehaves(link, "out of memory");
}

static void finish_stream(mesh_stream *stream)
{
    wire_answer answer = {.request = stream->request, .outcome = WIRE_OUTCOME_WHOLE};
    digest *its = stream->digest;
    mesh_link *link = stream->link;
    stream->digest = NULL;
    if (its != NULL && digest_end(its, answer.digest) != 0)
        answer.outcome = WIRE_OUTCOME_NONE;
    say(link, &answer);
    end_stream(stream);
}

static void pump(mesh_stream *stream);

static void on_released(void *user, void *owner)
{
    mesh_stream *stream = owner;
    (void)user;
    stream->loads--;
    if (!stream->cut)
        pump(stream);
}

/* As many pieces as may be in the channel; large frames wait behind small ones, so that the last
 * word is said when the last piece is out. */
static void pump(mesh_stream *stream)
{
    while (stream->sent < stream->size && stream->loads < LOADS_MOST) {
        uint8_t prefix[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
        uint64_t left = stream->size - stream->sent;
        const wire_piece piece = {
            .request = stream->request,
            .first = stream->sent,
            .count = left < WIRE_PIECE_BYTES ? left : WIRE_PIECE_BYTES,
        };
        const channel_load load = {
            .bytes = stream->bytes + stream->sent,
            .size = piece.count,
            .tag = tag_of(stream->kind),
            .released = on_released,
            .owner = stream,
        };
        size_t size = wire_encode(WIRE_PIECE, &piece, prefix);
        if (stream->digest != NULL && digest_add_bytes(stream->digest, load.bytes, load.size) != 0)
            stream->size = stream->sent + load.size; /* it ends as one that is not whole */
        if (!channel_send_load(stream->link->channel, prefix, size, &load))
            return; /* the connection is over */
        stream->sent += piece.count;
        stream->loads++;
    }
    if (stream->sent == stream->size && stream->loads == 0)
        finish_stream(stream);
}

/* Begins to send what is there. */
static void serve(mesh_stream *stream, const tarry_sum_id *sum, const uint8_t *bytes, uint64_t size)
{
    const wire_answer answer = {
        .request = stream->request,
        .outcome = WIRE_OUTCOME_COMES,
        .sum = *sum,
        .total = size,
    };
    stream->waits = false;
    stream->bytes = bytes;
    stream->size = size;
    if (stream->kind == WIRE_ASK_STATE) {
        stream->digest = digest_begin();
        if (stream->digest == NULL) {
            refuse(stream->link, stream->request);
            end_stream(stream);
            return;
        }
    }
    if (say(stream->link, &answer))
        pump(stream);
}

static void serve_state(mesh *self, mesh_stream *stream)
{
    mesh_copy *copy = self->newest;
    if (copy == NULL || copy->size > WIRE_BLOB_MOST || copy->after.step < stream->sum.step)
        return;
    stream->copy = copy;
    copy->users++;
    serve(stream, &copy->after, copy->bytes, copy->size);
}

/* False: it can't be had. */
static bool want_state(mesh *self)
{
    pthread_mutex_lock(&self->lock);
    void (*wanted)(void *user) = self->wanted;
    void *user = self->wanted_user;
    pthread_mutex_unlock(&self->lock);
    if (wanted != NULL)
        wanted(user);
    return wanted != NULL;
}

static mesh_stream *find_stream(mesh_link *link, uint32_t request)
{
    for (int i = 0; i < MESH_STREAMS; i++)
        if (link->streams[i].request == request)
            return &link->streams[i];
    return NULL;
}

/* Gives the stream the held sum, if it is that one; it stays until the stream has ended. */
static bool take_held(mesh *self, mesh_stream *stream, const tarry_sum_id *wanted)
{
    pthread_mutex_lock(&self->lock);
    bool there = self->held.sum.step != 0 && sum_id_same(&self->held.sum, wanted);
    if (there) {
        self->held.streams++;
        stream->bytes = self->held.bytes;
        stream->size = self->held.size;
    }
    pthread_mutex_unlock(&self->lock);
    return there;
}

bool mesh_streams_ask(mesh_link *link, const wire_ask *ask)
{
    mesh *self = link->mesh;
    mesh_stream *stream = find_stream(link, ask->request);
    if (ask->request == 0)
        return mesh_misbehaves(link, "its request has no number");
    if (ask->kind == WIRE_ASK_NOTHING) {
        if (stream != NULL && stream->waits)
            end_stream(stream);
        else if (stream != NULL)
            cut_streams(link, stream->kind, NULL); /* a peer has one request at a time */
        return true;
    }
    if (stream != NULL)
        return mesh_misbehaves(link, "it asks twice");
    stream = find_stream(link, 0);
    mesh_stream begun = {
        .request = ask->request,
        .kind = ask->kind,
        .sum = ask->sum,
        .waits = ask->kind == WIRE_ASK_STATE,
        .link = link,
    };
    if (stream == NULL || (ask->kind == WIRE_ASK_SUM && !take_held(self, &begun, &ask->sum)))
        return refuse(link, ask->request);
    *stream = begun;
    if (ask->kind == WIRE_ASK_SUM) {
        serve(stream, &stream->sum, stream->bytes, stream->size);
        return true;
    }
    serve_state(self, stream);
    if (stream->request == 0 || !stream->waits)
        return true;
    if (want_state(self))
        return true;
    end_stream(stream);
    return refuse(link, ask->request);
}

void mesh_streams_close(mesh_link *link, const char *refusal)
{
    for (int i = 0; i < MESH_STREAMS; i++)
        link->streams[i].cut = true;
    if (refusal != NULL)
        session_refuse(link->session, WIRE_REFUSED_FORMAT, refusal);
    else
        session_close(link->session, 0);
    for (int i = 0; i < MESH_STREAMS; i++)
        if (link->streams[i].request != 0)
            end_stream(&link->streams[i]);
}

static void cut_all(mesh *self, wire_ask_kind kind, const mesh_copy *copy)
{
    for (mesh_link *link = self->links, *next; link != NULL; link = next) {
        next = link->next;
        cut_streams(link, kind, copy);
    }
}

typedef struct holding {
    const tarry_sum_id *sum;
    const float *numbers;
    size_t dimension;
} holding;

/* With the lock held. */
static void set_held(mesh *self, const holding *asked)
{
    self->held.sum = asked->sum != NULL ? *asked->sum : (tarry_sum_id){0};
    self->held.bytes = (const uint8_t *)asked->numbers;
    self->held.size = (uint64_t)asked->dimension * NUMBER_BYTES;
}

static void hold(mesh *self, void *argument)
{
    cut_all(self, WIRE_ASK_SUM, NULL);
    pthread_mutex_lock(&self->lock);
    set_held(self, argument);
    pthread_mutex_unlock(&self->lock);
}

/* While nobody gets the sum before, the thread need not be waited for, but at the end, when it may
 * be telling that a state is wanted. */
static void mesh_streams_hold(mesh *self, const tarry_sum_id *sum, const float *numbers,
                              size_t dimension)
{
    holding asked = {sum, numbers, dimension};
    pthread_mutex_lock(&self->lock);
    bool unread = self->held.streams == 0 && self->wanted != NULL;
    if (unread)
        set_held(self, &asked);
    pthread_mutex_unlock(&self->lock);
    if (!unread)
        mesh_do(self, hold, &asked);
}

/* Those who get an older copy get it whole: if a newer one took its place, a state that takes
 * longer to move than a worker takes to step would never arrive. A copy that was lent goes at once.
 */
static void replace_newest(mesh *self, const mesh_copy *given)
{
    mesh_copy *made = memory_allocate(&self->allocator, 1, sizeof(*made));
    if (self->newest != NULL && self->newest->lent)
        cut_all(self, WIRE_ASK_STATE, self->newest);
    drop_newest(self);
    if (made == NULL) {
        if (!given->lent)
            memory_release(&self->allocator, given->bytes);
        return;
    }
    *made = *given;
    made->users = 1;
    self->newest = made;
}

static void mesh_streams_offer(mesh *self, const mesh_copy *given)
{
    if (given->bytes != NULL)
        replace_newest(self, given);
    for (mesh_link *link = self->links; link != NULL; link = link->next)
        for (int i = 0; i < MESH_STREAMS; i++) {
            mesh_stream *stream = &link->streams[i];
            if (stream->request == 0 || !stream->waits)
                continue;
            serve_state(self, stream);
            if (stream->request == 0 || !stream->waits)
                continue;
            refuse(link, stream->request);
            *stream = (mesh_stream){.request = 0};
        }
    drop_unread(self);
}

void mesh_streams_free(mesh *self)
{
    drop_newest(self);
}

/*
 * What a worker gets of others outside of a sum: one request at a time. A sum goes straight to
 * where it belongs; a state is gathered, and counts once its SHA-256, which its last frame says, is
 * right.
 */

/* Silence limits for the owner of a state to write it, which may be large, or to end a step first.
 * That the owner is there at all, its session knows. */
enum { WRITING_LIMITS = 30 };

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
        uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
        const wire_ask ask = {.request = request->number, .kind = WIRE_ASK_NOTHING};
        channel_divert(member->link->channel, WIRE_PIECE);
        if (request->sent)
            channel_send(member->link->channel, frame, wire_encode(WIRE_ASK, &ask, frame));
    }
    end_request(self, false);
}

static void mesh_exchange_is(mesh *self, exchange_state state, const char *why)
{
    const mesh_request *request = &self->request;
    bool loaded = state == EXCHANGE_DONE && request->state != NULL;
    pthread_mutex_lock(&self->lock);
    exchange_progress *now = &self->exchange_progress;
    *now = (exchange_progress){.state = state, .got = request->got};
    if (loaded) {
        now->bytes = request->state;
        now->size = request->size;
        now->after = request->sum;
    }
    snprintf(now->why, sizeof(now->why), "%s", why);
    pthread_mutex_unlock(&self->lock);
    pthread_cond_broadcast(&self->moved);
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
    request->pace.limit_ns = self->silence_ns;
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

bool mesh_exchange_answer(mesh_link *link, const wire_answer *answer)
{
    mesh *self = link->mesh;
    if (!is_from(self, link, answer->request))
        return true;
    if (answer->outcome == WIRE_OUTCOME_COMES)
        return comes(self, answer);
    if (answer->outcome == WIRE_OUTCOME_WHOLE)
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
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    const wire_ask ask = {.request = request->number, .kind = request->kind, .sum = request->sum};
    request->sent = true;
    if (request->kind == WIRE_ASK_STATE)
        request->pace.limit_ns = self->silence_ns < TARRY_NEVER / WRITING_LIMITS
                                     ? WRITING_LIMITS * self->silence_ns
                                     : TARRY_NEVER;
    moves(self);
    channel_send(member->link->channel, frame, wire_encode(WIRE_ASK, &ask, frame));
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

/* One that connects by itself may never do so. */
void mesh_exchange_look(mesh *self, uint64_t now_ns)
{
    mesh_request *request = &self->request;
    if (request->kind == WIRE_ASK_NOTHING || !mesh_pace_stands(&request->pace, now_ns))
        return;
    if (!request->sent)
        fail(self, "it does not connect");
    else if (request->kind == WIRE_ASK_STATE && !request->comes)
        fail(self, "it does not write its state");
    else
        fail(self, "nothing came of it for the silence limit");
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
