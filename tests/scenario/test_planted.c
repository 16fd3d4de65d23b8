/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariants can fail: each error, planted into the worlds, is found by the one it breaks, in
 * few rounds, and shrinks to few faults.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "seed.h"
#include "sim/shrink/shrink.h"

enum { ENOUGH = 10, PLENTY_ROUNDS = 1000, MOST_ROUNDS = 10000, FEW_FAULTS = 8 };

static void count_line(void *user, const char *line)
{
    (void)line;
    ++*(uint32_t *)user;
}

/* Shrinks what `job` shows, and runs it with the faults that are left. */
static void shrink(cluster *world, const cluster_job *job, uint64_t rounds)
{
    char name[LINE_BYTES];
    size_t all = world->draws.struck.count;
    uint32_t lines = 0;
    snprintf(name, sizeof(name), "%s", world->broken);
    shrinking shrunk;
    assert_int_equal(shrink_faults(world, job, &shrunk), TARRY_OK);
    cluster_job left = *job;
    left.allowed = &shrunk.left;
    left.trace = count_line;
    left.user = &lines;
    assert_int_equal(cluster_run(world, &left), TARRY_OK);
    assert_non_null(world->broken);
    assert_string_equal(world->broken, name);
    assert_true(world->draws.struck.count <= all && shrunk.left.count <= FEW_FAULTS);
    printf("%s: within %llu rounds; %zu of %zu faults show it, in %u lines\n", name,
           (unsigned long long)rounds, shrunk.left.count, all, lines);
}

static bool secure; /* the worlds to come */

/*
 * The error is found by the invariant `name` in some worlds, the first of them among the first
 * MOST_ROUNDS rounds; one is enough once there were PLENTY_ROUNDS. Where it has done other damage
 * first, it may be found by one of `others` instead (names joined by blanks; NULL: by any).
 */
static void expect_from(uint32_t run, tarry_sum_place sum, plant planted, const char *name,
                        const char *others)
{
    cluster_job job = {.seed = test_seed("scenario/planted", 1),
                       .run = run,
                       .sum = sum,
                       .secure = secure,
                       .planted = planted};
    cluster *world;
    assert_int_equal(cluster_create(NULL, &world), TARRY_OK);
    uint64_t rounds = 0;
    for (uint32_t found = 0; found == 0 || (found < ENOUGH && rounds < PLENTY_ROUNDS); job.run++) {
        assert_int_equal(cluster_run(world, &job), TARRY_OK);
        rounds += world->rounds_done;
        assert_true(found > 0 || rounds <= MOST_ROUNDS);
        if (world->broken == NULL)
            continue;
        if (strcmp(world->broken, name) == 0 && found++ == 0)
            shrink(world, &job, rounds);
        else if (strcmp(world->broken, name) != 0 && others != NULL &&
                 strstr(others, world->broken) == NULL)
            fail_msg("run %u: %s (%s), expected %s", job.run, world->broken, world->why, name);
    }
    cluster_free(world);
}

static void expect_of(tarry_sum_place sum, plant planted, const char *name, const char *others)
{
    expect_from(0, sum, planted, name, others);
}

/* In worlds whose sums are secure. */
static void expect_secure(plant planted, const char *name, const char *others)
{
    secure = true;
    expect_of(TARRY_SUM_SERVER, planted, name, others);
    secure = false;
}

static void expect(plant planted, const char *name, const char *others)
{
    expect_of(TARRY_SUM_SERVER, planted, name, others);
}

static void expect_everywhere(plant planted, const char *name, const char *others)
{
    expect_of(TARRY_SUM_EVERYWHERE, planted, name, others);
}

static void a_part_summed_twice(void **state)
{
    (void)state;
    expect(PLANT_SUM_TWICE, "no_chunk_counted_twice", "");
}

static void a_stale_part_summed(void **state)
{
    (void)state;
    expect(PLANT_SUM_STALE, "no_stale_message_summed", "");
}

