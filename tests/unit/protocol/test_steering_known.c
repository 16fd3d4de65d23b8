/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic orders: what the server knows and is told of: words and their turns, costs, paces, parts,
 * settings. */
#include <math.h>

#include "creation.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "tale.h"
#include "test.h"

TALE(an_older_word_changes_nothing)
{
    two_share_four(it);
    at(&it->told, 10);
    tarry_message first = word_of(it, 0, TARRY_MESSAGE_REPORT, 2);
    first.slot = 0;
    has_finished(it, 0, 2, 1);
    assert_int_equal(at_which(it, 0), 1);
    says(&it->told, 0, &first); /* overtaken: its chunk counts, its word does not */
    expect_anything(it);
    books_agree(it->told.server);
    assert_int_equal(at_which(it, 0), 1);
    assert_int_equal(tarry_server_finished(it->told.server, 0), 2);
}

TALE(turns_may_wrap)
{
    two_share_four(it);
    at(&it->told, 1);
    for (uint32_t i = 0; i < 140000; i++) {
        tarry_message alive = word_of(it, 0, TARRY_MESSAGE_ALIVE, i % 2);
        says(&it->told, 0, &alive);
        expect_anything(it);
        assert_int_equal(at_which(it, 0), i % 2);
    }
    books_agree(it->told.server);
}

TALE(words_of_another_round_do_not_count)
{
    two_share_four(it);
    has_been_at(it, 0, 1);
    tarry_message word = word_of(it, 0, TARRY_MESSAGE_ALIVE, 2);
    word.sequence = 0; /* says nothing */
    says(&it->told, 0, &word);
    expect_anything(it);
    assert_int_equal(at_which(it, 0), 1);
    word = word_of(it, 0, TARRY_MESSAGE_ALIVE, 2);
    word.sequence += 100;
    word.round--;
    says(&it->told, 0, &word);
    expect_anything(it);
    has_been_at(it, 0, 0);
    assert_int_equal(at_which(it, 0), 0);
    books_agree(it->told.server);
}

/* They wrap as well while nobody cares what they say. */
TALE(turns_are_followed_while_parts_come_in)
{
    two_share_four(it);
    for (uint32_t slot = 0; slot < 4; slot++)
        finishes(it, 1, slot, slot + 1), expect_anything(it);
    assert_int_equal(it->told.server->phase, SERVER_CODING);
    for (uint32_t i = 0; i < 50000; i++)
        is_at(it, 0, 4);
    is_lost(&it->told, 1);
    expect_anything(it);
    has_been_at(it, 0, 3);
    assert_int_equal(at_which(it, 0), 3);
}

TALE(costs_are_checked_and_the_dearest_chunk_is_shared_first)
{
    all_hold_all(it, 2, 4, 1);
    tale_make_server(it);
    const double wrong[] = {-1, NAN, INFINITY};
    double costs[] = {1, 1, 1, 9};
    assert_ok(tarry_server_costs(it->told.server, costs));
    for (size_t i = 0; i < 3; i++) {
        const double bad[] = {1, 9, wrong[i], 1};
        assert_int_equal(tarry_server_costs(it->told.server, bad), TARRY_ERROR_ARGUMENT);
    }
    for (uint32_t worker = 0; worker < 2; worker++)
        joins(&it->told, worker);
    happens(&it->told, &(tarry_event){.type = TARRY_EVENT_START});
    books_agree(it->told.server);
    assert_set(expect_send(&it->told, 0, TARRY_MESSAGE_ROUND)->first, "0001");
    assert_set(expect_send(&it->told, 1, TARRY_MESSAGE_ROUND)->first, "0111");
    assert_int_equal(tarry_server_costs(it->told.server, costs), TARRY_ERROR_STATE);
    expect_anything(it);
    happens(&it->told, &(tarry_event){.type = TARRY_EVENT_ABORT});
    expect_anything(it);
    assert_ok(tarry_server_costs(it->told.server, NULL));
    happens(&it->told, &(tarry_event){.type = TARRY_EVENT_START});
    assert_set(expect_send(&it->told, 0, TARRY_MESSAGE_ROUND)->first, "1010");
    expect_anything(it);
}

