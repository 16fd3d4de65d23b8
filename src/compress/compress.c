/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/compress.h"

#include <assert.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

#include "base/bytes.h"
#include "base/dot.h"
#include "base/memory.h"
#include "base/mix.h"
#include "base/processor.h"
#include "base/random.h"
#include "compress/compress_blocks.h"
#include "compress/compress_lowrank.h"

enum { NUMBER_BYTES = 4 };

/* ---- TOPK: of each block of numbers the largest alone ---- */

/* Without their sign the bits of numbers are ordered as their magnitudes are, and what is not
 * finite is above all others. They are looked at in digits, the upper ones first. */
enum { DIGITS = 3, DIGIT_BINS = 2048 };

static const struct {
    unsigned shift, width;
} digits[DIGITS] = {{20, 11}, {9, 11}, {0, 9}};

static uint32_t magnitude_bits(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof(bits));
    return bits & INT32_MAX;
}

/* The bits of the kept-th largest of `count` magnitudes; *above: how many are larger. */
static uint32_t find_least(const float *numbers, size_t count, size_t kept, size_t *above)
{
    uint32_t found = 0;
    *above = 0;
    for (size_t d = 0; d < DIGITS; d++) {
        uint32_t bins[DIGIT_BINS] = {0};
        const unsigned shift = digits[d].shift, width = digits[d].width, upper = shift + width;
        for (size_t i = 0; i < count; i++) {
            uint32_t bits = magnitude_bits(numbers[i]);
            bins[bits >> shift & ((1U << width) - 1)] += bits >> upper == found >> upper;
        }
        uint32_t bin = (1U << width) - 1;
        while (*above + bins[bin] < kept)
            *above += bins[bin--];
        found |= bin << shift;
    }
    return found;
}

/* Places ascend, and are written as Elias and Fano do: the `low` lowest bits of each, one behind
 * the other, and then a row of bits in which the j-th place sets bit j + (place >> low). That is at
 * most 0.6 bits a place more than it takes to tell which of all choices it was, and as many bytes
 * wherever they lie. Behind them are the numbers, in INT4. */
typedef struct topk_shape {
    unsigned low;
    size_t low_bytes, row_bytes, number_bytes;
} topk_shape;

static topk_shape topk_shape_of(size_t kept, size_t count)
{
    topk_shape shape = {0};
    if (kept == 0)
        return shape;
    while (count >> (shape.low + 1) >= kept)
        shape.low++;
    shape.low_bytes = (kept * shape.low + CHAR_BIT - 1) / CHAR_BIT;
    shape.row_bytes = (kept + ((count - 1) >> shape.low) + CHAR_BIT - 1) / CHAR_BIT;
    shape.number_bytes = int4_bytes(kept);
    return shape;
}

static size_t topk_block_bytes(size_t kept, size_t count)
{
    topk_shape shape = topk_shape_of(kept, count);
    return shape.low_bytes + shape.row_bytes + shape.number_bytes;
}

/* Fields of up to 16 bits, the first in the lowest ones of a byte. */
typedef struct bit_row {
    uint8_t *at;
    uint32_t held; /* bits that are not written yet, or were read and not used */
    unsigned bits;
} bit_row;

static void row_put(bit_row *row, uint32_t value, unsigned width)
{
    row->held |= value << row->bits;
    for (row->bits += width; row->bits >= CHAR_BIT; row->bits -= CHAR_BIT) {
        *row->at++ = (uint8_t)row->held;
        row->held >>= CHAR_BIT;
    }
}

static void row_end(bit_row *row)
{
    if (row->bits > 0)
        *row->at = (uint8_t)row->held;
}

static uint32_t row_get(const uint8_t *bytes, size_t first, unsigned width)
{
    uint32_t value = 0;
    for (unsigned have = 0; have < width;) {
        size_t bit = first + have;
        unsigned off = bit % CHAR_BIT, some = CHAR_BIT - off;
        value |= (uint32_t)(bytes[bit / CHAR_BIT] >> off) << have;
        have += some;
    }
    return value & ((1U << width) - 1);
}

