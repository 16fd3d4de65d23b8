/* SPDX-License-Identifier: Apache-2.0 */
#include "program/forms.h"

#include <float.h>
#include <string.h>

#include <tarry/error.h>

#include "base/memory.h"
#include "cli/output/clock.h"
#include "coding/kernel.h"
#include "compress/compress.h"
#include "compress/compress_lowrank.h"
#include "program/memory.h"

enum {
    STRIPE_LENGTH = 65536, /* what the runtimes take unless they are told otherwise */
    SIDE = 256,            /* of a stripe as a matrix: POWERSGD */
    RANK = 4,
};

static const tarry_matrix square = {SIDE, SIDE};

typedef struct bench {
    const bench_forms_settings *of;
    compress_form form;
    size_t stripes;
    bench_memory memory;  /* numbers, `parts` parts in whatever form, and their sum */
    bench_memory other;   /* read to empty the caches */
    float *numbers, *out; /* the first and the last */
    const float **in;     /* stripes of the parts, for the sum of float32 */
    float *weights;
    float factor[RANK * SIDE];
    volatile float sink; /* so that no reading is left out */
} bench;

static size_t start_of(size_t stripe)
{
    return stripe * STRIPE_LENGTH;
}

static size_t length_of(const bench *b, size_t stripe)
{
    size_t rest = b->of->dimension - start_of(stripe);
    return rest < STRIPE_LENGTH ? rest : STRIPE_LENGTH;
}

static uint8_t *bytes_of(const bench *b, size_t part, size_t stripe)
{
    uint8_t *at = (uint8_t *)(b->memory.vectors + (part + 1) * b->memory.stride);
    return at + stripe * compress_bytes(b->form, STRIPE_LENGTH);
}

/* POWERSGD: each whole stripe is a matrix. */
static compress_form form_of(const bench *b, size_t stripe)
{
    compress_form form = b->form;
    form.low.count = length_of(b, stripe) == STRIPE_LENGTH ? form.low.count : 0;
    return form;
}

/* Of BF16, INT8 and INT4, by the kernel that is asked for; else NULL. */
static const compress_way *way_of(const bench *b)
{
    const compress_kernel *of = b->of->kernel;
    switch (b->form.kind) {
    case TARRY_COMPRESS_BF16:
        return &of->bf16;
    case TARRY_COMPRESS_INT8:
        return &of->int8;
    case TARRY_COMPRESS_INT4:
        return &of->int4;
    default:
        return NULL;
    }
}

static void encode(const bench *b, size_t part, size_t stripe)
{
    const float *numbers = b->numbers + start_of(stripe);
    const size_t length = length_of(b, stripe);
    const compress_form form = form_of(b, stripe);
    const compress_way *way = way_of(b);
    uint8_t *bytes = bytes_of(b, part, stripe);
    if (b->form.kind == TARRY_COMPRESS_NONE)
        memcpy(bytes, numbers, length * sizeof(*numbers));
    else if (b->form.kind == TARRY_COMPRESS_POWERSGD)
        lowrank_put(&form.low, &b->of->kernel->lowrank, numbers, length, bytes);
    else if (way != NULL)
        way->put(numbers, length, stripe + 1, bytes);
    else
        compress_encode(form, numbers, length, stripe + 1, bytes);
}

static void add_piece(const bench *b, size_t part, size_t stripe, size_t first, size_t count)
{
    const uint8_t *bytes = bytes_of(b, part, stripe);
    const compress_form form = form_of(b, stripe);
    const compress_way *way = way_of(b);
    float *out = b->out + start_of(stripe) + first;
    if (b->form.kind == TARRY_COMPRESS_POWERSGD)
        lowrank_add(&form.low, &b->of->kernel->lowrank, bytes, count, b->weights[part], out);
    else if (way != NULL)
        way->add(bytes + compress_bytes(b->form, first), count, b->weights[part], out);
    else
        compress_decode_add_some(form, bytes, length_of(b, stripe), first, count, b->weights[part],
                                 out);
}

/* As servers sum a stripe. */
static void add(const bench *b, size_t parts, size_t stripe)
{
    const size_t length = length_of(b, stripe), piece = compress_piece(b->form);
    if (b->form.kind == TARRY_COMPRESS_NONE) {
        for (size_t part = 0; part < parts; part++)
            b->in[part] = (const void *)bytes_of(b, part, stripe);
        kernel_best()->combine(b->out + start_of(stripe), b->in, b->weights, parts, length,
                               KERNEL_ADD);
        return;
    }
    for (size_t first = 0; first < length; first += piece) {
        const size_t some = length - first < piece ? length - first : piece;
        for (size_t part = 0; part < parts; part++)
            add_piece(b, part, stripe, first, some);
    }
}

static double run_read(bench *b)
{
    b->sink = bench_read(b->numbers, b->of->dimension);
    return (double)b->of->dimension * sizeof(float);
}

