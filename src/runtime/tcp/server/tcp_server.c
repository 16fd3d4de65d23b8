/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/server/tcp_server.h"

#include <assert.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include <tarry/tcp.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sized.h"
#include "protocol/wire/wire_bodies.h"
#include "runtime/clock.h"
#include "runtime/host/host.h"
#include "runtime/host/runtime.h"
#include "runtime/tcp/mesh/direct.h"
#include "runtime/tcp/mesh/mesh.h"
#include "runtime/tcp/net/address.h"
#include "runtime/tcp/server/peer.h"
#include "runtime/tcp/server/tcp_server_step.h"
#include "runtime/tcp/trust/credential.h"
#include "runtime/tcp/trust/roster_file.h"

/* What the caller's thread may ask of a server. */

#define ATTEND_NS UINT64_C(1000000000)
/* Between two rounds of one call where nobody has to come: at first, and at most. */
#define SHORTEST_PAUSE_NS UINT64_C(100000000)
#define LONGEST_PAUSE_NS UINT64_C(5000000000)

/* Whose loop the thread runs; NULL: none. */
static _Thread_local const tarry_tcp_server *looping;

/* Has the request done by the loop's thread, and waits for it. Any thread: one after the other. An
 * observer is called by the loop's thread, which would wait for itself. */
static void tcp_server_ask(tarry_tcp_server *server, runtime_request *request, void *argument)
{
    if (looping == server) {
        request(&server->base, argument);
        return;
    }
    pthread_mutex_lock(&server->lock);
    while (server->request != NULL)
        pthread_cond_wait(&server->changed, &server->lock);
    server->request = request;
    server->argument = argument;
    tcp_server_changed(server);
    while (server->request != NULL)
        pthread_cond_wait(&server->changed, &server->lock);
    pthread_mutex_unlock(&server->lock);
}

static void open_doors(tarry_runtime *runtime, void *argument)
{
    (void)argument;
    tarry_tcp_server *server = tcp_server_of(runtime);
    server->open = true;
    tcp_server_accept(server, true);
}

/* The runtime's methods; */
static int tcp_server_open(tarry_runtime *runtime, tarry_diagnostic *diagnostic)
{
    (void)diagnostic;
    tarry_tcp_server *server = tcp_server_of(runtime);
    if (!server->open)
        tcp_server_ask(server, open_doors, NULL);
    return TARRY_OK;
}

/* ---- rounds ---- */

typedef struct round_request {
    const float *parameters;
    float *sum;
} round_request;

static void begin_round(tarry_runtime *runtime, void *argument)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    const round_request *wanted = argument;
    server->parameters = wanted->parameters;
    host_begin(server->base.host, wanted->sum);
}

/* Waits for a change, until limit_ns at most; with the lock held, which is given up while the
 * caller's `attend` runs. Gives back whether that time has come. */
static bool wait_for_change(tarry_tcp_server *server, uint64_t limit_ns)
{
    const tarry_tcp_server_settings *settings = &server->settings;
    uint64_t next = settings->attend != NULL ? server->attended_ns + ATTEND_NS : TARRY_NEVER;
    uint64_t until = limit_ns < next ? limit_ns : next;
    if (clock_wait(&server->changed, &server->lock, until))
        return false;
    if (until == limit_ns)
        return true;
    pthread_mutex_unlock(&server->lock);
    settings->attend(settings->attend_user);
    server->attended_ns = clock_now_ns();
    pthread_mutex_lock(&server->lock);
    return false;
}

static void wait_until_over(tarry_tcp_server *server)
{
    pthread_mutex_lock(&server->lock);
    while (!server->round_over)
        wait_for_change(server, TARRY_NEVER);
    server->round_over = false;
    pthread_mutex_unlock(&server->lock);
}

static int run_round(tarry_tcp_server *server, const float *parameters, float *sum,
                     tarry_round_result *result, tarry_diagnostic *diagnostic)
{
    round_request wanted = {.parameters = host_see(server->base.host, parameters), .sum = sum};
    tcp_server_ask(server, begin_round, &wanted);
    wait_until_over(server);
    int error = host_finish(server->base.host, result, diagnostic);
    if (error == TARRY_ERROR_INTERRUPTED)
        runtime_take_interrupt(&server->base);
    return error;
}

