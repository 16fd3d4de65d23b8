/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/number.h"
#include "learn/reader.h"

/* Where the reader stands in a line. */
typedef struct csv_line {
    const input *in;
    const char *at; /* NULL after the last field */
    const char *end;
} csv_line;

typedef struct csv_field {
    const char *start;
    size_t length;
} csv_field;

static const char *skip_spaces(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}

/* From the first quote on; a doubled quote stands for one,
 * which no number has, and is left as it is. */
static int quoted_field(csv_line *line, csv_field *field)
{
    const char *start = line->at + 1;
    const char *quote = memchr(start, '"', (size_t)(line->end - start));
    while (quote != NULL && quote + 1 < line->end && quote[1] == '"')
        quote = memchr(quote + 2, '"', (size_t)(line->end - quote - 2));
    if (quote == NULL)
        return input_fail(line->in, "a quote is not closed on its line");
    *field = (csv_field){.start = start, .length = (size_t)(quote - start)};
    line->at = skip_spaces(quote + 1, line->end);
    if (line->at < line->end && *line->at != ',')
        return input_fail(line->in, "text after a closing quote");
    return TARRY_OK;
}

/* The next field, without spaces around it. The line has one. */
static int next_field(csv_line *line, csv_field *field)
{
    line->at = skip_spaces(line->at, line->end);
    if (line->at < line->end && *line->at == '"') {
        int error = quoted_field(line, field);
        if (error != TARRY_OK)
            return error;
    } else {
        const char *comma = memchr(line->at, ',', (size_t)(line->end - line->at));
        const char *stop = comma != NULL ? comma : line->end;
        *field = (csv_field){.start = line->at, .length = (size_t)(stop - line->at)};
        while (field->length > 0 &&
               (field->start[field->length - 1] == ' ' || field->start[field->length - 1] == '\t'))
            field->length--;
        line->at = stop;
    }
    line->at = line->at < line->end ? line->at + 1 : NULL;
    return TARRY_OK;
}

/* Counts a line's fields; *names: none of them is a number, not even one that is out of range. */
static int survey(csv_line line, size_t *fields, bool *names)
{
    *fields = 0;
    *names = true;
    while (line.at != NULL) {
        csv_field field;
        float value;
        int error = next_field(&line, &field);
        if (error != TARRY_OK)
            return error;
        (*fields)++;
        if (number_parse_float(field.start, field.length, line.in->c_locale, &value) !=
            NUMBER_MALFORMED)
            *names = false;
    }
    return TARRY_OK;
}

static int read_number(const input *in, csv_field field, size_t position, float *value)
{
    if (field.length == 0)
        return input_fail(in, "field %zu is empty", position + 1);
    number_status status = number_parse_float(field.start, field.length, in->c_locale, value);
    if (status != NUMBER_OK)
        return input_fail(in, "field %zu: '%s' %s", position + 1,
                          show_text(field.start, field.length).text, number_problem(status));
    return TARRY_OK;
}

static int read_row(csv_line line, size_t fields, size_t label, dataset_builder *builder)
{
    size_t position = 0;
    for (; line.at != NULL; position++) {
        csv_field field;
        float value;
        int error = next_field(&line, &field);
        if (error == TARRY_OK && position < fields)
            error = read_number(line.in, field, position, &value);
        if (error == TARRY_OK && position < fields)
            error = position == label ? builder_add_label(builder, value, line.in)
                                      : builder_add_values(builder, &value, 1);
        if (error != TARRY_OK)
            return error;
    }
    if (position != fields)
        return input_fail(line.in, "%zu fields where the first line has %zu", position, fields);
    return TARRY_OK;
}

static int find_label(const input *in, int label_column, size_t fields, size_t *label)
{
    size_t distance = label_column < 0 ? 0 - (size_t)label_column : (size_t)label_column;
    if (label_column < 0 ? distance > fields : distance >= fields)
        return input_fail(in, "no column %d for the label among %zu", label_column, fields);
    *label = label_column < 0 ? fields - distance : distance;
    return TARRY_OK;
}

/* The next line that is not blank. */
static int next_line(input *in, csv_line *line, bool *found)
{
    for (;;) {
        size_t length;
        const char *at;
        int error = input_line(in, &at, &length, found);
        if (error != TARRY_OK || !*found)
            return error;
        *line = (csv_line){.in = in, .at = at, .end = at + length};
        if (skip_spaces(line->at, line->end) < line->end)
            return TARRY_OK;
    }
}

/* Refuses a line of one field that another separator would cut into several. */
static int check_separator(csv_line line, size_t fields)
{
    size_t length = (size_t)(line.end - line.at);
    if (fields > 1)
        return TARRY_OK;
    if (memchr(line.at, ';', length) != NULL)
        return input_fail(line.in, "fields are separated by ';'; CSV here needs commas");
    if (memchr(line.at, '\t', length) != NULL)
        return input_fail(line.in, "fields are separated by tabs; CSV here needs commas");
    return TARRY_OK;
}

int read_csv(input *in, int label_column, bool *names, dataset_builder *builder)
{
    csv_line line;
    bool found;
    size_t fields = 0, label = 0;
    int error = next_line(in, &line, &found);
    if (error != TARRY_OK || !found)
        return error;
    error = survey(line, &fields, names);
    if (error == TARRY_OK)
        error = check_separator(line, fields);
    if (error != TARRY_OK)
        return error;
    error = find_label(in, label_column, fields, &label);
    if (error != TARRY_OK)
        return error;
    if (fields - 1 > INT32_MAX)
        return input_fail(in, "%zu fields are more than %d", fields, INT32_MAX);
    builder->features = (uint32_t)(fields - 1);
    if (*names)
        error = next_line(in, &line, &found);
    while (error == TARRY_OK && found) {
        error = read_row(line, fields, label, builder);
        if (error == TARRY_OK)
            error = next_line(in, &line, &found);
    }
    return error;
}