/* Of equal ones at the border the first. */
static void topk_put_block(size_t kept, const float *numbers, size_t count, uint8_t *bytes)
{
    const topk_shape shape = topk_shape_of(kept, count);
    const compress_way *way = &compress_kernel_best()->int4;
    size_t above, chosen = 0;
    uint32_t least = find_least(numbers, count, kept, &above);
    size_t equal = kept - above;
    bit_row low = {.at = bytes};
    uint8_t *row = bytes + shape.low_bytes, *number = row + shape.row_bytes;
    float block[INT_BLOCK];
    memset(row, 0, shape.row_bytes);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = magnitude_bits(numbers[i]);
        if (bits < least || (bits == least && equal == 0))
            continue;
        equal -= bits == least;
        size_t set = chosen + (i >> shape.low);
        row[set / CHAR_BIT] |= (uint8_t)(1U << set % CHAR_BIT);
        row_put(&low, (uint32_t)i & ((1U << shape.low) - 1), shape.low);
        block[chosen++ % INT_BLOCK] = numbers[i];
        if (chosen % INT_BLOCK == 0) {
            way->put(block, INT_BLOCK, 0, number);
            number += int4_block_bytes(INT_BLOCK);
        }
    }
    row_end(&low);
    way->put(block, chosen % INT_BLOCK, 0, number);
}

/* Bits beyond the last place, and places beyond the last number, are none. */
static void topk_add_block(size_t kept, const uint8_t *bytes, size_t count, float weight,
                           float *out)
{
    const topk_shape shape = topk_shape_of(kept, count);
    const compress_way *way = &compress_kernel_best()->int4;
    const uint8_t *row = bytes + shape.low_bytes, *number = row + shape.row_bytes;
    float block[INT_BLOCK];
    size_t j = 0;
    for (size_t at = 0; at < shape.row_bytes; at++)
        for (uint32_t bits = row[at]; bits != 0 && j < kept; bits &= bits - 1, j++) {
            if (j % INT_BLOCK == 0) {
                size_t some = kept - j < INT_BLOCK ? kept - j : INT_BLOCK;
                memset(block, 0, sizeof(block));
                way->add(number, some, weight, block);
                number += int4_block_bytes(some);
            }
            size_t upper = at * CHAR_BIT + (size_t)__builtin_ctz(bits) - j;
            size_t i = upper << shape.low | row_get(bytes, j * shape.low, shape.low);
            if (i < count)
                out[i] += block[j % INT_BLOCK];
        }
}

static size_t topk_block_at(size_t count, size_t first)
{
    return count - first < TOPK_BLOCK ? count - first : TOPK_BLOCK;
}

/* As compress_bytes, compress_encode and compress_decode_add (compress.h), with the share. */
static size_t topk_bytes(uint32_t share, size_t count)
{
    size_t whole = count / TOPK_BLOCK, rest = count % TOPK_BLOCK;
    return whole * topk_block_bytes(topk_kept(share, TOPK_BLOCK), TOPK_BLOCK) +
           topk_block_bytes(topk_kept(share, rest), rest);
}

static void topk_put(uint32_t share, const float *numbers, size_t count, uint8_t *bytes)
{
    for (size_t i = 0; i < count; i += TOPK_BLOCK) {
        size_t kept = topk_kept(share, topk_block_at(count, i));
        topk_put_block(kept, numbers + i, topk_block_at(count, i), bytes);
        bytes += topk_block_bytes(kept, topk_block_at(count, i));
    }
}

static void topk_add(uint32_t share, const uint8_t *bytes, size_t count, float weight, float *out)
{
    for (size_t i = 0; i < count; i += TOPK_BLOCK) {
        size_t kept = topk_kept(share, topk_block_at(count, i));
        topk_add_block(kept, bytes, topk_block_at(count, i), weight, out + i);
        bytes += topk_block_bytes(kept, topk_block_at(count, i));
    }
}

/* ---- SIGN: of each block of numbers their signs, and the mean of their magnitudes ---- */

enum { LANES = 8, TOGETHER = 4 };

static size_t sign_block_at(size_t count, size_t first)
{
    return count - first < SIGN_BLOCK ? count - first : SIGN_BLOCK;
}

static size_t sign_block_bytes(size_t count)
{
    return SIGN_SCALE_BYTES + (count + 7) / 8;
}

/* As compress_bytes, compress_encode and compress_decode_add (compress.h). */
static size_t sign_bytes(size_t count)
{
    const size_t tail = count % SIGN_BLOCK;
    return count / SIGN_BLOCK * sign_block_bytes(SIGN_BLOCK) +
           (tail > 0 ? sign_block_bytes(tail) : 0);
}

