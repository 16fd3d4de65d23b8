/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/exchange.h"

#include <string.h>

#include "base/memory.h"
#include "engine/sum_digest.h"

int exchange_take_state(exchange *self, const tarry_allocator *allocator, tarry_sum_id *after,
                        uint8_t **bytes, uint64_t *size)
{
    exchange_progress progress;
    self->methods->wait(self, 0, &progress);
    int error = progress.state == EXCHANGE_DONE ? TARRY_OK : TARRY_ERROR_STATE;
    uint8_t *copy = NULL;
    if (error == TARRY_OK) {
        copy = memory_allocate(allocator, (size_t)progress.size, 1);
        error = copy == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
    }
    if (error == TARRY_OK) {
        memcpy(copy, progress.bytes, (size_t)progress.size);
        *after = progress.after;
        *bytes = copy;
        *size = progress.size;
    }
    self->methods->abandon(self);
    return error;
}

int exchange_take_sum(exchange *self, const tarry_sum_id *sum, const float *into, size_t dimension)
{
    exchange_progress progress;
    self->methods->wait(self, 0, &progress);
    self->methods->abandon(self);
    return progress.state == EXCHANGE_DONE && sum_digest(sum->step, into, dimension) == sum->digest
               ? TARRY_OK
               : TARRY_ERROR_STATE;
}

int exchange_copy_state(exchange *self, uint32_t from, uint64_t until_ns,
                        const tarry_allocator *allocator, tarry_sum_id *after, uint8_t **bytes,
                        uint64_t *size)
{
    exchange_progress progress;
    int error = self->methods->load(self, from, after);
    if (error != TARRY_OK)
        return error;
    self->methods->wait(self, until_ns, &progress);
    return exchange_take_state(self, allocator, after, bytes, size);
}

int exchange_copy_sum(exchange *self, uint32_t from, uint64_t until_ns, const tarry_sum_id *sum,
                      float *into, size_t dimension)
{
    exchange_progress progress;
    int error = self->methods->fetch(self, from, sum, into, dimension);
    if (error != TARRY_OK)
        return error;
    self->methods->wait(self, until_ns, &progress);
    return exchange_take_sum(self, sum, into, dimension);
}
