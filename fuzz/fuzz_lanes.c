/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a relay says over its trunk: frames of lanes that are open and of others, and any bytes, and
 * in between lanes that their owner closes, from handlers and from elsewhere, and a trunk that is
 * cut. Handlers are called for lanes that are open and wanted alone, `ended` once, no place is
 * written to that was taken back, as many parts count as have places, and all that is sent down can
 * be read.
 */
#include <string.h>

#include "fuzz_arena.h"
#include "fuzz_input.h"
#include "runtime/tcp/trunk/lanes.h"

enum {
    LANES = 6,
    NUMBERS = 4,
    PART_BYTES = NUMBERS * sizeof(float),
    ROOM = WIRE_HEAD_BYTES + WIRE_LANE_OPEN_BYTES,
};

struct run;

/* A lane, for its owner. */
typedef struct child {
    struct run *run;
    channel *lane; /* NULL: it is not open, or was closed */
    uint32_t out;  /* places that it filled and that are not free again */
    bool ended, incoming;
    uint8_t place[PART_BYTES];
} child;

typedef struct run {
    channel trunk;
    input in;
    lanes *lanes;
    child children[LANES];
    child *written; /* whose place the trunk writes to; NULL: nowhere */
    bool cut;
} run;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the trunk's channel ---- */

static bool trunk_send(channel *base, const uint8_t *frame, size_t size)
{
    run *its = (run *)base;
    require(!its->cut && size >= WIRE_HEAD_BYTES);
    wire_head head, inner;
    const uint8_t *inner_body, *body = frame + WIRE_HEAD_BYTES;
    uint32_t lane;
    wire_lane_end end;
    wire_taken taken;
    wire_lane_blob blob;
    require(wire_head_decode(frame, &head) == TARRY_OK && head.length == size - WIRE_HEAD_BYTES);
    switch (head.kind) {
    case WIRE_LANE:
        require(wire_lane_decode(&head, body, &lane, &inner, &inner_body) == TARRY_OK);
        break;
    case WIRE_LANE_END:
        require(wire_lane_end_decode(&head, body, &end) == TARRY_OK);
        break;
    case WIRE_TAKEN:
        require(wire_taken_decode(&head, body, &taken) == TARRY_OK);
        break;
    default:
        require(head.kind == WIRE_LANE_BLOB && wire_lane_blob_decode(&head, body, &blob) == 0);
    }
    return true;
}

static void trunk_divert(channel *base, wire_kind kind)
{
    run *its = (run *)base;
    require(kind == WIRE_LANE_PART && its->written != NULL);
    its->written = NULL;
}

static const channel_methods methods = {.send = trunk_send, .divert = trunk_divert};

/* ---- the owner ---- */

static void close_lane(child *self)
{
    channel *lane = self->lane;
    if (lane == NULL)
        return;
    self->lane = NULL;
    self->incoming = false;
    channel_close(lane);
    require(self->run->written != self);
    self->out = 0;
}

/* What an owner may do from within a handler. Gives back what the handler does. */
static bool react(run *its)
{
    uint8_t what = take(&its->in);
    if (what >= 0xf8 && !its->cut) {
        its->cut = true;
        its->written = NULL;
        lanes_cut(its->lanes);
    } else if (what >= 0xe0) {
        close_lane(&its->children[what % LANES]);
    }
    return what % 16 != 7;
}

static child *hear(void *user)
{
    child *self = user;
    require(self->lane != NULL && !self->ended && !self->run->cut);
    return self;
}

static void on_heard(void *user)
{
    react(hear(user)->run);
}

static bool on_frame(void *user, const wire_head *head, const uint8_t *body)
{
    child *self = hear(user);
    require(wire_lane_takes(head->kind));
    for (uint32_t i = 0; i < head->length; i++) /* all of it is there */
        self->place[0] ^= body[i];
    return react(self->run);
}

static bool on_report(void *user, tarry_message *message)
{
    require(message->type == TARRY_MESSAGE_REPORT);
    return react(hear(user)->run);
}

