/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/random.h"
#include "protocol/server/server_state.h"
#include "seed.h"
#include "story.h"

enum { WORKERS = 3, SEAL = 32, ROUND_OFFSET = 128, MEMBERS_OFFSET = ROUND_OFFSET + 8 + 24 };

typedef struct saved {
    uint8_t bytes[512];
    size_t size;
} saved;

static void save(story *told, saved *copy)
{
    copy->size = tarry_server_checkpoint_size(told->server);
    assert_true(copy->size <= sizeof(copy->bytes));
    assert_int_equal(tarry_server_checkpoint(told->server, copy->bytes), TARRY_OK);
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

static tarry_server *fresh(const story *told)
{
    tarry_server *server;
    assert_int_equal(tarry_server_create(told->plan, &told->settings, NULL, &server, NULL),
                     TARRY_OK);
    return server;
}

/* A restart: only what is in the checkpoint comes along; the server's clock begins anew. */
static void restarts(story *told, const saved *copy)
{
    expect_nothing(told);
    tarry_server_free(told->server);
    told->server = fresh(told);
    told->now = 0;
    told->effects = NULL;
    assert_int_equal(tarry_server_restore(told->server, copy->bytes, copy->size, NULL), TARRY_OK);
    saved own;
    store(told, &own);
}

static void assert_refused(const story *told, const saved *copy, const char *text)
{
    tarry_server *server = fresh(told);
    tarry_diagnostic why;
    assert_int_equal(tarry_server_restore(server, copy->bytes, copy->size, &why),
                     TARRY_ERROR_FORMAT);
    assert_string_equal(why.text, text);
    /* Nothing changed: it is as good as new. */
    const tarry_effects *effects;
    tarry_event start = {.type = TARRY_EVENT_START};
    assert_int_equal(tarry_server_step(server, 0, &start, &effects), TARRY_OK);
    assert_int_equal(effects->items[effects->count - 1].result->round, 0);
    tarry_server_free(server);
}

static void the_round_begins_anew_under_its_number(void **state)
{
    (void)state;
    story told;
    story_plan(&told, WORKERS, 2);
    story_begin(&told);
    at(&told, 3);
    reports(&told, 0, 0);
    saved copy;
    save(&told, &copy); /* in the middle of round 0 */

    at(&told, 4);
    reports(&told, 1, 0);
    reports(&told, 2, 0);
    expect_clear(&told, 0);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        expect_send(&told, worker, TARRY_MESSAGE_SIGNAL);
    restarts(&told, &copy);
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        assert_false(tarry_server_present(told.server, worker));
        assert_int_equal(tarry_server_finished(told.server, worker), 0);
        joins(&told, worker);
    }
    starts(&told);
    assert_int_equal(told.round, 0);

    /* What belongs to the server's first life is stale, even the part of its last signal. */
    sends_part(&told, 0, 1, 0);
    expect_reject(&told, 0, TARRY_REJECT_STALE);
    reports(&told, 1, 1);
    expect_reject(&told, 1, TARRY_REJECT_STALE);
    told.epoch = 1 + TARRY_CHECKPOINT_ARRIVALS + 1;
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        reports(&told, worker, 0);
    expect_clear(&told, 0);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        expect_send(&told, worker, TARRY_MESSAGE_SIGNAL);
    story_end(&told);
}

static void between_rounds_the_next_number_is_kept(void **state)
{
    (void)state;
    story told;
    story_plan(&told, WORKERS, 2);
    story_begin(&told);
    happens(&told, &(tarry_event){.type = TARRY_EVENT_ABORT});
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        expect_send(&told, worker, TARRY_MESSAGE_FINISH);
    expect_done(&told, TARRY_ERROR_INTERRUPTED);
    saved copy;
    save(&told, &copy);
    restarts(&told, &copy);
    joins(&told, 0);
    joins(&told, 1);
    starts(&told);
    assert_int_equal(told.round, 1);
    story_end(&told);
}

