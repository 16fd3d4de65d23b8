/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/train_options.h"

#include <math.h>
#include <string.h>

#include "base/diagnostic.h"
#include "cli/options/keep.h"
#include "cli/options/parse.h"
#include "cli/options/stop_rule.h"
#include "cli/output/gnuplot.h"
#include "cli/text/complain.h"

#define MOST_ROUNDS 100000000
#define MOST_WIDTH 1000000

static int read_stop(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    return stop_rule_read(text, &((train_options *)values)->server, diagnostic);
}

static int read_hidden(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    train_options *options = values;
    uint32_t widths[OBJECTIVE_MAX_HIDDEN];
    uint32_t layers = 0;
    for (const char *start = text;; layers++) {
        char width[16];
        size_t length = strcspn(start, ",");
        if (layers == OBJECTIVE_MAX_HIDDEN)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "more than %d layers",
                            OBJECTIVE_MAX_HIDDEN);
        if (length >= sizeof(width))
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is not a list of widths", text);
        memcpy(width, start, length);
        width[length] = '\0';
        uint64_t number;
        int error = parse_whole(width, 1, MOST_WIDTH, &number, diagnostic);
        if (error != TARRY_OK)
            return error;
        widths[layers] = (uint32_t)number;
        if (start[length] == '\0')
            break;
        start += length + 1;
    }
    memcpy(options->hidden_widths, widths, sizeof(widths));
    options->hidden_layers = layers + 1;
    return TARRY_OK;
}

static const option_choice formats[] = {
    {"auto", DATASET_AUTO},
    {"libsvm", DATASET_LIBSVM},
    {"csv", DATASET_CSV},
    {"idx", DATASET_IDX},
    {NULL, 0},
};

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

static const option_choice credits[] = {
    {"chunk", TARRY_CREDIT_CHUNK},
    {"whole", TARRY_CREDIT_WHOLE},
    {NULL, 0},
};

static const option_choice fills[] = {
    {"none", TARRY_FILL_NONE},
    {"scale", TARRY_FILL_SCALE},
    {"stale", TARRY_FILL_STALE},
    {NULL, 0},
};

#define FIELD(name) .offset = offsetof(train_options, name)

static const option_entry data_entries[] = {
    {.name = "data",
     .argument = "FILE",
     .help = "Training samples, gzip or plain (default: a synthetic data set)",
     .kind = OPTION_TEXT,
     FIELD(data)},
    {.name = "labels",
     .argument = "FILE",
     .help = "Labels of an IDX file (default: the name of --data with labels-idx1)",
     .kind = OPTION_TEXT,
     FIELD(labels)},
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
    {.name = "format",
     .argument = "FORMAT",
     .help = "auto (default), libsvm, csv or idx",
     .kind = OPTION_CHOICE,
     .choices = formats,
     FIELD(format)},
    {.name = "label-column",
     .argument = "N",
     .help = "CSV column of the label, from 0; negative counts from the end (default -1)",
     .kind = OPTION_INT,
     FIELD(label_column)},
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
    {.name = "rounds",
     .argument = "N",
     .help = "Rounds, each one step of the optimizer (default 100)",
     .kind = OPTION_U64,
     .least = 1,
     .most = MOST_ROUNDS,
     FIELD(rounds)},
};

static int read_adapt(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    return adapt_read(text, &((train_options *)values)->adapt_rule, diagnostic);
}

static int read_ahead(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    return keep_read_ahead(text, &((train_options *)values)->server.ahead, diagnostic);
}

