/* SPDX-License-Identifier: Apache-2.0 */
/* The forms of numbers against what their contract says, in double. */
#include <float.h>
#include <math.h>

#include "base/bytes.h"
#include "base/random.h"
#include "compress/compress.h"
#include "compress/compress_blocks.h"
#include "seed.h"
#include "test.h"

enum { ROOM = 1100, CANARY = 8, KEYS = 4096 };

static uint64_t seed;

static const compress_form NONE = {.kind = TARRY_COMPRESS_NONE, .share = 0, .exact = 0},
                           BF16 = {.kind = TARRY_COMPRESS_BF16, .share = 0, .exact = 0},
                           INT8 = {.kind = TARRY_COMPRESS_INT8, .share = 0, .exact = 0},
                           INT4 = {.kind = TARRY_COMPRESS_INT4, .share = 0, .exact = 0},
                           TOPK = {.kind = TARRY_COMPRESS_TOPK, .share = 20000, .exact = 0},
                           SIGN = {.kind = TARRY_COMPRESS_SIGN, .share = 0, .exact = 0};

typedef struct packed {
    float in[ROOM], out[ROOM + CANARY];
    uint8_t bytes[4 * ROOM + CANARY];
} packed;

static void draw(float *numbers, size_t count, uint32_t stream)
{
    random_stream from = random_stream_make(seed, RANDOM_TEST, stream, 0);
    for (size_t i = 0; i < count; i++)
        numbers[i] = (float)random_normal(&from);
}

/* There and back into zeros. */
static void pass(packed *its, compress_form form, size_t count, uint64_t key)
{
    size_t size = compress_bytes(form, count);
    memset(its->bytes, 0xa5, sizeof(its->bytes));
    memset(its->out, 0, sizeof(its->out));
    compress_encode(form, its->in, count, key, its->bytes);
    for (size_t i = size; i < size + CANARY; i++)
        assert_int_equal(its->bytes[i], 0xa5);
    compress_decode_add(form, its->bytes, count, 1, its->out);
    for (size_t i = count; i < count + CANARY; i++)
        assert_true(its->out[i] == 0);
}

TEST(lengths_are_those_of_the_forms)
{
    const struct {
        compress_form form;
        size_t count, bytes;
    } cases[] = {
        {NONE, 3, 12},    {BF16, 3, 6},        {INT8, 0, 0},        {INT8, 1, 5}, {INT8, 256, 260},
        {INT8, 257, 265}, {INT4, 0, 0},        {INT4, 1, 5},        {INT4, 2, 5}, {INT4, 3, 6},
        {INT4, 256, 132}, {INT4, 257, 137},    {TOPK, 0, 0},        {TOPK, 1, 6}, {TOPK, 50, 7},
        {TOPK, 51, 7},    {TOPK, 65536, 1920}, {TOPK, 65537, 1926}, {SIGN, 0, 0}, {SIGN, 1, 5},
        {SIGN, 9, 6},     {SIGN, 256, 36},     {SIGN, 257, 41},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(compress_bytes(cases[i].form, cases[i].count), cases[i].bytes);
    assert_true((double)compress_bytes(INT8, 65536) * 3.9 < 4 * 65536);
    assert_true((double)compress_bytes(INT4, 65536) * 7.7 < 4 * 65536);
}

TEST(float32_is_as_it_was)
{
    packed its;
    draw(its.in, ROOM, 1);
    pass(&its, NONE, ROOM, 0);
    assert_memory_equal(its.in, its.out, sizeof(its.in));
}

/* No number with a mantissa of 8 bits is nearer. */
TEST(bf16_is_the_nearest)
{
    packed its;
    draw(its.in, ROOM, 2);
    its.in[0] = 1 + 0x1p-8F; /* between 1 and 1 + 2^-7: to even */
    its.in[1] = 1 + 0x3p-8F;
    its.in[2] = INFINITY;
    its.in[3] = -INFINITY;
    its.in[4] = -0.0F;
    pass(&its, BF16, ROOM, 0);
    assert_true(its.out[0] == 1 && its.out[1] == 1 + 0x2p-7F);
    assert_true(its.out[2] == INFINITY && its.out[3] == -INFINITY && its.out[4] == 0);
    for (size_t i = 5; i < ROOM; i++) {
        int exponent;
        frexp((double)its.in[i], &exponent);
        assert_true(fabs((double)its.in[i] - (double)its.out[i]) <= ldexp(0.5, exponent - 8));
    }
    const uint32_t nan_bits = 0x7f800001; /* whose upper half alone would be infinite */
    memcpy(its.in, &nan_bits, sizeof(nan_bits));
    pass(&its, BF16, 1, 0);
    assert_true(isnan(its.out[0]));
}

static float largest(const float *numbers, size_t count)
{
    float most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmaxf(most, fabsf(numbers[i]));
    return most;
}

TEST(int8_is_off_by_less_than_a_step)
{
    packed its;
    const size_t counts[] = {1, 2, 255, 256, 257, 700, ROOM};
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        size_t count = counts[c];
        draw(its.in, count, 3);
        for (size_t i = 0; i < count && i < INT_BLOCK; i++)
            its.in[i] *= 1e-6F; /* blocks are scaled each by itself */
        pass(&its, INT8, count, 77 + c);
        for (size_t i = 0; i < count; i++) {
            size_t first = i / INT_BLOCK * INT_BLOCK;
            size_t block = count - first < INT_BLOCK ? count - first : INT_BLOCK;
            double step = (double)largest(its.in + first, block) / 127;
            assert_true(fabs((double)its.in[i] - (double)its.out[i]) < step * (1 + 1e-5));
        }
    }
}

