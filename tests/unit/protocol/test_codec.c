/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/bitset.h"
#include "base/random.h"
#include "edge_plan.h"
#include "protocol/wire/codec.h"
#include "seed.h"
#include "test.h"

enum {
    MAX_BITS = 200,
    MAX_WORDS = 400,
    MAX_FRAME = 2900,
    MAX_CHUNKS = 200,
    TYPES = TARRY_MESSAGE_TYPES
};

typedef struct sample {
    tarry_message message;
    uint64_t psi[4], stripes[4], first[4], barred[4], recalled[4], stale[4], group[4];
    uint32_t stood[MAX_BITS], holders[MAX_CHUNKS], lives[MAX_BITS];
    float weights[MAX_BITS];
} sample;

static void fill(random_stream *stream, uint64_t *set)
{
    for (size_t word = 0; word < 4; word++)
        set[word] = random_u64(stream);
}

static tarry_sum_id draw_sum(random_stream *stream)
{
    return (tarry_sum_id){
        .step = 1 + random_u64(stream) / 2,
        .term = random_u32(stream),
        .attempt = random_u32(stream),
        .digest = random_u64(stream),
    };
}

/* Of each position: as many as there are at most, of which the shape says how many are sent. */
static void draw_weights(random_stream *stream, sample *drawn)
{
    for (uint32_t slot = 0; slot < MAX_BITS; slot++)
        drawn->weights[slot] =
            random_below(stream, 2) == 1 ? (float)(1 / random_uniform(stream)) : 0;
    drawn->message.weights = random_below(stream, 2) == 1 ? drawn->weights : NULL;
}

/* Bits beyond the sets' sizes are set too: they must not be sent. */
static void draw(random_stream *stream, tarry_message_type type, sample *drawn)
{
    *drawn = (sample){.message = {
                          .type = type,
                          .round = random_u64(stream),
                          .epoch = random_u32(stream),
                      }};
    if (type == TARRY_MESSAGE_REPORT)
        drawn->message.failed = random_below(stream, 2) == 1;
    if (type == TARRY_MESSAGE_REPORT || type == TARRY_MESSAGE_ALIVE) {
        drawn->message.next = random_u32(stream);
    } else {
        drawn->message.attempt = random_u32(stream);
    }
    if (type != TARRY_MESSAGE_SIGNAL && type != TARRY_MESSAGE_PROBE &&
        type != TARRY_MESSAGE_FINISH && type != TARRY_MESSAGE_PART && type < TARRY_MESSAGE_ASK)
        drawn->message.sequence = (uint16_t)random_u32(stream);
    if (type == TARRY_MESSAGE_PART)
        drawn->message.stripe = random_u32(stream);
    else if (type < TARRY_MESSAGE_ASK)
        drawn->message.slot = random_u32(stream);
    drawn->message.form = (tarry_compress)random_below(stream, TARRY_COMPRESSES);
    drawn->message.fate = (tarry_fate)random_below(stream, 3);
    drawn->message.term = random_below(stream, 2) == 1 ? random_u32(stream) : 0;
    fill(stream, drawn->psi);
    fill(stream, drawn->stripes);
    fill(stream, drawn->first);
    fill(stream, drawn->barred);
    fill(stream, drawn->recalled);
    fill(stream, drawn->stale);
    fill(stream, drawn->group);
    drawn->message.sum = draw_sum(stream);
    drawn->message.last = draw_sum(stream);
    drawn->message.state = random_u64(stream);
    drawn->message.scale = 1 / random_uniform(stream);
    drawn->message.from = random_u32(stream);
    drawn->message.fetched = random_below(stream, 2) == 1;
    drawn->message.digests = random_below(stream, 2) == 1;
    drawn->message.group = random_below(stream, 2) == 1 ? drawn->group : NULL;
    drawn->message.psi = drawn->psi;
    drawn->message.stripes = drawn->stripes;
    drawn->message.first = random_below(stream, 2) == 1 ? drawn->first : NULL;
    drawn->message.barred = random_below(stream, 2) == 1 ? drawn->barred : NULL;
    drawn->message.recalled = random_below(stream, 2) == 1 ? drawn->recalled : NULL;
    drawn->message.stale = random_below(stream, 2) == 1 ? drawn->stale : NULL;
    for (size_t stripe = 0; stripe < MAX_BITS; stripe++)
        drawn->stood[stripe] = random_u32(stream);
    drawn->message.stood = random_below(stream, 2) == 1 ? drawn->stood : NULL;
    drawn->message.life = random_u32(stream);
    draw_weights(stream, drawn);
}

