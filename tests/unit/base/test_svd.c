/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include <lapacke.h>

#include "base/digest.h"
#include "base/dot.h"
#include "base/hex.h"
#include "base/random.h"
#include "base/svd.h"
#include "seed.h"
#include "test.h"

enum { MOST_ROWS = 16, MOST_COLUMNS = 8 };

typedef struct matrix {
    uint32_t rows, columns;
    double number[MOST_ROWS * MOST_COLUMNS]; /* column by column */
} matrix;

static double draw(random_stream *stream)
{
    return 2 * random_uniform(stream) - 1;
}

/* A product of factors of `rank` columns and rows, all but the first of which count `scale`. */
static matrix draw_matrix(random_stream *stream, uint32_t rank, double scale)
{
    matrix a = {.columns = rank + random_below(stream, MOST_COLUMNS + 1 - rank)};
    a.rows = a.columns + random_below(stream, MOST_ROWS + 1 - a.columns);
    for (uint32_t k = 0; k < rank; k++) {
        double left[MOST_ROWS];
        for (uint32_t i = 0; i < a.rows; i++)
            left[i] = draw(stream);
        for (uint32_t j = 0; j < a.columns; j++) {
            double right = draw(stream) * (k > 0 ? scale : 1);
            for (uint32_t i = 0; i < a.rows; i++)
                a.number[j * a.rows + i] += left[i] * right;
        }
    }
    return a;
}

static int compare_descending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a > b ? -1 : a < b;
}

/* The columns' lengths, the largest first. */
static void take_lengths(const matrix *a, double *lengths)
{
    for (uint32_t k = 0; k < a->columns; k++) {
        const double *column = a->number + (size_t)k * a->rows;
        lengths[k] = sqrt(dot(column, column, a->rows));
    }
    qsort(lengths, a->columns, sizeof(*lengths), compare_descending);
}

static void by_lapack(matrix a, double *sigma)
{
    double none, rest[MOST_COLUMNS];
    assert_int_equal(LAPACKE_dgesvd(LAPACK_COL_MAJOR, 'N', 'N', (lapack_int)a.rows,
                                    (lapack_int)a.columns, a.number, (lapack_int)a.rows, sigma,
                                    &none, 1, &none, 1, rest),
                     0);
}

/* A = (A V) V^T, and V^T V = I. */
static void assert_product(const matrix *a, const matrix *rotated, const double *basis,
                           double tolerance)
{
    uint32_t count = a->columns;
    for (uint32_t j = 0; j < count; j++) {
        for (uint32_t i = 0; i < a->rows; i++) {
            double sum = 0;
            for (uint32_t k = 0; k < count; k++)
                sum += rotated->number[k * a->rows + i] * basis[k * count + j];
            assert_within(sum, a->number[j * a->rows + i], tolerance);
        }
        for (uint32_t k = 0; k < count; k++)
            assert_within(dot(basis + j * count, basis + k * count, count), j == k, 1e-13);
    }
}

/* TARRY_TEST_MATRICES: how many, if not these. */
static uint32_t matrices(void)
{
    const char *text = getenv("TARRY_TEST_MATRICES");
    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : 20000;
}

TEST(matrices_of_every_rank_agree_with_lapack)
{
    random_stream stream = random_stream_make(test_seed("ranks", 1), RANDOM_TEST, 0, 0);
    for (uint32_t trial = 0; trial < matrices(); trial++) {
        double scale = pow(10, -9 * random_uniform(&stream));
        matrix a = draw_matrix(&stream, 1 + trial % MOST_COLUMNS, scale), rotated = a;
        double basis[MOST_COLUMNS * MOST_COLUMNS], got[MOST_COLUMNS], expected[MOST_COLUMNS];
        assert_true(svd_rotate(rotated.number, a.rows, a.columns, basis));
        take_lengths(&rotated, got);
        by_lapack(a, expected);
        for (uint32_t k = 0; k < a.columns; k++)
            assert_within(got[k], expected[k], 1e-12 * expected[0]);
        assert_product(&a, &rotated, basis, 1e-12 * expected[0]);
    }
}

TEST(the_basis_changes_nothing)
{
    random_stream stream = random_stream_make(test_seed("basis", 2), RANDOM_TEST, 1, 0);
    for (uint32_t trial = 0; trial < 500; trial++) {
        matrix with = draw_matrix(&stream, 1 + trial % MOST_COLUMNS, 1e-3), without = with;
        double basis[MOST_COLUMNS * MOST_COLUMNS];
        svd_rotate(with.number, with.rows, with.columns, basis);
        svd_rotate(without.number, without.rows, without.columns, NULL);
        assert_memory_equal(&with, &without, sizeof(with));
    }
}

/* Recorded: every compiler and processor has to come to these bits. */
TEST(the_bits_are_the_same_everywhere)
{
    static const char expected[] =
        "3a15a98b6f2f707aa467a9d5717ed48c13f45831d725919dd3d0430c0ed7f357";
    random_stream stream = random_stream_make(3, RANDOM_TEST, 2, 0);
    digest *sum = digest_begin();
    assert_non_null(sum);
    for (uint32_t trial = 0; trial < 200; trial++) {
        matrix a = draw_matrix(&stream, 1 + trial % MOST_COLUMNS, 1e-3);
        double basis[MOST_COLUMNS * MOST_COLUMNS];
        svd_rotate(a.number, a.rows, a.columns, basis);
        assert_int_equal(digest_add_f64(sum, a.number, (size_t)a.rows * a.columns), 0);
        assert_int_equal(digest_add_f64(sum, basis, (size_t)a.columns * a.columns), 0);
    }
    uint8_t bytes[32];
    char got[2 * sizeof(bytes) + 1];
    assert_int_equal(digest_end(sum, bytes), 0);
    hex_put(got, bytes, sizeof(bytes));
    assert_string_equal(got, expected);
}

TEST(a_matrix_of_zeros_is_orthogonal)
{
    double zero[6] = {0}, basis[4];
    assert_true(svd_rotate(zero, 3, 2, basis));
    assert_true(basis[0] == 1 && basis[1] == 0 && basis[2] == 0 && basis[3] == 1);
}

TEST(numbers_that_are_not_finite_are_found)
{
    double bad[4] = {1, NAN, 2, 3};
    assert_false(svd_rotate(bad, 2, 2, NULL));
}
