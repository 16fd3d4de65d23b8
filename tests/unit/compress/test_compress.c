/* SPDX-License-Identifier: Apache-2.0 */
/* The forms of numbers against what their contract says, in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "compress/compress.h"
#include "compress/compress_int8.h"
#include "seed.h"

enum { ROOM = 1100, CANARY = 8, KEYS = 4096 };

static uint64_t seed;

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
static void pass(packed *its, tarry_compress form, size_t count, uint64_t key)
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

static void lengths_are_those_of_the_forms(void **state)
{
    (void)state;
    const struct {
        tarry_compress form;
        size_t count, bytes;
    } cases[] = {
        {TARRY_COMPRESS_NONE, 3, 12},    {TARRY_COMPRESS_BF16, 3, 6},
        {TARRY_COMPRESS_INT8, 0, 0},     {TARRY_COMPRESS_INT8, 1, 5},
        {TARRY_COMPRESS_INT8, 256, 260}, {TARRY_COMPRESS_INT8, 257, 265},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(compress_bytes(cases[i].form, cases[i].count), cases[i].bytes);
    assert_true((double)compress_bytes(TARRY_COMPRESS_INT8, 65536) * 3.9 < 4 * 65536);
}

static void float32_is_as_it_was(void **state)
{
    (void)state;
    packed its;
    draw(its.in, ROOM, 1);
    pass(&its, TARRY_COMPRESS_NONE, ROOM, 0);
    assert_memory_equal(its.in, its.out, sizeof(its.in));
}

/* No number with a mantissa of 8 bits is nearer. */
static void bf16_is_the_nearest(void **state)
{
    (void)state;
    packed its;
    draw(its.in, ROOM, 2);
    its.in[0] = 1 + 0x1p-8F; /* between 1 and 1 + 2^-7: to even */
    its.in[1] = 1 + 0x3p-8F;
    its.in[2] = INFINITY;
    its.in[3] = -INFINITY;
    its.in[4] = -0.0F;
    pass(&its, TARRY_COMPRESS_BF16, ROOM, 0);
    assert_true(its.out[0] == 1 && its.out[1] == 1 + 0x2p-7F);
    assert_true(its.out[2] == INFINITY && its.out[3] == -INFINITY && its.out[4] == 0);
    for (size_t i = 5; i < ROOM; i++) {
        int exponent;
        frexp((double)its.in[i], &exponent);
        assert_true(fabs((double)its.in[i] - (double)its.out[i]) <= ldexp(0.5, exponent - 8));
    }
    const uint32_t nan_bits = 0x7f800001; /* whose upper half alone would be infinite */
    memcpy(its.in, &nan_bits, sizeof(nan_bits));
    pass(&its, TARRY_COMPRESS_BF16, 1, 0);
    assert_true(isnan(its.out[0]));
}

static float largest(const float *numbers, size_t count)
{
    float most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmaxf(most, fabsf(numbers[i]));
    return most;
}

static void int8_is_off_by_less_than_a_step(void **state)
{
    (void)state;
    packed its;
    const size_t counts[] = {1, 2, 255, 256, 257, 700, ROOM};
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        size_t count = counts[c];
        draw(its.in, count, 3);
        for (size_t i = 0; i < count && i < INT8_BLOCK; i++)
            its.in[i] *= 1e-6F; /* blocks are scaled each by itself */
        pass(&its, TARRY_COMPRESS_INT8, count, 77 + c);
        for (size_t i = 0; i < count; i++) {
            size_t first = i / INT8_BLOCK * INT8_BLOCK;
            size_t block = count - first < INT8_BLOCK ? count - first : INT8_BLOCK;
            double step = (double)largest(its.in + first, block) / 127;
            assert_true(fabs((double)its.in[i] - (double)its.out[i]) < step * (1 + 1e-5));
        }
    }
}

