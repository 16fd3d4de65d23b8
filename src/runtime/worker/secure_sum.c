/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/secure_sum.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include <tarry/allocator.h>
#include <tarry/secure.h>

#include "base/diagnostic.h"
#include "base/digest.h"
#include "base/memory.h"
#include "coding/layout.h"
#include "plan/plan.h"
#include "privacy/secure/secure_member.h"
#include "runtime/masked_words.h"
#include "runtime/worker/executor.h"

/* What a gradient is added as. */
typedef struct secure_gradient {
    const float *numbers;
    uint64_t generation; /* of its parameters */
    bool begins;         /* the sum, which was another one */
    uint64_t version;    /* of the sum then */
} secure_gradient;

/* ---- what gradients depend on that the server did not send ---- */

int tarry_task_bind(const tarry_task *task, const uint8_t state[TARRY_DIGEST_SIZE])
{
    executor *self = task->owner;
    if (self == NULL || self->settings.masking == NULL)
        return TARRY_OK;
    pthread_mutex_lock(&self->lock);
    const bool present = !self->bound.any || task->round > self->bound.round;
    const bool good = present || (task->round == self->bound.round &&
                                  memcmp(state, self->bound.state, sizeof(self->bound.state)) == 0);
    if (present) {
        self->bound.any = true;
        self->bound.round = task->round;
        memcpy(self->bound.state, state, sizeof(self->bound.state));
    }
    pthread_mutex_unlock(&self->lock);
    return good ? TARRY_OK : TARRY_ERROR_STATE;
}

/* Adds what the round's tasks were bound to, if they were, to the digest of its
 * parameters. False: there is no memory. */
static bool executor_add_bound(executor *self, uint64_t round,
                               uint8_t parameters[TARRY_DIGEST_SIZE])
{
    static const char label[] = "tarry: parameters and a state, 1";
    uint8_t bytes[sizeof(label) + 2 * TARRY_DIGEST_SIZE];
    pthread_mutex_lock(&self->lock);
    const bool any = self->bound.any && self->bound.round == round;
    memcpy(bytes + sizeof(label) + TARRY_DIGEST_SIZE, self->bound.state, TARRY_DIGEST_SIZE);
    pthread_mutex_unlock(&self->lock);
    memcpy(bytes, label, sizeof(label));
    memcpy(bytes + sizeof(label), parameters, TARRY_DIGEST_SIZE);
    return !any || digest_of_bytes(bytes, sizeof(bytes), parameters) == 0;
}

/* ---- masked sums ---- */

static void begin(secure_sum *self, uint64_t generation)
{
    self->clamped = 0;
    self->chunks = 0;
    self->generation = generation;
    self->mixed = false;
}

static void secure_sum_add(secure_sum *self, const layout *cut, const secure_gradient *gradient,
                           void *words)
{
    if (gradient->begins)
        begin(self, gradient->generation);
    self->mixed = self->mixed || gradient->generation != self->generation;
    self->chunks++;
    self->version = gradient->version;
    for (uint32_t stripe = 0; stripe < cut->stripes; stripe++) {
        const size_t start = layout_stripe_start(cut, stripe);
        const size_t length = layout_stripe_length(cut, stripe);
        uint8_t *at = (uint8_t *)words + ring_bytes(&self->grid, start);
        if (gradient->begins) /* a stripe at a time, so that it is in a cache when it is added to */
            memset(at, 0, ring_bytes(&self->grid, length));
        self->clamped += ring_add(&self->grid, gradient->numbers + start, length, at);
    }
}

/* The counts that go behind a stripe's numbers. Stripe 0 has the clamped numbers of all stripes,
 * and the others have 0: where in the vector numbers were clamped is not told. */
static masked_counts secure_sum_counts(const secure_sum *self, uint32_t stripe)
{
    return (masked_counts){.chunks = self->chunks, .clamped = stripe == 0 ? self->clamped : 0};
}

/* ---- masking ---- */

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

/* A number that was not given before. */
static uint64_t masking_next_version(masking *self)
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

/*
 * Of the numbers of the gradients in a part, so many are beyond the bound. Errors: STATE (more than
 * the member allows: nothing of them may be sent, and the diagnostic names round, share and bound).
 */
static int masking_check_clamped(const masking *self, uint64_t round, uint64_t clamped,
                                 uint64_t numbers, tarry_diagnostic *diagnostic)
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

/* Writes to `words` those at `from`, which may be the same place, plus the masks of the numbers
 * first .. first + count - 1 of the whole vector, in the attempt. Errors: SYSTEM. */
static int masking_apply(masking *self, uint64_t first, const void *from, void *words, size_t count)
{
    pthread_mutex_lock(&self->lock);
    int error = secure_member_mask_numbers(self->member, first, from, words, count);
    pthread_mutex_unlock(&self->lock);
    return error;
}

/* Adds the masks of the MASKED_COUNTS words behind the stripe that begins with the number `first`.
 * Errors: SYSTEM. */
