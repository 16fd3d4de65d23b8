/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A relay of the simplest kind, in a thread of its own, for tests of the other ends: it blocks, and
 * keeps whole frames. Plain text on loopback. What it is told it holds to docs/wire.md.
 */
#ifndef TEST_PLAIN_RELAY_H
#define TEST_PLAIN_RELAY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct plain_relay plain_relay;

/* Connects to "127.0.0.1:PORT", and is there for children once this returns. reports: of how many
 * it makes one BATCH, while more are there to be read. */
plain_relay *plain_relay_start(const char *parent, uint32_t reports);
/* Where children can connect to. */
const char *plain_relay_address(const plain_relay *self);
/* Its connections break, all at once. */
void plain_relay_kill(plain_relay *self);
/* It says nothing any more, and reads nothing, but its connections stay. */
void plain_relay_freeze(plain_relay *self);
/* Ends its thread, if it runs, and frees it. */
void plain_relay_free(plain_relay *self);

typedef struct plain_relay_counts {
    uint32_t parameters;  /* times the parameters of a round came whole */
    uint32_t plans, jobs; /* the same of blobs */
    uint32_t batches, reports;
    uint32_t most_out; /* LANE_PARTs of one lane without a TAKEN */
    uint32_t gathers;  /* groups that it was told of */
    uint32_t gathered; /* stripes that it made */
    uint32_t parts;    /* LANE_PARTs */
    uint32_t lanes;    /* that were opened */
} plain_relay_counts;

plain_relay_counts plain_relay_counted(plain_relay *self);

#endif
