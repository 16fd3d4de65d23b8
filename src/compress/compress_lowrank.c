/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/compress_lowrank.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

#include "base/dot.h"
#include "base/memory.h"
#include "base/random.h"
#include "compress/compress.h"
#include "compress/compress_blocks.h"

/* Numbers of a factor of the block, and of what is sent of it. */
static inline size_t lowrank_factor_size(const compress_lowrank *form, const lowrank_block *block)
{
    return form->rank * (form->odd ? block->rows : block->columns);
}

static inline size_t lowrank_sent_size(const compress_lowrank *form, const lowrank_block *block)
{
    return form->rank * (form->odd ? block->columns : block->rows);
}

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

/* ---- factors ---- */

/* What the columns before leave of one, as a share of it, for it to have a direction of its own. */
#define LEAST_LEFT 1e-9

enum { PASSES = 2 /* of Gram and Schmidt: twice is enough */ };

struct factors {
    tarry_allocator allocator;
    compress_lowrank form;
    uint64_t seed;
    size_t numbers; /* of a factor */
    uint64_t stamp; /* 1 + the round that it is of; 0: none yet */
    float *factor;
    double *columns; /* scratch: a block's thin matrix, column by column */
};

static size_t longest_block(const compress_lowrank *form)
{
    lowrank_walk walk = {0};
    lowrank_block block;
    size_t most = 0;
    while (lowrank_next(form, &walk, &block)) {
        const size_t length = block.rows > block.columns ? block.rows : block.columns;
        most = length > most ? length : most;
    }
    return most;
}

uint64_t factors_bytes(const compress_lowrank *form)
{
    return lowrank_factor_numbers(form) * sizeof(float) +
           form->rank * longest_block(form) * sizeof(double);
}

int factors_create(const compress_lowrank *form, uint64_t seed, const tarry_allocator *allocator,
                   factors **made)
{
    factors *self = memory_allocate(allocator, 1, sizeof(*self));
    if (self == NULL)
        return TARRY_ERROR_NO_MEMORY;
    self->allocator = memory_allocator(allocator);
    self->form = *form;
    self->seed = seed;
    self->numbers = lowrank_factor_numbers(form);
    self->factor = memory_allocate(allocator, self->numbers, sizeof(float));
    self->columns = memory_allocate(allocator, longest_block(form), form->rank * sizeof(double));
    if (self->factor == NULL || self->columns == NULL) {
        factors_free(self);
        return TARRY_ERROR_NO_MEMORY;
    }
    *made = self;
    return TARRY_OK;
}

void factors_free(factors *self)
{
    if (self == NULL)
        return;
    tarry_allocator allocator = self->allocator;
    memory_release(&allocator, self->factor);
    memory_release(&allocator, self->columns);
    memory_release(&allocator, self);
}

/* ---- orthonormal columns ---- */

/* Makes column r orthogonal to those before it, and of length 1. False: they leave nothing. */
static bool settle_column(double *columns, size_t length, uint32_t r)
{
    double *own = columns + r * length;
    const double before = sqrt(dot(own, own, length));
    if (!(before > 0 && before <= DBL_MAX))
        return false;
    for (size_t i = 0; i < length; i++)
        own[i] /= before;
    for (unsigned pass = 0; pass < PASSES; pass++)
        for (uint32_t other = 0; other < r; other++) {
            const double *there = columns + other * length;
            const double share = dot(own, there, length);
            for (size_t i = 0; i < length; i++)
                own[i] -= share * there[i];
        }
    const double left = sqrt(dot(own, own, length));
    if (!(left > LEAST_LEFT))
        return false;
    for (size_t i = 0; i < length; i++)
        own[i] /= left;
    return true;
}

/* Each is drawn by itself: what a block's columns are does not depend on others. */
static void draw_column(const factors *self, const lowrank_block *block, bool odd, uint32_t r,
                        uint32_t again, size_t length)
{
    const uint64_t place = (uint64_t)block->first << 1 | odd;
    random_stream from = random_stream_make(self->seed ^ place << 20, RANDOM_FACTOR, r, again);
    double *own = self->columns + r * length;
    for (size_t i = 0; i < length; i++)
        own[i] = 2 * random_uniform(&from) - 1;
}

static void make_orthonormal(factors *self, const lowrank_block *block, bool odd, size_t length)
{
    for (uint32_t r = 0; r < self->form.rank; r++)
        for (uint32_t again = 0; !settle_column(self->columns, length, r); again++)
            draw_column(self, block, odd, r, again, length);
}

/* The block's columns become its factor at `to`. */
static void store(const factors *self, size_t length, float *to)
{
    for (size_t i = 0; i < self->form.rank * length; i++)
        to[i] = (float)self->columns[i];
}

/* ---- of a round ---- */

static size_t length_of(const lowrank_block *block, bool odd)
{
    return odd ? block->rows : block->columns;
}

static void draw(factors *self, uint64_t round)
{
    compress_lowrank form = self->form;
    lowrank_walk walk = {0};
    lowrank_block block;
    form.odd = round % 2 > 0;
    memset(self->factor, 0, self->numbers * sizeof(float));
    while (lowrank_next(&form, &walk, &block)) {
        const size_t length = length_of(&block, form.odd);
        memset(self->columns, 0, form.rank * length * sizeof(double));
        make_orthonormal(self, &block, form.odd, length);
        store(self, length, self->factor + block.factor);
    }
}

const float *factors_of(factors *self, uint64_t round)
{
    if (self->stamp != round + 1)
        draw(self, round);
    self->stamp = round + 1;
    return self->factor;
}

/* In LANES sums, of which none waits for another. */
static double wide_dot(const float *one, const float *other, size_t count)
{
    enum { LANES = 8 };
    double lanes[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            lanes[lane] += (double)one[i + lane] * (double)other[i + lane];
    for (; i < count; i++)
        sum += (double)one[i] * (double)other[i];
    for (size_t lane = 0; lane < LANES; lane++)
        sum += lanes[lane];
    return sum;
}

/* S^T P of an odd round, S Q of an even one. */
static void multiply(factors *self, const lowrank_block *block, bool odd, const float *used,
                     const float *sum)
{
    const size_t rows = block->rows, columns = block->columns, length = length_of(block, !odd);
    memset(self->columns, 0, self->form.rank * length * sizeof(double));
    for (size_t i = 0; i < rows; i++) {
        const float *row = sum + i * columns;
        for (uint32_t r = 0; r < self->form.rank; r++) {
            double *to = self->columns + r * length;
            if (odd)
                for (size_t j = 0; j < columns; j++)
                    to[j] += (double)row[j] * (double)used[r * rows + i];
            else
                to[i] = wide_dot(row, used + r * columns, columns);
        }
    }
}

void factors_learn(factors *self, uint64_t round, const float *used, const float *sum)
{
    compress_lowrank now = self->form, next = self->form;
    lowrank_walk walk = {0}, next_walk = {0};
    lowrank_block block, following;
    now.odd = round % 2 > 0;
    next.odd = !now.odd;
    assert(used != self->factor);
    memset(self->factor, 0, self->numbers * sizeof(float));
    while (lowrank_next(&now, &walk, &block) && lowrank_next(&next, &next_walk, &following)) {
        const size_t length = length_of(&following, next.odd);
        multiply(self, &block, now.odd, used + block.factor, sum + block.first);
        make_orthonormal(self, &following, next.odd, length);
        store(self, length, self->factor + following.factor);
    }
    self->stamp = round + 2;
}
