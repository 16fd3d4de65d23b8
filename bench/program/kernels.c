/* SPDX-License-Identifier: Apache-2.0 */
#include "program/kernels.h"

#include <cblas.h>
#include <float.h>

#include <tarry/error.h>

#include "base/memory.h"
#include "cli/output/clock.h"
#include "coding/layout.h"
#include "program/memory.h"

enum { STRIPE_LENGTH = 65536 }; /* what the runtimes take unless they are told otherwise */

typedef struct bench {
    const kernel *kernel;
    layout cut;
    size_t inputs; /* of the present row */
    bench_memory memory;
    bench_memory other;  /* read to empty the caches */
    const float **in;    /* the memory's vectors but for the last, or stripes of them */
    float *out;          /* the last */
    float *coefficients; /* for the most inputs, times parts */
    void *scratch;
    volatile float sink; /* so that no reading is left out */
} bench;

typedef struct measurement {
    void (*run)(bench *b);
    double (*bytes)(const bench *b);
    size_t result; /* offset of the figure in bench_row */
} measurement;

static void run_read(bench *b)
{
    for (size_t k = 0; k < b->inputs; k++)
        b->sink = bench_read(b->memory.vectors + k * b->memory.stride, b->cut.dimension);
}

static void run_sgemv(bench *b)
{
    cblas_sgemv(CblasColMajor, CblasNoTrans, (blasint)b->cut.dimension, (blasint)b->inputs, 1.0F,
                b->memory.vectors, (blasint)b->memory.stride, b->coefficients, 1, 0.0F, b->out, 1);
}

static void point_inputs(bench *b, size_t start)
{
    for (size_t k = 0; k < b->inputs; k++)
        b->in[k] = b->memory.vectors + k * b->memory.stride + start;
}

static void run_stored(bench *b)
{
    point_inputs(b, 0);
    b->kernel->combine(b->out, b->in, b->coefficients, b->inputs, b->cut.dimension, KERNEL_SET);
}

static void run_encode(bench *b)
{
    point_inputs(b, 0);
    for (uint32_t stripe = 0; stripe < b->cut.stripes; stripe++)
        transfer_encode(b->kernel, &b->cut, stripe, b->in, b->coefficients, b->inputs,
                        b->out + layout_stripe_start(&b->cut, stripe), b->scratch);
}

static void run_decode(bench *b)
{
    for (uint32_t stripe = 0; stripe < b->cut.stripes; stripe++) {
        point_inputs(b, layout_stripe_start(&b->cut, stripe));
        transfer_decode(b->kernel, &b->cut, stripe, b->in, b->coefficients, b->inputs, false,
                        b->out);
    }
}

static double float_bytes(double count)
{
    return count * (double)sizeof(float);
}

static double bytes_read(const bench *b)
{
    return float_bytes((double)b->inputs * (double)b->cut.dimension);
}

static double bytes_summed(const bench *b)
{
    return float_bytes((double)(b->inputs + 1) * (double)b->cut.dimension);
}

static double bytes_encoded(const bench *b)
{
    return bytes_read(b) + float_bytes((double)b->cut.part_length);
}

static double bytes_decoded(const bench *b)
{
    return float_bytes((double)b->inputs * (double)b->cut.part_length + (double)b->cut.dimension);
}

static const measurement measurements[] = {
    {run_read, bytes_read, offsetof(bench_row, read)},
    {run_encode, bytes_encoded, offsetof(bench_row, encode)},
    {run_sgemv, bytes_summed, offsetof(bench_row, sgemv)},
    {run_decode, bytes_decoded, offsetof(bench_row, decode)},
    {run_stored, bytes_summed, offsetof(bench_row, stored)},
};

static void measure_row(bench *b, uint32_t repeat, bench_row *row)
{
    row->inputs = b->inputs;
    for (uint32_t i = 0; i < repeat; i++) {
        for (size_t m = 0; m < sizeof(measurements) / sizeof(*measurements); m++) {
            b->sink = bench_read(b->other.vectors, b->other.stride);
            double start = clock_seconds();
            measurements[m].run(b);
            double seconds = clock_seconds() - start;
            double rate = measurements[m].bytes(b) * 1e-9 / (seconds > 0 ? seconds : DBL_MIN);
            double *best = (double *)((char *)row + measurements[m].result);
            *best = i == 0 || rate > *best ? rate : *best;
        }
    }
}

static size_t largest(const size_t *values, size_t count)
{
    size_t most = values[0];
    for (size_t i = 1; i < count; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

int bench_kernels_run(const bench_settings *settings, bench_row *rows)
{
    size_t most = largest(settings->inputs, settings->input_count);
    bench b = {
        .kernel = settings->kernel,
        .cut = layout_make(settings->dimension, settings->parts, STRIPE_LENGTH),
    };
    int error = TARRY_ERROR_NO_MEMORY;
    b.in = memory_allocate(NULL, most, sizeof(*b.in));
    b.coefficients = memory_allocate(NULL, most * settings->parts, sizeof(float));
    b.scratch = memory_allocate(NULL, transfer_encode_scratch(most, settings->parts), 1);
    if (b.in == NULL || b.coefficients == NULL || b.scratch == NULL)
        goto free_small;
    for (size_t i = 0; i < most * settings->parts; i++)
        b.coefficients[i] = 1.0F / (float)(i + 1);
    error = bench_memory_create(1, bench_flush_length(), BENCH_PAGE, &b.other);
    if (error != TARRY_OK)
        goto free_small;
    error = bench_memory_create(most + 1, settings->dimension,
                                settings->packed ? BENCH_LINE : BENCH_PAGE, &b.memory);
    if (error != TARRY_OK)
        goto free_other;
    b.out = b.memory.vectors + most * b.memory.stride;
    openblas_set_num_threads(1);
    for (size_t i = 0; i < settings->input_count; i++) {
        b.inputs = settings->inputs[i];
        measure_row(&b, settings->repeat, &rows[i]);
    }
    bench_memory_free(&b.memory);
free_other:
    bench_memory_free(&b.other);
free_small:
    memory_release(NULL, b.scratch);
    memory_release(NULL, b.coefficients);
    memory_release(NULL, b.in);
    return error;
}
