/* SPDX-License-Identifier: Apache-2.0 */
/* What the server may say once the worker is welcome. */
#include <string.h>

#include "base/memory.h"
#include "runtime/tcp/worker/tcp_worker.h"

static const char NOT_HERE[] = "the server sent a frame that makes no sense here";

/* What the server sends once per connection goes on with the next offer of that, if nobody has
 * taken the one before yet. With the lock held. */
static void inherit(const worker_link *link, worker_offer *before, worker_offer *offer)
{
    if (before->number == 0 || before->number != link->offered)
        return;
    if (offer->job == NULL) {
        offer->job = before->job;
        offer->job_size = before->job_size;
        before->job = NULL;
    }
    if (offer->part.memory == NULL) {
        offer->part = before->part;
        before->part = (share){0};
    }
}

void tcp_worker_offer(tarry_tcp_worker *worker)
{
    worker_link *link = &worker->link;
    worker_offer offer = {
        .welcome = link->welcome,
        .claimed_job = memcmp(link->claimed_job, link->welcome.job, WIRE_ID_BYTES) == 0,
        .plan = link->plan.bytes,
        .plan_size = link->plan.size,
        .job = link->job.bytes,
        .job_size = link->job.size,
        .rules = link->rules,
        .part = link->part,
    };
    address_text_without_port(&link->local, offer.local);
    link->part = (share){0};
    link->plan = (assembly){0};
    link->job = (assembly){0};
    pthread_mutex_lock(&worker->lock);
    inherit(link, &worker->offers.waiting, &offer);
    tcp_worker_release_offer(worker, &worker->offers.waiting);
    offer.number = ++worker->offers.made;
    worker->offers.waiting = offer;
    worker->samples.outdated =
        worker->samples.open && !tcp_worker_is_same_job(&worker->samples.of, &link->welcome);
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    link->offered = offer.number;
    /* What was wanted over the connection before still is. */
    tcp_worker_ask_chunks(worker);
}

/* ---- blobs ---- */

/* Where it goes; NULL: nowhere. */
static assembly *blob_room(tarry_tcp_worker *worker, const wire_blob *blob)
{
    worker_link *link = &worker->link;
    switch (blob->kind) {
    case WIRE_BLOB_PLAN:
        return &link->plan;
    case WIRE_BLOB_JOB:
        return link->welcome_blobs ? &link->job : NULL;
    case WIRE_BLOB_DATA:
        return tcp_worker_chunk_room(worker, blob->index);
    case WIRE_BLOBS:
        break;
    }
    return NULL;
}

static bool is_complete(const assembly *self, uint64_t wanted)
{
    return wanted == 0 || (self->begun && self->size == self->total);
}

/* Something large is there. A plan may come at any time; those that WELCOME announced are offered
 * together. */
static void take_blob(tarry_tcp_worker *worker, const wire_blob *blob)
{
    worker_link *link = &worker->link;
    if (blob->kind == WIRE_BLOB_DATA) {
        tcp_worker_chunk_complete(worker, blob->index);
        return;
    }
    if (link->welcome_blobs && (!is_complete(&link->plan, link->welcome.plan_bytes) ||
                                !is_complete(&link->job, link->welcome.job_bytes)))
        return;
    link->welcome_blobs = false;
    tcp_worker_offer(worker);
}

static worker_fault begin_blob(tarry_tcp_worker *worker, const wire_blob *blob, void **place)
{
    worker_link *link = &worker->link;
    *place = NULL;
    link->intake = INTAKE_NOTHING;
    assembly *room = blob_room(worker, blob);
    if (room == NULL)
        return NULL;
    *place = assembly_reserve(room, blob->first, blob->count, blob->total, &worker->allocator);
    if (*place == NULL)
        return "something large did not come in order, or is too large";
    link->intake = INTAKE_BLOB;
    link->intake_blob = room;
    return NULL;
}

/* One without bytes is no large frame. */
static void take_empty_blob(tarry_tcp_worker *worker, const wire_blob *blob)
{
    if (blob->kind == WIRE_BLOB_DATA && tcp_worker_chunk_room(worker, blob->index) != NULL)
        tcp_worker_chunk_complete(worker, blob->index);
}

/* ---- handlers ---- */

worker_fault tcp_worker_take_frame(tarry_tcp_worker *worker, const wire_head *head,
                                   const uint8_t *body)
{
    wire_blob blob;
    switch (head->kind) {
    case WIRE_HEARTBEAT:
        return NULL;
    case WIRE_MESSAGE:
        return tcp_worker_take_message(worker, body, head->length);
    case WIRE_BLOB:
        if (wire_blob_decode(head, body, &blob) != TARRY_OK)
            return NOT_HERE;
        take_empty_blob(worker, &blob);
        return NULL;
    case WIRE_KEY:
        return tcp_worker_take_key(worker, head, body);
    case WIRE_MEMBER:
        return tcp_worker_take_member(worker, head, body);
    default:
        return NOT_HERE;
    }
}

worker_fault tcp_worker_begin_large(tarry_tcp_worker *worker, const wire_head *head,
                                    const uint8_t *fixed, void **place)
{
    worker_link *link = &worker->link;
    wire_parameters parameters;
    view_piece seen;
    wire_blob blob;
    if (head->kind == WIRE_BLOB && wire_blob_decode(head, fixed, &blob) == TARRY_OK)
        return begin_blob(worker, &blob, place);
    if (head->kind == WIRE_VIEW && link->stage == WORKER_READY &&
        wire_view_decode(head, fixed, &seen) == TARRY_OK) {
        link->intake = INTAKE_VIEW;
        return tcp_worker_begin_view(worker, &seen, place);
    }
    if (head->kind != WIRE_PARAMETERS || link->stage != WORKER_READY ||
        wire_parameters_decode(head, fixed, &parameters) != TARRY_OK ||
        !tcp_worker_begin_parameters(worker, &parameters, place))
        return NOT_HERE;
    link->intake = *place != NULL ? INTAKE_PARAMETERS : INTAKE_NOTHING;
    return NULL;
}

worker_fault tcp_worker_complete_large(tarry_tcp_worker *worker, const wire_head *head,
                                       const uint8_t *fixed)
{
    worker_link *link = &worker->link;
    worker_intake intake = link->intake;
    wire_parameters parameters;
    wire_blob blob;
    link->intake = INTAKE_NOTHING;
    if (intake == INTAKE_PARAMETERS && wire_parameters_decode(head, fixed, &parameters) == TARRY_OK)
        return tcp_worker_add_parameters(worker, parameters.count);
    if (intake == INTAKE_VIEW)
        return tcp_worker_add_view(worker);
    if (intake == INTAKE_BLOB && wire_blob_decode(head, fixed, &blob) == TARRY_OK &&
        assembly_add(link->intake_blob, blob.count))
        take_blob(worker, &blob);
    return NULL;
}
