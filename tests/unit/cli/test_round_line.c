/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include <jansson.h>

#include "cli/checkpoint/history.h"
#include "test.h"

enum { ROUNDS = 2000 };

static history_round make(uint32_t i)
{
    history_round round = history_blank_round;
    round.seconds = i;
    round.signal_seconds = i % 2 ? NAN : i * 1e-7;
    round.train.loss = 1.0 / (i + 1);
    round.train.accuracy = -0.0;
    round.changes =
        (tarry_plan_changes){.split = 1, .merged = 2, .moved = i, .moved_data = i / 7.0};
    round.verified = (verified_round){1e-300, 5e-324, 1.7976931348623157e308};
    round.saturation = 1e-5 * i;
    round.result = (tarry_round_result){
        .round = i,
        .exact = i % 3 == 0,
        .expected_error = sqrt(i),
        .chunks_filled = UINT32_MAX,
        .filled_share = 0.1,
        .sampling_error = 123456789012345678.0,
        .chunks_sampled = 5,
        .parts = 2,
        .attempts = 3,
        .copies_computed = UINT64_C(1) << 53 | 1,
        .copies_needed = INT64_MAX,
        .workers_heard = 6,
        .workers_lost = 7,
        .upload_bytes = 8,
        .control_bytes = 9,
        .control_messages = 10,
        .sum = {.step = 11, .term = 12, .attempt = 13, .digest = UINT64_MAX - i},
        .voters = 14,
        .fetches = 15,
    };
    return round;
}

static history_round read_back(const history_round *round)
{
    char line[ROUND_LINE_BYTES];
    size_t length;
    history_round found;
    assert_ok(round_line_write(round, line, &length));
    assert_true(line[length - 1] == '\n' && memchr(line, '\n', length - 1) == NULL);
    assert_ok(round_line_read(line, length, &found, NULL));
    return found;
}

static bool same(double one, double other)
{
    return (isnan(one) && isnan(other)) || memcmp(&one, &other, sizeof(one)) == 0;
}

static void assert_result_equal(const tarry_round_result *one, const tarry_round_result *other)
{
    assert_true(one->round == other->round && one->exact == other->exact);
    assert_true(same(one->expected_error, other->expected_error));
    assert_int_equal(one->chunks_filled, other->chunks_filled);
    assert_true(same(one->filled_share, other->filled_share));
    assert_true(same(one->sampling_error, other->sampling_error));
    assert_int_equal(one->chunks_sampled, other->chunks_sampled);
    assert_true(one->parts == other->parts && one->attempts == other->attempts);
    assert_int_equal(one->copies_computed, other->copies_computed);
    assert_int_equal(one->copies_needed, other->copies_needed);
    assert_int_equal(one->workers_heard, other->workers_heard);
    assert_int_equal(one->workers_lost, other->workers_lost);
    assert_int_equal(one->upload_bytes, other->upload_bytes);
    assert_int_equal(one->control_bytes, other->control_bytes);
    assert_int_equal(one->control_messages, other->control_messages);
    assert_memory_equal(&one->sum, &other->sum, sizeof(one->sum));
    assert_true(one->voters == other->voters && one->fetches == other->fetches);
}

TEST(what_is_written_comes_back_to_the_bit)
{
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const history_round round = make(i), found = read_back(&round);
        assert_true(same(found.seconds, i));
        assert_true(same(found.signal_seconds, round.signal_seconds));
        assert_true(same(found.train.loss, 1.0 / (i + 1)));
        assert_true(same(found.train.accuracy, -0.0));
        assert_true(isnan(found.test.loss) && isnan(found.test.accuracy));
        assert_true(found.changes.split == 1 && found.changes.merged == 2);
        assert_true(found.changes.moved == i && same(found.changes.moved_data, i / 7.0));
        assert_memory_equal(&found.verified, &round.verified, sizeof(round.verified));
        assert_true(same(found.saturation, round.saturation));
        assert_false(found.lost);
        assert_result_equal(&found.result, &round.result);
    }
}

