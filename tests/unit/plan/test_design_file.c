/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "failing_allocator.h"
#include "plan_check.h"

static char name[] = "/tmp/tarry-test-design-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    int descriptor = mkstemp(name);
    return descriptor < 0 ? -1 : close(descriptor);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(name);
}

static void write_text(const char *text, size_t size)
{
    FILE *stream = fopen(name, "w");
    assert_non_null(stream);
    assert_int_equal(fwrite(text, 1, size, stream), size);
    assert_int_equal(fclose(stream), 0);
}

static tarry_plan_settings file_settings(uint32_t workers, uint32_t chunks)
{
    tarry_plan_settings settings =
        plan_settings(workers, chunks, 0, TARRY_DESIGN_FILE, TARRY_ORDER_AS_IS, 1);
    settings.file = name;
    return settings;
}

static void lists_are_read_in_their_order(void **state)
{
    (void)state;
    const char text[] = "# four workers\n"
                        "2 0,1\n"
                        "\n"
                        "  \t3\t1 # two\r\n"
                        "-  # idle\n"
                        "0 2 3";
    write_text(text, strlen(text));
    tarry_plan_settings settings = file_settings(4, 4);
    settings.parts = 2;
    tarry_plan *plan = plan_make(&settings);
    plan_check_views(plan);
    const uint32_t expected[] = {2, 0, 1, 3, 1, 0, 2, 3};
    const uint32_t offsets[] = {0, 3, 5, 5, 8};
    for (uint32_t worker = 0; worker <= 4; worker++)
        assert_int_equal(plan->worker_offset[worker], offsets[worker]);
    for (int slot = 0; slot < 8; slot++)
        assert_int_equal(plan->slot_chunk[slot], expected[slot]);
    tarry_plan_free(plan);
}

/* More than the reader's first room. */
static void long_lists_are_read(void **state)
{
    (void)state;
    enum { CHUNKS = 3000, ROOM = 8 * CHUNKS };
    char *text = malloc(ROOM);
    assert_non_null(text);
    size_t size = 0;
    for (int chunk = CHUNKS - 1; chunk >= 0; chunk--)
        size += (size_t)snprintf(text + size, ROOM - size, "%d ", chunk);
    write_text(text, size);
    free(text);
    tarry_plan_settings settings = file_settings(1, CHUNKS);
    tarry_plan *plan = plan_make(&settings);
    plan_check_views(plan);
    for (uint32_t position = 0; position < CHUNKS; position++)
        assert_int_equal(tarry_plan_chunk(plan, 0, position), CHUNKS - 1 - position);
    tarry_plan_free(plan);
}

static void malformed_files_are_refused_with_their_line(void **state)
{
    (void)state;
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
        write_text(cases[i].text, strlen(cases[i].text));
        tarry_plan_settings settings = file_settings(3, 3);
        settings.parts = 2;
        tarry_plan *plan = NULL;
        tarry_diagnostic diagnostic = {""};
        assert_int_equal(tarry_plan_create(&settings, NULL, &plan, &diagnostic),
                         TARRY_ERROR_FORMAT);
        assert_null(plan);
        assert_memory_equal(diagnostic.text, name, strlen(name));
        assert_non_null(strstr(diagnostic.text, cases[i].why));
    }
}

static void a_file_that_cant_be_read_is_named(void **state)
{
    (void)state;
    const char *const names[] = {"/nonexistent/design", "/tmp"};
    const char *const reasons[] = {"No such file or directory", "Is a directory"};
    for (int i = 0; i < 2; i++) {
        tarry_plan_settings settings = file_settings(3, 3);
        settings.file = names[i];
        tarry_plan *plan = NULL;
        tarry_diagnostic diagnostic = {""};
        assert_int_equal(tarry_plan_create(&settings, NULL, &plan, &diagnostic), TARRY_ERROR_FILE);
        assert_memory_equal(diagnostic.text, names[i], strlen(names[i]));
        assert_non_null(strstr(diagnostic.text, reasons[i]));
    }
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    tarry_plan *plan = NULL;
    int error = tarry_plan_create(user, allocator, &plan, NULL);
    tarry_plan_free(plan);
    return error;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    const char text[] = "0 1 2\n2 1\n1 0\n";
    write_text(text, strlen(text));
    tarry_plan_settings settings = file_settings(3, 3);
    assert_true(fail_each_allocation(attempt, &settings) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_read_in_their_order),
        cmocka_unit_test(long_lists_are_read),
        cmocka_unit_test(malformed_files_are_refused_with_their_line),
        cmocka_unit_test(a_file_that_cant_be_read_is_named),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