static uint64_t count_joins(tarry_tcp_server *server)
{
    pthread_mutex_lock(&server->lock);
    uint64_t joins = server->joins;
    pthread_mutex_unlock(&server->lock);
    return joins;
}

/* Whether another round may end better: too few were left for a sum, or those who were there did
 * not reach each other. */
static bool may_be_repeated(int error)
{
    return error == TARRY_ERROR_COVERAGE || error == TARRY_ERROR_LINKS;
}

/* Waits until a worker has come since there were so many joins, even if it was there before, or,
 * where all are there, or links have to come up, for a while. Errors: INTERRUPTED, STATE (it is
 * `until`). */
static int wait_for_more(tarry_tcp_server *server, int failed, uint64_t joins, uint64_t pause_ns,
                         uint64_t until)
{
    uint64_t retry = clock_from_now(pause_ns);
    int error = TARRY_OK;
    bool paused = false;
    pthread_mutex_lock(&server->lock);
    atomic_store(&server->waiting, true);
    while (error == TARRY_OK && server->joins == joins && !paused) {
        bool enough =
            failed == TARRY_ERROR_LINKS || server->present == server->base.host->plan->workers;
        uint64_t limit = enough && retry < until ? retry : until;
        if (runtime_take_interrupt(&server->base))
            error = TARRY_ERROR_INTERRUPTED;
        else if (wait_for_change(server, limit) && limit == until)
            error = TARRY_ERROR_STATE;
        else
            paused = enough && clock_now_ns() >= retry;
    }
    atomic_store(&server->waiting, false);
    pthread_mutex_unlock(&server->lock);
    return error;
}

static void tell_waiting(tarry_tcp_server *server)
{
    const tarry_tcp_server_settings *settings = &server->settings;
    const host_round *round = &server->base.host->round;
    if (settings->observe != NULL)
        settings->observe(settings->observe_user, &(tarry_tcp_notice){
                                                      .type = TARRY_TCP_WAITING,
                                                      .now_ns = clock_now_ns(),
                                                      .round = round->result.round,
                                                      .worker = TARRY_TCP_NO_WORKER,
                                                      .waited_ns = settings->patience_ns,
                                                      .peer = "",
                                                      .text = round->diagnostic.text,
                                                      .rack = "",
                                                      .result = &round->result,
                                                  });
}

static int tcp_server_round(tarry_runtime *runtime, const float *parameters, float *sum,
                            tarry_round_result *result, tarry_diagnostic *diagnostic)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    uint64_t patience = server->settings.patience_ns, until = 0, pause = SHORTEST_PAUSE_NS;
    for (;;) {
        uint64_t joins = count_joins(server);
        int failed = run_round(server, parameters, sum, result, diagnostic);
        if (!may_be_repeated(failed) || patience == 0)
            return failed;
        if (until == 0) {
            until = clock_from_now(patience);
            tell_waiting(server);
        }
        int error = wait_for_more(server, failed, joins, pause, until);
        if (error == TARRY_ERROR_STATE) /* nothing has changed: it ends as the round did */
            return failed;
        if (error != TARRY_OK)
            return diagnose(diagnostic, error, "interrupted while waiting for workers");
        pause = pause < LONGEST_PAUSE_NS / 2 ? 2 * pause : LONGEST_PAUSE_NS;
    }
}

/* ---- between rounds ---- */

/* `limit_ns` of the monotonic clock; TARRY_NEVER: none. */
static int tcp_server_wait(tarry_runtime *runtime, uint32_t workers, uint64_t limit_ns)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    int error = TARRY_OK;
    pthread_mutex_lock(&server->lock);
    atomic_store(&server->waiting, server->ready < workers);
    while (error == TARRY_OK && server->ready < workers) {
        if (runtime_take_interrupt(&server->base))
            error = TARRY_ERROR_INTERRUPTED;
        else if (wait_for_change(server, limit_ns) && server->ready < workers)
            error = TARRY_ERROR_STATE;
    }
    atomic_store(&server->waiting, false);
    pthread_mutex_unlock(&server->lock);
    return error;
}

static int tcp_server_replan(tarry_runtime *runtime, const tarry_plan *next,
                             tarry_diagnostic *diagnostic)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    tcp_replan wanted = {.next = next, .diagnostic = diagnostic};
    tcp_server_ask(server, tcp_server_turn_to, &wanted);
    return wanted.error;
}

