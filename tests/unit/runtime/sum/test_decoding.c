/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/random.h"
#include "coding/layout.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "protocol/form.h"
#include "runtime/sum/summation.h"
#include "seed.h"
#include "test.h"

enum { WORKERS = 6, DIMENSION = 1009, STRIPE = 16, PARTS = 3, EXACT = 5 };

/* Decode threads, and what they must give, in double. */
typedef struct bench {
    tarry_plan *plan;
    summation *threads;
    stripes pool;
    float estimate[DIMENSION];
    double truth[DIMENSION];
    layout cut;
    compress_form form; /* of what is lent */
    random_stream *stream;
    uint32_t lent, summed;
    bool added[DIMENSION][WORKERS]; /* per stripe, since it was cleared */
} bench;

static void ignore(void *user)
{
}

static summation_settings settings_of(uint32_t threads)
{
    return (summation_settings){
        .dimension = DIMENSION,
        .stripe_length = STRIPE,
        .threads = threads,
        .kernels = kernel_best(),
        .finished = ignore,
    };
}

/* In each stripe a matrix and numbers that are none. */
static compress_form draw_form(tarry_compress kind, random_stream *stream)
{
    static tarry_matrix matrices[2 * DIMENSION / STRIPE];
    static float factor[DIMENSION];
    compress_form form = form_of_kind(kind, 200000, EXACT);
    if (kind != TARRY_COMPRESS_POWERSGD)
        return form;
    for (uint32_t i = 0; i < 2 * (DIMENSION / STRIPE); i++)
        matrices[i] = i % 2 == 0 ? (tarry_matrix){4, 3} : (tarry_matrix){1, 4};
    for (size_t i = 0; i < DIMENSION; i++)
        factor[i] = (float)random_normal(stream);
    form.low = (compress_lowrank){.rank = 1,
                                  .count = 2 * (DIMENSION / STRIPE),
                                  .matrices = matrices,
                                  .stripe = STRIPE,
                                  .factor = factor};
    return form;
}

static void begin_form(bench *its, compress_form form, uint32_t parts, uint32_t threads,
                       random_stream *stream)
{
    *its = (bench){.stream = stream, .form = form};
    its->plan = edge_plan_cyclic(WORKERS, WORKERS, PARTS, parts);
    edge_plan_random_decode(its->plan, random_u64(stream));
    its->cut = layout_make(DIMENSION, parts, STRIPE);
    stripes_init(&its->pool, STRIPE, NULL);
    summation_settings settings = settings_of(threads);
    settings.form = form;
    assert_ok(summation_create(its->plan, &settings, NULL, &its->threads));
}

static void begin(bench *its, uint32_t threads, random_stream *stream)
{
    begin_form(its, (compress_form){.kind = TARRY_COMPRESS_NONE}, PARTS, threads, stream);
}

static void collect(bench *its)
{
    stripe_queue summed = {0}, dropped = {0};
    summation_take(its->threads, &summed, &dropped);
    for (stripe *item; (item = stripe_queue_pop(&summed)) != NULL; its->summed++, its->lent--)
        stripes_give(&its->pool, item);
    for (stripe *item; (item = stripe_queue_pop(&dropped)) != NULL; its->lent--)
        stripes_give(&its->pool, item);
}

static void end(bench *its)
{
    collect(its);
    assert_int_equal(its->lent, 0);
    summation_free(its->threads);
    stripes_destroy(&its->pool);
    tarry_plan_free(its->plan);
}

#define BENCH(name) TEST_OF(name, bench, its, end)

