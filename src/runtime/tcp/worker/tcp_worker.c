/* SPDX-License-Identifier: Apache-2.0 */
/* What the caller's threads may ask of a worker. */
#include "runtime/tcp/worker/tcp_worker.h"

#include <openssl/rand.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sized.h"
#include "plan/rack/rack.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/paired_address.h"
#include "runtime/tcp/net/notice.h"
#include "straggler/straggler.h"

#define PATIENCE_NS UINT64_C(300000000000)

void tarry_tcp_worker_settings_init_sized(tarry_tcp_worker_settings *settings, size_t size)
{
    if (!sized_begin(settings, size, sizeof(*settings)))
        return;
    *settings = (tarry_tcp_worker_settings){
        .size = size,
        .worker = TARRY_TCP_NO_WORKER,
        .share = true,
        .patience_ns = PATIENCE_NS,
    };
}

/* ---- creation ---- */

static int check_settings(const tarry_tcp_worker_settings *settings, tarry_diagnostic *diagnostic)
{
    const char *fault = NULL;
    if (settings->connect == NULL)
        fault = "there is no address to connect to";
    else if (settings->secure.required && settings->security.credentials == NULL)
        fault = "secure sums need credentials";
    else if (settings->security.insecure && settings->security.credentials != NULL)
        fault = "credentials are of no use in plain text";
    else if (settings->rack != NULL && !rack_is_name(settings->rack))
        fault = "its rack is no name";
    else if (settings->engine != NULL && !paired_address_may_name(settings->engine->methods->name))
        fault = "its engine's name is none";
    if (fault != NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "network worker: %s", fault);
    const char *mortal = straggler_mortal_term(settings->straggler);
    if (mortal != NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "straggler term '%s' is for tarry simulate", mortal);
    tarry_diagnostic why;
    return address_check(settings->connect, false, &why) == TARRY_OK
               ? TARRY_OK
               : diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "%s", why.text);
}

/* The id that the worker asks for is that of its credential, if that is bound to one. */
static int load_credential(tarry_tcp_worker *worker, tarry_diagnostic *diagnostic)
{
    const char *directory = worker->settings.security.credentials;
    if (directory == NULL)
        return TARRY_OK;
    int error = credential_load(directory, &worker->allocator, &worker->credential, diagnostic);
    if (error != TARRY_OK)
        return error;
    credential_identity own = credential_own(worker->credential);
    if (own.role != CREDENTIAL_WORKER)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: not the credentials of a worker",
                        directory);
    if (worker->settings.secure.required && own.worker == CREDENTIAL_ANY_ID)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "%s: secure sums need credentials that name their worker", directory);
    if (worker->settings.secure.required) {
        error =
            credential_roster(worker->credential, &worker->allocator, &worker->roster, diagnostic);
        if (error != TARRY_OK)
            return error;
    }
    if (own.worker == CREDENTIAL_ANY_ID)
        return TARRY_OK;
    if (worker->settings.worker != TARRY_TCP_NO_WORKER && worker->settings.worker != own.worker)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "%s: the credentials of worker %u, not of worker %u", directory, own.worker,
                        worker->settings.worker);
    worker->settings.worker = own.worker;
    return TARRY_OK;
}

/* NULL stays so. */
static bool copy_text(const tarry_tcp_worker *worker, const char *text, char **copy)
{
    if (text == NULL)
        return true;
    *copy = memory_allocate(&worker->allocator, strlen(text) + 1, 1);
    if (*copy != NULL)
        memcpy(*copy, text, strlen(text));
    return *copy != NULL;
}

