/* SPDX-License-Identifier: Apache-2.0 */
/* Where everyone gets the sum, owners that take their worker's steps as they take gradients to
 * compute, in this process and over the network. */
#include <unistd.h>

#include <tarry/local.h>

#include "replica.h"
#include "task_crew.h"
#include "test.h"

enum { ROUNDS = 12 };

/* What a worker's owner does, and counts. */
typedef struct book {
    int (*step)(void *user, uint64_t step, const float *sum);
    uint64_t steps;
    uint64_t odd; /* of these, the ones whose task was not as it should be */
} book;

static replica_job job;
static book books[TASK_WORKERS];
static uint64_t holds_at;    /* worker 0 keeps the first step that it takes from this one on, */
static _Atomic bool holds;   /* and does so now, */
static _Atomic bool lets_go; /* until this is set */
static _Atomic bool ends;    /* who still steps may do so in vain */
static uint64_t fails_at;    /* from this one on it gives back an error: */
static int gives;

static int step_on(task_hand *own, const tarry_task *task)
{
    book *its = &books[own->worker];
    bool in_vain =
        tarry_compute_cancelled(task); /* asked first: the end is marked before it begins */
    its->odd += task->gradient != NULL || task->span_count != 0 ||
                task->dimension != TASK_DIMENSION || (in_vain && !ends);
    if (own->worker == 0 && fails_at != 0 && task->step >= fails_at)
        return gives;
    if (own->worker == 0 && holds_at != 0 && task->step >= holds_at && !holds) {
        holds = true;
        while (!lets_go)
            usleep(1000);
    }
    its->steps++;
    return its->step(own->replica.user, task->step, task->sum);
}

static void work(task_hand *own, const tarry_task *task)
{
    tarry_task_give(task, task->step != 0 ? step_on(own, task) : replica_compute(&job, task));
}

static void begin_crew(task_crew *own, bool network)
{
    *own = (task_crew){.network = network, .steps = true, .does = work};
    memset(books, 0, sizeof(books));
    holds_at = fails_at = 0;
    holds = lets_go = ends = false;
    replica_job_init(&job, TASK_WORKERS, TASK_CHUNKS, TASK_DIMENSION);
    task_crew_make(own, 3);
    for (uint32_t worker = 0; worker < TASK_WORKERS; worker++) {
        tarry_replica *replica = &own->hands[worker].replica;
        *replica = replica_of(&job, worker);
        books[worker].step = replica->step;
        replica->step = NULL;
    }
}

static void start(task_crew *own)
{
    task_crew_begin(own);
    task_crew_start(own);
}

static void run(task_crew *own, uint64_t rounds)
{
    for (uint64_t round = 0; round < rounds; round++) {
        tarry_round_result result;
        tarry_diagnostic why;
        assert_ok_or(why, tarry_runtime_round(own->runtime, NULL, NULL, &result, &why));
        assert_true(result.exact);
    }
}

static void end(task_crew *own)
{
    ends = true;
    task_crew_end(own);
    for (uint32_t worker = 0; worker < TASK_WORKERS; worker++)
        assert_int_equal(books[worker].odd, 0);
    replica_job_end(&job);
}

static void all_have_stepped(task_crew *own, uint64_t rounds)
{
    assert_ok(tarry_runtime_wait(own->runtime, TASK_WORKERS, TASK_PATIENCE_NS, NULL));
    OWNED(float) expected = replica_expect(&job, rounds);
    replica_check(&job, rounds);
    replica_compare(&job, expected);
}

static void owners_step(bool network)
{
    task_crew own;
    begin_crew(&own, network);
    start(&own);
    run(&own, ROUNDS);
    all_have_stepped(&own, ROUNDS);
    end(&own);
    for (uint32_t worker = 0; worker < TASK_WORKERS; worker++)
        assert_ok(own.hands[worker].result);
}

TEST(steps_are_taken_here)
{
    owners_step(false);
}

TEST(steps_are_taken_over_the_network)
{
    owners_step(true);
}

/* Others go on without one that keeps its step; it gets what it missed, and steps with them again.
 */
static void who_keeps_a_step_holds_up_nobody(bool network)
{
    task_crew own;
    begin_crew(&own, network);
    holds_at = 3;
    start(&own);
    uint64_t rounds = 0;
    for (; !holds; rounds++) /* it may miss some, and get the state after them */
        run(&own, 1);
    run(&own, ROUNDS / 2);
    lets_go = true;
    rounds += ROUNDS / 2;
    all_have_stepped(&own, rounds);
    assert_true(books[0].steps < rounds);
    end(&own);
}

TEST(who_keeps_a_step_here_holds_up_nobody)
{
    who_keeps_a_step_holds_up_nobody(false);
}

TEST(who_keeps_a_step_far_away_holds_up_nobody)
{
    who_keeps_a_step_holds_up_nobody(true);
}

/* An owner that can't step ends its worker alone. */
TEST(an_owner_that_fails_ends_its_worker)
{
    task_crew own;
    begin_crew(&own, true);
    fails_at = 2;
    gives = TARRY_ERROR_NO_MEMORY;
    start(&own);
    while (tarry_runtime_worker(own.runtime, 0).present)
        run(&own, 1);
    run(&own, ROUNDS);
    end(&own);
    assert_int_equal(own.hands[0].result, TARRY_ERROR_NO_MEMORY);
    assert_ok(own.hands[1].result);
}

/* A runtime that computes by itself has nobody to take steps. */
TEST(steps_are_not_taken_without_tasks)
{
    task_crew own;
    tarry_diagnostic why;
    tarry_replica replicas[TASK_WORKERS];
    begin_crew(&own, false);
    for (uint32_t worker = 0; worker < TASK_WORKERS; worker++)
        replicas[worker] = own.hands[worker].replica;
    tarry_local_settings settings;
    tarry_local_settings_init(&settings);
    settings.parameters = settings.dimension = TASK_DIMENSION;
    settings.compute = replica_compute;
    settings.user = &job;
    settings.replicas = replicas;
    task_crew_server(&own, &settings.server);
    assert_int_equal(tarry_local_create(own.plan, &settings, NULL, &own.runtime, &why),
                     TARRY_ERROR_ARGUMENT);
    tarry_plan_free(own.plan);
    replica_job_end(&job);
}