static void tcp_server_wake(tarry_runtime *runtime)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    pthread_mutex_lock(&server->lock);
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
    tcp_server_changed(server);
}

static void tcp_server_note(tarry_runtime *runtime, uint64_t done, uint64_t rounds,
                            const char *note)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    size_t length = strnlen(note, STATUS_NOTE_BYTES);
    memcpy(server->note, note, length);
    server->note[length] = '\0';
    server->noted_rounds = rounds;
    server->noted_done = done;
    server->noted_at = server->rounds;
}

static void tcp_server_describe(tarry_runtime *runtime, uint32_t worker, tarry_worker_state *state)
{
    const tarry_tcp_server *server = tcp_server_of(runtime);
    const tcp_member *member = &server->members[worker];
    const peer *who = tcp_server_peer(server, worker);
    state->arrivals = member->arrivals;
    state->silent = member->silent;
    state->gone = member->gone;
    state->late = member->late;
    state->failed = member->failed;
    state->received = member->received + (who != NULL ? peer_received(who) : 0);
    state->sent = member->sent + (who != NULL ? peer_sent(who) : 0);
    state->numerics = member->numerics;
    memcpy(state->rack, member->rack, sizeof(member->rack));
}

/*
 * Where workers make the sum: who may connect to whom. Each that is ready is told to all, with the
 * certificate that it showed here, and so is each that has left or was revoked. One whose
 * connection is lost stays what it is to the others: sums go on while the server is away.
 */

typedef enum meeting_state { MEETING_UNKNOWN, MEETING_PRESENT, MEETING_OVER } meeting_state;

struct tcp_meeting {
    meeting_state state;
    uint32_t arrival;
    X509 *certificate;              /* NULL: plain text, or the server itself, */
    uint8_t own[WIRE_DIGEST_BYTES]; /* of whose certificate this is the fingerprint */
    uint16_t size;
    uint8_t address[WIRE_ENGINE_BYTES];
};

static uint32_t workers_of(const tarry_tcp_server *server)
{
    return server->base.host->plan->workers;
}

