/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/train_privacy.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/random.h>

#include <tarry/privacy.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/options/options.h"
#include "cli/text/complain.h"
#include "privacy/noise.h"
#include "privacy/rdp.h"

struct train_privacy {
    dp_option option;
    ledger_file *ledger; /* NULL: none */
    uint64_t releases;
    uint64_t most;    /* releases, with the rounds that may come */
    uint64_t allowed; /* by the budget, as far as `settled` */
    bool settled;
    sampler draws;
    uint8_t noise_key[KEYSTREAM_KEY_BYTES];
    rdp_curve curve;
};

static int make_keys(train_privacy *self, tarry_diagnostic *why)
{
    privacy_keys keys;
    int error = TARRY_OK;
    if (self->option.seeded && privacy_keys_of_seed(self->option.seed, &keys) != 0)
        error = diagnose_no_memory(why, "keys");
    else if (!self->option.seeded && getrandom(&keys, sizeof(keys), 0) != (ssize_t)sizeof(keys))
        error =
            diagnose(why, TARRY_ERROR_SYSTEM, "random numbers of the system: %s", strerror(errno));
    self->draws.rate = self->option.sample;
    memcpy(self->draws.key, keys.draws, sizeof(keys.draws));
    memcpy(self->noise_key, keys.noise, sizeof(keys.noise));
    explicit_bzero(&keys, sizeof(keys));
    return error;
}

static int epsilon_after(const train_privacy *self, uint64_t releases, double *epsilon,
                         tarry_diagnostic *diagnostic)
{
    tarry_privacy_settings settings;
    tarry_privacy_settings_init(&settings);
    settings.noise = self->option.noise;
    settings.sample = self->option.sample;
    settings.steps = releases;
    return tarry_privacy_epsilon(&settings, self->option.delta, TARRY_ACCOUNTANT_BEST, NULL,
                                 epsilon, diagnostic);
}

int train_privacy_create(const dp_option *option, size_t samples, uint64_t rounds,
                         ledger_file *ledger, train_privacy **out)
{
    tarry_diagnostic why = {""};
    double least = 0;
    if (option->delta >= 1 / (double)samples)
        return complain(EXIT_USAGE,
                        "--dp: delta:%g is not below one in the %zu samples: say a smaller one",
                        option->delta, samples);
    train_privacy *self = memory_allocate(NULL, 1, sizeof(*self));
    if (self == NULL)
        return complain(EXIT_FAILED, "--dp: out of memory");
    self->option = *option;
    self->ledger = ledger;
    self->releases = self->allowed = ledger != NULL ? ledger_file_releases(ledger) : 0;
    self->most = self->releases + rounds;
    rdp_curve_begin(&self->curve, option->noise, option->sample);
    int error = make_keys(self, &why);
    if (error == TARRY_OK && isfinite(option->budget))
        error = epsilon_after(self, 1, &least, &why);
    int status = OPTIONS_PROCEED;
    if (error != TARRY_OK)
        status = complain(EXIT_FAILED, "--dp: %s", why.text);
    else if (least > option->budget)
        status = complain(EXIT_USAGE, "--dp: budget:%g is less than the epsilon of one round, %.4g",
                          option->budget, least);
    if (status == OPTIONS_PROCEED)
        *out = self;
    else
        train_privacy_free(self);
    return status;
}

void train_privacy_free(train_privacy *self)
{
    if (self == NULL)
        return;
    explicit_bzero(self, sizeof(*self));
    memory_release(NULL, self);
}

const sampler *train_privacy_draws(const train_privacy *self)
{
    return &self->draws;
}

/* Finds how many releases the budget allows, where the quick bound does not tell. */
static int settle(train_privacy *self, tarry_diagnostic *diagnostic)
{
    uint64_t low = self->releases, high = self->most + 1; /* allowed, and not */
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        double epsilon;
        int error = epsilon_after(self, middle, &epsilon, diagnostic);
        if (error != TARRY_OK)
            return error;
        if (epsilon <= self->option.budget)
            low = middle;
        else
            high = middle;
    }
    self->allowed = low;
    self->settled = true;
    return TARRY_OK;
}

int train_privacy_spent(train_privacy *self, bool *spent, tarry_diagnostic *diagnostic)
{
    const dp_option *option = &self->option;
    const uint64_t next = self->releases + 1;
    bool allowed = next <= self->allowed || isinf(option->budget) ||
                   rdp_curve_epsilon(&self->curve, next, option->delta) <= option->budget;
    if (!allowed && !self->settled) {
        int error = settle(self, diagnostic);
        if (error != TARRY_OK)
            return error;
        allowed = next <= self->allowed;
    }
    *spent = !allowed;
    return TARRY_OK;
}

int train_privacy_release(train_privacy *self, const tarry_round_result *result, float *sum,
                          size_t dimension, tarry_diagnostic *diagnostic)
{
    if (!result->exact)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "the sum of round %" PRIu64 " is not exact, and is not released",
                        result->round);
    int error = self->ledger != NULL ? ledger_file_add(self->ledger, diagnostic) : TARRY_OK;
    if (error != TARRY_OK)
        return error;
    self->releases++;
    if (noise_add(self->noise_key, self->releases, self->option.noise * self->option.clip, sum,
                  dimension) != 0)
        return diagnose_no_memory(diagnostic, "noise");
    return TARRY_OK;
}

double train_privacy_bound(train_privacy *self)
{
    return rdp_curve_epsilon(&self->curve, self->releases, self->option.delta);
}

int train_privacy_account(const train_privacy *self, history_privacy *account,
                          tarry_diagnostic *diagnostic)
{
    double epsilon;
    int error = epsilon_after(self, self->releases, &epsilon, diagnostic);
    if (error != TARRY_OK)
        return error;
    account->counted = true;
    account->secret = !self->option.seeded;
    account->releases = self->releases;
    account->epsilon = epsilon;
    account->delta = self->option.delta;
    return TARRY_OK;
}
