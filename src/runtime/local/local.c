/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport in memory: a server_host and tarry_worker_hosts in one process. Frames go through
 * mailboxes; parts are decoded where they lie; and where the server has the parameters, all
 * workers read one snapshot of them.
 */
#include <tarry/local.h>

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include <tarry/allocator.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sized.h"
#include "engine/shared.h"
#include "plan/plan.h"
#include "runtime/clock.h"
#include "runtime/host/server_host.h"
#include "runtime/worker/executor.h"
#include "runtime/worker/mailbox.h"
#include "straggler/straggler.h"

typedef struct local_runtime local_runtime;

typedef struct local_worker {
    local_runtime *local;
    uint32_t id;
    tarry_worker_host *host;
    tarry_engine *engine; /* where everyone gets the sum */
    _Atomic bool lost;    /* it gives up, is broken, or a frame of it found no memory */
    _Atomic int error;    /* its replica's: it is broken */
    bool returned;        /* the server's: it gave up, or was heard of after it was given up */
} local_worker;

struct local_runtime {
    server_host base;
    tarry_local_settings settings;
    bool everywhere;     /* everyone gets the sum */
    snapshots snapshots; /* where the server has the parameters */
    mailbox inbox;       /* the server's: letters of workers */
    _Atomic bool lost;   /* some worker is: its `lost` */
    int broken;          /* what a replica gave: the runtime can't go on */
    local_worker *workers;
    segment_pool *segments; /* of the workers' own engines; NULL: the settings make engines */
    stripe *stripes;        /* per worker and stripe: how the host is told where its numbers lie */
    bool has_snapshots, has_inbox; /* made */
    /* Where everyone gets the sum: a thread carries what workers, and the caller behind them, pass
     * to each other. A frame's sender is who passed it times the parties, plus to whom. */
    mailbox post;
    _Atomic bool *missed; /* per party: something that was passed to it found no memory */
    bool has_post, carries;
    pthread_t carrier;
};

/* A frame of a worker, and where its numbers lie. */
typedef struct local_letter {
    const void *numbers;
    uint8_t frame[CODEC_MOST_WORKER_BYTES];
} local_letter;

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

static host *host_of(const local_runtime *local)
{
    return local->base.base.host;
}

static uint32_t workers_of(const local_runtime *local)
{
    return host_of(local)->plan->workers;
}

/* NULL: the worker was not made. */
static executor *executor_of(const local_runtime *local, uint32_t worker)
{
    tarry_worker_host *made = local->workers[worker].host;
    return made != NULL ? worker_host_executor(made) : NULL;
}

/* ---- what workers say to the server ---- */

static void give_up(void *user)
{
    local_worker *worker = user;
    atomic_store(&worker->lost, true);
    atomic_store(&worker->local->lost, true);
    mailbox_wake(&worker->local->inbox);
}

static void broken(void *user, int error)
{
    local_worker *worker = user;
    atomic_store(&worker->error, error);
    give_up(worker);
}

/* It does not wait for the server, which may be waiting for the worker (executor_turn). */
static void send_up(void *user, const void *frame, size_t size, const float *numbers, size_t count)
{
    (void)count;
    local_worker *worker = user;
    local_letter letter = {.numbers = numbers};
    assert(size <= sizeof(letter.frame));
    memcpy(letter.frame, frame, size);
    if (!mailbox_put(&worker->local->inbox, worker->id, &letter,
                     offsetof(local_letter, frame) + size))
        give_up(worker);
}

/* The numbers of a part stay where they are until the host is done with them. */
static stripe *find_stripe(const local_runtime *local, uint32_t worker,
                           const tarry_message *message, const void *numbers)
{
    const host *core = host_of(local);
    layout cut;
    if (message->type != TARRY_MESSAGE_PART || !host_wants(core, worker, message) ||
        !host_find_cut(core, message, &cut))
        return NULL;
    stripe *item = &local->stripes[(size_t)worker * core->cut.stripes + message->stripe];
    assert(item->numbers == NULL);
    item->owner = local->stripes;
    item->numbers = (void *)numbers;
    host_label(item, worker, message);
    return item;
}

/* host_transport.released: the stripe can be used for another part. */
static void release_stripe(void *user, stripe *item)
{
    (void)user;
    item->numbers = NULL;
}

