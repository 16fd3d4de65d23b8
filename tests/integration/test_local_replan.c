/* SPDX-License-Identifier: Apache-2.0 */
/* A local runtime that goes on with other plans. */
#include <math.h>
#include <pthread.h>

#include "base/random.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "seed.h"
#include "test.h"
#include <tarry/local.h>

enum { WORKERS = 6, CHUNKS = 12, SAMPLES = 40, DIMENSION = 300 };

/* Every chunk has SAMPLES vectors; a span's gradient is the sum over its own. */
typedef struct job {
    tarry_plan_settings plan_settings;
    tarry_local_settings settings;
    const char *spec; /* of the straggler; NULL: none */
    tarry_straggler *straggler;
    tarry_plan *first, *plan; /* the original one, and that in force */
    tarry_runtime *local;
    uint64_t seed;
    random_stream stream;
    float sum[DIMENSION], parameters[1];
    /* While `shut`, computations of the first original chunk wait. */
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool shut;
    uint32_t waiting;
} job;

static void add_samples(uint64_t seed, uint64_t round, tarry_span span, double *sum)
{
    uint64_t begin, end;
    tarry_span_samples(span, SAMPLES, &begin, &end);
    for (uint64_t sample = begin; sample < end; sample++) {
        random_stream stream = random_stream_make(seed, RANDOM_TEST, (uint32_t)round,
                                                  span.origin * SAMPLES + (uint32_t)sample);
        for (size_t i = 0; i < DIMENSION; i++)
            sum[i] += random_uniform(&stream) - 0.5;
    }
}

static int compute(void *user, const tarry_task *task)
{
    job *of = user;
    double sum[DIMENSION] = {0};
    for (uint32_t i = 0; i < task->span_count; i++) {
        pthread_mutex_lock(&of->lock);
        of->waiting++;
        while (of->shut && task->spans[i].origin == 0)
            pthread_cond_wait(&of->change, &of->lock);
        of->waiting--;
        pthread_mutex_unlock(&of->lock);
        add_samples(of->seed, task->round, task->spans[i], sum);
    }
    for (size_t i = 0; i < DIMENSION; i++)
        task->gradient[i] = (float)sum[i] * task->parameters[0];
    return 0;
}

static void job_init(job *of)
{
    *of = (job){.seed = test_seed("local replan", 8), .parameters = {1}};
    of->stream = random_stream_make(of->seed, RANDOM_TEST, 0, UINT32_MAX);
    tarry_plan_settings_init(&of->plan_settings);
    of->plan_settings.workers = WORKERS;
    of->plan_settings.chunks = CHUNKS;
    tarry_local_settings_init(&of->settings);
    of->settings.parameters = 1;
    of->settings.dimension = DIMENSION;
    of->settings.compute = compute;
    of->settings.server.pick = TARRY_PICK_SHARE;
    of->settings.server.stripe_length = 50;
    pthread_mutex_init(&of->lock, NULL);
    pthread_cond_init(&of->change, NULL);
}

static void job_begin(job *of)
{
    assert_ok(tarry_plan_create(&of->plan_settings, NULL, &of->first, NULL));
    if (of->spec != NULL)
        assert_ok(tarry_straggler_create(of->spec, WORKERS, of->seed, NULL, &of->straggler, NULL));
    of->settings.straggler = of->straggler;
    of->settings.user = of;
    of->plan = of->first;
    assert_ok(tarry_local_create(of->first, &of->settings, NULL, &of->local, NULL));
}

static void job_end(job *of)
{
    tarry_runtime_free(of->local, true);
    tarry_straggler_free(of->straggler);
    if (of->plan != of->first)
        tarry_plan_free(of->plan);
    tarry_plan_free(of->first);
    pthread_cond_destroy(&of->change);
    pthread_mutex_destroy(&of->lock);
}

#define JOB(name) TEST_OF(name, job, of, job_end)

