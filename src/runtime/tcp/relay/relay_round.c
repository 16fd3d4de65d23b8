/* SPDX-License-Identifier: Apache-2.0 */
/* The round's parameters come down once, and go to each child behind its ROUND, as they come. */
#include "base/memory.h"
#include "runtime/tcp/relay/relay_state.h"

static void drop(relay_child *child)
{
    if (child->streams && !outgoing_drop(&child->large, child->channel, OUTGOING_PARAMETERS))
        child->pumps = false; /* its channel ends */
    child->streams = false;
}

void relay_round_begin(relay_child *child, uint64_t round)
{
    drop(child);
    child->streams = true;
    child->round = round;
    child->sent_numbers = 0;
    view_reader_begin(&child->large.reader, round);
    relay_round_pump(child);
}

void relay_round_stop(relay_child *child)
{
    drop(child);
}

/* Children that are sent another round's read the numbers no more. */
static void stop_others(tcp_relay *self, uint64_t round)
{
    for (relay_child *child = self->children.first; child != NULL; child = child->after)
        if (child->streams && child->round != round)
            drop(child);
}

const char *relay_round_reserve(tcp_relay *self, const wire_parameters *parameters, void **place)
{
    relay_round *round = &self->round;
    uint64_t all = self->trunk.welcome.parameters;
    if (wire_view_form(&self->trunk.welcome) != TARRY_COMPRESS_NONE)
        return "parameters came, and not the view of them";
    if (parameters->first == 0) {
        stop_others(self, parameters->round);
        if (round->numbers == NULL)
            round->numbers = memory_allocate(&self->allocator, all, sizeof(float));
        if (round->numbers == NULL)
            return "out of memory";
        round->round = parameters->round;
        round->received = 0;
    }
    if (round->numbers == NULL || parameters->round != round->round ||
        parameters->first != round->received || parameters->count > all - parameters->first)
        return "parameters did not come in order";
    *place = round->numbers + parameters->first;
    return NULL;
}

void relay_round_add(tcp_relay *self, const wire_parameters *parameters)
{
    self->round.received += parameters->count;
    for (relay_child *child = self->children.first; child != NULL; child = child->after)
        if (child->streams && child->round == parameters->round)
            relay_round_pump(child);
}

/* A change may take the place of an older one: who reads that begins again. */
static void restart_behind(tcp_relay *self, uint64_t round)
{
    for (relay_child *child = self->children.first; child != NULL; child = child->after)
        if (child->streams && child->large.reader.at != view_stamp(self->round.seen))
            relay_round_begin(child, round);
}

const char *relay_round_reserve_view(tcp_relay *self, const view_piece *piece, void **place)
{
    relay_round *round = &self->round;
    const wire_welcome *welcome = &self->trunk.welcome;
    const tarry_compress form = wire_view_form(welcome);
    uint8_t *bytes;
    if (form == TARRY_COMPRESS_NONE || welcome->parameters == 0)
        return "a view came, and not the parameters";
    if (round->seen == NULL &&
        view_create(form, welcome->parameters, &self->allocator, &round->seen) != TARRY_OK)
        return "out of memory";
    if (piece->first == 0) {
        stop_others(self, piece->round);
        restart_behind(self, piece->round);
    }
    if (view_place_piece(round->seen, piece, &bytes) != TARRY_OK)
        return "a view did not come in order";
    *place = bytes;
    return NULL;
}

const char *relay_round_add_view(tcp_relay *self, const view_piece *piece)
{
    if (view_take_piece(self->round.seen) != TARRY_OK)
        return "a view came about that is not the server's";
    for (relay_child *child = self->children.first; child != NULL; child = child->after)
        if (child->streams && child->round == piece->round)
            relay_round_pump(child);
    return NULL;
}

static void on_sent(void *user, void *owner)
{
    (void)user;
    relay_child *child = owner;
    child->pumps = true;
    child->relay->has_tasks = true;
}

static void pump_view(relay_child *child, const view *seen)
{
    view_piece piece;
    const uint8_t *bytes;
    while (channel_loads(child->channel) < OUTGOING_WINDOW &&
           view_reader_next(&child->large.reader, seen, &piece, &bytes)) {
        uint8_t prefix[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
        size_t size = wire_view_encode(&piece, prefix);
        const channel_load load = {
            .bytes = bytes,
            .size = view_piece_bytes(&piece),
            .tag = OUTGOING_PARAMETERS,
            .released = on_sent,
            .owner = child,
        };
        if (!channel_send_load(child->channel, prefix, size, &load))
            return;
    }
}

void relay_round_pump(relay_child *child)
{
    const relay_round *round = &child->relay->round;
    if (child->streams && round->seen != NULL)
        pump_view(child, round->seen);
    const uint64_t most = OUTGOING_PIECE / sizeof(float);
    if (!child->streams || child->round != round->round)
        return;
    while (child->sent_numbers < round->received &&
           channel_loads(child->channel) < OUTGOING_WINDOW) {
        uint64_t left = round->received - child->sent_numbers;
        const wire_parameters piece = {
            .round = round->round,
            .first = child->sent_numbers,
            .count = left < most ? left : most,
        };
        uint8_t prefix[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
        size_t size = wire_parameters_encode(&piece, prefix);
        const channel_load load = {
            .bytes = round->numbers + piece.first,
            .size = piece.count * sizeof(float),
            .tag = OUTGOING_PARAMETERS,
            .released = on_sent,
            .owner = child,
        };
        if (!channel_send_load(child->channel, prefix, size, &load))
            return;
        child->sent_numbers += piece.count;
    }
}

void relay_round_clear(tcp_relay *self)
{
    memory_release(&self->allocator, self->round.numbers);
    view_free(self->round.seen);
    self->round = (relay_round){0};
}
