/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diagnostic.h"
#include "base/memory.h"
#include "plan/plan.h"
#include "protocol/worker/worker_state.h"

/* Of one event, or: a cancellation, all open copies' fates, something to compute or encode. */
enum { USUAL_EFFECTS = 4, VOTE_EFFECTS = 3 /* what is ended, begun and answered */ };

static int allocate(tarry_worker *worker, const tarry_allocator *allocator)
{
    size_t load_words = bitset_words(worker->load);
    worker->done = memory_allocate(allocator, load_words, sizeof(uint64_t));
    worker->open = memory_allocate(allocator, load_words, sizeof(uint64_t));
    worker->folded = memory_allocate(allocator, load_words, sizeof(uint64_t));
    worker->previous = memory_allocate(allocator, load_words, sizeof(uint64_t));
    worker->stale = memory_allocate(allocator, load_words, sizeof(uint64_t));
    worker->failed = memory_allocate(allocator, load_words, sizeof(uint64_t));
    worker->first = memory_allocate(allocator, load_words, sizeof(uint64_t));
    worker->barred = memory_allocate(allocator, load_words, sizeof(uint64_t));
    worker->pending = memory_allocate(allocator, bitset_words(worker->stripes), sizeof(uint64_t));
    worker->coefficients =
        memory_allocate(allocator, (size_t)worker->load * worker->plan->parts, sizeof(float));
    if (worker_sums_everywhere(worker))
        worker->group =
            memory_allocate(allocator, bitset_words(worker->plan->workers), sizeof(uint64_t));
    worker->items = memory_allocate(allocator, worker->capacity, sizeof(*worker->items));
    worker->effects.items = worker->items;
    if (worker->done == NULL || worker->open == NULL || worker->folded == NULL ||
        worker->previous == NULL || worker->stale == NULL || worker->failed == NULL ||
        worker->first == NULL || worker->barred == NULL || worker->pending == NULL ||
        worker->coefficients == NULL || worker->items == NULL ||
        (worker_sums_everywhere(worker) && worker->group == NULL))
        return TARRY_ERROR_NO_MEMORY;
    return coefficients_create(worker->plan, worker->settings.conditioning_limit, allocator,
                               &worker->work);
}

int tarry_worker_create(const tarry_plan *plan, const tarry_worker_settings *settings,
                        const tarry_allocator *allocator, tarry_worker **worker,
                        tarry_diagnostic *diagnostic)
{
    if (settings->worker >= plan->workers || settings->dimension == 0 ||
        settings->stripe_length == 0 || !(settings->conditioning_limit > 1))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker %u: the plan has %u workers, dimension and stripe_length must be "
                        "at least 1 and conditioning_limit above 1",
                        settings->worker, plan->workers);
    if ((unsigned)settings->keep > TARRY_KEEP_CREDITED ||
        (settings->keep == TARRY_KEEP_CREDITED && plan->parts > 1))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker %u: with more than one part a worker has to keep all its gradients",
                        settings->worker);
    if ((unsigned)settings->sum > TARRY_SUM_EVERYWHERE)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "worker %u: unknown place of the sum",
                        settings->worker);
    tarry_worker *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "worker");
    made->allocator = memory_allocator(allocator);
    made->plan = plan;
    made->settings = *settings;
    made->load = tarry_plan_load(plan, settings->worker);
    made->stripes = worker_stripes(made, plan_least_parts(plan));
    if (worker_keeps_credited(made))
        made->most_open = settings->ahead < made->load ? settings->ahead + 1 : made->load;
    made->capacity = USUAL_EFFECTS + VOTE_EFFECTS + (size_t)made->most_open;
    made->vote.last = settings->last;
    if (allocate(made, &made->allocator) != TARRY_OK) {
        tarry_worker_free(made);
        return diagnose_no_memory(diagnostic, "worker");
    }
    *worker = made;
    return TARRY_OK;
}

void tarry_worker_free(tarry_worker *worker)
{
    if (worker == NULL)
        return;
    tarry_allocator allocator = worker->allocator;
    coefficients_free(worker->work);
    memory_release(&allocator, worker->items);
    memory_release(&allocator, worker->group);
    memory_release(&allocator, worker->coefficients);
    memory_release(&allocator, worker->pending);
    memory_release(&allocator, worker->barred);
    memory_release(&allocator, worker->first);
    memory_release(&allocator, worker->failed);
    memory_release(&allocator, worker->folded);
    memory_release(&allocator, worker->open);
    memory_release(&allocator, worker->stale);
    memory_release(&allocator, worker->previous);
    memory_release(&allocator, worker->done);
    memory_release(&allocator, worker);
}
