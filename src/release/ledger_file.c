/* SPDX-License-Identifier: Apache-2.0 */
#include "release/ledger_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/digest.h"
#include "base/memory.h"
#include "file/whole_file.h"

enum { VERSION = 1, NAME_BYTES = 8, NUMBER_BYTES = 8 };

static const char NAME[NAME_BYTES + 1] = "tarrypri";

struct ledger_file {
    int descriptor;
    uint64_t releases;
    char path[];
};

static void put_head(const ledger_terms *terms, uint8_t head[LEDGER_HEAD_BYTES])
{
    memcpy(head, NAME, NAME_BYTES);
    uint8_t *at = bytes_put(bytes_put(head + NAME_BYTES, VERSION, 4), LEDGER_ENTRY_BYTES, 4);
    bytes_put_f64(bytes_put_f64(bytes_put_f64(at, terms->clip), terms->noise), terms->sample);
}

static int put_entry(uint64_t number, uint8_t bytes[LEDGER_ENTRY_BYTES])
{
    uint8_t seal[32];
    bytes_put(bytes, number, NUMBER_BYTES);
    if (digest_of_bytes(bytes, NUMBER_BYTES, seal) != 0)
        return TARRY_ERROR_NO_MEMORY;
    memcpy(bytes + NUMBER_BYTES, seal, LEDGER_ENTRY_BYTES - NUMBER_BYTES);
    return TARRY_OK;
}

static size_t size_of(uint64_t releases)
{
    return LEDGER_HEAD_BYTES + (size_t)releases * LEDGER_ENTRY_BYTES;
}

int ledger_file_read(const uint8_t *bytes, size_t size, const ledger_terms *terms,
                     uint64_t *releases, tarry_diagnostic *diagnostic)
{
    const size_t terms_at = NAME_BYTES + 8;
    uint8_t head[LEDGER_HEAD_BYTES], entry[LEDGER_ENTRY_BYTES];
    put_head(terms, head);
    if (size < sizeof(head) || memcmp(bytes, head, terms_at) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "this is no ledger of a run's releases");
    if (memcmp(bytes + terms_at, head + terms_at, sizeof(head) - terms_at) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "its releases are of another clip, noise or sample");
    uint64_t found = 0;
    while (size - size_of(found) >= LEDGER_ENTRY_BYTES) {
        if (put_entry(found + 1, entry) != TARRY_OK)
            return diagnose_no_memory(diagnostic, "ledger");
        if (memcmp(bytes + size_of(found), entry, sizeof(entry)) != 0)
            break;
        found++;
    }
    if (size - size_of(found) > LEDGER_ENTRY_BYTES)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "damaged after %" PRIu64 " releases: how many there were is not known",
                        found);
    *releases = found;
    return TARRY_OK;
}

static int say_system(const ledger_file *file, tarry_diagnostic *diagnostic)
{
    return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: %s", file->path, strerror(errno));
}

static int begin(ledger_file *file, const ledger_terms *terms, tarry_diagnostic *diagnostic)
{
    struct stat status;
    uint8_t head[LEDGER_HEAD_BYTES];
    if (fstat(file->descriptor, &status) != 0)
        return say_system(file, diagnostic);
    if (status.st_size > LEDGER_HEAD_BYTES)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "%s: an earlier run has released sums of its data: --resume goes on from "
                        "it, and a new run is added up with it by hand",
                        file->path);
    put_head(terms, head);
    if (ftruncate(file->descriptor, 0) != 0 ||
        !whole_file_write_at(file->descriptor, head, sizeof(head), 0) ||
        fsync(file->descriptor) != 0)
        return say_system(file, diagnostic);
    return TARRY_OK;
}

static int go_on(ledger_file *file, const ledger_terms *terms, tarry_diagnostic *diagnostic)
{
    uint8_t *bytes;
    size_t size;
    tarry_diagnostic why;
    int error = whole_file_read(file->path, &bytes, &size, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = ledger_file_read(bytes, size, terms, &file->releases, &why);
    memory_release(NULL, bytes);
    if (error != TARRY_OK)
        return diagnose(diagnostic, error, "%s: %s", file->path, why.text);
    if (ftruncate(file->descriptor, (off_t)size_of(file->releases)) != 0)
        return say_system(file, diagnostic);
    return TARRY_OK;
}

int ledger_file_open(const char *path, bool goes_on, const ledger_terms *terms, ledger_file **out,
                     tarry_diagnostic *diagnostic)
{
    struct stat status;
    const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (goes_on ? 0 : O_CREAT);
    ledger_file *file = memory_allocate(NULL, sizeof(*file) + strlen(path) + 1, 1);
    if (file == NULL)
        return diagnose_no_memory(diagnostic, path);
    strcpy(file->path, path);
    file->descriptor = open(path, flags, 0600);
    int error;
    if (file->descriptor < 0 || fstat(file->descriptor, &status) != 0)
        error = say_system(file, diagnostic);
    else if (!S_ISREG(status.st_mode))
        error = diagnose(diagnostic, TARRY_ERROR_FILE, "%s: this is no file", path);
    else if (flock(file->descriptor, LOCK_EX | LOCK_NB) != 0)
        error = diagnose(diagnostic, TARRY_ERROR_STATE, "%s: another run counts there", path);
    else
        error = goes_on ? go_on(file, terms, diagnostic) : begin(file, terms, diagnostic);
    if (error == TARRY_OK)
        *out = file;
    else
        ledger_file_close(file);
    return error;
}

void ledger_file_close(ledger_file *file)
{
    if (file == NULL)
        return;
    if (file->descriptor >= 0)
        close(file->descriptor);
    memory_release(NULL, file);
}

uint64_t ledger_file_releases(const ledger_file *file)
{
    return file->releases;
}

int ledger_file_add(ledger_file *file, tarry_diagnostic *diagnostic)
{
    uint8_t entry[LEDGER_ENTRY_BYTES];
    if (put_entry(file->releases + 1, entry) != TARRY_OK)
        return diagnose_no_memory(diagnostic, file->path);
    if (!whole_file_write_at(file->descriptor, entry, sizeof(entry), size_of(file->releases)) ||
        fdatasync(file->descriptor) != 0)
        return say_system(file, diagnostic);
    file->releases++;
    return TARRY_OK;
}
