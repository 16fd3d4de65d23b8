/* SPDX-License-Identifier: Apache-2.0 */
/* The parent's end of a trunk, over a channel that only remembers what it is asked to send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "failing_allocator.h"
#include "runtime/tcp/trunk/lanes.h"

enum { ROOM = 1 << 16, LANES = 8 };

/* What the trunk's channel was asked for. */
typedef struct wire_log {
    channel base;
    uint8_t sent[ROOM];
    size_t size;
    uint32_t diverted;
} wire_log;

static bool log_send(channel *base, const uint8_t *frame, size_t size)
{
    wire_log *self = (wire_log *)base;
    assert_true(self->size + size <= ROOM);
    memcpy(self->sent + self->size, frame, size);
    self->size += size;
    return true;
}

static void log_divert(channel *base, wire_kind kind)
{
    assert_int_equal(kind, WIRE_LANE_PART);
    ((wire_log *)base)->diverted++;
}

static const channel_methods log_methods = {.send = log_send, .divert = log_divert};

typedef struct owner {
    wire_log trunk;
    lanes *lanes;
    channel *lane[LANES];
    uint32_t opened, heard[LANES], frames[LANES], reports[LANES], parts[LANES], ended[LANES];
    channel_end how[LANES];
    char failure[64];
    uint32_t slot;   /* of the last report */
    uint32_t closes; /* this lane within `frame`; LANES: none */
    bool cuts_when_heard;
    bool cuts;    /* the trunk within `frame` */
    bool nowhere; /* parts are not wanted */
    bool refuses; /* lanes that are opened */
    uint8_t place[64];
} owner;

typedef struct child {
    owner *owner;
    uint32_t number;
} child;

static child children[LANES];

static void on_heard(void *user)
{
    child *self = user;
    self->owner->heard[self->number]++;
    if (self->owner->cuts_when_heard)
        lanes_cut(self->owner->lanes);
}

static bool on_frame(void *user, const wire_head *head, const uint8_t *body)
{
    child *self = user;
    owner *its = self->owner;
    (void)head;
    (void)body;
    its->frames[self->number]++;
    if (its->closes < LANES)
        channel_close(its->lane[its->closes]);
    if (its->cuts)
        lanes_cut(its->lanes);
    return true;
}

static bool on_report(void *user, tarry_message *message)
{
    child *self = user;
    self->owner->reports[self->number]++;
    self->owner->slot = message->slot;
    return true;
}

static channel_verdict on_begin(void *user, const wire_head *head, const uint8_t *fixed,
                                size_t bytes, void **place)
{
    child *self = user;
    assert_int_equal(head->kind, WIRE_MESSAGE);
    assert_int_equal(head->length, CODEC_HEADER_BYTES + bytes);
    assert_int_equal(fixed[0], TARRY_MESSAGE_PART);
    *place = self->owner->nowhere ? NULL : self->owner->place;
    return CHANNEL_TAKE;
}

static bool on_complete(void *user, const wire_head *head, const uint8_t *fixed)
{
    child *self = user;
    (void)head;
    (void)fixed;
    self->owner->parts[self->number]++;
    return true;
}

static void on_ended(void *user, channel_end how)
{
    child *self = user;
    owner *its = self->owner;
    its->ended[self->number]++;
    its->how[self->number] = how;
    channel *ending = its->lane[self->number];
    strcpy(its->failure, channel_failure(ending));
    its->lane[self->number] = NULL;
    channel_close(ending);
}

static bool on_opened(void *user, channel *lane, const wire_lane_open *words)
{
    owner *its = user;
    const uint32_t number = words->lane;
    its->opened++;
    if (its->refuses) {
        channel_close(lane);
        return true;
    }
    children[number] = (child){.owner = its, .number = number};
    its->lane[number] = lane;
    const channel_handlers handlers = {
        .user = &children[number],
        .heard = on_heard,
        .frame = on_frame,
        .begin = on_begin,
        .complete = on_complete,
        .report = on_report,
        .ended = on_ended,
    };
    lane_take(lane, &handlers, NULL);
    return true;
}

static void begin(owner *its, const tarry_allocator *allocator)
{
    *its = (owner){.trunk.base.methods = &log_methods, .closes = LANES};
    const lanes_handlers handlers = {.user = its, .opened = on_opened};
    assert_int_equal(lanes_create(&its->trunk.base, &handlers, allocator, &its->lanes), TARRY_OK);
}

static void end(owner *its)
{
    lanes_cut(its->lanes);
    lanes_end(its->lanes, "the trunk is gone");
    assert_int_equal(lanes_count(its->lanes), 0);
    lanes_free(its->lanes);
}

/* ---- what the relay says ---- */

