/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/exchange.h"

#include <string.h>

#include "base/memory.h"
#include "engine/sum_digest.h"

/* What came of what was begun with this result. */
static int finish(exchange *self, int begun, uint64_t until_ns, exchange_progress *progress)
{
    if (begun != TARRY_OK)
        return begun;
    self->methods->wait(self, until_ns, progress);
    return progress->state == EXCHANGE_DONE ? TARRY_OK : TARRY_ERROR_STATE;
}

int exchange_copy_state(exchange *self, uint32_t from, uint64_t until_ns,
                        const tarry_allocator *allocator, tarry_sum_id *after, uint8_t **bytes,
                        uint64_t *size)
{
    exchange_progress progress = {.state = EXCHANGE_FAILED};
    int error = finish(self, self->methods->load(self, from, after), until_ns, &progress);
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

int exchange_copy_sum(exchange *self, uint32_t from, uint64_t until_ns, const tarry_sum_id *sum,
                      float *into, size_t dimension)
{
    exchange_progress progress = {.state = EXCHANGE_FAILED};
    int begun = self->methods->fetch(self, from, sum, into, dimension);
    int error = finish(self, begun, until_ns, &progress);
    self->methods->abandon(self);
    if (error == TARRY_OK && sum_digest(sum->step, into, dimension) != sum->digest)
        error = TARRY_ERROR_STATE;
    return error;
}
