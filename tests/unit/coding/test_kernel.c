/* SPDX-License-Identifier: Apache-2.0 */
/* Each kernel against a sum in double, with memory that can't be read right behind every vector. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "coding/kernel.h"
#include "draw.h"
#include "seed.h"
#include "test.h"

enum {
    MAX_INPUTS = 35,
    ROOM = 10000, /* floats of a vector at most */
    GUARD = 64,   /* floats before and behind the output that must stay as they are */
};

static const float GUARD_VALUE = 7.25F;
static const kernel_mode modes[] = {KERNEL_SET, KERNEL_ADD, KERNEL_STREAM};

/* A mapping whose last page can't be touched; vectors end right before it. */
typedef struct fence {
    unsigned char *start;
    size_t bytes;
    float *end;
} fence;

typedef struct bench {
    fence in[MAX_INPUTS];
    float *out; /* ROOM + 2 GUARD */
    float coefficients[MAX_INPUTS];
} bench;

static fence fence_make(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = (ROOM * sizeof(float) / page + 2) * page;
    unsigned char *start =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(start != MAP_FAILED);
    assert_int_equal(mprotect(start + bytes - page, page, PROT_NONE), 0);
    return (fence){start, bytes, (float *)(start + bytes - page)};
}

static int set_up(void **state)
{
    bench *b = checked_calloc(1, sizeof(*b));
    for (size_t k = 0; k < MAX_INPUTS; k++)
        b->in[k] = fence_make();
    b->out = checked_calloc(ROOM + 2 * GUARD, sizeof(float));
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    bench *b = *state;
    for (size_t k = 0; k < MAX_INPUTS; k++)
        munmap(b->in[k].start, b->in[k].bytes);
    free(b->out);
    free(b);
    return 0;
}

/* Checks one call: `offset` shifts the output from a cache line, the k-th input ends at the fence
 * or, for odd k, `offset` floats before it. */
static void check(bench *b, const kernel *with, kernel_mode mode, size_t inputs, size_t length,
                  size_t offset, random_stream *stream)
{
    const float *in[MAX_INPUTS];
    for (size_t k = 0; k < inputs; k++) {
        float *vector = b->in[k].end - length - (k % 2 == 1 ? offset : 0);
        for (size_t x = 0; x < length; x++)
            vector[x] = draw_float(stream);
        in[k] = vector;
        b->coefficients[k] = draw_float(stream);
    }
    float *out = b->out + GUARD + offset;
    for (size_t x = 0; x < length + 2 * GUARD - offset; x++)
        b->out[x + offset] = GUARD_VALUE;
    with->combine(out, in, b->coefficients, inputs, length, mode);
    for (size_t x = 0; x < length; x++) {
        double sum = mode == KERNEL_ADD ? (double)GUARD_VALUE : 0, magnitude = sum;
        for (size_t k = 0; k < inputs; k++) {
            double term = (double)b->coefficients[k] * (double)in[k][x];
            sum += term;
            magnitude += fabs(term);
        }
        double bound = ((double)inputs + 1) * (double)FLT_EPSILON * magnitude;
        if (!(fabs((double)out[x] - sum) <= bound)) {
            print_error("%s, mode %d, %zu inputs, offset %zu: number %zu of %zu is %.9g, not "
                        "%.9g\n",
                        with->name, (int)mode, inputs, offset, x, length, (double)out[x], sum);
            fail();
        }
    }
    for (size_t x = 1; x <= GUARD - offset; x++) {
        assert_true(out[-(ptrdiff_t)x] == GUARD_VALUE);
        assert_true(out[length - 1 + x] == GUARD_VALUE);
    }
}

TEST(every_kernel_is_the_sum_at_every_length)
{
    random_stream stream = random_stream_make(test_seed("length", 3), RANDOM_TEST, 0, 0);
    static const size_t long_lengths[] = {127,  128,  129,  1000, 1023, 4095,
                                          8191, 8192, 8193, 8209, 9001};
    for (size_t index = 0; kernel_at(index) != NULL; index++) {
        for (size_t m = 0; m < 3; m++) {
            for (size_t length = 0; length <= 70; length++)
                check(*state, kernel_at(index), modes[m], random_below(&stream, MAX_INPUTS + 1),
                      length, random_below(&stream, 17), &stream);
            for (size_t i = 0; i < sizeof(long_lengths) / sizeof(*long_lengths); i++)
                check(*state, kernel_at(index), modes[m], random_below(&stream, MAX_INPUTS + 1),
                      long_lengths[i], random_below(&stream, 17), &stream);
        }
    }
}

