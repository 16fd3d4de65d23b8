/* SPDX-License-Identifier: Apache-2.0 */
/* From what the server offers to an executor that can take its rounds. */
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "plan/plan.h"
#include "plan/plan_code.h"
#include "protocol/form.h"
#include "runtime/tcp/worker/tcp_worker.h"

enum { SNAPSHOT_HOLDERS = 2 }; /* the computing thread; and the talking one, for a factor */

void tcp_worker_release_offer(const tarry_tcp_worker *worker, worker_offer *offer)
{
    memory_release(&worker->allocator, offer->plan);
    memory_release(&worker->allocator, offer->job);
    share_close(&offer->part);
    offer->plan = NULL;
    offer->job = NULL;
}

static void set_executor_runs(tarry_tcp_worker *worker, bool runs)
{
    pthread_mutex_lock(&worker->lock);
    worker->job.executor_runs = runs;
    if (runs && worker->run.leaving)
        executor_leave(&worker->job.executor, worker->run.grace_until_ns);
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
}

static void drop_executor(tarry_tcp_worker *worker)
{
    set_executor_runs(worker, false);
    executor_close(&worker->job.executor);
    tcp_worker_await_takers(worker);
    executor_destroy(&worker->job.executor, &worker->allocator);
    worker->job.executor = (executor){0};
    tcp_worker_drop_others(worker);
    tcp_worker_drop_masking(worker);
    share_close(&worker->job.part);
    if (worker->job.has_snapshots)
        snapshots_destroy(&worker->job.snapshots);
    worker->job.has_snapshots = false;
    worker->job.there = false;
}

void tcp_worker_drop_job(tarry_tcp_worker *worker)
{
    if (!worker->has_lock)
        return;
    drop_executor(worker);
    tcp_worker_drop_chunks(worker);
    tcp_worker_release_offer(worker, &worker->job.offer);
    tarry_plan_free(worker->job.plan);
    worker->job.plan = NULL;
}

/* ---- what is offered ---- */

static bool is_same(const uint8_t *one, const uint8_t *other, size_t size)
{
    return memcmp(one, other, size) == 0;
}

static bool has_same_matrices(const wire_welcome *one, const wire_welcome *other)
{
    return one->compress_rank == other->compress_rank &&
           one->compress_matrix_count == other->compress_matrix_count &&
           memcmp(one->compress_matrices, other->compress_matrices,
                  one->compress_matrix_count * sizeof(*one->compress_matrices)) == 0;
}

bool tcp_worker_is_same_job(const wire_welcome *one, const wire_welcome *other)
{
    return is_same(one->job, other->job, WIRE_ID_BYTES) && one->worker == other->worker &&
           one->workers == other->workers && one->parameters == other->parameters &&
           one->dimension == other->dimension && one->stripe_length == other->stripe_length &&
           one->keep == other->keep && one->ahead == other->ahead &&
           one->keeps_stale == other->keeps_stale && one->compress == other->compress &&
           one->compress_share == other->compress_share && has_same_matrices(one, other) &&
           one->compress_first == other->compress_first &&
           one->compress_from == other->compress_from &&
           one->compress_exact == other->compress_exact &&
           one->compress_down == other->compress_down &&
           one->compress_seed == other->compress_seed &&
           one->conditioning_limit == other->conditioning_limit && one->ships == other->ships &&
           one->everywhere == other->everywhere;
}

/* Whether what was not sent is there: HELLO may have spoken of what was replaced since. */
static bool is_whole(const tarry_tcp_worker *worker, const worker_offer *offer)
{
    if (offer->plan == NULL &&
        (worker->job.plan == NULL ||
         !is_same(worker->job.plan->digest, offer->welcome.plan, WIRE_DIGEST_BYTES)))
        return false;
    return offer->job != NULL || !offer->claimed_job ||
           is_same(worker->job.offer.welcome.job, offer->welcome.job, WIRE_ID_BYTES);
}

static layout cut_of(const tarry_plan *plan, const wire_welcome *welcome)
{
    return layout_make((size_t)welcome->dimension, plan_least_parts(plan),
                       (size_t)welcome->stripe_length);
}

static compress_lowrank lowrank_of_welcome(const wire_welcome *welcome)
{
    if (welcome->compress != TARRY_COMPRESS_POWERSGD)
        return (compress_lowrank){0};
    return (compress_lowrank){
        .rank = welcome->compress_rank,
        .count = welcome->compress_matrix_count,
        .matrices = welcome->compress_matrices,
        .stripe = (size_t)welcome->stripe_length,
    };
}

