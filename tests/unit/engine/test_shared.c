/* SPDX-License-Identifier: Apache-2.0 */
/* The shared-memory engine: members that take turns in one thread, and members in threads of their
 * own. */
#include <pthread.h>
#include <time.h>

#include "base/random.h"
#include "coding/layout.h"
#include "engine/shared.h"
#include "engine_group.h"
#include "failing_allocator.h"
#include "runtime/clock.h"
#include "seed.h"
#include "test.h"

enum { SMALL = 4096 }; /* numbers of a segment: a sum of some thousands has many stripes */

static void make_engines(engine_group *group, uint32_t count, size_t numbers)
{
    tarry_diagnostic why;
    *group = (engine_group){.count = count};
    for (uint32_t i = 0; i < count; i++) {
        group->workers[i] = 3 * i + 1;
        assert_ok(shared_engine_create(numbers, NULL, NULL, &group->engines[i], &why));
    }
}

static void free_engines(engine_group *group)
{
    for (uint32_t i = 0; i < group->count; i++)
        group->engines[i]->methods->free(group->engines[i]);
    engine_group_release_sums(group);
}

/* ---- sums ---- */

/* Shared memory counts what a member reads of others: (1 + 1 / l) d (n - 1) / n numbers, if all
 * have coded parts; a share has up to a line more than its n-th of a stripe. */
static void check_moved(const engine_group *group, const sum_case *of)
{
    uint64_t all = 0;
    uint64_t part = (of->dimension + of->parts - 1) / of->parts;
    for (uint32_t i = 0; i < group->count; i++)
        all += group->progress[i].moved;
    assert_true(all <= sizeof(float) * (group->count - 1) * (part + of->dimension));
}

TEST(all_members_and_parts_get_the_sum)
{
    static const size_t dimensions[] = {1, 7, 64, 1001, 6007};
    uint64_t seed = test_seed("shared", 4);
    for (uint32_t count = 1; count <= ENGINE_GROUP_MOST; count++) {
        engine_group group;
        make_engines(&group, count, SMALL);
        engine_group_form(&group, 1);
        uint32_t attempt = 0;
        for (uint32_t parts = 1; parts <= 4; parts++) {
            for (size_t i = 0; i < sizeof(dimensions) / sizeof(*dimensions); i++) {
                OWNED(sum_case)
                of = sum_case_make(dimensions[i], parts, count, (i + parts) % 2 == 1, ++seed);
                engine_group_sum(&group, of, ++attempt, seed);
                check_moved(&group, of);
            }
        }
        free_engines(&group);
    }
}

/* What is not sent is rounded all the same, so that a sum is what it is between machines. */
TEST(numbers_are_rounded_as_if_they_were_sent)
{
    static const size_t dimensions[] = {1, 7, 64, 1001, 6007};
    uint64_t seed = test_seed("shared forms", 4);
    for (uint32_t count = 1; count <= ENGINE_GROUP_MOST; count += 2) {
        engine_group group;
        make_engines(&group, count, SMALL);
        engine_group_form(&group, 1);
        uint32_t attempt = 0;
        for (size_t f = 0; f < SUM_CASE_TRIED; f++) {
            for (size_t i = 0; i < sizeof(dimensions) / sizeof(*dimensions); i++) {
                OWNED(sum_case) of = sum_case_make(dimensions[i], 1, count, i % 2 == 1, ++seed);
                group.forms = sum_case_tried[f];
                engine_group_sum(&group, of, ++attempt, seed);
            }
        }
        free_engines(&group);
    }
}

#define ENGINES(name) TEST_OF(name, engine_group, group, free_engines)

ENGINES(forms_that_are_none_of_sums_are_refused)
{
    make_engines(group, 2, SMALL);
    engine_group_form(group, 1);
    engine_refuses_forms(group->engines[0]);
}

