/* SPDX-License-Identifier: Apache-2.0 */
#include "learn/network.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include <tarry/compress.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/random.h"
#include "learn/dataset.h"
#include "learn/network_work.h"

enum {
    MOST_SAMPLES = 128,     /* enough for a product of matrices to be fast */
    INPUT_NUMBERS = 1 << 20 /* dense inputs of a pass, unless one sample alone has more */
};

int objective_workspace_create(const objective *model, objective_precision precision,
                               const tarry_allocator *allocator, objective_workspace **out)
{
    tarry_allocator memory = memory_allocator(allocator);
    objective_workspace *work = memory_allocate(&memory, 1, sizeof(*work));
    if (work == NULL)
        return TARRY_ERROR_NO_MEMORY;
    const network_passes *passes =
        precision == OBJECTIVE_DOUBLE ? &network_double : &network_single;
    size_t size = passes->real_size;
    work->allocator = memory;
    work->model = model;
    work->passes = passes;
    size_t fitting = INPUT_NUMBERS / model->settings.features;
    work->capacity = fitting == 0 ? 1 : fitting < MOST_SAMPLES ? fitting : MOST_SAMPLES;
    work->scores =
        memory_allocate(&memory, work->capacity * network_outputs(model), sizeof(double));
    work->gathered = memory_allocate(&memory, work->capacity * model->settings.features, size);
    bool complete = work->scores != NULL && work->gathered != NULL;
    if (passes->copies_parameters) {
        work->copied = memory_allocate(&memory, model->dimension, size);
        complete = complete && work->copied != NULL;
    }
    for (uint32_t k = 0; k < model->layer_count; k++) {
        size_t numbers = work->capacity * model->layers[k].outputs;
        work->outputs[k] = memory_allocate(&memory, numbers, size);
        work->derivatives[k] = memory_allocate(&memory, numbers, size);
        complete = complete && work->outputs[k] != NULL && work->derivatives[k] != NULL;
    }
    if (!complete) {
        objective_workspace_free(work);
        return TARRY_ERROR_NO_MEMORY;
    }
    *out = work;
    return TARRY_OK;
}

void objective_workspace_free(objective_workspace *work)
{
    if (work == NULL)
        return;
    tarry_allocator memory = work->allocator;
    memory_release(&memory, work->scores);
    memory_release(&memory, work->copied);
    memory_release(&memory, work->gathered);
    for (uint32_t k = 0; k <= OBJECTIVE_MAX_HIDDEN; k++) {
        memory_release(&memory, work->derivatives[k]);
        memory_release(&memory, work->outputs[k]);
    }
    memory_release(&memory, work);
}

static objective_precision network_precision(const objective_workspace *work)
{
    return work->passes == &network_double ? OBJECTIVE_DOUBLE : OBJECTIVE_SINGLE;
}

size_t network_row(const network_batch *batch, size_t sample)
{
    return batch->rows != NULL ? batch->rows[sample] : batch->first + sample;
}

/* The loss of a sample as a function of the model's outputs for it. */

static uint32_t largest(const double *scores, uint32_t outputs)
{
    uint32_t best = 0;
    for (uint32_t k = 1; k < outputs; k++)
        if (scores[k] > scores[best])
            best = k;
    return best;
}

/* Exponentials of differences to the largest score are at most 1, so that none overflows. */
static void differentiate_cross_entropy(uint32_t label, uint32_t outputs, double *scores)
{
    double top = scores[largest(scores, outputs)];
    double sum = 0;
    for (uint32_t k = 0; k < outputs; k++) {
        scores[k] = exp(scores[k] - top);
        sum += scores[k];
    }
    for (uint32_t k = 0; k < outputs; k++)
        scores[k] /= sum;
    scores[label] -= 1;
}

static double cross_entropy(uint32_t label, uint32_t outputs, const double *scores, double top)
{
    double sum = 0;
    for (uint32_t k = 0; k < outputs; k++)
        sum += exp(scores[k] - top);
    return log(sum) + (top - scores[label]);
}

/* Puts the loss's derivatives by the `outputs` numbers of `scores` in their place. */
static void loss_differentiate(model_kind model, float label, uint32_t outputs, double *scores)
{
    switch (model) {
    case MODEL_LEAST_SQUARES:
        scores[0] -= label;
        break;
    case MODEL_LOGISTIC:
        /* An exponential that overflows gives the right limit, -y / infinity = 0. */
        scores[0] = -label / (1 + exp(label * scores[0]));
        break;
    case MODEL_SOFTMAX:
    case MODEL_PERCEPTRON:
        differentiate_cross_entropy((uint32_t)label, outputs, scores);
        break;
    }
}

/* The loss; *right: whether the largest score (for one output: its sign) is the label's. Least
 * squares is never right. */
