/* SPDX-License-Identifier: Apache-2.0 */
/* The connection: from an address to WELCOME, and to its end. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "coding/coefficients.h"
#include "runtime/clock.h"
#include "runtime/tcp/net/dial.h"
#include "runtime/tcp/worker/tcp_worker.h"

/* Nanoseconds: until WELCOME has come; for last words. */
#define GREETING_NS UINT64_C(10000000000)
#define FAREWELL_NS UINT64_C(1000000000)

enum {
    MOST_WAITING = 16 << 20, /* bytes of messages that the server does not take */
    MOST_LENGTH = (16 << 20) + WIRE_SMALL_BYTES,
};

/* ---- the end ---- */

static void count_bytes(tarry_tcp_worker *worker)
{
    worker_link *link = &worker->link;
    uint64_t received = channel_received(link->channel), sent = channel_sent(link->channel);
    pthread_mutex_lock(&worker->lock);
    worker->work.received += received - link->counted_received;
    worker->work.sent += sent - link->counted_sent;
    pthread_mutex_unlock(&worker->lock);
    link->counted_received = received;
    link->counted_sent = sent;
}

/* Nothing of the connection is left but the channel itself. */
static channel *detach(tarry_tcp_worker *worker, worker_stage next)
{
    worker_link *link = &worker->link;
    channel *last = link->channel;
    if (last != NULL)
        count_bytes(worker);
    if (link->stage == WORKER_READY && link->welcome.everywhere)
        executor_cut(&worker->job.executor);
    tcp_worker_open_uplink(worker, false);
    tcp_worker_forget_round(worker);
    tcp_worker_forget_view(worker);
    tcp_worker_forget_asked(worker);
    assembly_clear(&link->plan, &worker->allocator);
    assembly_clear(&link->job, &worker->allocator);
    tcp_worker_drop_shares(worker);
    link->channel = NULL;
    link->intake = INTAKE_NOTHING;
    link->offered = link->answered = 0;
    link->in_round = link->signalled = false;
    link->counted_received = link->counted_sent = 0;
    link->stage = next;
    return last;
}

static bool has_ended(tarry_tcp_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    bool ended = worker->run.ended;
    pthread_mutex_unlock(&worker->lock);
    return ended;
}

static void begin_greeting(tarry_tcp_worker *worker)
{
    worker_link *link = &worker->link;
    link->stage = WORKER_GREETING;
    link->rules.bits = 0;
    link->key_said = false;
    link->since_ns = link->heard_ns = link->sent_ns = clock_now_ns();
    link->sent_bytes = channel_sent(link->channel);
    link->counted_received = channel_received(link->channel);
    link->counted_sent = link->sent_bytes;
}

/* The connection is of no use any more, for this reason; there will be another one. */
__attribute__((format(printf, 2, 3))) static void lose(tarry_tcp_worker *worker, const char *format,
                                                       ...)
{
    worker_link *link = &worker->link;
    worker_stage stage = link->stage;
    if (stage == WORKER_APART || stage == WORKER_OVER)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(link->failure, sizeof(link->failure), format, arguments);
    va_end(arguments);
    bool known = stage != WORKER_GREETING;
    if (known)
        tcp_worker_notify(worker, &(tarry_tcp_notice){
                                      .type = TARRY_TCP_LOST,
                                      .peer = channel_peer(link->channel),
                                      .text = link->failure,
                                  });
    if (known) {
        link->apart_ns = clock_now_ns();
        backoff_lost(&worker->backoff, link->apart_ns - link->since_ns);
    }
    bool ended = has_ended(worker);
    channel_close(detach(worker, ended ? WORKER_OVER : WORKER_APART));
    if (ended)
        return;
    if (!known && link->turning_near) {
        link->near_failed = true;
        link->turning_near = false;
        tcp_worker_connect(worker);
    } else if (!known && link->next_address < link->found_count)
        tcp_worker_use_addresses(worker);
    else
        tcp_worker_retry(worker);
}

bool tcp_worker_settle(tarry_tcp_worker *worker, worker_fault fault)
{
    if (fault != NULL && fault[0] != '\0')
        lose(worker, "%s", fault);
    return fault == NULL;
}

void tcp_worker_leave_server(tarry_tcp_worker *worker, wire_bye bye)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    bool known = worker->link.stage == WORKER_PREPARING || worker->link.stage == WORKER_READY;
    channel *last = detach(worker, WORKER_OVER);
    if (known && channel_send(last, frame, wire_bye_encode(bye, frame)))
        channel_close_gently(last, FAREWELL_NS);
    else
        channel_close(last);
}

static bool open_connection(tarry_tcp_worker *worker, const address *to);

/* ---- WELCOME ---- */

