/* SPDX-License-Identifier: Apache-2.0 */
#include "release/ledger_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/digest.h"
#include "base/memory.h"
#include "file/whole_file.h"

enum { VERSION = 2, NAME_BYTES = 8, NUMBER_BYTES = 8, SEAL_BYTES = 8 };
enum { RUN_AT = NAME_BYTES + 4, TERMS_AT = RUN_AT + 4 };

static const char NAME[NAME_BYTES + 1] = "tarrypri";

struct ledger_file {
    int descriptor;
    ledger_content content;
    bool unknown; /* a sync failed: what is on disk is not known */
    char path[];
};

static void put_head(const ledger_terms *terms, uint32_t run, uint8_t head[LEDGER_HEAD_BYTES])
{
    memcpy(head, NAME, NAME_BYTES);
    uint8_t *at = bytes_put(bytes_put(head + NAME_BYTES, VERSION, 4), run, 4);
    bytes_put_f64(bytes_put_f64(bytes_put_f64(at, terms->clip), terms->noise), terms->sample);
}

static int seal_of(const uint8_t *bytes, size_t size, uint64_t *seal)
{
    uint8_t whole[32];
    if (digest_of_bytes(bytes, size, whole) != 0)
        return TARRY_ERROR_NO_MEMORY;
    *seal = bytes_get(whole, SEAL_BYTES);
    return TARRY_OK;
}

/* The entry of a release, after one with that seal; *seal becomes its own. */
static int put_entry(uint64_t number, uint64_t *seal, uint8_t bytes[LEDGER_ENTRY_BYTES])
{
    uint8_t sealed[SEAL_BYTES + NUMBER_BYTES];
    bytes_put(bytes_put(sealed, *seal, SEAL_BYTES), number, NUMBER_BYTES);
    if (seal_of(sealed, sizeof(sealed), seal) != TARRY_OK)
        return TARRY_ERROR_NO_MEMORY;
    bytes_put(bytes_put(bytes, number, NUMBER_BYTES), *seal, SEAL_BYTES);
    return TARRY_OK;
}

static size_t size_of(uint64_t releases)
{
    return LEDGER_HEAD_BYTES + (size_t)releases * LEDGER_ENTRY_BYTES;
}

/* True if the bytes are the beginning of that entry, and zeros after it. */
static bool is_torn(const uint8_t *bytes, size_t size, const uint8_t entry[LEDGER_ENTRY_BYTES])
{
    size_t same = 0;
    while (same < size && bytes[same] == entry[same])
        same++;
    while (same < size && bytes[same] == 0)
        same++;
    return same == size;
}

static int check_head(const uint8_t *bytes, size_t size, const ledger_terms *terms,
                      tarry_diagnostic *diagnostic)
{
    uint8_t head[LEDGER_HEAD_BYTES];
    put_head(terms, 0, head);
    if (size < sizeof(head) || memcmp(bytes, head, RUN_AT) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "this is no ledger of a run's releases, or one of another version of "
                        "Tarry");
    if (memcmp(bytes + TERMS_AT, head + TERMS_AT, sizeof(head) - TERMS_AT) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "its releases are of another clip, noise or sample");
    return TARRY_OK;
}

int ledger_file_read(const uint8_t *bytes, size_t size, const ledger_terms *terms,
                     ledger_content *content, tarry_diagnostic *diagnostic)
{
    uint8_t entry[LEDGER_ENTRY_BYTES];
    int error = check_head(bytes, size, terms, diagnostic);
    if (error != TARRY_OK)
        return error;
    ledger_content found = {0};
    if (seal_of(bytes, LEDGER_HEAD_BYTES, &found.seal) != TARRY_OK)
        return diagnose_no_memory(diagnostic, "ledger");
    while (size > size_of(found.whole) && !found.torn) {
        const size_t left = size - size_of(found.whole);
        const uint8_t *at = bytes + size_of(found.whole);
        uint64_t seal = found.seal;
        if (put_entry(found.whole + 1, &seal, entry) != TARRY_OK)
            return diagnose_no_memory(diagnostic, "ledger");
        if (left >= sizeof(entry) && memcmp(at, entry, sizeof(entry)) == 0) {
            found.whole++;
            found.seal = seal;
        } else if (left <= sizeof(entry) && is_torn(at, left, entry)) {
            found.torn = true;
        } else {
            return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                            "damaged after %" PRIu64 " releases: how many there were is not known. "
                            "Restore the ledger from a copy that is not damaged",
                            found.whole);
        }
    }
    *content = found;
    return TARRY_OK;
}

static int say_system(const ledger_file *file, tarry_diagnostic *diagnostic)
{
    return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: %s", file->path, strerror(errno));
}

/* The file and its folder: the name of a new file is on disk once its folder is synced. */
static int sync_all(ledger_file *file, tarry_diagnostic *diagnostic)
{
    if (fsync(file->descriptor) == 0 && whole_file_sync_folder(file->path))
        return TARRY_OK;
    return say_system(file, diagnostic);
}

/* True if a new ledger may take the file's place: it is empty, or the head of a ledger whose
 * creation did not end. */
static bool is_begun(const ledger_file *file)
{
    static const uint8_t lost[NAME_BYTES];
    uint8_t found[NAME_BYTES];
    const ssize_t size = pread(file->descriptor, found, sizeof(found), 0);
    return size >= 0 &&
           (memcmp(found, NAME, (size_t)size) == 0 || memcmp(found, lost, (size_t)size) == 0);
}