/* Against all that a number may become. */
static double nearest_power(double number, double most)
{
    double size = fabs(number), found = most;
    if (size < 0.75 * most / 64)
        return 0;
    while (found > most / 64 && size < 0.75 * found)
        found /= 2;
    return number < 0 ? -found : found;
}

TEST(int4_is_the_nearest_power_of_two_below_the_largest)
{
    packed its;
    const size_t counts[] = {1, 2, 255, 256, 257, 700, ROOM};
    double squares = 0, size = 0;
    size_t zeros = 0, all = 0;
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        size_t count = counts[c];
        draw(its.in, count, 3);
        for (size_t i = 0; i < count && i < INT_BLOCK; i++)
            its.in[i] *= 1e-6F;
        pass(&its, INT4, count, 77);
        for (size_t i = 0; i < count; i++) {
            size_t first = i / INT_BLOCK * INT_BLOCK;
            size_t block = count - first < INT_BLOCK ? count - first : INT_BLOCK;
            double most = (double)largest(its.in + first, block), in = (double)its.in[i];
            double out = (double)its.out[i];
            double other = nearest_power(in * (1 + (c % 2 ? 1e-6 : -1e-6)), most); /* at a border */
            assert_true(fabs(out - nearest_power(in, most)) <= 1e-6 * most ||
                        fabs(out - other) <= 1e-6 * most);
            squares += (out - in) * (out - in) / (most * most);
            size += in * in / (most * most);
            zeros += out == 0;
            all++;
        }
    }
    assert_true(zeros > 0 && zeros < all / 20);
    assert_true(sqrt(squares / size) < 0.23); /* of normal blocks */
}

/* Of a number's errors over many keys: mean 0, and the variance that rounding by chance has. */
static void rounds_by_chance(compress_form form, double most, double share_off)
{
    packed its;
    draw(its.in, INT_BLOCK, 4);
    double sum[INT_BLOCK] = {0}, step = (double)largest(its.in, INT_BLOCK) / most;
    double squares = 0, expected = 0, size = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        pass(&its, form, INT_BLOCK, compress_key(key, 1, 2, 3, 4));
        for (size_t i = 0; i < INT_BLOCK; i++) {
            double apart = (double)its.out[i] - (double)its.in[i];
            sum[i] += apart;
            squares += apart * apart;
        }
    }
    for (size_t i = 0; i < INT_BLOCK; i++) {
        double share = fabs((double)its.in[i]) / step, part = share - floor(share);
        double variance = part * (1 - part) * step * step;
        assert_true(fabs(sum[i] / KEYS) < 6 * sqrt(variance / KEYS) + 1e-6 * step);
        expected += variance;
        size += (double)its.in[i] * (double)its.in[i];
    }
    assert_true(fabs(squares / KEYS / expected - 1) < 0.02);
    assert_true(sqrt(squares / KEYS / size) < share_off); /* of a normal block */
}

TEST(int8_is_rounded_by_chance)
{
    rounds_by_chance(INT8, 127, 0.0125);
}