static void say_hello(tarry_tcp_worker *worker)
{
    worker_link *link = &worker->link;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_hello hello = {
        .oldest = WIRE_VERSION,
        .newest = WIRE_VERSION,
        .role = WIRE_ROLE_WORKER,
        .ranking = COEFFICIENTS_VERSION,
        .worker = worker->settings.worker,
    };
    memcpy(hello.instance, worker->instance, WIRE_ID_BYTES);
    memcpy(hello.host, worker->host, WIRE_ID_BYTES);
    memcpy(hello.rack, worker->rack, sizeof(hello.rack));
    pthread_mutex_lock(&worker->lock);
    if (hello.worker == WIRE_ANY_WORKER && !link->seat_taken)
        hello.worker = worker->work.worker;
    memcpy(hello.job, worker->held.job, WIRE_ID_BYTES);
    memcpy(hello.plan, worker->held.plan, WIRE_DIGEST_BYTES);
    pthread_mutex_unlock(&worker->lock);
    link->seat_taken = false;
    link->claimed_worker = hello.worker;
    memcpy(link->claimed_job, hello.job, WIRE_ID_BYTES);
    channel_send(link->channel, frame, wire_hello_encode(&hello, frame));
}

/* A server on this machine has a shorter way. True: that is taken, and this one left. Other
 * machines reach this worker by its TCP address, so that is kept. */
static bool turn_near(tarry_tcp_worker *worker, const wire_welcome *welcome)
{
    worker_link *link = &worker->link;
    char text[sizeof(welcome->near) + sizeof("unix:")];
    address found[ADDRESS_MOST];
    uint32_t count;
    if (welcome->near[0] == '\0' || link->near_failed || channel_is_unix(link->channel))
        return false;
    snprintf(text, sizeof(text), "unix:%s", welcome->near);
    if (address_resolve(text, false, found, &count, NULL) != TARRY_OK)
        return false;
    channel *far = link->channel;
    const address local = link->local;
    if (!open_connection(worker, &found[0])) {
        link->near_failed = true;
        return false;
    }
    channel_close(far);
    link->local = local;
    link->turning_near = true;
    return true;
}

static bool take_welcome(tarry_tcp_worker *worker, const wire_welcome *welcome)
{
    worker_link *link = &worker->link;
    if (welcome->worker == WIRE_ANY_WORKER) {
        lose(worker, "the server gives no id");
        return false;
    }
    if (!tcp_worker_accepts_rules(worker, welcome)) {
        lose(worker, "its rules are not taken");
        return false;
    }
    if (turn_near(worker, welcome))
        return false;
    link->welcome = *welcome;
    link->stage = WORKER_PREPARING;
    link->since_ns = clock_now_ns();
    link->near = link->part.memory != NULL;
    link->near_failed = false;
    link->turning_near = false;
    link->found_count = 0;
    pthread_mutex_lock(&worker->lock);
    worker->work.connections++;
    worker->work.worker = welcome->worker;
    pthread_mutex_unlock(&worker->lock);
    tcp_worker_notify(worker, &(tarry_tcp_notice){
                                  .type = TARRY_TCP_CONNECTED,
                                  .peer = channel_peer(link->channel),
                              });
    link->welcome_blobs = welcome->plan_bytes > 0 || welcome->job_bytes > 0;
    if (!link->welcome_blobs)
        tcp_worker_offer(worker);
    return true;
}

/* Somebody else may have the id that the worker only remembers. */
static bool take_refusal(tarry_tcp_worker *worker, const wire_refused *refused)
{
    worker_link *link = &worker->link;
    bool remembered =
        worker->settings.worker == TARRY_TCP_NO_WORKER && link->claimed_worker != WIRE_ANY_WORKER &&
        (refused->reason == WIRE_REFUSED_TAKEN || refused->reason == WIRE_REFUSED_RANGE);
    link->seat_taken = remembered;
    if (!remembered && !wire_reason_passes(refused->reason))
        tcp_worker_end(worker, TARRY_ERROR_STATE, "%s: refused: %s", worker->connect,
                       refused->text);
    link->found_count = 0; /* other addresses are of the same server */
    lose(worker, "refused: %s", refused->text);
    return false;
}

/* In the middle of a connection. */
static bool take_dismissal(tarry_tcp_worker *worker, const wire_refused *refused)
{
    if (!wire_reason_passes(refused->reason))
        tcp_worker_end(worker, TARRY_ERROR_STATE, "%s: refused: %s", worker->connect,
                       refused->text);
    lose(worker, "refused: %s", refused->text);
    return false;
}

