/* SPDX-License-Identifier: Apache-2.0 */
#include "learn/input.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/number.h"

enum {
    FIRST_CAPACITY = 1 << 16,
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
    in->buffer = memory_allocate(&in->allocator, FIRST_CAPACITY, 1);
    if (in->c_locale == (locale_t)0 || in->buffer == NULL)
        return TARRY_ERROR_NO_MEMORY;
    in->capacity = FIRST_CAPACITY;
    errno = 0;
    in->file = gzopen(path, "rbe");
    if (in->file == NULL && errno != 0)
        return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: %s", path, strerror(errno));
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
    char *larger = memory_allocate(&in->allocator, 2 * in->capacity, 1);
    if (larger == NULL)
        return TARRY_ERROR_NO_MEMORY;
    memcpy(larger, in->buffer, in->end);
    memory_release(&in->allocator, in->buffer);
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
        return diagnose(in->diagnostic, TARRY_ERROR_FILE, "%s: %s", in->path, strerror(system));
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
