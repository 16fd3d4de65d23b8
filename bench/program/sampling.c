/* SPDX-License-Identifier: Apache-2.0 */
#include "program/sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tarry/sim.h>

#include "base/diagnostic.h"
#include "learn/network.h"
#include "learn/optimizer.h"
#include "protocol/server/server_state.h"

typedef struct training {
    const bench_sampling_settings *settings;
    dataset *data;
    objective *model;
    objective_workspace *work;
    optimizer *steps;
    tarry_plan *plan;
    tarry_straggler *straggler;
    tarry_sim *sim;
    batch_settings batch;
    size_t dimension, *rows, *drawn;     /* the samples in their order; scratch: a chunk's draw */
    float *parameters, *gradients, *sum; /* d, chunks x d, d */
    double *truth;                       /* d */
} training;

static void release(training *its)
{
    tarry_sim_free(its->sim);
    tarry_straggler_free(its->straggler);
    tarry_plan_free(its->plan);
    optimizer_free(its->steps);
    objective_workspace_free(its->work);
    objective_free(its->model);
    dataset_free(its->data);
    free(its->rows);
    free(its->drawn);
    free(its->parameters);
    free(its->gradients);
    free(its->sum);
    free(its->truth);
}

/* By label, else as they are. */
static void order_rows(training *its)
{
    size_t at = 0;
    for (uint32_t label = 0; its->settings->sorted && label < its->data->classes; label++)
        for (size_t row = 0; row < its->data->rows; row++)
            if ((uint32_t)its->data->label[row] == label)
                its->rows[at++] = row;
    for (; at < its->data->rows; at++)
        its->rows[at] = at;
}

static int make_model(training *its, tarry_diagnostic *why)
{
    const dataset_source source = {.path = its->settings->data, .labels = LABEL_CLASS};
    int error = dataset_read(&source, NULL, &its->data, why);
    if (error != TARRY_OK)
        return error;
    const objective_settings model = {
        .model = MODEL_SOFTMAX,
        .features = its->data->features,
        .classes = its->data->classes,
        .intercept = true,
    };
    error = objective_create(&model, NULL, &its->model, why);
    if (error != TARRY_OK)
        return error;
    its->dimension = objective_dimension(its->model);
    error = objective_workspace_create(its->model, OBJECTIVE_SINGLE, NULL, &its->work);
    const optimizer_settings steps = {.kind = OPTIMIZER_GD, .rate = its->settings->rate};
    return error == TARRY_OK ? optimizer_create(&steps, its->dimension, NULL, &its->steps) : error;
}

/* How much of the data a round takes. */
static double batch_share(const training *its)
{
    return (double)batch_samples(&its->batch) / (double)its->data->rows;
}

static int make_world(training *its, tarry_diagnostic *why)
{
    const bench_sampling_settings *settings = its->settings;
    int error = tarry_plan_create(&settings->plan, NULL, &its->plan, why);
    if (error == TARRY_OK)
        error = tarry_straggler_create(settings->straggler, settings->plan.workers,
                                       settings->plan.seed, NULL, &its->straggler, why);
    if (error != TARRY_OK)
        return error;
    if (settings->batch != 0 &&
        (settings->batch < settings->plan.chunks || settings->batch > its->data->rows))
        return diagnose(why, TARRY_ERROR_ARGUMENT, "batch must be %u to %zu, not %llu",
                        settings->plan.chunks, its->data->rows,
                        (unsigned long long)settings->batch);
    tarry_sim_settings world;
    tarry_sim_settings_init(&world);
    world.server = settings->server;
    world.straggler = its->straggler;
    world.dimension = its->dimension;
    world.seed = settings->plan.seed;
    its->batch = (batch_settings){.rows = its->data->rows,
                                  .chunks = settings->plan.chunks,
                                  .batch = settings->batch,
                                  .seed = settings->plan.seed};
    world.chunk_ns = (uint64_t)((double)world.chunk_ns * batch_share(its));
    size_t chunks = settings->plan.chunks, d = its->dimension;
    its->rows = malloc(its->data->rows * sizeof(*its->rows));
    its->drawn = malloc(its->data->rows * sizeof(*its->drawn));
    its->parameters = malloc(d * sizeof(float));
    its->gradients = malloc(chunks * d * sizeof(float));
    its->sum = malloc(d * sizeof(float));
    its->truth = malloc(d * sizeof(double));
    if (its->rows == NULL || its->drawn == NULL || its->parameters == NULL ||
        its->gradients == NULL || its->sum == NULL || its->truth == NULL)
        return diagnose_no_memory(why, "sampling");
    order_rows(its);
    objective_initial(its->model, settings->plan.seed, its->parameters);
    return tarry_sim_create(its->plan, &world, NULL, &its->sim, why);
}

