/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/session.h"
#include "test.h"

/* The bound of the n-th wait. */
static uint64_t bound_of(unsigned n)
{
    uint64_t bound = BACKOFF_LEAST_NS;
    for (unsigned i = 0; i < n && bound < BACKOFF_MOST_NS; i++)
        bound *= 2;
    return bound < BACKOFF_MOST_NS ? bound : BACKOFF_MOST_NS;
}

TEST(waits_grow_up_to_a_bound)
{
    enum { WAITS = 16, STREAMS = 2000 };
    double sum[WAITS] = {0};
    for (uint32_t a = 0; a < STREAMS; a++) {
        backoff each;
        backoff_init(&each, 7, a, 0);
        for (unsigned n = 0; n < WAITS; n++) {
            uint64_t wait = backoff_next_ns(&each);
            assert_true(wait <= bound_of(n));
            sum[n] += (double)wait / (double)bound_of(n);
        }
    }
    /* Full jitter: half of the bound on average; 2000 of them within 5 standard deviations. */
    for (unsigned n = 0; n < WAITS; n++) {
        assert_true(sum[n] / STREAMS > 0.5 - 0.033);
        assert_true(sum[n] / STREAMS < 0.5 + 0.033);
    }
}

TEST(success_begins_anew)
{
    backoff each;
    backoff_init(&each, 7, 1, 0);
    for (int i = 0; i < 20; i++)
        backoff_next_ns(&each);
    backoff_reset(&each);
    for (unsigned n = 0; n < 5; n++)
        assert_true(backoff_next_ns(&each) <= bound_of(n));
}

/* A link that flaps every few seconds is found again at once, one that fails at once is not. */
TEST(what_lasted_for_a_while_begins_anew)
{
    backoff flapping, failing;
    backoff_init(&flapping, 7, 1, 0);
    backoff_init(&failing, 7, 1, 0);
    for (unsigned n = 0; n < 20; n++) {
        backoff_lost(&flapping, BACKOFF_STEADY_NS);
        assert_true(backoff_next_ns(&flapping) <= BACKOFF_LEAST_NS);
        backoff_lost(&failing, BACKOFF_STEADY_NS - 1);
        backoff_next_ns(&failing);
    }
    assert_int_equal(failing.bound_ns, BACKOFF_MOST_NS);
}

TEST(workers_wait_apart)
{
    backoff one, other, same;
    backoff_init(&one, 7, 1, 0);
    backoff_init(&other, 7, 2, 0);
    backoff_init(&same, 7, 1, 0);
    uint64_t wait = backoff_next_ns(&one);
    assert_true(wait != backoff_next_ns(&other));
    assert_true(wait == backoff_next_ns(&same));
}
