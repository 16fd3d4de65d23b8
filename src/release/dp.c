/* SPDX-License-Identifier: Apache-2.0 */
#include "release/dp.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/random.h>

#include <tarry/privacy.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/digest.h"
#include "base/memory.h"
#include "base/sized.h"
#include "privacy/noise.h"
#include "privacy/rdp.h"

static_assert(TARRY_DP_KEY_BYTES == KEYSTREAM_KEY_BYTES, "keys are those of the keystream");

#define MOST_RELEASES (UINT64_C(1) << 40)
#define LEAST_DEVIATION 1e-30 /* of noise: far from where float32 has no more digits */

struct tarry_dp {
    tarry_dp_terms terms;
    ledger_file *ledger; /* NULL: none */
    bool owns_ledger;
    uint64_t releases;
    uint64_t allowed; /* by the budget, as far as `settled` */
    bool settled;
    sampler draws;
    uint8_t noise_key[KEYSTREAM_KEY_BYTES];
    rdp_curve curve;
};

static int make_keys(tarry_dp *self, tarry_diagnostic *why)
{
    privacy_keys keys;
    int error = TARRY_OK;
    if (self->terms.seeded && privacy_keys_of_seed(self->terms.seed, &keys) != 0)
        error = diagnose_no_memory(why, "keys");
    else if (!self->terms.seeded && getrandom(&keys, sizeof(keys), 0) != (ssize_t)sizeof(keys))
        error =
            diagnose(why, TARRY_ERROR_SYSTEM, "random numbers of the system: %s", strerror(errno));
    self->draws.rate = self->terms.sample;
    memcpy(self->draws.key, keys.draws, sizeof(keys.draws));
    memcpy(self->noise_key, keys.noise, sizeof(keys.noise));
    explicit_bzero(&keys, sizeof(keys));
    return error;
}

static int epsilon_by(const tarry_dp *self, tarry_accountant accountant, uint64_t releases,
                      double *epsilon, tarry_diagnostic *diagnostic)
{
    tarry_privacy_settings settings;
    tarry_privacy_settings_init(&settings);
    settings.noise = self->terms.noise;
    settings.sample = self->terms.sample;
    settings.steps = releases;
    return tarry_privacy_epsilon(&settings, self->terms.delta, accountant, NULL, epsilon,
                                 diagnostic);
}

static int epsilon_after(const tarry_dp *self, uint64_t releases, double *epsilon,
                         tarry_diagnostic *diagnostic)
{
    return epsilon_by(self, TARRY_ACCOUNTANT_BEST, releases, epsilon, diagnostic);
}

static int check_terms(const tarry_dp_terms *terms, uint64_t samples, tarry_diagnostic *diagnostic)
{
    int error = sized_check(terms->size, sizeof(*terms), "dp", diagnostic);
    if (error != TARRY_OK)
        return error;
    if (!(terms->clip > 0 && isfinite(terms->clip)) || !(terms->delta > 0 && terms->delta < 1) ||
        !(terms->sample > 0))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "clip %g, sample %g, delta %g: more than 0 is wanted, and less than 1 of "
                        "delta",
                        terms->clip, terms->sample, terms->delta);
    if (terms->clip * terms->noise < LEAST_DEVIATION)
        return diagnose(
            diagnostic, TARRY_ERROR_ARGUMENT,
            "clip %g times noise %g is below %g, and float32 has no room for such noise: "
            "use a larger clip",
            terms->clip, terms->noise, LEAST_DEVIATION);
    if (terms->delta >= 1 / (double)samples)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "delta:%g is not below one in the %llu samples: say a smaller one",
                        terms->delta, (unsigned long long)samples);
    return TARRY_OK;
}

static int check_budget(const tarry_dp *self, tarry_diagnostic *diagnostic)
{
    double least;
    /* Without one noise and sample are looked at, and no time is taken. */
    const tarry_accountant accountant =
        isinf(self->terms.budget) ? TARRY_ACCOUNTANT_RDP : TARRY_ACCOUNTANT_BEST;
    int error = epsilon_by(self, accountant, 1, &least, diagnostic);
    if (error == TARRY_OK && least > self->terms.budget)
        error = diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                         "budget:%g is less than the epsilon of one round, %.4g",
                         self->terms.budget, least);
    return error;
}