static int tcp_server_meet_init(tarry_tcp_server *server)
{
    if (server->settings.server.sum != TARRY_SUM_EVERYWHERE)
        return TARRY_OK;
    server->meetings =
        memory_allocate(&server->allocator, (size_t)workers_of(server) + 1, sizeof(tcp_meeting));
    return server->meetings != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

static void tcp_server_meet_free(tarry_tcp_server *server)
{
    for (uint32_t i = 0; server->meetings != NULL && i <= server->roster.count; i++)
        X509_free(server->meetings[i].certificate);
    memory_release(&server->allocator, server->meetings);
}

static wire_member describe(const tcp_meeting *meeting, uint32_t about)
{
    wire_member member = {.worker = about, .arrival = meeting->arrival};
    if (meeting->state != MEETING_PRESENT)
        return member;
    member.present = true;
    member.size = meeting->size;
    memcpy(member.address, meeting->address, meeting->size);
    memcpy(member.fingerprint, meeting->own, sizeof(meeting->own));
    if (meeting->certificate != NULL)
        credential_fingerprint(meeting->certificate, member.fingerprint);
    return member;
}

static void tell(const tarry_tcp_server *server, peer *who, uint32_t about)
{
    const wire_member member = describe(&server->meetings[about], about);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    channel_send(who->channel, frame, wire_encode(WIRE_MEMBER, &member, frame));
}

static void tell_all(const tarry_tcp_server *server, uint32_t about)
{
    for (uint32_t worker = 0; worker < workers_of(server); worker++) {
        peer *who = tcp_server_peer(server, worker);
        if (worker != about && peer_is_there(who))
            tell(server, who, about);
    }
}

static void set(tcp_meeting *meeting, const uint8_t *reached, size_t size, X509 *certificate)
{
    X509_free(meeting->certificate);
    meeting->state = MEETING_PRESENT;
    meeting->arrival++;
    meeting->certificate = certificate;
    meeting->size = (uint16_t)size;
    memcpy(meeting->address, reached, size);
}

/* What the address of its engine does not tell is not looked at. */
bool tcp_server_sums_alike(const tarry_tcp_server *server, const peer *who, const wire_ready *ready,
                           char *why, size_t room)
{
    paired_address own, other;
    if (server->meetings == NULL || !paired_address_decode(ready->address, ready->size, &own))
        return true;
    for (uint32_t worker = 0; worker < workers_of(server); worker++) {
        const tcp_meeting *meeting = &server->meetings[worker];
        if (worker == who->worker || meeting->state != MEETING_PRESENT ||
            !peer_is_there(tcp_server_peer(server, worker)) ||
            !paired_address_decode(meeting->address, meeting->size, &other) ||
            paired_address_alike(&own, &other))
            continue;
        char mine[PAIRED_NAME_MOST + 1], others[PAIRED_NAME_MOST + 1];
        paired_address_name(&own, mine);
        paired_address_name(&other, others);
        snprintf(why, room, "sums by the engine '%s', where the others have '%s'", mine, others);
        return false;
    }
    return true;
}

void tcp_server_meet(tarry_tcp_server *server, peer *who, const wire_ready *ready)
{
    if (server->meetings == NULL)
        return;
    X509 *certificate = channel_certificate(who->channel);
    if (certificate != NULL)
        X509_up_ref(certificate);
    set(&server->meetings[who->worker], ready->address, ready->size, certificate);
    for (uint32_t about = 0; about <= workers_of(server); about++) {
        const tcp_meeting *meeting = &server->meetings[about];
        bool here = about == workers_of(server) || peer_is_there(tcp_server_peer(server, about));
        if (about != who->worker &&
            (meeting->state == MEETING_OVER || (meeting->state == MEETING_PRESENT && here)))
            tell(server, who, about);
    }
    tell_all(server, who->worker);
}

/* This process has an engine's address, too: it is the member after the last worker. fingerprint:
 * of its own certificate, zeros: plain text. */
static void tcp_server_meet_self(tarry_tcp_server *server, const uint8_t *reached, size_t size,
                                 const uint8_t fingerprint[WIRE_DIGEST_BYTES])
{
    tcp_meeting *own = &server->meetings[workers_of(server)];
    set(own, reached, size, NULL);
    memcpy(own->own, fingerprint, WIRE_DIGEST_BYTES);
    tell_all(server, workers_of(server));
}

/* How a worker is reached that is there. False: it is not. */
static bool tcp_server_member(const tarry_tcp_server *server, uint32_t worker, wire_member *member)
{
    const tcp_meeting *meeting = &server->meetings[worker];
    if (!peer_is_there(tcp_server_peer(server, worker)) || meeting->state != MEETING_PRESENT)
        return false;
    *member = describe(meeting, worker);
    return true;
}

void tcp_server_part_from(tarry_tcp_server *server, uint32_t worker)
{
    if (server->meetings == NULL || server->meetings[worker].state != MEETING_PRESENT)
        return;
    server->meetings[worker].state = MEETING_OVER;
    tell_all(server, worker);
}

static void tcp_server_part_from_revoked(tarry_tcp_server *server)
{
    for (uint32_t worker = 0; server->meetings != NULL && worker < workers_of(server); worker++) {
        X509 *certificate = server->meetings[worker].certificate;
        if (certificate != NULL && credential_is_revoked(server->credential, certificate))
            tcp_server_part_from(server, worker);
    }
}

/* ---- loop ---- */

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
    if (atomic_load(&server->base.interrupted))
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

/* Whether its certificate is on the list that is in force now. */
static bool peer_is_revoked(const peer *self)
{
    if (self->trusted || self->state == PEER_OVER)
        return false;
    /* While it is not there yet, it is the handshake that will look at the list. */
    X509 *certificate = channel_certificate(self->channel);
    return certificate != NULL && credential_is_revoked(self->all->credential, certificate);
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

void *tcp_server_run_loop(void *argument)
{
    tarry_tcp_server *server = argument;
    looping = server;
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

static int tcp_server_init_loop(tarry_tcp_server *server)
{
    if (uv_loop_init(&server->loop) != 0)
        return TARRY_ERROR_SYSTEM;
    server->has_loop = true;
    return init_handles(server);
}

static void close_handles(tarry_tcp_server *server)
{
    tcp_server_close_listeners(server);
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

/* In the caller's thread: says farewell to all, ends the thread and closes the loop. */
static void tcp_server_stop_loop(tarry_tcp_server *server, bool finished)
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

/* States and sums that workers have, and a state that they get from here. The server is a member of
 * what workers are to each other, with the id past the last; it connects to one for each such
 * thing, and leaves it then. */

static void tcp_server_open_mesh(tarry_tcp_server *server)
{
    const mesh_settings settings = {
        .listen = "127.0.0.1:0",
        .credentials = server->settings.security.credentials,
        .silence_ns = server->settings.server.silence_ns,
        .dials = true,
        .allocator = &server->allocator,
    };
    const paired_address no_engine = {.name = "", .own = NULL};
    uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST], fingerprint[WIRE_DIGEST_BYTES] = {0};
    size_t size = 0;
    if (!tcp_server_is_everywhere(server) ||
        mesh_create(&settings, &server->mesh, NULL) != TARRY_OK)
        return;
    if (server->credential != NULL)
        credential_own_fingerprint(server->credential, fingerprint);
    paired_address_encode(&no_engine, server->mesh, bytes, &size);
    tcp_server_meet_self(server, bytes, size, fingerprint);
}

static void tcp_server_close_mesh(tarry_tcp_server *server)
{
    mesh_free(server->mesh);
    server->mesh = NULL;
}

/* A connection to it is made. False: there is no way to it. */
static bool admit(tarry_tcp_server *server, const wire_member *member)
{
    return paired_address_admit(server->mesh, member->worker, member->address, member->size,
                                member->fingerprint) == TARRY_OK;
}

/* ---- what workers have ---- */

typedef struct member_request {
    uint32_t worker;
    bool there;
    wire_member member;
} member_request;

/* One that loads from here has nothing yet. */
static void find_member(tarry_runtime *runtime, void *argument)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    member_request *wanted = argument;
    wanted->there = !server->members[wanted->worker].lent &&
                    tcp_server_member(server, wanted->worker, &wanted->member);
}

/* runtime_methods.reach and .leave */
static exchange *tcp_server_reach(tarry_runtime *runtime, uint32_t worker)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    member_request wanted = {.worker = worker};
    if (server->mesh == NULL)
        return NULL;
    tcp_server_ask(server, find_member, &wanted);
    return wanted.there && admit(server, &wanted.member) ? mesh_exchange(server->mesh) : NULL;
}

static void tcp_server_leave(tarry_runtime *runtime, uint32_t worker)
{
    mesh_remove(tcp_server_of(runtime)->mesh, worker);
}

/* ---- what the server has ---- */

static void set_vectors(tarry_runtime *runtime, void *argument)
{
    tarry_server_vectors(runtime->host->machine, argument);
}

/* runtime_methods.vectors */
static int tcp_server_vectors(tarry_runtime *runtime, const tarry_sum_id *after, const void *bytes,
                              uint64_t size)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    tarry_sum_id copy = *after;
    if (server->mesh == NULL)
        return TARRY_ERROR_SYSTEM;
    int error = exchange_lend(mesh_exchange(server->mesh), after, bytes, size);
    if (error == TARRY_OK)
        tcp_server_ask(server, set_vectors, &copy);
    return error;
}

