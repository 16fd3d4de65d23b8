/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "failing_allocator.h"
#include "rack_check.h"
#include "seed.h"
#include "test_file.h"

static tarry_plan_settings rack_settings(uint32_t workers, uint32_t chunks, uint32_t replication,
                                         uint32_t rack_size, uint64_t seed)
{
    tarry_plan_settings settings =
        plan_settings(workers, chunks, replication, TARRY_DESIGN_RANDOM, TARRY_ORDER_AS_IS, seed);
    settings.rack_size = rack_size;
    return settings;
}

/* Whether rack a could give a copy of some chunk to rack b, and both were spread as before. */
static bool could_give(const tarry_plan *plan, uint32_t a, uint32_t b)
{
    for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++) {
        uint32_t there = copies_in(plan, chunk, b);
        if (copies_in(plan, chunk, a) > there && there < rack_size(plan, b))
            return true;
    }
    return false;
}

/* Loads differ by one at most, unless no copy can go from the one worker's rack to the other's. */
static bool is_even(const tarry_plan *plan)
{
    for (uint32_t a = 0; a < tarry_plan_workers(plan); a++)
        for (uint32_t b = 0; b < tarry_plan_workers(plan); b++) {
            uint32_t from = tarry_plan_rack(plan, a), to = tarry_plan_rack(plan, b);
            if (tarry_plan_load(plan, a) > tarry_plan_load(plan, b) + 1 &&
                (from == to || could_give(plan, from, to)))
                return false;
        }
    return true;
}

static void check(const tarry_plan *plan, uint32_t replication)
{
    plan_check_views(plan);
    assert_int_equal(plan->min_replication, replication);
    assert_int_equal(plan->max_replication, replication);
    assert_true(is_spread(plan));
    assert_true(is_even(plan));
    check_rack_figures(plan);
}

TEST(all_small_plans_are_spread_and_even)
{
    uint64_t seed = test_seed("design_racks", 3);
    const uint32_t chunks[] = {1, 2, 5, 7, 12, 30};
    for (uint32_t workers = 1; workers <= 9; workers++)
        for (uint32_t size = 1; size <= workers; size++)
            for (uint32_t replication = 1; replication <= workers; replication++)
                for (size_t i = 0; i < sizeof(chunks) / sizeof(*chunks); i++) {
                    tarry_plan_settings settings =
                        rack_settings(workers, chunks[i], replication, size, seed++);
                    OWNED(tarry_plan) plan = plan_make(&settings);
                    assert_int_equal(tarry_plan_racks(plan), (workers + size - 1) / size);
                    check(plan, replication);
                }
}

/* Racks of any sizes, the members of which are anywhere. */
TEST(racks_of_a_file_are_spread_and_even)
{
    random_stream stream = random_stream_make(test_seed("racks of a file", 4), RANDOM_TEST, 0, 0);
    for (int trial = 0; trial < 300; trial++) {
        uint32_t workers = 2 + random_below(&stream, 12), names = 1 + random_below(&stream, 5);
        uint32_t replication = 1 + random_below(&stream, workers);
        char text[512] = "# racks\n\n", drawn[16];
        for (uint32_t worker = 0; worker < workers; worker++) {
            drawn[worker] = (char)('a' + random_below(&stream, names));
            size_t length = strlen(text);
            snprintf(text + length, sizeof(text) - length, " rack-%c \t# worker %u\n",
                     drawn[worker], worker);
        }
        write_text(test_file, text);
        tarry_plan_settings settings = rack_settings(workers, 1 + random_below(&stream, 40),
                                                     replication, 0, random_u64(&stream));
        settings.rack_file = test_file;
        OWNED(tarry_plan) plan = plan_make(&settings);
        for (uint32_t a = 0; a < workers; a++)
            for (uint32_t b = 0; b < workers; b++)
                assert_int_equal(tarry_plan_rack(plan, a) == tarry_plan_rack(plan, b),
                                 drawn[a] == drawn[b]);
        check(plan, replication);
    }
}

TEST(workers_in_no_rack_are_alone)
{
    write_text(test_file, "-\nb\n-\nb\n-\n");
    tarry_plan_settings settings = rack_settings(5, 10, 2, 0, 1);
    settings.rack_file = test_file;
    OWNED(tarry_plan) plan = plan_make(&settings);
    const uint32_t expected[] = {0, 1, 2, 1, 3};
    assert_int_equal(tarry_plan_racks(plan), 4);
    for (uint32_t worker = 0; worker < 5; worker++)
        assert_int_equal(tarry_plan_rack(plan, worker), expected[worker]);
    check(plan, 2);
}

TEST(wrong_files_are_refused)
{
    char longest[TARRY_RACK_BYTES + 4], why[128];
    memset(longest, 'x', TARRY_RACK_BYTES + 1);
    strcpy(longest + TARRY_RACK_BYTES + 1, "\na");
    const struct {
        const char *text, *why;
    } cases[] = {
        {"", "1: the file ends after 0 of the 2 workers"},
        {"a\n", "2: the file ends after 1 of the 2 workers"},
        {"a\nb\nc\n", "3: the plan has only 2 workers"},
        {"a\n# b\nb c\n", "3: more than the name of one rack"},
        {"a\nb\x01\n", "2: byte 0x01 in a rack's name"},
        {"\xc3\xa4\nb\n", "1: byte 0xc3 in a rack's name"},
        {longest, "1: the rack's name has more than 63 bytes"},
    };
    tarry_plan_settings settings = rack_settings(2, 2, 1, 0, 1);
    settings.rack_file = test_file;
    tarry_plan *plan = NULL;
    tarry_diagnostic diagnostic = {""};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        write_text(test_file, cases[i].text);
        snprintf(why, sizeof(why), "%s:%s", test_file, cases[i].why);
        assert_int_equal(tarry_plan_create(&settings, NULL, &plan, &diagnostic),
                         TARRY_ERROR_FORMAT);
        assert_string_equal(diagnostic.text, why);
    }
    settings.rack_file = "/tmp/no such file";
    assert_int_equal(tarry_plan_create(&settings, NULL, &plan, &diagnostic), TARRY_ERROR_FILE);
    assert_string_equal(diagnostic.text, "/tmp/no such file: No such file or directory");
    assert_null(plan);
}