static void take_letter(local_runtime *local, uint32_t worker, const uint8_t *bytes, size_t size)
{
    const size_t head = offsetof(local_letter, frame);
    const void *numbers;
    tarry_message message;
    memcpy(&numbers, bytes, sizeof(numbers));
    bool good = host_decode(bytes + head, size - head, &message);
    assert(good);
    (void)good;
    const tarry_reject *reject = host_receive(host_of(local), worker, &message,
                                              find_stripe(local, worker, &message, numbers));
    /* Threads don't come back from the dead: this one had only been slow to answer. */
    if (reject != NULL && *reject == TARRY_REJECT_UNKNOWN)
        local->workers[worker].returned = true;
}

/* Its machine could not take a step; in another round it may. */
static void lose_worker(local_runtime *local, uint32_t worker)
{
    int broken = atomic_load(&local->workers[worker].error);
    if (broken == TARRY_OK)
        local->workers[worker].returned = true;
    else
        local->broken = broken;
    tarry_host_lose(&local->base.base, worker);
    if (broken != TARRY_OK)
        host_fail(host_of(local), broken);
}

/* ---- the transport ---- */

static void receive(void *user, tarry_runtime *runtime, uint64_t until_ns)
{
    (void)runtime;
    local_runtime *local = user;
    size_t count = mailbox_take(&local->inbox, until_ns);
    for (size_t i = 0; i < count; i++) {
        mailbox_frame frame = mailbox_frame_at(&local->inbox, i);
        take_letter(local, frame.sender, frame.bytes, frame.size);
    }
    if (atomic_exchange(&local->lost, false))
        for (uint32_t worker = 0; worker < workers_of(local); worker++)
            if (atomic_exchange(&local->workers[worker].lost, false))
                lose_worker(local, worker);
}

/* Parameters are read where the server has published them. What is sent to those that have no
 * threads, and never answer, is lost. */
static int send_down(void *user, uint32_t worker, const void *frame, size_t size,
                     const float *numbers, size_t count)
{
    (void)numbers;
    (void)count;
    executor *its = executor_of(user, worker);
    return its->talking ? executor_deliver(its, frame, size) : TARRY_OK;
}

static void wake(void *user)
{
    local_runtime *local = user;
    mailbox_wake(&local->inbox);
}

/*
 * host_transport.is_there: a thread of this process cannot be gone, however long it takes to
 * answer: it may be busy copying a large vector. Workers that never answer have no thread, and are
 * found silent.
 */
static bool is_thread(void *user, uint32_t worker)
{
    return executor_of(user, worker)->talking;
}

/* ---- what workers, and the server, pass to each other ---- */

static uint32_t party_of(const local_runtime *local, uint32_t worker)
{
    return worker == TARRY_NO_WORKER ? workers_of(local) : worker;
}

/* The carrier may not be there yet, but the mailbox is. */
static void post(local_runtime *local, uint32_t from, uint32_t to, const void *bytes, size_t size)
{
    const uint32_t parties = workers_of(local) + 1;
    if (mailbox_put(&local->post, from * parties + to, bytes, size))
        return;
    atomic_store(&local->missed[to], true);
    mailbox_wake(&local->post);
}

static void pass_on(void *user, uint32_t to, const void *bytes, size_t size)
{
    const local_worker *from = user;
    post(from->local, from->id, party_of(from->local, to), bytes, size);
}

static void pass_down(void *user, uint32_t worker, const void *bytes, size_t size)
{
    post(user, workers_of(user), worker, bytes, size);
}

static void lose_party(local_runtime *local, uint32_t party, uint32_t other)
{
    const uint32_t server = workers_of(local);
    if (party != other && party == server)
        exchange_lose(local->base.others, other, "is gone");
    else if (party != other)
        tarry_worker_host_part(local->workers[party].host,
                               other == server ? TARRY_NO_WORKER : other);
}

/* Who missed a message is gone for those that spoke to it, and they for it. */
static void lose_missed(local_runtime *local)
{
    for (uint32_t one = 0; one <= workers_of(local); one++) {
        if (!atomic_exchange(&local->missed[one], false))
            continue;
        for (uint32_t other = 0; other <= workers_of(local); other++) {
            lose_party(local, one, other);
            lose_party(local, other, one);
        }
    }
}

static void *carry(void *user)
{
    local_runtime *local = user;
    const uint32_t server = workers_of(local);
    while (!mailbox_closed(&local->post)) {
        size_t count = mailbox_take(&local->post, TARRY_NEVER);
        for (size_t i = 0; i < count; i++) {
            const mailbox_frame frame = mailbox_frame_at(&local->post, i);
            const uint32_t from = frame.sender / (server + 1), to = frame.sender % (server + 1);
            int error = to == server
                            ? tarry_host_passed(&local->base.base, from, frame.bytes, frame.size)
                            : tarry_worker_host_passed(local->workers[to].host,
                                                       from == server ? TARRY_NO_WORKER : from,
                                                       frame.bytes, frame.size);
            assert(error == TARRY_OK);
            (void)error;
        }
        lose_missed(local);
    }
    return NULL;
}

