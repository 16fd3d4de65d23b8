/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include <tarry/settings.h>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/random.h"
#include "creation.h"
#include "protocol/server/server_state.h"
#include "seed.h"
#include "story.h"
#include "test.h"

enum { WORKERS = 3, SEAL = 32, MEMBER = 4 + 4 + 4 * RECENT_TIMES };

typedef struct saved {
    uint8_t bytes[512];
    size_t size;
} saved;

/* Where the members stand, and the round and the times of parts before them. */
static size_t members_offset(const saved *copy)
{
    return copy->size - SEAL - (size_t)WORKERS * MEMBER;
}

static size_t round_offset(const saved *copy)
{
    return members_offset(copy) - 8 - 24;
}

static void save(story *told, saved *copy)
{
    copy->size = tarry_server_checkpoint_size(told->server);
    assert_true(copy->size <= sizeof(copy->bytes));
    assert_ok(tarry_server_checkpoint(told->server, copy->bytes));
}

static void store(story *told, saved *copy)
{
    save(told, copy);
    tarry_server_stored(told->server, copy->bytes);
}

/* Makes the digest fit the bytes again. */
static void reseal(saved *copy)
{
    digest *sum = digest_begin();
    assert_non_null(sum);
    assert_int_equal(digest_add_bytes(sum, copy->bytes, copy->size - SEAL), 0);
    assert_int_equal(digest_end(sum, copy->bytes + copy->size - SEAL), 0);
}

/* A restart: only what is in the checkpoint comes along; the server's clock begins anew. */
static void restarts(story *told, const saved *copy)
{
    expect_nothing(told);
    tarry_server_free(told->server);
    told->server = server_make(told->plan, &told->settings);
    told->now = 0;
    told->effects = NULL;
    assert_ok(tarry_server_restore(told->server, copy->bytes, copy->size, NULL));
    saved own;
    store(told, &own);
}

static void assert_not_restored(const story *told, const saved *copy, const char *text)
{
    OWNED(tarry_server) server = server_make(told->plan, &told->settings);
    tarry_diagnostic why;
    assert_int_equal(tarry_server_restore(server, copy->bytes, copy->size, &why),
                     TARRY_ERROR_FORMAT);
    assert_string_equal(why.text, text);
    /* Nothing changed: it is as good as new. */
    const tarry_effects *effects;
    tarry_event start = {.type = TARRY_EVENT_START};
    assert_ok(tarry_server_step(server, 0, &start, &effects));
    assert_int_equal(effects->items[effects->count - 1].result->round, 0);
}

STORY(the_round_begins_anew_under_its_number)
{
    story_play(told, WORKERS, 2);
    at(told, 3);
    reports(told, 0, 0);
    saved copy;
    save(told, &copy); /* in the middle of round 0 */

    at(told, 4);
    reports(told, 1, 0);
    reports(told, 2, 0);
    expect_signals(told);
    restarts(told, &copy);
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        assert_false(tarry_server_present(told->server, worker));
        assert_int_equal(tarry_server_finished(told->server, worker), 0);
        joins(told, worker);
    }
    starts(told);
    assert_int_equal(told->round, 0);

    /* What belongs to the server's first life is stale, even the part of its last signal. */
    sends_part(told, 0, 1, 0);
    expect_reject(told, 0, TARRY_REJECT_STALE);
    reports(told, 1, 1);
    expect_reject(told, 1, TARRY_REJECT_STALE);
    told->epoch = 1 + TARRY_CHECKPOINT_ARRIVALS + 1;
    each_reports(told, WORKERS, 0);
    expect_signals(told);
}

STORY(between_rounds_the_next_number_is_kept)
{
    story_play(told, WORKERS, 2);
    is_aborted(told);
    saved copy;
    save(told, &copy);
    restarts(told, &copy);
    joins(told, 0);
    joins(told, 1);
    starts(told);
    assert_int_equal(told->round, 1);
}

