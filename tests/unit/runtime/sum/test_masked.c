/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of masked parts: random words as masks, of which the last worker has what cancels the
 * others. What comes about is the sum of integers to the bit, or it is known to be torn.
 */
#include <math.h>

#include "base/random.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "runtime/masked_words.h"
#include "runtime/sum/summation.h"
#include "seed.h"
#include "test.h"

enum { WORKERS = 6, DIMENSION = 1009, STRIPE = 16, STRIPES = (DIMENSION + STRIPE - 1) / STRIPE };
enum { WORD = 8, STRIPE_BYTES = WORD * (STRIPE + MASKED_COUNTS) };

/* Each worker has the chunk of its own number. */
typedef struct bench {
    tarry_plan *plan;
    summation *sums;
    layout cut;
    ring grid;
    random_stream *stream;
    uint32_t lent;
    float estimate[DIMENSION], truth[DIMENSION];
    uint8_t words[WORKERS][STRIPES][STRIPE_BYTES];
    stripe items[WORKERS][STRIPES];
} bench;

static void ignore(void *user)
{
}

/* Worker w's part: its gradient as integers, one chunk, one clamped number in the first stripe, and
 * masks that cancel among the first `group` workers. */
static void mask(bench *its, uint32_t group)
{
    for (uint32_t index = 0; index < its->cut.stripes; index++) {
        const size_t count = layout_stripe_length(&its->cut, index) + MASKED_COUNTS;
        for (size_t i = 0; i < count; i++) {
            uint64_t rest = 0;
            for (uint32_t worker = 0; worker < group; worker++) {
                const uint64_t drawn = worker + 1 < group ? random_u64(its->stream) : rest;
                rest -= drawn;
                ring_count(&its->grid, its->words[worker][index], i, drawn);
            }
        }
    }
}

static void draw(bench *its, uint32_t group)
{
    static uint8_t total[WORD * DIMENSION];
    memset(total, 0, sizeof(total));
    memset(its->words, 0, sizeof(its->words));
    for (uint32_t worker = 0; worker < group; worker++)
        for (uint32_t index = 0; index < its->cut.stripes; index++) {
            const size_t start = layout_stripe_start(&its->cut, index);
            const size_t length = layout_stripe_length(&its->cut, index);
            float gradient[STRIPE];
            for (size_t i = 0; i < length; i++)
                gradient[i] = (float)random_normal(its->stream);
            ring_add(&its->grid, gradient, length, its->words[worker][index]);
            ring_add(&its->grid, gradient, length, total + ring_bytes(&its->grid, start));
            const masked_counts counts = {.chunks = 1, .clamped = index == 0};
            masked_counts_put(&its->grid, &counts,
                              its->words[worker][index] + ring_bytes(&its->grid, length));
        }
    ring_read(&its->grid, total, DIMENSION, its->truth);
    mask(its, group);
}

static void begin(bench *its, uint32_t bits, uint32_t threads, random_stream *stream)
{
    *its = (bench){.stream = stream};
    its->plan = edge_plan_cyclic(WORKERS, WORKERS, 2, 1);
    edge_plan_random_decode(its->plan, 1);
    its->cut = layout_make(DIMENSION, 1, STRIPE);
    assert_true(ring_choose(bits, 64, WORKERS, &its->grid));
    const summation_settings settings = {
        .dimension = DIMENSION,
        .stripe_length = STRIPE,
        .grid = its->grid,
        .threads = threads,
        .kernels = kernel_best(),
        .finished = ignore,
    };
    assert_ok(summation_create(its->plan, &settings, NULL, &its->sums));
    summation_begin(its->sums, its->estimate);
}

static void collect(bench *its)
{
    stripe_queue summed = {0}, dropped = {0};
    summation_take(its->sums, &summed, &dropped);
    while (stripe_queue_pop(&summed) != NULL)
        its->lent--;
    while (stripe_queue_pop(&dropped) != NULL)
        its->lent--;
}

