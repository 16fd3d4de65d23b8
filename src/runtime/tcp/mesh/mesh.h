/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's connections to other workers, one per pair: TLS with certificates on both sides, or
 * plain text. The engine's blocks travel over them, and what workers hand each other outside of a
 * sum. A thread of its own does all of it, so that others are served whatever the caller does.
 *
 * Only members are talked to: those of the engine's group, and those that were admitted. A member
 * is known by its certificate and by its instance, which are in its address; of the two members of
 * a pair the one with the larger instance connects. If there are many members, only those of the
 * group are connected; others when one wants something of the other, who connects then. A stranger
 * is held to a few hundred bytes and some seconds.
 */
#ifndef RUNTIME_MESH_H
#define RUNTIME_MESH_H

#include <stdbool.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/engine.h>
#include <tarry/tcp.h>

#include "runtime/tcp/trust/credential.h"
#include "runtime/worker/exchange.h"

typedef struct mesh mesh;

typedef struct mesh_settings {
    const char *listen;      /* HOST:PORT, port 0: any; no Unix socket; read at creation alone */
    const char *advertise;   /* where others reach it, HOST:PORT, port 0: that which is listened on;
                                NULL: where it listens */
    const char *credentials; /* directory of a worker's (credential.h); NULL: plain text */
    uint64_t silence_ns; /* a connection through which nothing gets for that long is lost, and one
                            that is not made by then, too; a sum of which nothing moves for so long
                            fails; 0: 10 s */
    uint32_t connects_most; /* members up to which all are connected; 0: 64 */
    bool dials; /* it connects to all that are admitted, and none of them to it: they need not
                   reach it */
    /* A member that is to be connected to was not reached, this time; the mesh's thread, which must
     * not call it. NULL: nobody is told. */
    void (*unreached)(void *user, uint32_t worker, const char *why);
    void *user;
    const tarry_allocator *allocator; /* NULL: the C library's */
} mesh_settings;

/* Listens, and starts the thread; waits for the resolver. The caller owns *out. Errors: FORMAT,
 * FILE, SYSTEM, NO_MEMORY, with a diagnostic. */
int mesh_create(const mesh_settings *settings, mesh **out, tarry_diagnostic *diagnostic);
/* Ends engine and exchange with it. NULL is allowed. */
void mesh_free(mesh *self);

/* How others reach it: the engine's address. */
void mesh_own_address(const mesh *self, uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST], size_t *size);

/*
 * This worker is a member, whose address was told by a server that saw a certificate of that
 * fingerprint (all zeros: plain text). One that is known by another instance is dropped first.
 * Errors: FORMAT (no address, or not that certificate's), NO_MEMORY.
 */
int mesh_admit(mesh *self, uint32_t worker, const uint8_t *address, size_t size,
               const uint8_t fingerprint[32]);
/* It is none any more: its connection ends at once, and a sum with it fails. */
void mesh_remove(mesh *self, uint32_t worker);

/* Its engine and its exchange; `free` of the engine does nothing. */
tarry_engine *mesh_engine(mesh *self);
exchange *mesh_exchange(mesh *self);

/* Whether a sum still gets on. Times come from outside. */

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

#endif
