/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/secure/ring.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/processor.h"
#include "privacy/secure/ring_words.h"

enum { RING_MOST_FRACTION = 126 };

enum { LANES = 16 };

typedef int32_t whole_lanes __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef float float_lanes __attribute__((vector_size(4 * LANES), aligned(1), may_alias));

/* The largest float up to the bound: what a float is compared with comes to the same. */
static float limit_of(double bound)
{
    if (bound >= (double)FLT_MAX)
        return FLT_MAX;
    float limit = (float)bound;
    return (double)limit > bound ? nextafterf(limit, 0) : limit;
}

/* 2^f times the limit, to the nearest whole number; it is exact below 2^53, and whole from there
 * on. */
static double most_of(const ring *of)
{
    return nearbyint(ldexp((double)limit_of(of->bound), of->fraction));
}

bool ring_fits(const ring *of, uint64_t chunks)
{
    if ((of->bits != 32 && of->bits != 64) || of->fraction < -RING_MOST_FRACTION ||
        of->fraction > RING_MOST_FRACTION || !(of->bound >= (double)FLT_MIN) ||
        !isfinite(of->bound))
        return false;
    const uint64_t most = (UINT64_C(1) << (of->bits - 1)) - 1;
    if (chunks < 1 || chunks > most)
        return false;
    /* The larger of two doubles below 2^63 is a whole number, too. */
    const double one = most_of(of);
    return one < ldexp(1, (int)of->bits - 1) && (uint64_t)one <= most / chunks;
}

bool ring_choose(uint32_t bits, double bound, uint64_t chunks, ring *out)
{
    ring of = {.bits = bits, .fraction = RING_MOST_FRACTION, .bound = bound};
    for (; of.fraction >= -RING_MOST_FRACTION; of.fraction--) {
        if (ring_fits(&of, chunks)) {
            *out = of;
            return true;
        }
    }
    return false;
}

uint64_t ring_most(const ring *of)
{
    return (uint64_t)most_of(of);
}

size_t ring_add(const ring *of, const float *numbers, size_t count, void *words)
{
    const ring_kernel *kernel = ring_kernel_best();
    const ring_scale scale = ring_scale_of(of);
    return (of->bits == 32 ? kernel->add32 : kernel->add64)(&scale, numbers, count, words);
}

void ring_sum(const ring *of, const void *words, size_t count, void *sum)
{
    ring_kernel_best()->sum(of->bits, sum, words, ring_bytes(of, count), false);
}

/* Of 32 bits: as many as fill vectors; gives back how many. */
static size_t read_lanes(const uint8_t *words, size_t count, float step, float *numbers)
{
    size_t i = 0;
#if RING_WORDS_ARE_NATIVE
    for (; i + LANES <= count; i += LANES) {
        const whole_lanes whole = *(const whole_lanes *)(words + 4 * i);
        *(float_lanes *)(numbers + i) = __builtin_convertvector(whole, float_lanes) * step;
    }
#endif
    return i;
}

void ring_read(const ring *of, const void *words, size_t count, float *numbers)
{
    const uint8_t *in = words;
    const float step = ldexpf(1, -of->fraction);
    if (of->bits == 32) {
        for (size_t i = read_lanes(in, count, step, numbers); i < count; i++)
            numbers[i] = step * (float)(int32_t)(uint32_t)bytes_get(in + 4 * i, 4);
    } else {
        for (size_t i = 0; i < count; i++)
            numbers[i] = step * (float)(int64_t)bytes_get(in + 8 * i, 8);
    }
}

void ring_count(const ring *of, void *words, size_t at, uint64_t value)
{
    uint8_t *word = (uint8_t *)words + ring_bytes(of, at);
    if (of->bits == 32)
        bytes_put(word, bytes_get(word, 4) + value, 4);
    else
        bytes_put(word, bytes_get(word, 8) + value, 8);
}

uint64_t ring_word(const ring *of, const void *words, size_t at)
{
    const uint8_t *word = (const uint8_t *)words + ring_bytes(of, at);
    return of->bits == 32 ? bytes_get(word, 4) : bytes_get(word, 8);
}

ring_scale ring_scale_of(const ring *of)
{
    ring_scale scale = {.limit = limit_of(of->bound), .step = ldexpf(1, of->fraction)};
    return scale;
}

/* ---- kernel ---- */

static const processor_variant all[] = {
    {&ring_reference, PROCESSOR_ANY},
#ifdef __x86_64__
    {&ring_avx2, PROCESSOR_AVX2},
    {&ring_avx512, PROCESSOR_AVX512F | PROCESSOR_AVX512DQ},
#endif
};

static const processor_variants kernels = {all, sizeof(all) / sizeof(*all)};

const ring_kernel *ring_kernel_at(size_t index)
{
    return processor_variant_at(kernels, processor_features(), index);
}

const ring_kernel *ring_kernel_best(void)
{
    return processor_variant_best(kernels, processor_features());
}