static double run_encode(bench *b)
{
    double bytes = (double)b->of->dimension * sizeof(float);
    for (size_t stripe = 0; stripe < b->stripes; stripe++) {
        encode(b, 0, stripe);
        bytes += (double)compress_bytes(form_of(b, stripe), length_of(b, stripe));
    }
    return bytes;
}

static double run_add(bench *b)
{
    for (size_t stripe = 0; stripe < b->stripes; stripe++)
        add(b, 1, stripe);
    return (double)b->of->dimension;
}

static double run_sum(bench *b)
{
    for (size_t stripe = 0; stripe < b->stripes; stripe++)
        add(b, b->of->parts, stripe);
    return (double)b->of->dimension * (double)b->of->parts;
}

/* With cold caches; *best: in 1e9 of what `run` gives back. */
static void measure(bench *b, double (*run)(bench *b), double *best)
{
    b->sink = bench_read(b->other.vectors, b->other.stride);
    double start = clock_seconds();
    double done = run(b);
    double seconds = clock_seconds() - start;
    double rate = done * 1e-9 / (seconds > 0 ? seconds : DBL_MIN);
    *best = rate > *best ? rate : *best;
}

static void measure_form(bench *b, bench_form *form)
{
    for (size_t part = 1; part < b->of->parts; part++)
        for (size_t stripe = 0; stripe < b->stripes; stripe++)
            encode(b, part, stripe);
    memset(b->out, 0, b->of->dimension * sizeof(*b->out));
    measure(b, run_encode, &form->encode);
    measure(b, run_add, &form->add);
    measure(b, run_sum, &form->sum);
}

static void measure_all(bench *b, bench_forms *out)
{
    const compress_lowrank low = {.rank = RANK,
                                  .count = 1,
                                  .matrices = &square,
                                  .stripe = STRIPE_LENGTH,
                                  .factor = b->factor};
    compress_lowrank odd = low;
    odd.odd = true;
    const struct {
        const char *name;
        compress_form form;
    } forms[BENCH_FORMS] = {
        {"float32", {.kind = TARRY_COMPRESS_NONE}},
        {"bf16", {.kind = TARRY_COMPRESS_BF16}},
        {"int8", {.kind = TARRY_COMPRESS_INT8}},
        {"int4", {.kind = TARRY_COMPRESS_INT4}},
        {"topk:0.01", {.kind = TARRY_COMPRESS_TOPK, .share = BENCH_TOPK_SHARE}},
        {"sign", {.kind = TARRY_COMPRESS_SIGN}},
        {"powersgd:4, P", {.kind = TARRY_COMPRESS_POWERSGD, .low = low}},
        {"powersgd:4, Q", {.kind = TARRY_COMPRESS_POWERSGD, .low = odd}},
    };
    *out = (bench_forms){.read = 0};
    for (uint32_t i = 0; i < b->of->repeat; i++) {
        measure(b, run_read, &out->read);
        for (size_t f = 0; f < BENCH_FORMS; f++) {
            b->form = forms[f].form;
            out->forms[f].name = forms[f].name;
            out->forms[f].bytes = (double)compress_bytes(b->form, STRIPE_LENGTH) / STRIPE_LENGTH;
            measure_form(b, &out->forms[f]);
        }
    }
}

int bench_forms_run(const bench_forms_settings *settings, bench_forms *out)
{
    const size_t stripes = (settings->dimension + STRIPE_LENGTH - 1) / STRIPE_LENGTH;
    bench b = {.of = settings, .stripes = stripes};
    b.in = memory_allocate(NULL, settings->parts, sizeof(*b.in));
    b.weights = memory_allocate(NULL, settings->parts, sizeof(*b.weights));
    int error = TARRY_ERROR_NO_MEMORY;
    if (b.in == NULL || b.weights == NULL)
        goto free_small;
    for (size_t i = 0; i < settings->parts; i++)
        b.weights[i] = 1.0F / (float)(i + 1);
    for (size_t i = 0; i < RANK * SIDE; i++)
        b.factor[i] = i % 2 > 0 ? 1.0F / SIDE : -1.0F / SIDE;
    error = bench_memory_create(1, bench_flush_length(), BENCH_PAGE, &b.other);
    if (error != TARRY_OK)
        goto free_small;
    /* A form is at most a scale longer than its numbers. */
    error = bench_memory_create((size_t)settings->parts + 2, settings->dimension + BENCH_LINE,
                                BENCH_PAGE, &b.memory);
    if (error != TARRY_OK)
        goto free_other;
    b.numbers = b.memory.vectors;
    b.out = b.memory.vectors + (settings->parts + 1) * b.memory.stride;
    measure_all(&b, out);
    bench_memory_free(&b.memory);
free_other:
    bench_memory_free(&b.other);
free_small:
    memory_release(NULL, b.weights);
    memory_release(NULL, b.in);
    return error;
}