static const option_entry protocol_entries[] = {
    {.name = "credit",
     .argument = "CREDIT",
     .help = "What counts: each finished chunk (chunk, default) or a worker that finished all of "
             "its chunks (whole)",
     .kind = OPTION_CHOICE,
     .choices = credits,
     FIELD(server.credit)},
    {.name = "keep",
     .argument = "WHICH",
     .help = "Finished gradients that a worker keeps until the sum: all, or a running sum of those "
             "that are credited, and few gradients at any number of chunks (credited; with one "
             "part); auto (default): credited where all take more than a quarter of the memory",
     .kind = OPTION_CHOICE,
     .choices = keep_choices_or_auto,
     FIELD(keep)},
    {.name = "ahead",
     .argument = "N",
     .help = "With credited: finished gradients that may wait for the server's answer while a "
             "worker computes the next (default auto: 3, or, where --keep auto chose credited, as "
             "many as a quarter of the memory holds)",
     .kind = OPTION_TEXT,
     .read = read_ahead,
     FIELD(ahead)},
    {.name = "stop",
     .argument = "RULE",
     .help = "When a round ends: exact (default), deadline:SECONDS, error:EPS or workers:K",
     .kind = OPTION_TEXT,
     .read = read_stop,
     FIELD(stop)},
    {.name = "fill",
     .argument = "HOW",
     .help = "What stands in for the chunks that the stop rule leaves missing: nothing (none, "
             "default), the average of the others (scale) or their gradient of the round before "
             "(stale)",
     .kind = OPTION_CHOICE,
     .choices = fills,
     FIELD(server.fill)},
    {.name = "chunk-cost",
     .argument = "SPEC",
     .help = "What a dynamic order takes chunks to cost: learned over the rounds (learned, "
             "default), all the same (equal), or given, by the steps of a trace (trace:FILE)",
     .kind = OPTION_TEXT,
     FIELD(chunk_cost)},
    {.name = "adapt",
     .argument = "K[,SHARE]",
     .help = "With a dynamic order, let the plan follow every K rounds what was learned: up to "
             "SHARE (default 0.01) of all copies move to faster workers, heavy chunks are split "
             "and light ones merged (default 0: it stays)",
     .kind = OPTION_TEXT,
     .read = read_adapt,
     FIELD(adapt)},
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
    {.name = "reproducible",
     .help = "Sum in the order of workers, so that a run repeats to the bit",
     .kind = OPTION_FLAG,
     FIELD(server.reproducible)},
    {.name = "verify",
     .help =
         "Compare every round with its gradients summed serially, and these with ones in double",
     .kind = OPTION_FLAG,
     FIELD(verify)},
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
    {.name = "plot",
     .argument = "FILE",
     .help = "Draw loss, round times and workers to FILE.svg or FILE.png",
     .kind = OPTION_TEXT,
     FIELD(plot)},
    {.name = "save",
     .argument = "FILE.npy",
     .help = "Write the final parameters as a NumPy array",
     .kind = OPTION_TEXT,
     FIELD(save)},
    {.name = "quiet", .help = "Print nothing but errors", .kind = OPTION_FLAG, FIELD(quiet)},
};

#define COUNT(entries) (sizeof(entries) / sizeof((entries)[0]))

void train_options_init(train_options *options)
{
    *options = (train_options){
        .holdout = NAN,
        .label_column = -1,
        .model = MODEL_LOGISTIC,
        .l2 = 1e-4,
        .rate = NAN,
        .rounds = 100,
        .keep = KEEP_AUTO,
        .ahead = "auto",
        .stop = "exact",
        .straggler = "none",
        .chunk_cost = "learned",
        .checkpoint_every = 10,
        .evaluate = 1,
    };
    plan_options_init(&options->plan);
    tarry_server_settings_init(&options->server);
    options->server.ahead = KEEP_AHEAD_AUTO;
}

void train_options_groups(train_options *options, option_group groups[TRAIN_GROUPS])
{
    groups[0] = (option_group){"Data", data_entries, COUNT(data_entries), options};
    groups[1] = (option_group){"Model and optimizer", model_entries, COUNT(model_entries), options};
    groups[2] = (option_group){"The plan", plan_option_entries, plan_option_count, &options->plan};
    groups[3] = (option_group){"Rounds", protocol_entries, COUNT(protocol_entries), options};
    groups[4] =
        (option_group){"Checkpoints", checkpoint_entries, COUNT(checkpoint_entries), options};
    groups[5] = (option_group){"Output", output_entries, COUNT(output_entries), options};
}