/* Of a number's errors over many keys: mean 0, and the variance that rounding by chance has. */
static void int8_rounds_by_chance(void **state)
{
    (void)state;
    packed its;
    draw(its.in, INT8_BLOCK, 4);
    double sum[INT8_BLOCK] = {0}, step = (double)largest(its.in, INT8_BLOCK) / 127;
    double squares = 0, expected = 0, size = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        pass(&its, TARRY_COMPRESS_INT8, INT8_BLOCK, compress_key(key, 1, 2, 3, 4));
        for (size_t i = 0; i < INT8_BLOCK; i++) {
            double apart = (double)its.out[i] - (double)its.in[i];
            sum[i] += apart;
            squares += apart * apart;
        }
    }
    for (size_t i = 0; i < INT8_BLOCK; i++) {
        double share = fabs((double)its.in[i]) / step, part = share - floor(share);
        double variance = part * (1 - part) * step * step;
        assert_true(fabs(sum[i] / KEYS) < 6 * sqrt(variance / KEYS) + 1e-6 * step);
        expected += variance;
        size += (double)its.in[i] * (double)its.in[i];
    }
    assert_true(fabs(squares / KEYS / expected - 1) < 0.02);
    assert_true(sqrt(squares / KEYS / size) < 0.0125); /* 1 % of a normal block */
}

/* Numbers next to each other, and stripes, are rounded independently. */
static void chances_are_independent(void **state)
{
    (void)state;
    packed its;
    double beside = 0, between = 0, before[INT8_BLOCK] = {0};
    its.in[0] = 127;
    for (size_t i = 1; i < INT8_BLOCK; i++)
        its.in[i] = 0.5F; /* of a step of 1 */
    for (uint32_t stripe = 0; stripe < KEYS; stripe++) {
        pass(&its, TARRY_COMPRESS_INT8, INT8_BLOCK, compress_key(5, 1, 1, 1, stripe));
        for (size_t i = 2; i < INT8_BLOCK; i++) {
            double apart = (double)its.out[i] - 0.5;
            beside += apart * ((double)its.out[i - 1] - 0.5);
            between += apart * before[i];
            before[i] = apart;
        }
    }
    double count = KEYS * (double)(INT8_BLOCK - 2), limit = 6 * 0.25 * sqrt(count);
    assert_true(fabs(beside) < limit && fabs(between) < limit);
}

static void a_key_says_all(void **state)
{
    (void)state;
    packed its;
    uint8_t first[ROOM];
    const uint64_t keys[] = {
        compress_key(1, 1, 1, 1, 1), compress_key(2, 1, 1, 1, 1), compress_key(1, 2, 1, 1, 1),
        compress_key(1, 1, 2, 1, 1), compress_key(1, 1, 1, 2, 1), compress_key(1, 1, 1, 1, 2),
    };
    draw(its.in, INT8_BLOCK, 5);
    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
        pass(&its, TARRY_COMPRESS_INT8, INT8_BLOCK, keys[0]);
        memcpy(first, its.bytes, compress_bytes(TARRY_COMPRESS_INT8, INT8_BLOCK));
        pass(&its, TARRY_COMPRESS_INT8, INT8_BLOCK, keys[k]);
        int apart = memcmp(first, its.bytes, compress_bytes(TARRY_COMPRESS_INT8, INT8_BLOCK));
        assert_true((apart == 0) == (k == 0));
    }
}

static void what_is_not_finite_spreads_to_no_other(void **state)
{
    (void)state;
    packed its, without;
    const float odd[] = {INFINITY, -INFINITY, NAN};
    for (size_t o = 0; o < 3; o++) {
        draw(its.in, 300, 6);
        without = its;
        its.in[17] = odd[o];
        without.in[17] = 0;
        pass(&its, TARRY_COMPRESS_INT8, 300, 9);
        pass(&without, TARRY_COMPRESS_INT8, 300, 9);
        assert_true(isnan(its.out[17]));
        for (size_t i = 0; i < 300; i++)
            assert_true(i == 17 || its.out[i] == without.out[i]);
    }
    its.in[0] = INFINITY;
    its.in[1] = 0;
    pass(&its, TARRY_COMPRESS_INT8, 2, 9);
    assert_true(isnan(its.out[0]) && its.out[1] == 0);
}

