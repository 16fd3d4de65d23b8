/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <string.h>

#include "base/random.h"
#include "protocol/wire/wire_status.h"
#include "seed.h"

enum {
    MOST_WORKERS = 5,
    FIXED = 152,
    ENTRY = 120,
    MOST_FRAME = 8 + FIXED + 5 * ENTRY + 256,
};

typedef struct sample {
    wire_status status;
    wire_worker_status worker[MOST_WORKERS];
} sample;

static sample draw(random_stream *stream)
{
    sample drawn = {
        .status =
            {
                .done = random_u64(stream),
                .running = random_below(stream, 2) == 1,
                .waiting = random_below(stream, 2) == 1,
                .elapsed_ns = random_u64(stream),
                .median_ns = random_u64(stream),
                .rounds = random_u64(stream),
                .exact = random_u64(stream),
                .attempts = random_u32(stream),
                .sum = {.step = random_u64(stream),
                        .term = random_u32(stream),
                        .attempt = random_u32(stream),
                        .voters = random_u32(stream),
                        .fetches = random_u32(stream),
                        .tries = random_u32(stream),
                        .shape = {(tarry_shape_kind)random_below(stream, 4), random_u32(stream)},
                        .links = {random_u64(stream), random_u64(stream)}},
                .workers = random_below(stream, MOST_WORKERS + 1),
            },
    };
    for (uint32_t i = 0; i < WIRE_WORKER_STATES; i++)
        drawn.status.others[i] = random_u32(stream);
    uint32_t size = random_below(stream, WIRE_STATUS_NOTE_BYTES + 1);
    for (uint32_t i = 0; i < size; i++)
        drawn.status.note[i] = (char)(' ' + random_below(stream, 95));
    for (uint32_t j = 0; j < drawn.status.workers; j++) {
        drawn.worker[j] = (wire_worker_status){
            .state = (wire_worker_state)random_below(stream, WIRE_WORKER_STATES),
            .near = random_below(stream, 2) == 1,
            .load = random_u32(stream),
            .finished = random_u32(stream),
            .arrivals = random_u32(stream),
            .chunks = random_u64(stream),
            .pace_ns = random_u64(stream),
            .heard_ns = random_u64(stream),
            .received = random_u64(stream),
            .sent = random_u64(stream),
        };
        for (uint32_t i = random_below(stream, TARRY_RACK_BYTES + 1); i > 0; i--)
            drawn.worker[j].rack[i - 1] = (char)('!' + random_below(stream, '~' - '!' + 1));
    }
    return drawn;
}

/* All of a frame whose body has `length` bytes of these, in a block of its very size. */
static int decode(const uint8_t *frame, uint32_t length, sample *read)
{
    uint8_t *body = malloc(length > 0 ? length : 1);
    assert_non_null(body);
    memcpy(body, frame + WIRE_HEAD_BYTES, length);
    const wire_head head = {.kind = WIRE_STATUS, .length = length};
    int error = wire_status_decode(&head, body, &read->status);
    for (uint32_t j = 0; error == TARRY_OK && j < read->status.workers; j++)
        error = wire_status_worker(&head, body, j, &read->worker[j]);
    free(body);
    return error;
}

static uint32_t body_length(const sample *sent)
{
    return (uint32_t)(wire_status_size(&sent->status) - WIRE_HEAD_BYTES);
}

static void every_status_survives_the_wire(void **state)
{
    (void)state;
    random_stream stream = random_stream_make(test_seed("wire status", 1), RANDOM_TEST, 0, 0);
    for (uint32_t run = 0; run < 4000; run++) {
        sample sent = draw(&stream), read = {0};
        uint8_t frame[MOST_FRAME + 1], again[MOST_FRAME + 1];
        memset(frame, 0xa5, sizeof(frame));
        memset(again, 0xa5, sizeof(again));
        size_t size = wire_status_size(&sent.status);
        wire_status_encode(&sent.status, sent.worker, frame);
        assert_in_range(size, WIRE_HEAD_BYTES, MOST_FRAME);
        assert_int_equal(frame[size], 0xa5);
        wire_head head;
        assert_int_equal(wire_head_decode(frame, &head), TARRY_OK);
        assert_int_equal(head.kind, WIRE_STATUS);
        assert_int_equal(head.length, body_length(&sent));
        assert_int_equal(decode(frame, head.length, &read), TARRY_OK);
        assert_int_equal(wire_status_size(&read.status), size);
        wire_status_encode(&read.status, read.worker, again);
        assert_memory_equal(again, frame, sizeof(frame));
    }
}

