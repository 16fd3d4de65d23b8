/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/server/choose_parts.h"

#include <math.h>

uint32_t choose_parts(const parts_prospect *prospects, uint32_t count, double patience_ns)
{
    uint32_t best = 0;
    double least = INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        const parts_prospect *each = &prospects[i];
        double wait = each->met ? 0 : each->wait_ns;
        if (!each->met && !(wait <= patience_ns))
            continue;
        if (wait + each->upload_ns <= least) {
            least = wait + each->upload_ns;
            best = i;
        }
    }
    return best;
}
