/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/assembly.h"

#include "base/memory.h"

enum { LEAST_ROOM = 4096 };

static bool grow(assembly *own, size_t size, const tarry_allocator *allocator)
{
    if (size <= own->room)
        return true;
    size_t room = memory_room(own->room, size, LEAST_ROOM);
    if (room > own->total)
        room = (size_t)own->total;
    uint8_t *bytes = memory_grow(allocator, own->bytes, own->size, room, 1);
    if (bytes == NULL)
        return false;
    own->bytes = bytes;
    own->room = room;
    return true;
}

uint8_t *assembly_reserve(assembly *own, uint64_t first, uint64_t count, uint64_t total,
                          const tarry_allocator *allocator)
{
    if (first == 0) {
        assembly_clear(own, allocator);
        own->total = total;
        own->begun = true;
    }
    if (!own->begun || total != own->total || total > ASSEMBLY_MOST_BYTES || first != own->size ||
        count > total - first || !grow(own, (size_t)(first + count), allocator))
        return NULL;
    return own->bytes + own->size;
}

bool assembly_add(assembly *own, uint64_t count)
{
    own->size += (size_t)count;
    return own->size == own->total;
}

void assembly_clear(assembly *own, const tarry_allocator *allocator)
{
    memory_release(allocator, own->bytes);
    *own = (assembly){0};
}