/* A signal of secure sums, in a shape that has room for it: it says little else. */
static void make_secure(random_stream *stream, const codec_shape *shape, sample *drawn)
{
    tarry_message *message = &drawn->message;
    if (message->type != TARRY_MESSAGE_SIGNAL || shape->chunks == 0 || random_below(stream, 2) == 0)
        return;
    for (size_t i = 0; i < MAX_CHUNKS; i++)
        drawn->holders[i] = random_u32(stream);
    for (size_t i = 0; i < MAX_BITS; i++)
        drawn->lives[i] = random_u32(stream);
    message->holders = drawn->holders;
    message->lives = drawn->lives;
    message->group = message->stale = NULL;
}

static codec_shape draw_shape(random_stream *stream)
{
    return (codec_shape){
        .psi_bits = random_below(stream, MAX_BITS),
        .stripes = 1 + random_below(stream, MAX_BITS - 1),
        .slots = random_below(stream, MAX_BITS),
        .workers = 1 + random_below(stream, MAX_BITS - 1),
        .chunks = random_below(stream, 2) * (1 + random_below(stream, MAX_CHUNKS)),
    };
}

static void assert_same_bits(const uint64_t *read, const uint64_t *sent, size_t bits)
{
    for (size_t bit = 0; bit < 64 * bitset_words(bits); bit++)
        assert_int_equal(bitset_test(read, bit), bit < bits && bitset_test(sent, bit));
}

/* NULL is read as NULL. */
static void assert_same_set(const uint64_t *read, const uint64_t *sent, size_t bits)
{
    assert_int_equal(read == NULL, sent == NULL);
    if (sent != NULL)
        assert_same_bits(read, sent, bits);
}

static void assert_same_sum(const tarry_sum_id *read, const tarry_sum_id *sent, bool there,
                            bool digest)
{
    assert_true(read->step == (there ? sent->step : 0));
    assert_int_equal(read->term, there ? sent->term : 0);
    assert_int_equal(read->attempt, there ? sent->attempt : 0);
    assert_true(read->digest == (digest ? sent->digest : 0));
}

static void assert_same_vote(const tarry_message *read, const tarry_message *sent,
                             const codec_shape *shape)
{
    tarry_message_type type = sent->type;
    bool group = type == TARRY_MESSAGE_SIGNAL && sent->group != NULL;
    bool sum = type > TARRY_MESSAGE_ASK, state = type == TARRY_MESSAGE_STATE;
    assert_same_set(read->group, group ? sent->group : NULL, shape->workers);
    assert_true(read->scale == (group ? sent->scale : 0));
    assert_same_sum(&read->sum, &sent->sum, sum || group, sum);
    assert_same_sum(&read->last, &sent->last, state, state);
    assert_true(read->state == (state ? sent->state : 0));
    assert_int_equal(read->from, type >= TARRY_MESSAGE_ASK ? sent->from : 0);
    bool held = type == TARRY_MESSAGE_HELD || type == TARRY_MESSAGE_FAILED;
    assert_int_equal(read->fetched, held && sent->fetched);
    bool steps = type == TARRY_MESSAGE_LOAD || type == TARRY_MESSAGE_COMMIT;
    assert_int_equal(read->digests, steps && sent->digests);
}