/* Worker 1 takes 10 ms for a chunk and worker 0 30: the next round knows. */
TALE(paces_are_learned)
{
    two_share_four(it);
    assert_true(tarry_server_pace_ns(it->told.server, 0) == 0);
    at(&it->told, 10);
    has_finished(it, 1, 0, 2);
    at(&it->told, 20);
    has_finished(it, 1, 2, 4);
    at(&it->told, 30);
    has_finished(it, 1, 1, 4);
    finishes(it, 0, 0, 4);
    expect_signals(&it->told);
    delivers(&it->told, 1, 1, 0);
    delivers(&it->told, 0, 1, 0);
    assert_true(expect_done(&it->told, TARRY_OK)->exact);
    double slow = tarry_server_pace_ns(it->told.server, 0) / (double)STORY_MS;
    double fast = tarry_server_pace_ns(it->told.server, 1) / (double)STORY_MS;
    assert_true(slow > 20 && slow <= 30 && fast >= 10 && fast < 15);
    happens(&it->told, &(tarry_event){.type = TARRY_EVENT_START});
    assert_int_equal(bitset_count(expect_send(&it->told, 0, TARRY_MESSAGE_ROUND)->first, 4), 1);
    assert_int_equal(bitset_count(expect_send(&it->told, 1, TARRY_MESSAGE_ROUND)->first, 4), 3);
    expect_anything(it);
}

/*
 * A chunk takes 10 ms: with a dynamic order it is the learned paces that tell what
 * making up for a late worker costs. Worker 1 owes its part, with one chunk in it.
 */
TALE(making_up_for_a_late_worker_costs_what_paces_say)
{
    all_hold_all(it, 3, 3, 1);
    has_begun(it);
    at(&it->told, 10);
    for (uint32_t worker = 0; worker < 3; worker++) {
        expect_anything(it);
        finishes(it, worker, worker == 1, 3);
    }
    expect_signals(&it->told);
    at(&it->told, 20);
    delivers(&it->told, 0, 1, 0);
    delivers(&it->told, 2, 1, 0);
    uint64_t limit = server_late_limit_ns(it->told.server), start = 10 * STORY_MS;
    assert_int_equal(limit, 200 * STORY_MS);
    for (uint64_t ms = 50; ms <= 200; ms += 50) {
        at(&it->told, ms);
        for (uint32_t worker = 0; worker < 3; worker++)
            is_at(it, worker, 3);
    }
    while (it->told.now < start + limit) {
        it->told.now = tarry_server_deadline(it->told.server);
        time_passes(&it->told);
    }
    assert_int_equal(it->told.now, start + limit);
    it->told.now = tarry_server_deadline(it->told.server);
    uint64_t waited = it->told.now - start - limit;
    assert_true(waited >= 9 * STORY_MS && waited <= 11 * STORY_MS); /* one chunk */
    time_passes(&it->told);
    books_agree(it->told.server);
    assert_int_equal(it->told.effects->count, 3);
    expect_left_out(&it->told, 1, TARRY_ABSENT_LATE);
    bool first = expect_send(&it->told, 0, TARRY_MESSAGE_RESUME)->first != NULL;
    assert_true(first != (expect_send(&it->told, 2, TARRY_MESSAGE_RESUME)->first != NULL));
}

static bool is_planned_or_begun(const tale *it, uint32_t worker, uint32_t slot)
{
    const steering *steer = it->told.server->steering;
    return steer->workers[worker].current == slot ||
           bitset_test(steer->plans + steer->set_start[worker], slot);
}

/* With two parts each chunk is planned at two workers; where these have the same column of R, at
 * one more once that shows. */
TALE(with_two_parts_two_copies_are_planned_and_one_more_if_need_be)
{
    all_hold_all(it, 3, 3, 2);
    edge_plan_random_decode(it->told.plan, 1);
    for (uint32_t part = 0; part < 2; part++)
        it->told.plan->decode[part * 3] = it->told.plan->decode[part * 3 + 1];
    has_begun(it);
    uint32_t copies[3] = {0, 0, 0};
    for (uint32_t worker = 0; worker < 3; worker++)
        for (uint32_t slot = 0; slot < 3; slot++)
            copies[worker == 0 ? slot : 2 - slot] += is_planned_or_begun(it, worker, slot);
    for (uint32_t chunk = 0; chunk < 3; chunk++)
        assert_int_equal(copies[chunk], 2);
    /* Chunk 0: position 0 of worker 0, the last of the others. */
    at(&it->told, 10);
    has_finished(it, 0, 0, 1);
    has_finished(it, 1, 2, 0);
    assert_true(is_planned_or_begun(it, 2, 2));
    assert_int_equal(steering_wanted(it->told.server, 0), 1);
    has_finished(it, 2, 2, 1);
    assert_int_equal(steering_wanted(it->told.server, 0), 0);
}

