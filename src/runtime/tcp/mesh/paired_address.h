/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's address as the server and other workers hear it, where workers make the sum: that of
 * its engine, and that of its connections, by which sums and states that were missed are fetched
 * (docs/wire.md).
 */
#ifndef TCP_PAIRED_ADDRESS_H
#define TCP_PAIRED_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
/* False: it is none. */
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

#endif
