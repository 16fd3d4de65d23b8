/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/train_options.h"

#include <math.h>
#include <string.h>

#include <tarry/dp.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/number.h"
#include "cli/options/data_options.h"
#include "cli/options/options.h"
#include "cli/options/run_options.h"
#include "cli/options/secure_options.h"
#include "cli/text/complain.h"
#include "learn/dataset.h"
#include "learn/optimizer.h"

/* ---- options ---- */

#define MOST_ROUNDS 100000000
#define MOST_WIDTH 1000000

static int read_hidden(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    train_options *options = values;
    uint32_t widths[OBJECTIVE_MAX_HIDDEN];
    uint32_t layers = 0;
    for (const char *left = text; left != NULL; layers++) {
        char width[16];
        if (layers == OBJECTIVE_MAX_HIDDEN)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "more than %d layers",
                            OBJECTIVE_MAX_HIDDEN);
        if (!list_next(&left, ',', width, sizeof(width)))
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is not a list of widths", text);
        uint64_t number;
        int error = parse_whole(width, 1, MOST_WIDTH, &number, diagnostic);
        if (error != TARRY_OK)
            return error;
        widths[layers] = (uint32_t)number;
    }
    memcpy(options->hidden_widths, widths, sizeof(widths));
    options->hidden_layers = layers;
    return TARRY_OK;
}

#define MOST_STEPS 1000000

/* A word of a list with colons, at *from, which goes past it; false at the list's end, or if it is
 * longer. */
static bool take_word(const char **from, char word[24])
{
    size_t length = strcspn(*from, ":");
    if (**from == '\0' || length >= 24)
        return false;
    memcpy(word, *from, length);
    word[length] = '\0';
    *from += length + ((*from)[length] == ':' && (*from)[length + 1] != '\0');
    return true;
}

static int read_local_steps(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    local_settings *local = &((train_options *)values)->local;
    uint64_t steps = 0;
    double rate = NAN;
    char word[24];
    const char *from = text;
    int error = take_word(&from, word) ? parse_whole(word, 1, MOST_STEPS, &steps, diagnostic)
                                       : TARRY_ERROR_FORMAT;
    if (error == TARRY_OK && take_word(&from, word))
        error = parse_real(word, 0, 1e9, true, &rate, diagnostic);
    if (error == TARRY_OK && *from != '\0')
        error = TARRY_ERROR_FORMAT;
    if (error != TARRY_OK)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "'%s' is not H or H:RATE: 1 to %d steps, and a rate above 0", text,
                        MOST_STEPS);
    *local = (local_settings){.steps = (uint32_t)steps, .inner.rate = rate};
    return TARRY_OK;
}

static const option_choice models[] = {
    {"least-squares", MODEL_LEAST_SQUARES},
    {"logistic", MODEL_LOGISTIC},
    {"softmax", MODEL_SOFTMAX},
    {"perceptron", MODEL_PERCEPTRON},
    {"mlp", MODEL_PERCEPTRON},
    {NULL, 0},
};

static const option_choice optimizers[] = {
    {"gd", OPTIMIZER_GD},
    {"momentum", OPTIMIZER_MOMENTUM},
    {"nesterov", OPTIMIZER_NESTEROV},
    {"adam", OPTIMIZER_ADAM},
    {NULL, 0},
};

/* DiLoCo's; gd is FedAvg's. */
static const double outer_rate = 0.7;

