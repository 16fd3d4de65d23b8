/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "base/number.h"
#include "learn/reader.h"

typedef struct token {
    const char *start;
    size_t length;
} token;

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* The next word from *at on; of length 0 at the end. */
static token next_token(const char **at, const char *end)
{
    while (*at < end && is_space(**at))
        (*at)++;
    const char *start = *at;
    while (*at < end && !is_space(**at))
        (*at)++;
    return (token){.start = start, .length = (size_t)(*at - start)};
}

/* What the lines of a file have in common. */
typedef struct line_form {
    const input *in;
    uint32_t first; /* the smallest index, 0 or 1 */
    bool guessed;   /* nobody said that the file is LIBSVM */
} line_form;

/* How to read a file that looks like another format: its first sample is not LIBSVM, and nobody
 * said that it is. */
static const char *format_hint(const line_form *form, const dataset_builder *builder, token text)
{
    if (!form->guessed || builder->row_end.length > 0)
        return "";
    if (memchr(text.start, ',', text.length) != NULL)
        return "; read a CSV file with --format csv";
    if (memchr(text.start, ';', text.length) != NULL)
        return "; for --format csv, separate fields by ',' instead of ';'";
    if (text.start[text.length] == '\t') /* a NUL follows the line's end */
        return "; for --format csv, separate fields by ',' instead of tabs";
    return "";
}

/* The column of an index. Digits beyond what fits are skipped: the index is too large already. */
static int parse_index(const line_form *form, token digits, uint32_t free_column, uint32_t *column)
{
    const input *in = form->in;
    uint64_t number = 0;
    bool good = digits.length > 0;
    for (size_t i = 0; i < digits.length && good; i++) {
        good = digits.start[i] >= '0' && digits.start[i] <= '9';
        if (number <= INT32_MAX)
            number = number * 10 + (uint64_t)(digits.start[i] - '0');
    }
    if (!good && digits.length == 3 && memcmp(digits.start, "qid", 3) == 0)
        return input_fail(in,
                          "qid: marks ranking data, which no model here learns from; remove it");
    if (!good)
        return input_fail(in, "index '%s' is not a whole number",
                          show_text(digits.start, digits.length).text);
    if (number < form->first)
        return input_fail(in, "index 0 (indices start at 1, or at 0 with --zero-based)");
    const uint32_t last = INT32_MAX - 1 + form->first; /* as many features as a size can count */
    if (number > last)
        return input_fail(in, "index %s is above %" PRIu32,
                          show_text(digits.start, digits.length).text, last);
    if (number - form->first < free_column)
        return input_fail(in, "index %" PRIu64 " after index %" PRIu32 " (indices ascend)", number,
                          free_column - 1 + form->first);
    *column = (uint32_t)number - form->first;
    return TARRY_OK;
}

/* *free_column: the smallest that this row may still use. */
static int read_entry(const line_form *form, token entry, uint32_t *free_column,
                      dataset_builder *builder)
{
    const input *in = form->in;
    uint32_t column = 0;
    const char *colon = memchr(entry.start, ':', entry.length);
    if (colon == NULL)
        return input_fail(in, "'%s' is not INDEX:VALUE%s",
                          show_text(entry.start, entry.length).text,
                          format_hint(form, builder, entry));
    token digits = {.start = entry.start, .length = (size_t)(colon - entry.start)};
    int error = parse_index(form, digits, *free_column, &column);
    if (error != TARRY_OK)
        return error;
    token text = {.start = colon + 1, .length = entry.length - digits.length - 1};
    float value;
    number_status status = number_parse_float(text.start, text.length, in->c_locale, &value);
    if (status != NUMBER_OK)
        return input_fail(in, "value '%s' of index %" PRIu32 " %s",
                          show_text(text.start, text.length).text, column + form->first,
                          number_problem(status));
    *free_column = column + 1;
    return builder_add_entry(builder, column, value);
}

static int read_sample(const line_form *form, const char *at, const char *end, token label,
                       dataset_builder *builder)
{
    const input *in = form->in;
    float number;
    number_status status = number_parse_float(label.start, label.length, in->c_locale, &number);
    if (status != NUMBER_OK)
        return input_fail(in, "label '%s' %s%s", show_text(label.start, label.length).text,
                          number_problem(status), format_hint(form, builder, label));
    int error = builder_add_label(builder, number, in);
    uint32_t free_column = 0;
    for (token entry = next_token(&at, end); error == TARRY_OK && entry.length > 0;
         entry = next_token(&at, end))
        error = read_entry(form, entry, &free_column, builder);
    return error != TARRY_OK ? error : builder_end_row(builder);
}

int read_libsvm(input *in, uint32_t first, bool guessed, dataset_builder *builder)
{
    const line_form form = {.in = in, .first = first, .guessed = guessed};
    for (;;) {
        const char *at;
        size_t length;
        bool found;
        int error = input_line(in, &at, &length, &found);
        if (error != TARRY_OK || !found)
            return error;
        const char *comment = memchr(at, '#', length);
        const char *end = comment != NULL ? comment : at + length;
        token label = next_token(&at, end);
        if (label.length == 0)
            continue;
        error = read_sample(&form, at, end, label, builder);
        if (error != TARRY_OK)
            return error;
    }
}
