/* SPDX-License-Identifier: Apache-2.0 */
/* Secure sums: what is folded is added to words of a ring, and what is sent is masked. */
#include "runtime/worker/executor_step.h"

#include <assert.h>

#include "base/diagnostic.h"
#include "runtime/masked_words.h"

void executor_fold_secure(executor *self, size_t count, bool begins)
{
    worker_slate *seat = self->slate;
    masking *masks = self->settings.masking;
    for (size_t i = 0; i < count; i++) {
        const uint32_t slot = seat->folds[i];
        assert(seat->weights[i] == 1);
        secure_sum_add(&seat->secret, &self->settings.cut,
                       &(secure_gradient){
                           .numbers = seat->gradient[slot],
                           .generation = seat->finished[slot],
                           .begins = begins && i == 0,
                           .version = masking_next_version(masks),
                       },
                       seat->part);
    }
}

void executor_refuse(executor *self, int error, const char *why)
{
    const executor_uplink *uplink = &self->settings.uplink;
    self->refused = true;
    if (uplink->refused != NULL)
        uplink->refused(uplink->user, error, why);
    else
        uplink->give_up(uplink->user);
}

/* The digest of the parameters of which the sum is; false: the server has exchanged them, or has
 * begun another round, and nothing is to be sent. */
static bool find_parameters(executor *self, const tarry_effect *effect,
                            uint8_t digest[TARRY_DIGEST_SIZE])
{
    const secure_sum *sum = &self->slate->secret;
    const uint64_t present = snapshots_generation(self->settings.snapshots, effect->round);
    if (present == 0)
        return false;
    if (sum->mixed || present != sum->generation ||
        !snapshots_digest(self->settings.snapshots, present, digest)) {
        executor_refuse(self, TARRY_ERROR_STATE, "the server sent other parameters within a round");
        return false;
    }
    return true;
}

static bool begin_masks(executor *self, const tarry_effect *effect)
{
    uint8_t digest[TARRY_DIGEST_SIZE];
    tarry_diagnostic why = {{0}};
    bool ready = false;
    const secure_sum *sum = &self->slate->secret;
    if (!find_parameters(self, effect, digest))
        return false;
    int error = masking_check_clamped(self->settings.masking, effect->round, sum->clamped,
                                      sum->chunks * self->settings.cut.dimension, &why);
    if (error != TARRY_OK) {
        executor_refuse(self, error, why.text);
        return false;
    }
    if (!executor_add_bound(self, effect->round, digest)) {
        executor_refuse(self, TARRY_ERROR_NO_MEMORY, tarry_error_text(TARRY_ERROR_NO_MEMORY));
        return false;
    }
    const masking_attempt attempt = {
        .epoch = effect->message.epoch,
        .round = effect->round,
        .attempt = effect->attempt,
        .plan = self->slate->plan,
        .parameters = digest,
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
    const uint8_t *words = (const uint8_t *)self->slate->part + ring_bytes(&sum->grid, start);
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
