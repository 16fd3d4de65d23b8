/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker process computes: the server's job, and the samples it is about. */
#ifndef CLI_WORK_JOB_H
#define CLI_WORK_JOB_H

#include <tarry/tcp.h>

#include "cli/work/work_options.h"
#include "cli/work/work_secure.h"

typedef struct work_job work_job;

/* `options` is borrowed. Errors: NO_MEMORY. */
int work_job_create(const work_options *options, work_job **out);
/* After the worker was freed. NULL is allowed. */
void work_job_free(work_job *own);

/* A tarry_tcp_begin and a tarry_compute; user is the work_job. */
int work_job_begin(void *user, tarry_tcp_worker *worker, const tarry_tcp_job *job,
                   uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic);
int work_job_compute(void *user, const tarry_task *task);

/* Says secure sums' rules of each job; NULL: sums are not secure. Borrowed. */
void work_job_secure(work_job *own, work_secure *secure);

/* Takes part in jobs with differential privacy alone, and draws samples by this key, borrowed;
 * NULL: in jobs without. */
void work_job_draws(work_job *own, const uint8_t *key);

/* In what the data differ from the server's, for one who was refused over them; empty if they don't
 * or nothing is known. */
const char *work_job_mismatch(const work_job *own);

#endif