int dp_create(const tarry_dp_terms *terms, uint64_t samples, ledger_file *ledger, tarry_dp **out,
              tarry_diagnostic *diagnostic)
{
    int error = check_terms(terms, samples, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_dp *self = memory_allocate(NULL, 1, sizeof(*self));
    if (self == NULL)
        return diagnose_no_memory(diagnostic, "dp");
    self->terms = *terms;
    self->ledger = ledger;
    self->releases = self->allowed = ledger != NULL ? ledger_file_releases(ledger) : 0;
    rdp_curve_begin(&self->curve, terms->noise, terms->sample);
    error = make_keys(self, diagnostic);
    if (error == TARRY_OK)
        error = check_budget(self, diagnostic);
    if (error == TARRY_OK)
        *out = self;
    else
        tarry_dp_free(self);
    return error;
}

int tarry_dp_create(const tarry_dp_terms *terms, uint64_t samples, const char *path, bool goes_on,
                    tarry_dp **out, tarry_diagnostic *diagnostic)
{
    const ledger_terms counted = {terms->clip, terms->noise, terms->sample};
    ledger_file *ledger = NULL;
    tarry_dp *self;
    int error = check_terms(terms, samples, diagnostic);
    if (error == TARRY_OK && path != NULL)
        error = ledger_file_open(path, goes_on, &counted, &ledger, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = dp_create(terms, samples, ledger, &self, diagnostic);
    if (error != TARRY_OK) {
        ledger_file_close(ledger);
        return error;
    }
    self->owns_ledger = true;
    *out = self;
    return TARRY_OK;
}

void tarry_dp_free(tarry_dp *self)
{
    if (self == NULL)
        return;
    if (self->owns_ledger)
        ledger_file_close(self->ledger);
    explicit_bzero(self, sizeof(*self));
    memory_release(NULL, self);
}

const tarry_dp_terms *dp_terms(const tarry_dp *self)
{
    return &self->terms;
}

const sampler *dp_draws(const tarry_dp *self)
{
    return &self->draws;
}

uint64_t tarry_dp_releases(const tarry_dp *self)
{
    return self->releases;
}

void tarry_dp_mark_get(const tarry_dp *self, tarry_dp_mark *mark)
{
    *mark = self->ledger != NULL ? ledger_file_mark(self->ledger) : (tarry_dp_mark){0};
}

int tarry_dp_mark_check(const tarry_dp *self, const tarry_dp_mark *mark, uint64_t rounds,
                        tarry_diagnostic *diagnostic)
{
    if (self->ledger == NULL)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "the checkpoint needs a ledger to compare with, and none was given");
    return ledger_file_covers(self->ledger, mark, rounds, diagnostic);
}

static int is_allowed(const tarry_dp *self, uint64_t releases, bool *allowed,
                      tarry_diagnostic *diagnostic)
{
    double epsilon;
    int error = epsilon_after(self, releases, &epsilon, diagnostic);
    *allowed = error == TARRY_OK && epsilon <= self->terms.budget;
    return error;
}

/* Finds how many releases the budget allows, where the quick bound does not tell: in steps that
 * grow until they are too many, and by halves then. */
static int settle(tarry_dp *self, tarry_diagnostic *diagnostic)
{
    uint64_t low = self->releases, step = 1; /* low is allowed */
    bool grows = true;
    while (step > 0 && low < MOST_RELEASES) {
        bool allowed;
        int error = is_allowed(self, low + step, &allowed, diagnostic);
        if (error != TARRY_OK)
            return error;
        grows = grows && allowed;
        if (allowed)
            low += step;
        step = grows ? 2 * step : step / 2;
    }
    self->allowed = low;
    self->settled = true;
    return TARRY_OK;
}

int tarry_dp_spent(tarry_dp *self, bool *spent, tarry_diagnostic *diagnostic)
{
    const tarry_dp_terms *terms = &self->terms;
    const uint64_t next = self->releases + 1;
    bool allowed = next <= self->allowed || isinf(terms->budget) ||
                   rdp_curve_epsilon(&self->curve, next, terms->delta) <= terms->budget;
    if (!allowed && !self->settled) {
        int error = settle(self, diagnostic);
        if (error != TARRY_OK)
            return error;
        allowed = next <= self->allowed;
    }
    *spent = !allowed;
    return TARRY_OK;
}

/* The place of the first number that is not finite, or `count`. */
static size_t find_not_finite(const float *numbers, size_t count)
{
    size_t at = 0;
    while (at < count && isfinite(numbers[at]))
        at++;
    return at;
}

/* What the caller has may have no noise, or not all of it. */
static int withhold(float *sum, size_t count, int error)
{
    memset(sum, 0, count * sizeof(*sum));
    return error;
}

int dp_release(tarry_dp *self, uint64_t round, float *sum, size_t count,
               tarry_diagnostic *diagnostic)
{
    int error = self->ledger != NULL ? ledger_file_add(self->ledger, diagnostic) : TARRY_OK;
    if (error != TARRY_OK)
        return error;
    self->releases++;
    /* Counted all the same: whoever sees the error learns something of the sum. */
    const size_t wrong = find_not_finite(sum, count);
    if (wrong < count)
        return withhold(sum, count,
                        diagnose(diagnostic, TARRY_ERROR_NUMERICAL,
                                 "the sum of round %llu is not finite: number %zu is %g. It is not "
                                 "released, but counts as a release. Some worker computes numbers "
                                 "that are not finite: check its data, model and machine",
                                 (unsigned long long)round, wrong, (double)sum[wrong]));
    if (noise_add(self->noise_key, self->releases, self->terms.noise * self->terms.clip, sum,
                  count) != 0)
        return withhold(sum, count, diagnose_no_memory(diagnostic, "noise"));
    return TARRY_OK;
}

int tarry_dp_release(tarry_dp *self, float *sum, size_t count, tarry_diagnostic *diagnostic)
{
    return dp_release(self, self->releases + 1, sum, count, diagnostic);
}

double tarry_dp_bound(tarry_dp *self)
{
    return rdp_curve_epsilon(&self->curve, self->releases, self->terms.delta);
}

int tarry_dp_epsilon(const tarry_dp *self, double *epsilon, tarry_diagnostic *diagnostic)
{
    return epsilon_after(self, self->releases, epsilon, diagnostic);
}

int tarry_dp_piece_key(const tarry_dp *self, uint64_t piece, uint8_t key[TARRY_DP_KEY_BYTES],
                       tarry_diagnostic *diagnostic)
{
    static const char label[] = "tarry privacy: draws of a piece ";
    uint8_t text[sizeof(label) + KEYSTREAM_KEY_BYTES + 8];
    memcpy(text, label, sizeof(label));
    memcpy(text + sizeof(label), self->draws.key, KEYSTREAM_KEY_BYTES);
    bytes_put(text + sizeof(label) + KEYSTREAM_KEY_BYTES, piece, 8);
    const int error = digest_of_bytes(text, sizeof(text), key);
    explicit_bzero(text, sizeof(text));
    return error == 0 ? TARRY_OK : diagnose_no_memory(diagnostic, "keys");
}

int tarry_dp_draw(const uint8_t key[TARRY_DP_KEY_BYTES], double sample, uint64_t round,
                  uint64_t first, size_t count, size_t *samples, size_t *drawn,
                  tarry_diagnostic *diagnostic)
{
    sampler of = {.rate = sample};
    if (!(sample >= 0 && sample <= 1))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "sample %g: 0 to 1 is wanted", sample);
    memcpy(of.key, key, sizeof(of.key));
    const int error = sampler_draw(&of, round, first, count, samples, drawn);
    explicit_bzero(&of, sizeof(of));
    return error == 0 ? TARRY_OK : diagnose_no_memory(diagnostic, "draws");
}
