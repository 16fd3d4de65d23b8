/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/train_pilot.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "cli/text/complain.h"
#include "cli/train/train_options.h"
#include "cli/train/train_run.h"

enum { GROUPS = TRAIN_GROUPS + 3 };

/* A small one that takes a second: `config` of train_pilot without a file. */
static const struct {
    const char *name, *value;
} synthetic[] = {
    {"model", "perceptron"}, {"samples", "4000"}, {"holdout", "0"},     {"batch", "512"},
    {"optimizer", "adam"},   {"rate", "0.01"},    {"rounds", "100"},    {"chunks", "8"},
    {"pieces", "1"},         {"workers", "8"},    {"replication", "2"}, {"seed", "1"},
};

typedef struct pilot {
    train_options options;
    train_where where;
    option_group groups[GROUPS];
} pilot;

static void pilot_init(pilot *own)
{
    train_options_init(&own->options);
    own->where = (train_where){false, TRAIN_DIRECT};
    train_options_groups(&own->options, own->groups);
    own->groups[TRAIN_GROUPS] = train_where_group(&own->where);
    own->groups[TRAIN_GROUPS + 1] = train_options_dp_group(&own->options);
    own->groups[TRAIN_GROUPS + 2] = secure_options_group(&own->options.secure, false);
}

static int set(pilot *own, const char *name, const char *value)
{
    tarry_diagnostic why;
    if (option_set(own->groups, GROUPS, name, value, &why) == TARRY_OK)
        return OPTIONS_PROCEED;
    return complain(EXIT_USAGE, "--pilot: %s = %s: %s", name, value, why.text);
}

static int set_number(pilot *own, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRIu64, value);
    return set(own, name, text);
}

/* The job as its file has it. */
static int read_job(pilot *own, const option_command *command, const char *job, config_file **file)
{
    if (strcmp(job, PILOT_SYNTHETIC) != 0) {
        char *words[] = {"train", "--config", (char *)job, NULL};
        return options_parse(command, 3, words, file);
    }
    int status = OPTIONS_PROCEED;
    for (size_t i = 0; i < sizeof(synthetic) / sizeof(synthetic[0]) && status == OPTIONS_PROCEED;
         i++)
        status = set(own, synthetic[i].name, synthetic[i].value);
    return status;
}

/* What a pilot has no losses of, or no losses that repeat. */
static int check_job(const train_options *options)
{
    const char *flag = options->dp != NULL                                           ? "dp"
                       : options->secure.secure || options->secure.data_text != NULL ? "secure"
                                                                                     : NULL;
    if (flag != NULL)
        return complain(EXIT_USAGE, "--pilot: a job with --%s tells no losses", flag);
    if (options->run.settings.server.stop != TARRY_STOP_EXACT)
        return complain(EXIT_USAGE, "--pilot: a job with --stop %s does not repeat",
                        options->run.stop);
    return OPTIONS_PROCEED;
}

static int change_steps(pilot *own, const char *steps)
{
    train_options *options = &own->options;
    options->local_steps = NULL;
    options->local = (local_settings){.steps = 0};
    if (strcmp(steps, "none") == 0) {
        options->outer = NULL;
        return OPTIONS_PROCEED;
    }
    int status = set(own, "local-steps", steps);
    if (status == OPTIONS_PROCEED && !isnan(options->local.inner.rate))
        options->rate = NAN;
    return status;
}

static int apply(pilot *own, const pilot_change *change)
{
    train_options *options = &own->options;
    options->straggler = "none";
    options->quiet = true;
    options->verify = options->resume = false;
    options->checkpoint = options->report = options->plot = options->save = NULL;
    options->evaluate = 1;
    options->local_seconds = NAN;
    int status = set(own, "sum", "server");
    if (status == OPTIONS_PROCEED)
        status = set(own, "reproducible", "true");
    if (status == OPTIONS_PROCEED)
        status = set(own, "compress", change->compress);
    if (status == OPTIONS_PROCEED)
        status = set(own, "compress-down", change->down);
    if (status == OPTIONS_PROCEED)
        status = set(own, "parts", "1"); /* others give the same sums */
    if (status == OPTIONS_PROCEED)
        status = change_steps(own, change->local_steps);
    if (status == OPTIONS_PROCEED && change->rounds > 0)
        status = set_number(own, "rounds", change->rounds);
    if (status == OPTIONS_PROCEED)
        status = set_number(own, "seed", options->run.settings.plan.seed + change->seed_more);
    return status;
}

/* A history_visit. */
static int take_loss(void *user, const history_round *round, objective_score train,
                     objective_score test)
{
    double **next = user;
    (void)round;
    (void)test;
    *(*next)++ = train.loss;
    return TARRY_OK;
}

/* Of a training that is over. */
static int take_losses(void *user, const history *past)
{
    pilot_losses *out = user;
    out->diverged = past->error[0] != '\0' && !past->interrupted && !isfinite(past->train_end.loss);
    if (past->error[0] != '\0' && !out->diverged)
        return complain(EXIT_FAILED, "--pilot: %s", past->error);
    out->after = memory_allocate(NULL, out->rounds + 1, sizeof(*out->after));
    if (out->after == NULL)
        return complain(EXIT_FAILED, "plan: out of memory");
    tarry_diagnostic why;
    double *next = out->after;
    *next++ = history_train_begin(past).loss;
    if (history_each(past, take_loss, &next, &why) != TARRY_OK)
        return complain(EXIT_FAILED, "--pilot: %s", why.text);
    while (next <= out->after + out->rounds)
        *next++ = NAN;
    return EXIT_DONE;
}

int train_pilot(const char *job, const pilot_change *change, pilot_losses *out)
{
    pilot *own = memory_allocate(NULL, 1, sizeof(*own));
    if (own == NULL)
        return complain(EXIT_FAILED, "plan: out of memory");
    pilot_init(own);
    const option_command command = {"train", "", own->groups, GROUPS};
    config_file *file = NULL;
    pilot_losses losses = {0};
    int status = read_job(own, &command, job, &file);
    if (status == OPTIONS_PROCEED)
        status = check_job(&own->options);
    if (status == OPTIONS_PROCEED)
        status = apply(own, change);
    losses.rounds = own->options.rounds;
    if (status == OPTIONS_PROCEED)
        status = train_run_heard(&command, &own->options, take_losses, &losses);
    config_free(file);
    memory_release(NULL, own);
    if (status == EXIT_DONE)
        *out = losses;
    else
        pilot_losses_free(&losses);
    return status;
}

void pilot_losses_free(pilot_losses *losses)
{
    memory_release(NULL, losses->after);
    *losses = (pilot_losses){0};
}