void tcp_server_lend(tarry_tcp_server *server, uint32_t worker)
{
    wire_member member;
    if (server->mesh != NULL && tcp_server_member(server, worker, &member) &&
        admit(server, &member) && !server->members[worker].lent) {
        server->members[worker].lent = true;
        server->loans++;
    }
}

void tcp_server_lend_no_more(tarry_tcp_server *server, uint32_t worker)
{
    if (!server->members[worker].lent)
        return;
    server->members[worker].lent = false;
    server->loans--;
    mesh_remove(server->mesh, worker);
}

/* ---- server ---- */

enum {
    DECODE_THREADS = 4, /* at most, unless it is said */
};

void tarry_tcp_server_settings_init_sized(tarry_tcp_server_settings *settings, size_t size)
{
    if (!sized_begin(settings, size, sizeof(*settings)))
        return;
    *settings = (tarry_tcp_server_settings){
        .size = size,
        .most_peer_bytes = (size_t)4 << 20,
        .most_connections = 65536,
    };
    tarry_server_settings_init(&settings->server);
    settings->server.stripe_length = 0;
}

static int check_settings(const tarry_tcp_server_settings *settings, tarry_diagnostic *diagnostic)
{
    const char *fault = NULL;
    if (settings->parameters == 0 || settings->dimension == 0)
        fault = "parameters and dimension must be set";
    else if (settings->listen_count == 0)
        fault = "there is no address to listen on";
    else if (settings->server.stripe_length > WIRE_NUMBERS_MOST)
        fault = "a stripe is longer than a frame can be";
    else if (settings->security.insecure && settings->security.credentials != NULL)
        fault = "credentials are of no use in plain text";
    return fault == NULL ? TARRY_OK
                         : diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "network server: %s", fault);
}