static int read_outer(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    optimizer_settings step = {.rate = outer_rate, .decay = OPTIMIZER_USUAL_DECAY};
    char word[24];
    const char *from = text;
    const option_choice *kind = optimizers;
    int error = take_word(&from, word) ? TARRY_OK : TARRY_ERROR_FORMAT;
    while (error == TARRY_OK && kind->name != NULL && strcmp(kind->name, word) != 0)
        kind++;
    if (error != TARRY_OK || kind->name == NULL || kind->value == OPTIMIZER_ADAM)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is not gd, momentum or nesterov",
                        text);
    step.kind = (optimizer_kind)kind->value;
    const bool descends = step.kind == OPTIMIZER_GD;
    step.rate = descends ? 1 : step.rate;
    if (take_word(&from, word))
        error = parse_real(word, 0, 1e9, true, &step.rate, diagnostic);
    if (error == TARRY_OK && !descends && take_word(&from, word))
        error = parse_real(word, 0, 0.999999, false, &step.decay, diagnostic);
    if (error != TARRY_OK || *from != '\0')
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "'%s' is not gd:RATE, momentum:RATE:DECAY or nesterov:RATE:DECAY: a rate "
                        "above 0, a decay of 0 to 0.999999",
                        text);
    ((train_options *)values)->step = step;
    return TARRY_OK;
}

#define FIELD(name) .offset = offsetof(train_options, name)

static const option_entry data_entries[] = {
    {.name = "test",
     .argument = "FILE",
     .help = "Test samples, which are not trained on",
     .kind = OPTION_TEXT,
     FIELD(test)},
    {.name = "test-labels",
     .argument = "FILE",
     .help = "Labels of an IDX file of test samples",
     .kind = OPTION_TEXT,
     FIELD(test_labels)},
    {.name = "holdout",
     .argument = "FRACTION",
     .help = "Share of the samples to hold out as a test (default 0.2 without --data, else 0)",
     .kind = OPTION_REAL,
     .high = 0.99,
     FIELD(holdout)},
    {.name = "samples",
     .argument = "N",
     .help = "Samples of the synthetic data set (default 20000)",
     .kind = OPTION_U64,
     .least = 2,
     .most = 1000000000,
     FIELD(samples)},
    {.name = "features",
     .argument = "N",
     .help = "Features of the synthetic data set (default 100)",
     .kind = OPTION_U32,
     .least = 1,
     .most = 10000000,
     FIELD(features)},
    {.name = "classes",
     .argument = "N",
     .help = "Classes of the synthetic data set for softmax and perceptron (default 10)",
     .kind = OPTION_U32,
     .least = 2,
     .most = 1000000,
     FIELD(classes)},
};

static const option_entry model_entries[] = {
    {.name = "model",
     .argument = "MODEL",
     .help = "least-squares, logistic (default), softmax or perceptron (or mlp)",
     .kind = OPTION_CHOICE,
     .choices = models,
     FIELD(model)},
    {.name = "hidden",
     .argument = "N,N...",
     .help = "Widths of the perceptron's hidden layers (default 64)",
     .kind = OPTION_TEXT,
     .read = read_hidden,
     FIELD(hidden)},
    {.name = "intercept",
     .help = "Add a bias per output to a linear model",
     .kind = OPTION_FLAG,
     FIELD(intercept)},
    {.name = "l2",
     .argument = "X",
     .help = "Weight of the l2 term (default 1e-4)",
     .kind = OPTION_REAL,
     .high = 1e9,
     FIELD(l2)},
    {.name = "optimizer",
     .argument = "NAME",
     .help = "gd (default), momentum, nesterov or adam",
     .kind = OPTION_CHOICE,
     .choices = optimizers,
     FIELD(optimizer)},
    {.name = "rate",
     .argument = "X",
     .help = "Learning rate (default 0.5; 0.01 for adam)",
     .kind = OPTION_REAL,
     .high = 1e9,
     .open = true,
     FIELD(rate)},
    {.name = "batch",
     .argument = "N",
     .help = "Samples per round, drawn anew over all chunks (default: all samples)",
     .kind = OPTION_U64,
     .least = 1,
     .most = 1000000000000,
     FIELD(batch)},
    {.name = "local-steps",
     .argument = "H[:RATE]",
     .help = "A chunk stands for its change after H steps of --optimizer (with that --rate) on its "
             "samples, or on its draws of --batch, in place of its gradient",
     .kind = OPTION_TEXT,
     .read = read_local_steps,
     FIELD(local_steps)},
    {.name = "outer",
     .argument = "NAME[:RATE[:DECAY]]",
     .help = "Steps along the mean change: nesterov (default, 0.7, 0.9: DiLoCo), momentum, or gd "
             "(1: FedAvg)",
     .kind = OPTION_TEXT,
     .read = read_outer,
     FIELD(outer)},
    {.name = "rounds",
     .argument = "N",
     .help = "Rounds, each one step of the optimizer, or of --outer (default 100)",
     .kind = OPTION_U64,
     .least = 1,
     .most = MOST_ROUNDS,
     FIELD(rounds)},
};

