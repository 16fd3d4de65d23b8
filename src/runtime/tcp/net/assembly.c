/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/assembly.h"

#include "base/memory.h"

enum { LEAST_ROOM = 4096 };

static bool grow(assembly *self, size_t size, const tarry_allocator *allocator)
{
    if (size <= self->room)
        return true;
    size_t room = memory_room(self->room, size, LEAST_ROOM);
    if (room > self->total)
        room = (size_t)self->total;
    uint8_t *bytes = memory_grow(allocator, self->bytes, self->size, room, 1);
    if (bytes == NULL)
        return false;
    self->bytes = bytes;
    self->room = room;
    return true;
}

uint8_t *assembly_reserve(assembly *self, uint64_t first, uint64_t count, uint64_t total,
                          const tarry_allocator *allocator)
{
    if (first == 0) {
        assembly_clear(self, allocator);
        self->total = total;
        self->begun = true;
    }
    if (!self->begun || total != self->total || total > ASSEMBLY_MOST_BYTES ||
        first != self->size || count > total - first ||
        !grow(self, (size_t)(first + count), allocator))
        return NULL;
    return self->bytes + self->size;
}

bool assembly_add(assembly *self, uint64_t count)
{
    self->size += (size_t)count;
    return self->size == self->total;
}

void assembly_clear(assembly *self, const tarry_allocator *allocator)
{
    memory_release(allocator, self->bytes);
    *self = (assembly){0};
}
