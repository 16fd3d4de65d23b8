/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <string.h>

#include "protocol/wire/codec.h"
#include "protocol/wire/wire.h"

enum { MOST_FRAME = WIRE_HEAD_BYTES + WIRE_SMALL_BYTES };

static void assert_frame(const uint8_t *frame, size_t size, const uint8_t *head, const void *body,
                         size_t body_size)
{
    assert_int_equal(size, WIRE_HEAD_BYTES + body_size);
    assert_memory_equal(frame, head, WIRE_HEAD_BYTES);
    assert_memory_equal(frame + WIRE_HEAD_BYTES, body, body_size);
}

#define HEAD(length, kind) ((const uint8_t[]){(length)&0xff, (length) >> 8, 0, 0, kind, 0, 0, 0})

static void a_hello_has_the_documented_bytes(void **state)
{
    (void)state;
    wire_hello hello = {.oldest = 0x0102, .newest = 0x0304, .role = 1, .worker = 0x11121314};
    uint8_t body[99] = {'T', 'A', 'R', 'R', 'Y', 0, 2, 1, 4, 3, 1, 0, 0x14, 0x13, 0x12, 0x11};
    memset(hello.instance, 'i', 16), memset(body + 16, 'i', 16);
    memset(hello.job, 'j', 16), memset(body + 32, 'j', 16);
    memset(hello.plan, 'p', 32), memset(body + 48, 'p', 32);
    memset(hello.host, 'h', 16), memset(body + 80, 'h', 16);
    memcpy(hello.rack, "r7", 3), memcpy(body + 96, "\2r7", 3);
    uint8_t frame[MOST_FRAME];
    assert_frame(frame, wire_hello_encode(&hello, frame), HEAD(99, 1), body, sizeof(body));
}

static void a_welcome_has_the_documented_bytes(void **state)
{
    (void)state;
    wire_welcome welcome = {
        .version = 0x0102,
        .worker = 3,
        .workers = 4,
        .parameters = 5,
        .dimension = 6,
        .stripe_length = 7,
        .keep = 1,
        .ahead = 11,
        .keeps_stale = true,
        .compress = TARRY_COMPRESS_INT8,
        .compress_exact = 13,
        .compress_down = TARRY_COMPRESS_BF16,
        .compress_seed = 12,
        .conditioning_limit = 2,
        .silence_ns = 8,
        .plan_bytes = 9,
        .job_bytes = 10,
        .near = "/s",
    };
    uint8_t body[155] = {
        [0] = 2,   [1] = 1,   [2] = 1,    [3] = 1,     [4] = 3,   [56] = 4,    [60] = 11,
        [64] = 5,  [72] = 6,  [80] = 7,   [95] = 0x40, [96] = 8,  [104] = 9,   [112] = 10,
        [120] = 2, [121] = 1, [128] = 13, [132] = 12,  [152] = 2, [153] = '/', [154] = 's'};
    memset(welcome.job, 'j', 16), memset(body + 8, 'j', 16);
    memset(welcome.plan, 'p', 32), memset(body + 24, 'p', 32);
    uint8_t frame[MOST_FRAME];
    assert_frame(frame, wire_welcome_encode(&welcome, frame), HEAD(155, 2), body, sizeof(body));
    welcome.keeps_stale = false;
    welcome.ships = true;
    body[3] = 2;
    assert_frame(frame, wire_welcome_encode(&welcome, frame), HEAD(155, 2), body, sizeof(body));
    welcome.compress = TARRY_COMPRESS_TOPK;
    welcome.compress_share = 15;
    welcome.compress_first = 0x1011;
    welcome.compress_from = 0x1213;
    body[120] = 4;
    body[122] = 0x11, body[123] = 0x10, body[124] = 15, body[140] = 0x13, body[141] = 0x12;
    assert_frame(frame, wire_welcome_encode(&welcome, frame), HEAD(155, 2), body, sizeof(body));
    welcome.compress = TARRY_COMPRESS_POWERSGD;
    welcome.compress_rank = 3;
    welcome.compress_first = 0;
    welcome.compress_from = 0;
    welcome.compress_matrix_count = 2;
    welcome.compress_matrices[0] = (tarry_matrix){0x21, 0x22};
    welcome.compress_matrices[1] = (tarry_matrix){0x23, 0x24};
    uint8_t longer[171] = {0};
    memcpy(longer, body, 148);
    memcpy(longer + 168, body + 152, 3);
    longer[120] = 6, longer[122] = longer[123] = longer[140] = longer[141] = 0, longer[124] = 3;
    longer[148] = 2, longer[152] = 0x21, longer[156] = 0x22, longer[160] = 0x23, longer[164] = 0x24;
    assert_frame(frame, wire_welcome_encode(&welcome, frame), HEAD(171, 2), longer, sizeof(longer));
}