static double loss_evaluate(model_kind model, float label, uint32_t outputs, const double *scores,
                            bool *right)
{
    switch (model) {
    case MODEL_LEAST_SQUARES: {
        double difference = scores[0] - label;
        *right = false;
        return difference * difference / 2;
    }
    case MODEL_LOGISTIC: {
        double margin = label * scores[0];
        *right = (scores[0] >= 0) == (label > 0);
        return fmax(-margin, 0) + log1p(exp(-fabs(margin)));
    }
    case MODEL_SOFTMAX:
    case MODEL_PERCEPTRON:
        break;
    }
    uint32_t best = largest(scores, outputs);
    *right = best == (uint32_t)label;
    return cross_entropy((uint32_t)label, outputs, scores, scores[best]);
}

/* ---- objective ---- */

label_kind objective_labels(model_kind model)
{
    switch (model) {
    case MODEL_LEAST_SQUARES:
        return LABEL_REAL;
    case MODEL_LOGISTIC:
        return LABEL_BINARY;
    case MODEL_SOFTMAX:
    case MODEL_PERCEPTRON:
        break;
    }
    return LABEL_CLASS;
}

/* Widths are BLAS dimensions. */
static int check_width(uint32_t width, const char *what, tarry_diagnostic *diagnostic)
{
    if (width >= 1 && width <= INT32_MAX)
        return TARRY_OK;
    return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "%s: %" PRIu32 " is not in 1..%d", what,
                    width, INT32_MAX);
}

static int check_settings(const objective_settings *settings, tarry_diagnostic *diagnostic)
{
    int error = check_width(settings->features, "features", diagnostic);
    if (error != TARRY_OK)
        return error;
    if (!(settings->l2 >= 0 && isfinite(settings->l2)))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "l2: %g is not 0 or more", settings->l2);
    if (objective_labels(settings->model) == LABEL_CLASS) {
        if (settings->classes < 2)
            return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                            "classes: %" PRIu32 ", but at least 2 are needed", settings->classes);
        error = check_width(settings->classes, "classes", diagnostic);
    }
    if (error != TARRY_OK || settings->model != MODEL_PERCEPTRON)
        return error;
    if (settings->hidden_layers < 1 || settings->hidden_layers > OBJECTIVE_MAX_HIDDEN)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "hidden layers: %" PRIu32 " is not in 1..%d", settings->hidden_layers,
                        OBJECTIVE_MAX_HIDDEN);
    for (uint32_t k = 0; k < settings->hidden_layers && error == TARRY_OK; k++)
        error = check_width(settings->hidden[k], "width of a hidden layer", diagnostic);
    return error;
}

/* Appends a layer; false if the dimension would overflow. */
static bool add_layer(objective *model, uint32_t inputs, uint32_t outputs, bool biased)
{
    size_t weights = (size_t)inputs * outputs; /* below 2^62 */
    network_layer layer = {
        .inputs = inputs,
        .outputs = outputs,
        .biased = biased,
        .weights = model->dimension,
        .biases = model->dimension + weights,
    };
    if (weights > SIZE_MAX / 2 / sizeof(double) - model->dimension - outputs)
        return false;
    model->dimension += weights + (biased ? outputs : 0);
    model->layers[model->layer_count++] = layer;
    return true;
}

static bool add_layers(objective *model)
{
    const objective_settings *settings = &model->settings;
    bool perceptron = settings->model == MODEL_PERCEPTRON;
    bool biased = perceptron || settings->intercept;
    uint32_t inputs = settings->features;
    for (uint32_t k = 0; perceptron && k < settings->hidden_layers; k++) {
        if (!add_layer(model, inputs, settings->hidden[k], biased))
            return false;
        inputs = settings->hidden[k];
    }
    uint32_t outputs = objective_labels(settings->model) == LABEL_CLASS ? settings->classes : 1;
    return add_layer(model, inputs, outputs, biased);
}

int objective_create(const objective_settings *settings, const tarry_allocator *allocator,
                     objective **out, tarry_diagnostic *diagnostic)
{
    int error = check_settings(settings, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_allocator memory = memory_allocator(allocator);
    objective *model = memory_allocate(&memory, 1, sizeof(*model));
    if (model == NULL)
        return diagnose_no_memory(diagnostic, "objective");
    model->allocator = memory;
    model->settings = *settings;
    if (!add_layers(model)) {
        objective_free(model);
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "the model has more parameters than can be addressed");
    }
    *out = model;
    return TARRY_OK;
}

void objective_free(objective *model)
{
    if (model == NULL)
        return;
    tarry_allocator memory = model->allocator;
    memory_release(&memory, model);
}

size_t objective_dimension(const objective *model)
{
    return model->dimension;
}

uint32_t objective_matrices(const objective *model, tarry_matrix matrices[OBJECTIVE_MATRICES])
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < model->layer_count; k++) {
        const network_layer *layer = &model->layers[k];
        matrices[count++] = (tarry_matrix){layer->outputs, layer->inputs};
        if (layer->biased)
            matrices[count++] = (tarry_matrix){1, layer->outputs};
    }
    return count;
}

/* K. He et al., Delving deep into rectifiers, ICCV 2015: variance 2 / inputs keeps the size of
 * what goes through ReLU layers. */
