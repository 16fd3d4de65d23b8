/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What travels over a stream between the server and a worker or viewer: frames, each a head of 8
 * bytes and a body. Little-endian throughout; docs/wire.md is the description for other
 * implementations. This module turns bytes into structures and back; it holds no buffer of its own
 * and does no I/O. Any bytes may come in: sizes are checked against the limit of the frame's kind
 * before anything else is looked at, and a body is read by a cursor that never goes beyond it.
 *
 *   head   length of the body 4, kind 1, zero 1, zero 2
 *
 * Numbers of vectors (float32) are the last thing in a body, so that whoever receives can read what
 * stands before them, decide where they belong, and let them come straight there: see
 * wire_fixed_length.
 */
#ifndef PROTOCOL_WIRE_H
#define PROTOCOL_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/error.h>
#include <tarry/event.h>
#include <tarry/plan.h>

#include "base/bytes.h"
#include "compress/view.h"
#include "protocol/terms/terms.h"
#include "protocol/wire/codec.h"

enum {
    WIRE_VERSION = 13,
    WIRE_HEAD_BYTES = 8,
    WIRE_ID_BYTES = 16,           /* of a job, of a process's life */
    WIRE_DIGEST_BYTES = 32,       /* SHA-256 */
    WIRE_TEXT_BYTES = 255,        /* longest text */
    WIRE_MESSAGE_BYTES = 1 << 20, /* longest codec frame */
    WIRE_BLOB_BYTES = 1 << 16,    /* most bytes of a blob in one frame */
    WIRE_ENGINE_BYTES = 384,      /* longest address of an engine */
    WIRE_STATUS_BYTES = 1 << 23,  /* longest status */
    WIRE_NUMBERS_MOST = 1 << 22,  /* most numbers in one frame (16 MiB), and in a stripe */
    WIRE_VIEW_NUMBERS = 1 << 14,  /* most numbers of a view in one frame */
    WIRE_SMALL_BYTES = 512, /* every body but those of WELCOME, MESSAGE, PARAMETERS, VIEW, BLOB,
                               BATCH, STATUS, KEY, BLOCK, PASS and SAY is at most this long */
    WIRE_WELCOME_BYTES = 72 + TERMS_BYTES, /* longest body of a WELCOME */
    WIRE_SAY_BYTES = 1 << 20,              /* longest message of a control connection */
};

#define WIRE_ANY_WORKER UINT32_MAX
/* Most numbers of a vector and most bytes of anything large, so that sizes made of them don't
 * overflow. */
#define WIRE_VECTOR_MOST TERMS_VECTOR_MOST
#define WIRE_BLOB_MOST (UINT64_C(1) << 48)

typedef enum wire_kind {
    WIRE_HELLO = 1,  /* worker or viewer: the first frame of a connection; of a control connection
                        that of both sides */
    WIRE_WELCOME,    /* server: its answer */
    WIRE_REFUSED,    /* server: its other answer; a worker, too: the last word to a peer that breaks
                        a rule */
    WIRE_HEARTBEAT,  /* both: nothing else was sent for a while */
    WIRE_BYE,        /* both: the sender ends the connection in good order */
    WIRE_MESSAGE,    /* both: a message of the machines (codec.h); behind a PART its numbers */
    WIRE_PARAMETERS, /* server: some of the parameters of the round that was last announced */
    WIRE_BLOB,       /* server: some bytes of something large */
    WIRE_FETCH,      /* worker: asks for a blob */
    WIRE_READY,      /* worker: plan, job and data are there, it can be sent rounds */
    /* Bodies in wire_bodies.h; 11 is free: */
    WIRE_KEY = 12, /* worker, and from the server to all workers: a key to mask with */
    WIRE_STATUS,   /* server: how the run stands, to a viewer, as JSON (status.h) */
    /* Bodies in wire_bodies.h: */
    WIRE_MEMBER,     /* server: another worker, that makes sums with this one */
    WIRE_GREETING,   /* worker, to another: the first frame of their connection */
    WIRE_BEGUN,      /* worker, to another: it has begun a sum */
    WIRE_BLOCK,      /* worker, to another: numbers of a sum */
    WIRE_PASS,       /* worker, to another: of what is held, and got, outside of a sum */
    WIRE_BATCH = 21, /* worker: several reports; 19 and 20 are free */
    WIRE_VIEW,       /* server: numbers of the view of the parameters, in a form; in the place of
                        PARAMETERS */
    WIRE_SAY,        /* both, over a control connection: a message of the program's own */
    WIRE_KINDS,
} wire_kind;

