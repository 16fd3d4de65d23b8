/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/work/work_secure.h"

#include <stdio.h>

#include "base/diagnostic.h"
#include "base/memory.h"

struct work_secure {
    tarry_secure_memory *memory;
    job_spec spec;
};

static void tell(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "%s\n", line);
}

int work_secure_create(const secure_options *options, const char *credentials, bool quiet,
                       work_secure **out, tarry_diagnostic *diagnostic)
{
    tarry_secure_memory_settings settings;
    tarry_secure_memory_settings_init(&settings);
    settings.credentials = credentials;
    settings.colluders = options->colluders;
    settings.least = options->least;
    settings.colluders_name = "--secure-colluders";
    settings.least_name = "--secure-least";
    settings.bits = (uint32_t)options->bits;
    settings.bits_name = "--secure-bits";
    settings.bound = options->bound;
    settings.bound_name = "--secure-bound";
    settings.chunk_samples = options->chunk_samples;
    settings.chunk_samples_name = "--secure-chunk-samples";
    settings.tell = quiet ? NULL : tell;
    work_secure *made = memory_allocate(NULL, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "secure sums");
    int error = tarry_secure_memory_open(&settings, &made->memory, diagnostic);
    if (error != TARRY_OK) {
        memory_release(NULL, made);
        return error;
    }
    *out = made;
    return TARRY_OK;
}

void work_secure_free(work_secure *own)
{
    if (own == NULL)
        return;
    tarry_secure_memory_close(own->memory);
    memory_release(NULL, own);
}

int work_secure_job(work_secure *own, const job_spec *spec)
{
    own->spec = *spec;
    return tarry_secure_memory_samples(own->memory, spec->batch.rows, spec->batch.chunks, NULL);
}

/* The samples are all of them in every round, whatever the server writes into its job. */
static int check_job(const work_secure *own, tarry_diagnostic *diagnostic)
{
    const job_spec *spec = &own->spec;
    const char *wrong = !spec->secure            ? "its job says nothing of secure sums"
                        : spec->batch.batch != 0 ? "sums over batches can be solved for samples"
                        : spec->local.steps != 0 ? "sums of local steps are none of gradients"
                        : spec->everywhere       ? "workers would get the sum"
                                                 : NULL;
    return wrong == NULL ? TARRY_OK
                         : diagnose(diagnostic, TARRY_ERROR_STATE, "secure sums: %s", wrong);
}

int work_secure_agree(void *user, const tarry_secure_offer *offer,
                      uint8_t target[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    work_secure *own = user;
    int error = check_job(own, diagnostic);
    return error == TARRY_OK ? tarry_secure_memory_agree(own->memory, offer, target, diagnostic)
                             : error;
}

int work_secure_lock(void *user, const tarry_secure_attempt *attempt, tarry_diagnostic *diagnostic)
{
    const work_secure *own = user;
    return tarry_secure_memory_lock(own->memory, attempt, diagnostic);
}
