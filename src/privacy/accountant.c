/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdbool.h>

#include <tarry/privacy.h>

#include "base/diagnostic.h"
#include "base/sized.h"
#include "privacy/composed.h"
#include "privacy/rdp.h"

enum { CELLS = 1 << 19 };

#define STEPS_MOST (UINT64_C(1) << 40)
#define NOISE_LEAST 1e-3
#define NOISE_MOST 1e6
#define NOISE_PRECISION 5e-5

void tarry_privacy_settings_init_sized(tarry_privacy_settings *settings, size_t size)
{
    if (!sized_begin(settings, size, sizeof(*settings)))
        return;
    settings->noise = 1;
    settings->sample = 1;
}

/* What is asked of an accountant: epsilon where delta > 0, else delta. */
typedef struct question {
    tarry_privacy_settings settings;
    tarry_accountant accountant;
    double delta, epsilon;
    const tarry_allocator *allocator;
} question;

static int check(const tarry_privacy_settings *settings, tarry_diagnostic *diagnostic)
{
    int error = sized_check(settings->size, sizeof(*settings), "privacy", diagnostic);
    if (error != TARRY_OK)
        return error;
    if (!(settings->noise >= NOISE_LEAST && settings->noise <= NOISE_MOST))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "noise %g: 0.001 to 1e6 is wanted",
                        settings->noise);
    if (!(settings->sample >= 0 && settings->sample <= 1))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "sample %g: 0 to 1 is wanted",
                        settings->sample);
    if (settings->steps > STEPS_MOST)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "steps: at most 2^40 are wanted");
    return TARRY_OK;
}

static int check_delta(double delta, tarry_diagnostic *diagnostic)
{
    return delta > 0 && delta < 1
               ? TARRY_OK
               : diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                          "delta %g: more than 0 and less than 1 is wanted", delta);
}

static double by_rdp(const question *asked)
{
    const tarry_privacy_settings *settings = &asked->settings;
    return asked->delta > 0
               ? rdp_epsilon(settings->noise, settings->sample, settings->steps, asked->delta)
               : rdp_delta(settings->noise, settings->sample, settings->steps, asked->epsilon);
}

/* The worst answer in place of NaN, which comparisons would pass over. */
static double or_unbounded(const question *asked, double found)
{
    return !isnan(found) ? found : asked->delta > 0 ? INFINITY : 1;
}

/* The worse of an example's removal and its addition, which are the same where all are in each
 * batch. */
static int by_pld(const question *asked, double *answer)
{
    const tarry_privacy_settings *settings = &asked->settings;
    const composed_aim aim = {asked->delta, asked->epsilon, CELLS};
    double worst = 0;
    for (loss_direction direction = LOSS_REMOVED; direction <= LOSS_ADDED; direction++) {
        if (direction == LOSS_ADDED && settings->sample == 1)
            break;
        const loss_mechanism one = {settings->noise, settings->sample, direction};
        composed_loss all;
        int error = composed_loss_make(&one, settings->steps, &aim, asked->allocator, &all);
        if (error != TARRY_OK)
            return error;
        const double found = asked->delta > 0 ? composed_epsilon(&all, asked->delta)
                                              : composed_delta(&all, asked->epsilon);
        composed_loss_free(&all, asked->allocator);
        worst = fmax(worst, or_unbounded(asked, found));
    }
    *answer = worst;
    return TARRY_OK;
}

static int answer_of(const question *asked, double *answer)
{
    double renyi = INFINITY, grid = INFINITY;
    int error = TARRY_OK;
    if (asked->settings.steps == 0 || asked->settings.sample == 0) {
        *answer = 0;
        return TARRY_OK;
    }
    if (asked->accountant != TARRY_ACCOUNTANT_PLD)
        renyi = or_unbounded(asked, by_rdp(asked));
    if (asked->accountant != TARRY_ACCOUNTANT_RDP)
        error = by_pld(asked, &grid);
    if (error == TARRY_OK)
        *answer = fmin(renyi, grid);
    return error;
}

int tarry_privacy_epsilon(const tarry_privacy_settings *settings, double delta,
                          tarry_accountant accountant, const tarry_allocator *allocator,
                          double *epsilon, tarry_diagnostic *diagnostic)
{
    int error = check(settings, diagnostic);
    if (error == TARRY_OK)
        error = check_delta(delta, diagnostic);
    if (error != TARRY_OK)
        return error;
    const question asked = {*settings, accountant, delta, 0, allocator};
    error = answer_of(&asked, epsilon);
    return error == TARRY_OK ? error : diagnose_no_memory(diagnostic, "privacy");
}

