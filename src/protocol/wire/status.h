/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a run stands, as one JSON document: the body of a STATUS frame, and what tarry_runtime_status
 * gives. docs/status.schema.json describes it. A member that is added goes into a table here and
 * into the schema; readers leave members alone that they do not know. The version rises when a
 * member changes its meaning or goes.
 */
#ifndef PROTOCOL_STATUS_H
#define PROTOCOL_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "protocol/wire/wire.h"

enum {
    STATUS_VERSION = 1,
    STATUS_NOTE_BYTES = 255, /* longest note */
};

typedef enum wire_worker_state {
    WIRE_WORKER_ABSENT,    /* was never there */
    WIRE_WORKER_RESTING,   /* between rounds, or all that it has is done */
    WIRE_WORKER_RECEIVING, /* the round's parameters are on their way to it */
    WIRE_WORKER_COMPUTING,
    WIRE_WORKER_SENDING, /* its coded part */
    WIRE_WORKER_LATE,    /* the round goes on without it */
    WIRE_WORKER_SILENT,  /* given up: nothing came from it */
    WIRE_WORKER_GONE,    /* its connection is */
    WIRE_WORKER_LEFT,    /* in good order */
    /* Where workers have the parameters, and make the sum: */
    WIRE_WORKER_BEHIND,  /* has not the last state yet */
    WIRE_WORKER_SUMMING, /* was told to make the sum, and has not said that it has it */
    WIRE_WORKER_HOLDING, /* has it, and waits for all to have it */
    WIRE_WORKER_STATES,
} wire_worker_state;

typedef struct status_worker {
    uint32_t id;
    wire_worker_state state;
    uint32_t load;           /* chunks that it holds */
    uint32_t finished;       /* of these, in this round */
    uint32_t arrivals;       /* how often it came */
    uint64_t chunks;         /* finished over all rounds */
    uint64_t pace_ns;        /* of a chunk of mean cost; 0: not known */
    uint64_t heard_ns;       /* since anything came from it; 0: nothing ever did */
    uint64_t received, sent; /* bytes, over all its connections */
    wire_rack rack;          /* that it said it is in */
} status_worker;

/* The last sum that workers made. */
typedef struct status_sum {
    uint64_t step; /* 0: there is none */
    uint32_t term, attempt;
    uint32_t voters;  /* who made it */
    uint32_t fetches; /* of these, those that got it from another one */
    uint32_t tries;   /* attempts of its round */
} status_sum;

typedef struct status_run {
    uint64_t done;       /* rounds */
    bool running;        /* a round is in progress; */
    bool waiting;        /* none is, for want of workers */
    uint64_t elapsed_ns; /* of the round that runs; 0: none does */
    uint64_t median_ns;  /* of the rounds before; 0: none */
    uint64_t rounds;     /* in all; 0: not known */
    uint64_t exact;      /* rounds that were */
    uint32_t attempts;   /* of the round */
    status_sum sum;
    uint32_t workers;                    /* those of the lowest ids, which are listed */
    uint32_t others[WIRE_WORKER_STATES]; /* how many more there are in each state */
    char note[STATUS_NOTE_BYTES + 1];    /* the caller's */
} status_run;

extern const char *const status_states[WIRE_WORKER_STATES];
/* Members of "run", of "sum" and of each of "workers". */
extern const record_member status_run_table[], status_sum_table[], status_worker_table[];

/* Fills in what is known of a worker, whose id is set. */
typedef void status_describe(void *user, status_worker *out);

/* Writes the document about a run of so many workers, and lists as many of them as there is room
 * for. run->workers and run->others do not count. False: there is no room for the run itself. */
bool status_write(const status_run *run, uint32_t workers, status_describe *describe, void *user,
                  record_out *out);

#endif
