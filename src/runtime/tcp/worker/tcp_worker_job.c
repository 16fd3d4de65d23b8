/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/digest.h"
#include "base/memory.h"
#include "plan/plan.h"
#include "plan/plan_code.h"
#include "protocol/form.h"
#include "protocol/wire/wire_bodies.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/direct.h"
#include "runtime/tcp/mesh/mesh.h"
#include "runtime/tcp/trust/credential.h"
#include "runtime/tcp/worker/tcp_worker.h"

/* From what the server offers to an executor that can take its rounds. */

static int tcp_worker_join_others(tarry_tcp_worker *worker, executor_among *among,
                                  tarry_diagnostic *diagnostic);
static void tcp_worker_drop_others(tarry_tcp_worker *worker);
static int tcp_worker_renew_terms(tarry_tcp_worker *worker, const run_terms *told);
static int tcp_worker_agree(tarry_tcp_worker *worker, const tarry_plan *plan,
                            uint8_t target[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic);
static int tcp_worker_begin_masking(tarry_tcp_worker *worker, tarry_diagnostic *diagnostic);
static void tcp_worker_drop_masking(tarry_tcp_worker *worker);
static int tcp_worker_begin(tarry_tcp_worker *worker, const tarry_tcp_job *job,
                            uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic);
static void tcp_worker_await_takers(tarry_tcp_worker *worker);

void tcp_worker_release_offer(const tarry_tcp_worker *worker, worker_offer *offer)
{
    memory_release(&worker->allocator, offer->plan);
    memory_release(&worker->allocator, offer->job);
    offer->plan = NULL;
    offer->job = NULL;
}

static void set_executor_runs(tarry_tcp_worker *worker, bool runs)
{
    pthread_mutex_lock(&worker->lock);
    worker->job.executor_runs = runs;
    if (runs && worker->run.leaving)
        executor_leave(&worker->job.executor, worker->run.grace_until_ns);
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
}

static void drop_executor(tarry_tcp_worker *worker)
{
    set_executor_runs(worker, false);
    executor_close(&worker->job.executor);
    tcp_worker_await_takers(worker);
    executor_destroy(&worker->job.executor);
    worker->job.executor = (executor){0};
    tcp_worker_drop_others(worker);
    tcp_worker_drop_masking(worker);
    worker->job.there = false;
}

static void tcp_worker_drop_chunks(tarry_tcp_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    for (uint32_t origin = 0; origin < worker->samples.count; origin++)
        assembly_clear(&worker->samples.chunks[origin].bytes, &worker->allocator);
    memory_release(&worker->allocator, worker->samples.chunks);
    worker->samples.chunks = NULL;
    worker->samples.count = 0;
    worker->samples.wanted = NULL;
    worker->samples.open = false;
    pthread_mutex_unlock(&worker->lock);
}

void tcp_worker_drop_job(tarry_tcp_worker *worker)
{
    if (!worker->has_lock)
        return;
    drop_executor(worker);
    tcp_worker_drop_chunks(worker);
    tcp_worker_release_offer(worker, &worker->job.offer);
    tarry_plan_free(worker->job.plan);
    worker->job.plan = NULL;
}

/* ---- what is offered ---- */

static bool is_same(const uint8_t *one, const uint8_t *other, size_t size)
{
    return memcmp(one, other, size) == 0;
}

bool tcp_worker_is_same_job(const wire_welcome *one, const wire_welcome *other)
{
    return is_same(one->job, other->job, WIRE_ID_BYTES) && one->worker == other->worker &&
           !terms_differ(&one->terms, &other->terms, TERMS_PREPARED, NULL);
}

/* Whether what was not sent is there: HELLO may have spoken of what was replaced since. */
static bool is_whole(const tarry_tcp_worker *worker, const worker_offer *offer)
{
    if (offer->plan == NULL &&
        (worker->job.plan == NULL ||
         !is_same(worker->job.plan->digest, offer->welcome.plan, WIRE_DIGEST_BYTES)))
        return false;
    return offer->job != NULL || !offer->claimed_job ||
           is_same(worker->job.offer.welcome.job, offer->welcome.job, WIRE_ID_BYTES);
}

/* Of so many numbers, of which some are exact; and whether there is a factor behind parameters. */
static bool has_good_matrices(const run_terms *terms)
{
    const tarry_server_settings server = run_terms_settings(terms);
    const compress_lowrank low = lowrank_of(&server);
    const size_t exact = server.compress_exact, all = server.dimension;
    return lowrank_fault(&low, all > exact ? all - exact : 0) == NULL &&
           lowrank_factor_numbers(&low) < terms->parameters;
}

/* Whether the server's figures and the plan belong together, be it the one that came with them or
 * one that is here. */
static int check_plan(const tarry_plan *plan, const wire_welcome *welcome,
                      tarry_diagnostic *diagnostic)
{
    const char *fault = NULL;
    const tarry_server_settings *server = &welcome->terms.server;
    if (plan->workers != welcome->terms.workers || welcome->worker >= plan->workers)
        fault = "is of another number of workers than the server says";
    else if (server->dimension / plan->parts / server->stripe_length >= UINT32_MAX - 1 ||
             server->dimension > SIZE_MAX / sizeof(float))
        fault = "does not go with so long a gradient";
    else if (server->compress == TARRY_COMPRESS_POWERSGD && !has_good_matrices(&welcome->terms))
        fault = "does not go with the matrices of the gradient";
    return fault == NULL ? TARRY_OK
                         : diagnose(diagnostic, TARRY_ERROR_FORMAT, "the server's plan %s", fault);
}

/* What is prepared for a job goes on with another plan only if that is one for the same data, cut
 * alike: parts lie where the first one's did. */
static int check_turn(const tarry_plan *plan, const tarry_plan *next, tarry_diagnostic *diagnostic)
{
    const char *fault = NULL;
    if (next->origins != plan->origins || next->pieces != plan->pieces)
        fault = "is of other data than that before, in the same job";
    else if (next->parts != plan->parts)
        fault = "is of another number of parts than that before, in the same job";
    return fault == NULL ? TARRY_OK
                         : diagnose(diagnostic, TARRY_ERROR_FORMAT, "the server's plan %s", fault);
}

static int read_plan(const tarry_tcp_worker *worker, const worker_offer *offer, tarry_plan **plan,
                     tarry_diagnostic *diagnostic)
{
    tarry_diagnostic why;
    int error = plan_decode_bytes(offer->plan, offer->plan_size, &worker->allocator, plan, &why);
    return error == TARRY_OK ? TARRY_OK
                             : diagnose(diagnostic, error, "the server's plan: %s", why.text);
}

/* ---- an executor ---- */

static int make_executor(tarry_tcp_worker *worker, tarry_diagnostic *diagnostic)
{
    const wire_welcome *welcome = &worker->job.offer.welcome;
    const tarry_server_settings server = run_terms_settings(&welcome->terms);
    const bool everywhere = server.sum == TARRY_SUM_EVERYWHERE;
    executor_among among = {0};
    int error = everywhere ? tcp_worker_join_others(worker, &among, diagnostic) : TARRY_OK;
    const tarry_engine *brought = everywhere ? worker->settings.engine : NULL;
    if (error == TARRY_OK)
        error = worker_vectors_check(worker->settings.vectors, &server, worker->job.plan->parts,
                                     brought != NULL ? brought : among.engine, diagnostic);
    if (error != TARRY_OK)
        return error;
    const executor_settings settings = {
        .worker = welcome->worker,
        .straggler = worker->settings.straggler,
        .compute = worker->settings.compute,
        .user = worker->settings.user,
        .parameters = (size_t)welcome->terms.parameters,
        .among = everywhere ? &among : NULL,
        .vectors = worker->settings.vectors,
        .masking = worker->job.masking,
        .grid = grid_of(&welcome->terms.secure),
        .uplink = tcp_worker_uplink(worker),
    };
    error = executor_init(&worker->job.executor, &settings, worker->job.plan, &server,
                          &worker->allocator);
    if (error != TARRY_OK && everywhere && worker->job.executor.collective == NULL)
        return diagnose(diagnostic, error, "the replica: %s", tarry_error_text(error));
    return error == TARRY_OK ? executor_start(&worker->job.executor) : error;
}

/* Goes on with the plan, which is taken over. */
static int turn_to(tarry_tcp_worker *worker, tarry_plan *plan)
{
    const tarry_server_settings server = run_terms_settings(&worker->job.offer.welcome.terms);
    int error = executor_prepare(&worker->job.executor, plan, &server);
    if (error != TARRY_OK) {
        tarry_plan_free(plan);
        return error;
    }
    executor_turn(&worker->job.executor);
    tarry_plan_free(worker->job.plan);
    worker->job.plan = plan;
    return TARRY_OK;
}

/* ---- a job ---- */

static void note_held(tarry_tcp_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    memcpy(worker->held.job, worker->job.offer.welcome.job, WIRE_ID_BYTES);
    memcpy(worker->held.plan, worker->job.plan->digest, WIRE_DIGEST_BYTES);
    worker->work.worker = worker->job.offer.welcome.worker;
    pthread_mutex_unlock(&worker->lock);
}

/* Takes over the offer's memory; plan: NULL: that which is there. */
static void take_over(tarry_tcp_worker *worker, worker_offer *offer, tarry_plan *plan)
{
    bool keeps = offer->job == NULL && offer->claimed_job;
    if (plan != NULL) {
        tarry_plan_free(worker->job.plan);
        worker->job.plan = plan;
    }
    memory_release(&worker->allocator, offer->plan);
    offer->plan = NULL;
    if (keeps) {
        offer->job = worker->job.offer.job;
        offer->job_size = worker->job.offer.job_size;
    } else {
        memory_release(&worker->allocator, worker->job.offer.job);
    }
    worker->job.offer = *offer;
    *offer = (worker_offer){0};
}

static int begin(tarry_tcp_worker *worker, tarry_diagnostic *diagnostic)
{
    const run_terms *terms = &worker->job.offer.welcome.terms;
    const tarry_server_settings server = run_terms_settings(terms);
    const tarry_tcp_job job = {
        .worker = worker->job.offer.welcome.worker,
        .workers = terms->workers,
        .plan = worker->job.plan,
        .parameters = (size_t)terms->parameters - form_factor_numbers(form_of_parts(&server)),
        .dimension = server.dimension,
        .job = worker->job.offer.job,
        .job_size = worker->job.offer.job_size,
        .ships = terms->ships,
        .sum = server.sum,
    };
    uint8_t data[TARRY_DIGEST_SIZE] = {0};
    tarry_tcp_worker_numerics(worker, 0);
    int error = tcp_worker_begin(worker, &job, data, diagnostic);
    if (error != TARRY_OK)
        return error;
    pthread_mutex_lock(&worker->lock);
    memcpy(worker->held.data, data, WIRE_DIGEST_BYTES);
    pthread_mutex_unlock(&worker->lock);
    return TARRY_OK;
}

/* Room for the chunks of so many origins. Errors: NO_MEMORY. */
static int tcp_worker_init_chunks(tarry_tcp_worker *worker, uint32_t origins)
{
    worker_chunk *chunks = memory_allocate(&worker->allocator, origins, sizeof(*chunks));
    if (chunks == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t origin = 0; origin < origins; origin++)
        chunks[origin].origin = origin;
    pthread_mutex_lock(&worker->lock);
    worker->samples.chunks = chunks;
    worker->samples.count = origins;
    worker->samples.of = worker->job.offer.welcome;
    /* Another offer may have come since this one was taken. */
    worker->samples.outdated =
        worker->offers.waiting.number != 0 &&
        !tcp_worker_is_same_job(&worker->samples.of, &worker->offers.waiting.welcome);
    worker->samples.open = true;
    pthread_mutex_unlock(&worker->lock);
    return TARRY_OK;
}

static int begin_job(tarry_tcp_worker *worker, worker_offer *offer, tarry_plan *plan,
                     tarry_diagnostic *diagnostic)
{
    drop_executor(worker);
    tcp_worker_drop_chunks(worker);
    take_over(worker, offer, plan);
    note_held(worker);
    int error = tcp_worker_init_chunks(worker, worker->job.plan->origins);
    if (error == TARRY_OK)
        error = begin(worker, diagnostic);
    if (error == TARRY_OK)
        error = tcp_worker_begin_masking(worker, diagnostic);
    if (error == TARRY_OK)
        error = make_executor(worker, diagnostic);
    if (error != TARRY_OK)
        return error;
    worker->job.there = true;
    set_executor_runs(worker, true);
    return TARRY_OK;
}

static int go_on(tarry_tcp_worker *worker, worker_offer *offer, tarry_plan *plan,
                 tarry_diagnostic *diagnostic)
{
    uint8_t target[TARRY_DIGEST_SIZE];
    int error = plan != NULL && worker->job.masking != NULL
                    ? tcp_worker_agree(worker, plan, target, diagnostic)
                    : TARRY_OK;
    if (error != TARRY_OK) {
        tarry_plan_free(plan);
        return error;
    }
    error = tcp_worker_renew_terms(worker, &offer->welcome.terms);
    if (error != TARRY_OK) {
        tarry_plan_free(plan);
        return error;
    }
    return plan != NULL ? turn_to(worker, plan) : TARRY_OK;
}

static void settle(tarry_tcp_worker *worker, uint64_t number, bool prepared)
{
    pthread_mutex_lock(&worker->lock);
    if (prepared)
        worker->offers.prepared = number;
    else
        worker->offers.declined = number;
    tcp_worker_wake(worker);
    pthread_mutex_unlock(&worker->lock);
}

/* Rules of secure sums stay as they are within a job, also if the server changed them while the
 * worker prepared for it: tcp_worker_accepts_rules did not know yet what the worker agreed to. */
static int check_rules(const tarry_tcp_worker *worker, const worker_offer *offer,
                       tarry_diagnostic *diagnostic)
{
    const wire_welcome *before = &worker->job.offer.welcome;
    char what[TERMS_TEXT_BYTES];
    if (!is_same(before->job, offer->welcome.job, WIRE_ID_BYTES) ||
        !terms_differ(&offer->welcome.terms, &before->terms, TERMS_AGREED, what))
        return TARRY_OK;
    return diagnose(diagnostic, TARRY_ERROR_STATE, "%s: " RULES_CHANGED "%s", worker->connect,
                    what);
}

/* What is whole; plan: NULL: that which is there. The plan is taken over. */
static int take_up(tarry_tcp_worker *worker, worker_offer *offer, tarry_plan *plan,
                   tarry_diagnostic *diagnostic)
{
    const tarry_plan *wanted = plan != NULL ? plan : worker->job.plan;
    bool goes_on =
        worker->job.there && tcp_worker_is_same_job(&worker->job.offer.welcome, &offer->welcome);
    int error = check_plan(wanted, &offer->welcome, diagnostic);
    if (error == TARRY_OK && worker->job.there)
        error = check_rules(worker, offer, diagnostic);
    if (error == TARRY_OK && goes_on)
        error = check_turn(worker->job.plan, wanted, diagnostic);
    if (error != TARRY_OK) {
        tarry_plan_free(plan);
        return error;
    }
    return goes_on ? go_on(worker, offer, plan, diagnostic)
                   : begin_job(worker, offer, plan, diagnostic);
}

int tcp_worker_prepare(tarry_tcp_worker *worker, worker_offer *offer, tarry_diagnostic *diagnostic)
{
    uint64_t number = offer->number;
    bool whole = is_whole(worker, offer);
    tarry_plan *plan = NULL;
    int error = TARRY_OK;
    if (whole && offer->plan != NULL)
        error = read_plan(worker, offer, &plan, diagnostic);
    if (error == TARRY_OK && whole)
        error = take_up(worker, offer, plan, diagnostic);
    tcp_worker_release_offer(worker, offer);
    if (error != TARRY_OK)
        return error;
    if (whole)
        note_held(worker);
    settle(worker, number, whole);
    return TARRY_OK;
}

/* The other workers, where they make the sum. */

#define FAILURE_NS UINT64_C(30000000000) /* between two words on the same failure */

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
        .silence_ns = worker->job.offer.welcome.terms.server.silence_ns,
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
    if (brought != NULL && !brought->methods->forms &&
        form_workers_round(&job->offer.welcome.terms.server))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "the engine '%s' sums float32, and in this job numbers travel in another "
                        "form",
                        brought->methods->name);
    return brought != NULL
               ? brought_create(job->mesh, brought, &worker->allocator, &job->engine, diagnostic)
               : direct_create(job->mesh, false, worker->settings.share, &worker->allocator,
                               &job->engine, diagnostic);
}

