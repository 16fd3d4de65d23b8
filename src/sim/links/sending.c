/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/links/sending.h"

#include <stdbool.h>

#include "base/memory.h"

int sending_init(sending *all, uint32_t most, const tarry_allocator *allocator)
{
    *all = (sending){
        .heap = memory_allocate(allocator, most, sizeof(*all->heap)),
        .first_ns = memory_allocate(allocator, most, sizeof(*all->first_ns)),
    };
    return all->heap != NULL && all->first_ns != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

void sending_destroy(sending *all, const tarry_allocator *allocator)
{
    memory_release(allocator, all->heap);
    memory_release(allocator, all->first_ns);
}

static bool is_before(const sending *all, uint32_t a, uint32_t b)
{
    uint64_t one = all->first_ns[a], other = all->first_ns[b];
    return one < other || (one == other && a < b);
}

static void sift_down(sending *all, uint32_t at)
{
    for (uint32_t place = all->heap[at];; all->heap[at] = place) {
        uint32_t child = 2 * at + 1;
        if (child < all->count)
            child +=
                child + 1 < all->count && is_before(all, all->heap[child + 1], all->heap[child]);
        if (child >= all->count || !is_before(all, all->heap[child], place))
            return;
        all->heap[at] = all->heap[child];
        at = child;
    }
}

void sending_add(sending *all, uint32_t place, uint64_t first_ns)
{
    uint32_t at = all->count++;
    all->first_ns[place] = first_ns;
    for (; at > 0 && is_before(all, place, all->heap[(at - 1) / 2]); at = (at - 1) / 2)
        all->heap[at] = all->heap[(at - 1) / 2];
    all->heap[at] = place;
}

void sending_next(sending *all, uint64_t first_ns)
{
    all->first_ns[all->heap[0]] = first_ns;
    sift_down(all, 0);
}

void sending_end(sending *all)
{
    all->heap[0] = all->heap[--all->count];
    if (all->count > 0)
        sift_down(all, 0);
}