typedef struct wire_head {
    wire_kind kind;
    uint32_t length; /* of the body, in bytes */
} wire_head;

/* A rack's name: up to TARRY_RACK_BYTES bytes, each from '!' to '~', and a NUL; "": none. */
typedef char wire_rack[TARRY_RACK_BYTES + 1];

typedef enum wire_role {
    WIRE_ROLE_WORKER,
    WIRE_ROLE_VIEWER,
    WIRE_ROLE_CONTROL, /* either side of a control connection (tarry/control.h) */
    WIRE_ROLES,
} wire_role;

typedef struct wire_hello {
    uint16_t oldest, newest; /* versions that it speaks, 1 <= oldest <= newest */
    wire_role role;
    uint8_t ranking; /* a worker: the COEFFICIENTS_VERSION that it goes by */
    uint32_t worker; /* the id that it asks for; WIRE_ANY_WORKER: any that is free */
    uint8_t instance[WIRE_ID_BYTES]; /* random: one life of one process */
    uint8_t job[WIRE_ID_BYTES];      /* that it has worked for; zeros: none yet */
    uint8_t plan[WIRE_DIGEST_BYTES]; /* digest of the plan that it has; zeros: none */
    wire_rack rack;                  /* that it says it is in */
} wire_hello;

typedef struct wire_welcome {
    uint16_t version; /* that both speak from now on: WIRE_VERSION */
    uint32_t worker;  /* its id; a viewer: WIRE_ANY_WORKER */
    uint8_t job[WIRE_ID_BYTES];
    uint8_t plan[WIRE_DIGEST_BYTES]; /* the plan in force */
    uint64_t plan_bytes;             /* of the PLAN blob that follows; 0: it has it */
    uint64_t job_bytes;              /* of the JOB blob that follows; 0: there is none */
    run_terms terms;                 /* as far as workers need them, the same for all */
} wire_welcome;

typedef enum wire_reason {
    WIRE_REFUSED_VERSION = 1, /* no version that both speak */
    WIRE_REFUSED_FORMAT,      /* what came is no frame of this protocol */
    WIRE_REFUSED_IDENTITY,    /* the credential does not allow this role or id */
    WIRE_REFUSED_REVOKED,
    WIRE_REFUSED_RANGE,    /* no such worker in this job */
    WIRE_REFUSED_TAKEN,    /* another one with this id is there; may pass */
    WIRE_REFUSED_FULL,     /* no id is free; may pass */
    WIRE_REFUSED_DATA,     /* its data are not those of this job */
    WIRE_REFUSED_FLOOD,    /* more messages than any worker has to say */
    WIRE_REFUSED_CLOSING,  /* the run ends; may pass (a resumed server) */
    WIRE_REFUSED_ARRIVALS, /* it came back too often lately, or since the last checkpoint; may pass
                            */
    WIRE_REFUSED_RANKING,  /* its ranks and coefficients come about in another way */
    WIRE_REASONS,
} wire_reason;

typedef struct wire_refused {
    wire_reason reason;
    char text[WIRE_TEXT_BYTES + 1]; /* printable ASCII, one line; what is not is read as '?' */
} wire_refused;

typedef enum wire_bye {
    WIRE_BYE_LEAVING = 1, /* worker: it was asked to end */
    WIRE_BYE_DONE,        /* server: the run is over; do not come back */
    WIRE_BYE_RESTART,     /* server: it stops and may be resumed; come back */
    WIRE_BYES,
} wire_bye;

typedef struct wire_parameters {
    uint64_t round;
    uint64_t first; /* number of the vector that the numbers in this frame begin at */
    uint64_t count; /* numbers in this frame, 1..WIRE_NUMBERS_MOST */
} wire_parameters;