static int init_quietly(tarry_tcp_worker *worker)
{
    worker->has_lock = pthread_mutex_init(&worker->lock, NULL) == 0;
    if (worker->settings.share)
        share_host(worker->host);
    worker->has_changed = clock_init_condition(&worker->changed) == 0;
    if (!worker->has_lock || !worker->has_changed ||
        RAND_bytes(worker->instance, WIRE_ID_BYTES) != 1)
        return TARRY_ERROR_SYSTEM;
    worker->read_buffer = memory_allocate(&worker->allocator, CHANNEL_SHARED_BYTES, 1);
    if (worker->read_buffer == NULL)
        return TARRY_ERROR_NO_MEMORY;
    const tarry_tcp_worker_settings *settings = &worker->settings;
    if (!copy_text(worker, settings->connect, &worker->connect) ||
        !copy_text(worker, settings->listen, &worker->listen) ||
        !copy_text(worker, settings->advertise, &worker->advertise) ||
        !copy_text(worker, settings->security.credentials, &worker->credentials))
        return TARRY_ERROR_NO_MEMORY;
    /* Workers without an id of their own, and with the same seed, don't wait for the same times. */
    uint32_t life = 0;
    if (worker->settings.worker == TARRY_TCP_NO_WORKER)
        memcpy(&life, worker->instance, sizeof(life));
    backoff_init(&worker->backoff, worker->settings.seed, worker->settings.worker, life);
    return tcp_worker_init_uplink(worker);
}

int tarry_tcp_worker_create(const tarry_tcp_worker_settings *settings,
                            const tarry_allocator *allocator, tarry_tcp_worker **worker,
                            tarry_diagnostic *diagnostic)
{
    int error = sized_check(settings->size, sizeof(*settings), "network worker", diagnostic);
    if (error == TARRY_OK)
        error = check_settings(settings, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_tcp_worker *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "network worker");
    made->allocator = memory_allocator(allocator);
    made->settings = *settings;
    if (settings->rack != NULL)
        memcpy(made->rack, settings->rack, strlen(settings->rack));
    made->work.worker = TARRY_TCP_NO_WORKER;
    error = init_quietly(made);
    if (error != TARRY_OK)
        diagnose(diagnostic, error, "network worker: %s", tarry_error_text(error));
    else
        error = load_credential(made, diagnostic);
    if (error != TARRY_OK) {
        tarry_tcp_worker_free(made);
        return error;
    }
    made->settings.connect = NULL; /* the caller's for the time of this call */
    made->settings.security.credentials = NULL;
    made->settings.rack = made->settings.listen = made->settings.advertise = NULL;
    *worker = made;
    return TARRY_OK;
}

void tarry_tcp_worker_free(tarry_tcp_worker *worker)
{
    if (worker == NULL)
        return;
    tarry_allocator allocator = worker->allocator;
    tcp_worker_end_pull(worker);
    tcp_worker_drop_job(worker);
    tcp_worker_release_offer(worker, &worker->offers.waiting);
    tcp_worker_destroy_uplink(worker);
    roster_file_free(worker->roster);
    credential_free(worker->credential);
    if (worker->has_changed)
        pthread_cond_destroy(&worker->changed);
    if (worker->has_lock)
        pthread_mutex_destroy(&worker->lock);
    memory_release(&allocator, worker->tally.spans);
    memory_release(&allocator, worker->read_buffer);
    memory_release(&allocator, worker->credentials);
    memory_release(&allocator, worker->advertise);
    memory_release(&allocator, worker->listen);
    memory_release(&allocator, worker->connect);
    memory_release(&allocator, worker);
}

/* ---- the run ---- */

void tcp_worker_wake(tarry_tcp_worker *worker)
{
    if (worker->loop.listens)
        uv_async_send(&worker->loop.wake);
}

void tcp_worker_end(tarry_tcp_worker *worker, int outcome, const char *format, ...)
{
    pthread_mutex_lock(&worker->lock);
    if (!worker->run.ended) {
        worker->run.ended = true;
        worker->run.outcome = outcome;
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(worker->run.why.text, sizeof(worker->run.why.text), format, arguments);
        va_end(arguments);
        pthread_cond_broadcast(&worker->changed);
    }
    pthread_mutex_unlock(&worker->lock);
}

void tcp_worker_notify(tarry_tcp_worker *worker, tarry_tcp_notice *notice)
{
    if (worker->settings.observe == NULL)
        return;
    tarry_tcp_work now = tarry_tcp_worker_work(worker);
    notice->now_ns = clock_now_ns();
    notice->worker = now.worker;
    notice->round = now.round;
    notice_tell(worker->settings.observe, worker->settings.observe_user, notice);
}

