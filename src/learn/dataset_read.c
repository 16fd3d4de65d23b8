/* SPDX-License-Identifier: Apache-2.0 */
#include "learn/dataset_read.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/number.h"
#include "learn/dataset.h"

/* Room for a piece of a file in a message, and the piece in it: cut, unprintable bytes as '?'. */
typedef struct shown_text {
    char text[32];
} shown_text;

enum { LEAST_ROWS = 256 };

#define BINARY_LABELS "two classes are -1 and 1, 0 and 1, or 1 and 2"

/* Makes room for `count` more elements, at least doubling. */
static int reserve(const tarry_allocator *allocator, growing_array *array, size_t count)
{
    if (count <= array->capacity - array->length)
        return TARRY_OK;
    if (array->capacity > SIZE_MAX / 2 - LEAST_ROWS || count > SIZE_MAX / 2)
        return TARRY_ERROR_NO_MEMORY;
    size_t capacity = 2 * array->capacity + LEAST_ROWS;
    if (capacity < array->length + count)
        capacity = array->length + count;
    void *elements = memory_grow(allocator, array->elements, array->length, capacity, array->size);
    if (elements == NULL)
        return TARRY_ERROR_NO_MEMORY;
    array->elements = elements;
    array->capacity = capacity;
    return TARRY_OK;
}

/* Hands over the elements in a block of just their size; NULL if there is no memory. */
static void *trim(const tarry_allocator *allocator, growing_array *array)
{
    void *elements = memory_allocate(allocator, array->length, array->size);
    if (elements != NULL && array->length > 0)
        memcpy(elements, array->elements, array->length * array->size);
    memory_release(allocator, array->elements);
    array->elements = NULL;
    return elements;
}

static void builder_init(dataset_builder *builder, label_kind kind, bool sparse,
                         const tarry_allocator *allocator)
{
    *builder = (dataset_builder){
        .allocator = memory_allocator(allocator),
        .kind = kind,
        .sparse = sparse,
        .value = {.size = sizeof(float)},
        .column = {.size = sizeof(uint32_t)},
        .row_end = {.size = sizeof(size_t)},
        .label = {.size = sizeof(float)},
        .other_label = 1,
    };
}

static void builder_free(dataset_builder *builder)
{
    memory_release(&builder->allocator, builder->value.elements);
    memory_release(&builder->allocator, builder->column.elements);
    memory_release(&builder->allocator, builder->row_end.elements);
    memory_release(&builder->allocator, builder->label.elements);
}

/* Dense: the next values, row by row. Errors, as of all below: NO_MEMORY (no diagnostic). */
static int builder_add_values(dataset_builder *builder, const float *values, size_t count)
{
    int error = reserve(&builder->allocator, &builder->value, count);
    if (error != TARRY_OK)
        return error;
    memcpy((float *)builder->value.elements + builder->value.length, values, count * sizeof(float));
    builder->value.length += count;
    return TARRY_OK;
}

/* Sparse: an entry of the present row; columns ascend. */
static int builder_add_entry(dataset_builder *builder, uint32_t column, float value)
{
    int error = reserve(&builder->allocator, &builder->column, 1);
    if (error == TARRY_OK)
        error = builder_add_values(builder, &value, 1);
    if (error != TARRY_OK)
        return error;
    ((uint32_t *)builder->column.elements)[builder->column.length++] = column;
    if (column >= builder->features)
        builder->features = column + 1;
    return TARRY_OK;
}

/* Sparse: the present row is complete. */
static int builder_end_row(dataset_builder *builder)
{
    int error = reserve(&builder->allocator, &builder->row_end, 1);
    if (error == TARRY_OK)
        ((size_t *)builder->row_end.elements)[builder->row_end.length++] = builder->value.length;
    return error;
}

/* 1 is in each of the pairs, so at most one of the other three may occur. */
static int check_binary(dataset_builder *builder, float label, const input *in)
{
    if (label == 1)
        return TARRY_OK;
    if (label != -1 && label != 0 && label != 2)
        return input_fail(in, "label %.9g (" BINARY_LABELS ")", (double)label);
    if (builder->other_label != 1 && builder->other_label != (int)label)
        return input_fail(in, "label %d beside label %d (" BINARY_LABELS ")", (int)label,
                          builder->other_label);
    builder->other_label = (int)label;
    return TARRY_OK;
}

