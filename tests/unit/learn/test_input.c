/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "data_file.h"
#include "learn/input.h"

enum { LONG = 300000 }; /* more than the input's first buffer, twice over */

/* Lines of 0, 1, .. and more bytes across the ends of buffers,
 * against a plain walk over the text. */
static void lines_are_those_of_the_file(void **state)
{
    (void)state;
    char *text = malloc(LONG);
    assert_non_null(text);
    for (size_t i = 0, length = 0, left = 0; i < LONG; i++, left--) {
        if (left == 0)
            left = ++length;
        text[i] = left == 1 ? '\n' : (char)('a' + i % 26);
    }
    text[LONG - 1] = 'z';
    write_file("lines", text, LONG);
    input in;
    assert_int_equal(input_open(&in, "lines", NULL, NULL), TARRY_OK);
    const char *at = text;
    for (uint64_t number = 1;; number++) {
        const char *line;
        size_t length;
        bool found;
        assert_int_equal(input_line(&in, &line, &length, &found), TARRY_OK);
        if (!found)
            break;
        assert_int_equal(in.line, number);
        const char *end = memchr(at, '\n', (size_t)(text + LONG - at));
        size_t expected = (size_t)((end != NULL ? end : text + LONG) - at);
        assert_int_equal(length, expected);
        assert_memory_equal(line, at, expected);
        assert_int_equal(line[length], '\0');
        at += expected + 1;
    }
    assert_ptr_equal(at, text + LONG + 1);
    input_close(&in);
    free(text);
}

static void a_line_longer_than_the_buffer_grows_it(void **state)
{
    (void)state;
    char *text = malloc(LONG);
    assert_non_null(text);
    memset(text, 'x', LONG);
    write_gzip("long", text, LONG);
    input in;
    const char *line;
    size_t length;
    bool found;
    assert_int_equal(input_open(&in, "long", NULL, NULL), TARRY_OK);
    assert_int_equal(input_line(&in, &line, &length, &found), TARRY_OK);
    assert_true(found);
    assert_int_equal(length, LONG);
    assert_memory_equal(line, text, LONG);
    assert_int_equal(input_line(&in, &line, &length, &found), TARRY_OK);
    assert_false(found);
    input_close(&in);
    free(text);
}

static void line_ends_are_taken_off(void **state)
{
    (void)state;
    write_text("ends", "a\r\n\r\n\nb\r");
    const char *expected[] = {"a", "", "", "b"};
    input in;
    const char *line;
    size_t length;
    bool found;
    assert_int_equal(input_open(&in, "ends", NULL, NULL), TARRY_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(input_line(&in, &line, &length, &found), TARRY_OK);
        assert_true(found);
        assert_string_equal(line, expected[i]);
        assert_int_equal(length, strlen(expected[i]));
    }
    assert_int_equal(input_line(&in, &line, &length, &found), TARRY_OK);
    assert_false(found);
    input_close(&in);
}

static void bytes_are_peeked_at_and_taken(void **state)
{
    (void)state;
    write_text("bytes", "abcdef");
    input in;
    const uint8_t *bytes;
    size_t got;
    assert_int_equal(input_open(&in, "bytes", NULL, NULL), TARRY_OK);
    assert_int_equal(input_peek(&in, 4, &bytes, &got), TARRY_OK);
    assert_int_equal(got, 4);
    assert_memory_equal(bytes, "abcd", 4);
    assert_int_equal(input_bytes(&in, 2, &bytes, &got), TARRY_OK);
    assert_memory_equal(bytes, "ab", 2);
    assert_int_equal(in.position, 0);
    assert_int_equal(input_bytes(&in, 9, &bytes, &got), TARRY_OK);
    assert_int_equal(got, 4);
    assert_memory_equal(bytes, "cdef", 4);
    assert_int_equal(in.position, 2);
    assert_int_equal(input_bytes(&in, 1, &bytes, &got), TARRY_OK);
    assert_int_equal(got, 0);
    input_close(&in);
}

