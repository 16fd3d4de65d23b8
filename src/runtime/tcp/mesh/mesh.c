/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/mesh/mesh.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tarry/event.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/memory.h"
#include "protocol/wire/wire_bodies.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh_state.h"

#define SILENCE_NS UINT64_C(10000000000)

enum { CONNECTS_MOST = 64 };

static int mesh_listen(mesh *self, const mesh_settings *settings, tarry_diagnostic *diagnostic);
static void mesh_close_listener(mesh *self);
static void mesh_peers_start(mesh *self);
static void mesh_peers_stop(mesh *self);

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
    mesh_exchange_turn(self);
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
    bool in_time = until_ns != 0;
    while (runs(self) && !*woken && in_time)
        in_time = clock_wait(&self->moved, &self->lock, until_ns);
    *woken = false;
}

void mesh_wake(mesh *self, bool *woken)
{
    pthread_mutex_lock(&self->lock);
    *woken = true;
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
    self->allocator = memory_allocator(settings->allocator);
    self->listen_fd = -1;
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
    if (error == TARRY_OK && mesh_exchange_open(self) != TARRY_OK)
        error = diagnose_no_memory(diagnostic, "connections between workers");
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
    mesh_exchange_close(self);
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
    mesh_exchange_close(self);
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
    return self->exchange;
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

/* Who is connected, and how that comes about. */

#define STRANGER_NS UINT64_C(10000000000)
#define NS_PER_MS UINT64_C(1000000)

enum {
    ACCEPTED_PER_TURN = 16,
    STRANGERS_MOST = 64, /* and as many as there are members */
    MOST_WAITING = 1 << 20,
    CHANNEL_FAILURE_BYTES = 160,
};

static const char NOT_HERE[] = "what came is not of this protocol";

static void on_tick(uv_timer_t *timer);

/* ---- the end of a connection ---- */

static void unlist(mesh *self, mesh_link *link)
{
    mesh_link **at = &self->links;
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
}

/* When mesh_watch_look is to be called; TARRY_NEVER: need not be. */
static uint64_t mesh_watch_due_ns(const mesh *self)
{
    const mesh_sum *sum = &self->sum;
    return sum->runs ? mesh_pace_due_ns(&sum->pace) : TARRY_NEVER;
}

/* When the next thing has to be done without anything happening. */
void mesh_set_tick(mesh *self)
{
    uint64_t now = clock_now_ns(), soonest = mesh_watch_due_ns(self);
    if (mesh_exchange_due_ns(self) < soonest)
        soonest = mesh_exchange_due_ns(self);
    for (size_t i = 0; i < self->member_count; i++)
        if (self->members[i]->retry_ns < soonest)
            soonest = self->members[i]->retry_ns;
    if (soonest == TARRY_NEVER) {
        uv_timer_stop(&self->tick);
        return;
    }
    uint64_t wait = soonest > now ? soonest - now : 0;
    uv_update_time(&self->loop);
    uv_timer_start(&self->tick, on_tick, (wait + NS_PER_MS - 1) / NS_PER_MS, 0);
}

static bool dials(const mesh *self, const mesh_member *member)
{
    return memcmp(self->own.instance, member->where.instance, WIRE_ID_BYTES) > 0;
}

/* Whether the connection with it is made without delay, and again whenever it breaks. */
static bool is_kept(const mesh *self, const mesh_member *member)
{
    const mesh_sum *sum = &self->sum;
    bool grouped = member->place < sum->count && sum->members[member->place] == member;
    return self->dials || self->member_count <= self->connects_most || grouped;
}

static void tell_unreached(const mesh *self, const mesh_member *member, const char *why)
{
    if (self->unreached != NULL)
        self->unreached(self->user, member->worker, why);
}

/* Ends it, with REFUSED as the last word or none; what depends on it is told `why`. */
static void close_link(mesh_link *link, const char *why, bool refused)
{
    mesh *self = link->mesh;
    mesh_member *member = link->member;
    char reason[CHANNEL_FAILURE_BYTES];
    snprintf(reason, sizeof(reason), "%s", why);
    unlist(self, link);
    if (refused)
        session_refuse(link->session, WIRE_REFUSED_FORMAT, reason);
    else
        session_close(link->session, 0);
    if (member == NULL) {
        self->strangers--;
    } else {
        member->link = NULL;
        if (dials(self, member)) {
            /* The other one may be waiting for it, and can't hurry it. */
            if (link->greeted)
                backoff_reset(&member->wait);
            else
                tell_unreached(self, member, reason);
            uint64_t wait_ns = backoff_next_ns(&member->wait);
            member->retry_ns = is_kept(self, member) ? clock_from_now(wait_ns) : TARRY_NEVER;
        }
    }
    memory_release(&self->allocator, link);
    if (member != NULL) {
        mesh_sum_lost(self, member, reason);
        exchange_lose(self->exchange, member->worker, reason);
    }
    mesh_set_tick(self);
}

static void end_link(mesh_link *link, const char *why)
{
    close_link(link, why, false);
}

void mesh_hold_unsent(mesh_link *link, int bytes)
{
    if (link->unsent_bytes != bytes)
        channel_hold_unsent(link->channel, bytes);
    link->unsent_bytes = bytes;
}

bool mesh_misbehaves(mesh_link *link, const char *why)
{
    close_link(link, why, true);
    return false;
}

/* ---- its beginning ---- */

static void greet(mesh_link *link)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_greeting greeting = {.oldest = WIRE_VERSION, .newest = WIRE_VERSION};
    memcpy(greeting.instance, link->mesh->own.instance, WIRE_ID_BYTES);
    memcpy(greeting.wanted, link->member->where.instance, WIRE_ID_BYTES);
    channel_send(link->channel, frame, wire_encode(WIRE_GREETING, &greeting, frame));
}

