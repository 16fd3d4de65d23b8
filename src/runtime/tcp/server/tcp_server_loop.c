/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/server/tcp_server.h"

#include <assert.h>
#include <string.h>

enum {
    TICK_FRACTION = 16, /* of the silence that counts as absence */
    LEAST_TICK_MS = 5,
    MOST_TICK_MS = 250,
};

#define NS_PER_MS UINT64_C(1000000)
#define STATUS_NS UINT64_C(500000000)
#define TRIM_NS UINT64_C(10000000000)
#define REFRESH_NS UINT64_C(1000000000)

void tcp_server_changed(tarry_tcp_server *server)
{
    uv_async_send(&server->wake);
}

static void do_request(tarry_tcp_server *server)
{
    pthread_mutex_lock(&server->lock);
    runtime_request *request = server->request;
    void *argument = server->argument;
    pthread_mutex_unlock(&server->lock);
    if (request == NULL)
        return;
    request(&server->base, argument);
    pthread_mutex_lock(&server->lock);
    server->request = NULL;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

static void on_wake(uv_async_t *handle)
{
    tarry_tcp_server *server = handle->data;
    host_collect(server->base.host);
    do_request(server); /* which may begin a round */
    if (atomic_load(&server->interrupted))
        host_fail(server->base.host, TARRY_ERROR_INTERRUPTED);
}

static void on_deadline(uv_timer_t *handle)
{
    tarry_tcp_server *server = handle->data;
    server->armed_ns = TARRY_NEVER;
    if (server->base.host->round.running || tcp_server_is_everywhere(server))
        host_step(server->base.host, &(tarry_event){.type = TARRY_EVENT_TIME});
}

static void tell_revocation(tarry_tcp_server *server, const char *text)
{
    tcp_server_notify(server, &(tarry_tcp_notice){
                                  .type = TARRY_TCP_REVOCATION,
                                  .worker = TARRY_TCP_NO_WORKER,
                                  .peer = "",
                                  .text = text,
                              });
}

/* What is wrong with the list is told once. */
static void refuse_list(tarry_tcp_server *server, const tarry_diagnostic *why)
{
    if (strcmp(server->list_failure.text, why->text) == 0)
        return;
    server->list_failure = *why;
    tell_revocation(server, why->text);
}

/* Whoever was revoked since it connected. A list that can't be read changes nothing. */
static void refresh_revoked(tarry_tcp_server *server)
{
    bool changed = false;
    tarry_diagnostic why = {.text = ""};
    if (credential_refresh_revoked(server->credential, &changed, &why) != TARRY_OK) {
        refuse_list(server, &why);
        return;
    }
    server->list_failure.text[0] = '\0';
    if (!changed)
        return;
    tell_revocation(server, "in force");
    for (peer *who = server->peers.first, *after; who != NULL; who = after) {
        after = who->after;
        if (peer_is_revoked(who))
            peer_refuse(who, WIRE_REFUSED_REVOKED, "");
    }
    tcp_server_part_from_revoked(server);
}

/* A server that was itself held up hears what has come in meanwhile before it judges anyone, but
 * not twice in a row: one that is always late still finds the silent. It is heard by all at once:
 * they may have been held up as well, and wait no longer than it does. */
static void on_tick(uv_timer_t *handle)
{
    tarry_tcp_server *server = handle->data;
    uint64_t now = tcp_server_now(server);
    bool late = !server->spared && now - server->ticked_ns > 4 * server->tick_ms * NS_PER_MS;
    server->spared = late;
    server->ticked_ns = now;
    tcp_server_accept(server, true); /* goes on after a lack of descriptors */
    for (peer *who = server->peers.first, *after; who != NULL; who = after) {
        after = who->after;
        if (late)
            peer_beat(who, now);
        else
            peer_tick(who, now);
    }
    if (late)
        return;
    newcomers_tick(&server->peers, now);
    if (server->viewers > 0 && now - server->status_ns >= STATUS_NS) {
        server->status_ns = now;
        tcp_server_send_status(server);
    }
    if (server->credential != NULL && now - server->refreshed_ns >= REFRESH_NS) {
        server->refreshed_ns = now;
        refresh_revoked(server);
    }
    if (now - server->trimmed_ns >= TRIM_NS) {
        server->trimmed_ns = now;
        stripes_trim(&server->base.host->pool);
    }
}

/* Timers are in milliseconds: one too many rather than one too few, after which the machine would
 * only say that it is not time yet. */
static void arm(tarry_tcp_server *server)
{
    uint64_t due = server->base.awaits_checkpoint ? TARRY_NEVER : host_deadline(server->base.host);
    if (due == server->armed_ns)
        return;
    server->armed_ns = due;
    if (due == TARRY_NEVER) {
        uv_timer_stop(&server->deadline);
        return;
    }
    uint64_t now = tcp_server_now(server);
    uint64_t wait = due > now ? (due - now + NS_PER_MS - 1) / NS_PER_MS : 0;
    uv_update_time(&server->loop);
    uv_timer_start(&server->deadline, on_deadline, wait, 0);
}

/* Before the loop waits for what comes next. */
static void on_turn_end(uv_prepare_t *handle)
{
    tarry_tcp_server *server = handle->data;
    do {
        peers_do_tasks(&server->peers);
        host_turn(server->base.host);
    } while (server->peers.tasks != NULL);
    tcp_server_count_ready(server);
    peers_free_closed(&server->peers);
    arm(server);
    server->now_ns = 0;
}

static void *run_loop(void *argument)
{
    tarry_tcp_server *server = argument;
    uv_run(&server->loop, UV_RUN_DEFAULT);
    return NULL;
}

static int init_handles(tarry_tcp_server *server)
{
    uv_loop_t *loop = &server->loop;
    if (uv_async_init(loop, &server->wake, on_wake) != 0)
        return TARRY_ERROR_SYSTEM;
    uv_timer_init(loop, &server->deadline);
    uv_timer_init(loop, &server->tick);
    uv_prepare_init(loop, &server->turn_end);
    server->wake.data = server->deadline.data = server->tick.data = server->turn_end.data = server;
    server->has_handles = true;
    uint64_t tick = server->settings.server.silence_ns / TICK_FRACTION / NS_PER_MS;
    server->tick_ms = tick < LEAST_TICK_MS  ? LEAST_TICK_MS
                      : tick > MOST_TICK_MS ? MOST_TICK_MS
                                            : tick;
    server->armed_ns = TARRY_NEVER;
    server->ticked_ns = server->trimmed_ns = tcp_server_now(server);
    uv_timer_start(&server->tick, on_tick, server->tick_ms, server->tick_ms);
    uv_prepare_start(&server->turn_end, on_turn_end);
    return TARRY_OK;
}

int tcp_server_init_loop(tarry_tcp_server *server)
{
    if (uv_loop_init(&server->loop) != 0)
        return TARRY_ERROR_SYSTEM;
    server->has_loop = true;
    return init_handles(server);
}

int tcp_server_start_loop(tarry_tcp_server *server)
{
    server->has_thread = pthread_create(&server->thread, NULL, run_loop, server) == 0;
    return server->has_thread ? TARRY_OK : TARRY_ERROR_SYSTEM;
}

static void close_handles(tarry_tcp_server *server)
{
    listeners_close(&server->listeners);
    if (!server->has_handles)
        return;
    uv_close((uv_handle_t *)&server->wake, NULL);
    uv_close((uv_handle_t *)&server->deadline, NULL);
    uv_close((uv_handle_t *)&server->tick, NULL);
    uv_close((uv_handle_t *)&server->turn_end, NULL);
}

/* The loop ends by itself once nothing is left in it: the last words, for which time is limited. */
static void say_farewell(tarry_runtime *runtime, void *argument)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    const bool *finished = argument;
    server->closing = true;
    if (server->viewers > 0)
        tcp_server_send_status(server); /* how it ended */
    while (server->peers.first != NULL)
        peer_end(server->peers.first, *finished ? WIRE_BYE_DONE : WIRE_BYE_RESTART);
    close_handles(server);
}

void tcp_server_stop_loop(tarry_tcp_server *server, bool finished)
{
    if (!server->has_loop)
        return;
    if (server->has_thread) {
        tcp_server_ask(server, say_farewell, &finished);
        pthread_join(server->thread, NULL);
    } else {
        close_handles(server);
        uv_run(&server->loop, UV_RUN_DEFAULT);
    }
    peers_do_tasks(&server->peers);
    peers_free_closed(&server->peers);
    int error = uv_loop_close(&server->loop);
    assert(error == 0);
    (void)error;
}
