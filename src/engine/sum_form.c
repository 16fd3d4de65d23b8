/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sum_form.h"

#include <string.h>

#include <tarry/error.h>

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

int sum_forms_of(const tarry_engine_sum *sum, uint32_t count, uint32_t worker, sum_forms *forms)
{
    const int error = tarry_sum_form_check(sum);
    if (error != TARRY_OK)
        return error;
    *forms = (sum_forms){
        .seed = sum->compress_seed,
        .step = sum->name.step,
        .worker = worker,
    };
    if (count > 1) {
        forms->up = form_of(sum->compress, sum->compress_exact);
        forms->down = form_of(sum->compress_down, sum->compress_exact);
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
    uint32_t place = (uint32_t)(first / LAYOUT_LINE);
    uint64_t key = compress_key(forms->seed, forms->step, way, forms->worker, place);
    compress_encode(sum_form_of(forms, way, length, first, count), numbers, count, key, bytes);
}

void sum_form_decode(compress_form form, const uint8_t *bytes, size_t count, float *numbers)
{
    memset(numbers, 0, count * sizeof(*numbers));
    compress_decode_add(form, bytes, count, 1, numbers);
}

/* ---- for other engines ---- */

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

/* ---- share ---- */

/* Lines before the share at `place`: the first lines % count shares have one more. */
static size_t lines_before(size_t lines, uint32_t count, uint32_t place)
{
    size_t more = lines % count;
    return lines / count * place + (place < more ? place : more);
}

share share_of(const layout *cut, uint32_t stripe, uint32_t count, uint32_t place)
{
    size_t length = layout_stripe_length(cut, stripe);
    size_t lines = length / LAYOUT_LINE + (length % LAYOUT_LINE != 0);
    size_t begin = lines_before(lines, count, place) * LAYOUT_LINE;
    size_t end = lines_before(lines, count, place + 1) * LAYOUT_LINE;
    begin = begin < length ? begin : length;
    end = end < length ? end : length;
    return (share){layout_stripe_start(cut, stripe) + begin, end - begin};
}

size_t share_most(const layout *cut, uint32_t count)
{
    return share_of(cut, 0, count, 0).length; /* no stripe is longer, and no share of it */
}

size_t share_numbers(const layout *cut, share of)
{
    size_t numbers = 0;
    for (uint32_t part = 0; part < cut->parts; part++)
        numbers += layout_exists(cut, part, of.first, of.length);
    return numbers;
}

void share_terms_set(share_terms *terms, const float *weights, uint32_t parts, uint32_t count,
                     const bool *has)
{
    terms->count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (has[i])
            terms->places[terms->count++] = i;
    for (uint32_t part = 0; part < parts; part++)
        for (uint32_t t = 0; t < terms->count; t++)
            terms->rows[(size_t)part * terms->count + t] =
                weights[(size_t)part * count + terms->places[t]];
}

void share_decode(const kernel *with, const layout *cut, share of, const share_terms *terms,
                  const float *const *z, kernel_mode mode, float *out, size_t stride)
{
    if (of.length > 0)
        transfer_decode_range(with, cut, of.first, of.length, z, terms->rows, terms->count, mode,
                              out, stride);
}
