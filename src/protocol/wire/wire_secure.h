/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said for secure sums beside the messages: by which rules a server wants them made, and
 * with which keys workers mask. Bodies of frames (wire.h), by the same rules.
 */
#ifndef PROTOCOL_WIRE_SECURE_H
#define PROTOCOL_WIRE_SECURE_H

#include "protocol/wire/wire.h"

enum {
    WIRE_KEY_BYTES = 32,           /* of a public key (X25519) */
    WIRE_CERTIFICATE_BYTES = 4096, /* longest */
    WIRE_SIGNATURE_BYTES = 512,    /* longest */
    WIRE_KEY_FRAME_BYTES = 68 + WIRE_CERTIFICATE_BYTES + WIRE_SIGNATURE_BYTES, /* longest body */
};

/* The server, before WELCOME: sums of this job are private. A worker takes the rules, or ends. */
typedef struct wire_secure {
    uint32_t bits;      /* w, of a number on its way: 32 or 64 */
    int32_t fraction;   /* f: numbers are sent as multiples of 2^-f; -126..126 */
    double bound;       /* B: what a chunk's numbers are clamped to; > 0 and finite */
    uint32_t colluders; /* T: so many workers may tell the server all that they know */
    uint64_t least;     /* samples that no colluders hold, at least */
    uint8_t roster[WIRE_DIGEST_BYTES]; /* of the list of those who may take part */
} wire_secure;

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

size_t wire_secure_encode(const wire_secure *rules, uint8_t *frame);
int wire_secure_decode(const wire_head *head, const uint8_t *body, wire_secure *rules);
/* `frame` has room for WIRE_HEAD_BYTES + WIRE_KEY_FRAME_BYTES. */
size_t wire_key_encode(const wire_key *key, uint8_t *frame);
int wire_key_decode(const wire_head *head, const uint8_t *body, wire_key *key);

#endif
