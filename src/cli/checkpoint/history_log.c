/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/history_log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/digest.h"
#include "base/memory.h"
#include "cli/checkpoint/history_code.h"
#include "file/whole_file.h"

enum {
    VERSION = 3,
    NAME_BYTES = 8,
    FIRST_AT = 16,
    PIECE = 64 /* rounds that are written at a time */
};

static const char NAME[NAME_BYTES + 1] = "tarrylog";

struct history_log {
    const char *path;
    size_t first;                          /* rounds before it are not known */
    size_t count;                          /* first..count - 1 are on disk */
    uint8_t seal[HISTORY_LOG_DIGEST_SIZE]; /* of these */
    bool folder_synced;                    /* since this process opened the file */
};

static size_t end_of(size_t rounds)
{
    return HISTORY_LOG_HEAD_BYTES + rounds * HISTORY_ROUND_BYTES;
}

void history_log_head(size_t first, uint8_t head[HISTORY_LOG_HEAD_BYTES])
{
    memcpy(head, NAME, NAME_BYTES);
    uint8_t *at = bytes_put(head + NAME_BYTES, VERSION, 4);
    bytes_put(bytes_put(at, HISTORY_ROUND_BYTES, 4), first, 8);
}

/* Of no round. */
static void begin_seal(size_t first, uint8_t seal[HISTORY_LOG_DIGEST_SIZE])
{
    memset(seal, 0, HISTORY_LOG_DIGEST_SIZE);
    bytes_put(seal, first, 8);
}

/* The seal is that of a round less, until the round's bytes are added. */
static int add_round(uint8_t seal[HISTORY_LOG_DIGEST_SIZE], const uint8_t *round)
{
    uint8_t bytes[HISTORY_LOG_DIGEST_SIZE + HISTORY_ROUND_BYTES];
    memcpy(bytes, seal, HISTORY_LOG_DIGEST_SIZE);
    memcpy(bytes + HISTORY_LOG_DIGEST_SIZE, round, HISTORY_ROUND_BYTES);
    return digest_of_bytes(bytes, sizeof(bytes), seal) == 0 ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

int history_log_seal(const uint8_t *bytes, size_t size, size_t count,
                     uint8_t seal[HISTORY_LOG_DIGEST_SIZE], size_t *first,
                     tarry_diagnostic *diagnostic)
{
    uint8_t head[HISTORY_LOG_HEAD_BYTES];
    if (size < sizeof(head) || memcmp(bytes, NAME, NAME_BYTES) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "this is not the history of a run");
    const uint64_t begin = bytes_get(bytes + FIRST_AT, 8);
    history_log_head(begin, head);
    if (memcmp(bytes, head, sizeof(head)) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "it is damaged, or of another version of Tarry");
    if (begin > count || count - begin > (size - sizeof(head)) / HISTORY_ROUND_BYTES)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "it does not have all rounds of the checkpoint");
    begin_seal(begin, seal);
    for (size_t i = 0; i < count - begin; i++)
        if (add_round(seal, bytes + end_of(i)) != TARRY_OK)
            return diagnose_no_memory(diagnostic, "history");
    *first = begin;
    return TARRY_OK;
}

int history_log_rounds(const uint8_t *bytes, size_t first, size_t count, history *past)
{
    int error = TARRY_OK;
    history_clear(past, first);
    for (size_t i = 0; i < count - first && error == TARRY_OK; i++) {
        history_round *round = history_add(past);
        error =
            round != NULL ? history_decode_round(bytes + end_of(i), round) : TARRY_ERROR_NO_MEMORY;
    }
    if (error != TARRY_OK)
        history_clear(past, 0);
    return error;
}

int history_log_create(const char *path, history_log **out)
{
    history_log *log = memory_allocate(NULL, 1, sizeof(*log));
    if (log == NULL)
        return TARRY_ERROR_NO_MEMORY;
    log->path = path;
    *out = log;
    return TARRY_OK;
}

void history_log_free(history_log *log)
{
    memory_release(NULL, log);
}