static int check_class(float label, const input *in)
{
    if (label >= 0 && label < DATASET_MAX_CLASSES && label == floorf(label))
        return TARRY_OK;
    return input_fail(in, "label %.9g (classes are 0, 1, 2, ..., at most %d)", (double)label,
                      DATASET_MAX_CLASSES - 1);
}

/* The label of the next row. FORMAT, at the place of `in`:
 * the label is not of the kind asked for. */
static int builder_add_label(dataset_builder *builder, float label, const input *in)
{
    int error = TARRY_OK;
    if (builder->kind == LABEL_BINARY)
        error = check_binary(builder, label, in);
    else if (builder->kind == LABEL_CLASS)
        error = check_class(label, in);
    if (error == TARRY_OK)
        error = reserve(&builder->allocator, &builder->label, 1);
    if (error != TARRY_OK)
        return error;
    ((float *)builder->label.elements)[builder->label.length++] = label;
    builder->largest_label = fmaxf(builder->largest_label, label);
    return TARRY_OK;
}

static uint32_t class_count(const dataset_builder *builder)
{
    switch (builder->kind) {
    case LABEL_REAL:
        return 0;
    case LABEL_BINARY:
        return 2;
    case LABEL_CLASS:
        break;
    }
    return (uint32_t)builder->largest_label + 1;
}

/* The larger of the file's two labels becomes 1, the smaller -1; a lone 1 stays. */
static void name_binary_labels(dataset *data, int other_label)
{
    float larger = other_label == 2 ? 2 : 1;
    for (size_t row = 0; row < data->rows; row++)
        data->label[row] = data->label[row] == larger ? 1 : -1;
}

/* Makes the data set, which the caller owns; every row has its label. FORMAT, on the file as a
 * whole: no samples or no features. */
static int builder_finish(dataset_builder *builder, const input *in, dataset **out)
{
    size_t rows = builder->label.length;
    if (rows == 0)
        return input_fail_whole(in, "no samples");
    if (builder->features == 0)
        return input_fail_whole(in, "no features");
    assert(builder->sparse ? builder->row_end.length == rows
                           : builder->value.length == rows * builder->features);
    tarry_allocator memory = builder->allocator;
    dataset *data = memory_allocate(&memory, 1, sizeof(*data));
    if (data == NULL)
        return TARRY_ERROR_NO_MEMORY;
    *data = (dataset){
        .allocator = memory,
        .rows = rows,
        .features = builder->features,
        .classes = class_count(builder),
        .sparse = builder->sparse,
        .value = trim(&memory, &builder->value),
        .label = trim(&memory, &builder->label),
    };
    if (data->sparse) {
        data->column = trim(&memory, &builder->column);
        data->row_start = memory_allocate(&memory, rows + 1, sizeof(size_t));
    }
    if (data->value == NULL || data->label == NULL ||
        (data->sparse && (data->column == NULL || data->row_start == NULL))) {
        dataset_free(data);
        return TARRY_ERROR_NO_MEMORY;
    }
    if (data->sparse)
        memcpy(data->row_start + 1, builder->row_end.elements, rows * sizeof(size_t));
    if (builder->kind == LABEL_BINARY)
        name_binary_labels(data, builder->other_label);
    *out = data;
    return TARRY_OK;
}

/* ---- input ---- */

enum {
    LEAST_BUFFER = 1 << 16,
    ZLIB_BUFFER = 1 << 16,
    LARGEST_READ = 1 << 30 /* gzread counts in int */
};

int input_open(input *in, const char *path, const tarry_allocator *allocator,
               tarry_diagnostic *diagnostic)
{
    *in = (input){
        .path = path,
        .allocator = memory_allocator(allocator),
        .diagnostic = diagnostic,
        .c_locale = number_locale(),
    };
    in->buffer = memory_allocate(&in->allocator, LEAST_BUFFER, 1);
    if (in->c_locale == (locale_t)0 || in->buffer == NULL)
        return TARRY_ERROR_NO_MEMORY;
    in->capacity = LEAST_BUFFER;
    errno = 0;
    in->file = gzopen(path, "rbe");
    if (in->file == NULL && errno != 0)
        return diagnose_file(diagnostic, path, errno);
    if (in->file == NULL || gzbuffer(in->file, ZLIB_BUFFER) != 0)
        return TARRY_ERROR_NO_MEMORY;
    return TARRY_OK;
}

void input_close(input *in)
{
    if (in->file != NULL)
        gzclose(in->file);
    if (in->c_locale != (locale_t)0)
        freelocale(in->c_locale);
    memory_release(&in->allocator, in->buffer);
}

