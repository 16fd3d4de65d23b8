/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks follow each other, each behind its head, which nobody else may touch, and before a gap. */
#include "fuzz_arena.h"

#include <sanitizer/asan_interface.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "fuzz_input.h"

enum {
    ALL_BYTES = 64 << 20, /* far more than an execution takes */
    ALIGNMENT = 16,
    GAP_BYTES = 16,
};

typedef struct head {
    size_t size;
    bool taken;
} head;

_Static_assert(sizeof(head) == ALIGNMENT, "blocks are aligned as their heads are");

static alignas(ALIGNMENT) uint8_t all[ALL_BYTES];
static size_t used, blocks;

static head *head_of(void *block)
{
    return (head *)((uint8_t *)block - sizeof(head));
}

static void *allocate(void *user, size_t count, size_t size)
{
    (void)user;
    require(size == 0 || count <= ALL_BYTES / size);
    size_t bytes = count * size;
    size_t whole = (sizeof(head) + bytes + GAP_BYTES + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    require(whole <= ALL_BYTES - used);
    uint8_t *block = all + used + sizeof(head);
    used += whole;
    blocks++;
    ASAN_UNPOISON_MEMORY_REGION(head_of(block), sizeof(head) + bytes);
    *head_of(block) = (head){.size = bytes, .taken = true};
    memset(block, 0, bytes);
    ASAN_POISON_MEMORY_REGION(head_of(block), sizeof(head));
    return block;
}

static void release(void *user, void *block)
{
    (void)user;
    if (block == NULL)
        return;
    require((uint8_t *)block > all && (uint8_t *)block < all + used);
    head *its = head_of(block);
    ASAN_UNPOISON_MEMORY_REGION(its, sizeof(*its));
    require(its->taken);
    its->taken = false;
    ASAN_POISON_MEMORY_REGION(its, sizeof(*its) + its->size);
    blocks--;
}

const tarry_allocator *arena_begin(void)
{
    static const tarry_allocator allocator = {.allocate = allocate, .release = release};
    static bool poisoned;
    if (!poisoned)
        ASAN_POISON_MEMORY_REGION(all, sizeof(all));
    poisoned = true;
    require(blocks == 0);
    used = 0;
    return &allocator;
}

void arena_end(void)
{
    require(blocks == 0);
}