/* However often it is restarted, and however much happened after the checkpoint. */
STORY(no_epoch_is_given_twice)
{
    story_play(told, WORKERS, 2);
    uint32_t highest = 1;
    for (int life = 0; life < 4; life++) {
        saved copy;
        save(told, &copy);
        for (int arrival = 0; arrival < 5; arrival++) {
            joins(told, 2);
            uint32_t epoch = expect_send(told, 2, TARRY_MESSAGE_ROUND)->epoch;
            assert_true(epoch > highest);
            highest = epoch;
        }
        restarts(told, &copy);
        for (uint32_t worker = 0; worker < WORKERS; worker++)
            joins(told, worker);
        starts(told);
        assert_int_equal(told->round, 0);
    }
}

static void arrives(story *told, uint32_t worker, uint32_t times)
{
    for (; times > 0; times--) {
        joins(told, worker);
        told->epoch = expect_send(told, worker, TARRY_MESSAGE_ROUND)->epoch;
    }
}

STORY(arrivals_beyond_the_reserve_wait_for_a_checkpoint)
{
    story_play(told, WORKERS, 2);
    saved copy;
    store(told, &copy);
    assert_int_equal(tarry_server_arrivals_left(told->server), TARRY_CHECKPOINT_ARRIVALS);
    arrives(told, 0, TARRY_CHECKPOINT_ARRIVALS);
    assert_int_equal(tarry_server_arrivals_left(told->server), 0);
    joins(told, 0);
    expect_reject(told, 0, TARRY_REJECT_EXHAUSTED);
    reports(told, 0, 0); /* the last arrival still counts */
    expect_nothing(told);
    assert_int_equal(tarry_server_finished(told->server, 0), 1);
    store(told, &copy);
    arrives(told, 0, 1);
    assert_int_equal(tarry_server_arrivals_left(told->server), TARRY_CHECKPOINT_ARRIVALS - 1);
}

/* A restart would go on from the one before, and give out the same epochs. */
STORY(a_checkpoint_that_is_not_stored_reserves_nothing)
{
    story_play(told, WORKERS, 2);
    saved stored, lost;
    store(told, &stored);
    arrives(told, 0, TARRY_CHECKPOINT_ARRIVALS - 1);
    save(told, &lost);
    assert_int_equal(tarry_server_arrivals_left(told->server), 1);
    arrives(told, 0, 1);
    uint32_t highest = told->epoch;
    joins(told, 0);
    expect_reject(told, 0, TARRY_REJECT_EXHAUSTED);
    restarts(told, &stored);
    joins(told, 0);
    joins(told, 1);
    starts(told);
    assert_true(told->server->members[0].epoch > highest);
}

/* What has arrived since it was taken is of its reserve. */
STORY(arrivals_before_it_is_stored_count)
{
    story_play(told, WORKERS, 2);
    saved copy;
    save(told, &copy);
    arrives(told, 0, 10);
    tarry_server_stored(told->server, copy.bytes);
    assert_int_equal(tarry_server_arrivals_left(told->server), TARRY_CHECKPOINT_ARRIVALS - 10);
}

STORY(epochs_end_with_their_last_number)
{
    story_play(told, WORKERS, 2);
    saved copy;
    save(told, &copy);
    bytes_put(copy.bytes + members_offset(&copy), UINT32_MAX - TARRY_CHECKPOINT_ARRIVALS - 1, 4);
    reseal(&copy);
    restarts(told, &copy);
    joins(told, 0);
    joins(told, 0);
    expect_reject(told, 0, TARRY_REJECT_EXHAUSTED);
    joins(told, 1);
}

