/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schemes of the literature as settings of one machine (docs/simulate.md has the table), and
 * schemes of one's own.
 *
 * A list of schemes is NAME or NAME:KEY=VALUE,KEY=VALUE..., separated by commas; keys are flags'
 * names. What begins with a digit goes on with a value's list.
 */
#ifndef CLI_SIMULATE_SCHEMES_H
#define CLI_SIMULATE_SCHEMES_H

#include <stdbool.h>

#include <tarry/sim.h>

#include "cli/options/adapt.h"
#include "cli/options/list.h"
#include "cli/options/options.h"
#include "cli/options/plan_options.h"
#include "sim/baseline.h"

#define SIMULATE_MOST_COUNT 1000000
#define SIMULATE_MOST_SECONDS 1e9

/* When a scheme's round ends, beyond the rules that stand by themselves. */
typedef enum scheme_stop {
    SCHEME_STOP_GIVEN,    /* server.stop and its limit */
    SCHEME_STOP_IGNORE,   /* all workers but `ignore` have finished */
    SCHEME_STOP_ORIGINAL, /* all workers but replication - parts have finished */
    SCHEME_STOP_DEADLINE, /* at the last of the deadlines that are swept */
} scheme_stop;

/* What the server knows of the chunks' costs. */
typedef enum scheme_costs {
    SCHEME_COSTS_LEARNED,
    SCHEME_COSTS_KNOWN,
    SCHEME_COSTS_EQUAL,
} scheme_costs;

/* What a scheme is made of. The flags fill one of these, from which each scheme starts. */
typedef struct scheme_settings {
    plan_options plan; /* design, order and racks alone */
    const char *replication;
    whole_list replications; /* swept */
    const char *pieces;
    whole_list piece_counts; /* swept */
    const char *parts;
    whole_list
        part_counts; /* swept; with adaptive parts the largest number, or 0: by replication */
    bool adaptive_parts;
    const char *stop;
    scheme_stop stop_kind;
    tarry_server_settings server; /* stop rule, credit, keep, fill, limits */
    const char *ahead;            /* server.ahead, perhaps KEEP_AHEAD_AUTO */
    int upload;                   /* a tarry_sim_upload */
    bool upload_fixed;            /* by the scheme, for as long as its other settings allow it */
    int costs;                    /* a scheme_costs */
    const char *adapt;
    adapt_rule adapt_rule; /* with a dynamic order */
    uint32_t ignore;       /* UINT32_MAX until it is given, or scheme_ignored */
    const char *name;
    const char *deadline;
    const char *backup;
    baseline_settings model; /* of a scheme that the machines don't speak */
} scheme_settings;

/* The keys that are flags too; their values are a scheme_settings. */
extern const option_entry scheme_option_entries[];
extern const size_t scheme_option_count;

/* Random design, optimal order, replication 8, 1 piece, 1 part, credit by chunk, exact, coded
 * uploads. */
void scheme_settings_init(scheme_settings *settings);

/* How many workers are ignored where nothing is said: 5% of them. */
uint32_t scheme_ignored(uint32_t workers);

/* The end of the item that begins at `text`: a comma at which a scheme begins (`whole`) or a key
 * does, or the end. */
char *scheme_item_end(char *text, bool whole);
/* Reads one scheme over what *settings has, cutting `text` up in place. Errors: FORMAT and
 * NO_MEMORY, with a diagnostic. */
int scheme_read(char *text, scheme_settings *settings, tarry_diagnostic *diagnostic);

const char *simulate_credit_name(tarry_credit credit);
const char *simulate_fill_name(tarry_fill fill);
const char *simulate_upload_name(tarry_sim_upload upload);

#endif
