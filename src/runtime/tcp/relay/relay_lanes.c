/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/memory.h"
#include "runtime/tcp/relay/relay_state.h"

enum { LANES_LEAST = 64 };

static bool is_free(const relay_lane *lane)
{
    return lane->child == NULL && !lane->ending;
}

static bool grow(tcp_relay *self)
{
    size_t room = memory_room(self->lane_room, (size_t)self->lane_room + 1, LANES_LEAST);
    if (room > WIRE_LANES_MOST)
        room = WIRE_LANES_MOST;
    if (room == self->lane_room)
        return false;
    relay_lane *grown =
        memory_grow(&self->allocator, self->lanes, self->lane_room, room, sizeof(*grown));
    if (grown == NULL)
        return false;
    memset(grown + self->lane_room, 0, (room - self->lane_room) * sizeof(*grown));
    self->lanes = grown;
    self->lane_room = (uint32_t)room;
    return true;
}

bool relay_lane_take(tcp_relay *self, relay_child *child)
{
    for (;;) {
        for (uint32_t i = 0; i < self->lane_room; i++) {
            uint32_t lane = (self->lane_next + i) % self->lane_room;
            if (!is_free(&self->lanes[lane]))
                continue;
            self->lanes[lane].child = child;
            self->lane_next = lane + 1;
            child->lane = lane;
            return true;
        }
        self->lane_next = self->lane_room;
        if (!grow(self))
            return false;
    }
}

relay_child *relay_lane_child(const tcp_relay *self, uint32_t lane)
{
    return lane < self->lane_room ? self->lanes[lane].child : NULL;
}

void relay_lane_leave(tcp_relay *self, uint32_t lane)
{
    self->lanes[lane] = (relay_lane){.ending = true};
}

bool relay_lane_end(tcp_relay *self, uint32_t lane)
{
    if (lane >= self->lane_room || is_free(&self->lanes[lane]))
        return false;
    self->lanes[lane] = (relay_lane){0};
    return true;
}

void relay_lanes_clear(tcp_relay *self)
{
    memory_release(&self->allocator, self->lanes);
    self->lanes = NULL;
    self->lane_room = self->lane_next = 0;
}