/* However often it is restarted, and however much happened after the checkpoint. */
static void no_epoch_is_given_twice(void **state)
{
    (void)state;
    story told;
    story_plan(&told, WORKERS, 2);
    story_begin(&told);
    uint32_t highest = 1;
    for (int life = 0; life < 4; life++) {
        saved copy;
        save(&told, &copy);
        for (int arrival = 0; arrival < 5; arrival++) {
            joins(&told, 2);
            uint32_t epoch = expect_send(&told, 2, TARRY_MESSAGE_ROUND)->epoch;
            assert_true(epoch > highest);
            highest = epoch;
        }
        restarts(&told, &copy);
        for (uint32_t worker = 0; worker < WORKERS; worker++)
            joins(&told, worker);
        starts(&told);
        assert_int_equal(told.round, 0);
    }
    story_end(&told);
}

static void arrives(story *told, uint32_t worker, uint32_t times)
{
    for (; times > 0; times--) {
        joins(told, worker);
        told->epoch = expect_send(told, worker, TARRY_MESSAGE_ROUND)->epoch;
    }
}

static void arrivals_beyond_the_reserve_wait_for_a_checkpoint(void **state)
{
    (void)state;
    story told;
    story_plan(&told, WORKERS, 2);
    story_begin(&told);
    saved copy;
    store(&told, &copy);
    assert_int_equal(tarry_server_arrivals_left(told.server), TARRY_CHECKPOINT_ARRIVALS);
    arrives(&told, 0, TARRY_CHECKPOINT_ARRIVALS);
    assert_int_equal(tarry_server_arrivals_left(told.server), 0);
    joins(&told, 0);
    expect_reject(&told, 0, TARRY_REJECT_EXHAUSTED);
    reports(&told, 0, 0); /* the last arrival still counts */
    expect_nothing(&told);
    assert_int_equal(tarry_server_finished(told.server, 0), 1);
    store(&told, &copy);
    arrives(&told, 0, 1);
    assert_int_equal(tarry_server_arrivals_left(told.server), TARRY_CHECKPOINT_ARRIVALS - 1);
    story_end(&told);
}

/* A restart would go on from the one before, and give out the same epochs. */
static void a_checkpoint_that_is_not_stored_reserves_nothing(void **state)
{
    (void)state;
    story told;
    story_plan(&told, WORKERS, 2);
    story_begin(&told);
    saved stored, lost;
    store(&told, &stored);
    arrives(&told, 0, TARRY_CHECKPOINT_ARRIVALS - 1);
    save(&told, &lost);
    assert_int_equal(tarry_server_arrivals_left(told.server), 1);
    arrives(&told, 0, 1);
    uint32_t highest = told.epoch;
    joins(&told, 0);
    expect_reject(&told, 0, TARRY_REJECT_EXHAUSTED);
    restarts(&told, &stored);
    joins(&told, 0);
    joins(&told, 1);
    starts(&told);
    assert_true(told.server->members[0].epoch > highest);
    story_end(&told);
}

/* What has arrived since it was taken is of its reserve. */
static void arrivals_before_it_is_stored_count(void **state)
{
    (void)state;
    story told;
    story_plan(&told, WORKERS, 2);
    story_begin(&told);
    saved copy;
    save(&told, &copy);
    arrives(&told, 0, 10);
    tarry_server_stored(told.server, copy.bytes);
    assert_int_equal(tarry_server_arrivals_left(told.server), TARRY_CHECKPOINT_ARRIVALS - 10);
    story_end(&told);
}

static void epochs_end_with_their_last_number(void **state)
{
    (void)state;
    story told;
    story_plan(&told, WORKERS, 2);
    story_begin(&told);
    saved copy;
    save(&told, &copy);
    bytes_put(copy.bytes + MEMBERS_OFFSET, UINT32_MAX - TARRY_CHECKPOINT_ARRIVALS - 1, 4);
    reseal(&copy);
    restarts(&told, &copy);
    joins(&told, 0);
    joins(&told, 0);
    expect_reject(&told, 0, TARRY_REJECT_EXHAUSTED);
    joins(&told, 1);
    story_end(&told);
}

