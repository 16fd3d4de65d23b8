/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes.h"
#include "base/random.h"
#include "protocol/wire/wire.h"
#include "seed.h"
#include "test.h"

enum { MOST_FRAME = WIRE_HEAD_BYTES + WIRE_WELCOME_BYTES, NUMBER_BYTES = 4 };

typedef union any_body {
    wire_hello hello;
    wire_welcome welcome;
    wire_refused refused;
    wire_bye bye;
    wire_parameters parameters;
    view_piece view;
    wire_blob blob;
    wire_fetch fetch;
    wire_ready ready;
} any_body;

/* The kinds whose body is a structure. */
static const wire_kind kinds[] = {
    WIRE_HELLO, WIRE_WELCOME, WIRE_REFUSED, WIRE_BYE,  WIRE_PARAMETERS,
    WIRE_BLOB,  WIRE_FETCH,   WIRE_READY,   WIRE_VIEW,
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static size_t encode(wire_kind kind, const any_body *any, uint8_t *frame)
{
    return kind == WIRE_WELCOME ? wire_welcome_encode(&any->welcome, frame)
                                : wire_encode(kind, any, frame);
}

static int decode_body(const wire_head *head, const uint8_t *body, any_body *any)
{
    return head->kind == WIRE_WELCOME ? wire_welcome_decode(head, body, &any->welcome, NULL)
                                      : wire_decode(head, body, any);
}

/* As a receiver does: the head, then the fixed part, in a block of its very size, so that the
 * sanitizer sees a step beyond it. `any` is untouched if it is refused. */
static int decode(const uint8_t *frame, any_body *any)
{
    wire_head head;
    if (wire_head_decode(frame, &head) != TARRY_OK)
        return TARRY_ERROR_FORMAT;
    size_t fixed = wire_fixed_length(&head, frame[WIRE_HEAD_BYTES]);
    assert_in_range(fixed, 0, head.length);
    OWNED(uint8_t) exact = checked_malloc(fixed > 0 ? fixed : 1);
    memcpy(exact, frame + WIRE_HEAD_BYTES, fixed);
    any_body before;
    memcpy(&before, any, sizeof(before));
    int error = decode_body(&head, exact, any);
    if (error != TARRY_OK) {
        assert_int_equal(error, TARRY_ERROR_FORMAT);
        assert_memory_equal(any, &before, sizeof(before));
    }
    return error;
}

static void draw_bytes(random_stream *stream, uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)random_u32(stream);
}

/* Printable; of every length, the longest too. */
static void draw_text(random_stream *stream, char *text, uint32_t least)
{
    uint32_t size = least + random_below(stream, WIRE_TEXT_BYTES + 1 - least);
    for (uint32_t i = 0; i < size; i++)
        text[i] = (char)(' ' + random_below(stream, 95));
    text[size] = 0;
}

static uint64_t draw_up_to(random_stream *stream, uint64_t most)
{
    return random_below(stream, 8) == 0 ? most : random_u64(stream) % most;
}

static void draw_rack(random_stream *stream, wire_rack rack)
{
    memset(rack, 0, sizeof(wire_rack));
    for (uint32_t i = random_below(stream, TARRY_RACK_BYTES + 1); i > 0; i--)
        rack[i - 1] = (char)('!' + random_below(stream, '~' - '!' + 1));
}

static void draw_hello(random_stream *stream, wire_hello *hello)
{
    hello->oldest = hello->newest = WIRE_VERSION;
    hello->role = (wire_role)random_below(stream, WIRE_ROLES);
    hello->ranking = (uint8_t)random_below(stream, 256);
    hello->worker = random_u32(stream);
    draw_bytes(stream, hello->instance, WIRE_ID_BYTES);
    draw_bytes(stream, hello->job, WIRE_ID_BYTES);
    draw_bytes(stream, hello->plan, WIRE_DIGEST_BYTES);
    draw_rack(stream, hello->rack);
}

