/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/decode/subsets.h"

uint64_t subsets_count(uint32_t n, uint32_t size)
{
    if (size > n)
        return 0;
    uint64_t count = 1;
    /* After step k: n - size + k over k, a whole number. */
    for (uint32_t k = 1; k <= size; k++) {
        if (__builtin_mul_overflow(count, (uint64_t)(n - size + k), &count))
            return UINT64_MAX;
        count /= k;
    }
    return count;
}

void subsets_first(uint32_t *members, uint32_t size)
{
    for (uint32_t k = 0; k < size; k++)
        members[k] = k;
}

bool subsets_next(uint32_t *members, uint32_t size, uint32_t n)
{
    uint32_t k = size;
    while (k > 0 && members[k - 1] == n - size + k - 1)
        k--;
    if (k == 0)
        return false;
    members[k - 1]++;
    for (; k < size; k++)
        members[k] = members[k - 1] + 1;
    return true;
}

/* R. W. Floyd: for each of the last `size` numbers t,
 * a random one of 0..t, or t itself if that is taken. */
void subsets_draw(random_stream *stream, uint32_t *members, uint32_t size, uint32_t n)
{
    for (uint32_t k = 0; k < size; k++) {
        uint32_t top = n - size + k, pick = random_below(stream, top + 1), at = k;
        for (uint32_t i = 0; i < k; i++) {
            if (members[i] == pick)
                pick = top;
        }
        for (; at > 0 && members[at - 1] > pick; at--)
            members[at] = members[at - 1];
        members[at] = pick;
    }
}
