/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sum_form.h"

#include <string.h>

#include "coding/layout.h"

static bool is_of_sums(tarry_compress kind)
{
    return kind == TARRY_COMPRESS_NONE || kind == TARRY_COMPRESS_BF16 ||
           kind == TARRY_COMPRESS_INT8;
}

static compress_form form_of(tarry_compress kind, uint32_t exact)
{
    return (compress_form){.kind = kind, .exact = kind != TARRY_COMPRESS_NONE ? exact : 0};
}

int sum_forms_of(const tarry_engine_sum *rest, uint32_t count, uint32_t worker, sum_forms *forms)
{
    const bool plain =
        rest->compress == TARRY_COMPRESS_NONE && rest->compress_down == TARRY_COMPRESS_NONE;
    if (!is_of_sums(rest->compress) || !is_of_sums(rest->compress_down) ||
        (!plain && rest->parts != 1))
        return TARRY_ERROR_ARGUMENT;
    *forms = (sum_forms){
        .seed = rest->compress_seed,
        .step = rest->name.step,
        .worker = worker,
        .whole = rest->whole,
    };
    if (count > 1) {
        forms->up = form_of(rest->compress, rest->compress_exact);
        forms->down = form_of(rest->compress_down, rest->compress_exact);
    }
    return TARRY_OK;
}

compress_form sum_form_of(const sum_forms *forms, sum_way way, size_t length, size_t first,
                          size_t count)
{
    return compress_within(way == SUM_UP ? forms->up : forms->down, length, first, count);
}

void sum_form_encode(const sum_forms *forms, sum_way way, size_t length, size_t first, size_t count,
                     const float *numbers, uint8_t *bytes)
{
    /* What is sent at once begins at a multiple of a line. */
    uint32_t place = (uint32_t)((forms->whole + first) / LAYOUT_LINE);
    uint64_t key = compress_key(forms->seed, forms->step, way, forms->worker, place);
    compress_encode(sum_form_of(forms, way, length, first, count), numbers, count, key, bytes);
}

void sum_form_decode(compress_form form, const uint8_t *bytes, size_t count, float *numbers)
{
    memset(numbers, 0, count * sizeof(*numbers));
    compress_decode_add(form, bytes, count, 1, numbers);
}
