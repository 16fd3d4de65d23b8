/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <tarry/allocator.h>
#include <tarry/local.h>

#include "base/bitset.h"
#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sized.h"
#include "engine/shared.h"
#include "plan/plan.h"
#include "protocol/form.h"
#include "runtime/clock.h"
#include "runtime/host/runtime.h"
#include "runtime/worker/exchange.h"
#include "runtime/worker/executor.h"
#include "runtime/worker/pass_exchange.h"
#include "straggler/straggler.h"

typedef struct local_exchanges local_exchanges;

/* What all workers share; read-only for them, but for the mailbox and the snapshots. */
typedef struct local_shared {
    snapshots snapshots;        /* where the server has the parameters */
    mailbox inbox;              /* the server's: frames of workers */
    _Atomic bool lost;          /* some worker is: its `lost` */
    local_exchanges *exchanges; /* NULL where the sum is made at the server */
} local_shared;

typedef struct local_worker {
    local_shared *shared;
    uint32_t id;
    executor executor;
    _Atomic bool lost;    /* it gives up, is broken, or there was no memory for a frame */
    _Atomic int error;    /* its replica's: it is broken */
    tarry_engine *engine; /* where everyone gets the sum */
} local_worker;

/* The exchanges of workers that live in one process: a thread carries what they say to each other.
 */

/* A worker; or, behind them, the caller. */
typedef struct local_party {
    local_exchanges *all;
    uint32_t id;
    exchange *exchange;
    _Atomic bool missed; /* something that was said to it: there was no memory */
} local_party;

struct local_exchanges {
    tarry_allocator allocator;
    uint32_t count;
    local_party *parties;
    mailbox
        post; /* what is on its way; a frame's sender is that party times `count`, and to whom */
    bool has_post, carries;
    pthread_t carrier;
};

/* By an exchange. */
static void local_exchanges_pass(void *user, uint32_t to, const void *bytes, size_t size)
{
    const local_party *from = user;
    local_exchanges *all = from->all;
    if (mailbox_put_growing(&all->post, from->id * all->count + to, bytes, size))
        return;
    atomic_store(&all->parties[to].missed, true);
    mailbox_wake(&all->post);
}

/* Who missed a message is gone for those that spoke to it, and they for it. */
static void local_exchanges_lose(const local_exchanges *all)
{
    for (uint32_t one = 0; one < all->count; one++) {
        if (!atomic_exchange(&all->parties[one].missed, false))
            continue;
        for (uint32_t other = 0; other < all->count; other++) {
            pass_exchange_lose(all->parties[one].exchange, other);
            pass_exchange_lose(all->parties[other].exchange, one);
        }
    }
}

static void *local_exchanges_carry(void *user)
{
    local_exchanges *all = user;
    while (!mailbox_closed(&all->post)) {
        size_t count = mailbox_take(&all->post, TARRY_NEVER);
        for (size_t i = 0; i < count; i++) {
            const mailbox_frame frame = mailbox_frame_at(&all->post, i);
            const local_party *to = &all->parties[frame.sender % all->count];
            int error = pass_exchange_take(to->exchange, frame.sender / all->count, frame.bytes,
                                           frame.size);
            assert(error == TARRY_OK);
            (void)error;
        }
        local_exchanges_lose(all);
    }
    return NULL;
}

/* Nobody calls an exchange any more. NULL is allowed. */
static void local_exchanges_free(local_exchanges *self)
{
    if (self == NULL)
        return;
    tarry_allocator allocator = self->allocator;
    if (self->carries) {
        mailbox_close(&self->post);
        pthread_join(self->carrier, NULL);
    }
    for (uint32_t id = 0; self->parties != NULL && id < self->count; id++)
        pass_exchange_free(self->parties[id].exchange);
    if (self->has_post)
        mailbox_destroy(&self->post);
    memory_release(&allocator, self->parties);
    memory_release(&allocator, self);
}

static int local_exchanges_init(local_exchanges *self)
{
    enum { FIRST_FRAMES = 8 };
    self->parties = memory_allocate(&self->allocator, self->count, sizeof(*self->parties));
    if (self->parties == NULL)
        return TARRY_ERROR_NO_MEMORY;
    int error = mailbox_init(&self->post, PASS_MOST_HEAD, FIRST_FRAMES, &self->allocator);
    self->has_post = error == TARRY_OK;
    for (uint32_t id = 0; id < self->count && error == TARRY_OK; id++) {
        local_party *party = &self->parties[id];
        party->all = self;
        party->id = id;
        const pass_exchange_settings wanted = {
            .parties = self->count, .pass = local_exchanges_pass, .user = party, .unchecked = true};
        error = pass_exchange_create(&wanted, &self->allocator, &party->exchange);
    }
    if (error != TARRY_OK)
        return error;
    self->carries = pthread_create(&self->carrier, NULL, local_exchanges_carry, self) == 0;
    return self->carries ? TARRY_OK : TARRY_ERROR_SYSTEM;
}

