/* SPDX-License-Identifier: Apache-2.0 */
/* The connection upward: from an address to WELCOME, and to its end. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "coding/coefficients.h"
#include "runtime/tcp/net/dial.h"
#include "runtime/tcp/relay/relay_state.h"

/* Nanoseconds: until WELCOME has come; for last words. */
#define GREETING_NS UINT64_C(10000000000)
#define FAREWELL_NS UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

enum {
    HEARTBEAT_FRACTION = 8, /* of the silence that counts as absence */
    MOST_WAITING = 64 << 20,
    MOST_LENGTH = (16 << 20) + WIRE_SMALL_BYTES,
};

static const char NO_SERVER[] = "what answers is no server of this protocol";

/* ---- the end ---- */

static void count_bytes(tcp_relay *self)
{
    uint64_t received = channel_received(self->trunk.channel);
    uint64_t sent = channel_sent(self->trunk.channel);
    self->work.received += received - self->counted_received;
    self->work.sent += sent - self->counted_sent;
    self->counted_received = received;
    self->counted_sent = sent;
}

/* Nothing of the connection is left but the channel itself; children go elsewhere. */
static channel *detach(tcp_relay *self, wire_bye bye)
{
    relay_trunk *trunk = &self->trunk;
    channel *last = trunk->channel;
    if (last != NULL)
        count_bytes(self);
    trunk->stage = TRUNK_APART;
    trunk->channel = NULL;
    trunk->intake = TRUNK_NOTHING;
    self->counted_received = self->counted_sent = 0;
    self->batch.head.count = 0;
    relay_children_farewell(self, bye);
    relay_lanes_clear(self);
    relay_round_clear(self);
    relay_blobs_clear(self);
    relay_gather_clear(self);
    memset(self->heard, 0, WIRE_HEARD_BYTES);
    self->has_heard = false;
    return last;
}

static void on_retry(uv_timer_t *handle)
{
    tcp_relay *self = handle->data;
    parents_settle(&self->trunk.parents);
    relay_trunk_connect(self);
}

static void retry(tcp_relay *self)
{
    relay_trunk *trunk = &self->trunk;
    uint64_t wait = backoff_next_ns(&trunk->backoff), patience = self->settings.patience_ns;
    uint64_t apart = relay_now(self) - trunk->apart_ns;
    const char *to = parents_current(&trunk->parents);
    if (apart >= patience) {
        relay_end(self, TARRY_ERROR_SYSTEM, WIRE_BYE_RESTART, "%s: no connection for %.3g s: %s",
                  to, (double)apart / 1e9, trunk->failure);
        return;
    }
    if (wait > patience - apart)
        wait = patience - apart;
    relay_notify(self, &(tarry_tcp_notice){
                           .type = TARRY_TCP_WAITING,
                           .worker = TARRY_TCP_NO_WORKER,
                           .peer = to,
                           .waited_ns = wait,
                           .text = trunk->failure,
                       });
    uv_update_time(&self->loop);
    uv_timer_start(&trunk->retry, on_retry, (wait + NS_PER_MS - 1) / NS_PER_MS, 0);
}

static void try_next_parent(tcp_relay *self)
{
    if (parents_next(&self->trunk.parents))
        relay_trunk_connect(self);
    else
        retry(self);
}

static void use_addresses(tcp_relay *self);

void relay_trunk_lose(tcp_relay *self, const char *format, ...)
{
    relay_trunk *trunk = &self->trunk;
    trunk_stage stage = trunk->stage;
    if (stage == TRUNK_APART || self->stopping)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(trunk->failure, sizeof(trunk->failure), format, arguments);
    va_end(arguments);
    if (stage == TRUNK_UP) {
        relay_notify(self, &(tarry_tcp_notice){
                               .type = TARRY_TCP_LOST,
                               .worker = TARRY_TCP_NO_WORKER,
                               .peer = channel_peer(trunk->channel),
                               .text = trunk->failure,
                           });
        trunk->apart_ns = relay_now(self);
        backoff_lost(&trunk->backoff, trunk->apart_ns - trunk->since_ns);
    }
    channel_close(detach(self, WIRE_BYE_RESTART));
    if (stage == TRUNK_GREETING && trunk->next_address < trunk->found_count)
        use_addresses(self);
    else
        try_next_parent(self);
}

void relay_trunk_leave(tcp_relay *self)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    relay_trunk *trunk = &self->trunk;
    if (trunk->stage == TRUNK_UP)
        channel_send(trunk->channel, frame, wire_bye_encode(WIRE_BYE_LEAVING, frame));
    if (trunk->channel != NULL) {
        count_bytes(self);
        channel_close_gently(trunk->channel, FAREWELL_NS);
    }
    trunk->channel = NULL;
    trunk->stage = TRUNK_APART;
    if (trunk->resolving)
        uv_cancel((uv_req_t *)&trunk->resolve);
}

/* ---- WELCOME ---- */

