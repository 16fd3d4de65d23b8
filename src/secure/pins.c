/* SPDX-License-Identifier: Apache-2.0 */
#include "secure/pins.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/hex.h"
#include "base/memory.h"
#include "runtime/tcp/trust/private_file.h"

enum { FOLDER_MODE = 0700, TEXT = 512, DIGITS = 2 * PINS_DIGEST_BYTES };

struct pins {
    tarry_allocator allocator;
    DIR *folder; /* locked */
    pins_lock last;
    bool advanced; /* `last` is what the file says */
    char held_path[PATH_MAX];
    char path[]; /* of the folder */
};

static int diagnose_file(tarry_diagnostic *diagnostic, const char *path, int cause)
{
    return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: %s", path, strerror(cause));
}

int pins_open(const char *credentials, const tarry_allocator *allocator, pins **out,
              tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof(path), "%s/secure", credentials);
    if (length < 0 || (size_t)length >= sizeof(path))
        return diagnose_file(diagnostic, credentials, ENAMETOOLONG);
    if (mkdir(path, FOLDER_MODE) != 0 && errno != EEXIST)
        return diagnose_file(diagnostic, path, errno);
    pins *made = memory_allocate(allocator, 1, sizeof(*made) + (size_t)length + 1);
    if (made == NULL)
        return diagnose_no_memory(diagnostic, path);
    made->allocator = memory_allocator(allocator);
    strcpy(made->path, path);
    snprintf(made->held_path, sizeof(made->held_path), "%.*s/held",
             (int)(sizeof(made->held_path) - sizeof("/held")), path);
    made->folder = opendir(path);
    if (made->folder != NULL && flock(dirfd(made->folder), LOCK_EX | LOCK_NB) == 0) {
        *out = made;
        return TARRY_OK;
    }
    int error = made->folder != NULL && errno == EWOULDBLOCK
                    ? diagnose(diagnostic, TARRY_ERROR_STATE,
                               "%s: another worker is using these credentials", path)
                    : diagnose_file(diagnostic, path, errno);
    pins_close(made);
    return error;
}

void pins_close(pins *self)
{
    if (self == NULL)
        return;
    tarry_allocator allocator = self->allocator;
    if (self->folder != NULL)
        closedir(self->folder);
    memory_release(&allocator, self);
}

/* ---- files ---- */

static int path_of(const pins *self, const char *name, char path[PATH_MAX],
                   tarry_diagnostic *diagnostic)
{
    int length = snprintf(path, PATH_MAX, "%s/%s", self->path, name);
    return length >= 0 && length < PATH_MAX ? TARRY_OK
                                            : diagnose_file(diagnostic, self->path, ENAMETOOLONG);
}

/* *there says whether there is a file. */
static int read_file(const char *path, char text[TEXT], bool *there, tarry_diagnostic *diagnostic)
{
    BIO *content;
    char *bytes;
    struct stat state;
    *there = lstat(path, &state) == 0 || errno != ENOENT;
    if (!*there)
        return TARRY_OK;
    int error = private_file_read(path, false, &content, NULL, diagnostic);
    if (error != TARRY_OK)
        return error;
    long size = BIO_get_mem_data(content, &bytes);
    if (size <= 0 || size >= TEXT || memchr(bytes, '\0', (size_t)size) != NULL) {
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: is no such file", path);
    } else {
        memcpy(text, bytes, (size_t)size);
        text[size] = '\0';
    }
    BIO_free(content);
    return error;
}

static int write_file(const char *path, const char *text, tarry_diagnostic *diagnostic)
{
    BIO *content = BIO_new_mem_buf(text, -1);
    if (content == NULL)
        return diagnose_no_memory(diagnostic, path);
    int error = private_file_replace(path, content, diagnostic);
    BIO_free(content);
    return error;
}

/*
 * A file of which every byte is known beforehand, or which is another one. `title` is its first
 * line.
 */