/* Numbers next to each other, and stripes, are rounded independently. */
TEST(chances_are_independent)
{
    packed its;
    double beside = 0, halves = 0, between = 0, before[INT_BLOCK] = {0};
    its.in[0] = 127;
    for (size_t i = 1; i < INT_BLOCK; i++)
        its.in[i] = 0.5F; /* of a step of 1 */
    for (uint32_t stripe = 0; stripe < KEYS; stripe++) {
        pass(&its, INT8, INT_BLOCK, compress_key(5, 1, 1, 1, stripe));
        for (size_t i = 2; i < INT_BLOCK; i++) {
            double apart = (double)its.out[i] - 0.5;
            beside += apart * ((double)its.out[i - 1] - 0.5);
            halves += i > 16 ? apart * ((double)its.out[i - 16] - 0.5) : 0; /* of one draw */
            between += apart * before[i];
            before[i] = apart;
        }
    }
    double count = KEYS * (double)(INT_BLOCK - 2), limit = 6 * 0.25 * sqrt(count);
    assert_true(fabs(beside) < limit && fabs(halves) < limit && fabs(between) < limit);
}

TEST(a_key_says_all)
{
    packed its;
    uint8_t first[ROOM];
    const uint64_t keys[] = {
        compress_key(1, 1, 1, 1, 1), compress_key(2, 1, 1, 1, 1), compress_key(1, 2, 1, 1, 1),
        compress_key(1, 1, 2, 1, 1), compress_key(1, 1, 1, 2, 1), compress_key(1, 1, 1, 1, 2),
    };
    draw(its.in, INT_BLOCK, 5);
    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
        pass(&its, INT8, INT_BLOCK, keys[0]);
        memcpy(first, its.bytes, compress_bytes(INT8, INT_BLOCK));
        pass(&its, INT8, INT_BLOCK, keys[k]);
        int apart = memcmp(first, its.bytes, compress_bytes(INT8, INT_BLOCK));
        assert_true((apart == 0) == (k == 0));
    }
}

TEST(what_is_not_finite_spreads_to_no_other)
{
    packed its, without;
    const float odd[] = {INFINITY, -INFINITY, NAN};
    const compress_form forms[] = {INT8, INT4};
    for (size_t f = 0; f < 2; f++) {
        for (size_t o = 0; o < 3; o++) {
            draw(its.in, 300, 6);
            without = its;
            its.in[17] = odd[o];
            without.in[17] = 0;
            pass(&its, forms[f], 300, 9);
            pass(&without, forms[f], 300, 9);
            assert_true(isnan(its.out[17]));
            for (size_t i = 0; i < 300; i++)
                assert_true(i == 17 || its.out[i] == without.out[i]);
        }
        its.in[0] = INFINITY;
        its.in[1] = 0;
        pass(&its, forms[f], 2, 9);
        assert_true(isnan(its.out[0]) && its.out[1] == 0);
    }
}

/* Against all numbers sorted. */
static int by_magnitude(const void *a, const void *b)
{
    float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);
    return (x < y) - (x > y);
}

/* Those as they are in INT4 among themselves. */
TEST(topk_sends_the_largest)
{
    packed its, largest;
    float sorted[ROOM];
    const uint32_t shares[] = {1, 20000, 333333, TARRY_COMPRESS_SHARE_MOST};
    const size_t counts[] = {1, 2, 51, ROOM};
    for (uint32_t run = 0; run < 16; run++) {
        const compress_form form = {
            .kind = TARRY_COMPRESS_TOPK, .share = shares[run % 4], .exact = 0};
        const size_t count = counts[run / 4], kept = topk_kept(form.share, count);
        draw(its.in, count, 20 + run);
        memcpy(sorted, its.in, sizeof(sorted));
        qsort(sorted, count, sizeof(*sorted), by_magnitude);
        pass(&its, form, count, 0);
        size_t sent = 0;
        for (size_t i = 0; i < count; i++)
            if (fabsf(its.in[i]) >= fabsf(sorted[kept - 1]))
                largest.in[sent++] = its.in[i];
        assert_int_equal(sent, kept);
        pass(&largest, INT4, kept, 0);
        sent = 0;
        for (size_t i = 0; i < count; i++) {
            bool large = fabsf(its.in[i]) >= fabsf(sorted[kept - 1]);
            assert_true(its.out[i] == (large ? largest.out[sent] : 0));
            sent += large;
        }
    }
}

