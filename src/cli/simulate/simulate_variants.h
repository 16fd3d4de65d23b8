/* SPDX-License-Identifier: Apache-2.0 */
/* What is simulated beside each other: each scheme with each of its replications, pieces and parts.
 */
#ifndef CLI_SIMULATE_VARIANTS_H
#define CLI_SIMULATE_VARIANTS_H

#include "cli/simulate/simulate_schemes.h"

/* One scheme with one replication, one number of pieces and one of parts. */
typedef struct simulate_variant {
    const char *scheme; /* its name, or as it was written */
    const char *design;
    const char *order;
    const char *racks; /* NULL: none are known */
    char stop[32];
    tarry_plan_settings plan;
    tarry_server_settings server;
    tarry_sim_upload upload;
    bool costs_known;
    baseline_settings model; /* of kind BASELINE_NONE where the machines run */
    uint32_t stored;         /* copies of the data that the workers store */
    adapt_rule adapt;
} simulate_variant;

typedef struct simulate_variants {
    size_t count;
    simulate_variant *items;
    char *text; /* what the items' texts point into */
} simulate_variants;

typedef struct scheme_frame {
    uint32_t workers, chunks;
    uint64_t seed;
    double last_deadline; /* of the sweep; NaN if there is none */
    /* What a message takes one way, a chunk at least, and what each of its pieces takes besides. */
    double latency_seconds, chunk_seconds, overhead_seconds;
} scheme_frame;

/*
 * Reads `list`, and sweeps each scheme over its replications, its pieces and, as far as the
 * replications allow, its parts.
 * The caller frees *variants with simulate_variants_free. Errors: FORMAT and NO_MEMORY, with a
 * diagnostic.
 */
int simulate_variants_read(const char *list, const scheme_settings *defaults,
                           const scheme_frame *frame, simulate_variants *variants,
                           tarry_diagnostic *diagnostic);
void simulate_variants_free(simulate_variants *variants);

#endif