static int hold(pins *self, const char *name, const char *title, const char *wanted,
                const char *what, bool *first, tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX], text[TEXT];
    bool there;
    int error = path_of(self, name, path, diagnostic);
    if (error == TARRY_OK)
        error = read_file(path, text, &there, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (!there) {
        error = write_file(path, wanted, diagnostic);
        *first = error == TARRY_OK;
        return error;
    }
    *first = false;
    if (strcmp(text, wanted) == 0)
        return TARRY_OK;
    if (strncmp(text, title, strlen(title)) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: is no such file", path);
    return diagnose(diagnostic, TARRY_ERROR_STATE,
                    "the job is about %s than this worker's first one was, as %s says; sums over "
                    "both could tell them apart, sample by sample (only if that is meant: remove "
                    "the file)",
                    what, path);
}

int pins_hold_target(pins *self, const pins_target *wanted, bool *first,
                     tarry_diagnostic *diagnostic)
{
    static const char title[] = "tarry target 1\n";
    char digits[DIGITS + 1], text[TEXT];
    hex_put(digits, wanted->data, sizeof(wanted->data));
    snprintf(text, sizeof(text), "%sdata %s\nsamples %" PRIu64 "\n", title, digits,
             wanted->samples);
    return hold(self, "target", title, text, "other samples", first, diagnostic);
}

int pins_hold_grid(pins *self, const pins_grid *wanted, bool *first, tarry_diagnostic *diagnostic)
{
    static const char title[] = "tarry grid 1\n";
    char text[TEXT];
    snprintf(text, sizeof(text), "%sbits %" PRIu32 "\nfraction %" PRId32 "\nbound %.17g\n", title,
             wanted->bits, wanted->fraction, wanted->bound);
    return hold(self, "grid", title, text, "another grid", first, diagnostic);
}

/* ---- the lock ---- */

static void put_lock(const pins_lock *lock, char text[TEXT])
{
    char job[DIGITS + 1], kappa[DIGITS + 1];
    hex_put(job, lock->job, sizeof(lock->job));
    hex_put(kappa, lock->kappa, sizeof(lock->kappa));
    snprintf(text, TEXT,
             "tarry lock 1\njob %s\nepoch %" PRIu64 "\nround %" PRIu64 "\nattempt %" PRIu64
             "\nkappa %s\n",
             job, lock->epoch, lock->round, lock->attempt, kappa);
}

static bool get_digits(const char *digits, uint8_t *bytes, size_t count)
{
    size_t length = strlen(digits);
    return length == 2 * count && hex_get(digits, length, bytes, count) == count;
}

/* Only what put_lock writes is one. */
static bool get_lock(const char text[TEXT], pins_lock *out)
{
    char job[DIGITS + 1], kappa[DIGITS + 1], again[TEXT];
    if (sscanf(text,
               "tarry lock 1 job %64[0-9a-f] epoch %" SCNu64 " round %" SCNu64 " attempt %" SCNu64
               " kappa %64[0-9a-f]",
               job, &out->epoch, &out->round, &out->attempt, kappa) != 5 ||
        !get_digits(job, out->job, sizeof(out->job)) ||
        !get_digits(kappa, out->kappa, sizeof(out->kappa)))
        return false;
    put_lock(out, again);
    return strcmp(text, again) == 0;
}

static int read_lock(pins *self, const char *path, tarry_diagnostic *diagnostic)
{
    char text[TEXT];
    bool there;
    int error = read_file(path, text, &there, diagnostic);
    if (error != TARRY_OK || !there)
        return error;
    if (!get_lock(text, &self->last))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "%s: damaged: what was sent is not known (its owner may remove it)", path);
    self->advanced = true;
    return TARRY_OK;
}