static void very_small_blocks_are_zeros(void **state)
{
    (void)state;
    packed its;
    for (size_t i = 0; i < INT8_BLOCK; i++)
        its.in[i] = (i % 2 ? -1 : 1) * FLT_MIN;
    pass(&its, TARRY_COMPRESS_INT8, INT8_BLOCK, 1);
    for (size_t i = 0; i < INT8_BLOCK; i++)
        assert_true(its.out[i] == 0);
    its.in[0] = 128 * FLT_MIN;
    pass(&its, TARRY_COMPRESS_INT8, INT8_BLOCK, 1);
    assert_true(its.out[0] > 126 * FLT_MIN && its.out[0] < 130 * FLT_MIN);
}

static void decoding_adds_times_a_weight(void **state)
{
    (void)state;
    const tarry_compress forms[] = {TARRY_COMPRESS_NONE, TARRY_COMPRESS_BF16, TARRY_COMPRESS_INT8};
    for (size_t f = 0; f < 3; f++) {
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

/* To the bit, whatever the length and the place in memory, and with numbers that are not finite. */
static void int8_is_the_same_by_all_variants(void **state)
{
    (void)state;
    packed its, other;
    random_stream from = random_stream_make(seed, RANDOM_TEST, 8, 0);
    const float odd[] = {INFINITY, -INFINITY, NAN, 0, FLT_MIN / 2, FLT_MAX, -127};
    size_t variants = 0;
    for (; compress_int8_at(variants) != NULL; variants++)
        assert_non_null(compress_int8_at(variants)->name);
    for (uint32_t run = 0; run < 500; run++) {
        size_t offset = random_below(&from, 4), count = random_below(&from, ROOM - 4);
        uint64_t key = random_u64(&from);
        float weight = (float)random_normal(&from);
        draw(its.in, ROOM, 100 + run);
        for (uint32_t i = random_below(&from, 4); i > 0 && run % 2 == 0; i--)
            its.in[random_below(&from, ROOM)] = odd[random_below(&from, 7)];
        size_t size = compress_bytes(TARRY_COMPRESS_INT8, count);
        memset(its.out, 0, sizeof(its.out));
        compress_int8_at(0)->put(its.in + offset, count, key, its.bytes + offset);
        compress_int8_at(0)->add(its.bytes + offset, count, weight, its.out + offset);
        for (size_t v = 1; v < variants; v++) {
            memset(other.out, 0, sizeof(other.out));
            compress_int8_at(v)->put(its.in + offset, count, key, other.bytes + offset);
            assert_memory_equal(other.bytes + offset, its.bytes + offset, size);
            compress_int8_at(v)->add(its.bytes + offset, count, weight, other.out + offset);
            for (size_t i = 0; i < ROOM; i++)
                assert_true(other.out[i] == its.out[i] ||
                            (isnan(other.out[i]) && isnan(its.out[i])));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_are_those_of_the_forms),
        cmocka_unit_test(float32_is_as_it_was),
        cmocka_unit_test(bf16_is_the_nearest),
        cmocka_unit_test(int8_is_off_by_less_than_a_step),
        cmocka_unit_test(int8_rounds_by_chance),
        cmocka_unit_test(chances_are_independent),
        cmocka_unit_test(a_key_says_all),
        cmocka_unit_test(what_is_not_finite_spreads_to_no_other),
        cmocka_unit_test(very_small_blocks_are_zeros),
        cmocka_unit_test(decoding_adds_times_a_weight),
        cmocka_unit_test(int8_is_the_same_by_all_variants),
    };
    seed = test_seed("compress", 16);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
