/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/sums_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/digest.h"
#include "base/memory.h"
#include "file/whole_file.h"

enum { VERSION = 1, NAME_BYTES = 8, CHECK_BYTES = 8 };

static const char NAME[NAME_BYTES + 1] = "tarrysum";

struct sums_file {
    int descriptor;
    off_t end;
};

static void put_head(uint8_t head[SUMS_HEAD_BYTES])
{
    memcpy(head, NAME, NAME_BYTES);
    bytes_put(bytes_put(head + NAME_BYTES, VERSION, 4), SUMS_ENTRY_BYTES, 4);
}

static int put_entry(const tarry_sum_id *entry, uint8_t bytes[SUMS_ENTRY_BYTES])
{
    uint8_t seal[32];
    uint8_t *at = bytes_put(bytes, entry->step, 8);
    at = bytes_put(at, entry->term, 4);
    at = bytes_put(at, entry->attempt, 4);
    at = bytes_put(at, entry->digest, 8);
    if (digest_of_bytes(bytes, SUMS_ENTRY_BYTES - CHECK_BYTES, seal) != 0)
        return TARRY_ERROR_NO_MEMORY;
    memcpy(at, seal, CHECK_BYTES);
    return TARRY_OK;
}

/* Whether the bytes are those of an entry. */
static bool get_entry(const uint8_t bytes[SUMS_ENTRY_BYTES], tarry_sum_id *entry)
{
    uint8_t again[SUMS_ENTRY_BYTES];
    *entry = (tarry_sum_id){
        .step = bytes_get(bytes, 8),
        .term = (uint32_t)bytes_get(bytes + 8, 4),
        .attempt = (uint32_t)bytes_get(bytes + 12, 4),
        .digest = bytes_get(bytes + 16, 8),
    };
    return put_entry(entry, again) == TARRY_OK && memcmp(again, bytes, sizeof(again)) == 0;
}

int sums_file_read(const uint8_t *bytes, size_t size, uint64_t steps, tarry_sum_id last[2],
                   uint32_t *term, size_t *valid, tarry_diagnostic *diagnostic)
{
    uint8_t head[SUMS_HEAD_BYTES];
    uint64_t at = 0; /* the step that the log is at */
    put_head(head);
    if (size < sizeof(head) || memcmp(bytes, head, sizeof(head)) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "this is no log of a run's sums");
    tarry_sum_id found[2] = {{0}}, entry;
    *term = 0;
    *valid = sizeof(head);
    while (size - *valid >= SUMS_ENTRY_BYTES && get_entry(bytes + *valid, &entry)) {
        if (entry.attempt == 0 ? entry.step > at : entry.step != at + 1)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "its steps do not follow each other");
        at = entry.step;
        if (entry.attempt != 0 && entry.step == steps)
            found[0] = entry;
        else if (entry.attempt != 0 && entry.step + 1 == steps)
            found[1] = entry;
        *term = entry.term > *term ? entry.term : *term;
        *valid += SUMS_ENTRY_BYTES;
    }
    if (at < steps)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "it has not all steps of the checkpoint");
    memcpy(last, found, sizeof(found));
    return TARRY_OK;
}

/* The step of the last entry of bytes that are whole. */
static uint64_t step_at_end(const uint8_t *bytes, size_t valid)
{
    tarry_sum_id entry = {0};
    if (valid >= SUMS_HEAD_BYTES + SUMS_ENTRY_BYTES)
        get_entry(bytes + valid - SUMS_ENTRY_BYTES, &entry);
    return entry.step;
}