static void small_frames_have_the_documented_bytes(void **state)
{
    (void)state;
    uint8_t frame[MOST_FRAME];
    const wire_refused refused = {.reason = 5, .text = "no"};
    assert_frame(frame, wire_refused_encode(&refused, frame), HEAD(5, 3), "\5\0\2no", 5);
    assert_frame(frame, wire_heartbeat_encode(frame), HEAD(0, 4), "", 0);
    assert_frame(frame, wire_bye_encode(WIRE_BYE_RESTART, frame), HEAD(1, 5), "\3", 1);
    const wire_fetch fetch = {.kind = WIRE_BLOB_DATA, .index = 0x0102};
    assert_frame(frame, wire_fetch_encode(&fetch, frame), HEAD(8, 9), "\3\0\0\0\2\1\0\0", 8);
    wire_ready ready = {.size = 0};
    memset(ready.plan, 'p', 32), memset(ready.data, 'd', 32);
    ready.numerics = 0x0102;
    uint8_t digests[72] = {[64] = 2, [65] = 1};
    memset(digests, 'p', 32), memset(digests + 32, 'd', 32);
    assert_frame(frame, wire_ready_encode(&ready, frame), HEAD(72, 10), digests, 72);
    ready.size = 2;
    ready.address[0] = ready.address[1] = 'a';
    uint8_t longer[74] = {[72] = 'a', [73] = 'a'};
    memcpy(longer, digests, 72);
    assert_frame(frame, wire_ready_encode(&ready, frame), HEAD(74, 10), longer, 74);
    const wire_share share = {.kind = WIRE_SHARE_PARAMETERS, .bytes = 0x0102, .name = "/n"};
    assert_frame(frame, wire_share_encode(&share, frame), HEAD(19, 11),
                 "\2\0\0\0\0\0\0\0\2\1\0\0\0\0\0\0\2/n", 19);
    const wire_shared shared = {.kind = WIRE_SHARE_PART, .opened = true};
    assert_frame(frame, wire_shared_encode(&shared, frame), HEAD(2, 12), "\1\1", 2);
}

/* Their heads count what follows elsewhere. */
static void large_frames_have_the_documented_bytes(void **state)
{
    (void)state;
    uint8_t frame[MOST_FRAME];
    const wire_parameters parameters = {.round = 0x0102, .first = 0x0304, .count = 100};
    assert_int_equal(wire_parameters_encode(&parameters, frame), WIRE_HEAD_BYTES + 16);
    assert_memory_equal(frame, HEAD(416, 7), WIRE_HEAD_BYTES);
    assert_memory_equal(frame + WIRE_HEAD_BYTES, "\2\1\0\0\0\0\0\0\4\3\0\0\0\0\0\0", 16);
    const wire_blob blob = {WIRE_BLOB_DATA, 0x0102, 0x0506, 0x0304, 100};
    assert_int_equal(wire_blob_encode(&blob, frame), WIRE_HEAD_BYTES + 24);
    assert_memory_equal(frame, HEAD(124, 8), WIRE_HEAD_BYTES);
    assert_memory_equal(frame + WIRE_HEAD_BYTES, "\3\0\0\0\2\1\0\0\6\5\0\0\0\0\0\0\4\3\0\0\0\0\0\0",
                        24);
    const view_piece piece = {.round = 0x0102,
                              .stamp = 0x0103,
                              .base = 0x0102,
                              .digest = 0x0405,
                              .first = 0x4000,
                              .count = 300,
                              .form = TARRY_COMPRESS_INT8};
    assert_int_equal(wire_view_encode(&piece, frame), WIRE_HEAD_BYTES + 48);
    assert_memory_equal(frame, HEAD(356, 22), WIRE_HEAD_BYTES);
    const uint8_t view_body[48] = {[0] = 2,  [1] = 1,  [8] = 3,     [9] = 1,   [16] = 2, [17] = 1,
                                   [24] = 5, [25] = 4, [33] = 0x40, [40] = 44, [41] = 1, [44] = 2};
    assert_memory_equal(frame + WIRE_HEAD_BYTES, view_body, sizeof(view_body));
    wire_message_head(24, 0, frame);
    assert_memory_equal(frame, HEAD(24, 6), WIRE_HEAD_BYTES);
    wire_message_head(24, 400, frame);
    assert_memory_equal(frame, HEAD(424, 6), WIRE_HEAD_BYTES);
}

static void set_length(uint8_t *frame, uint32_t length)
{
    for (unsigned i = 0; i < 4; i++)
        frame[i] = (uint8_t)(length >> 8 * i);
}

