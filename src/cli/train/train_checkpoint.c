/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/train_checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/digest.h"
#include "base/memory.h"
#include "cli/checkpoint/checkpoint.h"
#include "cli/options/options.h"
#include "cli/text/complain.h"
#include "plan/plan_code.h"
#include "release/dp.h"

struct train_checkpoint {
    const train_options *options;
    checkpoint_file *file;
    sums_file *sums;     /* NULL: the server has the sums */
    bool history_lost;   /* that of the checkpoint: it is begun again */
    ledger_file *ledger; /* NULL: nothing is released with noise */
    char *config;        /* the options that count, as JSON */
    uint8_t data[CHECKPOINT_DIGEST_SIZE];

    bool resumes;
    checkpoint from; /* what was read, and its vectors */
    const uint8_t *vectors[CHECKPOINT_VECTORS];
    tarry_plan *plan; /* of `from`, where it is not that of the options */

    /* the last mark */
    uint8_t job[TARRY_JOB_ID_SIZE];
    uint8_t *server, *encoded_plan;
    size_t server_size, plan_size;
    uint8_t digest[TARRY_DIGEST_SIZE]; /* of the plan */
    bool marked;                       /* and not written since */
    uint32_t few;                      /* arrivals left: a checkpoint is urgent */
};

enum { FEW_ARRIVALS = TARRY_CHECKPOINT_ARRIVALS / 2 };

/* The options that may change from one process of a run to the next: where things are read from and
 * written to, how long it takes, and what it says. What is read is compared by itself. */
static const char *const free_options[] = {
    "data",     "labels",  "test",          "test-labels",  "rounds",     "verify",
    "evaluate", "report",  "save",          "quiet",        "checkpoint", "checkpoint-every",
    "resume",   "silence", "attempt-limit", "digest-steps",
};

static bool is_free(const char *name)
{
    for (size_t i = 0; i < sizeof(free_options) / sizeof(free_options[0]); i++)
        if (strcmp(name, free_options[i]) == 0)
            return true;
    return false;
}

/* The options that count; those of other groups than training's stay out. NULL: no memory. */
static json_t *counting_options(const json_t *config)
{
    train_options unused;
    option_group groups[TRAIN_GROUPS + 1];
    train_options_groups(&unused, groups);
    groups[TRAIN_GROUPS] = train_options_dp_group(&unused);
    json_t *counting = json_object();
    for (size_t group = 0; group < TRAIN_GROUPS + 1; group++) {
        for (size_t i = 0; i < groups[group].count; i++) {
            const char *name = groups[group].entries[i].name;
            json_t *value = json_object_get(config, name);
            /* A command may do without some. */
            if (value != NULL && !is_free(name) && json_object_set(counting, name, value)) {
                json_decref(counting);
                return NULL;
            }
        }
    }
    return counting;
}

/* "0.5", "cyclic"; empty for what was not given. */
static void value_text(const json_t *value, char *text, size_t size)
{
    text[0] = '\0';
    if (json_is_string(value)) {
        snprintf(text, size, "%s", json_string_value(value));
    } else if (value != NULL && !json_is_null(value)) {
        char *dumped = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        snprintf(text, size, "%s", dumped != NULL ? dumped : "?");
        free(dumped);
    }
}

/* Complains of the first option that is not what it was. */
static int compare_options(const train_checkpoint *keeper, const json_t *now)
{
    const checkpoint_part *part = &keeper->from.config;
    const char *path = keeper->options->checkpoint;
    json_error_t unused;
    json_t *then = json_loadb((const char *)part->bytes, part->size, 0, &unused);
    if (then == NULL)
        return complain(EXIT_FAILED, "--resume: %s: its options can't be read", path);
    int status = OPTIONS_PROCEED;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)now, name, value)
    {
        const json_t *before = json_object_get(then, name);
        if (status != OPTIONS_PROCEED || (before != NULL && json_equal(before, value)))
            continue;
        char was[128], is[128];
        value_text(before, was, sizeof(was));
        value_text(value, is, sizeof(is));
        status = complain(EXIT_USAGE, "--resume: %s is of a run with --%s%s%s, not %s", path, name,
                          was[0] != '\0' ? " " : "", was[0] != '\0' ? was : " at its default",
                          is[0] != '\0' ? is : "without it");
    }
    json_decref(then);
    return status;
}

