/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secure sums: the server's rules, which the worker takes or ends; its own key, which goes before
 * READY; and those of the others, each of which is verified before it is used.
 */
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/digest.h"
#include "plan/plan.h"
#include "runtime/tcp/trust/key_proof.h"
#include "runtime/tcp/worker/tcp_worker.h"

static const char NOT_HERE[] = "the server sent a frame that makes no sense here";

static tarry_secure_rules rules_of(const wire_secure *words)
{
    tarry_secure_rules rules = {
        .bits = words->bits,
        .fraction = words->fraction,
        .bound = words->bound,
        .colluders = words->colluders,
        .least = words->least,
    };
    memcpy(rules.roster, words->roster, sizeof(rules.roster));
    return rules;
}

static wire_secure words_of(const tarry_secure_rules *rules)
{
    wire_secure words = {
        .bits = rules->bits,
        .fraction = rules->fraction,
        .bound = rules->bound,
        .colluders = rules->colluders,
        .least = rules->least,
    };
    memcpy(words.roster, rules->roster, sizeof(words.roster));
    return words;
}

static bool are_equal(const tarry_secure_rules *one, const tarry_secure_rules *other)
{
    return one->bits == other->bits && one->fraction == other->fraction &&
           one->bound == other->bound && one->colluders == other->colluders &&
           one->least == other->least &&
           memcmp(one->roster, other->roster, sizeof(one->roster)) == 0;
}

static bool is_required(const tarry_tcp_worker *worker)
{
    return worker->settings.secure.required;
}

/* ---- the rules ---- */

worker_fault tcp_worker_take_rules(tarry_tcp_worker *worker, const wire_head *head,
                                   const uint8_t *body)
{
    wire_secure words;
    if (worker->link.rules.bits != 0 || wire_secure_decode(head, body, &words) != TARRY_OK)
        return NOT_HERE;
    worker->link.rules = rules_of(&words);
    return NULL;
}

/* Why the worker can't work by what the server announced; NULL: it can. */
static const char *fault_of(tarry_tcp_worker *worker, const wire_welcome *welcome)
{
    const tarry_secure_rules *rules = &worker->link.rules;
    if (!is_required(worker))
        return rules->bits == 0 ? NULL : "its sums are secure, and the worker is not set for that";
    if (rules->bits == 0)
        return "its sums are not secure, as the worker wants them";
    if (memcmp(rules->roster, worker->roster->digest, sizeof(rules->roster)) != 0)
        return "it goes by another list of workers (" ROSTER_FILE_NAME ") than the worker";
    if (welcome->keep != TARRY_KEEP_CREDITED || welcome->everywhere || welcome->ships ||
        welcome->keeps_stale || welcome->compress != TARRY_COMPRESS_NONE ||
        welcome->compress_down != TARRY_COMPRESS_NONE)
        return "it wants sums of a kind that can't be secure";
    pthread_mutex_lock(&worker->lock);
    bool changed = memcmp(worker->held.job, welcome->job, WIRE_ID_BYTES) == 0 &&
                   worker->held.rules.bits != 0 && !are_equal(rules, &worker->held.rules);
    pthread_mutex_unlock(&worker->lock);
    return changed ? "it has changed the rules of secure sums within a job" : NULL;
}

bool tcp_worker_accepts_rules(tarry_tcp_worker *worker, const wire_welcome *welcome)
{
    const char *fault = fault_of(worker, welcome);
    if (fault == NULL)
        return true;
    tcp_worker_end(worker, TARRY_ERROR_STATE, "%s: %s", worker->connect, fault);
    return false;
}

/* Digest of WELCOME and SECURE, as all workers of the run get them. Their encodings are canonical,
 * and a frame begins with its length. */
static int digest_terms(const wire_welcome *welcome, const tarry_secure_rules *rules,
                        uint8_t out[TARRY_DIGEST_SIZE])
{
    static const char label[] = "tarry secure sums: terms 1";
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_WELCOME_BYTES];
    const wire_secure words = words_of(rules);
    digest *state = digest_begin();
    if (state == NULL)
        return TARRY_ERROR_NO_MEMORY;
    int failed = digest_add_bytes(state, (const uint8_t *)label, sizeof(label));
    failed |= digest_add_bytes(state, frame, wire_welcome_encode_shared(welcome, frame));
    failed |= digest_add_bytes(state, frame, wire_secure_encode(&words, frame));
    failed |= digest_end(state, out);
    return failed == 0 ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

int tcp_worker_renew_terms(tarry_tcp_worker *worker, const wire_welcome *welcome)
{
    uint8_t terms[TARRY_DIGEST_SIZE];
    if (worker->job.masking == NULL)
        return TARRY_OK;
    int error = digest_terms(welcome, &worker->job.offer.rules, terms);
    if (error == TARRY_OK)
        masking_set_terms(worker->job.masking, terms);
    return error;
}

