/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/secure/kappa.h"

#include <tarry/error.h>

#include "base/bytes.h"
#include "base/digest.h"

static const char label[] = "tarry secure sums: kappa 1";

/* A head of one size says how long each list behind it is, so that no two contexts read alike. */
enum { HEAD_BYTES = sizeof(label) + 5 * 32 + 8 + 4 + 4 + 4 + 8 + 4 + 8 + 4 + 4 };

static void put_head(const kappa_context *context, uint8_t head[HEAD_BYTES])
{
    const uint8_t *digests[] = {context->job, context->target, context->roster, context->plan,
                                context->parameters};
    uint8_t *at = head;
    memcpy(at, label, sizeof(label));
    at += sizeof(label);
    for (size_t i = 0; i < sizeof(digests) / sizeof(*digests); i++, at += 32)
        memcpy(at, digests[i], 32);
    at = bytes_put(at, context->round, 8);
    at = bytes_put(at, context->attempt, 4);
    at = bytes_put(at, context->ring.bits, 4);
    at = bytes_put(at, (uint32_t)context->ring.fraction, 4);
    at = bytes_put_f64(at, context->ring.bound);
    at = bytes_put(at, context->colluders, 4);
    at = bytes_put(at, context->least, 8);
    at = bytes_put(at, context->workers, 4);
    bytes_put(at, context->chunks, 4);
}

int kappa_digest(const kappa_context *context, uint8_t out[KAPPA_BYTES])
{
    digest *state = digest_begin();
    if (state == NULL)
        return TARRY_ERROR_NO_MEMORY;
    uint8_t head[HEAD_BYTES];
    put_head(context, head);
    int failed = digest_add_bytes(state, head, sizeof(head));
    failed |= digest_add_u32(state, context->lives, context->workers);
    failed |= digest_add_u32(state, context->holders, context->chunks);
    for (uint32_t j = 0; j < context->workers; j++) {
        if (context->lives[j] != 0)
            failed |= digest_add_bytes(state, context->keys[j], sizeof(context->keys[j]));
    }
    failed |= digest_end(state, out);
    return failed == 0 ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}