/* A plan with random splits, merges and moves. */
static tarry_plan *random_next(job *of)
{
    double paces[WORKERS];
    uint32_t chunks = tarry_plan_chunks(of->plan);
    OWNED(double) cost = checked_calloc(chunks, sizeof(*cost));
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        paces[worker] = 0.1 + pow(random_uniform(&of->stream), 3);
    for (uint32_t chunk = 0; chunk < chunks; chunk++)
        cost[chunk] = 1e-3 + pow(random_uniform(&of->stream), 6);
    tarry_plan_evolution wanted;
    tarry_plan_evolution_init(&wanted);
    wanted.pace = paces;
    wanted.cost = cost;
    wanted.heaviest = 2;
    wanted.lightest = 0.7;
    wanted.most_moves = 5;
    return plan_evolve(of->plan, &wanted, NULL);
}

/* The plan before is gone at once. */
static void replan(job *of, tarry_plan *next)
{
    assert_ok(tarry_runtime_replan(of->local, next, NULL));
    if (of->plan != of->first)
        tarry_plan_free(of->plan);
    of->plan = next;
}

static double relative_error(const job *of, uint64_t round)
{
    double truth[DIMENSION] = {0}, error = 0, most = 0;
    for (uint32_t origin = 0; origin < CHUNKS; origin++)
        add_samples(of->seed, round, (tarry_span){.origin = origin, .count = 1, .of = 1}, truth);
    for (size_t i = 0; i < DIMENSION; i++) {
        error = fmax(error, fabs(of->sum[i] - of->parameters[0] * truth[i]));
        most = fmax(most, fabs(of->parameters[0] * truth[i]));
    }
    return error / most;
}

static tarry_round_result run_round(job *of)
{
    tarry_round_result result;
    tarry_diagnostic why = {""};
    of->parameters[0] += 1;
    assert_ok_or(why, tarry_runtime_round(of->local, of->parameters, of->sum, &result, &why));
    return result;
}

static void assert_exact(job *of, uint64_t round)
{
    tarry_round_result result = run_round(of);
    double limit = 2e-6 * fmax(tarry_plan_conditioning(of->plan).worst, 1);
    assert_true(result.exact);
    assert_int_equal(result.round, round);
    if (!(relative_error(of, round) <= limit))
        fail_msg("round %d: error %g", (int)round, relative_error(of, round));
}

TEST(sums_stay_exact)
{
    const char *const specs[] = {NULL, "exp:0.001/chunk", "slow:2,5+dead:1"};
    for (size_t spec = 0; spec < 3; spec++)
        for (uint32_t parts = 1; parts <= 2; parts++)
            for (int kind = 0; kind < 3; kind++) {
                job of;
                job_init(&of);
                of.spec = specs[spec];
                of.plan_settings.parts = parts;
                of.settings.server.silence_ns = 2000000000;
                if (kind == 1 && parts == 1)
                    of.settings.server.keep = TARRY_KEEP_CREDITED;
                if (kind == 2)
                    of.settings.server.fill = TARRY_FILL_STALE;
                job_begin(&of);
                for (uint64_t round = 0; round < 12; round++) {
                    assert_exact(&of, round);
                    replan(&of, random_next(&of));
                }
                assert_true(!tarry_plan_is_original(of.plan));
                job_end(&of);
            }
}

static uint32_t count_present(const job *of)
{
    uint32_t present = 0;
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        present += tarry_runtime_worker(of->local, worker).present;
    return present;
}

/* Who was lost stays so, and nothing is forgotten of what anyone did. */
JOB(workers_go_on)
{
    enum { ROUNDS = 10, MOST_ROUNDS = 5000 };
    job_init(of);
    of->spec = "dead:1+shifted-exp:0.01,0";
    of->settings.server.silence_ns = 1000000000;
    job_begin(of);
    uint64_t heard = 0;
    uint64_t lost = MOST_ROUNDS; /* so many rounds when the dead one was found */
    for (uint64_t round = 0; round < MOST_ROUNDS && round < lost + ROUNDS; round++) {
        tarry_round_result result = run_round(of);
        heard += result.copies_computed;
        replan(of, random_next(of));
        if (lost == MOST_ROUNDS && count_present(of) < WORKERS)
            lost = round;
    }
    uint64_t chunks = 0;
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        tarry_worker_state seen = tarry_runtime_worker(of->local, worker);
        chunks += seen.chunks;
        assert_true(seen.present == (seen.chunks > 0));
        if (seen.present)
            assert_true(seen.pace > 0);
    }
    assert_true(chunks >= heard);
    assert_int_equal(count_present(of), WORKERS - 1);
}