/* ---- the runtime's methods ---- */

/* All are there from the start, but not all may have stepped on the last sum. */
static int wait_for_workers(tarry_runtime *runtime, uint32_t workers, uint64_t until_ns)
{
    return local_of(runtime)->everywhere ? server_host_wait(runtime, workers, until_ns) : TARRY_OK;
}

static int run_round(tarry_runtime *runtime, const float *parameters, float *sum,
                     tarry_round_result *result, tarry_diagnostic *diagnostic)
{
    local_runtime *local = local_of(runtime);
    const uint64_t round = tarry_server_round(runtime->host->machine);
    for (uint32_t worker = 0; worker < workers_of(local); worker++) {
        if (local->workers[worker].returned)
            tarry_host_join(runtime, worker);
        local->workers[worker].returned = false;
    }
    int error = local->broken;
    if (error == TARRY_OK && !local->everywhere)
        error = snapshots_publish(&local->snapshots, round, host_see(runtime->host, parameters));
    return error == TARRY_OK ? server_host_round(runtime, parameters, sum, result, diagnostic)
                             : diagnose(diagnostic, error, "round %llu: %s",
                                        (unsigned long long)round, tarry_error_text(error));
}

/* What is in the inbox was said of the plan before: it tells the next server no more than who gives
 * up. */
static int replan(tarry_runtime *runtime, const tarry_plan *next, tarry_diagnostic *diagnostic)
{
    const local_runtime *local = local_of(runtime);
    const tarry_server_settings *server = &runtime->host->settings.server;
    int error = host_check_plan(runtime->host, next, diagnostic);
    if (error != TARRY_OK)
        return error;
    for (uint32_t worker = 0; worker < workers_of(local); worker++)
        if (executor_prepare(executor_of(local, worker), next, server) != TARRY_OK)
            return diagnose_no_memory(diagnostic, "local runtime");
    error = host_replan(runtime->host, next, diagnostic);
    for (uint32_t worker = 0; worker < workers_of(local) && error == TARRY_OK; worker++)
        executor_turn(executor_of(local, worker));
    return error;
}

/* NULL: the worker serves nobody. */
static exchange *reach(tarry_runtime *runtime, uint32_t worker)
{
    return executor_of(local_of(runtime), worker)->talking ? server_host_reach(runtime, worker)
                                                           : NULL;
}

static void describe(tarry_runtime *runtime, uint32_t worker, tarry_worker_state *state)
{
    state->seconds = (double)atomic_load(&executor_of(local_of(runtime), worker)->busy_ns) / 1e9;
}

int tarry_local_take(tarry_runtime *runtime, uint32_t worker, uint64_t wait_ns,
                     const tarry_task **task)
{
    const local_runtime *local = local_of(runtime);
    assert(worker < workers_of(local) && local->settings.compute == NULL);
    return executor_take(executor_of(local, worker), clock_from_now(wait_ns), task);
}

void tarry_local_dismiss(tarry_runtime *runtime)
{
    const local_runtime *local = local_of(runtime);
    for (uint32_t worker = 0; worker < workers_of(local); worker++)
        if (executor_of(local, worker) != NULL)
            executor_close(executor_of(local, worker));
}

static void release(tarry_runtime *runtime, bool finished)
{
    (void)finished;
    local_runtime *local = local_of(runtime);
    tarry_allocator allocator = local->base.allocator;
    uint32_t workers = local->workers != NULL ? workers_of(local) : 0;
    if (workers > 0)
        tarry_local_dismiss(runtime);
    /* Workers read what others have until none of them runs. */
    for (uint32_t worker = 0; worker < workers; worker++)
        if (executor_of(local, worker) != NULL)
            executor_join(executor_of(local, worker));
    if (local->carries) {
        mailbox_close(&local->post);
        pthread_join(local->carrier, NULL);
    }
    for (uint32_t worker = 0; worker < workers; worker++) {
        tarry_worker_host_free(local->workers[worker].host);
        if (local->workers[worker].engine != NULL)
            local->workers[worker].engine->methods->free(local->workers[worker].engine);
    }
    segment_pool_free(local->segments);
    server_host_end(&local->base);
    if (local->has_post)
        mailbox_destroy(&local->post);
    if (local->has_inbox)
        mailbox_destroy(&local->inbox);
    if (local->has_snapshots)
        snapshots_destroy(&local->snapshots);
    memory_release(&allocator, local->missed);
    memory_release(&allocator, local->stripes);
    memory_release(&allocator, local->workers);
    memory_release(&allocator, local);
}