static void establish(mesh_link *link)
{
    mesh *self = link->mesh;
    mesh_member *member = link->member;
    link->greeted = true;
    link->since_ns = clock_now_ns();
    channel_allow(link->channel, WIRE_PASS_BYTES + WIRE_PIECE_BYTES);
    session_up(link->session, self->silence_ns);
    mesh_set_tick(self);
    mesh_sum_linked(self, member);
    if (member->link == link)
        mesh_exchange_linked(self, member);
}

static bool fits(const mesh_link *link, const mesh_member *member)
{
    return memcmp(link->greeting.instance, member->where.instance, WIRE_ID_BYTES) == 0 &&
           memcmp(link->fingerprint, member->where.fingerprint, WIRE_DIGEST_BYTES) == 0;
}

/* A stranger that has greeted may be a member; if it is none yet it waits until it is one. */
static void settle(mesh_link *link)
{
    mesh *self = link->mesh;
    for (size_t i = 0; i < self->member_count; i++) {
        mesh_member *member = self->members[i];
        if (!fits(link, member) || (dials(self, member) && member->link != NULL))
            continue;
        if (member->link != NULL)
            end_link(member->link, "it has connected anew");
        link->member = member;
        member->link = link;
        member->retry_ns = TARRY_NEVER;
        self->strangers--;
        greet(link);
        establish(link);
        return;
    }
}

/* The other side sent what has no place here, or is malformed. */
static bool refuse_frame(mesh_link *link, const wire_head *head, const uint8_t *body)
{
    char text[CHANNEL_FAILURE_BYTES];
    bool malformed = wire_explain(head, body, text, sizeof(text));
    return mesh_misbehaves(link, malformed ? text : NOT_HERE);
}

static bool take_greeting(mesh_link *link, const wire_head *head, const uint8_t *body)
{
    wire_greeting greeting;
    if (link->greeted || link->greeting.newest != 0 ||
        wire_decode(head, body, &greeting) != TARRY_OK)
        return refuse_frame(link, head, body);
    if (greeting.oldest > WIRE_VERSION || greeting.newest < WIRE_VERSION)
        return mesh_misbehaves(link, "it speaks another version of the protocol");
    link->greeting = greeting;
    if (memcmp(greeting.wanted, link->mesh->own.instance, WIRE_ID_BYTES) != 0 ||
        (link->dialed && !fits(link, link->member)))
        return mesh_misbehaves(link, "it is another one than was wanted");
    if (link->dialed)
        establish(link);
    else
        settle(link);
    return true;
}

