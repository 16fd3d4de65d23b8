/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "failing_allocator.h"
#include "plan_check.h"
#include "test_file.h"

/* The settings are refused, for this reason, which names the file first. */
static void refused(const tarry_plan_settings *settings, int error, const char *why)
{
    tarry_plan *plan = NULL;
    tarry_diagnostic diagnostic = {""};
    assert_int_equal(tarry_plan_create(settings, NULL, &plan, &diagnostic), error);
    assert_null(plan);
    assert_memory_equal(diagnostic.text, settings->file, strlen(settings->file));
    assert_says(diagnostic.text, why);
}

static tarry_plan_settings file_settings(uint32_t workers, uint32_t chunks)
{
    tarry_plan_settings settings =
        plan_settings(workers, chunks, 0, TARRY_DESIGN_FILE, TARRY_ORDER_AS_IS, 1);
    settings.file = test_file;
    return settings;
}

TEST(lists_are_read_in_their_order)
{
    const char text[] = "# four workers\n"
                        "2 0,1\n"
                        "\n"
                        "  \t3\t1 # two\r\n"
                        "-  # idle\n"
                        "0 2 3";
    write_text(test_file, text);
    tarry_plan_settings settings = file_settings(4, 4);
    settings.parts = 2;
    OWNED(tarry_plan) plan = plan_make(&settings);
    plan_check_views(plan);
    const uint32_t expected[] = {2, 0, 1, 3, 1, 0, 2, 3};
    const uint32_t offsets[] = {0, 3, 5, 5, 8};
    for (uint32_t worker = 0; worker <= 4; worker++)
        assert_int_equal(plan->worker_offset[worker], offsets[worker]);
    for (int slot = 0; slot < 8; slot++)
        assert_int_equal(plan->slot_chunk[slot], expected[slot]);
}

/* More than the reader's first room. */
TEST(long_lists_are_read)
{
    enum { CHUNKS = 3000, ROOM = 8 * CHUNKS };
    OWNED(char) text = checked_malloc(ROOM);
    size_t size = 0;
    for (int chunk = CHUNKS - 1; chunk >= 0; chunk--)
        size += (size_t)snprintf(text + size, ROOM - size, "%d ", chunk);
    write_file(test_file, text, size);
    tarry_plan_settings settings = file_settings(1, CHUNKS);
    OWNED(tarry_plan) plan = plan_make(&settings);
    plan_check_views(plan);
    for (uint32_t position = 0; position < CHUNKS; position++)
        assert_int_equal(tarry_plan_chunk(plan, 0, position), CHUNKS - 1 - position);
}

TEST(malformed_files_are_refused_with_their_line)
{
    const struct {
        const char *text, *why;
    } cases[] = {
        {"0 1\n2 2\n0\n", ":2: chunk 2 is listed twice"},
        {"0 1\n2 3\n0\n", ":2: chunk 3 is not among the chunks 0 to 2"},
        {"0 1\n2\n99999999999999999999\n", ":3: chunk "},
        {"0 1\n\n2\n0\n1\n", ":5: the plan has only 3 workers"},
        {"0 1\n2\n", ":3: the file ends after 2 of the 3 workers"},
        {"", ":1: the file ends after 0 of the 3 workers"},
        {"0 1\n1\n0\n", ": no worker holds chunk 2"},
        {"0 1 2\n0\n0 2\n", ": chunk 1 has a replication of 1, less than the 2 parts"},
        {"0 1\nx\n", ":2: 'x' where a chunk's number should be"},
        {"0 1x\n", ":1: 'x' where a chunk's number should be"},
        {"0 -1\n", ":1: '-' where a chunk's number should be"},
        {"- 1\n", ":1: '1' where a chunk's number should be"},
        {"0 1.5\n", ":1: '.' where a chunk's number should be"},
        {"0 \xc3\xa4\n", ":1: byte 0xc3 where a chunk's number should be"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_text(test_file, cases[i].text);
        tarry_plan_settings settings = file_settings(3, 3);
        settings.parts = 2;
        refused(&settings, TARRY_ERROR_FORMAT, cases[i].why);
    }
}

TEST(a_file_that_cant_be_read_is_named)
{
    tarry_plan_settings settings = file_settings(3, 3);
    settings.file = "/nonexistent/design";
    refused(&settings, TARRY_ERROR_FILE, "No such file or directory");
    settings.file = "/tmp";
    refused(&settings, TARRY_ERROR_FILE, "Is a directory");
}

TEST(each_allocation_may_fail)
{
    const char text[] = "0 1 2\n2 1\n1 0\n";
    write_text(test_file, text);
    tarry_plan_settings settings = file_settings(3, 3);
    assert_true(fail_each_allocation(plan_attempt, &settings) > 5);
}

TEST_GROUP(test_file_make, test_file_remove)
