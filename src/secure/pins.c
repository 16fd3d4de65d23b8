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
#include "base/digest.h"
#include "base/hex.h"
#include "base/memory.h"
#include "runtime/tcp/trust/private_file.h"

enum { FOLDER_MODE = 0700, TEXT = 512, DIGITS = 2 * PINS_DIGEST_BYTES, NAME = 16 + DIGITS };

static const char lock_prefix[] = "lock-";

struct pins {
    tarry_allocator allocator;
    DIR *folder;     /* locked */
    uint64_t jobs;   /* that have a lock in the folder */
    pins_lock last;  /* of the job that the last call was about */
    bool last_known; /* `last` is in that job's file */
    char path[];     /* of the folder */
};

static int diagnose_file(tarry_diagnostic *diagnostic, const char *path, int cause)
{
    return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: %s", path, strerror(cause));
}

/* The file of each job is written to another name first, which a crash may leave there. */
static bool is_lock_name(const char *name)
{
    const size_t prefix = sizeof(lock_prefix) - 1;
    return strncmp(name, lock_prefix, prefix) == 0 &&
           strlen(name) == prefix + (size_t)2 * PINS_JOB_BYTES;
}

static int locks_count(pins *self, tarry_diagnostic *diagnostic)
{
    const struct dirent *entry;
    errno = 0;
    while ((entry = readdir(self->folder)) != NULL)
        self->jobs += is_lock_name(entry->d_name);
    return errno == 0 ? TARRY_OK : diagnose_file(diagnostic, self->path, errno);
}

