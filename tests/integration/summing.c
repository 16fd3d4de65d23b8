/* SPDX-License-Identifier: Apache-2.0 */
#include "summing.h"

#include <math.h>

#include "base/random.h"
#include "test.h"

/* Of mean 0 and variance 1: uniform, which is drawn much sooner than normal. */
static double draw(random_stream *stream)
{
    return ((double)random_u32(stream) + 0.5 - 0x1p31) * 0x1p-31 * sqrt(3);
}

/* A chunk's vector in a round, scaled by the parameters so that a wrong round shows. */
static void fill(const summing *job, uint64_t round, uint32_t chunk, float scale, float *gradient)
{
    uint32_t drawn = job->lasting ? 0 : (uint32_t)round;
    uint32_t of = job->alike ? 0 : chunk;
    random_stream stream = random_stream_make(job->seed, RANDOM_TEST, drawn, of);
    for (size_t i = 0; i < job->dimension; i++)
        gradient[i] = scale * (float)draw(&stream);
}

static int compute(void *user, const tarry_task *task)
{
    const summing *job = user;
    if (task->chunk == job->failing_chunk)
        return -1;
    fill(job, task->round, task->chunk, task->parameters[0], task->gradient);
    return 0;
}

void summing_init(summing *job)
{
    *job = (summing){.dimension = 1000, .seed = 1, .failing_chunk = UINT32_MAX};
    tarry_plan_settings_init(&job->plan_settings);
    tarry_local_settings_init(&job->local_settings);
    job->local_settings.server.silence_ns = UINT64_C(30000000000);
}

void summing_begin(summing *job)
{
    tarry_diagnostic diagnostic = {{0}};
    int error = tarry_plan_create(&job->plan_settings, NULL, &job->plan, &diagnostic);
    if (error == TARRY_OK && job->prepare != NULL)
        job->prepare(job->plan);
    if (error == TARRY_OK && job->straggler_spec != NULL)
        error = tarry_straggler_create(job->straggler_spec, job->plan_settings.workers, job->seed,
                                       NULL, &job->straggler, &diagnostic);
    job->local_settings.straggler = job->straggler;
    job->local_settings.parameters = 2;
    job->local_settings.dimension = job->dimension;
    job->local_settings.compute = compute;
    job->local_settings.user = job;
    if (error == TARRY_OK)
        error = tarry_local_create(job->plan, &job->local_settings, job->allocator, &job->local,
                                   &diagnostic);
    assert_ok_or(diagnostic, error);
    job->sum = checked_calloc(job->dimension, sizeof(*job->sum));
    job->truth = checked_calloc(job->dimension, sizeof(*job->truth));
}

void summing_end(summing *job)
{
    tarry_runtime_free(job->local, true);
    tarry_straggler_free(job->straggler);
    tarry_plan_free(job->plan);
    free(job->sum);
    free(job->truth);
}

int summing_round(summing *job, tarry_round_result *result, tarry_diagnostic *diagnostic)
{
    job->parameters[0] += 1;
    int error = tarry_runtime_round(job->local, job->parameters, job->sum, result, diagnostic);
    if (error != TARRY_OK)
        return error;
    OWNED(float) gradient = checked_malloc(job->dimension * sizeof(*gradient));
    job->lengths = 0;
    for (size_t i = 0; i < job->dimension; i++)
        job->truth[i] = 0;
    for (uint32_t chunk = 0; chunk < tarry_plan_chunks(job->plan); chunk++) {
        fill(job, result->round, chunk, job->parameters[0], gradient);
        double square = 0;
        for (size_t i = 0; i < job->dimension; i++) {
            job->truth[i] += gradient[i];
            square += (double)gradient[i] * gradient[i];
        }
        job->lengths += sqrt(square);
    }
    return TARRY_OK;
}

double summing_error(const summing *job)
{
    double error = 0, largest = 0;
    for (size_t i = 0; i < job->dimension; i++) {
        error = fmax(error, fabs(job->sum[i] - job->truth[i]));
        largest = fmax(largest, fabs(job->truth[i]));
    }
    return error / largest;
}

static double square_of_difference(const summing *job)
{
    double error = 0;
    for (size_t i = 0; i < job->dimension; i++)
        error += (job->sum[i] - job->truth[i]) * (job->sum[i] - job->truth[i]);
    return error;
}

double summing_squared_error(const summing *job)
{
    double square = 0;
    for (size_t i = 0; i < job->dimension; i++)
        square += job->truth[i] * job->truth[i];
    return square_of_difference(job) / square;
}

double summing_relative_error(const summing *job)
{
    return sqrt(square_of_difference(job)) / job->lengths;
}