static int tcp_worker_join_others(tarry_tcp_worker *worker, executor_among *among,
                                  tarry_diagnostic *diagnostic)
{
    worker_job *job = &worker->job;
    if (job->has_replica && job->replica.step == NULL && worker->settings.compute != NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "network worker: steps are only taken where tasks are, too");
    if (!job->has_replica)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "in this job workers make the sum, and this one has nothing to step on it");
    int error = open_mesh(worker, diagnostic);
    if (error == TARRY_OK)
        error = make_engine(worker, diagnostic);
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
    *among = (executor_among){
        .replica = job->replica,
        .last = job->last,
        .engine = job->engine,
        .exchange = mesh_exchange(job->mesh),
        .failed = tell_failure,
        .user = worker,
    };
    return TARRY_OK;
}

static void tcp_worker_drop_others(tarry_tcp_worker *worker)
{
    worker_job *job = &worker->job;
    pthread_mutex_lock(&worker->lock);
    worker->held.engine_size = 0;
    pthread_mutex_unlock(&worker->lock);
    if (job->engine != NULL)
        job->engine->methods->free(job->engine);
    mesh_free(job->mesh);
    job->engine = NULL;
    job->mesh = NULL;
    job->has_replica = false;
}

/* ---- secure sums: the terms, and the own key, which goes before READY ---- */