/* The columns of workers 0 and 1 are nearly the same: 2 is asked for one of the two copies, of
 * every chunk, though it is to end later for it. */
TALE(copies_that_go_well_together_are_planned)
{
    all_hold_all(it, 3, 6, 2);
    edge_plan_random_decode(it->told.plan, 1);
    double *decode = it->told.plan->decode;
    const double columns[3][2] = {{1, 0}, {0.9999, 0.0141}, {0, 1}};
    for (uint32_t worker = 0; worker < 3; worker++)
        for (uint32_t part = 0; part < 2; part++)
            decode[part * 3 + worker] = columns[worker][part];
    has_begun(it);
    for (uint32_t slot = 0; slot < 6; slot++)
        assert_true(is_planned_or_begun(it, 2, slot));
}

/* Without worker 1's part, worker 0, which rests, would compute two more chunks of 10 ms. */
TALE(who_rests_would_compute_again)
{
    all_hold_all(it, 2, 4, 1);
    it->told.settings.keep = TARRY_KEEP_CREDITED;
    has_begun(it);
    for (uint32_t chunk = 0; chunk < 2; chunk++) {
        at(&it->told, 10 + 10 * chunk);
        for (uint32_t worker = 0; worker < 2; worker++) {
            has_finished(it, worker, 2 * chunk, chunk == 0 ? 2 : 4);
        }
    }
    tarry_server *server = it->told.server;
    server->members[1].overdue = true;
    coverage_copy(server->supposed, server->credited);
    for (uint32_t slot = 0; slot < 4; slot++)
        assert_ok(coverage_remove(server->supposed, 1, slot));
    assert_int_equal(steering_repeat_ns(server, it->told.now, server->supposed), 20 * STORY_MS);
}

/* Nothing of use can come any more, although chunks are left that nobody wants. */
TALE(the_error_rule_does_not_wait_for_what_nobody_wants)
{
    all_hold_all(it, 2, 3, 1);
    it->told.settings.stop = TARRY_STOP_ERROR;
    it->told.settings.error_limit = 0;
    has_begun(it);
    at(&it->told, 10);
    has_failed_at(it, 0, 0, 2);
    has_failed_at(it, 1, 2, 1);
    at(&it->told, 20);
    has_finished(it, 0, 2, 3);
    finishes(it, 1, 1, 3);
    expect_signals(&it->told);
}

TEST(some_settings_need_the_plans_order)
{
    OWNED(tarry_plan) plan = edge_plan_cyclic(3, 3, 2, 1);
    tarry_server_settings good;
    tarry_server_settings_init(&good);
    good.dimension = 1;
    for (tarry_pick pick = TARRY_PICK_PLAN; pick <= TARRY_PICK_SHARE + 1; pick++) {
        for (int kind = 0; kind < 4; kind++) {
            tarry_server_settings settings = good;
            settings.pick = pick;
            settings.workers_needed = 1;
            if (kind == 1)
                settings.credit = TARRY_CREDIT_WHOLE;
            if (kind == 2)
                settings.stop = TARRY_STOP_WORKERS;
            if (kind == 3)
                settings.reproducible = true;
            bool fine = pick == TARRY_PICK_PLAN || (kind == 0 && pick <= TARRY_PICK_SHARE);
            OWNED(tarry_server) server = NULL;
            tarry_diagnostic diagnostic;
            int error = tarry_server_create(plan, &settings, NULL, &server, &diagnostic);
            assert_int_equal(error, fine ? TARRY_OK : TARRY_ERROR_ARGUMENT);
            if (!fine)
                assert_non_null(
                    strstr(diagnostic.text, pick > TARRY_PICK_SHARE ? "pick" : "dynamic order"));
        }
    }
}

TEST(each_allocation_may_fail)
{
    OWNED(tarry_plan) plan = edge_plan_cyclic(4, 5, 3, 2);
    edge_plan_random_decode(plan, 1);
    server_creation made = {.plan = plan};
    tarry_server_settings_init(&made.settings);
    made.settings.dimension = 1000;
    made.settings.pick = TARRY_PICK_SHARE;
    assert_true(fail_each_allocation(create_server, &made) > 30);
}
