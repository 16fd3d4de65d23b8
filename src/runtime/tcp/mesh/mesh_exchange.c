/* SPDX-License-Identifier: Apache-2.0 */
/* The exchange (runtime/worker/exchange.h) over a worker's connections: each of its messages is the
 * body of a PASS. Pieces are sent from where the state lies, and come to where it belongs. */
#include <string.h>

#include "protocol/wire/wire_bodies.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh_state.h"

enum {
    /* Silence limits for the owner of a state to write it, which may be large, or to end a step
     * first. That the owner is there at all, its session knows. */
    WRITING_LIMITS = 30,
    /* That the system takes of a connection: what is sent behind that waits for it. */
    UNSENT_PIECES_BYTES = 2 * WIRE_PIECE_BYTES,
    FIRST_MESSAGES = 8,
};

#define SUM_MOVES_NS UINT64_C(20000000) /* so long after its last block a sum stands still */

/* ---- out ---- */

static bool is_ask(const wire_pass *message)
{
    return message->type == WIRE_PASS_ASK_SUM || message->type == WIRE_PASS_ASK_STATE;
}

static void send_message(const mesh_member *member, const wire_pass *message)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    channel_send(member->link->channel, frame, wire_encode(WIRE_PASS, message, frame));
}

static void moves(mesh *self)
{
    mesh_pace_moves(&self->request.pace, clock_now_ns());
}

static void send_request(mesh *self, const mesh_member *member)
{
    mesh_request *request = &self->request;
    bool writes = request->asked.type == WIRE_PASS_ASK_STATE &&
                  self->silence_ns < TARRY_NEVER / WRITING_LIMITS;
    request->sent = true;
    request->pace.limit_ns = self->silence_ns * (writes ? WRITING_LIMITS : 1);
    moves(self);
    send_message(member, &request->asked);
}

static void take_request(mesh *self, uint32_t from, const wire_pass *asked)
{
    mesh_member *member = mesh_find(self, from);
    self->request =
        (mesh_request){.from = from, .asked = *asked, .pace = {.limit_ns = self->silence_ns}};
    moves(self);
    if (member == NULL)
        exchange_lose(self->exchange, from, "it is no member");
    else if (mesh_is_linked(member))
        send_request(self, member);
    else
        mesh_reach(self, member);
    mesh_set_tick(self);
}

/* Sends what the exchange has said. */
static void send_said(mesh *self)
{
    size_t count = mailbox_take(&self->said, 0);
    for (size_t i = 0; i < count; i++) {
        const mailbox_frame said = mailbox_frame_at(&self->said, i);
        const wire_head head = {.kind = WIRE_PASS, .length = said.size};
        const mesh_member *member = mesh_find(self, said.sender);
        wire_pass message;
        wire_decode(&head, said.bytes, &message);
        if (is_ask(&message))
            take_request(self, said.sender, &message);
        else if (member != NULL && mesh_is_linked(member))
            send_message(member, &message);
    }
}

static void pump(mesh *self)
{
    uint64_t due = exchange_pump(self->exchange);
    if (due == self->pump_ns)
        return;
    self->pump_ns = due;
    mesh_set_tick(self);
}

void mesh_exchange_turn(mesh *self)
{
    send_said(self);
    pump(self);
}

/* exchange_settings.pass: by any thread. What there is no memory for is lost, as is found by its
 * silence. */
static void pass(void *user, uint32_t to, const void *bytes, size_t size)
{
    mesh *self = user;
    mailbox_put(&self->said, to, bytes, size);
    uv_async_send(&self->wake);
}

static void want_pump(void *user)
{
    mesh *self = user;
    uv_async_send(&self->wake);
}

static void on_released(void *user, void *owner)
{
    (void)user;
    exchange_released(owner);
}

