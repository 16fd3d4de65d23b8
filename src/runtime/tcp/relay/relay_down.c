/* SPDX-License-Identifier: Apache-2.0 */
/* What comes down the trunk. */
#include <string.h>

#include "protocol/wire/codec.h"
#include "runtime/tcp/relay/relay_state.h"

static const char NOT_HERE[] = "the server sent a frame that makes no sense here";
static const char NO_LANE[] = "the server speaks of a child that is not here";

/* What a relay has to know of what its children are told. */
static void look_at_message(relay_child *child, const uint8_t *body, size_t size)
{
    tarry_message_type type;
    uint64_t round;
    if (codec_peek(body, size, &type, &round) != TARRY_OK)
        return;
    if (type == TARRY_MESSAGE_ROUND)
        relay_round_begin(child, round);
    else if (type == TARRY_MESSAGE_FINISH)
        relay_round_stop(child);
}

static uint32_t most_length(const tcp_relay *self)
{
    size_t part = CODEC_HEADER_BYTES + relay_stripe_bytes(self);
    return part > WIRE_SMALL_BYTES ? (uint32_t)part : WIRE_SMALL_BYTES;
}

/* A child that has just gone may still be spoken to. */
static const char *take_lane(tcp_relay *self, const wire_head *head, const uint8_t *body)
{
    uint32_t lane;
    wire_head inner;
    const uint8_t *inner_body;
    if (wire_lane_decode(head, body, &lane, &inner, &inner_body) != TARRY_OK)
        return NOT_HERE;
    relay_child *child = relay_lane_child(self, lane);
    if (child == NULL)
        return lane < self->lane_room && self->lanes[lane].ending ? NULL : NO_LANE;
    if (!channel_send(child->channel, inner_body - WIRE_HEAD_BYTES,
                      WIRE_HEAD_BYTES + (size_t)inner.length))
        return NULL; /* it will be said that it has ended */
    if (inner.kind == WIRE_WELCOME) {
        child->welcome = true;
        channel_allow(child->channel, most_length(self));
    } else if (inner.kind == WIRE_MESSAGE) {
        look_at_message(child, inner_body, inner.length);
    }
    return NULL;
}

/* The parent has no more to say to a child: its last words go out. */
static const char *take_lane_end(tcp_relay *self, const wire_head *head, const uint8_t *body)
{
    wire_lane_end end;
    if (wire_lane_end_decode(head, body, &end) != TARRY_OK)
        return NOT_HERE;
    relay_child *child = relay_lane_child(self, end.lane);
    if (child != NULL)
        relay_child_end(child, WIRE_LANE_CLOSED, end.text, true);
    return relay_lane_end(self, end.lane) ? NULL : NO_LANE;
}

static const char *take_blob_notice(tcp_relay *self, const wire_head *head, const uint8_t *body)
{
    wire_lane_blob blob;
    if (wire_lane_blob_decode(head, body, &blob) != TARRY_OK)
        return NOT_HERE;
    relay_child *child = relay_lane_child(self, blob.lane);
    if (child != NULL)
        return relay_blob_want(child, &blob);
    return blob.lane < self->lane_room && self->lanes[blob.lane].ending ? NULL : NO_LANE;
}

static const char *take_taken(tcp_relay *self, const wire_head *head, const uint8_t *body)
{
    wire_taken taken;
    if (wire_taken_decode(head, body, &taken) != TARRY_OK)
        return NOT_HERE;
    if (taken.lane == WIRE_NO_LANE)
        return relay_gather_taken(self, taken.count) ? NULL : NOT_HERE;
    relay_child *child = relay_lane_child(self, taken.lane);
    if (child == NULL)
        return taken.lane < self->lane_room && self->lanes[taken.lane].ending ? NULL : NO_LANE;
    if (taken.count > WIRE_LANE_WINDOW - child->window)
        return NOT_HERE;
    child->window += taken.count;
    relay_child_resume(child);
    return NULL;
}

static const char *take_gather(tcp_relay *self, const wire_head *head, const uint8_t *body)
{
    wire_gather words;
    if (wire_gather_decode(head, body, &words) != TARRY_OK ||
        words.parts > self->trunk.welcome.dimension)
        return NOT_HERE;
    return relay_gather_begin(self, &words);
}

/* A blob without bytes is no large frame. */
static const char *take_empty_blob(tcp_relay *self, const wire_head *head, const uint8_t *body)
{
    wire_blob blob;
    void *place;
    if (wire_blob_decode(head, body, &blob) != TARRY_OK)
        return NOT_HERE;
    const char *fault = relay_blob_reserve(self, &blob, &place);
    if (fault == NULL)
        relay_blob_add(self, &blob);
    return fault;
}

const char *relay_down_frame(tcp_relay *self, const wire_head *head, const uint8_t *body)
{
    switch (head->kind) {
    case WIRE_HEARTBEAT:
        return NULL;
    case WIRE_LANE:
        return take_lane(self, head, body);
    case WIRE_LANE_END:
        return take_lane_end(self, head, body);
    case WIRE_LANE_BLOB:
        return take_blob_notice(self, head, body);
    case WIRE_TAKEN:
        return take_taken(self, head, body);
    case WIRE_GATHER:
        return take_gather(self, head, body);
    case WIRE_BLOB:
        return take_empty_blob(self, head, body);
    default:
        return NOT_HERE;
    }
}

const char *relay_down_begin(tcp_relay *self, const wire_head *head, const uint8_t *fixed,
                             void **place)
{
    wire_parameters parameters;
    view_piece seen;
    wire_blob blob;
    const char *fault = NOT_HERE;
    self->trunk.intake = TRUNK_NOTHING;
    if (head->kind == WIRE_BLOB && wire_blob_decode(head, fixed, &blob) == TARRY_OK) {
        fault = relay_blob_reserve(self, &blob, place);
        self->trunk.intake = *place != NULL ? TRUNK_BLOB : TRUNK_NOTHING;
    } else if (head->kind == WIRE_PARAMETERS &&
               wire_parameters_decode(head, fixed, &parameters) == TARRY_OK) {
        fault = relay_round_reserve(self, &parameters, place);
        self->trunk.intake = TRUNK_PARAMETERS;
    } else if (head->kind == WIRE_VIEW && wire_view_decode(head, fixed, &seen) == TARRY_OK) {
        fault = relay_round_reserve_view(self, &seen, place);
        self->trunk.intake = TRUNK_VIEW;
    }
    return fault;
}

const char *relay_down_complete(tcp_relay *self, const wire_head *head, const uint8_t *fixed)
{
    wire_parameters parameters;
    view_piece seen;
    wire_blob blob;
    trunk_intake intake = self->trunk.intake;
    self->trunk.intake = TRUNK_NOTHING;
    if (intake == TRUNK_PARAMETERS && wire_parameters_decode(head, fixed, &parameters) == TARRY_OK)
        relay_round_add(self, &parameters);
    else if (intake == TRUNK_VIEW && wire_view_decode(head, fixed, &seen) == TARRY_OK)
        return relay_round_add_view(self, &seen);
    else if (intake == TRUNK_BLOB && wire_blob_decode(head, fixed, &blob) == TARRY_OK)
        relay_blob_add(self, &blob);
    return NULL;
}
