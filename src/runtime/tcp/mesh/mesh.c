/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/mesh/mesh.h"

#include <assert.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh_state.h"

#define SILENCE_NS UINT64_C(10000000000)

enum { CONNECTS_MOST = 64 };

/* ---- what callers have the thread do ---- */

void mesh_post(mesh *self, void (*carry)(mesh *self, void *argument), void *argument)
{
    pthread_mutex_lock(&self->lock);
    while (self->call.carry != NULL)
        pthread_cond_wait(&self->called, &self->lock);
    self->call = (mesh_call){carry, argument};
    pthread_mutex_unlock(&self->lock);
    uv_async_send(&self->wake); /* without the lock, which the thread takes at once */
}

void mesh_do(mesh *self, void (*carry)(mesh *self, void *argument), void *argument)
{
    mesh_post(self, carry, argument);
    pthread_mutex_lock(&self->lock);
    /* Another caller's may follow it at once, but with an argument of its own. */
    while (self->call.carry == carry && self->call.argument == argument)
        pthread_cond_wait(&self->called, &self->lock);
    pthread_mutex_unlock(&self->lock);
}

static void on_closed_listener(uv_handle_t *handle)
{
    (void)handle;
}

static void stop(mesh *self)
{
    mesh_peers_stop(self);
    uv_close((uv_handle_t *)&self->listener, on_closed_listener);
    uv_close((uv_handle_t *)&self->tick, NULL);
    uv_close((uv_handle_t *)&self->wake, NULL);
}

static void on_wake(uv_async_t *handle)
{
    mesh *self = handle->data;
    pthread_mutex_lock(&self->lock);
    const mesh_call call = self->call;
    bool stopping = self->stopping;
    pthread_mutex_unlock(&self->lock);
    if (call.carry != NULL) {
        call.carry(self, call.argument);
        pthread_mutex_lock(&self->lock);
        self->call.carry = NULL;
        pthread_mutex_unlock(&self->lock);
        pthread_cond_broadcast(&self->called);
    }
    if (stopping && !uv_is_closing((uv_handle_t *)handle))
        stop(self);
}

static void *run_loop(void *argument)
{
    mesh *self = argument;
    uv_run(&self->loop, UV_RUN_DEFAULT);
    return NULL;
}

/* ---- progress ---- */

void mesh_wait(mesh *self, bool *woken, uint64_t until_ns, bool (*runs)(const mesh *self))
{
    const struct timespec until = clock_timespec(until_ns);
    int late = until_ns == 0;
    while (runs(self) && !*woken && late == 0)
        late = until_ns == TARRY_NEVER ? pthread_cond_wait(&self->moved, &self->lock)
                                       : pthread_cond_timedwait(&self->moved, &self->lock, &until);
    *woken = false;
}

void mesh_wake(mesh *self, bool *woken)
{
    pthread_mutex_lock(&self->lock);
    *woken = true;
    pthread_mutex_unlock(&self->lock);
    pthread_cond_broadcast(&self->moved);
}

void mesh_engine_is(mesh *self, tarry_engine_state state, uint32_t suspect, const char *why)
{
    pthread_mutex_lock(&self->lock);
    self->engine_progress.state = state;
    self->engine_progress.suspect = suspect;
    self->engine_progress.moved = self->sum.moved;
    self->engine_progress.whole = self->sum.whole;
    self->engine_progress.took_ns = state == TARRY_ENGINE_DONE ? self->sum.took_ns : 0;
    self->engine_progress.latency_ns = state == TARRY_ENGINE_DONE ? self->sum.latency_ns : 0;
    snprintf(self->engine_progress.why, sizeof(self->engine_progress.why), "%s", why);
    pthread_mutex_unlock(&self->lock);
    pthread_cond_broadcast(&self->moved);
}

void mesh_exchange_is(mesh *self, exchange_state state, const char *why)
{
    const mesh_request *request = &self->request;
    bool loaded = state == EXCHANGE_DONE && request->state != NULL;
    pthread_mutex_lock(&self->lock);
    exchange_progress *now = &self->exchange_progress;
    *now = (exchange_progress){.state = state, .got = request->got};
    if (loaded) {
        now->bytes = request->state;
        now->size = request->size;
        now->after = request->sum;
    }
    snprintf(now->why, sizeof(now->why), "%s", why);
    pthread_mutex_unlock(&self->lock);
    pthread_cond_broadcast(&self->moved);
}

/* ---- beginning and end ---- */

static int start_loop(mesh *self)
{
    if (uv_loop_init(&self->loop) != 0)
        return TARRY_ERROR_SYSTEM;
    if (uv_async_init(&self->loop, &self->wake, on_wake) != 0 ||
        uv_poll_init(&self->loop, &self->listener, self->listen_fd) != 0)
        goto close_loop;
    uv_timer_init(&self->loop, &self->tick);
    self->wake.data = self->tick.data = self->listener.data = self;
    mesh_peers_start(self);
    if (pthread_create(&self->thread, NULL, run_loop, self) == 0)
        return TARRY_OK;
    stop(self);
    uv_run(&self->loop, UV_RUN_DEFAULT);
close_loop:
    uv_walk(&self->loop, (uv_walk_cb)uv_close, NULL);
    uv_run(&self->loop, UV_RUN_DEFAULT);
    uv_loop_close(&self->loop);
    return TARRY_ERROR_SYSTEM;
}

