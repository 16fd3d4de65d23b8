/* SPDX-License-Identifier: Apache-2.0 */
/* Views of parameters: everybody's are the same to the bit, whoever missed what. */
#include <math.h>
#include <stdbool.h>

#include "base/random.h"
#include "compress/view.h"
#include "failing_allocator.h"
#include "seed.h"
#include "test.h"

enum { LONGEST = 2 * VIEW_PIECE + 5000, PIECES = 3, RECEIVERS = 4 };

static uint64_t seed;

static const tarry_compress FORMS[] = {TARRY_COMPRESS_BF16, TARRY_COMPRESS_INT8};
static const size_t LENGTHS[] = {1, 255, VIEW_PIECE, VIEW_PIECE + 1, LONGEST};

/* As a worker has it: what comes goes to the vector that is not the view. */
typedef struct receiver {
    view_reader reader; /* at its sender */
    view_intake intake;
    float *vector[2];
    uint32_t current;
    uint64_t digests[PIECES];
} receiver;

typedef struct bench {
    random_stream from;
    tarry_compress form;
    size_t length;
    view *source;
    float *x;
    receiver receivers[RECEIVERS];
} bench;

static void begin(bench *its, tarry_compress form, size_t length)
{
    *its = (bench){.form = form, .length = length};
    its->from = random_stream_make(seed, RANDOM_TEST, (uint32_t)form, (uint32_t)length);
    assert_ok(view_create(form, length, NULL, &its->source));
    its->x = calloc(length, sizeof(float));
    for (size_t i = 0; i < length; i++)
        its->x[i] = (float)random_normal(&its->from);
    for (uint32_t i = 0; i < RECEIVERS; i++)
        for (uint32_t side = 0; side < 2; side++)
            its->receivers[i].vector[side] = calloc(length, sizeof(float));
    view_set(its->source, 0, its->x);
}

static void end(bench *its)
{
    for (uint32_t i = 0; i < RECEIVERS; i++)
        for (uint32_t side = 0; side < 2; side++)
            free(its->receivers[i].vector[side]);
    free(its->x);
    view_free(its->source);
}

static void step(bench *its, uint64_t round)
{
    for (size_t i = 0; i < its->length; i++)
        its->x[i] += 0.01F * (float)random_normal(&its->from);
    view_move(its->source, round, its->x, 7);
}

/* Gives back whether the view is complete. */
static bool receive(const bench *its, receiver *to, const view_piece *piece, const uint8_t *bytes)
{
    bool complete;
    assert_ok(view_intake_begin(&to->intake, piece, its->form, its->length));
    assert_ok(view_intake_add(&to->intake, bytes, its->length, to->vector[to->current],
                              to->vector[!to->current], to->digests, &complete));
    if (complete)
        to->current = !to->current;
    return complete;
}

/* Sends at most so many pieces of the round's view; gives back the bytes of them. */
static size_t send(const bench *its, const view *from, receiver *to, uint64_t round, size_t most)
{
    view_piece piece;
    const uint8_t *bytes;
    size_t sent = 0;
    view_reader_begin(&to->reader, round);
    for (size_t i = 0; i < most && view_reader_next(&to->reader, from, &piece, &bytes); i++) {
        assert_int_equal(piece.round, round);
        sent += view_piece_bytes(&piece);
        assert_int_equal(receive(its, to, &piece, bytes), view_reader_is_done(&to->reader));
    }
    view_reader_end(&to->reader, false);
    return sent;
}

static void check_equal(const bench *its, const receiver *to)
{
    assert_int_equal(to->intake.has, view_stamp(its->source));
    assert_memory_equal(to->vector[to->current], view_numbers(its->source),
                        its->length * sizeof(float));
}

/* The sender knows what it has, unless it was about to get another one as it is. */
static void check_known(const receiver *to)
{
    assert_true(to->reader.has == to->intake.has || to->reader.has == 0);
}

TEST(every_view_is_the_same_to_the_bit)
{
    for (size_t f = 0; f < 2; f++)
        for (size_t l = 0; l < sizeof(LENGTHS) / sizeof(*LENGTHS); l++) {
            bench its;
            begin(&its, FORMS[f], LENGTHS[l]);
            for (uint64_t round = 0; round < 4; round++) {
                if (round > 0)
                    step(&its, round);
                for (uint32_t i = 0; i < RECEIVERS; i++) {
                    send(&its, its.source, &its.receivers[i], round, SIZE_MAX);
                    check_equal(&its, &its.receivers[i]);
                }
            }
            /* Who has it is sent nothing. */
            assert_int_equal(send(&its, its.source, &its.receivers[0], 3, SIZE_MAX), 0);
            end(&its);
        }
}

static double furthest(const bench *its)
{
    double most = 0;
    for (size_t i = 0; i < its->length; i++)
        most = fmax(most, fabs((double)its->x[i] - (double)view_numbers(its->source)[i]));
    return most;
}

