/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/random.h"
#include "learn/dataset.h"

/* Deviation of the noise on a score of unit deviation: it turns about a tenth of binary labels. */
static const double noise = 0.3;

static uint32_t output_count(const synthetic_settings *settings)
{
    return settings->labels == LABEL_CLASS ? settings->classes : 1;
}

/* The hidden model, outputs x features, and the scores of a sample behind it. */
static double *draw_hidden(const synthetic_settings *settings, const tarry_allocator *allocator)
{
    size_t outputs = output_count(settings), features = settings->features;
    if (outputs > SIZE_MAX / features - 1)
        return NULL;
    double *hidden = memory_allocate(allocator, outputs * (features + 1), sizeof(double));
    if (hidden == NULL)
        return NULL;
    for (uint32_t k = 0; k < outputs; k++) {
        random_stream stream = random_stream_make(settings->seed, RANDOM_SYNTHETIC, k, 0);
        for (size_t i = 0; i < features; i++)
            hidden[k * features + i] = random_normal(&stream) / sqrt((double)features);
    }
    return hidden;
}

static float label_of(label_kind kind, const double *scores, uint32_t outputs)
{
    if (kind == LABEL_REAL)
        return (float)scores[0];
    if (kind == LABEL_BINARY)
        return scores[0] < 0 ? -1 : 1;
    uint32_t best = 0;
    for (uint32_t k = 1; k < outputs; k++)
        if (scores[k] > scores[best])
            best = k;
    return (float)best;
}

/* Each sample has a stream of its own, so that the first
 * samples do not depend on how many there are. */
static void draw_sample(const synthetic_settings *settings, size_t row, const double *hidden,
                        double *scores, float *sample, float *label)
{
    uint32_t outputs = output_count(settings);
    random_stream stream = random_stream_make(settings->seed, RANDOM_SYNTHETIC, (uint32_t)row,
                                              1 + (uint32_t)(row >> 32));
    for (uint32_t i = 0; i < settings->features; i++)
        sample[i] = (float)random_normal(&stream);
    for (uint32_t k = 0; k < outputs; k++) {
        const double *weights = hidden + (size_t)k * settings->features;
        scores[k] = noise * random_normal(&stream);
        for (uint32_t i = 0; i < settings->features; i++)
            scores[k] += weights[i] * sample[i];
    }
    *label = label_of(settings->labels, scores, outputs);
}

static int check_settings(const synthetic_settings *settings, tarry_diagnostic *diagnostic)
{
    if (settings->rows < 1)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "synthetic data: no rows");
    if (settings->features < 1 || settings->features > INT32_MAX)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "synthetic data: %" PRIu32 " features are not 1..%d", settings->features,
                        INT32_MAX);
    if (settings->labels == LABEL_CLASS &&
        (settings->classes < 2 || settings->classes > DATASET_MAX_CLASSES))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "synthetic data: %" PRIu32 " classes are not 2..%d", settings->classes,
                        DATASET_MAX_CLASSES);
    return TARRY_OK;
}

int dataset_synthetic(const synthetic_settings *settings, const tarry_allocator *allocator,
                      dataset **out, tarry_diagnostic *diagnostic)
{
    int error = check_settings(settings, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_allocator memory = memory_allocator(allocator);
    double *hidden = NULL;
    dataset *data = memory_allocate(&memory, 1, sizeof(*data));
    if (data == NULL)
        goto no_memory;
    data->allocator = memory;
    data->rows = settings->rows;
    data->features = settings->features;
    data->classes = settings->labels == LABEL_CLASS    ? settings->classes
                    : settings->labels == LABEL_BINARY ? 2
                                                       : 0;
    hidden = draw_hidden(settings, &memory);
    data->label = memory_allocate(&memory, data->rows, sizeof(float));
    if (data->rows <= SIZE_MAX / data->features)
        data->value = memory_allocate(&memory, data->rows * data->features, sizeof(float));
    if (hidden == NULL || data->label == NULL || data->value == NULL)
        goto no_memory;
    double *scores = hidden + (size_t)output_count(settings) * data->features;
    for (size_t row = 0; row < data->rows; row++)
        draw_sample(settings, row, hidden, scores, data->value + row * data->features,
                    &data->label[row]);
    memory_release(&memory, hidden);
    *out = data;
    return TARRY_OK;

no_memory:
    memory_release(&memory, hidden);
    dataset_free(data);
    return diagnose_no_memory(diagnostic, "synthetic data");
}
