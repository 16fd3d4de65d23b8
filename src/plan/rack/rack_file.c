/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/rack/rack_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "plan/rack/rack.h"

typedef struct reader {
    FILE *stream;
    const char *name;
    uint32_t line; /* the present one, from 1 */
    rack_entry *entries;
    uint32_t workers, read;
    tarry_diagnostic *diagnostic;
} reader;

static bool is_blank(int character)
{
    return character == ' ' || character == '\t' || character == '\r';
}

static bool ends_line(int character)
{
    return character == '\n' || character == EOF;
}

/* Reads the name that begins with `character`; *next is what follows it. */
static int read_name(reader *in, int character, int *next)
{
    if (in->read == in->workers)
        return diagnose(in->diagnostic, TARRY_ERROR_FORMAT, "%s:%u: the plan has only %u workers",
                        in->name, in->line, in->workers);
    rack_entry *into = &in->entries[in->read];
    size_t length = 0;
    for (; !ends_line(character) && !is_blank(character) && character != '#';
         character = getc_unlocked(in->stream)) {
        if (!rack_is_letter((unsigned)character))
            return diagnose(in->diagnostic, TARRY_ERROR_FORMAT,
                            "%s:%u: byte 0x%02x in a rack's name", in->name, in->line,
                            (unsigned)character);
        if (length == TARRY_RACK_BYTES)
            return diagnose(in->diagnostic, TARRY_ERROR_FORMAT,
                            "%s:%u: the rack's name has more than %d bytes", in->name, in->line,
                            TARRY_RACK_BYTES);
        into->name[length++] = (char)character;
    }
    into->worker = in->read++;
    *next = character;
    return TARRY_OK;
}

static int read_line(reader *in, int *last)
{
    int character = getc_unlocked(in->stream), error = TARRY_OK;
    while (is_blank(character))
        character = getc_unlocked(in->stream);
    if (!ends_line(character) && character != '#')
        error = read_name(in, character, &character);
    while (error == TARRY_OK && is_blank(character))
        character = getc_unlocked(in->stream);
    if (error == TARRY_OK && !ends_line(character) && character != '#')
        return diagnose(in->diagnostic, TARRY_ERROR_FORMAT, "%s:%u: more than the name of one rack",
                        in->name, in->line);
    while (error == TARRY_OK && !ends_line(character))
        character = getc_unlocked(in->stream);
    *last = character;
    return error;
}

static int read_lines(reader *in)
{
    int last = '\n';
    while (last != EOF) {
        in->line++;
        int error = read_line(in, &last);
        if (error != TARRY_OK)
            return error;
    }
    if (ferror(in->stream))
        return diagnose_file(in->diagnostic, in->name, errno);
    if (in->read < in->workers)
        return diagnose(in->diagnostic, TARRY_ERROR_FORMAT,
                        "%s:%u: the file ends after %u of the %u workers", in->name, in->line,
                        in->read, in->workers);
    return TARRY_OK;
}

int rack_file_read(const char *name, uint32_t workers, const tarry_allocator *allocator,
                   uint32_t *rack, tarry_diagnostic *diagnostic)
{
    reader in = {.name = name, .workers = workers, .diagnostic = diagnostic};
    in.stream = fopen(name, "r");
    if (in.stream == NULL)
        return diagnose_file(diagnostic, name, errno);
    in.entries = memory_allocate(allocator, workers, sizeof(*in.entries));
    int error = in.entries != NULL ? read_lines(&in) : diagnose_no_memory(diagnostic, name);
    if (error == TARRY_OK)
        rack_join(in.entries, workers, rack);
    memory_release(allocator, in.entries);
    fclose(in.stream);
    return error;
}