static void a_restored_server_is_stored_before_it_steps(void **state)
{
    (void)state;
    story told;
    story_plan(&told, WORKERS, 2);
    story_begin(&told);
    saved copy;
    save(&told, &copy);
    tarry_diagnostic why;
    assert_int_equal(tarry_server_restore(told.server, copy.bytes, copy.size, &why),
                     TARRY_ERROR_STATE);
    assert_string_equal(why.text, "checkpoint: the server is in use");

    told.effects = NULL;
    tarry_server_free(told.server);
    told.server = fresh(&told);
    assert_int_equal(tarry_server_restore(told.server, copy.bytes, copy.size, NULL), TARRY_OK);
    assert_int_equal(tarry_server_deadline(told.server), TARRY_NEVER);
    is_refused(&told, &(tarry_event){.type = TARRY_EVENT_JOINED}, TARRY_ERROR_STATE);
    save(&told, &copy);
    is_refused(&told, &(tarry_event){.type = TARRY_EVENT_JOINED}, TARRY_ERROR_STATE);
    tarry_server_stored(told.server, copy.bytes);
    joins(&told, 0);
    story_end(&told);
}

static void what_was_learned_is_kept(void **state)
{
    (void)state;
    story told;
    story_plan(&told, WORKERS, 2);
    story_begin(&told);
    saved before, after;
    at(&told, 200);
    time_passes(&told);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        expect_send(&told, worker, TARRY_MESSAGE_PROBE);
    at(&told, 250);
    is_alive(&told, 1);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        reports(&told, worker, 0);
    expect_clear(&told, 0);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        expect_send(&told, worker, TARRY_MESSAGE_SIGNAL);
    at(&told, 290);
    delivers(&told, 0, 1, 0);
    save(&told, &before);
    estimate parts = told.server->part_time;
    recent answers = told.server->answers[1];
    restarts(&told, &before);
    assert_true(parts.mean == 40 * STORY_MS);
    assert_true(answers.count == 1 && answers.times_us[0] == 50000);
    assert_memory_equal(&told.server->part_time, &parts, sizeof(parts));
    assert_memory_equal(&told.server->answers[1], &answers, sizeof(answers));
    save(&told, &after);
    assert_memory_equal(before.bytes, after.bytes, MEMBERS_OFFSET); /* all but epochs */
    story_end(&told);
}

static void a_checkpoint_of_something_else_is_refused(void **state)
{
    (void)state;
    story told, other;
    story_plan(&told, WORKERS, 2);
    story_begin(&told);
    saved copy;
    save(&told, &copy);

    story_plan(&other, WORKERS + 1, 2);
    other.server = NULL;
    assert_refused(&other, &copy, "checkpoint: it is of another plan");
    story_end(&other);
    story_plan(&other, WORKERS, 2);
    other.server = NULL;
    other.plan->digest[31] ^= 1;
    assert_refused(&other, &copy, "checkpoint: it is of another plan");
    story_end(&other);

    const tarry_server_settings same = told.settings;
    tarry_server_settings changed[12];
    for (size_t i = 0; i < 12; i++)
        changed[i] = same;
    changed[0].stop = TARRY_STOP_ERROR;
    changed[1].credit = TARRY_CREDIT_WHOLE;
    changed[2].reproducible = true;
    changed[3].workers_needed = 2;
    changed[4].deadline_ns = 1;
    changed[5].error_limit = 0.5;
    changed[6].conditioning_limit = 10;
    changed[7].silence_ns++;
    changed[8].dimension++;
    changed[9].stripe_length++;
    changed[10].fill = TARRY_FILL_STALE;
    changed[11].keep = TARRY_KEEP_CREDITED;
    for (size_t i = 0; i < 12; i++) {
        told.settings = changed[i];
        assert_refused(&told, &copy, "checkpoint: it is of a server with other settings");
    }
    told.settings = same;

    saved version = copy;
    version.bytes[8]++;
    reseal(&version);
    assert_refused(&told, &version, "checkpoint: it is of another version");
    story_end(&told);
}