static int read_dp(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    train_options *options = values;
    tarry_dp_terms_init(&options->privacy);
    int error = tarry_dp_terms_read(text, &options->privacy, diagnostic);
    if (error == TARRY_OK)
        options->run.settings.noised = true;
    return error;
}

static const option_entry dp_entries[] = {
    {.name = "dp",
     .argument = "clip:C,noise:SIGMA,sample:Q",
     .help = "Train with differential privacy, by exact sums over workers that are trusted: each "
             "sample's gradient is at most C long and in a round with probability Q, and sums get "
             "noise of SIGMA times C. Behind it delta:D (default 1e-5) and budget:EPS, an epsilon "
             "at which the training ends; seed:N for tests, of which nothing is private",
     .kind = OPTION_TEXT,
     .read = read_dp,
     FIELD(dp)},
};

static const option_entry run_entries[] = {
    {.name = "straggler",
     .argument = "SPEC",
     .help = "Make workers slow or dead: terms joined by '+' of none, exp:MEAN, "
             "shifted-exp:SHIFT,MEAN, pareto:SCALE,SHAPE, weibull:SCALE,SHAPE, slow:K,FACTOR, "
             "slow:K,LOW-HIGH, markov:P_SLOW,P_RECOVER,FACTOR, rack:K,FACTOR[,P], dead:K, "
             "jitter:SD, trace:FILE or trace:FILE/chunk; a distribution or jitter may end in "
             "/chunk or /run, see tarry-train(1). Not for tarry serve: each tarry work has its "
             "own (default none)",
     .kind = OPTION_TEXT,
     FIELD(straggler)},
    {.name = "verify",
     .help =
         "Compare every round with its gradients summed serially, and these with ones in double",
     .kind = OPTION_FLAG,
     FIELD(verify)},
    {.name = "fail-on-divergence",
     .help = "End with status 1 if the loss is higher than at the beginning",
     .kind = OPTION_FLAG,
     FIELD(fail_on_divergence)},
};

static const option_entry checkpoint_entries[] = {
    {.name = "checkpoint",
     .argument = "FILE",
     .help = "Keep what it takes to go on with the run in FILE, and the state before that in "
             "FILE.previous",
     .kind = OPTION_TEXT,
     FIELD(checkpoint)},
    {.name = "checkpoint-every",
     .argument = "K",
     .help = "Write the checkpoint every K rounds, and when the run ends (default 10)",
     .kind = OPTION_U64,
     .least = 1,
     .most = MOST_ROUNDS,
     FIELD(checkpoint_every)},
    {.name = "resume",
     .help = "Go on from the checkpoint; --rounds counts from the run's beginning",
     .kind = OPTION_FLAG,
     FIELD(resume)},
};

static const option_entry output_entries[] = {
    {.name = "evaluate",
     .argument = "K",
     .help = "Work out the loss every K rounds, and at the end (default 1)",
     .kind = OPTION_U64,
     .least = 1,
     .most = MOST_ROUNDS,
     FIELD(evaluate)},
    {.name = "report",
     .argument = "FILE.json",
     .help = "Write all figures of the run as JSON",
     .kind = OPTION_TEXT,
     FIELD(report)},
    {.name = "save",
     .argument = "FILE.npy",
     .help = "Write the final parameters as a NumPy array",
     .kind = OPTION_TEXT,
     FIELD(save)},
    {.name = "quiet", .help = "Print nothing but errors", .kind = OPTION_FLAG, FIELD(quiet)},
};

