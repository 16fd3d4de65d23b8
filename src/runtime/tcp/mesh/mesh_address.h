/* SPDX-License-Identifier: Apache-2.0 */
/* How a worker reaches another one: an engine's address as bytes (docs/wire.md). */
#ifndef TCP_MESH_ADDRESS_H
#define TCP_MESH_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/engine.h>

#include "protocol/wire/wire.h"
#include "runtime/tcp/net/address.h"

enum { MESH_PLACES = 4 };

typedef struct mesh_address {
    uint8_t instance[WIRE_ID_BYTES];        /* random: one life of one process; no zeros */
    uint8_t fingerprint[WIRE_DIGEST_BYTES]; /* of its certificate; zeros: plain text */
    uint32_t count;                         /* 1..MESH_PLACES, of the same socket */
    address places[MESH_PLACES];            /* IPv4 or IPv6, with a port */
} mesh_address;

void mesh_address_encode(const mesh_address *from, uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST],
                         size_t *size);
/* Errors: FORMAT. */
int mesh_address_decode(const uint8_t *bytes, size_t size, mesh_address *out);

#endif