static void failures_carry_their_place(void **state)
{
    (void)state;
    tarry_diagnostic diagnostic;
    input in = {.path = "f", .diagnostic = &diagnostic, .position = 9};
    assert_int_equal(input_fail(&in, "bad %d", 1), TARRY_ERROR_FORMAT);
    assert_string_equal(diagnostic.text, "f: byte 9: bad 1");
    in.line = 3;
    assert_int_equal(input_fail(&in, "bad %d", 2), TARRY_ERROR_FORMAT);
    assert_string_equal(diagnostic.text, "f:3: bad 2");
    assert_int_equal(input_fail_whole(&in, "bad %d", 3), TARRY_ERROR_FORMAT);
    assert_string_equal(diagnostic.text, "f: bad 3");
}

/* Numbers that compress badly, so that cuts fall into the data. */
static size_t make_numbers(char *text, size_t room)
{
    size_t size = 0;
    for (unsigned i = 0; size + 40 < room; i++)
        size += (size_t)snprintf(text + size, room - size, "1 1:%u\n", i * 2654435761U);
    return size;
}

static void damaged_gzip_data_are_detected(void **state)
{
    (void)state;
    char *text = malloc(LONG), *packed = malloc(LONG);
    assert_true(text != NULL && packed != NULL);
    size_t size = make_numbers(text, LONG);
    write_gzip("good.svm.gz", text, size);
    FILE *file = fopen("good.svm.gz", "rb");
    assert_non_null(file);
    size_t bytes = fread(packed, 1, LONG, file);
    fclose(file);
    assert_true(bytes > 10000 && bytes < LONG);

    dataset_free(read_good((dataset_source){.path = "good.svm.gz"}));
    const size_t cuts[] = {1, 8, 9, bytes / 2, bytes - 20};
    for (size_t i = 0; i < sizeof(cuts) / sizeof(*cuts); i++) {
        write_file("cut.svm.gz", packed, bytes - cuts[i]);
        expect_error((dataset_source){.path = "cut.svm.gz"}, TARRY_ERROR_FORMAT,
                     "cut.svm.gz: gzip data end early");
    }
    const size_t flips[] = {bytes - 1, bytes - 6, bytes / 2};
    for (size_t i = 0; i < sizeof(flips) / sizeof(*flips); i++) {
        packed[flips[i]] = (char)(packed[flips[i]] ^ 0x55);
        write_file("flip.svm.gz", packed, bytes);
        packed[flips[i]] = (char)(packed[flips[i]] ^ 0x55);
        input in;
        tarry_diagnostic diagnostic = {""};
        assert_int_equal(input_open(&in, "flip.svm.gz", NULL, &diagnostic), TARRY_OK);
        const uint8_t *given;
        size_t got;
        assert_int_equal(input_peek(&in, LONG, &given, &got), TARRY_ERROR_FORMAT);
        assert_string_equal(diagnostic.text, "flip.svm.gz: gzip data are corrupt");
        input_close(&in);
    }
    free(text);
    free(packed);
}

static void failed_allocations_for_a_long_line_are_reported(void **state)
{
    (void)state;
    char *text = malloc(LONG);
    assert_non_null(text);
    memset(text, '#', LONG);
    memcpy(text, "1 1:1", 5);
    write_file("long.svm", text, LONG);
    fail_allocations_of((dataset_source){.path = "long.svm"});
    free(text);
}

static void files_that_cannot_be_read_say_why(void **state)
{
    (void)state;
    expect_error((dataset_source){.path = "missing.svm"}, TARRY_ERROR_FILE,
                 "missing.svm: No such file or directory");
    expect_error((dataset_source){.path = "/"}, TARRY_ERROR_FILE, "/: Is a directory");
    expect_error((dataset_source){.path = ""}, TARRY_ERROR_FILE, ": No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_those_of_the_file),
        cmocka_unit_test(a_line_longer_than_the_buffer_grows_it),
        cmocka_unit_test(line_ends_are_taken_off),
        cmocka_unit_test(bytes_are_peeked_at_and_taken),
        cmocka_unit_test(failures_carry_their_place),
        cmocka_unit_test(damaged_gzip_data_are_detected),
        cmocka_unit_test(failed_allocations_for_a_long_line_are_reported),
        cmocka_unit_test(files_that_cannot_be_read_say_why),
    };
    return cmocka_run_group_tests(tests, data_files_begin, data_files_end);
}