static void collect_all(bench *its)
{
    while (its->lent > 0)
        collect(its);
}

static void clear(bench *its)
{
    for (uint32_t index = 0; index < its->cut.stripes; index++)
        summation_clear(its->sums, index);
}

/* The parts of so many workers are drawn, and waited for. */
static void expects(bench *its, uint32_t workers)
{
    draw(its, workers);
    summation_expect(its->sums, workers);
    clear(its);
}

static void add(bench *its, uint32_t worker, uint32_t index)
{
    stripe_queue one = {0};
    stripe *item = &its->items[worker][index];
    *item =
        (stripe){.worker = worker, .index = index, .scale = 1, .bytes = its->words[worker][index]};
    stripe_queue_push(&one, item);
    its->lent++;
    summation_add(its->sums, &one);
}

/* In any order. */
static void add_group(bench *its, uint32_t group)
{
    static uint32_t order[WORKERS * STRIPES];
    const uint32_t count = group * its->cut.stripes;
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    random_shuffle(its->stream, order, count);
    for (uint32_t i = 0; i < count; i++)
        add(its, order[i] % group, order[i] / group);
}

static void end(bench *its)
{
    collect_all(its);
    summation_free(its->sums);
    tarry_plan_free(its->plan);
}

#define BENCH(name) TEST_OF(name, bench, its, end)

static void assert_whole(bench *its)
{
    collect_all(its);
    summation_settle(its->sums, true);
    assert_false(summation_torn(its->sums).torn);
    assert_memory_equal(its->estimate, its->truth, sizeof(its->truth));
    assert_int_equal(summation_clamped(its->sums), WORKERS);
}

static const struct {
    uint32_t bits, threads;
} kinds[] = {{32, 0}, {64, 0}, {32, 2}, {64, 2}};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

TEST(the_sum_is_that_of_integers)
{
    random_stream stream = random_stream_make(test_seed("masked", 1), RANDOM_TEST, 0, 0);
    static bench its;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        begin(&its, kinds[kind].bits, kinds[kind].threads, &stream);
        for (uint32_t round = 0; round < 3; round++) {
            if (round > 0)
                summation_begin(its.sums, its.estimate);
            expects(&its, WORKERS);
            add_group(&its, WORKERS);
            assert_whole(&its);
        }
        end(&its);
    }
}

/* Parts of an attempt that is withdrawn, with masks of its own, leave nothing behind. */
TEST(another_attempt_begins_anew)
{
    random_stream stream = random_stream_make(test_seed("masked", 2), RANDOM_TEST, 0, 0);
    static bench its;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        begin(&its, kinds[kind].bits, kinds[kind].threads, &stream);
        expects(&its, WORKERS);
        for (uint32_t worker = 0; worker + 1 < WORKERS; worker++)
            for (uint32_t index = worker; index < its.cut.stripes; index++)
                add(&its, worker, index);
        summation_forget(its.sums);
        collect_all(&its);
        expects(&its, WORKERS);
        add_group(&its, WORKERS);
        assert_whole(&its);
        end(&its);
    }
}

static void assert_nothing_is_decoded(const bench *its, uint32_t index)
{
    const size_t start = layout_stripe_start(&its->cut, index);
    for (size_t i = 0; i < layout_stripe_length(&its->cut, index); i++)
        assert_true(its->estimate[start + i] == 0);
}

