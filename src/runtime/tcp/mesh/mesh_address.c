/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/mesh/mesh_address.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>

#include "base/bytes.h"

enum {
    VERSION = 1,
    HEAD_BYTES = 4 + WIRE_ID_BYTES + WIRE_DIGEST_BYTES,
    PLACE_BYTES = 20,
    IP_BYTES = 16,
    V4_BYTES = 4,
};

_Static_assert(HEAD_BYTES + MESH_PLACES * PLACE_BYTES <= TARRY_ENGINE_ADDRESS_MOST, "it has room");

static uint8_t *put_place(uint8_t *at, const address *place)
{
    memset(at, 0, PLACE_BYTES);
    if (place->socket.ss_family == AF_INET) {
        const struct sockaddr_in *name = (const struct sockaddr_in *)&place->socket;
        bytes_put(at, 4, 2);
        bytes_put(at + 2, ntohs(name->sin_port), 2);
        memcpy(at + 4, &name->sin_addr, V4_BYTES);
    } else {
        const struct sockaddr_in6 *name = (const struct sockaddr_in6 *)&place->socket;
        bytes_put(at, 6, 2);
        bytes_put(at + 2, ntohs(name->sin6_port), 2);
        memcpy(at + 4, &name->sin6_addr, IP_BYTES);
    }
    return at + PLACE_BYTES;
}

static bool get_place(const uint8_t *at, address *place)
{
    static const uint8_t zeros[IP_BYTES];
    uint64_t family = bytes_get(at, 2), port = bytes_get(at + 2, 2);
    *place = (address){0};
    if (port == 0)
        return false;
    if (family == 4) {
        struct sockaddr_in *name = (struct sockaddr_in *)&place->socket;
        name->sin_family = AF_INET;
        name->sin_port = htons((uint16_t)port);
        memcpy(&name->sin_addr, at + 4, V4_BYTES);
        place->size = sizeof(*name);
        return memcmp(at + 4 + V4_BYTES, zeros, IP_BYTES - V4_BYTES) == 0;
    }
    struct sockaddr_in6 *name = (struct sockaddr_in6 *)&place->socket;
    name->sin6_family = AF_INET6;
    name->sin6_port = htons((uint16_t)port);
    memcpy(&name->sin6_addr, at + 4, IP_BYTES);
    place->size = sizeof(*name);
    return family == 6;
}

void mesh_address_encode(const mesh_address *from, uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST],
                         size_t *size)
{
    assert(from->count >= 1 && from->count <= MESH_PLACES);
    uint8_t *at = bytes_put(bytes, VERSION, 1);
    at = bytes_put(at, from->count, 1);
    at = bytes_put(at, 0, 2);
    memcpy(at, from->instance, WIRE_ID_BYTES);
    at += WIRE_ID_BYTES;
    memcpy(at, from->fingerprint, WIRE_DIGEST_BYTES);
    at += WIRE_DIGEST_BYTES;
    for (uint32_t i = 0; i < from->count; i++)
        at = put_place(at, &from->places[i]);
    *size = (size_t)(at - bytes);
}

int mesh_address_decode(const uint8_t *bytes, size_t size, mesh_address *out)
{
    mesh_address read = {.count = 0};
    if (size < HEAD_BYTES || bytes[0] != VERSION || bytes_get(bytes + 2, 2) != 0)
        return TARRY_ERROR_FORMAT;
    read.count = bytes[1];
    if (read.count < 1 || read.count > MESH_PLACES || size != HEAD_BYTES + read.count * PLACE_BYTES)
        return TARRY_ERROR_FORMAT;
    memcpy(read.instance, bytes + 4, WIRE_ID_BYTES);
    memcpy(read.fingerprint, bytes + 4 + WIRE_ID_BYTES, WIRE_DIGEST_BYTES);
    for (uint32_t i = 0; i < read.count; i++)
        if (!get_place(bytes + HEAD_BYTES + i * PLACE_BYTES, &read.places[i]))
            return TARRY_ERROR_FORMAT;
    *out = read;
    return TARRY_OK;
}
