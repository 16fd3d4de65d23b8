/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMAND_WORK_H
#define CLI_COMMAND_WORK_H

#include <pthread.h>

#include <tarry/secure.h>
#include <tarry/tcp.h>

#include "cli/job/job.h"
#include "cli/options/network_options.h"
#include "cli/options/secure_options.h"
#include "learn/dataset.h"

/* The options of tarry work. */

typedef struct work_options {
    network_options network;
    const char *connect;
    uint32_t worker;                /* TARRY_TCP_NO_WORKER: not given */
    const char *rack;               /* NULL: it says none */
    const char *listen, *advertise; /* for other workers; NULL: chosen */
    bool no_share;                  /* of memory with these */
    double grace, patience;         /* seconds */
    dataset_source source;          /* path NULL: made up or shipped, as the server says */
    const char *straggler;
    uint64_t straggler_seed;
    bool straggler_seeded; /* else the seed is the server's */
    const char *straggler_seed_text;
    secure_options secure;
    const char *dp_key; /* a file with the key of draws; NULL: jobs with differential privacy are
                           refused */
    bool quiet;
} work_options;

void work_options_init(work_options *options);

/* What a worker process insists on where sums are secure (tarry_secure_member). */

typedef struct work_secure work_secure;

/* Opens what the worker with these credentials has pinned; `options` is borrowed. Errors: STATE,
 * FILE, NO_MEMORY, with a diagnostic. */
int work_secure_create(const secure_options *options, const char *credentials, bool quiet,
                       work_secure **out, tarry_diagnostic *diagnostic);
void work_secure_free(work_secure *own); /* NULL is allowed */

/* The job that offers are of from now on, as the worker has read it. Errors: ARGUMENT (a job
 * without samples), NO_MEMORY. */
int work_secure_job(work_secure *own, const job_spec *spec);

/* For tarry_secure_member; user is the work_secure. */
int work_secure_agree(void *user, const tarry_secure_offer *offer,
                      uint8_t target[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic);
int work_secure_lock(void *user, const tarry_secure_attempt *attempt, tarry_diagnostic *diagnostic);

/* What a worker process computes: the server's job, and the samples it is about. */

typedef struct work_job work_job;

/* `options` is borrowed. Errors: NO_MEMORY. */
int work_job_create(const work_options *options, work_job **out);
/* After the worker was freed. NULL is allowed. */
void work_job_free(work_job *own);

/* The samples of its file, that were read already: takes them, for the next job alone. */
void work_job_bring(work_job *own, dataset *samples);

/* A tarry_tcp_begin and a tarry_compute; user is the work_job. */
int work_job_begin(void *user, tarry_tcp_worker *worker, const tarry_tcp_job *job,
                   uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic);
int work_job_compute(void *user, const tarry_task *task);

/* In what the data differ from the server's, for one who was refused over them; empty if they don't
 * or nothing is known. */
const char *work_job_mismatch(const work_job *own);

#endif
