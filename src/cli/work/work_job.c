/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/work/work_job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/job/chunk_gradient.h"
#include "cli/job/job_code.h"
#include "cli/job/job_replicas.h"
#include "cli/job/numerics.h"
#include "cli/options/data_options.h"
#include "cli/output/clock.h"
#include "learn/dataset_code.h"

struct work_job {
    const work_options *options;
    work_secure *secure;  /* NULL: sums are not secure */
    const uint8_t *draws; /* the key, that this process was started with; NULL: with none */
    sampler sampler;      /* of the job, by that key or the one that comes with the job */
    tarry_tcp_worker *worker;
    job_spec spec;
    objective *model;
    dataset *data;             /* NULL: it is fetched */
    dataset **fetched;         /* by origin; NULL: not yet */
    chunk_gradient *gradients; /* NULL: the samples are not those of the job */
    job_replicas *replicas;    /* the one of this worker; NULL: the server has the parameters */
    tarry_straggler *straggler;
    char mismatch[256];
};

int work_job_create(const work_options *options, work_job **out)
{
    work_job *own = memory_allocate(NULL, 1, sizeof(*own));
    if (own == NULL)
        return TARRY_ERROR_NO_MEMORY;
    own->options = options;
    *out = own;
    return TARRY_OK;
}

static void drop(work_job *own)
{
    for (uint32_t i = 0; own->fetched != NULL && i < own->spec.batch.chunks; i++)
        dataset_free(own->fetched[i]);
    memory_release(NULL, own->fetched);
    job_replicas_free(own->replicas);
    chunk_gradient_free(own->gradients);
    dataset_free(own->data);
    objective_free(own->model);
    tarry_straggler_free(own->straggler);
    *own = (work_job){.options = own->options, .secure = own->secure, .draws = own->draws};
}

void work_job_free(work_job *own)
{
    if (own == NULL)
        return;
    drop(own);
    memory_release(NULL, own);
}

void work_job_secure(work_job *own, work_secure *secure)
{
    own->secure = secure;
}

void work_job_draws(work_job *own, const uint8_t *key)
{
    own->draws = key;
}

const char *work_job_mismatch(const work_job *own)
{
    return own->mismatch;
}

/* ---- the samples ---- */

static int read_samples(work_job *own, dataset **data, tarry_diagnostic *diagnostic)
{
    const work_options *options = own->options;
    const job_spec *spec = &own->spec;
    const label_kind labels = objective_labels(spec->model.model);
    if (options->source.path != NULL) {
        dataset_source source = options->source;
        source.labels = labels;
        return data_options_read(&source, options->quiet, data, diagnostic);
    }
    if (spec->made_samples == 0)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "needs --data: the server has its samples from a file and ships none");
    const synthetic_settings settings = {
        .rows = spec->made_samples,
        .features = spec->model.features,
        .labels = labels,
        .classes = spec->model.classes,
        .seed = spec->batch.seed,
    };
    return dataset_synthetic(&settings, NULL, data, diagnostic);
}

/* What the server's test data widened there is as wide here; the digest covers both. */
static void widen(dataset *data, const objective_settings *model)
{
    if (data->sparse && data->features < model->features)
        data->features = model->features;
    if (data->classes < model->classes)
        data->classes = model->classes;
}

/* A server of secure sums may have no samples, and then nothing to compare them with. */
static bool is_told(const uint8_t digest[JOB_DIGEST_SIZE])
{
    static const uint8_t none[JOB_DIGEST_SIZE];
    return memcmp(digest, none, sizeof(none)) != 0;
}

static void compare(work_job *own, const uint8_t *digest)
{
    const job_spec *spec = &own->spec;
    const dataset *data = own->data;
    const char *name =
        own->options->source.path != NULL ? own->options->source.path : "what was made up";
    if (data->rows != spec->batch.rows || data->features != spec->model.features)
        snprintf(own->mismatch, sizeof(own->mismatch),
                 "%s: %zu samples of %" PRIu32 " features, where the server has %zu of %" PRIu32,
                 name, data->rows, data->features, spec->batch.rows, spec->model.features);
    else if ((!spec->secure || is_told(spec->data)) &&
             memcmp(digest, spec->data, JOB_DIGEST_SIZE) != 0)
        snprintf(own->mismatch, sizeof(own->mismatch), "%s: other samples than the server's", name);
}

