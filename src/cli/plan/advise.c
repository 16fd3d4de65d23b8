/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/advise.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "cli/options/run_options.h"
#include "cli/plan/advise_figures.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"

#define PROMISING 1.2 /* what took longer in the first look, than the fastest, stays behind */
#define MOST_UNSEEN 5 /* promising choices of each higher number of parts */
#define LOOK_ROUNDS 3 /* of each trial of the first look */

/*
 * Plans of several parts take long to make, and many choices are far from the best. So there is a
 * first look at the choices with the fewest parts, in few rounds; then the promising ones, also
 * those with more parts which could be faster, and those of one part that keep only what is
 * credited, are simulated in all trials.
 */
typedef struct search {
    const advise_options *options;
    simulate_options world;
    simulate_variants variants; /* all that memory allows */
    simulate_variant *chosen;   /* of the stage at hand, room for all */
    advice_choice *choices;     /* by variant */
    bool *wanted;               /* by variant: in the stage at hand */
} search;

/* The random design's loads differ by at most 1. */
static uint64_t most_load(const advise_options *options, const advice_choice *choice)
{
    uint64_t copies = (uint64_t)options->world.chunks * choice->pieces * choice->replication;
    return (copies + options->world.workers - 1) / options->world.workers;
}

static advice_choice choice_of(const advise_options *options, const simulate_variant *variant)
{
    advice_choice choice = {
        .replication = variant->run.settings.plan.replication,
        .pieces = variant->run.settings.plan.pieces,
        .parts = variant->run.settings.plan.parts,
        .keep = variant->run.settings.server.keep,
        .ahead = variant->run.settings.server.ahead,
    };
    choice.upload_bytes =
        (options->world.dimension + choice.parts - 1) / choice.parts * sizeof(float);
    choice.memory_bytes =
        tarry_worker_bytes(most_load(options, &choice), choice.parts, &variant->run.settings.server,
                           options->world.dimension);
    return choice;
}

/* Fills in all choices, of which those that take too much memory are left out. */
static int list_choices(search *it, advice *out)
{
    const advise_options *options = it->options;
    simulate_variants *variants = &it->variants;
    size_t count = 0;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < variants->count; i++) {
        advice_choice choice = choice_of(options, &variants->items[i]);
        least = choice.memory_bytes < least ? choice.memory_bytes : least;
        if (options->memory != 0 && choice.memory_bytes > options->memory)
            continue;
        variants->items[count] = variants->items[i];
        it->choices[count++] = choice;
    }
    out->too_large = variants->count - count;
    variants->count = count;
    if (count > 0)
        return OPTIONS_PROCEED;
    char limit[NUMBER_TEXT_SIZE], needed[NUMBER_TEXT_SIZE];
    bytes_text((double)options->memory, limit);
    bytes_text((double)least, needed);
    return complain(EXIT_FAILED, "--memory: every choice needs more than %s; the least is %s",
                    limit, needed);
}

/* Means over the second half of the rounds, of the trials that could end. */
static void add_up(const simulate_trials *trials, size_t index, advice_choice *choice)
{
    const uint32_t rounds = trials->options->rounds;
    double ended = 0;
    choice->control_bytes = choice->copies = 0;
    choice->failed = 0;
    for (size_t trial = 0; trial < trials->options->trials; trial++) {
        const simulate_outcome *outcomes = simulate_trials_outcomes(trials, trial, index);
        if (isnan(outcomes[0].seconds)) {
            choice->failed++;
            continue;
        }
        for (uint32_t round = rounds / 2; round < rounds; round++) {
            choice->control_bytes += (double)outcomes[round].result.control_bytes;
            choice->copies += (double)outcomes[round].result.copies_computed;
            ended++;
        }
    }
    choice->control_bytes /= ended;
    choice->copies /= ended * trials->options->chunks * choice->pieces;
}

static int take_figures(search *it, const simulate_trials *trials)
{
    const uint32_t rounds = trials->options->rounds;
    size_t count = (size_t)trials->options->trials * rounds, index = 0;
    double *values = memory_allocate(NULL, count, sizeof(*values));
    if (values == NULL)
        return complain(EXIT_FAILED, "plan: out of memory");
    for (size_t i = 0; i < it->variants.count; i++) {
        if (!it->wanted[i])
            continue;
        advice_choice *choice = &it->choices[i];
        choice->trials = trials->options->trials;
        choice->first_seconds = advise_median(trials, index, 0, 0, advise_whole_seconds, values);
        choice->seconds =
            advise_median(trials, index, rounds / 2, rounds - 1, advise_whole_seconds, values);
        choice->signal_seconds =
            advise_median(trials, index, rounds / 2, rounds - 1, advise_until_signal, values);
        add_up(trials, index++, choice);
    }
    memory_release(NULL, values);
    return OPTIONS_PROCEED;
}

