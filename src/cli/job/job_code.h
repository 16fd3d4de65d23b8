/* SPDX-License-Identifier: Apache-2.0 */
/* What workers in other processes are to compute: the job of a tarry_tcp_server, as JSON. */
#ifndef CLI_JOB_CODE_H
#define CLI_JOB_CODE_H

#include "learn/batch.h"
#include "learn/local_steps.h"
#include "privacy/keystream.h"

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

#endif