int tarry_privacy_delta(const tarry_privacy_settings *settings, double epsilon,
                        tarry_accountant accountant, const tarry_allocator *allocator,
                        double *delta, tarry_diagnostic *diagnostic)
{
    int error = check(settings, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (!(epsilon >= 0))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "epsilon %g: 0 or more is wanted",
                        epsilon);
    const question asked = {*settings, accountant, 0, epsilon, allocator};
    error = answer_of(&asked, delta);
    return error == TARRY_OK ? error : diagnose_no_memory(diagnostic, "privacy");
}

/* Noise between two bounds: what epsilon is at them, where it is known, else NAN. */
typedef struct bracket {
    double low, high;       /* low is not enough, high is */
    double at_low, at_high; /* epsilon there */
} bracket;

/* Over logarithms epsilon is nearly straight: where the line between both ends meets it. Where that
 * is not known, the middle. */
static double guess_of(const bracket *within, double epsilon)
{
    double share =
        (log(within->at_low) - log(epsilon)) / (log(within->at_low) - log(within->at_high));
    if (!(share > 0 && share < 1))
        share = 0.5;
    return within->low * pow(within->high / within->low, share);
}

/* Asks at one noise more, and moves the end of the bracket that it belongs to. */
static int look(question *asked, double epsilon, double noise, bracket *within, bool *enough)
{
    double found;
    asked->settings.noise = noise;
    int error = answer_of(asked, &found);
    if (error != TARRY_OK)
        return error;
    *enough = found <= epsilon;
    *(*enough ? &within->high : &within->low) = noise;
    *(*enough ? &within->at_high : &within->at_low) = found;
    return TARRY_OK;
}

/* Each second guess is pushed beyond the line, to the side that did not move, so that both ends
 * come near. */
static int narrow(question *asked, double epsilon, bracket *within)
{
    double push = 1;
    for (int i = 0; within->high / within->low > 1 + NOISE_PRECISION; i++) {
        double noise = guess_of(within, epsilon) * push;
        bool enough;
        if (i % 4 == 3 || !(noise > within->low && noise < within->high))
            noise = sqrt(within->low * within->high);
        int error = look(asked, epsilon, noise, within, &enough);
        if (error != TARRY_OK)
            return error;
        push = enough ? 1 - NOISE_PRECISION / 3 : 1 + NOISE_PRECISION / 3;
    }
    return TARRY_OK;
}

/* From a noise that may be enough, or not: outwards by a tenth, and more each time, until there is
 * one that is enough and one that is not. At the largest noise the answer is known to be enough,
 * and nothing is below the least. */
static int bracket_around(question *asked, double epsilon, double noise, bracket *within)
{
    bool enough;
    *within = (bracket){NOISE_LEAST, NOISE_MOST, NAN, NAN};
    int error = look(asked, epsilon, noise, within, &enough);
    const bool first = enough;
    for (double factor = first ? 0.9 : 1.1; error == TARRY_OK && enough == first;
         factor *= factor) {
        noise = fmin(fmax(noise * factor, NOISE_LEAST), NOISE_MOST);
        error = look(asked, epsilon, noise, within, &enough);
        if (noise == NOISE_LEAST || noise == NOISE_MOST)
            break;
    }
    return error;
}

/* By Renyi divergences, which take no time; then by the losses around that. The result was asked
 * about: its epsilon is at most the one that is wanted. */
static int search(question *asked, double epsilon, double *noise)
{
    tarry_accountant accountant = asked->accountant;
    bracket within = {NOISE_LEAST, NOISE_MOST, NAN, NAN};
    asked->accountant = TARRY_ACCOUNTANT_RDP;
    int error = narrow(asked, epsilon, &within);
    asked->accountant = accountant;
    if (accountant != TARRY_ACCOUNTANT_RDP && error == TARRY_OK) {
        error = bracket_around(asked, epsilon, within.high, &within);
        if (error == TARRY_OK)
            error = narrow(asked, epsilon, &within);
    }
    *noise = within.high;
    return error;
}

int tarry_privacy_noise(const tarry_privacy_settings *settings, double epsilon, double delta,
                        tarry_accountant accountant, const tarry_allocator *allocator,
                        double *noise, tarry_diagnostic *diagnostic)
{
    question asked = {*settings, accountant, delta, 0, allocator};
    asked.settings.noise = NOISE_MOST;
    double found = 0;
    int error = check(&asked.settings, diagnostic);
    if (error == TARRY_OK)
        error = check_delta(delta, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (!(epsilon > 0))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "epsilon %g: more than 0 is wanted",
                        epsilon);
    error = answer_of(&asked, &found);
    if (error == TARRY_OK && found > epsilon)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "no noise up to 1e6 gives epsilon %g with delta %g", epsilon, delta);
    if (error == TARRY_OK)
        error = search(&asked, epsilon, &found);
    if (error != TARRY_OK)
        return diagnose_no_memory(diagnostic, "privacy");
    *noise = found;
    return TARRY_OK;
}
