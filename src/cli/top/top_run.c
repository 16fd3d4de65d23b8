/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/top_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static int reserve(top_run *run, uint32_t workers)
{
    if (workers <= run->room)
        return TARRY_OK;
    wire_worker_status *worker = memory_allocate(NULL, workers, sizeof(*worker));
    uint32_t *order = memory_allocate(NULL, workers, sizeof(*order));
    if (worker == NULL || order == NULL) {
        memory_release(NULL, worker);
        memory_release(NULL, order);
        return TARRY_ERROR_NO_MEMORY;
    }
    memory_release(NULL, run->worker);
    memory_release(NULL, run->order);
    run->worker = worker;
    run->order = order;
    run->room = workers;
    return TARRY_OK;
}

static void add_step(top_run *run, uint64_t done, uint64_t now_ns)
{
    uint32_t count = run->step_count;
    if (count > 0 && done == run->steps[count - 1].done)
        return;
    /* A server that was started anew goes on from its last checkpoint. */
    if (count > 0 && done < run->steps[count - 1].done)
        count = 0;
    if (count == TOP_RUN_STEPS) {
        memmove(run->steps, run->steps + 1, (TOP_RUN_STEPS - 1) * sizeof(run->steps[0]));
        count--;
    }
    run->steps[count].time_ns = now_ns;
    run->steps[count].done = done;
    run->step_count = count + 1;
}

void top_run_pause(top_run *run)
{
    run->step_count = 0;
}

int top_run_take(top_run *run, const wire_status *status, const wire_worker_status *worker,
                 uint64_t now_ns)
{
    int error = reserve(run, status->workers);
    if (error != TARRY_OK)
        return error;
    run->told = true;
    run->status = *status;
    if (status->workers > 0)
        memcpy(run->worker, worker, status->workers * sizeof(*worker));
    for (uint32_t j = 0; j < status->workers; j++)
        run->order[j] = j;
    run->now_ns = now_ns;
    if (status->waiting)
        top_run_pause(run);
    add_step(run, status->done, now_ns);
    return TARRY_OK;
}

double top_run_rate(const top_run *run)
{
    if (run->step_count >= 2) {
        uint32_t last = run->step_count - 1;
        double rounds = (double)(run->steps[last].done - run->steps[0].done);
        double time_ns = (double)(run->steps[last].time_ns - run->steps[0].time_ns);
        double since_ns = (double)(run->now_ns - run->steps[last].time_ns);
        if (time_ns > 0)
            return rounds * 1e9 / (time_ns + fmax(since_ns - time_ns / rounds, 0));
    }
    return run->status.median_ns > 0 ? 1e9 / (double)run->status.median_ns : NAN;
}

static int trouble_of(const wire_worker_status *worker)
{
    static const int ranks[WIRE_WORKER_STATES] = {
        [WIRE_WORKER_SILENT] = -6, [WIRE_WORKER_GONE] = -5, [WIRE_WORKER_LATE] = -4,
        [WIRE_WORKER_BEHIND] = -3, [WIRE_WORKER_LEFT] = -2, [WIRE_WORKER_ABSENT] = -1,
    };
    return ranks[worker->state];
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_trouble(const void *a, const void *b, void *user)
{
    const wire_worker_status *worker = user;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    int rank = trouble_of(&worker[i]) - trouble_of(&worker[j]);
    return rank != 0 ? rank : compare(i, j);
}

static int by_pace(const void *a, const void *b, void *user)
{
    const wire_worker_status *worker = user;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    int slower = compare(worker[j].pace_ns, worker[i].pace_ns);
    return slower != 0 ? slower : compare(i, j);
}

void top_run_sort(top_run *run, top_sort sort)
{
    uint32_t workers = run->status.workers;
    for (uint32_t j = 0; j < workers; j++)
        run->order[j] = j;
    if (sort != TOP_SORT_WORKER && workers > 0)
        qsort_r(run->order, workers, sizeof(*run->order),
                sort == TOP_SORT_PACE ? by_pace : by_trouble, run->worker);
}

void top_run_free(top_run *run)
{
    memory_release(NULL, run->worker);
    memory_release(NULL, run->order);
    *run = (top_run){.told = false};
}