static int check_data(train_options *options)
{
    if (options->data == NULL) {
        const char *needs_data = options->labels != NULL        ? "labels"
                                 : options->test != NULL        ? "test"
                                 : options->test_labels != NULL ? "test-labels"
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

static int check_rounds(const train_options *options)
{
    uint32_t workers = options->plan.plan.workers;
    uint64_t units = plan_options_units(&options->plan);
    if (options->batch != 0 && options->batch < units)
        return complain(EXIT_USAGE, "--batch: %llu is less than one sample for each of %llu %s",
                        (unsigned long long)options->batch, (unsigned long long)units,
                        plan_unit_name(&options->plan));
    if (options->server.stop == TARRY_STOP_WORKERS && options->server.workers_needed > workers)
        return complain(EXIT_USAGE, "--stop: workers:%u is more than the %u workers",
                        options->server.workers_needed, workers);
    if (options->plan.pick == TARRY_PICK_PLAN && strcmp(options->chunk_cost, "learned") != 0)
        return complain(EXIT_USAGE, "--chunk-cost: has no meaning without --order dynamic");
    if (options->adapt_rule.every != 0 && options->plan.pick == TARRY_PICK_PLAN)
        return complain(EXIT_USAGE,
                        "--adapt: needs --order dynamic, which learns the workers' speeds");
    if (options->plan.pick != TARRY_PICK_PLAN) {
        const char *other = options->server.credit == TARRY_CREDIT_WHOLE ? "--credit whole"
                            : options->server.stop == TARRY_STOP_WORKERS ? "--stop workers"
                            : options->server.reproducible               ? "--reproducible"
                                                                         : NULL;
        if (other != NULL)
            return complain(EXIT_USAGE, "--order: %s cannot be combined with %s",
                            options->plan.order, other);
    }
    if (options->plan.plan.adaptive_parts) {
        const char *other = options->server.credit == TARRY_CREDIT_WHOLE ? "--credit whole"
                            : options->server.stop == TARRY_STOP_WORKERS ? "--stop workers"
                            : options->server.fill != TARRY_FILL_NONE    ? "--fill"
                                                                         : NULL;
        if (other != NULL)
            return complain(EXIT_USAGE, "--parts: %s cannot be combined with %s",
                            options->plan.parts, other);
    }
    if (options->server.stop == TARRY_STOP_DEADLINE && options->server.reproducible)
        return complain(EXIT_USAGE, "--reproducible: cannot be combined with --stop deadline");
    const char *obstacle = keep_obstacle(options->plan.plan.parts, &options->server);
    if (options->keep == TARRY_KEEP_CREDITED && obstacle != NULL)
        return complain(EXIT_USAGE, "--keep: credited cannot be combined with --%s%s", obstacle,
                        strcmp(obstacle, "parts") == 0    ? " above 1"
                        : strcmp(obstacle, "credit") == 0 ? " whole"
                        : strcmp(obstacle, "fill") == 0   ? " stale"
                                                          : "");
    if (options->server.stop == TARRY_STOP_EXACT && options->server.fill != TARRY_FILL_NONE)
        return complain(EXIT_USAGE, "--fill: has no meaning with --stop exact");
    return OPTIONS_PROCEED;
}

static int check_outputs(const train_options *options)
{
    const char *const names[] = {"checkpoint", "report", "plot", "save"};
    const char *const paths[] = {options->checkpoint, options->report, options->plot,
                                 options->save};
    if (options->resume && options->checkpoint == NULL)
        return complain(EXIT_USAGE, "--resume: needs --checkpoint, to go on from");
    for (size_t i = 1; i < COUNT(paths); i++) {
        for (size_t k = 0; k < i; k++) {
            if (paths[i] != NULL && paths[k] != NULL && strcmp(paths[i], paths[k]) == 0)
                return complain(EXIT_USAGE, "--%s: %s is the file of --%s too", names[i], paths[i],
                                names[k]);
        }
    }
    if (options->plot != NULL && !gnuplot_draws(options->plot))
        return complain(EXIT_USAGE, "--plot: %s ends neither in .svg nor in .png", options->plot);
    return OPTIONS_PROCEED;
}

int train_options_check(train_options *options)
{
    int status = check_data(options);
    if (status == OPTIONS_PROCEED)
        status = check_rounds(options);
    if (status == OPTIONS_PROCEED)
        status = check_outputs(options);
    if (status != OPTIONS_PROCEED)
        return status;
    if (options->model == MODEL_PERCEPTRON && options->hidden == NULL) {
        options->hidden = "64";
        options->hidden_widths[0] = 64;
        options->hidden_layers = 1;
    }
    if (options->model != MODEL_PERCEPTRON && options->hidden != NULL)
        return complain(EXIT_USAGE, "--hidden: has no meaning with --model %s",
                        train_model_name(options->model));
    if (isnan(options->rate))
        options->rate = options->optimizer == OPTIMIZER_ADAM ? 0.01 : 0.5;
    return OPTIONS_PROCEED;
}

const char *train_model_name(model_kind model)
{
    return option_choice_name(models, (int)model);
}

const char *train_format_name(dataset_format format)
{
    return option_choice_name(formats, (int)format);
}
