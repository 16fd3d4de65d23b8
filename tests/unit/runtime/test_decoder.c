/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "runtime/sum/decoder.h"
#include "seed.h"

enum { WORKERS = 6, DIMENSION = 101, STRIPE = 8 };

/* A decoder over random parts, and what it must give, in double. */
typedef struct bench {
    tarry_plan *plan;
    layout cut;
    float *part[WORKERS];
    float estimate[DIMENSION];
    double truth[DIMENSION];
    decoder sums;
} bench;

static void begin_with(bench *its, uint32_t parts, bool adaptive, random_stream *stream)
{
    its->plan = edge_plan_cyclic(WORKERS, WORKERS, 3, parts);
    its->plan->adaptive = adaptive;
    edge_plan_random_decode(its->plan, random_u64(stream));
    its->cut = layout_make(DIMENSION, plan_least_parts(its->plan), STRIPE);
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        its->part[worker] = vector_allocate(NULL, its->cut.part_length);
        assert_non_null(its->part[worker]);
        for (size_t i = 0; i < its->cut.part_length; i++)
            its->part[worker][i] = (float)random_normal(stream);
    }
    for (size_t i = 0; i < DIMENSION; i++) {
        its->estimate[i] = NAN;
        its->truth[i] = 0;
    }
    assert_int_equal(decoder_init(&its->sums, its->plan, &its->cut, kernel_best(), its->part, NULL),
                     TARRY_OK);
    its->sums.estimate = its->estimate;
    for (uint32_t stripe = 0; stripe < its->cut.stripes; stripe++)
        decoder_clear(&its->sums, its->cut.parts, stripe);
}

static void begin(bench *its, uint32_t parts, random_stream *stream)
{
    begin_with(its, parts, false, stream);
}

static void begin_adaptive(bench *its, uint32_t parts, random_stream *stream)
{
    begin_with(its, parts, true, stream);
}

static void end(bench *its)
{
    decoder_destroy(&its->sums, NULL);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        vector_release(NULL, its->part[worker]);
    edge_plan_free(its->plan);
}

/* truth[part * part_length + x] += scale * R[part][worker] * z[x]
 * for the x of the stripe, number by number. */
static void add_truth(bench *its, uint32_t worker, uint32_t stripe, double scale)
{
    const double *decode = plan_decode(its->plan, its->cut.parts);
    for (uint32_t part = 0; part < its->cut.parts; part++)
        for (size_t x = 0; x < its->cut.part_length; x++) {
            size_t at = part * its->cut.part_length + x;
            if (x / STRIPE == stripe && at < DIMENSION)
                its->truth[at] +=
                    scale * decode[part * WORKERS + worker] * (double)its->part[worker][x];
        }
}

static void assert_true_sum(const bench *its)
{
    for (size_t i = 0; i < DIMENSION; i++)
        assert_float_equal((double)its->estimate[i], its->truth[i], 1e-5);
}

/* Parts of random workers and stripes, summed one by one, together, or not at all. */
static void sums_what_was_added(void **state)
{
    (void)state;
    random_stream stream = random_stream_make(test_seed("decoder", 1), RANDOM_TEST, 0, 0);
    for (uint32_t run = 0; run < 200; run++) {
        bench its;
        begin(&its, 1 + run % 3, &stream);
        double scale = run % 2 == 0 ? 1 : 1.5;
        for (uint32_t stripe = 0; stripe < its.cut.stripes; stripe++) {
            uint32_t order[WORKERS] = {0, 1, 2, 3, 4, 5};
            random_shuffle(&stream, order, WORKERS);
            uint32_t waiting = 0, count = random_below(&stream, WORKERS + 1);
            for (uint32_t i = 0; i < count; i++) {
                decoder_add(&its.sums, order[i], stripe, scale);
                add_truth(&its, order[i], stripe, scale);
                waiting++;
                if (i + 1 < count && random_below(&stream, 2) == 0)
                    continue;
                assert_int_equal(decoder_flush(&its.sums, stripe), waiting);
                assert_memory_equal(decoder_senders(&its.sums, stripe), order + i + 1 - waiting,
                                    waiting * sizeof(*order));
                waiting = 0;
            }
            assert_int_equal(decoder_flush(&its.sums, stripe), 0);
        }
        decoder_finish(&its.sums); /* zeroes the stripes without parts */
        assert_true_sum(&its);
        end(&its);
    }
}