/* One core is the loop's, and another that of the kernel, or of workers on this machine. Where none
 * is left for a thread, the loop's own sums what it has just received, while that is still in the
 * core's cache. */
static uint32_t choose_threads(uint32_t wanted)
{
    if (wanted > 0)
        return wanted;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores <= 2 ? 0 : cores - 2 > DECODE_THREADS ? DECODE_THREADS : (uint32_t)cores - 2;
}

static int copy_job(tarry_tcp_server *server)
{
    const tarry_tcp_server_settings *settings = &server->settings;
    static const uint8_t none[WIRE_ID_BYTES];
    server->job = memory_allocate(&server->allocator, settings->job_size, 1);
    server->read_buffer = memory_allocate(&server->allocator, CHANNEL_SHARED_BYTES, 1);
    if (server->job == NULL || server->read_buffer == NULL)
        return TARRY_ERROR_NO_MEMORY;
    if (settings->job_size > 0)
        memcpy(server->job, settings->job, settings->job_size);
    memcpy(server->job_id, settings->job_id, WIRE_ID_BYTES);
    if (memcmp(server->job_id, none, WIRE_ID_BYTES) != 0)
        return TARRY_OK;
    return RAND_bytes(server->job_id, WIRE_ID_BYTES) == 1 ? TARRY_OK : TARRY_ERROR_SYSTEM;
}

static int make_host(tarry_tcp_server *server, const tarry_plan *plan, tarry_diagnostic *diagnostic)
{
    const tarry_tcp_server_settings *settings = &server->settings;
    host_settings wanted = {
        .name = "network server",
        .server = settings->server,
        .checkpoint = settings->checkpoint,
        .checkpoint_size = settings->checkpoint_size,
        .log = settings->log,
        .grid = tcp_server_grid(&settings->secure),
        .parameters = settings->parameters,
        .seen = settings->view,
        .head_bytes = WIRE_HEAD_BYTES,
        .most_message_bytes = WIRE_MESSAGE_BYTES,
        .decode_threads = settings->decode_threads,
        .transport = tcp_server_transport(server),
    };
    wanted.server.dimension = settings->dimension;
    server->base.awaits_checkpoint = settings->checkpoint != NULL;
    return host_create(plan, &wanted, &server->allocator, &server->base.host, diagnostic);
}

static int make_members(tarry_tcp_server *server)
{
    const tarry_allocator *allocator = &server->allocator;
    uint32_t workers = server->base.host->plan->workers;
    server->members = memory_allocate(allocator, workers, sizeof(*server->members));
    int error = server->members == NULL ? TARRY_ERROR_NO_MEMORY
                                        : roster_init(&server->roster, workers, allocator);
    return error == TARRY_OK ? tcp_server_meet_init(server) : error;
}

static int init_lock(tarry_tcp_server *server)
{
    server->has_lock = pthread_mutex_init(&server->lock, NULL) == 0;
    server->has_changed = clock_init_condition(&server->changed) == 0;
    return server->has_lock && server->has_changed ? TARRY_OK : TARRY_ERROR_SYSTEM;
}

static void init_peers(tarry_tcp_server *server)
{
    peers *all = &server->peers;
    all->allocator = server->allocator;
    all->loop = &server->loop;
    all->credential = server->credential;
    all->read_buffer = server->read_buffer;
    all->most_waiting = server->settings.most_peer_bytes;
    all->silence_ns = server->settings.server.silence_ns;
    all->events = tcp_server_peer_events(server);
}

/* Errors of which nothing else was said. */
static int create_quietly(tarry_tcp_server *server)
{
    int error = init_lock(server);
    if (error == TARRY_OK)
        error = copy_job(server);
    if (error == TARRY_OK)
        error = make_members(server);
    init_peers(server);
    if (error == TARRY_OK)
        error = tcp_server_init_loop(server);
    if (error == TARRY_OK)
        tcp_server_open_mesh(server);
    if (error == TARRY_OK)
        error = tcp_server_open_listeners(server);
    if (error == TARRY_OK)
        error = tcp_server_start_loop(server);
    return error;
}

