/* SPDX-License-Identifier: Apache-2.0 */
/* What rounding lost, over encodings that count and others that don't. */
#include <math.h>
#include <stdbool.h>

#include "base/random.h"
#include "compress/view.h"
#include "seed.h"
#include "test.h"

enum { LENGTH = 700, STRIPE = 300, STRIPES = 3, EXACT = 130 /* more than the last stripe */ };

static uint64_t seed;

typedef struct bench {
    residuals *own;
    compress_form form;
    compress_form dense; /* of each other time, if it is another one than NONE */
    uint32_t times;
    random_stream from;
    float z[LENGTH];
    uint8_t bytes[4 * LENGTH];
    double sent[LENGTH], meant[LENGTH]; /* over all that was committed */
    double lost[LENGTH];                /* residuals that were thrown away */
} bench;

static const compress_form FORMS[] = {{.kind = TARRY_COMPRESS_INT4, .share = 0, .exact = 0},
                                      {.kind = TARRY_COMPRESS_TOPK, .share = 50000, .exact = 0},
                                      {.kind = TARRY_COMPRESS_INT4, .share = 0, .exact = EXACT},
                                      {.kind = TARRY_COMPRESS_SIGN, .share = 0, .exact = 0}};

static void begin(bench *its, compress_form form)
{
    *its = (bench){.form = form, .from = random_stream_make(seed, RANDOM_TEST, form.kind, 0)};
    assert_ok(residuals_create(LENGTH, STRIPE, NULL, &its->own));
}

static size_t length_of(uint32_t stripe)
{
    return stripe + 1 < STRIPES ? STRIPE : LENGTH - (size_t)stripe * STRIPE;
}

static void draw(bench *its)
{
    for (size_t i = 0; i < LENGTH; i++)
        its->z[i] = (float)random_normal(&its->from) + 0.3F;
}

/* Sends a stripe; gives back, in `sent`, what the server reads. */
static void send(bench *its, uint32_t stripe, bool whole, double *sent)
{
    const size_t start = (size_t)stripe * STRIPE, count = length_of(stripe);
    float read[STRIPE] = {0};
    bool dense = its->dense.kind != TARRY_COMPRESS_NONE && its->times++ % 2 > 0;
    const compress_form form =
        compress_within(dense ? its->dense : its->form, LENGTH, start, count);
    if (whole) {
        memcpy(read, residuals_flush(its->own, stripe, its->z + start), count * sizeof(float));
    } else {
        residuals_encode(its->own, stripe, form, its->z + start, random_u64(&its->from),
                         its->bytes);
        compress_decode_add(form, its->bytes, count, 1, read);
    }
    for (size_t i = 0; i < count; i++)
        sent[i] = (double)read[i];
}

static void commit(bench *its, uint32_t stripe, const double *sent)
{
    for (size_t i = 0; i < length_of(stripe); i++) {
        its->sent[stripe * STRIPE + i] += sent[i];
        its->meant[stripe * STRIPE + i] += (double)its->z[stripe * STRIPE + i];
    }
    residuals_commit(its->own, stripe);
}

static double residual(const bench *its, uint32_t stripe, size_t i)
{
    const float *of = residuals_of(its->own, stripe);
    return of == NULL ? 0 : (double)of[i];
}

static void throw_away(bench *its, uint32_t stripe)
{
    for (size_t i = 0; i < length_of(stripe); i++)
        its->lost[stripe * STRIPE + i] += residual(its, stripe, i);
    residuals_void(its->own, stripe);
    assert_null(residuals_of(its->own, stripe));
}

/* The telescoping identity, as far as float32 adds. */
static void check(const bench *its)
{
    for (uint32_t stripe = 0; stripe < STRIPES; stripe++)
        for (size_t i = 0; i < length_of(stripe); i++) {
            size_t at = (size_t)stripe * STRIPE + i;
            double off = its->sent[at] + residual(its, stripe, i) + its->lost[at] - its->meant[at];
            assert_true(fabs(off) < 1e-3);
            assert_true(at + its->form.exact < LENGTH || residual(its, stripe, i) == 0);
        }
}

TEST(what_was_sent_telescopes)
{
    double sent[STRIPE];
    for (size_t f = 0; f < 5; f++) {
        bench its;
        begin(&its, FORMS[f % 4]);
        if (f == 4) {
            its.form = FORMS[1];
            its.dense = FORMS[0];
        }
        for (uint32_t step = 0; step < 600; step++) {
            draw(&its);
            for (uint32_t stripe = 0; stripe < STRIPES; stripe++) {
                uint32_t fate = random_below(&its.from, 16);
                send(&its, stripe, fate == 15, sent);
                if (fate == 1)
                    send(&its, stripe, false, sent); /* for another attempt */
                if (fate == 2)
                    throw_away(&its, stripe);
                else if (fate > 4)
                    commit(&its, stripe, sent);
                /* else: it never counts */
            }
            check(&its);
        }
        residuals_free(its.own);
    }
}

/* Without it a number that is too small for its block would never get through. */
TEST(what_is_small_gets_through_in_the_end)
{
    double sent[STRIPE];
    bench its;
    begin(&its, FORMS[1]);
    for (size_t i = 0; i < LENGTH; i++)
        its.z[i] = i % STRIPE < 15 ? 1 : 0.01F;
    for (uint32_t step = 0; step < 2000; step++) {
        send(&its, 0, false, sent);
        commit(&its, 0, sent);
    }
    for (size_t i = 0; i < STRIPE; i++)
        assert_true(fabs(its.sent[i] / its.meant[i] - 1) < 0.2);
    residuals_free(its.own);
}

TEST(what_was_not_committed_leaves_no_trace)
{
    for (size_t f = 0; f < 4; f++) {
        bench its;
        double sent[STRIPE];
        float before[STRIPE];
        begin(&its, FORMS[f]);
        draw(&its);
        send(&its, 0, false, sent);
        commit(&its, 0, sent);
        memcpy(before, residuals_of(its.own, 0), sizeof(before));
        for (uint32_t step = 0; step < 3; step++) {
            draw(&its);
            send(&its, 0, step == 1, sent);
            assert_memory_equal(before, residuals_of(its.own, 0), sizeof(before));
        }
        assert_null(residuals_of(its.own, 1));
        residuals_free(its.own);
    }
}

TEST(a_flush_leaves_nothing)
{
    double sent[STRIPE];
    bench its;
    begin(&its, FORMS[0]);
    draw(&its);
    send(&its, 2, false, sent);
    commit(&its, 2, sent);
    assert_non_null(residuals_of(its.own, 2));
    send(&its, 2, true, sent);
    commit(&its, 2, sent);
    assert_null(residuals_of(its.own, 2));
    check(&its);
    residuals_free(its.own);
}

/* It would be in all sums to come. */
TEST(what_is_not_finite_is_not_kept)
{
    const float odd[] = {INFINITY, -INFINITY, NAN};
    for (size_t f = 0; f < 4; f++) {
        bench its;
        double sent[STRIPE];
        begin(&its, FORMS[f]);
        for (size_t o = 0; o < 3; o++) {
            draw(&its);
            its.z[7] = odd[o];
            send(&its, 0, false, sent);
            assert_true(!isfinite(sent[7]));
            residuals_commit(its.own, 0);
            for (size_t i = 0; i < STRIPE; i++)
                assert_true(isfinite(residual(&its, 0, i)) &&
                            (i != 7 || residual(&its, 0, i) == 0));
        }
        residuals_free(its.own);
    }
}

static int draw_seed(void **state)
{
    seed = test_seed("residuals", 17);
    return 0;
}

TEST_GROUP(draw_seed, NULL)
