/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/history.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/digest.h"
#include "base/memory.h"
#include "cli/text/numbers.h"
#include "file/whole_file.h"

enum { NO_FILE = -1, HEAD_BYTES = 4 + 8, WORKER_BYTES = 2 * 8 /* of what is encoded */ };

/* The lines of the rounds. */
struct history_log {
    const char *name;                /* of the file, for messages */
    int file;                        /* NO_FILE: all lines are in memory */
    bool writable;                   /* lines may go to the file at once */
    bool folder_synced;              /* since this process opened the file */
    bool broken;                     /* a line is missing */
    uint64_t written, bytes_written; /* lines at the beginning of the file */
    uint64_t waiting, bytes_waiting; /* lines in `text`, which follow those */
    char *text;                      /* `room` bytes */
    size_t room;
    uint8_t seal[HISTORY_SEAL_BYTES]; /* of all lines */
};

static const objective_score unknown = {NAN, NAN};
static const verified_round unverified = {NAN, NAN, NAN};

const history_round history_blank_round = {
    .signal_seconds = NAN,
    .train = {NAN, NAN},
    .test = {NAN, NAN},
    .verified = {NAN, NAN, NAN},
    .saturation = NAN,
};

static history_log *log_create(void)
{
    history_log *log = memory_allocate(NULL, 1, sizeof(*log));
    if (log != NULL) {
        log->name = "the file of the rounds";
        log->file = NO_FILE;
    }
    return log;
}

static void log_free(history_log *log)
{
    if (log == NULL)
        return;
    if (log->file != NO_FILE)
        close(log->file);
    memory_release(NULL, log->text);
    memory_release(NULL, log);
}

static void log_clear(history_log *log)
{
    log->written = log->bytes_written = log->waiting = log->bytes_waiting = 0;
    log->writable = log->broken = false;
    memset(log->seal, 0, sizeof(log->seal));
}

int history_create(uint32_t workers, uint32_t chunks, history **out)
{
    history *past = memory_allocate(NULL, 1, sizeof(*past));
    if (past == NULL)
        return TARRY_ERROR_NO_MEMORY;
    past->worker = memory_allocate(NULL, workers, sizeof(*past->worker));
    past->earlier = memory_allocate(NULL, workers, sizeof(*past->earlier));
    past->log = log_create();
    if (past->worker == NULL || past->earlier == NULL || past->log == NULL) {
        history_free(past);
        return TARRY_ERROR_NO_MEMORY;
    }
    past->workers = workers;
    past->chunks = chunks;
    past->train_end = past->test_end = unknown;
    history_clear(past, 0);
    *out = past;
    return TARRY_OK;
}

void history_free(history *past)
{
    if (past == NULL)
        return;
    memory_release(NULL, past->earlier);
    memory_release(NULL, past->worker);
    memory_release(NULL, past->times);
    log_free(past->log);
    memory_release(NULL, past);
}

/* A file that loses its name at once, and so vanishes however this process ends. */
static int nameless_open(const char *folder, const char *name)
{
    char path[4096];
    const int size = snprintf(path, sizeof(path), "%s%s.rounds-XXXXXX", folder, name);
    const int file = (size_t)size < sizeof(path) ? mkostemp(path, O_CLOEXEC) : NO_FILE;
    if (file >= 0)
        unlink(path);
    return file;
}

void history_use_file(history *past, const char *path)
{
    history_log *log = past->log;
    const char *folder = getenv("TMPDIR");
    if (strncmp(path, "/dev/", 5) != 0) /* the folders of devices are in memory */
        log->file = nameless_open("", path);
    if (log->file < 0 && folder != NULL && *folder != '\0')
        log->file = nameless_open(folder, "/tarry");
    if (log->file < 0)
        log->file = nameless_open("/tmp", "/tarry");
    log->writable = log->file >= 0;
}

void history_forget_rounds(history *past)
{
    log_free(past->log);
    past->log = NULL;
}

void history_clear(history *past, size_t first)
{
    past->first = past->count = first;
    past->totals = (history_totals){.worst = unverified, .saturation_most = NAN};
    past->train_begin = past->test_begin = unknown;
    past->timed = 0;
    if (past->log != NULL)
        log_clear(past->log);
}

