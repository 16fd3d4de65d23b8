/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE_LINE = 64 };

static void *allocate_with_calloc(void *user, size_t count, size_t size)
{
    (void)user;
    return calloc(count, size);
}

static void release_with_free(void *user, void *block)
{
    (void)user;
    free(block);
}

tarry_allocator memory_allocator(const tarry_allocator *allocator)
{
    if (allocator != NULL)
        return *allocator;
    return (tarry_allocator){.allocate = allocate_with_calloc, .release = release_with_free};
}

void *memory_allocate(const tarry_allocator *allocator, size_t count, size_t size)
{
    if (count == 0)
        count = 1;
    if (count > SIZE_MAX / size)
        return NULL;
    tarry_allocator chosen = memory_allocator(allocator);
    return chosen.allocate(chosen.user, count, size);
}

void memory_release(const tarry_allocator *allocator, void *block)
{
    if (block == NULL)
        return;
    tarry_allocator chosen = memory_allocator(allocator);
    chosen.release(chosen.user, block);
}

size_t memory_room(size_t room, size_t wanted, size_t least)
{
    if (room < least)
        room = least;
    while (room < wanted)
        room = room <= SIZE_MAX / 2 ? 2 * room : wanted;
    return room;
}

void *memory_grow(const tarry_allocator *allocator, void *block, size_t kept, size_t room,
                  size_t size)
{
    void *grown = memory_allocate(allocator, room, size);
    if (grown == NULL)
        return NULL;
    if (kept > 0)
        memcpy(grown, block, kept * size);
    memory_release(allocator, block);
    return grown;
}

char *memory_text(const tarry_allocator *allocator, const char *text, size_t length,
                  const char *more)
{
    char *joined = memory_allocate(allocator, length + strlen(more) + 1, 1);
    if (joined != NULL) {
        memcpy(joined, text, length);
        strcpy(joined + length, more);
    }
    return joined;
}

/* The block's own address stands before the vector; blocks are aligned well enough for the gap
 * to have room for it. */
float *vector_allocate(const tarry_allocator *allocator, size_t length)
{
    if (length > (SIZE_MAX - CACHE_LINE) / sizeof(float))
        return NULL;
    unsigned char *block = memory_allocate(allocator, length * sizeof(float) + CACHE_LINE, 1);
    if (block == NULL)
        return NULL;
    unsigned char *vector = block + CACHE_LINE - (uintptr_t)block % CACHE_LINE;
    memcpy(vector - sizeof(block), &block, sizeof(block));
    return (float *)vector;
}

void vector_release(const tarry_allocator *allocator, float *vector)
{
    if (vector == NULL)
        return;
    unsigned char *block;
    memcpy(&block, (unsigned char *)vector - sizeof(block), sizeof(block));
    memory_release(allocator, block);
}
