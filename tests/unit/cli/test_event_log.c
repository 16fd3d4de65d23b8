/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "cli/output/event_log.h"
#include "test.h"
#include "test_file.h"

static event_log *open_log(void)
{
    event_log *log;
    assert_ok(event_log_open(test_file, &log, NULL));
    return log;
}

/* Checks the events of the lines; NULL stands for a line that is no JSON. */
static void assert_lines(const char *const events[], size_t count)
{
    char line[256];
    FILE *file = fopen(test_file, "r");
    assert_non_null(file);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(fgets(line, sizeof(line), file));
        json_t *entry = json_loads(line, 0, NULL);
        if (events[i] == NULL)
            assert_null(entry);
        else
            assert_string_equal(json_string_value(json_object_get(entry, "event")), events[i]);
        json_decref(entry);
    }
    assert_null(fgets(line, sizeof(line), file));
    fclose(file);
}

TEST_SET_UP(a_line_that_was_cut_off_costs_no_other, test_file_make, test_file_remove)
{
    event_log *log = open_log();
    event_log_add(log, "first", NULL);
    limit_files(size_of_file(test_file) + 10);
    event_log_add(log, "cut", NULL);
    event_log_add(log, "lost", NULL);
    limit_files(SIZE_MAX);
    event_log_add(log, "next", NULL);
    event_log_add(log, "last", NULL);
    assert_false(event_log_close(log));
    const char *const events[] = {"first", NULL, "next", "last"};
    assert_lines(events, 4);
}

TEST_SET_UP(what_another_process_left_is_ended, test_file_make, test_file_remove)
{
    event_log *log = open_log();
    event_log_add(log, "first", NULL);
    assert_true(event_log_close(log));
    assert_int_equal(truncate(test_file, (off_t)size_of_file(test_file) - 5), 0);
    log = open_log();
    event_log_add(log, "next", NULL);
    assert_true(event_log_close(log));
    log = open_log();
    event_log_add(log, "last", NULL);
    assert_true(event_log_close(log));
    const char *const events[] = {NULL, "next", "last"};
    assert_lines(events, 3);
}