static void totals_add(history_totals *sum, const history_round *round)
{
    const tarry_round_result *result = &round->result;
    if (round->lost) {
        sum->lost++;
        return;
    }
    sum->rounds++;
    sum->exact += result->exact ? 1 : 0;
    sum->seconds += round->seconds;
    sum->copies += history_copies_per_chunk(result);
    sum->needed += result->parts;
    sum->attempts += result->attempts;
    sum->moved += round->changes.moved;
    sum->split += round->changes.split;
    sum->merged += round->changes.merged;
    sum->control_bytes += (double)result->control_bytes;
    sum->control_messages += (double)result->control_messages;
    sum->upload_bytes += (double)result->upload_bytes;
    sum->expected_error += result->expected_error;
    sum->worst.error = fmax(sum->worst.error, round->verified.error);
    sum->worst.squared_error = fmax(sum->worst.squared_error, round->verified.squared_error);
    sum->worst.model_rounding = fmax(sum->worst.model_rounding, round->verified.model_rounding);
    if (!isnan(round->saturation)) {
        sum->saturated++;
        sum->saturation_sum += round->saturation;
        sum->saturation_most = fmax(sum->saturation_most, round->saturation);
    }
}

/* Without memory it is left out: the times are for quantiles alone. */
static void time_add(history *past, double seconds)
{
    const size_t room = memory_room(past->room, past->timed + 1, 64);
    double *times = past->timed < past->room
                        ? past->times
                        : memory_grow(NULL, past->times, past->timed, room, sizeof(*times));
    if (times == NULL)
        return;
    past->room = past->timed < past->room ? past->room : room;
    past->times = times;
    past->times[past->timed++] = seconds;
}

static void round_count(history *past, const history_round *round)
{
    if (past->count == 0) {
        past->train_begin = round->train;
        past->test_begin = round->test;
    }
    past->count++;
    totals_add(&past->totals, round);
    if (!round->lost)
        time_add(past, round->seconds);
}

