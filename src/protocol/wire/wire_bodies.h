/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROTOCOL_WIRE_BODIES_H
#define PROTOCOL_WIRE_BODIES_H

#include <tarry/compress.h>

#include "protocol/wire/wire.h"

/* The keys with which workers mask in secure sums: the body of a KEY frame (wire.h). */

enum {
    WIRE_KEY_BYTES = 32,           /* of a public key (X25519) */
    WIRE_CERTIFICATE_BYTES = 4096, /* longest */
    WIRE_SIGNATURE_BYTES = 512,    /* longest */
    WIRE_KEY_FRAME_BYTES = 68 + WIRE_CERTIFICATE_BYTES + WIRE_SIGNATURE_BYTES, /* longest body */
};

/* A worker's key for this job and life of its process; first to the server, then, with the epoch,
 * from the server to every worker. */
typedef struct wire_key {
    uint32_t worker;
    uint32_t epoch; /* from the worker: 0 */
    uint8_t instance[WIRE_ID_BYTES];
    uint8_t key[WIRE_KEY_BYTES];
    uint64_t numerics;          /* as READY has it */
    uint16_t certificate_size;  /* 1..WIRE_CERTIFICATE_BYTES */
    uint16_t signature_size;    /* 1..WIRE_SIGNATURE_BYTES */
    const uint8_t *certificate; /* the worker's, DER; decode: borrowed from the body */
    const uint8_t *signature;   /* by the key of that; the same */
} wire_key;

/*
 * What workers say to each other where they make the sum themselves, and what the server tells them
 * for that: bodies of frames (wire.h), by the same rules.
 */

enum {
    WIRE_PIECE_BYTES = 1 << 18,   /* most bytes in one PASS */
    WIRE_BLOCK_NUMBERS = 1 << 15, /* numbers in one BLOCK: all but a share's last have as many */
    WIRE_PARTS_MOST = 1 << 16,    /* of a sum */
    WIRE_BLOCK_HEAD_BYTES = 36,   /* of a BLOCK, before its numbers */
    WIRE_PASS_BYTES = 48,         /* of a PASS, before its bytes */
};

/* A worker that others may connect to and take connections of, or one that has gone. */
typedef struct wire_member {
    uint32_t worker;
    uint32_t arrival; /* the epoch of its messages */
    bool present;
    uint16_t size; /* of its engine's address, 0..WIRE_ENGINE_BYTES; 0 unless present */
    uint8_t fingerprint[WIRE_DIGEST_BYTES]; /* of its certificate, as the server saw it: SHA-256 of
                                               the DER; zeros: plain text */
    uint8_t address[WIRE_ENGINE_BYTES];
} wire_member;

/* The first frame of a connection between two workers, from either. */
typedef struct wire_greeting {
    uint16_t oldest, newest;         /* versions that it speaks, 1 <= oldest <= newest */
    uint8_t instance[WIRE_ID_BYTES]; /* the sender's */
    uint8_t wanted[WIRE_ID_BYTES];   /* whom it takes the receiver for */
} wire_greeting;

/* The sender has begun this sum, and takes its blocks. */
typedef struct wire_begun {
    tarry_sum_id name;       /* without the digest */
    uint64_t epoch;          /* of the group */
    uint64_t dimension;      /* 1..WIRE_VECTOR_MOST */
    uint32_t parts;          /* 1..WIRE_PARTS_MOST */
    bool empty;              /* its coded part is zeros, and is not sent */
    tarry_compress up, down; /* the forms of coded parts and of the sum: NONE, BF16 or INT8 */
} wire_begun;

typedef enum wire_block_kind {
    WIRE_BLOCK_PART, /* of the sender's coded part, in a share of the receiver's */
    WIRE_BLOCK_SUM,  /* of the sum, in a share of the sender's */
    WIRE_BLOCKS,
} wire_block_kind;

typedef struct wire_block {
    tarry_sum_id name; /* without the digest */
    wire_block_kind kind;
    uint32_t part;       /* PART: 0; else which one */
    uint64_t first;      /* number of the part that these begin at */
    uint64_t count;      /* 1..WIRE_BLOCK_NUMBERS */
    tarry_compress form; /* NONE, BF16 or INT8 */
    uint64_t bytes;      /* of the numbers; NONE: 4 each; else it is for the engine to check */
} wire_block;

typedef enum wire_pass_type {
    WIRE_PASS_ASK_SUM,   /* the sum that the receiver holds, of this id */
    WIRE_PASS_ASK_STATE, /* the receiver's state after this sum, or after a later one */
    WIRE_PASS_MORE,      /* more of it may come; `first` bytes are there */
    WIRE_PASS_DONE,      /* no more of it is wanted */
    WIRE_PASS_NONE,      /* it can't be had */
    WIRE_PASS_COMES,     /* `until` bytes in pieces: the sum `sum`, or the state after it */
    WIRE_PASS_PIECE,     /* the bytes from `first` on */
    WIRE_PASSES,
} wire_pass_type;

/* What workers pass each other outside of a sum (runtime/worker/exchange.h). */
typedef struct wire_pass {
    wire_pass_type type;
    uint32_t ticket;  /* what it belongs to: counted by who asks */
    tarry_sum_id sum; /* ASK, COMES; else zeros */
    uint64_t first;   /* MORE, PIECE; COMES: the digest of the state's bytes */
    uint64_t until;   /* ASK, MORE: the bytes before this one may come; at most WIRE_BLOB_MOST */
    uint64_t count;   /* PIECE: 1..WIRE_PIECE_BYTES; else 0 */
} wire_pass;

/* Any body that wire_encode and wire_decode know. */
typedef union wire_any {
    wire_hello hello;
    wire_refused refused;
    wire_bye bye;
    wire_parameters parameters;
    view_piece view;
    wire_blob blob;
    wire_fetch fetch;
    wire_ready ready;
    wire_key key;
    wire_member member;
    wire_greeting greeting;
    wire_begun begun;
    wire_block block;
    wire_pass pass;
    wire_say say;
} wire_any;

#endif
