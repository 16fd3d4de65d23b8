/* SPDX-License-Identifier: Apache-2.0 */
/* The other workers, where they make the sum. */
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "plan/plan.h"
#include "protocol/wire/wire_mesh.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/brought.h"
#include "runtime/tcp/mesh/direct.h"
#include "runtime/tcp/mesh/paired_address.h"
#include "runtime/tcp/worker/tcp_worker.h"

#define FAILURE_NS UINT64_C(30000000000) /* between two words on the same failure */

static const char NO_MEMBER[] = "the server tells of a member that makes no sense";

void tarry_tcp_worker_replica(tarry_tcp_worker *worker, const tarry_replica *replica,
                              const tarry_sum_id *last)
{
    worker->job.replica = *replica;
    worker->job.last = last != NULL ? *last : (tarry_sum_id){0};
    worker->job.has_replica = true;
}

/* In plain text one listens where one may connect. */
static int check_listen(const tarry_tcp_worker *worker, const char *listen,
                        tarry_diagnostic *diagnostic)
{
    const tarry_tcp_security *security = &worker->settings.security;
    address found[ADDRESS_MOST];
    uint32_t count;
    if (worker->credential != NULL || security->force)
        return TARRY_OK;
    int error = address_resolve(listen, true, found, &count, diagnostic);
    for (uint32_t i = 0; i < count && error == TARRY_OK; i++)
        if (!address_is_loopback(&found[i]))
            error =
                diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                         "%s: plain text is for loopback addresses, unless it is forced", listen);
    return error;
}

/* What is tried again and again fails in the same way, mostly. Of a thread of the mesh or of sums.
 */
static void tell_failure(void *user, const char *why)
{
    tarry_tcp_worker *worker = user;
    worker_job *job = &worker->job;
    uint64_t now = clock_now_ns();
    pthread_mutex_lock(&worker->lock);
    bool known = strcmp(job->failure, why) == 0 && now - job->failure_ns < FAILURE_NS;
    if (!known) {
        snprintf(job->failure, sizeof(job->failure), "%s", why);
        job->failure_ns = now;
    }
    pthread_mutex_unlock(&worker->lock);
    if (!known)
        tcp_worker_notify(worker,
                          &(tarry_tcp_notice){.type = TARRY_TCP_OTHERS, .peer = "", .text = why});
}

static void tell_unreached(void *user, uint32_t other, const char *why)
{
    char text[FAILURE_BYTES];
    snprintf(text, sizeof(text), "worker %u is not reached: %s", (unsigned)other, why);
    tell_failure(user, text);
}

/* Where others reach this worker; NULL: where it listens. On all of its addresses that is the one
 * that it has towards the server. */
static const char *advertised(const tarry_tcp_worker *worker)
{
    address found[ADDRESS_MOST];
    uint32_t count;
    if (worker->advertise != NULL || worker->listen == NULL ||
        address_resolve(worker->listen, true, found, &count, NULL) != TARRY_OK ||
        !address_is_wildcard(&found[0]))
        return worker->advertise;
    return worker->job.offer.local;
}

static int open_mesh(tarry_tcp_worker *worker, tarry_diagnostic *diagnostic)
{
    const mesh_settings settings = {
        .listen = worker->listen != NULL ? worker->listen : worker->job.offer.local,
        .advertise = advertised(worker),
        .credentials = worker->credentials,
        .silence_ns = worker->job.offer.welcome.silence_ns,
        .unreached = tell_unreached,
        .user = worker,
        .allocator = &worker->allocator,
    };
    int error = check_listen(worker, settings.listen, diagnostic);
    return error == TARRY_OK ? mesh_create(&settings, &worker->job.mesh, diagnostic) : error;
}

static int make_engine(tarry_tcp_worker *worker, tarry_diagnostic *diagnostic)
{
    worker_job *job = &worker->job;
    tarry_engine *brought = worker->settings.engine;
    if (brought != NULL && !brought->methods->forms && wire_workers_round(&job->offer.welcome))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "the engine '%s' sums float32, and in this job numbers travel in another "
                        "form",
                        brought->methods->name);
    return brought != NULL
               ? brought_create(job->mesh, brought, &worker->allocator, &job->engine, diagnostic)
               : direct_create(job->mesh, false, worker->settings.share, &worker->allocator,
                               &job->engine, diagnostic);
}

