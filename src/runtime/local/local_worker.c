/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/local/local_worker.h"

#include <assert.h>

/* What workers send has no sets, for which a shape would be needed. */
static const codec_shape NO_SETS;

static void send_message(void *user, const tarry_message *message)
{
    local_worker *worker = user;
    uint8_t frame[CODEC_MOST_WORKER_BYTES];
    size_t size = codec_size(&NO_SETS, message);
    assert(size <= sizeof(frame));
    codec_encode(&NO_SETS, message, frame);
    mailbox_put(&worker->shared->server_inbox, worker->id, frame, size);
}

static void post(void *user, const tarry_message *message, bool more)
{
    (void)more;
    send_message(user, message);
}

/* The decoder reads the numbers where they lie. */
static void post_part(void *user, const tarry_message *message, const executor_stripe *stripe)
{
    (void)stripe;
    send_message(user, message);
}

/* The server reads no part of an attempt that it has withdrawn, nor of a round that is over. */
static void claim(void *user, size_t first, size_t count)
{
    (void)user;
    (void)first;
    (void)count;
}

static void give_up(void *user)
{
    local_worker *worker = user;
    mailbox_put(&worker->shared->server_inbox, worker->id, NULL, 0);
}

static void changed(void *user)
{
    local_worker *worker = user;
    mailbox_wake(&worker->shared->server_inbox);
}

static void broken(void *user, int error)
{
    local_worker *worker = user;
    atomic_store(&worker->error, error);
    give_up(worker);
}

int local_worker_join(local_worker *worker, local_shared *shared, uint32_t id,
                      const local_membership *membership, const tarry_allocator *allocator)
{
    bool bare = membership->replica.parameters == NULL;
    worker->engine = membership->engine;
    int error = snapshots_init(&worker->snapshots, bare ? 1 : membership->parameters, 1, allocator);
    if (error != TARRY_OK)
        return error;
    worker->has_snapshots = true;
    const collective_settings wanted = {
        .worker = id,
        .workers = membership->workers,
        .parts = membership->parts,
        .dimension = membership->dimension,
        .replica = membership->replica,
        .last = membership->last,
        .engine = membership->engine,
        .forms = membership->forms,
        .exchange = local_exchange_of(shared->exchanges, id),
        .snapshots = &worker->snapshots,
        .ended = executor_ended,
        .user = &worker->executor,
    };
    return collective_create(&wanted, allocator, &worker->collective);
}

int local_worker_meet(local_worker *worker, const local_worker *other)
{
    uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST];
    size_t size = 0;
    other->engine->methods->address(other->engine, bytes, &size);
    return collective_meet(worker->collective, other->id, bytes, size);
}

int local_worker_init(local_worker *worker, local_shared *shared, const tarry_plan *plan,
                      uint32_t id, const worker_slate_settings *wanted,
                      const tarry_allocator *allocator)
{
    worker->shared = shared;
    worker->id = id;
    executor_settings settings = shared->executor;
    settings.worker = id;
    settings.collective = worker->collective;
    if (worker->has_snapshots)
        settings.snapshots = &worker->snapshots;
    settings.uplink = (executor_uplink){
        .post = post,
        .post_part = post_part,
        .claim = claim,
        .give_up = give_up,
        .changed = changed,
        .user = worker,
        .broken = broken,
    };
    worker_slate *first;
    int error = worker_slate_create(plan, id, wanted, allocator, &first);
    if (error != TARRY_OK)
        return error;
    error = executor_init(&worker->executor, &settings, first, allocator);
    if (error != TARRY_OK)
        worker_slate_free(first, allocator);
    return error;
}

void local_worker_end(local_worker *worker, const tarry_allocator *allocator)
{
    executor_destroy(&worker->executor, allocator);
    collective_free(worker->collective);
    if (worker->engine != NULL)
        worker->engine->methods->free(worker->engine);
    if (worker->has_snapshots)
        snapshots_destroy(&worker->snapshots);
}
