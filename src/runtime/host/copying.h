/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Getting a copy of the workers' state, or of the last sum, from one of them. A transfer belongs to
 * the runtime, not to a call: it continues in the next call that asks for the same thing.
 */
#ifndef HOST_COPYING_H
#define HOST_COPYING_H

#include <stdbool.h>
#include <stdint.h>

#include <tarry/runtime.h>

#include "runtime/worker/exchange.h"

typedef struct copying {
    exchange *by; /* NULL: no transfer is in progress */
    uint32_t from;
    uint32_t next;       /* worker to be asked first when the next transfer begins */
    tarry_sum_id wanted; /* the last sum when the transfer began */
    float *numbers;      /* of a sum; NULL: the transfer is one of a state */
    uint64_t got;        /* bytes of this transfer at the last look */
    uint64_t moved_ns;   /* when `got` grew last */
    uint64_t limit_ns;   /* a worker that sends nothing for so long is given up */
    uint64_t copied;     /* bytes of all transfers */
} copying;

typedef struct copied_state {
    tarry_sum_id after;
    uint8_t *bytes; /* of the host's allocator */
    uint64_t size;
} copied_state;

/* A state after the last sum, or a later one. Waits until until_ns at most; the transfer in
 * progress continues after that. Errors: STATE (it is not there yet), NO_MEMORY. */
int copying_state(tarry_runtime *runtime, uint64_t until_ns, copied_state *found);
/* The last sum; as copying_state. `into` is only written on success. */
int copying_sum(tarry_runtime *runtime, uint64_t until_ns, float *into);
/* Ends the transfer in progress, if there is one. */
void copying_end(tarry_runtime *runtime);

#endif