/* exchange_settings.lend. What was said before goes before it. */
static bool lend(void *user, uint32_t to, const wire_pass *piece, const void *bytes, void *owner)
{
    mesh *self = user;
    uint8_t prefix[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    const channel_load load = {
        .bytes = bytes,
        .size = piece->count,
        .tag = MESH_TAG_PIECE,
        .released = on_released,
        .owner = owner,
    };
    const mesh_member *member = mesh_find(self, to);
    if (member == NULL || !mesh_is_linked(member))
        return false;
    send_said(self);
    mesh_hold_unsent(member->link, UNSENT_PIECES_BYTES);
    return channel_send_load(member->link->channel, prefix, wire_encode(WIRE_PASS, piece, prefix),
                             &load);
}

/* exchange_settings.sums */
static bool sums(void *user)
{
    const mesh *self = user;
    const mesh_sum *sum = &self->sum;
    return sum->runs && clock_now_ns() < sum->pace.moved_ns + SUM_MOVES_NS;
}

/* ---- what the exchange waits for ---- */

static void divert_all(mesh *self, void *argument)
{
    (void)argument;
    for (mesh_link *link = self->links; link != NULL; link = link->next)
        if (link->greeted)
            channel_divert(link->channel, WIRE_PASS);
}

static void divert(void *user)
{
    mesh_do(user, divert_all, NULL);
}

static void reclaim_all(mesh *self, void *argument)
{
    (void)argument;
    for (mesh_link *link = self->links, *next; link != NULL; link = next) {
        next = link->next;
        if (!link->greeted)
            continue;
        channel_drop(link->channel, MESH_TAG_PIECE);
        if (!channel_detach(link->channel, MESH_TAG_PIECE))
            mesh_misbehaves(link, "out of memory");
    }
}

static void reclaim(void *user)
{
    mesh_do(user, reclaim_all, NULL);
}

/* ---- in ---- */

bool mesh_exchange_take(mesh_link *link, const wire_pass *message)
{
    mesh *self = link->mesh;
    mesh_request *request = &self->request;
    uint32_t from = link->member->worker;
    exchange_take_message(self->exchange, from, message);
    if (message->type == WIRE_PASS_COMES && from == request->from &&
        message->ticket == request->asked.ticket) {
        request->pace.limit_ns = self->silence_ns;
        moves(self);
    }
    pump(self);
    return true;
}

channel_verdict mesh_exchange_begin(mesh_link *link, const wire_pass *piece, void **place)
{
    mesh *self = link->mesh;
    if (exchange_begin(self->exchange, link->member->worker, piece, place) != TARRY_OK) {
        mesh_misbehaves(link, "it sends another piece than the next one");
        return CHANNEL_END;
    }
    if (*place != NULL)
        moves(self);
    return CHANNEL_TAKE;
}

bool mesh_exchange_complete(mesh_link *link, const wire_pass *piece)
{
    moves(link->mesh);
    exchange_complete(link->mesh->exchange, link->member->worker, piece);
    return true;
}

void mesh_exchange_linked(mesh *self, mesh_member *member)
{
    const mesh_request *request = &self->request;
    if (request->from == member->worker && request->asked.ticket != 0 && !request->sent &&
        exchange_awaits(self->exchange) != EXCHANGE_EXPECTS_NOTHING)
        send_request(self, member);
}

/* ---- a request that stands still ---- */

uint64_t mesh_exchange_due_ns(const mesh *self)
{
    uint64_t due = exchange_awaits(self->exchange) == EXCHANGE_EXPECTS_NOTHING
                       ? TARRY_NEVER
                       : mesh_pace_due_ns(&self->request.pace);
    return due < self->pump_ns ? due : self->pump_ns;
}

/* One that connects by itself may never do so. */
void mesh_exchange_look(mesh *self, uint64_t now_ns)
{
    mesh_request *request = &self->request;
    exchange_expects expects = exchange_awaits(self->exchange);
    if (self->pump_ns <= now_ns)
        pump(self);
    if (expects == EXCHANGE_EXPECTS_NOTHING || !mesh_pace_stands(&request->pace, now_ns))
        return;
    exchange_give_up(self->exchange, !request->sent ? "it does not connect"
                                     : expects == EXCHANGE_EXPECTS_STATE
                                         ? "it does not write its state"
                                         : "nothing came of it for the silence limit");
}

/* ---- beginning and end ---- */

int mesh_exchange_open(mesh *self)
{
    const exchange_settings settings = {
        .parties = UINT32_MAX,
        .piece_bytes = WIRE_PIECE_BYTES,
        .now_ns = clock_now_ns,
        .pass = pass,
        .lend = lend,
        .pump = want_pump,
        .sums = sums,
        .divert = divert,
        .reclaim = reclaim,
        .user = self,
    };
    self->pump_ns = TARRY_NEVER;
    int error = mailbox_init(&self->said, WIRE_PASS_BYTES, FIRST_MESSAGES, &self->allocator);
    if (error != TARRY_OK)
        return error;
    error = exchange_create(&settings, &self->allocator, &self->exchange);
    if (error != TARRY_OK)
        mailbox_destroy(&self->said);
    return error;
}

void mesh_exchange_close(mesh *self)
{
    if (self->exchange == NULL)
        return;
    exchange_free(self->exchange);
    mailbox_destroy(&self->said);
}