int sums_file_newest(const char *path, uint64_t steps, uint64_t *newest, tarry_sum_id *entry,
                     tarry_diagnostic *diagnostic)
{
    uint8_t *bytes;
    size_t size, valid;
    uint32_t term;
    tarry_sum_id last[2];
    tarry_diagnostic why;
    int error = whole_file_read(path, &bytes, &size, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = sums_file_read(bytes, size, steps, last, &term, &valid, &why);
    if (error == TARRY_OK) {
        *newest = step_at_end(bytes, valid);
        *entry = last[0];
    }
    memory_release(NULL, bytes);
    return error == TARRY_OK ? TARRY_OK : diagnose(diagnostic, error, "%s: %s", path, why.text);
}

/* At the end, and synced. */
static int write_bytes(sums_file *file, const uint8_t *bytes, size_t size)
{
    if (!whole_file_write_at(file->descriptor, bytes, size, (size_t)file->end) ||
        fdatasync(file->descriptor) != 0)
        return TARRY_ERROR_FILE;
    file->end += (off_t)size;
    return TARRY_OK;
}

/* A tarry_sum_log's. */
static int append(void *user, const tarry_sum_id *entry)
{
    uint8_t bytes[SUMS_ENTRY_BYTES];
    int error = put_entry(entry, bytes);
    return error == TARRY_OK ? write_bytes(user, bytes, sizeof(bytes)) : error;
}

/* The log is at so many steps, in a term that no start before had. */
static int note_start(sums_file *file, uint64_t steps, uint32_t term)
{
    const tarry_sum_id start = {.step = steps, .term = term};
    return append(file, &start);
}

static int begin_anew(sums_file *file, tarry_sum_log *log)
{
    uint8_t head[SUMS_HEAD_BYTES];
    put_head(head);
    *log = (tarry_sum_log){.term = 1};
    int error = ftruncate(file->descriptor, 0) == 0 ? write_bytes(file, head, sizeof(head))
                                                    : TARRY_ERROR_FILE;
    return error == TARRY_OK ? note_start(file, 0, log->term) : error;
}

static int go_on(sums_file *file, const char *path, uint64_t steps, tarry_sum_log *log,
                 tarry_diagnostic *diagnostic)
{
    uint8_t *bytes;
    size_t size, valid;
    tarry_diagnostic why;
    int error = whole_file_read(path, &bytes, &size, diagnostic);
    if (error != TARRY_OK)
        return error;
    *log = (tarry_sum_log){0};
    error = sums_file_read(bytes, size, steps, log->last, &log->term, &valid, &why);
    memory_release(NULL, bytes);
    if (error != TARRY_OK)
        return diagnose(diagnostic, error, "%s: %s", path, why.text);
    log->term++;
    file->end = (off_t)valid;
    if (ftruncate(file->descriptor, file->end) != 0)
        return TARRY_ERROR_FILE;
    return note_start(file, steps, log->term);
}

int sums_file_open(const char *path, bool goes_on, uint64_t steps, sums_file **out,
                   tarry_sum_log *log, tarry_diagnostic *diagnostic)
{
    struct stat status;
    sums_file *file = memory_allocate(NULL, 1, sizeof(*file));
    if (file == NULL)
        return diagnose_no_memory(diagnostic, path);
    tarry_diagnostic why = {""};
    int error = TARRY_ERROR_FILE;
    file->descriptor = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    if (file->descriptor >= 0 && fstat(file->descriptor, &status) == 0) {
        if (!S_ISREG(status.st_mode))
            errno = EINVAL;
        else
            error = goes_on ? go_on(file, path, steps, log, &why) : begin_anew(file, log);
    }
    if (error == TARRY_OK && !whole_file_sync_folder(path))
        error = TARRY_ERROR_FILE;
    if (error != TARRY_OK) {
        if (why.text[0] != '\0')
            diagnose(diagnostic, error, "%s", why.text);
        else
            diagnose(diagnostic, error, "%s: %s", path, strerror(errno));
        sums_file_close(file);
        return error;
    }
    log->append = append;
    log->user = file;
    *out = file;
    return TARRY_OK;
}

void sums_file_close(sums_file *file)
{
    if (file == NULL)
        return;
    if (file->descriptor >= 0)
        close(file->descriptor);
    memory_release(NULL, file);
}
