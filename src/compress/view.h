/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view v: what workers have of the parameters x, where these come down in a form
 * (docs/compression.md). It moves from round to round by Q(x - v), decoded, at the server and at
 * all workers alike, so that all have the same bits; what rounding lost is in the next difference.
 *
 * A view is known by its stamp: 1 + the round that it was made for; 0: there is none. Numbers
 * travel in pieces of VIEW_PIECE, either those of the view itself (in the form NONE), or those of a
 * change, which is added to the view of one stamp and leads to that of another. All pieces of one
 * thing have its digest: XXH3-64, with the stamp as seed, of the digests of the pieces as
 * little-endian words; these are XXH3-64 of the view's float32 bytes. It tells views apart that
 * differ by accident.
 *
 *   view         what the server has: the view, and the last changes
 *   view_reader  what one receiver has and is being sent, as its sender knows it
 *   view_intake  what a receiver has and is being sent, as it knows it itself
 */
#ifndef COMPRESS_VIEW_H
#define COMPRESS_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

#include "compress/compress.h"

enum { VIEW_PIECE = 16384 };

/* Some numbers on their way. */
typedef struct view_piece {
    uint64_t round;      /* that they are sent for, whose view is the last of what comes */
    uint64_t stamp;      /* of the view that all of this leads to, at most 1 + round */
    uint64_t base;       /* of the view that the change is added to; 0: this is the view itself */
    uint64_t digest;     /* of the view that it leads to */
    uint64_t first;      /* the first number: a multiple of VIEW_PIECE */
    uint32_t count;      /* up to the next multiple, or the end */
    tarry_compress form; /* NONE just with base 0 */
} view_piece;

/* The bytes of its numbers. */
static inline size_t view_piece_bytes(const view_piece *piece)
{
    return compress_bytes((compress_form){.kind = piece->form}, piece->count);
}

/* How many changes are kept: as many as are shorter than the view, one at least. */
uint32_t view_kept(tarry_compress form);
/* Bytes that a view of so many numbers takes, with its changes. */
uint64_t view_bytes(tarry_compress form, uint64_t numbers);

/* The digest of a view. */
uint64_t view_digest_of(uint64_t stamp, const float *numbers, uint64_t count);

/* ---- who sends ---- */

typedef struct view view;

/* Of `numbers` numbers, at least 1. form: BF16 or INT8. Errors: NO_MEMORY. */
int view_create(tarry_compress form, size_t numbers, const tarry_allocator *allocator, view **made);
void view_free(view *self); /* NULL is allowed */

/* The view becomes x as it is; changes before are forgotten. */
void view_set(view *self, uint64_t round, const float *x);
/* It moves towards x, by a change that is rounded by (seed, round). There has to be a view, of an
 * earlier round. What is not finite in x, or was in the view, is NaN or infinite from then on. */
void view_move(view *self, uint64_t round, const float *x, uint64_t seed);

const float *view_numbers(const view *self);
uint64_t view_stamp(const view *self);
uint64_t view_digest(const view *self);
tarry_compress view_form(const view *self);

/* ---- to whom ---- */

/* All zeros: who has nothing. */
typedef struct view_reader {
    uint64_t has; /* the stamp of the view that it has */
    bool active;  /* it is being sent that of `round`: */
    bool whole;   /* as it is, else by changes, */
    uint64_t round;
    uint64_t at;    /* to whose view it has got by now, */
    uint64_t first; /* and of the next one, as far as this number */
} view_reader;

/* It is to get the view of `round`, unless it has that. */
void view_reader_begin(view_reader *reader, uint64_t round);
/* The next piece; false: there is none. *bytes are borrowed until the view changes. */
bool view_reader_next(view_reader *reader, const view *from, view_piece *piece,
                      const uint8_t **bytes);
/* Whether it has been given all. */
bool view_reader_is_done(const view_reader *reader);
/* Nothing more of this is sent; lost: some pieces that view_reader_next gave out were not sent
 * either. */
void view_reader_end(view_reader *reader, bool lost);

/* ---- who receives ---- */

/* All zeros: who has nothing. */
typedef struct view_intake {
    uint64_t has;     /* the stamp of the view that it has */
    view_piece at;    /* the piece that began last */
    bool active;      /* something comes, of which there is a part */
    bool moved;       /* a change before it is there already, in the same place */
    uint64_t arrived; /* numbers of what comes */
} view_intake;

/* Whether the piece can follow; in a run whose form is `form`, with views of so many numbers. What
 * came of other rounds' is void where it begins anew. Errors: FORMAT; nothing changes then. */
int view_intake_begin(view_intake *self, const view_piece *piece, tarry_compress form,
                      uint64_t numbers);
/*
 * The piece, which began, is there. next[first ..] becomes numbers of the view that it leads to:
 * those of `bytes` themselves, or added to those of the view that the receiver has, `current`, or,
 * where `moved` says that a change before was added, to those in `next`. digests: a word for each
 * piece of the view. *complete: this was the last one, and `next` is the view of its stamp, `has`,
 * from now on. Errors: FORMAT (what came about is not what the sender has; nothing is there then).
 */
int view_intake_add(view_intake *self, const uint8_t *bytes, uint64_t numbers, const float *current,
                    float *next, uint64_t *digests, bool *complete);

/*
 * What rounding lost of a worker's coded part, stripe by stripe: the residual e. A part z is sent
 * as Q(z + e), and leaves z + e - Q(z + e). Which of the two counts is known later: what was left
 * waits until it is committed. Until then, and if it never is, the residual is e.
 *
 * Over any encodings of a stripe that are committed, the sum of what was sent is that of the parts
 * z, plus the residual before them, less that after them (as far as float32 adds exactly). A number
 * of z + e that is not finite leaves 0.
 */

typedef struct residuals residuals;

/* Of a part of `length` numbers in stripes of `stripe_length` (the last one may be shorter), all
 * zero; takes two vectors of as many numbers. Errors: NO_MEMORY. */
int residuals_create(size_t length, size_t stripe_length, const tarry_allocator *allocator,
                     residuals **made);
void residuals_free(residuals *self); /* NULL is allowed */

/* Writes Q(z + e) of the stripe, compress_bytes of its numbers in the form, which is that of the
 * stripe, and may be another one each time; what is left waits, in the place of what waited before.
 * z: the stripe's numbers. */
void residuals_encode(residuals *self, uint32_t stripe, compress_form form, const float *z,
                      uint64_t key, uint8_t *bytes);
/* The same without rounding: gives back z + e itself, which lies here until the stripe is encoded
 * anew, and nothing is left. */
const float *residuals_flush(residuals *self, uint32_t stripe, const float *z);
/* What waits is the residual from now on. Something has to. */
void residuals_commit(residuals *self, uint32_t stripe);
/* The residual is zero from now on, and nothing waits. */
void residuals_void(residuals *self, uint32_t stripe);

/* Stripes whose residual is not zero. */
uint32_t residuals_count(const residuals *self);
/* The residual of the stripe; NULL: it is zero. */
const float *residuals_of(const residuals *self, uint32_t stripe);

#endif
