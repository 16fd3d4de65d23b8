/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/shm.h"

#include "base/memory.h"

static void destroy(shm_part *part)
{
    tarry_allocator allocator = part->allocator;
    share_close(&part->memory);
    memory_release(&allocator, part->items);
    memory_release(&allocator, part);
}

int shm_part_create(const layout *cut, const sealed_pause *pause, const tarry_allocator *allocator,
                    shm_part **made)
{
    shm_part *part = memory_allocate(allocator, 1, sizeof(*part));
    if (part == NULL)
        return TARRY_ERROR_NO_MEMORY;
    part->allocator = memory_allocator(allocator);
    size_t count = 2 * (size_t)cut->stripes;
    part->items = memory_allocate(allocator, count, sizeof(*part->items));
    int error = part->items == NULL
                    ? TARRY_ERROR_NO_MEMORY
                    : share_create(cut->part_length * sizeof(float), pause, &part->memory);
    if (error != TARRY_OK) {
        destroy(part);
        return error;
    }
    for (size_t i = 0; i < count; i++) {
        part->items[i].owner = part;
        part->items[i].next = part->spare;
        part->spare = &part->items[i];
    }
    *made = part;
    return TARRY_OK;
}

void shm_part_retire(shm_part *part)
{
    if (part == NULL)
        return;
    share_unlink(&part->memory);
    part->retired = true;
    if (part->lent == 0)
        destroy(part);
}

stripe *shm_part_take(shm_part *part, const layout *cut, uint32_t index)
{
    stripe *item = part->spare;
    if (item == NULL)
        return NULL;
    part->spare = item->next;
    part->lent++;
    item->next = NULL;
    item->numbers = (float *)part->memory.memory + layout_stripe_start(cut, index);
    return item;
}

void shm_part_give(shm_part *part, stripe *item)
{
    item->next = part->spare;
    part->spare = item;
    if (--part->lent == 0 && part->retired)
        destroy(part);
}
