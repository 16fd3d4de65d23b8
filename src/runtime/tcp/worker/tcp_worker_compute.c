/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/memory.h"
#include "runtime/tcp/worker/tcp_worker.h"

enum { LEAST_TALLY = 16 };

/* Whether this was finished in the round before, which is noted otherwise. Without memory it is not
 * noted: it is only counted. */
static bool was_finished(tarry_tcp_worker *worker, uint64_t round, const tarry_span *span)
{
    worker_tally *tally = &worker->tally;
    if (round != tally->round)
        tally->count = 0;
    tally->round = round;
    for (size_t i = 0; i < tally->count; i++)
        if (memcmp(&tally->spans[i], span, sizeof(*span)) == 0)
            return true;
    if (tally->count == tally->room) {
        size_t room = memory_room(tally->room, tally->count + 1, LEAST_TALLY);
        tarry_span *grown =
            memory_grow(&worker->allocator, tally->spans, tally->count, room, sizeof(*grown));
        if (grown == NULL)
            return false;
        tally->spans = grown;
        tally->room = room;
    }
    tally->spans[tally->count++] = *span;
    return false;
}

void tcp_worker_given(void *user, const tarry_task *task, int result)
{
    tarry_tcp_worker *worker = user;
    /* Chunks of a plan begin apart. */
    bool computed = task->sum == NULL && result == 0;
    bool again = computed && was_finished(worker, task->round, &task->spans[0]);
    pthread_mutex_lock(&worker->lock);
    worker->pull.out = false;
    worker->work.chunks += computed;
    worker->work.computed_again += again;
    pthread_mutex_unlock(&worker->lock);
}
