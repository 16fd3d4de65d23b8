/* SPDX-License-Identifier: Apache-2.0 */
/* The options that describe a plan, the same for every command that makes one. */
#ifndef CLI_PLAN_OPTIONS_H
#define CLI_PLAN_OPTIONS_H

#include <tarry/server.h>

#include "cli/options/options.h"

typedef struct plan_options {
    tarry_plan_settings plan;
    const char *design; /* as given; taken apart into plan.design and plan.file */
    const char *order;  /* as given; taken apart into plan.order and pick */
    const char *parts;  /* as given; taken apart into plan.parts (0: auto) and adaptive_parts */
    const char *racks;  /* as given, or NULL; taken apart into plan.rack_size and .rack_file */
    tarry_pick pick;
} plan_options;

extern const option_entry plan_option_entries[];
extern const size_t plan_option_count;

/* N P: the units of work, pieces or whole chunks. */
uint64_t plan_options_units(const plan_options *options);
/* "pieces" or "chunks". */
const char *plan_unit_name(const plan_options *options);

/* Takes a design apart as --design does. Errors: FORMAT; *options is then untouched. */
int plan_design_read(const char *text, plan_options *options, tarry_diagnostic *diagnostic);

/* Takes an order apart as --order does. Errors as above. */
int plan_order_read(const char *text, plan_options *options, tarry_diagnostic *diagnostic);

/*
 * Takes parts apart as --parts does: L, auto:L, or auto, which has 0 for *parts. Errors as above.
 */
int plan_parts_read(const char *text, uint32_t *parts, bool *adaptive,
                    tarry_diagnostic *diagnostic);
/* The largest number of parts if none is given with auto. */
uint32_t plan_auto_parts(uint32_t replication);

/* Takes racks apart as --racks does: K, 0 for none, or a file's name. Errors as above. */
int plan_racks_read(const char *text, plan_options *options, tarry_diagnostic *diagnostic);

void plan_options_init(plan_options *options);

/*
 * Checks the options against each other and makes the plan, which the caller owns. Gives back
 * OPTIONS_PROCEED, or the exit status after a complaint.
 */
int plan_options_make(const plan_options *options, tarry_plan **plan);

/* The plan's figures as they stand in every report; NULL if there is no memory. */
json_t *plan_json(const plan_options *options, const tarry_plan *plan);

/* 64 hexadecimal digits and a NUL. */
void plan_digest_text(const tarry_plan *plan, char text[2 * TARRY_DIGEST_SIZE + 1]);

#endif
