/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/checkpoint.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/digest.h"
#include "base/memory.h"
#include "base/quantile.h"
#include "cli/checkpoint/history.h"
#include "cli/output/output.h"
#include "cli/text/numbers.h"
#include "file/whole_file.h"

enum {
    VERSION = 5,
    NAME_BYTES = 8,
    PARTS = 4,
    HEAD_BYTES =
        NAME_BYTES + 2 * 4 + TARRY_JOB_ID_SIZE + 2 * CHECKPOINT_DIGEST_SIZE + 8 * 8 + PARTS * 8,
    SEAL_BYTES = 32,
    PIECE = 4096, /* numbers that are turned into bytes at a time */
};

static const char NAME[NAME_BYTES + 1] = "tarryrun";

typedef struct writer {
    checkpoint_put *put;
    void *user;
    digest *seal;
} writer;

static int write_bytes(const writer *to, const uint8_t *bytes, size_t size)
{
    if (size == 0)
        return TARRY_OK;
    if (digest_add_bytes(to->seal, bytes, size) != 0)
        return TARRY_ERROR_NO_MEMORY;
    return to->put(to->user, bytes, size);
}

static int write_numbers(const writer *to, const float *numbers, size_t count)
{
    uint8_t bytes[PIECE * 4];
    int error = TARRY_OK;
    for (size_t start = 0; start < count && error == TARRY_OK; start += PIECE) {
        uint8_t *at = bytes;
        for (size_t i = start; i < count && i < start + PIECE; i++) {
            uint32_t bits;
            memcpy(&bits, &numbers[i], sizeof(bits));
            at = bytes_put(at, bits, 4);
        }
        error = write_bytes(to, bytes, (size_t)(at - bytes));
    }
    return error;
}

static int write_head(const writer *to, const checkpoint *state)
{
    uint8_t head[HEAD_BYTES];
    memcpy(head, NAME, NAME_BYTES);
    uint8_t *at = bytes_put(head + NAME_BYTES, VERSION, 4);
    at = bytes_put(at, state->vectors, 4);
    memcpy(at, state->job, sizeof(state->job));
    at += sizeof(state->job);
    memcpy(at, state->data, sizeof(state->data));
    at += sizeof(state->data);
    memcpy(at, state->rounds, sizeof(state->rounds));
    at += sizeof(state->rounds);
    at = bytes_put(at, state->round, 8);
    at = bytes_put(at, state->first, 8);
    at = bytes_put(at, state->dimension, 8);
    at = bytes_put_f64(at, state->decayed);
    at = bytes_put_f64(at, state->square_decayed);
    at = bytes_put(at, state->seen, 8);
    at = bytes_put(at, state->ledger.releases, 8);
    at = bytes_put(at, state->ledger.seal, 8);
    at = bytes_put(at, state->config.size, 8);
    at = bytes_put(at, state->plan.size, 8);
    at = bytes_put(at, state->server.size, 8);
    at = bytes_put(at, state->history.size, 8);
    assert(at == head + HEAD_BYTES);
    return write_bytes(to, head, (size_t)(at - head));
}

int checkpoint_encode(const checkpoint *state, const float *const vectors[], checkpoint_put *put,
                      void *user)
{
    const checkpoint_part parts[PARTS] = {state->config, state->plan, state->server,
                                          state->history};
    writer to = {put, user, digest_begin()};
    if (to.seal == NULL)
        return TARRY_ERROR_NO_MEMORY;
    int error = write_head(&to, state);
    for (size_t i = 0; i < PARTS && error == TARRY_OK; i++)
        error = write_bytes(&to, parts[i].bytes, parts[i].size);
    for (uint32_t i = 0; i < state->vectors && error == TARRY_OK; i++)
        error = write_numbers(&to, vectors[i], state->dimension);
    uint8_t seal[SEAL_BYTES];
    int failed = digest_end(to.seal, seal);
    if (error == TARRY_OK && failed != 0)
        error = TARRY_ERROR_NO_MEMORY;
    return error == TARRY_OK ? put(user, seal, SEAL_BYTES) : error;
}

