/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/digest.h"
#include "cli/checkpoint/checkpoint.h"
#include "cli/checkpoint/history_code.h"

enum { DIMENSION = 5000, ROOM = 100000, SEAL = 32, SIZES = 152 };

typedef struct memory {
    uint8_t bytes[ROOM];
    size_t size;
    size_t limit; /* beyond it nothing is taken */
} memory;

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
    assert_int_equal(checkpoint_encode(&state, vectors, put, to), TARRY_OK);
    return to;
}

static void what_is_written_is_read(void **unused)
{
    (void)unused;
    memory *file = encode_example();
    checkpoint state = example(), read;
    const uint8_t *found[CHECKPOINT_VECTORS];
    assert_int_equal(checkpoint_decode(file->bytes, file->size, &read, found, NULL), TARRY_OK);
    assert_memory_equal(read.job, state.job, sizeof(read.job));
    assert_memory_equal(read.data, state.data, sizeof(read.data));
    assert_memory_equal(read.rounds, state.rounds, sizeof(read.rounds));
    assert_true(read.round == state.round && read.decayed == 0.25 && read.square_decayed == 1);
    assert_int_equal(read.config.size, 11);
    assert_memory_equal(read.config.bytes, state.config.bytes, 11);
    assert_int_equal(read.plan.size, 8);
    assert_memory_equal(read.plan.bytes, state.plan.bytes, 8);
    assert_int_equal(read.server.size, 0);
    assert_memory_equal(read.history.bytes, state.history.bytes, 10);
    assert_int_equal(read.vectors, 3);
    assert_int_equal(read.seen, 77);
    assert_int_equal(read.ledger.releases, 12);
    assert_int_equal(read.ledger.seal, 345);
    float *back = malloc(DIMENSION * sizeof(*back));
    for (uint32_t i = 0; i < 3; i++) {
        checkpoint_numbers(found[i], DIMENSION, back);
        assert_memory_equal(back, numbers[i], sizeof(numbers[i]));
    }
    free(back);
    free(file);
}

static int decode(const uint8_t *bytes, size_t size)
{
    checkpoint read;
    const uint8_t *found[CHECKPOINT_VECTORS];
    /* A block of its own, so that a byte too far is seen. */
    uint8_t *own = malloc(size > 0 ? size : 1);
    memcpy(own, bytes, size);
    int error = checkpoint_decode(own, size, &read, found, NULL);
    free(own);
    return error;
}

static void damaged_ones_are_refused(void **unused)
{
    (void)unused;
    memory *file = encode_example();
    for (size_t i = 0; i < file->size; i += i < 400 ? 1 : 997) {
        file->bytes[i] ^= 0x10;
        assert_int_equal(decode(file->bytes, file->size), TARRY_ERROR_FORMAT);
        file->bytes[i] ^= 0x10;
        assert_int_equal(decode(file->bytes, i), TARRY_ERROR_FORMAT);
    }
    assert_int_equal(decode(file->bytes, file->size + 1), TARRY_ERROR_FORMAT);
    assert_int_equal(decode(file->bytes, file->size), TARRY_OK);
    free(file);
}

/* With a seal that fits: sizes, the dimension and the number of vectors that are not there. */
static void sizes_are_not_believed(void **unused)
{
    (void)unused;
    const uint64_t lies[] = {0, 1, 12, DIMENSION * 12, UINT32_MAX, UINT64_MAX, UINT64_MAX / 4 + 2};
    const size_t dimension_at = SIZES - 48, seen_at = SIZES - 24;
    for (size_t at = dimension_at; at < SIZES + 32; at += 8) {
        for (size_t lie = 0; lie < sizeof(lies) / sizeof(lies[0]); lie++) {
            memory *file = encode_example();
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
            free(file);
        }
    }
}

static void an_error_of_the_sink_ends_it(void **unused)
{
    (void)unused;
    memory *to = calloc(1, sizeof(*to));
    checkpoint state = example();
    for (to->limit = 0; to->limit < 60000; to->limit += 611) {
        to->size = 0;
        assert_int_equal(checkpoint_encode(&state, vectors, put, to), TARRY_ERROR_FILE);
    }
    free(to);
}