/* Opens, locks and reads the folder at the path. */
static int folder_open(pins *self, tarry_diagnostic *diagnostic)
{
    self->folder = opendir(self->path);
    if (self->folder == NULL)
        return diagnose_file(diagnostic, self->path, errno);
    if (flock(dirfd(self->folder), LOCK_EX | LOCK_NB) == 0)
        return locks_count(self, diagnostic);
    return errno == EWOULDBLOCK
               ? diagnose(diagnostic, TARRY_ERROR_STATE,
                          "%s: another worker is using these credentials", self->path)
               : diagnose_file(diagnostic, self->path, errno);
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
    int error = private_file_sync_folder(path, diagnostic);
    if (error != TARRY_OK)
        return error;
    pins *made = memory_allocate(allocator, 1, sizeof(*made) + (size_t)length + 1);
    if (made == NULL)
        return diagnose_no_memory(diagnostic, path);
    made->allocator = memory_allocator(allocator);
    strcpy(made->path, path);
    error = folder_open(made, diagnostic);
    if (error == TARRY_OK)
        *out = made;
    else
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

const char *pins_folder(const pins *self)
{
    return self->path;
}

/* ---- files ---- */

static int path_of(const pins *self, const char *name, char path[PATH_MAX],
                   tarry_diagnostic *diagnostic)
{
    int length = snprintf(path, PATH_MAX, "%s/%s", self->path, name);
    return length >= 0 && length < PATH_MAX ? TARRY_OK
                                            : diagnose_file(diagnostic, self->path, ENAMETOOLONG);
}

/* A file of `prefix` and the digits of these bytes. */
static int numbered_path(const pins *self, const char *prefix, const uint8_t *bytes, size_t count,
                         char path[PATH_MAX], tarry_diagnostic *diagnostic)
{
    char name[NAME];
    const int length = snprintf(name, sizeof(name), "%s", prefix);
    hex_put(name + length, bytes, count);
    return path_of(self, name, path, diagnostic);
}

/* True if there is anything of that name. Reading it then finds other errors. */
static bool is_there(const char *path)
{
    struct stat state;
    return lstat(path, &state) == 0 || errno != ENOENT;
}

/* *there says whether there is a file. */
static int read_file(const char *path, char text[TEXT], bool *there, tarry_diagnostic *diagnostic)
{
    BIO *content;
    char *bytes;
    *there = is_there(path);
    if (!*there)
        return TARRY_OK;
    int error = private_file_read(path, false, &content, NULL, diagnostic);
    if (error != TARRY_OK)
        return error;
    long size = BIO_get_mem_data(content, &bytes);
    if (size <= 0 || size >= TEXT || memchr(bytes, '\0', (size_t)size) != NULL) {
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT,
                         "%s: damaged: this is not what a worker writes there", path);
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

/* The last line of a file that no other bytes are known of: a digest of all before it. Returns its
 * length, or -1 without memory. */
static int put_digest_line(const char *bytes, size_t size, char line[TEXT])
{
    char digits[DIGITS + 1];
    uint8_t its_digest[PINS_DIGEST_BYTES];
    if (digest_of_bytes((const uint8_t *)bytes, size, its_digest) != 0)
        return -1;
    hex_put(digits, its_digest, sizeof(its_digest));
    return snprintf(line, TEXT, "digest %s\n", digits);
}

/* ---- target and grid ---- */

static const char target_title[] = "tarry target 1\n", grid_title[] = "tarry grid 1\n";

static void put_target(const pins_target *target, char text[TEXT])
{
    char digits[DIGITS + 1];
    hex_put(digits, target->data, sizeof(target->data));
    snprintf(text, TEXT, "%sdata %s\nsamples %" PRIu64 "\n", target_title, digits, target->samples);
}

static void put_grid(const pins_grid *grid, char text[TEXT])
{
    snprintf(text, TEXT, "%sbits %" PRIu32 "\nfraction %" PRId32 "\nbound %.17g\n", grid_title,
             grid->bits, grid->fraction, grid->bound);
}

/*
 * A file of which every byte is known beforehand, or which is another one. `title` is its first
 * line.
 */
static int check_file(const pins *self, const char *name, const char *title, const char *wanted,
                      const char *what, bool *pinned, tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX], text[TEXT];
    int error = path_of(self, name, path, diagnostic);
    if (error == TARRY_OK)
        error = read_file(path, text, pinned, diagnostic);
    if (error != TARRY_OK || !*pinned || strcmp(text, wanted) == 0)
        return error;
    if (strncmp(text, title, strlen(title)) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "%s: damaged: this is not what a worker writes there", path);
    return diagnose(diagnostic, TARRY_ERROR_STATE,
                    "the job is about %s than this worker's first one was, as %s says; sums over "
                    "both could tell them apart, sample by sample (only if that is meant: remove "
                    "the file)",
                    what, path);
}

int pins_check_target(const pins *self, const pins_target *wanted, bool *pinned,
                      tarry_diagnostic *diagnostic)
{
    char text[TEXT];
    put_target(wanted, text);
    return check_file(self, "target", target_title, text, "other samples", pinned, diagnostic);
}

int pins_check_grid(const pins *self, const pins_grid *wanted, bool *pinned,
                    tarry_diagnostic *diagnostic)
{
    char text[TEXT];
    put_grid(wanted, text);
    return check_file(self, "grid", grid_title, text, "another grid", pinned, diagnostic);
}

int pins_write_target(pins *self, const pins_target *target, tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX], text[TEXT];
    put_target(target, text);
    int error = path_of(self, "target", path, diagnostic);
    return error != TARRY_OK ? error : write_file(path, text, diagnostic);
}

int pins_write_grid(pins *self, const pins_grid *grid, tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX], text[TEXT];
    put_grid(grid, text);
    int error = path_of(self, "grid", path, diagnostic);
    return error != TARRY_OK ? error : write_file(path, text, diagnostic);
}

/* ---- the lock ---- */