/* Of so many numbers, of which some are exact; and whether there is a factor behind parameters. */
static bool has_good_matrices(const wire_welcome *welcome)
{
    const compress_lowrank low = lowrank_of_welcome(welcome);
    const uint64_t exact = welcome->compress_exact, all = welcome->dimension;
    return lowrank_fault(&low, all > exact ? all - exact : 0) == NULL &&
           lowrank_factor_numbers(&low) < welcome->parameters;
}

/* Whether the server's figures and the plan belong together, be it the one that came with them or
 * one that is here. */
static int check_plan(const tarry_plan *plan, const wire_welcome *welcome,
                      tarry_diagnostic *diagnostic)
{
    const char *fault = NULL;
    if (plan->workers != welcome->workers || welcome->worker >= plan->workers)
        fault = "is of another number of workers than the server says";
    else if (welcome->dimension / plan_least_parts(plan) / welcome->stripe_length >=
                 UINT32_MAX - 1 ||
             welcome->dimension > SIZE_MAX / sizeof(float))
        fault = "does not go with so long a gradient";
    else if (welcome->compress == TARRY_COMPRESS_POWERSGD && !has_good_matrices(welcome))
        fault = "does not go with the matrices of the gradient";
    return fault == NULL ? TARRY_OK
                         : diagnose(diagnostic, TARRY_ERROR_FORMAT, "the server's plan %s", fault);
}

/* What is prepared for a job goes on with another plan only if that is one for the same data, cut
 * alike: parts lie where the first one's did. */
static int check_turn(const tarry_plan *plan, const tarry_plan *next, tarry_diagnostic *diagnostic)
{
    const char *fault = NULL;
    if (next->origins != plan->origins || next->pieces != plan->pieces)
        fault = "is of other data than that before, in the same job";
    else if (next->parts != plan->parts || next->adaptive != plan->adaptive)
        fault = "is of another number of parts than that before, in the same job";
    return fault == NULL ? TARRY_OK
                         : diagnose(diagnostic, TARRY_ERROR_FORMAT, "the server's plan %s", fault);
}

static int read_plan(const tarry_tcp_worker *worker, const worker_offer *offer, tarry_plan **plan,
                     tarry_diagnostic *diagnostic)
{
    tarry_diagnostic why;
    int error = plan_decode_bytes(offer->plan, offer->plan_size, &worker->allocator, plan, &why);
    return error == TARRY_OK ? TARRY_OK
                             : diagnose(diagnostic, error, "the server's plan: %s", why.text);
}

static int check_part(const worker_offer *offer, const tarry_plan *plan,
                      tarry_diagnostic *diagnostic)
{
    layout cut = cut_of(plan, &offer->welcome);
    return offer->part.memory == NULL || offer->part.bytes == cut.part_length * sizeof(float)
               ? TARRY_OK
               : diagnose(diagnostic, TARRY_ERROR_FORMAT,
                          "the server shares memory of another size than that of a coded part");
}

/* ---- an executor ---- */

/* That of parts for the server; what goes to other workers is for the engine to write. What it
 * points to is the offer's. */
static compress_form form_of_welcome(const wire_welcome *welcome)
{
    compress_form form = form_of_kind(welcome->everywhere ? TARRY_COMPRESS_NONE : welcome->compress,
                                      welcome->compress_share, welcome->compress_exact);
    form.low = lowrank_of_welcome(welcome);
    return form;
}

static int make_slate(const tarry_tcp_worker *worker, const tarry_plan *plan,
                      const wire_welcome *welcome, const share *part, worker_slate **made)
{
    const worker_slate_settings wanted = {
        .cut = cut_of(plan, welcome),
        .keep = (tarry_keep)welcome->keep,
        .ahead = welcome->ahead,
        .keeps_stale = welcome->keeps_stale,
        .conditioning_limit = welcome->conditioning_limit,
        .form = form_of_welcome(welcome),
        .grid = grid_of(&worker->job.offer.rules),
        .dense = {.first = welcome->compress_first, .from = welcome->compress_from},
        .sum = welcome->everywhere ? TARRY_SUM_EVERYWHERE : TARRY_SUM_SERVER,
        .last = worker->job.last,
        .part = part->memory,
    };
    return worker_slate_create(plan, welcome->worker, &wanted, &worker->allocator, made);
}