static lanes_verdict say(owner *its, const uint8_t *frame, size_t size)
{
    wire_head head;
    assert_int_equal(wire_head_decode(frame, &head), TARRY_OK);
    assert_int_equal(head.length, size - WIRE_HEAD_BYTES);
    return lanes_frame(its->lanes, &head, frame + WIRE_HEAD_BYTES);
}

static lanes_verdict open_lane(owner *its, uint32_t lane)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_LANE_OPEN_BYTES];
    const wire_lane_open words = {.lane = lane, .trusted = true, .from = "there"};
    return say(its, frame, wire_lane_open_encode(&words, frame));
}

static lanes_verdict say_bye(owner *its, uint32_t lane)
{
    uint8_t frame[64];
    size_t size = wire_bye_encode(WIRE_BYE_LEAVING, frame + WIRE_HEAD_BYTES + WIRE_LANE_HEAD_BYTES);
    wire_lane_head(lane, size, frame);
    return say(its, frame, WIRE_HEAD_BYTES + WIRE_LANE_HEAD_BYTES + size);
}

static lanes_verdict say_end(owner *its, uint32_t lane, wire_lane_reason reason, const char *why)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_lane_end words = {.lane = lane, .reason = reason};
    strcpy(words.text, why);
    return say(its, frame, wire_lane_end_encode(&words, frame));
}

static lanes_verdict begin_part(owner *its, uint32_t lane, channel_verdict *verdict, void **place)
{
    uint8_t frame[64];
    wire_head head;
    const wire_lane_part part = {.lane = lane, .message = {TARRY_MESSAGE_PART}, .bytes = 16};
    wire_lane_part_encode(&part, frame);
    assert_int_equal(wire_head_decode(frame, &head), TARRY_OK);
    return lanes_begin(its->lanes, &head, frame + WIRE_HEAD_BYTES, 16, verdict, place);
}

static lanes_verdict end_part(owner *its, uint32_t lane)
{
    uint8_t frame[64];
    wire_head head;
    const wire_lane_part part = {.lane = lane, .message = {TARRY_MESSAGE_PART}, .bytes = 16};
    wire_lane_part_encode(&part, frame);
    assert_int_equal(wire_head_decode(frame, &head), TARRY_OK);
    return lanes_complete(its->lanes, &head, frame + WIRE_HEAD_BYTES);
}

/* The next frame that was sent down, from *at on. */
static wire_kind next_sent(const owner *its, size_t *at, wire_head *head, const uint8_t **body)
{
    if (*at == its->trunk.size)
        return 0;
    assert_int_equal(wire_head_decode(its->trunk.sent + *at, head), TARRY_OK);
    *body = its->trunk.sent + *at + WIRE_HEAD_BYTES;
    *at += WIRE_HEAD_BYTES + head->length;
    return head->kind;
}

/* How many TAKENs were sent, and the sum of their counts. */
static uint32_t taken_sent(const owner *its, uint32_t lane, uint32_t *frames)
{
    size_t at = 0;
    wire_head head;
    const uint8_t *body;
    uint32_t sum = 0;
    *frames = 0;
    for (wire_kind kind; (kind = next_sent(its, &at, &head, &body)) != 0;) {
        wire_taken words;
        if (kind != WIRE_TAKEN)
            continue;
        assert_int_equal(wire_taken_decode(&head, body, &words), TARRY_OK);
        assert_int_equal(words.lane, lane);
        sum += words.count;
        ++*frames;
    }
    return sum;
}

static uint32_t ends_sent(const owner *its, uint32_t lane)
{
    size_t at = 0;
    wire_head head;
    const uint8_t *body;
    uint32_t count = 0;
    for (wire_kind kind; (kind = next_sent(its, &at, &head, &body)) != 0;) {
        wire_lane_end words;
        if (kind == WIRE_LANE_END && wire_lane_end_decode(&head, body, &words) == TARRY_OK &&
            words.lane == lane)
            count++;
    }
    return count;
}

/* ---- tests ---- */