/* The sizes, which may be any numbers, say exactly what is there. */
static bool find_parts(const uint8_t *bytes, size_t size, checkpoint *state,
                       const uint8_t *vectors[CHECKPOINT_VECTORS])
{
    checkpoint_part *const parts[PARTS] = {&state->config, &state->plan, &state->server,
                                           &state->history};
    const uint8_t *sizes = bytes + HEAD_BYTES - PARTS * 8;
    const uint8_t *at = bytes + HEAD_BYTES;
    size_t left = size - HEAD_BYTES - SEAL_BYTES;
    for (size_t i = 0; i < PARTS; i++) {
        uint64_t part = bytes_get(sizes + i * 8, 8);
        if (part > left)
            return false;
        *parts[i] = (checkpoint_part){at, (size_t)part};
        at += part;
        left -= (size_t)part;
    }
    if (state->vectors < 1 || state->vectors > CHECKPOINT_VECTORS || state->dimension < 1 ||
        state->dimension > left / sizeof(float) / state->vectors ||
        state->dimension * state->vectors * sizeof(float) != left)
        return false;
    for (uint32_t i = 0; i < CHECKPOINT_VECTORS; i++)
        vectors[i] = i < state->vectors ? at + i * state->dimension * sizeof(float) : NULL;
    return true;
}

static bool is_power(double value)
{
    return value >= 0 && value <= 1;
}

int checkpoint_decode(const uint8_t *bytes, size_t size, checkpoint *state,
                      const uint8_t *vectors[CHECKPOINT_VECTORS], tarry_diagnostic *diagnostic)
{
    if (size < NAME_BYTES + 4 || memcmp(bytes, NAME, NAME_BYTES) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "this is no checkpoint of a training run");
    if (bytes_get(bytes + NAME_BYTES, 4) != VERSION)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "it is of another version of Tarry");
    if (size < HEAD_BYTES + SEAL_BYTES)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "it is cut off");
    checkpoint read = {.vectors = (uint32_t)bytes_get(bytes + NAME_BYTES + 4, 4)};
    const uint8_t *found[CHECKPOINT_VECTORS];
    const uint8_t *at = bytes + NAME_BYTES + 8;
    memcpy(read.job, at, sizeof(read.job));
    at += sizeof(read.job);
    memcpy(read.data, at, sizeof(read.data));
    at += sizeof(read.data);
    memcpy(read.rounds, at, sizeof(read.rounds));
    at += sizeof(read.rounds);
    read.round = bytes_get(at, 8);
    read.first = bytes_get(at + 8, 8);
    read.dimension = (size_t)bytes_get(at + 16, 8);
    read.decayed = bytes_get_f64(at + 24);
    read.square_decayed = bytes_get_f64(at + 32);
    read.seen = bytes_get(at + 40, 8);
    read.ledger = (tarry_dp_mark){bytes_get(at + 48, 8), bytes_get(at + 56, 8)};
    uint8_t seal[SEAL_BYTES];
    bool good = find_parts(bytes, size, &read, found) && is_power(read.decayed) &&
                is_power(read.square_decayed) && read.first <= read.round &&
                (read.seen == 0 || read.vectors > 1);
    if (good && digest_of_bytes(bytes, size - SEAL_BYTES, seal) != 0)
        return diagnose_no_memory(diagnostic, "checkpoint");
    if (!good || memcmp(seal, bytes + size - SEAL_BYTES, SEAL_BYTES) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "it is damaged");
    *state = read;
    memcpy(vectors, found, sizeof(found));
    return TARRY_OK;
}

void checkpoint_numbers(const uint8_t *bytes, size_t count, float *numbers)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)bytes_get(bytes + i * sizeof(bits), sizeof(bits));
        memcpy(&numbers[i], &bits, sizeof(bits));
    }
}

/* ---- file lock ---- */

/* Who had the lock may have removed the file between our opening and locking it; then the lock that
 * counts is that of another file, or of none yet. */
static bool is_at(const struct stat *locked, const char *path)
{
    struct stat there;
    return lstat(path, &there) == 0 && there.st_dev == locked->st_dev &&
           there.st_ino == locked->st_ino;
}

static file_lock_state try_once(const char *path, int *descriptor, bool *gone)
{
    *gone = false;
    /* Writable, since NFS locks nothing else. */
    int opened = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (opened < 0)
        return errno == ELOOP || errno == EISDIR ? FILE_LOCK_FOREIGN : FILE_LOCK_UNAVAILABLE;
    struct stat status;
    file_lock_state state = FILE_LOCK_UNAVAILABLE;
    if (fstat(opened, &status) == 0) {
        if (!S_ISREG(status.st_mode) || status.st_size != 0)
            state = FILE_LOCK_FOREIGN;
        else if (flock(opened, LOCK_EX | LOCK_NB) == 0)
            state = FILE_LOCK_TAKEN;
        else if (errno == EWOULDBLOCK)
            state = FILE_LOCK_HELD;
    }
    if (state == FILE_LOCK_TAKEN && is_at(&status, path)) {
        *descriptor = opened;
        return FILE_LOCK_TAKEN;
    }
    *gone = state == FILE_LOCK_TAKEN;
    close(opened);
    return state;
}

