/* SPDX-License-Identifier: Apache-2.0 */
/* The options that say how sums are made: the plan's and those of the rounds, the same for every
 * command that has them. What goes together is decided by tarry/settings.h. */
#ifndef CLI_RUN_OPTIONS_H
#define CLI_RUN_OPTIONS_H

#include <tarry/server.h>
#include <tarry/settings.h>

#include "cli/options/options.h"

/* --adapt: how often, and by how much, the plan follows what the server has learned. */

typedef struct adapt_rule {
    uint32_t every; /* rounds; 0: the plan stays */
    double share;   /* of all copies: so many, rounded up, may change their worker at a time */
} adapt_rule;

/* Whether the plan is looked at before `round`, which counts from 0. */
static inline bool adapt_due(const adapt_rule *rule, uint64_t round)
{
    return rule->every != 0 && round > 0 && round % rule->every == 0;
}

/* Of --keep, behind the values of tarry_keep: the one that fits the machine. */
enum { KEEP_AUTO = TARRY_KEEP_CREDITED + 1 };

/* Of --ahead: left open. */
#define AHEAD_AUTO UINT32_MAX

typedef struct run_options {
    tarry_settings settings; /* what the options say; complete once they are settled */
    uint32_t given;          /* a TARRY_SETTING_BIT for each that was set, not left as it is */
    adapt_rule adapt_rule;
    double silence, attempt_limit; /* seconds */
    const char *among_workers; /* an option that is for sums among workers alone, if one was set */
    int keep;                  /* a tarry_keep, or KEEP_AUTO */
    /* As given; taken apart into the settings. */
    const char *design, *order, *parts, *racks, *stop, *ahead, *chunk_cost, *adapt, *compress;
    const char *sample;
} run_options;

/* The tables of the options, for commands that have some of them. */
typedef enum run_table {
    RUN_SIZE,   /* workers, chunks, pieces, replication, parts, seed */
    RUN_LAYOUT, /* design, order, racks */
    RUN_RULES,  /* credit, keep, ahead, fill, compress, sample-chunks, adapt */
    RUN_END,    /* stop, sum, chunk-cost, reproducible */
    RUN_LIMITS, /* silence, attempt-limit, digest-steps: of runs, not of plans */
} run_table;

option_group run_options_group(run_table which, const char *title, run_options *options);

/* All but the last, for a command that makes one plan. */
#define RUN_GROUPS 4
void run_options_groups(run_options *options, option_group groups[RUN_GROUPS]);

/* As tarry_settings_init. */
void run_options_init(run_options *options);

/* Notes that an option was set: option_group.note of groups with these values. */
void run_options_note(void *values, const char *name);

/* Refuses "auto" as a value of --parts, which no longer exists. Errors: FORMAT. */
int run_parts_check(const char *text, tarry_diagnostic *diagnostic);

/*
 * Lets defaults yield to what was given. Gives back OPTIONS_PROCEED, or EXIT_USAGE after a
 * complaint that names the two options that don't go together.
 */
int run_options_settle(run_options *options);

bool run_options_given(const run_options *options, tarry_setting setting);

/* The line that names both, as flags or as keys, with the values that they have in the groups. */
void run_conflict_text(const tarry_conflict *conflict, const option_group *groups, size_t count,
                       bool flags, char *text, size_t size);

/*
 * What --keep and --ahead come to on this machine for gradients of `dimension` numbers: the
 * settings of a run. How long answers take is not known beforehand, and room that nothing is
 * written to takes none: if credited was not asked for, workers may run ahead as far as the
 * generous bytes allow.
 */
tarry_server_settings run_options_server(const run_options *options, uint64_t dimension);
/* A quarter of the memory of this machine, or of a control group that has less; INFINITY if that is
 * not known. */
double run_generous_bytes(void);

/* N P: the units of work, pieces or whole chunks. */
uint64_t run_options_units(const run_options *options);
/* "pieces" or "chunks". */
const char *run_unit_name(const run_options *options);

/* Makes the plan, which the caller owns. Gives back OPTIONS_PROCEED, or the exit status after a
 * complaint. */
int run_options_plan(const run_options *options, tarry_plan **plan);

const char *run_keep_name(tarry_keep keep);
const char *run_credit_name(tarry_credit credit);
const char *run_fill_name(tarry_fill fill);
const char *run_down_name(tarry_compress form);
/* The number, or null where it has no meaning. */
json_t *run_ahead_json(tarry_keep keep, uint32_t ahead);

/* The form of coded parts as a flag or a scheme's setting says it: none, bf16, int8, int4, sign,
 * topk:F, powersgd:R.
 */

/* Sets the form and its share or rank in *server. Errors: FORMAT, NO_MEMORY; *server is then
 * untouched. */
int compress_form_read(const char *text, tarry_server_settings *server,
                       tarry_diagnostic *diagnostic);

/* A stop rule as a flag or a scheme's setting says it: exact, deadline:SECONDS, error:EPS,
 * workers:K. */

/* Sets the rule and its limit in *server. Errors: FORMAT, NO_MEMORY; *server is then untouched. */
int stop_rule_read(const char *text, tarry_server_settings *server, tarry_diagnostic *diagnostic);

/* How a plan and what its workers keep stand in every report. */

/* The plan's figures; NULL if there is no memory. */
json_t *run_plan_json(const run_options *options, const tarry_plan *plan);

/* What its workers keep for gradients of `dimension` numbers, and what that takes: keys to be added
 * to those of the plan. NULL if there is no memory. */
json_t *run_memory_json(const tarry_plan *plan, const tarry_server_settings *server,
                        uint64_t dimension);

/* 64 hexadecimal digits and a NUL. */
void plan_digest_text(const tarry_plan *plan, char text[2 * TARRY_DIGEST_SIZE + 1]);

#endif