static void a_worker_that_takes_another_chunk_for_sampled(void **state)
{
    (void)state;
    expect(PLANT_OTHER_SAMPLE, "only_what_is_sampled_is_computed",
           "someone_works_on_what_is_missing rounds_end_in_time");
}

static void what_was_sampled_counts_once(void **state)
{
    (void)state;
    expect(PLANT_ADD_ONCE, "exact_means_exact", "expected_error_is_the_error");
}

static void an_estimate_that_is_not_cleared(void **state)
{
    (void)state;
    expect(PLANT_FORGET_CLEAR, "no_chunk_counted_twice",
           "expected_error_is_the_error exact_means_exact every_sample_once");
}

static void messages_of_an_earlier_arrival_that_count(void **state)
{
    (void)state;
    expect(PLANT_FORGE_EPOCH, "psi_speaks_of_real_copies",
           "whole_credit_takes_whole_workers no_stale_message_summed "
           "what_is_recovered_is_dropped what_is_over_is_stale");
}

static void a_report_that_is_overlooked(void **state)
{
    (void)state;
    expect(PLANT_LOSE_REPORT, "signals_when_the_stop_rule_holds", NULL);
}

static void a_message_that_is_counted_twice(void **state)
{
    (void)state;
    expect(PLANT_REPEAT_UNNOTICED, "counters_agree", NULL);
}

static void a_wrong_coefficient(void **state)
{
    (void)state;
    expect(PLANT_BEND_PART, "exact_means_exact", "every_sample_once expected_error_is_the_error");
}

static void a_chunk_encoded_before_it_is_computed(void **state)
{
    (void)state;
    expect(PLANT_ENCODE_UNFINISHED, "encodes_only_finished_copies",
           "exact_means_exact every_sample_once expected_error_is_the_error");
}

static void a_result_that_claims_too_little_error(void **state)
{
    (void)state;
    expect(PLANT_BEND_RESULT, "expected_error_is_the_error", "");
}

static void a_signal_that_never_arrives(void **state)
{
    (void)state;
    expect(PLANT_SWALLOW_SIGNAL, "rounds_end_in_time", "every_run_ends");
}

static void a_lost_worker_that_is_waited_for(void **state)
{
    (void)state;
    expect(PLANT_WAIT_FOR_THE_LOST, "rounds_end_in_time", NULL);
}

static void a_checkpoint_that_two_lives_begin_from(void **state)
{
    (void)state;
    expect(PLANT_OLD_CHECKPOINT, "psi_speaks_of_real_copies", NULL);
}

static void a_gradient_folded_twice(void **state)
{
    (void)state;
    expect(PLANT_FOLD_TWICE, "no_chunk_counted_twice", "");
}

static void a_gradient_folded_that_does_not_count(void **state)
{
    (void)state;
    expect(PLANT_FOLD_UNCREDITED, "folds_only_credited_copies", "sends_what_is_in_the_sum");
}

static void a_worker_that_runs_too_far_ahead(void **state)
{
    (void)state;
    expect(PLANT_RUN_TOO_FAR, "runs_no_further_ahead", "");
}

static void a_gradient_of_two_rounds_ago(void **state)
{
    (void)state;
    expect(PLANT_ENCODE_TOO_OLD, "fills_from_the_round_before", "encodes_only_finished_copies");
}

static void a_copy_of_another_round_than_named(void **state)
{
    (void)state;
    expect(PLANT_ENCODE_OTHER_ROUND, "encodes_only_finished_copies", NULL);
}

static void a_sum_that_is_not_scaled(void **state)
{
    (void)state;
    expect(PLANT_FORGET_SCALE, "expected_error_is_the_error", "");
}

static void news_that_never_arrive(void **state)
{
    (void)state;
    expect(PLANT_SWALLOW_NEWS, "someone_works_on_what_is_missing",
           "what_is_recovered_is_dropped rounds_end_in_time");
}

