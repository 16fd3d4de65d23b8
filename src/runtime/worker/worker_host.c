/* SPDX-License-Identifier: Apache-2.0 */
/* An executor for a transport that somebody else wrote. */
#include <tarry/host.h>

#include <assert.h>
#include <pthread.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sized.h"
#include "plan/plan.h"
#include "runtime/clock.h"
#include "runtime/worker/executor.h"
#include "runtime/worker/pass_exchange.h"
#include "straggler/straggler.h"

enum { DEFAULT_STRIPE = 65536 };

struct tarry_worker_host {
    tarry_allocator allocator;
    tarry_worker_host_settings settings;
    const tarry_plan *plan;
    layout cut; /* into the least number of parts */
    snapshots snapshots;
    executor executor;
    pthread_mutex_t sending; /* one frame at a time; also over what the talking thread changes */
    pthread_cond_t changed;
    bool has_sending, has_changed, has_snapshots;
    /* TARRY_SUM_EVERYWHERE; else NULL. */
    uint32_t workers;
    exchange *others;
    collective *collective;
};

_Static_assert((int)PASS_MOST_BYTES == TARRY_PASS_MOST, "what is passed has one limit");

static bool is_everywhere(const tarry_worker_host *own)
{
    return own->settings.server.sum == TARRY_SUM_EVERYWHERE;
}

void tarry_worker_host_settings_init_sized(tarry_worker_host_settings *settings, size_t size)
{
    if (sized_begin(settings, size, sizeof(*settings)))
        tarry_server_settings_init(&settings->server);
}

/* ---- the uplink ---- */

static void send_frame(tarry_worker_host *own, const tarry_message *message, const float *numbers,
                       size_t count)
{
    static const codec_shape no_sets; /* what workers send has none */
    uint8_t frame[CODEC_MOST_WORKER_BYTES];
    size_t size = codec_size(&no_sets, message);
    assert(size <= sizeof(frame));
    codec_encode(&no_sets, message, frame);
    pthread_mutex_lock(&own->sending);
    own->settings.send(own->settings.user, frame, size, numbers, count);
    pthread_mutex_unlock(&own->sending);
}

static void post(void *user, const tarry_message *message, bool more)
{
    (void)more;
    send_frame(user, message, NULL, 0);
}

static void post_part(void *user, const tarry_message *message, const executor_stripe *stripe)
{
    send_frame(user, message, stripe->bytes, stripe->count);
}

/* Nothing of a part is read after it was posted. */
static void claim(void *user, size_t first, size_t count)
{
    (void)user;
    (void)first;
    (void)count;
}

static void give_up(void *user)
{
    const tarry_worker_host *own = user;
    if (own->settings.give_up != NULL)
        own->settings.give_up(own->settings.user);
}

static void changed(void *user)
{
    tarry_worker_host *own = user;
    pthread_mutex_lock(&own->sending);
    pthread_cond_broadcast(&own->changed);
    pthread_mutex_unlock(&own->sending);
}

static void broken(void *user, int error)
{
    const tarry_worker_host *own = user;
    if (own->settings.broken != NULL)
        own->settings.broken(own->settings.user, error);
}

/* ---- among workers ---- */

/* The exchange counts the server as the party behind the workers. */
static void pass(void *user, uint32_t to, const void *bytes, size_t size)
{
    const tarry_worker_host *own = user;
    own->settings.pass(own->settings.user, to == own->workers ? TARRY_NO_WORKER : to, bytes, size);
}

static int make_collective(tarry_worker_host *own)
{
    const tarry_worker_host_settings *settings = &own->settings;
    const pass_exchange_settings exchanging = {
        .parties = own->workers + 1,
        .pass = pass,
        .user = own,
    };
    int error = pass_exchange_create(&exchanging, &own->allocator, &own->others);
    if (error != TARRY_OK)
        return error;
    const collective_settings wanted = {
        .worker = settings->worker,
        .workers = own->workers,
        .parts = own->plan->parts,
        .dimension = settings->dimension,
        .replica = settings->replica,
        .last = settings->last,
        .engine = settings->engine,
        .forms = {.up = settings->server.compress,
                  .down = settings->server.compress_down,
                  .seed = settings->server.compress_seed,
                  .exact = settings->server.compress_exact},
        .exchange = own->others,
        .snapshots = &own->snapshots,
        .ended = executor_ended,
        .user = &own->executor,
    };
    return collective_create(&wanted, &own->allocator, &own->collective);
}

/* ---- creation and the end ---- */

