/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/masking.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "plan/plan.h"
#include "privacy/secure/secure_member.h"

struct masking {
    tarry_allocator allocator;
    masking_settings settings; /* its terms: under the lock */
    agreement *pair;
    secure_member *member; /* under the lock */
    pthread_mutex_t lock;
    bool has_lock;
    uint64_t versions; /* given out so far */
    /* The attempt that it is at, once one has begun: */
    bool begun;
    uint32_t epoch;
    uint64_t round;
    uint32_t attempt;
    uint64_t version;
};

int masking_create(const masking_settings *settings, const tarry_allocator *allocator,
                   masking **made)
{
    masking *self = memory_allocate(allocator, 1, sizeof(*self));
    if (self == NULL)
        return TARRY_ERROR_NO_MEMORY;
    self->allocator = memory_allocator(allocator);
    self->settings = *settings;
    self->has_lock = pthread_mutex_init(&self->lock, NULL) == 0;
    self->pair = agreement_create();
    int error = self->has_lock && self->pair != NULL ? TARRY_OK : TARRY_ERROR_SYSTEM;
    if (error == TARRY_OK)
        error = secure_member_create(settings->worker, settings->workers, self->pair,
                                     &self->allocator, &self->member);
    if (error != TARRY_OK) {
        masking_free(self);
        return error;
    }
    *made = self;
    return TARRY_OK;
}

void masking_free(masking *self)
{
    if (self == NULL)
        return;
    tarry_allocator allocator = self->allocator;
    secure_member_free(self->member);
    agreement_free(self->pair);
    if (self->has_lock)
        pthread_mutex_destroy(&self->lock);
    memory_release(&allocator, self);
}

const uint8_t *masking_key(const masking *self)
{
    return agreement_public_key(self->pair);
}

int masking_hear(masking *self, uint32_t worker, uint32_t epoch,
                 const uint8_t key[MASKING_KEY_BYTES])
{
    if (worker == self->settings.worker)
        return TARRY_ERROR_ARGUMENT;
    pthread_mutex_lock(&self->lock);
    int error = secure_member_hear(self->member, worker, epoch, key);
    pthread_mutex_unlock(&self->lock);
    return error;
}

void masking_set_terms(masking *self, const uint8_t terms[TARRY_DIGEST_SIZE])
{
    pthread_mutex_lock(&self->lock);
    memcpy(self->settings.terms, terms, sizeof(self->settings.terms));
    pthread_mutex_unlock(&self->lock);
}

uint64_t masking_next_version(masking *self)
{
    return ++self->versions;
}

static bool is_same(const masking *self, const masking_attempt *attempt)
{
    return self->begun && self->epoch == attempt->epoch && self->round == attempt->round &&
           self->attempt == attempt->attempt;
}

/* The masks of the attempt are the ones to come. Errors: as secure_member_begin. */
static int begin_member(masking *self, const masking_attempt *attempt, uint8_t kappa[KAPPA_BYTES])
{
    const masking_settings *settings = &self->settings;
    const tarry_secure_rules *rules = &settings->rules;
    kappa_context context = {
        .round = attempt->round,
        .attempt = attempt->attempt,
        .ring = {.bits = rules->bits, .fraction = rules->fraction, .bound = rules->bound},
        .colluders = rules->colluders,
        .workers = settings->workers,
        .lives = attempt->lives,
        .chunks = attempt->plan->chunks,
        .holders = attempt->holders,
    };
    memcpy(context.job, settings->job, sizeof(context.job));
    memcpy(context.target, settings->target, sizeof(context.target));
    memcpy(context.plan, attempt->plan->digest, sizeof(context.plan));
    memcpy(context.parameters, attempt->parameters, sizeof(context.parameters));
    pthread_mutex_lock(&self->lock);
    memcpy(context.terms, settings->terms, sizeof(context.terms));
    int error = secure_member_hear(self->member, settings->worker, attempt->epoch,
                                   agreement_public_key(self->pair));
    if (error == TARRY_OK)
        error = secure_member_begin(self->member, &context, kappa);
    pthread_mutex_unlock(&self->lock);
    return error;
}

/* Before the first byte goes out. */
static int note(const masking *self, const masking_attempt *attempt,
                const uint8_t kappa[KAPPA_BYTES], tarry_diagnostic *diagnostic)
{
    const tarry_secure_member *member = &self->settings.member;
    tarry_secure_attempt noted = {
        .epoch = attempt->epoch, .round = attempt->round, .attempt = attempt->attempt};
    memcpy(noted.job_id, self->settings.job_id, sizeof(noted.job_id));
    memcpy(noted.kappa, kappa, sizeof(noted.kappa));
    return member->lock == NULL ? TARRY_OK : member->lock(member->user, &noted, diagnostic);
}

int masking_begin(masking *self, const masking_attempt *attempt, bool *ready,
                  tarry_diagnostic *diagnostic)
{
    uint8_t kappa[KAPPA_BYTES];
    *ready = is_same(self, attempt);
    if (*ready)
        return attempt->version == self->version
                   ? TARRY_OK
                   : diagnose(diagnostic, TARRY_ERROR_STATE,
                              "the server wants another part for the masks of the one before");
    self->begun = false;
    int error = begin_member(self, attempt, kappa);
    if (error == TARRY_ERROR_FORMAT)
        return TARRY_OK; /* of a life that is over by now */
    if (error == TARRY_ERROR_STATE)
        return diagnose(diagnostic, error, "the server goes back to an attempt that is over");
    if (error == TARRY_ERROR_NUMERICAL)
        return diagnose(diagnostic, error, "a worker's key is one with which nothing is secret");
    if (error == TARRY_OK)
        error = note(self, attempt, kappa, diagnostic);
    if (error != TARRY_OK)
        return error;
    self->begun = *ready = true;
    self->epoch = attempt->epoch;
    self->round = attempt->round;
    self->attempt = attempt->attempt;
    self->version = attempt->version;
    return TARRY_OK;
}

int masking_check_clamped(const masking *self, uint64_t round, uint64_t clamped, uint64_t numbers,
                          tarry_diagnostic *diagnostic)
{
    const tarry_secure_member *member = &self->settings.member;
    const double most = member->clamped_most > 0 ? member->clamped_most : TARRY_SECURE_CLAMPED_MOST;
    if (clamped == 0 || (double)clamped <= most * (double)numbers)
        return TARRY_OK;
    return diagnose(
        diagnostic, TARRY_ERROR_STATE,
        "in round %" PRIu64
        ", %.3g %% of this worker's numbers are beyond the bound of %g or not finite, "
        "and at most %.3g %% may be: nothing was sent. Raise the bound at the server and at all "
        "workers (%s), or scale the loss down",
        round, 100 * (double)clamped / (double)numbers, self->settings.rules.bound, 100 * most,
        member->bound_name != NULL ? member->bound_name : "bound");
}

int masking_apply(masking *self, uint64_t first, const void *from, void *words, size_t count)
{
    pthread_mutex_lock(&self->lock);
    int error = secure_member_mask_numbers(self->member, first, from, words, count);
    pthread_mutex_unlock(&self->lock);
    return error;
}

int masking_apply_counts(masking *self, uint64_t first, void *words)
{
    pthread_mutex_lock(&self->lock);
    int error = secure_member_mask_counts(self->member, first, words);
    pthread_mutex_unlock(&self->lock);
    return error;
}
