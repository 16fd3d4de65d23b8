/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/random.h"
#include "failing_allocator.h"
#include "protocol/relay/gather.h"
#include "seed.h"

enum { MOST = 12, PARTS = 3, STRIPES = 7, TRIALS = 200 };

/* A group in which contributor i has lanes[i], epoch 10 + i, and the weights i + 0.25 k. */
typedef struct scene {
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_GATHER_HEAD_BYTES + MOST * (8 + PARTS * sizeof(float))];
    wire_gather words;
} scene;

static void make(scene *its, const uint32_t *lanes, uint32_t count)
{
    wire_gather words = {.round = 3, .attempt = 1, .group = 9, .parts = PARTS, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        float weights[PARTS];
        for (uint32_t k = 0; k < PARTS; k++)
            weights[k] = (float)i + 0.25F * (float)k;
        wire_gather_put(&words, its->frame, i, lanes[i], 10 + i, weights);
    }
    wire_head head;
    wire_gather_encode(&words, its->frame);
    assert_int_equal(wire_head_decode(its->frame, &head), TARRY_OK);
    assert_int_equal(wire_gather_decode(&head, its->frame + WIRE_HEAD_BYTES, &its->words),
                     TARRY_OK);
}

static void contributors_are_found_by_their_lane(void **state)
{
    (void)state;
    static const uint32_t lanes[] = {7, 2, 65535, 0, 30};
    scene its;
    gather *self;
    make(&its, lanes, 5);
    assert_int_equal(gather_create(&its.words, STRIPES, NULL, &self), TARRY_OK);
    memset(its.frame, 0, sizeof(its.frame)); /* nothing of it is kept */
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(gather_find(self, lanes[i]), i);
        assert_int_equal(gather_epoch(self, i), 10 + i);
        for (uint32_t k = 0; k < PARTS; k++)
            assert_true(gather_weights(self, i)[k] == (float)i + 0.25F * (float)k);
    }
    assert_int_equal(gather_find(self, 1), GATHER_NOBODY);
    assert_int_equal(gather_find(self, 65534), GATHER_NOBODY);
    assert_int_equal(gather_count(self), 5);
    gather_free(self);
}

static void a_lane_is_named_once(void **state)
{
    (void)state;
    static const uint32_t lanes[] = {7, 2, 9, 2};
    scene its;
    gather *self;
    make(&its, lanes, 4);
    assert_int_equal(gather_create(&its.words, STRIPES, NULL, &self), TARRY_ERROR_FORMAT);
}

/* Parts come in any order; each stripe has all contributors' once, in the order of the group. The
 * oracle is a list of what has come. */
static void each_stripe_is_added_up_in_the_order_of_the_group(void **state)
{
    (void)state;
    uint64_t seed = test_seed("gather", 5);
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        random_stream random = random_stream_make(seed, RANDOM_TEST, trial, 0);
        uint32_t lanes[MOST], count = 1 + random_below(&random, MOST), order[MOST * STRIPES];
        bool came[MOST][STRIPES] = {{false}};
        uint32_t added[STRIPES] = {0};
        scene its;
        gather *self;
        for (uint32_t i = 0; i < count; i++)
            lanes[i] = 100 * i + random_below(&random, 100);
        random_shuffle(&random, lanes, count);
        make(&its, lanes, count);
        assert_int_equal(gather_create(&its.words, STRIPES, NULL, &self), TARRY_OK);
        for (uint32_t i = 0; i < count * STRIPES; i++)
            order[i] = i;
        random_shuffle(&random, order, count * STRIPES);
        for (uint32_t i = 0; i < count * STRIPES; i++) {
            uint32_t who = order[i] / STRIPES, stripe = order[i] % STRIPES;
            assert_true(gather_wants(self, who, stripe));
            gather_came(self, who, stripe);
            assert_false(gather_wants(self, who, stripe));
            came[who][stripe] = true;
            for (uint32_t next; (next = gather_next(self, stripe)) != GATHER_NOBODY;) {
                assert_int_equal(next, added[stripe]);
                assert_true(came[next][stripe]);
                assert_int_equal(gather_is_empty(self, stripe), next == 0);
                added[stripe]++;
                assert_int_equal(gather_added(self, stripe), added[stripe] == count);
            }
            bool stuck = added[stripe] == count || !came[added[stripe]][stripe];
            assert_true(stuck);
        }
        for (uint32_t stripe = 0; stripe < STRIPES; stripe++)
            assert_int_equal(added[stripe], count);
        assert_false(gather_wants(self, 0, STRIPES));
        gather_free(self);
    }
}

static int create(void *user, const tarry_allocator *allocator)
{
    const scene *its = user;
    gather *self = NULL;
    int error = gather_create(&its->words, STRIPES, allocator, &self);
    if (error == TARRY_OK)
        gather_free(self);
    return error;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    static const uint32_t lanes[] = {1, 2};
    scene its;
    make(&its, lanes, 2);
    assert_int_equal(fail_each_allocation(create, &its), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contributors_are_found_by_their_lane),
        cmocka_unit_test(a_lane_is_named_once),
        cmocka_unit_test(each_stripe_is_added_up_in_the_order_of_the_group),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