ENGINES(segments_of_any_size_go_together)
{
    make_engines(group, 3, SMALL);
    group->engines[1]->methods->free(group->engines[1]);
    assert_ok(shared_engine_create(SMALL / 4, NULL, NULL, &group->engines[1], NULL));
    OWNED(sum_case) of = sum_case_make(5000, 2, 3, false, 3);
    engine_group_form(group, 1);
    engine_group_sum(group, of, 1, 1);
    /* One that has no room for a stripe is an error, not a sum. */
    group->engines[1]->methods->free(group->engines[1]);
    assert_ok(shared_engine_create(64, NULL, NULL, &group->engines[1], NULL));
    engine_group_form(group, 2);
    tarry_engine_sum sum = {
        .dimension = 5000, .parts = 2, .weights = of->weights, .sum = group->sums[0]};
    assert_int_equal(group->engines[0]->methods->start(group->engines[0], &sum),
                     TARRY_ERROR_NO_MEMORY);
}

/* A member dies in the middle of a sum: the others sum on without it. */
TEST(those_who_are_left_sum_on)
{
    enum { DIMENSION = 9001, COUNT = 4 };
    uint64_t seed = test_seed("shared stands", 4);
    for (uint32_t run = 0; run < 12; run++) {
        uint32_t parts = 1 + run % 3;
        engine_group group;
        make_engines(&group, COUNT, SMALL);
        OWNED(sum_case) first = sum_case_make(DIMENSION, parts, COUNT, false, ++seed);
        OWNED(sum_case) second = sum_case_make(DIMENSION, parts, COUNT - 1, run % 2 == 1, ++seed);
        engine_group_form(&group, 1);
        engine_group_start(&group, first, 1);
        engine_group_run(&group, seed, 20 * (run + 1));
        group.count--;
        for (uint32_t i = 0; i < group.count; i++)
            group.engines[i]->methods->abandon(group.engines[i]);
        engine_group_form(&group, 2);
        engine_group_sum(&group, second, 2, seed);
        group.count++;
        free_engines(&group);
    }
}

typedef struct member_thread {
    pthread_t thread;
    engine_group *group;
    uint32_t place;
    const sum_case *of;
} member_thread;

enum { ROUNDS = 40 };

static void *sum_again_and_again(void *argument)
{
    member_thread *own = argument;
    engine_group *group = own->group;
    tarry_engine *engine = group->engines[own->place];
    for (uint32_t attempt = 1; attempt <= ROUNDS; attempt++) {
        tarry_engine_progress *progress = &group->progress[own->place];
        const tarry_engine_sum sum = {
            .name = {.step = attempt, .term = 1, .attempt = attempt},
            .dimension = own->of->dimension,
            .parts = own->of->parts,
            .part = own->of->part[own->place],
            .weights = own->of->weights,
            .sum = group->sums[own->place],
        };
        memset(sum.sum, 0xff, sum.dimension * sizeof(float));
        if (engine->methods->start(engine, &sum) != TARRY_OK)
            return NULL;
        engine->methods->wait(engine, TARRY_NEVER, progress);
        if (progress->state != TARRY_ENGINE_DONE)
            return NULL;
    }
    return engine;
}

/* Nothing but the engine keeps the members together: one may begin the next sum while others gather
 * this one. */
TEST(threads_get_sum_after_sum)
{
    for (uint32_t count = 2; count <= 6; count += 2) {
        engine_group group;
        make_engines(&group, count, SMALL);
        OWNED(sum_case) of = sum_case_make(9000, 1 + count % 3, count, false, count);
        engine_group_form(&group, 1);
        member_thread members[ENGINE_GROUP_MOST];
        for (uint32_t i = 0; i < count; i++) {
            group.sums[i] = malloc(of->dimension * sizeof(float));
            members[i] = (member_thread){.group = &group, .place = i, .of = of};
            assert_int_equal(
                pthread_create(&members[i].thread, NULL, sum_again_and_again, &members[i]), 0);
        }
        for (uint32_t i = 0; i < count; i++) {
            void *good;
            pthread_join(members[i].thread, &good);
            assert_non_null(good);
        }
        engine_group_check(&group, of);
        free_engines(&group);
    }
}

