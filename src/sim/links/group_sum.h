/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sum that everyone of a group gets over the links among them: what ring.c, direct.c, grid.c and
 * tree.c work out, and flows.c where these have too many messages.
 * Adding up takes no time.
 */
#ifndef SIM_GROUP_SUM_H
#define SIM_GROUP_SUM_H

#include <tarry/shape.h>

#include "compress/compress.h"
#include "sim/links/network.h"

typedef struct group_sum {
    const uint32_t *members; /* workers, in ascending order; NULL: workers 0..count-1 */
    uint32_t count;          /* >= 1 */
    uint64_t dimension;      /* d, of 4 bytes each but for the form */
    uint32_t parts;          /* l: each member has a coded part of ceil(d / l) numbers */
    compress_form up, down;  /* of coded parts on their way to owners, and of what these have
                                summed on its way back, with one part; of a direct sum alone */
} group_sum;

/* Whether each number is rounded once on a way, which it would be at each hop of other shapes. */
static inline bool group_sum_rounds(const group_sum *sum)
{
    return sum->up.kind != TARRY_COMPRESS_NONE || sum->down.kind != TARRY_COMPRESS_NONE;
}

static inline uint32_t group_sum_member(const group_sum *sum, uint32_t place)
{
    return sum->members != NULL ? sum->members[place] : place;
}

/* The shape in which the group makes the sum: that of `way`, or with TARRY_SIM_CHOSEN the one that
 * takes least by src/route, on links like those of the first member. */
tarry_shape group_sum_choose(const network *state, tarry_sim_way way, const group_sum *sum);

/*
 * Member i begins at ready_ns[i]. done_ns[i], by member: when it has the whole sum. *moved: the
 * bytes that all of them send. `way` is not TARRY_SIM_STAR. Errors: NO_MEMORY; the links are no
 * good for anything else then.
 */
int group_sum_run(network *state, tarry_sim_way way, const group_sum *sum, const uint64_t *ready_ns,
                  uint64_t *done_ns, uint64_t *moved);

#endif
