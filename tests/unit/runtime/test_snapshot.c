/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>

#include "failing_allocator.h"
#include "runtime/worker/worker_host.h"
#include "test.h"

enum { LENGTH = 100, HOLDERS = 3, ROUNDS = 5000 };

static void publish(snapshots *pool, uint64_t round)
{
    float parameters[LENGTH];
    for (size_t i = 0; i < LENGTH; i++)
        parameters[i] = (float)round + (float)i;
    assert_ok(snapshots_publish(pool, round, parameters));
}

static bool is_of_its_round(const snapshot *held)
{
    for (size_t i = 0; i < LENGTH; i++)
        if (held->parameters[i] != (float)held->round + (float)i)
            return false;
    return true;
}

typedef struct bench {
    snapshots pool;
    failing_allocator memory;
} bench;

static void begin(bench *its)
{
    failing_allocator_init(&its->memory, SIZE_MAX);
    assert_ok(snapshots_init(&its->pool, LENGTH, HOLDERS, &its->memory.allocator));
}

static void end(bench *its)
{
    snapshots_destroy(&its->pool);
    assert_int_equal(its->memory.live, 0);
}

#define BENCH(name) TEST_WITH(name, bench, its, begin, end)

BENCH(a_holder_keeps_what_it_has)
{
    snapshots *pool = &its->pool;
    assert_null(snapshots_hold(pool));
    snapshots_release(pool, NULL);
    snapshot *held[HOLDERS];
    for (uint64_t round = 0; round < HOLDERS; round++) {
        publish(pool, round);
        held[round] = snapshots_hold(pool);
    }
    for (uint64_t round = HOLDERS; round < 20; round++)
        publish(pool, round);
    for (uint64_t round = 0; round < HOLDERS; round++) {
        assert_int_equal(held[round]->round, round);
        assert_true(is_of_its_round(held[round]));
        snapshots_release(pool, held[round]);
    }
    /* No more than one for each holder, the current and the next; the free are used again. */
    size_t allocations = its->memory.allocations;
    assert_in_range(allocations, 1, 1 + HOLDERS + 2);
    for (uint64_t round = 20; round < 40; round++)
        publish(pool, round);
    assert_int_equal(its->memory.allocations, allocations);
    snapshot *last = snapshots_hold(pool);
    assert_int_equal(last->round, 39);
    assert_true(is_of_its_round(last));
    snapshots_release(pool, last);
}

/* Nobody computes with the last one any more: one is enough. */
BENCH(one_is_enough_for_those_in_step)
{
    snapshots *pool = &its->pool;
    for (uint64_t round = 0; round < 10; round++) {
        publish(pool, round);
        snapshot *held = snapshots_hold(pool);
        assert_int_equal(held->round, round);
        assert_true(is_of_its_round(held));
        snapshots_release(pool, held);
    }
    assert_int_equal(its->memory.allocations, 1 + 1);
}

BENCH(what_is_filled_in_place_is_seen_when_it_is_whole)
{
    snapshots *pool = &its->pool;
    snapshot *held[HOLDERS];
    for (uint64_t round = 0; round < HOLDERS; round++) {
        float *place = snapshots_begin(pool);
        assert_ptr_equal(place, snapshots_begin(pool)); /* begun anew: the same one */
        assert_int_equal(snapshots_generation(pool, round), 0);
        for (size_t i = 0; i < LENGTH; i++)
            place[i] = (float)round + (float)i;
        snapshots_commit(pool, round);
        assert_int_equal(snapshots_generation(pool, round), round + 1);
        held[round] = snapshots_hold(pool);
        assert_ptr_equal(held[round]->parameters, place);
    }
    assert_ptr_not_equal(snapshots_begin(pool), held[HOLDERS - 1]->parameters);
    for (uint64_t round = 0; round < HOLDERS; round++) {
        assert_true(is_of_its_round(held[round]));
        snapshots_release(pool, held[round]);
    }
    /* The same round again is another generation. */
    snapshots_commit(pool, HOLDERS - 1);
    assert_int_equal(snapshots_generation(pool, HOLDERS - 1), HOLDERS + 1);
    publish(pool, HOLDERS - 1);
    assert_int_equal(snapshots_generation(pool, HOLDERS - 1), HOLDERS + 2);
    snapshots_destroy(pool);
    failing_allocator_init(&its->memory, 1);
    assert_ok(snapshots_init(pool, LENGTH, HOLDERS, &its->memory.allocator));
    assert_null(snapshots_begin(pool));
}

typedef struct reader {
    snapshots *pool;
    _Atomic bool *stop;
    bool torn, back;
} reader;

static void *read_all(void *argument)
{
    reader *self = argument;
    uint64_t last = 0;
    while (!atomic_load(self->stop)) {
        snapshot *held = snapshots_hold(self->pool);
        self->torn = self->torn || !is_of_its_round(held);
        self->back = self->back || held->round < last;
        last = held->round;
        snapshots_release(self->pool, held);
    }
    return NULL;
}

TEST(readers_never_see_one_change)
{
    snapshots pool;
    assert_ok(snapshots_init(&pool, LENGTH, HOLDERS, NULL));
    publish(&pool, 0);
    _Atomic bool stop = false;
    reader readers[HOLDERS];
    pthread_t threads[HOLDERS];
    for (int i = 0; i < HOLDERS; i++) {
        readers[i] = (reader){.pool = &pool, .stop = &stop};
        assert_int_equal(pthread_create(&threads[i], NULL, read_all, &readers[i]), 0);
    }
    for (uint64_t round = 1; round < ROUNDS; round++)
        publish(&pool, round);
    atomic_store(&stop, true);
    for (int i = 0; i < HOLDERS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(readers[i].torn);
        assert_false(readers[i].back);
    }
    snapshots_destroy(&pool);
}

static int create_and_publish(void *user, const tarry_allocator *allocator)
{
    snapshots pool;
    int error = snapshots_init(&pool, LENGTH, HOLDERS, allocator);
    if (error != TARRY_OK)
        return error;
    const float parameters[LENGTH] = {0};
    snapshot *last = NULL; /* still held when the next one is published */
    for (uint64_t round = 0; round < 3 && error == TARRY_OK; round++) {
        error = snapshots_publish(&pool, round, parameters);
        snapshot *held = snapshots_hold(&pool);
        if (error != TARRY_OK) /* the last one published stays the current one */
            assert_true(round == 0 ? held == NULL : held->round == round - 1);
        snapshots_release(&pool, last);
        last = held;
    }
    snapshots_release(&pool, last);
    snapshots_destroy(&pool);
    return error;
}

TEST(each_allocation_may_fail)
{
    assert_int_equal(fail_each_allocation(create_and_publish, NULL), 3);
}
