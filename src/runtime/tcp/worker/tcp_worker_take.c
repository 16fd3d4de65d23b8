/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks that the caller takes: the run has a thread of its own, and the caller's code is called in
 * the caller's thread, while that waits for a task. */
#include <errno.h>

#include "base/diagnostic.h"
#include "runtime/clock.h"
#include "runtime/tcp/worker/tcp_worker.h"

int tcp_worker_begin(tarry_tcp_worker *worker, const tarry_tcp_job *job,
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

void tcp_worker_await_takers(tarry_tcp_worker *worker)
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
    if (until_ns == TARRY_NEVER) {
        pthread_cond_wait(&worker->changed, &worker->lock);
        return TARRY_OK;
    }
    struct timespec until = clock_timespec(until_ns);
    int expired = pthread_cond_timedwait(&worker->changed, &worker->lock, &until);
    return expired == ETIMEDOUT ? TARRY_ERROR_STATE : TARRY_OK;
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

void tcp_worker_end_pull(tarry_tcp_worker *worker)
{
    worker_pull *pull = &worker->pull;
    if (!pull->started)
        return;
    tcp_worker_end(worker, TARRY_ERROR_INTERRUPTED, "%s", "the worker was freed");
    pthread_mutex_lock(&worker->lock);
    if (pull->out)
        executor_abandon(&worker->job.executor);
    pthread_mutex_unlock(&worker->lock);
    pthread_join(pull->thread, NULL);
}
