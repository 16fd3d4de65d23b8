/* SPDX-License-Identifier: Apache-2.0 */
#include <tarry/local.h>

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/bitset.h"
#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sized.h"
#include "engine/shared.h"
#include "plan/plan.h"
#include "protocol/form.h"
#include "runtime/clock.h"
#include "runtime/host/runtime.h"
#include "runtime/local/local_worker.h"
#include "straggler/straggler.h"

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

/* What the workers share. The inbox has room for all
 * that a round usually brings; senders wait beyond that. */
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
        (size_t)plan->workers * (8 + 2 * (size_t)shared->executor.cut.stripes) + plan_edges(plan);
    size_t longest = local->everywhere ? CODEC_MOST_WORKER_BYTES : CODEC_MOST_REPORT_BYTES;
    error = mailbox_init(&shared->server_inbox, longest, frames, &local->allocator);
    if (error != TARRY_OK)
        return error;
    local->has_inbox = true;
    return TARRY_OK;
}

static worker_slate_settings wanted_slate(const local_runtime *local)
{
    const tarry_server_settings *server = &local->settings.server;
    return (worker_slate_settings){
        .cut = local->shared.executor.cut,
        .keep = server->keep,
        .ahead = server->ahead,
        .keeps_stale = server->fill == TARRY_FILL_STALE,
        .conditioning_limit = server->conditioning_limit,
        .form = local->shared.executor.form,
        .dense = dense_rounds_of(server),
        .sum = server->sum,
    };
}

static int make_engine(const local_runtime *local, uint32_t worker, tarry_engine **made)
{
    const tarry_local_settings *settings = &local->settings;
    return settings->engine != NULL
               ? settings->engine(settings->engine_user, worker, made)
               : shared_engine_create(0, local->segments, &local->allocator, made, NULL);
}

/* Gives a worker what it steps, and the way to the others. */
static int join_worker(local_runtime *local, uint32_t worker)
{
    const tarry_local_settings *settings = &local->settings;
    const tarry_plan *plan = local->base.host->plan;
    local_membership membership = {
        .workers = plan->workers,
        .parts = plan->parts,
        .parameters = settings->parameters,
        .dimension = settings->dimension,
        .replica = settings->replicas[worker],
    };
    if (settings->last != NULL)
        membership.last = settings->last[worker];
    membership.forms = (collective_forms){.up = settings->server.compress,
                                          .down = settings->server.compress_down,
                                          .seed = settings->server.compress_seed,
                                          .exact = settings->server.compress_exact};
    int error = make_engine(local, worker, &membership.engine);
    return error != TARRY_OK ? error
                             : local_worker_join(&local->workers[worker], &local->shared, worker,
                                                 &membership, &local->allocator);
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
    worker_slate_settings wanted = wanted_slate(local);
    int error = TARRY_OK;
    if (local->everywhere && local->settings.engine == NULL)
        error = segment_pool_create(workers_of(local), &local->allocator, &local->segments);
    for (uint32_t worker = 0; worker < workers_of(local) && error == TARRY_OK; worker++) {
        if (local->everywhere)
            error = join_worker(local, worker);
        if (local->everywhere && local->settings.last != NULL)
            wanted.last = local->settings.last[worker];
        if (error == TARRY_OK)
            error = local_worker_init(&local->workers[worker], &local->shared,
                                      local->base.host->plan, worker, &wanted, &local->allocator);
    }
    return error == TARRY_OK && local->everywhere ? introduce_workers(local) : error;
}

