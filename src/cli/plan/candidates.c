/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/candidates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/options/compress_form.h"
#include "cli/options/run_options.h"
#include "cli/output/clock.h"
#include "cli/plan/advise_figures.h"
#include "cli/text/complain.h"
#include "cli/train/train_pilot.h"
#include "compress/compress.h"

static bool is_none(const char *word)
{
    return strcmp(word, "none") == 0;
}

/* What simulated rounds stand for: as the form has it, or in dense rounds. */
typedef struct simulated_form {
    tarry_server_settings server;
    uint64_t last;
    char usual[CANDIDATE_WORD_SIZE];
} simulated_form;

/* The word is one that was read before. */
static simulated_form form_of_word(const char *word)
{
    simulated_form form = {.last = 0};
    if (compress_form_read(word, &form.server, &form.last, NULL) != TARRY_OK)
        abort();
    snprintf(form.usual, sizeof(form.usual), "%s", word);
    if (form.server.compress == TARRY_COMPRESS_TOPK) /* topk:F:FIRST:LAST */
        form.usual[strlen("topk:") + strcspn(word + strlen("topk:"), ":")] = '\0';
    return form;
}

/* ---- which there are ---- */

static void list(const candidate_options *asked, const advice_choice *choice, const char *compress,
                 candidates *out)
{
    for (size_t d = 0; d < asked->downs.count; d++)
        for (size_t s = 0; s < asked->steps.count; s++) {
            const simulated_form form = form_of_word(compress);
            out->items[out->count++] = (candidate){
                .choice = choice,
                .compress = compress,
                .down = asked->downs.words[d],
                .steps = asked->steps.words[s],
                .first = form.server.compress_first,
                .last = form.last,
            };
        }
}

static int list_all(const advise_options *options, const advice *found, candidates *out)
{
    const candidate_options *asked = &options->candidates;
    const whole_list *parts = &options->world.defaults.part_counts;
    const uint64_t trials = options->world.trials;
    /* A form makes uploads short: what counts is the time until they begin. */
    const advice_choice *one = advice_best(found, 1, advice_signal_time, trials);
    size_t ways = asked->downs.count * asked->steps.count;
    out->items =
        memory_allocate(NULL, (parts->count + asked->forms.count) * ways, sizeof(*out->items));
    if (out->items == NULL)
        return complain(EXIT_FAILED, "plan: out of memory");
    for (size_t i = 0; i < asked->forms.count; i++) {
        const char *form = asked->forms.words[i];
        if (!is_none(form) && one != NULL)
            list(asked, one, form, out);
        for (size_t k = 0; is_none(form) && k < parts->count; k++) {
            const advice_choice *choice =
                advice_best(found, parts->values[k], advice_round_time, trials);
            if (choice != NULL)
                list(asked, choice, form, out);
        }
    }
    if (out->count > 0)
        return OPTIONS_PROCEED;
    return complain(EXIT_USAGE, "--compress: forms go with one part, which --parts has not");
}

/* ---- what a round takes ---- */

/* H steps of a chunk are a chunk that takes H times as long: links are as much faster instead, and
 * all times so much longer, as delays that are drawn for a chunk are for each step. */
static simulate_options world_of(const advise_options *options, uint32_t steps)
{
    simulate_options world = options->world;
    const double times = steps;
    world.parameter_bytes = world.dimension * sizeof(float);
    world.overhead /= times;
    world.latency /= times;
    world.message_time /= times;
    world.silence /= times;
    world.bandwidth *= times;
    world.up_bandwidth *= times;
    world.server_bandwidth *= times;
    return world;
}

static void scheme_text(const candidate *one, const char *form, char *text, size_t size)
{
    const advice_choice *choice = one->choice;
    snprintf(text, size,
             "tarry:keep=%s,replication=%u,pieces=%u,parts=%u,compress=%s,compress-down=%s",
             run_keep_name(choice->keep), choice->replication, choice->pieces, choice->parts, form,
             one->down);
}

/* Means over the second half of the rounds of all trials, which could end. */
static double mean_upload(const simulate_trials *trials)
{
    const uint32_t rounds = trials->options->rounds;
    double bytes = 0;
    for (size_t trial = 0; trial < trials->options->trials; trial++)
        for (uint32_t round = rounds / 2; round < rounds; round++)
            bytes += (double)simulate_trials_outcomes(trials, trial, 0)[round].result.upload_bytes;
    return bytes / ((double)trials->options->trials * (rounds - rounds / 2));
}

static int take_figures(const simulate_trials *trials, double *seconds, double *up_bytes)
{
    const uint32_t rounds = trials->options->rounds;
    double *values =
        memory_allocate(NULL, (size_t)trials->options->trials * rounds, sizeof(*values));
    if (values == NULL)
        return complain(EXIT_FAILED, "plan: out of memory");
    *seconds = advise_median(trials, 0, rounds / 2, rounds - 1, advise_whole_seconds, values);
    *up_bytes = mean_upload(trials);
    memory_release(NULL, values);
    return OPTIONS_PROCEED;
}