static int make_executor(tarry_tcp_worker *worker, tarry_diagnostic *diagnostic)
{
    const wire_welcome *welcome = &worker->job.offer.welcome;
    worker_slate *first;
    int error = snapshots_init(&worker->job.snapshots, (size_t)welcome->parameters,
                               SNAPSHOT_HOLDERS, &worker->allocator);
    if (error != TARRY_OK)
        return error;
    worker->job.has_snapshots = true;
    error = tcp_worker_join_others(worker, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = make_slate(worker, worker->job.plan, welcome, &worker->job.part, &first);
    if (error != TARRY_OK)
        return error;
    const executor_settings settings = {
        .worker = welcome->worker,
        .pieces = worker->job.plan->pieces,
        .cut = cut_of(worker->job.plan, welcome),
        .kernels = kernel_best(),
        .form = form_of_welcome(welcome),
        .dense = {.first = welcome->compress_first, .from = welcome->compress_from},
        .compress_seed = welcome->compress_seed,
        .straggler = worker->settings.straggler,
        .compute = worker->settings.compute,
        .user = worker->settings.user,
        .snapshots = &worker->job.snapshots,
        .collective = worker->job.collective,
        .masking = worker->job.masking,
        .uplink = tcp_worker_uplink(worker),
    };
    error = executor_init(&worker->job.executor, &settings, first, &worker->allocator);
    if (error != TARRY_OK) {
        worker_slate_free(first, &worker->allocator);
        return error;
    }
    /* One that never answers has no threads. */
    if (!tarry_straggler_dead(worker->settings.straggler, welcome->worker))
        error = executor_start(&worker->job.executor);
    return error;
}

static void wait_for_turn(tarry_tcp_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    while (!executor_has_turned(&worker->job.executor))
        pthread_cond_wait(&worker->changed, &worker->lock);
    pthread_mutex_unlock(&worker->lock);
}

/* Puts the part where it is offered, if it is; the caller closes where it was. */
static void move_part(tarry_tcp_worker *worker, share *part)
{
    share before = worker->job.part;
    if (part->memory == NULL)
        return;
    executor_move(&worker->job.executor, part->memory);
    wait_for_turn(worker);
    executor_tidy(&worker->job.executor, &worker->allocator);
    worker->job.part = *part;
    *part = before;
}

/* Goes on with the plan, which is taken over. */
static int turn_to(tarry_tcp_worker *worker, tarry_plan *plan)
{
    worker_slate *next;
    int error = make_slate(worker, plan, &worker->job.offer.welcome, &worker->job.part, &next);
    if (error != TARRY_OK) {
        tarry_plan_free(plan);
        return error;
    }
    executor_turn(&worker->job.executor, next);
    wait_for_turn(worker);
    executor_tidy(&worker->job.executor, &worker->allocator);
    tarry_plan_free(worker->job.plan);
    worker->job.plan = plan;
    return TARRY_OK;
}

/* ---- a job ---- */

static void note_held(tarry_tcp_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    memcpy(worker->held.job, worker->job.offer.welcome.job, WIRE_ID_BYTES);
    memcpy(worker->held.plan, worker->job.plan->digest, WIRE_DIGEST_BYTES);
    worker->work.worker = worker->job.offer.welcome.worker;
    pthread_mutex_unlock(&worker->lock);
}

/* Takes over the offer's memory; plan: NULL: that which is there. */
static void take_over(tarry_tcp_worker *worker, worker_offer *offer, tarry_plan *plan)
{
    bool keeps = offer->job == NULL && offer->claimed_job;
    if (plan != NULL) {
        tarry_plan_free(worker->job.plan);
        worker->job.plan = plan;
    }
    memory_release(&worker->allocator, offer->plan);
    offer->plan = NULL;
    if (keeps) {
        offer->job = worker->job.offer.job;
        offer->job_size = worker->job.offer.job_size;
    } else {
        memory_release(&worker->allocator, worker->job.offer.job);
    }
    worker->job.offer = *offer;
    *offer = (worker_offer){0};
}

static int begin(tarry_tcp_worker *worker, tarry_diagnostic *diagnostic)
{
    const wire_welcome *welcome = &worker->job.offer.welcome;
    const tarry_tcp_job job = {
        .worker = welcome->worker,
        .workers = welcome->workers,
        .plan = worker->job.plan,
        .parameters = (size_t)welcome->parameters - form_factor_numbers(form_of_welcome(welcome)),
        .dimension = (size_t)welcome->dimension,
        .job = worker->job.offer.job,
        .job_size = worker->job.offer.job_size,
        .ships = welcome->ships,
        .sum = welcome->everywhere ? TARRY_SUM_EVERYWHERE : TARRY_SUM_SERVER,
    };
    uint8_t data[TARRY_DIGEST_SIZE] = {0};
    tarry_tcp_worker_numerics(worker, 0);
    int error = tcp_worker_begin(worker, &job, data, diagnostic);
    if (error != TARRY_OK)
        return error;
    pthread_mutex_lock(&worker->lock);
    memcpy(worker->held.data, data, WIRE_DIGEST_BYTES);
    pthread_mutex_unlock(&worker->lock);
    return TARRY_OK;
}

static int begin_job(tarry_tcp_worker *worker, worker_offer *offer, tarry_plan *plan,
                     tarry_diagnostic *diagnostic)
{
    drop_executor(worker);
    tcp_worker_drop_chunks(worker);
    take_over(worker, offer, plan);
    worker->job.part = worker->job.offer.part;
    worker->job.offer.part = (share){0};
    note_held(worker);
    int error = tcp_worker_init_chunks(worker, worker->job.plan->origins);
    if (error == TARRY_OK)
        error = begin(worker, diagnostic);
    if (error == TARRY_OK)
        error = tcp_worker_begin_masking(worker, diagnostic);
    if (error == TARRY_OK)
        error = make_executor(worker, diagnostic);
    if (error != TARRY_OK)
        return error;
    worker->job.there = true;
    set_executor_runs(worker, true);
    return TARRY_OK;
}

static int go_on(tarry_tcp_worker *worker, worker_offer *offer, tarry_plan *plan,
                 tarry_diagnostic *diagnostic)
{
    uint8_t target[TARRY_DIGEST_SIZE];
    int error = plan != NULL && worker->job.masking != NULL
                    ? tcp_worker_agree(worker, plan, target, diagnostic)
                    : TARRY_OK;
    if (error != TARRY_OK) {
        tarry_plan_free(plan);
        return error;
    }
    error = tcp_worker_renew_terms(worker, &offer->welcome);
    if (error != TARRY_OK) {
        tarry_plan_free(plan);
        return error;
    }
    move_part(worker, &offer->part);
    return plan != NULL ? turn_to(worker, plan) : TARRY_OK;
}

static void settle(tarry_tcp_worker *worker, uint64_t number, bool prepared)
{
    pthread_mutex_lock(&worker->lock);
    if (prepared)
        worker->offers.prepared = number;
    else
        worker->offers.declined = number;
    tcp_worker_wake(worker);
    pthread_mutex_unlock(&worker->lock);
}

/* What is whole; plan: NULL: that which is there. The plan is taken over. */
static int take_up(tarry_tcp_worker *worker, worker_offer *offer, tarry_plan *plan,
                   tarry_diagnostic *diagnostic)
{
    const tarry_plan *wanted = plan != NULL ? plan : worker->job.plan;
    bool goes_on =
        worker->job.there && tcp_worker_is_same_job(&worker->job.offer.welcome, &offer->welcome);
    int error = check_plan(wanted, &offer->welcome, diagnostic);
    if (error == TARRY_OK)
        error = check_part(offer, wanted, diagnostic);
    if (error == TARRY_OK && goes_on)
        error = check_turn(worker->job.plan, wanted, diagnostic);
    if (error != TARRY_OK) {
        tarry_plan_free(plan);
        return error;
    }
    return goes_on ? go_on(worker, offer, plan, diagnostic)
                   : begin_job(worker, offer, plan, diagnostic);
}

int tcp_worker_prepare(tarry_tcp_worker *worker, worker_offer *offer, tarry_diagnostic *diagnostic)
{
    uint64_t number = offer->number;
    bool whole = is_whole(worker, offer);
    tarry_plan *plan = NULL;
    int error = TARRY_OK;
    if (whole && offer->plan != NULL)
        error = read_plan(worker, offer, &plan, diagnostic);
    if (error == TARRY_OK && whole)
        error = take_up(worker, offer, plan, diagnostic);
    tcp_worker_release_offer(worker, offer);
    if (error != TARRY_OK)
        return error;
    if (whole)
        note_held(worker);
    settle(worker, number, whole);
    return TARRY_OK;
}