static void say_hello(tcp_relay *self)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_hello hello = {
        .oldest = WIRE_VERSION,
        .newest = WIRE_VERSION,
        .role = WIRE_ROLE_RELAY,
        .ranking = COEFFICIENTS_VERSION,
        .worker = WIRE_ANY_WORKER,
    };
    memcpy(hello.instance, self->instance, WIRE_ID_BYTES);
    channel_send(self->trunk.channel, frame, wire_hello_encode(&hello, frame));
}

static void take_welcome(tcp_relay *self, const wire_welcome *welcome)
{
    relay_trunk *trunk = &self->trunk;
    if (welcome->worker != WIRE_ANY_WORKER || welcome->plan_bytes > 0 || welcome->job_bytes > 0) {
        relay_trunk_lose(self, "%s", NO_SERVER);
        return;
    }
    trunk->welcome = *welcome;
    trunk->stage = TRUNK_UP;
    trunk->since_ns = trunk->beaten_ns = relay_now(self);
    trunk->found_count = 0;
    parents_settle(&trunk->parents);
    self->work.connections++;
    relay_set_tick(self);
    relay_notify(self, &(tarry_tcp_notice){
                           .type = TARRY_TCP_CONNECTED,
                           .worker = TARRY_TCP_NO_WORKER,
                           .peer = channel_peer(trunk->channel),
                       });
    relay_up_advertise(self);
}

static void take_refusal(tcp_relay *self, const wire_refused *refused)
{
    if (!wire_reason_passes(refused->reason))
        relay_end(self, TARRY_ERROR_STATE, WIRE_BYE_RESTART, "%s: refused: %s",
                  parents_current(&self->trunk.parents), refused->text);
    self->trunk.found_count = 0; /* other addresses are of the same server */
    relay_trunk_lose(self, "refused: %s", refused->text);
}

static void take_bye(tcp_relay *self, wire_bye bye)
{
    if (bye == WIRE_BYE_DONE)
        relay_end(self, TARRY_OK, WIRE_BYE_DONE, "%s", "");
    relay_trunk_lose(self, "the server stops");
}

/* ---- the channel's handlers ---- */

static void on_opened(void *user)
{
    say_hello(user);
}

static void on_heard(void *user)
{
    tcp_relay *self = user;
    self->trunk.heard_ns = relay_now(self);
}

static void settle(tcp_relay *self, const char *fault)
{
    if (fault != NULL)
        relay_trunk_lose(self, "%s", fault);
}

static void greet(tcp_relay *self, const wire_head *head, const uint8_t *body)
{
    wire_welcome welcome;
    if (head->kind == WIRE_WELCOME && wire_welcome_decode(head, body, &welcome) == TARRY_OK)
        take_welcome(self, &welcome);
    else
        settle(self, NO_SERVER);
}

static bool on_frame(void *user, const wire_head *head, const uint8_t *body)
{
    tcp_relay *self = user;
    const channel *now = self->trunk.channel;
    wire_refused refused;
    wire_bye bye;
    if (head->kind == WIRE_REFUSED && wire_refused_decode(head, body, &refused) == TARRY_OK)
        take_refusal(self, &refused);
    else if (self->trunk.stage == TRUNK_GREETING)
        greet(self, head, body);
    else if (head->kind == WIRE_BYE && wire_bye_decode(head, body, &bye) == TARRY_OK)
        take_bye(self, bye);
    else
        settle(self, relay_down_frame(self, head, body));
    return self->trunk.channel == now;
}

static channel_verdict on_begin(void *user, const wire_head *head, const uint8_t *fixed,
                                size_t bytes, void **place)
{
    (void)bytes;
    tcp_relay *self = user;
    const char *fault =
        self->trunk.stage == TRUNK_UP ? relay_down_begin(self, head, fixed, place) : NO_SERVER;
    settle(self, fault);
    return fault == NULL ? CHANNEL_TAKE : CHANNEL_END;
}

static bool on_complete(void *user, const wire_head *head, const uint8_t *fixed)
{
    tcp_relay *self = user;
    const channel *now = self->trunk.channel;
    settle(self, relay_down_complete(self, head, fixed));
    return self->trunk.channel == now;
}

/* No parent takes us any more. */
static void end_revoked(tcp_relay *self)
{
    char name[CREDENTIAL_NAME_SIZE];
    identity_name(credential_own(self->credential), name);
    relay_end(self, TARRY_ERROR_STATE, WIRE_BYE_RESTART,
              "%s: refused: the certificate of %s is revoked; tarry keys add makes another one, "
              "where the authority is",
              parents_current(&self->trunk.parents), name);
}

static void on_ended(void *user, channel_end how)
{
    tcp_relay *self = user;
    if (how == CHANNEL_REVOKED && parents_close(&self->trunk.parents)) {
        end_revoked(self);
        relay_trunk_lose(self, "our certificate is revoked");
        return;
    }
    bool greeting = self->trunk.stage == TRUNK_GREETING;
    settle(self, how == CHANNEL_NOT_FRAMES && greeting ? NO_SERVER
                                                       : channel_failure(self->trunk.channel));
}

/* ---- the beginning ---- */