/* Those that never answer have no threads: what is sent to them is lost. */
static int start_workers(local_runtime *local)
{
    int error = TARRY_OK;
    for (uint32_t worker = 0; worker < workers_of(local) && error == TARRY_OK; worker++) {
        if (!tarry_straggler_dead(local->settings.straggler, worker))
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

static int send_message(void *user, uint32_t id, const tarry_message *message, uint8_t *frame,
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
                      .send = send_message,
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

static executor_settings common_settings(local_runtime *local)
{
    const tarry_local_settings *settings = &local->settings;
    return (executor_settings){
        .pieces = local->base.host->plan->pieces,
        .straggler = settings->straggler,
        .compute = settings->compute,
        .user = settings->user,
        .cut = local->base.host->cut,
        .kernels = kernel_best(),
        .form = form_of_parts(&local->base.host->settings.server),
        .dense = dense_rounds_of(&settings->server),
        .compress_seed = settings->server.compress_seed,
        .snapshots = local->everywhere ? NULL : &local->shared.snapshots,
    };
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

static void take_frame(local_runtime *local, const mailbox_frame *frame)
{
    uint32_t worker = frame->sender;
    if (frame->size == 0) { /* its machine could not take a step; in another round it may */
        int broken = atomic_load(&local->workers[worker].error);
        if (broken == TARRY_OK)
            bitset_set(local->returned, worker);
        else
            local->broken = broken;
        host_lose(local->base.host, worker);
        if (broken != TARRY_OK)
            host_fail(local->base.host, broken);
        return;
    }
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
    mailbox *inbox = &local->shared.server_inbox;
    size_t count = mailbox_take(inbox, until_ns);
    for (size_t i = 0; i < count; i++) {
        mailbox_frame frame = mailbox_frame_at(inbox, i);
        take_frame(local, &frame);
    }
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

static void free_slates(const local_runtime *local, worker_slate **slates)
{
    for (uint32_t worker = 0; slates != NULL && worker < workers_of(local); worker++)
        worker_slate_free(slates[worker], &local->allocator);
    memory_release(&local->allocator, slates);
}

/* What the workers are to have for the plan; NULL: there is no memory. */
static worker_slate **make_slates(const local_runtime *local, const tarry_plan *next)
{
    const worker_slate_settings wanted = wanted_slate(local);
    worker_slate **made = memory_allocate(&local->allocator, next->workers, sizeof(worker_slate *));
    int error = made == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
    for (uint32_t worker = 0; worker < next->workers && error == TARRY_OK; worker++)
        error = worker_slate_create(next, worker, &wanted, &local->allocator, &made[worker]);
    if (error == TARRY_OK)
        return made;
    free_slates(local, made);
    return NULL;
}

static bool have_turned(local_runtime *local)
{
    for (uint32_t worker = 0; worker < workers_of(local); worker++)
        if (!executor_has_turned(&local->workers[worker].executor))
            return false;
    return true;
}

/*
 * Only the talking threads take part, and none of them waits for anything but room in the server's
 * inbox. What is in there was said of the plan before: it tells the next server no more than who
 * gives up.
 */
static void turn_workers(local_runtime *local, worker_slate **slates)
{
    for (uint32_t worker = 0; worker < workers_of(local); worker++) {
        executor_turn(&local->workers[worker].executor, slates[worker]);
        slates[worker] = NULL;
    }
    while (!have_turned(local))
        take_frames(local, TARRY_NEVER);
    for (uint32_t worker = 0; worker < workers_of(local); worker++)
        executor_tidy(&local->workers[worker].executor, &local->allocator);
}

static int replan(tarry_runtime *runtime, const tarry_plan *next, tarry_diagnostic *diagnostic)
{
    local_runtime *local = local_of(runtime);
    int error = host_check_plan(local->base.host, next, diagnostic);
    if (error != TARRY_OK)
        return error;
    worker_slate **slates = make_slates(local, next);
    if (slates == NULL)
        return diagnose_no_memory(diagnostic, "local runtime");
    error = host_replan(local->base.host, next, diagnostic);
    if (error == TARRY_OK)
        turn_workers(local, slates);
    free_slates(local, slates);
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
    mailbox_wake(&local->shared.server_inbox);
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
        mailbox_close(&local->shared.server_inbox);
    /* Workers read what others have until none of them runs. */
    for (uint32_t worker = 0; worker < workers; worker++)
        executor_join(&local->workers[worker].executor);
    for (uint32_t worker = 0; worker < workers; worker++)
        local_worker_end(&local->workers[worker], &allocator);
    segment_pool_free(local->segments);
    local_exchanges_free(local->shared.exchanges);
    if (local->has_inbox)
        mailbox_destroy(&local->shared.server_inbox);
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
    if (error == TARRY_OK) {
        made->shared.executor = common_settings(made);
        error = create_workers(made, diagnostic);
    }
    if (error != TARRY_OK) {
        release(&made->base, true);
        return error;
    }
    *local = &made->base;
    return TARRY_OK;
}
