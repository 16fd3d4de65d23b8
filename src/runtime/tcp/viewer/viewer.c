/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/viewer/viewer.h"

#include <openssl/rand.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/record.h"
#include "protocol/wire/wire_bodies.h"
#include "runtime/tcp/net/address.h"
#include "runtime/tcp/net/session.h"
#include "runtime/tcp/trust/credential.h"

#define ANSWER_NS UINT64_C(10000000000) /* from dialling to WELCOME, for each address */
#define MOST_PAUSE_NS UINT64_C(5000000000)

enum { MOST_WAITING = 4096 }; /* heartbeats that the server does not take */

struct viewer {
    tarry_allocator allocator;
    viewer_handlers handlers;
    credential *credential;
    backoff wait;
    session *session;
    bool welcomed;
    bool closed;
    uint8_t instance[WIRE_ID_BYTES];
    uint8_t shared[CHANNEL_SHARED_BYTES];
};

/* ---- frames ---- */

/* Errors: FORMAT, and those of the handler. */
static int take_status(viewer *self, const wire_head *head, const uint8_t *body,
                       tarry_diagnostic *why)
{
    const char *text = (const char *)body;
    if (!record_is_line(text, head->length))
        return TARRY_ERROR_FORMAT;
    int error = self->handlers.told(self->handlers.user, text, head->length, why);
    if (error == TARRY_OK)
        backoff_reset(&self->wait);
    return error;
}

static bool on_frame(void *user, const wire_head *head, const uint8_t *body)
{
    viewer *self = user;
    wire_welcome welcome;
    tarry_diagnostic why = {0};
    int error = TARRY_ERROR_FORMAT;
    if (head->kind == WIRE_STATUS && self->welcomed) {
        error = take_status(self, head, body, &why);
        if (error == TARRY_ERROR_FORMAT && why.text[0] != 0)
            return session_lose(self->session, "%s", why.text);
    } else if (head->kind == WIRE_WELCOME && !self->welcomed) {
        error = wire_welcome_decode(head, body, &welcome, &why);
        self->welcomed = error == TARRY_OK;
        if (self->welcomed)
            session_up(self->session, welcome.terms.server.silence_ns);
    }
    if (error == TARRY_ERROR_FORMAT && why.text[0] == 0)
        return session_misfit(self->session);
    if (error != TARRY_OK)
        session_end(self->session, error, why.text[0] != 0 ? why.text : tarry_error_text(error));
    return error == TARRY_OK;
}

/* Large frames are for workers: a viewer gets none. */
static channel_verdict on_begin(void *user, const wire_head *head, const uint8_t *fixed,
                                size_t bytes, void **place)
{
    viewer *self = user;
    (void)head, (void)fixed, (void)bytes, (void)place;
    session_misfit(self->session);
    return CHANNEL_END;
}

static bool on_complete(void *user, const wire_head *head, const uint8_t *fixed)
{
    (void)user, (void)head, (void)fixed;
    return false;
}

/* ---- the connection ---- */

static void on_greet(void *user)
{
    viewer *self = user;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_hello hello = {
        .oldest = WIRE_VERSION,
        .newest = WIRE_VERSION,
        .role = WIRE_ROLE_VIEWER,
        .worker = WIRE_ANY_WORKER,
    };
    memcpy(hello.instance, self->instance, WIRE_ID_BYTES);
    self->welcomed = false;
    channel_send(session_channel(self->session), frame, wire_encode(WIRE_HELLO, &hello, frame));
}

static bool on_waits(void *user, const char *why, uint64_t *wait_ns)
{
    viewer *self = user;
    if (*wait_ns > MOST_PAUSE_NS)
        *wait_ns = MOST_PAUSE_NS;
    self->handlers.lost(self->handlers.user, why, *wait_ns);
    return true;
}

static void on_ended(void *user, int error, const char *why)
{
    viewer *self = user;
    self->handlers.ended(self->handlers.user, error == TARRY_OK, why);
}

static void on_freed(void *user)
{
    viewer *self = user;
    tarry_allocator allocator = self->allocator;
    credential_free(self->credential);
    memory_release(&allocator, self);
}

/* ---- its life ---- */

static int load_credential(viewer *self, const char *connect, const tarry_tcp_security *security,
                           tarry_diagnostic *diagnostic)
{
    int error = address_check(connect, false, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (security->insecure || address_text_is_file(connect))
        return TARRY_OK;
    if (security->credentials == NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "%s: credentials are needed", connect);
    error = credential_load(security->credentials, &self->allocator, &self->credential, diagnostic);
    if (error != TARRY_OK || credential_own(self->credential).role == CREDENTIAL_VIEWER)
        return error;
    char name[CREDENTIAL_NAME_SIZE];
    identity_name(credential_own(self->credential), name);
    credential_free(self->credential);
    self->credential = NULL;
    return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                    "%s: these are credentials of %s, no viewer's", security->credentials, name);
}

int viewer_open(uv_loop_t *loop, const char *connect, const tarry_tcp_security *security,
                const viewer_handlers *handlers, const tarry_allocator *allocator, viewer **out,
                tarry_diagnostic *diagnostic)
{
    viewer *self = memory_allocate(allocator, 1, sizeof(*self));
    if (self == NULL)
        return diagnose_no_memory(diagnostic, "viewer");
    self->allocator = memory_allocator(allocator);
    self->handlers = *handlers;
    int error = load_credential(self, connect, security, diagnostic);
    if (error != TARRY_OK)
        goto release;
    if (RAND_bytes(self->instance, sizeof(self->instance)) != 1) {
        error = diagnose(diagnostic, TARRY_ERROR_SYSTEM, "no random numbers");
        goto free_credential;
    }
    uint64_t seed;
    memcpy(&seed, self->instance, sizeof(seed));
    backoff_init(&self->wait, seed, WIRE_ANY_WORKER, 0);
    const session_settings settings = {
        .connect = connect,
        .insecure = security->insecure,
        .force = security->force,
        .credential = self->credential,
        .channel =
            {
                .most_waiting = MOST_WAITING,
                .most_length = wire_most_length(WIRE_STATUS),
                .shared = self->shared,
            },
        .greeting_ns = ANSWER_NS,
        .wait = &self->wait,
        .allocator = &self->allocator,
    };
    const session_handlers connection = {
        .user = self,
        .greet = on_greet,
        .frame = on_frame,
        .begin = on_begin,
        .complete = on_complete,
        .waits = on_waits,
        .ended = on_ended,
        .freed = on_freed,
    };
    error = session_connect(loop, &settings, &connection, &self->session);
    if (error != TARRY_OK) {
        diagnose_no_memory(diagnostic, "viewer");
        goto free_credential;
    }
    *out = self;
    return TARRY_OK;

free_credential:
    credential_free(self->credential);
release:
    memory_release(allocator, self);
    return error;
}

void viewer_close(viewer *self)
{
    if (self == NULL || self->closed)
        return;
    self->closed = true;
    session_close(self->session, 0);
}