static void set_shut(job *of, bool shut)
{
    pthread_mutex_lock(&of->lock);
    of->shut = shut;
    pthread_cond_broadcast(&of->change);
    pthread_mutex_unlock(&of->lock);
}

static uint32_t waiting(job *of)
{
    pthread_mutex_lock(&of->lock);
    uint32_t count = of->waiting;
    pthread_mutex_unlock(&of->lock);
    return count;
}

/*
 * Rounds end early, by a rule that can do without the first chunk, while computations of it hang;
 * one plan follows the other, and then all is as it was.
 */
JOB(computations_in_progress_are_not_waited_for)
{
    job_init(of);
    of->plan_settings.replication = 2;
    of->settings.server.stop = TARRY_STOP_DEADLINE;
    of->settings.server.deadline_ns = 50000000;
    job_begin(of);
    set_shut(of, true);
    bool seen = false;
    for (uint64_t round = 0; round < 10; round++) {
        tarry_round_result result = run_round(of);
        assert_false(result.exact);
        assert_int_equal(result.round, round);
        seen = seen || waiting(of) > 0;
        replan(of, random_next(of));
        replan(of, random_next(of));
    }
    assert_true(seen);
    set_shut(of, false);
    bool exact = false;
    for (uint64_t round = 10; round < 1000 && !exact; round++) {
        exact = run_round(of).exact;
        assert_true(!exact || relative_error(of, round) < 1e-5);
        replan(of, random_next(of));
    }
    assert_true(exact);
}

JOB(an_interrupt_in_between_is_not_lost)
{
    job_init(of);
    job_begin(of);
    assert_exact(of, 0);
    tarry_runtime_interrupt(of->local);
    replan(of, random_next(of));
    tarry_round_result result;
    assert_int_equal(tarry_runtime_round(of->local, of->parameters, of->sum, &result, NULL),
                     TARRY_ERROR_INTERRUPTED);
    replan(of, random_next(of));
    assert_exact(of, 2);
}

JOB(what_does_not_fit_is_refused)
{
    job_init(of);
    job_begin(of);
    for (int kind = 0; kind < 3; kind++) {
        tarry_plan_settings settings = of->plan_settings;
        settings.workers += kind == 0;
        settings.chunks += kind == 1;
        settings.parts += kind == 2;
        OWNED(tarry_plan) plan = plan_make(&settings);
        assert_int_equal(tarry_runtime_replan(of->local, plan, NULL), TARRY_ERROR_ARGUMENT);
    }
    assert_exact(of, 0);
}

typedef struct attempt {
    job *of;
    tarry_plan *next;
} attempt;

/* Without the memory the runtime goes on with the plan that it has. */
static int try_to_replan(void *user, const tarry_allocator *allocator)
{
    const attempt *with = user;
    job *of = with->of;
    tarry_runtime *local;
    tarry_round_result result;
    int error = tarry_local_create(of->first, &of->settings, allocator, &local, NULL);
    if (error != TARRY_OK)
        return error;
    error = tarry_runtime_replan(local, with->next, NULL);
    if (error == TARRY_OK)
        error = tarry_runtime_round(local, of->parameters, of->sum, &result, NULL);
    tarry_runtime_free(local, true);
    return error;
}

JOB(missing_memory_is_an_error)
{
    job_init(of);
    job_begin(of);
    const attempt with = {of, random_next(of)};
    assert_true(fail_each_allocation(try_to_replan, (void *)&with) > 100);
    tarry_plan_free(with.next);
}