/* Errors: NO_MEMORY, SYSTEM. */
static int local_exchanges_create(uint32_t parties, const tarry_allocator *allocator,
                                  local_exchanges **made)
{
    /* Of more, what all know of each other would not fit into memory, either. */
    local_exchanges *self =
        parties <= UINT16_MAX ? memory_allocate(allocator, 1, sizeof(*self)) : NULL;
    if (self == NULL)
        return TARRY_ERROR_NO_MEMORY;
    self->allocator = memory_allocator(allocator);
    self->count = parties;
    int error = local_exchanges_init(self);
    if (error != TARRY_OK) {
        local_exchanges_free(self);
        return error;
    }
    *made = self;
    return TARRY_OK;
}

static exchange *local_exchange_of(local_exchanges *self, uint32_t party)
{
    return self->parties[party].exchange;
}

/* One worker of the embedded runtime: an executor whose messages go into the server's inbox. */

/* What workers send has no sets, for which a shape would be needed. */
static const codec_shape NO_SETS;

static void give_up(void *user)
{
    local_worker *worker = user;
    atomic_store(&worker->lost, true);
    atomic_store(&worker->shared->lost, true);
    mailbox_wake(&worker->shared->inbox);
}

/* It does not wait for the server, which may be waiting for the worker (executor_turn). */
static void send_to_server(void *user, const tarry_message *message)
{
    local_worker *worker = user;
    uint8_t frame[CODEC_MOST_WORKER_BYTES];
    size_t size = codec_size(&NO_SETS, message);
    assert(size <= sizeof(frame));
    codec_encode(&NO_SETS, message, frame);
    if (!mailbox_put_growing(&worker->shared->inbox, worker->id, frame, size))
        give_up(worker);
}

static void post(void *user, const tarry_message *message, bool more)
{
    (void)more;
    send_to_server(user, message);
}

/* The decoder reads the numbers where they lie. */
static void post_part(void *user, const tarry_message *message, const executor_stripe *part)
{
    (void)part;
    send_to_server(user, message);
}

/* The server reads no part of an attempt that it has withdrawn, nor of a round that is over. */
static void claim(void *user, size_t first, size_t count)
{
    (void)user;
    (void)first;
    (void)count;
}

static void broken(void *user, int error)
{
    local_worker *worker = user;
    atomic_store(&worker->error, error);
    give_up(worker);
}

/* Tells the worker how the other one's engine is reached. Errors: NO_MEMORY. */
static int local_worker_meet(local_worker *worker, const local_worker *other)
{
    uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST];
    size_t size = 0;
    other->engine->methods->address(other->engine, bytes, &size);
    return collective_meet(worker->executor.collective, other->id, bytes, size);
}

/* ---- local ---- */

typedef struct local_runtime {
    tarry_runtime base;
    tarry_allocator allocator;
    tarry_local_settings settings;
    bool everywhere; /* everyone gets the sum */
    local_shared shared;
    bool has_snapshots, has_inbox; /* of shared: made */
    int broken;                    /* what a replica gave: the runtime can't go on */
    local_worker *workers;
    segment_pool *segments; /* of the workers' own engines; NULL: the settings make engines */
    stripe *stripes;        /* per worker and stripe: how the host is told where its numbers lie */
    uint64_t *returned;     /* a bit per worker: gave up, or was heard of after it was given up */
    _Atomic bool interrupted;
} local_runtime;

static local_runtime *local_of(tarry_runtime *runtime)
{
    return (local_runtime *)runtime;
}

void tarry_local_settings_init_sized(tarry_local_settings *settings, size_t size)
{
    if (!sized_begin(settings, size, sizeof(*settings)))
        return;
    tarry_server_settings_init(&settings->server);
    settings->server.stripe_length = 0;
}

static uint32_t workers_of(const local_runtime *local)
{
    return local->base.host->plan->workers;
}