TEST(every_message_survives_the_wire)
{
    random_stream stream = random_stream_make(test_seed("codec", 1), RANDOM_TEST, 0, 0);
    for (uint32_t run = 0; run < 4000; run++) {
        codec_shape shape = draw_shape(&stream);
        tarry_message_type type = (tarry_message_type)(run % TYPES);
        sample sent;
        draw(&stream, type, &sent);
        make_secure(&stream, &shape, &sent);
        uint8_t frame[MAX_FRAME];
        memset(frame, 0xa5, sizeof(frame));
        size_t size = codec_size(&shape, &sent.message);
        assert_true(size <= codec_max_size(&shape) && size < sizeof(frame));
        codec_encode(&shape, &sent.message, frame);
        assert_int_equal(frame[size], 0xa5);

        uint64_t words[MAX_WORDS + 1];
        memset(words, 0xa5, sizeof(words));
        size_t room = codec_words(&shape);
        assert_true(room <= MAX_WORDS);
        tarry_message read;
        assert_ok(codec_decode(&shape, frame, size, words, &read));
        tarry_message_type seen;
        uint64_t round;
        assert_ok(codec_peek(frame, size, &seen, &round));
        assert_int_equal(seen, read.type);
        assert_true(round == read.round);
        assert_int_equal(codec_peek(frame, CODEC_HEADER_BYTES - 1, &seen, &round),
                         TARRY_ERROR_FORMAT);
        assert_int_equal(words[room], 0xa5a5a5a5a5a5a5a5);
        assert_int_equal(read.type, type);
        assert_int_equal(read.round, sent.message.round);
        assert_int_equal(read.epoch, sent.message.epoch);
        assert_int_equal(read.attempt, sent.message.attempt);
        assert_int_equal(read.next, sent.message.next);
        assert_int_equal(read.sequence, sent.message.sequence);
        assert_int_equal(read.slot, sent.message.slot);
        assert_int_equal(read.stripe, sent.message.stripe);
        assert_int_equal(read.form,
                         type == TARRY_MESSAGE_PART ? sent.message.form : TARRY_COMPRESS_NONE);
        assert_int_equal(read.failed, sent.message.failed);
        bool tells = (type == TARRY_MESSAGE_ROUND || type == TARRY_MESSAGE_FINISH) &&
                     sent.message.stood != NULL;
        assert_int_equal(read.stood != NULL, tells);
        assert_int_equal(read.life, tells ? sent.message.life : 0);
        if (tells)
            assert_memory_equal(read.stood, sent.stood, shape.stripes * sizeof(uint32_t));
        bool rounds = type == TARRY_MESSAGE_ROUND;
        assert_int_equal(read.weights != NULL, rounds && sent.message.weights != NULL);
        if (read.weights != NULL)
            assert_memory_equal(read.weights, sent.weights, shape.slots * sizeof(float));
        assert_int_equal(read.holders != NULL, sent.message.holders != NULL);
        assert_int_equal(read.lives != NULL, sent.message.lives != NULL);
        if (read.holders != NULL) {
            assert_memory_equal(read.holders, sent.holders, shape.chunks * sizeof(uint32_t));
            assert_memory_equal(read.lives, sent.lives, shape.workers * sizeof(uint32_t));
        }
        if (type == TARRY_MESSAGE_SIGNAL) {
            assert_same_bits(read.psi, sent.psi, shape.psi_bits);
            assert_same_bits(read.stripes, sent.stripes, shape.stripes);
        }
        bool steers = type == TARRY_MESSAGE_ROUND || type == TARRY_MESSAGE_RESUME ||
                      type == TARRY_MESSAGE_NEWS;
        assert_same_set(read.first, steers ? sent.message.first : NULL, shape.slots);
        assert_same_set(read.barred, steers ? sent.message.barred : NULL, shape.slots);
        assert_same_set(read.recalled, type == TARRY_MESSAGE_NEWS ? sent.message.recalled : NULL,
                        shape.slots);
        assert_int_equal(read.fate, type == TARRY_MESSAGE_NEWS ? sent.message.fate : 0);
        bool counts = type == TARRY_MESSAGE_SIGNAL || type == TARRY_MESSAGE_RESUME ||
                      type == TARRY_MESSAGE_NEWS || type == TARRY_MESSAGE_REPORT;
        assert_int_equal(read.term, counts ? sent.message.term : 0);
        assert_same_set(read.stale, type == TARRY_MESSAGE_SIGNAL ? sent.message.stale : NULL,
                        shape.slots);
        assert_same_vote(&read, &sent.message, &shape);
    }
}

