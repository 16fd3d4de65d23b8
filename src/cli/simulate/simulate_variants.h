/* SPDX-License-Identifier: Apache-2.0 */
/* What is simulated beside each other: each scheme with each of its replications, pieces and parts.
 */
#ifndef CLI_SIMULATE_VARIANTS_H
#define CLI_SIMULATE_VARIANTS_H

#include "cli/simulate/simulate_schemes.h"

/* One scheme with one replication, one number of pieces and one of parts. */
typedef struct simulate_variant {
    const char *scheme; /* its name, or as it was written */
    char stop[32];
    run_options run;         /* of this variant alone, settled */
    tarry_sim_settings sim;  /* all but what a trial draws */
    baseline_settings model; /* of kind BASELINE_NONE where the machines run */
    uint32_t stored;         /* copies of the data that the workers store */
} simulate_variant;

typedef struct simulate_variants {
    size_t count;
    simulate_variant *items;
    char *text; /* what the items' texts point into */
} simulate_variants;

/* What all variants have in common. */
typedef struct scheme_frame {
    uint32_t workers, chunks, rounds;
    uint64_t seed;
    double last_deadline;   /* of the sweep; NaN if there is none */
    tarry_sim_settings sim; /* the links, the costs and the gradients */
} scheme_frame;

/*
 * Reads `list`, and sweeps each scheme over its replications, its pieces and, as far as the
 * replications allow, its parts.
 * The caller frees *variants with simulate_variants_free. Errors: ARGUMENT (flags that don't go
 * together, whatever the scheme), FORMAT, FILE and NO_MEMORY, with a diagnostic.
 */
int simulate_variants_read(const char *list, const scheme_settings *defaults,
                           const scheme_frame *frame, simulate_variants *variants,
                           tarry_diagnostic *diagnostic);
void simulate_variants_free(simulate_variants *variants);

#endif