/* The samples of a server that has read, or made up, the same. */
static int load(work_job *own, uint8_t digest[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    const job_spec *spec = &own->spec;
    dataset *held_out = NULL;
    int error = read_samples(own, &own->data, diagnostic);
    if (error == TARRY_OK && spec->holdout > 0)
        error =
            dataset_hold_out(&own->data, spec->holdout, spec->batch.seed, &held_out, diagnostic);
    dataset_free(held_out);
    if (error != TARRY_OK)
        return error;
    widen(own->data, &spec->model);
    if (dataset_digest(own->data, digest) != TARRY_OK)
        return diagnose_no_memory(diagnostic, "digest of the data");
    compare(own, digest);
    return TARRY_OK;
}

/* A chunk_fetch; called by the one thread that computes. */
static int fetch(void *user, uint32_t origin, const dataset **data)
{
    work_job *own = user;
    if (own->fetched[origin] == NULL) {
        const void *bytes;
        size_t size, first, count;
        dataset *read;
        if (tarry_tcp_worker_fetch(own->worker, origin, &bytes, &size) != TARRY_OK ||
            dataset_decode(bytes, size, objective_labels(own->spec.model.model), NULL, &read,
                           NULL) != TARRY_OK)
            return -1;
        batch_chunk(&own->spec.batch, origin, &first, &count);
        if (read->rows != count || read->features != own->spec.model.features ||
            read->classes != own->spec.model.classes) {
            dataset_free(read);
            return -1;
        }
        own->fetched[origin] = read;
    }
    *data = own->fetched[origin];
    return 0;
}

/* ---- the job ---- */

/* A worker with a key sends no gradient of samples that were not drawn and clipped. */
static int check_privacy(const work_job *own, tarry_diagnostic *diagnostic)
{
    const bool noised = own->spec.clip > 0, has_key = own->draws != NULL;
    const char *fault = NULL;
    if (has_key && !noised)
        fault = "--dp-key: the server's job says nothing of differential privacy";
    else if (has_key && own->spec.tells_draws)
        fault = "--dp-key: the server tells its workers the key of its draws";
    else if (noised && !has_key && !own->spec.tells_draws)
        fault = "the server trains with differential privacy, and this worker has no key of its "
                "draws (--dp-key)";
    return fault == NULL ? TARRY_OK : diagnose(diagnostic, TARRY_ERROR_STATE, "%s", fault);
}

static int sample_by_key(work_job *own)
{
    const uint8_t *key = own->spec.tells_draws ? own->spec.draws : own->draws;
    own->sampler.rate = own->spec.sample;
    memcpy(own->sampler.key, key, sizeof(own->sampler.key));
    return chunk_gradient_sample(own->gradients, &own->sampler, own->spec.clip);
}

static int make_gradients(work_job *own, const tarry_tcp_job *job, bool ships)
{
    const job_spec *spec = &own->spec;
    int error = TARRY_OK;
    if (ships) {
        own->fetched = memory_allocate(NULL, spec->batch.chunks, sizeof(dataset *));
        error = own->fetched == NULL
                    ? TARRY_ERROR_NO_MEMORY
                    : chunk_gradient_create_fetching(own->model, fetch, own, &spec->batch, 1,
                                                     &own->gradients);
    } else if (own->mismatch[0] == '\0') {
        error = chunk_gradient_create(own->model, own->data, &spec->batch, 1, &own->gradients);
    }
    if (error == TARRY_OK && own->gradients != NULL && spec->local.steps > 0)
        error = chunk_gradient_step_locally(own->gradients, &spec->local);
    if (error == TARRY_OK && own->gradients != NULL && spec->clip > 0)
        error = sample_by_key(own);
    if (error == TARRY_OK && own->gradients != NULL && spec->local.seconds > 0)
        error = chunk_gradient_limit(own->gradients, job->workers, clock_of_user, NULL);
    return error;
}

static int say_numerics(const work_job *own)
{
    uint64_t fingerprint;
    int error = numerics_fingerprint(&own->spec.model, own->spec.sparse, &fingerprint);
    if (error == TARRY_OK)
        tarry_tcp_worker_numerics(own->worker, fingerprint);
    return error;
}

static int make_model(work_job *own, const tarry_tcp_job *job, tarry_diagnostic *diagnostic)
{
    int error = job_decode(job->job, job->job_size, &own->spec, diagnostic);
    if (error == TARRY_OK)
        error = objective_create(&own->spec.model, NULL, &own->model, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (objective_dimension(own->model) != job->parameters ||
        job->parameters + local_riding(&own->spec.local) != job->dimension ||
        own->spec.batch.chunks != tarry_plan_origins(job->plan))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "the server's job does not go with its plan and parameters");
    return TARRY_OK;
}

static int make_replica(work_job *own, const tarry_tcp_job *job, tarry_diagnostic *diagnostic)
{
    const job_spec *spec = &own->spec;
    if (spec->everywhere != (job->sum == TARRY_SUM_EVERYWHERE))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "the server's job does not say who has the parameters");
    if (!spec->everywhere)
        return TARRY_OK;
    const job_replicas_settings settings = {
        .model = own->model,
        .optimizer = spec->optimizer,
        .local = spec->local,
        .samples = local_samples(&spec->local, &spec->batch),
        .seed = spec->batch.seed,
    };
    if (job_replicas_create(&settings, 1, &own->replicas) != TARRY_OK)
        return diagnose_no_memory(diagnostic, "parameters");
    tarry_tcp_worker_replica(own->worker, job_replicas_list(own->replicas), NULL);
    return TARRY_OK;
}

