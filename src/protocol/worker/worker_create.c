/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diagnostic.h"
#include "base/memory.h"
#include "plan/plan.h"
#include "protocol/worker/worker_shared.h"
#include "protocol/worker/worker_state.h"

/* Of one event, or: what is settled, a cancellation, all open copies' fates, something to compute
 * or encode. */
enum { USUAL_EFFECTS = 5, VOTE_EFFECTS = 3 /* what is ended, begun and answered */ };

struct worker_shared {
    tarry_allocator allocator;
    tarry_effect *items;
    size_t capacity;
    uint64_t *group; /* NULL where sums are at the server */
    coefficients *work;
};

/* Finished copies whose fate a worker with `load` chunks may wait for. */
static uint32_t most_open(const tarry_worker_settings *settings, uint32_t load)
{
    if (settings->keep != TARRY_KEEP_CREDITED)
        return 0;
    return settings->ahead < load ? settings->ahead + 1 : load;
}

int worker_shared_create(const tarry_plan *plan, const tarry_worker_settings *settings,
                         const tarry_allocator *allocator, worker_shared **shared)
{
    worker_shared *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return TARRY_ERROR_NO_MEMORY;
    made->allocator = memory_allocator(allocator);
    made->capacity = USUAL_EFFECTS + VOTE_EFFECTS + (size_t)most_open(settings, plan->max_load);
    made->items = memory_allocate(allocator, made->capacity, sizeof(*made->items));
    bool everywhere = settings->sum == TARRY_SUM_EVERYWHERE;
    if (everywhere)
        made->group = memory_allocate(allocator, bitset_words(plan->workers), sizeof(uint64_t));
    if (made->items == NULL || (everywhere && made->group == NULL) ||
        coefficients_create(plan, settings->conditioning_limit, allocator, &made->work) !=
            TARRY_OK) {
        worker_shared_free(made);
        return TARRY_ERROR_NO_MEMORY;
    }
    *shared = made;
    return TARRY_OK;
}

void worker_shared_free(worker_shared *shared)
{
    if (shared == NULL)
        return;
    tarry_allocator allocator = shared->allocator;
    coefficients_free(shared->work);
    memory_release(&allocator, shared->group);
    memory_release(&allocator, shared->items);
    memory_release(&allocator, shared);
}

uint64_t *worker_shared_group(worker_shared *shared)
{
    return shared->group;
}

/* Sets of a bit per position, one behind the other. */
enum { SLOT_SETS = 8 };

static int allocate(tarry_worker *worker, const tarry_allocator *allocator)
{
    size_t words = bitset_words(worker->load);
    uint64_t *sets = memory_allocate(allocator, SLOT_SETS * words + bitset_words(worker->stripes),
                                     sizeof(uint64_t));
    worker->coefficients =
        memory_allocate(allocator, (size_t)worker->load * worker->plan->parts, sizeof(float));
    worker->weights = memory_allocate(allocator, worker->load, sizeof(float));
    worker->done = sets;
    if (sets == NULL || worker->coefficients == NULL || worker->weights == NULL)
        return TARRY_ERROR_NO_MEMORY;
    uint64_t **const at[SLOT_SETS] = {
        &worker->done,     &worker->open,   &worker->folded, &worker->stale,
        &worker->previous, &worker->failed, &worker->first,  &worker->barred,
    };
    for (size_t set = 0; set < SLOT_SETS; set++)
        *at[set] = sets + set * words;
    worker->pending = sets + SLOT_SETS * words;
    if (worker_is_secure(worker)) {
        size_t chunks = worker->plan->chunks, workers = worker->plan->workers;
        worker->holders = memory_allocate(allocator, chunks + workers, sizeof(uint32_t));
        if (worker->holders == NULL)
            return TARRY_ERROR_NO_MEMORY;
        worker->lives = worker->holders + chunks;
    }
    return worker->settings.feedback ? fates_init(&worker->residuals, worker->stripes, allocator)
                                     : TARRY_OK;
}

static void share(tarry_worker *worker, worker_shared *shared)
{
    worker->items = shared->items;
    worker->effects.items = shared->items;
    worker->capacity = shared->capacity;
    worker->group = shared->group;
    worker->work = shared->work;
}

static int check(const tarry_plan *plan, const tarry_worker_settings *settings,
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
    if (settings->feedback && (plan->parts > 1 || settings->sum == TARRY_SUM_EVERYWHERE))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker %u: feedback goes with one part and the sum at the server",
                        settings->worker);
    if (settings->secure != 0 &&
        ((settings->secure != 32 && settings->secure != 64) || settings->feedback ||
         settings->keep != TARRY_KEEP_CREDITED || settings->sum != TARRY_SUM_SERVER))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker %u: secure sums are of 32 or 64 bits, at the server, of credited "
                        "copies, without feedback",
                        settings->worker);
    if ((unsigned)settings->sum > TARRY_SUM_EVERYWHERE)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "worker %u: unknown place of the sum",
                        settings->worker);
    return TARRY_OK;
}

int worker_create_shared(const tarry_plan *plan, const tarry_worker_settings *settings,
                         worker_shared *shared, const tarry_allocator *allocator,
                         tarry_worker **worker, tarry_diagnostic *diagnostic)
{
    int error = check(plan, settings, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_worker *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "worker");
    made->allocator = memory_allocator(allocator);
    made->plan = plan;
    made->settings = *settings;
    made->load = tarry_plan_load(plan, settings->worker);
    made->stripes = worker_stripes(made, plan_least_parts(plan));
    made->most_open = most_open(settings, made->load);
    made->vote.last = settings->last;
    share(made, shared);
    if (allocate(made, &made->allocator) != TARRY_OK) {
        tarry_worker_free(made);
        return diagnose_no_memory(diagnostic, "worker");
    }
    *worker = made;
    return TARRY_OK;
}

int tarry_worker_create(const tarry_plan *plan, const tarry_worker_settings *settings,
                        const tarry_allocator *allocator, tarry_worker **worker,
                        tarry_diagnostic *diagnostic)
{
    int error = check(plan, settings, diagnostic);
    if (error != TARRY_OK)
        return error;
    worker_shared *own;
    if (worker_shared_create(plan, settings, allocator, &own) != TARRY_OK)
        return diagnose_no_memory(diagnostic, "worker");
    error = worker_create_shared(plan, settings, own, allocator, worker, diagnostic);
    if (error == TARRY_OK)
        (*worker)->own = own;
    else
        worker_shared_free(own);
    return error;
}

void tarry_worker_free(tarry_worker *worker)
{
    if (worker == NULL)
        return;
    tarry_allocator allocator = worker->allocator;
    worker_shared_free(worker->own);
    fates_destroy(&worker->residuals, &allocator);
    memory_release(&allocator, worker->holders);
    memory_release(&allocator, worker->coefficients);
    memory_release(&allocator, worker->weights);
    memory_release(&allocator, worker->done);
    memory_release(&allocator, worker);
}