static void draw_terms(random_stream *stream, run_terms *terms)
{
    tarry_server_settings server;
    tarry_server_settings_init(&server);
    server.dimension = 1 + draw_up_to(stream, WIRE_VECTOR_MOST - 1);
    server.stripe_length = 1 + draw_up_to(stream, WIRE_NUMBERS_MOST - 1);
    server.keep = (tarry_keep)random_below(stream, 2);
    server.ahead = random_u32(stream);
    server.fill = (tarry_fill)random_below(stream, 3);
    server.sum = (tarry_sum_place)random_below(stream, 2);
    server.compress = (tarry_compress)random_below(
        stream, server.sum == TARRY_SUM_EVERYWHERE ? TARRY_COMPRESS_INT8 + 1 : TARRY_COMPRESSES);
    server.compress_down = (tarry_compress)random_below(stream, TARRY_COMPRESS_INT8 + 1);
    server.compress_seed = random_u64(stream);
    server.compress_exact = random_u32(stream);
    server.compress_share = 1 + random_below(stream, TARRY_COMPRESS_SHARE_MOST);
    server.compress_rank = 1 + random_below(stream, TARRY_COMPRESS_RANK_MOST);
    server.conditioning_limit = 1 / random_uniform(stream);
    server.silence_ns = 1 + draw_up_to(stream, TARRY_NEVER - 1);
    server.secure = 32 * random_below(stream, 3);
    run_terms_set(terms, &server);
    terms->workers = 1 + random_below(stream, 1000);
    terms->parameters = draw_up_to(stream, WIRE_VECTOR_MOST);
    terms->ships = random_below(stream, 2) == 1;
    terms->secure.fraction = (int32_t)random_below(stream, 253) - 126;
    terms->secure.bound = 1 / random_uniform(stream);
    terms->secure.colluders = random_u32(stream);
    terms->secure.least = random_u64(stream);
    draw_bytes(stream, terms->secure.roster, WIRE_DIGEST_BYTES);
    terms->matrices.count =
        random_below(stream, 8) == 0 ? TARRY_COMPRESS_MATRICES_MOST : random_below(stream, 5);
    for (uint32_t i = 0; i < terms->matrices.count; i++)
        terms->matrices.shapes[i] = (tarry_matrix){1 + random_below(stream, UINT32_MAX - 1),
                                                   1 + random_below(stream, UINT32_MAX - 1)};
}

static void draw_welcome(random_stream *stream, wire_welcome *welcome)
{
    welcome->version = WIRE_VERSION;
    draw_terms(stream, &welcome->terms);
    welcome->worker = random_below(stream, 4) == 0 ? WIRE_ANY_WORKER
                                                   : random_below(stream, welcome->terms.workers);
    draw_bytes(stream, welcome->job, WIRE_ID_BYTES);
    draw_bytes(stream, welcome->plan, WIRE_DIGEST_BYTES);
    welcome->plan_bytes = draw_up_to(stream, WIRE_BLOB_MOST);
    welcome->job_bytes = draw_up_to(stream, WIRE_BLOB_MOST);
}

static void draw_blob(random_stream *stream, wire_blob *blob)
{
    blob->kind = (wire_blob_kind)(1 + random_below(stream, WIRE_BLOBS - 1));
    blob->index = blob->kind == WIRE_BLOB_DATA ? random_u32(stream) : 0;
    if (random_below(stream, 8) == 0)
        return; /* an empty one */
    blob->count = 1 + draw_up_to(stream, WIRE_BLOB_BYTES - 1);
    blob->first = draw_up_to(stream, WIRE_BLOB_MOST - blob->count);
    blob->total = blob->first + blob->count;
    blob->total += draw_up_to(stream, WIRE_BLOB_MOST - blob->total + 1) / 2;
}