/* The masks of the job are of what the server says now. The running thread's. Errors: NO_MEMORY. */
static int tcp_worker_renew_terms(tarry_tcp_worker *worker, const run_terms *told)
{
    uint8_t terms[TARRY_DIGEST_SIZE];
    if (worker->job.masking == NULL)
        return TARRY_OK;
    int error = terms_digest(told, terms);
    if (error == TARRY_OK)
        masking_set_terms(worker->job.masking, terms);
    return error;
}

static int digest_job(const worker_offer *offer, uint8_t out[TARRY_DIGEST_SIZE])
{
    digest *state = digest_begin();
    if (state == NULL)
        return TARRY_ERROR_NO_MEMORY;
    int failed = digest_add_bytes(state, offer->welcome.job, WIRE_ID_BYTES);
    failed |= digest_add_bytes(state, offer->job, offer->job_size);
    failed |= digest_end(state, out);
    return failed == 0 ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

/* Whether the caller works by the rules of the job with this plan. The running thread's. Errors:
 * FORMAT, what the caller says. */
static int tcp_worker_agree(tarry_tcp_worker *worker, const tarry_plan *plan,
                            uint8_t target[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    const worker_offer *offer = &worker->job.offer;
    const tarry_secure_member *member = &worker->settings.secure;
    const ring grid = grid_of(&offer->welcome.terms.secure);
    tarry_secure_offer asked = {
        .rules = &offer->welcome.terms.secure,
        .worker = offer->welcome.worker,
        .job = offer->job,
        .job_size = offer->job_size,
        .plan = plan,
        .dimension = offer->welcome.terms.server.dimension,
    };
    memcpy(asked.job_id, offer->welcome.job, sizeof(asked.job_id));
    memcpy(asked.data, worker->held.data, sizeof(asked.data)); /* this thread's to write */
    memcpy(target, asked.data, TARRY_DIGEST_SIZE);
    if (plan->parts != 1 || !ring_fits(&grid, plan->chunks))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "the server's plan: with %u chunks, sums of these bits and bound can wrap",
                        plan->chunks);
    return member->agree != NULL ? member->agree(member->user, &asked, target, diagnostic)
                                 : TARRY_OK;
}

/* The KEY that goes before READY. */
static int write_key(tarry_tcp_worker *worker)
{
    uint8_t certificate[WIRE_CERTIFICATE_BYTES], signature[KEY_PROOF_MOST];
    size_t certificate_size, signature_size;
    const worker_offer *offer = &worker->job.offer;
    key_claim claim = {.worker = offer->welcome.worker};
    pthread_mutex_lock(&worker->lock);
    claim.numerics = worker->held.numerics;
    pthread_mutex_unlock(&worker->lock);
    memcpy(claim.job, offer->welcome.job, sizeof(claim.job));
    memcpy(claim.instance, worker->instance, sizeof(claim.instance));
    memcpy(claim.key, masking_key(worker->job.masking), sizeof(claim.key));
    int error =
        credential_own_der(worker->credential, certificate, sizeof(certificate), &certificate_size);
    if (error == TARRY_OK)
        error = key_proof_sign(worker->credential, &claim, signature, &signature_size);
    if (error != TARRY_OK)
        return error;
    wire_key words = {
        .worker = claim.worker,
        .numerics = claim.numerics,
        .certificate = certificate,
        .certificate_size = (uint16_t)certificate_size,
        .signature = signature,
        .signature_size = (uint16_t)signature_size,
    };
    memcpy(words.instance, claim.instance, sizeof(words.instance));
    memcpy(words.key, claim.key, sizeof(words.key));
    pthread_mutex_lock(&worker->lock);
    worker->held.agreed = offer->welcome.terms;
    worker->held.key_size = wire_encode(WIRE_KEY, &words, worker->held.key);
    pthread_mutex_unlock(&worker->lock);
    return TARRY_OK;
}

static int tcp_worker_begin_masking(tarry_tcp_worker *worker, tarry_diagnostic *diagnostic)
{
    const worker_offer *offer = &worker->job.offer;
    masking_settings wanted = {
        .rules = offer->welcome.terms.secure,
        .worker = offer->welcome.worker,
        .workers = offer->welcome.terms.workers,
        .member = worker->settings.secure,
    };
    if (offer->welcome.terms.secure.bits == 0)
        return TARRY_OK;
    memcpy(wanted.job_id, offer->welcome.job, sizeof(wanted.job_id));
    int error = tcp_worker_agree(worker, worker->job.plan, wanted.target, diagnostic);
    if (error == TARRY_OK)
        error = terms_digest(&offer->welcome.terms, wanted.terms);
    if (error == TARRY_OK)
        error = digest_job(offer, wanted.job);
    if (error == TARRY_OK)
        error = masking_create(&wanted, &worker->allocator, &worker->job.masking);
    return error == TARRY_OK ? write_key(worker) : error;
}

static void tcp_worker_drop_masking(tarry_tcp_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    worker->held.key_size = 0;
    worker->held.agreed.secure.bits = 0;
    pthread_mutex_unlock(&worker->lock);
    masking_free(worker->job.masking);
    worker->job.masking = NULL;
}

/* Tasks that the caller takes: the run has a thread of its own, and the caller's code is called in
 * the caller's thread, while that waits for a task. */

/* Calls the caller's `begin` where it wants it: in this thread, or in that which takes tasks. */
static int tcp_worker_begin(tarry_tcp_worker *worker, const tarry_tcp_job *job,
                            uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    const tarry_tcp_worker_settings *settings = &worker->settings;
    if (settings->begin == NULL)
        return TARRY_OK;
    if (settings->compute != NULL)
        return settings->begin(settings->user, worker, job, data, diagnostic);
    worker_begin wanted = {
        .job = job, .data = data, .diagnostic = diagnostic, .error = TARRY_ERROR_INTERRUPTED};
    pthread_mutex_lock(&worker->lock);
    worker->pull.begin = &wanted;
    pthread_cond_broadcast(&worker->changed);
    while (worker->pull.begin != NULL && (wanted.called || !worker->run.ended))
        pthread_cond_wait(&worker->changed, &worker->lock);
    worker->pull.begin = NULL;
    pthread_mutex_unlock(&worker->lock);
    return wanted.error;
}

/* With the lock held, which is let go meanwhile. */
static void call_begin(tarry_tcp_worker *worker, worker_begin *wanted)
{
    const tarry_tcp_worker_settings *settings = &worker->settings;
    wanted->called = true;
    pthread_mutex_unlock(&worker->lock);
    wanted->error =
        settings->begin(settings->user, worker, wanted->job, wanted->data, wanted->diagnostic);
    pthread_mutex_lock(&worker->lock);
    worker->pull.begin = NULL;
    pthread_cond_broadcast(&worker->changed);
}

/* Waits until nobody is about to take a task of the executor, which is closed. */
static void tcp_worker_await_takers(tarry_tcp_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    while (worker->pull.inside)
        pthread_cond_wait(&worker->changed, &worker->lock);
    pthread_mutex_unlock(&worker->lock);
}

static void *run(void *argument)
{
    tarry_tcp_worker *worker = argument;
    worker_pull *pull = &worker->pull;
    int result = tcp_worker_run(worker, &pull->diagnostic);
    pthread_mutex_lock(&worker->lock);
    pull->result = result;
    pull->over = true;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

static int start(tarry_tcp_worker *worker, tarry_diagnostic *diagnostic)
{
    if (worker->settings.compute != NULL)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "network worker: tasks are given to its compute function");
    if (worker->pull.started)
        return TARRY_OK;
    if (pthread_create(&worker->pull.thread, NULL, run, worker) != 0)
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "network worker: no thread to run in");
    worker->pull.started = true;
    return TARRY_OK;
}