/* Waits for the next offer. False: the run has ended. */
static bool take_offer(tarry_tcp_worker *worker, worker_offer *offer)
{
    pthread_mutex_lock(&worker->lock);
    while (!worker->run.ended && worker->offers.waiting.number == 0)
        pthread_cond_wait(&worker->changed, &worker->lock);
    bool ended = worker->run.ended;
    if (!ended) {
        *offer = worker->offers.waiting;
        worker->offers.waiting = (worker_offer){0};
        worker->samples.open =
            worker->samples.open && tcp_worker_is_same_job(&worker->samples.of, &offer->welcome);
    }
    pthread_mutex_unlock(&worker->lock);
    return !ended;
}

/* What could not be prepared because the server, or the caller, wants something else by now. */
static bool is_superseded(tarry_tcp_worker *worker, const wire_welcome *failed)
{
    pthread_mutex_lock(&worker->lock);
    const worker_offer *next = &worker->offers.waiting;
    bool another = next->number != 0 && !tcp_worker_is_same_job(&next->welcome, failed);
    bool superseded = worker->run.ended || worker->run.leaving || another;
    pthread_mutex_unlock(&worker->lock);
    return superseded;
}

static void work(tarry_tcp_worker *worker)
{
    worker_offer offer;
    while (take_offer(worker, &offer)) {
        const wire_welcome wanted = offer.welcome;
        tarry_diagnostic why = {{0}};
        int error = tcp_worker_prepare(worker, &offer, &why);
        if (error != TARRY_OK && !is_superseded(worker, &wanted))
            tcp_worker_end(worker, error, "%s",
                           why.text[0] != '\0' ? why.text : tarry_error_text(error));
    }
}

int tcp_worker_run(tarry_tcp_worker *worker, tarry_diagnostic *diagnostic)
{
    pthread_mutex_lock(&worker->lock);
    bool used = worker->run.used;
    worker->run.used = true;
    pthread_mutex_unlock(&worker->lock);
    if (used)
        return diagnose(diagnostic, TARRY_ERROR_STATE, "network worker: it ran already");
    int error = tcp_worker_start_loop(worker);
    if (error == TARRY_OK)
        work(worker);
    tcp_worker_stop_loop(worker);
    pthread_mutex_lock(&worker->lock);
    worker->job.executor_runs = false;
    pthread_mutex_unlock(&worker->lock);
    executor_close(&worker->job.executor);
    if (error != TARRY_OK)
        return diagnose(diagnostic, error, "network worker: %s", tarry_error_text(error));
    return worker->run.outcome == TARRY_OK
               ? TARRY_OK
               : diagnose(diagnostic, worker->run.outcome, "%s", worker->run.why.text);
}

int tarry_tcp_worker_run(tarry_tcp_worker *worker, tarry_diagnostic *diagnostic)
{
    return worker->settings.compute != NULL
               ? tcp_worker_run(worker, diagnostic)
               : diagnose(diagnostic, TARRY_ERROR_STATE,
                          "network worker: there is nothing to compute with: tasks are taken");
}

void tarry_tcp_worker_leave(tarry_tcp_worker *worker, uint64_t grace_ns)
{
    uint64_t until = clock_from_now(grace_ns);
    pthread_mutex_lock(&worker->lock);
    worker->run.leaving = true;
    worker->run.leaving_news = true;
    worker->run.grace_until_ns = until;
    pthread_cond_broadcast(&worker->changed);
    tcp_worker_wake(worker);
    pthread_mutex_unlock(&worker->lock);
}

void tarry_tcp_worker_straggle(tarry_tcp_worker *worker, const tarry_straggler *straggler)
{
    worker->settings.straggler = straggler; /* the running thread's, like what it prepares */
}

void tarry_tcp_worker_numerics(tarry_tcp_worker *worker, uint64_t fingerprint)
{
    pthread_mutex_lock(&worker->lock);
    worker->held.numerics = fingerprint;
    pthread_mutex_unlock(&worker->lock);
}

tarry_tcp_work tarry_tcp_worker_work(const tarry_tcp_worker *worker)
{
    tarry_tcp_worker *locked = (tarry_tcp_worker *)worker;
    pthread_mutex_lock(&locked->lock);
    tarry_tcp_work work = worker->work;
    pthread_mutex_unlock(&locked->lock);
    return work;
}