STORY(a_restored_server_is_stored_before_it_steps)
{
    story_play(told, WORKERS, 2);
    saved copy;
    save(told, &copy);
    tarry_diagnostic why;
    assert_int_equal(tarry_server_restore(told->server, copy.bytes, copy.size, &why),
                     TARRY_ERROR_STATE);
    assert_string_equal(why.text, "checkpoint: the server is in use");

    told->effects = NULL;
    tarry_server_free(told->server);
    told->server = server_make(told->plan, &told->settings);
    assert_ok(tarry_server_restore(told->server, copy.bytes, copy.size, NULL));
    assert_int_equal(tarry_server_deadline(told->server), TARRY_NEVER);
    is_refused(told, &(tarry_event){.type = TARRY_EVENT_JOINED}, TARRY_ERROR_STATE);
    save(told, &copy);
    is_refused(told, &(tarry_event){.type = TARRY_EVENT_JOINED}, TARRY_ERROR_STATE);
    tarry_server_stored(told->server, copy.bytes);
    joins(told, 0);
}

STORY(what_was_learned_is_kept)
{
    story_play(told, WORKERS, 2);
    saved before, after;
    passes(told, 200);
    expect_each(told, WORKERS, TARRY_MESSAGE_PROBE);
    at(told, 250);
    is_alive(told, 1);
    each_reports(told, WORKERS, 0);
    expect_signals(told);
    at(told, 290);
    delivers(told, 0, 1, 0);
    save(told, &before);
    estimate parts = told->server->part_time;
    recent answers = told->server->answers[1];
    restarts(told, &before);
    assert_true(parts.mean == 40 * STORY_MS);
    assert_true(answers.count == 1 && answers.times_us[0] == 50000);
    assert_memory_equal(&told->server->part_time, &parts, sizeof(parts));
    assert_memory_equal(&told->server->answers[1], &answers, sizeof(answers));
    save(told, &after);
    assert_memory_equal(before.bytes, after.bytes, members_offset(&before)); /* all but epochs */
}

TEST(a_checkpoint_of_something_else_is_refused)
{
    story told, other;
    story_play(&told, WORKERS, 2);
    saved copy;
    save(&told, &copy);

    story_plan(&other, WORKERS + 1, 2);
    other.server = NULL;
    assert_not_restored(&other, &copy, "checkpoint: it is of another plan");
    story_end(&other);
    story_plan(&other, WORKERS, 2);
    other.server = NULL;
    other.plan->digest[31] ^= 1;
    assert_not_restored(&other, &copy, "checkpoint: it is of another plan");
    story_end(&other);

    const tarry_server_settings same = told.settings;
    static const struct {
        const char *name, *value, *difference;
    } others[] = {
        {"stop", "error", "stop is exact, not error"},
        {"credit", "whole", "credit is chunk, not whole"},
        {"reproducible", "true", "reproducible is false, not true"},
        {"conditioning_limit", "10", "conditioning_limit is 1000, not 10"},
        {"silence_ns", "1", "silence_ns is 800000000, not 1"},
        {"dimension", "11", "dimension is 10, not 11"},
        {"stripe_length", "17", "stripe_length is 16, not 17"},
        {"fill", "stale", "fill is none, not stale"},
        {"keep", "credited", "keep is all, not credited"},
        {"sample_chunks", "1", "sample_chunks is 0, not 1"},
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        char text[200];
        assert_ok(tarry_server_settings_set(&told.settings, others[i].name, others[i].value, NULL));
        snprintf(text, sizeof(text), "checkpoint: it is of a server with other settings: %s",
                 others[i].difference);
        assert_not_restored(&told, &copy, text);
        told.settings = same;
    }
    told.settings.deadline_ns = 1; /* which no rule looks at */
    OWNED(tarry_server) server = server_make(told.plan, &told.settings);
    assert_ok(tarry_server_restore(server, copy.bytes, copy.size, NULL));
    told.settings = same;

    saved version = copy;
    version.bytes[8]++;
    reseal(&version);
    assert_not_restored(&told, &version, "checkpoint: it is of another version");
    story_end(&told);
}

