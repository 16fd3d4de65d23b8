/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job/round_tally.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/memory.h"

/* Chunks are found by where their samples begin, as the function that computes is told of spans. */
typedef struct slot {
    uint64_t start;
    uint32_t chunk;
    bool noted; /* of `round` */
    uint64_t round;
    objective_tally tally;
} slot;

struct round_tally {
    pthread_mutex_t lock;
    slot *slots; /* ascending starts */
    uint32_t count;
};

/* Units of 2^-31 of an original chunk. */
static uint64_t start_of(tarry_span span)
{
    return ((uint64_t)span.origin << 31) + (uint64_t)span.first * ((UINT32_C(1) << 31) / span.of);
}

static int compare_starts(const void *a, const void *b)
{
    const slot *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static slot *make_slots(const tarry_plan *plan)
{
    uint32_t count = tarry_plan_chunks(plan);
    slot *slots = memory_allocate(NULL, count, sizeof(*slots));
    for (uint32_t chunk = 0; slots != NULL && chunk < count; chunk++)
        slots[chunk] = (slot){.start = start_of(tarry_plan_span(plan, chunk, 0)), .chunk = chunk};
    if (slots != NULL)
        qsort(slots, count, sizeof(*slots), compare_starts);
    return slots;
}

int round_tally_create(const tarry_plan *plan, round_tally **out)
{
    round_tally *tallies = memory_allocate(NULL, 1, sizeof(*tallies));
    if (tallies == NULL)
        return TARRY_ERROR_NO_MEMORY;
    pthread_mutex_init(&tallies->lock, NULL);
    if (round_tally_replan(tallies, plan) != TARRY_OK) {
        round_tally_free(tallies);
        return TARRY_ERROR_NO_MEMORY;
    }
    *out = tallies;
    return TARRY_OK;
}

void round_tally_free(round_tally *tallies)
{
    if (tallies == NULL)
        return;
    memory_release(NULL, tallies->slots);
    pthread_mutex_destroy(&tallies->lock);
    memory_release(NULL, tallies);
}

int round_tally_replan(round_tally *tallies, const tarry_plan *plan)
{
    slot *slots = make_slots(plan);
    if (slots == NULL)
        return TARRY_ERROR_NO_MEMORY;
    pthread_mutex_lock(&tallies->lock);
    slot *old = tallies->slots;
    tallies->slots = slots;
    tallies->count = tarry_plan_chunks(plan);
    pthread_mutex_unlock(&tallies->lock);
    memory_release(NULL, old);
    return TARRY_OK;
}

void round_tally_note(round_tally *tallies, uint64_t round, tarry_span first,
                      const objective_tally *tally)
{
    const slot wanted = {.start = start_of(first)};
    pthread_mutex_lock(&tallies->lock);
    slot *found =
        bsearch(&wanted, tallies->slots, tallies->count, sizeof(*tallies->slots), compare_starts);
    /* A straggler may still be at an earlier round. */
    if (found != NULL && (!found->noted || found->round < round)) {
        found->noted = true;
        found->round = round;
        found->tally = *tally;
    }
    pthread_mutex_unlock(&tallies->lock);
}

void round_tally_sum(round_tally *tallies, uint64_t round, round_tally_fill *fill, void *user,
                     objective_tally *tally)
{
    for (uint32_t i = 0; i < tallies->count; i++) {
        pthread_mutex_lock(&tallies->lock);
        const slot found = tallies->slots[i];
        pthread_mutex_unlock(&tallies->lock);
        objective_tally part = {0};
        if (found.noted && found.round == round)
            part = found.tally;
        else
            fill(user, found.chunk, &part);
        tally->loss += part.loss;
        tally->right += part.right;
    }
}
