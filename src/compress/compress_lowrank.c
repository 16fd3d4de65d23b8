/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/compress_lowrank.h"

#include <math.h>

#include "compress/compress_blocks.h"

enum { NUMBER_BYTES = 4 };

/* ---- blocks ---- */

static bool is_worth_it(const compress_lowrank *form, size_t rows, size_t columns)
{
    return rows > 0 && (uint64_t)form->rank * (rows + columns) <= (uint64_t)rows * columns;
}

bool lowrank_next(const compress_lowrank *form, lowrank_walk *walk, lowrank_block *block)
{
    while (walk->matrix < form->count) {
        const tarry_matrix *matrix = &form->matrices[walk->matrix];
        const size_t columns = matrix->columns, left = matrix->rows - walk->row;
        const size_t first = walk->begin + walk->row * columns;
        if (left == 0 || columns > form->stripe) {
            walk->begin += matrix->rows * columns;
            walk->row = 0;
            walk->matrix++;
            continue;
        }
        const size_t whole = (form->stripe - first % form->stripe) / columns;
        const size_t rows = whole < left ? whole : left;
        walk->row += rows > 0 ? rows : 1; /* a torn one */
        if (!is_worth_it(form, rows, columns))
            continue;
        *block = (lowrank_block){
            .first = first, .rows = rows, .columns = columns, .factor = walk->factor};
        walk->factor += lowrank_factor_size(form, block);
        return true;
    }
    return false;
}

static size_t factor_numbers(compress_lowrank form, bool odd)
{
    lowrank_walk walk = {0};
    lowrank_block block;
    form.odd = odd;
    while (lowrank_next(&form, &walk, &block))
        ;
    return walk.factor;
}

const char *lowrank_fault(const compress_lowrank *form, uint64_t numbers)
{
    if (form->rank == 0 || form->rank > TARRY_COMPRESS_RANK_MOST)
        return "the rank must be between 1 and 64";
    if (form->count == 0 || form->count > TARRY_COMPRESS_MATRICES_MOST)
        return "there must be between 1 and 1024 matrices";
    for (uint32_t i = 0; i < form->count; i++) {
        const tarry_matrix *matrix = &form->matrices[i];
        const uint64_t size = (uint64_t)matrix->rows * matrix->columns;
        if (size == 0 || size > numbers)
            return "matrices must have rows and columns, and be in the gradient";
        numbers -= size;
    }
    return lowrank_factor_numbers(form) > 0 ? NULL
                                            : "no matrix is worth it: R of its rows and R of its "
                                              "columns are more numbers than it has";
}

tarry_matrix lowrank_square(uint64_t numbers)
{
    const uint64_t rows = numbers < UINT64_C(1) << 62 ? (uint64_t)sqrt((double)numbers) : 1U << 31;
    return (tarry_matrix){(uint32_t)rows, (uint32_t)(rows > 0 ? numbers / rows : 0)};
}

size_t lowrank_factor_numbers(const compress_lowrank *form)
{
    const size_t even = factor_numbers(*form, false), odd = factor_numbers(*form, true);
    return even > odd ? even : odd;
}

/* The next block of numbers first .. first + count - 1. */
static bool next_within(const compress_lowrank *form, size_t count, lowrank_walk *walk,
                        lowrank_block *block)
{
    while (lowrank_next(form, walk, block))
        if (block->first >= form->first)
            return block->first < form->first + count;
    return false;
}

size_t lowrank_bytes(const compress_lowrank *form, size_t count)
{
    lowrank_walk walk = {0};
    lowrank_block block;
    size_t numbers = count;
    while (next_within(form, count, &walk, &block))
        numbers += lowrank_sent_size(form, &block) - block.rows * block.columns;
    return numbers * NUMBER_BYTES;
}

/* ---- stripes ---- */

static lowrank_shape shape_of(const compress_lowrank *form, const lowrank_block *block)
{
    return (lowrank_shape){.rank = form->rank, .rows = block->rows, .columns = block->columns};
}

void lowrank_put(const compress_lowrank *form, const lowrank_way *way, const float *numbers,
                 size_t count, uint8_t *bytes)
{
    lowrank_walk walk = {0};
    lowrank_block block;
    size_t at = 0;
    while (next_within(form, count, &walk, &block)) {
        const float *m = numbers + (block.first - form->first);
        const float *factor = form->factor + block.factor;
        bytes = plain_put(numbers + at, block.first - form->first - at, bytes);
        (form->odd ? way->put_right : way->put_left)(shape_of(form, &block), m, factor, bytes);
        bytes += lowrank_sent_size(form, &block) * NUMBER_BYTES;
        at = block.first - form->first + block.rows * block.columns;
    }
    plain_put(numbers + at, count - at, bytes);
}

void lowrank_add(const compress_lowrank *form, const lowrank_way *way, const uint8_t *bytes,
                 size_t count, float weight, float *out)
{
    lowrank_walk walk = {0};
    lowrank_block block;
    size_t at = 0;
    while (next_within(form, count, &walk, &block)) {
        float *m = out + (block.first - form->first);
        const float *factor = form->factor + block.factor;
        bytes = plain_add(bytes, block.first - form->first - at, weight, out + at);
        way->add(shape_of(form, &block), form->odd ? factor : NULL, form->odd ? NULL : factor,
                 bytes, weight, m);
        bytes += lowrank_sent_size(form, &block) * NUMBER_BYTES;
        at = block.first - form->first + block.rows * block.columns;
    }
    plain_add(bytes, count - at, weight, out + at);
}
