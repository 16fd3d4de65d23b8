/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/relay/relay.h"

#include <assert.h>
#include <openssl/rand.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "runtime/clock.h"
#include "runtime/tcp/net/notice.h"
#include "runtime/tcp/relay/relay_state.h"

enum {
    TICK_FRACTION = 16, /* of the silence that counts as absence */
    LEAST_TICK_MS = 5,
    MOST_TICK_MS = 250,
};

#define NS_PER_MS UINT64_C(1000000)

uint64_t relay_read_clock(tcp_relay *self)
{
    self->now_ns = clock_now_ns();
    return self->now_ns;
}

void relay_notify(tcp_relay *self, tarry_tcp_notice *notice)
{
    if (self->settings.observe == NULL)
        return;
    notice->now_ns = clock_now_ns();
    notice_tell(self->settings.observe, self->settings.observe_user, notice);
}

tcp_relay_work tcp_relay_count(const tcp_relay *self)
{
    return self->work;
}

/* ---- the loop ---- */

static void close_handles(tcp_relay *self)
{
    listeners_close(&self->listeners);
    if (!self->has_handles)
        return;
    uv_close((uv_handle_t *)&self->wake, NULL);
    uv_close((uv_handle_t *)&self->tick, NULL);
    uv_close((uv_handle_t *)&self->trunk.retry, NULL);
    uv_close((uv_handle_t *)&self->turn_end, NULL);
    self->has_handles = false;
}

/* The loop ends by itself once nothing is left in it: the last words, for which time is limited. */
void relay_end(tcp_relay *self, int outcome, wire_bye bye, const char *format, ...)
{
    if (self->stopping)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(self->why.text, sizeof(self->why.text), format, arguments);
    va_end(arguments);
    self->outcome = outcome;
    relay_up_flush(self);
    self->stopping = true;
    relay_children_farewell(self, bye);
    while (self->newcomers.first != NULL)
        relay_child_end(self->newcomers.first, WIRE_LANE_CLOSED, "the relay ends", false);
    relay_trunk_leave(self);
    close_handles(self);
}

static void on_wake(uv_async_t *handle)
{
    tcp_relay *self = handle->data;
    if (atomic_load(&self->leaving))
        relay_end(self, TARRY_OK, WIRE_BYE_RESTART, "%s", "");
}

/* A relay that was itself held up hears what has come in meanwhile before it judges anyone, but not
 * twice in a row. Its parent hears of it at once. */
static void on_tick(uv_timer_t *handle)
{
    tcp_relay *self = handle->data;
    uint64_t now = relay_now(self);
    bool late = !self->spared && now - self->ticked_ns > 4 * self->tick_ms * NS_PER_MS;
    self->spared = late;
    self->ticked_ns = now;
    relay_accept(self, true); /* goes on after a lack of descriptors */
    relay_trunk_tick(self, now, late);
    for (relay_child *child = self->children.first, *after; child != NULL; child = after) {
        after = child->after;
        relay_child_tick(child, now);
    }
    for (relay_child *child = self->newcomers.first, *after; child != NULL && !late;
         child = after) {
        after = child->after;
        relay_child_tick(child, now);
    }
}

void relay_set_tick(tcp_relay *self)
{
    uint64_t tick = MOST_TICK_MS;
    if (self->trunk.stage == TRUNK_UP)
        tick = self->trunk.welcome.silence_ns / TICK_FRACTION / NS_PER_MS;
    tick = tick < LEAST_TICK_MS ? LEAST_TICK_MS : tick > MOST_TICK_MS ? MOST_TICK_MS : tick;
    if (tick == self->tick_ms)
        return;
    self->tick_ms = tick;
    self->ticked_ns = relay_now(self);
    uv_timer_start(&self->tick, on_tick, tick, tick);
}

/* Before the loop waits for what comes next. */
static void on_turn_end(uv_prepare_t *handle)
{
    tcp_relay *self = handle->data;
    relay_children_do_tasks(self);
    relay_up_flush(self);
    relay_children_free(self);
    self->now_ns = 0;
}

static int init_loop(tcp_relay *self)
{
    if (uv_loop_init(&self->loop) != 0)
        return TARRY_ERROR_SYSTEM;
    self->has_loop = true;
    if (uv_async_init(&self->loop, &self->wake, on_wake) != 0)
        return TARRY_ERROR_SYSTEM;
    uv_timer_init(&self->loop, &self->tick);
    uv_timer_init(&self->loop, &self->trunk.retry);
    uv_prepare_init(&self->loop, &self->turn_end);
    self->wake.data = self->tick.data = self->trunk.retry.data = self->turn_end.data = self;
    self->has_handles = true;
    return relay_open_listeners(self);
}

/* ---- creation and the end ---- */

static int check_settings(const tcp_relay_settings *settings, tarry_diagnostic *diagnostic)
{
    const char *fault = NULL;
    if (settings->listen_count == 0)
        fault = "there is no address to listen on";
    else if (settings->security.insecure && settings->security.credentials != NULL)
        fault = "credentials are of no use in plain text";
    else if (settings->advertise != NULL && strlen(settings->advertise) > WIRE_TEXT_BYTES)
        fault = "the address that workers are told is too long";
    if (fault != NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "relay: %s", fault);
    tarry_diagnostic why;
    return parents_check(settings->connect, &why) == TARRY_OK
               ? TARRY_OK
               : diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "%s", why.text);
}

