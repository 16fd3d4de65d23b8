/* SPDX-License-Identifier: Apache-2.0 */
/* Racks: workers that share their fate. What a plan knows of them, and how its copies are spread.
 */
#ifndef PLAN_RACK_H
#define PLAN_RACK_H

#include <stdbool.h>

#include "plan/plan.h"

/* What a rack's name is made of. */
static inline bool rack_is_letter(unsigned character)
{
    return character >= '!' && character <= '~';
}

/* Whether a text is a rack's name, or "". */
bool rack_is_name(const char *text);

typedef struct rack_entry {
    char name[TARRY_RACK_BYTES + 1]; /* "-": in no rack */
    uint32_t worker;
} rack_entry;

/* Sorts the entries, one of each worker, by name, and sets rack[j] to the first worker of the name
 * that worker j has, or to TARRY_NO_RACK. */
void rack_join(rack_entry *entries, uint32_t workers, uint32_t *rack);

/*
 * Sets plan->racks and ->rack from the settings, which have been checked, and from plan->workers;
 * without racks both stay 0. Errors: FILE, FORMAT, NO_MEMORY.
 */
int rack_assign(tarry_plan *plan, const tarry_plan_settings *settings,
                tarry_diagnostic *diagnostic);

/*
 * Sets rack[0..workers-1] to given[..], each 0..workers-1 or TARRY_NO_RACK, numbered as they first
 * occur, and *racks to how many there are. Errors: NO_MEMORY.
 */
int rack_number(const uint32_t *given, uint32_t workers, const tarry_allocator *allocator,
                uint32_t *rack, uint32_t *racks);

/* Sets plan->rack_spread, once holders are known. Errors: NO_MEMORY. */
int rack_measure(tarry_plan *plan);

#endif