/* Random numbers of a worker's stripe, to be added; the truth has them already. */
static stripe *lend(bench *its, uint32_t worker, uint32_t index, double scale)
{
    stripe *item = stripes_take(&its->pool);
    assert_non_null(item);
    item->worker = worker;
    item->index = index;
    item->scale = scale;
    const double *decode = its->plan->decode;
    size_t length = layout_stripe_length(&its->cut, index);
    size_t start = layout_stripe_start(&its->cut, index);
    float numbers[STRIPE], sent[STRIPE] = {0};
    for (size_t x = 0; x < length; x++)
        numbers[x] = (float)random_normal(its->stream);
    /* With feedback some may come as they are. */
    compress_form form = its->form;
    if (compress_feeds_back(form.kind) && random_below(its->stream, 4) == 0)
        form = (compress_form){.kind = TARRY_COMPRESS_NONE};
    item->form = form.kind;
    form = compress_within(form, DIMENSION, start, length);
    compress_encode(form, numbers, length, random_u64(its->stream), item->bytes);
    compress_decode_add(form, item->bytes, length, 1, sent);
    for (size_t x = 0; x < length; x++) {
        for (uint32_t part = 0; part < its->cut.parts; part++)
            if (x < layout_present(&its->cut, part, index))
                its->truth[part * its->cut.part_length + start + x] +=
                    scale * decode[part * WORKERS + worker] * (double)sent[x];
    }
    its->lent++;
    return item;
}

static void clear(bench *its, uint32_t index)
{
    memset(its->added[index], 0, sizeof(its->added[index]));
    summation_clear(its->threads, index);
    for (uint32_t part = 0; part < its->cut.parts; part++)
        for (size_t x = 0; x < layout_present(&its->cut, part, index); x++)
            its->truth[part * its->cut.part_length + layout_stripe_start(&its->cut, index) + x] = 0;
}

static void clear_all(bench *its)
{
    for (uint32_t index = 0; index < its->cut.stripes; index++)
        clear(its, index);
}

static void assert_true_sum(const bench *its)
{
    for (size_t i = 0; i < DIMENSION; i++)
        assert_true(fabs((double)its->estimate[i] - its->truth[i]) < 1e-4);
}

static void add_random(bench *its, double scale)
{
    stripe_queue some = {0};
    uint32_t count = 1 + random_below(its->stream, 4);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t worker = random_below(its->stream, WORKERS);
        uint32_t index = random_below(its->stream, its->cut.stripes);
        if (!its->added[index][worker])
            stripe_queue_push(&some, lend(its, worker, index, scale));
        its->added[index][worker] = true;
    }
    summation_add(its->threads, &some);
}

/* What is added, and withdrawn by CLEAR at any time, while threads are at it. */
static void sum_with_clears(tarry_compress kind, uint32_t threads, random_stream *stream)
{
    bench its;
    if (kind != TARRY_COMPRESS_NONE)
        begin_form(&its, draw_form(kind, stream), 1, threads, stream);
    else
        begin(&its, threads, stream);
    for (uint32_t round = 0; round < 20; round++) {
        double scale = 1 + random_uniform(stream);
        memset(its.estimate, 0xff, sizeof(its.estimate)); /* not a number */
        summation_begin(its.threads, its.estimate);
        its.form.low.odd = round % 2 > 0;
        if (kind == TARRY_COMPRESS_POWERSGD)
            summation_form(its.threads, its.form);
        clear_all(&its);
        for (uint32_t turn = 0; turn < 100; turn++) {
            uint32_t what = random_below(stream, 40);
            if (what < 2) {
                summation_forget(its.threads); /* a new attempt follows */
                clear_all(&its);
            } else if (what < 8) {
                clear(&its, random_below(stream, its.cut.stripes));
            } else {
                add_random(&its, scale);
            }
            collect(&its);
        }
        uint32_t lent = its.lent;
        while (its.lent > 0 && lent > 0)
            collect(&its); /* all that still counts is summed */
        summation_settle(its.threads, true);
        assert_true_sum(&its);
    }
    assert_true(its.summed > 0);
    end(&its);
}

TEST(sums_what_was_added_since_it_was_cleared)
{
    random_stream stream = random_stream_make(test_seed("decoding", 1), RANDOM_TEST, 0, 0);
    for (uint32_t threads = 0; threads <= 4; threads++) {
        sum_with_clears(TARRY_COMPRESS_NONE, threads, &stream);
        sum_with_clears(TARRY_COMPRESS_BF16, threads, &stream);
        sum_with_clears(TARRY_COMPRESS_INT8, threads, &stream);
        sum_with_clears(TARRY_COMPRESS_INT4, threads, &stream);
        sum_with_clears(TARRY_COMPRESS_TOPK, threads, &stream);
        sum_with_clears(TARRY_COMPRESS_SIGN, threads, &stream);
        sum_with_clears(TARRY_COMPRESS_POWERSGD, threads, &stream);
    }
}