static void a_lane_is_a_channel(void **state)
{
    (void)state;
    owner its;
    begin(&its, NULL);
    assert_int_equal(open_lane(&its, 3), LANES_TAKEN);
    assert_int_equal(open_lane(&its, 5), LANES_TAKEN);
    assert_int_equal(lanes_count(its.lanes), 2);
    assert_string_equal(channel_peer(its.lane[3]), "there");
    assert_int_equal(lane_number(its.lane[5]), 5);
    assert_int_equal(say_bye(&its, 3), LANES_TAKEN);
    assert_int_equal(its.frames[3], 1);
    assert_int_equal(its.heard[3], 1);
    assert_int_equal(its.frames[5], 0);
    assert_int_equal(channel_received(its.lane[3]), WIRE_HEAD_BYTES + 1);

    uint8_t frame[64];
    size_t size = wire_heartbeat_encode(frame), at = 0;
    assert_true(channel_send(its.lane[5], frame, size));
    size = wire_bye_encode(WIRE_BYE_DONE, frame);
    assert_true(channel_send(its.lane[5], frame, size));
    wire_head head, inner;
    const uint8_t *body, *inner_body;
    uint32_t lane;
    assert_int_equal(next_sent(&its, &at, &head, &body), WIRE_LANE);
    assert_int_equal(next_sent(&its, &at, &head, &body), WIRE_LANE);
    assert_int_equal(wire_lane_decode(&head, body, &lane, &inner, &inner_body), TARRY_OK);
    assert_int_equal(lane, 5);
    assert_int_equal(inner.kind, WIRE_BYE);
    assert_int_equal(inner_body[0], WIRE_BYE_DONE);
    end(&its);
    assert_int_equal(its.ended[3] + its.ended[5], 2);
    assert_int_equal(its.how[3], CHANNEL_ADRIFT);
    assert_string_equal(its.failure, "the trunk is gone");
}

static void reports_of_a_batch_go_to_their_lanes(void **state)
{
    (void)state;
    owner its;
    begin(&its, NULL);
    open_lane(&its, 0);
    open_lane(&its, 1);
    uint8_t frame[256];
    wire_batch batch = {.round = 4, .lanes = true, .count = 3};
    for (uint32_t i = 0; i < 3; i++)
        wire_batch_put(&batch, frame, i, i % 2, &(tarry_message){.epoch = 1, .slot = 10 + i});
    assert_int_equal(say(&its, frame, wire_batch_encode(&batch, frame)), LANES_TAKEN);
    assert_int_equal(its.reports[0], 2);
    assert_int_equal(its.reports[1], 1);
    assert_int_equal(its.heard[0], 2);
    assert_int_equal(its.slot, 12);
    wire_batch_put(&batch, frame, 1, 2, &(tarry_message){.epoch = 1});
    assert_int_equal(say(&its, frame, wire_batch_encode(&batch, frame)), LANES_NOT_HERE);
    end(&its);
}

static void those_who_were_heard_are_told_so(void **state)
{
    (void)state;
    owner its;
    begin(&its, NULL);
    for (uint32_t lane = 0; lane < LANES; lane++)
        open_lane(&its, lane);
    uint8_t frame[64];
    const uint8_t bits[2] = {0x82, 0xff};
    const wire_heard words = {.size = 2, .bits = bits};
    assert_int_equal(say(&its, frame, wire_heard_encode(&words, frame)), LANES_TAKEN);
    for (uint32_t lane = 0; lane < LANES; lane++)
        assert_int_equal(its.heard[lane], lane == 1 || lane == 7);
    end(&its);
}

/* The other side may say it first, or this one; a number is free once both have. */
static void a_lane_ends_once_both_sides_have_said_so(void **state)
{
    (void)state;
    owner its;
    begin(&its, NULL);
    open_lane(&its, 0);
    assert_int_equal(say_end(&its, 0, WIRE_LANE_NOT_FRAMES, "no frames"), LANES_TAKEN);
    assert_int_equal(its.how[0], CHANNEL_NOT_FRAMES);
    assert_string_equal(its.failure, "no frames");
    assert_int_equal(ends_sent(&its, 0), 1);
    assert_int_equal(lanes_count(its.lanes), 0);
    assert_int_equal(say_end(&its, 0, WIRE_LANE_CLOSED, ""), LANES_NOT_HERE);
    open_lane(&its, 0);
    assert_int_equal(say_end(&its, 0, WIRE_LANE_ADRIFT, ""), LANES_TAKEN);
    assert_int_equal(its.how[0], CHANNEL_ADRIFT);

    open_lane(&its, 1);
    channel_close(its.lane[1]);
    assert_int_equal(ends_sent(&its, 1), 1);
    assert_int_equal(lanes_count(its.lanes), 1);
    assert_int_equal(say_bye(&its, 1), LANES_TAKEN); /* was on its way */
    assert_int_equal(its.frames[1], 0);
    assert_int_equal(open_lane(&its, 1), LANES_NOT_HERE);
    assert_int_equal(say_end(&its, 1, WIRE_LANE_CLOSED, ""), LANES_TAKEN);
    assert_int_equal(its.ended[1], 0);
    assert_int_equal(open_lane(&its, 1), LANES_TAKEN);
    assert_int_equal(say_bye(&its, 1), LANES_TAKEN);
    assert_int_equal(its.frames[1], 1);

    its.refuses = true;
    assert_int_equal(open_lane(&its, 2), LANES_TAKEN);
    assert_int_equal(ends_sent(&its, 2), 1);
    assert_int_equal(say_bye(&its, 2), LANES_TAKEN);
    end(&its);
}

