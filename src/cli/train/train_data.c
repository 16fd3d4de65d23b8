/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/train_data.h"

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/options/data_options.h"
#include "cli/text/complain.h"

static int make_synthetic(const train_options *options, dataset **train, tarry_diagnostic *why)
{
    const synthetic_settings settings = {
        .rows = options->samples,
        .features = options->features,
        .labels = objective_labels(options->model),
        .classes = options->classes,
        .seed = options->run.settings.plan.seed,
    };
    return dataset_synthetic(&settings, NULL, train, why);
}

static int read_file(const train_options *options, const char *path, const char *labels,
                     dataset **out, tarry_diagnostic *why)
{
    dataset_source source = options->source;
    source.path = path;
    source.labels_path = labels;
    source.labels = objective_labels(options->model);
    return data_options_read(&source, options->quiet, out, why);
}

bool train_data_is_elsewhere(const dataset *data)
{
    return data->label == NULL;
}

static int describe(const secure_data *data, dataset **out, tarry_diagnostic *why)
{
    dataset *made = memory_allocate(NULL, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(why, "samples");
    made->allocator = memory_allocator(NULL);
    made->rows = data->rows;
    made->features = data->features;
    made->classes = data->classes;
    made->sparse = data->sparse;
    *out = made;
    return TARRY_OK;
}

/* Read, made up, or only described. */
static int get_samples(const train_options *options, dataset **samples, tarry_diagnostic *why)
{
    if (options->secure.data_text != NULL)
        return describe(&options->secure.data, samples, why);
    if (options->source.path == NULL)
        return make_synthetic(options, samples, why);
    return read_file(options, options->source.path, options->source.labels_path, samples, why);
}

int train_data_load(train_options *options, dataset **train, dataset **test)
{
    dataset *samples = NULL, *held_out = NULL;
    tarry_diagnostic why;
    int error = get_samples(options, &samples, &why);
    if (error == TARRY_OK && options->test != NULL) {
        error = read_file(options, options->test, options->test_labels, &held_out, &why);
        if (error == TARRY_OK)
            error = dataset_align(samples, held_out, &why);
    } else if (error == TARRY_OK && options->holdout > 0) {
        error = dataset_hold_out(&samples, options->holdout, options->run.settings.plan.seed,
                                 &held_out, &why);
    }
    int status = OPTIONS_PROCEED;
    if (error != TARRY_OK)
        status = complain(EXIT_FAILED, "%s", why.text);
    else if (!train_options_fit(options, samples->rows))
        status = complain(
            EXIT_USAGE, "--%s: %llu%s more than the %zu samples to train on",
            run_unit_name(&options->run), (unsigned long long)run_options_units(&options->run),
            options->run.settings.plan.pieces > 1 ? " in all are" : " is", samples->rows);
    if (status == OPTIONS_PROCEED) {
        *train = samples;
        *test = held_out;
    } else {
        dataset_free(samples);
        dataset_free(held_out);
    }
    return status;
}
