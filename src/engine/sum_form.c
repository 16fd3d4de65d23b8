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

int tarry_sum_form_check(const tarry_engine_sum *sum)
{
    const bool plain =
        sum->compress == TARRY_COMPRESS_NONE && sum->compress_down == TARRY_COMPRESS_NONE;
    return is_of_sums(sum->compress) && is_of_sums(sum->compress_down) && (plain || sum->parts == 1)
               ? TARRY_OK
               : TARRY_ERROR_ARGUMENT;
}

int sum_forms_of(const tarry_engine_sum *rest, uint32_t count, uint32_t worker, sum_forms *forms)
{
    const int error = tarry_sum_form_check(rest);
    if (error != TARRY_OK)
        return error;
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

compress_form sum_form_of(const sum_forms *forms, tarry_way way, size_t length, size_t first,
                          size_t count)
{
    return compress_within(way == TARRY_WAY_UP ? forms->up : forms->down, length, first, count);
}

void sum_form_encode(const sum_forms *forms, tarry_way way, size_t length, size_t first,
                     size_t count, const float *numbers, uint8_t *bytes)
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

/* ---- for other engines ---- */

/* Places are those of the whole sum here. */
static sum_forms forms_of(const tarry_engine_sum *sum, uint32_t worker)
{
    return (sum_forms){
        .up = form_of(sum->compress, sum->compress_exact),
        .down = form_of(sum->compress_down, sum->compress_exact),
        .seed = sum->compress_seed,
        .step = sum->name.step,
        .worker = worker,
    };
}

bool tarry_sum_form_rounds(const tarry_engine_sum *sum, tarry_way way)
{
    const sum_forms forms = forms_of(sum, 0);
    return sum_form_rounds(&forms, way);
}

size_t tarry_sum_form_bytes(const tarry_engine_sum *sum, tarry_way way, size_t first, size_t count)
{
    const sum_forms forms = forms_of(sum, 0);
    return compress_bytes(sum_form_of(&forms, way, sum->dimension, first, count), count);
}

void tarry_sum_form_encode(const tarry_engine_sum *sum, tarry_way way, uint32_t worker,
                           size_t first, size_t count, const float *numbers, void *bytes)
{
    const sum_forms forms = forms_of(sum, worker);
    sum_form_encode(&forms, way, sum->dimension, first, count, numbers, bytes);
}

void tarry_sum_form_decode(const tarry_engine_sum *sum, tarry_way way, size_t first, size_t count,
                           const void *bytes, float *numbers)
{
    const sum_forms forms = forms_of(sum, 0);
    sum_form_decode(sum_form_of(&forms, way, sum->dimension, first, count), bytes, count, numbers);
}
