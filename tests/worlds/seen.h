/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views of the parameters in a world (compress/view.h): real vectors, which come down to workers
 * with their ROUNDs as changes. What is on its way when its round ends may be cut off: the worker
 * misses that round.
 */
#ifndef WORLDS_SEEN_H
#define WORLDS_SEEN_H

#include "compress/view.h"

enum {
    SEEN_NUMBERS = 260, /* two blocks of int8 */
    SEEN_PIECES = 3,    /* at most, for one round */
    SEEN_ROUNDS = 64,   /* whose views are remembered */
    SEEN_BYTES = SEEN_NUMBERS * 4,
};

/* What travels with a ROUND. */
typedef struct seen_parcel {
    uint32_t count;
    bool cut; /* it never arrives as a whole, nor does its ROUND, which is over */
    view_piece pieces[SEEN_PIECES];
    uint8_t bytes[SEEN_BYTES]; /* of one after the other */
} seen_parcel;

/* What a worker has, and what the server knows of it. */
typedef struct seen_node {
    uint32_t connection; /* over which it came */
    view_reader reader;
    view_intake intake;
    float numbers[2][SEEN_NUMBERS];
    uint32_t current;
    uint64_t stamp; /* of numbers[current], over whatever connection that came; 0: none */
    uint64_t cut;   /* that of the last one that was cut off */
    uint64_t digests[1];
} seen_node;

typedef struct seen_world {
    bool on;
    view *source;
    uint64_t of[SEEN_ROUNDS]; /* digests of the views of rounds, in all lives of the server; 0 */
    float saved[SEEN_NUMBERS];
    uint64_t saved_stamp;
} seen_world;

#endif
