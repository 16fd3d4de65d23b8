/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/memory.h"
#include "base/random.h"
#include "coding/layout.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "runtime/sum/summation.h"
#include "seed.h"
#include "test.h"

enum { WORKERS = 6, DIMENSION = 101, STRIPE = 8 };

/* The sum without threads over random parts, which lie where their workers made them, and what it
 * must give, in double. */
typedef struct bench {
    tarry_plan *plan;
    layout cut;
    float *part[WORKERS];
    float estimate[DIMENSION];
    double truth[DIMENSION];
    stripe items[DIMENSION][WORKERS]; /* per stripe */
    stripe_queue waiting[DIMENSION];
    uint32_t senders[WORKERS]; /* of what was flushed last */
    summation *sums;
} bench;

static void forget(bench *its, uint32_t index)
{
    its->waiting[index] = (stripe_queue){0};
}

static void clear(bench *its, uint32_t index)
{
    forget(its, index);
    summation_clear(its->sums, index);
}

/* A part waits to be summed. */
static void add(bench *its, uint32_t worker, uint32_t index, double scale)
{
    stripe *item = &its->items[index][worker];
    *item = (stripe){
        .worker = worker,
        .index = index,
        .scale = scale,
        .numbers = its->part[worker] + layout_stripe_start(&its->cut, index),
    };
    stripe_queue_push(&its->waiting[index], item);
}

/* Sums what waits for the index, and gives back how many parts that were. */
static uint32_t flush(bench *its, uint32_t index)
{
    stripe_queue summed = {0}, dropped = {0};
    uint32_t count = 0;
    summation_add(its->sums, &its->waiting[index]);
    summation_take(its->sums, &summed, &dropped);
    assert_null(dropped.first);
    for (stripe *item; (item = stripe_queue_pop(&summed)) != NULL;)
        its->senders[count++] = item->worker;
    return count;
}

static void finish(bench *its)
{
    summation_settle(its->sums, true);
}

static summation_settings settings_of(void)
{
    return (summation_settings){
        .dimension = DIMENSION,
        .stripe_length = STRIPE,
        .kernels = kernel_best(),
    };
}

static void begin(bench *its, uint32_t parts, random_stream *stream)
{
    its->plan = edge_plan_cyclic(WORKERS, WORKERS, 3, parts);
    edge_plan_random_decode(its->plan, random_u64(stream));
    its->cut = layout_make(DIMENSION, its->plan->parts, STRIPE);
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
    const summation_settings settings = settings_of();
    assert_ok(summation_create(its->plan, &settings, NULL, &its->sums));
    summation_begin(its->sums, its->estimate);
    for (uint32_t index = 0; index < its->cut.stripes; index++)
        clear(its, index);
}

static void end(bench *its)
{
    summation_free(its->sums);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        vector_release(NULL, its->part[worker]);
    tarry_plan_free(its->plan);
}

#define BENCH(name) TEST_OF(name, bench, its, end)

/* truth[part * part_length + x] += scale * R[part][worker] * z[x]
 * for the x of the index, number by number. */
static void add_truth(bench *its, uint32_t worker, uint32_t index, double scale)
{
    const double *decode = its->plan->decode;
    for (uint32_t part = 0; part < its->cut.parts; part++)
        for (size_t x = 0; x < its->cut.part_length; x++) {
            size_t at = part * its->cut.part_length + x;
            if (x / STRIPE == index && at < DIMENSION)
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
TEST(sums_what_was_added)
{
    random_stream stream = random_stream_make(test_seed("decoder", 1), RANDOM_TEST, 0, 0);
    for (uint32_t run = 0; run < 200; run++) {
        bench its;
        begin(&its, 1 + run % 3, &stream);
        double scale = run % 2 == 0 ? 1 : 1.5;
        for (uint32_t index = 0; index < its.cut.stripes; index++) {
            uint32_t order[WORKERS] = {0, 1, 2, 3, 4, 5};
            random_shuffle(&stream, order, WORKERS);
            uint32_t waiting = 0, count = random_below(&stream, WORKERS + 1);
            for (uint32_t i = 0; i < count; i++) {
                add(&its, order[i], index, scale);
                add_truth(&its, order[i], index, scale);
                waiting++;
                if (i + 1 < count && random_below(&stream, 2) == 0)
                    continue;
                assert_int_equal(flush(&its, index), waiting);
                assert_memory_equal(its.senders, order + i + 1 - waiting, waiting * sizeof(*order));
                waiting = 0;
            }
            assert_int_equal(flush(&its, index), 0);
        }
        finish(&its); /* zeroes the stripes without parts */
        assert_true_sum(&its);
        end(&its);
    }
}

BENCH(clearing_drops_what_waits_and_what_was_summed)
{
    random_stream stream = random_stream_make(2, RANDOM_TEST, 0, 0);
    begin(its, 2, &stream);
    for (uint32_t index = 0; index < its->cut.stripes; index++) {
        add(its, 0, index, 1);
        assert_int_equal(flush(its, index), 1);
        add(its, 1, index, 1);
        if (index == 2) { /* it stands */
            assert_int_equal(flush(its, index), 1);
            add_truth(its, 0, index, 1);
            add_truth(its, 1, index, 1);
            continue;
        }
        clear(its, index);
        assert_int_equal(flush(its, index), 0);
        if (index == 1) /* nothing comes any more */
            continue;
        add(its, 3, index, 1);
        add(its, 2, index, 1);
        assert_int_equal(flush(its, index), 2);
        add_truth(its, 3, index, 1);
        add_truth(its, 2, index, 1);
    }
    finish(its);
    assert_true_sum(its);
    /* What is finished is not touched again. */
    its->estimate[0] = 5;
    finish(its);
    assert_true(its->estimate[0] == 5);
}

static int create(void *user, const tarry_allocator *allocator)
{
    bench *its = user;
    const summation_settings settings = settings_of();
    summation *sums;
    int error = summation_create(its->plan, &settings, allocator, &sums);
    if (error == TARRY_OK)
        summation_free(sums);
    return error;
}

BENCH(each_allocation_may_fail)
{
    random_stream stream = random_stream_make(3, RANDOM_TEST, 0, 0);
    begin(its, 2, &stream);
    assert_int_equal(fail_each_allocation(create, its), 7);
}
