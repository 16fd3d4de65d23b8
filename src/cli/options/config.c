/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/config.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"

/* inih reads through next_line, which keeps the line number that inih does not give its handler. */
typedef struct reading {
    FILE *stream;
    config_file *file;
    const char *path;
    tarry_diagnostic *diagnostic;
    unsigned line;
    int error; /* the first one */
} reading;

static char *next_line(char *line, int size, void *user)
{
    reading *state = user;
    if (state->error != TARRY_OK || fgets(line, size, state->stream) == NULL)
        return NULL;
    state->line++;
    size_t length = strlen(line);
    bool whole = length > 0 && (line[length - 1] == '\n' || feof(state->stream));
    if (!whole && length + 1 < (size_t)size) {
        state->error = diagnose(state->diagnostic, TARRY_ERROR_FORMAT, "%s:%u: a NUL byte",
                                state->path, state->line);
        return NULL;
    }
    if (!whole) {
        state->error =
            diagnose(state->diagnostic, TARRY_ERROR_FORMAT, "%s:%u: longer than %d characters",
                     state->path, state->line, size - 2);
        return NULL;
    }
    /* An indented line would be the continuation of the one before. */
    size_t blanks = strspn(line, " \t");
    memmove(line, line + blanks, length + 1 - blanks);
    return line;
}

static char *copy_text(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = memory_allocate(NULL, size, 1);
    if (copy != NULL)
        memcpy(copy, text, size);
    return copy;
}

static int grow(config_file *file)
{
    if (file->count < file->capacity)
        return TARRY_OK;
    size_t capacity = file->capacity == 0 ? 16 : file->capacity * 2;
    config_entry *entries = memory_allocate(NULL, capacity, sizeof(*entries));
    if (entries == NULL)
        return TARRY_ERROR_NO_MEMORY;
    if (file->count > 0)
        memcpy(entries, file->entries, file->count * sizeof(*entries));
    memory_release(NULL, file->entries);
    file->entries = entries;
    file->capacity = capacity;
    return TARRY_OK;
}

/* inih's handler: nonzero to go on. */
static int take_entry(void *user, const char *section, const char *key, const char *value)
{
    reading *state = user;
    if (state->error != TARRY_OK)
        return 0;
    if (*section != '\0') {
        state->error = diagnose(state->diagnostic, TARRY_ERROR_FORMAT,
                                "%s:%u: '%s' stands in section [%s]; sections have no meaning here",
                                state->path, state->line, key, section);
        return 0;
    }
    config_entry entry = {copy_text(key), copy_text(value), state->line};
    if (entry.key == NULL || entry.value == NULL || grow(state->file) != TARRY_OK) {
        memory_release(NULL, entry.key);
        memory_release(NULL, entry.value);
        state->error = diagnose_no_memory(state->diagnostic, state->path);
        return 0;
    }
    state->file->entries[state->file->count++] = entry;
    return 1;
}

int config_read(const char *path, config_file **out, tarry_diagnostic *diagnostic)
{
    config_file *file = memory_allocate(NULL, 1, sizeof(*file));
    if (file == NULL)
        return diagnose_no_memory(diagnostic, path);
    reading state = {.file = file, .path = path, .diagnostic = diagnostic};
    state.stream = fopen(path, "re");
    if (state.stream == NULL) {
        state.error = diagnose(diagnostic, TARRY_ERROR_FILE, "%s: %s", path, strerror(errno));
        goto release;
    }
    int line = ini_parse_stream(next_line, &state, take_entry, &state);
    if (state.error == TARRY_OK && ferror(state.stream))
        state.error = diagnose(diagnostic, TARRY_ERROR_FILE, "%s: cannot be read", path);
    else if (state.error == TARRY_OK && line != 0)
        state.error = line < 0 ? diagnose_no_memory(diagnostic, path)
                               : diagnose(diagnostic, TARRY_ERROR_FORMAT,
                                          "%s:%d: not of the form 'key = value'", path, line);
    fclose(state.stream);
    if (state.error == TARRY_OK) {
        *out = file;
        return TARRY_OK;
    }
release:
    config_free(file);
    return state.error;
}

void config_free(config_file *file)
{
    if (file == NULL)
        return;
    for (size_t i = 0; i < file->count; i++) {
        memory_release(NULL, file->entries[i].key);
        memory_release(NULL, file->entries[i].value);
    }
    memory_release(NULL, file->entries);
    memory_release(NULL, file);
}
