/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker or viewer at the other end of a network server that does what a test tells it, over a
 * blocking socket; or a server at the other end of one of these. Whatever does not come within a
 * minute fails the test.
 */
#ifndef TEST_SCRIPT_H
#define TEST_SCRIPT_H

#include <stdatomic.h>

#include <tarry/tcp.h>
#include <tarry/worker.h>

#include "protocol/wire/codec.h"
#include "protocol/wire/wire_bodies.h"
#include "runtime/tcp/trust/credential.h"

/* In which phase of a round it closes its connection. */
typedef enum script_death {
    SCRIPT_LIVES,
    SCRIPT_DIES_COMPUTING,     /* when the round has come */
    SCRIPT_DIES_BEFORE_PART,   /* when the signal has come */
    SCRIPT_DIES_IN_PART,       /* in the middle of its first stripe */
    SCRIPT_DIES_BETWEEN_PARTS, /* behind its first stripe */
    SCRIPT_DIES_BEHIND_PART,   /* behind its last stripe */
} script_death;

typedef struct script {
    int fd;
    struct credential *credential; /* NULL: plain text */
    SSL *ssl;
    uint8_t instance; /* the first byte of it; the others are zero */
    uint8_t reached;  /* the one byte of its engine's address; 0: it has none */
    wire_welcome welcome;
    tarry_plan *plan;
    uint32_t turn; /* of the plan (wire_ready) */
    float *parameters;
    bool receiving;    /* the parameters of `round`, whose message is kept until they are there, */
    uint64_t round;    /* as is what comes in the meantime */
    uint64_t received; /* numbers of them */
    uint8_t *kept[16];
    uint32_t kept_size[16], kept_count;
    wire_head head; /* the frame that was read last */
    uint8_t *body;
    size_t room;     /* bytes of it */
    uint8_t job[64]; /* its first bytes */

    script_death death;
    bool batches; /* its reports come in batches, of as many as stand in `reports` at most */
    tarry_message reports[4];
    uint32_t report_count;
    double slowness; /* seconds per chunk, */
    double pause;    /* and between a signal and its part */
    tarry_worker *machine;
    uint64_t *words;
    float **gradients; /* per position */
    uint32_t stripes_sent;
    bool computing;
    tarry_effect task;
} script;

/* Connects to "127.0.0.1:PORT" or "unix:PATH". */
void script_open(script *its, const char *address, uint8_t instance);
/* The same over TLS, with a credentials directory. False: it is not let in. */
bool script_open_secure(script *its, const char *address, uint8_t instance,
                        const char *credentials);
/* The other side: the next connection of that listener, in the place of one that there is. */
void script_take(script *its, int listener);
/* Lets TLS, of which `ssl` is the server's side, begin over it. False: one does not let the other
 * in. */
bool script_accept(script *its, SSL *ssl);
/* Ends the connection alone. */
void script_hang_up(script *its);
void script_close(script *its);
/* False: the connection is gone. */
bool script_send(script *its, const void *bytes, size_t size);
bool script_read(script *its);
/* Reads until a frame of the kind comes; asserts that one does. */
void script_await(script *its, wire_kind kind);
void script_say_hello(script *its, wire_role role, uint32_t worker);
/* Reads until REFUSED or the end; 0: no reason was given. */
wire_reason script_reason(script *its);
/* HELLO to READY. */
void script_join(script *its, uint32_t worker);
/* A message, with numbers behind it. */
bool script_message(script *its, const tarry_message *message, const float *numbers, size_t count);
/* Reports of one round, in one frame. */
bool script_batch(script *its, const tarry_message *reports, uint32_t count);
/* Reads until a message of the type comes. */
void script_await_message(script *its, tarry_message_type type, tarry_message *message);

/* The gradient of a chunk, number by number. */
float script_gradient(uint64_t round, uint32_t chunk, size_t number, float parameter);
/* Takes part in rounds as a worker does, until the server ends it or the script does. */
void script_work(script *its);

#endif
