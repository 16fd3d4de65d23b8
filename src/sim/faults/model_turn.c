/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/faults/model.h"

bool model_turn(const server_model *from, const tarry_plan *plan, server_model *next)
{
    bool beyond_doubt = model_init(next, plan, &from->settings);
    next->round = from->round;
    next->longest = from->longest;
    for (uint32_t worker = 0; worker < next->workers; worker++)
        next->members[worker] = (model_member){
            .present = from->members[worker].present,
            .epoch = from->members[worker].epoch,
            .heard = from->members[worker].heard,
            .probed = from->members[worker].probed,
        };
    return beyond_doubt;
}