static void heads_are_held_to_the_limits_of_their_kind(void **state)
{
    (void)state;
    static const uint32_t least[WIRE_KINDS] = {0,   10, 153, 3,  0,  1,  24, 20, 24, 8,  72, 17, 2,
                                               153, 44, 10,  44, 37, 32, 72, 17, 32, 50, 64, 70};
    for (unsigned kind = 0; kind < 256; kind++) {
        bool known = kind >= WIRE_HELLO && kind < WIRE_KINDS;
        uint32_t lowest = known ? least[kind] : 0;
        uint32_t most = known ? wire_most_length((wire_kind)kind) : 0;
        const uint32_t lengths[] = {lowest, most, lowest - 1, most + 1, UINT32_MAX};
        for (unsigned i = 0; i < 5; i++) {
            wire_head head = {.length = 77};
            uint8_t bytes[WIRE_HEAD_BYTES] = {[4] = (uint8_t)kind};
            set_length(bytes, lengths[i]);
            bool good = known && i < 2;
            assert_int_equal(wire_head_decode(bytes, &head), good ? TARRY_OK : TARRY_ERROR_FORMAT);
            assert_int_equal(head.length, good ? lengths[i] : 77);
            for (unsigned zero = 5; zero < 8; zero++) {
                bytes[zero] = 1;
                assert_int_equal(wire_head_decode(bytes, &head), TARRY_ERROR_FORMAT);
                bytes[zero] = 0;
            }
        }
    }
    const wire_kind large[] = {WIRE_MESSAGE, WIRE_PARAMETERS, WIRE_BLOB, WIRE_STATUS, WIRE_BLOCK,
                               WIRE_PIECE,   WIRE_BATCH,      WIRE_VIEW, WIRE_KEY,    WIRE_WELCOME};
    for (unsigned kind = WIRE_HELLO; kind < WIRE_KINDS; kind++) {
        bool is_large = false;
        for (unsigned i = 0; i < sizeof(large) / sizeof(large[0]); i++)
            is_large = is_large || large[i] == kind;
        assert_int_equal(wire_most_length((wire_kind)kind) > WIRE_SMALL_BYTES, is_large);
    }
}

static uint32_t fixed_of(wire_kind kind, uint32_t length, uint8_t first)
{
    const wire_head head = {.kind = kind, .length = length};
    return wire_fixed_length(&head, first);
}

static void numbers_stand_behind_the_fixed_part(void **state)
{
    (void)state;
    assert_int_equal(fixed_of(WIRE_MESSAGE, 24, TARRY_MESSAGE_PART), 24);
    assert_int_equal(fixed_of(WIRE_MESSAGE, 24 + 4096, TARRY_MESSAGE_PART), 24);
    assert_int_equal(fixed_of(WIRE_MESSAGE, 24 + 4095, TARRY_MESSAGE_PART), 24);
    assert_int_equal(fixed_of(WIRE_MESSAGE, 4095, TARRY_MESSAGE_SIGNAL), 4095);
    assert_int_equal(fixed_of(WIRE_MESSAGE, WIRE_MESSAGE_BYTES, TARRY_MESSAGE_SIGNAL),
                     WIRE_MESSAGE_BYTES);
    assert_int_equal(fixed_of(WIRE_MESSAGE, WIRE_MESSAGE_BYTES + 1, TARRY_MESSAGE_SIGNAL), 0);
    assert_int_equal(fixed_of(WIRE_PARAMETERS, 4096, 7), 16);
    assert_int_equal(fixed_of(WIRE_VIEW, 4096, 7), 48);
    assert_int_equal(fixed_of(WIRE_BLOB, 4096, 1), 24);
    assert_int_equal(fixed_of(WIRE_BLOCK, 4096, 1), 36);
    assert_int_equal(fixed_of(WIRE_PIECE, 4096, 1), 16);
    assert_int_equal(fixed_of(WIRE_HELLO, 97, TARRY_MESSAGE_PART), 97);
    assert_int_equal(fixed_of(WIRE_HEARTBEAT, 0, 0), 0);
}

static void reasons_have_words(void **state)
{
    (void)state;
    const wire_reason passing[] = {WIRE_REFUSED_TAKEN, WIRE_REFUSED_FULL, WIRE_REFUSED_CLOSING,
                                   WIRE_REFUSED_ARRIVALS};
    for (unsigned reason = 0; reason <= WIRE_REASONS; reason++) {
        bool known = reason > 0 && reason < WIRE_REASONS, passes = false;
        for (unsigned i = 0; i < 4; i++)
            passes = passes || passing[i] == reason;
        assert_int_equal(wire_reason_passes((wire_reason)reason), passes);
        const char *text = wire_reason_text((wire_reason)reason);
        assert_non_null(text);
        assert_int_equal(strcmp(text, "unknown reason") != 0, known);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hello_has_the_documented_bytes),
        cmocka_unit_test(a_welcome_has_the_documented_bytes),
        cmocka_unit_test(small_frames_have_the_documented_bytes),
        cmocka_unit_test(large_frames_have_the_documented_bytes),
        cmocka_unit_test(heads_are_held_to_the_limits_of_their_kind),
        cmocka_unit_test(numbers_stand_behind_the_fixed_part),
        cmocka_unit_test(reasons_have_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