static void a_bar_that_is_never_lifted(void **state)
{
    (void)state;
    expect(PLANT_KEEP_BARRED, "someone_works_on_what_is_missing",
           "what_is_recovered_is_dropped rounds_end_in_time");
}

static void workers_whose_words_do_not_count(void **state)
{
    (void)state;
    expect(PLANT_MUTE, "what_is_recovered_is_dropped",
           "someone_works_on_what_is_missing rounds_end_in_time");
}

static void a_worker_that_is_kept_from_everything(void **state)
{
    (void)state;
    expect(PLANT_BAR_ALL, "barred_only_for_a_reason", "");
}

static void a_worker_that_overlooks_a_raised_limit(void **state)
{
    (void)state;
    expect(PLANT_USUAL_LIMIT, "all_encode_by_the_signals_limit", "expected_error_is_the_error");
}

static void chunks_that_stay_what_they_were(void **state)
{
    (void)state;
    expect(PLANT_KEEP_SPANS, "every_sample_once",
           "expected_error_is_the_error filled_share_is_filled one_round_for_each_chunk");
}

static void a_part_of_another_plan_summed(void **state)
{
    (void)state;
    expect(PLANT_SUM_OTHER_PLAN, "sums_are_of_the_plan", "");
}

static void orders_of_another_plan(void **state)
{
    (void)state;
    expect(PLANT_OLD_ORDERS, "computes_by_the_plan_of_the_round",
           "frames_are_read a_worker_never_waits");
}

static void a_commit_before_the_log(void **state)
{
    (void)state;
    expect_everywhere(PLANT_COMMIT_FIRST, "steps_only_on_what_is_committed", "");
}

static void one_holder_that_is_enough(void **state)
{
    (void)state;
    expect_everywhere(PLANT_ONE_HOLDER, "commits_what_all_hold", NULL);
}

static void an_attempt_beside_a_holder(void **state)
{
    (void)state;
    expect_everywhere(PLANT_LOSE_HOLDER, "no_attempt_beside_a_holder", NULL);
}

static void a_load_that_comes_again(void **state)
{
    (void)state;
    expect_everywhere(PLANT_LATE_LOAD, "all_have_the_same_sums", NULL);
}

static void an_engine_that_ends_late(void **state)
{
    (void)state;
    expect_everywhere(PLANT_LATE_ENGINE, "answers_match_orders", NULL);
}

static void a_sum_made_in_place(void **state)
{
    (void)state;
    expect_everywhere(PLANT_SUM_IN_PLACE, "a_sum_leaves_z_alone", "");
}

static void sums_with_other_bits(void **state)
{
    (void)state;
    expect_everywhere(PLANT_ANY_DIGEST, "commits_what_all_hold", NULL);
}

static void what_stands_summed_again(void **state)
{
    (void)state;
    expect_everywhere(PLANT_SUM_AGAIN, "all_make_the_same_sum", "");
}

static void more_that_stands_than_is_there(void **state)
{
    (void)state;
    expect_everywhere(PLANT_TELL_MORE, "what_stands_is_there", NULL);
}

static void parameters_of_which_nobody_hears(void **state)
{
    (void)state;
    expect_everywhere(PLANT_NO_STATES, "who_differs_loads", "");
}

static void attempts_that_nobody_ends(void **state)
{
    (void)state;
    expect_everywhere(PLANT_NO_LIMIT, "rounds_end_in_time", "");
}

static void attempts_without_a_pause(void **state)
{
    (void)state;
    /* From a world on whose error few faults show. */
    expect_from(200, TARRY_SUM_EVERYWHERE, PLANT_NO_PAUSE, "links_have_time_to_come_up",
                "attempts_are_bounded");
}

static void a_part_that_stays_what_it_was(void **state)
{
    (void)state;
    expect_everywhere(PLANT_KEEP_PART, "exact_means_exact", NULL);
}

