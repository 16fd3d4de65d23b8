/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/mesh/paired_address.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

enum {
    HEAD_BYTES = 2,      /* bytes of what follows, up to the connections' address, */
    BROUGHT = 1 << 15,   /* and this if the engine is brought; then there is first */
    NAME_HEAD_BYTES = 1, /* the length of its name, and the name */
};

void paired_address_encode(const paired_address *from, const mesh *connections,
                           uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST], size_t *size)
{
    bool brought = from->name_size > 0;
    size_t first = from->own_size + (brought ? NAME_HEAD_BYTES + from->name_size : 0);
    uint8_t part[TARRY_ENGINE_ADDRESS_MOST];
    size_t connected = 0;
    if (connections != NULL)
        mesh_own_address(connections, part, &connected);
    uint8_t *at = bytes_put(bytes, first | (brought ? BROUGHT : 0), HEAD_BYTES);
    if (brought) {
        at = bytes_put(at, from->name_size, NAME_HEAD_BYTES);
        memcpy(at, from->name, from->name_size);
        at += from->name_size;
    }
    if (from->own_size > 0)
        memcpy(at, from->own, from->own_size);
    memcpy(at + from->own_size, part, connected);
    *size = HEAD_BYTES + first + connected;
}

static bool is_name(const char *name, size_t size)
{
    bool good = size > 0 && size <= PAIRED_NAME_MOST;
    for (size_t i = 0; good && i < size; i++)
        good = name[i] > ' ' && name[i] <= '~';
    return good;
}

bool paired_address_may_name(const char *name)
{
    return is_name(name, strlen(name));
}

bool paired_address_decode(const uint8_t *bytes, size_t size, paired_address *out)
{
    if (size < HEAD_BYTES)
        return false;
    size_t head = (size_t)bytes_get(bytes, HEAD_BYTES), first = head & (BROUGHT - 1);
    if (first > size - HEAD_BYTES)
        return false;
    *out = (paired_address){
        .name = "",
        .own = bytes + HEAD_BYTES,
        .own_size = first,
        .connected = bytes + HEAD_BYTES + first,
        .connected_size = size - HEAD_BYTES - first,
    };
    if ((head & BROUGHT) == 0)
        return true;
    size_t named = first > 0 ? out->own[0] : 0;
    if (first < NAME_HEAD_BYTES + named || !is_name((const char *)out->own + 1, named))
        return false;
    out->name = (const char *)out->own + NAME_HEAD_BYTES;
    out->name_size = named;
    out->own += NAME_HEAD_BYTES + named;
    out->own_size -= NAME_HEAD_BYTES + named;
    return true;
}

bool paired_address_alike(const paired_address *one, const paired_address *other)
{
    return one->name_size == other->name_size &&
           memcmp(one->name, other->name, one->name_size) == 0;
}

void paired_address_name(const paired_address *of, char *text)
{
    bool brought = of->name_size > 0;
    snprintf(text, PAIRED_NAME_MOST + 1, "%.*s", brought ? (int)of->name_size : PAIRED_NAME_MOST,
             brought ? of->name : "direct");
}

int paired_address_admit(mesh *connections, uint32_t worker, const uint8_t *bytes, size_t size,
                         const uint8_t fingerprint[32])
{
    paired_address parts;
    if (!paired_address_decode(bytes, size, &parts))
        return TARRY_ERROR_FORMAT;
    return mesh_admit(connections, worker, parts.connected, parts.connected_size, fingerprint);
}
