/* SPDX-License-Identifier: Apache-2.0 */
/* Who is connected, and how that comes about. */
#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "protocol/wire/wire_layout.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh_state.h"

#define STRANGER_NS UINT64_C(10000000000)
#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

enum {
    ACCEPTED_PER_TURN = 16,
    STRANGERS_MOST = 64, /* and as many as there are members */
    MOST_WAITING = 1 << 20,
    CHANNEL_FAILURE_BYTES = 160,
    UNSENT_BYTES = 4 << 20, /* that the system takes of a connection, if it has the room */
};

static void on_tick(uv_timer_t *timer);
static void connect_to(mesh *self, mesh_member *member);

/* ---- the end of a connection ---- */

static void unlist(mesh *self, mesh_link *link)
{
    mesh_link **at = &self->links;
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
}

/* When one that has not got so far is given up. */
static uint64_t due_ns(const mesh_link *link)
{
    return link->since_ns + (link->dialed ? link->mesh->silence_ns : STRANGER_NS);
}

/* When the next thing has to be done without anything happening. */
void mesh_set_tick(mesh *self)
{
    uint64_t now = clock_now_ns(), soonest = mesh_watch_due_ns(self);
    if (mesh_exchange_due_ns(self) < soonest)
        soonest = mesh_exchange_due_ns(self);
    if (mesh_streams_due_ns(self) < soonest)
        soonest = mesh_streams_due_ns(self);
    for (size_t i = 0; i < self->member_count; i++)
        if (self->members[i]->retry_ns < soonest)
            soonest = self->members[i]->retry_ns;
    for (const mesh_link *link = self->links; link != NULL; link = link->next)
        if (!link->greeted && due_ns(link) < soonest)
            soonest = due_ns(link);
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
    return self->dials || self->member_count <= self->connects_most ||
           (grouped && mesh_is_neighbour(sum, member->place));
}

static void tell_unreached(const mesh *self, const mesh_member *member, const char *why)
{
    if (self->unreached != NULL)
        self->unreached(self->user, member->worker, why);
}

/* Ends it; what depends on it is told `why`. */
static void end_link(mesh_link *link, const char *why)
{
    mesh *self = link->mesh;
    mesh_member *member = link->member;
    char reason[CHANNEL_FAILURE_BYTES];
    snprintf(reason, sizeof(reason), "%s", why);
    unlist(self, link);
    mesh_streams_close(link);
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
        mesh_exchange_lost(self, member, reason);
    }
    mesh_set_tick(self);
}

bool mesh_misbehaves(mesh_link *link, const char *why)
{
    end_link(link, why);
    return false;
}

/* ---- its beginning ---- */

static void greet(mesh_link *link)
{
    uint8_t frame[WIRE_HEAD_BYTES + LAYOUT_GREETING];
    wire_greeting greeting = {.oldest = WIRE_VERSION, .newest = WIRE_VERSION};
    memcpy(greeting.instance, link->mesh->own.instance, WIRE_ID_BYTES);
    memcpy(greeting.wanted, link->member->where.instance, WIRE_ID_BYTES);
    channel_send(link->channel, frame, wire_greeting_encode(&greeting, frame));
}