static int masking_apply_counts(masking *self, uint64_t first, void *words)
{
    pthread_mutex_lock(&self->lock);
    int error = secure_member_mask_counts(self->member, first, words);
    pthread_mutex_unlock(&self->lock);
    return error;
}

/* Secure sums: what is folded is added to words of a ring, and what is sent is masked. */

void executor_fold_secure(executor *self, size_t count, bool begins)
{
    worker_slate *seat = self->slate;
    masking *masks = self->settings.masking;
    for (size_t i = 0; i < count; i++) {
        const uint32_t slot = seat->folds[i];
        assert(seat->weights[i] == 1);
        secure_sum_add(&seat->secret, &self->cut,
                       &(secure_gradient){
                           .numbers = worker_vectors_floats(seat->vectors, seat->gradient[slot]),
                           .generation = seat->finished[slot],
                           .begins = begins && i == 0,
                           .version = masking_next_version(masks),
                       },
                       seat->room);
    }
}

void executor_refuse(executor *self, int error, const char *why)
{
    const executor_uplink *uplink = &self->settings.uplink;
    self->refused = true;
    uplink->give_up(uplink->user, error, why);
}

/* The digest of the parameters of which the sum is; false: the server has exchanged them, or has
 * begun another round, and nothing is to be sent. */
static bool find_parameters(executor *self, const tarry_effect *effect,
                            uint8_t parameters[TARRY_DIGEST_SIZE])
{
    const secure_sum *sum = &self->slate->secret;
    const uint64_t present = snapshots_generation(self->snapshots, effect->round);
    if (present == 0)
        return false;
    if (sum->mixed || present != sum->generation ||
        !snapshots_digest(self->snapshots, present, parameters)) {
        executor_refuse(self, TARRY_ERROR_STATE, "the server sent other parameters within a round");
        return false;
    }
    return true;
}

static bool begin_masks(executor *self, const tarry_effect *effect)
{
    uint8_t parameters[TARRY_DIGEST_SIZE];
    tarry_diagnostic why = {{0}};
    bool ready = false;
    const secure_sum *sum = &self->slate->secret;
    if (!find_parameters(self, effect, parameters))
        return false;
    int error = masking_check_clamped(self->settings.masking, effect->round, sum->clamped,
                                      sum->chunks * self->cut.dimension, &why);
    if (error != TARRY_OK) {
        executor_refuse(self, error, why.text);
        return false;
    }
    if (!executor_add_bound(self, effect->round, parameters)) {
        executor_refuse(self, TARRY_ERROR_NO_MEMORY, tarry_error_text(TARRY_ERROR_NO_MEMORY));
        return false;
    }
    const masking_attempt attempt = {
        .epoch = effect->message.epoch,
        .round = effect->round,
        .attempt = effect->attempt,
        .plan = self->slate->plan,
        .parameters = parameters,
        .holders = effect->message.holders,
        .lives = effect->message.lives,
        .version = sum->version,
    };
    error = masking_begin(self->settings.masking, &attempt, &ready, &why);
    if (error != TARRY_OK)
        executor_refuse(self, error, why.text[0] != '\0' ? why.text : tarry_error_text(error));
    return error == TARRY_OK && ready;
}

/* A stripe as it is sent. Errors: as masking_apply. */
static int mask_stripe(executor *self, const layout *cut, uint32_t stripe, void *out)
{
    const secure_sum *sum = &self->slate->secret;
    masking *masks = self->settings.masking;
    const size_t start = layout_stripe_start(cut, stripe);
    const size_t length = layout_stripe_length(cut, stripe);
    const uint8_t *words = (const uint8_t *)self->slate->room + ring_bytes(&sum->grid, start);
    const masked_counts counts = secure_sum_counts(sum, stripe);
    uint8_t *behind = (uint8_t *)out + ring_bytes(&sum->grid, length);
    int error = masking_apply(masks, start, words, out, length);
    if (error != TARRY_OK)
        return error;
    masked_counts_put(&sum->grid, &counts, behind);
    return masking_apply_counts(masks, start, behind);
}

void executor_post_secure(executor *self, const tarry_effect *effect, const layout *cut)
{
    const executor_uplink *uplink = &self->settings.uplink;
    const ring *grid = &self->slate->secret.grid;
    const size_t start = layout_stripe_start(cut, effect->stripe);
    const size_t length = layout_stripe_length(cut, effect->stripe);
    void *words = worker_slate_stripe(self->slate, cut, effect->stripe);
    if (self->refused || !begin_masks(self, effect))
        return;
    executor_claim(self, start, length);
    int error = mask_stripe(self, cut, effect->stripe, words);
    if (error != TARRY_OK) {
        executor_refuse(self, error, "masks can't be worked out");
        return;
    }
    tarry_message part = effect->message;
    part.form = TARRY_COMPRESS_NONE;
    uplink->post_part(uplink->user, &part,
                      &(executor_stripe){
                          .first = start,
                          .count = length,
                          .bytes = words,
                          .size = masked_stripe_bytes(grid, cut, effect->stripe),
                      });
}