static int make_slate(const tarry_worker_host *own, const tarry_plan *plan, worker_slate **made)
{
    const tarry_server_settings *server = &own->settings.server;
    const worker_slate_settings wanted = {
        .cut = own->cut,
        .keep = server->keep,
        .ahead = server->ahead,
        .keeps_stale = server->fill == TARRY_FILL_STALE,
        .conditioning_limit = server->conditioning_limit,
        .sum = server->sum,
        .last = own->settings.last,
    };
    return worker_slate_create(plan, own->settings.worker, &wanted, &own->allocator, made);
}

static int make_executor(tarry_worker_host *own)
{
    const tarry_worker_host_settings *settings = &own->settings;
    const executor_settings wanted = {
        .worker = settings->worker,
        .pieces = own->plan->pieces,
        .cut = own->cut,
        .kernels = kernel_best(),
        .straggler = settings->straggler,
        .compute = settings->compute,
        .user = settings->user,
        .snapshots = &own->snapshots,
        .collective = own->collective,
        .uplink = {.post = post,
                   .post_part = post_part,
                   .claim = claim,
                   .give_up = give_up,
                   .changed = changed,
                   .broken = broken,
                   .user = own},
    };
    worker_slate *first;
    int error = make_slate(own, own->plan, &first);
    if (error != TARRY_OK)
        return error;
    error = executor_init(&own->executor, &wanted, first, &own->allocator);
    if (error != TARRY_OK) {
        worker_slate_free(first, &own->allocator);
        return error;
    }
    return tarry_straggler_dead(settings->straggler, settings->worker)
               ? TARRY_OK
               : executor_start(&own->executor);
}

static int make(tarry_worker_host *own)
{
    own->has_sending = pthread_mutex_init(&own->sending, NULL) == 0;
    own->has_changed = pthread_cond_init(&own->changed, NULL) == 0;
    if (!own->has_sending || !own->has_changed)
        return TARRY_ERROR_SYSTEM;
    bool bare = is_everywhere(own) && own->settings.replica.parameters == NULL;
    int error =
        snapshots_init(&own->snapshots, bare ? 1 : own->settings.parameters, 1, &own->allocator);
    own->has_snapshots = error == TARRY_OK;
    if (error == TARRY_OK && is_everywhere(own))
        error = make_collective(own);
    return error == TARRY_OK ? make_executor(own) : error;
}

/* Whether numbers are in a form on their way among workers. */
static bool sums_round(const tarry_worker_host_settings *settings)
{
    const tarry_server_settings *server = &settings->server;
    return server->sum == TARRY_SUM_EVERYWHERE && (server->compress != TARRY_COMPRESS_NONE ||
                                                   server->compress_down != TARRY_COMPRESS_NONE);
}

static int check_settings(const tarry_plan *plan, const tarry_worker_host_settings *settings,
                          tarry_diagnostic *diagnostic)
{
    int error = sized_check(settings->size, sizeof(*settings), "worker host", diagnostic);
    if (error != TARRY_OK)
        return error;
    if (settings->server.sum == TARRY_SUM_EVERYWHERE &&
        (settings->replica.load == NULL || settings->engine == NULL || settings->pass == NULL))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker host: where everyone gets the sum, it needs a replica, an engine "
                        "and a way to other workers");
    if (settings->server.sum == TARRY_SUM_EVERYWHERE && settings->compute != NULL &&
        settings->replica.step == NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker host: steps are only taken where tasks are, too");
    if (settings->parameters == 0 || settings->dimension == 0 || settings->send == NULL ||
        settings->worker >= plan->workers)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker host: parameters, dimension, a worker of the plan and a way to "
                        "send must be set");
    if (settings->server.sum == TARRY_SUM_SERVER &&
        settings->server.compress != TARRY_COMPRESS_NONE)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker host: a transport of one's own carries float32 alone: compress "
                        "has to be none");
    if (sums_round(settings) && !settings->engine->methods->forms)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker host: the engine '%s' sums float32: compress and compress_down "
                        "have to be none",
                        settings->engine->methods->name);
    if (settings->server.secure != 0)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker host: sums can be secure over a network alone");
    const char *mortal = straggler_mortal_term(settings->straggler);
    return mortal == NULL ? TARRY_OK
                          : diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                                     "straggler term '%s' is for tarry simulate", mortal);
}