TEST(nan_and_infinity_are_null)
{
    history_round round = make(1);
    char line[ROUND_LINE_BYTES];
    size_t length;
    round.result.expected_error = INFINITY;
    round.result.filled_share = NAN;
    round.result.sum.digest = 0;
    assert_ok(round_line_write(&round, line, &length));
    json_t *object = json_loadb(line, length, 0, NULL);
    static const char *const keys[] = {"signal_seconds", "test_loss_before", "expected_error",
                                       "filled_share", "sum_digest"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        assert_true(json_is_null(json_object_get(object, keys[i])));
    json_decref(object);
    const history_round found = read_back(&round);
    assert_true(isnan(found.result.expected_error) && isnan(found.result.filled_share));
    assert_int_equal(found.result.sum.digest, 0);
}

/* They are counted, but nothing of them is added up. */
static int count_lost(void *user, const history_round *round, objective_score train,
                      objective_score test)
{
    uint32_t *number = user;
    const history_round found = read_back(round);
    assert_int_equal(found.lost, *number != 0 && *number != 101);
    assert_int_equal(found.result.exact, !found.lost);
    assert_int_equal(found.result.round, *number);
    ++*number;
    return TARRY_OK;
}

TEST(lost_rounds_are_kept_as_such)
{
    history *past;
    uint32_t number = 0;
    assert_ok(history_create(3, 4, &past));
    for (uint32_t i = 0; i < 2; i++) {
        history_round round = history_blank_round;
        round.seconds = 2;
        round.result = (tarry_round_result){
            .round = past->count, .parts = 1, .copies_needed = 4, .exact = true};
        assert_ok(history_add(past, &round));
        assert_ok(history_add_lost(past, 100));
    }
    assert_int_equal(past->count, 202);
    const history_totals *sum = &past->totals;
    assert_true(sum->rounds == 2 && sum->exact == 2 && sum->lost == 200 && sum->seconds == 4);
    assert_ok(history_each(past, count_lost, &number, NULL));
    assert_int_equal(number, 202);
    history_free(past);
}

/* What is complained of in a line with another value, or none, for a key. */
static void refuses(const char *key, const char *value, const char *what)
{
    const history_round round = make(1);
    history_round unread = {.seconds = -1};
    char line[ROUND_LINE_BYTES];
    size_t length;
    tarry_diagnostic why;
    assert_ok(round_line_write(&round, line, &length));
    json_t *object = json_loadb(line, length, 0, NULL);
    if (value != NULL)
        json_object_set_new(object, key, json_loads(value, JSON_DECODE_ANY, NULL));
    else
        json_object_del(object, key);
    char *changed = json_dumps(object, JSON_COMPACT);
    assert_int_equal(round_line_read(changed, strlen(changed), &unread, &why), TARRY_ERROR_FORMAT);
    assert_true(unread.seconds == -1);
    assert_string_equal(why.text, what);
    free(changed);
    json_decref(object);
}

TEST(rounds_that_can_not_be_are_refused)
{
    static const char *const range = "'parts', 'copies_needed' or 'seconds' is out of range";
    refuses("exact", "3", "'exact' is missing or wrong");
    refuses("exact", NULL, "'exact' is missing or wrong");
    refuses("lost", "null", "'lost' is missing or wrong");
    refuses("attempts", "4294967296", "'attempts' is missing or wrong");
    refuses("attempts", "-1", "'attempts' is missing or wrong");
    refuses("attempts", "1.0", "'attempts' is missing or wrong");
    refuses("upload_bytes", "-1", "'upload_bytes' is missing or wrong");
    refuses("filled_share", "\"1\"", "'filled_share' is missing or wrong");
    refuses("sum_digest", "\"123\"", "'sum_digest' is missing or wrong");
    refuses("sum_digest", "\"000000000000000g\"", "'sum_digest' is missing or wrong");
    refuses("sum_digest", "1", "'sum_digest' is missing or wrong");
    refuses("more", "1", "a key is unknown");
    refuses("parts", "0", range);
    refuses("copies_needed", "1", range);
    refuses("seconds", "-0.5", range);
    refuses("seconds", "null", range);
}