static void a_history_is_kept(void **unused)
{
    (void)unused;
    history *past, *read;
    assert_int_equal(history_create(3, 4, &past), TARRY_OK);
    past->worker[2] = (tarry_worker_state){.chunks = 17, .seconds = 1.5};
    past->seconds = 12;
    for (uint32_t i = 0; i < 300; i++) {
        history_round *round = history_add(past);
        round->seconds = i;
        round->train.loss = 1.0 / (i + 1);
        round->result = (tarry_round_result){.round = i,
                                             .parts = 2,
                                             .copies_needed = 8,
                                             .start_ns = 1000,
                                             .signal_ns = i % 2 ? TARRY_NEVER : 1500,
                                             .end_ns = 3000,
                                             .exact = i % 3 == 0};
        round->changes.moved = i;
    }
    size_t size = history_encoded_size(past);
    uint8_t *bytes = malloc(size), one[HISTORY_ROUND_BYTES];
    history_encode(past, bytes);
    assert_int_equal(history_create(3, 4, &read), TARRY_OK);
    assert_int_equal(history_decode(read, bytes, size - 1), TARRY_ERROR_FORMAT);
    assert_int_equal(history_decode(read, bytes, 0), TARRY_ERROR_FORMAT);
    assert_int_equal(history_decode(read, bytes, size), TARRY_OK);
    history_encode_round(&past->last, one);
    history_round unread = {.seconds = -1};
    uint8_t *exact = one + sizeof(one) - 14 * 4; /* the first of fourteen */
    bytes_put(exact, 3, 4);
    assert_int_equal(history_decode_round(one, &unread), TARRY_ERROR_FORMAT);
    bytes_put(exact, 0, 4);
    uint8_t *parts = one + sizeof(one) - 12 * 4; /* the third */
    assert_int_equal(bytes_get(parts, 4), 2);
    bytes_put(parts, 0, 4);
    assert_int_equal(history_decode_round(one, &unread), TARRY_ERROR_FORMAT);
    assert_true(unread.seconds == -1);
    for (size_t i = 0; i < 300; i++) {
        history_round written;
        assert_int_equal(history_round_at(past, i, &written, NULL), TARRY_OK);
        history_encode_round(&written, one);
        assert_int_equal(history_decode_round(one, history_add(read)), TARRY_OK);
    }
    for (uint32_t i = 0; i < 300; i++) {
        history_round found, *round = &found;
        assert_int_equal(history_round_at(read, i, round, NULL), TARRY_OK);
        assert_true(round->seconds == i && round->train.loss == 1.0 / (i + 1));
        assert_true(isnan(round->test.loss) && round->changes.moved == i);
        assert_true(round->result.round == i && round->result.exact == (i % 3 == 0));
        assert_true(round->result.signal_ns == (i % 2 ? TARRY_NEVER : 500));
        assert_true(round->result.end_ns == 2000 && round->result.copies_needed == 8);
    }
    assert_true(read->earlier[2].chunks == 17 && read->earlier[2].seconds == 1.5);
    assert_true(read->earlier_seconds == 12 && history_train_begin(read).loss == 1);
    free(bytes);
    history_free(past);
    history_free(read);
}

/* They are counted, but nothing of them is added up. */
static void lost_rounds_are_kept_as_such(void **unused)
{
    (void)unused;
    history *past;
    uint8_t one[HISTORY_ROUND_BYTES];
    assert_int_equal(history_create(3, 4, &past), TARRY_OK);
    for (uint32_t i = 0; i < 2; i++) {
        history_round *round = history_add(past);
        round->seconds = 2;
        round->result = (tarry_round_result){.parts = 1, .copies_needed = 4, .exact = true};
        assert_int_equal(history_add_lost(past, 100), TARRY_OK);
    }
    assert_int_equal(past->count, 202);
    const history_totals sum = history_total(past);
    assert_true(sum.rounds == 2 && sum.exact == 2 && sum.lost == 200 && sum.seconds == 4);
    for (uint32_t i = 0; i < 202; i++) {
        history_round round, read;
        assert_int_equal(history_round_at(past, i, &round, NULL), TARRY_OK);
        history_encode_round(&round, one);
        assert_int_equal(history_decode_round(one, &read), TARRY_OK);
        assert_int_equal(read.lost, i != 0 && i != 101);
        assert_int_equal(read.result.exact, !read.lost);
    }
    history_free(past);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read), cmocka_unit_test(damaged_ones_are_refused),
        cmocka_unit_test(sizes_are_not_believed),  cmocka_unit_test(an_error_of_the_sink_ends_it),
        cmocka_unit_test(a_history_is_kept),       cmocka_unit_test(lost_rounds_are_kept_as_such),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