static int allocate(local_runtime *local)
{
    const tarry_allocator *allocator = &local->allocator;
    size_t workers = workers_of(local), parts = workers * local->base.host->cut.stripes;
    local->workers = memory_allocate(allocator, workers, sizeof(*local->workers));
    local->stripes = memory_allocate(allocator, parts, sizeof(*local->stripes));
    local->returned = memory_allocate(allocator, bitset_words(workers), sizeof(uint64_t));
    return local->workers == NULL || local->stripes == NULL || local->returned == NULL
               ? TARRY_ERROR_NO_MEMORY
               : TARRY_OK;
}

/* What the workers share. The inbox has room for all that a round usually brings. */
static int init_shared(local_runtime *local)
{
    const tarry_plan *plan = local->base.host->plan;
    local_shared *shared = &local->shared;
    int error = local->everywhere ? local_exchanges_create(plan->workers + 1, &local->allocator,
                                                           &shared->exchanges)
                                  : snapshots_init(&shared->snapshots, local->base.host->numbers,
                                                   2 * (size_t)plan->workers, &local->allocator);
    if (error != TARRY_OK)
        return error;
    local->has_snapshots = !local->everywhere;
    size_t frames =
        (size_t)plan->workers * (8 + 2 * (size_t)local->base.host->cut.stripes) + plan_edges(plan);
    size_t longest = local->everywhere ? CODEC_MOST_WORKER_BYTES : CODEC_MOST_REPORT_BYTES;
    error = mailbox_init(&shared->inbox, longest, frames, &local->allocator);
    if (error != TARRY_OK)
        return error;
    local->has_inbox = true;
    return TARRY_OK;
}

static int make_engine(const local_runtime *local, uint32_t worker, tarry_engine **made)
{
    const tarry_local_settings *settings = &local->settings;
    return settings->engine != NULL
               ? settings->engine(settings->engine_user, worker, made)
               : shared_engine_create(0, local->segments, &local->allocator, made, NULL);
}

/* Takes all the worker's memory; starts nothing. Errors: as tarry_local_create. */
static int init_worker(local_runtime *local, uint32_t id)
{
    const tarry_local_settings *settings = &local->settings;
    local_worker *worker = &local->workers[id];
    executor_among among = {0};
    int error = TARRY_OK;
    worker->shared = &local->shared;
    worker->id = id;
    if (local->everywhere) {
        error = make_engine(local, id, &worker->engine);
        among = (executor_among){
            .replica = settings->replicas[id],
            .last = settings->last != NULL ? settings->last[id] : (tarry_sum_id){0},
            .engine = worker->engine,
            .exchange = local_exchange_of(local->shared.exchanges, id),
        };
    }
    const executor_settings wanted = {
        .worker = id,
        .straggler = settings->straggler,
        .compute = settings->compute,
        .user = settings->user,
        .parameters = local->base.host->numbers,
        .snapshots = local->everywhere ? NULL : &local->shared.snapshots,
        .among = local->everywhere ? &among : NULL,
        .uplink = {.post = post,
                   .post_part = post_part,
                   .claim = claim,
                   .give_up = give_up,
                   .broken = broken,
                   .user = worker},
    };
    return error == TARRY_OK ? executor_init(&worker->executor, &wanted, local->base.host->plan,
                                             &local->base.host->settings.server, &local->allocator)
                             : error;
}

static int introduce_workers(local_runtime *local)
{
    int error = TARRY_OK;
    for (uint32_t worker = 0; worker < workers_of(local); worker++)
        for (uint32_t other = 0; other < workers_of(local) && error == TARRY_OK; other++)
            if (other != worker)
                error = local_worker_meet(&local->workers[worker], &local->workers[other]);
    return error;
}

static int init_workers(local_runtime *local)
{
    int error = TARRY_OK;
    if (local->everywhere && local->settings.engine == NULL)
        error = segment_pool_create(workers_of(local), &local->allocator, &local->segments);
    for (uint32_t worker = 0; worker < workers_of(local) && error == TARRY_OK; worker++)
        error = init_worker(local, worker);
    return error == TARRY_OK && local->everywhere ? introduce_workers(local) : error;
}

/* Those that never answer have no threads: what is sent to them is lost. */
static int start_workers(local_runtime *local)
{
    int error = TARRY_OK;
    for (uint32_t worker = 0; worker < workers_of(local) && error == TARRY_OK; worker++) {
        error = executor_start(&local->workers[worker].executor);
        host_join(local->base.host, worker);
    }
    return error;
}