static void a_sum_in_two_shapes(void **state)
{
    (void)state;
    expect_everywhere(PLANT_OTHER_SHAPE, "one_attempt_for_all", "");
}

static void a_share_that_its_owner_has_as_it_was(void **state)
{
    (void)state;
    expect_everywhere(PLANT_KEEP_EXACT, "all_make_the_same_sum", "");
}

static void numbers_that_each_hop_rounds(void **state)
{
    (void)state;
    expect_everywhere(PLANT_ROUND_HOPS, "rounds_once_each_way", "");
}

static void a_change_that_was_cut_off_taken_for_one_that_came(void **state)
{
    (void)state;
    expect(PLANT_FORGET_CUT, "views_follow_each_other", "");
}

static void a_bit_of_a_change_that_is_wrong(void **state)
{
    (void)state;
    expect(PLANT_BEND_VIEW, "views_are_equal", "");
}

static void a_worker_that_computes_with_the_view_before(void **state)
{
    (void)state;
    expect(PLANT_KEEP_VIEW, "views_are_equal", "");
}

static void a_view_that_is_not_in_the_checkpoint(void **state)
{
    (void)state;
    expect(PLANT_FORGET_VIEW, "views_outlive_the_server", "");
}

static void a_late_part_taken_for_one_that_stands(void **state)
{
    (void)state;
    expect(PLANT_COMMIT_LATE, "telescoping_identity", "");
}

static void a_part_that_stands_taken_for_a_late_one(void **state)
{
    (void)state;
    expect(PLANT_COMMIT_NONE, "telescoping_identity", "");
}

static void a_residual_of_unknown_fate_that_is_kept(void **state)
{
    (void)state;
    expect(PLANT_KEEP_UNKNOWN, "telescoping_identity", "");
}

static void a_residual_that_outlives_its_server(void **state)
{
    (void)state;
    expect(PLANT_KEEP_UNDONE, "telescoping_identity", "");
}

static void a_residual_thrown_away_for_nothing(void **state)
{
    (void)state;
    expect(PLANT_VOID_TOLD, "what_is_told_is_not_void", "");
}

static void a_factor_of_the_round_before(void **state)
{
    (void)state;
    expect(PLANT_OLD_FACTOR, "telescoping_identity", "");
}

static void keys_and_masks_that_outlive_their_attempt(void **state)
{
    (void)state;
    expect_secure(PLANT_KEEP_KAPPA, "no_mask_covers_two_plaintexts", "");
}

static void a_part_masked_again_with_another_content(void **state)
{
    (void)state;
    expect_secure(PLANT_MASK_AGAIN, "no_mask_covers_two_plaintexts", "");
}

static void a_worker_that_masks_for_the_signal_before(void **state)
{
    (void)state;
    expect_secure(PLANT_STALE_GROUP, "secure_sum_is_the_integer_sum", "");
}

static void another_holder_than_is_credited(void **state)
{
    (void)state;
    expect_secure(PLANT_NAME_ANOTHER, "holders_cover_once", "");
}

static void a_count_of_clamped_numbers_for_each_stripe(void **state)
{
    (void)state;
    expect_secure(PLANT_COUNT_STRIPES, "clamped_numbers_are_counted_once", "");
}

static void a_signal_that_says_something_else_to_one(void **state)
{
    (void)state;
    expect_secure(PLANT_BEND_HOLDERS, "honest_servers_are_believed", "");
}