/* Simulates the wanted choices. */
static int run_stage(search *it, uint64_t trials_each, uint32_t rounds, advice *out)
{
    simulate_variants stage = {0, it->chosen, NULL};
    simulate_trials *trials = NULL;
    for (size_t i = 0; i < it->variants.count; i++)
        if (it->wanted[i])
            it->chosen[stage.count++] = it->variants.items[i];
    it->world.trials = trials_each;
    it->world.rounds = rounds;
    int status = simulate_trials_create(&it->world, &stage, &trials);
    if (status != OPTIONS_PROCEED)
        return status;
    status = simulate_trials_run(trials);
    if (status == EXIT_DONE)
        status = take_figures(it, trials);
    out->run_seconds += trials->seconds;
    simulate_trials_free(trials);
    return status;
}

static int compare_costs(const advice_choice *a, const advice_choice *b)
{
    if (a->memory_bytes != b->memory_bytes)
        return a->memory_bytes < b->memory_bytes ? -1 : 1;
    if (a->replication != b->replication)
        return a->replication < b->replication ? -1 : 1;
    if (a->pieces != b->pieces)
        return a->pieces < b->pieces ? -1 : 1;
    return (a->parts > b->parts) - (a->parts < b->parts);
}

static int compare_seconds(const void *left, const void *right)
{
    const advice_choice *a = left, *b = right;
    if (isnan(a->seconds) != isnan(b->seconds))
        return isnan(a->seconds) ? 1 : -1;
    if (a->seconds < b->seconds || a->seconds > b->seconds)
        return a->seconds < b->seconds ? -1 : 1;
    return compare_costs(a, b);
}

static bool dominates(const advice_choice *a, const advice_choice *b)
{
    bool as_good = a->seconds <= b->seconds && a->memory_bytes <= b->memory_bytes &&
                   a->replication <= b->replication;
    bool better = a->seconds < b->seconds || a->memory_bytes < b->memory_bytes ||
                  a->replication < b->replication;
    return as_good && better;
}

static void mark_pareto(advice *found)
{
    for (size_t i = 0; i < found->count; i++) {
        advice_choice *choice = &found->choices[i];
        choice->pareto = !isnan(choice->seconds);
        for (size_t k = 0; k < found->count && choice->pareto; k++)
            choice->pareto = !dominates(&found->choices[k], choice);
    }
}

/* The choice with this replication and these pieces that stands for the others in the first look:
 * that of the fewest parts, if it may be one that keeps all. */
static size_t look_of(const search *it, size_t index)
{
    const advice_choice *choice = &it->choices[index], *other = it->choices;
    size_t look = index;
    for (size_t i = 0; i < it->variants.count; i++)
        if (other[i].replication == choice->replication && other[i].pieces == choice->pieces &&
            (other[i].parts < other[look].parts ||
             (other[i].parts == other[look].parts && other[i].keep < other[look].keep)))
            look = i;
    return look;
}

/*
 * What a choice may take at best: with k times the parts of its look, every chunk needs k times the
 * copies, and a worker sends 1/k of the bytes.
 */
static double hope_of(const search *it, size_t index)
{
    size_t look = look_of(it, index);
    double ratio = (double)it->choices[index].parts / it->choices[look].parts;
    double signal = it->choices[look].signal_seconds;
    return ratio * signal + (it->choices[look].seconds - signal) / ratio;
}

/* Of the choices with these parts, which no look was had at, those of the least memory among the
 * ones that may take no more than `seconds`. */
static void want_unseen(search *it, uint32_t parts, double seconds)
{
    for (int taken = 0; taken < MOST_UNSEEN; taken++) {
        size_t least = SIZE_MAX;
        for (size_t i = 0; i < it->variants.count; i++) {
            const advice_choice *choice = &it->choices[i];
            if (choice->parts == parts && choice->trials == 0 && !it->wanted[i] &&
                hope_of(it, i) <= seconds &&
                (least == SIZE_MAX || compare_costs(choice, &it->choices[least]) < 0))
                least = i;
        }
        if (least == SIZE_MAX)
            return;
        it->wanted[least] = true;
    }
}

/* After the first look: what may be the best, and in any case the best that was seen. */
static void want_promising(search *it)
{
    double best = INFINITY, hope = INFINITY;
    for (size_t i = 0; i < it->variants.count; i++) {
        if (it->choices[i].trials > 0)
            best = fmin(best, it->choices[i].seconds);
        else
            hope = fmin(hope, hope_of(it, i));
    }
    double limit = fmin(best, hope) * PROMISING;
    for (size_t i = 0; i < it->variants.count; i++)
        it->wanted[i] = it->choices[i].trials > 0 &&
                        (it->choices[i].seconds <= best || it->choices[i].seconds <= limit);
    const whole_list *parts = &it->options->world.defaults.part_counts;
    for (size_t i = 0; i < parts->count; i++) /* more parts cost memory for nothing but time */
        want_unseen(it, parts->values[i], parts->values[i] == 1 ? limit : fmin(best, limit));
}

