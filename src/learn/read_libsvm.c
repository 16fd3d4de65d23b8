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

/* The index before the colon; indices that are too large to hold are still too large. */
static int parse_index(const input *in, token digits, uint32_t before, uint32_t *index)
{
    uint64_t number = 0;
    bool good = digits.length > 0;
    for (size_t i = 0; i < digits.length && good; i++) {
        good = digits.start[i] >= '0' && digits.start[i] <= '9';
        if (number <= INT32_MAX)
            number = number * 10 + (uint64_t)(digits.start[i] - '0');
    }
    if (!good)
        return input_fail(in, "index '%s' is not a whole number",
                          show_text(digits.start, digits.length).text);
    if (number == 0)
        return input_fail(in, "index 0 (indices start at 1)");
    if (number > INT32_MAX)
        return input_fail(in, "index %s is above %d", show_text(digits.start, digits.length).text,
                          INT32_MAX);
    if (number <= before)
        return input_fail(in, "index %" PRIu64 " after index %" PRIu32 " (indices ascend)", number,
                          before);
    *index = (uint32_t)number;
    return TARRY_OK;
}

static int read_entry(const input *in, token entry, uint32_t *index, dataset_builder *builder)
{
    const char *colon = memchr(entry.start, ':', entry.length);
    if (colon == NULL)
        return input_fail(in, "'%s' is not INDEX:VALUE", show_text(entry.start, entry.length).text);
    token digits = {.start = entry.start, .length = (size_t)(colon - entry.start)};
    int error = parse_index(in, digits, *index, index);
    if (error != TARRY_OK)
        return error;
    token text = {.start = colon + 1, .length = entry.length - digits.length - 1};
    float value;
    number_status status = number_parse_float(text.start, text.length, in->c_locale, &value);
    if (status != NUMBER_OK)
        return input_fail(in, "value '%s' of index %" PRIu32 " %s",
                          show_text(text.start, text.length).text, *index, number_problem(status));
    return builder_add_entry(builder, *index - 1, value);
}

static int read_sample(const input *in, const char *at, const char *end, token label,
                       dataset_builder *builder)
{
    float number;
    number_status status = number_parse_float(label.start, label.length, in->c_locale, &number);
    if (status != NUMBER_OK)
        return input_fail(in, "label '%s' %s", show_text(label.start, label.length).text,
                          number_problem(status));
    int error = builder_add_label(builder, number, in);
    uint32_t index = 0;
    for (token entry = next_token(&at, end); error == TARRY_OK && entry.length > 0;
         entry = next_token(&at, end))
        error = read_entry(in, entry, &index, builder);
    return error != TARRY_OK ? error : builder_end_row(builder);
}

int read_libsvm(input *in, dataset_builder *builder)
{
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
        error = read_sample(in, at, end, label, builder);
        if (error != TARRY_OK)
            return error;
    }
}
