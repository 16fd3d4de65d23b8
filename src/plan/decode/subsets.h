/* SPDX-License-Identifier: Apache-2.0 */
/* Subsets of {0, .., n - 1} of a given size, as ascending lists of their members. */
#ifndef PLAN_SUBSETS_H
#define PLAN_SUBSETS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"

/* How many subsets of `size` there are: n over size, or UINT64_MAX if that does not fit. */
uint64_t subsets_count(uint32_t n, uint32_t size);

/* The first subset in lexicographic order; size <= n. */
void subsets_first(uint32_t *members, uint32_t size);
/* Goes on to the next; false, with the last left as it is, if there is none. */
bool subsets_next(uint32_t *members, uint32_t size, uint32_t n);
/* Draws one, each with the same probability. */
void subsets_draw(random_stream *stream, uint32_t *members, uint32_t size, uint32_t n);

#endif
