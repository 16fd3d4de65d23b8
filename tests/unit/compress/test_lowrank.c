/* SPDX-License-Identifier: Apache-2.0 */
/* The form POWERSGD against products of whole matrices in double, and the factors that follow sums.
 */
#include <float.h>
#include <math.h>

#include "base/bytes.h"
#include "base/random.h"
#include "compress/compress.h"
#include "compress/compress_lowrank.h"
#include "compress/view.h"
#include "seed.h"
#include "test.h"

OWNED_BY(factors, factors_free)

enum { MOST = 6000, MOST_MATRICES = 6, WORKERS = 3 };

static uint64_t seed;

/* A gradient, and how it is cut. */
typedef struct bench {
    random_stream from;
    tarry_matrix matrices[MOST_MATRICES];
    compress_form form;
    size_t length;
} bench;

static uint32_t between(bench *its, uint32_t least, uint32_t most)
{
    return least + random_below(&its->from, most - least + 1);
}

/* Some matrices, worth it or not, cut by stripes or not, with a tail, exact or not. */
static void draw_some(bench *its)
{
    its->length = 0;
    uint32_t count = between(its, 1, MOST_MATRICES);
    for (uint32_t i = 0; i < count; i++) {
        its->matrices[i] = (tarry_matrix){between(its, 1, 40), between(its, 1, 20)};
        its->length += (size_t)its->matrices[i].rows * its->matrices[i].columns;
    }
    uint32_t exact = between(its, 0, 1) * between(its, 0, 50);
    its->length += exact + between(its, 0, 1) * between(its, 0, 100);
    its->form = (compress_form){
        .kind = TARRY_COMPRESS_POWERSGD,
        .exact = exact,
        .low = {.rank = between(its, 1, 4),
                .count = count,
                .matrices = its->matrices,
                .stripe = between(its, 0, 1) ? its->length : between(its, 50, 900)},
    };
}

/* With one that is worth it. */
static void draw_bench(bench *its, uint32_t run)
{
    *its = (bench){.from = random_stream_make(seed, RANDOM_TEST, run, 0)};
    do
        draw_some(its);
    while (lowrank_factor_numbers(&its->form.low) == 0);
}

static void draw_numbers(bench *its, size_t count, float *numbers)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = (float)random_normal(&its->from);
}

static size_t stripe_of(const bench *its, size_t first)
{
    size_t rest = its->length - first;
    return rest < its->form.low.stripe ? rest : its->form.low.stripe;
}

/* What each number of m is to become, and how many bytes that takes: by blocks as they are found
 * number by number, and whole products. */
static size_t expect(const bench *its, const compress_form *form, const float *m, double *out)
{
    const uint32_t rank = form->low.rank;
    size_t begin = 0, factor = 0, numbers = 0, plain = its->length;
    for (size_t i = 0; i < its->length; i++)
        out[i] = m[i];
    for (uint32_t k = 0; k < form->low.count; k++) {
        const size_t rows = its->matrices[k].rows, columns = its->matrices[k].columns;
        size_t row = 0;
        while (row < rows) {
            size_t some = 0; /* rows in the stripe of the first one */
            const size_t stripe = (begin + row * columns) / form->low.stripe;
            while (row + some < rows &&
                   (begin + (row + some + 1) * columns - 1) / form->low.stripe == stripe)
                some++;
            const float *own = m + begin + row * columns;
            if (some > 0 && rank * (some + columns) <= some * columns) {
                const size_t thin = form->low.odd ? some : columns;
                for (size_t i = 0; i < some * columns; i++)
                    out[begin + row * columns + i] = 0;
                for (uint32_t r = 0; r < rank; r++) {
                    const float *f = form->low.factor + factor + r * thin;
                    for (size_t i = 0; i < some; i++)
                        for (size_t j = 0; j < columns; j++) {
                            double product = 0;
                            for (size_t l = 0; l < thin; l++)
                                product += form->low.odd ? (double)own[l * columns + j] * f[l]
                                                         : (double)own[i * columns + l] * f[l];
                            out[begin + (row + i) * columns + j] +=
                                product * (form->low.odd ? f[i] : f[j]);
                        }
                }
                factor += rank * thin;
                numbers += rank * (form->low.odd ? columns : some);
                plain -= some * columns;
            }
            row += some > 0 ? some : 1;
        }
        begin += rows * columns;
    }
    assert_true(factor <= lowrank_factor_numbers(&form->low));
    return (numbers + plain) * sizeof(float);
}