TEST(every_kernel_is_the_sum_of_every_number_of_inputs)
{
    random_stream stream = random_stream_make(test_seed("inputs", 4), RANDOM_TEST, 0, 1);
    for (size_t index = 0; kernel_at(index) != NULL; index++) {
        for (size_t m = 0; m < 3; m++) {
            for (size_t inputs = 0; inputs <= MAX_INPUTS; inputs++) {
                check(*state, kernel_at(index), modes[m], inputs, 1 + random_below(&stream, 300),
                      random_below(&stream, 17), &stream);
                check(*state, kernel_at(index), modes[m], inputs, 8200, 0, &stream);
            }
        }
    }
}

/* A NaN or an infinity reaches its own coordinate and no other. */
TEST(odd_values_stay_in_their_place)
{
    bench *b = *state;
    enum { LENGTH = 200, INPUTS = 10 };
    const float *in[INPUTS];
    for (size_t k = 0; k < INPUTS; k++) {
        float *vector = b->in[k].end - LENGTH;
        for (size_t x = 0; x < LENGTH; x++)
            vector[x] = 1;
        b->coefficients[k] = 0.5F;
        in[k] = vector;
    }
    for (size_t x = 0; x < LENGTH; x++) {
        (b->in[x % INPUTS].end - LENGTH)[x] = x % 2 == 0 ? NAN : INFINITY;
        for (size_t index = 0; kernel_at(index) != NULL; index++) {
            kernel_at(index)->combine(b->out, in, b->coefficients, INPUTS, LENGTH, KERNEL_STREAM);
            for (size_t i = 0; i < LENGTH; i++) {
                if (i != x)
                    assert_true(b->out[i] == 5);
            }
            assert_true(x % 2 == 0 ? isnan(b->out[x]) : isinf(b->out[x]));
        }
        (b->in[x % INPUTS].end - LENGTH)[x] = 1;
    }
}

/* What docs/kernels.md promises: one rounding per term in the order of the inputs, so that neither
 * the alignment, nor how a vector is cut, nor the width of the instruction set changes a bit. */
TEST(wide_kernels_agree_to_the_bit)
{
    bench *b = *state;
    enum { LENGTH = 9000 };
    random_stream stream = random_stream_make(test_seed("bits", 5), RANDOM_TEST, 0, 2);
    const float *in[MAX_INPUTS];
    static float expected[LENGTH];
    for (size_t k = 0; k < MAX_INPUTS; k++) {
        float *vector = b->in[k].end - LENGTH;
        for (size_t x = 0; x < LENGTH; x++)
            vector[x] = draw_float(&stream);
        b->coefficients[k] = draw_float(&stream);
        in[k] = vector;
    }
    for (size_t x = 0; x < LENGTH; x++) {
        expected[x] = 0;
        for (size_t k = 0; k < MAX_INPUTS; k++)
            expected[x] = fmaf(b->coefficients[k], in[k][x], expected[x]);
    }
    for (size_t index = 1; kernel_at(index) != NULL; index++) {
        for (size_t cut = 0; cut < 40; cut++) {
            const float *rest[MAX_INPUTS];
            for (size_t k = 0; k < MAX_INPUTS; k++)
                rest[k] = in[k] + cut;
            kernel_at(index)->combine(b->out, in, b->coefficients, MAX_INPUTS, cut, KERNEL_STREAM);
            kernel_at(index)->combine(b->out + cut, rest, b->coefficients, MAX_INPUTS, LENGTH - cut,
                                      KERNEL_STREAM);
            assert_memory_equal(b->out, expected, sizeof(expected));
        }
    }
}

TEST(the_best_kernel_is_the_last)
{
    size_t count = 0;
    while (kernel_at(count) != NULL)
        count++;
    assert_true(count >= 1);
    assert_string_equal(kernel_at(0)->name, "reference");
    assert_ptr_equal(kernel_best(), kernel_at(count - 1));
    for (size_t i = 0; i < count; i++) {
        printf("kernel: %s\n", kernel_at(i)->name);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(kernel_at(i)->name, kernel_at(j)->name);
    }
}

TEST_GROUP(set_up, tear_down)