/* False without memory. */
static bool put_lock(const pins_lock *lock, char text[TEXT])
{
    char job[DIGITS + 1], kappa[DIGITS + 1], line[TEXT];
    hex_put(job, lock->job, sizeof(lock->job));
    hex_put(kappa, lock->kappa, sizeof(lock->kappa));
    const int size = snprintf(text, TEXT,
                              "tarry lock 2\njob %s\nepoch %" PRIu64 "\nround %" PRIu64
                              "\nattempt %" PRIu64 "\nkappa %s\n",
                              job, lock->epoch, lock->round, lock->attempt, kappa);
    if (put_digest_line(text, (size_t)size, line) < 0)
        return false;
    strcpy(text + size, line); /* numbers have 20 digits at most */
    return true;
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
               "tarry lock 2 job %64[0-9a-f] epoch %" SCNu64 " round %" SCNu64 " attempt %" SCNu64
               " kappa %64[0-9a-f]",
               job, &out->epoch, &out->round, &out->attempt, kappa) != 5 ||
        !get_digits(job, out->job, sizeof(out->job)) ||
        !get_digits(kappa, out->kappa, sizeof(out->kappa)))
        return false;
    return put_lock(out, again) && strcmp(text, again) == 0;
}

/* Makes `last` the lock of the job, which it reads from the path; *there is false without such
 * a file. */
static int lock_recall(pins *self, const uint8_t job[PINS_JOB_BYTES], const char *path, bool *there,
                       tarry_diagnostic *diagnostic)
{
    char text[TEXT];
    *there = true;
    if (self->last_known && memcmp(self->last.job, job, PINS_JOB_BYTES) == 0)
        return TARRY_OK;
    self->last_known = false;
    int error = read_file(path, text, there, diagnostic);
    if (error != TARRY_OK || !*there)
        return error;
    if (!get_lock(text, &self->last) || memcmp(self->last.job, job, PINS_JOB_BYTES) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "%s: damaged: what was sent is not known (its owner may remove it once "
                        "that job is over)",
                        path);
    self->last_known = true;
    return TARRY_OK;
}

/* Below 0: `one` comes first; 0: they are of one attempt. */
static int lock_compare(const pins_lock *one, const pins_lock *other)
{
    if (one->epoch != other->epoch)
        return one->epoch < other->epoch ? -1 : 1;
    if (one->round != other->round)
        return one->round < other->round ? -1 : 1;
    return one->attempt < other->attempt ? -1 : one->attempt > other->attempt;
}

static int refuse_attempt(const pins_lock *next, const pins_lock *last, const char *path,
                          tarry_diagnostic *diagnostic)
{
    return diagnose(diagnostic, TARRY_ERROR_STATE,
                    "the server asks for attempt %" PRIu64 " of round %" PRIu64 " in epoch %" PRIu64
                    "%s, and attempt %" PRIu64 " of round %" PRIu64 " in epoch %" PRIu64
                    " was sent, as %s says",
                    next->attempt, next->round, next->epoch,
                    lock_compare(next, last) == 0 ? " once more, but of something else" : "",
                    last->attempt, last->round, last->epoch, path);
}

int pins_advance(pins *self, const pins_lock *next, tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX], text[TEXT];
    const pins_lock *last = &self->last;
    bool there;
    int error = numbered_path(self, lock_prefix, next->job, sizeof(next->job), path, diagnostic);
    if (error == TARRY_OK)
        error = lock_recall(self, next->job, path, &there, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (there) {
        const int order = lock_compare(next, last);
        if (order == 0 && memcmp(last->kappa, next->kappa, sizeof(next->kappa)) == 0)
            return TARRY_OK;
        if (order <= 0)
            return refuse_attempt(next, last, path, diagnostic);
    } else if (self->jobs >= PINS_MOST_JOBS) {
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "%s has the locks of %" PRIu64
                        " jobs, and none is forgotten to make room: remove those that are over "
                        "(%s*) to take part in another job",
                        self->path, self->jobs, lock_prefix);
    }
    if (!put_lock(next, text))
        return diagnose_no_memory(diagnostic, path);
    self->last_known = false; /* a failure may leave either of the two there */
    error = write_file(path, text, diagnostic);
    if (error != TARRY_OK)
        return error;
    self->jobs += !there;
    self->last = *next;
    self->last_known = true;
    return TARRY_OK;
}

