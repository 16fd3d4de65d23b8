/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view of the parameters, where these come down as changes of it. The view that the worker has
 * is the current snapshot; what comes goes to the one that is begun, and counts only once all of it
 * is there: of a round that is over as well, since the next change is added to it.
 */
#include <string.h>

#include "base/memory.h"
#include "runtime/tcp/worker/tcp_worker.h"

static const char NOT_HERE[] = "numbers of a view that is not here";

static bool reserve(tarry_tcp_worker *worker)
{
    worker_view *own = &worker->link.view;
    const wire_welcome *welcome = &worker->link.welcome;
    const compress_form form = {.kind = wire_view_form(welcome)};
    uint64_t pieces = (welcome->parameters + VIEW_PIECE - 1) / VIEW_PIECE;
    if (own->bytes != NULL)
        return true;
    own->bytes = memory_allocate(&worker->allocator, compress_bytes(form, VIEW_PIECE), 1);
    own->digests = memory_allocate(&worker->allocator, pieces, sizeof(*own->digests));
    return own->bytes != NULL && own->digests != NULL;
}

worker_fault tcp_worker_begin_view(tarry_tcp_worker *worker, const view_piece *piece, void **place)
{
    worker_link *link = &worker->link;
    worker_view *own = &link->view;
    const tarry_compress form = wire_view_form(&link->welcome);
    if (form == TARRY_COMPRESS_NONE ||
        view_intake_begin(&own->intake, piece, form, link->welcome.parameters) != TARRY_OK)
        return NOT_HERE;
    float *next = snapshots_begin(&worker->job.snapshots);
    if (next == NULL || !reserve(worker))
        return "out of memory";
    own->place = piece->base == 0 ? (uint8_t *)(next + piece->first) : own->bytes;
    *place = own->place;
    return NULL;
}

worker_fault tcp_worker_add_view(tarry_tcp_worker *worker)
{
    worker_link *link = &worker->link;
    worker_view *own = &link->view;
    snapshots *pool = &worker->job.snapshots;
    snapshot *current = snapshots_hold(pool);
    bool complete = false, good = current != NULL || own->intake.at.base == 0;
    if (good)
        good = view_intake_add(&own->intake, own->place, link->welcome.parameters,
                               current != NULL ? current->parameters : NULL, snapshots_begin(pool),
                               own->digests, &complete) == TARRY_OK;
    snapshots_release(pool, current);
    if (!good)
        return "parameters came about that are not the server's";
    return complete ? tcp_worker_take_parameters(worker, own->intake.at.round) : NULL;
}

void tcp_worker_forget_view(tarry_tcp_worker *worker)
{
    worker_view *own = &worker->link.view;
    memory_release(&worker->allocator, own->digests);
    memory_release(&worker->allocator, own->bytes);
    *own = (worker_view){0};
}