/*
 * A restored server wants a checkpoint of itself to be kept before it goes on, since messages of
 * its life so far may still be on their way. Here none outlived the workers' threads: it is
 * dropped.
 */
static int drop_checkpoint(local_runtime *local)
{
    tarry_server *server = local->base.host->machine;
    if (local->settings.checkpoint == NULL)
        return TARRY_OK;
    local->settings.checkpoint = NULL; /* the caller's */
    uint8_t *bytes = memory_allocate(&local->allocator, tarry_server_checkpoint_size(server), 1);
    int error = bytes == NULL ? TARRY_ERROR_NO_MEMORY : tarry_server_checkpoint(server, bytes);
    if (error == TARRY_OK)
        tarry_server_stored(server, bytes);
    memory_release(&local->allocator, bytes);
    return error;
}

static int send_to_worker(void *user, uint32_t id, const tarry_message *message, uint8_t *frame,
                          size_t size)
{
    const local_runtime *local = user;
    executor *worker = &local->workers[id].executor;
    (void)message;
    return worker->talking ? executor_deliver(worker, frame, size) : TARRY_OK;
}

/*
 * A thread of this process cannot be gone, however long it takes to answer: it may be busy copying
 * a large vector. Workers that never answer have no thread, and are found silent.
 */
static bool is_thread(void *user, uint32_t id)
{
    const local_runtime *local = user;
    return local->workers[id].executor.talking;
}

/* The stripe can be used for another part. */
static void release_stripe(void *user, stripe *item)
{
    (void)user;
    item->numbers = NULL;
}

static int create_host(local_runtime *local, const tarry_plan *plan, tarry_diagnostic *diagnostic)
{
    const tarry_local_settings *settings = &local->settings;
    host_settings wanted = {
        .name = "local runtime",
        .server = settings->server,
        .checkpoint = settings->checkpoint,
        .checkpoint_size = settings->checkpoint_size,
        .log = settings->log,
        .parameters = settings->parameters,
        .seen = settings->view,
        .transport = {.user = local,
                      .send = send_to_worker,
                      .is_there = is_thread,
                      .released = release_stripe},
    };
    wanted.server.dimension = settings->dimension;
    return host_create(plan, &wanted, &local->allocator, &local->base.host, diagnostic);
}

static int create_workers(local_runtime *local, tarry_diagnostic *diagnostic)
{
    int error = allocate(local);
    if (error == TARRY_OK)
        error = init_shared(local);
    if (error == TARRY_OK)
        error = drop_checkpoint(local);
    if (error == TARRY_OK)
        error = init_workers(local);
    if (error == TARRY_OK)
        error = start_workers(local);
    if (error != TARRY_OK)
        diagnose(diagnostic, error, "local runtime with %u workers: %s", workers_of(local),
                 tarry_error_text(error));
    return error;
}

/* The numbers of a part stay where they are until the host is done with them. */
static stripe *find_stripe(const local_runtime *local, uint32_t worker,
                           const tarry_message *message)
{
    const host *core = local->base.host;
    layout cut;
    if (message->type != TARRY_MESSAGE_PART || !host_wants(core, worker, message) ||
        !host_find_cut(core, message, &cut))
        return NULL;
    stripe *item = &local->stripes[(size_t)worker * core->cut.stripes + message->stripe];
    assert(item->numbers == NULL);
    item->owner = local->stripes;
    item->numbers =
        worker_slate_stripe(local->workers[worker].executor.slate, &cut, message->stripe);
    host_label(item, worker, message);
    return item;
}

/* Its machine could not take a step; in another round it may. */
static void lose_worker(local_runtime *local, uint32_t worker)
{
    int broken = atomic_load(&local->workers[worker].error);
    if (broken == TARRY_OK)
        bitset_set(local->returned, worker);
    else
        local->broken = broken;
    host_lose(local->base.host, worker);
    if (broken != TARRY_OK)
        host_fail(local->base.host, broken);
}

static void take_frame(local_runtime *local, const mailbox_frame *frame)
{
    uint32_t worker = frame->sender;
    tarry_message message;
    bool good = host_decode(frame->bytes, frame->size, &message);
    assert(good);
    (void)good;
    const tarry_reject *reject =
        host_receive(local->base.host, worker, &message, find_stripe(local, worker, &message));
    /* Threads don't come back from the dead: this one had only been slow to answer. */
    if (reject != NULL && *reject == TARRY_REJECT_UNKNOWN)
        bitset_set(local->returned, worker);
}

