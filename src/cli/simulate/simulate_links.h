/* SPDX-License-Identifier: Apache-2.0 */
/* Workers whose links carry less than the others', and what messages wait. */
#ifndef CLI_SIMULATE_LINKS_H
#define CLI_SIMULATE_LINKS_H

#include <stdint.h>

#include <tarry/error.h>

typedef struct slow_links {
    uint32_t count; /* at most the workers */
    double factor;  /* >= 1: how many times less they carry */
} slow_links;

/* Reads "K,FACTOR". Errors: FORMAT. */
int slow_links_read(const char *text, slow_links *links, tarry_diagnostic *diagnostic);

/* Draws who they are; factor[j]: how many times less worker j's link carries. order: scratch of as
 * many. */
void slow_links_draw(const slow_links *links, uint64_t seed, uint32_t workers, double *factor,
                     uint32_t *order);

/* A lognormal time of that mean, in seconds, and of a standard deviation so many times that. */
typedef struct jitter_links {
    double mean, spread;
} jitter_links;

/* Reads "SECONDS,SD". Errors: FORMAT. */
int jitter_links_read(const char *text, jitter_links *links, tarry_diagnostic *diagnostic);

#endif