static int run_stages(search *it, advice *out)
{
    const advise_options *options = it->options;
    uint64_t look = options->world.trials / 2;
    for (size_t i = 0; i < it->variants.count; i++)
        it->wanted[i] = look_of(it, i) == i;
    int status = run_stage(it, look > 0 ? look : 1, LOOK_ROUNDS, out);
    if (status != OPTIONS_PROCEED)
        return status;
    bool any = false;
    want_promising(it);
    for (size_t i = 0; i < it->variants.count; i++)
        any |= it->wanted[i];
    return any ? run_stage(it, options->world.trials, options->world.rounds, out) : OPTIONS_PROCEED;
}

double advice_round_time(const advice_choice *choice)
{
    return choice->seconds;
}

double advice_signal_time(const advice_choice *choice)
{
    return choice->signal_seconds;
}

const advice_choice *advice_best(const advice *found, uint32_t parts, advice_time *time,
                                 uint64_t trials)
{
    const advice_choice *least = NULL, *best = NULL;
    for (size_t i = 0; i < found->count; i++) {
        const advice_choice *choice = &found->choices[i];
        bool counts = (parts == 0 || choice->parts == parts) && !isnan(choice->seconds);
        if (counts && (least == NULL || time(choice) < time(least)))
            least = choice;
    }
    best = least;
    for (size_t i = 0; least != NULL && i < found->count; i++) {
        const advice_choice *choice = &found->choices[i];
        if ((parts == 0 || choice->parts == parts) && choice->trials == trials &&
            time(choice) <= time(least) * ADVICE_TIE && compare_costs(choice, best) < 0)
            best = choice;
    }
    return best;
}

/* Hands over what was simulated, in order, and chooses. */
static int judge(search *it, advice *out)
{
    for (size_t i = 0; i < it->variants.count; i++)
        if (it->choices[i].trials > 0)
            it->choices[out->count++] = it->choices[i];
    out->unpromising = it->variants.count - out->count;
    out->choices = it->choices;
    it->choices = NULL;
    qsort(out->choices, out->count, sizeof(*out->choices), compare_seconds);
    const advice_choice *best = out->choices;
    if (isnan(best->seconds))
        return complain(EXIT_FAILED,
                        "--advise: no choice could end all of its rounds: too many workers are "
                        "lost; try a higher --replication");
    mark_pareto(out);
    out->recommended =
        (size_t)(advice_best(out, 0, advice_round_time, it->options->world.trials) - out->choices);
    return OPTIONS_PROCEED;
}

static int search_create(search *it)
{
    const advise_options *options = it->options;
    const scheme_frame frame = simulate_options_frame(&it->world);
    tarry_diagnostic why;
    it->world.defaults.run.given |= TARRY_SETTING_BIT(TARRY_SETTING_REPLICATION) |
                                    TARRY_SETTING_BIT(TARRY_SETTING_PIECES) |
                                    TARRY_SETTING_BIT(TARRY_SETTING_PARTS);
    bool one_part = false;
    for (size_t i = 0; i < options->world.defaults.part_counts.count; i++)
        one_part |= options->world.defaults.part_counts.values[i] == 1;
    const char *schemes = options->keep == TARRY_KEEP_ALL || !one_part ? "tarry:keep=all"
                          : options->keep == TARRY_KEEP_CREDITED
                              ? "tarry:keep=credited,parts=1"
                              : "tarry:keep=all,tarry:keep=credited,parts=1";
    int error = simulate_variants_read(schemes, &it->world.defaults, &frame, &it->variants, &why);
    if (error != TARRY_OK)
        return complain(error == TARRY_ERROR_FORMAT ? EXIT_USAGE : EXIT_FAILED, "%s", why.text);
    size_t count = it->variants.count;
    it->chosen = memory_allocate(NULL, count, sizeof(*it->chosen));
    it->choices = memory_allocate(NULL, count, sizeof(*it->choices));
    it->wanted = memory_allocate(NULL, count, sizeof(*it->wanted));
    if (it->chosen == NULL || it->choices == NULL || it->wanted == NULL)
        return complain(EXIT_FAILED, "plan: out of memory");
    return OPTIONS_PROCEED;
}

int advise(const advise_options *options, advice *out)
{
    search it = {.options = options, .world = options->world};
    advice found = {0};
    int status = search_create(&it);
    if (status == OPTIONS_PROCEED)
        status = list_choices(&it, &found);
    if (status == OPTIONS_PROCEED)
        status = run_stages(&it, &found);
    if (status == OPTIONS_PROCEED)
        status = judge(&it, &found);
    memory_release(NULL, it.wanted);
    memory_release(NULL, it.choices);
    memory_release(NULL, it.chosen);
    simulate_variants_free(&it.variants);
    if (status != OPTIONS_PROCEED)
        advice_free(&found);
    else
        *out = found;
    return status;
}

void advice_free(advice *found)
{
    memory_release(NULL, found->choices);
    *found = (advice){0};
}