/* Values that no server writes, under a digest that fits. */
static void impossible_values_are_refused(void **state)
{
    (void)state;
    story told;
    story_plan(&told, WORKERS, 2);
    story_begin(&told);
    saved copy;
    save(&told, &copy);
    const double wrong[] = {-1, 1e19, NAN, INFINITY, 1}; /* 1: a mean without samples */
    for (size_t i = 0; i < 5; i++) {
        for (size_t field = 0; field < 2; field++) {
            saved parts = copy;
            bytes_put_f64(parts.bytes + ROUND_OFFSET + 8 + 8 * field, wrong[i]);
            reseal(&parts);
            assert_refused(&told, &parts, "checkpoint: it is damaged");
        }
    }
    const uint32_t counts[] = {0, RECENT_TIMES + 1, UINT32_MAX}; /* 0: of a time that is there */
    for (size_t i = 0; i < 3; i++) {
        saved answers = copy;
        bytes_put(answers.bytes + copy.size - SEAL - 4 * RECENT_TIMES, 50000, 4);
        bytes_put(answers.bytes + copy.size - SEAL - 4 * RECENT_TIMES - 4, counts[i], 4);
        reseal(&answers);
        assert_refused(&told, &answers, "checkpoint: it is damaged");
    }
    bytes_put(copy.bytes + ROUND_OFFSET, UINT64_MAX, 8);
    reseal(&copy);
    assert_refused(&told, &copy, "checkpoint: it is damaged");
    story_end(&told);
}

static void damaged_bytes_are_refused(void **state)
{
    (void)state;
    story told;
    story_plan(&told, WORKERS, 2);
    story_begin(&told);
    saved copy;
    save(&told, &copy);
    tarry_server *server = fresh(&told);
    for (size_t size = 0; size < copy.size; size++)
        assert_int_equal(tarry_server_restore(server, copy.bytes, size, NULL), TARRY_ERROR_FORMAT);
    for (size_t bit = 0; bit < copy.size * 8; bit++) {
        saved flipped = copy;
        flipped.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(tarry_server_restore(server, flipped.bytes, flipped.size, NULL),
                         TARRY_ERROR_FORMAT);
    }
    tarry_server_free(server);
    story_end(&told);
}

/* Whatever passes the checks leaves a server that runs. */
static void any_bytes_are_refused_or_give_a_server_that_runs(void **state)
{
    (void)state;
    random_stream draws = random_stream_make(test_seed("checkpoint", 1), RANDOM_TEST, 0, 0);
    story told;
    story_plan(&told, WORKERS, 2);
    story_begin(&told);
    for (uint32_t worker = 1; worker < WORKERS; worker++)
        for (uint32_t i = 0; i < RECENT_TIMES; i++)
            recent_add(&told.server->answers[worker], i * STORY_MS);
    saved copy;
    save(&told, &copy);
    story_end(&told);
    uint32_t accepted = 0;
    for (int run = 0; run < 3000; run++) {
        story_plan(&told, WORKERS, 2);
        told.server = fresh(&told);
        saved noisy = copy;
        for (uint32_t changes = 1 + random_below(&draws, 4); changes > 0; changes--) {
            size_t at = ROUND_OFFSET + random_below(&draws, (uint32_t)(copy.size - ROUND_OFFSET));
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
            at(&told, 2000);
            time_passes(&told);
        } else {
            assert_int_equal(error, TARRY_ERROR_FORMAT);
        }
        told.effects = NULL;
        story_end(&told);
    }
    assert_in_range(accepted, 300, 2700);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_round_begins_anew_under_its_number),
        cmocka_unit_test(between_rounds_the_next_number_is_kept),
        cmocka_unit_test(no_epoch_is_given_twice),
        cmocka_unit_test(arrivals_beyond_the_reserve_wait_for_a_checkpoint),
        cmocka_unit_test(a_checkpoint_that_is_not_stored_reserves_nothing),
        cmocka_unit_test(arrivals_before_it_is_stored_count),
        cmocka_unit_test(epochs_end_with_their_last_number),
        cmocka_unit_test(a_restored_server_is_stored_before_it_steps),
        cmocka_unit_test(what_was_learned_is_kept),
        cmocka_unit_test(a_checkpoint_of_something_else_is_refused),
        cmocka_unit_test(impossible_values_are_refused),
        cmocka_unit_test(damaged_bytes_are_refused),
        cmocka_unit_test(any_bytes_are_refused_or_give_a_server_that_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