static void on_greet(void *user)
{
    mesh_link *link = user;
    link->channel = session_channel(link->session);
    SSL *ssl = channel_ssl(link->channel);
    if (ssl != NULL) {
        const X509 *certificate = SSL_get0_peer_certificate(ssl);
        if (certificate == NULL) {
            end_link(link, "no certificate");
            return;
        }
        credential_fingerprint(certificate, link->fingerprint);
    }
    if (link->dialed)
        greet(link);
}

static bool on_frame(void *user, const wire_head *head, const uint8_t *body)
{
    mesh_link *link = user;
    wire_any read;
    if (head->kind == WIRE_GREETING)
        return take_greeting(link, head, body);
    if (!link->greeted || wire_decode(head, body, &read) != TARRY_OK)
        return refuse_frame(link, head, body);
    switch (head->kind) {
    case WIRE_BEGUN:
        return mesh_sum_begun(link, &read.begun);
    case WIRE_PASS:
        return mesh_exchange_take(link, &read.pass);
    default:
        return refuse_frame(link, head, body);
    }
}

static channel_verdict on_begin(void *user, const wire_head *head, const uint8_t *body,
                                size_t bytes, void **place)
{
    mesh_link *link = user;
    wire_any read;
    (void)bytes;
    if (link->greeted && wire_decode(head, body, &read) == TARRY_OK) {
        if (head->kind == WIRE_BLOCK)
            return mesh_sum_begin(link, &read.block, place);
        if (head->kind == WIRE_PASS)
            return mesh_exchange_begin(link, &read.pass, place);
    }
    refuse_frame(link, head, body);
    return CHANNEL_END;
}

static bool on_complete(void *user, const wire_head *head, const uint8_t *body)
{
    mesh_link *link = user;
    wire_any read;
    if (wire_decode(head, body, &read) == TARRY_OK) {
        if (head->kind == WIRE_BLOCK)
            return mesh_sum_complete(link, &read.block);
        if (head->kind == WIRE_PASS)
            return mesh_exchange_complete(link, &read.pass);
    }
    return refuse_frame(link, head, body);
}

static void on_ended(void *user, int error, const char *why)
{
    (void)error;
    end_link(user, why);
}

/* Takes over the socket of one that was accepted, or (member) begins to dial. Few small frames wait
 * behind blocks here, and the more the system takes at a time the less often members wake each
 * other. */
static mesh_link *open_link(mesh *self, int fd, mesh_member *member)
{
    const session_settings settings = {
        .places = member != NULL ? member->where.places : NULL,
        .place_count = member != NULL ? member->where.count : 0,
        .credential = self->credential,
        .between = true,
        .channel =
            {
                .most_waiting = MOST_WAITING,
                .most_length = WIRE_SMALL_BYTES,
                .shared = self->shared,
            },
        .unsent_bytes = MESH_UNSENT_BYTES,
        .greeting_ns = member != NULL ? self->silence_ns : STRANGER_NS,
        .allocator = &self->allocator,
    };
    mesh_link *link = memory_allocate(&self->allocator, 1, sizeof(*link));
    if (link == NULL) {
        if (member == NULL)
            close(fd);
        return NULL;
    }
    const session_handlers handlers = {
        .user = link,
        .greet = on_greet,
        .frame = on_frame,
        .begin = on_begin,
        .complete = on_complete,
        .ended = on_ended,
    };
    *link = (mesh_link){
        .mesh = self,
        .since_ns = clock_now_ns(),
        .dialed = member != NULL,
        .unsent_bytes = MESH_UNSENT_BYTES,
    };
    int error = member != NULL
                    ? session_connect(&self->loop, &settings, &handlers, &link->session)
                    : session_accept(&self->loop, fd, &settings, &handlers, &link->session);
    if (error != TARRY_OK) {
        memory_release(&self->allocator, link);
        return NULL;
    }
    link->member = member;
    link->next = self->links;
    self->links = link;
    return link;
}

