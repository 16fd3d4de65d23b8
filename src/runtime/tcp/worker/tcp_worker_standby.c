/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second connection, to another parent, that has only said who it is: when the first one is lost
 * the worker goes on over it at once. Where there is no other parent, there is none.
 */
#include <string.h>

#include "coding/coefficients.h"
#include "runtime/clock.h"
#include "runtime/tcp/net/dial.h"
#include "runtime/tcp/worker/tcp_worker.h"

/* Nanoseconds: until it is welcome; between attempts, at first and at most. */
#define GREETING_NS UINT64_C(10000000000)
#define LEAST_PAUSE_NS UINT64_C(250000000)
#define MOST_PAUSE_NS UINT64_C(10000000000)

enum { HEARTBEAT_FRACTION = 8 /* of the silence that counts as absence */ };

static worker_standby *standby_of(tarry_tcp_worker *worker)
{
    return &worker->standby;
}

/* It is of no use; another one is tried after a pause. */
static void fail(tarry_tcp_worker *worker)
{
    worker_standby *its = standby_of(worker);
    channel_close(its->channel);
    its->channel = NULL;
    its->stage = STANDBY_NONE;
    its->pause_ns = its->pause_ns == 0 ? LEAST_PAUSE_NS : 2 * its->pause_ns;
    if (its->pause_ns > MOST_PAUSE_NS)
        its->pause_ns = MOST_PAUSE_NS;
    its->next_ns = clock_now_ns() + its->pause_ns;
    its->at++;
}

void tcp_worker_standby_drop(tarry_tcp_worker *worker)
{
    worker_standby *its = standby_of(worker);
    channel_close(its->channel);
    its->channel = NULL;
    its->stage = STANDBY_NONE;
    its->next_ns = its->pause_ns = 0;
}

bool tcp_worker_standby_promote(tarry_tcp_worker *worker)
{
    worker_standby *its = standby_of(worker);
    if (its->stage != STANDBY_HELD)
        return false;
    worker_link *link = &worker->link;
    link->line->standby = true;
    its->line->standby = false;
    worker_line *line = link->line;
    link->line = its->line;
    its->line = line;
    link->channel = its->channel;
    link->local = its->local;
    link->server_user = its->server_user;
    its->channel = NULL;
    its->stage = STANDBY_NONE;
    its->next_ns = its->pause_ns = 0;
    parents_choose(&worker->parents, its->to);
    return true;
}

/* ---- what comes ---- */

void tcp_worker_standby_opened(tarry_tcp_worker *worker)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_hello hello = {
        .oldest = WIRE_VERSION,
        .newest = WIRE_VERSION,
        .role = WIRE_ROLE_STANDBY,
        .ranking = COEFFICIENTS_VERSION,
        .worker = WIRE_ANY_WORKER,
    };
    memcpy(hello.instance, worker->instance, WIRE_ID_BYTES);
    memcpy(hello.rack, worker->rack, sizeof(hello.rack));
    channel_send(standby_of(worker)->channel, frame, wire_hello_encode(&hello, frame));
}

void tcp_worker_standby_heard(tarry_tcp_worker *worker)
{
    standby_of(worker)->heard_ns = clock_now_ns();
}

/* Whatever else it says, it is not to be gone on with. */
bool tcp_worker_standby_frame(tarry_tcp_worker *worker, const wire_head *head, const uint8_t *body)
{
    worker_standby *its = standby_of(worker);
    wire_welcome welcome;
    bool welcomed = its->stage == STANDBY_GREETING && head->kind == WIRE_WELCOME &&
                    wire_welcome_decode(head, body, &welcome) == TARRY_OK &&
                    welcome.worker == WIRE_ANY_WORKER;
    if (welcomed) {
        its->stage = STANDBY_HELD;
        its->pause_ns = 0;
        return true;
    }
    if (head->kind == WIRE_HEARTBEAT && its->stage == STANDBY_HELD)
        return true;
    fail(worker);
    return false;
}

void tcp_worker_standby_ended(tarry_tcp_worker *worker)
{
    fail(worker);
}

/* ---- the beginning ---- */

static void use_addresses(tarry_tcp_worker *worker)
{
    worker_standby *its = standby_of(worker);
    for (uint32_t i = 0; i < its->resolved.count; i++) {
        const address *to = &its->resolved.found[i];
        worker_opened made = {.channel = NULL};
        if (!dial_allowed(&worker->settings.security, worker->credential, to) ||
            !tcp_worker_open_channel(worker, to, its->line, &made))
            continue;
        its->channel = made.channel;
        its->local = made.local;
        its->server_user = made.server_user;
        its->stage = STANDBY_GREETING;
        its->since_ns = its->heard_ns = its->sent_ns = clock_now_ns();
        return;
    }
    fail(worker);
}

static void on_resolve(uv_work_t *request)
{
    worker_resolved *resolved = &((tarry_tcp_worker *)request->data)->standby.resolved;
    resolved->error = address_resolve(resolved->name, false, resolved->found, &resolved->count,
                                      &resolved->diagnostic);
}

static void on_resolved(uv_work_t *request, int status)
{
    tarry_tcp_worker *worker = request->data;
    worker_standby *its = standby_of(worker);
    its->resolving = false;
    if (status != 0 || worker->loop.stopped || its->stage != STANDBY_NONE ||
        worker->link.stage != WORKER_READY)
        return;
    if (its->resolved.error == TARRY_OK && parents_current(&worker->parents) != NULL)
        use_addresses(worker);
    else
        fail(worker);
}

/* One after the other of the other parents. */
static const char *next_parent(tarry_tcp_worker *worker)
{
    const parents *all = &worker->parents;
    worker_standby *its = standby_of(worker);
    its->at %= all->count;
    if (strcmp(parents_text(all, its->at), parents_current(all)) == 0)
        its->at = (its->at + 1) % all->count;
    return parents_text(all, its->at);
}

static void begin(tarry_tcp_worker *worker)
{
    worker_standby *its = standby_of(worker);
    its->resolve.data = worker;
    memcpy(its->to, next_parent(worker), PARENTS_TEXT_BYTES);
    memcpy(its->resolved.name, its->to, PARENTS_TEXT_BYTES);
    its->resolving = uv_queue_work(&worker->loop.uv, &its->resolve, on_resolve, on_resolved) == 0;
    if (!its->resolving)
        fail(worker);
}

/* ---- time ---- */

void tcp_worker_standby_tick(tarry_tcp_worker *worker, uint64_t now)
{
    if (worker->settings.secure.required)
        return; /* another parent would be a relay */
    worker_standby *its = standby_of(worker);
    uint64_t silence = worker->link.welcome.silence_ns;
    switch (its->stage) {
    case STANDBY_NONE:
        if (worker->link.stage == WORKER_READY && worker->parents.count > 1 && !its->resolving &&
            now >= its->next_ns)
            begin(worker);
        return;
    case STANDBY_GREETING:
        if (now - its->since_ns > GREETING_NS)
            fail(worker);
        return;
    case STANDBY_HELD:
        if (now > its->heard_ns && now - its->heard_ns > silence) {
            fail(worker);
        } else if (now - its->sent_ns >= silence / HEARTBEAT_FRACTION) {
            uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
            its->sent_ns = now;
            channel_send(its->channel, frame, wire_heartbeat_encode(frame));
        }
        return;
    }
}