static void establish(mesh_link *link)
{
    mesh *self = link->mesh;
    mesh_member *member = link->member;
    link->greeted = true;
    link->since_ns = clock_now_ns();
    channel_allow(link->channel, LAYOUT_PIECE + WIRE_PIECE_BYTES);
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

static bool take_greeting(mesh_link *link, const wire_head *head, const uint8_t *body)
{
    wire_greeting greeting;
    if (link->greeted || link->greeting.newest != 0 ||
        wire_greeting_decode(head, body, &greeting) != TARRY_OK)
        return mesh_misbehaves(link, "what came is not of this protocol");
    if (greeting.oldest > WIRE_VERSION || greeting.newest < WIRE_VERSION)
        return mesh_misbehaves(link, "it speaks another version of the protocol");
    link->greeting = greeting;
    if (memcmp(greeting.wanted, link->mesh->own.instance, WIRE_ID_BYTES) != 0 ||
        (link->dialed && !fits(link, link->member)))
        return mesh_misbehaves(link, "it is another one than was wanted");
    mesh *self = link->mesh;
    channel *its = link->channel;
    if (link->dialed)
        establish(link);
    else
        settle(link);
    for (const mesh_link *at = self->links; at != NULL; at = at->next)
        if (at->channel == its)
            return true;
    return false;
}

static void on_opened(void *user)
{
    mesh_link *link = user;
    SSL *ssl = channel_ssl(link->channel);
    link->opened = true;
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

#define TAKE(noun, taker)                                                                          \
    do {                                                                                           \
        wire_##noun read;                                                                          \
        if (wire_##noun##_decode(head, body, &read) == TARRY_OK)                                   \
            return taker(link, &read);                                                             \
    } while (false)

static bool on_frame(void *user, const wire_head *head, const uint8_t *body)
{
    mesh_link *link = user;
    if (head->kind == WIRE_GREETING)
        return take_greeting(link, head, body);
    if (link->greeted && head->kind == WIRE_BEGUN)
        TAKE(begun, mesh_sum_begun);
    else if (link->greeted && head->kind == WIRE_ASK)
        TAKE(ask, mesh_streams_ask);
    else if (link->greeted && head->kind == WIRE_ANSWER)
        TAKE(answer, mesh_exchange_answer);
    return mesh_misbehaves(link, "what came is not of this protocol");
}

static channel_verdict on_begin(void *user, const wire_head *head, const uint8_t *body,
                                size_t bytes, void **place)
{
    mesh_link *link = user;
    (void)bytes;
    if (link->greeted && head->kind == WIRE_BLOCK) {
        wire_block block;
        if (wire_block_decode(head, body, &block) == TARRY_OK)
            return mesh_sum_begin(link, &block, place);
    } else if (link->greeted && head->kind == WIRE_PIECE) {
        wire_piece piece;
        if (wire_piece_decode(head, body, &piece) == TARRY_OK)
            return mesh_exchange_begin(link, &piece, place);
    }
    mesh_misbehaves(link, "what came is not of this protocol");
    return CHANNEL_END;
}

static bool on_complete(void *user, const wire_head *head, const uint8_t *body)
{
    mesh_link *link = user;
    wire_block block;
    wire_piece piece;
    if (head->kind == WIRE_BLOCK && wire_block_decode(head, body, &block) == TARRY_OK)
        return mesh_sum_complete(link, &block);
    if (head->kind == WIRE_PIECE && wire_piece_decode(head, body, &piece) == TARRY_OK)
        return mesh_exchange_complete(link, &piece);
    return mesh_misbehaves(link, "what came is not of this protocol");
}

static void on_ended(void *user, channel_end how)
{
    mesh_link *link = user;
    (void)how;
    end_link(link, channel_failure(link->channel));
}

/* The system looks whether the other side is there, so that a network that is cut ends the
 * connection, too, whoever waits for whom. What it refuses of this is done without. */
static void watch_over(const mesh *self, int fd)
{
    enum { PROBES = 3 };
    uint64_t apart = self->silence_ns / NS_PER_S / (PROBES + 1);
    int on = 1, probes = PROBES, seconds = apart > 1 ? (int)apart : 1;
    unsigned most = (unsigned)(self->silence_ns / NS_PER_MS);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &most, sizeof(most));
}

/* Few small frames wait behind blocks here, and the more the system takes at a time the less often
 * members wake each other. */
static void take_much(int fd)
{
    int unsent = UNSENT_BYTES;
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
}

/* Takes over the socket. */
static mesh_link *open_link(mesh *self, int fd, mesh_member *member)
{
    SSL *ssl = NULL;
    mesh_link *link = memory_allocate(&self->allocator, 1, sizeof(*link));
    if (link == NULL)
        goto close_socket;
    watch_over(self, fd);
    if (self->credential != NULL) {
        ssl = credential_open_between(self->credential, member == NULL);
        if (ssl == NULL)
            goto release;
    }
    const channel_settings settings = {
        .most_waiting = MOST_WAITING,
        .most_length = WIRE_SMALL_BYTES,
        .shared = self->shared,
    };
    const channel_handlers handlers = {
        .user = link,
        .opened = on_opened,
        .frame = on_frame,
        .begin = on_begin,
        .complete = on_complete,
        .ended = on_ended,
    };
    *link = (mesh_link){.mesh = self, .since_ns = clock_now_ns(), .dialed = member != NULL};
    if (channel_open(&self->loop, fd, ssl, member != NULL, &settings, &handlers, &self->allocator,
                     &link->channel) != TARRY_OK) {
        memory_release(&self->allocator, link);
        return NULL;
    }
    take_much(fd);
    link->member = member;
    link->next = self->links;
    self->links = link;
    return link;
release:
    memory_release(&self->allocator, link);
close_socket:
    close(fd);
    return NULL;
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
    mesh_exchange_lost(self, member, why);
}

static void connect_to(mesh *self, mesh_member *member)
{
    const address *place = &member->where.places[member->tried++ % member->where.count];
    tarry_diagnostic why;
    int fd;
    member->retry_ns = TARRY_NEVER;
    if (address_connect(place, &fd, &why) != TARRY_OK) {
        not_reached(self, member, why.text);
        return;
    }
    member->link = open_link(self, fd, member);
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
        else if (member->grouped && mesh_is_neighbour(&self->sum, member->place))
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
    for (mesh_link *link = self->links, *next; link != NULL; link = next) {
        next = link->next;
        if (link->greeted || now < due_ns(link))
            continue;
        end_link(link, "it does not answer");
        next = self->links; /* what that led to may have ended others */
    }
    mesh_watch_look(self, now);
    mesh_exchange_look(self, now);
    mesh_streams_look(self, now);
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
    mesh_exchange_lost(self, member, why);
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

int mesh_listen(mesh *self, const mesh_settings *settings, tarry_diagnostic *diagnostic)
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

void mesh_close_listener(mesh *self)
{
    close(self->listen_fd);
}

void mesh_peers_start(mesh *self)
{
    uv_poll_start(&self->listener, UV_READABLE, on_come);
}

void mesh_peers_stop(mesh *self)
{
    self->unreached = NULL; /* nobody is reached any more, and needs to be */
    while (self->member_count > 0)
        mesh_drop(self, self->members[0], "the worker ends");
    while (self->links != NULL)
        end_link(self->links, "the worker ends");
}