static size_t take_frames(local_runtime *local, uint64_t until_ns)
{
    mailbox *inbox = &local->shared.inbox;
    size_t count = mailbox_take(inbox, until_ns);
    for (size_t i = 0; i < count; i++) {
        mailbox_frame frame = mailbox_frame_at(inbox, i);
        take_frame(local, &frame);
    }
    if (atomic_exchange(&local->shared.lost, false))
        for (uint32_t worker = 0; worker < workers_of(local); worker++)
            if (atomic_exchange(&local->workers[worker].lost, false))
                lose_worker(local, worker);
    return count;
}

/* Waits for messages until the server wants to look at the clock, or until_ns, and lets it act on
 * what came. */
static void run_once(local_runtime *local, uint64_t until_ns)
{
    host *core = local->base.host;
    uint64_t due = host_deadline(core);
    if (core->round.running && atomic_load(&local->interrupted))
        host_step(core, &(tarry_event){.type = TARRY_EVENT_ABORT});
    else if (take_frames(local, due < until_ns ? due : until_ns) == 0)
        host_step(core, &(tarry_event){.type = TARRY_EVENT_TIME});
    host_turn(core);
}

/* All are there from the start, but not all may have stepped on the last sum. */
static int wait_for_workers(tarry_runtime *runtime, uint32_t workers, uint64_t wait_ns,
                            tarry_diagnostic *diagnostic)
{
    local_runtime *local = local_of(runtime);
    uint64_t until = clock_from_now(wait_ns);
    while (local->everywhere && tarry_server_count_ready(local->base.host->machine) < workers) {
        if (atomic_exchange(&local->interrupted, false))
            return diagnose(diagnostic, TARRY_ERROR_INTERRUPTED,
                            "interrupted while waiting for %u workers", workers);
        if (clock_now_ns() >= until)
            return diagnose(diagnostic, TARRY_ERROR_STATE,
                            "waited %.3g s for %u workers to have the last sum",
                            (double)wait_ns / 1e9, workers);
        run_once(local, until);
    }
    return TARRY_OK;
}

static int begin(local_runtime *local, const float *parameters, float *sum)
{
    host *core = local->base.host;
    for (uint32_t worker = 0; worker < workers_of(local); worker++) {
        if (!bitset_test(local->returned, worker))
            continue;
        bitset_reset(local->returned, worker);
        host_join(core, worker);
    }
    int error = local->broken;
    if (error == TARRY_OK && !local->everywhere)
        error = snapshots_publish(&local->shared.snapshots, tarry_server_round(core->machine),
                                  host_see(core, parameters));
    if (error != TARRY_OK)
        return error;
    host_begin(core, sum);
    host_turn(core);
    return TARRY_OK;
}

static int run_round(tarry_runtime *runtime, const float *parameters, float *sum,
                     tarry_round_result *result, tarry_diagnostic *diagnostic)
{
    local_runtime *local = local_of(runtime);
    int error = begin(local, parameters, sum);
    if (error != TARRY_OK)
        return diagnose(diagnostic, error, "round %llu: %s",
                        (unsigned long long)tarry_server_round(local->base.host->machine),
                        tarry_error_text(error));
    while (local->base.host->round.running)
        run_once(local, TARRY_NEVER);
    error = host_finish(local->base.host, result, diagnostic);
    if (error == TARRY_ERROR_INTERRUPTED)
        atomic_store(&local->interrupted, false);
    return error;
}

/* ---- another plan ---- */

/* What is in the inbox was said of the plan before: it tells the next server no more than who gives
 * up. */
static int replan(tarry_runtime *runtime, const tarry_plan *next, tarry_diagnostic *diagnostic)
{
    local_runtime *local = local_of(runtime);
    const tarry_server_settings *server = &local->base.host->settings.server;
    int error = host_check_plan(local->base.host, next, diagnostic);
    if (error != TARRY_OK)
        return error;
    for (uint32_t worker = 0; worker < workers_of(local); worker++)
        if (executor_prepare(&local->workers[worker].executor, next, server) != TARRY_OK)
            return diagnose_no_memory(diagnostic, "local runtime");
    error = host_replan(local->base.host, next, diagnostic);
    for (uint32_t worker = 0; worker < workers_of(local) && error == TARRY_OK; worker++)
        executor_turn(&local->workers[worker].executor);
    return error;
}