static int create(tarry_tcp_server *server, const tarry_plan *plan, tarry_diagnostic *diagnostic)
{
    const tarry_tcp_security *security = &server->settings.security;
    int error = make_host(server, plan, diagnostic);
    if (error == TARRY_OK)
        error = tcp_server_encode_plan(server, plan, &server->plan_bytes, &server->plan_size,
                                       diagnostic);
    if (error == TARRY_OK && security->credentials != NULL)
        error = credential_load(security->credentials, &server->allocator, &server->credential,
                                diagnostic);
    if (error == TARRY_OK && server->credential != NULL &&
        credential_own(server->credential).role != CREDENTIAL_SERVER)
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: not the credentials of a server",
                         security->credentials);
    if (error == TARRY_OK)
        error = tcp_server_open_roster(server, diagnostic);
    if (error == TARRY_OK)
        error = tcp_server_listen(server, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = create_quietly(server);
    return error == TARRY_OK
               ? TARRY_OK
               : diagnose(diagnostic, error, "network server: %s", tarry_error_text(error));
}

static void release(tarry_runtime *runtime, bool finished)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    tarry_allocator allocator = server->allocator;
    tcp_server_stop_loop(server, finished);
    tcp_server_close_mesh(server);
    host_free(server->base.host);
    tcp_server_close_listeners(server);
    tcp_server_meet_free(server);
    roster_destroy(&server->roster, &allocator);
    roster_file_free(server->roster_file);
    credential_free(server->credential);
    if (server->has_changed)
        pthread_cond_destroy(&server->changed);
    if (server->has_lock)
        pthread_mutex_destroy(&server->lock);
    memory_release(&allocator, server->status);
    memory_release(&allocator, server->members);
    memory_release(&allocator, server->plan_bytes);
    memory_release(&allocator, server->read_buffer);
    memory_release(&allocator, server->job);
    memory_release(&allocator, server);
}

static void ask(tarry_runtime *runtime, runtime_request *request, void *argument)
{
    tcp_server_ask(tcp_server_of(runtime), request, argument);
}

static const char *own_address(const tarry_runtime *runtime, uint32_t index)
{
    const tarry_tcp_server *server = (const tarry_tcp_server *)runtime;
    return index < server->address_count ? server->listeners[index].text : NULL;
}

static const uint8_t *job_id(const tarry_runtime *runtime)
{
    return ((const tarry_tcp_server *)runtime)->job_id;
}

static const runtime_methods methods = {
    .ask = ask,
    .open = tcp_server_open,
    .wait = tcp_server_wait,
    .round = tcp_server_round,
    .replan = tcp_server_replan,
    .reach = tcp_server_reach,
    .leave = tcp_server_leave,
    .vectors = tcp_server_vectors,
    .wake = tcp_server_wake,
    .describe = tcp_server_describe,
    .address = own_address,
    .job_id = job_id,
    .note = tcp_server_note,
    .status = tcp_server_status,
    .free = release,
};

int tarry_tcp_server_create(const tarry_plan *plan, const tarry_tcp_server_settings *settings,
                            const tarry_allocator *allocator, tarry_runtime **server,
                            tarry_diagnostic *diagnostic)
{
    int error = sized_check(settings->size, sizeof(*settings), "network server", diagnostic);
    if (error == TARRY_OK)
        error = check_settings(settings, diagnostic);
    if (error == TARRY_OK)
        error = tcp_server_check_secure(settings, plan->chunks, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_tcp_server *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "network server");
    made->base.methods = &methods;
    made->allocator = memory_allocator(allocator);
    made->settings = *settings;
    newcomers_init(&made->peers.newcomers, plan->workers, settings->most_newcomers,
                   settings->most_connections);
    made->attended_ns = clock_now_ns();
    made->settings.decode_threads = choose_threads(settings->decode_threads);
    error = create(made, plan, diagnostic);
    if (error != TARRY_OK) {
        release(&made->base, true);
        return error;
    }
    /* What was the caller's for the time of this call. */
    made->settings.listen = NULL;
    made->settings.checkpoint = NULL;
    made->settings.job = NULL;
    *server = &made->base;
    return TARRY_OK;
}
