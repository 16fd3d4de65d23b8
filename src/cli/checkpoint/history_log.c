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

enum { VERSION = 2, NAME_BYTES = 8, PIECE = 64 /* rounds that are written at a time */ };

static const char NAME[NAME_BYTES + 1] = "tarrylog";

struct history_log {
    const char *path;
    size_t count;                          /* rounds that are on disk */
    uint8_t seal[HISTORY_LOG_DIGEST_SIZE]; /* of these */
};

static size_t end_of(size_t count)
{
    return HISTORY_LOG_HEAD_BYTES + count * HISTORY_ROUND_BYTES;
}

void history_log_head(uint8_t head[HISTORY_LOG_HEAD_BYTES])
{
    memcpy(head, NAME, NAME_BYTES);
    bytes_put(bytes_put(head + NAME_BYTES, VERSION, 4), HISTORY_ROUND_BYTES, 4);
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
                     uint8_t seal[HISTORY_LOG_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    uint8_t head[HISTORY_LOG_HEAD_BYTES];
    history_log_head(head);
    if (size < sizeof(head) || memcmp(bytes, head, NAME_BYTES) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "this is no history of a training run");
    if (memcmp(bytes, head, sizeof(head)) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "it is of another version of Tarry");
    if (count > (size - sizeof(head)) / HISTORY_ROUND_BYTES)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "it has not all rounds of the checkpoint");
    memset(seal, 0, HISTORY_LOG_DIGEST_SIZE);
    for (size_t i = 0; i < count; i++)
        if (add_round(seal, bytes + end_of(i)) != TARRY_OK)
            return diagnose_no_memory(diagnostic, "history");
    return TARRY_OK;
}

int history_log_rounds(const uint8_t *bytes, size_t count, history *past)
{
    int error = TARRY_OK;
    for (size_t i = 0; i < count && error == TARRY_OK; i++) {
        history_round *round = history_add(past);
        error =
            round != NULL ? history_decode_round(bytes + end_of(i), round) : TARRY_ERROR_NO_MEMORY;
    }
    if (error != TARRY_OK)
        past->count = 0;
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
    size_t size;
    tarry_diagnostic why = {"it can't be what a run has written"};
    if (count == 0)
        return TARRY_OK;
    int error = whole_file_read(log->path, &bytes, &size, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = history_log_seal(bytes, size, count, found, &why);
    if (error == TARRY_OK && memcmp(found, seal, sizeof(found)) != 0)
        error = diagnose(&why, TARRY_ERROR_FORMAT,
                         "it is damaged, or of another run than the checkpoint");
    if (error == TARRY_OK && past != NULL)
        error = history_log_rounds(bytes, count, past);
    memory_release(NULL, bytes);
    if (error != TARRY_OK)
        return diagnose(diagnostic, error, "%s: %s", log->path, why.text);
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
static int cut_back(history_log *log, int descriptor, tarry_diagnostic *diagnostic)
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
    if ((size_t)status.st_size < end_of(log->count))
        log->count = 0;
    if (log->count == 0) {
        memset(log->seal, 0, sizeof(log->seal));
        history_log_head(head);
        if (!whole_file_write_at(descriptor, head, sizeof(head), 0))
            return TARRY_ERROR_FILE;
    }
    return (size_t)status.st_size <= end_of(log->count) ||
                   ftruncate(descriptor, (off_t)end_of(log->count)) == 0
               ? TARRY_OK
               : TARRY_ERROR_FILE;
}

/* Rounds from..to - 1. */
static int write_rounds(int descriptor, const history *past, size_t from, size_t to,
                        uint8_t seal[HISTORY_LOG_DIGEST_SIZE])
{
    uint8_t bytes[PIECE * HISTORY_ROUND_BYTES];
    for (size_t start = from; start < to; start += PIECE) {
        size_t count = to - start < PIECE ? to - start : PIECE;
        for (size_t i = 0; i < count; i++) {
            history_encode_round(&past->rounds[start + i], bytes + i * HISTORY_ROUND_BYTES);
            if (add_round(seal, bytes + i * HISTORY_ROUND_BYTES) != TARRY_OK)
                return TARRY_ERROR_NO_MEMORY;
        }
        if (!whole_file_write_at(descriptor, bytes, count * HISTORY_ROUND_BYTES, end_of(start)))
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
        error = cut_back(log, descriptor, &why);
    memcpy(seal, log->seal, sizeof(log->seal));
    if (error == TARRY_OK)
        error = write_rounds(descriptor, past, log->count, past->count, seal);
    if (error == TARRY_OK && fsync(descriptor) != 0)
        error = TARRY_ERROR_FILE;
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