static int find_own(mesh *self, const mesh_settings *settings, tarry_diagnostic *diagnostic)
{
    if (RAND_bytes(self->own.instance, WIRE_ID_BYTES) != 1)
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "no random numbers");
    if (settings->dials) /* the larger instance does */
        memset(self->own.instance, 0xFF, MESH_DIALER_BYTES);
    int error = TARRY_OK;
    if (settings->credentials != NULL)
        error =
            credential_load(settings->credentials, &self->allocator, &self->credential, diagnostic);
    if (error == TARRY_OK && self->credential != NULL)
        error = credential_check_between(self->credential, diagnostic);
    if (error == TARRY_OK && self->credential != NULL)
        credential_own_fingerprint(self->credential, self->own.fingerprint);
    return error;
}

int mesh_create(const mesh_settings *settings, mesh **out, tarry_diagnostic *diagnostic)
{
    mesh *self = memory_allocate(settings->allocator, 1, sizeof(*self));
    if (self == NULL)
        return diagnose_no_memory(diagnostic, "connections between workers");
    self->engine.methods = &mesh_engine_methods;
    self->exchange.methods = &mesh_exchange_methods;
    self->allocator = memory_allocator(settings->allocator);
    self->listen_fd = -1;
    self->sign_ns = TARRY_NEVER;
    self->unreached = settings->unreached;
    self->user = settings->user;
    self->silence_ns = settings->silence_ns > 0 ? settings->silence_ns : SILENCE_NS;
    self->connects_most = settings->connects_most > 0 ? settings->connects_most : CONNECTS_MOST;
    self->dials = settings->dials;
    int error = TARRY_ERROR_NO_MEMORY;
    self->shared = memory_allocate(&self->allocator, CHANNEL_SHARED_BYTES, 1);
    if (self->shared == NULL) {
        diagnose_no_memory(diagnostic, "connections between workers");
        goto release;
    }
    error = find_own(self, settings, diagnostic);
    if (error == TARRY_OK)
        error = mesh_listen(self, settings, diagnostic);
    if (error != TARRY_OK)
        goto release;
    if (pthread_mutex_init(&self->lock, NULL) != 0 || clock_init_condition(&self->called) != 0 ||
        clock_init_condition(&self->moved) != 0 || start_loop(self) != TARRY_OK) {
        error = diagnose(diagnostic, TARRY_ERROR_SYSTEM, "no thread for connections to workers");
        goto release;
    }
    *out = self;
    return TARRY_OK;
release:
    if (self->listen_fd >= 0)
        mesh_close_listener(self);
    credential_free(self->credential);
    memory_release(&self->allocator, self->shared);
    memory_release(settings->allocator, self);
    return error;
}

void mesh_free(mesh *self)
{
    if (self == NULL)
        return;
    pthread_mutex_lock(&self->lock);
    self->stopping = true;
    uv_async_send(&self->wake);
    pthread_mutex_unlock(&self->lock);
    pthread_join(self->thread, NULL);
    int error = uv_loop_close(&self->loop);
    assert(error == 0);
    (void)error;
    mesh_close_listener(self);
    mesh_engine_close(self);
    mesh_exchange_free(self);
    mesh_streams_free(self);
    pthread_cond_destroy(&self->moved);
    pthread_cond_destroy(&self->called);
    pthread_mutex_destroy(&self->lock);
    credential_free(self->credential);
    tarry_allocator allocator = self->allocator;
    memory_release(&allocator, self->members);
    memory_release(&allocator, self->shared);
    memory_release(&allocator, self);
}

void mesh_own_address(const mesh *self, uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST], size_t *size)
{
    mesh_address_encode(&self->own, bytes, size);
}

tarry_engine *mesh_engine(mesh *self)
{
    return &self->engine;
}

exchange *mesh_exchange(mesh *self)
{
    return &self->exchange;
}

/* ---- members by name ---- */

typedef struct admission {
    uint32_t worker;
    const mesh_address *where;
    int error;
} admission;

static void admit(mesh *self, void *argument)
{
    admission *asked = argument;
    mesh_member *member = mesh_add(self, asked->worker, asked->where);
    asked->error = member != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
    if (member != NULL)
        member->admitted = true;
}

int mesh_admit(mesh *self, uint32_t worker, const uint8_t *bytes, size_t size,
               const uint8_t fingerprint[32])
{
    mesh_address where;
    if (mesh_address_decode(bytes, size, &where) != TARRY_OK ||
        memcmp(where.fingerprint, fingerprint, sizeof(where.fingerprint)) != 0)
        return TARRY_ERROR_FORMAT;
    if (memcmp(where.instance, self->own.instance, WIRE_ID_BYTES) == 0)
        return TARRY_OK; /* it is this one */
    admission asked = {worker, &where, TARRY_OK};
    mesh_do(self, admit, &asked);
    return asked.error;
}

static void drop(mesh *self, void *argument)
{
    mesh_member *member = mesh_find(self, *(const uint32_t *)argument);
    if (member != NULL)
        mesh_drop(self, member, "is no member any more");
}

void mesh_remove(mesh *self, uint32_t worker)
{
    mesh_do(self, drop, &worker);
}
