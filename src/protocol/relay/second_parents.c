/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/relay/second_parents.h"

enum {
    ALIKE = 16 /* children more are no reason to prefer another one, nor is half as many more */
};

uint32_t second_parents_choose(const uint32_t *lanes, uint32_t count, uint32_t own, uint32_t worker,
                               uint32_t chosen[WIRE_PARENTS_MOST])
{
    uint32_t least = UINT32_MAX, found = 0;
    for (uint32_t i = 0; i < count; i++)
        if (i != own && lanes[i] < least)
            least = lanes[i];
    for (int crowded = 0; crowded < 2; crowded++)
        for (uint32_t i = 0; i < count && found < WIRE_PARENTS_MOST; i++) {
            uint32_t at = (worker % count + i) % count;
            bool many = lanes[at] > (uint64_t)least + least / 2 + ALIKE;
            if (at != own && many == (crowded == 1))
                chosen[found++] = at;
        }
    return found;
}