/* What rounding lost is in the next difference: where x stands still, the view comes to it. */
TEST(the_view_follows)
{
    for (size_t f = 0; f < 2; f++) {
        bench its;
        begin(&its, FORMS[f], LONGEST);
        assert_true(furthest(&its) == 0);
        for (uint64_t round = 1; round < 20; round++) {
            step(&its, round);
            /* A step of a block is 1/127 of its largest difference, which is about 0.05. */
            assert_true(furthest(&its) < 0.001);
        }
        for (uint64_t round = 20; round < 30; round++)
            view_move(its.source, round, its.x, 7);
        assert_true(furthest(&its) < 1e-6);
        end(&its);
    }
}

#define BENCH(name) TEST_OF(name, bench, its, end)

BENCH(a_change_is_short)
{
    begin(its, TARRY_COMPRESS_INT8, LONGEST);
    receiver *to = &its->receivers[0];
    const size_t whole = send(its, its->source, to, 0, SIZE_MAX);
    assert_int_equal(whole, LONGEST * sizeof(float));
    step(its, 1);
    assert_true((double)send(its, its->source, to, 1, SIZE_MAX) * 3.93 < (double)whole);
}

/* The changes that it missed, or the whole where these are longer. */
TEST(who_missed_rounds_is_brought_up)
{
    for (size_t f = 0; f < 2; f++)
        for (uint64_t missed = 0; missed < 6; missed++) {
            bench its;
            begin(&its, FORMS[f], LONGEST);
            receiver *to = &its.receivers[0];
            const size_t whole = send(&its, its.source, to, 0, SIZE_MAX);
            const compress_form form = {.kind = FORMS[f]};
            const size_t change = 2 * compress_bytes(form, VIEW_PIECE) + compress_bytes(form, 5000);
            for (uint64_t round = 1; round <= missed + 1; round++)
                step(&its, round);
            size_t sent = send(&its, its.source, to, missed + 1, SIZE_MAX);
            bool kept = missed + 1 <= view_kept(FORMS[f]);
            assert_int_equal(sent, kept ? (missed + 1) * change : whole);
            assert_true(sent <= whole);
            check_equal(&its, to);
            end(&its);
        }
}

/* Cut anywhere, or lost on the way, and sent something else then. */
TEST(a_view_that_is_cut_off_counts_for_nothing)
{
    for (size_t f = 0; f < 2; f++) {
        bench its;
        begin(&its, FORMS[f], LONGEST);
        for (uint64_t round = 0; round < 24; round++) {
            if (round > 0)
                step(&its, round);
            for (uint32_t i = 0; i < RECEIVERS; i++) {
                receiver *to = &its.receivers[i];
                uint64_t had = to->intake.has;
                send(&its, its.source, to, round, random_u64(&its.from) % 12);
                assert_true(to->intake.has == had || to->intake.has == view_stamp(its.source));
                check_known(to);
            }
        }
        for (uint32_t i = 0; i < RECEIVERS; i++) {
            send(&its, its.source, &its.receivers[i], 23, SIZE_MAX);
            check_equal(&its, &its.receivers[i]);
        }
        end(&its);
    }
}

/* What was given out and did not go out: the reader has what it had. */
BENCH(what_is_lost_is_sent_again)
{
    view_piece piece;
    const uint8_t *bytes;
    begin(its, TARRY_COMPRESS_INT8, LONGEST);
    receiver *to = &its->receivers[0];
    send(its, its->source, to, 0, SIZE_MAX);
    step(its, 1);
    view_reader_begin(&to->reader, 1);
    while (view_reader_next(&to->reader, its->source, &piece, &bytes))
        if (piece.first == 0)
            receive(its, to, &piece, bytes);
    view_reader_end(&to->reader, true);
    assert_int_equal(to->reader.has, 1);
    send(its, its->source, to, 1, SIZE_MAX);
    check_equal(its, to);
}

/* ---- what does not fit ---- */

BENCH(what_is_not_the_senders_is_found)
{
    view_piece piece;
    const uint8_t *bytes;
    bool complete;
    begin(its, TARRY_COMPRESS_INT8, 300);
    receiver *to = &its->receivers[0];
    send(its, its->source, to, 0, SIZE_MAX);
    step(its, 1);
    view_reader_begin(&to->reader, 1);
    assert_true(view_reader_next(&to->reader, its->source, &piece, &bytes));
    uint8_t bent[400];
    memcpy(bent, bytes, view_piece_bytes(&piece));
    bent[77] ^= 1;
    assert_ok(view_intake_begin(&to->intake, &piece, its->form, 300));
    assert_int_equal(view_intake_add(&to->intake, bent, 300, to->vector[to->current],
                                     to->vector[!to->current], to->digests, &complete),
                     TARRY_ERROR_FORMAT);
    assert_false(complete);
    assert_int_equal(to->intake.has, 0);
}

