/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "base/random.h"
#include "failing_allocator.h"
#include "seed.h"
#include "sim/queue.h"
#include "test.h"

/* The oracle: a list in the order of scheduling, searched for the least time. */
typedef struct item {
    uint64_t time;
    uint32_t name; /* in the event, as its node */
    uint32_t id;
} item;

enum { MOST = 500 };

typedef struct list {
    item items[MOST];
    size_t count;
} list;

static size_t first(const list *all)
{
    size_t best = 0;
    for (size_t i = 1; i < all->count; i++)
        if (all->items[i].time < all->items[best].time)
            best = i;
    return best;
}

static void drop(list *all, size_t at)
{
    all->count--;
    for (size_t i = at; i < all->count; i++)
        all->items[i] = all->items[i + 1];
}

static void pop_both(queue *tested, list *oracle)
{
    size_t at = first(oracle);
    assert_int_equal(queue_next(tested), oracle->items[at].time);
    sim_event event = queue_pop(tested);
    assert_int_equal(event.node, oracle->items[at].name);
    drop(oracle, at);
}

static bool is_third(const sim_event *event)
{
    return event->node % 3 == 0;
}

static void sweep_both(queue *tested, list *oracle)
{
    queue_sweep(tested, is_third);
    for (size_t at = oracle->count; at-- > 0;)
        if (oracle->items[at].name % 3 == 0)
            drop(oracle, at);
}

TEST(is_like_a_sorted_list)
{
    random_stream stream = random_stream_make(test_seed("queue", 3), RANDOM_TEST, 0, 0);
    queue tested;
    list oracle = {.count = 0};
    assert_ok(queue_init(&tested, 1, NULL));
    for (uint32_t step = 0; step < 100000; step++) {
        /* It swells and shrinks by turns, with many equal times. */
        uint32_t choice = random_below(&stream, 10);
        bool swelling = step / 1000 % 2 == 0;
        if (oracle.count < MOST && choice < (swelling ? 6u : 3u)) {
            item made = {.time = random_below(&stream, 50), .name = step};
            sim_event event = {.kind = SIM_COMPUTED, .node = step};
            assert_ok(queue_push(&tested, made.time, &event, &made.id));
            oracle.items[oracle.count++] = made;
        } else if (oracle.count > 0 && choice == 9) {
            size_t at = random_below(&stream, (uint32_t)oracle.count);
            queue_remove(&tested, oracle.items[at].id);
            drop(&oracle, at);
        } else if (step % 500 == 499) {
            sweep_both(&tested, &oracle);
        } else if (oracle.count > 0) {
            pop_both(&tested, &oracle);
        }
    }
    while (oracle.count > 0)
        pop_both(&tested, &oracle);
    assert_true(queue_next(&tested) == TARRY_NEVER);
    queue_destroy(&tested);
}

/* Fills a queue beyond its first room, with bit sets that it owns. */
static int fill(void *user, const tarry_allocator *allocator)
{
    queue tested;
    int error = queue_init(&tested, 2, allocator);
    for (uint32_t i = 0; i < 9 && error == TARRY_OK; i++) {
        sim_event event = {.kind = SIM_TO_WORKER, .node = i};
        event.bits = memory_allocate(allocator, 1, sizeof(uint64_t));
        error =
            event.bits != NULL ? queue_push(&tested, 9 - i, &event, NULL) : TARRY_ERROR_NO_MEMORY;
        if (error != TARRY_OK)
            memory_release(allocator, event.bits);
    }
    if (error == TARRY_OK) {
        queue_sweep(&tested, is_third);
        sim_event event = queue_pop(&tested);
        assert_int_equal(event.node, 8);
        memory_release(allocator, event.bits);
    }
    queue_destroy(&tested);
    return error;
}

TEST(each_allocation_may_fail)
{
    fail_each_allocation(fill, NULL);
}
