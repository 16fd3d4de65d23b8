/* SPDX-License-Identifier: Apache-2.0 */
/* The engine that fails on command, over shared memory. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/shared.h"
#include "engine_group.h"
#include "faulty_engine.h"
#include "test.h"

enum { COUNT = 3, FAULTY = 1, DIMENSION = 5000 };

static void begin(engine_group *group)
{
    *group = (engine_group){.count = COUNT};
    for (uint32_t i = 0; i < COUNT; i++) {
        group->workers[i] = i;
        assert_ok(shared_engine_create(4096, NULL, NULL, &group->engines[i], NULL));
        assert_ok(faulty_engine_create(group->engines[i], NULL, &group->engines[i]));
    }
    engine_group_form(group, 1);
}

static void end(engine_group *group)
{
    for (uint32_t i = 0; i < COUNT; i++)
        group->engines[i]->methods->free(group->engines[i]);
    engine_group_release_sums(group);
}

#define GROUP(name) TEST_OF(name, engine_group, group, end)

GROUP(without_a_fault_it_is_the_other_engine)
{
    OWNED(sum_case) of = sum_case_make(DIMENSION, 2, COUNT, false, 1);
    begin(group);
    engine_group_sum(group, of, 1, 1);
}

/* Bytes that a member moves in the whole sum. */
static uint64_t all_bytes(engine_group *group, const sum_case *of)
{
    engine_group_sum(group, of, 1000, 1);
    return group->progress[FAULTY].moved;
}

GROUP(it_fails_at_every_point_once)
{
    OWNED(sum_case) of = sum_case_make(DIMENSION, 2, COUNT, false, 1);
    begin(group);
    uint64_t bytes = all_bytes(group, of), before = 0;
    for (uint32_t attempt = 1; attempt <= 10; attempt++) {
        uint64_t after = attempt == 10 ? UINT64_MAX : attempt * bytes / 9;
        faulty_engine_set(group->engines[FAULTY], (faulty_point){FAULTY_FAIL, after, 2});
        engine_group_start(group, of, attempt);
        engine_group_run(group, attempt, 0);
        assert_true(faulty_engine_struck(group->engines[FAULTY]));
        assert_int_equal(group->progress[FAULTY].state, TARRY_ENGINE_FAILED);
        assert_int_equal(group->progress[FAULTY].suspect, 2);
        assert_true(group->progress[FAULTY].moved >= before);
        before = group->progress[FAULTY].moved;
        for (uint32_t i = 0; i < COUNT; i++) {
            if (group->progress[i].state == TARRY_ENGINE_DONE)
                sum_case_check(of, group->sums[i]);
            group->engines[i]->methods->abandon(group->engines[i]);
        }
    }
    assert_true(before == bytes); /* the last one had it all */
    engine_group_sum(group, of, 100, 1);
}

GROUP(it_hangs_until_it_abandons)
{
    OWNED(sum_case) of = sum_case_make(DIMENSION, 1, COUNT, false, 2);
    begin(group);
    faulty_engine_set(group->engines[FAULTY], (faulty_point){FAULTY_HANG, 4000, 0});
    engine_group_start(group, of, 1);
    engine_group_run(group, 3, 0);
    assert_true(faulty_engine_struck(group->engines[FAULTY]));
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(group->progress[i].state, TARRY_ENGINE_RUNNING);
    tarry_engine *engine = group->engines[FAULTY];
    tarry_engine_progress progress;
    engine->methods->wake(engine);
    engine->methods->wait(engine, TARRY_NEVER, &progress);
    assert_int_equal(progress.state, TARRY_ENGINE_RUNNING);
    for (uint32_t i = 0; i < COUNT; i++)
        group->engines[i]->methods->abandon(group->engines[i]);
    engine_group_sum(group, of, 2, 3);
}

GROUP(one_bit_of_a_sum_is_wrong)
{
    OWNED(sum_case) of = sum_case_make(DIMENSION, 1, COUNT, false, 2);
    begin(group);
    faulty_engine_set(group->engines[FAULTY], (faulty_point){FAULTY_CORRUPT, 0, 0});
    engine_group_start(group, of, 1);
    engine_group_run(group, 3, 0);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_true(sum_case_holds(of, group->sums[i]) == (i != FAULTY));
}

GROUP(calls_fail_when_told)
{
    OWNED(sum_case) of = sum_case_make(DIMENSION, 1, COUNT, false, 2);
    begin(group);
    tarry_engine *engine = group->engines[FAULTY];
    faulty_engine_set(engine, (faulty_point){.kind = FAULTY_FORM});
    assert_int_equal(engine_group_form_one(group, FAULTY, 2, NULL), TARRY_ERROR_SYSTEM);
    assert_ok(engine_group_form_one(group, FAULTY, 2, NULL));
    faulty_engine_set(engine, (faulty_point){.kind = FAULTY_START});
    float number;
    const tarry_engine_sum sum = {
        .name = {1, 1, 1, 0}, .dimension = 1, .parts = 1, .weights = of->weights, .sum = &number};
    assert_int_equal(engine->methods->start(engine, &sum), TARRY_ERROR_NO_MEMORY);
    assert_ok(engine->methods->start(engine, &sum));
}

/* A process of its own, which is to end as told. */
GROUP(a_process_is_stopped_and_killed)
{
    OWNED(sum_case) of = sum_case_make(DIMENSION, 1, COUNT, false, 2);
    begin(group);
    pid_t child = fork();
    if (child == 0) {
        faulty_engine_set(group->engines[FAULTY], (faulty_point){FAULTY_STOP, 100, 0});
        engine_group_start(group, of, 1);
        engine_group_run(group, 3, 0);
        faulty_engine_set(group->engines[FAULTY], (faulty_point){FAULTY_KILL, 0, 0});
        engine_group_start(group, of, 2);
        engine_group_run(group, 3, 0);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    kill(child, SIGCONT);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}