int tarry_local_take(tarry_runtime *runtime, uint32_t worker, uint64_t wait_ns,
                     const tarry_task **task)
{
    local_runtime *local = local_of(runtime);
    assert(worker < workers_of(local) && local->settings.compute == NULL);
    return executor_take(&local->workers[worker].executor, clock_from_now(wait_ns), task);
}

void tarry_local_dismiss(tarry_runtime *runtime)
{
    local_runtime *local = local_of(runtime);
    for (uint32_t worker = 0; worker < workers_of(local); worker++)
        executor_close(&local->workers[worker].executor);
}

static void interrupt(tarry_runtime *runtime)
{
    local_runtime *local = local_of(runtime);
    atomic_store(&local->interrupted, true);
    mailbox_wake(&local->shared.inbox);
}

/* The caller's thread has the exchange behind those of the workers. NULL: the worker serves nobody.
 */
static exchange *reach(tarry_runtime *runtime, uint32_t worker)
{
    const local_runtime *local = local_of(runtime);
    return local->workers[worker].executor.talking
               ? local_exchange_of(local->shared.exchanges, workers_of(local))
               : NULL;
}

static void listen(tarry_runtime *runtime, uint64_t until_ns)
{
    run_once(local_of(runtime), until_ns);
}

static void describe(tarry_runtime *runtime, uint32_t worker, tarry_worker_state *state)
{
    local_runtime *local = local_of(runtime);
    state->seconds = (double)atomic_load(&local->workers[worker].executor.busy_ns) / 1e9;
}

static void release(tarry_runtime *runtime, bool finished)
{
    (void)finished;
    local_runtime *local = local_of(runtime);
    tarry_allocator allocator = local->allocator;
    uint32_t workers = local->workers != NULL ? workers_of(local) : 0;
    for (uint32_t worker = 0; worker < workers; worker++)
        executor_close(&local->workers[worker].executor);
    if (local->has_inbox)
        mailbox_close(&local->shared.inbox);
    /* Workers read what others have until none of them runs. */
    for (uint32_t worker = 0; worker < workers; worker++)
        executor_join(&local->workers[worker].executor);
    for (uint32_t worker = 0; worker < workers; worker++) {
        executor_destroy(&local->workers[worker].executor);
        if (local->workers[worker].engine != NULL)
            local->workers[worker].engine->methods->free(local->workers[worker].engine);
    }
    segment_pool_free(local->segments);
    local_exchanges_free(local->shared.exchanges);
    if (local->has_inbox)
        mailbox_destroy(&local->shared.inbox);
    if (local->has_snapshots)
        snapshots_destroy(&local->shared.snapshots);
    host_free(local->base.host);
    memory_release(&allocator, local->returned);
    memory_release(&allocator, local->stripes);
    memory_release(&allocator, local->workers);
    memory_release(&allocator, local);
}

static const runtime_methods methods = {
    .wait = wait_for_workers,
    .round = run_round,
    .replan = replan,
    .reach = reach,
    .listen = listen,
    .interrupt = interrupt,
    .describe = describe,
    .free = release,
};

int tarry_local_create(const tarry_plan *plan, const tarry_local_settings *settings,
                       const tarry_allocator *allocator, tarry_runtime **local,
                       tarry_diagnostic *diagnostic)
{
    int error = sized_check(settings->size, sizeof(*settings), "local runtime", diagnostic);
    if (error != TARRY_OK)
        return error;
    bool everywhere = settings->server.sum == TARRY_SUM_EVERYWHERE;
    if (settings->parameters == 0 || settings->dimension == 0)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "local runtime: parameters and dimension must be set");
    if (everywhere && settings->replicas == NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "local runtime: where everyone gets the sum, each worker needs a replica");
    for (uint32_t worker = 0; everywhere && worker < plan->workers; worker++)
        if (settings->compute != NULL && settings->replicas[worker].step == NULL)
            return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                            "local runtime: steps are only taken where tasks are, too");
    const char *mortal = straggler_mortal_term(settings->straggler);
    if (mortal != NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "straggler term '%s' is for tarry simulate", mortal);
    local_runtime *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "local runtime");
    made->base.methods = &methods;
    made->allocator = memory_allocator(allocator);
    made->settings = *settings;
    made->everywhere = everywhere;
    error = create_host(made, plan, diagnostic);
    if (error == TARRY_OK)
        error = create_workers(made, diagnostic);
    if (error != TARRY_OK) {
        release(&made->base, true);
        return error;
    }
    *local = &made->base;
    return TARRY_OK;
}
