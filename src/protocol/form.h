/* SPDX-License-Identifier: Apache-2.0 */
/* The form in which workers send their coded parts, by the settings. */
#ifndef PROTOCOL_FORM_H
#define PROTOCOL_FORM_H

#include <tarry/server.h>

#include "compress/compress.h"

/* That of a part that says it is of the kind `kind`. */
static inline compress_form form_of_kind(tarry_compress kind, uint32_t share)
{
    return (compress_form){.kind = kind, .share = kind == TARRY_COMPRESS_TOPK ? share : 0};
}

static inline compress_form form_of(const tarry_server_settings *settings)
{
    return form_of_kind(settings->compress, settings->compress_share);
}

/* The most bytes of `count` numbers of a part. */
static inline size_t form_most_bytes(compress_form form, size_t count)
{
    size_t bytes = compress_bytes(form, count), plain = count * sizeof(float);
    return compress_feeds_back(form.kind) && bytes < plain ? plain : bytes;
}

/* Whether a part may be of this kind: with feedback one that leaves nothing behind is not rounded.
 */
static inline bool form_may_be(tarry_compress kind, tarry_compress wanted)
{
    return kind == wanted || (kind == TARRY_COMPRESS_NONE && compress_feeds_back(wanted));
}

#endif
