/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker process insists on where sums are secure (tarry_secure_member). */
#ifndef CLI_WORK_SECURE_H
#define CLI_WORK_SECURE_H

#include <tarry/secure.h>

#include "cli/job/job_code.h"
#include "cli/options/secure_options.h"

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

#endif
