/* SPDX-License-Identifier: Apache-2.0 */
/* Workers whose owners take tasks and give them back, in this process and over the network: the
 * same stories of both. */
#include <math.h>
#include <sched.h>

#include "task_crew.h"
#include "test.h"

static float parameters[1], sum[TASK_DIMENSION];
static _Atomic unsigned late; /* tasks of worker 0 that were given back too late */
static _Atomic bool dawdles;  /* worker 0, until nobody waits for its task */

static void compute(task_hand *own, const tarry_task *task)
{
    bool waits = own->worker == 0 && atomic_exchange(&dawdles, false);
    while (waits && !tarry_compute_cancelled(task))
        sched_yield();
    for (size_t i = 0; i < task->dimension; i++)
        task->gradient[i] = task->parameters[0] * (float)((task->chunk + 1) * (i % 7 + 1));
    bool in_vain = tarry_task_give(task, 0) == TARRY_ERROR_STATE;
    late += in_vain && own->worker == 0;
}

static void begin_crew(task_crew *own, uint32_t replication, bool network)
{
    *own = (task_crew){.network = network, .does = compute};
    parameters[0] = 0;
    late = 0;
    task_crew_make(own, replication);
    task_crew_begin(own);
}

static void end_crew(task_crew *own)
{
    task_crew_end(own);
    for (uint32_t worker = 0; worker < TASK_WORKERS; worker++)
        assert_ok(own->hands[worker].result);
}

static void sums_are_exact(task_crew *own, unsigned rounds)
{
    for (unsigned round = 0; round < rounds; round++) {
        tarry_round_result result;
        parameters[0] += 1;
        int error = tarry_runtime_round(own->runtime, parameters, sum, &result, NULL);
        assert_ok(error);
        assert_true(result.exact);
        for (size_t i = 0; i < TASK_DIMENSION; i++) {
            double truth = parameters[0] * 36 * (double)(i % 7 + 1);
            assert_true(fabs(sum[i] - truth) < 1e-4 * truth);
        }
    }
}

static void sums_of_what_was_taken(bool network)
{
    task_crew own;
    begin_crew(&own, 3, network);
    task_crew_start(&own);
    sums_are_exact(&own, 5);
    for (uint32_t worker = 0; network && worker < TASK_WORKERS; worker++)
        assert_int_equal(own.hands[worker].begun, 1);
    end_crew(&own);
}

TEST(tasks_are_taken_here)
{
    sums_of_what_was_taken(false);
}

TEST(tasks_are_taken_over_the_network)
{
    sums_of_what_was_taken(true);
}

/* Its chunks are done by others; what it gives comes too late, and it goes on with the next round.
 */
static void who_dawdles_learns_it(bool network)
{
    task_crew own;
    begin_crew(&own, 3, network);
    dawdles = true;
    task_crew_start(&own);
    sums_are_exact(&own, 1);
    while (dawdles) /* it may not have come to it before the round was over */
        sums_are_exact(&own, 1);
    sums_are_exact(&own, 3);
    end_crew(&own);
    assert_true(late >= 1);
}

TEST(a_straggler_here_learns_that_its_task_is_not_wanted)
{
    who_dawdles_learns_it(false);
}

TEST(a_straggler_far_away_learns_that_its_task_is_not_wanted)
{
    who_dawdles_learns_it(true);
}

TEST(nothing_to_take_is_said)
{
    task_crew own;
    const tarry_task *task;
    begin_crew(&own, 3, false);
    assert_int_equal(task_hand_take(&own.hands[0], 0, &task), TARRY_ERROR_STATE);
    task_crew_start(&own);
    end_crew(&own);
    begin_crew(&own, 3, true);
    assert_int_equal(tarry_tcp_worker_run(own.hands[0].remote, NULL), TARRY_ERROR_STATE);
    task_crew_start(&own);
    assert_int_equal(task_hand_take(&own.hands[0], 0, &task), TARRY_ERROR_STATE);
    end_crew(&own);
}

static void *run_round(void *argument)
{
    task_crew *own = argument;
    tarry_round_result result;
    tarry_runtime_round(own->runtime, parameters, sum, &result, NULL);
    return NULL;
}

/* An owner that gives up in the middle of a task frees its worker, and nobody waits for the task.
 */
TEST(a_worker_is_freed_with_its_task_out)
{
    task_crew own;
    pthread_t rounds;
    const tarry_task *task;
    begin_crew(&own, TASK_WORKERS, true);
    assert_ok(tarry_runtime_open(own.runtime, NULL));
    own.hands[0].thread = pthread_self();
    while (task_hand_take(&own.hands[0], 0, &task) == TARRY_ERROR_STATE &&
           !tarry_runtime_worker(own.runtime, 0).present)
        sched_yield();
    pthread_create(&rounds, NULL, run_round, &own);
    assert_ok(task_hand_take(&own.hands[0], TARRY_NEVER, &task));
    assert_non_null(task);
    assert_int_equal(task_hand_take(&own.hands[0], 0, &task), TARRY_ERROR_STATE);
    for (uint32_t worker = 0; worker < TASK_WORKERS; worker++)
        tarry_tcp_worker_free(own.hands[worker].remote);
    pthread_join(rounds, NULL); /* for want of coverage */
    tarry_runtime_free(own.runtime, true);
    tarry_plan_free(own.plan);
}