/* ---- ends ---- */

/* After any number of steps some abandon, and sum without one; the others stay in the first sum, as
 * if stopped, or go on with it between the steps of the second. Whatever is done is right. */
static void abandon_sums_of(size_t first, size_t second, uint64_t seed)
{
    enum { COUNT = 4, LEFT = COUNT - 1 };
    random_stream stream = random_stream_make(seed, RANDOM_TEST, 1, 0);
    engine_group all, fewer = {.count = LEFT};
    make_engines(&all, COUNT, SMALL / 2);
    OWNED(sum_case) whole = sum_case_make(first, 2, COUNT, false, seed);
    OWNED(sum_case) rest = sum_case_make(second, 1, LEFT, true, seed);
    bool ended = false;
    for (uint64_t steps = 0, epoch = 1; !ended; steps++, epoch += 2) {
        engine_group_form(&all, epoch);
        engine_group_start(&all, whole, (uint32_t)epoch);
        ended = engine_group_run(&all, seed + steps, steps + 1) <= steps;
        uint32_t out = random_below(&stream, COUNT);
        bool rests = random_below(&stream, 2) == 1; /* until the others are in the next sum */
        for (uint32_t i = 0, j = 0; i < COUNT; i++) {
            if (all.progress[i].state == TARRY_ENGINE_DONE)
                sum_case_check(whole, all.sums[i]);
            if (i == out)
                continue;
            fewer.engines[j] = all.engines[i];
            fewer.workers[j++] = all.workers[i];
        }
        for (uint32_t i = 0; i < LEFT; i++) {
            fewer.engines[i]->methods->abandon(fewer.engines[i]);
            assert_ok(engine_group_form_one(&fewer, i, epoch + 1, NULL));
            if (!rests)
                engine_group_step(&all, out);
            engine_group_start_one(&fewer, i, rest, (uint32_t)epoch);
            if (!rests)
                engine_group_step(&all, out);
        }
        for (uint64_t k = 0; k < 40 && steps % 2 == 0; k++) {
            engine_group_run(&fewer, seed + k, 1 + random_below(&stream, 4));
            engine_group_step(&all, out);
        }
        engine_group_run(&fewer, seed, 0);
        engine_group_check(&fewer, rest);
        engine_group_run(&all, seed, 20);
        if (all.progress[out].state == TARRY_ENGINE_DONE)
            sum_case_check(whole, all.sums[out]);
        else if (all.progress[out].state == TARRY_ENGINE_FAILED)
            assert_int_equal(all.progress[out].suspect, TARRY_ENGINE_NOBODY);
    }
    free_engines(&all);
    engine_group_release_sums(&fewer);
}

TEST(abandon_at_any_step)
{
    uint64_t seed = test_seed("abandon", 12);
    abandon_sums_of(1500, 1300, seed);
    for (uint64_t i = 1; i <= 20; i++)
        abandon_sums_of(90, 90, seed + i); /* one stripe each, of another length */
}

/* The others of a member that abandons fail, and do not wait for it. */
ENGINES(an_abandoned_sum_fails_at_the_others)
{
    make_engines(group, 3, SMALL);
    OWNED(sum_case) of = sum_case_make(20000, 1, 3, false, 1);
    engine_group_form(group, 1);
    engine_group_start(group, of, 1);
    engine_group_run(group, 5, 12);
    group->engines[1]->methods->abandon(group->engines[1]);
    tarry_engine_progress progress;
    group->engines[1]->methods->wait(group->engines[1], 0, &progress);
    assert_int_equal(progress.state, TARRY_ENGINE_IDLE);
    for (uint32_t i = 0; i < 3; i += 2) {
        group->engines[i]->methods->wait(group->engines[i], TARRY_NEVER, &progress);
        assert_int_equal(progress.state, TARRY_ENGINE_FAILED);
        assert_int_equal(progress.suspect, TARRY_ENGINE_NOBODY);
        if (i == 0)
            assert_string_equal(progress.why, "worker 4 ended the sum");
    }
}