/* Below 1 and not 0, or not finite. */
TEST(weights_out_of_range_are_refused)
{
    codec_shape shape = {.slots = 3};
    const float odd[] = {0.5F, -0.0F, -2, INFINITY, NAN};
    for (size_t i = 0; i < 5; i++) {
        const float weights[] = {1, odd[i], 0};
        uint8_t frame[64];
        uint64_t words[32];
        tarry_message read, round = {.type = TARRY_MESSAGE_ROUND, .weights = weights};
        codec_encode(&shape, &round, frame);
        size_t size = codec_size(&shape, &round);
        assert_int_equal(size, 36);
        assert_int_equal(codec_decode(&shape, frame, size, words, &read), TARRY_ERROR_FORMAT);
    }
}

/* The layout is a contract between machines: by hand, little-endian. */
TEST(frames_have_the_documented_bytes)
{
    codec_shape shape = {.psi_bits = 10, .stripes = 3, .slots = 4};
    const uint64_t psi = 0x2a5, stripes = 5, first = 9, barred = 6;
    tarry_message message = {
        .type = TARRY_MESSAGE_SIGNAL,
        .round = 0x0102030405060708,
        .epoch = 0x11121314,
        .attempt = 0x21222324,
        .psi = &psi,
        .stripes = &stripes,
        .first = &first,
        .barred = &barred,
    };
    uint8_t frame[30];
    assert_int_equal(codec_size(&shape, &message), 27);
    codec_encode(&shape, &message, frame);
    const uint8_t signal[] = {1, 0, 0,    0,    0x14, 0x13, 0x12, 0x11, 8, 7, 6,    5, 4, 3,
                              2, 1, 0x24, 0x23, 0x22, 0x21, 0,    0,    0, 0, 0xa5, 2, 5};
    assert_memory_equal(frame, signal, sizeof(signal));

    message.type = TARRY_MESSAGE_REPORT;
    message.failed = true;
    message.slot = 0x31323334;
    message.next = 0x41424344;
    message.sequence = 0x5152;
    assert_int_equal(codec_size(&shape, &message), CODEC_HEADER_BYTES);
    codec_encode(&shape, &message, frame);
    assert_int_equal(frame[0], 6);
    assert_int_equal(frame[1], 1);
    assert_memory_equal(frame + 2, ((const uint8_t[]){0x52, 0x51}), 2);
    assert_memory_equal(frame + 16, ((const uint8_t[]){0x44, 0x43, 0x42, 0x41}), 4);
    assert_memory_equal(frame + 20, ((const uint8_t[]){0x34, 0x33, 0x32, 0x31}), 4);

    message.type = TARRY_MESSAGE_NEWS;
    assert_int_equal(codec_size(&shape, &message), CODEC_HEADER_BYTES + 2);
    codec_encode(&shape, &message, frame);
    assert_int_equal(frame[0], 3);
    assert_int_equal(frame[1], 6);
    assert_int_equal(frame[24], 9);
    assert_int_equal(frame[25], 6);
    message.first = NULL;
    codec_encode(&shape, &message, frame);
    assert_int_equal(frame[1], 4);
    assert_int_equal(frame[24], 6);

    message.fate = TARRY_FATE_CREDITED;
    message.term = 0x51525354;
    assert_int_equal(codec_size(&shape, &message), CODEC_HEADER_BYTES + 4 + 1);
    codec_encode(&shape, &message, frame);
    assert_int_equal(frame[1], 4 + 8 + 64);
    assert_memory_equal(frame + 24, ((const uint8_t[]){0x54, 0x53, 0x52, 0x51, 6}), 5);
    message.fate = TARRY_FATE_DROPPED;
    message.recalled = &first;
    codec_encode(&shape, &message, frame);
    assert_int_equal(frame[1], 4 + 32 + 64 + 128);
    assert_int_equal(frame[28], 6);
    assert_int_equal(frame[29], 9);
}