TEST(it_is_the_product_with_the_factor)
{
    static float numbers[MOST], read[MOST], factor[MOST];
    static double expected[MOST];
    static uint8_t bytes[4 * MOST];
    for (uint32_t run = 0; run < 400; run++) {
        bench its;
        draw_bench(&its, run);
        assert_true(its.length <= MOST);
        draw_numbers(&its, its.length, numbers);
        draw_numbers(&its, lowrank_factor_numbers(&its.form.low), factor);
        its.form.low.factor = factor;
        its.form.low.odd = run % 2 > 0;
        size_t size = 0;
        for (size_t first = 0; first < its.length; first += its.form.low.stripe) {
            const size_t count = stripe_of(&its, first);
            const compress_form form = compress_within(its.form, its.length, first, count);
            compress_encode(form, numbers + first, count, 0, bytes);
            for (size_t i = 0; i < count; i++)
                read[first + i] = 3;
            compress_decode_add(form, bytes, count, 2, read + first);
            size += compress_bytes(form, count);
        }
        assert_int_equal(size, expect(&its, &its.form, numbers, expected));
        for (size_t i = 0; i < its.length; i++)
            assert_true(fabs(read[i] - (3 + 2 * expected[i])) < 1e-3 * (1 + fabs(expected[i])));
        for (size_t i = its.length - its.form.exact; i < its.length; i++)
            assert_true(read[i] == 3 + 2 * numbers[i]);
    }
}

/* What all send, added up, is what their sum would be: the form is linear. */
TEST(sums_are_those_of_the_sum)
{
    static float z[WORKERS][MOST], whole[MOST], sums[MOST], of_sum[MOST];
    static uint8_t bytes[4 * MOST];
    for (uint32_t run = 1000; run < 1100; run++) {
        bench its;
        draw_bench(&its, run);
        OWNED(factors) own = NULL;
        its.form.low.stripe = its.length;
        its.form.low.odd = run % 2 > 0;
        assert_ok(factors_create(&its.form.low, seed, NULL, &own));
        its.form.low.factor = factors_of(own, run);
        memset(whole, 0, sizeof(whole));
        memset(sums, 0, sizeof(sums));
        memset(of_sum, 0, sizeof(of_sum));
        for (uint32_t worker = 0; worker < WORKERS; worker++) {
            draw_numbers(&its, its.length, z[worker]);
            for (size_t i = 0; i < its.length; i++)
                whole[i] += z[worker][i];
            compress_encode(its.form, z[worker], its.length, 0, bytes);
            compress_decode_add(its.form, bytes, its.length, 1, sums);
        }
        compress_encode(its.form, whole, its.length, 0, bytes);
        compress_decode_add(its.form, bytes, its.length, 1, of_sum);
        for (size_t i = 0; i < its.length; i++)
            assert_true(fabsf(sums[i] - of_sum[i]) < 1e-4F * (1 + fabsf(of_sum[i])));
    }
}

static void assert_orthonormal(const bench *its, const float *factor, bool odd)
{
    compress_lowrank form = its->form.low;
    lowrank_walk walk = {0};
    lowrank_block block;
    form.odd = odd;
    while (lowrank_next(&form, &walk, &block)) {
        const size_t length = odd ? block.rows : block.columns;
        for (uint32_t r = 0; r < form.rank; r++)
            for (uint32_t other = 0; other <= r; other++) {
                double product = 0;
                for (size_t i = 0; i < length; i++)
                    product += (double)factor[block.factor + r * length + i] *
                               factor[block.factor + other * length + i];
                assert_true(fabs(product - (r == other)) < 1e-5);
            }
    }
}

