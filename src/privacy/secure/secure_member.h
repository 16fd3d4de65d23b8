/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker needs to mask its parts: its own key pair, the public keys of the others, and the
 * mask keys of the attempt that it takes part in. It checks no signature: who calls
 * secure_member_hear has done so.
 *
 * It masks for one kappa at a time, and never goes back: what it does after that of another one is
 * never masked with the same keys. All secrets are wiped as soon as they are replaced, and when it
 * is freed.
 */
#ifndef PRIVACY_SECURE_SECURE_MEMBER_H
#define PRIVACY_SECURE_SECURE_MEMBER_H

#include <tarry/allocator.h>

#include "privacy/secure/agreement.h"
#include "privacy/secure/kappa.h"
#include "privacy/secure/masked_counts.h"

typedef struct secure_member secure_member;

/*
 * The member `id` (0..workers-1). The key pair is borrowed: it outlives the member. Errors:
 * NO_MEMORY.
 */
int secure_member_create(uint32_t id, uint32_t workers, const agreement *pair,
                         const tarry_allocator *allocator, secure_member **self);
void secure_member_free(secure_member *self); /* NULL is allowed */

/*
 * The public key with which a member's life, `epoch` (1 or more), takes part. A later life replaces
 * what was known; an earlier one changes nothing. Errors: ARGUMENT (no such member or life; another
 * key for the same life; or another key than its own for the member itself).
 */
int secure_member_hear(secure_member *self, uint32_t id, uint32_t epoch,
                       const uint8_t key[AGREEMENT_KEY_BYTES]);

/*
 * Begins the attempt that the context names; context->keys is not read, but taken from what it
 * heard. For the context that it is in already, nothing happens. Of any other one (its own life,
 * round, attempt) have to be beyond all that it began, in this order. Sets kappa.
 *
 * Errors, on which nothing changes but that the former attempt is over where the last are met:
 * ARGUMENT (not for so many workers; its ring does not fit the context's chunks; the member itself
 * is not in S), STATE (not beyond), FORMAT (the context names a life of which it has not heard the
 * key), then NUMERICAL (the other's key gives a secret of zeros), NO_MEMORY.
 */
int secure_member_begin(secure_member *self, const kappa_context *context,
                        uint8_t kappa[KAPPA_BYTES]);

/*
 * words[0..count-1] = from[0..count-1], plus its masks of the attempt: numbers of the vector, of
 * which the first has the coordinate `first` in all of it. So it makes no difference to the mask of
 * a number how the vector is cut into stripes. `from` may be `words` itself; else they do not
 * overlap. A coordinate may never be masked again with other content. Errors: STATE (no attempt was
 * begun), NO_MEMORY, after which the words must not be sent.
 */
int secure_member_mask_numbers(secure_member *self, uint64_t first, const void *from, void *words,
                               size_t count);
/* The same of MASKED_COUNTS words, in place, behind the numbers of the stripe whose first number
 * has the coordinate `first`. No number has a mask from their stream. */
int secure_member_mask_counts(secure_member *self, uint64_t first, void *words);

/* The attempt is over: its mask keys are wiped. It can't be begun again. */
void secure_member_end(secure_member *self);

#endif