void train_options_init(train_options *options)
{
    *options = (train_options){
        .holdout = NAN,
        .model = MODEL_LOGISTIC,
        .l2 = 1e-4,
        .rate = NAN,
        .rounds = 100,
        .straggler = "none",
        .checkpoint_every = 10,
        .evaluate = 1,
    };
    run_options_init(&options->run);
    secure_options_init(&options->secure);
}

static void note_model(void *values, const char *name)
{
    train_options *options = values;
    options->model_given = options->model_given || strcmp(name, "model") == 0;
}

static void note_dp(void *values, const char *name)
{
    run_options_note(&((train_options *)values)->run, name);
}

option_group train_options_dp_group(train_options *options)
{
    option_group group = OPTION_GROUP("Privacy", dp_entries, options);
    group.note = note_dp;
    return group;
}

void train_options_groups(train_options *options, option_group groups[TRAIN_GROUPS])
{
    groups[0] = data_options_group(&options->source);
    groups[1] = OPTION_GROUP(NULL, data_entries, options);
    groups[2] = OPTION_GROUP("Model and optimizer", model_entries, options);
    groups[2].note = note_model;
    run_options_groups(&options->run, groups + 3);
    option_group *more = groups + 3 + RUN_GROUPS;
    more[0] = OPTION_GROUP(NULL, run_entries, options);
    more[1] = run_options_group(RUN_LIMITS, NULL, &options->run);
    more[2] = OPTION_GROUP("Checkpoints", checkpoint_entries, options);
    more[3] = OPTION_GROUP("Output", output_entries, options);
}

/* Samples that the workers have, and nobody else. */
static int check_elsewhere(train_options *options)
{
    const char *given = options->source.path != NULL          ? "data"
                        : options->source.labels_path != NULL ? "labels"
                        : options->samples != 0               ? "samples"
                        : options->features != 0              ? "features"
                        : options->classes != 0               ? "classes"
                                                              : NULL;
    if (given != NULL)
        return complain(EXIT_USAGE, "--secure-data: cannot be combined with --%s", given);
    if (options->test_labels != NULL && options->test == NULL)
        return complain(EXIT_USAGE, "--test-labels: has no meaning without --test");
    const bool classes = objective_labels(options->model) == LABEL_CLASS;
    if (classes != (options->secure.data.classes > 0))
        return complain(EXIT_USAGE, "--secure-data: --model %s needs %s",
                        train_model_name(options->model), classes ? "classes:C" : "no classes");
    options->holdout = isnan(options->holdout) ? 0 : options->holdout;
    return OPTIONS_PROCEED;
}

static int check_data(train_options *options)
{
    if (options->secure.data_text != NULL)
        return check_elsewhere(options);
    if (options->source.path == NULL) {
        const char *needs_data = options->source.labels_path != NULL ? "labels"
                                 : options->test != NULL             ? "test"
                                 : options->test_labels != NULL      ? "test-labels"
                                                                     : NULL;
        if (needs_data != NULL)
            return complain(EXIT_USAGE, "--%s: has no meaning without --data", needs_data);
        options->samples = options->samples != 0 ? options->samples : 20000;
        options->features = options->features != 0 ? options->features : 100;
        bool classes = objective_labels(options->model) == LABEL_CLASS;
        if (!classes && options->classes != 0)
            return complain(EXIT_USAGE, "--classes: has no meaning with --model %s",
                            train_model_name(options->model));
        if (classes && options->classes == 0)
            options->classes = 10;
        options->holdout = isnan(options->holdout) ? 0.2 : options->holdout;
        return OPTIONS_PROCEED;
    }
    const char *synthetic = options->samples != 0    ? "samples"
                            : options->features != 0 ? "features"
                            : options->classes != 0  ? "classes"
                                                     : NULL;
    if (synthetic != NULL)
        return complain(EXIT_USAGE, "--%s: describes synthetic data, but --data is given",
                        synthetic);
    if (options->test_labels != NULL && options->test == NULL)
        return complain(EXIT_USAGE, "--test-labels: has no meaning without --test");
    if (options->test != NULL && !isnan(options->holdout))
        return complain(EXIT_USAGE, "--holdout: cannot be combined with --test");
    options->holdout = isnan(options->holdout) ? 0 : options->holdout;
    return OPTIONS_PROCEED;
}