static int simulate(const advise_options *options, const candidate *one, const char *form,
                    double *seconds, double *up_bytes)
{
    const uint32_t steps = candidate_steps(one->steps);
    const simulate_options world = world_of(options, steps);
    const scheme_frame frame = simulate_options_frame(&world);
    simulate_variants variants = {0};
    simulate_trials *trials = NULL;
    tarry_diagnostic why;
    char scheme[160];
    scheme_text(one, form, scheme, sizeof(scheme));
    int error = simulate_variants_read(scheme, &world.defaults, &frame, &variants, &why);
    if (error != TARRY_OK)
        return complain(error == TARRY_ERROR_FORMAT ? EXIT_USAGE : EXIT_FAILED, "%s", why.text);
    int status = simulate_trials_create(&world, &variants, &trials);
    if (status == OPTIONS_PROCEED) {
        status = simulate_trials_run(trials);
        if (status == EXIT_DONE)
            status = take_figures(trials, seconds, up_bytes);
        simulate_trials_free(trials);
        *seconds *= steps;
    }
    simulate_variants_free(&variants);
    return status;
}

/* Each worker is sent them, or their change, once in a round. */
static double bytes_down(const advise_options *options, const char *form)
{
    const simulate_options *world = &options->world;
    const compress_form down = {.kind = form_of_word(form).server.compress};
    return (double)world->workers * (double)compress_bytes(down, (size_t)world->dimension);
}

static int simulate_all(const advise_options *options, candidates *out)
{
    int status = OPTIONS_PROCEED;
    for (size_t i = 0; i < out->count && status == OPTIONS_PROCEED; i++) {
        candidate *one = &out->items[i];
        const simulated_form form = form_of_word(one->compress);
        one->down_bytes = bytes_down(options, one->down);
        status = simulate(options, one, form.usual, &one->seconds, &one->up_bytes);
        one->dense_seconds = one->seconds;
        one->dense_up_bytes = one->up_bytes;
        if (status == OPTIONS_PROCEED && one->first + one->last > 0)
            status = simulate(options, one, "int4", &one->dense_seconds, &one->dense_up_bytes);
    }
    return status;
}

/* ---- what it costs in loss ---- */

/* Float32's with one seed: its rounds and its loss after them. */
typedef struct pilot_goal {
    uint64_t rounds;
    double loss;
} pilot_goal;

/* The first rounds after which the loss is close to the goal's, and stays so; 0: never. */
static uint64_t rounds_to(const pilot_losses *losses, double loss)
{
    const double enough = loss + CANDIDATE_CLOSE * fabs(loss);
    uint64_t round = losses->rounds + 1;
    while (round > 1 && losses->after[round - 1] <= enough)
        round--;
    return round <= losses->rounds ? round : 0;
}

static void judge_losses(const pilot_losses *losses, const pilot_goal *goal, bool first,
                         candidate *one)
{
    const double after = losses->after[goal->rounds];
    const double excess = isfinite(after) ? after / goal->loss - 1 : INFINITY;
    const uint64_t rounds = rounds_to(losses, goal->loss);
    one->loss_most = first ? excess : fmax(one->loss_most, excess);
    one->loss_least = first ? excess : fmin(one->loss_least, excess);
    if (first || rounds == 0 || (one->rounds != 0 && rounds > one->rounds))
        one->rounds = rounds;
}

/* Whose sums are those of another one: parts change none. */
static const candidate *same_pilot(const candidates *out, size_t index)
{
    const candidate *one = &out->items[index];
    for (size_t i = 0; i < index; i++) {
        const candidate *other = &out->items[i];
        if (strcmp(other->compress, one->compress) == 0 && strcmp(other->down, one->down) == 0 &&
            strcmp(other->steps, one->steps) == 0)
            return other;
    }
    return NULL;
}

/* So many rounds; one that has dense rounds at its end has no more than the job. */
static int run_pilot(const advise_options *options, const pilot_goal *goal, uint64_t seed,
                     candidate *one)
{
    pilot_change change = {
        .compress = one->compress,
        .down = one->down,
        .local_steps = one->steps,
        .rounds = goal->rounds,
        .seed_more = seed,
    };
    pilot_losses losses;
    int status = train_pilot(options->candidates.pilot, &change, &losses);
    if (status != EXIT_DONE)
        return status;
    bool more = rounds_to(&losses, goal->loss) == 0 && one->last == 0 && !losses.diverged;
    if (more) { /* the same rounds once more, and those after them */
        pilot_losses_free(&losses);
        change.rounds *= CANDIDATE_MORE;
        status = train_pilot(options->candidates.pilot, &change, &losses);
        if (status != EXIT_DONE)
            return status;
    }
    judge_losses(&losses, goal, seed == 0, one);
    pilot_losses_free(&losses);
    return OPTIONS_PROCEED;
}

