/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "data_file.h"
#include "learn/dataset_read.h"
#include "test.h"

enum { LONG = 300000 }; /* more than the input's first buffer, twice over */

OWNED_STRUCT_BY(input, input_close)

#define INPUT(name) TEST_OF(name, input, in, input_close)

/* Lines of 0, 1, .. and more bytes across the ends of buffers,
 * against a plain walk over the text. */
INPUT(lines_are_those_of_the_file)
{
    OWNED(char) text = checked_malloc(LONG);
    for (size_t i = 0, length = 0, left = 0; i < LONG; i++, left--) {
        if (left == 0)
            left = ++length;
        text[i] = left == 1 ? '\n' : (char)('a' + i % 26);
    }
    text[LONG - 1] = 'z';
    write_file("lines", text, LONG);
    assert_ok(input_open(in, "lines", NULL, NULL));
    const char *at = text;
    for (uint64_t number = 1;; number++) {
        const char *line;
        size_t length;
        bool found;
        assert_ok(input_line(in, &line, &length, &found));
        if (!found)
            break;
        assert_int_equal(in->line, number);
        const char *end = memchr(at, '\n', (size_t)(text + LONG - at));
        size_t expected = (size_t)((end != NULL ? end : text + LONG) - at);
        assert_int_equal(length, expected);
        assert_memory_equal(line, at, expected);
        assert_int_equal(line[length], '\0');
        at += expected + 1;
    }
    assert_ptr_equal(at, text + LONG + 1);
}

INPUT(a_line_longer_than_the_buffer_grows_it)
{
    OWNED(char) text = checked_malloc(LONG);
    memset(text, 'x', LONG);
    write_gzip("long", text, LONG);
    const char *line;
    size_t length;
    bool found;
    assert_ok(input_open(in, "long", NULL, NULL));
    assert_ok(input_line(in, &line, &length, &found));
    assert_true(found);
    assert_int_equal(length, LONG);
    assert_memory_equal(line, text, LONG);
    assert_ok(input_line(in, &line, &length, &found));
    assert_false(found);
}

INPUT(line_ends_are_taken_off)
{
    write_text("ends", "a\r\n\r\n\nb\r");
    const char *expected[] = {"a", "", "", "b"};
    const char *line;
    size_t length;
    bool found;
    assert_ok(input_open(in, "ends", NULL, NULL));
    for (int i = 0; i < 4; i++) {
        assert_ok(input_line(in, &line, &length, &found));
        assert_true(found);
        assert_string_equal(line, expected[i]);
        assert_int_equal(length, strlen(expected[i]));
    }
    assert_ok(input_line(in, &line, &length, &found));
    assert_false(found);
}

INPUT(bytes_are_peeked_at_and_taken)
{
    write_text("bytes", "abcdef");
    const uint8_t *bytes;
    size_t got;
    assert_ok(input_open(in, "bytes", NULL, NULL));
    assert_ok(input_peek(in, 4, &bytes, &got));
    assert_int_equal(got, 4);
    assert_memory_equal(bytes, "abcd", 4);
    assert_ok(input_bytes(in, 2, &bytes, &got));
    assert_memory_equal(bytes, "ab", 2);
    assert_int_equal(in->position, 0);
    assert_ok(input_bytes(in, 9, &bytes, &got));
    assert_int_equal(got, 4);
    assert_memory_equal(bytes, "cdef", 4);
    assert_int_equal(in->position, 2);
    assert_ok(input_bytes(in, 1, &bytes, &got));
    assert_int_equal(got, 0);
}

TEST(failures_carry_their_place)
{
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

TEST(damaged_gzip_data_are_detected)
{
    OWNED(char) text = checked_malloc(LONG), packed = checked_malloc(LONG);
    size_t size = make_numbers(text, LONG);
    write_gzip("good.svm.gz", text, size);
    size_t bytes = read_file("good.svm.gz", packed, LONG);
    assert_true(bytes > 10000);

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
        OWNED(input) in;
        tarry_diagnostic diagnostic = {""};
        assert_ok(input_open(&in, "flip.svm.gz", NULL, &diagnostic));
        const uint8_t *given;
        size_t got;
        assert_int_equal(input_peek(&in, LONG, &given, &got), TARRY_ERROR_FORMAT);
        assert_string_equal(diagnostic.text, "flip.svm.gz: gzip data are corrupt");
    }
}

TEST(failed_allocations_for_a_long_line_are_reported)
{
    OWNED(char) text = checked_malloc(LONG);
    memset(text, '#', LONG);
    memcpy(text, "1 1:1", 5);
    write_file("long.svm", text, LONG);
    fail_allocations_of((dataset_source){.path = "long.svm"});
}

TEST(files_that_cannot_be_read_say_why)
{
    expect_error((dataset_source){.path = "missing.svm"}, TARRY_ERROR_FILE,
                 "missing.svm: No such file or directory");
    expect_error((dataset_source){.path = "/"}, TARRY_ERROR_FILE, "/: Is a directory");
    expect_error((dataset_source){.path = ""}, TARRY_ERROR_FILE, ": No such file or directory");
}

TEST_GROUP(data_files_begin, data_files_end)
