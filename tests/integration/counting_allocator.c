/* SPDX-License-Identifier: Apache-2.0 */
#include "counting_allocator.h"

#include <stdlib.h>

enum { HEAD = 64 }; /* before each block, which stays aligned: its size */

static void *count_allocate(void *user, size_t count, size_t size)
{
    counting_allocator *state = user;
    if (size > 0 && count > (SIZE_MAX - HEAD) / size)
        return NULL;
    size_t bytes = count * size;
    char *block = calloc(1, HEAD + bytes);
    if (block == NULL)
        return NULL;
    *(size_t *)(void *)block = bytes;
    uint64_t live = atomic_fetch_add(&state->live, bytes) + bytes;
    uint64_t most = atomic_load(&state->most);
    while (live > most && !atomic_compare_exchange_weak(&state->most, &most, live))
        ;
    return block + HEAD;
}

static void count_release(void *user, void *block)
{
    counting_allocator *state = user;
    if (block == NULL)
        return;
    char *start = (char *)block - HEAD;
    atomic_fetch_sub(&state->live, *(size_t *)(void *)start);
    free(start);
}

void counting_allocator_init(counting_allocator *state)
{
    *state = (counting_allocator){.allocator = {state, count_allocate, count_release}};
}
