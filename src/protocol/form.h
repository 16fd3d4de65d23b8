/* SPDX-License-Identifier: Apache-2.0 */
/* The forms in which numbers travel, by the settings: coded parts, sums and parameters. */
#ifndef PROTOCOL_FORM_H
#define PROTOCOL_FORM_H

#include <tarry/server.h>

#include "coding/layout.h"
#include "compress/compress.h"
#include "compress/compress_lowrank.h"
#include "privacy/secure/secure_member.h"

/* That of a part that says it is of the kind `kind`; the others are those of the settings. */
static inline compress_form form_of_kind(tarry_compress kind, uint32_t millionths, uint32_t exact)
{
    return (compress_form){
        .kind = kind,
        .share = kind == TARRY_COMPRESS_TOPK ? millionths : 0,
        .exact = kind != TARRY_COMPRESS_NONE ? exact : 0,
    };
}

/* A form in the round. */
static inline compress_form form_in_round(compress_form form, uint64_t round)
{
    form.low.odd = round % 2 > 0;
    return form;
}

/* That of a part whose message names `kind`, in a run and a round whose form is `own`. */
static inline compress_form form_as(compress_form own, tarry_compress kind)
{
    return kind == own.kind ? own : form_of_kind(kind, own.share, own.exact);
}

/* Where a round's factor is: POWERSGD. */
static inline compress_form form_with(compress_form form, const float *factor)
{
    form.low.factor = factor;
    return form;
}

/* The matrices of a gradient, of POWERSGD. The stripe's length is chosen. */
static inline compress_lowrank lowrank_of(const tarry_server_settings *settings)
{
    if (settings->compress != TARRY_COMPRESS_POWERSGD)
        return (compress_lowrank){0};
    return (compress_lowrank){
        .rank = settings->compress_rank,
        .count = settings->compress_matrix_count,
        .matrices = settings->compress_matrices,
        .stripe = settings->stripe_length,
    };
}

static inline compress_form form_of(const tarry_server_settings *settings)
{
    compress_form form =
        form_of_kind(settings->compress, settings->compress_share, settings->compress_exact);
    form.low = lowrank_of(settings);
    return form;
}

/* Numbers of a round's factor, which follow its parameters; 0: there is none. */
static inline size_t form_factor_numbers(compress_form form)
{
    return form.kind == TARRY_COMPRESS_POWERSGD ? lowrank_factor_numbers(&form.low) : 0;
}

/* The numbers of a stripe where the settings leave them open: matrices are seldom cut. */
static inline size_t form_stripe_length(const tarry_server_settings *settings)
{
    enum { USUAL = 65536, LONGEST = 1 << 22 };
    size_t least = settings->compress == TARRY_COMPRESS_POWERSGD ? LONGEST : USUAL;
    return settings->stripe_length > 0 ? settings->stripe_length : least;
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

/* True if workers round what they send, to the server or to each other. */
static inline bool form_workers_round(const tarry_server_settings *settings)
{
    return settings->compress != TARRY_COMPRESS_NONE ||
           (settings->sum == TARRY_SUM_EVERYWHERE &&
            settings->compress_down != TARRY_COMPRESS_NONE);
}

/* True if a run can have numbers of this element. */
static inline bool form_has_element(const tarry_server_settings *settings, uint32_t parts)
{
    return settings->element == TARRY_ELEMENT_FLOAT32 ||
           (settings->element == TARRY_ELEMENT_FLOAT64 && settings->sum == TARRY_SUM_EVERYWHERE &&
            parts == 1 && !form_workers_round(settings));
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

/* That of parts in the round, wherever they go. */
static inline compress_form form_of_round(const tarry_server_settings *settings, uint64_t round)
{
    return form_in_round(form_of(settings), round);
}

/* That of a part of the round whose message names `kind`. */
static inline compress_form form_of_part(const tarry_server_settings *settings, uint64_t round,
                                         tarry_compress kind)
{
    return form_as(form_of_round(settings, round), kind);
}

/* POWERSGD: of all stripes in rounds of both kinds. */
static inline size_t form_lowrank_most(compress_form part, const layout *cut)
{
    size_t most = 0;
    for (uint32_t i = 0; i < 2 * cut->stripes; i++) {
        part.low.odd = i % 2 > 0;
        size_t bytes = form_stripe_bytes(part, cut, i / 2);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* The most bytes of a stripe in the form. */
static inline size_t form_packed_bytes(compress_form part, const layout *cut)
{
    size_t most = form_stripe_bytes(part, cut, 0);
    if (part.kind == TARRY_COMPRESS_POWERSGD)
        return form_lowrank_most(part, cut);
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

/* A stripe of a part where sums are secure: an integer per number, and those that count and check.
 */
static inline size_t form_secure_bytes(uint32_t bits, size_t numbers)
{
    return (numbers + MASKED_COUNTS) * (bits / 8);
}

/* Whether a part may be of this kind: with feedback one that leaves nothing behind is not rounded.
 */
static inline bool form_may_be(tarry_compress kind, tarry_compress wanted)
{
    return kind == wanted || (kind == TARRY_COMPRESS_NONE && compress_feeds_back(wanted));
}

#endif