/* A model that was left open is one that the options for models are of. */
static int settle_model(train_options *options)
{
    if (!options->model_given && options->hidden != NULL)
        options->model = MODEL_PERCEPTRON;
    else if (!options->model_given && options->classes != 0)
        options->model = MODEL_SOFTMAX;
    if (options->model == MODEL_PERCEPTRON && options->hidden == NULL) {
        options->hidden = "64";
        options->hidden_widths[0] = 64;
        options->hidden_layers = 1;
    }
    if (options->model != MODEL_PERCEPTRON && options->hidden != NULL)
        return complain(EXIT_USAGE, "--hidden: has no meaning with --model %s",
                        train_model_name(options->model));
    return OPTIONS_PROCEED;
}

/* Who steps with what: the optimizer of the options between rounds, or within them. */
static int settle_steps(train_options *options)
{
    const bool stays = options->local.steps == 0;
    const bool said_there = !stays && !isnan(options->local.inner.rate);
    if (stays && options->outer != NULL)
        return complain(EXIT_USAGE, "--outer: has no meaning without --local-steps");
    if (said_there && !isnan(options->rate))
        return complain(EXIT_USAGE, "--rate: the rate is in --local-steps %s, too",
                        options->local_steps);
    if (said_there)
        options->rate = options->local.inner.rate;
    if (isnan(options->rate))
        options->rate = options->optimizer == OPTIMIZER_ADAM ? 0.01 : 0.5;
    const optimizer_settings said = {options->optimizer, options->rate, OPTIMIZER_USUAL_DECAY};
    if (stays) {
        options->step = said;
        return OPTIONS_PROCEED;
    }
    if (options->run.adapt_rule.every != 0)
        return complain(EXIT_USAGE, "--adapt: plans that follow cut chunks, and local steps on a "
                                    "part of a chunk are no part of those on the whole");
    if (options->outer == NULL)
        options->step = (optimizer_settings){OPTIMIZER_NESTEROV, outer_rate, OPTIMIZER_USUAL_DECAY};
    options->local.inner = said;
    return OPTIONS_PROCEED;
}

/* Makes pieces and chunks that were left open so few that each has a sample of so many; false if
 * there are still more. */
static bool train_options_fit(train_options *options, uint64_t samples)
{
    run_options *run = &options->run;
    tarry_plan_settings *plan = &run->settings.plan;
    if (!run_options_given(run, TARRY_SETTING_PIECES) && run_options_units(run) > samples)
        plan->pieces = samples > plan->chunks ? (uint32_t)(samples / plan->chunks) : 1;
    if (!run_options_given(run, TARRY_SETTING_CHUNKS) && plan->design != TARRY_DESIGN_FILE &&
        run_options_units(run) > samples && samples >= plan->pieces)
        plan->chunks = (uint32_t)(samples / plan->pieces);
    return run_options_units(run) <= samples;
}

static int check_rounds(train_options *options)
{
    int status = run_options_settle(&options->run);
    if (status != OPTIONS_PROCEED || options->batch == 0 ||
        train_options_fit(options, options->batch))
        return status;
    return complain(EXIT_USAGE, "--batch: %llu is less than one sample for each of %llu %s (--%s)",
                    (unsigned long long)options->batch,
                    (unsigned long long)run_options_units(&options->run),
                    run_unit_name(&options->run), run_unit_name(&options->run));
}