typedef enum wire_blob_kind {
    WIRE_BLOB_PLAN = 1, /* plan_encode's bytes */
    WIRE_BLOB_JOB,      /* what is to be computed; the caller's own */
    WIRE_BLOB_DATA,     /* the samples of original chunk `index`; the caller's own */
    WIRE_BLOBS,
} wire_blob_kind;

typedef struct wire_blob {
    wire_blob_kind kind;
    uint32_t index; /* DATA: the chunk; PLAN: its turn (wire_ready); 0 otherwise */
    uint64_t total; /* bytes of all of it, at most WIRE_BLOB_MOST */
    uint64_t first; /* those of this frame begin here */
    uint64_t count; /* 1..WIRE_BLOB_BYTES; 0 only if the total is */
} wire_blob;

typedef struct wire_fetch {
    wire_blob_kind kind;
    uint32_t index;
} wire_fetch;

typedef struct wire_ready {
    uint8_t plan[WIRE_DIGEST_BYTES]; /* that it goes by now */
    uint8_t data[WIRE_DIGEST_BYTES]; /* of the data that it computes with; zeros: it can't tell */
    uint64_t numerics;               /* a fingerprint of how it computes; 0: it can't tell */
    /* Of that plan: 0 for WELCOME's, then as the PLAN blob had it. The digest alone does not tell a
     * plan from the same one that is in force again. */
    uint32_t turn;
    uint16_t size;                      /* of the address, 0..WIRE_ENGINE_BYTES */
    uint8_t address[WIRE_ENGINE_BYTES]; /* how others reach its engine */
} wire_ready;

typedef struct wire_say {
    uint32_t kind;  /* the program's own */
    uint64_t count; /* bytes of the message, 1..WIRE_SAY_BYTES */
} wire_say;

/* ---- frames ---- */

/* The longest body that a frame of this kind can have. */
uint32_t wire_most_length(wire_kind kind);
/* Reads a head. Errors: FORMAT (no such kind, longer or shorter than its kind can be, reserved
 * bytes that are not zero). */
int wire_head_decode(const uint8_t bytes[WIRE_HEAD_BYTES], wire_head *head);
void wire_head_encode(wire_kind kind, uint32_t length, uint8_t bytes[WIRE_HEAD_BYTES]);
/*
 * How many bytes of a body stand before its numbers or bytes of a blob, and can be decoded without
 * them: for MESSAGE, PARAMETERS, VIEW, BLOB, BLOCK, PASS and SAY. For a MESSAGE it takes the first
 * byte of its body: PART's 24 bytes, else all of it; 0 if a body that begins so can't have the
 * head's length (another message than a PART, beyond WIRE_MESSAGE_BYTES): what came is not of this
 * protocol. Everything else: the whole body. Never more than the head's length, which
 * wire_head_decode has checked.
 */
static inline uint32_t wire_fixed_length(const wire_head *head, uint8_t first);

/* ---- bodies ----
 * What a kind of frame carries is a structure of this header or of wire_bodies.h, and a table of
 * its fields in wire.c: HELLO wire_hello, REFUSED wire_refused, BYE wire_bye, PARAMETERS
 * wire_parameters, VIEW view_piece, BLOB wire_blob, FETCH wire_fetch, READY wire_ready, KEY
 * wire_key, MEMBER wire_member, GREETING wire_greeting, BEGUN wire_begun, BLOCK wire_block, PASS
 * wire_pass, SAY wire_say. A HEARTBEAT has no body (NULL). The other kinds
 * have functions of their own.
 */

/* Writes head and body (without numbers or bytes of a blob, whose length the head says); gives back
 * how many bytes, at most WIRE_HEAD_BYTES + WIRE_SMALL_BYTES (KEY: + WIRE_KEY_FRAME_BYTES). */
size_t wire_encode(wire_kind kind, const void *body, uint8_t *frame);
/*
 * Reads the structure of the head's kind from the body's first wire_fixed_length bytes. Errors:
 * FORMAT (the wrong length, an enumeration, flag or number out of its range, a reserved byte that
 * is not zero, counts that contradict the head's length, a text that does not end where the body
 * does); the structure is untouched then. What is read is encoded to the same bytes, but for texts
 * with '?' in them and peers of another version: of a HELLO or GREETING that speaks newer versions
 * as well, what is longer is not looked at; if this version is not among those that it speaks,
 * older or newer, all but the versions is left zero.
 */