file_lock_state file_lock_take(const char *path, int *descriptor)
{
    bool gone;
    file_lock_state state;
    do
        state = try_once(path, descriptor, &gone);
    while (gone);
    return state;
}

void file_lock_drop(const char *path, int descriptor)
{
    struct stat status;
    if (fstat(descriptor, &status) == 0 && is_at(&status, path))
        unlink(path);
    close(descriptor);
}

/* ---- file ---- */

/* Behind those that others write: */
enum { BESIDE_PREVIOUS = CHECKPOINT_LEDGER + 1, BESIDE_FRESH, BESIDE_LOCK, BESIDE };

static const char *const endings[BESIDE] = {
    [CHECKPOINT_HISTORY] = ".history", [CHECKPOINT_SUMS] = ".sums",
    [CHECKPOINT_LEDGER] = ".privacy",  [BESIDE_PREVIOUS] = ".previous",
    [BESIDE_FRESH] = ".new",           [BESIDE_LOCK] = ".lock",
};

struct checkpoint_file {
    char *path; /* what symbolic links lead to: a rename replaces the file, not a link to it */
    char *beside[BESIDE];
    bool good; /* the one at `path` */
    bool locked;
    int lock_descriptor;
    uint8_t *bytes;
};

/* Errors: NO_MEMORY. */
static int name_files(checkpoint_file *file, const char *path)
{
    file->path = link_target(path);
    if (file->path == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (size_t i = 0; i < BESIDE; i++) {
        file->beside[i] = memory_text(NULL, file->path, strlen(file->path), endings[i]);
        if (file->beside[i] == NULL)
            return TARRY_ERROR_NO_MEMORY;
    }
    return TARRY_OK;
}

/* Two processes that went on with one run would write into one FILE.new. Without locks there is
 * nothing to notice it by; where the folder is to blame, writing tells of that. */
static int lock(checkpoint_file *file, const char *path, tarry_diagnostic *diagnostic)
{
    switch (file_lock_take(file->beside[BESIDE_LOCK], &file->lock_descriptor)) {
    case FILE_LOCK_TAKEN:
        file->locked = true;
        break;
    case FILE_LOCK_HELD:
        return diagnose(diagnostic, TARRY_ERROR_FILE,
                        "%s: another process goes on with this run, or writes its checkpoints here",
                        path);
    case FILE_LOCK_FOREIGN:
        return diagnose(diagnostic, TARRY_ERROR_FILE,
                        "%s: this is in the way: it should be an empty file, or not be there",
                        file->beside[BESIDE_LOCK]);
    case FILE_LOCK_UNAVAILABLE:
        break;
    }
    return TARRY_OK;
}

int checkpoint_file_open(const char *path, checkpoint_file **out, tarry_diagnostic *diagnostic)
{
    struct stat status;
    size_t length = strlen(path);
    bool there = stat(path, &status) == 0;
    if (path[length - 1] == '/' || (there && !S_ISREG(status.st_mode)))
        return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: this is no file", path);
    checkpoint_file *file = memory_allocate(NULL, 1, sizeof(*file));
    if (file == NULL)
        return diagnose_no_memory(diagnostic, path);
    int error = name_files(file, path) == TARRY_OK ? lock(file, path, diagnostic)
                                                   : diagnose_no_memory(diagnostic, path);
    if (error == TARRY_OK)
        *out = file;
    else
        checkpoint_file_close(file);
    return error;
}

void checkpoint_file_forget(checkpoint_file *file)
{
    memory_release(NULL, file->bytes);
    file->bytes = NULL;
}

void checkpoint_file_close(checkpoint_file *file)
{
    if (file == NULL)
        return;
    checkpoint_file_forget(file);
    if (file->locked)
        file_lock_drop(file->beside[BESIDE_LOCK], file->lock_descriptor);
    for (size_t i = 0; i < BESIDE; i++)
        memory_release(NULL, file->beside[i]);
    memory_release(NULL, file->path);
    memory_release(NULL, file);
}

const char *checkpoint_file_beside(const checkpoint_file *file, checkpoint_beside which)
{
    return file->beside[which];
}

bool checkpoint_file_exists(const checkpoint_file *file)
{
    return access(file->path, F_OK) == 0 || access(file->beside[BESIDE_PREVIOUS], F_OK) == 0;
}

static int read_one(checkpoint_file *file, const char *path, checkpoint *state,
                    const uint8_t *vectors[CHECKPOINT_VECTORS], const checkpoint_test *test,
                    tarry_diagnostic *diagnostic)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    tarry_diagnostic why;
    int error = whole_file_read(path, &bytes, &size, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = checkpoint_decode(bytes, size, state, vectors, &why);
    if (error != TARRY_OK)
        diagnose(diagnostic, error, "%s: %s", path, why.text);
    else if (test != NULL)
        error = test->accept(test->user, state, diagnostic);
    if (error != TARRY_OK) {
        memory_release(NULL, bytes);
        return error;
    }
    checkpoint_file_forget(file);
    file->bytes = bytes;
    return TARRY_OK;
}

int checkpoint_file_read(checkpoint_file *file, checkpoint *state,
                         const uint8_t *vectors[CHECKPOINT_VECTORS], const checkpoint_test *test,
                         tarry_diagnostic *fault, tarry_diagnostic *diagnostic)
{
    tarry_diagnostic why;
    int error = read_one(file, file->path, state, vectors, test, &why);
    file->good = error == TARRY_OK;
    fault->text[0] = '\0';
    if (error == TARRY_OK)
        return TARRY_OK;
    if (error == TARRY_ERROR_NO_MEMORY ||
        read_one(file, file->beside[BESIDE_PREVIOUS], state, vectors, test, NULL) != TARRY_OK)
        return diagnose(diagnostic, error, "%s", why.text);
    *fault = why;
    return TARRY_OK;
}

static int put_bytes(void *user, const uint8_t *bytes, size_t size)
{
    return fwrite(bytes, 1, size, user) == size ? TARRY_OK : TARRY_ERROR_FILE;
}

/* FILE.new, whole and on disk. */
static int write_fresh(const checkpoint_file *file, const checkpoint *state,
                       const float *const vectors[])
{
    int descriptor = open(file->beside[BESIDE_FRESH],
                          O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (descriptor < 0)
        return TARRY_ERROR_FILE;
    FILE *stream = fdopen(descriptor, "w");
    if (stream == NULL) {
        close(descriptor);
        return TARRY_ERROR_NO_MEMORY;
    }
    int error = checkpoint_encode(state, vectors, put_bytes, stream);
    if (error == TARRY_OK && (fflush(stream) != 0 || fsync(descriptor) != 0))
        error = TARRY_ERROR_FILE;
    int reason = errno;
    fclose(stream);
    errno = reason;
    return error;
}

/* Gives what is at `path` its second name. It keeps the first one until a rename takes that from
 * it, so that there always is a FILE, but where the file system knows no links. */
static bool keep_previous(const checkpoint_file *file)
{
    if (!file->good || access(file->path, F_OK) != 0)
        return true;
    unlink(file->beside[BESIDE_PREVIOUS]);
    return link(file->path, file->beside[BESIDE_PREVIOUS]) == 0 ||
           rename(file->path, file->beside[BESIDE_PREVIOUS]) == 0 || errno == ENOENT;
}

int checkpoint_file_write(checkpoint_file *file, const checkpoint *state,
                          const float *const vectors[], tarry_diagnostic *diagnostic)
{
    int error = write_fresh(file, state, vectors);
    if (error == TARRY_OK) {
        if (!keep_previous(file) || rename(file->beside[BESIDE_FRESH], file->path) != 0)
            error = TARRY_ERROR_FILE;
        else
            file->good = true;
    }
    if (error == TARRY_OK && !whole_file_sync_folder(file->path))
        error = TARRY_ERROR_FILE;
    if (error == TARRY_OK)
        return TARRY_OK;
    const char *reason = error == TARRY_ERROR_FILE ? strerror(errno) : tarry_error_text(error);
    diagnose(diagnostic, error, "%s: cannot be written: %s", file->path, reason);
    unlink(file->beside[BESIDE_FRESH]);
    return error;
}

/* ---- past report ---- */

#define MOST_COUNT 1000000
#define MOST_DIMENSION 100000000000

typedef struct source {
    const char *path;
    const json_t *document;
    tarry_diagnostic *diagnostic;
} source;

static const record_member trained_table[] = {
    {"dimension", RECORD_WHOLE_64, RECORD_AT(past_report, dimension)},
    {0},
};
static const record_member plan_table[] = {
    {"workers", RECORD_WHOLE_32, RECORD_AT(past_report, workers)},
    {"chunks", RECORD_WHOLE_32, RECORD_AT(past_report, chunks)},
    {"pieces", RECORD_WHOLE_32, RECORD_AT(past_report, pieces)},
    {0},
};
static const record_member worker_table[] = {
    {"chunks", RECORD_WHOLE_64, RECORD_AT(tarry_worker_state, chunks)},
    {"seconds", RECORD_REAL, RECORD_AT(tarry_worker_state, seconds)},
    {"present", RECORD_TRUTH, RECORD_AT(tarry_worker_state, present)},
    {0},
};
static const record_member round_table[] = {
    {"seconds", RECORD_REAL, RECORD_AT(history_round, seconds)},
    {"signal_seconds", RECORD_REAL, RECORD_AT(history_round, signal_seconds)},
    {"upload_bytes", RECORD_WHOLE_64, RECORD_AT(history_round, result.upload_bytes)},
    {0},
};
static const record_member config_table[] = {
    {"workers", RECORD_WHOLE_32, RECORD_AT(past_report, workers)},
    {"chunks", RECORD_WHOLE_32, RECORD_AT(past_report, chunks)},
    {"dimension", RECORD_WHOLE_64, RECORD_AT(past_report, dimension)},
    {"chunk-time", RECORD_REAL, RECORD_AT(past_report, chunk_seconds)},
    {"overhead", RECORD_REAL, RECORD_AT(past_report, overhead)},
    {"latency", RECORD_REAL, RECORD_AT(past_report, latency)},
    {"bandwidth", RECORD_REAL, RECORD_AT(past_report, bandwidth)},
    {"server-bandwidth", RECORD_REAL, RECORD_AT(past_report, server_bandwidth)},
    {0},
};

static int wrong(const source *from, const char *what)
{
    return diagnose(from->diagnostic, TARRY_ERROR_FORMAT, "%s: %s", from->path, what);
}

static int read_table(const source *from, const record_member *table, const json_t *object,
                      const char *prefix, void *record)
{
    tarry_diagnostic why;
    int error = record_read(table, object, prefix, record, &why);
    return error == TARRY_OK ? TARRY_OK : wrong(from, why.text);
}

static int read_workers(const source *from, past_report *out)
{
    const json_t *list = json_object_get(from->document, "workers");
    if (json_array_size(list) != out->workers)
        return wrong(from, "'workers' has not as many entries as 'plan.workers' says");
    out->seconds = memory_allocate(NULL, out->workers, sizeof(*out->seconds));
    if (out->seconds == NULL)
        return diagnose_no_memory(from->diagnostic, from->path);
    double least = INFINITY;
    for (uint32_t i = 0; i < out->workers; i++) {
        char prefix[32];
        tarry_worker_state worker;
        snprintf(prefix, sizeof(prefix), "workers[%u].", i);
        int error = read_table(from, worker_table, json_array_get(list, i), prefix, &worker);
        if (error != TARRY_OK)
            return error;
        if (!(worker.seconds >= 0))
            return wrong(from, "'workers' has a number below 0");
        bool counts = worker.chunks > 0 && worker.present;
        out->seconds[i] = counts ? worker.seconds / (double)worker.chunks : INFINITY;
        least = fmin(least, out->seconds[i]);
    }
    return isinf(least) ? wrong(from, "'workers' has none that was there at the end and finished "
                                      "anything")
                        : TARRY_OK;
}

/* How fast coded parts came in, the median over the rounds that tell. */
static int read_rounds(const source *from, past_report *out)
{
    const json_t *list = json_object_get(from->document, "rounds");
    if (!json_is_array(list))
        return wrong(from, "'rounds' is not a list");
    size_t count = json_array_size(list), known = 0;
    double *rates = memory_allocate(NULL, count + 1, sizeof(*rates));
    if (rates == NULL)
        return diagnose_no_memory(from->diagnostic, from->path);
    int error = TARRY_OK;
    for (size_t i = 0; i < count && error == TARRY_OK; i++) {
        char prefix[32];
        history_round round;
        snprintf(prefix, sizeof(prefix), "rounds[%zu].", i);
        error = read_table(from, round_table, json_array_get(list, i), prefix, &round);
        if (error == TARRY_OK && round.signal_seconds > 0 && round.seconds > round.signal_seconds &&
            round.result.upload_bytes > 0)
            rates[known++] =
                (double)round.result.upload_bytes / (round.seconds - round.signal_seconds);
    }
    if (error == TARRY_OK)
        out->server_bandwidth = quantile_of(rates, known, 0.5);
    memory_release(NULL, rates);
    return error;
}

static bool is_count(uint64_t number, uint64_t most)
{
    return number >= 1 && number <= most;
}

static int check_sizes(const source *from, const past_report *out)
{
    if (!is_count(out->workers, MOST_COUNT) || !is_count(out->chunks, MOST_COUNT) ||
        !is_count(out->dimension, MOST_DIMENSION))
        return wrong(from, "'workers', 'chunks' or 'dimension' is out of range");
    return TARRY_OK;
}

static int read_train(const source *from, past_report *out)
{
    const json_t *plan = json_object_get(from->document, "plan");
    int error = read_table(from, plan_table, plan, "plan.", out);
    if (error == TARRY_OK)
        error = read_table(from, trained_table, from->document, "", out);
    if (error == TARRY_OK)
        error = check_sizes(from, out);
    if (error == TARRY_OK && (out->pieces < 1 || out->chunks % out->pieces != 0))
        error = wrong(from, "'plan.chunks' is not a multiple of 'plan.pieces'");
    if (error == TARRY_OK)
        error = read_workers(from, out);
    if (error == TARRY_OK)
        error = read_rounds(from, out);
    if (error == TARRY_OK)
        out->chunks /= out->pieces;
    return error;
}

static int take_text(const source *from, const json_t *text, char **out)
{
    if (!json_is_string(text))
        return wrong(from, "'config.straggler' or 'config.chunk-cost' is not a text");
    *out = memory_text(NULL, json_string_value(text), json_string_length(text), "");
    return *out != NULL ? TARRY_OK : diagnose_no_memory(from->diagnostic, from->path);
}

static int read_simulate(const source *from, past_report *out)
{
    const json_t *config = json_object_get(from->document, "config");
    int error = read_table(from, config_table, config, "config.", out);
    if (error == TARRY_OK)
        error = check_sizes(from, out);
    if (error == TARRY_OK &&
        (!(out->chunk_seconds >= 0 && out->overhead >= 0 && out->latency >= 0) ||
         out->bandwidth < 0 || out->server_bandwidth < 0))
        error = wrong(from, "'config' has a number below 0");
    if (error == TARRY_OK)
        error = take_text(from, json_object_get(config, "straggler"), &out->straggler);
    if (error == TARRY_OK)
        error = take_text(from, json_object_get(config, "chunk-cost"), &out->chunk_cost);
    return error;
}

static int read_report(const source *from, past_report *out)
{
    if (!json_is_object(from->document))
        return wrong(from, "is not an object");
    const char *name = json_string_value(json_object_get(from->document, "command"));
    if (name != NULL && strcmp(name, "train") == 0)
        return read_train(from, out);
    if (name != NULL && strcmp(name, "simulate") == 0)
        return read_simulate(from, out);
    return wrong(from, "'command' is neither train nor simulate");
}

int past_report_read(const char *path, past_report *out, tarry_diagnostic *diagnostic)
{
    past_report report = {
        .server_bandwidth = NAN,
        .bandwidth = NAN,
        .latency = NAN,
        .chunk_seconds = NAN,
        .overhead = NAN,
    };
    if (path == NULL) {
        *out = report;
        return TARRY_OK;
    }
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: %m", path);
    json_error_t fault;
    json_t *document = json_loadf(file, 0, &fault);
    fclose(file);
    if (document == NULL)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s:%d: %s", path, fault.line, fault.text);
    int error = read_report(&(source){path, document, diagnostic}, &report);
    json_decref(document);
    if (error != TARRY_OK)
        past_report_free(&report);
    else
        *out = report;
    return error;
}

void past_report_free(past_report *report)
{
    memory_release(NULL, report->seconds);
    memory_release(NULL, report->straggler);
    memory_release(NULL, report->chunk_cost);
    *report = (past_report){0};
}
