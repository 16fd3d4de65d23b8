/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes.h"
#include "protocol/wire/codec.h"
#include "protocol/wire/wire.h"
#include "test.h"

enum { MOST_FRAME = WIRE_HEAD_BYTES + WIRE_SMALL_BYTES };

static void assert_frame(const uint8_t *frame, size_t size, const uint8_t *head, const void *body,
                         size_t body_size)
{
    assert_int_equal(size, WIRE_HEAD_BYTES + body_size);
    assert_memory_equal(frame, head, WIRE_HEAD_BYTES);
    assert_memory_equal(frame + WIRE_HEAD_BYTES, body, body_size);
}

#define HEAD(length, kind)                                                                         \
    ((const uint8_t[]){(uint8_t)(length), (uint8_t)((length) >> 8), 0, 0, kind, 0, 0, 0})

/* The terms that differ from their defaults, each behind its name. */
#define TERMS(text) text, sizeof(text) - 1

static void assert_welcome(const wire_welcome *welcome, const char *terms, size_t size)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_WELCOME_BYTES],
        body[72 + 512] = {[0] = 2, [1] = 1, [4] = 3, [56] = 9, [64] = 10};
    memset(body + 8, 'j', 16), memset(body + 24, 'p', 32);
    memcpy(body + 72, terms, size);
    assert_frame(frame, wire_welcome_encode(welcome, frame), HEAD(72 + size, 2), body, 72 + size);
}

TEST(a_welcome_has_the_documented_bytes)
{
    wire_welcome welcome = {.version = 0x0102, .worker = 3, .plan_bytes = 9, .job_bytes = 10};
    memset(welcome.job, 'j', 16), memset(welcome.plan, 'p', 32);
    tarry_server_settings_init(&welcome.terms.server);
    welcome.terms.workers = 4;
    welcome.terms.server.dimension = 6;
#define FIRST "\x07workers\4\0\4\0\0\0"
#define DIMENSION                                                                                  \
    "\x09"                                                                                         \
    "dimension\x8\0\6\0\0\0\0\0\0\0"
    assert_welcome(&welcome, TERMS(FIRST DIMENSION));
    welcome.terms.parameters = 5;
    welcome.terms.ships = true;
    welcome.terms.server.keep = TARRY_KEEP_CREDITED;
    welcome.terms.server.conditioning_limit = 2;
    welcome.terms.server.compress = TARRY_COMPRESS_INT8;
    welcome.terms.server.compress_exact = 13;
    welcome.terms.server.pick = TARRY_PICK_SHARE; /* is not told */
#define PARAMETERS "\x0aparameters\x8\0\5\0\0\0\0\0\0\0"
#define SHIPS "\5ships\1\0\1"
#define KEEP "\4keep\x8\0credited"
#define LIMIT                                                                                      \
    "\x12"                                                                                         \
    "conditioning_limit\x8\0\0\0\0\0\0\0\0\x40"
#define INT8                                                                                       \
    "\x08"                                                                                         \
    "compress\4\0int8"
#define EXACT                                                                                      \
    "\x0e"                                                                                         \
    "compress_exact\4\0\x0d\0\0\0"
    assert_welcome(&welcome, TERMS(FIRST PARAMETERS SHIPS DIMENSION KEEP LIMIT INT8 EXACT));
    welcome.terms.server.compress = TARRY_COMPRESS_POWERSGD;
    welcome.terms.server.compress_rank = 3;
    welcome.terms.matrices = (run_matrices){.count = 2, .shapes = {{0x21, 0x22}, {0x23, 0x24}}};
#define POWERSGD                                                                                   \
    "\x08"                                                                                         \
    "compress\x8\0powersgd"
#define RANK                                                                                       \
    "\x0d"                                                                                         \
    "compress_rank\4\0\3\0\0\0"
#define MATRICES                                                                                   \
    "\x11"                                                                                         \
    "compress_matrices\x10\0\x21\0\0\0\x22\0\0\0\x23\0\0\0\x24\0\0\0"
    assert_welcome(&welcome,
                   TERMS(FIRST PARAMETERS SHIPS DIMENSION KEEP LIMIT POWERSGD EXACT RANK MATRICES));
    wire_welcome secure = {.version = 0x0102, .worker = 3, .plan_bytes = 9, .job_bytes = 10};
    memset(secure.job, 'j', 16), memset(secure.plan, 'p', 32);
    tarry_server_settings_init(&secure.terms.server);
    secure.terms.workers = 4;
    secure.terms.server.dimension = 6;
    secure.terms.server.secure = 64;
    secure.terms.secure = (tarry_secure_rules){
        .bits = 64, .fraction = -2, .bound = 1, .colluders = 3, .least = 4, .roster = "roster"};
    assert_welcome(&secure,
                   TERMS(FIRST DIMENSION "\6secure\4\0\x40\0\0\0"
                                         "\x0fsecure_fraction\4\0\xfe\xff\xff\xff"
                                         "\x0csecure_bound\x8\0\0\0\0\0\0\0\xf0\x3f"
                                         "\x10secure_colluders\4\0\3\0\0\0"
                                         "\x0csecure_least\x8\0\4\0\0\0\0\0\0\0"
                                         "\x0dsecure_roster\x20\0roster\0\0\0\0\0\0\0\0\0\0\0\0\0"
                                         "\0\0\0\0\0\0\0\0\0\0\0\0\0"));
}

