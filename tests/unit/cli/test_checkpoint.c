/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/bytes.h"
#include "base/digest.h"
#include "cli/checkpoint/checkpoint.h"
#include "cli/checkpoint/history.h"
#include "test.h"

enum { DIMENSION = 5000, ROOM = 100000, SEAL = 32, SIZES = 160 };

typedef struct memory {
    uint8_t bytes[ROOM];
    size_t size;
    size_t limit; /* beyond it nothing is taken */
} memory;
OWNED_BY(memory, free)
OWNED_BY(history, history_free)

static int put(void *user, const uint8_t *bytes, size_t size)
{
    memory *to = user;
    if (to->size + size > to->limit)
        return TARRY_ERROR_FILE;
    memcpy(to->bytes + to->size, bytes, size);
    to->size += size;
    return TARRY_OK;
}

static float numbers[3][DIMENSION];

static checkpoint example(void)
{
    static const uint8_t text[] = "the options, the plan, the server";
    for (size_t i = 0; i < DIMENSION; i++) {
        numbers[0][i] = (float)i / 7;
        numbers[1][i] = -(float)i;
        numbers[2][i] = i % 2 != 0 ? NAN : INFINITY;
    }
    return (checkpoint){
        .job = {1, 2, 3},
        .data = {9, 8, 7},
        .rounds = {4, 5},
        .round = 1234567890123,
        .first = 123456789,
        .decayed = 0.25,
        .square_decayed = 1,
        .config = {text, 11},
        .plan = {text + 13, 8},
        .server = {text + 23, 0},
        .history = {text + 23, 10},
        .dimension = DIMENSION,
        .vectors = 3,
        .seen = 77,
        .ledger = {12, 345},
    };
}

static const float *const vectors[3] = {numbers[0], numbers[1], numbers[2]};

static memory *encode_example(void)
{
    memory *to = calloc(1, sizeof(*to));
    to->limit = ROOM;
    checkpoint state = example();
    assert_ok(checkpoint_encode(&state, vectors, put, to));
    return to;
}

TEST(what_is_written_is_read)
{
    OWNED(memory) file = encode_example();
    checkpoint whole = example(), read;
    const uint8_t *found[CHECKPOINT_VECTORS];
    assert_ok(checkpoint_decode(file->bytes, file->size, &read, found, NULL));
    assert_memory_equal(read.job, whole.job, sizeof(read.job));
    assert_memory_equal(read.data, whole.data, sizeof(read.data));
    assert_memory_equal(read.rounds, whole.rounds, sizeof(read.rounds));
    assert_true(read.round == whole.round && read.decayed == 0.25 && read.square_decayed == 1);
    assert_int_equal(read.config.size, 11);
    assert_memory_equal(read.config.bytes, whole.config.bytes, 11);
    assert_int_equal(read.plan.size, 8);
    assert_memory_equal(read.plan.bytes, whole.plan.bytes, 8);
    assert_int_equal(read.server.size, 0);
    assert_memory_equal(read.history.bytes, whole.history.bytes, 10);
    assert_int_equal(read.first, 123456789);
    assert_int_equal(read.vectors, 3);
    assert_int_equal(read.seen, 77);
    assert_int_equal(read.ledger.releases, 12);
    assert_int_equal(read.ledger.seal, 345);
    OWNED(float) back = malloc(DIMENSION * sizeof(*back));
    for (uint32_t i = 0; i < 3; i++) {
        checkpoint_numbers(found[i], DIMENSION, back);
        assert_memory_equal(back, numbers[i], sizeof(numbers[i]));
    }
}

static int decode(const uint8_t *bytes, size_t size)
{
    checkpoint read;
    const uint8_t *found[CHECKPOINT_VECTORS];
    /* A block of its own, so that a byte too far is seen. */
    OWNED(uint8_t) own = malloc(size > 0 ? size : 1);
    memcpy(own, bytes, size);
    return checkpoint_decode(own, size, &read, found, NULL);
}

TEST(damaged_ones_are_refused)
{
    OWNED(memory) file = encode_example();
    for (size_t i = 0; i < file->size; i += i < 400 ? 1 : 997) {
        file->bytes[i] ^= 0x10;
        assert_int_equal(decode(file->bytes, file->size), TARRY_ERROR_FORMAT);
        file->bytes[i] ^= 0x10;
        assert_int_equal(decode(file->bytes, i), TARRY_ERROR_FORMAT);
    }
    assert_int_equal(decode(file->bytes, file->size + 1), TARRY_ERROR_FORMAT);
    assert_ok(decode(file->bytes, file->size));
}

/* With a seal that fits: sizes, the dimension and the number of vectors that are not there. */
TEST(sizes_are_not_believed)
{
    const uint64_t lies[] = {0, 1, 12, DIMENSION * 12, UINT32_MAX, UINT64_MAX, UINT64_MAX / 4 + 2};
    const size_t dimension_at = SIZES - 48, seen_at = SIZES - 24;
    for (size_t at = dimension_at; at < SIZES + 32; at += 8) {
        for (size_t lie = 0; lie < sizeof(lies) / sizeof(lies[0]); lie++) {
            OWNED(memory) file = encode_example();
            uint64_t truth = bytes_get(file->bytes + at, 8);
            bool powers = at > dimension_at && at < seen_at;
            bool any = at >= seen_at && at < SIZES; /* of any round, or of none; any ledger */
            bytes_put(file->bytes + at, lies[lie], 8);
            assert_int_equal(
                digest_of_bytes(file->bytes, file->size - SEAL, file->bytes + file->size - SEAL),
                0);
            int expected = truth == lies[lie] || any ? TARRY_OK : TARRY_ERROR_FORMAT;
            if (!powers || bytes_get_f64(file->bytes + at) > 1)
                assert_int_equal(decode(file->bytes, file->size), expected);
        }
    }
}

TEST(rounds_that_are_to_come_are_not_kept)
{
    OWNED(memory) file = encode_example();
    bytes_put(file->bytes + SIZES - 56, example().round + 1, 8);
    assert_int_equal(
        digest_of_bytes(file->bytes, file->size - SEAL, file->bytes + file->size - SEAL), 0);
    assert_int_equal(decode(file->bytes, file->size), TARRY_ERROR_FORMAT);
}

TEST(an_error_of_the_sink_ends_it)
{
    OWNED(memory) to = calloc(1, sizeof(*to));
    checkpoint whole = example();
    for (to->limit = 0; to->limit < 60000; to->limit += 611) {
        to->size = 0;
        assert_int_equal(checkpoint_encode(&whole, vectors, put, to), TARRY_ERROR_FILE);
    }
}

TEST(a_history_is_kept)
{
    OWNED(history) past, read;
    assert_ok(history_create(3, 4, &past));
    past->worker[2] = (tarry_worker_state){.chunks = 17, .seconds = 1.5};
    past->seconds = 12;
    size_t size = history_encoded_size(past);
    OWNED(uint8_t) bytes = checked_malloc(size);
    history_encode(past, bytes);
    assert_ok(history_create(3, 4, &read));
    assert_int_equal(history_decode(read, bytes, size - 1), TARRY_ERROR_FORMAT);
    assert_int_equal(history_decode(read, bytes, 0), TARRY_ERROR_FORMAT);
    assert_ok(history_decode(read, bytes, size));
    assert_true(read->earlier[2].chunks == 17 && read->earlier[2].seconds == 1.5);
    assert_true(read->earlier_seconds == 12);
}