static void masks_that_do_not_depend_on_the_length_of_stripes(void **state)
{
    (void)state;
    expect_secure(PLANT_FORGET_STRIPE, "other_terms_tear_the_sum", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_summed_twice),
        cmocka_unit_test(a_stale_part_summed),
        cmocka_unit_test(a_worker_that_takes_another_chunk_for_sampled),
        cmocka_unit_test(what_was_sampled_counts_once),
        cmocka_unit_test(an_estimate_that_is_not_cleared),
        cmocka_unit_test(messages_of_an_earlier_arrival_that_count),
        cmocka_unit_test(a_report_that_is_overlooked),
        cmocka_unit_test(a_message_that_is_counted_twice),
        cmocka_unit_test(a_wrong_coefficient),
        cmocka_unit_test(a_chunk_encoded_before_it_is_computed),
        cmocka_unit_test(a_result_that_claims_too_little_error),
        cmocka_unit_test(a_signal_that_never_arrives),
        cmocka_unit_test(a_lost_worker_that_is_waited_for),
        cmocka_unit_test(a_checkpoint_that_two_lives_begin_from),
        cmocka_unit_test(a_gradient_folded_twice),
        cmocka_unit_test(a_gradient_folded_that_does_not_count),
        cmocka_unit_test(a_worker_that_runs_too_far_ahead),
        cmocka_unit_test(a_gradient_of_two_rounds_ago),
        cmocka_unit_test(a_copy_of_another_round_than_named),
        cmocka_unit_test(a_sum_that_is_not_scaled),
        cmocka_unit_test(news_that_never_arrive),
        cmocka_unit_test(a_bar_that_is_never_lifted),
        cmocka_unit_test(workers_whose_words_do_not_count),
        cmocka_unit_test(a_worker_that_is_kept_from_everything),
        cmocka_unit_test(a_worker_that_overlooks_a_raised_limit),
        cmocka_unit_test(chunks_that_stay_what_they_were),
        cmocka_unit_test(a_part_of_another_plan_summed),
        cmocka_unit_test(orders_of_another_plan),
        cmocka_unit_test(a_commit_before_the_log),
        cmocka_unit_test(one_holder_that_is_enough),
        cmocka_unit_test(an_attempt_beside_a_holder),
        cmocka_unit_test(a_load_that_comes_again),
        cmocka_unit_test(an_engine_that_ends_late),
        cmocka_unit_test(a_sum_made_in_place),
        cmocka_unit_test(sums_with_other_bits),
        cmocka_unit_test(what_stands_summed_again),
        cmocka_unit_test(more_that_stands_than_is_there),
        cmocka_unit_test(parameters_of_which_nobody_hears),
        cmocka_unit_test(attempts_that_nobody_ends),
        cmocka_unit_test(attempts_without_a_pause),
        cmocka_unit_test(a_sum_in_two_shapes),
        cmocka_unit_test(a_part_that_stays_what_it_was),
        cmocka_unit_test(a_share_that_its_owner_has_as_it_was),
        cmocka_unit_test(numbers_that_each_hop_rounds),
        cmocka_unit_test(a_change_that_was_cut_off_taken_for_one_that_came),
        cmocka_unit_test(a_bit_of_a_change_that_is_wrong),
        cmocka_unit_test(a_worker_that_computes_with_the_view_before),
        cmocka_unit_test(a_view_that_is_not_in_the_checkpoint),
        cmocka_unit_test(a_late_part_taken_for_one_that_stands),
        cmocka_unit_test(a_part_that_stands_taken_for_a_late_one),
        cmocka_unit_test(a_residual_of_unknown_fate_that_is_kept),
        cmocka_unit_test(a_residual_that_outlives_its_server),
        cmocka_unit_test(a_residual_thrown_away_for_nothing),
        cmocka_unit_test(a_factor_of_the_round_before),
        cmocka_unit_test(keys_and_masks_that_outlive_their_attempt),
        cmocka_unit_test(a_part_masked_again_with_another_content),
        cmocka_unit_test(a_worker_that_masks_for_the_signal_before),
        cmocka_unit_test(another_holder_than_is_credited),
        cmocka_unit_test(a_signal_that_says_something_else_to_one),
        cmocka_unit_test(masks_that_do_not_depend_on_the_length_of_stripes),
        cmocka_unit_test(a_count_of_clamped_numbers_for_each_stripe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
