/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine of a worker that has connections to other workers: `direct` (tarry/direct.h), or an
 * engine that its owner brings for sums. Connections carry all else that workers hand each other.
 *
 * A worker's address has two parts (docs/wire.md): the engine's address, and the address of its
 * connections. Sums and states that a worker missed are fetched over connections.
 */
#ifndef TCP_DIRECT_H
#define TCP_DIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/direct.h>

#include "runtime/tcp/mesh/mesh.h"

enum { PAIRED_NAME_MOST = 32 }; /* bytes of an engine's name */

typedef struct paired_address {
    /* The engine: `direct` if the name is empty, else one that the worker's owner brought. Borrowed
     * like the addresses, and of printable characters. */
    const char *name;
    size_t name_size;
    const uint8_t *own; /* the engine's; that of `direct` in shared memory */
    size_t own_size;
    const uint8_t *connected; /* of its connections */
    size_t connected_size;
} paired_address;

/* Writes name and own address of `from`, and behind them those of the connections (NULL: none). */
void paired_address_encode(const paired_address *from, const mesh *connections,
                           uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST], size_t *size);
/* False: the bytes are not an address. */
bool paired_address_decode(const uint8_t *bytes, size_t size, paired_address *out);
/* Whether both are by the same engine. */
bool paired_address_alike(const paired_address *one, const paired_address *other);
/* The engine's name in words: `text` has room for PAIRED_NAME_MOST + 1 bytes. */
void paired_address_name(const paired_address *of, char *text);
/* Whether an engine may have this name. */
bool paired_address_may_name(const char *name);

/* mesh_admit of the worker with such an address. Errors: FORMAT, NO_MEMORY. */
int paired_address_admit(mesh *connections, uint32_t worker, const uint8_t *bytes, size_t size,
                         const uint8_t fingerprint[32]);

/*
 * connections: NULL: shared memory alone; borrowed, or taken over with `owned` (also on failure).
 * Freed by its method. Errors: ARGUMENT, NO_MEMORY, SYSTEM, with a diagnostic.
 */
int direct_create(mesh *connections, bool owned, bool shares, const tarry_allocator *allocator,
                  tarry_engine **out, tarry_diagnostic *diagnostic);

/*
 * An engine that a worker's owner brings. Its groups are of workers that brought an engine of the
 * same name. connections and own are borrowed; *out is freed by its method, which abandons what
 * runs of `own` and does not free that. Errors: ARGUMENT (an address that is too long), NO_MEMORY,
 * with a diagnostic.
 */
int brought_create(mesh *connections, tarry_engine *own, const tarry_allocator *allocator,
                   tarry_engine **out, tarry_diagnostic *diagnostic);

#endif