/* ---- what workers held ---- */

static const char held_prefix[] = "held-";

static int put_held_head(const uint8_t target[PINS_DIGEST_BYTES], char head[TEXT])
{
    char digits[DIGITS + 1];
    hex_put(digits, target, PINS_DIGEST_BYTES);
    return snprintf(head, TEXT, "tarry held 2\ntarget %s\n", digits);
}

/* The content of that file; NULL without memory. */
static BIO *put_held(const uint8_t target[PINS_DIGEST_BYTES], const char *text, size_t size)
{
    char line[TEXT], *bytes;
    BIO *content = BIO_new(BIO_s_mem());
    const int head = put_held_head(target, line);
    bool done = content != NULL && BIO_write(content, line, head) == head &&
                (size == 0 || BIO_write(content, text, (int)size) == (int)size);
    if (done) {
        const long total = BIO_get_mem_data(content, &bytes);
        const int length = put_digest_line(bytes, (size_t)total, line);
        done = length > 0 && BIO_write(content, line, length) == length;
    }
    if (done)
        return content;
    BIO_free(content);
    return NULL;
}

int pins_write_held(pins *self, const uint8_t target[PINS_DIGEST_BYTES], const char *text,
                    size_t size, tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX];
    int error = numbered_path(self, held_prefix, target, PINS_DIGEST_BYTES, path, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (size > PRIVATE_FILE_MOST_BYTES - TEXT)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "%s: what workers held under all plans takes %zu bytes, and may take %d: "
                        "cut the samples into fewer chunks",
                        path, size, PRIVATE_FILE_MOST_BYTES - TEXT);
    BIO *content = put_held(target, text, size);
    error = content != NULL ? private_file_replace(path, content, diagnostic)
                            : diagnose_no_memory(diagnostic, path);
    BIO_free(content);
    return error;
}

/* The part between the first lines and the last one; NULL if the file is damaged. */
static const char *find_held(const char *bytes, long total, const uint8_t target[PINS_DIGEST_BYTES],
                             size_t *size)
{
    char head[TEXT], line[TEXT];
    const size_t length = (size_t)put_held_head(target, head), last = strlen("digest \n") + DIGITS;
    if (total < (long)(length + last) || memcmp(bytes, head, length) != 0)
        return NULL;
    *size = (size_t)total - length - last;
    return put_digest_line(bytes, length + *size, line) == (int)last &&
                   memcmp(bytes + length + *size, line, last) == 0
               ? bytes + length
               : NULL;
}

int pins_recall_held(const pins *self, const uint8_t target[PINS_DIGEST_BYTES], char **text,
                     size_t *size, tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX], *bytes;
    BIO *content;
    int error = numbered_path(self, held_prefix, target, PINS_DIGEST_BYTES, path, diagnostic);
    if (error != TARRY_OK)
        return error;
    *text = NULL;
    *size = 0;
    if (!is_there(path))
        return TARRY_OK;
    error = private_file_read(path, false, &content, NULL, diagnostic);
    if (error != TARRY_OK)
        return error;
    const long total = BIO_get_mem_data(content, &bytes);
    const char *found = find_held(bytes, total, target, size);
    if (found == NULL) {
        error = pins_held_damaged(self, target, diagnostic);
    } else {
        *text = memory_allocate(NULL, *size + 1, 1);
        if (*text != NULL)
            memcpy(*text, found, *size);
        else
            error = diagnose_no_memory(diagnostic, path);
    }
    BIO_free(content);
    return error;
}

int pins_held_damaged(const pins *self, const uint8_t target[PINS_DIGEST_BYTES],
                      tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX];
    int error = numbered_path(self, held_prefix, target, PINS_DIGEST_BYTES, path, diagnostic);
    if (error != TARRY_OK)
        return error;
    return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                    "%s: %s: what workers held under earlier plans is not known (to begin with an "
                    "empty record, its owner removes it and %s/target)",
                    path, is_there(path) ? "damaged" : "is missing", self->path);
}