/* Below 0: `one` comes first; 0: they are of one attempt. */
static int compare(const pins_lock *one, const pins_lock *other)
{
    if (one->epoch != other->epoch)
        return one->epoch < other->epoch ? -1 : 1;
    if (one->round != other->round)
        return one->round < other->round ? -1 : 1;
    return one->attempt < other->attempt ? -1 : one->attempt > other->attempt;
}

int pins_advance(pins *self, const pins_lock *next, tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX], text[TEXT];
    const pins_lock *last = &self->last;
    int error = path_of(self, "lock", path, diagnostic);
    if (error == TARRY_OK && !self->advanced)
        error = read_lock(self, path, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (self->advanced && memcmp(last->job, next->job, sizeof(next->job)) == 0) {
        int order = compare(next, last);
        if (order == 0 && memcmp(last->kappa, next->kappa, sizeof(next->kappa)) == 0)
            return TARRY_OK;
        if (order <= 0)
            return diagnose(diagnostic, TARRY_ERROR_STATE,
                            "the server asks for attempt %" PRIu64 " of round %" PRIu64
                            " in epoch %" PRIu64 "%s, and attempt %" PRIu64 " of round %" PRIu64
                            " in epoch %" PRIu64 " was sent, as %s says",
                            next->attempt, next->round, next->epoch,
                            order == 0 ? " once more, but of something else" : "", last->attempt,
                            last->round, last->epoch, path);
    }
    put_lock(next, text);
    error = write_file(path, text, diagnostic);
    if (error != TARRY_OK)
        return error;
    self->last = *next;
    self->advanced = true;
    return TARRY_OK;
}

/* ---- what workers held ---- */

static int put_held_head(const uint8_t job[PINS_JOB_BYTES], char head[TEXT])
{
    char digits[DIGITS + 1];
    hex_put(digits, job, PINS_JOB_BYTES);
    return snprintf(head, TEXT, "tarry held 1\njob %s\n", digits);
}

int pins_note_held(pins *self, const uint8_t job[PINS_JOB_BYTES], const char *text, size_t size,
                   tarry_diagnostic *diagnostic)
{
    char head[TEXT];
    int length = put_held_head(job, head);
    BIO *content = BIO_new(BIO_s_mem());
    int error = content != NULL && size < INT_MAX && BIO_write(content, head, length) == length &&
                        (size == 0 || BIO_write(content, text, (int)size) == (int)size)
                    ? private_file_replace(self->held_path, content, diagnostic)
                    : diagnose_no_memory(diagnostic, self->held_path);
    BIO_free(content);
    return error;
}

int pins_recall_held(pins *self, const uint8_t job[PINS_JOB_BYTES], char **text, size_t *size,
                     tarry_diagnostic *diagnostic)
{
    char head[TEXT], *bytes;
    struct stat state;
    BIO *content;
    const size_t length = (size_t)put_held_head(job, head), title = strlen("tarry held 1\njob ");
    *text = NULL;
    *size = 0;
    if (lstat(self->held_path, &state) != 0 && errno == ENOENT)
        return TARRY_OK;
    int error = private_file_read(self->held_path, false, &content, NULL, diagnostic);
    if (error != TARRY_OK)
        return error;
    long total = BIO_get_mem_data(content, &bytes);
    if (total < (long)length || memcmp(bytes, head, title) != 0 || bytes[length - 1] != '\n') {
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT,
                         "%s: damaged: what workers held is not known (its owner may remove it)",
                         self->held_path);
    } else if (memcmp(bytes, head, length) == 0) {
        *text = memory_allocate(NULL, (size_t)total - length + 1, 1);
        if (*text == NULL) {
            error = diagnose_no_memory(diagnostic, self->held_path);
        } else {
            *size = (size_t)total - length;
            memcpy(*text, bytes + length, *size);
        }
    }
    BIO_free(content);
    return error;
}

const char *pins_held_path(const pins *self)
{
    return self->held_path;
}

const char *pins_folder(const pins *self)
{
    return self->path;
}