void objective_initial(const objective *model, uint64_t seed, float *parameters)
{
    for (size_t i = 0; i < model->dimension; i++)
        parameters[i] = 0;
    if (model->settings.model != MODEL_PERCEPTRON)
        return;
    for (uint32_t k = 0; k < model->layer_count; k++) {
        const network_layer *layer = &model->layers[k];
        random_stream stream = random_stream_make(seed, RANDOM_INITIAL, k, 0);
        double deviation = sqrt(2.0 / layer->inputs);
        for (size_t i = layer->weights; i < layer->biases; i++)
            parameters[i] = (float)(deviation * random_normal(&stream));
    }
}

static void assert_fits(const objective *model, const dataset *data)
{
    assert(data->sparse ? data->features <= model->settings.features
                        : data->features == model->settings.features);
    assert(data->classes <= model->settings.classes ||
           objective_labels(model->settings.model) != LABEL_CLASS);
    (void)model;
    (void)data;
}

/* The `done`-th and following samples, as many as one pass takes. */
static network_batch next_batch(const objective_workspace *work, const dataset *data,
                                const size_t *rows, size_t first, size_t count, size_t done)
{
    size_t left = count - done;
    return (network_batch){
        .data = data,
        .rows = rows != NULL ? rows + done : NULL,
        .first = first + done,
        .count = left < work->capacity ? left : work->capacity,
    };
}

static void add_losses(const objective *model, const network_batch *batch, const double *scores,
                       objective_tally *tally)
{
    uint32_t outputs = network_outputs(model);
    for (size_t s = 0; s < batch->count; s++) {
        bool right;
        tally->loss +=
            loss_evaluate(model->settings.model, batch->data->label[network_row(batch, s)], outputs,
                          scores + s * outputs, &right);
        tally->right += right;
    }
}

static void add_gradient(const objective *model, objective_workspace *work, const dataset *data,
                         const float *parameters, const size_t *rows, size_t first, size_t count,
                         double most, void *gradient, objective_tally *tally)
{
    assert_fits(model, data);
    uint32_t outputs = network_outputs(model);
    work->passes->load(work, parameters);
    for (size_t done = 0; done < count;) {
        network_batch batch = next_batch(work, data, rows, first, count, done);
        double *scores = work->passes->forward(work, &batch);
        if (tally != NULL)
            add_losses(model, &batch, scores, tally);
        for (size_t s = 0; s < batch.count; s++)
            loss_differentiate(model->settings.model, data->label[network_row(&batch, s)], outputs,
                               scores + s * outputs);
        work->passes->backward(work, &batch, most, gradient);
        done += batch.count;
    }
}

void objective_add_gradient(const objective *model, objective_workspace *work, const dataset *data,
                            const float *parameters, const size_t *rows, size_t first, size_t count,
                            float *gradient, objective_tally *tally)
{
    assert(network_precision(work) == OBJECTIVE_SINGLE);
    add_gradient(model, work, data, parameters, rows, first, count, INFINITY, gradient, tally);
}

void objective_add_gradient_double(const objective *model, objective_workspace *work,
                                   const dataset *data, const float *parameters, const size_t *rows,
                                   size_t first, size_t count, double *gradient)
{
    assert(network_precision(work) == OBJECTIVE_DOUBLE);
    add_gradient(model, work, data, parameters, rows, first, count, INFINITY, gradient, NULL);
}

void objective_add_clipped(const objective *model, objective_workspace *work, const dataset *data,
                           const float *parameters, const size_t *rows, size_t count, double most,
                           double *gradient)
{
    assert(network_precision(work) == OBJECTIVE_DOUBLE && most > 0 && isfinite(most));
    add_gradient(model, work, data, parameters, rows, 0, count, most, gradient, NULL);
}

bool objective_add_tally(const objective *model, objective_workspace *work, const dataset *data,
                         const float *parameters, size_t first, size_t count,
                         const objective_stop *stop, objective_tally *tally)
{
    assert_fits(model, data);
    work->passes->load(work, parameters);
    for (size_t done = 0; done < count;) {
        if (stop != NULL && stop->asked(stop->user))
            return false;
        network_batch batch = next_batch(work, data, NULL, first, count, done);
        add_losses(model, &batch, work->passes->forward(work, &batch), tally);
        done += batch.count;
    }
    return true;
}

objective_score objective_score_of(const objective *model, const float *parameters,
                                   const objective_tally *tally, size_t samples)
{
    double square = 0;
    for (size_t i = 0; i < model->dimension; i++)
        square += (double)parameters[i] * parameters[i];
    bool classifies = model->settings.model != MODEL_LEAST_SQUARES;
    return (objective_score){
        .loss = tally->loss / (double)samples + model->settings.l2 / 2 * square,
        .accuracy = classifies ? (double)tally->right / (double)samples : NAN,
    };
}

void objective_regularise(const objective *model, const float *parameters, const float *sum,
                          double samples, float *gradient)
{
    for (size_t i = 0; i < model->dimension; i++)
        gradient[i] = (float)(sum[i] / samples + model->settings.l2 * parameters[i]);
}