/* Of equal ones the first; and what is not finite before all others. */
TEST(topk_has_an_order)
{
    packed its = {.in = {1, -2, 2, 2, 0.5F, -2, 0, 1, 1, 2}};
    const compress_form form = {.kind = TARRY_COMPRESS_TOPK, .share = 300000, .exact = 0};
    pass(&its, form, 10, 0);
    for (size_t i = 0; i < 10; i++)
        assert_true(its.out[i] == (i >= 1 && i <= 3 ? its.in[i] : 0));
    its.in[4] = NAN;
    its.in[9] = -INFINITY;
    pass(&its, form, 10, 0);
    for (size_t i = 0; i < 9; i++)
        assert_true(i == 4 ? isnan(its.out[i]) : its.out[i] == (i == 1 ? -2 : 0));
    assert_true(isnan(its.out[9]));
    memset(its.in, 0, sizeof(its.in));
    pass(&its, form, 10, 0);
    for (size_t i = 0; i < 10; i++)
        assert_true(its.out[i] == 0);
}

/* Wherever the places lie, in blocks of any length. */
TEST(topk_tells_all_places)
{
    random_stream from = random_stream_make(seed, RANDOM_TEST, 13, 0);
    packed its;
    for (uint32_t run = 0; run < 2000; run++) {
        const size_t count = 1 + random_below(&from, run % 2 ? ROOM : 40);
        const compress_form form = {.kind = TARRY_COMPRESS_TOPK,
                                    .share = 1 + random_below(&from, TARRY_COMPRESS_SHARE_MOST)};
        const size_t kept = topk_kept(form.share, count);
        memset(its.in, 0, sizeof(its.in));
        for (size_t left = kept; left > 0;) {
            size_t place = run % 3 ? random_below(&from, (uint32_t)count) : count - left;
            left -= its.in[place] == 0;
            its.in[place] = 1;
        }
        pass(&its, form, count, 0);
        assert_memory_equal(its.in, its.out, count * sizeof(float));
    }
}

/* Blocks choose each for itself. */
TEST(topk_chooses_in_blocks)
{
    enum { COUNT = TOPK_BLOCK + 100 };
    OWNED(float)
    in = checked_calloc(COUNT, sizeof(float)), out = checked_calloc(COUNT, sizeof(float));
    const compress_form form = {.kind = TARRY_COMPRESS_TOPK, .share = 10000, .exact = 0};
    OWNED(uint8_t) bytes = checked_malloc(compress_bytes(form, COUNT));
    for (size_t i = 0; i < TOPK_BLOCK; i++)
        in[i] = i == TOPK_BLOCK - 1 ? 4 : 2;
    in[COUNT - 1] = 1;
    compress_encode(form, in, COUNT, 0, bytes);
    compress_decode_add(form, bytes, COUNT, 1, out);
    size_t sent = 0;
    for (size_t i = 0; i < COUNT; i++)
        sent += out[i] != 0;
    assert_int_equal(sent, topk_kept(10000, TOPK_BLOCK) + 1);
    assert_true(out[TOPK_BLOCK - 1] == 4 && out[COUNT - 1] == 1 && out[0] == 2);
}

/* The mean magnitude of the block with each number's sign: what is off has the least square there
 * is of one bit and one scale. */
TEST(sign_sends_the_mean_magnitude)
{
    packed its;
    draw(its.in, ROOM, 12);
    its.in[3] = 0;
    pass(&its, SIGN, ROOM, 0);
    for (size_t first = 0; first < ROOM; first += 256) {
        const size_t count = ROOM - first < 256 ? ROOM - first : 256;
        double mean = 0;
        for (size_t i = first; i < first + count; i++)
            mean += fabs((double)its.in[i]) / (double)count;
        for (size_t i = first; i < first + count; i++)
            assert_true(fabs((double)its.out[i] - (its.in[i] < 0 ? -mean : mean)) < 1e-6 * mean);
    }
    its.in[300] = -INFINITY;
    pass(&its, SIGN, ROOM, 0);
    for (size_t i = 0; i < ROOM; i++)
        assert_true(isnan(its.out[i]) == (i / 256 == 1));
}

/* What nobody has encoded: no other memory is written to, and places that do not exist are not
 * taken. */