static int ledger_begin(ledger_file *file, const ledger_terms *terms, tarry_diagnostic *diagnostic)
{
    struct stat status;
    uint8_t head[LEDGER_HEAD_BYTES];
    uint32_t run;
    if (fstat(file->descriptor, &status) != 0)
        return say_system(file, diagnostic);
    if (!is_begun(file))
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "%s: this file is in the way: it is not a ledger, and is not overwritten",
                        file->path);
    if (status.st_size > LEDGER_HEAD_BYTES)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "%s: an earlier run has released sums of its data: --resume goes on from "
                        "it, and a new run is added up with it by hand",
                        file->path);
    if (getrandom(&run, sizeof(run), 0) != (ssize_t)sizeof(run))
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "random numbers of the system: %s",
                        strerror(errno));
    put_head(terms, run, head);
    if (seal_of(head, sizeof(head), &file->content.seal) != TARRY_OK)
        return diagnose_no_memory(diagnostic, file->path);
    if (ftruncate(file->descriptor, 0) != 0 ||
        !whole_file_write_at(file->descriptor, head, sizeof(head), 0))
        return say_system(file, diagnostic);
    return sync_all(file, diagnostic);
}

static int ledger_go_on(ledger_file *file, const ledger_terms *terms, tarry_diagnostic *diagnostic)
{
    uint8_t *bytes;
    size_t size;
    tarry_diagnostic why;
    int error = whole_file_read(file->path, &bytes, &size, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = ledger_file_read(bytes, size, terms, &file->content, &why);
    memory_release(NULL, bytes);
    if (error != TARRY_OK)
        return diagnose(diagnostic, error, "%s: %s", file->path, why.text);
    return sync_all(file, diagnostic); /* the process before may have ended first */
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
        error =
            goes_on ? ledger_go_on(file, terms, diagnostic) : ledger_begin(file, terms, diagnostic);
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
    return file->content.whole + file->content.torn;
}

tarry_dp_mark ledger_file_mark(const ledger_file *file)
{
    return (tarry_dp_mark){file->content.whole, file->content.seal};
}

/* The seal of a release that the ledger has; 0: of none. */
static int read_seal(const ledger_file *file, uint64_t release, uint64_t *seal,
                     tarry_diagnostic *diagnostic)
{
    uint8_t head[LEDGER_HEAD_BYTES], stored[SEAL_BYTES];
    const bool is_head = release == 0;
    uint8_t *bytes = is_head ? head : stored;
    const size_t size = is_head ? sizeof(head) : sizeof(stored);
    const size_t at = is_head ? 0 : size_of(release) - SEAL_BYTES;
    errno = EIO;
    if (pread(file->descriptor, bytes, size, (off_t)at) != (ssize_t)size)
        return say_system(file, diagnostic);
    if (!is_head)
        *seal = bytes_get(stored, SEAL_BYTES);
    else if (seal_of(head, sizeof(head), seal) != TARRY_OK)
        return diagnose_no_memory(diagnostic, file->path);
    return TARRY_OK;
}

int ledger_file_covers(const ledger_file *file, const tarry_dp_mark *mark, uint64_t rounds,
                       tarry_diagnostic *diagnostic)
{
    const uint64_t least = mark->releases > rounds ? mark->releases : rounds;
    uint64_t seal = mark->seal;
    if (file->content.whole < least)
        return diagnose(
            diagnostic, TARRY_ERROR_FORMAT,
            "%s: the ledger counts %" PRIu64 " releases, but the checkpoint was written "
            "after %" PRIu64 " rounds and %" PRIu64 " releases. Restore the ledger that "
            "belongs to the checkpoint: without it the run cannot resume, because its "
            "epsilon is not known",
            file->path, file->content.whole, rounds, least);
    int error = mark->seal != 0 ? read_seal(file, mark->releases, &seal, diagnostic) : TARRY_OK;
    if (error == TARRY_OK && seal != mark->seal)
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT,
                         "%s: the ledger, with %" PRIu64 " releases, is of another run than the "
                         "checkpoint, which was written after %" PRIu64 " rounds and %" PRIu64
                         " releases. Restore the ledger that belongs to the checkpoint",
                         file->path, file->content.whole, rounds, least);
    return error;
}

int ledger_file_add(ledger_file *file, tarry_diagnostic *diagnostic)
{
    const uint64_t whole = file->content.whole, next = ledger_file_releases(file) + 1;
    uint8_t entries[2 * LEDGER_ENTRY_BYTES], *end = entries; /* a torn one is written again */
    ledger_content after = {.whole = next, .seal = file->content.seal};
    if (file->unknown)
        return diagnose(diagnostic, TARRY_ERROR_FILE,
                        "%s: an earlier release could not be synced: resume the run to count again",
                        file->path);
    for (uint64_t number = whole + 1; number <= next; number++, end += LEDGER_ENTRY_BYTES)
        if (put_entry(number, &after.seal, end) != TARRY_OK)
            return diagnose_no_memory(diagnostic, file->path);
    if (!whole_file_write_at(file->descriptor, entries, (size_t)(end - entries), size_of(whole)))
        return say_system(file, diagnostic);
    /* The pages of a sync that failed may be marked clean, so a second sync proves nothing. */
    file->unknown = fdatasync(file->descriptor) != 0;
    if (file->unknown)
        return say_system(file, diagnostic);
    file->content = after;
    return TARRY_OK;
}
