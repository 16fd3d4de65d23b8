/* SPDX-License-Identifier: Apache-2.0 */
#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

#include "compress/compress_blocks.h"

#define WIDE
#define WIDE_INLINE inline __attribute__((always_inline))

enum { LINE = 8 };

static WIDE_INLINE uint32_t largest_bits(const float *numbers)
{
    uint32x4_t all = vdupq_n_u32(0);
    for (size_t i = 0; i < INT_BLOCK; i += 4)
        all = vmaxq_u32(all, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(numbers + i))));
    return vmaxvq_u32(all);
}

/* ---- BF16 ---- */

static WIDE_INLINE uint16x4_t to_halves(float32x4_t whole)
{
    const uint32x4_t bits = vreinterpretq_u32_f32(whole), upper = vshrq_n_u32(bits, 16);
    uint32x4_t odd = vandq_u32(upper, vdupq_n_u32(1));
    uint32x4_t up = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    uint32x4_t quiet = vorrq_u32(upper, vdupq_n_u32(0x40));
    return vmovn_u32(vbslq_u32(vceqq_f32(whole, whole), vshrq_n_u32(up, 16), quiet));
}

static WIDE_INLINE void put_line(const float *numbers, uint8_t *bytes)
{
    uint16x8_t both =
        vcombine_u16(to_halves(vld1q_f32(numbers)), to_halves(vld1q_f32(numbers + 4)));
    vst1q_u8(bytes, vreinterpretq_u8_u16(both));
}

/* out[0..3] += more. */
static WIDE_INLINE void add_four(float32x4_t more, float *out)
{
    vst1q_f32(out, vaddq_f32(vld1q_f32(out), more));
}

static WIDE_INLINE void add_line(const uint8_t *bytes, float weight, float *out)
{
    const uint16x8_t both = vreinterpretq_u16_u8(vld1q_u8(bytes));
    uint32x4_t a = vshll_n_u16(vget_low_u16(both), 16), b = vshll_n_u16(vget_high_u16(both), 16);
    add_four(vmulq_n_f32(vreinterpretq_f32_u32(a), weight), out);
    add_four(vmulq_n_f32(vreinterpretq_f32_u32(b), weight), out + 4);
}

/* ---- INT8 ---- */

/* As the reference's draw, for four indices. */
static WIDE_INLINE uint32x4_t draw(uint64_t key, uint32x4_t index)
{
    const uint32x4_t upper = vdupq_n_u32((uint32_t)(key >> 32));
    uint32x4_t x = veorq_u32(index, vdupq_n_u32((uint32_t)key));
    x = vmulq_n_u32(veorq_u32(x, vshrq_n_u32(x, 16)), UINT32_C(0x7feb352d));
    x = vaddq_u32(veorq_u32(x, vshrq_n_u32(x, 15)), upper);
    x = vmulq_n_u32(x, UINT32_C(0x846ca68b));
    return veorq_u32(x, vshrq_n_u32(x, 16));
}

/* Four numbers in steps. */
static WIDE_INLINE int16x4_t rounded(const float *numbers, float inverse, uint32x4_t chance)
{
    float32x4_t share = vmulq_n_f32(vcvtq_f32_u32(chance), 0x1p-16F);
    float32x4_t moved = vaddq_f32(vmulq_n_f32(vld1q_f32(numbers), inverse), share);
    return vqmovn_s32(vcvtmq_s32_f32(moved));
}

static WIDE_INLINE void round8(const float *numbers, float inverse, uint64_t key, uint32_t first,
                               uint8_t *bytes)
{
    static const uint32_t places[] = {0, 1, 2, 3};
    const int8x8_t least = vdup_n_s8(-INT8_MOST);
    const uint32x4_t lower = vdupq_n_u32(0xffff);
    for (uint32_t i = 0; i < INT_BLOCK; i += i % 32 == 8 ? 24 : 8) {
        const float *in = numbers + i;
        ask_ahead(in + i % 32, 16); /* 8 of each half of 32 are rounded, which are two lines */
        const uint32_t index = (first + i) / 32 * 16 + i % 16;
        uint32x4_t a = draw(key, vaddq_u32(vdupq_n_u32(index), vld1q_u32(places)));
        uint32x4_t b = draw(key, vaddq_u32(vdupq_n_u32(index + 4), vld1q_u32(places)));
        int16x8_t q = vcombine_s16(rounded(in, inverse, vandq_u32(a, lower)),
                                   rounded(in + 4, inverse, vandq_u32(b, lower)));
        vst1_u8(bytes + i, vreinterpret_u8_s8(vmax_s8(vqmovn_s16(q), least)));
        q = vcombine_s16(rounded(in + 16, inverse, vshrq_n_u32(a, 16)),
                         rounded(in + 20, inverse, vshrq_n_u32(b, 16)));
        vst1_u8(bytes + i + 16, vreinterpret_u8_s8(vmax_s8(vqmovn_s16(q), least)));
    }
}