/* Values that no server writes, under a digest that fits. */
STORY(impossible_values_are_refused)
{
    story_play(told, WORKERS, 2);
    saved copy;
    save(told, &copy);
    const double wrong[] = {-1, 1e19, NAN, INFINITY, 1}; /* 1: a mean without samples */
    for (size_t i = 0; i < 5; i++) {
        for (size_t field = 0; field < 2; field++) {
            saved parts = copy;
            bytes_put_f64(parts.bytes + round_offset(&parts) + 8 + 8 * field, wrong[i]);
            reseal(&parts);
            assert_not_restored(told, &parts, "checkpoint: it is damaged");
        }
    }
    const uint32_t counts[] = {0, RECENT_TIMES + 1, UINT32_MAX}; /* 0: of a time that is there */
    for (size_t i = 0; i < 3; i++) {
        saved answers = copy;
        bytes_put(answers.bytes + copy.size - SEAL - 4 * RECENT_TIMES, 50000, 4);
        bytes_put(answers.bytes + copy.size - SEAL - 4 * RECENT_TIMES - 4, counts[i], 4);
        reseal(&answers);
        assert_not_restored(told, &answers, "checkpoint: it is damaged");
    }
    bytes_put(copy.bytes + round_offset(&copy), UINT64_MAX, 8);
    reseal(&copy);
    assert_not_restored(told, &copy, "checkpoint: it is damaged");
}

/* A reader that goes beyond the end is seen by the sanitizers. */
STORY(one_that_ends_with_shorter_settings_is_refused)
{
    story_play(told, WORKERS, 2);
    saved copy;
    save(told, &copy);
    told->settings.conditioning_limit = 10; /* which takes bytes, as the default does not */
    const size_t size = round_offset(&copy);
    OWNED(uint8_t) bytes = checked_malloc(size);
    memcpy(bytes, copy.bytes, size);
    OWNED(tarry_server) server = server_make(told->plan, &told->settings);
    tarry_diagnostic why;
    assert_int_equal(tarry_server_restore(server, bytes, size, &why), TARRY_ERROR_FORMAT);
    assert_non_null(strstr(why.text, "conditioning_limit is 1000, not 10"));
}

STORY(damaged_bytes_are_refused)
{
    story_play(told, WORKERS, 2);
    saved copy;
    save(told, &copy);
    OWNED(tarry_server) server = server_make(told->plan, &told->settings);
    for (size_t size = 0; size < copy.size; size++)
        assert_int_equal(tarry_server_restore(server, copy.bytes, size, NULL), TARRY_ERROR_FORMAT);
    for (size_t bit = 0; bit < copy.size * 8; bit++) {
        saved flipped = copy;
        flipped.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(tarry_server_restore(server, flipped.bytes, flipped.size, NULL),
                         TARRY_ERROR_FORMAT);
    }
}

/* Whatever passes the checks leaves a server that runs. */
TEST(any_bytes_are_refused_or_give_a_server_that_runs)
{
    random_stream draws = random_stream_make(test_seed("checkpoint", 1), RANDOM_TEST, 0, 0);
    story told;
    story_play(&told, WORKERS, 2);
    for (uint32_t worker = 1; worker < WORKERS; worker++)
        for (uint32_t i = 0; i < RECENT_TIMES; i++)
            recent_add(&told.server->answers[worker], i * STORY_MS);
    saved copy;
    save(&told, &copy);
    story_end(&told);
    uint32_t accepted = 0;
    for (int run = 0; run < 3000; run++) {
        story_plan(&told, WORKERS, 2);
        told.server = server_make(told.plan, &told.settings);
        saved noisy = copy;
        for (uint32_t changes = 1 + random_below(&draws, 4); changes > 0; changes--) {
            size_t at = round_offset(&copy) +
                        random_below(&draws, (uint32_t)(copy.size - round_offset(&copy)));
            noisy.bytes[at] = (uint8_t)random_u32(&draws);
        }
        reseal(&noisy);
        int error = tarry_server_restore(told.server, noisy.bytes, noisy.size, NULL);
        if (error == TARRY_OK) {
            accepted++;
            store(&told, &noisy);
            joins(&told, 0);
            joins(&told, 1);
            starts(&told);
            passes(&told, 2000);
        } else {
            assert_int_equal(error, TARRY_ERROR_FORMAT);
        }
        told.effects = NULL;
        story_end(&told);
    }
    assert_in_range(accepted, 300, 2700);
}
