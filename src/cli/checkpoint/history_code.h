/* SPDX-License-Identifier: Apache-2.0 */
/* What a run did so far, as bytes, so that the report of a resumed one covers all of it:
 * little-endian, rounds each by itself. */
#ifndef CLI_HISTORY_CODE_H
#define CLI_HISTORY_CODE_H

#include <stdint.h>

#include "cli/checkpoint/history.h"

enum { HISTORY_ROUND_BYTES = 25 * 8 + 14 * 4 };

/* Writes HISTORY_ROUND_BYTES. Times within a round are kept, that of its start is not. */
void history_encode_round(const history_round *round, uint8_t *bytes);
/* Any HISTORY_ROUND_BYTES may come in; FORMAT for what is not written so, counters that can't be.
 */
int history_decode_round(const uint8_t *bytes, history_round *round);

/* All but the rounds: the seconds so far and what each worker did. Writes
 * history_encoded_size bytes. */
size_t history_encoded_size(const history *past);
void history_encode(const history *past, uint8_t *bytes);
/* Fills in what was done `earlier`. Any bytes may come in. Errors: FORMAT (of another number of
 * workers); *past is unchanged then. */
int history_decode(history *past, const uint8_t *bytes, size_t size);

#endif