static channel_verdict on_begin(void *user, const wire_head *head, const uint8_t *fixed,
                                size_t bytes, void **place)
{
    child *self = hear(user);
    require(fixed[0] == TARRY_MESSAGE_PART && head->length == CODEC_HEADER_BYTES + bytes);
    bool wanted = take(&self->run->in) < 0xc0 && bytes == PART_BYTES;
    if (!react(self->run) || self->lane == NULL)
        return CHANNEL_END;
    *place = wanted ? self->place : NULL;
    self->incoming = true;
    return CHANNEL_TAKE;
}

static bool on_complete(void *user, const wire_head *head, const uint8_t *fixed)
{
    child *self = hear(user);
    (void)head;
    require(self->incoming && fixed[0] == TARRY_MESSAGE_PART);
    self->incoming = false;
    return react(self->run);
}

static void on_ended(void *user, channel_end how)
{
    child *self = user;
    require(self->lane != NULL && !self->ended);
    require(how <= CHANNEL_STUCK && channel_failure(self->lane) != NULL);
    self->ended = true;
    self->run->written = self->run->written == self ? NULL : self->run->written;
    close_lane(self);
}

static bool on_opened(void *user, channel *lane, const wire_lane_open *words)
{
    run *its = user;
    require(words->lane < WIRE_LANES_MOST && strcmp(channel_peer(lane), words->from) == 0);
    if (words->lane >= LANES) {
        channel_close(lane);
        return true;
    }
    child *self = &its->children[words->lane];
    require(self->lane == NULL);
    *self = (child){.run = its, .lane = lane};
    const channel_handlers handlers = {
        .user = self,
        .heard = on_heard,
        .frame = on_frame,
        .begin = on_begin,
        .complete = on_complete,
        .report = on_report,
        .ended = on_ended,
    };
    lane_take(lane, &handlers, NULL);
    return react(its);
}

/* ---- what the relay says ---- */

static size_t draw_lane(input *in, uint32_t lane, uint8_t *frame)
{
    uint8_t what = take(in), *inner = frame + WIRE_HEAD_BYTES + WIRE_LANE_HEAD_BYTES;
    size_t size = what % 4 == 0   ? wire_bye_encode(WIRE_BYE_LEAVING, inner)
                  : what % 4 == 1 ? wire_fetch_encode(&(wire_fetch){.kind = WIRE_BLOB_JOB}, inner)
                  : what % 4 == 2 ? wire_ready_encode(&(wire_ready){.size = what}, inner)
                                  : wire_heartbeat_encode(inner);
    wire_lane_head(lane, size, frame);
    return WIRE_HEAD_BYTES + WIRE_LANE_HEAD_BYTES + size;
}

static size_t draw_batch(input *in, uint8_t *frame)
{
    wire_batch batch = {.lanes = true, .count = 1 + take(in) % 5};
    for (uint32_t i = 0; i < batch.count; i++)
        wire_batch_put(&batch, frame, i, take(in) % (LANES + 1), &(tarry_message){.slot = i});
    return wire_batch_encode(&batch, frame);
}

static size_t draw_frame(input *in, uint8_t *frame)
{
    uint8_t what = take(in), bits = take(in);
    const uint32_t lane = bits % (LANES + 1);
    wire_lane_end end = {.lane = lane, .reason = (wire_lane_reason)(1 + what % 6)};
    switch (what / 8 % 8) {
    case 0:
    case 1:
        return wire_lane_open_encode(&(wire_lane_open){.lane = lane, .trusted = true, .from = "x"},
                                     frame);
    case 2:
        return wire_lane_end_encode(&end, frame);
    case 3:
        return wire_heard_encode(&(wire_heard){.size = 1, .bits = &bits}, frame);
    case 4:
        return draw_batch(in, frame);
    default:
        return draw_lane(in, lane, frame);
    }
}

