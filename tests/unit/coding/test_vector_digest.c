/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mix.h"
#include "base/random.h"
#include "coding/kernel.h"
#include "coding/vector_digest.h"
#include "seed.h"
#include "test.h"

enum { MOST = 1001 };

static uint64_t bits_of(const float *numbers, size_t dimension, size_t i)
{
    uint32_t bits = 0;
    if (i < dimension)
        memcpy(&bits, &numbers[i], sizeof(bits));
    return bits;
}

/* The header's words, number by number. */
static uint64_t slow_digest(uint64_t step, const float *numbers, size_t dimension)
{
    uint64_t key = mix_u64(step), sum = 0;
    for (size_t i = 0; 2 * i < dimension; i++) {
        uint64_t low = bits_of(numbers, dimension, 2 * i);
        uint64_t high = bits_of(numbers, dimension, 2 * i + 1);
        uint64_t s = low + high * UINT64_C(4294967296) + key + i * UINT64_C(0x9e3779b97f4a7c15);
        sum += s % UINT64_C(4294967296) * (s / UINT64_C(4294967296));
        sum += high + low * UINT64_C(4294967296);
    }
    return mix_u64(sum ^ mix_u64(key + dimension));
}

static int set_up(void **state)
{
    random_stream stream = random_stream_make(test_seed("digest", 8), RANDOM_TEST, 0, 0);
    float *numbers = checked_malloc(MOST * sizeof(*numbers));
    for (size_t x = 0; x < MOST; x++)
        numbers[x] = (float)random_uniform(&stream);
    *state = numbers;
    return 0;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

TEST(a_digest_is_what_the_header_says)
{
    for (size_t dimension = 1; dimension <= 70; dimension++)
        for (uint64_t step = 0; step < 3; step++)
            assert_true(vector_digest(step, *state, dimension) ==
                        slow_digest(step, *state, dimension));
    assert_true(vector_digest(3, *state, MOST) == slow_digest(3, *state, MOST));
}

/* Others compute it, too, and logs keep it: it stays as it is. */
TEST(a_digest_never_changes)
{
    float numbers[7];
    for (int i = 0; i < 7; i++)
        numbers[i] = (float)i / 4 - 1;
    assert_true(vector_digest(1, numbers, 7) == UINT64_C(0x2b387fc1b8235663));
    assert_true(vector_digest(UINT64_MAX, numbers, 6) == UINT64_C(0x32243ff193cd9994));
}

TEST(all_kernels_give_the_same)
{
    const kernel *reference = kernel_at(0), *with;
    const uint8_t *bytes = *state;
    for (size_t index = 1; (with = kernel_at(index)) != NULL; index++)
        for (size_t count = 0; count < 40; count++)
            for (size_t shift = 0; shift < 8; shift++)
                assert_true(with->mix(bytes + shift, 3 * count, count, shift) ==
                            reference->mix(bytes + shift, 3 * count, count, shift));
}

TEST(every_bit_the_length_and_the_step_count)
{
    float *numbers = *state;
    uint64_t digest = vector_digest(7, numbers, MOST);
    assert_true(digest != vector_digest(8, numbers, MOST));
    assert_true(digest != vector_digest(7, numbers, MOST - 1));
    for (size_t place = 0; place < MOST; place++) {
        for (unsigned bit = 0; bit < 32; bit++) {
            uint32_t bits, other;
            memcpy(&bits, &numbers[place], sizeof(bits));
            other = bits ^ UINT32_C(1) << bit;
            memcpy(&numbers[place], &other, sizeof(bits));
            assert_true(digest != vector_digest(7, numbers, MOST));
            memcpy(&numbers[place], &bits, sizeof(bits));
        }
    }
    assert_true(digest == vector_digest(7, numbers, MOST));
}

/* Numbers that are exchanged, and zeros, of which there are many. */
TEST(places_count)
{
    float *numbers = *state;
    float zeros[64] = {0};
    uint64_t digest = vector_digest(7, numbers, MOST), none = vector_digest(7, zeros, 64);
    for (size_t i = 1; i < MOST; i++) {
        float first = numbers[0];
        numbers[0] = numbers[i];
        numbers[i] = first;
        assert_true(numbers[0] == numbers[i] || digest != vector_digest(7, numbers, MOST));
        numbers[i] = numbers[0];
        numbers[0] = first;
    }
    for (size_t i = 0; i < 64; i++) {
        zeros[i] = 1;
        uint64_t one = vector_digest(7, zeros, 64);
        assert_true(one != none);
        for (size_t j = 0; j < i; j++) {
            zeros[i] = 0;
            zeros[j] = 1;
            assert_true(one != vector_digest(7, zeros, 64));
            zeros[j] = 0;
            zeros[i] = 1;
        }
        zeros[i] = 0;
    }
}

/* Pieces in any order, some of which nobody is told of, and some of which cut a word in two. */
TEST(pieces_in_any_order_have_the_same_digest)
{
    enum { PIECES = 9, TIMES = 60 };
    random_stream stream = random_stream_make(test_seed("pieces", 9), RANDOM_TEST, 0, 0);
    for (uint64_t time = 0; time < TIMES; time++) {
        uint32_t cut[PIECES + 1] = {0}, order[PIECES] = {0};
        cut[PIECES] = MOST;
        for (uint32_t i = 1; i < PIECES; i++) {
            cut[i] = cut[i - 1] + random_below(&stream, MOST - cut[i - 1] + 1);
            cut[i] -= time % 2 == 0 ? cut[i] % 2 : 0;
            order[i] = i;
        }
        random_shuffle(&stream, order, PIECES);
        uint32_t untold = time % 3 == 0 ? random_below(&stream, PIECES + 1) : 0;
        vector_digester own;
        vector_digester_begin(&own, time, *state, MOST);
        for (uint32_t i = 0; i + untold < PIECES; i++)
            vector_digester_add(&own, cut[order[i]], cut[order[i] + 1] - cut[order[i]]);
        assert_true(vector_digester_end(&own) == slow_digest(time, *state, MOST));
    }
}

/* What was told is not read again. */
TEST(a_piece_is_read_once_it_is_there)
{
    float *numbers = *state;
    uint64_t expected = vector_digest(1, numbers, MOST);
    vector_digester own;
    vector_digester_begin(&own, 1, numbers, MOST);
    float first = numbers[0];
    numbers[0] = -first;
    vector_digester_add(&own, 2, MOST - 2);
    numbers[0] = first;
    vector_digester_add(&own, 0, 2);
    numbers[0] = -first;
    assert_true(vector_digester_end(&own) == expected);
    numbers[0] = first;
}

TEST_GROUP(set_up, tear_down)