TEST(masks_that_do_not_cancel_tear_the_sum)
{
    random_stream stream = random_stream_make(test_seed("masked", 3), RANDOM_TEST, 0, 0);
    static bench its;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        begin(&its, kinds[kind].bits, kinds[kind].threads, &stream);
        expects(&its, WORKERS);
        const uint32_t index = 7, worker = 3;
        const size_t length = layout_stripe_length(&its.cut, index);
        for (size_t i = 0; i < length + MASKED_COUNTS; i++) /* masks of another attempt */
            ring_count(&its.grid, its.words[worker][index], i, random_u64(&stream) | 1);
        add_group(&its, WORKERS);
        collect_all(&its);
        summation_settle(its.sums, true);
        summation_tear tear = summation_torn(its.sums);
        assert_true(tear.torn && tear.masked);
        assert_int_equal(tear.stripe, index);
        assert_nothing_is_decoded(&its, index);
        end(&its);
    }
}

/* Masks that are left in a single word of those that check are found, and in the count of chunks;
 * those of a number or of clamped ones alone no worker makes. */
TEST(one_word_that_does_not_check_tears_the_sum)
{
    random_stream stream = random_stream_make(test_seed("masked", 7), RANDOM_TEST, 0, 0);
    static bench its;
    for (unsigned kind = 0; kind < KINDS; kind++)
        for (uint32_t word = 0; word < MASKED_COUNTS; word++) {
            const uint32_t index = 1 + random_below(&stream, STRIPES - 1);
            begin(&its, kinds[kind].bits, kinds[kind].threads, &stream);
            expects(&its, WORKERS);
            ring_count(&its.grid, its.words[2][index], layout_stripe_length(&its.cut, index) + word,
                       UINT64_C(1) << random_below(&stream, kinds[kind].bits));
            add_group(&its, WORKERS);
            collect_all(&its);
            summation_settle(its.sums, true);
            const summation_tear tear = summation_torn(its.sums);
            assert_int_equal(tear.torn, word != MASKED_CLAMPED);
            assert_int_equal(tear.masked, word >= MASKED_CHECK);
            if (tear.torn)
                assert_nothing_is_decoded(&its, index);
            end(&its);
        }
}

TEST(a_stripe_that_is_not_whole_tears_the_sum)
{
    random_stream stream = random_stream_make(test_seed("masked", 4), RANDOM_TEST, 0, 0);
    static bench its;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        begin(&its, kinds[kind].bits, kinds[kind].threads, &stream);
        expects(&its, WORKERS);
        for (uint32_t index = 0; index < its.cut.stripes; index++)
            for (uint32_t worker = index == 5; worker < WORKERS; worker++)
                add(&its, worker, index);
        collect_all(&its);
        assert_false(summation_torn(its.sums).torn); /* its last part may still come */
        summation_settle(its.sums, true);
        assert_true(summation_torn(its.sums).torn);
        assert_int_equal(summation_torn(its.sums).stripe, 5);
        end(&its);
    }
}

/* Fewer workers than the plan has chunks count too few of them, though their masks cancel. */
BENCH(a_sum_of_too_few_chunks_is_torn)
{
    random_stream stream = random_stream_make(test_seed("masked", 5), RANDOM_TEST, 0, 0);
    begin(its, 32, 0, &stream);
    expects(its, WORKERS - 1);
    add_group(its, WORKERS - 1);
    collect_all(its);
    assert_true(summation_torn(its->sums).torn);
    assert_false(summation_torn(its->sums).masked);
    assert_int_equal(summation_torn(its->sums).chunks, WORKERS - 1);
    summation_settle(its->sums, false);
}

static int create(void *user, const tarry_allocator *allocator)
{
    const bench *its = user;
    summation *sums;
    const summation_settings settings = {
        .dimension = DIMENSION,
        .stripe_length = STRIPE,
        .grid = its->grid,
        .kernels = kernel_best(),
    };
    int error = summation_create(its->plan, &settings, allocator, &sums);
    if (error == TARRY_OK)
        summation_free(sums);
    return error;
}

BENCH(memory_that_runs_out_is_an_error)
{
    random_stream stream = random_stream_make(6, RANDOM_TEST, 0, 0);
    begin(its, 64, 0, &stream);
    assert_true(fail_each_allocation(create, its) > 0);
    summation_settle(its->sums, false);
}