static const runtime_methods methods = {
    .wait = wait_for_workers,
    .round = run_round,
    .replan = replan,
    .reach = reach,
    .listen = server_host_listen,
    .wake = server_host_wake,
    .describe = describe,
    .free = release,
};

/* ---- creation ---- */

static int allocate(local_runtime *local)
{
    const tarry_allocator *allocator = &local->base.allocator;
    size_t workers = workers_of(local), parts = workers * host_of(local)->cut.stripes;
    local->workers = memory_allocate(allocator, workers, sizeof(*local->workers));
    local->stripes = memory_allocate(allocator, parts, sizeof(*local->stripes));
    local->missed = memory_allocate(allocator, workers + 1, sizeof(*local->missed));
    return local->workers == NULL || local->stripes == NULL || local->missed == NULL
               ? TARRY_ERROR_NO_MEMORY
               : TARRY_OK;
}

/* The inbox has room for all that a round usually brings. */
static int init_mailboxes(local_runtime *local)
{
    enum { FIRST_PASSED = 8 };
    const host *core = host_of(local);
    const tarry_allocator *allocator = &local->base.allocator;
    size_t frames =
        (size_t)core->plan->workers * (8 + 2 * (size_t)core->cut.stripes) + plan_edges(core->plan);
    size_t longest = offsetof(local_letter, frame) +
                     (local->everywhere ? CODEC_MOST_WORKER_BYTES : CODEC_MOST_REPORT_BYTES);
    int error = mailbox_init(&local->inbox, longest, frames, allocator);
    local->has_inbox = error == TARRY_OK;
    if (error != TARRY_OK || !local->everywhere)
        return error;
    if (core->plan->workers >= UINT16_MAX)
        return TARRY_ERROR_NO_MEMORY; /* nor would what all know of each other fit into it */
    error = mailbox_init(&local->post, WIRE_PASS_BYTES, FIRST_PASSED, allocator);
    local->has_post = error == TARRY_OK;
    return error;
}

/*
 * A restored server wants a checkpoint of itself to be kept before it goes on, since messages of
 * its life so far may still be on their way. Here none outlived the workers' threads: it is
 * dropped.
 */
static int drop_checkpoint(local_runtime *local)
{
    const tarry_allocator *allocator = &local->base.allocator;
    tarry_server *server = host_of(local)->machine;
    if (local->settings.checkpoint == NULL)
        return TARRY_OK;
    local->settings.checkpoint = NULL; /* the caller's */
    uint8_t *bytes = memory_allocate(allocator, tarry_server_checkpoint_size(server), 1);
    int error = bytes == NULL ? TARRY_ERROR_NO_MEMORY : tarry_server_checkpoint(server, bytes);
    if (error == TARRY_OK)
        tarry_server_stored(server, bytes);
    memory_release(allocator, bytes);
    return error;
}

static int compute(void *user, const tarry_task *task)
{
    const tarry_local_settings *settings = &((const local_worker *)user)->local->settings;
    return settings->compute(settings->user, task);
}

static int make_engine(const local_runtime *local, uint32_t worker, tarry_engine **made)
{
    const tarry_local_settings *settings = &local->settings;
    return settings->engine != NULL
               ? settings->engine(settings->engine_user, worker, made)
               : shared_engine_create(0, local->segments, &local->base.allocator, made, NULL);
}

/* Its threads are started. */
static int make_worker(local_runtime *local, uint32_t id, tarry_diagnostic *why)
{
    const tarry_local_settings *settings = &local->settings;
    local_worker *own = &local->workers[id];
    *own = (local_worker){.local = local, .id = id};
    tarry_worker_host_settings wanted = {
        .worker = id,
        .parameters = host_of(local)->numbers,
        .dimension = settings->dimension,
        .server = host_of(local)->settings.server,
        .compute = settings->compute != NULL ? compute : NULL,
        .user = own,
        .straggler = settings->straggler,
        .send = send_up,
        .give_up = give_up,
        .pass = pass_on,
        .broken = broken,
        .vectors = settings->vectors != NULL ? settings->vectors[id] : NULL,
    };
    if (local->everywhere) {
        int error = make_engine(local, id, &own->engine);
        if (error != TARRY_OK)
            return error;
        wanted.engine = own->engine;
        wanted.replica = settings->replicas[id];
        if (settings->last != NULL)
            wanted.last = settings->last[id];
    }
    int error = worker_vectors_check(wanted.vectors, &wanted.server, host_of(local)->plan->parts,
                                     wanted.engine, why);
    return error != TARRY_OK ? error
                             : worker_host_create(host_of(local)->plan, &wanted,
                                                  local->everywhere ? NULL : &local->snapshots,
                                                  true, &local->base.allocator, &own->host);
}

