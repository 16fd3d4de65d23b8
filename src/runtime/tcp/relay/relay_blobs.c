/* SPDX-License-Identifier: Apache-2.0 */
/* Plan, job and data: the parent says who is to get what; what is not here is fetched once. */
#include <string.h>

#include "base/memory.h"
#include "runtime/tcp/relay/relay_state.h"

static bool is_same(const wire_lane_blob *one, const wire_lane_blob *other)
{
    return one->kind == other->kind && one->index == other->index && one->total == other->total &&
           memcmp(one->digest, other->digest, WIRE_DIGEST_BYTES) == 0;
}

static void release(tcp_relay *self, relay_blob **at)
{
    relay_blob *blob = *at;
    *at = blob->next;
    if (self->trunk.intake_blob == blob) {
        self->trunk.intake_blob = NULL;
        self->trunk.intake = TRUNK_NOTHING;
    }
    assembly_clear(&blob->bytes, &self->allocator);
    memory_release(&self->allocator, blob);
}

/* Those that nobody wants, of which only what comes last of its kind is worth keeping: the list has
 * what came last first. What is still to come stays. */
static void trim(tcp_relay *self)
{
    bool newest[WIRE_BLOBS] = {false};
    for (relay_blob **at = &self->blobs; *at != NULL;) {
        relay_blob *blob = *at;
        bool kept = blob->what.kind != WIRE_BLOB_DATA && !newest[blob->what.kind];
        newest[blob->what.kind] = true;
        if (blob->users > 0 || !blob->complete || kept)
            at = &blob->next;
        else
            release(self, at);
    }
}

static relay_blob *find(const tcp_relay *self, const wire_lane_blob *what)
{
    for (relay_blob *blob = self->blobs; blob != NULL; blob = blob->next)
        if (is_same(&blob->what, what))
            return blob;
    return NULL;
}

/* What was asked for under this name, and has not come yet. */
static relay_blob *expected(const tcp_relay *self, wire_blob_kind kind, uint32_t index)
{
    for (relay_blob *blob = self->blobs; blob != NULL; blob = blob->next)
        if (blob->what.kind == kind && blob->what.index == index && !blob->complete)
            return blob;
    return NULL;
}

/* The child waits for it no more. */
static void forget(relay_child *child, const relay_blob *blob)
{
    for (uint32_t i = child->blob_first; i < child->blob_count; i++) {
        if (child->blobs[i] != blob)
            continue;
        child->blobs[i]->users--;
        child->blob_count--;
        for (uint32_t j = i; j < child->blob_count; j++)
            child->blobs[j] = child->blobs[j + 1];
        i--;
    }
}

/* A plan that turned into another one before it was there never comes; whoever waits is told of the
 * other one. */
static void drop_outdated(tcp_relay *self, const wire_lane_blob *what)
{
    relay_blob *before = expected(self, what->kind, what->index);
    if (before == NULL)
        return;
    for (relay_child *child = self->children.first; child != NULL; child = child->after)
        forget(child, before);
    relay_blob **at = &self->blobs;
    while (*at != before)
        at = &(*at)->next;
    release(self, at);
}

static relay_blob *make(tcp_relay *self, const wire_lane_blob *what)
{
    relay_blob *blob = memory_allocate(&self->allocator, 1, sizeof(*blob));
    if (blob == NULL)
        return NULL;
    blob->what = *what;
    blob->next = self->blobs;
    self->blobs = blob;
    relay_up_fetch(self, what->kind, what->index);
    return blob;
}

/* Those that are there go out, in the order in which they were wanted. */
static void send_next(relay_child *child)
{
    while (child->blob_first < child->blob_count && child->blobs[child->blob_first]->complete) {
        const relay_blob *blob = child->blobs[child->blob_first];
        const outgoing_stream stream = {
            .tag = blob->what.kind == WIRE_BLOB_PLAN  ? OUTGOING_PLAN
                   : blob->what.kind == WIRE_BLOB_JOB ? OUTGOING_JOB
                                                      : OUTGOING_DATA,
            .index = blob->what.index,
            .bytes = blob->bytes.bytes,
            .size = blob->what.total,
        };
        if (!outgoing_add(&child->large, &stream))
            return;
        child->blob_first++;
    }
    child->pumps = true;
    child->relay->has_tasks = true;
}

const char *relay_blob_want(relay_child *child, const wire_lane_blob *what)
{
    tcp_relay *self = child->relay;
    relay_blob *blob = find(self, what);
    if (blob == NULL)
        drop_outdated(self, what);
    if (child->blob_count == RELAY_BLOB_REFS)
        return "a child is to get too much at a time";
    if (blob == NULL)
        blob = make(self, what);
    if (blob == NULL)
        return "out of memory";
    blob->users++;
    child->blobs[child->blob_count++] = blob;
    send_next(child);
    return NULL;
}

const char *relay_blob_reserve(tcp_relay *self, const wire_blob *what, void **place)
{
    relay_blob *blob = expected(self, what->kind, what->index);
    *place = NULL;
    self->trunk.intake_blob = blob;
    if (blob == NULL)
        return NULL; /* nobody waits for it any more */
    if (what->total != blob->what.total)
        return "something large has another size than was said";
    if (what->count == 0)
        return NULL;
    *place =
        assembly_reserve(&blob->bytes, what->first, what->count, what->total, &self->allocator);
    return *place != NULL ? NULL : "something large did not come in order, or is too large";
}

void relay_blob_add(tcp_relay *self, const wire_blob *what)
{
    relay_blob *blob = self->trunk.intake_blob;
    self->trunk.intake_blob = NULL;
    if (blob == NULL || (what->count > 0 && !assembly_add(&blob->bytes, what->count)))
        return;
    blob->complete = true;
    for (relay_child *child = self->children.first; child != NULL; child = child->after)
        if (child->blob_first < child->blob_count && child->blobs[child->blob_first] == blob)
            send_next(child);
    trim(self);
}

void relay_blob_let_go(relay_child *child)
{
    if (child->blob_count == 0)
        return;
    for (uint32_t i = 0; i < child->blob_count; i++)
        child->blobs[i]->users--;
    child->blob_count = child->blob_first = 0;
    trim(child->relay);
}

void relay_blobs_clear(tcp_relay *self)
{
    while (self->blobs != NULL)
        release(self, &self->blobs);
}
