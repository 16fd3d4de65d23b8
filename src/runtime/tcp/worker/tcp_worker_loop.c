/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "runtime/clock.h"
#include "runtime/tcp/worker/tcp_worker.h"

#define NS_PER_MS UINT64_C(1000000)
#define LINGER_NS UINT64_C(500000000)

enum {
    TICK_FRACTION = 16, /* of the silence that counts as absence */
    LEAST_TICK_MS = 5,
    MOST_TICK_MS = 250,
};

static void on_tick(uv_timer_t *handle);

static void on_retry(uv_timer_t *handle)
{
    tcp_worker_connect(handle->data);
}

void tcp_worker_retry(tarry_tcp_worker *worker)
{
    worker_link *link = &worker->link;
    uint64_t wait = backoff_next_ns(&worker->backoff), patience = worker->settings.patience_ns;
    uint64_t apart = clock_now_ns() - link->apart_ns;
    if (apart >= patience) {
        tcp_worker_end(worker, TARRY_ERROR_SYSTEM, "%s: no connection for %.3g s: %s",
                       worker->connect, (double)apart / 1e9, link->failure);
        return;
    }
    if (wait > patience - apart)
        wait = patience - apart;
    tcp_worker_notify(worker, &(tarry_tcp_notice){
                                  .type = TARRY_TCP_WAITING,
                                  .peer = worker->connect,
                                  .waited_ns = wait,
                                  .text = link->failure,
                              });
    uv_update_time(&worker->loop.uv);
    uv_timer_start(&worker->loop.retry, on_retry, (wait + NS_PER_MS - 1) / NS_PER_MS, 0);
}

/*
 * A worker that has answered the signal does not hear that the round is over before the next one
 * begins: if nothing more is said for a while, it is. Where workers make the sum that is only known
 * when the next one begins.
 */
static bool has_answered(tarry_tcp_worker *worker, uint64_t now)
{
    const worker_link *link = &worker->link;
    return link->signalled && !link->welcome.everywhere && tcp_worker_is_drained(worker) &&
           now > link->machine_ns && now - link->machine_ns > LINGER_NS;
}

bool tcp_worker_look_whether_to_leave(tarry_tcp_worker *worker, bool round_over)
{
    const worker_link *link = &worker->link;
    pthread_mutex_lock(&worker->lock);
    bool ended = worker->run.ended, leaving = worker->run.leaving;
    if (worker->run.leaving_news && worker->job.executor_runs)
        executor_leave(&worker->job.executor, worker->run.grace_until_ns);
    worker->run.leaving_news = false;
    bool idle = !worker->job.executor_runs || executor_idle(&worker->job.executor);
    bool answering = worker->job.executor_runs && executor_answering(&worker->job.executor);
    uint64_t until = worker->run.grace_until_ns;
    pthread_mutex_unlock(&worker->lock);
    if (ended || !leaving)
        return ended;
    uint64_t now = clock_now_ns();
    bool needed = link->stage == WORKER_READY && !round_over && link->in_round &&
                  (!idle || link->waiting.active) && (answering || !has_answered(worker, now));
    if (needed && now < until)
        return false;
    tcp_worker_end(worker, TARRY_OK, "%s", "");
    tcp_worker_leave_server(worker, WIRE_BYE_LEAVING);
    return true;
}

/* The loop ends by itself once nothing is left in it: the last words, for which time is limited. */
static void stop(tarry_tcp_worker *worker)
{
    if (worker->loop.stopped)
        return;
    worker->loop.stopped = true;
    tcp_worker_leave_server(worker, WIRE_BYE_LEAVING);
    if (worker->link.resolving)
        uv_cancel((uv_req_t *)&worker->loop.resolve);
    uv_close((uv_handle_t *)&worker->loop.wake, NULL);
    uv_close((uv_handle_t *)&worker->loop.tick, NULL);
    uv_close((uv_handle_t *)&worker->loop.retry, NULL);
    uv_close((uv_handle_t *)&worker->loop.reports, NULL);
}

static void on_reports(uv_timer_t *handle)
{
    tarry_tcp_worker *worker = handle->data;
    if (tcp_worker_take_reports(worker))
        tcp_worker_settle(worker, tcp_worker_flush(worker));
    else
        uv_timer_stop(handle);
}

