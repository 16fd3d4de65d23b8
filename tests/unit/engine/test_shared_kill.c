/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member of a sum in shared memory that is killed or stopped between any two instructions. It is
 * a process of its own, traced: call by call to the one that a seed says, and instruction by
 * instruction within that. The others take turns in this process, and have done all they can before
 * each of its calls.
 */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "engine/shared.h"
#include "engine_group.h"
#include "seed.h"
#include "test.h"

enum {
    COUNT = 3,
    DIMENSION = 700, /* at most: some stripes */
    NUMBERS = 1024,  /* of a segment */
    CALLS = 40,      /* at most, after which the member gives up: the others will not go on */
    TRIALS = 8,
    TRIALS_LONG = 100,
};

/* What both processes see. */
typedef struct area {
    uint8_t address[TARRY_ENGINE_ADDRESS_MOST];
    size_t address_size;
    uint8_t group_address[COUNT][TARRY_ENGINE_ADDRESS_MOST];
    size_t group_size[COUNT];
    tarry_engine_state state;
    float sum[DIMENSION];
} area;

/* A member's calls, and the instructions of each, from one stop to the next. */
typedef struct course {
    uint32_t calls;
    uint32_t instructions[CALLS];
} course;

typedef struct trial {
    uint32_t place; /* of the one in another process */
    uint32_t call;  /* the one in which it happens, from 0 */
    uint32_t instructions;
    bool stays; /* stopped, until the others have made `ahead` steps of the next sum; else it is
                   killed */
    uint32_t ahead;
} trial;

/* ---- the member that it happens to ---- */

static void be_member(area *shared, const trial *how, const sum_case *of)
{
    tarry_engine *engine;
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0 ||
        shared_engine_create(NUMBERS, NULL, NULL, &engine, NULL) != TARRY_OK)
        _exit(3);
    engine->methods->address(engine, shared->address, &shared->address_size);
    raise(SIGSTOP); /* the others read the address, and give theirs */
    tarry_engine_member members[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        members[i] = (tarry_engine_member){i, shared->group_address[i], shared->group_size[i]};
    const tarry_engine_sum sum = {
        .name = {1, 1, 1, 0},
        .dimension = of->dimension,
        .parts = of->parts,
        .part = of->part[how->place],
        .weights = of->weights,
        .sum = shared->sum,
    };
    if (engine->methods->form(
            engine,
            &(tarry_engine_group){
                .epoch = 1, .count = COUNT, .place = how->place, .members = members},
            NULL) != TARRY_OK)
        _exit(4);
    raise(SIGSTOP); /* call 0 follows */
    if (engine->methods->start(engine, &sum) != TARRY_OK)
        _exit(5);
    tarry_engine_progress progress = {.state = TARRY_ENGINE_RUNNING};
    for (uint32_t call = 1; call < CALLS && progress.state == TARRY_ENGINE_RUNNING; call++) {
        raise(SIGSTOP);
        engine->methods->wait(engine, 1, &progress);
    }
    shared->state = progress.state;
    _exit(0);
}

/* ---- the others ---- */

/* Whether the process stopped again, *by by that signal; else it has ended. */
static bool await_stop(pid_t child, int *by)
{
    int status;
    pid_t changed;
    do
        changed = waitpid(child, &status, 0);
    while (changed < 0 && errno == EINTR);
    assert_int_equal(changed, child);
    *by = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
    return WIFSTOPPED(status);
}

/* One call, freely. False: it has ended. */
static bool run_call(pid_t child)
{
    int by;
    assert_int_equal(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
    return await_stop(child, &by);
}

/* So many instructions, or less to its next call; *made says how many. False: it has ended. */
static bool run_instructions(pid_t child, uint32_t most, uint32_t *made)
{
    for (*made = 0; *made < most; ++*made) {
        int by;
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
        if (!await_stop(child, &by))
            return false;
        if (by == SIGSTOP)
            return true;
    }
    return true;
}

/* What the others have by now: the sum, or a wait for who is gone. No wrong sum, and no failure. */
static void check_first(const engine_group *group, const sum_case *of)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        if (group->engines[i] == NULL)
            continue;
        if (group->progress[i].state == TARRY_ENGINE_DONE)
            sum_case_check(of, group->sums[i]);
        else
            assert_int_equal(group->progress[i].state, TARRY_ENGINE_RUNNING);
    }
}

/* The stopped process goes on to its end. Whatever it has is right. */
static void end_child(pid_t child, const area *shared, const sum_case *of)
{
    while (run_call(child))
        ;
    assert_int_not_equal(shared->state, TARRY_ENGINE_IDLE);
    if (shared->state == TARRY_ENGINE_DONE)
        sum_case_check(of, shared->sum);
}

