/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/order.h"

#include "base/random.h"

static void shuffle_slots(tarry_plan *plan, uint64_t seed)
{
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        uint32_t begin = plan->worker_offset[worker];
        random_stream stream = random_stream_make(seed, RANDOM_ORDER, worker, 0);
        random_shuffle(&stream, plan->slot_chunk + begin, plan->worker_offset[worker + 1] - begin);
    }
}

int order_arrange(tarry_plan *plan, tarry_order order, uint64_t seed)
{
    switch (order) {
    case TARRY_ORDER_RANDOM:
        shuffle_slots(plan, seed);
        break;
    case TARRY_ORDER_OPTIMAL:
    case TARRY_ORDER_AS_IS:
        break;
    }
    return TARRY_OK;
}