/* ---- who comes ---- */

/* The oldest one goes, so that whoever says nothing keeps nobody out. */
static void displace(mesh *self)
{
    mesh_link *oldest = NULL;
    for (mesh_link *link = self->links; link != NULL; link = link->next)
        if (link->member == NULL && (oldest == NULL || link->since_ns <= oldest->since_ns))
            oldest = link;
    if (oldest != NULL)
        end_link(oldest, "there is no room");
}

static void on_come(uv_poll_t *poll, int status, int events)
{
    mesh *self = poll->data;
    (void)events;
    for (int i = 0; status == 0 && i < ACCEPTED_PER_TURN; i++) {
        int fd = accept4(self->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            break;
        if (self->strangers >= STRANGERS_MOST + self->member_count)
            displace(self);
        if (open_link(self, fd, NULL) != NULL)
            self->strangers++;
    }
    mesh_set_tick(self);
}

/* ---- who is called ---- */

static void not_reached(mesh *self, mesh_member *member, const char *why)
{
    member->retry_ns = clock_from_now(backoff_next_ns(&member->wait));
    tell_unreached(self, member, why);
    mesh_sum_lost(self, member, why);
    exchange_lose(self->exchange, member->worker, why);
}

static void connect_to(mesh *self, mesh_member *member)
{
    member->retry_ns = TARRY_NEVER;
    member->link = open_link(self, -1, member);
    if (member->link == NULL)
        not_reached(self, member, "out of memory");
}

void mesh_hurry(mesh *self, mesh_member *member)
{
    if (member->link != NULL || !dials(self, member))
        return;
    member->retry_ns = clock_now_ns();
    mesh_set_tick(self);
}

/* One that connects to all need not be in reach. */
static bool connects_to_all(const mesh_member *member)
{
    static const uint8_t ones[] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
    static_assert(sizeof(ones) == MESH_DIALER_BYTES, "as many as such an instance has");
    return memcmp(member->where.instance, ones, sizeof(ones)) == 0;
}

void mesh_reach(mesh *self, mesh_member *member)
{
    bool calls = dials(self, member) || (!is_kept(self, member) && !connects_to_all(member));
    if (member->link != NULL || !calls)
        return;
    member->retry_ns = clock_now_ns();
    mesh_set_tick(self);
}

void mesh_choose_links(mesh *self)
{
    for (size_t i = 0; i < self->member_count; i++) {
        mesh_member *member = self->members[i];
        if (!is_kept(self, member))
            member->retry_ns = TARRY_NEVER;
        else if (member->grouped)
            mesh_hurry(self, member);
    }
    mesh_set_tick(self);
}

static void on_tick(uv_timer_t *timer)
{
    mesh *self = timer->data;
    uint64_t now = clock_now_ns();
    for (size_t i = 0; i < self->member_count; i++)
        if (self->members[i]->retry_ns <= now)
            connect_to(self, self->members[i]);
    mesh_watch_look(self, now);
    mesh_exchange_look(self, now);
    mesh_set_tick(self);
}

/* ---- members ---- */

mesh_member *mesh_find(const mesh *self, uint32_t worker)
{
    for (size_t i = 0; i < self->member_count; i++)
        if (self->members[i]->worker == worker)
            return self->members[i];
    return NULL;
}

static void settle_strangers(mesh *self)
{
    for (mesh_link *link = self->links, *next; link != NULL; link = next) {
        next = link->next;
        if (link->member == NULL && link->greeting.newest != 0)
            settle(link);
    }
}

mesh_member *mesh_add(mesh *self, uint32_t worker, const mesh_address *where)
{
    enum { LEAST = 8 };
    mesh_member *member = mesh_find(self, worker);
    if (member != NULL) {
        if (memcmp(member->where.instance, where->instance, WIRE_ID_BYTES) == 0)
            return member;
        mesh_drop(self, member, "another one has its place");
    }
    if (self->member_count == self->member_room) {
        size_t room = memory_room(self->member_room, self->member_count + 1, LEAST);
        mesh_member **grown = memory_grow(&self->allocator, self->members, self->member_count, room,
                                          sizeof(mesh_member *));
        if (grown == NULL)
            return NULL;
        self->members = grown;
        self->member_room = room;
    }
    member = memory_allocate(&self->allocator, 1, sizeof(*member));
    if (member == NULL)
        return NULL;
    *member = (mesh_member){.worker = worker, .where = *where, .retry_ns = TARRY_NEVER};
    uint64_t seed;
    memcpy(&seed, self->own.instance, sizeof(seed));
    backoff_init(&member->wait, seed, worker, 0);
    self->members[self->member_count++] = member;
    if (is_kept(self, member))
        mesh_hurry(self, member);
    settle_strangers(self);
    return member;
}

void mesh_drop(mesh *self, mesh_member *member, const char *why)
{
    if (member->link != NULL)
        end_link(member->link, why);
    mesh_sum_lost(self, member, why);
    exchange_lose(self->exchange, member->worker, why);
    for (uint32_t i = 0; i < self->sum.count; i++)
        if (self->sum.members[i] == member) {
            self->sum.members[i] = NULL;
            mesh_group_stands(self, false);
        }
    size_t at = 0;
    while (self->members[at] != member)
        at++;
    self->members[at] = self->members[--self->member_count];
    memory_release(&self->allocator, member);
    mesh_set_tick(self);
}

/* ---- the listener ---- */

static int own_places(mesh *self, const mesh_settings *settings, tarry_diagnostic *diagnostic)
{
    address listened, found[ADDRESS_MOST];
    uint32_t count = 1;
    int error = address_of(self->listen_fd, &listened, diagnostic);
    found[0] = listened;
    if (error == TARRY_OK && settings->advertise != NULL)
        error = address_resolve(settings->advertise, false, found, &count, diagnostic);
    if (error != TARRY_OK)
        return error;
    for (uint32_t i = 0; i < count && self->own.count < MESH_PLACES; i++) {
        if (address_is_unix(&found[i]))
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: workers are reached by HOST:PORT",
                            settings->advertise);
        address_take_port(&found[i], &listened);
        self->own.places[self->own.count++] = found[i];
    }
    return address_is_wildcard(&self->own.places[0])
               ? diagnose(diagnostic, TARRY_ERROR_FORMAT,
                          "%s: others can't reach that; say where they can", settings->listen)
               : TARRY_OK;
}

