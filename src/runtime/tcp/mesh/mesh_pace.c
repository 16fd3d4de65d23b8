/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/mesh/mesh_pace.h"

#include <tarry/event.h>

void mesh_pace_moves(mesh_pace *pace, uint64_t now_ns)
{
    pace->moved_ns = now_ns;
    pace->again_ns = 0;
}

uint64_t mesh_pace_due_ns(const mesh_pace *pace)
{
    if (pace->again_ns > 0)
        return pace->again_ns;
    return pace->limit_ns < TARRY_NEVER - pace->moved_ns ? pace->moved_ns + pace->limit_ns
                                                         : TARRY_NEVER;
}

bool mesh_pace_stands(mesh_pace *pace, uint64_t now_ns)
{
    if (now_ns < mesh_pace_due_ns(pace))
        return false;
    if (pace->again_ns > 0)
        return true;
    pace->again_ns = now_ns + MESH_PACE_AGAIN_NS;
    return false;
}

void mesh_pace_wait(mesh_pace *pace, uint64_t until_ns)
{
    pace->again_ns = until_ns;
}