static void look(tarry_tcp_worker *worker)
{
    tcp_worker_settle(worker, tcp_worker_flush(worker));
    if (tcp_worker_hold_reports(worker))
        uv_timer_start(&worker->loop.reports, on_reports, REPORT_BATCH_NS / NS_PER_MS,
                       REPORT_BATCH_NS / NS_PER_MS);
    tcp_worker_answer(worker);
    tcp_worker_ask_chunks(worker);
    tcp_worker_look_whether_to_leave(worker, false);
}

static void on_wake(uv_async_t *handle)
{
    tarry_tcp_worker *worker = handle->data;
    pthread_mutex_lock(&worker->lock);
    bool stopping = worker->loop.stopping;
    pthread_mutex_unlock(&worker->lock);
    if (stopping)
        stop(worker);
    else
        look(worker);
}

/* Time passes faster or slower, as the server's idea of silence has it. */
static void set_tick(tarry_tcp_worker *worker)
{
    const worker_link *link = &worker->link;
    uint64_t tick = MOST_TICK_MS;
    if (link->stage == WORKER_PREPARING || link->stage == WORKER_READY)
        tick = link->welcome.silence_ns / TICK_FRACTION / NS_PER_MS;
    tick = tick < LEAST_TICK_MS ? LEAST_TICK_MS : tick > MOST_TICK_MS ? MOST_TICK_MS : tick;
    if (tick == worker->loop.tick_ms)
        return;
    worker->loop.tick_ms = tick;
    uv_timer_start(&worker->loop.tick, on_tick, tick, tick);
}

/* A process that was itself held up hears what has come in meanwhile before it judges the server,
 * but not twice in a row: one that is always late still finds it silent. It is heard by it at once.
 */
static void on_tick(uv_timer_t *handle)
{
    tarry_tcp_worker *worker = handle->data;
    uint64_t now = clock_now_ns();
    bool late =
        !worker->loop.spared && now - worker->loop.ticked_ns > 4 * worker->loop.tick_ms * NS_PER_MS;
    worker->loop.spared = late;
    worker->loop.ticked_ns = now;
    set_tick(worker);
    if (late)
        tcp_worker_beat(worker, now);
    else
        tcp_worker_tick_link(worker, now);
    tcp_worker_look_whether_to_leave(worker, false);
}

static void *run_loop(void *argument)
{
    tarry_tcp_worker *worker = argument;
    uv_run(&worker->loop.uv, UV_RUN_DEFAULT);
    return NULL;
}

int tcp_worker_start_loop(tarry_tcp_worker *worker)
{
    if (uv_loop_init(&worker->loop.uv) != 0)
        return TARRY_ERROR_SYSTEM;
    worker->loop.made = true;
    if (uv_async_init(&worker->loop.uv, &worker->loop.wake, on_wake) != 0)
        return TARRY_ERROR_SYSTEM;
    uv_timer_init(&worker->loop.uv, &worker->loop.tick);
    uv_timer_init(&worker->loop.uv, &worker->loop.retry);
    uv_timer_init(&worker->loop.uv, &worker->loop.reports);
    worker->loop.wake.data = worker->loop.tick.data = worker->loop.retry.data =
        worker->loop.reports.data = worker;
    worker->loop.ticked_ns = worker->link.apart_ns = clock_now_ns();
    set_tick(worker);
    uv_timer_start(&worker->loop.retry, on_retry, 0, 0);
    pthread_mutex_lock(&worker->lock);
    worker->loop.listens = true;
    pthread_mutex_unlock(&worker->lock);
    worker->loop.has_thread = pthread_create(&worker->loop.thread, NULL, run_loop, worker) == 0;
    return worker->loop.has_thread ? TARRY_OK : TARRY_ERROR_SYSTEM;
}

void tcp_worker_stop_loop(tarry_tcp_worker *worker)
{
    if (!worker->loop.made)
        return;
    pthread_mutex_lock(&worker->lock);
    worker->run.ended = true;
    worker->loop.stopping = true;
    tcp_worker_wake(worker);
    bool listened = worker->loop.listens;
    worker->loop.listens = false;
    pthread_mutex_unlock(&worker->lock);
    if (worker->loop.has_thread)
        pthread_join(worker->loop.thread, NULL);
    else if (listened)
        stop(worker);
    if (!worker->loop.has_thread)
        uv_run(&worker->loop.uv, UV_RUN_DEFAULT);
    int error = uv_loop_close(&worker->loop.uv);
    assert(error == 0);
    (void)error;
    worker->loop.made = false;
}