static void a_status_has_the_documented_bytes(void **state)
{
    (void)state;
    const sample sent = {
        .status = {.done = 1,
                   .running = true,
                   .waiting = true,
                   .elapsed_ns = 2,
                   .median_ns = 3,
                   .rounds = 4,
                   .exact = 5,
                   .attempts = 6,
                   .sum = {.step = 18,
                           .term = 19,
                           .attempt = 20,
                           .voters = 21,
                           .fetches = 22,
                           .tries = 23,
                           .shape = {TARRY_SHAPE_GRID, 24},
                           .links = {25, 26}},
                   .workers = 1,
                   .others = {[WIRE_WORKER_ABSENT] = 7, [WIRE_WORKER_LEFT] = 0x0809},
                   .note = "ok"},
        .worker = {{.state = WIRE_WORKER_LEFT,
                    .near = true,
                    .load = 0x0102,
                    .finished = 11,
                    .arrivals = 12,
                    .chunks = 13,
                    .pace_ns = 14,
                    .heard_ns = 15,
                    .received = 16,
                    .sent = 17,
                    .rack = "r7"}},
    };
    const uint8_t body[FIXED + ENTRY + 3] = {
        [0] = 1,    [8] = 2,     [16] = 3,    [24] = 4,   [32] = 5,   [40] = 6,    [44] = 1,
        [48] = 1,   [49] = 1,    [52] = 18,   [60] = 19,  [64] = 20,  [68] = 21,   [72] = 22,
        [76] = 23,  [80] = 2,    [84] = 24,   [88] = 25,  [96] = 26,  [104] = 7,   [136] = 9,
        [137] = 8,  [152] = 8,   [153] = 1,   [156] = 2,  [157] = 1,  [160] = 11,  [164] = 12,
        [168] = 13, [176] = 14,  [184] = 15,  [192] = 16, [200] = 17, [208] = 'r', [209] = '7',
        [272] = 2,  [273] = 'o', [274] = 'k',
    };
    uint8_t frame[MOST_FRAME];
    assert_int_equal(wire_status_size(&sent.status), WIRE_HEAD_BYTES + sizeof(body));
    wire_status_encode(&sent.status, sent.worker, frame);
    assert_memory_equal(frame, ((const uint8_t[]){19, 1, 0, 0, 13, 0, 0, 0}), WIRE_HEAD_BYTES);
    assert_memory_equal(frame + WIRE_HEAD_BYTES, body, sizeof(body));
}

static void truncated_and_lengthened_statuses_are_refused(void **state)
{
    (void)state;
    random_stream stream = random_stream_make(test_seed("status lengths", 2), RANDOM_TEST, 0, 0);
    for (uint32_t run = 0; run < 40; run++) {
        sample sent = draw(&stream), read;
        uint8_t frame[MOST_FRAME + 64] = {0};
        wire_status_encode(&sent.status, sent.worker, frame);
        for (uint32_t length = 0; length < MOST_FRAME; length++)
            assert_int_equal(decode(frame, length, &read),
                             length == body_length(&sent) ? TARRY_OK : TARRY_ERROR_FORMAT);
    }
}

