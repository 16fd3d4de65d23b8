/* SPDX-License-Identifier: Apache-2.0 */
/* What other workers get: streams of the held sum, or of a copy of the state, to those who ask. */
#include <string.h>

#include "base/digest.h"
#include "base/memory.h"
#include "base/sum_id.h"
#include "protocol/wire/wire_layout.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh_state.h"

enum { NUMBER_BYTES = 4, LOADS_MOST = 4 /* pieces of one stream in a channel */ };

static bool say(mesh_link *link, const wire_answer *answer)
{
    uint8_t frame[WIRE_HEAD_BYTES + LAYOUT_ANSWER];
    return channel_send(link->channel, frame, wire_answer_encode(answer, frame));
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

static void expect_signs(mesh *self);
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
        uint8_t prefix[WIRE_HEAD_BYTES + LAYOUT_PIECE];
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
        size_t size = wire_piece_encode(&piece, prefix);
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
    if (want_state(self)) {
        expect_signs(self);
        return true;
    }
    end_stream(stream);
    return refuse(link, ask->request);
}

void mesh_streams_close(mesh_link *link)
{
    for (int i = 0; i < MESH_STREAMS; i++)
        link->streams[i].cut = true;
    channel_close(link->channel);
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
void mesh_streams_hold(mesh *self, const tarry_sum_id *sum, const float *numbers, size_t dimension)
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

void mesh_streams_offer(mesh *self, const mesh_copy *given)
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

/* ---- signs of life ---- */

uint64_t mesh_streams_due_ns(const mesh *self)
{
    return self->sign_ns;
}

/* A worker may take longer than the silence limit to write a large state, or to end a step first:
 * those who wait for the state hear that this one is still there. */
void mesh_streams_look(mesh *self, uint64_t now_ns)
{
    bool any = false;
    if (now_ns < self->sign_ns)
        return;
    for (mesh_link *link = self->links, *next; link != NULL; link = next) {
        next = link->next;
        for (int i = 0; i < MESH_STREAMS; i++) {
            const mesh_stream *stream = &link->streams[i];
            if (stream->request == 0 || !stream->waits)
                continue;
            any = true;
            say(link, &(wire_answer){.request = stream->request, .outcome = WIRE_OUTCOME_WAITS});
        }
    }
    self->sign_ns = any ? now_ns + self->silence_ns / MESH_SIGNS : TARRY_NEVER;
}

static void expect_signs(mesh *self)
{
    if (self->sign_ns != TARRY_NEVER)
        return;
    self->sign_ns = clock_now_ns() + self->silence_ns / MESH_SIGNS;
    mesh_set_tick(self);
}

void mesh_streams_free(mesh *self)
{
    drop_newest(self);
}
