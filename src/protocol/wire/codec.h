/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages as bytes. A frame is self-contained, little-endian:
 *   type 1, flags 1, turn 2, epoch 4, round 8, attempt 4, index 4 (slot, stripe or another
 * worker), behind it the term, 4, and a SIGNAL's name and scale, 24, if the flags say so, and the
 * bit sets, each padded to whole bytes with zeros: for SIGNAL psi, stripes and, with a name, the
 * group, and those sets of one bit per position that the flags say are there. Flags: bit 0: failed;
 * of HELD and FAILED: fetched; bit 1: first; bit 2: barred; bits 3 and 5: the fate is credited or
 * dropped; bit 3 of a SIGNAL: name, scale and group; bit 4: stale; bit 6: a term (it is not 0); bit
 * 7: recalled. REPORT and ALIVE have `next` in place of the attempt, which they don't have. ROUND,
 * NEWS, RESUME, REPORT and ALIVE have a turn; the others have none (zero). Messages of the vote
 * go on with sums. Bit 0 of ROUND and FINISH: before their sets `life`, 4, and 4 per
 * stripe, `stood`. Bit 3 of ROUND: behind that, before its sets, 4 per position, the weights. Bit 7
 * of a SIGNAL: before its sets 4 per worker, the lives, and 4 per chunk, the holders; beside it
 * only a term. The numbers of parameters and coded parts follow a frame outside of it.
 */
#ifndef PROTOCOL_CODEC_H
#define PROTOCOL_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/event.h>
#include <tarry/plan.h>

#include "base/bytes.h"

/* What a ROUND says of each position of the worker's order by a number of four bytes: the weights
 * of gradients. */

enum { CODEC_SLOT_BYTES = 4 };

/*
 * Messages about sums among workers, behind a frame's header. A sum is step 8, term 4, attempt 4,
 * digest 8. BREAK, FETCH, LOAD, COMMIT, HELD and FAILED have `sum`; STATE has `last`, `sum`, and a
 * digest of the parameters, 8. A SIGNAL's name is a sum without its digest, and a scale, 8, which
 * is finite and above 0.
 */

enum {
    CODEC_NAME_BYTES = 16,
    CODEC_SUM_BYTES = CODEC_NAME_BYTES + 8,
    CODEC_STATE_BYTES = 2 * CODEC_SUM_BYTES + 8,
    CODEC_GROUP_BYTES = CODEC_NAME_BYTES + 8, /* of a SIGNAL, before the set */
};

/* Whether it is a message of the vote alone. */
static inline bool codec_votes(tarry_message_type type)
{
    return type >= TARRY_MESSAGE_ASK;
}

enum {
    CODEC_HEADER_BYTES = 24,
    CODEC_TERM_BYTES = 4,
    CODEC_STOOD_BYTES = 4, /* per stripe, and of `life` */
    /* of a worker's frame where the server sums; */
    CODEC_MOST_REPORT_BYTES = CODEC_HEADER_BYTES + CODEC_TERM_BYTES,
    CODEC_MOST_WORKER_BYTES = CODEC_HEADER_BYTES + CODEC_STATE_BYTES, /* of any */
};

/* The sizes of the bit sets in the messages between the server and one worker. */
typedef struct codec_shape {
    size_t psi_bits;
    size_t stripes;
    size_t slots;
    size_t workers;
    size_t chunks; /* where sums are secure; else 0, and no SIGNAL names holders */
} codec_shape;

/* stripes: of a part. */
codec_shape codec_shape_of(const tarry_plan *plan, uint32_t worker, uint32_t stripes);
/* That of a run with secure sums. */
void codec_shape_secure(codec_shape *shape, const tarry_plan *plan);

/* Bytes of the message's frame; of the longest frame; 64-bit words that decoding any frame needs.
 * The message's sets are looked at for being there, not into. */
static inline size_t codec_size(const codec_shape *shape, const tarry_message *message);
size_t codec_max_size(const codec_shape *shape);
/* The same of a run whose ROUNDs have no weights. */
size_t codec_plain_max_size(const codec_shape *shape);
size_t codec_words(const codec_shape *shape);

/* Writes the message's frame, codec_size bytes. Sets that its type does not have are not written.
 */
void codec_encode(const codec_shape *shape, const tarry_message *message, uint8_t *frame);

/*
 * Reads a frame of `size` bytes. The message's bit sets lie in words (codec_words of them). Any
 * bytes may come in: what is no frame of this shape gives TARRY_ERROR_FORMAT. Positions, stripes
 * and rounds are the machines' to check.
 */
int codec_decode(const codec_shape *shape, const uint8_t *frame, size_t size, uint64_t *words,
                 tarry_message *message);

/* What kind of message a frame of any shape is, and of which round, for those who only hand it on;
 * what stands behind that is not looked at. Errors: FORMAT. */
int codec_peek(const uint8_t *frame, size_t size, tarry_message_type *type, uint64_t *round);

/* How many words hold the message's own bit sets; 0: it has none. */
size_t codec_kept_words(const codec_shape *shape, const tarry_message *message);
/* Copies them into words (as many), where the message then finds them, so that it outlives what it
 * was made from. */
void codec_keep_sets(const codec_shape *shape, tarry_message *message, uint64_t *words);

/* ---- inline: every report is measured ---- */

size_t codec_size_with_sets(const codec_shape *shape, const tarry_message *message);

static inline size_t codec_size(const codec_shape *shape, const tarry_message *message)
{
    if (message->type == TARRY_MESSAGE_REPORT)
        return (size_t)(CODEC_HEADER_BYTES + (message->term != 0 ? CODEC_TERM_BYTES : 0));
    return codec_size_with_sets(shape, message);
}

#endif
