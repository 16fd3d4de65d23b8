/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include <assert.h>

#include "base/memory.h"

int sim_schedule(tarry_sim *sim, uint64_t time, const sim_event *event, uint32_t *id)
{
    assert(time >= sim->now);
    int error = TARRY_OK;
    if (id != NULL)
        *id = QUEUE_NONE;
    if (time != TARRY_NEVER)
        error = queue_push(&sim->queue, time, event, id);
    if (time == TARRY_NEVER || error != TARRY_OK)
        memory_release(&sim->allocator, event->bits);
    return error;
}

layout sim_layout(const tarry_sim *sim, uint32_t parts)
{
    return layout_make(sim->settings.dimension, parts, sim->settings.server.stripe_length);
}

void sim_observe(const tarry_sim *sim, uint32_t node, const tarry_event *event,
                 const tarry_effects *effects)
{
    if (sim->settings.observer != NULL)
        sim->settings.observer(sim->settings.user, sim->now, node, event, effects);
}
