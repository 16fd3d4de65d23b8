/* SPDX-License-Identifier: Apache-2.0 */
/* The forms in which numbers travel, by the settings: coded parts, sums and parameters. */
#ifndef PROTOCOL_FORM_H
#define PROTOCOL_FORM_H

#include <tarry/server.h>

#include "coding/layout.h"
#include "compress/compress.h"

/* That of a part that says it is of the kind `kind`; the others are those of the settings. */
static inline compress_form form_of_kind(tarry_compress kind, uint32_t share, uint32_t exact)
{
    return (compress_form){
        .kind = kind,
        .share = kind == TARRY_COMPRESS_TOPK ? share : 0,
        .exact = kind != TARRY_COMPRESS_NONE ? exact : 0,
    };
}

static inline compress_form form_of(const tarry_server_settings *settings)
{
    return form_of_kind(settings->compress, settings->compress_share, settings->compress_exact);
}

/* That of parts for the server: what goes to other workers is for their engines to write. */
static inline compress_form form_of_parts(const tarry_server_settings *settings)
{
    return settings->sum == TARRY_SUM_SERVER ? form_of(settings)
                                             : (compress_form){.kind = TARRY_COMPRESS_NONE};
}

/* That of a sum among workers on its way back from who has summed it. */
static inline compress_form form_of_sums(const tarry_server_settings *settings)
{
    return settings->sum == TARRY_SUM_EVERYWHERE
               ? form_of_kind(settings->compress_down, 0, settings->compress_exact)
               : (compress_form){.kind = TARRY_COMPRESS_NONE};
}

/* That of changes of the view; NONE: parameters come as they are, or not at all. */
static inline tarry_compress form_of_view(const tarry_server_settings *settings)
{
    return settings->sum == TARRY_SUM_SERVER ? settings->compress_down : TARRY_COMPRESS_NONE;
}

/* Whether numbers that pass from worker to worker are rounded, on either way. */
static inline bool form_rounds_among_workers(const tarry_server_settings *settings)
{
    return settings->sum == TARRY_SUM_EVERYWHERE &&
           (settings->compress != TARRY_COMPRESS_NONE ||
            settings->compress_down != TARRY_COMPRESS_NONE);
}

/* That of a stripe of a part. */
static inline compress_form form_of_stripe(compress_form part, const layout *cut, uint32_t index)
{
    return compress_within(part, cut->part_length, layout_stripe_start(cut, index),
                           layout_stripe_length(cut, index));
}

static inline size_t form_stripe_bytes(compress_form part, const layout *cut, uint32_t index)
{
    return compress_bytes(form_of_stripe(part, cut, index), layout_stripe_length(cut, index));
}

/* The most bytes of a stripe in the form. */
static inline size_t form_packed_bytes(compress_form part, const layout *cut)
{
    size_t most = form_stripe_bytes(part, cut, 0);
    /* The first one is the longest of those that have no exact numbers. */
    for (uint32_t i = cut->stripes; i-- > 1 && form_of_stripe(part, cut, i).exact > 0;) {
        size_t bytes = form_stripe_bytes(part, cut, i);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* The same of all that may come: with feedback it may be float32. */
static inline size_t form_most_bytes(compress_form part, const layout *cut)
{
    size_t bytes = form_packed_bytes(part, cut);
    size_t plain = layout_stripe_length(cut, 0) * sizeof(float);
    return compress_feeds_back(part.kind) && bytes < plain ? plain : bytes;
}

/* Whether a part may be of this kind: with feedback one that leaves nothing behind is not rounded.
 */
static inline bool form_may_be(tarry_compress kind, tarry_compress wanted)
{
    return kind == wanted || (kind == TARRY_COMPRESS_NONE && compress_feeds_back(wanted));
}

/* Whether reports have norms. */
static inline bool settings_want_norms(const tarry_server_settings *settings)
{
    return settings->importance ||
           (settings->sample_chunks > 0 && settings->sample_by == TARRY_SAMPLE_NORM);
}

#endif