static int make_identity(train_checkpoint *keeper, const train_identity *identity)
{
    uint8_t digests[3][CHECKPOINT_DIGEST_SIZE] = {{0}};
    json_t *counting = counting_options(identity->config);
    if (counting != NULL)
        keeper->config = json_dumps(counting, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(counting);
    int error = keeper->config == NULL ? TARRY_ERROR_NO_MEMORY
                                       : dataset_digest(identity->train, digests[0]);
    if (error == TARRY_OK && identity->test != NULL)
        error = dataset_digest(identity->test, digests[1]);
    tarry_plan_digest(identity->plan, digests[2]);
    if (error == TARRY_OK && digest_of_bytes(digests[0], sizeof(digests), keeper->data) != 0)
        error = TARRY_ERROR_NO_MEMORY;
    return error == TARRY_OK ? OPTIONS_PROCEED
                             : complain(EXIT_FAILED, "--checkpoint: out of memory");
}

/* Compares what was read with the run that is to go on. */
static int compare(train_checkpoint *keeper, const train_identity *identity)
{
    const checkpoint *from = &keeper->from;
    const train_options *options = keeper->options;
    json_t *now = counting_options(identity->config);
    int status = now == NULL ? complain(EXIT_FAILED, "--resume: out of memory")
                             : compare_options(keeper, now);
    json_decref(now);
    if (status != OPTIONS_PROCEED)
        return status;
    if (memcmp(from->data, keeper->data, sizeof(keeper->data)) != 0)
        return complain(EXIT_FAILED, "--resume: %s is of a run on other data", options->checkpoint);
    if (from->round > options->rounds)
        return complain(EXIT_USAGE,
                        "--rounds: %" PRIu64 " are fewer than the %" PRIu64 " done in %s",
                        options->rounds, from->round, options->checkpoint);
    tarry_plan *plan;
    tarry_diagnostic why;
    if (plan_decode_bytes(from->plan.bytes, from->plan.size, NULL, &plan, &why) != TARRY_OK)
        return complain(EXIT_FAILED, "--resume: %s: %s", options->checkpoint, why.text);
    uint8_t own[TARRY_DIGEST_SIZE], read[TARRY_DIGEST_SIZE];
    tarry_plan_digest(identity->plan, own);
    tarry_plan_digest(plan, read);
    if (memcmp(own, read, sizeof(own)) == 0)
        tarry_plan_free(plan);
    else
        keeper->plan = plan;
    return OPTIONS_PROCEED;
}

/* Of a checkpoint_test. */
static int find_rounds(void *user, const checkpoint *state, tarry_diagnostic *diagnostic)
{
    const train_checkpoint *keeper = user;
    return history_restore(NULL, checkpoint_file_beside(keeper->file, CHECKPOINT_HISTORY),
                           (size_t)state->first, (size_t)state->round, state->rounds, diagnostic);
}

/* Gives a file another name, which is free; `aside` becomes this name. False: errno says why. */
static bool set_aside(const char *path, char *aside, size_t size)
{
    for (uint32_t number = 1; number < 1000; number++) {
        const int length = number == 1 ? snprintf(aside, size, "%s.damaged", path)
                                       : snprintf(aside, size, "%s.damaged-%u", path, number);
        errno = ENAMETOOLONG;
        if (length < 0 || (size_t)length >= size)
            return false;
        if (access(aside, F_OK) != 0) /* nobody else writes here: the checkpoint is locked */
            return rename(path, aside) == 0;
    }
    errno = EEXIST;
    return false;
}

/* Keeps the damaged file under another name, and says so. */
static int set_history_aside(const train_checkpoint *keeper, const char *fault)
{
    const char *path = checkpoint_file_beside(keeper->file, CHECKPOINT_HISTORY);
    char aside[PATH_MAX] = "";
    if (access(path, F_OK) == 0 && !set_aside(path, aside, sizeof(aside)))
        return complain(EXIT_FAILED, "--resume: %s; it cannot be renamed: %s: move it away", fault,
                        strerror(errno));
    complain(EXIT_DONE,
             "--resume: %s; the training goes on after %" PRIu64
             " rounds, but the figures of these "
             "rounds are lost: the report and the closing table begin with round %" PRIu64 "%s%s",
             fault, keeper->from.round, keeper->from.round,
             aside[0] != '\0' ? "; the damaged file is kept as " : "", aside);
    return OPTIONS_PROCEED;
}

/* A checkpoint whose rounds are there, or, if there is none, one whose rounds are not. */
static int find_checkpoint(train_checkpoint *keeper, tarry_diagnostic *fault, tarry_diagnostic *why)
{
    const checkpoint_test has_rounds = {find_rounds, keeper};
    tarry_diagnostic lost;
    int error =
        checkpoint_file_read(keeper->file, &keeper->from, keeper->vectors, &has_rounds, fault, why);
    if (error == TARRY_OK || error == TARRY_ERROR_NO_MEMORY)
        return error;
    lost = *why;
    if (checkpoint_file_read(keeper->file, &keeper->from, keeper->vectors, NULL, fault, why) !=
        TARRY_OK)
        return error;
    keeper->history_lost = true;
    if (fault->text[0] == '\0')
        *fault = lost;
    return TARRY_OK;
}

static int resume(train_checkpoint *keeper, const train_identity *identity)
{
    const char *path = keeper->options->checkpoint;
    tarry_diagnostic fault, why;
    if (!checkpoint_file_exists(keeper->file))
        return complain(EXIT_FAILED, "--resume: %s: there is no checkpoint", path);
    if (find_checkpoint(keeper, &fault, &why) != TARRY_OK)
        return complain(EXIT_FAILED, "--resume: %s", why.text);
    int status = compare(keeper, identity);
    if (status != OPTIONS_PROCEED)
        return status;
    if (keeper->history_lost)
        status = set_history_aside(keeper, fault.text);
    else if (fault.text[0] != '\0')
        complain(EXIT_DONE, "--resume: %s; goes on from %s.previous, after %" PRIu64 " rounds",
                 fault.text, path, keeper->from.round);
    keeper->resumes = status == OPTIONS_PROCEED;
    return status;
}

int train_checkpoint_open(const train_options *options, const train_identity *identity,
                          train_checkpoint **out)
{
    if (options->checkpoint == NULL)
        return OPTIONS_PROCEED;
    train_checkpoint *keeper = memory_allocate(NULL, 1, sizeof(*keeper));
    if (keeper == NULL)
        return complain(EXIT_FAILED, "--checkpoint: out of memory");
    keeper->options = options;
    keeper->few = FEW_ARRIVALS;
    tarry_diagnostic why;
    int status = OPTIONS_PROCEED;
    if (checkpoint_file_open(options->checkpoint, &keeper->file, &why) != TARRY_OK)
        status = complain(EXIT_FAILED, "--checkpoint: %s", why.text);
    else if (!options->resume && checkpoint_file_exists(keeper->file))
        status = complain(EXIT_FAILED,
                          "--checkpoint: %s: there is one already; --resume goes on from it",
                          options->checkpoint);
    if (status == OPTIONS_PROCEED)
        status = make_identity(keeper, identity);
    if (status == OPTIONS_PROCEED && options->resume)
        status = resume(keeper, identity);
    if (status == OPTIONS_PROCEED)
        *out = keeper;
    else
        train_checkpoint_close(keeper);
    return status;
}

void train_checkpoint_close(train_checkpoint *keeper)
{
    if (keeper == NULL)
        return;
    tarry_plan_free(keeper->plan);
    memory_release(NULL, keeper->encoded_plan);
    memory_release(NULL, keeper->server);
    free(keeper->config);
    sums_file_close(keeper->sums);
    ledger_file_close(keeper->ledger);
    checkpoint_file_close(keeper->file);
    memory_release(NULL, keeper);
}

int train_checkpoint_sums(train_checkpoint *keeper, uint64_t most, tarry_sum_log *log,
                          tarry_sum_id *after)
{
    tarry_diagnostic why;
    *log = (tarry_sum_log){.term = 1};
    *after = (tarry_sum_id){0};
    if (keeper == NULL)
        return OPTIONS_PROCEED;
    const char *path = checkpoint_file_beside(keeper->file, CHECKPOINT_SUMS);
    uint64_t steps = keeper->from.round, newest = steps;
    sums_file_close(keeper->sums);
    keeper->sums = NULL;
    if (keeper->resumes && most > 0 &&
        sums_file_newest(path, steps, &newest, after, &why) != TARRY_OK)
        return complain(EXIT_FAILED, "--checkpoint: %s", why.text);
    if (most > 0 && newest <= most)
        steps = newest;
    if (sums_file_open(path, keeper->resumes, steps, &keeper->sums, log, &why) != TARRY_OK)
        return complain(EXIT_FAILED, "--checkpoint: %s", why.text);
    if (steps == keeper->from.round)
        *after = log->last[0];
    return OPTIONS_PROCEED;
}

bool train_checkpoint_may_be_passed(const train_checkpoint *keeper)
{
    return keeper != NULL && keeper->resumes && keeper->from.seen == 0;
}

int train_checkpoint_ledger(train_checkpoint *keeper, const ledger_terms *terms, ledger_file **out)
{
    tarry_diagnostic why;
    if (keeper == NULL)
        return OPTIONS_PROCEED;
    if (ledger_file_open(checkpoint_file_beside(keeper->file, CHECKPOINT_LEDGER), keeper->resumes,
                         terms, &keeper->ledger, &why) != TARRY_OK)
        return complain(EXIT_FAILED, "--checkpoint: %s", why.text);
    if (keeper->resumes && ledger_file_covers(keeper->ledger, &keeper->from.ledger,
                                              keeper->from.round, &why) != TARRY_OK)
        return complain(EXIT_FAILED, "--resume: %s", why.text);
    *out = keeper->ledger;
    return OPTIONS_PROCEED;
}

bool train_checkpoint_resumes(const train_checkpoint *keeper)
{
    return keeper != NULL && keeper->resumes;
}

/* What workers saw of the parameters, if that is another thing: it is copied to `numbers`. */
static tarry_view view_of(const train_checkpoint *keeper, float *numbers)
{
    const checkpoint *from = &keeper->from;
    if (from->seen == 0)
        return (tarry_view){0};
    checkpoint_numbers(keeper->vectors[from->vectors - 1], from->dimension, numbers);
    return (tarry_view){.numbers = numbers, .round = from->seen - 1};
}

void train_checkpoint_request(train_checkpoint *keeper, bool again, float *numbers,
                              runner_request *request, tarry_plan **plan)
{
    if (again) {
        request->checkpoint = keeper->server;
        request->checkpoint_size = keeper->server_size;
        request->job_id = keeper->job;
        return;
    }
    request->checkpoint = keeper->from.server.bytes;
    request->checkpoint_size = keeper->from.server.size;
    request->job_id = keeper->from.job;
    request->view = view_of(keeper, numbers);
    *plan = keeper->plan;
    keeper->plan = NULL;
}

static int refuse_to_resume(const train_checkpoint *keeper, int error)
{
    return complain(EXIT_FAILED, "--resume: %s: %s", keeper->options->checkpoint,
                    error == TARRY_ERROR_FORMAT ? "what it holds does not belong together"
                                                : tarry_error_text(error));
}

/* Those that are not the view. */
static uint32_t count_own(const checkpoint *from)
{
    return from->vectors - (from->seen != 0);
}

int train_checkpoint_vectors(const train_checkpoint *keeper, size_t dimension, float *parameters,
                             optimizer_state *state, uint64_t *steps)
{
    const checkpoint *from = &keeper->from;
    float *const vectors[CHECKPOINT_VECTORS] = {parameters, state->velocity, state->square};
    int error = from->dimension == dimension ? TARRY_OK : TARRY_ERROR_FORMAT;
    for (uint32_t i = 0; i < CHECKPOINT_VECTORS; i++)
        if ((vectors[i] != NULL) != (i < count_own(from)))
            error = TARRY_ERROR_FORMAT;
    if (error != TARRY_OK)
        return refuse_to_resume(keeper, error);
    for (uint32_t i = 0; i < count_own(from); i++)
        checkpoint_numbers(keeper->vectors[i], dimension, vectors[i]);
    state->decayed = from->decayed;
    state->square_decayed = from->square_decayed;
    *steps = from->round;
    return OPTIONS_PROCEED;
}

int train_checkpoint_restore(train_checkpoint *keeper, history *past)
{
    const checkpoint *from = &keeper->from;
    int error = history_decode(past, from->history.bytes, from->history.size);
    tarry_diagnostic why;
    if (keeper->history_lost)
        history_clear(past, (size_t)from->round);
    else if (error == TARRY_OK &&
             history_restore(past, checkpoint_file_beside(keeper->file, CHECKPOINT_HISTORY),
                             (size_t)from->first, (size_t)from->round, from->rounds,
                             &why) != TARRY_OK)
        return complain(EXIT_FAILED, "--resume: %s", why.text);
    if (error != TARRY_OK)
        return refuse_to_resume(keeper, error);
    past->resumed = true;
    past->resumed_after = (size_t)from->round;
    checkpoint_file_forget(keeper->file);
    return OPTIONS_PROCEED;
}

static int measure(void *user, const tarry_server *server)
{
    *(size_t *)user = tarry_server_checkpoint_size(server);
    return TARRY_OK;
}

static int mark_plan(train_checkpoint *keeper, const tarry_plan *plan)
{
    uint8_t own[TARRY_DIGEST_SIZE];
    tarry_plan_digest(plan, own);
    if (keeper->encoded_plan != NULL && memcmp(own, keeper->digest, sizeof(own)) == 0)
        return TARRY_OK;
    size_t size = plan_encoded_size(plan);
    uint8_t *bytes = memory_allocate(NULL, size, 1);
    if (bytes == NULL || plan_encode(plan, bytes) != TARRY_OK) {
        memory_release(NULL, bytes);
        return TARRY_ERROR_NO_MEMORY;
    }
    memory_release(NULL, keeper->encoded_plan);
    keeper->encoded_plan = bytes;
    keeper->plan_size = size;
    memcpy(keeper->digest, own, sizeof(own));
    return TARRY_OK;
}

int train_checkpoint_mark(train_checkpoint *keeper, runner *runs, const tarry_plan *plan)
{
    if (keeper->server == NULL) {
        tarry_runtime_visit(runs->runtime, measure, &keeper->server_size);
        keeper->server = memory_allocate(NULL, keeper->server_size, 1);
        if (keeper->server == NULL)
            return TARRY_ERROR_NO_MEMORY;
        tarry_runtime_job_id(runs->runtime, keeper->job);
    }
    int error = mark_plan(keeper, plan);
    if (error == TARRY_OK)
        error = tarry_runtime_checkpoint(runs->runtime, keeper->server);
    keeper->marked = error == TARRY_OK;
    return error;
}

bool train_checkpoint_due(const train_checkpoint *keeper, uint64_t round)
{
    return round % keeper->options->checkpoint_every == 0;
}

static int count_arrivals(void *user, const tarry_server *server)
{
    *(uint32_t *)user = tarry_server_arrivals_left(server);
    return TARRY_OK;
}

bool train_checkpoint_urgent(const train_checkpoint *keeper, runner *runs)
{
    uint32_t left;
    tarry_runtime_visit(runs->runtime, count_arrivals, &left);
    return left <= keeper->few;
}

static bool all_finite(const float *numbers, size_t count)
{
    bool finite = true;
    for (size_t i = 0; numbers != NULL && i < count; i++)
        finite &= isfinite(numbers[i]) != 0;
    return finite;
}

/* What lies on disk is the last that is of any use once a training has diverged. */
static int refuse_useless(train_checkpoint *keeper, tarry_diagnostic *diagnostic)
{
    keeper->few /= 2;
    return diagnose(diagnostic, TARRY_ERROR_NUMERICAL,
                    "%s is left as it is: parameters are not finite", keeper->options->checkpoint);
}

int train_checkpoint_write(train_checkpoint *keeper, runner *runs, size_t dimension,
                           const float *parameters, const optimizer_state *steps, history *past,
                           tarry_diagnostic *diagnostic)
{
    if (!keeper->marked)
        return TARRY_OK;
    const tarry_view seen = tarry_runtime_view(runs->runtime);
    const float *vectors[CHECKPOINT_VECTORS] = {parameters, steps->velocity, steps->square};
    uint32_t count = steps->square != NULL ? 3 : steps->velocity != NULL ? 2 : 1;
    if (seen.numbers != NULL)
        vectors[count++] = seen.numbers;
    for (uint32_t i = 0; i < count; i++)
        if (!all_finite(vectors[i], dimension))
            return refuse_useless(keeper, diagnostic);
    size_t history_size = history_encoded_size(past);
    uint8_t *shares = memory_allocate(NULL, history_size, 1);
    if (shares == NULL)
        return diagnose_no_memory(diagnostic, keeper->options->checkpoint);
    history_encode(past, shares);
    uint8_t rounds[HISTORY_SEAL_BYTES];
    int error = history_save(past, checkpoint_file_beside(keeper->file, CHECKPOINT_HISTORY), rounds,
                             diagnostic);
    checkpoint state = {
        .round = past->count,
        .first = past->first,
        .decayed = steps->decayed,
        .square_decayed = steps->square_decayed,
        .config = {(const uint8_t *)keeper->config, strlen(keeper->config)},
        .plan = {keeper->encoded_plan, keeper->plan_size},
        .server = {keeper->server, keeper->server_size},
        .history = {shares, history_size},
        .dimension = dimension,
        .vectors = count,
        .seen = seen.numbers != NULL ? seen.round + 1 : 0,
        .ledger = keeper->ledger != NULL ? ledger_file_mark(keeper->ledger) : (tarry_dp_mark){0},
    };
    memcpy(state.job, keeper->job, sizeof(state.job));
    memcpy(state.data, keeper->data, sizeof(state.data));
    memcpy(state.rounds, rounds, sizeof(state.rounds));
    if (error == TARRY_OK)
        error = checkpoint_file_write(keeper->file, &state, vectors, diagnostic);
    memory_release(NULL, shares);
    if (error != TARRY_OK) {
        keeper->few /= 2;
        return error;
    }
    tarry_runtime_stored(runs->runtime, keeper->server);
    keeper->marked = false;
    keeper->few = FEW_ARRIVALS;
    return TARRY_OK;
}