/* ---- the own key ---- */

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

int tcp_worker_agree(tarry_tcp_worker *worker, const tarry_plan *plan,
                     uint8_t target[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    const worker_offer *offer = &worker->job.offer;
    const tarry_secure_member *member = &worker->settings.secure;
    const ring grid = grid_of(&offer->rules);
    tarry_secure_offer asked = {
        .rules = &offer->rules,
        .worker = offer->welcome.worker,
        .job = offer->job,
        .job_size = offer->job_size,
        .plan = plan,
        .dimension = (size_t)offer->welcome.dimension,
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
    worker->held.rules = offer->rules;
    worker->held.key_size = wire_key_encode(&words, worker->held.key);
    pthread_mutex_unlock(&worker->lock);
    return TARRY_OK;
}

int tcp_worker_begin_masking(tarry_tcp_worker *worker, tarry_diagnostic *diagnostic)
{
    const worker_offer *offer = &worker->job.offer;
    masking_settings wanted = {
        .rules = offer->rules,
        .worker = offer->welcome.worker,
        .workers = offer->welcome.workers,
        .member = worker->settings.secure,
    };
    if (offer->rules.bits == 0)
        return TARRY_OK;
    memcpy(wanted.job_id, offer->welcome.job, sizeof(wanted.job_id));
    int error = tcp_worker_agree(worker, worker->job.plan, wanted.target, diagnostic);
    if (error == TARRY_OK)
        error = digest_terms(&offer->welcome, &offer->rules, wanted.terms);
    if (error == TARRY_OK)
        error = digest_job(offer, wanted.job);
    if (error == TARRY_OK)
        error = masking_create(&wanted, &worker->allocator, &worker->job.masking);
    return error == TARRY_OK ? write_key(worker) : error;
}

void tcp_worker_drop_masking(tarry_tcp_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    worker->held.key_size = 0;
    worker->held.rules.bits = 0;
    pthread_mutex_unlock(&worker->lock);
    masking_free(worker->job.masking);
    worker->job.masking = NULL;
}

bool tcp_worker_say_key(tarry_tcp_worker *worker)
{
    uint8_t frame[sizeof(worker->held.key)];
    pthread_mutex_lock(&worker->lock);
    size_t size = worker->held.key_size;
    memcpy(frame, worker->held.key, size);
    pthread_mutex_unlock(&worker->lock);
    if (size == 0 || worker->link.key_said)
        return true;
    worker->link.key_said = true;
    return channel_send(worker->link.channel, frame, size);
}

/* ---- the others' ---- */

/* Why the key is not taken; NULL: it is good. */
static const char *check_key(const tarry_tcp_worker *worker, const wire_key *words,
                             char text[CREDENTIAL_REFUSAL_SIZE])
{
    uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES];
    key_claim claim = {.worker = words->worker, .numerics = words->numerics};
    memcpy(claim.job, worker->link.welcome.job, sizeof(claim.job));
    memcpy(claim.instance, words->instance, sizeof(claim.instance));
    memcpy(claim.key, words->key, sizeof(claim.key));
    int error =
        key_proof_verify(worker->credential, words->certificate, words->certificate_size,
                         words->signature, words->signature_size, &claim, fingerprint, text);
    if (error != TARRY_OK)
        return text;
    const uint8_t *listed = roster_file_find(worker->roster, words->worker);
    return listed != NULL && memcmp(listed, fingerprint, sizeof(fingerprint)) == 0
               ? NULL
               : "its certificate is not in the list of workers (" ROSTER_FILE_NAME ")";
}

/* Workers that work out other bits for a chunk don't hide each other's copies. */
static bool has_own_numerics(tarry_tcp_worker *worker, uint64_t other)
{
    pthread_mutex_lock(&worker->lock);
    uint64_t own = worker->held.numerics;
    pthread_mutex_unlock(&worker->lock);
    return own == other;
}

worker_fault tcp_worker_take_key(tarry_tcp_worker *worker, const wire_head *head,
                                 const uint8_t *body)
{
    wire_key words;
    char text[CREDENTIAL_REFUSAL_SIZE] = "";
    if (worker->link.stage != WORKER_READY || worker->job.masking == NULL ||
        wire_key_decode(head, body, &words) != TARRY_OK)
        return NOT_HERE;
    const char *fault = check_key(worker, &words, text);
    if (fault == NULL && !has_own_numerics(worker, words.numerics))
        fault = "it computes chunks to other bits than this worker";
    if (fault == NULL &&
        masking_hear(worker->job.masking, words.worker, words.epoch, words.key) != TARRY_OK)
        fault = "it is none";
    if (fault == NULL)
        return NULL;
    tcp_worker_end(worker, TARRY_ERROR_STATE, "%s: the key of worker %u: %s", worker->connect,
                   words.worker, fault);
    return "the key of another worker is not good";
}
