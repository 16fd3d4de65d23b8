/* SPDX-License-Identifier: Apache-2.0 */
/* What a run did so far, as bytes, so that the report of a resumed one covers all of it. */
#ifndef CLI_HISTORY_CODE_H
#define CLI_HISTORY_CODE_H

#include <stdint.h>

#include "cli/checkpoint/history.h"

size_t history_encoded_size(const history *past);
/*
 * Writes history_encoded_size bytes, little-endian: the seconds so far, what each worker did, and
 * the rounds. Times within a round are kept, that of its start is not.
 */
void history_encode(const history *past, uint8_t *bytes);

/*
 * Fills a new history of as many workers: rounds, and what was done `earlier`. Any bytes
 * may come in. Errors: FORMAT (of another number of workers or not of `count` rounds, counters that
 * can't be), NO_MEMORY; *past is unchanged then.
 */
int history_decode(history *past, size_t count, const uint8_t *bytes, size_t size);

#endif