static int make_straggler(work_job *own, const tarry_tcp_job *job, tarry_diagnostic *diagnostic)
{
    const work_options *options = own->options;
    uint64_t seed = options->straggler_seeded ? options->straggler_seed : own->spec.batch.seed;
    tarry_diagnostic why;
    int error =
        tarry_straggler_create(options->straggler, job->workers, seed, NULL, &own->straggler, &why);
    if (error != TARRY_OK)
        return diagnose(diagnostic, error, "--straggler: %s", why.text);
    tarry_tcp_worker_straggle(own->worker, own->straggler);
    return TARRY_OK;
}

int work_job_begin(void *user, tarry_tcp_worker *worker, const tarry_tcp_job *job,
                   uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    work_job *own = user;
    drop(own);
    own->worker = worker;
    tarry_tcp_worker_straggle(worker, NULL);
    bool ships = job->ships && own->options->source.path == NULL;
    int error = make_model(own, job, diagnostic);
    if (error == TARRY_OK)
        error = check_privacy(own, diagnostic);
    if (error == TARRY_OK && own->secure != NULL)
        error = work_secure_job(own->secure, &own->spec);
    if (error == TARRY_OK)
        error = make_straggler(own, job, diagnostic);
    if (error == TARRY_OK)
        error = make_replica(own, job, diagnostic);
    if (error == TARRY_OK && !ships)
        error = load(own, data, diagnostic);
    /* The server, which may have no samples, does not notice; and nothing is agreed on. */
    if (error == TARRY_OK && own->secure != NULL && own->mismatch[0] != '\0')
        error = diagnose(diagnostic, TARRY_ERROR_STATE, "%s", own->mismatch);
    if (error != TARRY_OK)
        return error;
    error = make_gradients(own, job, ships);
    if (error == TARRY_OK)
        error = say_numerics(own);
    return error == TARRY_OK ? TARRY_OK : diagnose_no_memory(diagnostic, "chunks");
}

int work_job_compute(void *user, const tarry_task *task)
{
    const work_job *own = user;
    return own->gradients == NULL ? -1 : chunk_gradient_compute(own->gradients, task);
}