/* Of float32: a sum per step, and as many rounds as the job has. */
static int set_goal(const advise_options *options, uint64_t seed, pilot_goal *out)
{
    const pilot_change plain = {"none", "none", "none", 0, seed};
    pilot_losses losses;
    int status = train_pilot(options->candidates.pilot, &plain, &losses);
    if (status != EXIT_DONE)
        return status;
    *out = (pilot_goal){losses.rounds, losses.after[losses.rounds]};
    bool diverged = losses.diverged;
    pilot_losses_free(&losses);
    return !diverged ? OPTIONS_PROCEED
                     : complain(EXIT_FAILED, "--pilot: float32 ends with a loss that is not "
                                             "finite: try a smaller --rate in it");
}

static int run_seed(const advise_options *options, uint64_t seed, candidates *out)
{
    pilot_goal goal = {0};
    int status = set_goal(options, seed, &goal);
    if (status == OPTIONS_PROCEED && seed == 0) {
        out->rounds = goal.rounds;
        out->loss = goal.loss;
    }
    for (size_t i = 0; i < out->count && status == OPTIONS_PROCEED; i++) {
        candidate *one = &out->items[i];
        if (same_pilot(out, i) == NULL)
            status = run_pilot(options, &goal, seed, one);
    }
    return status;
}

static int run_pilots(const advise_options *options, candidates *out)
{
    const double start = clock_seconds();
    int status = OPTIONS_PROCEED;
    for (uint32_t seed = 0; seed < options->candidates.seeds && status == OPTIONS_PROCEED; seed++)
        status = run_seed(options, seed, out);
    for (size_t i = 0; i < out->count && status == OPTIONS_PROCEED; i++) {
        const candidate *same = same_pilot(out, i);
        candidate *one = &out->items[i];
        if (same == NULL)
            continue;
        one->loss_most = same->loss_most;
        one->loss_least = same->loss_least;
        one->rounds = same->rounds;
    }
    out->run_seconds = clock_seconds() - start;
    return status;
}

/* ---- both ---- */

double candidate_dense_share(const candidate *one, uint64_t whole, uint64_t rounds)
{
    uint64_t from = whole > one->last ? whole - one->last : 0, dense = 0;
    if (rounds == 0)
        return 0;
    for (uint64_t round = 0; round < rounds; round++)
        dense += round < one->first || (one->last > 0 && round >= from);
    return (double)dense / (double)rounds;
}

static int compare(const void *left, const void *right)
{
    const candidate *a = left, *b = right;
    if (a->total_seconds < b->total_seconds || a->total_seconds > b->total_seconds)
        return a->total_seconds < b->total_seconds ? -1 : 1;
    if (a->loss_most < b->loss_most || a->loss_most > b->loss_most)
        return a->loss_most < b->loss_most ? -1 : 1;
    double apart = a->up_bytes + a->down_bytes - b->up_bytes - b->down_bytes;
    return apart < 0 ? -1 : apart > 0;
}

static double bytes_of(const candidate *one, uint64_t whole)
{
    double share = candidate_dense_share(one, whole, whole);
    return one->down_bytes + share * one->dense_up_bytes + (1 - share) * one->up_bytes;
}

static void choose(candidates *out)
{
    for (size_t i = 0; i < out->count; i++) {
        candidate *one = &out->items[i];
        double share = candidate_dense_share(one, out->rounds, one->rounds);
        double seconds = share * one->dense_seconds + (1 - share) * one->seconds;
        bool there = one->rounds > 0 && !isnan(seconds);
        one->total_seconds = there ? (double)one->rounds * seconds : INFINITY;
    }
    qsort(out->items, out->count, sizeof(*out->items), compare);
    const double best = out->items[0].total_seconds;
    out->recommended = isinf(best) ? out->count : 0;
    for (size_t i = 1; i < out->count && out->items[i].total_seconds <= best * ADVICE_TIE; i++)
        if (out->recommended < out->count &&
            bytes_of(&out->items[i], out->rounds) <
                bytes_of(&out->items[out->recommended], out->rounds))
            out->recommended = i;
}

int candidates_weigh(const advise_options *options, const advice *found, candidates *out)
{
    candidates weighed = {0};
    int status = list_all(options, found, &weighed);
    if (status == OPTIONS_PROCEED)
        status = run_pilots(options, &weighed);
    if (status == OPTIONS_PROCEED)
        status = simulate_all(options, &weighed);
    if (status == OPTIONS_PROCEED)
        choose(&weighed);
    if (status == OPTIONS_PROCEED)
        *out = weighed;
    else
        candidates_free(&weighed);
    return status;
}

void candidates_free(candidates *weighed)
{
    memory_release(NULL, weighed->items);
    *weighed = (candidates){0};
}