/* Whatever the sums are: zeros, of a lower rank, not finite, or the largest numbers. */
TEST(factors_are_orthonormal)
{
    static float sum[MOST], used[MOST];
    for (uint32_t run = 2000; run < 2200; run++) {
        bench its;
        OWNED(factors) own = NULL;
        draw_bench(&its, run);
        const size_t numbers = lowrank_factor_numbers(&its.form.low);
        assert_ok(factors_create(&its.form.low, run, NULL, &own));
        for (uint64_t round = run % 2; round < 12; round++) {
            memcpy(used, factors_of(own, round), numbers * sizeof(*used));
            assert_orthonormal(&its, used, round % 2 > 0);
            draw_numbers(&its, its.length, sum);
            for (size_t i = 0; i < its.length; i++) {
                const uint32_t kind = (uint32_t)((round + run) % 6);
                if (kind == 1)
                    sum[i] = 0;
                else if (kind == 2)
                    sum[i] = 1;
                else if (kind == 3 && random_below(&its.from, 50) == 0)
                    sum[i] = random_below(&its.from, 2) > 0 ? NAN : INFINITY;
                else if (kind == 4)
                    sum[i] = sum[i] > 0 ? FLT_MAX : -FLT_MAX;
                else if (kind == 5)
                    sum[i] *= 1e-44F;
            }
            factors_learn(own, round, used, sum);
        }
    }
}

/* They come from the seed and the sums alone, and those of a restarted server from the seed. */
TEST(factors_repeat)
{
    static float sum[MOST], used[MOST], first[MOST];
    bench its;
    OWNED(factors) one = NULL, other = NULL, third = NULL;
    draw_bench(&its, 2500);
    const size_t bytes = lowrank_factor_numbers(&its.form.low) * sizeof(float);
    assert_ok(factors_create(&its.form.low, 5, NULL, &one));
    assert_ok(factors_create(&its.form.low, 5, NULL, &other));
    assert_ok(factors_create(&its.form.low, 6, NULL, &third));
    memcpy(first, factors_of(one, 0), bytes);
    for (uint64_t round = 0; round < 6; round++) {
        memcpy(used, factors_of(one, round), bytes);
        assert_memory_equal(used, factors_of(one, round), bytes); /* a round that is repeated */
        assert_memory_equal(used, factors_of(other, round), bytes);
        draw_numbers(&its, its.length, sum);
        factors_learn(one, round, used, sum);
        factors_learn(other, round, used, sum);
    }
    assert_memory_not_equal(factors_of(one, 6), first, bytes);
    assert_memory_equal(factors_of(one, 0), first,
                        bytes); /* nothing is known of the round before */
    assert_memory_not_equal(factors_of(third, 0), first, bytes);
}

/* One worker's rounds with the same matrix: what is sent of it, and what is left. */
static double rounds_of(uint32_t rank, uint32_t of_rank, uint32_t rounds, double *telescoped)
{
    enum { ROWS = 30, COLUMNS = 20, LENGTH = ROWS * COLUMNS };
    const tarry_matrix matrix = {ROWS, COLUMNS};
    compress_form form = {.kind = TARRY_COMPRESS_POWERSGD,
                          .low = {.rank = rank, .count = 1, .matrices = &matrix, .stripe = LENGTH}};
    random_stream from = random_stream_make(seed, RANDOM_TEST, 3000 + rank, of_rank);
    float m[LENGTH] = {0}, left[ROWS], right[COLUMNS], used[64 * ROWS], sum[LENGTH];
    uint8_t bytes[4 * LENGTH];
    double off = 0, size = 0, sent[LENGTH] = {0};
    factors *shared = NULL;
    residuals *own = NULL;
    for (uint32_t k = 0; k < of_rank; k++) {
        for (size_t i = 0; i < ROWS; i++)
            left[i] = (float)random_normal(&from);
        for (size_t j = 0; j < COLUMNS; j++)
            right[j] = (float)random_normal(&from);
        for (size_t i = 0; i < LENGTH; i++)
            m[i] += left[i / COLUMNS] * right[i % COLUMNS];
    }
    assert_ok(factors_create(&form.low, seed, NULL, &shared));
    assert_ok(residuals_create(LENGTH, LENGTH, NULL, &own));
    for (uint32_t round = 0; round < rounds; round++) {
        const size_t numbers = lowrank_factor_numbers(&form.low);
        memcpy(used, factors_of(shared, round), numbers * sizeof(*used));
        form.low.odd = round % 2 > 0;
        form.low.factor = used;
        residuals_encode(own, 0, form, m, 0, bytes);
        residuals_commit(own, 0);
        memset(sum, 0, sizeof(sum));
        compress_decode_add(form, bytes, LENGTH, 1, sum);
        factors_learn(shared, round, used, sum);
        for (size_t i = 0; i < LENGTH; i++)
            sent[i] += sum[i];
    }
    *telescoped = 0;
    for (size_t i = 0; i < LENGTH; i++) {
        const double kept = residuals_of(own, 0)[i];
        *telescoped = fmax(*telescoped, fabs(sent[i] + kept - rounds * (double)m[i]));
        off += kept * kept;
        size += (double)m[i] * m[i];
    }
    factors_free(shared);
    residuals_free(own);
    return sqrt(off / size);
}