int tarry_worker_host_create(const tarry_plan *plan, const tarry_worker_host_settings *settings,
                             const tarry_allocator *allocator, tarry_worker_host **worker,
                             tarry_diagnostic *diagnostic)
{
    int error = check_settings(plan, settings, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_worker_host *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "worker host");
    size_t stripe = settings->server.stripe_length;
    made->allocator = memory_allocator(allocator);
    made->settings = *settings;
    made->plan = plan;
    made->workers = plan->workers;
    made->cut = layout_make(settings->dimension, plan_least_parts(plan),
                            stripe > 0 ? stripe : DEFAULT_STRIPE);
    error = make(made);
    if (error != TARRY_OK) {
        tarry_worker_host_free(made);
        return diagnose(diagnostic, error, "worker host: %s", tarry_error_text(error));
    }
    *worker = made;
    return TARRY_OK;
}

void tarry_worker_host_free(tarry_worker_host *worker)
{
    if (worker == NULL)
        return;
    tarry_allocator allocator = worker->allocator;
    executor_close(&worker->executor);
    if (worker->settings.compute == NULL)
        executor_abandon(&worker->executor);
    executor_destroy(&worker->executor, &allocator);
    collective_free(worker->collective);
    pass_exchange_free(worker->others);
    if (worker->has_snapshots)
        snapshots_destroy(&worker->snapshots);
    if (worker->has_changed)
        pthread_cond_destroy(&worker->changed);
    if (worker->has_sending)
        pthread_mutex_destroy(&worker->sending);
    memory_release(&allocator, worker);
}

/* ---- what comes in ---- */

int tarry_worker_host_deliver(tarry_worker_host *worker, const void *frame, size_t size,
                              const float *numbers, size_t count)
{
    tarry_message_type type;
    uint64_t round;
    if (codec_peek(frame, size, &type, &round) != TARRY_OK)
        return TARRY_ERROR_FORMAT;
    bool begins = type == TARRY_MESSAGE_ROUND && !is_everywhere(worker);
    if (count != (begins ? worker->settings.parameters : 0))
        return TARRY_ERROR_FORMAT;
    int error = begins ? snapshots_publish(&worker->snapshots, round, numbers) : TARRY_OK;
    if (error != TARRY_OK || !worker->executor.talking)
        return error;
    return executor_deliver(&worker->executor, frame, size);
}

int tarry_worker_host_replan(tarry_worker_host *worker, const tarry_plan *next)
{
    const tarry_plan *plan = worker->plan;
    worker_slate *made;
    if (next->workers != plan->workers || next->origins != plan->origins ||
        next->pieces != plan->pieces || next->parts != plan->parts ||
        next->adaptive != plan->adaptive)
        return TARRY_ERROR_ARGUMENT;
    int error = make_slate(worker, next, &made);
    if (error != TARRY_OK)
        return error;
    executor_turn(&worker->executor, made);
    pthread_mutex_lock(&worker->sending);
    while (!executor_has_turned(&worker->executor))
        pthread_cond_wait(&worker->changed, &worker->sending);
    pthread_mutex_unlock(&worker->sending);
    executor_tidy(&worker->executor, &worker->allocator);
    worker->plan = next;
    return TARRY_OK;
}

int tarry_worker_host_take(tarry_worker_host *worker, uint64_t wait_ns, const tarry_task **task)
{
    assert(worker->settings.compute == NULL);
    return executor_take(&worker->executor, clock_from_now(wait_ns), task);
}

void tarry_worker_host_dismiss(tarry_worker_host *worker)
{
    executor_close(&worker->executor);
}

/* ---- what comes from other workers ---- */

int tarry_worker_host_meet(tarry_worker_host *worker, uint32_t other, const uint8_t *address,
                           size_t size)
{
    if (worker->collective == NULL || other >= worker->workers ||
        other == worker->settings.worker || size > TARRY_ENGINE_ADDRESS_MOST)
        return TARRY_ERROR_ARGUMENT;
    return collective_meet(worker->collective, other, address, size);
}

int tarry_worker_host_passed(tarry_worker_host *worker, uint32_t from, const void *bytes,
                             size_t size)
{
    uint32_t party = from == TARRY_NO_WORKER ? worker->workers : from;
    return worker->others != NULL ? pass_exchange_take(worker->others, party, bytes, size)
                                  : TARRY_ERROR_FORMAT;
}

void tarry_worker_host_part(tarry_worker_host *worker, uint32_t other)
{
    if (worker->others != NULL && other < worker->workers)
        pass_exchange_lose(worker->others, other);
}

void tarry_worker_host_cut(tarry_worker_host *worker)
{
    if (worker->collective != NULL && worker->executor.talking)
        executor_cut(&worker->executor);
}
