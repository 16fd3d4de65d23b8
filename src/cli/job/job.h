/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include <tarry/error.h>
#include <tarry/replica.h>

#include "learn/dataset.h"
#include "learn/optimizer.h"
#include "privacy/keystream.h"

/* What workers in other processes are to compute: the job of a tarry_tcp_server, as JSON. */

enum { JOB_DIGEST_SIZE = 32 };

typedef struct job_spec {
    objective_settings model; /* for samples of so many features and classes */
    batch_settings batch;     /* of the samples that are trained on, and the plan's origins */
    bool sparse;              /* samples are */
    double holdout;           /* share of the samples held out before; 0: none */
    uint64_t made_samples;    /* before that, where they were made up from the seed; 0: they are
                                 read from a file */
    bool secure;              /* sums are secure: the server may have no samples */
    double clip, sample;      /* with differential privacy: how long a sample's gradient is at most,
                                 and with which probability it is in a round; clip 0: without */
    bool tells_draws;         /* whether `draws`, the key of those, is told with the job */
    uint8_t draws[KEYSTREAM_KEY_BYTES];
    uint8_t data[JOB_DIGEST_SIZE]; /* of the samples that are trained on; zeros with `secure`: the
                                      server has none */
    local_settings local;          /* what chunks stand for */
    bool everywhere;               /* everyone gets the sum, and steps on it with: */
    optimizer_settings optimizer;
} job_spec;

/* *text is the caller's, by free(). Errors: NO_MEMORY. */
int job_encode(const job_spec *spec, char **text);

/*
 * Any bytes may come in. What is read makes an objective and a batch_settings that are fit for use,
 * but for samples of other sizes. Errors: FORMAT (no job, one of another version, a value that is
 * missing or out of range), NO_MEMORY.
 */
int job_decode(const void *text, size_t size, job_spec *out, tarry_diagnostic *diagnostic);

/*
 * What the workers of this process hold where everyone gets the sum: each its own parameters and
 * its own optimizer, which step on the same sums as the server would (--sum server), to the bit. A
 * server of workers elsewhere has one that none of them steps, for the state that they begin with.
 *
 * Workers' threads step them; another thread may look at the state after a step.
 */

typedef struct job_replicas job_replicas;

typedef struct job_replicas_settings {
    const objective *model;       /* borrowed */
    optimizer_settings optimizer; /* of the parameters */
    local_settings local;         /* what a sum is of */
    double samples;               /* that a sum is over */
    /* What they begin with: the state after so many steps, which is copied. parameters NULL: the
     * first state, drawn by the seed. */
    uint64_t seed, steps;
    const float *parameters;
    const optimizer_state *state; /* of an optimizer of that kind */
} job_replicas_settings;

/* What each of them takes. */
uint64_t job_replicas_bytes(optimizer_kind kind, size_t dimension);

/* As many as the process has workers. The caller frees *out, after what calls the replicas. Errors:
 * NO_MEMORY. */
int job_replicas_create(const job_replicas_settings *settings, uint32_t count, job_replicas **out);
void job_replicas_free(job_replicas *self); /* NULL is allowed */

/* `count` of them, in the order of workers; they belong to `self`. */
const tarry_replica *job_replicas_list(const job_replicas *self);

/* All of the first one's state, as its replica saves it; *bytes is the caller's, by
 * memory_release. Errors: NO_MEMORY. */
int job_replicas_copy(job_replicas *self, uint8_t **bytes, uint64_t *size);

/*
 * Waits until one of them has taken so many steps, and copies what it has then; none may take more
 * meanwhile. `state` is of an optimizer of the same kind.
 */
void job_replicas_look(job_replicas *self, uint64_t steps, float *parameters,
                       optimizer_state *state);
/* The same of bytes of a state that should be that after so many steps, as a replica of the same
 * job saves it; any bytes may come in. Errors: FORMAT, with nothing copied. */
int job_replicas_read(const job_replicas *self, uint64_t steps, const void *bytes, uint64_t size,
                      float *parameters, optimizer_state *state);

/*
 * The key by which samples are drawn with differential privacy, on its way to the worker processes
 * of one machine and user: a file that is in no folder, sealed against changes, which they inherit.
 */

/* A descriptor of such a file, above those of standard input and output, which no other program
 * gets (close-on-exec); the caller closes it. Errors: SYSTEM, with a diagnostic. */
int draws_key_share(const uint8_t key[KEYSTREAM_KEY_BYTES], int *descriptor,
                    tarry_diagnostic *diagnostic);

/* Reads a file that has a key, and nothing else. Errors: FILE (it can't be read), FORMAT (other
 * bytes than that), with a diagnostic; *key is untouched. */
int draws_key_read(const char *path, uint8_t key[KEYSTREAM_KEY_BYTES],
                   tarry_diagnostic *diagnostic);

#endif