/* The relay is told as soon as half of its window is used, and never of more than came. */
static void parts_have_a_window(void **state)
{
    (void)state;
    owner its;
    begin(&its, NULL);
    open_lane(&its, 4);
    uint32_t frames;
    channel_verdict verdict;
    void *place;
    for (uint32_t i = 1; i <= WIRE_LANE_WINDOW; i++) {
        assert_int_equal(begin_part(&its, 4, &verdict, &place), LANES_TAKEN);
        assert_int_equal(verdict, CHANNEL_TAKE);
        assert_ptr_equal(place, its.place);
        assert_int_equal(end_part(&its, 4), LANES_TAKEN);
        assert_int_equal(lane_parts_out(its.lane[4]), i);
    }
    assert_int_equal(its.parts[4], WIRE_LANE_WINDOW);
    assert_int_equal(taken_sent(&its, 4, &frames), 0);
    for (uint32_t i = 1; i <= WIRE_LANE_WINDOW; i++) {
        lane_part_taken(its.lane[4]);
        assert_int_equal(taken_sent(&its, 4, &frames), i / 2 * 2);
    }
    its.nowhere = true; /* what is not wanted counts as taken by itself */
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(begin_part(&its, 4, &verdict, &place), LANES_TAKEN);
        assert_null(place);
        assert_int_equal(end_part(&its, 4), LANES_TAKEN);
    }
    assert_int_equal(taken_sent(&its, 4, &frames), WIRE_LANE_WINDOW + 2);
    assert_int_equal(frames, 3);
    assert_int_equal(lane_parts_out(its.lane[4]), 0);
    assert_int_equal(begin_part(&its, 5, &verdict, &place), LANES_NOT_HERE);
    end(&its);
}

/* Whoever closes a lane in the middle of a part has its place back. */
static void a_part_of_a_closed_lane_goes_to_nowhere(void **state)
{
    (void)state;
    owner its;
    begin(&its, NULL);
    open_lane(&its, 0);
    channel_verdict verdict;
    void *place;
    assert_int_equal(begin_part(&its, 0, &verdict, &place), LANES_TAKEN);
    channel_close(its.lane[0]);
    assert_int_equal(its.trunk.diverted, 1);
    assert_int_equal(end_part(&its, 0), LANES_TAKEN);
    assert_int_equal(its.parts[0], 0);
    assert_int_equal(begin_part(&its, 0, &verdict, &place), LANES_TAKEN);
    assert_null(place);
    assert_int_equal(say_end(&its, 0, WIRE_LANE_CLOSED, ""), LANES_TAKEN);
    assert_int_equal(end_part(&its, 0), LANES_TAKEN);
    end(&its);
}

/* A handler may close its own lane or another one, or end the trunk. */
static void handlers_may_end_what_they_like(void **state)
{
    (void)state;
    owner its;
    begin(&its, NULL);
    open_lane(&its, 0);
    open_lane(&its, 1);
    its.closes = 0;
    assert_int_equal(say_bye(&its, 0), LANES_TAKEN);
    its.lane[0] = NULL;
    its.closes = LANES;
    its.cuts = true;
    assert_int_equal(say_bye(&its, 1), LANES_STOP);
    uint8_t frame[16];
    assert_false(channel_send(its.lane[1], frame, wire_heartbeat_encode(frame)));
    end(&its);

    /* Nothing of the frame that was being taken is handed on then. */
    begin(&its, NULL);
    open_lane(&its, 0);
    its.cuts_when_heard = true;
    assert_int_equal(say_bye(&its, 0), LANES_STOP);
    assert_int_equal(its.frames[0], 0);
    end(&its);
}

static int open_and_send(void *user, const tarry_allocator *allocator)
{
    owner *its = user;
    uint8_t frame[16];
    *its = (owner){.trunk.base.methods = &log_methods, .closes = LANES};
    const lanes_handlers handlers = {.user = its, .opened = on_opened};
    int error = lanes_create(&its->trunk.base, &handlers, allocator, &its->lanes);
    if (error != TARRY_OK)
        return error;
    bool sent = open_lane(its, 0) == LANES_TAKEN &&
                channel_send(its->lane[0], frame, wire_heartbeat_encode(frame));
    end(its);
    return sent ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

static void without_memory_the_trunk_ends(void **state)
{
    (void)state;
    owner its;
    assert_true(fail_each_allocation(open_and_send, &its) >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lane_is_a_channel),
        cmocka_unit_test(reports_of_a_batch_go_to_their_lanes),
        cmocka_unit_test(those_who_were_heard_are_told_so),
        cmocka_unit_test(a_lane_ends_once_both_sides_have_said_so),
        cmocka_unit_test(parts_have_a_window),
        cmocka_unit_test(a_part_of_a_closed_lane_goes_to_nowhere),
        cmocka_unit_test(handlers_may_end_what_they_like),
        cmocka_unit_test(without_memory_the_trunk_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
