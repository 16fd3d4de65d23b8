/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POWERSGD's products (lowrank_way, compress.h), in plain C that compilers make wide, for a
 * file that has defined, of its instruction set,
 *
 *   WIDE, WIDE_INLINE   what precedes a function that uses it, and one that must be inlined
 *
 * The order of additions is the same in all of them, and so are the bits.
 */
#ifndef COMPRESS_COMPRESS_PRODUCTS_H
#define COMPRESS_COMPRESS_PRODUCTS_H

#include <stdbool.h>
#include <string.h>

#include <tarry/compress.h>

#include "base/bytes.h"
#include "compress/compress.h"
#include "compress/compress_blocks.h"

enum {
    PRODUCT_LANES = 16, /* of a sum, which are added up in the end */
    PRODUCT_TILE = 128, /* columns at a time */
    PRODUCT_AHEAD = 4,  /* rows whose lines are asked for, where they are not read in a row */
};

/* asks: for later numbers of `one`. */
static WIDE_INLINE float product_dot(bool asks, const float *one, const float *other, size_t count)
{
    float lanes[PRODUCT_LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + PRODUCT_LANES <= count; i += PRODUCT_LANES) {
        if (asks)
            ask_ahead(one + i, PRODUCT_LANES);
        for (size_t lane = 0; lane < PRODUCT_LANES; lane++)
            lanes[lane] += one[i + lane] * other[i + lane];
    }
    for (; i < count; i++)
        sum += one[i] * other[i];
    for (size_t half = PRODUCT_LANES / 2; half > 0; half /= 2)
        for (size_t lane = 0; lane < half; lane++)
            lanes[lane] += lanes[lane + half];
    return lanes[0] + sum;
}

WIDE static void put_left(lowrank_shape of, const float *m, const float *right, uint8_t *bytes)
{
    for (size_t i = 0; i < of.rows; i++)
        for (size_t r = 0; r < of.rank; r++)
            bytes_put_f32(
                bytes + (r * of.rows + i) * sizeof(float),
                product_dot(r == 0, m + i * of.columns, right + r * of.columns, of.columns));
}

/* `some` columns from `first` on: PRODUCT_TILE, or fewer at the end. */
static WIDE_INLINE void put_right_tile(lowrank_shape of, size_t first, size_t some, const float *m,
                                       const float *left, uint8_t *bytes)
{
    float sums[TARRY_COMPRESS_RANK_MOST][PRODUCT_TILE];
    memset(sums, 0, of.rank * sizeof(sums[0]));
    for (size_t i = 0; i < of.rows; i++) {
        const float *row = m + i * of.columns + first;
        for (size_t j = 0; j < some; j += CACHE_LINE / sizeof(*row))
            ask_for(row + j, PRODUCT_AHEAD * of.columns * sizeof(*row));
        for (size_t r = 0; r < of.rank; r++)
            for (size_t j = 0; j < some; j++)
                sums[r][j] += left[r * of.rows + i] * row[j];
    }
    for (size_t r = 0; r < of.rank; r++)
        for (size_t j = 0; j < some; j++)
            bytes_put_f32(bytes + (r * of.columns + first + j) * sizeof(float), sums[r][j]);
}

WIDE static void put_right(lowrank_shape of, const float *m, const float *left, uint8_t *bytes)
{
    size_t first = 0;
    for (; first + PRODUCT_TILE <= of.columns; first += PRODUCT_TILE)
        put_right_tile(of, first, PRODUCT_TILE, m, left, bytes);
    if (first < of.columns)
        put_right_tile(of, first, of.columns - first, m, left, bytes);
}

/* The i-th number of a thin matrix; it is in `bytes` where `numbers` is NULL. */
static WIDE_INLINE float thin_at(const float *numbers, const uint8_t *bytes, size_t i)
{
    return numbers != NULL ? numbers[i] : bytes_get_f32(bytes + i * sizeof(float));
}

static WIDE_INLINE void add_tile(lowrank_shape of, size_t first, size_t some, const float *left,
                                 const float *right, const uint8_t *bytes, float weight, float *out)
{
    float tile[TARRY_COMPRESS_RANK_MOST][PRODUCT_TILE];
    for (size_t r = 0; r < of.rank; r++)
        for (size_t j = 0; j < some; j++)
            tile[r][j] = thin_at(right, bytes, r * of.columns + first + j);
    for (size_t i = 0; i < of.rows; i++) {
        float sums[PRODUCT_TILE] = {0}, *to = out + i * of.columns + first;
        for (size_t r = 0; r < of.rank; r++) {
            const float own = thin_at(left, bytes, r * of.rows + i);
            for (size_t j = 0; j < some; j++)
                sums[j] += own * tile[r][j];
        }
        for (size_t j = 0; j < some; j++)
            to[j] += weight * sums[j];
    }
}

WIDE static void add_product(lowrank_shape of, const float *left, const float *right,
                             const uint8_t *bytes, float weight, float *out)
{
    size_t first = 0;
    for (; first + PRODUCT_TILE <= of.columns; first += PRODUCT_TILE)
        add_tile(of, first, PRODUCT_TILE, left, right, bytes, weight, out);
    if (first < of.columns)
        add_tile(of, first, of.columns - first, left, right, bytes, weight, out);
}

#endif