static int introduce(const local_worker *worker, const local_worker *other)
{
    uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST];
    size_t size = 0;
    other->engine->methods->address(other->engine, bytes, &size);
    return tarry_worker_host_meet(worker->host, other->id, bytes, size);
}

static int make_workers(local_runtime *local, tarry_diagnostic *why)
{
    const uint32_t workers = workers_of(local);
    int error = TARRY_OK;
    if (local->everywhere && local->settings.engine == NULL)
        error = segment_pool_create(workers, &local->base.allocator, &local->segments);
    for (uint32_t worker = 0; worker < workers && error == TARRY_OK; worker++)
        error = make_worker(local, worker, why);
    for (uint32_t pair = 0; local->everywhere && pair < workers * workers && error == TARRY_OK;
         pair++)
        if (pair / workers != pair % workers)
            error = introduce(&local->workers[pair / workers], &local->workers[pair % workers]);
    if (error == TARRY_OK && local->everywhere) {
        local->carries = pthread_create(&local->carrier, NULL, carry, local) == 0;
        error = local->carries ? TARRY_OK : TARRY_ERROR_SYSTEM;
    }
    for (uint32_t worker = 0; worker < workers && error == TARRY_OK; worker++)
        tarry_host_join(&local->base.base, worker);
    return error;
}

static int make(local_runtime *local, tarry_diagnostic *diagnostic)
{
    tarry_diagnostic why = {{0}};
    int error = allocate(local);
    if (error == TARRY_OK)
        error = init_mailboxes(local);
    if (error == TARRY_OK && !local->everywhere) {
        error = snapshots_init(&local->snapshots, host_of(local)->numbers,
                               2 * (size_t)workers_of(local), &local->base.allocator);
        local->has_snapshots = error == TARRY_OK;
    }
    if (error == TARRY_OK)
        error = drop_checkpoint(local);
    if (error == TARRY_OK)
        error = make_workers(local, &why);
    return error == TARRY_OK
               ? TARRY_OK
               : diagnose(diagnostic, error, "local runtime with %u workers: %s", workers_of(local),
                          why.text[0] != '\0' ? why.text : tarry_error_text(error));
}

static int make_host(local_runtime *local, const tarry_plan *plan, const tarry_allocator *allocator,
                     tarry_diagnostic *diagnostic)
{
    const tarry_local_settings *settings = &local->settings;
    const tarry_transport transport = {
        .user = local, .send = send_down, .receive = receive, .wake = wake, .pass = pass_down};
    host_settings wanted = {
        .name = "local runtime",
        .server = settings->server,
        .checkpoint = settings->checkpoint,
        .checkpoint_size = settings->checkpoint_size,
        .log = settings->log,
        .parameters = settings->parameters,
        .seen = settings->view,
        .transport = {.is_there = is_thread, .released = release_stripe},
    };
    wanted.server.dimension = settings->dimension;
    return server_host_init(&local->base, plan, &wanted, &transport, true, allocator, diagnostic);
}

static int check_settings(const tarry_plan *plan, const tarry_local_settings *settings,
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
    return straggler_check_mortal(settings->straggler, diagnostic);
}

int tarry_local_create(const tarry_plan *plan, const tarry_local_settings *settings,
                       const tarry_allocator *allocator, tarry_runtime **local,
                       tarry_diagnostic *diagnostic)
{
    int error = check_settings(plan, settings, diagnostic);
    if (error != TARRY_OK)
        return error;
    local_runtime *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "local runtime");
    made->base.base.methods = &methods;
    made->settings = *settings;
    made->everywhere = settings->server.sum == TARRY_SUM_EVERYWHERE;
    error = make_host(made, plan, allocator, diagnostic);
    if (error == TARRY_OK)
        error = make(made, diagnostic);
    if (error != TARRY_OK) {
        release(&made->base.base, true);
        return error;
    }
    *local = &made->base.base;
    return TARRY_OK;
}