TEST(pieces_that_do_not_follow_are_refused)
{
    const view_piece whole = {.round = 4, .stamp = 5, .count = VIEW_PIECE};
    const view_piece change = {
        .round = 4, .stamp = 5, .base = 4, .count = VIEW_PIECE, .form = TARRY_COMPRESS_INT8};
    const struct {
        view_intake before;
        view_piece piece;
        bool fits;
    } cases[] = {
        {{0}, whole, true},
        {{.has = 4}, whole, true},
        {{.has = 4}, change, true},
        {{.has = 3}, change, false},
        {{0}, change, false},
        {{.has = 4}, {.round = 4, .stamp = 5, .base = 4, .count = VIEW_PIECE}, false},
        {{.has = 4},
         {.round = 4, .stamp = 6, .base = 4, .count = VIEW_PIECE, .form = TARRY_COMPRESS_INT8},
         false},
        {{.has = 4},
         {.round = 4, .stamp = 4, .base = 4, .count = VIEW_PIECE, .form = TARRY_COMPRESS_INT8},
         false},
        {{.has = 4},
         {.round = 4, .stamp = 5, .base = 4, .count = VIEW_PIECE, .form = TARRY_COMPRESS_BF16},
         false},
        {{0}, {.round = 4, .stamp = 4, .count = VIEW_PIECE}, false},
        {{0}, {.round = UINT64_MAX, .count = VIEW_PIECE}, false},
        {{0}, {.round = 4, .stamp = 5, .count = VIEW_PIECE - 1}, false},
        {{0}, {.round = 4, .stamp = 5, .first = VIEW_PIECE, .count = VIEW_PIECE}, false},
        {{.at = whole, .active = true, .arrived = VIEW_PIECE},
         {.round = 4, .stamp = 5, .first = VIEW_PIECE, .count = VIEW_PIECE},
         true},
        {{.at = whole, .active = true, .arrived = VIEW_PIECE},
         {.round = 5, .stamp = 6, .first = VIEW_PIECE, .count = VIEW_PIECE},
         false},
        {{.at = whole, .active = true, .arrived = VIEW_PIECE},
         {.round = 4, .stamp = 5, .digest = 1, .first = VIEW_PIECE, .count = VIEW_PIECE},
         false},
        {{.at = whole, .active = true, .arrived = VIEW_PIECE},
         {.round = 4, .stamp = 5, .first = 2 * VIEW_PIECE, .count = 5000},
         false},
        {{.at = whole, .active = true, .arrived = 2 * VIEW_PIECE},
         {.round = 4, .stamp = 5, .first = 2 * VIEW_PIECE, .count = 5000},
         true},
        {{.at = whole, .active = true, .arrived = 3 * VIEW_PIECE},
         {.round = 4, .stamp = 5, .first = 3 * VIEW_PIECE, .count = 1},
         false},
        /* a second change for the same round; for another one */
        {{.has = 3, .at = {.round = 4, .stamp = 4, .base = 3}}, change, true},
        {{.has = 3, .at = {.round = 3, .stamp = 4, .base = 3}}, change, false},
        {{.has = 3, .active = true, .at = {.round = 4, .stamp = 4, .base = 3}}, change, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        view_intake intake = cases[i].before;
        int error = view_intake_begin(&intake, &cases[i].piece, TARRY_COMPRESS_INT8, LONGEST);
        if (error != (cases[i].fits ? TARRY_OK : TARRY_ERROR_FORMAT))
            fail_msg("case %zu", i);
        if (!cases[i].fits)
            assert_memory_equal(&intake, &cases[i].before, sizeof(intake));
    }
}

/* Others are as without it. */
TEST(what_is_not_finite_stays_where_it_is)
{
    for (size_t f = 0; f < 2; f++) {
        bench its;
        begin(&its, FORMS[f], 600);
        its.x[300] = INFINITY;
        step(&its, 1);
        for (size_t i = 0; i < 600; i++)
            assert_int_equal(isfinite(view_numbers(its.source)[i]) != 0, i != 300);
        end(&its);
    }
}

TEST(the_seed_and_the_round_decide)
{
    bench one, other;
    begin(&one, TARRY_COMPRESS_INT8, 3000);
    begin(&other, TARRY_COMPRESS_INT8, 3000);
    step(&one, 1);
    step(&other, 1);
    assert_memory_equal(view_numbers(one.source), view_numbers(other.source), 12000);
    step(&one, 2);
    step(&other, 3);
    assert_memory_not_equal(view_numbers(one.source), view_numbers(other.source), 12000);
    end(&one);
    end(&other);
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    view *made = NULL;
    int error = view_create(TARRY_COMPRESS_INT8, 1000, allocator, &made);
    assert_true((error == TARRY_OK) == (made != NULL));
    view_free(made);
    return error;
}

TEST(each_allocation_may_fail)
{
    fail_each_allocation(attempt, NULL);
    assert_int_equal(view_kept(TARRY_COMPRESS_INT8), 3);
    assert_int_equal(view_kept(TARRY_COMPRESS_BF16), 1);
    assert_int_equal(view_bytes(TARRY_COMPRESS_BF16, 100), 400 + 8 + 65536 + 200);
}

static int draw_seed(void **state)
{
    seed = test_seed("view", 17);
    return 0;
}

TEST_GROUP(draw_seed, NULL)