/* NaN where a number is not finite. In lanes, for compilers that add several at once. */
static float sign_mean(const float *numbers, size_t count)
{
    const size_t whole = count / LANES * LANES;
    double lanes[LANES] = {0}, sum = 0;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lanes[k] += fabs((double)numbers[i + k]);
    for (size_t i = whole; i < count; i++)
        lanes[i - whole] += fabs((double)numbers[i]);
    for (size_t k = 0; k < LANES; k++)
        sum += lanes[k];
    return isfinite(sum) ? (float)(sum / (double)count) : NAN;
}

/* Of up to eight numbers, the first in the lowest bit. */
static uint8_t signs_of(const float *numbers, size_t count)
{
    uint32_t minus = 0;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t bits;
        memcpy(&bits, numbers + k, sizeof(bits));
        minus |= bits >> 31 << k;
    }
    return (uint8_t)minus;
}

static void sign_put_block(const float *numbers, size_t count, uint8_t *bytes)
{
    uint8_t *at = bytes_put_f32(bytes, sign_mean(numbers, count));
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        *at++ = signs_of(numbers + i, 8);
    if (i < count)
        *at = signs_of(numbers + i, count - i);
}

static void sign_add_block(const uint8_t *bytes, size_t count, float weight, float *out)
{
    const float plus = weight * bytes_get_f32(bytes);
    const uint8_t *at = bytes + SIGN_SCALE_BYTES;
    float each[1 << TOGETHER][TOGETHER]; /* the numbers of four bits */
    for (size_t bits = 0; bits < 1 << TOGETHER; bits++)
        for (size_t k = 0; k < TOGETHER; k++)
            each[bits][k] = (bits >> k & 1) != 0 ? -plus : plus;
    for (size_t i = 0; i < count; i += TOGETHER) {
        const float *numbers = each[at[i / 8] >> i % 8 & 15];
        const size_t some = count - i < TOGETHER ? count - i : TOGETHER;
        for (size_t k = 0; k < some; k++)
            out[i + k] += numbers[k];
    }
}

static void sign_put(const float *numbers, size_t count, uint8_t *bytes)
{
    for (size_t i = 0; i < count; i += SIGN_BLOCK) {
        sign_put_block(numbers + i, sign_block_at(count, i), bytes);
        bytes += sign_block_bytes(sign_block_at(count, i));
    }
}

static void sign_add(const uint8_t *bytes, size_t count, float weight, float *out)
{
    for (size_t i = 0; i < count; i += SIGN_BLOCK) {
        sign_add_block(bytes, sign_block_at(count, i), weight, out + i);
        bytes += sign_block_bytes(sign_block_at(count, i));
    }
}

/* ---- POWERSGD: the blocks of a part ---- */

/* Numbers of a factor of the block, and of what is sent of it. */
static inline size_t lowrank_factor_size(const compress_lowrank *form, const lowrank_block *block)
{
    return form->rank * (form->odd ? block->rows : block->columns);
}

static inline size_t lowrank_sent_size(const compress_lowrank *form, const lowrank_block *block)
{
    return form->rank * (form->odd ? block->columns : block->rows);
}

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

/* As compress_bytes, also without a factor. */
static size_t lowrank_bytes(const compress_lowrank *form, size_t count)
{
    lowrank_walk walk = {0};
    lowrank_block block;
    size_t numbers = count;
    while (next_within(form, count, &walk, &block))
        numbers += lowrank_sent_size(form, &block) - block.rows * block.columns;
    return numbers * NUMBER_BYTES;
}

/* ---- POWERSGD: stripes ---- */

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

/* ---- POWERSGD: factors ---- */

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

/* ---- POWERSGD: orthonormal columns ---- */

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

/* ---- POWERSGD: the factor of a round ---- */

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

/* ---- all forms ---- */

enum {
    PIECE = 16 * INT_BLOCK, /* as float32 16 KB, which stay in the nearest cache */
};

/* How many of `count` numbers are rounded: those before the exact ones. */
static size_t rounded_of(compress_form form, size_t count)
{
    return form.exact < count ? count - form.exact : 0;
}

static size_t rounded_bytes(compress_form form, size_t count)
{
    switch (form.kind) {
    case TARRY_COMPRESS_BF16:
        return count * HALF_BYTES;
    case TARRY_COMPRESS_INT8:
        return count + (count + INT_BLOCK - 1) / INT_BLOCK * INT_SCALE_BYTES;
    case TARRY_COMPRESS_INT4:
        return int4_bytes(count);
    case TARRY_COMPRESS_TOPK:
        return topk_bytes(form.share, count);
    case TARRY_COMPRESS_SIGN:
        return sign_bytes(count);
    case TARRY_COMPRESS_POWERSGD:
        return lowrank_bytes(&form.low, count);
    default:
        return count * NUMBER_BYTES;
    }
}

