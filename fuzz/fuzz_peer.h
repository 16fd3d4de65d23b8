/* SPDX-License-Identifier: Apache-2.0 */
/* Who is at the other ends of the connections of fuzz_peer.c. */
#ifndef FUZZ_PEER_H
#define FUZZ_PEER_H

#include "fuzz_input.h"
#include "fuzz_plans.h"
#include "protocol/form.h"
#include "protocol/wire/codec.h"
#include "protocol/wire/wire.h"
#include "runtime/tcp/server/tcp_server.h"

enum {
    VISITORS = 4,
    MOST_STRIPES = 6, /* more than a worker has buffers for */
    STRIPE = 4,
    SHARE = 300000, /* of its numbers, in that form of coded parts */
    EXACT = 5,      /* numbers of a gradient in every form */
    PARAMETERS = 8,
    FACTOR = 2, /* numbers behind them where coded parts are products: of a matrix of two by two */
    MOST_DIMENSION = STRIPE * MOST_STRIPES * FUZZ_MOST_WORKERS,
    MOST_FRAME = 4 * (WIRE_HEAD_BYTES + WIRE_SMALL_BYTES),
    MOST_WORDS = 32,
    ROOM = 1 << 14,    /* the longest frame that the server sends is shorter */
    MOST_TURNS = 2000, /* of the loop, until what came is dealt with */
};

/* The other end of a connection. */
typedef struct visitor {
    int fd;    /* -1: none */
    bool deaf; /* reads nothing */
    uint32_t worker;
    uint64_t round;
    uint32_t epoch, attempt, term;
    uint16_t sequence;
    uint32_t chunks; /* of its, in the last signal of secure sums */
    uint8_t instance[WIRE_ID_BYTES];
    uint8_t plan[WIRE_DIGEST_BYTES];
    view_intake seen; /* of a view of the parameters, */
    float numbers[2][PARAMETERS + FACTOR];
    uint32_t current;
    uint8_t unsent[MOST_FRAME]; /* the rest of a frame that was sent in part */
    size_t unsent_size;
    uint8_t *in; /* ROOM */
    size_t in_size;
} visitor;

typedef struct run {
    const tarry_plan *plan;
    codec_shape shape_before[FUZZ_MOST_WORKERS];
    uint8_t choice[4]; /* of the plan, without its seed */
    tarry_tcp_server *server;
    float parameters[PARAMETERS], sum[MOST_DIMENSION];
    visitor visitors[VISITORS];
} run;

/* What the server says. */
void fuzz_peer_hear(run *its, visitor *who, const wire_head *head, const uint8_t *body);
/* A frame of a worker. */
size_t fuzz_peer_draw(const run *its, input *in, uint8_t kind, visitor *who, uint8_t *frame);
/* PART of a stripe, but for its form; what bits of `off` name is wrong. */
tarry_message fuzz_peer_part(const visitor *who, uint8_t place, uint8_t off);
/* The form of coded parts of the round, or `other` forms behind it. */
compress_form fuzz_peer_form(const run *its, uint64_t round, uint32_t other);
/* Of so many numbers that begin with the stripe, in a gradient of one part. */
size_t fuzz_peer_bytes(const run *its, compress_form form, uint32_t stripe, size_t numbers);
/* The numbers that a stripe has of a coded part. */
size_t fuzz_peer_numbers(const run *its, uint32_t stripe);

/* fuzz_peer_secure.c */
bool fuzz_is_secure(const run *its);
/* Secure sums, and what goes with them. */
void fuzz_secure_settings(const run *its, uint8_t sizes, tarry_tcp_server_settings *settings);
/* Whether the frame is of secure sums alone; it is checked then. */
bool fuzz_secure_hear(const run *its, visitor *who, const wire_head *head, const uint8_t *body);
void fuzz_secure_hear_signal(const run *its, visitor *who, const tarry_message *signal);
size_t fuzz_secure_draw_key(const visitor *who, input *in, uint8_t kind, uint8_t *frame);
size_t fuzz_secure_draw_part(const run *its, input *in, uint8_t kind, const visitor *who,
                             uint8_t *frame);

#endif