/* What is said of sums among workers, by hand. */
TEST(votes_have_the_documented_bytes)
{
    codec_shape shape = {.psi_bits = 10, .stripes = 3, .slots = 4, .workers = 9};
    const uint64_t psi = 0x2a5, stripes = 5, group = 0x103;
    tarry_message message = {
        .type = TARRY_MESSAGE_SIGNAL,
        .psi = &psi,
        .stripes = &stripes,
        .group = &group,
        .sum = {.step = 0x0102030405060708, .term = 0x11121314, .attempt = 0x21222324, .digest = 9},
        .last = {.step = 1},
        .scale = 1e6,
    };
    uint8_t frame[MAX_FRAME];
    assert_int_equal(codec_size(&shape, &message), 24 + 24 + 5);
    codec_encode(&shape, &message, frame);
    assert_int_equal(frame[1], 8);
    const uint8_t signal[] = {8,    7,    6,    5,    4, 3, 2, 1, 0x14, 0x13, 0x12, 0x11,
                              0x24, 0x23, 0x22, 0x21, 0, 0, 0, 0, 0x80, 0x84, 0x2e, 0x41};
    assert_memory_equal(frame + 24, signal, sizeof(signal));
    assert_memory_equal(frame + 48, ((const uint8_t[]){0xa5, 2, 5, 3, 1}), 5);

    message.type = TARRY_MESSAGE_FAILED;
    message.from = 0x31323334;
    message.fetched = true;
    assert_int_equal(codec_size(&shape, &message), 24 + 24);
    codec_encode(&shape, &message, frame);
    assert_int_equal(frame[0], 15);
    assert_int_equal(frame[1], 1);
    assert_memory_equal(frame + 20, ((const uint8_t[]){0x34, 0x33, 0x32, 0x31}), 4);
    assert_memory_equal(frame + 24, signal, 16);
    assert_memory_equal(frame + 40, ((const uint8_t[]){9, 0, 0, 0, 0, 0, 0, 0}), 8);

    message.type = TARRY_MESSAGE_STATE;
    message.state = 0x4142;
    assert_int_equal(codec_size(&shape, &message), 24 + 56);
    codec_encode(&shape, &message, frame);
    assert_int_equal(frame[0], 16);
    assert_int_equal(frame[24], 1);
    assert_memory_equal(frame + 48, signal, 16);
    assert_memory_equal(frame + 72, ((const uint8_t[]){0x42, 0x41, 0, 0, 0, 0, 0, 0}), 8);
}

/* Bits 0 and 5, which mean something in other messages, and what only these have at 2. */
TEST(a_signal_with_another_flag_is_refused)
{
    codec_shape shape = {.psi_bits = 10, .stripes = 3, .slots = 4, .workers = 5};
    const uint64_t bits = 0;
    const tarry_message signal = {.type = TARRY_MESSAGE_SIGNAL, .psi = &bits, .stripes = &bits};
    uint8_t frame[MAX_FRAME];
    uint64_t words[MAX_WORDS];
    tarry_message read;
    const struct {
        size_t at;
        uint8_t bits;
    } odd[] = {{1, 1}, {1, 32}, {2, 1}, {3, 128}};
    for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
        codec_encode(&shape, &signal, frame);
        frame[odd[i].at] |= odd[i].bits;
        assert_int_equal(codec_decode(&shape, frame, codec_size(&shape, &signal), words, &read),
                         TARRY_ERROR_FORMAT);
    }
}

