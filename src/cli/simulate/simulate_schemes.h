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

#include "cli/options/list.h"
#include "cli/options/run_options.h"
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
    run_options run; /* the first member; numbers that are swept stand below instead */
    uint32_t fixed;  /* a TARRY_SETTING_BIT for each that the scheme fixes, or its keys set */
    const char *replication;
    whole_list replications; /* swept */
    const char *pieces;
    whole_list piece_counts; /* swept; 0: left open */
    const char *parts;
    whole_list
        part_counts; /* swept; with adaptive parts the largest number, or 0: by replication */
    const char *stop;
    scheme_stop stop_kind;
    int upload;        /* a tarry_sim_upload */
    bool upload_fixed; /* by the scheme, for as long as its other settings allow it */
    int sum;           /* a tarry_sim_way */
    int costs;         /* a scheme_costs */
    uint32_t ignore;   /* UINT32_MAX until it is given, or scheme_ignored */
    const char *name;
    const char *deadline;
    const char *backup;
    baseline_settings model; /* of a scheme that the machines don't speak */
} scheme_settings;

/* The tables of the keys that are flags too. */
#define SCHEME_GROUPS 3
void scheme_groups(scheme_settings *settings, option_group groups[SCHEME_GROUPS]);

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

const char *simulate_upload_name(tarry_sim_upload upload);
const char *simulate_sum_name(tarry_sim_way way);

#endif