/* A round that is given up: nothing is written once it is settled. */
BENCH(leaves_a_sum_alone_that_is_settled)
{
    random_stream stream = random_stream_make(test_seed("decoding settled", 1), RANDOM_TEST, 0, 0);
    begin(its, 3, &stream);
    for (uint32_t round = 0; round < 50; round++) {
        summation_begin(its->threads, its->estimate);
        clear_all(its);
        for (uint32_t turn = 0; turn < 20; turn++)
            add_random(its, 1);
        summation_settle(its->threads, false);
        float before[DIMENSION];
        memcpy(before, its->estimate, sizeof(before));
        collect(its);
        assert_int_equal(its->lent, 0);
        assert_memory_equal(before, its->estimate, sizeof(before));
    }
}

/* Together in one call, in the order of workers: the same to the bit, whatever threads do, or
 * without any. */
TEST(repeats_to_the_bit)
{
    float first[DIMENSION];
    for (uint32_t run = 0; run < 20; run++) {
        random_stream stream = random_stream_make(7, RANDOM_TEST, 0, 0);
        bench its;
        begin(&its, run % 5, &stream);
        summation_begin(its.threads, its.estimate);
        clear_all(&its);
        for (uint32_t index = 0; index < its.cut.stripes; index++) {
            stripe_queue all = {0};
            for (uint32_t worker = 0; worker < WORKERS; worker++)
                stripe_queue_push(&all, lend(&its, worker, index, 1));
            summation_add(its.threads, &all);
        }
        while (its.lent > 0)
            collect(&its);
        summation_settle(its.threads, true);
        if (run == 0)
            memcpy(first, its.estimate, sizeof(first));
        assert_memory_equal(first, its.estimate, sizeof(first));
        end(&its);
    }
}

static int make(void *user, const tarry_allocator *allocator)
{
    summation *made;
    summation_settings settings = settings_of(2);
    int error = summation_create(user, &settings, allocator, &made);
    if (error == TARRY_OK)
        summation_free(made);
    return error;
}

static void announce(void *user)
{
    atomic_store((_Atomic bool *)user, true);
}

/* Every stripe comes back by way of an announcement, however it fared: whoever lent it may be
 * waiting for nothing else. */
BENCH(announces_what_is_dropped)
{
    random_stream stream = random_stream_make(test_seed("decoding", 1), RANDOM_TEST, 0, 0);
    begin(its, 1, &stream);
    summation_free(its->threads);
    _Atomic bool announced = false;
    summation_settings settings = settings_of(1);
    settings.finished = announce;
    settings.user = &announced;
    assert_ok(summation_create(its->plan, &settings, NULL, &its->threads));
    summation_begin(its->threads, its->estimate);
    for (uint32_t round = 0; round < 200; round++) {
        clear_all(its);
        for (uint32_t index = 0; index < its->cut.stripes; index++) {
            stripe_queue one = {0};
            stripe_queue_push(&one, lend(its, 0, index, 1));
            summation_add(its->threads, &one);
        }
        if (round % 2 == 0)
            summation_forget(its->threads);
        else
            clear_all(its);
        for (uint32_t wait_ms = 0; its->lent > 0; wait_ms++) {
            assert_true(wait_ms < 10000);
            if (atomic_exchange(&announced, false))
                collect(its);
            else
                usleep(1000);
        }
    }
    summation_settle(its->threads, true);
}

TEST(does_without_memory)
{
    OWNED(tarry_plan) plan = edge_plan_cyclic(WORKERS, WORKERS, PARTS, PARTS);
    edge_plan_random_decode(plan, 1);
    assert_true(fail_each_allocation(make, plan) >= 9);
}
