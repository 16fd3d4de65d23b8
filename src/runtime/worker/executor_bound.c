/* SPDX-License-Identifier: Apache-2.0 */
/* Secure sums: what gradients depend on that the server did not send. */
#include <string.h>

#include "base/digest.h"
#include "runtime/worker/executor_step.h"

int tarry_task_bind(const tarry_task *task, const uint8_t state[TARRY_DIGEST_SIZE])
{
    executor *self = task->owner;
    if (self == NULL || self->settings.masking == NULL)
        return TARRY_OK;
    pthread_mutex_lock(&self->lock);
    const bool present = !self->bound.any || task->round > self->bound.round;
    const bool good = present || (task->round == self->bound.round &&
                                  memcmp(state, self->bound.state, sizeof(self->bound.state)) == 0);
    if (present) {
        self->bound.any = true;
        self->bound.round = task->round;
        memcpy(self->bound.state, state, sizeof(self->bound.state));
    }
    pthread_mutex_unlock(&self->lock);
    return good ? TARRY_OK : TARRY_ERROR_STATE;
}

bool executor_add_bound(executor *self, uint64_t round, uint8_t parameters[TARRY_DIGEST_SIZE])
{
    static const char label[] = "tarry: parameters and a state, 1";
    uint8_t bytes[sizeof(label) + 2 * TARRY_DIGEST_SIZE];
    pthread_mutex_lock(&self->lock);
    const bool any = self->bound.any && self->bound.round == round;
    memcpy(bytes + sizeof(label) + TARRY_DIGEST_SIZE, self->bound.state, TARRY_DIGEST_SIZE);
    pthread_mutex_unlock(&self->lock);
    memcpy(bytes, label, sizeof(label));
    memcpy(bytes + sizeof(label), parameters, TARRY_DIGEST_SIZE);
    return !any || digest_of_bytes(bytes, sizeof(bytes), parameters) == 0;
}