static int make_collective(tarry_tcp_worker *worker, tarry_diagnostic *diagnostic)
{
    worker_job *job = &worker->job;
    const collective_settings wanted = {
        .worker = job->offer.welcome.worker,
        .workers = job->offer.welcome.workers,
        .parts = job->plan->parts,
        .dimension = (size_t)job->offer.welcome.dimension,
        .replica = job->replica,
        .last = job->last,
        .engine = job->engine,
        .forms = {.up = job->offer.welcome.compress,
                  .down = job->offer.welcome.compress_down,
                  .seed = job->offer.welcome.compress_seed,
                  .exact = job->offer.welcome.compress_exact},
        .exchange = mesh_exchange(job->mesh),
        .snapshots = &job->snapshots,
        .ended = executor_ended,
        .user = &job->executor,
        .failed = tell_failure,
        .failed_user = worker,
    };
    int error = collective_create(&wanted, &worker->allocator, &job->collective);
    return error == TARRY_OK
               ? TARRY_OK
               : diagnose(diagnostic, error, "the replica: %s", tarry_error_text(error));
}

int tcp_worker_join_others(tarry_tcp_worker *worker, tarry_diagnostic *diagnostic)
{
    worker_job *job = &worker->job;
    if (!job->offer.welcome.everywhere)
        return TARRY_OK;
    if (job->has_replica && job->replica.step == NULL && worker->settings.compute != NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "network worker: steps are only taken where tasks are, too");
    if (!job->has_replica)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "in this job workers make the sum, and this one has nothing to step on it");
    int error = open_mesh(worker, diagnostic);
    if (error == TARRY_OK)
        error = make_engine(worker, diagnostic);
    if (error == TARRY_OK)
        error = make_collective(worker, diagnostic);
    if (error != TARRY_OK)
        return error;
    uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST];
    size_t size = 0;
    job->engine->methods->address(job->engine, bytes, &size);
    if (size > WIRE_ENGINE_BYTES)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "the address of its engine is too long");
    pthread_mutex_lock(&worker->lock);
    memcpy(worker->held.engine, bytes, size);
    worker->held.engine_size = size;
    pthread_mutex_unlock(&worker->lock);
    return TARRY_OK;
}

void tcp_worker_drop_others(tarry_tcp_worker *worker)
{
    worker_job *job = &worker->job;
    pthread_mutex_lock(&worker->lock);
    worker->held.engine_size = 0;
    pthread_mutex_unlock(&worker->lock);
    collective_free(job->collective);
    if (job->engine != NULL)
        job->engine->methods->free(job->engine);
    mesh_free(job->mesh);
    job->collective = NULL;
    job->engine = NULL;
    job->mesh = NULL;
    job->has_replica = false;
}

/* What the address of another worker says is that one's word: if it makes no sense, sums with it
 * fail, and name it. */
worker_fault tcp_worker_take_member(tarry_tcp_worker *worker, const wire_head *head,
                                    const uint8_t *body)
{
    const worker_link *link = &worker->link;
    worker_job *job = &worker->job;
    wire_member member;
    if (link->stage != WORKER_READY || !link->welcome.everywhere ||
        wire_member_decode(head, body, &member) != TARRY_OK ||
        member.worker > link->welcome.workers)
        return NO_MEMBER;
    bool known =
        member.present && paired_address_admit(job->mesh, member.worker, member.address,
                                               member.size, member.fingerprint) == TARRY_OK;
    if (!known)
        mesh_remove(job->mesh, member.worker);
    if (member.worker == link->welcome.workers)
        return NULL; /* the server itself, which holds states */
    int error =
        collective_meet(job->collective, member.worker, member.address, known ? member.size : 0);
    return error == TARRY_OK ? NULL : "out of memory";
}
