/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a sum still gets on. Times come from outside. */
#ifndef TCP_MESH_PACE_H
#define TCP_MESH_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define MESH_PACE_AGAIN_NS UINT64_C(1000000)

typedef struct mesh_pace {
    uint64_t limit_ns;
    uint64_t moved_ns; /* when something of it came in or went out last */
    uint64_t again_ns; /* when the limit that was found over is looked at again; 0: it was not */
} mesh_pace;

/* A sum begins, or something of it came in or went out. */
void mesh_pace_moves(mesh_pace *pace, uint64_t now_ns);
/* When it is to be looked at; TARRY_NEVER: the limit is too far off. */
uint64_t mesh_pace_due_ns(const mesh_pace *pace);
/*
 * Whether nothing has moved for the limit. It is looked at twice, MESH_PACE_AGAIN_NS apart, before
 * that is believed: who was stopped itself finds the limit over when it goes on, and first takes in
 * what has come meanwhile.
 */
bool mesh_pace_stands(mesh_pace *pace, uint64_t now_ns);
/* It stands, and is given until then. */
void mesh_pace_wait(mesh_pace *pace, uint64_t until_ns);

#endif