static bool take_bye(tarry_tcp_worker *worker, wire_bye bye)
{
    if (bye == WIRE_BYE_DONE)
        tcp_worker_end(worker, TARRY_OK, "%s", "");
    lose(worker, bye == WIRE_BYE_DONE ? "the run is over" : "the server stops");
    return false;
}

/* ---- the channel's handlers ---- */

static void on_opened(void *user)
{
    say_hello(user);
}

static void on_heard(void *user)
{
    tarry_tcp_worker *worker = user;
    worker->link.heard_ns = clock_now_ns();
}

static const char NO_SERVER[] = "what answers is no server of this protocol";

static bool greet(tarry_tcp_worker *worker, const wire_head *head, const uint8_t *body)
{
    wire_welcome welcome;
    wire_refused refused;
    if (head->kind == WIRE_WELCOME && wire_welcome_decode(head, body, &welcome) == TARRY_OK)
        return take_welcome(worker, &welcome);
    if (head->kind == WIRE_SHARE)
        return tcp_worker_settle(worker, tcp_worker_take_share(worker, head, body));
    if (head->kind == WIRE_SECURE)
        return tcp_worker_settle(worker, tcp_worker_take_rules(worker, head, body));
    if (head->kind == WIRE_REFUSED && wire_refused_decode(head, body, &refused) == TARRY_OK)
        return take_refusal(worker, &refused);
    return tcp_worker_settle(worker, NO_SERVER);
}

static bool on_frame(void *user, const wire_head *head, const uint8_t *body)
{
    tarry_tcp_worker *worker = user;
    wire_refused refused;
    wire_bye bye;
    if (worker->link.stage == WORKER_GREETING)
        return greet(worker, head, body);
    if (head->kind == WIRE_REFUSED && wire_refused_decode(head, body, &refused) == TARRY_OK)
        return take_dismissal(worker, &refused);
    if (head->kind == WIRE_BYE && wire_bye_decode(head, body, &bye) == TARRY_OK)
        return take_bye(worker, bye);
    return tcp_worker_settle(worker, tcp_worker_take_frame(worker, head, body));
}

static channel_verdict on_begin(void *user, const wire_head *head, const uint8_t *fixed,
                                size_t bytes, void **place)
{
    (void)bytes;
    tarry_tcp_worker *worker = user;
    worker_fault fault = worker->link.stage == WORKER_GREETING
                             ? NO_SERVER
                             : tcp_worker_begin_large(worker, head, fixed, place);
    return tcp_worker_settle(worker, fault) ? CHANNEL_TAKE : CHANNEL_END;
}

static bool on_complete(void *user, const wire_head *head, const uint8_t *fixed)
{
    tarry_tcp_worker *worker = user;
    bool good = tcp_worker_settle(worker, tcp_worker_complete_large(worker, head, fixed));
    return good && worker->link.channel != NULL;
}

/* The server takes us no more. */
static void end_revoked(tarry_tcp_worker *worker)
{
    char name[CREDENTIAL_NAME_SIZE];
    identity_name(credential_own(worker->credential), name);
    tcp_worker_end(worker, TARRY_ERROR_STATE,
                   "%s: refused: the certificate of %s is revoked; tarry keys add makes another "
                   "one, where the authority is",
                   worker->connect, name);
}

static void on_ended(void *user, channel_end how)
{
    tarry_tcp_worker *worker = user;
    const channel *ended = worker->link.channel;
    if (how == CHANNEL_REVOKED)
        end_revoked(worker);
    if (how == CHANNEL_NOT_FRAMES && worker->link.stage == WORKER_GREETING) {
        lose(worker, "%s", NO_SERVER);
        return;
    }
    /* A server with credentials has nothing to say to plain text, and need not have read all. */
    bool mute = (how == CHANNEL_PEER_CLOSED || how == CHANNEL_BROKEN) &&
                worker->link.stage == WORKER_GREETING && worker->credential == NULL &&
                !channel_is_unix(ended) && channel_sent(ended) > 0;
    lose(worker, "%s%s", channel_failure(ended), mute ? " (does it want credentials?)" : "");
}

/* ---- the beginning ---- */

/* What `failure` is put behind says the address already. */
static void keep_failure(tarry_tcp_worker *worker, const char *text)
{
    const char *to = worker->connect;
    size_t length = strlen(to);
    if (strncmp(text, to, length) == 0 && strncmp(text + length, ": ", 2) == 0)
        text += length + 2;
    snprintf(worker->link.failure, sizeof(worker->link.failure), "%.200s", text);
}

static void on_resolve(uv_work_t *request)
{
    tarry_tcp_worker *worker = request->data;
    worker->loop.resolved.error =
        address_resolve(worker->connect, false, worker->loop.resolved.found,
                        &worker->loop.resolved.count, &worker->loop.resolved.diagnostic);
}

