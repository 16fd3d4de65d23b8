/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of residuals: by what a server says, and by what it does not say. */
#include "protocol/worker/worker.h"
#include "test.h"

enum { STRIPES = 3 };

static fates own;

static int set_up(void **state)
{
    return fates_init(&own, STRIPES, NULL);
}

static int tear_down(void **state)
{
    fates_destroy(&own, NULL);
    return 0;
}

static void expect(bool settled, uint64_t stood, uint64_t voids)
{
    assert_int_equal(settled, (stood | voids) != 0);
    assert_int_equal(*own.stood, stood);
    assert_int_equal(*own.voids, voids);
}

/* The server of all rounds, unless a test says otherwise. */
static void begins(uint64_t round, const uint32_t *epochs, uint64_t stood, uint64_t voids)
{
    expect(fates_begin(&own, round, 1, epochs), stood, voids);
}

TEST_SET_UP(what_stood_is_committed_and_the_rest_rolls_back, set_up, tear_down)
{
    begins(0, (uint32_t[STRIPES]){0}, 0, 0);
    for (uint32_t stripe = 0; stripe < STRIPES; stripe++)
        fates_encode(&own, stripe, 0, 1);
    begins(1, (const uint32_t[STRIPES]){1, 0, 1}, 5, 0);
    begins(2, (const uint32_t[STRIPES]){0, 0, 0}, 0, 0);
    assert_int_equal(own.void_count, 0);
}

/* The end of a round says it first; what the next one repeats is known. */
TEST_SET_UP(it_is_told_once, set_up, tear_down)
{
    const uint32_t all[STRIPES] = {1, 1, 0};
    fates_encode(&own, 0, 4, 1);
    expect(fates_finish(&own, 3, all), 0, 0); /* another round's */
    expect(fates_finish(&own, 4, NULL), 0, 0);
    expect(fates_finish(&own, 4, all), 1, 0);
    expect(fates_finish(&own, 4, all), 0, 0);
    begins(5, all, 0, 0);
}

/* It has come back in the middle of the round, in a new epoch: what it sent before may stand. */
TEST_SET_UP(a_return_leaves_open_what_is_open, set_up, tear_down)
{
    fates_encode(&own, 0, 2, 1);
    fates_encode(&own, 1, 2, 1);
    begins(2, (const uint32_t[STRIPES]){1, 1, 1}, 0, 0); /* of the round before */
    fates_encode(&own, 1, 2, 2);                         /* asked for again */
    begins(3, (const uint32_t[STRIPES]){1, 2, 0}, 3, 0);
}

/* Another process of the same number has sent what stands. */
TEST_SET_UP(what_another_sent_is_not_its_own, set_up, tear_down)
{
    fates_encode(&own, 0, 2, 1);
    begins(3, (const uint32_t[STRIPES]){2, 2, 2}, 0, 0);
}

TEST_SET_UP(what_nobody_tells_is_void, set_up, tear_down)
{
    fates_encode(&own, 0, 2, 1);
    begins(4, (const uint32_t[STRIPES]){1, 1, 1}, 0, 1); /* it has missed round 3 */
    fates_encode(&own, 2, 4, 1);
    begins(5, NULL, 0, 4);
    fates_encode(&own, 2, 5, 1);
    begins(4, (const uint32_t[STRIPES]){1, 1, 1}, 0, 4); /* no server goes back in one life */
    assert_int_equal(own.void_count, 3);
}

/* Both what was committed and what is out may have been undone. */
TEST_SET_UP(a_server_takes_residuals_along, set_up, tear_down)
{
    const uint32_t all[STRIPES] = {1, 1, 1};
    fates_encode(&own, 0, 2, 1);
    fates_encode(&own, 1, 2, 1);
    expect(fates_begin(&own, 3, 1, all), 3, 0);
    fates_encode(&own, 0, 3, 1);
    fates_encode(&own, 2, 3, 1);
    expect(fates_begin(&own, 3, 4097, (const uint32_t[STRIPES]){0}), 0, 7);
    assert_int_equal(own.void_count, 3);
    fates_encode(&own, 0, 3, 4097);
    expect(fates_begin(&own, 4, 4097, (const uint32_t[STRIPES]){4097}), 1, 0);
    expect(fates_begin(&own, 5, 4097, (const uint32_t[STRIPES]){0}), 0, 0);
    assert_int_equal(own.void_count, 3);
}