TEST(a_matrix_of_that_rank_comes_within_a_few_rounds)
{
    double off;
    for (uint32_t rank = 1; rank <= 4; rank++) {
        /* What the first, drawn factor left behind has come, too, or does by and by. */
        assert_true(rounds_of(rank, rank, 8, &off) < 1e-4);
        assert_true(off < 1e-3);
    }
}

TEST(what_was_sent_and_what_is_left_is_what_there_was)
{
    double off;
    for (uint32_t rank = 1; rank <= 4; rank++) {
        const double left = rounds_of(rank, 12, 300, &off);
        assert_true(off < 1e-2);
        assert_true(left < 60); /* it does not grow with the rounds */
    }
}

TEST(what_is_not_finite_stays_in_its_row_or_column)
{
    enum { ROWS = 12, COLUMNS = 10, LENGTH = ROWS * COLUMNS + 5 };
    const tarry_matrix matrix = {ROWS, COLUMNS};
    const float odd_ones[] = {NAN, INFINITY, -INFINITY, FLT_MAX};
    compress_form form = {.kind = TARRY_COMPRESS_POWERSGD,
                          .low = {.rank = 2, .count = 1, .matrices = &matrix, .stripe = LENGTH}};
    OWNED(factors) shared = NULL;
    assert_ok(factors_create(&form.low, 1, NULL, &shared));
    for (uint32_t round = 0; round < 8; round++) {
        float z[LENGTH], sum[LENGTH] = {0};
        uint8_t bytes[4 * LENGTH];
        for (size_t i = 0; i < LENGTH; i++)
            z[i] = 1;
        const size_t row = round % ROWS, column = round % COLUMNS;
        z[row * COLUMNS + column] = odd_ones[round / 2];
        z[LENGTH - 1] = NAN;
        form.low.odd = round % 2 > 0;
        form.low.factor = factors_of(shared, round);
        compress_encode(form, z, LENGTH, 0, bytes);
        compress_decode_add(form, bytes, LENGTH, 1, sum);
        for (size_t i = 0; i < ROWS * COLUMNS; i++) {
            const bool hit = form.low.odd ? i % COLUMNS == column : i / COLUMNS == row;
            assert_true(isfinite(sum[i]) || hit);
        }
        assert_true(round / 2 == 3 || !isfinite(sum[row * COLUMNS + column]));
        for (size_t i = ROWS * COLUMNS; i + 1 < LENGTH; i++)
            assert_true(sum[i] == 1);
        assert_true(isnan(sum[LENGTH - 1]));
    }
}

enum { ROWS = 40, COLUMNS = 300, RANK = 9 };

/* A matrix, its thin ones, and what a kernel makes of them. */
typedef struct products {
    float m[ROWS * COLUMNS], left[RANK * ROWS], right[RANK * COLUMNS];
    uint8_t left_bytes[sizeof(float) * RANK * ROWS], right_bytes[sizeof(float) * RANK * COLUMNS];
    float out[2][ROWS * COLUMNS]; /* M + 2 P Q^T: of P as bytes, and of Q */
} products;

static void multiply(const lowrank_way *way, lowrank_shape of, products *its)
{
    memset(its->left_bytes, 0xa5, sizeof(its->left_bytes));
    memset(its->right_bytes, 0xa5, sizeof(its->right_bytes));
    way->put_left(of, its->m, its->right, its->left_bytes);
    way->put_right(of, its->m, its->left, its->right_bytes);
    memcpy(its->out[0], its->m, sizeof(its->m));
    memcpy(its->out[1], its->m, sizeof(its->m));
    way->add(of, NULL, its->right, its->left_bytes, 2, its->out[0]);
    way->add(of, its->left, NULL, its->right_bytes, 2, its->out[1]);
}

/* A number of a thin matrix against the sum in double: `step` is that of `m`. */
static void check_thin(const uint8_t *bytes, size_t at, const float *m, size_t step,
                       const float *other, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)m[i * step] * other[i];
    double found = bytes_get_f32(bytes + sizeof(float) * at);
    assert_true(fabs(found - sum) < 1e-4 * (1 + fabs(sum)));
}

