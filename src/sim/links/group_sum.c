/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/links/group_sum.h"

#include "sim/links/direct.h"
#include "sim/links/ring.h"

int group_sum_run(network *state, tarry_sim_way way, const group_sum *sum, const uint64_t *ready_ns,
                  uint64_t *done_ns, uint64_t *moved)
{
    return way == TARRY_SIM_RING ? ring_sum(state, sum, ready_ns, done_ns, moved)
                                 : direct_sum(state, sum, ready_ns, done_ns, moved);
}
