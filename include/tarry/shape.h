/* SPDX-License-Identifier: Apache-2.0 */
/* Who sends what to whom while the members of a group make a sum (docs/collective.md). */
#ifndef TARRY_SHAPE_H
#define TARRY_SHAPE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tarry_shape_kind {
    TARRY_SHAPE_AUTO,   /* not chosen yet */
    TARRY_SHAPE_DIRECT, /* each member sums a share of the numbers, from all others */
    TARRY_SHAPE_GRID,   /* shares are summed in rows of members, and these sums in columns */
    TARRY_SHAPE_TREE,   /* two binary trees, each for half of the numbers: few numbers, many members
                         */
} tarry_shape_kind;

typedef struct tarry_shape {
    tarry_shape_kind kind;
    uint32_t rows; /* GRID: 2 .. members / 2; else 0 */
} tarry_shape;

/* What is known of the connections among workers by the sums that they have made. */
typedef struct tarry_links {
    uint64_t latency_ns;       /* one way, of the most usual connection; 0: not known */
    uint64_t bytes_per_second; /* of a worker's, each way; 0: not known */
} tarry_links;

#ifdef __cplusplus
}
#endif

#endif
