/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan as bytes, so that whoever made or evolved it can hand it to another machine, whatever it
 * was made from. Little-endian:
 *   head: name 8, version 4, order 1, zero 1, complete 1, what follows 1 (1: spans, 2: racks),
 *     pieces 4, seed 8, and the conditioning: worst 8, median 8, subsets 8
 *   body: workers 4, chunks 4, parts 4; where each worker's slots begin, and the last one's end, 4
 *     each; the chunk of each slot 4; the decode matrix, 8 per weight; and with spans: origins 4,
 *     where each chunk's spans begin, and the last one's end, 4 each, and for each span origin 4,
 *     first 4, count 4, of 4; and with racks: the rack of each worker 4, numbered as they first
 *     occur
 *   tail: the plan's digest 32, which is the SHA-256 of the body, and the SHA-256 of all before it
 * 32
 */
#ifndef PLAN_PLAN_CODE_H
#define PLAN_PLAN_CODE_H

#include "plan/plan.h"

enum { PLAN_CODE_HEAD_BYTES = 52 };

size_t plan_encoded_size(const tarry_plan *plan);
/* Writes plan_encoded_size bytes. Errors: NO_MEMORY, the only way in which a digest fails. */
int plan_encode(const tarry_plan *plan, uint8_t *bytes);

/*
 * Reads a plan that is the same as the one written, to the bit; the caller owns *plan and frees it
 * with tarry_plan_free. Any bytes may come in: what takes memory is in proportion to `size`.
 * Errors: FORMAT (no plan, another version, damaged, or a plan that can't be: a chunk twice at a
 * worker or at too few of them, weights that are none, spans that don't cover the data once, racks
 * out of turn), NO_MEMORY.
 */
int plan_decode_bytes(const uint8_t *bytes, size_t size, const tarry_allocator *allocator,
                      tarry_plan **plan, tarry_diagnostic *diagnostic);

#endif
