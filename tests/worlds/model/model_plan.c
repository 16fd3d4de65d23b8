/* SPDX-License-Identifier: Apache-2.0 */
/* What goes by the plan alone: the bytes of messages, and the model of the next plan's server. */
#include "worlds/model/model.h"

uint64_t model_frame_bytes(const server_model *it, uint32_t worker, const tarry_message *message)
{
    uint64_t slots = set_size(it->held[worker]), view = 0, sets;
    uint64_t term = message->term != 0 ? 4 : 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
        if (it->held[worker] & bit(chunk))
            view += tarry_plan_replication(it->plan, chunk);
    switch (message->type) {
    case TARRY_MESSAGE_SIGNAL:
        return 24 + term + (view + 7) / 8 + (it->stripes + 7) / 8 +
               (message->group != NULL ? 24 + ((uint64_t)it->workers + 7) / 8 : 0) +
               (message->holders != NULL ? 4 * ((uint64_t)it->workers + it->chunks) : 0) +
               (message->stale != NULL ? (slots + 7) / 8 : 0);
    case TARRY_MESSAGE_FINISH:
    case TARRY_MESSAGE_ROUND:
    case TARRY_MESSAGE_RESUME:
    case TARRY_MESSAGE_NEWS:
        sets = (message->first != NULL ? 1U : 0U) + (message->barred != NULL ? 1U : 0U) +
               (message->recalled != NULL ? 1U : 0U);
        return 24 + term + sets * ((slots + 7) / 8) + (message->weights != NULL ? 4 * slots : 0) +
               (message->stood != NULL ? 4 * (UINT64_C(1) + it->stripes) : 0);
    case TARRY_MESSAGE_STATE:
        return 80;
    case TARRY_MESSAGE_BREAK:
    case TARRY_MESSAGE_FETCH:
    case TARRY_MESSAGE_LOAD:
    case TARRY_MESSAGE_COMMIT:
    case TARRY_MESSAGE_HELD:
    case TARRY_MESSAGE_FAILED:
        return 48;
    default:
        return 24 + term;
    }
}

bool model_turn(const server_model *from, const tarry_plan *plan, server_model *next)
{
    bool beyond_doubt = model_init(next, plan, &from->settings);
    next->round = from->round;
    for (uint32_t worker = 0; worker < next->workers; worker++)
        next->members[worker] = (model_member){
            .present = from->members[worker].present,
            .epoch = from->members[worker].epoch,
            .heard = from->members[worker].heard,
            .probed = from->members[worker].probed,
        };
    return beyond_doubt;
}