static void what_is_out_of_range_is_refused(void **state)
{
    (void)state;
    static const struct {
        unsigned at, most;
    } bounded[] = {
        {48, 1},        {49, 1},        {50, 0},       {51, 0}, {FIXED, WIRE_WORKER_STATES - 1},
        {FIXED + 1, 1}, {FIXED + 2, 0}, {FIXED + 3, 0}};
    const sample sent = {.status = {.workers = 1}};
    for (size_t i = 0; i < sizeof(bounded) / sizeof(bounded[0]); i++) {
        uint8_t frame[MOST_FRAME];
        wire_status_encode(&sent.status, sent.worker, frame);
        for (unsigned byte = 0; byte < 256; byte++) {
            sample read;
            frame[WIRE_HEAD_BYTES + bounded[i].at] = (uint8_t)byte;
            assert_int_equal(decode(frame, body_length(&sent), &read),
                             byte <= bounded[i].most ? TARRY_OK : TARRY_ERROR_FORMAT);
        }
    }
    for (unsigned byte = 0; byte < 256; byte++) { /* of a rack's name; of what follows its end */
        uint8_t frame[MOST_FRAME];
        sample read;
        wire_status_encode(&sent.status, sent.worker, frame);
        frame[WIRE_HEAD_BYTES + FIXED + 56] = (uint8_t)byte;
        bool good = byte == 0 || (byte >= '!' && byte <= '~');
        assert_int_equal(decode(frame, body_length(&sent), &read),
                         good ? TARRY_OK : TARRY_ERROR_FORMAT);
        frame[WIRE_HEAD_BYTES + FIXED + 56] = 0;
        frame[WIRE_HEAD_BYTES + FIXED + ENTRY - 1] = (uint8_t)byte;
        assert_int_equal(decode(frame, body_length(&sent), &read),
                         byte == 0 ? TARRY_OK : TARRY_ERROR_FORMAT);
    }
    uint8_t frame[MOST_FRAME];
    wire_status_encode(&sent.status, sent.worker, frame);
    const wire_head head = {.kind = WIRE_STATUS, .length = body_length(&sent)};
    wire_worker_status worker;
    assert_int_equal(wire_status_worker(&head, frame + WIRE_HEAD_BYTES, 1, &worker),
                     TARRY_ERROR_FORMAT);
    assert_int_equal(wire_status_worker(&head, frame + WIRE_HEAD_BYTES, UINT32_MAX, &worker),
                     TARRY_ERROR_FORMAT);
}

static void as_many_workers_as_fit(void **state)
{
    (void)state;
    wire_status status = {.workers = 3};
    memset(status.note, 'x', WIRE_STATUS_NOTE_BYTES);
    size_t size = wire_status_size(&status);
    assert_int_equal(wire_status_workers_in(size), 3);
    assert_int_equal(wire_status_workers_in(size - 1), 2);
    assert_int_equal(wire_status_workers_in(0), 0);
    assert_int_equal(wire_status_workers_in(SIZE_MAX), WIRE_STATUS_MOST_WORKERS);
    status.others[WIRE_WORKER_GONE] = status.others[WIRE_WORKER_LATE] = UINT32_MAX;
    assert_int_equal(wire_status_all_workers(&status), 3 + 2 * (uint64_t)UINT32_MAX);
}

static void notes_move_no_cursor(void **state)
{
    (void)state;
    static const struct {
        const char *sent, *read;
    } notes[] = {
        {"", ""},
        {"loss 0.5, \xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xa2",
         "loss 0.5, \xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xa2"},
        {"a\nb\x1b[2J\x7f", "a?b?[2J?"},
        {"\xc2\x9b|\xc2\xa0", "?|\xc2\xa0"}, /* a control character of two bytes */
        {"\xe2\x80\xa8|\xe2\x80\xa9|\xe2\x80\xa7", "?|?|\xe2\x80\xa7"}, /* separators of lines */
        {"\x80|\xff|\xc3|\xe2\x82", "?|?|?|??"},                        /* no characters */
        {"\xc0\x80|\xe0\x80\x8a|\xc1\x8a", "??|???|??"},                /* longer than needed */
        {"\xed\xa0\x80|\xf4\x90\x80\x80", "???|????"}, /* a surrogate; above the last one */
        {"\xf4\x8f\xbf\xbf|\xf8\x88\x80\x80\x80", "\xf4\x8f\xbf\xbf|?????"},
    };
    for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
        sample sent = {.status = {.done = 1}}, read;
        memcpy(sent.status.note, notes[i].sent, strlen(notes[i].sent));
        uint8_t frame[MOST_FRAME];
        wire_status_encode(&sent.status, sent.worker, frame);
        assert_int_equal(decode(frame, body_length(&sent), &read), TARRY_OK);
        assert_string_equal(read.status.note, notes[i].read);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_survives_the_wire),
        cmocka_unit_test(a_status_has_the_documented_bytes),
        cmocka_unit_test(truncated_and_lengthened_statuses_are_refused),
        cmocka_unit_test(what_is_out_of_range_is_refused),
        cmocka_unit_test(as_many_workers_as_fit),
        cmocka_unit_test(notes_move_no_cursor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