static void draw_view(random_stream *stream, view_piece *piece)
{
    piece->round = random_u64(stream) / 2;
    piece->stamp = 1 + draw_up_to(stream, piece->round);
    piece->digest = random_u64(stream);
    piece->first = draw_up_to(stream, WIRE_VECTOR_MOST);
    piece->count = 1 + random_below(stream, WIRE_VIEW_NUMBERS);
    if (random_below(stream, 2) == 0)
        return; /* the view itself */
    piece->stamp += piece->stamp == 1;
    piece->round += piece->stamp;
    piece->base = 1 + draw_up_to(stream, piece->stamp - 2);
    piece->form = random_below(stream, 2) == 0 ? TARRY_COMPRESS_BF16 : TARRY_COMPRESS_INT8;
}

static void draw(random_stream *stream, wire_kind kind, any_body *any)
{
    memset(any, 0, sizeof(*any));
    switch (kind) {
    case WIRE_HELLO:
        draw_hello(stream, &any->hello);
        break;
    case WIRE_WELCOME:
        draw_welcome(stream, &any->welcome);
        break;
    case WIRE_REFUSED:
        any->refused.reason = (wire_reason)(1 + random_below(stream, WIRE_REASONS - 1));
        draw_text(stream, any->refused.text, 0);
        break;
    case WIRE_BYE:
        any->bye = (wire_bye)(1 + random_below(stream, WIRE_BYES - 1));
        break;
    case WIRE_PARAMETERS:
        any->parameters.round = random_u64(stream);
        any->parameters.count = 1 + draw_up_to(stream, WIRE_NUMBERS_MOST - 1);
        any->parameters.first = draw_up_to(stream, WIRE_VECTOR_MOST - any->parameters.count);
        break;
    case WIRE_VIEW:
        draw_view(stream, &any->view);
        break;
    case WIRE_BLOB:
        draw_blob(stream, &any->blob);
        break;
    case WIRE_FETCH:
        any->fetch.kind = (wire_blob_kind)(1 + random_below(stream, WIRE_BLOBS - 1));
        any->fetch.index = any->fetch.kind == WIRE_BLOB_DATA ? random_u32(stream) : 0;
        break;
    case WIRE_READY:
        draw_bytes(stream, any->ready.plan, WIRE_DIGEST_BYTES);
        draw_bytes(stream, any->ready.data, WIRE_DIGEST_BYTES);
        any->ready.numerics = random_u64(stream);
        any->ready.size = (uint16_t)draw_up_to(stream, WIRE_ENGINE_BYTES);
        draw_bytes(stream, any->ready.address, any->ready.size);
        break;
    default:
        abort();
    }
}

/* The bytes hold every field (test_wire.c), so what is encoded to the same bytes has
 * been read to the last field. */
TEST(every_body_survives_the_wire)
{
    random_stream stream = random_stream_make(test_seed("wire", 1), RANDOM_TEST, 0, 0);
    for (uint32_t run = 0; run < 20000; run++) {
        wire_kind kind = kinds[run % KINDS];
        any_body sent, read;
        draw(&stream, kind, &sent);
        uint8_t frame[MOST_FRAME + 1], again[MOST_FRAME + 1];
        memset(frame, 0xa5, sizeof(frame));
        memset(again, 0xa5, sizeof(again));
        size_t size = encode(kind, &sent, frame);
        assert_in_range(size, WIRE_HEAD_BYTES, MOST_FRAME);
        assert_int_equal(frame[size], 0xa5);
        assert_int_equal(frame[4], kind);
        memset(&read, 0x5a, sizeof(read));
        assert_ok(decode(frame, &read));
        assert_int_equal(encode(kind, &read, again), size);
        assert_memory_equal(again, frame, sizeof(frame));
    }
}