static int make_room(input *in)
{
    if (in->start > 0) {
        memmove(in->buffer, in->buffer + in->start, in->end - in->start);
        in->end -= in->start;
        in->start = 0;
    }
    if (in->end + 1 < in->capacity)
        return TARRY_OK;
    if (in->capacity > SIZE_MAX / 2)
        return TARRY_ERROR_NO_MEMORY;
    char *larger = memory_grow(&in->allocator, in->buffer, in->end, 2 * in->capacity, 1);
    if (larger == NULL)
        return TARRY_ERROR_NO_MEMORY;
    in->buffer = larger;
    in->capacity *= 2;
    return TARRY_OK;
}

/* zlib reports data that end early beside a count of 0, all else as a negative count. */
static int read_error(input *in)
{
    int code;
    int system = errno;
    gzerror(in->file, &code);
    if (code == Z_ERRNO)
        return diagnose_file(in->diagnostic, in->path, system);
    if (code == Z_MEM_ERROR)
        return TARRY_ERROR_NO_MEMORY;
    return input_fail_whole(in,
                            code == Z_BUF_ERROR ? "gzip data end early" : "gzip data are corrupt");
}

/* Reads more behind what is there, always leaving room for a NUL;
 * *more is false at the file's end. */
static int fill(input *in, bool *more)
{
    int error = make_room(in);
    if (error != TARRY_OK)
        return error;
    size_t room = in->capacity - in->end - 1;
    int got = gzread(in->file, in->buffer + in->end,
                     (unsigned)(room < LARGEST_READ ? room : LARGEST_READ));
    int code = Z_OK;
    if (got == 0)
        gzerror(in->file, &code);
    if (got < 0 || code == Z_BUF_ERROR)
        return read_error(in);
    in->end += (size_t)got;
    *more = got > 0;
    return TARRY_OK;
}

int input_peek(input *in, size_t count, const uint8_t **bytes, size_t *got)
{
    bool more = true;
    while (more && in->end - in->start < count) {
        int error = fill(in, &more);
        if (error != TARRY_OK)
            return error;
    }
    size_t there = in->end - in->start;
    *bytes = (const uint8_t *)in->buffer + in->start;
    *got = there < count ? there : count;
    return TARRY_OK;
}

static void take(input *in, size_t count)
{
    in->position = in->taken;
    in->taken += count;
    in->start += count;
}

int input_bytes(input *in, size_t count, const uint8_t **bytes, size_t *got)
{
    int error = input_peek(in, count, bytes, got);
    if (error == TARRY_OK)
        take(in, *got);
    return error;
}

int input_line(input *in, const char **line, size_t *length, bool *found)
{
    size_t searched = 0;
    char *newline = NULL;
    for (bool more = true; more;) {
        size_t there = in->end - in->start;
        newline = memchr(in->buffer + in->start + searched, '\n', there - searched);
        if (newline != NULL)
            break;
        searched = there;
        int error = fill(in, &more);
        if (error != TARRY_OK)
            return error;
    }
    char *start = in->buffer + in->start;
    char *end = newline != NULL ? newline : in->buffer + in->end;
    *found = newline != NULL || end > start;
    if (!*found)
        return TARRY_OK;
    take(in, (size_t)(end - start) + (newline != NULL));
    in->line++;
    if (end > start && end[-1] == '\r')
        end--;
    *end = '\0';
    if (in->line == 1 && end - start >= 3 && memcmp(start, "\xEF\xBB\xBF", 3) == 0)
        start += 3;
    if (memchr(start, '\0', (size_t)(end - start)) != NULL)
        return input_fail(in, "NUL byte in a text file");
    *line = start;
    *length = (size_t)(end - start);
    return TARRY_OK;
}

