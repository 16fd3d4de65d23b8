/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/rack/rack.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/rack/rack_file.h"

bool rack_is_name(const char *text)
{
    size_t length = strnlen(text, TARRY_RACK_BYTES + 1);
    for (size_t i = 0; i < length; i++)
        if (!rack_is_letter((unsigned char)text[i]))
            return false;
    return length <= TARRY_RACK_BYTES;
}

static int compare_entries(const void *left, const void *right)
{
    const rack_entry *a = left, *b = right;
    int order = strcmp(a->name, b->name);
    return order != 0 ? order : (a->worker > b->worker) - (a->worker < b->worker);
}

void rack_join(rack_entry *entries, uint32_t workers, uint32_t *rack)
{
    qsort(entries, workers, sizeof(*entries), compare_entries);
    const rack_entry *first = entries;
    for (const rack_entry *at = entries; at < entries + workers; at++) {
        if (strcmp(at->name, first->name) != 0)
            first = at;
        rack[at->worker] = strcmp(at->name, "-") == 0 ? TARRY_NO_RACK : first->worker;
    }
}

int rack_number(const uint32_t *given, uint32_t workers, const tarry_allocator *allocator,
                uint32_t *rack, uint32_t *racks)
{
    uint32_t *numbered = memory_allocate(allocator, workers, sizeof(*numbered)); /* plus 1 */
    if (numbered == NULL)
        return TARRY_ERROR_NO_MEMORY;
    uint32_t count = 0;
    for (uint32_t worker = 0; worker < workers; worker++) {
        if (given[worker] == TARRY_NO_RACK) {
            rack[worker] = count++;
            continue;
        }
        if (numbered[given[worker]] == 0)
            numbered[given[worker]] = ++count;
        rack[worker] = numbered[given[worker]] - 1;
    }
    *racks = count;
    memory_release(allocator, numbered);
    return TARRY_OK;
}

int rack_assign(tarry_plan *plan, const tarry_plan_settings *settings, tarry_diagnostic *diagnostic)
{
    if (settings->rack_size == 0 && settings->rack_file == NULL)
        return TARRY_OK;
    uint32_t *given = memory_allocate(&plan->allocator, plan->workers, sizeof(*given));
    plan->rack = memory_allocate(&plan->allocator, plan->workers, sizeof(*plan->rack));
    int error = TARRY_ERROR_NO_MEMORY;
    if (given == NULL || plan->rack == NULL)
        goto release;
    error = TARRY_OK;
    if (settings->rack_file != NULL)
        error =
            rack_file_read(settings->rack_file, plan->workers, &plan->allocator, given, diagnostic);
    else
        for (uint32_t worker = 0; worker < plan->workers; worker++)
            given[worker] = worker / settings->rack_size;
    if (error == TARRY_OK)
        error = rack_number(given, plan->workers, &plan->allocator, plan->rack, &plan->racks);

release:
    memory_release(&plan->allocator, given);
    return error;
}

/* How many copies of a chunk one rack has at most. held: per rack, 0 before and
 * afterwards. */
static uint32_t most_in_one(const tarry_plan *plan, uint32_t chunk, uint32_t *held)
{
    uint32_t begin = plan->chunk_offset[chunk], end = plan->chunk_offset[chunk + 1], most = 0;
    for (uint32_t i = begin; i < end; i++) {
        uint32_t copies = ++held[plan->rack[plan->holder_worker[i]]];
        most = copies > most ? copies : most;
    }
    for (uint32_t i = begin; i < end; i++)
        held[plan->rack[plan->holder_worker[i]]] = 0;
    return most;
}

int rack_measure(tarry_plan *plan)
{
    if (plan->rack == NULL)
        return TARRY_OK;
    uint32_t *held = memory_allocate(&plan->allocator, plan->racks, sizeof(*held));
    if (held == NULL)
        return TARRY_ERROR_NO_MEMORY;
    tarry_rack_spread spread = {.least = UINT32_MAX, .left = UINT32_MAX};
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        uint32_t together = most_in_one(plan, chunk, held);
        uint32_t left = tarry_plan_replication(plan, chunk) - together;
        spread.most_together = together > spread.most_together ? together : spread.most_together;
        spread.left = left < spread.left ? left : spread.left;
    }
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        held[plan->rack[worker]]++;
    for (uint32_t rack = 0; rack < plan->racks; rack++) {
        spread.least = held[rack] < spread.least ? held[rack] : spread.least;
        spread.most = held[rack] > spread.most ? held[rack] : spread.most;
    }
    plan->rack_spread = spread;
    memory_release(&plan->allocator, held);
    return TARRY_OK;
}

uint32_t tarry_plan_racks(const tarry_plan *plan)
{
    return plan->racks;
}

uint32_t tarry_plan_rack(const tarry_plan *plan, uint32_t worker)
{
    return plan->rack != NULL ? plan->rack[worker] : 0;
}

tarry_rack_spread tarry_plan_rack_spread(const tarry_plan *plan)
{
    return plan->rack_spread;
}