/* Either refused, or what it says is these bytes; a text may have '?' in it instead. */
static bool is_faithful(wire_kind kind, const uint8_t *frame, size_t size)
{
    any_body read = {0};
    if (decode(frame, &read) != TARRY_OK)
        return true;
    if (kind == WIRE_HELLO &&
        (read.hello.newest > WIRE_VERSION || read.hello.newest < WIRE_VERSION))
        return true;
    uint8_t again[MOST_FRAME];
    if (encode(kind, &read, again) != size)
        return false;
    for (size_t i = 0; i < size; i++)
        if (again[i] != frame[i] && !(kind == WIRE_REFUSED && i >= 11 && again[i] == '?'))
            return false;
    return true;
}

/* Whether a body that says `size` bytes could have any other length. */
static bool has_length(wire_kind kind, uint32_t length, uint32_t whole)
{
    if (kind == WIRE_PARAMETERS)
        return length > 16 && (length - 16) % NUMBER_BYTES == 0;
    if (kind == WIRE_READY) /* any address */
        return length >= 76 && length <= 76 + WIRE_ENGINE_BYTES;
    return length == whole;
}

TEST(truncated_and_lengthened_frames_are_refused)
{
    random_stream stream = random_stream_make(test_seed("wire lengths", 2), RANDOM_TEST, 0, 0);
    for (uint32_t run = 0; run < 20 * KINDS; run++) {
        wire_kind kind = kinds[run % KINDS];
        any_body sent, read = {0};
        draw(&stream, kind, &sent);
        if (kind == WIRE_PARAMETERS)
            sent.parameters.first = 0;
        uint8_t frame[MOST_FRAME + 64] = {0};
        encode(kind, &sent, frame);
        wire_head head;
        assert_ok(wire_head_decode(frame, &head));
        for (uint32_t length = 0; length < WIRE_SMALL_BYTES; length++) {
            bytes_put(frame, length, 4);
            /* Where bytes of a blob follow, others may as well, as long as the blob has them. */
            bool fits = kind == WIRE_BLOB && length >= 24
                            ? sent.blob.first + (length - 24) <= sent.blob.total &&
                                  (length > 24 || sent.blob.total == 0)
                            : has_length(kind, length, head.length);
            if (kind == WIRE_WELCOME && decode(frame, &read) == TARRY_OK)
                fits = is_faithful(kind, frame, WIRE_HEAD_BYTES + length);
            assert_int_equal(decode(frame, &read), fits ? TARRY_OK : TARRY_ERROR_FORMAT);
        }
    }
}

TEST(every_changed_byte_is_refused_or_read_faithfully)
{
    random_stream stream = random_stream_make(test_seed("wire bytes", 3), RANDOM_TEST, 0, 0);
    for (uint32_t run = 0; run < 4 * KINDS; run++) {
        wire_kind kind = kinds[run % KINDS];
        any_body sent;
        draw(&stream, kind, &sent);
        uint8_t frame[MOST_FRAME] = {0};
        size_t size = encode(kind, &sent, frame);
        for (size_t at = WIRE_HEAD_BYTES; at < size; at++) {
            uint8_t whole = frame[at];
            for (unsigned byte = 0; byte < 256; byte++) {
                frame[at] = (uint8_t)byte;
                assert_true(is_faithful(kind, frame, size));
            }
            frame[at] = whole;
        }
    }
}

/* One byte of a body, and the values of it that are not refused; all else is as it was drawn. */
static const struct {
    wire_kind kind;
    unsigned at, least, most;
} bounded[] = {
    {WIRE_HELLO, 0, 'T', 'T'}, {WIRE_HELLO, 5, 0, 0},       {WIRE_HELLO, 10, 0, 2},
    {WIRE_HELLO, 11, 0, 255},  {WIRE_WELCOME, 0, 13, 13},   {WIRE_WELCOME, 1, 0, 0},
    {WIRE_WELCOME, 2, 0, 0},   {WIRE_WELCOME, 3, 0, 0},     {WIRE_WELCOME, 63, 0, 0},
    {WIRE_WELCOME, 71, 0, 0},  {WIRE_REFUSED, 0, 1, 12},    {WIRE_REFUSED, 1, 0, 0},
    {WIRE_BYE, 0, 1, 3},       {WIRE_PARAMETERS, 15, 0, 0}, {WIRE_BLOB, 1, 0, 0},
    {WIRE_BLOB, 3, 0, 0},      {WIRE_BLOB, 15, 0, 0},       {WIRE_FETCH, 1, 0, 0},
    {WIRE_FETCH, 3, 0, 0},     {WIRE_VIEW, 45, 0, 0},       {WIRE_VIEW, 47, 0, 0},
};

