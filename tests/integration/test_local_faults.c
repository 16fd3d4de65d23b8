/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <unistd.h>

#include "failing_allocator.h"
#include "summing.h"
#include "test.h"

SUMMING(dead_workers_within_the_plan_cost_nothing)
{
    summing_init(job);
    job->straggler_spec = "dead:2";
    summing_begin(job);
    for (int round = 0; round < 5; round++) {
        tarry_round_result result;
        assert_ok(summing_round(job, &result, NULL));
        assert_true(result.exact);
        assert_true(summing_error(job) <= 1e-5);
        assert_true(result.workers_heard <= 6);
    }
}

/* The dead are found by their silence; the error names the chunks that are gone. */
SUMMING(too_many_dead_workers_end_an_exact_round)
{
    summing_init(job);
    job->plan_settings.design = TARRY_DESIGN_FRACTIONAL;
    job->plan_settings.replication = 2;
    job->local_settings.server.silence_ns = 1000000000;
    job->straggler_spec = "dead:7";
    summing_begin(job);
    tarry_round_result result;
    tarry_diagnostic diagnostic;
    assert_int_equal(summing_round(job, &result, &diagnostic), TARRY_ERROR_COVERAGE);
    assert_int_equal(result.error, TARRY_ERROR_COVERAGE);
    assert_int_equal(result.workers_lost, 7);
    assert_non_null(strstr(diagnostic.text, "(7 of 8 workers are lost)"));
    assert_non_null(strstr(diagnostic.text, "chunks "));
}

/* Adding up a gradient takes a thread much longer than the server's patience here. The server asks
 * again and again, but a thread of its own process is there. */
TEST(a_thread_that_is_busy_with_numbers_is_not_lost)
{
    const tarry_keep keeps[] = {TARRY_KEEP_ALL, TARRY_KEEP_CREDITED};
    for (size_t i = 0; i < 2; i++) {
        OWNED(summing) job;
        summing_init(&job);
        job.dimension = 1000000;
        job.plan_settings.replication = 1;
        job.local_settings.server.keep = keeps[i];
        job.local_settings.server.silence_ns = 500000;
        summing_begin(&job);
        for (int round = 0; round < 3; round++) {
            tarry_round_result result;
            tarry_diagnostic diagnostic;
            assert_ok_or(diagnostic, summing_round(&job, &result, &diagnostic));
            assert_int_equal(result.workers_lost, 0);
            assert_true(result.exact);
        }
    }
}

/* Runs a round with that many dead workers, which must fail and say so. */
static void assert_coverage_error(summing *job, const char *straggler, const char *text)
{
    job->local_settings.server.silence_ns = 1000000000;
    job->straggler_spec = straggler;
    summing_begin(job);
    tarry_round_result result;
    tarry_diagnostic diagnostic;
    assert_int_equal(summing_round(job, &result, &diagnostic), TARRY_ERROR_COVERAGE);
    assert_non_null(strstr(diagnostic.text, text));
    for (uint32_t worker = 0; worker < 8; worker++) {
        tarry_worker_state state = tarry_runtime_worker(job->local, worker);
        assert_int_equal(state.present, !tarry_straggler_dead(job->straggler, worker));
        assert_int_equal(state.chunks > 0, state.present);
        assert_int_equal(state.seconds > 0, state.present);
    }
    summing_end(job);
}

TEST(the_error_tells_what_went_wrong)
{
    summing job;
    summing_init(&job);
    assert_coverage_error(&job, "dead:8+shifted-exp:0.001,0", "all 8 workers are lost");
    summing_init(&job);
    job.plan_settings.chunks = 24;
    job.plan_settings.replication = 1;
    assert_coverage_error(&job, "dead:7+shifted-exp:0.001,0", " and 13 more");
    summing_init(&job);
    job.local_settings.server.stop = TARRY_STOP_WORKERS;
    job.local_settings.server.workers_needed = 7;
    assert_coverage_error(&job, "dead:2+shifted-exp:0.001,0",
                          "fewer than 7 of 8 workers can still finish");
}