/* Against sums in double. */
static void check_products(lowrank_shape of, const products *its)
{
    for (size_t r = 0; r < of.rank; r++) {
        for (size_t i = 0; i < of.rows; i++)
            check_thin(its->left_bytes, r * of.rows + i, its->m + i * of.columns, 1,
                       its->right + r * of.columns, of.columns);
        for (size_t j = 0; j < of.columns; j++)
            check_thin(its->right_bytes, r * of.columns + j, its->m + j, of.columns,
                       its->left + r * of.rows, of.rows);
    }
    for (size_t at = 0; at < of.rows * of.columns; at++) {
        const size_t i = at / of.columns, j = at % of.columns;
        double sums[2] = {its->m[at], its->m[at]};
        for (size_t r = 0; r < of.rank; r++) {
            const size_t row = r * of.rows + i, column = r * of.columns + j;
            sums[0] +=
                2.0 * bytes_get_f32(its->left_bytes + sizeof(float) * row) * its->right[column];
            sums[1] +=
                2.0 * its->left[row] * bytes_get_f32(its->right_bytes + sizeof(float) * column);
        }
        for (size_t way = 0; way < 2; way++)
            assert_true(fabs(its->out[way][at] - sums[way]) < 1e-4 * (1 + fabs(sums[way])));
    }
}

/* To the bit, whatever the shape, beyond what is computed at once and below; and nothing behind. */
TEST(all_kernels_multiply_the_same)
{
    static products first, next;
    for (uint32_t run = 0; run < 200; run++) {
        bench its = {.from = random_stream_make(seed, RANDOM_TEST, run, 3)};
        const lowrank_shape of = {.rank = between(&its, 1, RANK),
                                  .rows = between(&its, 1, ROWS),
                                  .columns = between(&its, 1, run % 2 > 0 ? COLUMNS : 40)};
        draw_numbers(&its, ROWS * COLUMNS, first.m);
        draw_numbers(&its, RANK * ROWS, first.left);
        draw_numbers(&its, RANK * COLUMNS, first.right);
        next = first;
        multiply(&compress_kernel_at(0)->lowrank, of, &first);
        check_products(of, &first);
        for (size_t v = 1; compress_kernel_at(v) != NULL; v++) {
            multiply(&compress_kernel_at(v)->lowrank, of, &next);
            assert_memory_equal(&next, &first, sizeof(first));
        }
    }
}

TEST(wrong_matrices_are_refused)
{
    const tarry_matrix good = {20, 30}, thin = {1, 600}, none = {0, 5},
                       large = {UINT32_MAX, UINT32_MAX};
    const compress_lowrank fine = {.rank = 2, .count = 1, .matrices = &good, .stripe = 1000};
    compress_lowrank wrong = fine;
    assert_null(lowrank_fault(&fine, 600));
    assert_non_null(lowrank_fault(&fine, 599));
    wrong.rank = 0;
    assert_non_null(lowrank_fault(&wrong, 600));
    wrong.rank = TARRY_COMPRESS_RANK_MOST + 1;
    assert_non_null(lowrank_fault(&wrong, 600));
    wrong.rank = 13; /* 13 (20 + 30) is more than it has */
    assert_non_null(lowrank_fault(&wrong, 600));
    wrong.rank = 12;
    assert_null(lowrank_fault(&wrong, 600));
    wrong = fine;
    wrong.count = 0;
    assert_non_null(lowrank_fault(&wrong, 600));
    wrong.count = TARRY_COMPRESS_MATRICES_MOST + 1;
    assert_non_null(lowrank_fault(&wrong, 600));
    wrong = fine;
    wrong.stripe = 29; /* each row is torn */
    assert_non_null(lowrank_fault(&wrong, 600));
    wrong = fine;
    wrong.matrices = &thin;
    assert_non_null(lowrank_fault(&wrong, 600));
    wrong.matrices = &none;
    assert_non_null(lowrank_fault(&wrong, 600));
    wrong.matrices = &large;
    assert_non_null(lowrank_fault(&wrong, 600));
}

static int draw_seed(void **state)
{
    seed = test_seed("lowrank", 23);
    return 0;
}

TEST_GROUP(draw_seed, NULL)