static int load_credential(tcp_relay *self, const char *directory, tarry_diagnostic *diagnostic)
{
    if (directory == NULL)
        return TARRY_OK;
    int error = credential_load(directory, &self->allocator, &self->credential, diagnostic);
    if (error == TARRY_OK && credential_own(self->credential).role != CREDENTIAL_RELAY)
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: not the credentials of a relay",
                         directory);
    return error;
}

/* Without a word of the caller's, workers are told where it listens: unless that is everywhere, or
 * on this machine alone in a way that others don't know. */
static void choose_advertised(tcp_relay *self, const char *advertise)
{
    if (advertise != NULL) {
        snprintf(self->advertised, sizeof(self->advertised), "%s", advertise);
        return;
    }
    for (uint32_t i = 0; i < self->listeners.count && self->advertised[0] == '\0'; i++) {
        const listener *at = &self->listeners.items[i];
        address bound;
        if (!at->local && address_of(at->fd, &bound, NULL) == TARRY_OK &&
            !address_is_wildcard(&bound))
            snprintf(self->advertised, sizeof(self->advertised), "%s", at->text);
    }
}

static int make(tcp_relay *self, const tcp_relay_settings *settings, tarry_diagnostic *diagnostic)
{
    int error = parents_init(&self->trunk.parents, settings->connect, &self->allocator);
    self->read_buffer = memory_allocate(&self->allocator, CHANNEL_SHARED_BYTES, 1);
    self->heard = memory_allocate(&self->allocator, WIRE_HEARD_BYTES, 1);
    if (error != TARRY_OK || self->read_buffer == NULL || self->heard == NULL)
        return diagnose_no_memory(diagnostic, "relay");
    if (RAND_bytes(self->instance, WIRE_ID_BYTES) != 1)
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "relay: no random numbers");
    uint32_t life;
    memcpy(&life, self->instance, sizeof(life));
    backoff_init(&self->trunk.backoff, settings->seed, 0, life);
    error = load_credential(self, settings->security.credentials, diagnostic);
    if (error == TARRY_OK)
        error = relay_listen(self, settings->listen, settings->listen_count, diagnostic);
    if (error == TARRY_OK && init_loop(self) != TARRY_OK)
        error = diagnose(diagnostic, TARRY_ERROR_SYSTEM, "relay: no event loop");
    if (error == TARRY_OK)
        choose_advertised(self, settings->advertise);
    return error;
}

int tcp_relay_create(const tcp_relay_settings *settings, const tarry_allocator *allocator,
                     tcp_relay **out, tarry_diagnostic *diagnostic)
{
    int error = check_settings(settings, diagnostic);
    if (error != TARRY_OK)
        return error;
    tcp_relay *self = memory_allocate(allocator, 1, sizeof(*self));
    if (self == NULL)
        return diagnose_no_memory(diagnostic, "relay");
    self->allocator = memory_allocator(allocator);
    self->settings = *settings;
    error = make(self, settings, diagnostic);
    if (error != TARRY_OK) {
        tcp_relay_free(self);
        return error;
    }
    self->settings.connect = self->settings.advertise = NULL; /* the caller's for this call */
    self->settings.listen = NULL;
    self->settings.security.credentials = NULL;
    *out = self;
    return TARRY_OK;
}

int tcp_relay_run(tcp_relay *self, tarry_diagnostic *diagnostic)
{
    for (uint32_t i = 0; i < self->listeners.count; i++)
        relay_notify(self, &(tarry_tcp_notice){
                               .type = TARRY_TCP_LISTENING,
                               .worker = TARRY_TCP_NO_WORKER,
                               .peer = self->listeners.items[i].text,
                           });
    self->ticked_ns = self->trunk.apart_ns = relay_now(self);
    relay_set_tick(self);
    uv_prepare_start(&self->turn_end, on_turn_end);
    relay_accept(self, true);
    relay_trunk_connect(self);
    uv_run(&self->loop, UV_RUN_DEFAULT);
    relay_children_free(self);
    return self->outcome == TARRY_OK ? TARRY_OK
                                     : diagnose(diagnostic, self->outcome, "%s", self->why.text);
}

void tcp_relay_leave(tcp_relay *self)
{
    atomic_store(&self->leaving, true);
    uv_async_send(&self->wake);
}

void tcp_relay_free(tcp_relay *self)
{
    if (self == NULL)
        return;
    tarry_allocator allocator = self->allocator;
    self->stopping = true;
    close_handles(self);
    if (self->has_loop) {
        uv_run(&self->loop, UV_RUN_DEFAULT);
        int error = uv_loop_close(&self->loop);
        assert(error == 0);
        (void)error;
    }
    relay_lanes_clear(self);
    relay_round_clear(self);
    relay_blobs_clear(self);
    relay_gather_clear(self);
    relay_buffers_free(self);
    credential_free(self->credential);
    parents_destroy(&self->trunk.parents, &allocator);
    memory_release(&allocator, self->scratch);
    memory_release(&allocator, self->heard);
    memory_release(&allocator, self->read_buffer);
    memory_release(&allocator, self);
}
