/* SPDX-License-Identifier: Apache-2.0 */
#include "program/round.h"

#include <stdatomic.h>
#include <string.h>

#include <tarry/local.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/quantile.h"
#include "cli/output/clock.h"
#include "cli/text/numbers.h"
#include "program/memory.h"

enum { WARM_UP = 10 };

/* The first rounds write the gradients, so that their memory is there;
 * later ones leave them as they are. */
typedef struct trivial_chunks {
    size_t dimension;
    _Atomic bool written;
} trivial_chunks;

static int compute(void *user, const tarry_task *task)
{
    const trivial_chunks *chunks = user;
    if (!atomic_load(&chunks->written))
        for (size_t i = 0; i < chunks->dimension; i++)
            task->gradient[i] = (float)(task->chunk + 1);
    return 0;
}

/* What is measured in each round; copies are those of memory that no round touches. */
typedef struct samples {
    double *seconds, *signal, *copies, *copy;
} samples;

static int measure(const bench_round_settings *settings, tarry_runtime *local,
                   trivial_chunks *chunks, const bench_memory *memory, samples *out,
                   tarry_diagnostic *diagnostic)
{
    float *parameters = memory->vectors, *sum = memory->vectors + memory->stride;
    float *from = sum + memory->stride, *to = from + memory->stride;
    for (uint32_t i = 0; i < WARM_UP + settings->rounds; i++) {
        atomic_store(&chunks->written, i >= WARM_UP);
        tarry_round_result result;
        double start = clock_seconds();
        int error = tarry_runtime_round(local, parameters, sum, &result, diagnostic);
        double end = clock_seconds();
        if (error != TARRY_OK)
            return error;
        memcpy(to, from, memory->stride * sizeof(float));
        double copied = clock_seconds();
        if (i < WARM_UP)
            continue;
        uint32_t sample = i - WARM_UP;
        out->seconds[sample] = end - start;
        out->signal[sample] = (double)(result.signal_ns - result.start_ns) * 1e-9;
        out->copies[sample] = (double)result.copies_coded;
        out->copy[sample] = 2.0 * (double)memory->stride * sizeof(float) / (copied - end);
    }
    return TARRY_OK;
}

static void summarise(const bench_round_settings *settings, const samples *from,
                      bench_round_row *row)
{
    size_t count = settings->rounds, parts = settings->plan.parts;
    double part = (double)((settings->dimension + parts - 1) / parts) * sizeof(float);
    row->seconds = quantile_of(from->seconds, count, 0.5);
    row->signal = quantile_of(from->signal, count, 0.5);
    row->copies = quantile_of(from->copies, count, 0.5);
    row->copy = quantile_of(from->copy, count, 0.5);
    row->bytes = row->copies * (double)settings->dimension * sizeof(float) +
                 2.0 * settings->plan.workers * part;
    row->ratio = row->seconds * row->copy / row->bytes;
}

int bench_round_run(const bench_round_settings *settings, bench_round_row *row,
                    tarry_diagnostic *diagnostic)
{
    const size_t least_copy = (size_t)16 << 20; /* numbers: beyond any cache */
    size_t stride = settings->dimension > least_copy ? settings->dimension : least_copy;
    trivial_chunks chunks = {.dimension = settings->dimension};
    tarry_plan *plan = NULL;
    tarry_runtime *local = NULL;
    bench_memory memory = {0};
    double *figures = NULL;
    int error = tarry_plan_create(&settings->plan, NULL, &plan, diagnostic);
    if (error != TARRY_OK)
        return error;

    tarry_local_settings job;
    tarry_local_settings_init(&job);
    job.parameters = job.dimension = settings->dimension;
    job.compute = compute;
    job.user = &chunks;
    job.server.stripe_length = settings->stripe_length;
    if (settings->all) {
        job.server.stop = TARRY_STOP_WORKERS;
        job.server.workers_needed = settings->plan.workers;
    }
    figures = memory_allocate(NULL, (size_t)4 * settings->rounds, sizeof(double));
    error = figures == NULL ? TARRY_ERROR_NO_MEMORY
                            : bench_memory_create(4, stride, BENCH_PAGE, &memory);
    if (error != TARRY_OK)
        diagnose_no_memory(diagnostic, "round");
    else
        error = tarry_local_create(plan, &job, NULL, &local, diagnostic);
    if (error == TARRY_OK) {
        samples taken = {figures, figures + settings->rounds, figures + 2 * settings->rounds,
                         figures + 3 * settings->rounds};
        error = measure(settings, local, &chunks, &memory, &taken, diagnostic);
        if (error == TARRY_OK)
            summarise(settings, &taken, row);
    }
    tarry_runtime_free(local, true);
    bench_memory_free(&memory);
    memory_release(NULL, figures);
    tarry_plan_free(plan);
    return error;
}