/* Adds a line to those that the seal is of. */
static int seal_add(uint8_t seal[HISTORY_SEAL_BYTES], const char *line, size_t length)
{
    digest *sum = digest_begin();
    if (sum == NULL)
        return TARRY_ERROR_NO_MEMORY;
    digest_add_bytes(sum, seal, HISTORY_SEAL_BYTES);
    digest_add_bytes(sum, (const uint8_t *)line, length);
    return digest_end(sum, seal) == 0 ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

/* Writes the lines in memory behind those in the file. False: errno says why. */
static bool lines_flush(history_log *log)
{
    if (!whole_file_write_at(log->file, (const uint8_t *)log->text, log->bytes_waiting,
                             log->bytes_written))
        return false;
    log->written += log->waiting;
    log->bytes_written += log->bytes_waiting;
    log->waiting = log->bytes_waiting = 0;
    return true;
}

static int line_keep(history_log *log, const char *line, size_t length)
{
    if (log->room < log->bytes_waiting + length) {
        const size_t room = 2 * (log->bytes_waiting + ROUND_LINE_BYTES);
        char *grown = memory_grow(NULL, log->text, log->room, room, 1);
        if (grown == NULL)
            return TARRY_ERROR_NO_MEMORY;
        log->text = grown;
        log->room = room;
    }
    memcpy(log->text + log->bytes_waiting, line, length);
    log->bytes_waiting += length;
    log->waiting++;
    return seal_add(log->seal, line, length);
}

static int log_add(history_log *log, const history_round *round)
{
    char line[ROUND_LINE_BYTES];
    size_t length;
    int error = round_line_write(round, line, &length);
    if (error == TARRY_OK)
        error = line_keep(log, line, length);
    if (error != TARRY_OK)
        log->broken = true;
    else if (log->writable)
        lines_flush(log); /* history_save complains */
    return error;
}

int history_add(history *past, const history_round *round)
{
    round_count(past, round);
    return past->log != NULL ? log_add(past->log, round) : TARRY_OK;
}

int history_add_lost(history *past, size_t count)
{
    int error = TARRY_OK;
    for (size_t i = 0; i < count && error == TARRY_OK; i++) {
        history_round round = history_blank_round;
        round.lost = true;
        round.result.round = past->count;
        round.result.parts = 1; /* others divide by these */
        round.result.copies_needed = 1;
        error = history_add(past, &round);
    }
    return error;
}

static int cannot_read(const char *name, tarry_diagnostic *diagnostic)
{
    return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: cannot be read: %s", name, strerror(errno));
}

/* The next line, its line end included. */
static int line_next(FILE *stream, const char *name, uint64_t number, char line[ROUND_LINE_BYTES],
                     size_t *length, tarry_diagnostic *diagnostic)
{
    const bool some = fgets(line, ROUND_LINE_BYTES, stream) != NULL;
    *length = some ? strlen(line) : 0;
    if (*length > 0 && line[*length - 1] == '\n')
        return TARRY_OK;
    if (ferror(stream))
        return cannot_read(name, diagnostic);
    return feof(stream) ? diagnose(diagnostic, TARRY_ERROR_FORMAT,
                                   "%s: it does not have all rounds of the checkpoint", name)
                        : diagnose(diagnostic, TARRY_ERROR_FORMAT,
                                   "%s:%" PRIu64 ": this line is not a JSON object", name, number);
}

int history_lines(FILE *stream, const char *name, uint64_t count, history_take *take, void *user,
                  uint8_t seal[HISTORY_SEAL_BYTES], uint64_t *size, tarry_diagnostic *diagnostic)
{
    char line[ROUND_LINE_BYTES];
    size_t length = 0;
    history_round round;
    tarry_diagnostic why;
    int error = TARRY_OK;
    memset(seal, 0, HISTORY_SEAL_BYTES);
    *size = 0;
    for (uint64_t i = 0; i < count && error == TARRY_OK; i++, *size += length) {
        error = line_next(stream, name, i + 1, line, &length, diagnostic);
        if (error != TARRY_OK)
            return error;
        if (seal_add(seal, line, length) != TARRY_OK)
            return diagnose_no_memory(diagnostic, name);
        error = round_line_read(line, length, &round, &why);
        if (error != TARRY_OK)
            return diagnose(diagnostic, error, "%s:%" PRIu64 ": %s", name, i + 1, why.text);
        error = take(user, &round);
    }
    return error;
}

/* Of lines whose seal is known already. */
static int stream_visit(FILE *stream, const char *name, uint64_t count, history_take *take,
                        void *user, tarry_diagnostic *diagnostic)
{
    uint8_t unused[HISTORY_SEAL_BYTES];
    uint64_t size;
    if (stream == NULL)
        return cannot_read(name, diagnostic);
    rewind(stream);
    int error = history_lines(stream, name, count, take, user, unused, &size, diagnostic);
    fclose(stream);
    return error;
}

static int log_each(history_log *log, history_take *take, void *user, tarry_diagnostic *diagnostic)
{
    int error = TARRY_OK;
    if (log->broken)
        return diagnose_no_memory(diagnostic, log->name);
    if (log->written > 0)
        error = stream_visit(fdopen(fcntl(log->file, F_DUPFD_CLOEXEC, 0), "r"), log->name,
                             log->written, take, user, diagnostic);
    if (error == TARRY_OK && log->waiting > 0)
        error = stream_visit(fmemopen(log->text, log->bytes_waiting, "r"), log->name, log->waiting,
                             take, user, diagnostic);
    return error;
}

/* Rounds on their way to a visitor, one behind: the next one tells the scores after it. */
typedef struct look_ahead {
    history_visit *visit;
    void *user;
    bool some;
    history_round before;
} look_ahead;

static int round_hand_on(void *user, const history_round *round)
{
    look_ahead *its = user;
    const int error =
        its->some ? its->visit(its->user, &its->before, round->train, round->test) : TARRY_OK;
    its->some = true;
    its->before = *round;
    return error;
}

int history_each(const history *past, history_visit *visit, void *user,
                 tarry_diagnostic *diagnostic)
{
    look_ahead its = {.visit = visit, .user = user};
    const int error = log_each(past->log, round_hand_on, &its, diagnostic);
    return error == TARRY_OK && its.some ? visit(user, &its.before, past->train_end, past->test_end)
                                         : error;
}

objective_score history_train_begin(const history *past)
{
    return past->count == 0 ? past->train_end : past->train_begin;
}

objective_score history_test_begin(const history *past)
{
    return past->count == 0 ? past->test_end : past->test_begin;
}

/* Whether it may be written: empty, or begun by a history, whose very first bytes a machine that
 * ended may have lost. */
static bool is_history(int file)
{
    static const char begin[] = "{\"round\":", lost[sizeof(begin)];
    char found[sizeof(begin) - 1];
    const ssize_t size = pread(file, found, sizeof(found), 0);
    return size >= 0 &&
           (memcmp(found, begin, (size_t)size) == 0 || memcmp(found, lost, (size_t)size) == 0);
}

/* To the beginning of a file. */
static bool bytes_copy(int from, int to, uint64_t size)
{
    off_t done = 0;
    errno = EIO; /* if the bytes are not there */
    while ((uint64_t)done < size)
        if (sendfile(to, from, &done, (size_t)(size - (uint64_t)done)) <= 0)
            return false;
    return true;
}

/* The file at the path becomes the log's, with its lines and nothing behind them. */
static int file_replace(history_log *log, int file, const struct stat *status)
{
    struct stat own;
    const bool same = log->file != NO_FILE && fstat(log->file, &own) == 0 &&
                      own.st_dev == status->st_dev && own.st_ino == status->st_ino;
    if (same && (uint64_t)status->st_size < log->bytes_written)
        return TARRY_ERROR_FORMAT;
    if (!same && !bytes_copy(log->file, file, log->bytes_written))
        return TARRY_ERROR_FILE;
    if ((uint64_t)status->st_size > log->bytes_written &&
        ftruncate(file, (off_t)log->bytes_written) != 0)
        return TARRY_ERROR_FILE;
    if (log->file != NO_FILE)
        close(log->file);
    log->file = file;
    log->writable = true;
    log->folder_synced = log->folder_synced && same;
    return TARRY_OK;
}

static int file_open(history_log *log, const char *path, tarry_diagnostic *diagnostic)
{
    struct stat status;
    int error = TARRY_ERROR_FILE;
    int file = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    if (file < 0)
        return TARRY_ERROR_FILE;
    if (fstat(file, &status) == 0) {
        if (S_ISREG(status.st_mode) && is_history(file))
            error = file_replace(log, file, &status);
        else
            diagnose(diagnostic, error,
                     "%s: this is in the way: it should be the history of a run, or not be there",
                     path);
    }
    if (log->file != file) {
        const int reason = errno;
        close(file);
        errno = reason;
    }
    return error;
}

static int log_save(history_log *log, const char *path, uint8_t seal[HISTORY_SEAL_BYTES],
                    tarry_diagnostic *diagnostic)
{
    tarry_diagnostic why = {""};
    if (log->broken)
        return diagnose_no_memory(diagnostic, path);
    log->name = path;
    int error = file_open(log, path, &why);
    if (error == TARRY_OK && (!lines_flush(log) || fsync(log->file) != 0))
        error = TARRY_ERROR_FILE;
    if (error == TARRY_OK && !log->folder_synced) {
        log->folder_synced = whole_file_sync_folder(path);
        error = log->folder_synced ? TARRY_OK : TARRY_ERROR_FILE;
    }
    memcpy(seal, log->seal, sizeof(log->seal));
    if (error != TARRY_ERROR_FILE)
        return error;
    return why.text[0] != '\0'
               ? diagnose(diagnostic, error, "%s", why.text)
               : diagnose(diagnostic, error, "%s: cannot be written: %s", path, strerror(errno));
}

int history_save(history *past, const char *path, uint8_t seal[HISTORY_SEAL_BYTES],
                 tarry_diagnostic *diagnostic)
{
    int error = log_save(past->log, path, seal, diagnostic);
    if (error != TARRY_ERROR_FORMAT)
        return error;
    history_clear(past, past->count);
    return log_save(past->log, path, seal, diagnostic);
}

/* A history_take; `user` NULL: the lines are only checked. */
static int round_restore(void *user, const history_round *round)
{
    if (user != NULL)
        round_count(user, round);
    return TARRY_OK;
}

static int file_restore(history *past, FILE *stream, const char *path, uint64_t count,
                        const uint8_t seal[HISTORY_SEAL_BYTES], tarry_diagnostic *diagnostic)
{
    uint8_t found[HISTORY_SEAL_BYTES];
    uint64_t size;
    if (count == 0 && !is_history(fileno(stream)))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s:1: this line is not a JSON object",
                        path);
    int error = history_lines(stream, path, count, round_restore, past, found, &size, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (memcmp(found, seal, sizeof(found)) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "%s: it is damaged, or of another run than the checkpoint", path);
    if (past == NULL)
        return TARRY_OK;
    history_log *log = past->log;
    log->name = path;
    log->file = fcntl(fileno(stream), F_DUPFD_CLOEXEC, 0);
    log->written = count;
    log->bytes_written = size;
    memcpy(log->seal, seal, sizeof(log->seal));
    return log->file >= 0 ? TARRY_OK : cannot_read(path, diagnostic);
}

int history_restore(history *past, const char *path, size_t first, size_t count,
                    const uint8_t seal[HISTORY_SEAL_BYTES], tarry_diagnostic *diagnostic)
{
    if (past != NULL)
        history_clear(past, first);
    if (count == 0)
        return TARRY_OK;
    int error = TARRY_ERROR_FILE;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *stream = file >= 0 ? fdopen(file, "r") : NULL;
    if (stream != NULL) {
        error = file_restore(past, stream, path, count - first, seal, diagnostic);
        fclose(stream);
    } else {
        cannot_read(path, diagnostic);
        if (file >= 0)
            close(file);
    }
    if (error != TARRY_OK && past != NULL)
        history_clear(past, 0);
    return error;
}

size_t history_encoded_size(const history *past)
{
    return HEAD_BYTES + (size_t)past->workers * WORKER_BYTES;
}

void history_encode(const history *past, uint8_t *bytes)
{
    uint8_t *at = bytes_put(bytes, past->workers, 4);
    at = bytes_put_f64(at, past->seconds);
    for (uint32_t worker = 0; worker < past->workers; worker++) {
        at = bytes_put(at, past->worker[worker].chunks, 8);
        at = bytes_put_f64(at, past->worker[worker].seconds);
    }
    assert(at == bytes + history_encoded_size(past));
}

int history_decode(history *past, const uint8_t *bytes, size_t size)
{
    if (size != history_encoded_size(past) || bytes_get(bytes, 4) != past->workers)
        return TARRY_ERROR_FORMAT;
    past->earlier_seconds = bytes_get_f64(bytes + 4);
    for (uint32_t worker = 0; worker < past->workers; worker++) {
        const uint8_t *at = bytes + HEAD_BYTES + (size_t)worker * WORKER_BYTES;
        past->earlier[worker] = (history_share){bytes_get(at, 8), bytes_get_f64(at + 8)};
    }
    return TARRY_OK;
}

/* ---- round line ---- */

static const record_member table[] = {
    {"round", RECORD_WHOLE_64, RECORD_AT(history_round, result.round)},
    {"lost", RECORD_TRUTH, RECORD_AT(history_round, lost)},
    {"seconds", RECORD_REAL, RECORD_AT(history_round, seconds)},
    {"signal_seconds", RECORD_REAL, RECORD_AT(history_round, signal_seconds)},
    {"loss_before", RECORD_REAL, RECORD_AT(history_round, train.loss)},
    {"accuracy_before", RECORD_REAL, RECORD_AT(history_round, train.accuracy)},
    {"test_loss_before", RECORD_REAL, RECORD_AT(history_round, test.loss)},
    {"test_accuracy_before", RECORD_REAL, RECORD_AT(history_round, test.accuracy)},
    {"exact", RECORD_TRUTH, RECORD_AT(history_round, result.exact)},
    {"expected_error", RECORD_REAL, RECORD_AT(history_round, result.expected_error)},
    {"verified_error", RECORD_REAL, RECORD_AT(history_round, verified.error)},
    {"verified_squared_error", RECORD_REAL, RECORD_AT(history_round, verified.squared_error)},
    {"model_rounding", RECORD_REAL, RECORD_AT(history_round, verified.model_rounding)},
    {"parts", RECORD_WHOLE_32, RECORD_AT(history_round, result.parts)},
    {"attempts", RECORD_WHOLE_32, RECORD_AT(history_round, result.attempts)},
    {"copies_computed", RECORD_WHOLE_64, RECORD_AT(history_round, result.copies_computed)},
    {"copies_needed", RECORD_WHOLE_64, RECORD_AT(history_round, result.copies_needed)},
    {"workers_heard", RECORD_WHOLE_32, RECORD_AT(history_round, result.workers_heard)},
    {"workers_lost", RECORD_WHOLE_32, RECORD_AT(history_round, result.workers_lost)},
    {"upload_bytes", RECORD_WHOLE_64, RECORD_AT(history_round, result.upload_bytes)},
    {"control_bytes", RECORD_WHOLE_64, RECORD_AT(history_round, result.control_bytes)},
    {"control_messages", RECORD_WHOLE_64, RECORD_AT(history_round, result.control_messages)},
    {"chunks_filled", RECORD_WHOLE_32, RECORD_AT(history_round, result.chunks_filled)},
    {"filled_share", RECORD_REAL, RECORD_AT(history_round, result.filled_share)},
    {"moved", RECORD_WHOLE_32, RECORD_AT(history_round, changes.moved)},
    {"moved_data", RECORD_REAL, RECORD_AT(history_round, changes.moved_data)},
    {"split", RECORD_WHOLE_32, RECORD_AT(history_round, changes.split)},
    {"merged", RECORD_WHOLE_32, RECORD_AT(history_round, changes.merged)},
    {"chunks_sampled", RECORD_WHOLE_32, RECORD_AT(history_round, result.chunks_sampled)},
    {"sampling_error", RECORD_REAL, RECORD_AT(history_round, result.sampling_error)},
    {"saturation", RECORD_REAL, RECORD_AT(history_round, saturation)},
    {"sum_step", RECORD_WHOLE_64, RECORD_AT(history_round, result.sum.step)},
    {"sum_term", RECORD_WHOLE_32, RECORD_AT(history_round, result.sum.term)},
    {"sum_attempt", RECORD_WHOLE_32, RECORD_AT(history_round, result.sum.attempt)},
    {"sum_digest", RECORD_FINGERPRINT, RECORD_AT(history_round, result.sum.digest)},
    {"sum_voters", RECORD_WHOLE_32, RECORD_AT(history_round, result.voters)},
    {"sum_fetches", RECORD_WHOLE_32, RECORD_AT(history_round, result.fetches)},
    {0},
};

enum { MEMBERS = sizeof(table) / sizeof(table[0]) - 1 };

int round_line_write(const history_round *round, char line[ROUND_LINE_BYTES], size_t *length)
{
    record_out out = {.text = line, .size = ROUND_LINE_BYTES};
    record_put_object(&out, table, round);
    record_put(&out, "\n");
    if (out.full)
        return TARRY_ERROR_NO_MEMORY;
    *length = out.length;
    return TARRY_OK;
}

/* Others divide by parts and copies. */
static bool is_possible(const history_round *round)
{
    return round->result.parts >= 1 && round->result.copies_needed >= round->result.parts &&
           round->seconds >= 0;
}

int round_line_read(const char *line, size_t length, history_round *round,
                    tarry_diagnostic *diagnostic)
{
    history_round read = history_blank_round;
    json_t *object = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
    int error = json_is_object(object)
                    ? record_read(table, object, "", &read, diagnostic)
                    : diagnose(diagnostic, TARRY_ERROR_FORMAT, "this line is not a JSON object");
    if (error == TARRY_OK && json_object_size(object) != MEMBERS)
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT, "a key is unknown");
    if (error == TARRY_OK && !is_possible(&read))
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT,
                         "'parts', 'copies_needed' or 'seconds' is out of range");
    json_decref(object);
    if (error == TARRY_OK)
        *round = read;
    return error;
}

/* ---- sums file ---- */

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