/* The chunk's gradient becomes the one of its share of the batch, scaled to all of its samples. */
static void draw_gradient(training *its, uint64_t round, uint32_t chunk, float *gradient)
{
    objective_tally tally = {0};
    size_t first, all, count = batch_count(&its->batch, chunk);
    batch_chunk(&its->batch, chunk, &first, &all);
    batch_draw(&its->batch, round, chunk, its->drawn);
    for (size_t i = 0; i < count; i++)
        its->drawn[i] = its->rows[its->drawn[i]];
    memset(gradient, 0, its->dimension * sizeof(float));
    objective_add_gradient(its->model, its->work, its->data, its->parameters, its->drawn, 0, count,
                           gradient, &tally);
    for (size_t i = 0; i < its->dimension; i++)
        gradient[i] *= (float)all / (float)count;
}

/* All chunks' gradients and the sum; gives back the loss. */
static double look(training *its, uint64_t round)
{
    uint32_t chunks = its->settings->plan.chunks;
    size_t d = its->dimension, samples = its->data->rows;
    objective_tally tally = {0};
    memset(its->gradients, 0, chunks * d * sizeof(float));
    memset(its->truth, 0, d * sizeof(double));
    for (uint32_t chunk = 0; chunk < chunks; chunk++) {
        size_t first, count;
        batch_chunk(&its->batch, chunk, &first, &count);
        float *gradient = its->gradients + chunk * d;
        objective_add_gradient(its->model, its->work, its->data, its->parameters, its->rows + first,
                               0, count, gradient, &tally);
        for (size_t i = 0; i < d; i++)
            its->truth[i] += (double)gradient[i];
        if (its->batch.batch != 0)
            draw_gradient(its, round, chunk, gradient);
    }
    return objective_score_of(its->model, its->parameters, &tally, samples).loss;
}

/* The share of the chunk's gradient that the copies credited now give; 0: it was not sampled. */
static double recovered(const tarry_server *server, uint32_t chunk)
{
    return server_takes_part(server, chunk)
               ? (double)coverage_rank(server->credited, chunk) / server->plan->parts
               : 0;
}

/* What the round's copies come to; gives back how far that is from the sum of all. */
static double add_up(training *its)
{
    const tarry_server *server = tarry_sim_server(its->sim);
    size_t d = its->dimension;
    double apart = 0, size = 0;
    memset(its->sum, 0, d * sizeof(float));
    for (uint32_t chunk = 0; chunk < its->settings->plan.chunks; chunk++) {
        float times = server_weight(server, chunk) * (float)recovered(server, chunk);
        for (size_t i = 0; times > 0 && i < d; i++)
            its->sum[i] += times * its->gradients[chunk * d + i];
    }
    for (size_t i = 0; i < d; i++) {
        double off = (double)its->sum[i] - its->truth[i];
        apart += off * off;
        size += its->truth[i] * its->truth[i];
    }
    return size > 0 ? apart / size : 0;
}

static int run_round(training *its, bench_sampling_row *row, tarry_diagnostic *why)
{
    tarry_round_result result;
    int error = TARRY_OK;
    if (tarry_sim_round(its->sim, &result) != TARRY_OK)
        error = diagnose(why, TARRY_ERROR_NUMERICAL, "sampling: a round failed");
    if (error == TARRY_OK && result.error != TARRY_OK)
        error = diagnose(why, result.error, "sampling: %s", tarry_error_text(result.error));
    if (error != TARRY_OK)
        return error;
    row->apart += add_up(its);
    row->error += result.expected_error;
    row->sampled += result.chunks_sampled;
    row->seconds += (double)(result.end_ns - result.start_ns) * 1e-9;
    row->work += (double)result.copies_computed / its->settings->plan.chunks * batch_share(its);
    row->rounds++;
    float *gradient = its->gradients; /* which are worked out anew */
    objective_regularise(its->model, its->parameters, its->sum, (double)its->data->rows, gradient);
    optimizer_step(its->steps, gradient, its->parameters);
    return TARRY_OK;
}

int bench_sampling_run(const bench_sampling_settings *settings, bench_sampling_row *row,
                       tarry_diagnostic *diagnostic)
{
    training its = {.settings = settings};
    *row = (bench_sampling_row){0};
    int error = make_model(&its, diagnostic);
    if (error == TARRY_OK)
        error = make_world(&its, diagnostic);
    while (error == TARRY_OK) {
        row->loss = look(&its, row->rounds);
        row->reached = row->loss <= settings->loss;
        if (row->reached || row->rounds == settings->rounds || !isfinite(row->loss))
            break;
        error = run_round(&its, row, diagnostic);
    }
    double rounds = row->rounds > 0 ? (double)row->rounds : 1;
    row->apart /= rounds;
    row->error /= rounds;
    row->sampled /= rounds;
    release(&its);
    return error;
}