/* Waits for a change of the worker. Errors: STATE (it is `until_ns`). With the lock held. */
static int wait_for_change(tarry_tcp_worker *worker, uint64_t until_ns)
{
    return clock_wait(&worker->changed, &worker->lock, until_ns) ? TARRY_OK : TARRY_ERROR_STATE;
}

/* *task stays NULL if the executor is closed meanwhile. With the lock held, which is let go. */
static int take_from_executor(tarry_tcp_worker *worker, uint64_t until_ns, const tarry_task **task)
{
    worker_pull *pull = &worker->pull;
    pull->inside = true;
    pthread_mutex_unlock(&worker->lock);
    int error = executor_take(&worker->job.executor, until_ns, task);
    pthread_mutex_lock(&worker->lock);
    pull->inside = false;
    pull->out = pull->out || *task != NULL;
    pthread_cond_broadcast(&worker->changed);
    return error;
}

/* What a call does next, until there is a task, an error, or the run is over. */
static int proceed(tarry_tcp_worker *worker, uint64_t until_ns, const tarry_task **task)
{
    worker_begin *begin = worker->pull.begin;
    if (begin != NULL && !begin->called) {
        call_begin(worker, begin);
        return TARRY_OK;
    }
    return worker->job.executor_runs ? take_from_executor(worker, until_ns, task)
                                     : wait_for_change(worker, until_ns);
}

int tarry_tcp_worker_take(tarry_tcp_worker *worker, uint64_t wait_ns, const tarry_task **task,
                          tarry_diagnostic *diagnostic)
{
    worker_pull *pull = &worker->pull;
    uint64_t until = clock_from_now(wait_ns);
    const tarry_task *taken = NULL;
    int error = start(worker, diagnostic);
    if (error != TARRY_OK)
        return error;
    pthread_mutex_lock(&worker->lock);
    while (error == TARRY_OK && taken == NULL && !pull->over)
        error = proceed(worker, until, &taken);
    if (error == TARRY_OK && taken == NULL)
        error = pull->result;
    pthread_mutex_unlock(&worker->lock);
    if (error == TARRY_OK)
        *task = taken;
    else
        diagnose(diagnostic, error, "%s", pull->over ? pull->diagnostic.text : "");
    return error;
}