/* 40 and 200 workers in racks of 10, 20 and 40: any single one may die, with 2 parts as well where
 * there are enough racks. */
TEST(any_rack_may_die)
{
    const struct {
        uint32_t workers, size, left;
    } cases[] = {{40, 10, 2}, {40, 20, 1}, {200, 10, 2}, {200, 20, 2}, {200, 40, 2}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        tarry_plan_settings settings =
            rack_settings(cases[i].workers, cases[i].workers, 3, cases[i].size, 1);
        settings.pieces = 16;
        OWNED(tarry_plan) plan = plan_make(&settings);
        plan_check_views(plan);
        assert_true(load_spread(plan) <= 1);
        assert_int_equal(left_without_a_rack(plan), cases[i].left);
        assert_int_equal(tarry_plan_rack_spread(plan).left, cases[i].left);
        assert_int_equal(tarry_plan_rack_spread(plan).most_together, 3 - cases[i].left);
        settings.rack_size = 0; /* the same without racks: each single one takes all of a chunk */
        OWNED(tarry_plan) without = plan_make(&settings);
        assert_int_equal(tarry_plan_racks(without), 0);
        assert_int_equal(tarry_plan_rack_spread(without).left, 0);
    }
}

/* Every pair of a worker and a chunk is equally likely, and so is every pair of workers of
 * different racks to share a chunk; racks of 2, 2, 2 and 1, of which the last has more than its
 * share. */
TEST(no_pair_is_preferred)
{
    enum { WORKERS = 7, CHUNKS = 7, TRIALS = 3000 };
    uint64_t seed = test_seed("rack pairs", 7);
    double hits[WORKERS][CHUNKS] = {{0}}, shared[WORKERS][WORKERS] = {{0}};
    for (uint64_t trial = 0; trial < TRIALS; trial++) {
        tarry_plan_settings settings = rack_settings(WORKERS, CHUNKS, 3, 2, seed + trial);
        OWNED(tarry_plan) plan = plan_make(&settings);
        for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
            for (uint32_t i = 0; i < 3; i++) {
                uint32_t a = tarry_plan_holder(plan, chunk, i);
                hits[a][chunk]++;
                for (uint32_t j = 0; j < i; j++)
                    shared[tarry_plan_holder(plan, chunk, j)][a]++;
            }
    }
    /* 21 copies, 3 per worker; sqrt(3000 * 3/7 * 4/7) = 27 is the standard deviation. */
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
            assert_true(hits[worker][chunk] > TRIALS * 3 / 7.0 - 5 * 27 &&
                        hits[worker][chunk] < TRIALS * 3 / 7.0 + 5 * 27);
    double least = TRIALS * CHUNKS, most = 0;
    for (uint32_t a = 0; a < 6; a++) /* the pairs among the full racks */
        for (uint32_t b = a + 1; b < 6; b++) {
            if (a / 2 == b / 2) {
                assert_true(shared[a][b] == 0);
                continue;
            }
            least = shared[a][b] < least ? shared[a][b] : least;
            most = shared[a][b] > most ? shared[a][b] : most;
        }
    print_message("pairs of workers share %.3f to %.3f chunks\n", least / TRIALS, most / TRIALS);
    assert_true(most < 1.1 * least);
}

TEST(the_same_racks_make_the_same_plan)
{
    write_text(test_file, "x\nx\ny\ny\nz\n");
    tarry_plan_settings settings = rack_settings(5, 9, 2, 2, 1);
    OWNED(tarry_plan) sized = plan_make(&settings);
    settings.rack_size = 0;
    OWNED(tarry_plan) unknown = plan_make(&settings);
    settings.rack_file = test_file;
    OWNED(tarry_plan) named = plan_make(&settings);
    assert_memory_equal(sized->digest, named->digest, TARRY_DIGEST_SIZE);
    assert_memory_not_equal(sized->digest, unknown->digest, TARRY_DIGEST_SIZE);
}

/* Other designs stay as they are, and say what becomes of their copies. */
TEST(other_designs_know_their_racks)
{
    tarry_plan_settings settings = rack_settings(8, 8, 3, 4, 1);
    settings.design = TARRY_DESIGN_CYCLIC;
    OWNED(tarry_plan) plan = plan_make(&settings);
    check_rack_figures(plan);
    assert_int_equal(tarry_plan_rack_spread(plan).left, 0);
    settings.rack_size = 0;
    OWNED(tarry_plan) without = plan_make(&settings);
    assert_memory_equal(plan->slot_chunk, without->slot_chunk,
                        plan_edges(plan) * sizeof(*plan->slot_chunk));
}

TEST(each_allocation_may_fail)
{
    tarry_plan_settings settings = rack_settings(8, 6, 3, 3, 1);
    assert_true(fail_each_allocation(plan_attempt, &settings) > 20);
    write_text(test_file, "a\nb\na\nb\na\nb\n-\n-\n");
    settings.rack_size = 0;
    settings.rack_file = test_file;
    assert_true(fail_each_allocation(plan_attempt, &settings) > 20);
}

TEST_GROUP(test_file_make, test_file_remove)