ENGINES(calls_out_of_order_are_refused)
{
    make_engines(group, 2, SMALL);
    float number = 1, weights[2] = {1, 1}, sum = 0;
    tarry_engine *engine = group->engines[0];
    tarry_engine_sum one = {
        .name = {1, 1, 1, 0},
        .dimension = 1,
        .parts = 1,
        .part = &number,
        .weights = weights,
        .sum = &sum,
    };
    assert_int_equal(engine->methods->start(engine, &one), TARRY_ERROR_STATE);
    engine_group_form(group, 1);
    assert_ok(engine->methods->start(engine, &one));
    assert_int_equal(engine->methods->start(engine, &one), TARRY_ERROR_STATE);
    engine->methods->abandon(engine);
    engine->methods->abandon(engine);
    one.name.attempt = 2;
    assert_ok(engine->methods->start(engine, &one)); /* and ends in the middle of a sum */
}

/* ---- waiting ---- */

static void *wake_it(void *engine)
{
    ((tarry_engine *)engine)->methods->wake(engine);
    return NULL;
}

static double thread_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

ENGINES(waiting_ends_by_wake_and_by_time)
{
    make_engines(group, 2, SMALL);
    OWNED(sum_case) of = sum_case_make(100, 1, 2, false, 1);
    engine_group_form(group, 1);
    engine_group_start_one(group, 0, of, 1);
    tarry_engine *engine = group->engines[0];
    tarry_engine_progress progress;
    engine->methods->wake(engine); /* before the wait: that one ends at once */
    engine->methods->wait(engine, TARRY_NEVER, &progress);
    assert_int_equal(progress.state, TARRY_ENGINE_RUNNING);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, wake_it, engine), 0);
        engine->methods->wait(engine, TARRY_NEVER, &progress);
        assert_int_equal(progress.state, TARRY_ENGINE_RUNNING);
        pthread_join(thread, NULL);
    }
    /* Processor time, not the time of day: a busy machine can't make this fail. Who looks again and
     * again takes all of it; what a thread is counted may hold a time in which its processor did
     * something else. */
    const uint64_t wait_ns = 200000000;
    double before = thread_seconds();
    engine->methods->wait(engine, clock_from_now(wait_ns), &progress);
    assert_int_equal(progress.state, TARRY_ENGINE_RUNNING);
    assert_true(thread_seconds() - before < 0.5 * (double)wait_ns * 1e-9);
}

/* ---- what is not believed ---- */

/* What a group with a changed address of worker 4 comes to. */
static void check_changed_address(engine_group *group, const sum_case *of, size_t place,
                                  uint8_t change, int expected)
{
    uint8_t addresses[2][TARRY_ENGINE_ADDRESS_MOST];
    tarry_engine_member members[2];
    for (uint32_t i = 0; i < 2; i++) {
        members[i] = (tarry_engine_member){.worker = group->workers[i], .address = addresses[i]};
        group->engines[i]->methods->address(group->engines[i], addresses[i],
                                            &members[i].address_size);
    }
    addresses[1][place] ^= change;
    tarry_engine *engine = group->engines[0];
    tarry_diagnostic why;
    int error = engine->methods->form(
        engine,
        &(tarry_engine_group){.epoch = place + 2, .count = 2, .place = 0, .members = members},
        &why);
    assert_int_equal(error, expected);
    if (error != TARRY_OK)
        return;
    tarry_engine_progress progress;
    engine_group_start_one(group, 0, of, 1);
    engine->methods->wait(engine, TARRY_NEVER, &progress);
    assert_int_equal(progress.state, TARRY_ENGINE_FAILED);
    assert_int_equal(progress.suspect, 4);
    assert_true(strlen(progress.why) > 0);
}