TEST(any_bytes_are_numbers)
{
    random_stream from = random_stream_make(seed, RANDOM_TEST, 9, 0);
    const compress_form forms[] = {NONE, BF16, INT8, INT4, TOPK, SIGN};
    for (uint32_t run = 0; run < 1000; run++) {
        const compress_form form = forms[run % 6];
        const size_t count = random_below(&from, ROOM + 1);
        OWNED(uint8_t) bytes = checked_malloc(compress_bytes(form, count) + 1);
        OWNED(float) out = checked_calloc(count + 1, sizeof(float));
        for (size_t i = 0; i < compress_bytes(form, count); i++)
            bytes[i] = (uint8_t)random_below(&from, 256);
        compress_decode_add(form, bytes, count, 1, out);
        assert_true(out[count] == 0);
    }
    packed its = {.out = {0}};
    uint8_t far[7] = {1, 2}; /* the place 1 + (1 << 2) */
    bytes_put_f32(far + 2, 3.0F / 64);
    far[6] = 7;
    compress_decode_add(TOPK, far, 5, 1, its.out);
    assert_true(its.out[5] == 0);
    compress_decode_add(TOPK, far, 6, 1, its.out);
    assert_true(its.out[5] == 3);
}

TEST(very_small_blocks_are_zeros)
{
    packed its;
    for (size_t i = 0; i < INT_BLOCK; i++)
        its.in[i] = (i % 2 ? -1 : 1) * FLT_MIN;
    pass(&its, INT8, INT_BLOCK, 1);
    for (size_t i = 0; i < INT_BLOCK; i++)
        assert_true(its.out[i] == 0);
    its.in[0] = 128 * FLT_MIN;
    pass(&its, INT8, INT_BLOCK, 1);
    assert_true(its.out[0] > 126 * FLT_MIN && its.out[0] < 130 * FLT_MIN);
}

static void read_in_pieces(compress_form form)
{
    const size_t piece = compress_piece(form), count = 2 * piece + 300;
    OWNED(float)
    in = checked_calloc(count, sizeof(float)), whole = checked_calloc(count, sizeof(float));
    OWNED(float) out = checked_calloc(count, sizeof(float));
    OWNED(uint8_t) bytes = checked_malloc(compress_bytes(form, count));
    draw(in, count, 11);
    compress_encode(form, in, count, 5, bytes);
    compress_decode_add(form, bytes, count, 1, whole);
    for (size_t first = 0; first < count; first += piece)
        compress_decode_add_some(form, bytes, count, first,
                                 count - first < piece ? count - first : piece, 1, out + first);
    assert_memory_equal(whole, out, count * sizeof(float));
}

TEST(pieces_can_be_read_by_themselves)
{
    const compress_form forms[] = {NONE, BF16, INT8, INT4, TOPK, SIGN};
    const uint32_t exact[] = {0, 7, 300, 1000, 200000}; /* in the last piece, or before it */
    for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
        for (size_t e = 0; e < sizeof(exact) / sizeof(exact[0]); e++) {
            compress_form form = forms[f];
            form.exact = exact[e];
            read_in_pieces(form);
        }
    }
}

TEST(decoding_adds_times_a_weight)
{
    const compress_form forms[] = {NONE, BF16, INT8, INT4, TOPK, SIGN};
    for (size_t f = 0; f < 6; f++) {
        packed its;
        float once[ROOM];
        draw(its.in, ROOM, 7);
        pass(&its, forms[f], ROOM, 3);
        memcpy(once, its.out, sizeof(once));
        compress_decode_add(forms[f], its.bytes, ROOM, -2.5F, its.out);
        for (size_t i = 0; i < ROOM; i++)
            assert_true(fabsf(its.out[i] + 1.5F * once[i]) <= 1e-6F * fabsf(once[i]));
    }
}

static const compress_way *way_of(const compress_kernel *kernel, tarry_compress kind)
{
    return kind == TARRY_COMPRESS_BF16   ? &kernel->bf16
           : kind == TARRY_COMPRESS_INT8 ? &kernel->int8
                                         : &kernel->int4;
}