size_t compress_bytes(compress_form form, size_t count)
{
    size_t rounded = rounded_of(form, count);
    return rounded_bytes(form, rounded) + (count - rounded) * NUMBER_BYTES;
}

size_t compress_piece(compress_form form)
{
    return form.kind == TARRY_COMPRESS_POWERSGD ? SIZE_MAX
           : form.kind == TARRY_COMPRESS_TOPK   ? TOPK_BLOCK
                                                : PIECE;
}

uint64_t compress_key(uint64_t seed, uint64_t round, uint32_t attempt, uint32_t worker,
                      uint32_t stripe)
{
    uint64_t key = mix_u64(mix_u64(seed) + round);
    key = mix_u64(key + attempt);
    return mix_u64(key + ((uint64_t)worker << 32 | stripe));
}

void compress_encode(compress_form form, const float *numbers, size_t count, uint64_t key,
                     uint8_t *bytes)
{
    const size_t rounded = rounded_of(form, count);
    switch (form.kind) {
    case TARRY_COMPRESS_BF16:
        compress_kernel_best()->bf16.put(numbers, rounded, key, bytes);
        break;
    case TARRY_COMPRESS_INT8:
        compress_kernel_best()->int8.put(numbers, rounded, key, bytes);
        break;
    case TARRY_COMPRESS_INT4:
        compress_kernel_best()->int4.put(numbers, rounded, key, bytes);
        break;
    case TARRY_COMPRESS_TOPK:
        topk_put(form.share, numbers, rounded, bytes);
        break;
    case TARRY_COMPRESS_SIGN:
        sign_put(numbers, rounded, bytes);
        break;
    case TARRY_COMPRESS_POWERSGD:
        lowrank_put(&form.low, &compress_kernel_best()->lowrank, numbers, rounded, bytes);
        break;
    default:
        plain_put(numbers, rounded, bytes);
        break;
    }
    plain_put(numbers + rounded, count - rounded, bytes + rounded_bytes(form, rounded));
}

void compress_decode_add(compress_form form, const uint8_t *bytes, size_t count, float weight,
                         float *out)
{
    const size_t rounded = rounded_of(form, count);
    switch (form.kind) {
    case TARRY_COMPRESS_BF16:
        compress_kernel_best()->bf16.add(bytes, rounded, weight, out);
        break;
    case TARRY_COMPRESS_INT8:
        compress_kernel_best()->int8.add(bytes, rounded, weight, out);
        break;
    case TARRY_COMPRESS_INT4:
        compress_kernel_best()->int4.add(bytes, rounded, weight, out);
        break;
    case TARRY_COMPRESS_TOPK:
        topk_add(form.share, bytes, rounded, weight, out);
        break;
    case TARRY_COMPRESS_SIGN:
        sign_add(bytes, rounded, weight, out);
        break;
    case TARRY_COMPRESS_POWERSGD:
        lowrank_add(&form.low, &compress_kernel_best()->lowrank, bytes, rounded, weight, out);
        break;
    default:
        plain_add(bytes, rounded, weight, out);
        break;
    }
    plain_add(bytes + rounded_bytes(form, rounded), count - rounded, weight, out + rounded);
}

void compress_decode_add_some(compress_form form, const uint8_t *bytes, size_t count, size_t first,
                              size_t some, float weight, float *out)
{
    const size_t before = compress_bytes(compress_within(form, count, 0, first), first);
    compress_decode_add(compress_within(form, count, first, some), bytes + before, some, weight,
                        out);
}

/* ---- kernel ---- */

static const processor_variant all[] = {
    {&compress_reference, PROCESSOR_ANY},
#if defined(__x86_64__)
    {&compress_avx2, PROCESSOR_AVX2},
    {&compress_avx512, PROCESSOR_AVX512F | PROCESSOR_AVX512BW},
#elif defined(__aarch64__)
    {&compress_neon, PROCESSOR_ANY},
#endif
};

static const processor_variants kernels = {all, sizeof(all) / sizeof(*all)};

const compress_kernel *compress_kernel_at(size_t index)
{
    return processor_variant_at(kernels, processor_features(), index);
}

const compress_kernel *compress_kernel_best(void)
{
    return processor_variant_best(kernels, processor_features());
}
