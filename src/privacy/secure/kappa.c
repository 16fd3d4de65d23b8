/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/secure/kappa.h"

#include <tarry/error.h>

#include "base/bytes.h"
#include "base/digest.h"

static const char label[] = "tarry secure sums: kappa 2";

/* What is encoded goes straight into the digest. */
typedef struct encoder {
    digest *state;
    int failed;
} encoder;

static void add_bytes(encoder *to, const uint8_t *bytes, size_t count)
{
    to->failed |= digest_add_bytes(to->state, bytes, count);
}

static void add_number(encoder *to, uint64_t number, unsigned bytes)
{
    uint8_t text[8];
    bytes_put(text, number, bytes);
    add_bytes(to, text, bytes);
}

static void add_f64(encoder *to, double number)
{
    uint8_t text[8];
    bytes_put_f64(text, number);
    add_bytes(to, text, sizeof(text));
}

static void add_list(encoder *to, const uint32_t *numbers, uint32_t count)
{
    add_number(to, count, 4);
    to->failed |= digest_add_u32(to->state, numbers, count);
}

static void add_keys(encoder *to, const kappa_context *context)
{
    uint32_t members = 0;
    for (uint32_t j = 0; j < context->workers; j++)
        members += context->lives[j] != 0;
    add_number(to, members, 4);
    for (uint32_t j = 0; j < context->workers; j++) {
        if (context->lives[j] != 0)
            add_bytes(to, context->keys[j], sizeof(context->keys[j]));
    }
}

/* The canonical encoding, field by field. */
static void encode(encoder *to, const kappa_context *context)
{
    add_bytes(to, (const uint8_t *)label, sizeof(label));
    add_bytes(to, context->terms, sizeof(context->terms));
    add_bytes(to, context->job, sizeof(context->job));
    add_bytes(to, context->target, sizeof(context->target));
    add_bytes(to, context->plan, sizeof(context->plan));
    add_bytes(to, context->parameters, sizeof(context->parameters));
    add_number(to, context->round, 8);
    add_number(to, context->attempt, 4);
    add_number(to, context->ring.bits, 4);
    add_number(to, (uint32_t)context->ring.fraction, 4);
    add_f64(to, context->ring.bound);
    add_number(to, context->colluders, 4);
    add_list(to, context->lives, context->workers);
    add_list(to, context->holders, context->chunks);
    add_keys(to, context);
}

int kappa_digest(const kappa_context *context, uint8_t out[KAPPA_BYTES])
{
    encoder to = {.state = digest_begin()};
    if (to.state == NULL)
        return TARRY_ERROR_NO_MEMORY;
    encode(&to, context);
    to.failed |= digest_end(to.state, out);
    return to.failed == 0 ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}
