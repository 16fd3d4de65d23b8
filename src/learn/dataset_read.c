/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "learn/reader.h"

static const char images_name[] = "images-idx3";
static const char labels_name[] = "labels-idx1";

shown_text show_text(const char *text, size_t length)
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

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text), tail = strlen(ending);
    return length >= tail && strcmp(text + length - tail, ending) == 0;
}

/* True if these are the first bytes of a file in UTF-16: its byte order mark. */
static bool utf16_starts(const uint8_t *bytes, size_t count)
{
    return count >= 2 &&
           ((bytes[0] == 0xFF && bytes[1] == 0xFE) || (bytes[0] == 0xFE && bytes[1] == 0xFF));
}

static int detect_format(input *in, dataset_format *format)
{
    const uint8_t *bytes;
    size_t got;
    int error = input_peek(in, 2, &bytes, &got);
    if (error != TARRY_OK)
        return error;
    if (*format != DATASET_IDX && utf16_starts(bytes, got))
        return input_fail_whole(in, "the text is UTF-16; convert it to UTF-8 first, for example "
                                    "with iconv -f UTF-16 -t UTF-8");
    if (*format != DATASET_AUTO)
        return TARRY_OK;
    if (idx_starts(bytes, got))
        *format = DATASET_IDX;
    else if (ends_with(in->path, ".csv") || ends_with(in->path, ".csv.gz"))
        *format = DATASET_CSV;
    else
        *format = DATASET_LIBSVM;
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
    size_t size = strlen(source->path) + 1;
    *path = memory_allocate(allocator, size, 1);
    if (*path == NULL)
        return TARRY_ERROR_NO_MEMORY;
    memcpy(*path, source->path, size);
    memcpy(*path + (last - source->path), labels_name, sizeof(labels_name) - 1);
    return input_open(labels, *path, allocator, diagnostic);
}

int dataset_read(const dataset_source *source, const tarry_allocator *allocator, dataset **out,
                 tarry_diagnostic *diagnostic)
{
    tarry_allocator memory = memory_allocator(allocator);
    dataset_format format = source->format;
    dataset_builder builder;
    input in, labels = {.allocator = memory};
    char *labels_path = NULL;
    bool names = false;
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
    case DATASET_CSV:
        error = read_csv(&in, source->label_column, &names, &builder);
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
    if (error == TARRY_OK)
        (*out)->column_names = names;

close:
    builder_free(&builder);
    input_close(&labels);
    input_close(&in);
    memory_release(&memory, labels_path);
    if (error == TARRY_ERROR_NO_MEMORY)
        diagnose_no_memory(diagnostic, source->path);
    return error;
}
