/* SPDX-License-Identifier: Apache-2.0 */
#include <locale.h>

#include "base/random.h"
#include "cli/top/command_top.h"
#include "seed.h"
#include "test.h"

static const char *ended(top_line *line)
{
    top_line_end(line);
    return line->text;
}

TEST(columns_are_cut)
{
    top_line line;
    top_line_begin(&line, 10, false);
    top_line_add(&line, "seven77");
    top_line_pad(&line, 9, 1);
    top_line_add(&line, "xyz");
    top_line_add(&line, "never");
    assert_string_equal(ended(&line), "seven77  x");
    top_line_begin(&line, 0, true);
    top_line_add(&line, "a");
    assert_string_equal(ended(&line), "");
    top_line_begin(&line, 20, false);
    top_line_print(&line, "%d of %s", 7, "9");
    top_line_pad(&line, 3, 2);
    top_line_add(&line, "x");
    top_line_pad(&line, 15, 0);
    assert_string_equal(ended(&line), "7 of 9  x");
}

TEST(styles)
{
    top_line line;
    top_line_begin(&line, 10, true);
    top_line_style(&line, TOP_RED);
    top_line_add(&line, "a");
    top_line_style(&line, TOP_BOLD);
    top_line_add(&line, "b");
    assert_int_equal(line.columns, 2);
    assert_string_equal(ended(&line), "\x1b[31ma\x1b[0m\x1b[1mb\x1b[0m");
    top_line_begin(&line, 10, false);
    top_line_style(&line, TOP_RED);
    top_line_add(&line, "a");
    assert_string_equal(ended(&line), "a");
}

TEST(bars)
{
    static const struct {
        double part, whole;
        const char *text;
    } cases[] = {
        {0, 4, "...."}, {1, 4, "#..."}, {3.99, 4, "###."}, {4, 4, "####"},
        {9, 4, "####"}, {0, 0, "...."}, {5, 0, "...."},
    };
    top_line line;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        top_line_begin(&line, 10, false);
        top_line_bar(&line, 4, cases[i].part, cases[i].whole, false);
        assert_string_equal(ended(&line), cases[i].text);
    }
    top_line_begin(&line, 10, false);
    top_line_bar(&line, 3, 1, 2, true);
    assert_int_equal(line.columns, 3);
    assert_string_equal(ended(&line), "\u2588\u2591\u2591");
}

/* Needs the locale, which every C library of Linux has. */
TEST(characters)
{
    static const struct {
        const char *text, *shown;
        unsigned columns;
    } cases[] = {
        {"\u00e9t\u00e9", "\u00e9t\u00e9", 3},
        {"\u4f60\u597d", "\u4f60\u597d", 4},
        {"a\x1b[31mb", "a?[31mb", 7},
        {"\xc2\x9b"
         "31m",
         "?31m", 4}, /* a control sequence's beginning in one character */
        {"a\u202e"
         "b",
         "a?b", 3},            /* text runs from right to left behind it */
        {"e\u0301", "e?", 2},  /* a combining accent */
        {"\xff\xc3", "??", 2}, /* no UTF-8 */
        {"\xe4\xbd"
         "a",
         "??a", 3},
        {"a\nb\tc\x7f", "a?b?c?", 6},
    };
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    top_line line;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        top_line_begin(&line, 80, false);
        top_line_add(&line, cases[i].text);
        assert_int_equal(line.columns, cases[i].columns);
        assert_string_equal(ended(&line), cases[i].shown);
    }
    /* One of two columns does not go into one, and nothing else takes its place. */
    top_line_begin(&line, 2, false);
    top_line_add(&line, "a\u4f60"
                        "b");
    assert_string_equal(ended(&line), "a");
    setlocale(LC_CTYPE, "C");
    top_line_begin(&line, 80, false);
    top_line_add(&line, "\u00e9");
    assert_string_equal(ended(&line), "??");
}

/* Whatever comes, only our own sequences move anything, and the line ends in plain style. */
TEST(any_bytes)
{
    random_stream random = random_stream_make(test_seed("any_bytes", 71), RANDOM_TEST, 0, 0);
    static const char *const locales[] = {"C", "C.UTF-8"};
    for (unsigned i = 0; i < 20000; i++) {
        char text[1024];
        size_t size = random_below(&random, i % 100 == 0 ? 1024 : 40);
        for (size_t at = 0; at < size; at++)
            text[at] = (char)(1 + random_below(&random, 255));
        text[size] = '\0';
        assert_non_null(setlocale(LC_CTYPE, locales[i % 2]));
        top_line line;
        top_line_begin(&line, random_below(&random, 2000), false);
        for (unsigned times = 0; times < 12; times++)
            top_line_add(&line, text);
        assert_true(line.columns <= TOP_LINE_COLUMNS);
        for (const char *at = line.text; *at != '\0'; at++)
            assert_true((unsigned char)*at >= ' ' && *at != 0x7f);
    }
    /* Styles alone can't fill a line so that it does not become plain again. */
    top_line line;
    top_line_begin(&line, 10, true);
    for (unsigned i = 0; i < TOP_LINE_BYTES; i++)
        top_line_style(&line, TOP_RED);
    const char *text = ended(&line);
    assert_string_equal(text + strlen(text) - 4, "\x1b[0m");
    setlocale(LC_CTYPE, "C");
}