static int mesh_listen(mesh *self, const mesh_settings *settings, tarry_diagnostic *diagnostic)
{
    address found[ADDRESS_MOST];
    uint32_t count;
    int error = address_resolve(settings->listen, true, found, &count, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (address_is_unix(&found[0]))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: workers listen on HOST:PORT",
                        settings->listen);
    error = address_listen(&found[0], &self->listen_fd, diagnostic);
    return error == TARRY_OK ? own_places(self, settings, diagnostic) : error;
}

static void mesh_close_listener(mesh *self)
{
    close(self->listen_fd);
}

static void mesh_peers_start(mesh *self)
{
    uv_poll_start(&self->listener, UV_READABLE, on_come);
}

static void mesh_peers_stop(mesh *self)
{
    self->unreached = NULL; /* nobody is reached any more, and needs to be */
    while (self->member_count > 0)
        mesh_drop(self, self->members[0], "the worker ends");
    while (self->links != NULL)
        end_link(self->links, "the worker ends");
}

/* ---- pace ---- */

void mesh_pace_moves(mesh_pace *pace, uint64_t now_ns)
{
    pace->moved_ns = now_ns;
    pace->again_ns = 0;
}

uint64_t mesh_pace_due_ns(const mesh_pace *pace)
{
    if (pace->again_ns > 0)
        return pace->again_ns;
    return pace->limit_ns < TARRY_NEVER - pace->moved_ns ? pace->moved_ns + pace->limit_ns
                                                         : TARRY_NEVER;
}

bool mesh_pace_stands(mesh_pace *pace, uint64_t now_ns)
{
    if (now_ns < mesh_pace_due_ns(pace))
        return false;
    if (pace->again_ns > 0)
        return true;
    pace->again_ns = now_ns + MESH_PACE_AGAIN_NS;
    return false;
}