static void keep_failure(tcp_relay *self, const char *text)
{
    const char *to = parents_current(&self->trunk.parents);
    size_t length = strlen(to);
    if (strncmp(text, to, length) == 0 && strncmp(text + length, ": ", 2) == 0)
        text += length + 2;
    snprintf(self->trunk.failure, sizeof(self->trunk.failure), "%.200s", text);
}

static bool open_connection(tcp_relay *self, const address *to)
{
    relay_trunk *trunk = &self->trunk;
    tarry_diagnostic why = {{0}};
    dialed made;
    if (dial(to, self->credential, &made, &why) != TARRY_OK) {
        keep_failure(self, why.text);
        return false;
    }
    const channel_settings settings = {
        .most_waiting = MOST_WAITING,
        .most_length = MOST_LENGTH,
        .shared = self->read_buffer,
    };
    const channel_handlers handlers = {
        .user = self,
        .opened = on_opened,
        .heard = on_heard,
        .frame = on_frame,
        .begin = on_begin,
        .complete = on_complete,
        .ended = on_ended,
    };
    int error = link_channel_open(&self->loop, made.fd, made.ssl, true, &settings, &handlers,
                                  &self->allocator, &trunk->channel);
    if (error != TARRY_OK) {
        keep_failure(self, tarry_error_text(error));
        return false;
    }
    trunk->stage = TRUNK_GREETING;
    trunk->since_ns = trunk->heard_ns = trunk->sent_ns = relay_now(self);
    trunk->sent_bytes = 0;
    return true;
}

static void use_addresses(tcp_relay *self)
{
    relay_trunk *trunk = &self->trunk;
    while (trunk->next_address < trunk->found_count)
        if (open_connection(self, &trunk->found[trunk->next_address++]))
            return;
    try_next_parent(self);
}

static void on_resolve(uv_work_t *request)
{
    relay_resolved *resolved = &((tcp_relay *)request->data)->trunk.resolved;
    resolved->error = address_resolve(resolved->name, false, resolved->found, &resolved->count,
                                      &resolved->diagnostic);
}

static void on_resolved(uv_work_t *request, int status)
{
    tcp_relay *self = request->data;
    relay_trunk *trunk = &self->trunk;
    trunk->resolving = false;
    if (trunk->stage != TRUNK_APART || status != 0 || self->stopping)
        return;
    if (trunk->resolved.error != TARRY_OK) {
        keep_failure(self, trunk->resolved.diagnostic.text);
        try_next_parent(self);
        return;
    }
    const tarry_tcp_security *security = &self->settings.security;
    memcpy(trunk->found, trunk->resolved.found, sizeof(trunk->found));
    trunk->found_count =
        dial_keep_allowed(security, self->credential, trunk->found, trunk->resolved.count);
    trunk->next_address = 0;
    if (trunk->found_count > 0)
        use_addresses(self);
    else
        relay_end(self, TARRY_ERROR_ARGUMENT, WIRE_BYE_RESTART, "%s: %s",
                  parents_current(&trunk->parents), dial_refusal(security));
}

void relay_trunk_connect(tcp_relay *self)
{
    relay_trunk *trunk = &self->trunk;
    if (trunk->stage != TRUNK_APART || trunk->resolving || self->stopping)
        return;
    trunk->resolve.data = self;
    snprintf(trunk->resolved.name, PARENTS_TEXT_BYTES, "%s", parents_current(&trunk->parents));
    trunk->resolving = uv_queue_work(&self->loop, &trunk->resolve, on_resolve, on_resolved) == 0;
    if (trunk->resolving)
        return;
    keep_failure(self, "out of memory");
    retry(self);
}

/* ---- time ---- */

static void beat(tcp_relay *self, uint64_t now)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    self->trunk.sent_ns = now;
    channel_send(self->trunk.channel, frame, wire_heartbeat_encode(frame));
}

void relay_trunk_tick(tcp_relay *self, uint64_t now, bool late)
{
    relay_trunk *trunk = &self->trunk;
    uint64_t silence = trunk->welcome.silence_ns;
    if (trunk->stage == TRUNK_GREETING && !late && now - trunk->since_ns > GREETING_NS)
        relay_trunk_lose(self, "no answer in time");
    if (trunk->stage != TRUNK_UP)
        return;
    count_bytes(self);
    if (!late && now > trunk->heard_ns && now - trunk->heard_ns > silence) {
        relay_trunk_lose(self, "nothing came from the server for %.3g s",
                         (double)(now - trunk->heard_ns) / 1e9);
        return;
    }
    if (late || now - trunk->beaten_ns >= silence / HEARTBEAT_FRACTION) {
        trunk->beaten_ns = now;
        relay_up_heard(self);
    }
    uint64_t sent = channel_sent(trunk->channel);
    if (sent != trunk->sent_bytes) {
        trunk->sent_bytes = sent;
        trunk->sent_ns = now;
    } else if (late || now - trunk->sent_ns >= silence / HEARTBEAT_FRACTION) {
        beat(self, now);
    }
}
