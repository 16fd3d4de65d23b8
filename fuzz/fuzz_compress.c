/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of coded parts in every form: any bytes are read as numbers, and no others are touched;
 * any numbers are written, in as many bytes as the form has, and what is not finite stays where it
 * is, or, in SIGN, in its block, and in POWERSGD in its row or column.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compress/compress.h"
#include "compress/compress_blocks.h"
#include "compress/compress_lowrank.h"
#include "fuzz_input.h"

enum { MOST_NUMBERS = 600 };

static compress_form take_form(input *in)
{
    compress_form form = {.kind = (tarry_compress)(take(in) % TARRY_COMPRESSES)};
    if (form.kind == TARRY_COMPRESS_TOPK) {
        uint32_t share = (uint32_t)take(in) << 16 | (uint32_t)take(in) << 8 | take(in);
        form.share = 1 + share % TARRY_COMPRESS_SHARE_MOST;
    }
    static tarry_matrix matrices[2];
    static float factor[64 * 64 * 2];
    for (size_t i = 0; form.kind == TARRY_COMPRESS_POWERSGD && i < 2; i++)
        matrices[i] = (tarry_matrix){1 + take(in) % 32U, 1 + take(in) % 32U};
    for (size_t i = 0; i < sizeof(factor) / sizeof(factor[0]); i++)
        factor[i] = 0.1F * (float)(i % 7);
    if (form.kind == TARRY_COMPRESS_POWERSGD)
        form.low = (compress_lowrank){.rank = 1 + take(in) % 8U,
                                      .count = take(in) % 3U,
                                      .matrices = matrices,
                                      .stripe = 1 + take(in) * 4U,
                                      .odd = take(in) % 2 > 0,
                                      .factor = factor};
    form.exact = take(in) % 4 == 0 ? take(in) : 0;
    return form;
}

/* In memory of exactly that size. */
static void *room(size_t size)
{
    void *made = calloc(size > 0 ? size : 1, 1);
    require(made != NULL);
    return made;
}

static void read_any(compress_form form, size_t count, const uint8_t *bytes)
{
    float *out = room(count * sizeof(float));
    compress_decode_add(form, bytes, count, 0.5F, out);
    free(out);
}

/* In SIGN what is not finite makes all of its block so. */
static bool is_spread_to(compress_form form, const float *numbers, size_t count, size_t at)
{
    const size_t rounded = form.exact < count ? count - form.exact : 0;
    bool any = false;
    for (size_t i = at / SIGN_BLOCK * SIGN_BLOCK; i < rounded && i / SIGN_BLOCK == at / SIGN_BLOCK;
         i++)
        any = any || !isfinite(numbers[i]);
    return any && form.kind == TARRY_COMPRESS_SIGN && at < rounded;
}

/* Of the largest float32 rounding may make infinity, and so may sums of products; of what is not
 * finite they are not finite either. */
static bool any_huge(compress_form form, const float *numbers, size_t count)
{
    const bool adds = form.kind == TARRY_COMPRESS_POWERSGD;
    const float most = adds ? FLT_MAX / 1e6F : FLT_MAX / 2;
    bool any = false;
    for (size_t i = 0; i < count; i++)
        any = any || (isfinite(numbers[i]) ? fabsf(numbers[i]) > most : adds);
    return any;
}

/* In INT4 a number that isn't 0 is the nearest power of two of steps, more or less. */
static bool is_near(float number, float found, bool exact)
{
    float ratio = found / number;
    return exact ? found == number : ratio > 0.66F && ratio < 1.34F;
}

static void write_any(compress_form form, size_t count, const float *numbers, uint64_t key)
{
    uint8_t *bytes = room(compress_bytes(form, count));
    float *out = room(count * sizeof(float));
    compress_encode(form, numbers, count, key, bytes);
    compress_decode_add(form, bytes, count, 1, out);
    bool huge = any_huge(form, numbers, count);
    for (size_t i = count > form.exact ? count - form.exact : 0; i < count; i++)
        require(out[i] == numbers[i] || (isnan(out[i]) && isnan(numbers[i])));
    for (size_t i = 0; i < count; i++) {
        if (isfinite(numbers[i]))
            require(huge || (isfinite(out[i]) == 0) == is_spread_to(form, numbers, count, i));
        else
            require(form.kind == TARRY_COMPRESS_TOPK || !isfinite(out[i]));
        if (form.kind == TARRY_COMPRESS_TOPK && out[i] != 0 && isfinite(numbers[i]))
            require(huge || is_near(numbers[i], out[i], i + form.exact >= count));
    }
    free(out);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {.data = data, .left = size};
    compress_form form = take_form(&in);
    const size_t count = ((size_t)take(&in) << 8 | take(&in)) % (MOST_NUMBERS + 1);
    if (form.kind == TARRY_COMPRESS_POWERSGD &&
        lowrank_fault(&form.low, count > form.exact ? count - form.exact : 0) != NULL)
        form.kind = TARRY_COMPRESS_NONE;
    const uint64_t key = (uint64_t)take(&in) * UINT64_C(0x9e3779b97f4a7c15);
    const size_t bytes = compress_bytes(form, count);
    const size_t longest = bytes > count * sizeof(float) ? bytes : count * sizeof(float);
    uint8_t *given = room(longest);
    for (size_t i = 0; i < longest; i++)
        given[i] = take(&in);
    float *numbers = room(count * sizeof(float));
    memcpy(numbers, given, count * sizeof(float));
    uint8_t *exact = room(bytes);
    memcpy(exact, given, bytes);
    read_any(form, count, exact);
    write_any(form, count, numbers, key);
    free(exact);
    free(numbers);
    free(given);
    return 0;
}
