/* SPDX-License-Identifier: Apache-2.0 */
/* The options of tarry work. */
#ifndef CLI_WORK_OPTIONS_H
#define CLI_WORK_OPTIONS_H

#include "cli/options/network_options.h"
#include "cli/options/secure_options.h"
#include "learn/dataset.h"

typedef struct work_options {
    network_options network;
    const char *connect;
    uint32_t worker;                /* TARRY_TCP_NO_WORKER: not given */
    const char *rack;               /* NULL: it says none */
    const char *listen, *advertise; /* for other workers; NULL: chosen */
    double grace, patience;         /* seconds */
    dataset_source source;          /* path NULL: made up or shipped, as the server says */
    const char *straggler;
    uint64_t straggler_seed;
    bool straggler_seeded; /* else the seed is the server's */
    const char *straggler_seed_text;
    secure_options secure;
    const char *dp_key; /* a file with the key of draws; NULL: jobs with differential privacy are
                           refused */
    bool quiet;
} work_options;

enum { WORK_GROUPS = 5 };

void work_options_init(work_options *options);
void work_options_groups(work_options *options, option_group groups[WORK_GROUPS]);
/* Gives back OPTIONS_PROCEED, or the exit status after a complaint. */
int work_options_check(const work_options *options);

#endif