int history_log_read(history_log *log, size_t count, const uint8_t seal[HISTORY_LOG_DIGEST_SIZE],
                     history *past, tarry_diagnostic *diagnostic)
{
    uint8_t *bytes, found[HISTORY_LOG_DIGEST_SIZE];
    size_t size, first;
    tarry_diagnostic why = {"a run cannot have written it"};
    if (count == 0)
        return TARRY_OK;
    int error = whole_file_read(log->path, &bytes, &size, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = history_log_seal(bytes, size, count, found, &first, &why);
    if (error == TARRY_OK && memcmp(found, seal, sizeof(found)) != 0)
        error = diagnose(&why, TARRY_ERROR_FORMAT,
                         "it is damaged, or of another run than the checkpoint");
    if (error == TARRY_OK && past != NULL)
        error = history_log_rounds(bytes, first, count, past);
    memory_release(NULL, bytes);
    if (error != TARRY_OK)
        return diagnose(diagnostic, error, "%s: %s", log->path, why.text);
    log->first = first;
    log->count = count;
    memcpy(log->seal, seal, sizeof(log->seal));
    return TARRY_OK;
}

/* Whether it may be written: empty, or begun by a history, whose very first bytes a machine that
 * ended may have lost. */
static bool is_history(int descriptor)
{
    static const uint8_t lost[NAME_BYTES];
    uint8_t found[NAME_BYTES];
    ssize_t size = pread(descriptor, found, sizeof(found), 0);
    return size >= 0 &&
           (memcmp(found, NAME, (size_t)size) == 0 || memcmp(found, lost, (size_t)size) == 0);
}

/* The file with nothing behind the rounds that it is known to have; what has lost some of them, or
 * is another run's, begins anew. Nobody else's file is touched. */
static int cut_back(history_log *log, size_t first, int descriptor, tarry_diagnostic *diagnostic)
{
    uint8_t head[HISTORY_LOG_HEAD_BYTES];
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        return TARRY_ERROR_FILE;
    if (!S_ISREG(status.st_mode) || !is_history(descriptor))
        return diagnose(diagnostic, TARRY_ERROR_FILE,
                        "%s: this is in the way: it should be the history of a run, or not be "
                        "there",
                        log->path);
    if ((size_t)status.st_size < end_of(log->count - log->first) || log->first != first)
        log->count = log->first = first;
    if (log->count == log->first) {
        log->count = log->first = first;
        begin_seal(first, log->seal);
        history_log_head(first, head);
        if (!whole_file_write_at(descriptor, head, sizeof(head), 0))
            return TARRY_ERROR_FILE;
    }
    const size_t end = end_of(log->count - first);
    return (size_t)status.st_size <= end || ftruncate(descriptor, (off_t)end) == 0
               ? TARRY_OK
               : TARRY_ERROR_FILE;
}

/* Rounds from..to - 1. */
static int write_rounds(int descriptor, const history *past, size_t from, size_t to,
                        uint8_t seal[HISTORY_LOG_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    uint8_t bytes[PIECE * HISTORY_ROUND_BYTES];
    for (size_t start = from; start < to; start += PIECE) {
        size_t count = to - start < PIECE ? to - start : PIECE;
        for (size_t i = 0; i < count; i++) {
            history_round round;
            int error = history_round_at(past, start + i, &round, diagnostic);
            if (error != TARRY_OK)
                return error;
            history_encode_round(&round, bytes + i * HISTORY_ROUND_BYTES);
            if (add_round(seal, bytes + i * HISTORY_ROUND_BYTES) != TARRY_OK)
                return TARRY_ERROR_NO_MEMORY;
        }
        if (!whole_file_write_at(descriptor, bytes, count * HISTORY_ROUND_BYTES,
                                 end_of(start - past->first)))
            return TARRY_ERROR_FILE;
    }
    return TARRY_OK;
}

int history_log_append(history_log *log, const history *past, uint8_t seal[HISTORY_LOG_DIGEST_SIZE],
                       tarry_diagnostic *diagnostic)
{
    tarry_diagnostic why = {""};
    int error = TARRY_ERROR_FILE, reason;
    int descriptor = open(log->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    if (descriptor >= 0)
        error = cut_back(log, past->first, descriptor, &why);
    memcpy(seal, log->seal, sizeof(log->seal));
    if (error == TARRY_OK)
        error = write_rounds(descriptor, past, log->count, past->count, seal, &why);
    if (error == TARRY_OK && fsync(descriptor) != 0)
        error = TARRY_ERROR_FILE;
    if (error == TARRY_OK && !log->folder_synced) {
        log->folder_synced = whole_file_sync_folder(log->path);
        error = log->folder_synced ? TARRY_OK : TARRY_ERROR_FILE;
    }
    reason = errno;
    if (descriptor >= 0)
        close(descriptor);
    if (error == TARRY_OK) {
        log->count = past->count;
        memcpy(log->seal, seal, sizeof(log->seal));
        return TARRY_OK;
    }
    if (why.text[0] != '\0')
        return diagnose(diagnostic, error, "%s", why.text);
    return diagnose(diagnostic, error, "%s: cannot be written: %s", log->path,
                    error == TARRY_ERROR_FILE ? strerror(reason) : tarry_error_text(error));
}