ENGINES(an_address_is_not_believed)
{
    make_engines(group, 2, SMALL);
    OWNED(sum_case) of = sum_case_make(100, 1, 2, false, 1);
    /* Each field: the mark, the process, its files (0 to 2 are no memory), the size, the machine,
     * the key. */
    check_changed_address(group, of, 0, 1, TARRY_ERROR_ARGUMENT);
    check_changed_address(group, of, 7, 0x80, TARRY_ERROR_ARGUMENT);
    check_changed_address(group, of, 6, 0x7f, TARRY_OK);
    check_changed_address(group, of, 9, 0x40, TARRY_OK);
    check_changed_address(group, of, 12, 1, TARRY_OK);
    check_changed_address(group, of, 16, 1, TARRY_OK);
    check_changed_address(group, of, 23, 0xff, TARRY_ERROR_ARGUMENT);
    check_changed_address(group, of, 24, 1, TARRY_OK);
    check_changed_address(group, of, 32, 1, TARRY_OK);
    check_changed_address(group, of, 68, 1, TARRY_OK);
    check_changed_address(group, of, SEGMENT_ADDRESS - 4, 1, TARRY_OK);
}

ENGINES(groups_that_make_no_sense_are_refused)
{
    make_engines(group, 2, SMALL);
    tarry_diagnostic why;
    group->workers[1] = group->workers[0];
    assert_int_equal(engine_group_form_one(group, 0, 1, &why), TARRY_ERROR_ARGUMENT);
    assert_string_equal(why.text, "group: worker 1 is out of order");
    group->workers[1]++;
    tarry_engine *first = group->engines[0];
    uint8_t address[TARRY_ENGINE_ADDRESS_MOST];
    tarry_engine_member member = {.worker = 1, .address = address};
    group->engines[1]->methods->address(group->engines[1], address, &member.address_size);
    const tarry_engine_group refused[] = {
        {.epoch = 1, .count = 1, .place = 0, .members = &member}, /* another's address */
        {.epoch = 1, .count = 1, .place = 1, .members = &member},
        {.epoch = 1, .count = 0, .place = 0, .members = &member},
    };
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        assert_int_equal(first->methods->form(first, &refused[i], &why), TARRY_ERROR_ARGUMENT);
    member.address_size--;
    assert_int_equal(first->methods->form(first, &refused[0], &why), TARRY_ERROR_ARGUMENT);
    assert_true(shared_engine_reaches(first, address, SEGMENT_ADDRESS));
    address[33] ^= 1; /* another machine */
    assert_false(shared_engine_reaches(first, address, SEGMENT_ADDRESS));
    address[33] ^= 1;
    address[SEGMENT_ADDRESS - 4] ^= 1; /* another user */
    assert_false(shared_engine_reaches(first, address, SEGMENT_ADDRESS));
}

/* ---- memory ---- */

static int sum_of_one(void *user, const tarry_allocator *allocator)
{
    const sum_case *of = user;
    engine_group group = {.count = 1, .workers = {7}};
    int error = shared_engine_create(SMALL, NULL, allocator, &group.engines[0], NULL);
    if (error != TARRY_OK)
        return error;
    tarry_engine *engine = group.engines[0];
    float sum[100];
    error = engine_group_form_one(&group, 0, 1, NULL);
    if (error == TARRY_OK)
        error = engine->methods->start(engine, &(tarry_engine_sum){.name = {1, 1, 1, 0},
                                                                   .dimension = 100,
                                                                   .parts = 2,
                                                                   .part = of->part[0],
                                                                   .weights = of->weights,
                                                                   .sum = sum});
    if (error == TARRY_OK) {
        tarry_engine_progress progress;
        engine->methods->wait(engine, TARRY_NEVER, &progress);
        assert_int_equal(progress.state, TARRY_ENGINE_DONE);
        sum_case_check(of, sum);
    }
    engine->methods->free(engine);
    return error;
}

TEST(every_allocation_may_fail)
{
    OWNED(sum_case) of = sum_case_make(100, 2, 1, false, 1);
    assert_int_equal(fail_each_allocation(sum_of_one, of), 6);
}