/* Its head counts what follows elsewhere. */
TEST(a_message_has_the_documented_head)
{
    uint8_t frame[WIRE_HEAD_BYTES];
    wire_message_head(24, 0, frame);
    assert_memory_equal(frame, HEAD(24, 6), WIRE_HEAD_BYTES);
    wire_message_head(24, 400, frame);
    assert_memory_equal(frame, HEAD(424, 6), WIRE_HEAD_BYTES);
}

static bool is_free(unsigned kind)
{
    return kind == 11 || kind == 19 || kind == 20;
}

TEST(heads_are_held_to_the_limits_of_their_kind)
{
    static const uint32_t least[WIRE_KINDS] = {0,  10, 72, 3,  0,  1,  24, 20, 24, 8,  76, 0,
                                               70, 2,  44, 10, 40, 37, 48, 0,  0,  32, 50, 5};
    for (unsigned kind = 0; kind < 256; kind++) {
        bool known = kind >= WIRE_HELLO && kind < WIRE_KINDS && !is_free(kind);
        uint32_t lowest = known ? least[kind] : 0;
        uint32_t most = known ? wire_most_length((wire_kind)kind) : 0;
        const uint32_t lengths[] = {lowest, most, lowest - 1, most + 1, UINT32_MAX};
        for (unsigned i = 0; i < 5; i++) {
            wire_head head = {.length = 77};
            uint8_t bytes[WIRE_HEAD_BYTES] = {[4] = (uint8_t)kind};
            bytes_put(bytes, lengths[i], 4);
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
    const wire_kind large[] = {WIRE_MESSAGE, WIRE_PARAMETERS, WIRE_BLOB,  WIRE_STATUS,
                               WIRE_BLOCK,   WIRE_PASS,       WIRE_BATCH, WIRE_VIEW,
                               WIRE_KEY,     WIRE_WELCOME,    WIRE_SAY};
    for (unsigned kind = WIRE_HELLO; kind < WIRE_KINDS; kind++) {
        if (is_free(kind))
            continue;
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

TEST(numbers_stand_behind_the_fixed_part)
{
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
    assert_int_equal(fixed_of(WIRE_PASS, 4096, 6), 48);
    assert_int_equal(fixed_of(WIRE_SAY, 4096, 1), 4);
    assert_int_equal(fixed_of(WIRE_HELLO, 97, TARRY_MESSAGE_PART), 97);
    assert_int_equal(fixed_of(WIRE_HEARTBEAT, 0, 0), 0);
}

TEST(reasons_have_words)
{
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
