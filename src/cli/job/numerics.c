/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job/numerics.h"

#include <math.h>
#include <string.h>

#include "base/digest.h"
#include "base/memory.h"
#include "base/random.h"
#include "cli/job/chunk_gradient.h"

enum {
    MOST_ROWS = 150,        /* more than one pass through a network, and no round number */
    MOST_NUMBERS = 1 << 20, /* of dense samples, unless one alone has more */
    MOST_ENTRIES = 32,      /* of a sparse sample */
    PIECE = 1024,           /* numbers that are digested at a time */
};

typedef struct trial {
    objective *model;
    dataset data;
    float *parameters, *gradient;
    size_t dimension;
    chunk_gradient *gradients;
} trial;

static void trial_free(trial *of)
{
    chunk_gradient_free(of->gradients);
    memory_release(NULL, of->gradient);
    memory_release(NULL, of->parameters);
    memory_release(NULL, of->data.label);
    memory_release(NULL, of->data.value);
    memory_release(NULL, of->data.column);
    memory_release(NULL, of->data.row_start);
    objective_free(of->model);
}

/* In (-1, 1), without the C library's functions: the same bits everywhere. */
static float draw(random_stream *stream)
{
    return (float)(2 * random_uniform(stream) - 1);
}

static void draw_labels(const objective_settings *settings, random_stream *stream, dataset *data)
{
    for (size_t row = 0; row < data->rows; row++) {
        switch (objective_labels(settings->model)) {
        case LABEL_REAL:
            data->label[row] = draw(stream);
            break;
        case LABEL_BINARY:
            data->label[row] = row % 2 == 0 ? 1 : -1;
            break;
        case LABEL_CLASS:
            data->label[row] = (float)(row % settings->classes);
            break;
        }
    }
}

static int make_samples(const objective_settings *settings, bool sparse, dataset *data)
{
    uint32_t features = settings->features;
    size_t entries = sparse && features > MOST_ENTRIES ? MOST_ENTRIES : features;
    size_t fitting = MOST_NUMBERS / entries;
    size_t rows = fitting == 0 ? 1 : fitting < MOST_ROWS ? fitting : MOST_ROWS;
    random_stream stream = random_stream_make(0, RANDOM_NUMERICS, 0, 0);
    data->rows = rows;
    data->features = features;
    data->classes = settings->classes;
    data->sparse = sparse;
    data->value = memory_allocate(NULL, rows * entries, sizeof(*data->value));
    data->label = memory_allocate(NULL, rows, sizeof(*data->label));
    if (sparse) {
        data->row_start = memory_allocate(NULL, rows + 1, sizeof(*data->row_start));
        data->column = memory_allocate(NULL, rows * entries, sizeof(*data->column));
        if (data->row_start == NULL || data->column == NULL)
            return TARRY_ERROR_NO_MEMORY;
    }
    if (data->value == NULL || data->label == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (size_t i = 0; i < rows * entries; i++)
        data->value[i] = draw(&stream);
    for (size_t i = 0; sparse && i < rows * entries; i++)
        data->column[i] = (uint32_t)(i % entries * features / entries);
    for (size_t row = 0; sparse && row <= rows; row++)
        data->row_start[row] = row * entries;
    draw_labels(settings, &stream, data);
    return TARRY_OK;
}

static int make_parameters(const objective_settings *settings, trial *of)
{
    random_stream stream = random_stream_make(0, RANDOM_NUMERICS, 1, 0);
    float scale = (float)(1 / sqrt((double)settings->features));
    of->dimension = objective_dimension(of->model);
    of->parameters = memory_allocate(NULL, of->dimension, sizeof(float));
    of->gradient = memory_allocate(NULL, of->dimension, sizeof(float));
    if (of->parameters == NULL || of->gradient == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (size_t i = 0; i < of->dimension; i++)
        of->parameters[i] = scale * draw(&stream);
    return TARRY_OK;
}

/* The gradient of the whole of the samples, as one chunk. */
static int make_trial(const objective_settings *settings, bool sparse, trial *of)
{
    *of = (trial){0};
    int error = objective_create(settings, NULL, &of->model, NULL);
    if (error == TARRY_OK)
        error = make_samples(settings, sparse, &of->data);
    if (error == TARRY_OK)
        error = make_parameters(settings, of);
    const batch_settings batch = {.rows = of->data.rows, .chunks = 1};
    if (error == TARRY_OK)
        error = chunk_gradient_create(of->model, &of->data, &batch, 1, &of->gradients);
    const tarry_span whole = {.origin = 0, .count = 1, .of = 1};
    const tarry_task task = {
        .parameters = of->parameters,
        .spans = &whole,
        .span_count = 1,
        .gradient = of->gradient,
    };
    if (error == TARRY_OK && chunk_gradient_compute(of->gradients, &task) != 0)
        error = TARRY_ERROR_NO_MEMORY;
    if (error != TARRY_OK)
        trial_free(of);
    return error;
}

static int digest_gradient(const trial *of, uint8_t out[32])
{
    digest *state = digest_begin();
    uint32_t bits[PIECE];
    int failed = state == NULL;
    for (size_t start = 0; start < of->dimension && failed == 0; start += PIECE) {
        size_t count = of->dimension - start < PIECE ? of->dimension - start : PIECE;
        memcpy(bits, of->gradient + start, count * sizeof(*bits));
        failed = digest_add_u32(state, bits, count);
    }
    if (state != NULL)
        failed |= digest_end(state, out);
    return failed == 0 ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

int numerics_fingerprint(const objective_settings *settings, bool sparse, uint64_t *fingerprint)
{
    trial of;
    uint8_t found[32];
    int error = make_trial(settings, sparse, &of);
    if (error != TARRY_OK)
        return error;
    error = digest_gradient(&of, found);
    trial_free(&of);
    if (error != TARRY_OK)
        return error;
    *fingerprint = 0;
    for (size_t i = 0; i < sizeof(*fingerprint); i++)
        *fingerprint |= (uint64_t)found[i] << 8 * i;
    *fingerprint += *fingerprint == 0;
    return TARRY_OK;
}

int numerics_rounding(const objective_settings *settings, bool sparse, double *rounding)
{
    trial of;
    objective_workspace *work = NULL;
    int error = make_trial(settings, sparse, &of);
    if (error != TARRY_OK)
        return error;
    double *exact = memory_allocate(NULL, of.dimension, sizeof(*exact)), apart = 0, length = 0;
    error = exact == NULL ? TARRY_ERROR_NO_MEMORY
                          : objective_workspace_create(of.model, OBJECTIVE_DOUBLE, NULL, &work);
    if (error == TARRY_OK) {
        chunk_gradient_add_double(of.gradients, work, NULL, 0, of.parameters, 0, exact);
        for (size_t i = 0; i < of.dimension; i++) {
            apart += (of.gradient[i] - exact[i]) * (of.gradient[i] - exact[i]);
            length += exact[i] * exact[i];
        }
        *rounding = apart == 0 ? 0 : sqrt(apart / length);
    }
    objective_workspace_free(work);
    memory_release(NULL, exact);
    trial_free(&of);
    return error;
}