/* One form by all kernels, at some place in memory. */
static void compare_kernels(const packed *its, compress_form form, size_t offset, size_t count,
                            uint64_t key, float weight)
{
    packed plain, other;
    const size_t size = compress_bytes(form, count);
    const compress_way *first = way_of(compress_kernel_at(0), form.kind);
    memset(plain.out, 0, sizeof(plain.out));
    first->put(its->in + offset, count, key, plain.bytes + offset);
    first->add(plain.bytes + offset, count, weight, plain.out + offset);
    for (size_t v = 1; compress_kernel_at(v) != NULL; v++) {
        const compress_way *next = way_of(compress_kernel_at(v), form.kind);
        memset(other.out, 0, sizeof(other.out));
        memset(other.bytes, 0xa5, sizeof(other.bytes));
        next->put(its->in + offset, count, key, other.bytes + offset);
        assert_memory_equal(other.bytes + offset, plain.bytes + offset, size);
        assert_int_equal(other.bytes[offset + size], 0xa5);
        next->add(plain.bytes + offset, count, weight, other.out + offset);
        for (size_t i = 0; i < ROOM; i++)
            assert_true(other.out[i] == plain.out[i] ||
                        (isnan(other.out[i]) && isnan(plain.out[i])));
    }
}

/* To the bit, whatever the length and the place in memory, and with numbers that are not finite. */
TEST(all_kernels_write_and_read_the_same)
{
    packed its;
    random_stream from = random_stream_make(seed, RANDOM_TEST, 8, 0);
    const float odd[] = {INFINITY, -INFINITY, NAN, 0, -0.0F, FLT_MIN / 2, FLT_MAX, -127};
    const compress_form forms[] = {BF16, INT8, INT4};
    for (uint32_t run = 0; run < 1500; run++) {
        size_t offset = random_below(&from, 4), count = random_below(&from, ROOM - 4);
        uint64_t key = random_u64(&from);
        float weight = (float)random_normal(&from);
        draw(its.in, ROOM, 100 + run);
        for (uint32_t i = random_below(&from, 4); i > 0 && run % 2 == 0; i--)
            its.in[random_below(&from, ROOM)] = odd[random_below(&from, 8)];
        for (size_t i = 0; i < ROOM && run % 5 == 0; i++)
            its.in[i] *= expf(4 * (float)random_normal(&from)); /* all of INT4's levels */
        compare_kernels(&its, forms[run % 3], offset, count, key, weight);
    }
}

/* Whatever the form, and wherever the part is cut. */
TEST(the_last_numbers_may_be_exact)
{
    const compress_form forms[] = {NONE, BF16, INT8, INT4, TOPK, SIGN};
    const size_t counts[] = {0, 1, 3, 4, 260, 261, ROOM};
    packed its, alone;
    for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
        compress_form form = forms[f];
        form.exact = 4;
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
            size_t count = counts[c], rounded = count > 4 ? count - 4 : 0;
            draw(its.in, count, 9);
            memcpy(alone.in, its.in, sizeof(its.in));
            pass(&its, form, count, 5);
            pass(&alone, forms[f], rounded, 5);
            assert_int_equal(compress_bytes(form, count),
                             compress_bytes(forms[f], rounded) + (count - rounded) * 4);
            assert_memory_equal(its.out, alone.out, rounded * sizeof(float));
            assert_memory_equal(its.out + rounded, its.in + rounded,
                                (count - rounded) * sizeof(float));
        }
    }
    const compress_form whole = {.kind = TARRY_COMPRESS_INT8, .share = 0, .exact = 4};
    assert_int_equal(compress_within(whole, 10, 0, 10).exact, 4);
    assert_int_equal(compress_within(whole, 10, 0, 6).exact, 0);
    assert_int_equal(compress_within(whole, 10, 3, 5).exact, 2);
    assert_int_equal(compress_within(whole, 10, 7, 2).exact, 3); /* of which there are two */
    assert_int_equal(compress_within(whole, 10, 9, 1).exact, 4);
}

/* What a kernel is chosen by must have one name each, and the best is the last. */
TEST(kernels_have_names)
{
    size_t count = 0;
    for (; compress_kernel_at(count) != NULL; count++)
        for (size_t other = 0; other < count; other++)
            assert_string_not_equal(compress_kernel_at(count)->name,
                                    compress_kernel_at(other)->name);
    assert_string_equal(compress_kernel_at(0)->name, "reference");
    assert_ptr_equal(compress_kernel_best(), compress_kernel_at(count - 1));
}

static int draw_seed(void **state)
{
    seed = test_seed("compress", 16);
    return 0;
}

TEST_GROUP(draw_seed, NULL)