/* False: the trunk is over. */
static bool say(run *its)
{
    uint8_t frame[ROOM] = {0};
    wire_head head;
    size_t size = draw_frame(&its->in, frame);
    for (uint8_t i = take(&its->in); i >= 0xe0 && i % 4 != 0; i--) {
        size_t place = take(&its->in) % size;
        frame[place] ^= take(&its->in);
    }
    if (wire_head_decode(frame, &head) != TARRY_OK || head.length > ROOM - WIRE_HEAD_BYTES ||
        head.length == 0)
        return true; /* the channel below sees to that */
    uint32_t fixed = wire_fixed_length(&head, frame[WIRE_HEAD_BYTES]);
    if (fixed < head.length || fixed == 0)
        return true;
    /* A block of its very size, so that the sanitizer sees a step beyond it. */
    uint8_t *body = malloc(head.length);
    require(body != NULL);
    memcpy(body, frame + WIRE_HEAD_BYTES, head.length);
    lanes_verdict verdict = lanes_frame(its->lanes, &head, body);
    free(body);
    return verdict == LANES_TAKEN;
}

static bool say_part(run *its)
{
    uint8_t frame[ROOM], what = take(&its->in);
    wire_head head;
    wire_lane_part part = {
        .lane = what % (LANES + 1),
        .message = {what < 0xf8 ? TARRY_MESSAGE_PART : TARRY_MESSAGE_REPORT},
        .bytes = PART_BYTES,
    };
    channel_verdict verdict;
    void *place = NULL;
    wire_lane_part_encode(&part, frame);
    require(wire_head_decode(frame, &head) == TARRY_OK);
    const uint8_t *fixed = frame + WIRE_HEAD_BYTES;
    lanes_verdict how = lanes_begin(its->lanes, &head, fixed, PART_BYTES, &verdict, &place);
    if (how != LANES_TAKEN)
        return false;
    require(verdict == CHANNEL_TAKE);
    its->written = NULL;
    if (place != NULL) {
        child *self = &its->children[part.lane];
        require(place == self->place && self->lane != NULL);
        its->written = self;
        self->out++;
        require(lane_parts_out(self->lane) == self->out);
    }
    if (take(&its->in) >= 0xc0) /* while it comes in */
        close_lane(&its->children[take(&its->in) % LANES]);
    if (its->written != NULL)
        memset(place, what, PART_BYTES);
    its->written = NULL;
    return lanes_complete(its->lanes, &head, fixed) == LANES_TAKEN;
}

/* Between two frames. */
static void act(run *its, uint8_t what)
{
    child *self = &its->children[what / 8 % LANES];
    uint8_t frame[WIRE_HEAD_BYTES + 1];
    if (self->lane == NULL)
        return;
    if (what % 8 < 4 && self->out > 0) {
        lane_part_taken(self->lane);
        self->out--;
    } else if (what % 8 == 4) {
        close_lane(self);
    } else if (what % 8 == 5) {
        channel_allow(self->lane, what);
    } else {
        channel_send(self->lane, frame, wire_bye_encode(WIRE_BYE_DONE, frame));
        lane_announce(self->lane, &(wire_lane_blob){.kind = WIRE_BLOB_JOB, .total = what});
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run its = {.trunk.methods = &methods, .in = {.data = data, .left = size}};
    const lanes_handlers handlers = {.user = &its, .opened = on_opened};
    if (lanes_create(&its.trunk, &handlers, arena_begin(), &its.lanes) != TARRY_OK)
        return 0;
    bool on = true;
    while (on && !its.cut && its.in.left > 0) {
        uint8_t what = take(&its.in);
        if (what >= 0xc0)
            on = say_part(&its);
        else if (what >= 0x80)
            act(&its, what);
        else
            on = say(&its);
    }
    its.cut = true;
    lanes_cut(its.lanes);
    lanes_end(its.lanes, "the end");
    require(lanes_count(its.lanes) == 0);
    for (uint32_t i = 0; i < LANES; i++)
        require(its.children[i].lane == NULL);
    lanes_free(its.lanes);
    arena_end();
    return 0;
}
