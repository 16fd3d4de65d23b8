/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/links/sending.h"

#include <stdbool.h>

#include "base/memory.h"

int sending_init(sending *all, uint32_t most, const tarry_allocator *allocator)
{
    *all = (sending){
        .heap = memory_allocate(allocator, most, sizeof(*all->heap)),
        .at = memory_allocate(allocator, most, sizeof(*all->at)),
        .first_ns = memory_allocate(allocator, most, sizeof(*all->first_ns)),
    };
    return all->heap != NULL && all->at != NULL && all->first_ns != NULL ? TARRY_OK
                                                                         : TARRY_ERROR_NO_MEMORY;
}

void sending_destroy(sending *all, const tarry_allocator *allocator)
{
    memory_release(allocator, all->heap);
    memory_release(allocator, all->at);
    memory_release(allocator, all->first_ns);
}

static bool is_before(const sending *all, uint32_t a, uint32_t b)
{
    uint64_t one = all->first_ns[a], other = all->first_ns[b];
    return one < other || (one == other && a < b);
}

static void put(sending *all, uint32_t at, uint32_t place)
{
    all->heap[at] = place;
    all->at[place] = at;
}

/* `place` goes in at `at`, or further down. */
static void sift_down(sending *all, uint32_t at, uint32_t place)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child < all->count)
            child +=
                child + 1 < all->count && is_before(all, all->heap[child + 1], all->heap[child]);
        if (child >= all->count || !is_before(all, all->heap[child], place))
            break;
        put(all, at, all->heap[child]);
        at = child;
    }
    put(all, at, place);
}

/* The same, or further up. */
static void sift_up(sending *all, uint32_t at, uint32_t place)
{
    for (; at > 0 && is_before(all, place, all->heap[(at - 1) / 2]); at = (at - 1) / 2)
        put(all, at, all->heap[(at - 1) / 2]);
    put(all, at, place);
}

void sending_add(sending *all, uint32_t place, uint64_t first_ns)
{
    all->first_ns[place] = first_ns;
    sift_up(all, all->count++, place);
}

void sending_next(sending *all, uint64_t first_ns)
{
    all->first_ns[all->heap[0]] = first_ns;
    sift_down(all, 0, all->heap[0]);
}

void sending_end(sending *all)
{
    const uint32_t last = all->heap[--all->count];
    if (all->count > 0)
        sift_down(all, 0, last);
}

void sending_change(sending *all, uint32_t place, uint64_t first_ns)
{
    const bool later = first_ns > all->first_ns[place];
    all->first_ns[place] = first_ns;
    if (later)
        sift_down(all, all->at[place], place);
    else
        sift_up(all, all->at[place], place);
}