/* A sum among workers without a step, and a scale that is no number above 0. */
TEST(sums_without_meaning_are_refused)
{
    codec_shape shape = {.psi_bits = 10, .stripes = 3, .slots = 4, .workers = 5};
    const uint64_t bits = 0;
    const double scales[] = {1e-9, 1, 0, -1, INFINITY, NAN};
    for (uint64_t step = 0; step < 2; step++) {
        for (size_t i = 0; i < sizeof(scales) / sizeof(*scales); i++) {
            tarry_message signal = {.type = TARRY_MESSAGE_SIGNAL,
                                    .psi = &bits,
                                    .stripes = &bits,
                                    .group = &bits,
                                    .sum = {.step = step},
                                    .scale = scales[i]};
            uint8_t frame[MAX_FRAME];
            uint64_t words[MAX_WORDS];
            tarry_message read;
            codec_encode(&shape, &signal, frame);
            assert_int_equal(codec_decode(&shape, frame, codec_size(&shape, &signal), words, &read),
                             step == 1 && i < 2 ? TARRY_OK : TARRY_ERROR_FORMAT);
        }
    }
}

/* What nobody writes: both fates, and a term of 0. */
TEST(frames_without_meaning_are_refused)
{
    codec_shape shape = {.psi_bits = 10, .stripes = 3, .slots = 4};
    tarry_message message = {.type = TARRY_MESSAGE_NEWS, .fate = TARRY_FATE_CREDITED, .term = 1};
    uint8_t frame[MAX_FRAME];
    uint64_t words[MAX_WORDS];
    tarry_message read;
    size_t size = codec_size(&shape, &message);
    codec_encode(&shape, &message, frame);
    assert_ok(codec_decode(&shape, frame, size, words, &read));
    frame[24] = 0;
    assert_int_equal(codec_decode(&shape, frame, size, words, &read), TARRY_ERROR_FORMAT);
    frame[24] = 1;
    frame[1] |= 32;
    assert_int_equal(codec_decode(&shape, frame, size, words, &read), TARRY_ERROR_FORMAT);
}

TEST(kept_sets_outlive_the_message)
{
    random_stream stream = random_stream_make(test_seed("codec keep", 4), RANDOM_TEST, 0, 0);
    for (uint32_t run = 0; run < 2000; run++) {
        codec_shape shape = draw_shape(&stream);
        sample sent;
        draw(&stream, (tarry_message_type)(run % TYPES), &sent);
        make_secure(&stream, &shape, &sent);
        uint8_t frame[MAX_FRAME], again[MAX_FRAME];
        size_t size = codec_size(&shape, &sent.message);
        codec_encode(&shape, &sent.message, frame);
        tarry_message kept = sent.message;
        /* Room for just so many: writing beyond it is found by the sanitizer. */
        size_t room = codec_kept_words(&shape, &kept);
        OWNED(uint64_t) words = checked_malloc((room > 0 ? room : 1) * sizeof(*words));
        assert_true(room <= codec_words(&shape));
        assert_true(room > 0 || size <= CODEC_MOST_REPORT_BYTES || kept.type >= TARRY_MESSAGE_ASK ||
                    (kept.stood != NULL && shape.stripes == 0));
        codec_keep_sets(&shape, &kept, words);
        memset(&sent, 0, sizeof(sent));
        assert_int_equal(codec_size(&shape, &kept), size);
        codec_encode(&shape, &kept, again);
        assert_memory_equal(again, frame, size);
    }
}

/* Either no frame, or one that says just these bytes. */
static void assert_faithful(const codec_shape *shape, const uint8_t *bytes, size_t size)
{
    /* A copy of its own size: reading beyond it is found by the sanitizer. */
    OWNED(uint8_t) frame = checked_malloc(size > 0 ? size : 1);
    if (size > 0)
        memcpy(frame, bytes, size);
    uint64_t words[MAX_WORDS];
    const tarry_message untouched = {.type = TARRY_MESSAGE_ALIVE, .round = 77};
    tarry_message message = untouched;
    int error = codec_decode(shape, frame, size, words, &message);
    if (error == TARRY_OK) {
        uint8_t again[MAX_FRAME];
        assert_int_equal(codec_size(shape, &message), size);
        codec_encode(shape, &message, again);
        assert_memory_equal(again, frame, size);
    } else {
        assert_int_equal(error, TARRY_ERROR_FORMAT);
        assert_int_equal(message.round, untouched.round);
    }
}