/* What would tell of examples beside the noise, or has no sum to which it could be added. */
static int check_dp(const train_options *options)
{
    const struct {
        bool given;
        const char *flag, *why;
    } others[] = {
        {options->batch != 0, "batch", "sample:Q says how many samples a round has"},
        {options->local.steps != 0, "local-steps", "a chunk's change is bounded by no example"},
        {options->verify, "verify", "errors are told of sums without noise"},
    };
    for (size_t i = 0; options->dp != NULL && i < sizeof(others) / sizeof(others[0]); i++)
        if (others[i].given)
            return complain(EXIT_USAGE, "--dp: cannot be combined with --%s: %s", others[i].flag,
                            others[i].why);
    return OPTIONS_PROCEED;
}

/* What would tell of workers beside the sum, or has it over other samples than all. */
static int check_secure(train_options *options)
{
    const secure_options *secure = &options->secure;
    const bool elsewhere = secure->data_text != NULL;
    const struct {
        bool given;
        const char *flag, *why;
    } others[] = {
        {options->batch != 0, "batch", "sums over batches can be solved for single samples"},
        {options->local.steps != 0, "local-steps", "sums are of gradients"},
        {elsewhere && options->verify, "verify", "the server has no samples"},
        {elsewhere && options->holdout > 0, "holdout", "the server has no samples: give it --test"},
    };
    for (size_t i = 0; secure->secure && i < sizeof(others) / sizeof(others[0]); i++)
        if (others[i].given)
            return complain(EXIT_USAGE, "--secure: cannot be combined with --%s: %s",
                            others[i].flag, others[i].why);
    return secure_options_check(secure);
}

static int check_outputs(const train_options *options)
{
    const char *const names[] = {"checkpoint", "report", "save"};
    const char *const paths[] = {options->checkpoint, options->report, options->save};
    if (options->resume && options->checkpoint == NULL)
        return complain(EXIT_USAGE, "--resume: needs --checkpoint, to go on from");
    for (size_t i = 1; i < sizeof(paths) / sizeof(paths[0]); i++) {
        for (size_t k = 0; k < i; k++) {
            if (paths[i] != NULL && paths[k] != NULL && strcmp(paths[i], paths[k]) == 0)
                return complain(EXIT_USAGE, "--%s: %s is the file of --%s too", names[i], paths[i],
                                names[k]);
        }
    }
    return OPTIONS_PROCEED;
}

int train_options_check(train_options *options)
{
    options->run.settings.server.secure =
        options->secure.secure ? (uint32_t)options->secure.bits : 0;
    int status = settle_model(options);
    if (status == OPTIONS_PROCEED)
        status = check_data(options);
    if (status == OPTIONS_PROCEED)
        status = check_rounds(options);
    if (status == OPTIONS_PROCEED)
        status = settle_steps(options);
    if (status == OPTIONS_PROCEED)
        status = check_dp(options);
    if (status == OPTIONS_PROCEED)
        status = check_secure(options);
    if (status == OPTIONS_PROCEED)
        status = check_outputs(options);
    return status;
}

const char *train_model_name(model_kind model)
{
    return option_choice_name(models, (int)model);
}

/* ---- data ---- */

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
    return dataset_read(&source, NULL, out, why);
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

/* ---- where ---- */

static const option_choice engines[] = {
    {"direct", TRAIN_DIRECT},
    {"mpi", TRAIN_MPI},
    {"mpi-only", TRAIN_MPI_ONLY},
    {NULL, 0},
};

static const option_entry where_entries[] = {
    {.name = "processes",
     .help = "Let every worker be a process of its own on this machine (default: threads)",
     .kind = OPTION_FLAG,
     .offset = offsetof(train_where, processes)},
    {.name = "engine",
     .argument = "NAME",
     .help = "What carries sums among workers: Tarry's own (direct, the default), or MPI, whose "
             "ranks are the workers then: run it by mpirun or srun (mpi; mpi-only: not through "
             "shared memory where all ranks are on one machine). See tarry-train(1)",
     .kind = OPTION_CHOICE,
     .choices = engines,
     .offset = offsetof(train_where, engine)},
};

option_group train_where_group(train_where *where)
{
    return OPTION_GROUP("Workers", where_entries, where);
}