/* The same engines without the member. */
static void sum_without(const engine_group *all, const trial *how, pid_t child, const area *shared,
                        const sum_case *whole, const sum_case *rest, uint64_t seed)
{
    engine_group left = {0};
    for (uint32_t i = 0; i < COUNT; i++) {
        if (i == how->place)
            continue;
        all->engines[i]->methods->abandon(all->engines[i]);
        left.workers[left.count] = i;
        left.engines[left.count++] = all->engines[i];
    }
    engine_group_form(&left, 2);
    engine_group_start(&left, rest, 2);
    if (how->stays) {
        if (how->ahead > 0)
            engine_group_run(&left, seed, how->ahead);
        end_child(child, shared, whole);
    }
    engine_group_run(&left, seed, 0);
    engine_group_check(&left, rest);
    engine_group_release_sums(&left);
}

static void form_with(engine_group *group, area *shared, uint32_t place)
{
    *group = (engine_group){.count = COUNT};
    for (uint32_t i = 0; i < COUNT; i++) {
        group->workers[i] = i;
        if (i == place) {
            group->elsewhere[i] = (tarry_engine_member){i, shared->address, shared->address_size};
            memcpy(shared->group_address[i], shared->address, shared->address_size);
            shared->group_size[i] = shared->address_size;
            continue;
        }
        assert_ok(shared_engine_create(NUMBERS, NULL, NULL, &group->engines[i], NULL));
        group->engines[i]->methods->address(group->engines[i], shared->group_address[i],
                                            &shared->group_size[i]);
    }
    engine_group_form(group, 1);
}

/* Starts the process and the others, which form the group. */
static pid_t begin(const trial *how, area *shared, engine_group *group, const sum_case *of)
{
    int by;
    memset(shared, 0, sizeof(*shared));
    pid_t child = fork();
    if (child == 0)
        be_member(shared, how, of);
    if (!await_stop(child, &by))
        skip(); /* processes may not be traced here */
    form_with(group, shared, how->place);
    engine_group_start(group, of, 1);
    assert_true(run_call(child)); /* to its start */
    return child;
}

static void end(engine_group *group)
{
    for (uint32_t i = 0; i < COUNT; i++)
        if (group->engines[i] != NULL)
            group->engines[i]->methods->free(group->engines[i]);
    engine_group_release_sums(group);
}

/* How a sum goes in which nothing happens. */
static course measure(area *shared, const sum_case *of)
{
    const trial how = {.place = 0};
    engine_group group;
    course made = {0};
    pid_t child = begin(&how, shared, &group, of);
    bool lives = true;
    for (; lives; made.calls++) {
        assert_true(made.calls < CALLS);
        engine_group_run(&group, made.calls, 0);
        lives = run_instructions(child, UINT32_MAX, &made.instructions[made.calls]);
    }
    engine_group_run(&group, 1, 0);
    engine_group_check(&group, of);
    assert_int_equal(shared->state, TARRY_ENGINE_DONE);
    sum_case_check(of, shared->sum);
    end(&group);
    return made;
}

static void run_trial(const trial *how, area *shared, const sum_case *whole, const sum_case *rest,
                      uint64_t seed)
{
    int status;
    uint32_t made;
    engine_group group;
    pid_t child = begin(how, shared, &group, whole);
    bool lives = true;
    for (uint32_t call = 0; lives && call < how->call; call++) {
        engine_group_run(&group, seed + call, 0);
        lives = run_call(child);
    }
    engine_group_run(&group, seed, 0);
    lives = lives && run_instructions(child, how->instructions, &made);
    if (lives && !how->stays) {
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    engine_group_run(&group, seed, 0);
    check_first(&group, whole);
    if (lives)
        sum_without(&group, how, child, shared, whole, rest, seed);
    end(&group);
}

static void run_trials(bool stays, const char *name)
{
    uint64_t seed = test_seed(name, 21);
    random_stream stream = random_stream_make(seed, RANDOM_TEST, 2, stays);
    area *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    static const size_t dimensions[] = {90, DIMENSION}; /* one stripe, and some */
    for (size_t d = 0; d < 2; d++) {
        OWNED(sum_case) whole = sum_case_make(dimensions[d], 2, COUNT, false, seed);
        OWNED(sum_case) rest = sum_case_make(dimensions[d], 1, COUNT - 1, false, seed);
        course all = measure(shared, whole);
        for (uint32_t i = 0; i < (test_is_long() ? TRIALS_LONG : TRIALS) / 2; i++) {
            trial how = {.place = random_below(&stream, COUNT),
                         .stays = stays,
                         .ahead = random_below(&stream, 8)};
            how.call = random_below(&stream, all.calls);
            how.instructions = random_below(&stream, all.instructions[how.call]);
            run_trial(&how, shared, whole, rest, seed + i);
        }
    }
    munmap(shared, sizeof(*shared));
}

TEST(a_member_is_killed_at_any_instruction)
{
    run_trials(false, "kill");
}

TEST(a_member_is_stopped_at_any_instruction)
{
    run_trials(true, "stop");
}
