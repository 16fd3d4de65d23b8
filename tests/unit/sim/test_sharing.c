/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "base/random.h"
#include "failing_allocator.h"
#include "seed.h"
#include "sim/links/sharing.h"

enum { CARDS = 4, MOST = 200, BYTE_NS = 10 };

typedef struct fixture {
    network_way ways[CARDS];
    sharing cards;
} fixture;

static void make(fixture *made)
{
    assert_int_equal(sharing_init(&made->cards, CARDS, 4, NULL), TARRY_OK);
    for (uint32_t i = 0; i < CARDS; i++) {
        made->ways[i] = (network_way){.ns_per_byte = BYTE_NS};
        sharing_card(&made->cards, i, &made->ways[i]);
    }
}

static void add(fixture *all, uint32_t place, uint64_t now, uint64_t bytes, uint32_t mark)
{
    assert_int_equal(sharing_add(&all->cards, place, now, bytes, mark), TARRY_OK);
}

static void expect(fixture *all, uint64_t end_ns, uint32_t place, uint32_t mark)
{
    uint32_t found;
    assert_int_equal(sharing_next(&all->cards), end_ns);
    assert_int_equal(sharing_end(&all->cards, &found), place);
    assert_int_equal(found, mark);
}

static void a_message_alone_has_the_card(void **state)
{
    (void)state;
    fixture all;
    make(&all);
    all.ways[1].message_ns = 7;
    assert_int_equal(sharing_next(&all.cards), TARRY_NEVER);
    add(&all, 1, 100, 50, 5);
    expect(&all, 607, 1, 5);
    assert_int_equal(sharing_next(&all.cards), TARRY_NEVER);
    assert_int_equal(all.ways[1].free_ns, 607);
    assert_int_equal(all.ways[1].bytes, 50);
    add(&all, 1, 607, 20, 6);
    expect(&all, 607 + 207, 1, 6);
    sharing_destroy(&all.cards);
}

static void messages_have_equal_shares(void **state)
{
    (void)state;
    fixture all;
    make(&all);
    for (uint32_t mark = 0; mark < 3; mark++)
        add(&all, 0, 0, 100, mark);
    for (uint32_t mark = 0; mark < 3; mark++)
        expect(&all, 3000, 0, mark);
    sharing_destroy(&all.cards);
}

/* One of 10 bytes begins when one of 100 has had half of its own, and costs it as much as it has.
 */
static void a_short_message_passes_by_a_long_one(void **state)
{
    (void)state;
    fixture all;
    make(&all);
    add(&all, 2, 0, 100, 0);
    add(&all, 3, 0, 100, 1);
    add(&all, 2, 500, 10, 2);
    expect(&all, 700, 2, 2);
    expect(&all, 1000, 3, 1);
    expect(&all, 1100, 2, 0);
    sharing_destroy(&all.cards);
}

static void a_card_carries_what_came_before(void **state)
{
    (void)state;
    fixture all;
    make(&all);
    all.ways[0].free_ns = 1000;
    sharing_card(&all.cards, 0, &all.ways[0]);
    add(&all, 0, 300, 10, 0);
    add(&all, 0, 400, 10, 1);
    expect(&all, 1200, 0, 0);
    expect(&all, 1200, 0, 1);
    sharing_destroy(&all.cards);
}

static void what_never_passes_never_ends(void **state)
{
    (void)state;
    fixture all;
    make(&all);
    all.ways[0].ns_per_byte = INFINITY;
    add(&all, 0, 300, 10, 0);
    assert_int_equal(sharing_next(&all.cards), TARRY_NEVER);
    sharing_destroy(&all.cards);
}

/* ---- beside an obvious one, which takes what every message has left ---- */

typedef struct passing {
    uint32_t place;
    uint64_t begins_ns, bytes;
    double left_ns; /* that it takes alone */
    double end_ns;  /* NAN: not yet */
} passing;

static uint32_t count_at(const passing *all, uint32_t count, uint32_t place, double now)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        found += all[i].place == place && (double)all[i].begins_ns <= now && isnan(all[i].end_ns);
    return found;
}

/* The time of the next event, of beginnings and ends. */
static double next_of(const passing *all, uint32_t count, double now)
{
    double next = INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        const double begins_ns = (double)all[i].begins_ns;
        if (begins_ns > now)
            next = fmin(next, begins_ns);
        else if (isnan(all[i].end_ns))
            next = fmin(next, now + all[i].left_ns * count_at(all, count, all[i].place, now));
    }
    return next;
}

static void pass_all(passing *all, uint32_t count)
{
    double now = -1, next;
    while ((next = next_of(all, count, now)) < INFINITY) {
        uint32_t sharers[CARDS];
        for (uint32_t place = 0; place < CARDS; place++)
            sharers[place] = count_at(all, count, place, now);
        for (uint32_t i = 0; i < count; i++) {
            if ((double)all[i].begins_ns > now || !isnan(all[i].end_ns))
                continue;
            all[i].left_ns -= (next - now) / sharers[all[i].place];
            if (all[i].left_ns < 1e-6)
                all[i].end_ns = next;
        }
        now = next;
    }
}

static void cards_share_as_the_obvious_ones(void **state)
{
    (void)state;
    random_stream random = random_stream_make(test_seed("sharing", 3), RANDOM_TEST, 0, 0);
    for (int trial = 0; trial < 40; trial++) {
        const uint32_t count = 1 + random_below(&random, MOST);
        passing expected[MOST];
        fixture all;
        uint64_t now = 0;
        make(&all);
        for (uint32_t i = 0; i < count; i++) {
            const uint64_t bytes = 1 + random_below(&random, 50);
            now += random_below(&random, 300);
            expected[i] = (passing){.place = random_below(&random, CARDS),
                                    .begins_ns = now,
                                    .bytes = bytes,
                                    .left_ns = (double)bytes * BYTE_NS,
                                    .end_ns = NAN};
        }
        pass_all(expected, count);
        now = 0;
        for (uint32_t added = 0, ended = 0; ended < count;) {
            const uint64_t end_ns = sharing_next(&all.cards);
            if (added < count && expected[added].begins_ns < end_ns) {
                now = expected[added].begins_ns;
                add(&all, expected[added].place, now, expected[added].bytes, added);
                added++;
                continue;
            }
            uint32_t mark, place = sharing_end(&all.cards, &mark);
            assert_int_equal(place, expected[mark].place);
            assert_true(end_ns >= now && fabs((double)end_ns - expected[mark].end_ns) < 1);
            ended++;
        }
        sharing_destroy(&all.cards);
    }
}

static int run_failing(void *user, const tarry_allocator *allocator)
{
    (void)user;
    network_way way = {.ns_per_byte = BYTE_NS};
    sharing cards;
    int error = sharing_init(&cards, 1, 40, allocator);
    if (error == TARRY_OK)
        sharing_card(&cards, 0, &way);
    for (uint32_t i = 0; i < 100 && error == TARRY_OK; i++)
        error = sharing_add(&cards, 0, 0, 10, i);
    sharing_destroy(&cards);
    return error;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    assert_int_equal(fail_each_allocation(run_failing, NULL), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_alone_has_the_card),
        cmocka_unit_test(messages_have_equal_shares),
        cmocka_unit_test(a_short_message_passes_by_a_long_one),
        cmocka_unit_test(a_card_carries_what_came_before),
        cmocka_unit_test(what_never_passes_never_ends),
        cmocka_unit_test(cards_share_as_the_obvious_ones),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