int input_fail(const input *in, const char *format, ...)
{
    char what[TARRY_DIAGNOSTIC_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    if (in->line > 0)
        return diagnose(in->diagnostic, TARRY_ERROR_FORMAT, "%s:%" PRIu64 ": %s", in->path,
                        in->line, what);
    return diagnose(in->diagnostic, TARRY_ERROR_FORMAT, "%s: byte %" PRIu64 ": %s", in->path,
                    in->position, what);
}

int input_fail_whole(const input *in, const char *format, ...)
{
    char what[TARRY_DIAGNOSTIC_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return diagnose(in->diagnostic, TARRY_ERROR_FORMAT, "%s: %s", in->path, what);
}

/* ---- read idx ---- */

/* The third byte of a file: its elements are unsigned bytes. */
enum { IDX_BYTES = 0x08 };

enum { PIECE = 4096 }; /* elements taken at a time */

typedef struct idx_header {
    unsigned dimensions;
    uint64_t samples;  /* the first dimension */
    uint64_t features; /* the product of the others */
} idx_header;

/* Whether a file that starts with these bytes is IDX; no text does. */
static bool idx_starts(const uint8_t *bytes, size_t count)
{
    return count >= 2 && bytes[0] == 0 && bytes[1] == 0;
}

/* Takes four bytes of a header. */
static int header_bytes(input *in, const uint8_t **bytes)
{
    size_t got;
    int error = input_bytes(in, 4, bytes, &got);
    if (error == TARRY_OK && got < 4)
        error = input_fail(in, "the file ends within its header");
    return error;
}

static int read_header(input *in, idx_header *header)
{
    const uint8_t *bytes;
    int error = header_bytes(in, &bytes);
    if (error != TARRY_OK)
        return error;
    if (bytes[0] != 0 || bytes[1] != 0)
        return input_fail(in, "%02x %02x is not how an IDX file starts", bytes[0], bytes[1]);
    if (bytes[2] != IDX_BYTES)
        return input_fail(in, "element type 0x%02x is not 0x08, unsigned bytes", bytes[2]);
    if (bytes[3] == 0)
        return input_fail(in, "the file has no dimensions");
    *header = (idx_header){.dimensions = bytes[3], .features = 1};
    for (unsigned k = 0; k < header->dimensions; k++) {
        error = header_bytes(in, &bytes);
        if (error != TARRY_OK)
            return error;
        const uint64_t size = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 |
                              (uint32_t)bytes[2] << 8 | bytes[3];
        if (k == 0) {
            header->samples = size;
            continue;
        }
        header->features *= size;
        if (size == 0)
            return input_fail(in, "a dimension of 0");
        if (header->features > INT32_MAX)
            return input_fail(in, "a sample has more than %d numbers", INT32_MAX);
    }
    return TARRY_OK;
}

/* Takes up to PIECE of the `left` elements still to come. */
static int next_piece(input *in, uint64_t left, const uint8_t **bytes, size_t *count)
{
    size_t got;
    *count = left < PIECE ? (size_t)left : PIECE;
    int error = input_bytes(in, *count, bytes, &got);
    if (error != TARRY_OK || got == *count)
        return error;
    in->position += got;
    return input_fail(in, "the file ends where %" PRIu64 " more numbers should follow", left - got);
}

static int check_end(input *in)
{
    const uint8_t *bytes;
    size_t got;
    int error = input_bytes(in, 1, &bytes, &got);
    if (error == TARRY_OK && got > 0)
        error = input_fail(in, "more data than the header says");
    return error;
}

static int read_images(input *in, const idx_header *header, dataset_builder *builder)
{
    float values[PIECE];
    const uint8_t *bytes;
    size_t count;
    for (uint64_t left = header->samples * header->features; left > 0; left -= count) {
        int error = next_piece(in, left, &bytes, &count);
        for (size_t i = 0; error == TARRY_OK && i < count; i++)
            values[i] = (float)bytes[i] / 255;
        if (error == TARRY_OK)
            error = builder_add_values(builder, values, count);
        if (error != TARRY_OK)
            return error;
    }
    return check_end(in);
}

static int read_labels(input *in, const idx_header *header, dataset_builder *builder)
{
    const uint8_t *bytes;
    size_t count;
    for (uint64_t left = header->samples; left > 0; left -= count) {
        int error = next_piece(in, left, &bytes, &count);
        for (size_t i = 0; i < count && error == TARRY_OK; i++) {
            error = builder_add_label(builder, bytes[i], in);
            in->position++;
        }
        if (error != TARRY_OK)
            return error;
    }
    return check_end(in);
}

/* The images' file and the labels' file, http://yann.lecun.com/exdb/mnist. */
static int read_idx(input *images, input *labels, dataset_builder *builder)
{
    idx_header image_header, label_header;
    int error = read_header(images, &image_header);
    if (error == TARRY_OK)
        error = read_header(labels, &label_header);
    if (error != TARRY_OK)
        return error;
    if (label_header.dimensions != 1)
        return input_fail_whole(labels, "labels have %u dimensions, not 1",
                                label_header.dimensions);
    if (label_header.samples != image_header.samples)
        return input_fail_whole(labels, "%" PRIu64 " labels for %" PRIu64 " images",
                                label_header.samples, image_header.samples);
    builder->features = (uint32_t)image_header.features;
    error = read_images(images, &image_header, builder);
    return error != TARRY_OK ? error : read_labels(labels, &label_header, builder);
}

/* ---- read ---- */

static const char images_name[] = "images-idx3";
static const char labels_name[] = "labels-idx1";

static shown_text show_text(const char *text, size_t length)
{
    shown_text shown = {{0}};
    const size_t room = sizeof(shown.text) - 1;
    size_t count = length <= room ? length : room;
    for (size_t i = 0; i < count; i++)
        shown.text[i] = text[i];
    for (size_t i = 0; i < count; i++)
        if (shown.text[i] < ' ' || shown.text[i] > '~')
            shown.text[i] = '?';
    if (length > room)
        memcpy(shown.text + room - 3, "...", 3);
    return shown;
}

static int detect_format(input *in, dataset_format *format)
{
    const uint8_t *bytes;
    size_t got;
    int error = input_peek(in, 2, &bytes, &got);
    if (error != TARRY_OK)
        return error;
    if (*format == DATASET_AUTO)
        *format = idx_starts(bytes, got) ? DATASET_IDX : DATASET_LIBSVM;
    return TARRY_OK;
}

/* Opens the labels' file, by the name given or by the images'; *path is released by the caller. */
static int open_labels(const dataset_source *source, const tarry_allocator *allocator, char **path,
                       input *labels, tarry_diagnostic *diagnostic)
{
    if (source->labels_path != NULL)
        return input_open(labels, source->labels_path, allocator, diagnostic);
    const char *last = NULL;
    for (const char *at = source->path; (at = strstr(at, images_name)) != NULL; at++)
        last = at;
    if (last == NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "%s: no file of labels given, and no \"%s\" in the name to replace",
                        source->path, images_name);
    *path = memory_text(allocator, source->path, strlen(source->path), "");
    if (*path == NULL)
        return TARRY_ERROR_NO_MEMORY;
    memcpy(*path + (last - source->path), labels_name, sizeof(labels_name) - 1);
    return input_open(labels, *path, allocator, diagnostic);
}

/* ---- read libsvm ---- */

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
    const bool csv = memchr(text.start, ',', text.length) != NULL ||
                     memchr(text.start, ';', text.length) != NULL ||
                     text.start[text.length] == '	'; /* a NUL follows the line's end */
    return csv ? "; docs/data-formats.md has a line that makes LIBSVM of CSV" : "";
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

/* Lines LABEL INDEX:VALUE ..., indices strictly ascending from `first`, 0 or 1; '#' starts a
 * comment. `guessed`: nothing but a missing name says that the file is LIBSVM, so a message may say
 * how to read another format. */
static int read_libsvm(input *in, uint32_t first, bool guessed, dataset_builder *builder)
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

int dataset_read(const dataset_source *source, const tarry_allocator *allocator, dataset **out,
                 tarry_diagnostic *diagnostic)
{
    tarry_allocator memory = memory_allocator(allocator);
    dataset_format format = source->format;
    dataset_builder builder;
    input in, labels = {.allocator = memory};
    char *labels_path = NULL;
    builder_init(&builder, source->labels, false, &memory);
    int error = input_open(&in, source->path, &memory, diagnostic);
    if (error == TARRY_OK)
        error = detect_format(&in, &format);
    if (error != TARRY_OK)
        goto close;

    switch (format) {
    case DATASET_IDX:
        error = open_labels(source, &memory, &labels_path, &labels, diagnostic);
        if (error == TARRY_OK)
            error = read_idx(&in, &labels, &builder);
        break;
    case DATASET_AUTO:
    case DATASET_LIBSVM:
        builder.sparse = true;
        error =
            read_libsvm(&in, source->zero_based ? 0 : 1, source->format == DATASET_AUTO, &builder);
        break;
    }
    if (error == TARRY_OK)
        error = builder_finish(&builder, &in, out);

close:
    builder_free(&builder);
    input_close(&labels);
    input_close(&in);
    memory_release(&memory, labels_path);
    if (error == TARRY_ERROR_NO_MEMORY)
        diagnose_no_memory(diagnostic, source->path);
    return error;
}