static void on_resolved(uv_work_t *request, int status)
{
    tarry_tcp_worker *worker = request->data;
    worker_link *link = &worker->link;
    link->resolving = false;
    if (link->stage != WORKER_APART || status != 0)
        return;
    if (worker->loop.resolved.error != TARRY_OK) {
        keep_failure(worker, worker->loop.resolved.diagnostic.text);
        tcp_worker_retry(worker);
        return;
    }
    const tarry_tcp_security *security = &worker->settings.security;
    memcpy(link->found, worker->loop.resolved.found, sizeof(link->found));
    link->found_count =
        dial_keep_allowed(security, worker->credential, link->found, worker->loop.resolved.count);
    link->next_address = 0;
    if (link->found_count > 0)
        tcp_worker_use_addresses(worker);
    else
        tcp_worker_end(worker, TARRY_ERROR_ARGUMENT, "%s: %s", worker->connect,
                       dial_refusal(security));
}

void tcp_worker_connect(tarry_tcp_worker *worker)
{
    worker_link *link = &worker->link;
    if (link->stage != WORKER_APART || link->resolving)
        return;
    link->resolving = true;
    worker->loop.resolve.data = worker;
    int status = uv_queue_work(&worker->loop.uv, &worker->loop.resolve, on_resolve, on_resolved);
    if (status == 0)
        return;
    link->resolving = false;
    snprintf(link->failure, sizeof(link->failure), "%s", uv_strerror(status));
    tcp_worker_retry(worker);
}

/* Begins a connection; false: `failure` says why not. */
static bool open_connection(tarry_tcp_worker *worker, const address *to)
{
    worker_link *link = &worker->link;
    channel *opened;
    tarry_diagnostic why = {{0}};
    dialed made;
    if (dial(to, worker->credential, &made, &why) != TARRY_OK) {
        keep_failure(worker, why.text);
        return false;
    }
    address local;
    if (address_of(made.fd, &local, NULL) != TARRY_OK)
        local = (address){0};
    const channel_settings settings = {
        .most_waiting = MOST_WAITING,
        .most_length = MOST_LENGTH,
        .shared = worker->read_buffer,
    };
    const channel_handlers handlers = {
        .user = worker,
        .opened = on_opened,
        .heard = on_heard,
        .frame = on_frame,
        .begin = on_begin,
        .complete = on_complete,
        .ended = on_ended,
    };
    int error = channel_open(&worker->loop.uv, made.fd, made.ssl, true, &settings, &handlers,
                             &worker->allocator, &opened);
    if (error != TARRY_OK) {
        keep_failure(worker, tarry_error_text(error));
        return false;
    }
    link->channel = opened;
    link->local = local;
    if (address_is_unix(to))
        link->server_user = made.user;
    begin_greeting(worker);
    return true;
}

void tcp_worker_use_addresses(tarry_tcp_worker *worker)
{
    worker_link *link = &worker->link;
    while (link->next_address < link->found_count) {
        const address *to = &link->found[link->next_address++];
        if (open_connection(worker, to))
            return;
    }
    tcp_worker_retry(worker);
}

/* ---- time ---- */

void tcp_worker_beat(tarry_tcp_worker *worker, uint64_t now)
{
    worker_link *link = &worker->link;
    if (link->stage != WORKER_PREPARING && link->stage != WORKER_READY)
        return;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    link->sent_ns = now;
    channel_send(link->channel, frame, wire_heartbeat_encode(frame));
}

static void beat_if_due(tarry_tcp_worker *worker, uint64_t now)
{
    worker_link *link = &worker->link;
    uint64_t sent = channel_sent(link->channel);
    if (sent != link->sent_bytes) {
        link->sent_bytes = sent;
        link->sent_ns = now;
    } else if (now - link->sent_ns >= link->welcome.silence_ns / WORKER_HEARTBEAT_FRACTION) {
        tcp_worker_beat(worker, now);
    }
}

void tcp_worker_tick_link(tarry_tcp_worker *worker, uint64_t now)
{
    worker_link *link = &worker->link;
    switch (link->stage) {
    case WORKER_GREETING:
        if (now - link->since_ns > GREETING_NS)
            lose(worker, "no answer in time");
        return;
    case WORKER_PREPARING:
    case WORKER_READY:
        count_bytes(worker);
        if (now > link->heard_ns && now - link->heard_ns > link->welcome.silence_ns)
            lose(worker, "nothing came from the server for %.3g s",
                 (double)(now - link->heard_ns) / 1e9);
        else
            beat_if_due(worker, now);
        return;
    case WORKER_APART:
    case WORKER_OVER:
        return;
    }
}