TEST(truncated_and_lengthened_frames_are_refused)
{
    random_stream stream = random_stream_make(2, RANDOM_TEST, 0, 0);
    codec_shape shape = {.psi_bits = 77, .stripes = 9, .slots = 20};
    for (uint32_t type = 0; type < TYPES; type++) {
        sample sent;
        draw(&stream, (tarry_message_type)type, &sent);
        uint8_t frame[MAX_FRAME] = {0};
        codec_encode(&shape, &sent.message, frame);
        size_t whole = codec_size(&shape, &sent.message);
        uint64_t words[MAX_WORDS];
        tarry_message message;
        for (size_t size = 0; size < whole + 40; size++)
            assert_int_equal(codec_decode(&shape, frame, size, words, &message),
                             size == whole ? TARRY_OK : TARRY_ERROR_FORMAT);
    }
}

TEST(any_bytes_are_refused_or_read_faithfully)
{
    random_stream stream = random_stream_make(test_seed("codec bytes", 3), RANDOM_TEST, 0, 0);
    for (uint32_t run = 0; run < 100000; run++) {
        codec_shape shape = draw_shape(&stream);
        tarry_message_type type = (tarry_message_type)random_below(&stream, TYPES);
        sample sent;
        draw(&stream, type, &sent);
        uint8_t frame[MAX_FRAME] = {0};
        codec_encode(&shape, &sent.message, frame);
        size_t size = codec_size(&shape, &sent.message);
        for (uint32_t flips = random_below(&stream, 4); flips > 0; flips--)
            frame[random_below(&stream, (uint32_t)size)] ^=
                (uint8_t)(1U << random_below(&stream, 8));
        if (random_below(&stream, 8) == 0)
            size = random_below(&stream, (uint32_t)size + 1);
        assert_faithful(&shape, frame, size);
    }
}

/* The server reads so what its workers send, which has none, whatever kind it says that it is. */
TEST(without_sets_no_room_is_needed)
{
    random_stream stream = random_stream_make(test_seed("sets", 1), RANDOM_TEST, 2, 0);
    const codec_shape none = {0};
    for (int type = 0; type < TYPES; type++) {
        sample sent;
        tarry_message read;
        uint8_t frame[MAX_FRAME];
        draw(&stream, (tarry_message_type)type, &sent);
        size_t size = codec_size(&none, &sent.message);
        codec_encode(&none, &sent.message, frame);
        assert_ok(codec_decode(&none, frame, size, NULL, &read));
        assert_int_equal(read.type, type);
    }
}

TEST(padding_is_zero)
{
    const uint64_t bits = 0;
    codec_shape shape = {.psi_bits = 3, .stripes = 5, .slots = 7};
    tarry_message message = {.psi = &bits, .stripes = &bits, .first = &bits};
    const tarry_message_type types[] = {TARRY_MESSAGE_SIGNAL, TARRY_MESSAGE_SIGNAL,
                                        TARRY_MESSAGE_RESUME};
    const size_t at[] = {24, 25, 24}, used[] = {3, 5, 7};
    for (size_t i = 0; i < 3; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            uint8_t frame[MAX_FRAME];
            uint64_t words[MAX_WORDS];
            tarry_message read;
            message.type = types[i];
            codec_encode(&shape, &message, frame);
            frame[at[i]] = (uint8_t)(1U << bit);
            assert_int_equal(
                codec_decode(&shape, frame, codec_size(&shape, &message), words, &read),
                bit < used[i] ? TARRY_OK : TARRY_ERROR_FORMAT);
        }
    }
}

TEST(the_shape_is_that_of_the_plan)
{
    const edge edges[] = {{0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 2}};
    OWNED(tarry_plan) plan = edge_plan_make(4, 3, 1, edges, 5, NULL);
    const size_t psi[] = {4, 4, 3, 0}, slots[] = {2, 2, 1, 0};
    for (uint32_t worker = 0; worker < 4; worker++) {
        codec_shape shape = codec_shape_of(plan, worker, 6);
        assert_int_equal(shape.psi_bits, psi[worker]);
        assert_int_equal(shape.slots, slots[worker]);
        assert_int_equal(shape.stripes, 6);
        assert_int_equal(shape.workers, 4);
    }
}