static void clearing_drops_what_waits_and_what_was_summed(void **state)
{
    (void)state;
    random_stream stream = random_stream_make(2, RANDOM_TEST, 0, 0);
    bench its;
    begin(&its, 2, &stream);
    for (uint32_t stripe = 0; stripe < its.cut.stripes; stripe++) {
        decoder_add(&its.sums, 0, stripe, 1);
        assert_int_equal(decoder_flush(&its.sums, stripe), 1);
        decoder_add(&its.sums, 1, stripe, 1);
        if (stripe == 2) { /* it stands */
            assert_int_equal(decoder_flush(&its.sums, stripe), 1);
            add_truth(&its, 0, stripe, 1);
            add_truth(&its, 1, stripe, 1);
            continue;
        }
        decoder_clear(&its.sums, its.plan->parts, stripe);
        assert_int_equal(decoder_flush(&its.sums, stripe), 0);
        if (stripe == 1) /* nothing comes any more */
            continue;
        decoder_add(&its.sums, 3, stripe, 1);
        decoder_add(&its.sums, 2, stripe, 1);
        assert_int_equal(decoder_flush(&its.sums, stripe), 2);
        add_truth(&its, 3, stripe, 1);
        add_truth(&its, 2, stripe, 1);
    }
    decoder_finish(&its.sums);
    assert_true_sum(&its);
    /* What is finished is not touched again. */
    its.estimate[0] = 5;
    decoder_finish(&its.sums);
    assert_true(its.estimate[0] == 5);
    end(&its);
}

static int create(void *user, const tarry_allocator *allocator)
{
    bench *its = user;
    decoder sums;
    int error = decoder_init(&sums, its->plan, &its->cut, kernel_best(), its->part, allocator);
    decoder_destroy(&sums, allocator);
    return error;
}

/* What was summed or waits in another layout is forgotten. */
static void another_number_of_parts_begins_anew(void **state)
{
    (void)state;
    random_stream stream = random_stream_make(4, RANDOM_TEST, 0, 0);
    for (uint32_t parts = 1; parts <= 3; parts++) {
        bench its;
        begin_adaptive(&its, 3, &stream);
        for (uint32_t stripe = 0; stripe < its.cut.stripes; stripe++)
            decoder_add(&its.sums, stripe % WORKERS, stripe, 1);
        decoder_flush(&its.sums, 0);
        its.cut = layout_make(DIMENSION, parts, STRIPE);
        for (uint32_t stripe = 0; stripe < its.cut.stripes; stripe++)
            decoder_clear(&its.sums, parts, stripe);
        for (uint32_t stripe = 0; stripe + 1 < its.cut.stripes; stripe++) {
            decoder_add(&its.sums, 2, stripe, 1);
            add_truth(&its, 2, stripe, 1);
            assert_int_equal(decoder_flush(&its.sums, stripe), 1);
        }
        decoder_finish(&its.sums);
        assert_true_sum(&its);
        end(&its);
    }
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    random_stream stream = random_stream_make(3, RANDOM_TEST, 0, 0);
    bench its;
    begin(&its, 2, &stream);
    assert_int_equal(fail_each_allocation(create, &its), 5);
    end(&its);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_what_was_added),
        cmocka_unit_test(clearing_drops_what_waits_and_what_was_summed),
        cmocka_unit_test(another_number_of_parts_begins_anew),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
