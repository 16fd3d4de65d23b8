/* SPDX-License-Identifier: Apache-2.0 */
/* A view as it comes, and its digest. */
#include <string.h>

#include "base/word_digest.h"
#include "compress/view.h"
#include "compress/view_digest.h"

/* ---- the digest ---- */

uint64_t view_digest_piece(uint64_t stamp, const float *numbers, size_t count)
{
    return XXH3_64bits_withSeed(numbers, count * sizeof(*numbers), stamp);
}

uint64_t view_digest_all(uint64_t stamp, const uint64_t *digests, size_t pieces)
{
    word_digest all;
    word_digest_begin(&all, stamp);
    for (size_t i = 0; i < pieces; i++)
        word_digest_add(&all, digests[i]);
    return word_digest_end(&all);
}

uint64_t view_digest_of(uint64_t stamp, const float *numbers, uint64_t count)
{
    word_digest all;
    word_digest_begin(&all, stamp);
    for (uint64_t first = 0; first < count; first += VIEW_PIECE) {
        uint64_t left = count - first;
        word_digest_add(&all, view_digest_piece(stamp, numbers + first,
                                                left < VIEW_PIECE ? (size_t)left : VIEW_PIECE));
    }
    return word_digest_end(&all);
}

/* ---- what comes ---- */

static bool is_sound(const view_piece *piece, tarry_compress form, uint64_t numbers)
{
    bool whole = piece->base == 0;
    uint64_t left = piece->first < numbers ? numbers - piece->first : 0;
    return piece->round < UINT64_MAX && piece->stamp > piece->base &&
           piece->stamp <= piece->round + 1 && (!whole || piece->stamp == piece->round + 1) &&
           piece->form == (whole ? TARRY_COMPRESS_NONE : form) && piece->first % VIEW_PIECE == 0 &&
           left > 0 && piece->count == (left < VIEW_PIECE ? left : VIEW_PIECE);
}

/* More of what is being sent. */
static bool continues(const view_intake *self, const view_piece *piece)
{
    const view_piece *at = &self->at;
    return self->active && piece->first == self->arrived && piece->round == at->round &&
           piece->stamp == at->stamp && piece->base == at->base && piece->digest == at->digest;
}

/* The next change of those that are sent for one round. */
static bool follows(const view_intake *self, const view_piece *piece)
{
    return !self->active && self->at.round == piece->round && self->at.stamp == piece->base &&
           self->at.stamp != self->has;
}

int view_intake_begin(view_intake *self, const view_piece *piece, tarry_compress form,
                      uint64_t numbers)
{
    if (!is_sound(piece, form, numbers))
        return TARRY_ERROR_FORMAT;
    if (piece->first > 0) {
        if (!continues(self, piece))
            return TARRY_ERROR_FORMAT;
    } else if (piece->base == 0 || piece->base == self->has) {
        self->moved = false;
        self->arrived = 0;
    } else if (follows(self, piece)) {
        self->moved = true;
        self->arrived = 0;
    } else {
        return TARRY_ERROR_FORMAT;
    }
    self->active = true;
    self->at = *piece;
    return TARRY_OK;
}

static void apply(const view_intake *self, const uint8_t *bytes, const float *current, float *next)
{
    const view_piece *piece = &self->at;
    float *to = next + piece->first;
    if (piece->base == 0) {
        if (bytes != (const uint8_t *)to)
            memcpy(to, bytes, piece->count * sizeof(*to));
        return;
    }
    if (!self->moved)
        memcpy(to, current + piece->first, piece->count * sizeof(*to));
    compress_decode_add((compress_form){.kind = piece->form}, bytes, piece->count, 1, to);
}

int view_intake_add(view_intake *self, const uint8_t *bytes, uint64_t numbers, const float *current,
                    float *next, uint64_t *digests, bool *complete)
{
    const view_piece *piece = &self->at;
    *complete = false;
    apply(self, bytes, current, next);
    digests[piece->first / VIEW_PIECE] =
        view_digest_piece(piece->stamp, next + piece->first, piece->count);
    self->arrived += piece->count;
    if (self->arrived < numbers)
        return TARRY_OK;
    self->active = false;
    size_t pieces = (size_t)((numbers + VIEW_PIECE - 1) / VIEW_PIECE);
    if (view_digest_all(piece->stamp, digests, pieces) != piece->digest) {
        self->has = 0;
        return TARRY_ERROR_FORMAT;
    }
    *complete = piece->stamp == piece->round + 1;
    if (*complete)
        self->has = piece->stamp;
    return TARRY_OK;
}
