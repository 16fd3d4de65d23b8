/* SPDX-License-Identifier: Apache-2.0 */
/* How a run stands, for those who watch it: the body of a STATUS frame (wire.h). */
#ifndef PROTOCOL_WIRE_STATUS_H
#define PROTOCOL_WIRE_STATUS_H

#include <tarry/shape.h>

#include "protocol/wire/wire.h"

enum {
    WIRE_STATUS_NOTE_BYTES = 255,
    WIRE_STATUS_MOST_WORKERS = 1 << 16, /* whose entries it has */
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

typedef struct wire_worker_status {
    wire_worker_state state;
    bool near;               /* on the server's machine: shared memory */
    uint32_t load;           /* chunks that it holds */
    uint32_t finished;       /* of these, in this round */
    uint32_t arrivals;       /* how often it came */
    uint64_t chunks;         /* finished over all rounds */
    uint64_t pace_ns;        /* of a chunk of mean cost; 0: not known */
    uint64_t heard_ns;       /* since anything came from it; TARRY_NEVER: nothing ever did */
    uint64_t received, sent; /* bytes, over all its connections */
    wire_rack rack;          /* that it said it is in */
} wire_worker_status;

/* The last sum that workers made. */
typedef struct wire_sum_status {
    uint64_t step; /* 0: there is none */
    uint32_t term, attempt;
    uint32_t voters;  /* who made it */
    uint32_t fetches; /* of these, those that got it from another one */
    uint32_t tries;   /* attempts of its round */
    tarry_shape shape;
    tarry_links links; /* among the workers */
} wire_sum_status;

typedef struct wire_status {
    uint64_t done;       /* rounds */
    bool running;        /* a round is in progress; */
    bool waiting;        /* none is, for want of workers */
    uint64_t elapsed_ns; /* of the round that runs */
    uint64_t median_ns;  /* of the rounds before; 0: none */
    uint64_t rounds;     /* in all; 0: not known */
    uint64_t exact;      /* rounds that were */
    uint32_t attempts;   /* of the round */
    wire_sum_status sum;
    uint32_t workers;                      /* those of the lowest ids, which have entries */
    uint32_t others[WIRE_WORKER_STATES];   /* how many more there are in each state */
    char note[WIRE_STATUS_NOTE_BYTES + 1]; /* the caller's; printable UTF-8 on one line, else '?' */
} wire_status;

size_t wire_status_size(const wire_status *status); /* head and body */
/* As many workers as there may be entries of in `bytes` of head and body, whatever the note. */
uint32_t wire_status_workers_in(size_t bytes);
/* Workers in all. */
uint64_t wire_status_all_workers(const wire_status *status);
/* Writes head and body; `worker` has status->workers entries. */
void wire_status_encode(const wire_status *status, const wire_worker_status *worker,
                        uint8_t *frame);
/* The fixed part of a body; then each of its workers. Errors: FORMAT. */
int wire_status_decode(const wire_head *head, const uint8_t *body, wire_status *status);
int wire_status_worker(const wire_head *head, const uint8_t *body, uint32_t worker,
                       wire_worker_status *out);

#endif