/* ---- an address as bytes ---- */

enum {
    VERSION = 1,
    HEAD_BYTES = 4 + WIRE_ID_BYTES + WIRE_DIGEST_BYTES,
    PLACE_BYTES = 20,
    IP_BYTES = 16,
    V4_BYTES = 4,
};

_Static_assert(HEAD_BYTES + MESH_PLACES * PLACE_BYTES <= TARRY_ENGINE_ADDRESS_MOST, "it has room");

static uint8_t *put_place(uint8_t *at, const address *place)
{
    memset(at, 0, PLACE_BYTES);
    if (place->socket.ss_family == AF_INET) {
        const struct sockaddr_in *name = (const struct sockaddr_in *)&place->socket;
        bytes_put(at, 4, 2);
        bytes_put(at + 2, ntohs(name->sin_port), 2);
        memcpy(at + 4, &name->sin_addr, V4_BYTES);
    } else {
        const struct sockaddr_in6 *name = (const struct sockaddr_in6 *)&place->socket;
        bytes_put(at, 6, 2);
        bytes_put(at + 2, ntohs(name->sin6_port), 2);
        memcpy(at + 4, &name->sin6_addr, IP_BYTES);
    }
    return at + PLACE_BYTES;
}

static bool get_place(const uint8_t *at, address *place)
{
    static const uint8_t zeros[IP_BYTES];
    uint64_t family = bytes_get(at, 2), port = bytes_get(at + 2, 2);
    *place = (address){0};
    if (port == 0)
        return false;
    if (family == 4) {
        struct sockaddr_in *name = (struct sockaddr_in *)&place->socket;
        name->sin_family = AF_INET;
        name->sin_port = htons((uint16_t)port);
        memcpy(&name->sin_addr, at + 4, V4_BYTES);
        place->size = sizeof(*name);
        return memcmp(at + 4 + V4_BYTES, zeros, IP_BYTES - V4_BYTES) == 0;
    }
    struct sockaddr_in6 *name = (struct sockaddr_in6 *)&place->socket;
    name->sin6_family = AF_INET6;
    name->sin6_port = htons((uint16_t)port);
    memcpy(&name->sin6_addr, at + 4, IP_BYTES);
    place->size = sizeof(*name);
    return family == 6;
}

void mesh_address_encode(const mesh_address *from, uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST],
                         size_t *size)
{
    assert(from->count >= 1 && from->count <= MESH_PLACES);
    uint8_t *at = bytes_put(bytes, VERSION, 1);
    at = bytes_put(at, from->count, 1);
    at = bytes_put(at, 0, 2);
    memcpy(at, from->instance, WIRE_ID_BYTES);
    at += WIRE_ID_BYTES;
    memcpy(at, from->fingerprint, WIRE_DIGEST_BYTES);
    at += WIRE_DIGEST_BYTES;
    for (uint32_t i = 0; i < from->count; i++)
        at = put_place(at, &from->places[i]);
    *size = (size_t)(at - bytes);
}

int mesh_address_decode(const uint8_t *bytes, size_t size, mesh_address *out)
{
    mesh_address read = {.count = 0};
    if (size < HEAD_BYTES || bytes[0] != VERSION || bytes_get(bytes + 2, 2) != 0)
        return TARRY_ERROR_FORMAT;
    read.count = bytes[1];
    if (read.count < 1 || read.count > MESH_PLACES || size != HEAD_BYTES + read.count * PLACE_BYTES)
        return TARRY_ERROR_FORMAT;
    memcpy(read.instance, bytes + 4, WIRE_ID_BYTES);
    memcpy(read.fingerprint, bytes + 4 + WIRE_ID_BYTES, WIRE_DIGEST_BYTES);
    for (uint32_t i = 0; i < read.count; i++)
        if (!get_place(bytes + HEAD_BYTES + i * PLACE_BYTES, &read.places[i]))
            return TARRY_ERROR_FORMAT;
    *out = read;
    return TARRY_OK;
}