static WIDE_INLINE void add8(const uint8_t *bytes, float factor, float *out)
{
    for (size_t i = 0; i < INT_BLOCK; i += 8) {
        int16x8_t q = vmovl_s8(vreinterpret_s8_u8(vld1_u8(bytes + i)));
        float32x4_t a = vcvtq_f32_s32(vmovl_s16(vget_low_s16(q)));
        float32x4_t b = vcvtq_f32_s32(vmovl_s16(vget_high_s16(q)));
        add_four(vmulq_n_f32(a, factor), out + i);
        add_four(vmulq_n_f32(b, factor), out + i + 4);
    }
}

/* ---- INT4 ---- */

/* The codes of four numbers. */
static WIDE_INLINE uint16x4_t codes(const float *numbers, float inverse)
{
    const float32x4_t all = vld1q_f32(numbers);
    uint32x4_t size = vreinterpretq_u32_f32(vmulq_n_f32(vabsq_f32(all), inverse));
    uint32x4_t level = vshrq_n_u32(vaddq_u32(size, vdupq_n_u32(0x400000)), 23);
    level = vminq_u32(vqsubq_u32(level, vdupq_n_u32(126)), vdupq_n_u32(INT4_LEVELS - 1));
    uint32x4_t sign = vshrq_n_u32(vreinterpretq_u32_f32(all), 28);
    sign = vandq_u32(vandq_u32(sign, vdupq_n_u32(INT4_SIGN)), vtstq_u32(level, level));
    return vmovn_u32(vorrq_u32(level, sign));
}

/* Each second code into the upper half of the byte of that before. */
static WIDE_INLINE void round4(const float *numbers, float inverse, uint8_t *bytes)
{
    for (size_t i = 0; i < INT_BLOCK; i += 16) {
        const float *in = numbers + i;
        ask_ahead(in, 16);
        uint16x8_t a = vcombine_u16(codes(in, inverse), codes(in + 4, inverse));
        uint16x8_t b = vcombine_u16(codes(in + 8, inverse), codes(in + 12, inverse));
        uint16x8_t first = vuzp1q_u16(a, b), second = vuzp2q_u16(a, b);
        vst1_u8(bytes + i / 2, vmovn_u16(vorrq_u16(first, vshlq_n_u16(second, 4))));
    }
}

/* out[0..3] += the numbers that four codes name: a level is a power of two by its exponent. */
static WIDE_INLINE void add_codes(uint32x4_t code, float factor, float *out)
{
    const uint32x4_t level = vandq_u32(code, vdupq_n_u32(INT4_LEVELS - 1));
    uint32x4_t power = vshlq_n_u32(vaddq_u32(level, vdupq_n_u32(126)), 23);
    power = vandq_u32(power, vtstq_u32(level, level));
    float32x4_t size = vmulq_n_f32(vreinterpretq_f32_u32(power), factor);
    uint32x4_t sign = vshlq_n_u32(vshrq_n_u32(code, 3), 31);
    add_four(vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(size), sign)), out);
}

static WIDE_INLINE void add4(const uint8_t *bytes, float factor, float *out)
{
    for (size_t i = 0; i < INT_BLOCK; i += 16) {
        uint8x8_t pairs = vld1_u8(bytes + i / 2);
        uint8x8_t first = vand_u8(pairs, vdup_n_u8(0xf)), second = vshr_n_u8(pairs, 4);
        uint16x8_t a = vmovl_u8(vzip1_u8(first, second)), b = vmovl_u8(vzip2_u8(first, second));
        add_codes(vmovl_u16(vget_low_u16(a)), factor, out + i);
        add_codes(vmovl_u16(vget_high_u16(a)), factor, out + i + 4);
        add_codes(vmovl_u16(vget_low_u16(b)), factor, out + i + 8);
        add_codes(vmovl_u16(vget_high_u16(b)), factor, out + i + 12);
    }
}

#include "compress/compress_wide.h"

const compress_kernel compress_neon = {
    "neon",
    {put_bf16, add_bf16},
    {put_int8, add_int8},
    {put_int4, add_int4},
    {put_left, put_right, add_product},
};