TEST(what_is_out_of_range_is_refused)
{
    random_stream stream = random_stream_make(test_seed("wire ranges", 4), RANDOM_TEST, 0, 0);
    for (size_t i = 0; i < sizeof(bounded) / sizeof(bounded[0]); i++) {
        any_body sent, read = {0};
        draw(&stream, bounded[i].kind, &sent);
        uint8_t frame[MOST_FRAME];
        encode(bounded[i].kind, &sent, frame);
        for (unsigned byte = 0; byte < 256; byte++) {
            frame[WIRE_HEAD_BYTES + bounded[i].at] = (uint8_t)byte;
            bool allowed = byte >= bounded[i].least && byte <= bounded[i].most;
            assert_int_equal(decode(frame, &read), allowed ? TARRY_OK : TARRY_ERROR_FORMAT);
        }
    }
}

TEST(a_view_that_cannot_be_is_refused)
{
    const struct {
        view_piece view;
        bool good;
    } cases[] = {
        {{.round = 4, .stamp = 5, .count = 9}, true},
        {{.round = 4, .stamp = 5, .base = 4, .count = 9, .form = TARRY_COMPRESS_INT8}, true},
        {{.round = 4, .stamp = 3, .base = 2, .count = 9, .form = TARRY_COMPRESS_BF16}, true},
        {{.round = 4, .stamp = 6, .count = 9}, false},
        {{.round = 4, .stamp = 0, .count = 9}, false},
        {{.round = 4, .stamp = 5, .base = 5, .count = 9, .form = TARRY_COMPRESS_INT8}, false},
        {{.round = 4, .stamp = 5, .base = 4, .count = 9}, false},
        {{.round = 4, .stamp = 5, .count = 9, .form = TARRY_COMPRESS_INT8}, false},
        {{.round = 4, .stamp = 5, .base = 4, .count = 9, .form = TARRY_COMPRESS_INT4}, false},
        {{.round = UINT64_MAX, .stamp = 5, .count = 9}, false},
        {{.round = 4, .stamp = 5, .first = WIRE_VECTOR_MOST + 1, .count = 9}, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t frame[MOST_FRAME];
        any_body read = {0};
        wire_encode(WIRE_VIEW, &cases[i].view, frame);
        if (decode(frame, &read) != (cases[i].good ? TARRY_OK : TARRY_ERROR_FORMAT))
            fail_msg("case %zu", i);
    }
}

static void assert_welcome(const wire_welcome *welcome, int error)
{
    uint8_t frame[MOST_FRAME];
    any_body read = {0};
    wire_welcome_encode(welcome, frame);
    assert_int_equal(decode(frame, &read), error);
}

/* It is refused, and the words name the setting. */
static void assert_welcome_names(const wire_welcome *welcome, const char *words)
{
    uint8_t frame[MOST_FRAME];
    wire_head head;
    wire_welcome read;
    tarry_diagnostic why;
    wire_welcome_encode(welcome, frame);
    assert_ok(wire_head_decode(frame, &head));
    assert_int_equal(wire_welcome_decode(&head, frame + WIRE_HEAD_BYTES, &read, &why),
                     TARRY_ERROR_FORMAT);
    assert_string_equal(why.text, words);
}

/* What the table of terms does not say by itself (test_terms.c). */
TEST(a_job_that_cannot_be_is_refused)
{
    wire_welcome good = {.version = WIRE_VERSION, .worker = 3};
    tarry_server_settings server;
    tarry_server_settings_init(&server);
    server.dimension = 1;
    run_terms_set(&good.terms, &server);
    good.terms.workers = 4;
    assert_welcome(&good, TARRY_OK);
    wire_welcome wrong = good;
    wrong.worker = 4;
    assert_welcome(&wrong, TARRY_ERROR_FORMAT);
    wrong = good;
    wrong.terms.workers = 0;
    wrong.worker = WIRE_ANY_WORKER;
    assert_welcome(&wrong, TARRY_ERROR_FORMAT);
    wrong = good;
    wrong.terms.server.stripe_length = WIRE_NUMBERS_MOST + 1;
    assert_welcome_names(
        &wrong, "the server's settings: stripe_length must be at most 4194304, not 4194305");
    wrong = good;
    wrong.terms.server.compress = TARRY_COMPRESS_INT8;
    wrong.terms.server.sum = TARRY_SUM_EVERYWHERE;
    assert_welcome(&wrong, TARRY_OK);
    wrong.terms.server.compress = TARRY_COMPRESS_INT4;
    assert_welcome_names(&wrong,
                         "the server's settings: with sum everywhere compress must be none, "
                         "bf16 or int8");
    wrong.terms.server.sum = TARRY_SUM_SERVER;
    assert_welcome(&wrong, TARRY_OK);
}

static void assert_blob(wire_blob blob, int error)
{
    uint8_t frame[MOST_FRAME];
    any_body read = {0};
    wire_encode(WIRE_BLOB, &blob, frame);
    assert_int_equal(decode(frame, &read), error);
}

TEST(a_blob_has_its_bytes_within_it)
{
    assert_blob((wire_blob){WIRE_BLOB_PLAN, 0, 10, 4, 6}, TARRY_OK);
    assert_blob((wire_blob){WIRE_BLOB_PLAN, 0, 10, 5, 6}, TARRY_ERROR_FORMAT);
    assert_blob((wire_blob){WIRE_BLOB_PLAN, 0, 10, UINT64_MAX - 2, 6}, TARRY_ERROR_FORMAT);
    assert_blob((wire_blob){WIRE_BLOB_PLAN, 0, 10, 4, 0}, TARRY_ERROR_FORMAT);
    assert_blob((wire_blob){WIRE_BLOB_PLAN, 0, 0, 0, 0}, TARRY_OK);
    assert_blob((wire_blob){WIRE_BLOB_PLAN, 0, 0, 1, 0}, TARRY_ERROR_FORMAT);
    assert_blob((wire_blob){WIRE_BLOB_JOB, 1, 10, 4, 6}, TARRY_ERROR_FORMAT);
    assert_blob((wire_blob){WIRE_BLOB_PLAN, 1, 10, 4, 6}, TARRY_OK); /* its turn */
    assert_blob((wire_blob){WIRE_BLOB_DATA, 1, 10, 4, 6}, TARRY_OK);
    assert_blob((wire_blob){WIRE_BLOBS, 0, 10, 4, 6}, TARRY_ERROR_FORMAT);
    assert_blob((wire_blob){WIRE_BLOB_JOB, 0, WIRE_BLOB_MOST + 1, 4, 6}, TARRY_ERROR_FORMAT);
}

static int decode_hello(uint16_t oldest, uint16_t newest, uint32_t length, wire_hello *hello)
{
    wire_hello sent = {.oldest = oldest, .newest = newest, .role = WIRE_ROLE_VIEWER, .worker = 7};
    uint8_t frame[MOST_FRAME] = {0};
    wire_encode(WIRE_HELLO, &sent, frame);
    bytes_put(frame, length, 4);
    any_body read = {0};
    int error = decode(frame, &read);
    *hello = read.hello;
    return error;
}

/* A newer or older peer is understood as far as it takes to speak with it, or to tell it why not.
 */
TEST(versions_are_read_from_any_hello)
{
    const uint16_t now = WIRE_VERSION, next = now + 1;
    wire_hello hello;
    assert_int_equal(decode_hello(now, now, 82, &hello), TARRY_ERROR_FORMAT);
    assert_ok(decode_hello(1, next, 82, &hello));
    assert_int_equal(hello.newest, next);
    assert_int_equal(hello.role, WIRE_ROLE_VIEWER);
    assert_int_equal(hello.worker, 7);
    assert_int_equal(decode_hello(1, next, 80, &hello), TARRY_ERROR_FORMAT);
    assert_ok(decode_hello(next, next + 1, 10, &hello));
    assert_int_equal(hello.oldest, next);
    assert_int_equal(hello.worker, 0);
    assert_ok(decode_hello(now, next, WIRE_SMALL_BYTES, &hello));
    assert_int_equal(decode_hello(now, next, 9, &hello), TARRY_ERROR_FORMAT);
    assert_int_equal(decode_hello(now, now - 1, 81, &hello), TARRY_ERROR_FORMAT);
    assert_int_equal(decode_hello(0, 1, 81, &hello), TARRY_ERROR_FORMAT);
    assert_ok(decode_hello(1, 1, 80, &hello)); /* before there were racks */
    assert_int_equal(hello.newest, 1);
    assert_int_equal(hello.worker, 0);
}

/* A rack's name is 0 to 63 printable bytes without blanks. */
TEST(racks_are_held_to_their_letters)
{
    wire_hello sent = {.oldest = WIRE_VERSION, .newest = WIRE_VERSION};
    for (unsigned byte = 0; byte < 256; byte++) {
        uint8_t frame[MOST_FRAME] = {0};
        memcpy(sent.rack, "abc", 4);
        wire_encode(WIRE_HELLO, &sent, frame);
        frame[WIRE_HEAD_BYTES + 82] = (uint8_t)byte;
        any_body read = {0};
        bool good = byte >= '!' && byte <= '~';
        assert_int_equal(decode(frame, &read), good ? TARRY_OK : TARRY_ERROR_FORMAT);
    }
    for (uint32_t length = 0; length < 256; length++) {
        uint8_t frame[MOST_FRAME] = {0};
        memset(sent.rack, 0, sizeof(sent.rack));
        wire_encode(WIRE_HELLO, &sent, frame);
        frame[WIRE_HEAD_BYTES + 80] = (uint8_t)length;
        memset(frame + WIRE_HEAD_BYTES + 81, 'x', length);
        bytes_put(frame, 81 + length, 4);
        any_body read = {0};
        assert_int_equal(decode(frame, &read),
                         length <= TARRY_RACK_BYTES ? TARRY_OK : TARRY_ERROR_FORMAT);
        assert_true(length > TARRY_RACK_BYTES || strlen(read.hello.rack) == length);
    }
}

TEST(texts_move_no_cursor)
{
    uint8_t frame[MOST_FRAME] = {0};
    wire_refused sent = {.reason = WIRE_REFUSED_FULL, .text = "a\x1b[2J\n\x7f\xc3\xa9~"};
    any_body read = {0};
    size_t size = wire_encode(WIRE_REFUSED, &sent, frame);
    assert_ok(decode(frame, &read));
    assert_string_equal(read.refused.text, "a?[2J????~");
    frame[WIRE_HEAD_BYTES + 3] = 0;
    assert_ok(decode(frame, &read));
    assert_string_equal(read.refused.text, "??[2J????~");
    frame[WIRE_HEAD_BYTES + 2]++;
    assert_int_equal(decode(frame, &read), TARRY_ERROR_FORMAT);
    bytes_put(frame, (uint32_t)(size - WIRE_HEAD_BYTES + 1), 4);
    assert_ok(decode(frame, &read));
}