/* Unless the machine holds others up, these are all that are missing. */
SUMMING(a_deadline_goes_on_without_the_dead)
{
    enum { ROUNDS = 3, ATTEMPTS = 100 };
    int good = 0;
    summing_init(job);
    job->plan_settings.replication = 1;
    job->local_settings.server.stop = TARRY_STOP_DEADLINE;
    job->local_settings.server.deadline_ns = 50000000;
    job->straggler_spec = "dead:2";
    summing_begin(job);
    for (int round = 0; round < ATTEMPTS && good < ROUNDS; round++) {
        tarry_round_result result;
        assert_ok(summing_round(job, &result, NULL));
        assert_false(result.exact);
        assert_true(result.expected_error >= 2.0 / 8);
        good += result.expected_error == 2.0 / 8;
        double seconds = (double)(result.end_ns - result.start_ns) * 1e-9;
        assert_true(seconds >= 0.05);
    }
    assert_int_equal(good, ROUNDS);
}

SUMMING(a_deadline_with_nothing_finished_gives_zero)
{
    summing_init(job);
    job->local_settings.server.stop = TARRY_STOP_DEADLINE;
    job->local_settings.server.deadline_ns = 10000000;
    job->straggler_spec = "shifted-exp:30,0";
    summing_begin(job);
    job->sum[3] = 7;
    tarry_round_result result;
    assert_ok(summing_round(job, &result, NULL));
    assert_true(result.expected_error == 1);
    assert_int_equal(result.workers_heard, 0);
    for (size_t i = 0; i < job->dimension; i++)
        assert_true(job->sum[i] == 0);
}

SUMMING(a_chunk_that_no_one_can_compute_is_named)
{
    summing_init(job);
    job->failing_chunk = 5;
    summing_begin(job);
    tarry_round_result result;
    tarry_diagnostic diagnostic;
    assert_int_equal(summing_round(job, &result, &diagnostic), TARRY_ERROR_COVERAGE);
    assert_non_null(strstr(diagnostic.text, "can give chunks 5 (0 of 8"));
    /* The runtime is still usable. */
    job->failing_chunk = UINT32_MAX;
    assert_ok(summing_round(job, &result, &diagnostic));
    assert_true(result.exact);
    assert_true(summing_error(job) <= 1e-5);
}

static void *interrupt_soon(void *user)
{
    usleep(30000);
    tarry_runtime_interrupt(user);
    return NULL;
}

SUMMING(an_interrupted_round_can_be_followed_by_another)
{
    summing_init(job);
    job->local_settings.server.stop = TARRY_STOP_WORKERS;
    job->local_settings.server.workers_needed = 8;
    job->straggler_spec = "slow:1,100000+exp:0.0005";
    summing_begin(job);
    tarry_round_result result;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, job->local), 0);
    assert_int_equal(summing_round(job, &result, NULL), TARRY_ERROR_INTERRUPTED);
    pthread_join(thread, NULL);
    tarry_runtime_interrupt(job->local);
    assert_int_equal(summing_round(job, &result, NULL), TARRY_ERROR_INTERRUPTED);
}

/* Any of the allocations may fail, with the threads running or not;
 * nothing is lost and nothing hangs. */
static int create_and_run(void *user, const tarry_allocator *allocator)
{
    summing *job = user;
    tarry_runtime *local;
    int error = tarry_local_create(job->plan, &job->local_settings, allocator, &local, NULL);
    if (error != TARRY_OK)
        return error;
    tarry_round_result result;
    error = tarry_runtime_round(local, job->parameters, job->sum, &result, NULL);
    tarry_runtime_free(local, true);
    return error;
}

SUMMING(every_allocation_may_fail)
{
    summing_init(job);
    job->plan_settings.workers = job->plan_settings.chunks = 3;
    job->plan_settings.replication = job->plan_settings.parts = 2;
    summing_begin(job);
    assert_true(fail_each_allocation(create_and_run, job) > 40);
}

TEST(a_round_without_memory_can_be_repeated)
{
    summing job;
    summing_init(&job);
    summing_begin(&job);
    tarry_runtime_free(job.local, true);
    failing_allocator memory;
    failing_allocator_init(&memory, SIZE_MAX);
    assert_ok(
        tarry_local_create(job.plan, &job.local_settings, &memory.allocator, &job.local, NULL));
    tarry_round_result result;
    memory.fail_at = 0; /* there is none for the parameters */
    tarry_diagnostic diagnostic;
    assert_int_equal(summing_round(&job, &result, &diagnostic), TARRY_ERROR_NO_MEMORY);
    assert_non_null(strstr(diagnostic.text, "round 0: "));
    memory.fail_at = SIZE_MAX;
    assert_ok(summing_round(&job, &result, NULL));
    assert_int_equal(result.round, 0);
    assert_true(result.exact);
    assert_true(summing_error(&job) <= 1e-5);
    summing_end(&job);
    assert_int_equal(memory.live, 0);
}