int wire_decode(const wire_head *head, const uint8_t *bytes, void *body);
/* What wire_decode refuses such a body for, in a sentence that names kind and field ("HELLO: role
 * must be 0 to 1, not 7"). False, and no text, if it takes it, or the kind has no table. */
bool wire_explain(const wire_head *head, const uint8_t *bytes, char *text, size_t size);

size_t wire_welcome_encode(const wire_welcome *welcome, uint8_t *frame);
/* The diagnostic is "the server's settings: ..", and names the setting that is unknown, missing or
 * out of its range; empty: something else is wrong. */
int wire_welcome_decode(const wire_head *head, const uint8_t *body, wire_welcome *welcome,
                        tarry_diagnostic *why);
/* A message is codec_encode's bytes behind a head: of `size` bytes and, behind a PART, `behind`
 * bytes of its numbers in their form. */
void wire_message_head(size_t size, size_t behind, uint8_t bytes[WIRE_HEAD_BYTES]);

/* Why a peer was refused, in a few words, for logs; whether it may be let in later. */
const char *wire_reason_text(wire_reason reason);
bool wire_reason_passes(wire_reason reason);

/* ---- inline: reports come by the million ---- */

/* Of any frame but a MESSAGE without numbers. */
uint32_t wire_fixed_length_of_large(const wire_head *head, uint8_t first);

static inline uint32_t wire_fixed_length(const wire_head *head, uint8_t first)
{
    if (head->kind == WIRE_MESSAGE && first != TARRY_MESSAGE_PART)
        return head->length <= WIRE_MESSAGE_BYTES ? head->length : 0;
    return wire_fixed_length_of_large(head, first);
}

/* Reports of one round of which many come in one frame: the body of a BATCH (wire.h). */

enum {
    WIRE_BATCH_HEAD_BYTES = 16,
    WIRE_BATCH_REPORT_BYTES = 16,
    WIRE_BATCH_MOST = 1024, /* reports in one BATCH */
};

typedef struct wire_batch {
    uint64_t round;
    uint32_t term;          /* of all of them; 0: they have none */
    uint32_t count;         /* 1..WIRE_BATCH_MOST */
    const uint8_t *reports; /* decode: borrowed from the body */
} wire_batch;

/* Writes the head of a frame with `batch->count` reports, which stand behind it already. Gives back
 * the bytes of all. */
size_t wire_batch_encode(const wire_batch *batch, uint8_t *frame);
/* Errors: FORMAT, of any of the reports as well. */
int wire_batch_decode(const wire_head *head, const uint8_t *body, wire_batch *batch);

/* Writes report `index` of a frame; its round and term are the batch's. */
static inline void wire_batch_put(uint8_t *frame, uint32_t index, const tarry_message *report)
{
    uint8_t *at = frame + WIRE_HEAD_BYTES + WIRE_BATCH_HEAD_BYTES + index * WIRE_BATCH_REPORT_BYTES;
    at = bytes_put(at, report->epoch, 4);
    at = bytes_put(at, report->slot, 4);
    at = bytes_put(at, report->next, 4);
    at = bytes_put(at, report->sequence, 2);
    at = bytes_put(at, report->failed, 1);
    bytes_put(at, 0, 1);
}

/* Reads report `index` of a batch that was decoded. */
static inline void wire_batch_get(const wire_batch *batch, uint32_t index, tarry_message *report)
{
    const uint8_t *at = batch->reports + index * WIRE_BATCH_REPORT_BYTES;
    *report = (tarry_message){
        .type = TARRY_MESSAGE_REPORT,
        .round = batch->round,
        .term = batch->term,
        .epoch = (uint32_t)bytes_get(at, 4),
        .slot = (uint32_t)bytes_get(at + 4, 4),
        .next = (uint32_t)bytes_get(at + 8, 4),
        .sequence = (uint16_t)bytes_get(at + 12, 2),
        .failed = at[14] != 0,
    };
}

#endif
