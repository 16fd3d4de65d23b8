/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text/report_json.h"

#include <tarry/error.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

json_t *json_text(const char *text)
{
    if (text == NULL)
        return json_null();
    json_t *string = json_string(text);
    if (string != NULL)
        return string;
    size_t length = strlen(text);
    char *ascii = memory_allocate(NULL, length + 1, 1);
    if (ascii == NULL)
        return NULL;
    for (size_t i = 0; i < length; i++)
        ascii[i] = (unsigned char)text[i] < 0x80 ? text[i] : '?';
    string = json_string(ascii);
    memory_release(NULL, ascii);
    return string;
}

json_t *json_fingerprint(uint64_t fingerprint)
{
    return fingerprint == 0 ? json_null() : json_sprintf("%016" PRIx64, fingerprint);
}

json_t *json_append(json_t *list, json_t *item)
{
    if (json_array_append_new(list, item) == 0) /* which takes over the item in any case */
        return list;
    json_decref(list);
    return NULL;
}

int json_write(json_t *report, FILE *stream)
{
    if (report == NULL)
        return TARRY_ERROR_NO_MEMORY;
    int failed = json_dumpf(report, stream, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    fputc('\n', stream);
    json_decref(report);
    return failed == 0 || ferror(stream) ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

/* Writes the text, each line of it `depth` deeper; takes over both. */
static int write_text(json_t *value, char *text, size_t depth, FILE *stream)
{
    json_decref(value);
    if (text == NULL)
        return TARRY_ERROR_NO_MEMORY;
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '\n') /* behind the last member */
        length--;
    for (size_t i = 0; i < length; i++) {
        fputc(text[i], stream);
        for (size_t k = 0; text[i] == '\n' && k < depth; k++)
            fputc(' ', stream);
    }
    free(text);
    return TARRY_OK;
}

int json_write_members(json_t *members, FILE *stream)
{
    return write_text(members,
                      json_dumps(members, JSON_INDENT(1) | JSON_REAL_PRECISION(17) | JSON_EMBED), 0,
                      stream);
}

int json_write_item(json_t *item, bool first, FILE *stream)
{
    fputs(first ? "\n  " : ",\n  ", stream);
    return write_text(item, json_dumps(item, JSON_INDENT(1) | JSON_REAL_PRECISION(17)), 2, stream);
}
