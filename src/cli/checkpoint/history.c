/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/history.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"

static const objective_score unknown = {NAN, NAN};
static const verified_round unverified = {NAN, NAN, NAN};

const history_round history_blank_round = {
    .train = {NAN, NAN},
    .test = {NAN, NAN},
    .verified = {NAN, NAN, NAN},
    .saturation = NAN,
};

int history_create(uint32_t workers, uint32_t chunks, history **out)
{
    history *past = memory_allocate(NULL, 1, sizeof(*past));
    if (past == NULL)
        return TARRY_ERROR_NO_MEMORY;
    past->worker = memory_allocate(NULL, workers, sizeof(*past->worker));
    past->earlier = memory_allocate(NULL, workers, sizeof(*past->earlier));
    if (past->worker == NULL || past->earlier == NULL || sketch_create(&past->times) != TARRY_OK ||
        round_store_create(&past->store) != TARRY_OK) {
        history_free(past);
        return TARRY_ERROR_NO_MEMORY;
    }
    past->workers = workers;
    past->chunks = chunks;
    past->train_end = past->test_end = unknown;
    history_clear(past, 0);
    *out = past;
    return TARRY_OK;
}

void history_free(history *past)
{
    if (past == NULL)
        return;
    memory_release(NULL, past->earlier);
    memory_release(NULL, past->worker);
    round_store_free(past->store);
    sketch_free(past->times);
    memory_release(NULL, past);
}

void history_use_file(history *past, const char *path)
{
    round_store_use_file(past->store, path);
}

void history_forget_rounds(history *past)
{
    round_store_free(past->store);
    past->store = NULL;
}

void history_clear(history *past, size_t first)
{
    past->first = past->count = first;
    past->last = history_blank_round;
    past->settled = (history_totals){.worst = unverified, .saturation_most = NAN};
    past->train_begin = past->test_begin = unknown;
    sketch_clear(past->times);
    if (past->store != NULL)
        round_store_clear(past->store);
}

static void totals_add(history_totals *sum, const history_round *round)
{
    const tarry_round_result *result = &round->result;
    if (round->lost) {
        sum->lost++;
        return;
    }
    sum->rounds++;
    sum->exact += result->exact ? 1 : 0;
    sum->seconds += round->seconds;
    sum->copies += history_copies_per_chunk(result);
    sum->needed += result->parts;
    sum->attempts += result->attempts;
    sum->moved += round->changes.moved;
    sum->split += round->changes.split;
    sum->merged += round->changes.merged;
    sum->control_bytes += (double)result->control_bytes;
    sum->control_messages += (double)result->control_messages;
    sum->upload_bytes += (double)result->upload_bytes;
    sum->expected_error += result->expected_error;
    sum->worst.error = fmax(sum->worst.error, round->verified.error);
    sum->worst.squared_error = fmax(sum->worst.squared_error, round->verified.squared_error);
    sum->worst.model_rounding = fmax(sum->worst.model_rounding, round->verified.model_rounding);
    sum->raised += result->conditioning > 0;
    sum->conditioning = fmax(sum->conditioning, result->conditioning);
    sum->error_bound = fmax(sum->error_bound, result->error_bound);
    if (!isnan(round->saturation)) {
        sum->saturated++;
        sum->saturation_sum += round->saturation;
        sum->saturation_most = fmax(sum->saturation_most, round->saturation);
    }
}

/* Moves the latest round to those before it. */
static int last_settle(history *past)
{
    if (past->count == past->first)
        return TARRY_OK;
    if (past->store != NULL && round_store_add(past->store, &past->last) != TARRY_OK)
        return TARRY_ERROR_NO_MEMORY;
    if (past->count == 1) {
        past->train_begin = past->last.train;
        past->test_begin = past->last.test;
    }
    totals_add(&past->settled, &past->last);
    if (!past->last.lost)
        sketch_add(past->times, past->last.seconds);
    return TARRY_OK;
}

history_round *history_add(history *past)
{
    if (last_settle(past) != TARRY_OK)
        return NULL;
    past->count++;
    past->last = history_blank_round;
    return &past->last;
}

int history_add_lost(history *past, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        history_round *round = history_add(past);
        if (round == NULL)
            return TARRY_ERROR_NO_MEMORY;
        round->lost = true;
        round->result.parts = 1; /* others divide by these */
        round->result.copies_needed = 1;
    }
    return TARRY_OK;
}

int history_round_at(const history *past, size_t round, history_round *out,
                     tarry_diagnostic *diagnostic)
{
    if (round + 1 == past->count) {
        *out = past->last;
        return TARRY_OK;
    }
    const int error = round_store_get(past->store, round - past->first, out);
    if (error == TARRY_OK)
        return TARRY_OK;
    *out = history_blank_round;
    return diagnose(diagnostic, error, "cannot read round %zu back: %s", round,
                    error == TARRY_ERROR_FILE ? strerror(errno) : tarry_error_text(error));
}

int history_scores_after(const history *past, size_t round, objective_score *train,
                         objective_score *test, tarry_diagnostic *diagnostic)
{
    history_round next = {.train = past->train_end, .test = past->test_end};
    int error =
        round + 1 < past->count ? history_round_at(past, round + 1, &next, diagnostic) : TARRY_OK;
    *train = next.train;
    *test = next.test;
    return error;
}

objective_score history_train_begin(const history *past)
{
    return past->count == 0   ? past->train_end
           : past->count == 1 ? past->last.train
                              : past->train_begin;
}

objective_score history_test_begin(const history *past)
{
    return past->count == 0   ? past->test_end
           : past->count == 1 ? past->last.test
                              : past->test_begin;
}

history_totals history_total(const history *past)
{
    history_totals sum = past->settled;
    if (past->count > past->first)
        totals_add(&sum, &past->last);
    return sum;
}

int history_times(const history *past, sketch **out)
{
    int error = sketch_copy(past->times, out);
    if (error == TARRY_OK && past->count > past->first && !past->last.lost)
        sketch_add(*out, past->last.seconds);
    return error;
}

double history_seconds(const tarry_worker_state *worker)
{
    return worker->chunks > 0 && worker->seconds == 0 ? NAN : worker->seconds;
}

double history_copies_per_chunk(const tarry_round_result *result)
{
    return (double)result->copies_computed * result->parts / (double)result->copies_needed;
}
