/* SPDX-License-Identifier: Apache-2.0 */
#include "secure/secure_memory.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarry/allocator.h>
#include <tarry/error.h>
#include <tarry/plan.h>
#include <tarry/secure.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/digest.h"
#include "base/hex.h"
#include "base/memory.h"
#include "base/sized.h"
#include "plan/exposure/exposure.h"
#include "privacy/secure/ring.h"
#include "runtime/tcp/trust/private_file.h"

enum { LINE = 64, MOST_WORKERS = 1 << 24, STEPS = 20000000 };

/* The first sample of original chunk `origin`; of that behind the last one: all. */
static uint64_t begin_of(const held_cut *cut, uint32_t origin)
{
    const uint64_t all = cut->samples, parts = cut->origins;
    if (cut->begins != NULL)
        return cut->begins[origin];
    return all / parts * origin + all % parts * origin / parts; /* without overflow */
}

/* The samples of a span, of nobody yet. */
static exposure_range samples_of(const tarry_plan *plan, const held_cut *cut, uint32_t chunk,
                                 uint32_t index)
{
    const tarry_span span = tarry_plan_span(plan, chunk, index);
    const uint64_t first = begin_of(cut, span.origin);
    uint64_t begin, end;
    tarry_span_samples(span, begin_of(cut, span.origin + 1) - first, &begin, &end);
    return (exposure_range){.begin = first + begin, .end = first + end};
}

/* Whether the spans have every sample once: as many as there are, and no gap between the first and
 * the last. Errors: NO_MEMORY. */
static int covers_once(const tarry_plan *plan, const held_cut *cut, bool *once)
{
    exposure *all;
    const exposure_range *whole;
    uint64_t sum = 0;
    int error = exposure_create(NULL, &all);
    if (error != TARRY_OK)
        return error;
    for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan) && error == TARRY_OK; chunk++)
        for (uint32_t i = 0; i < tarry_plan_span_count(plan, chunk) && error == TARRY_OK; i++) {
            const exposure_range of = samples_of(plan, cut, chunk, i);
            sum += of.end - of.begin;
            error = exposure_add(all, 0, of.begin, of.end);
        }
    *once = exposure_ranges(all, &whole) == 1 && whole->begin == 0 && whole->end == cut->samples &&
            sum == cut->samples;
    exposure_free(all);
    return error;
}

int held_add(exposure *held, const tarry_plan *plan, const held_cut *cut,
             tarry_diagnostic *diagnostic)
{
    bool once;
    if (tarry_plan_origins(plan) != cut->origins)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "the plan is of other chunks than the job");
    int error = covers_once(plan, cut, &once);
    if (error == TARRY_OK && !once)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "the plan's sum is not over all samples, each once");
    uint64_t *samples = memory_allocate(NULL, cut->origins, sizeof(*samples));
    for (uint32_t i = 0; samples != NULL && i < cut->origins; i++)
        samples[i] = begin_of(cut, i + 1) - begin_of(cut, i);
    if (error == TARRY_OK)
        error = samples != NULL ? exposure_add_plan(held, plan, samples) : TARRY_ERROR_NO_MEMORY;
    memory_release(NULL, samples);
    return error == TARRY_OK ? error : diagnose_no_memory(diagnostic, "samples held");
}

uint64_t held_smallest(const tarry_plan *plan, const held_cut *cut, uint32_t *chunk)
{
    uint64_t fewest = UINT64_MAX;
    for (uint32_t i = 0; i < tarry_plan_chunks(plan); i++) {
        uint64_t samples = 0;
        for (uint32_t j = 0; j < tarry_plan_span_count(plan, i); j++) {
            const exposure_range of = samples_of(plan, cut, i, j);
            samples += of.end - of.begin;
        }
        if (samples < fewest) {
            fewest = samples;
            *chunk = i;
        }
    }
    return fewest;
}

uint64_t held_largest_origin(const held_cut *cut)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < cut->origins; i++) {
        const uint64_t samples = begin_of(cut, i + 1) - begin_of(cut, i);
        most = samples > most ? samples : most;
    }
    return most;
}

int held_left(exposure *held, uint64_t samples, uint32_t colluders, uint64_t *left)
{
    exposure_bound bound;
    int error = exposure_unheld(held, colluders, STEPS, &bound);
    if (error == TARRY_OK)
        *left = samples - bound.samples + bound.unheld;
    return error;
}

/* ---- text ---- */

int held_write(exposure *held, char **text, size_t *size)
{
    const exposure_range *ranges;
    const size_t count = exposure_ranges(held, &ranges);
    char *made = memory_allocate(NULL, count + 1, LINE);
    if (made == NULL)
        return TARRY_ERROR_NO_MEMORY;
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(made + used, LINE, "%" PRIu32 " %" PRIu64 " %" PRIu64 "\n",
                                 ranges[i].worker, ranges[i].begin, ranges[i].end);
    *text = made;
    *size = used;
    return TARRY_OK;
}

/* Adds the line at *at, which goes past it. */
static int take_line(const char *text, size_t size, size_t *at, uint64_t samples, exposure *held)
{
    char line[LINE];
    exposure_range of;
    const char *end = memchr(text + *at, '\n', size - *at);
    size_t length = end != NULL ? (size_t)(end - (text + *at)) : LINE;
    if (length >= LINE)
        return TARRY_ERROR_FORMAT;
    memcpy(line, text + *at, length);
    line[length] = '\0';
    *at += length + 1;
    if (sscanf(line, "%" SCNu32 " %" SCNu64 " %" SCNu64, &of.worker, &of.begin, &of.end) != 3 ||
        of.begin >= of.end || of.end > samples || of.worker >= MOST_WORKERS)
        return TARRY_ERROR_FORMAT;
    return exposure_add(held, of.worker, of.begin, of.end);
}

/* Only what held_write writes is one. */
static int check_text(exposure *held, const char *text, size_t size)
{
    char *again;
    size_t again_size;
    int error = held_write(held, &again, &again_size);
    if (error != TARRY_OK)
        return error;
    if (again_size != size || memcmp(text, again, size) != 0)
        error = TARRY_ERROR_FORMAT;
    memory_release(NULL, again);
    return error;
}

int held_read(const char *text, size_t size, uint64_t samples, exposure **out)
{
    exposure *made;
    int error = exposure_create(NULL, &made);
    if (error != TARRY_OK)
        return error;
    for (size_t at = 0; at < size && error == TARRY_OK;)
        error = take_line(text, size, &at, samples, made);
    if (error == TARRY_OK)
        error = check_text(made, text, size);
    if (error == TARRY_OK)
        *out = made;
    else
        exposure_free(made);
    return error;
}

/* ---- pins ---- */

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
    int error = private_path(path, credentials, "secure", diagnostic);
    if (error != TARRY_OK)
        return error;
    if (mkdir(path, FOLDER_MODE) != 0 && errno != EEXIST)
        return diagnose_file(diagnostic, path, errno);
    error = private_file_sync_folder(path, diagnostic);
    if (error != TARRY_OK)
        return error;
    pins *made = memory_allocate(allocator, 1, sizeof(*made) + strlen(path) + 1);
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

/* ---- files ---- */

/* A file of `prefix` and the digits of these bytes. */
static int numbered_path(const pins *self, const char *prefix, const uint8_t *bytes, size_t count,
                         char path[PATH_MAX], tarry_diagnostic *diagnostic)
{
    char name[NAME];
    const int length = snprintf(name, sizeof(name), "%s", prefix);
    hex_put(name + length, bytes, count);
    return private_path(path, self->path, name, diagnostic);
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
    int error = private_path(path, self->path, name, diagnostic);
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
    int error = private_path(path, self->path, "target", diagnostic);
    return error != TARRY_OK ? error : write_file(path, text, diagnostic);
}

int pins_write_grid(pins *self, const pins_grid *grid, tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX], text[TEXT];
    put_grid(grid, text);
    int error = private_path(path, self->path, "grid", diagnostic);
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

/* Returns FORMAT, with a diagnostic about this file being damaged or missing, and what to do. */
static int pins_held_damaged(const pins *self, const uint8_t target[PINS_DIGEST_BYTES],
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

/* ---- memory ---- */

static const char label[] = "tarry: samples of secure sums, 1";

enum {
    LEAST_SHARE = 8, /* of the samples: an eighth */
    LINE_MOST = 128, /* bytes of a line */
    BITS = 32,
    CHUNK_SAMPLES = 32,
    COARSER = 4,       /* digits of a grid: later plans may have 2^4 times as many chunks */
    LEAST_STEPS = 4096 /* of a grid, from 0 to the bound */
};

struct tarry_secure_memory {
    tarry_secure_memory_settings settings;
    pins *kept;
    pthread_mutex_t lock; /* of all that follows: plans and attempts come in different threads */
    held_cut cut;         /* of the job; origins 0: it was not told */
    uint64_t *begins;     /* the own copy, if the cut has any */
};

void tarry_secure_memory_settings_init_sized(tarry_secure_memory_settings *settings, size_t size)
{
    if (sized_begin(settings, size, sizeof(*settings)))
        settings->colluders = 1;
}

int tarry_secure_rules_choose(uint32_t bits, double bound, uint64_t chunks,
                              tarry_secure_rules *rules)
{
    ring grid;
    if ((bits != 32 && bits != 64) || !isfinite(bound) || !(bound > 0) || chunks == 0 ||
        !ring_choose(bits, bound, chunks, &grid))
        return TARRY_ERROR_ARGUMENT;
    rules->bits = grid.bits;
    rules->fraction = grid.fraction;
    rules->bound = grid.bound;
    return TARRY_OK;
}

int tarry_secure_memory_open(const tarry_secure_memory_settings *settings,
                             tarry_secure_memory **out, tarry_diagnostic *diagnostic)
{
    int error = sized_check(settings->size, sizeof(*settings), "secure sums", diagnostic);
    if (error != TARRY_OK)
        return error;
    if ((settings->bits != 0 && settings->bits != 32 && settings->bits != 64) ||
        !isfinite(settings->bound) || settings->bound < 0)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "secure sums: %" PRIu32 " bits and a bound of %g: bits are 32 or 64, and "
                        "a bound is positive and finite",
                        settings->bits, settings->bound);
    if (settings->credentials == NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "secure sums need credentials");
    tarry_secure_memory *made = memory_allocate(NULL, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "secure sums");
    error = pins_open(settings->credentials, NULL, &made->kept, diagnostic);
    if (error != TARRY_OK) {
        memory_release(NULL, made);
        return error;
    }
    pthread_mutex_init(&made->lock, NULL);
    made->settings = *settings;
    made->settings.credentials = NULL;
    if (made->settings.colluders_name == NULL)
        made->settings.colluders_name = "colluders";
    if (made->settings.least_name == NULL)
        made->settings.least_name = "least";
    if (made->settings.bits == 0)
        made->settings.bits = BITS;
    if (made->settings.bits_name == NULL)
        made->settings.bits_name = "bits";
    if (made->settings.bound_name == NULL)
        made->settings.bound_name = "bound";
    if (made->settings.chunk_samples == 0)
        made->settings.chunk_samples = CHUNK_SAMPLES;
    if (made->settings.chunk_samples_name == NULL)
        made->settings.chunk_samples_name = "chunk_samples";
    *out = made;
    return TARRY_OK;
}

void tarry_secure_memory_close(tarry_secure_memory *memory)
{
    if (memory == NULL)
        return;
    memory_release(NULL, memory->begins);
    pins_close(memory->kept);
    pthread_mutex_destroy(&memory->lock);
    memory_release(NULL, memory);
}

/* ---- the job's samples ---- */

static bool cuts(uint64_t samples, uint32_t origins, const uint64_t *begins)
{
    if (samples == 0 || origins == 0)
        return false;
    for (uint32_t i = 0; begins != NULL && i < origins; i++)
        if (begins[i] > begins[i + 1])
            return false;
    return begins == NULL || (begins[0] == 0 && begins[origins] == samples);
}

int tarry_secure_memory_samples(tarry_secure_memory *memory, uint64_t samples, uint32_t origins,
                                const uint64_t *begins)
{
    uint64_t *kept = NULL;
    if (!cuts(samples, origins, begins))
        return TARRY_ERROR_ARGUMENT;
    if (begins != NULL) {
        const size_t count = (size_t)origins + 1;
        kept = memory_allocate(NULL, count, sizeof(*kept));
        if (kept == NULL)
            return TARRY_ERROR_NO_MEMORY;
        memcpy(kept, begins, count * sizeof(*kept));
    }
    pthread_mutex_lock(&memory->lock);
    memory_release(NULL, memory->begins);
    memory->begins = kept;
    memory->cut = (held_cut){.samples = samples, .origins = origins, .begins = kept};
    pthread_mutex_unlock(&memory->lock);
    return TARRY_OK;
}

/* ---- what is offered ---- */

static int check_offer(const tarry_secure_memory *own, const tarry_secure_offer *offer,
                       tarry_diagnostic *diagnostic)
{
    static const uint8_t none[TARRY_DIGEST_SIZE];
    const tarry_secure_rules *rules = offer->rules;
    const tarry_secure_memory_settings *wanted = &own->settings;
    const uint64_t all = own->cut.samples;
    const uint64_t least =
        wanted->least != 0 ? wanted->least : all / LEAST_SHARE + (all % LEAST_SHARE != 0);
    if (own->cut.origins == 0 || memcmp(offer->data, none, sizeof(none)) == 0)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "secure sums: this worker has no samples of its own");
    if (rules->colluders < wanted->colluders)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "secure sums: the server reckons with %" PRIu32
                        " colluders, and this worker with %" PRIu32 " (%s)",
                        rules->colluders, wanted->colluders, wanted->colluders_name);
    if (rules->least < least)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "secure sums: the server would leave %" PRIu64
                        " samples to one sum, and this worker wants %" PRIu64 " (%s)",
                        rules->least, least, wanted->least_name);
    return TARRY_OK;
}

/* ---- the grid ---- */

/* What the owner allows. A server with a bound of its choice makes chunks saturate, all but few:
 * the sum then shows those. With a coarse grid all but the largest chunks vanish. */
static int check_grid(const tarry_secure_memory *own, const tarry_secure_rules *rules,
                      tarry_diagnostic *diagnostic)
{
    const tarry_secure_memory_settings *wanted = &own->settings;
    const double samples = (double)held_largest_origin(&own->cut),
                 bound =
                     wanted->bound > 0 ? wanted->bound : TARRY_SECURE_BOUND_PER_SAMPLE * samples;
    ring finest;
    if (rules->bits != wanted->bits)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "secure sums: the server has numbers of %" PRIu32
                        " bits, and this worker's owner allows %" PRIu32
                        " (%s): give the server and all workers the same",
                        rules->bits, wanted->bits, wanted->bits_name);
    if (rules->bound != bound)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "secure sums: the server's bound is %.9g, and this worker's owner allows "
                        "%.9g (%s; by default %g for each sample of the largest chunk): give the "
                        "server and all workers the same",
                        rules->bound, bound, wanted->bound_name, TARRY_SECURE_BOUND_PER_SAMPLE);
    if (!ring_choose(rules->bits, rules->bound, own->cut.origins, &finest) ||
        rules->fraction < finest.fraction - COARSER)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "secure sums: the server rounds numbers to multiples of 2^%" PRId32
                        ", which is more than 2^%d times as coarse as %" PRIu32
                        " bits allow for %" PRIu32 " chunks up to %g",
                        -rules->fraction, COARSER, rules->bits, own->cut.origins, rules->bound);
    if (ldexp(rules->bound, rules->fraction) < LEAST_STEPS)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "secure sums: with %" PRIu32 " bits (%s) and %" PRIu32
                        " chunks there are only %.0f steps up to the bound, and %d are wanted: use "
                        "64 bits or fewer chunks",
                        rules->bits, wanted->bits_name, own->cut.origins,
                        ldexp(rules->bound, rules->fraction), LEAST_STEPS);
    return TARRY_OK;
}

/* ---- what was agreed on ---- */

/* All that an offer makes the worker write down, once it has passed all checks. */
typedef struct agreement {
    pins_target target;
    pins_grid grid;
    uint8_t key[TARRY_DIGEST_SIZE]; /* of the target */
    bool target_pinned, grid_pinned;
    char *before, *after; /* what workers held, without the plan and with it; before: may be NULL */
    size_t before_size, after_size;
} agreement;

static int make_key(const pins_target *of, uint8_t target[TARRY_DIGEST_SIZE],
                    tarry_diagnostic *diagnostic)
{
    uint8_t bytes[sizeof(label) + PINS_DIGEST_BYTES + sizeof(uint64_t)];
    memcpy(bytes, label, sizeof(label));
    memcpy(bytes + sizeof(label), of->data, PINS_DIGEST_BYTES);
    bytes_put(bytes + sizeof(label) + PINS_DIGEST_BYTES, of->samples, sizeof(uint64_t));
    return digest_of_bytes(bytes, sizeof(bytes), target) == 0
               ? TARRY_OK
               : diagnose_no_memory(diagnostic, "secure sums");
}

static int check_pins(const tarry_secure_memory *own, const tarry_secure_offer *offer,
                      agreement *out, tarry_diagnostic *diagnostic)
{
    const tarry_secure_rules *rules = offer->rules;
    out->target.samples = own->cut.samples;
    memcpy(out->target.data, offer->data, sizeof(out->target.data));
    out->grid = (pins_grid){rules->bits, rules->fraction, rules->bound};
    int error = make_key(&out->target, out->key, diagnostic);
    if (error == TARRY_OK)
        error = pins_check_target(own->kept, &out->target, &out->target_pinned, diagnostic);
    if (error == TARRY_OK)
        error = pins_check_grid(own->kept, &out->grid, &out->grid_pinned, diagnostic);
    return error;
}

/* What workers held under all plans over this target so far, in all jobs. */
static int recall_held(const tarry_secure_memory *own, agreement *its, exposure **out,
                       tarry_diagnostic *diagnostic)
{
    int error = pins_recall_held(own->kept, its->key, &its->before, &its->before_size, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (its->before == NULL && its->target_pinned)
        return pins_held_damaged(own->kept, its->key, diagnostic);
    error = its->before == NULL ? exposure_create(NULL, out)
                                : held_read(its->before, its->before_size, own->cut.samples, out);
    if (error == TARRY_ERROR_NO_MEMORY)
        return diagnose_no_memory(diagnostic, "samples held");
    return error == TARRY_OK ? TARRY_OK : pins_held_damaged(own->kept, its->key, diagnostic);
}

static int check_chunks(const tarry_secure_memory *own, const tarry_plan *plan,
                        tarry_diagnostic *diagnostic)
{
    uint32_t chunk = 0;
    const uint64_t fewest = held_smallest(plan, &own->cut, &chunk),
                   wanted = own->settings.chunk_samples;
    if (fewest >= wanted)
        return TARRY_OK;
    return diagnose(diagnostic, TARRY_ERROR_STATE,
                    "secure sums: chunk %" PRIu32 " of the server's plan has %" PRIu64
                    " samples, and this worker's owner wants %" PRIu64
                    " in each at least (%s): make fewer chunks, or allow smaller ones",
                    chunk, fewest, wanted, own->settings.chunk_samples_name);
}

static int check_held(const tarry_secure_memory *own, const tarry_secure_offer *offer,
                      exposure *samples, tarry_diagnostic *diagnostic)
{
    const tarry_secure_rules *rules = offer->rules;
    uint64_t left;
    if (held_left(samples, own->cut.samples, rules->colluders, &left) != TARRY_OK)
        return diagnose_no_memory(diagnostic, "samples held");
    if (left < rules->least)
        return diagnose(
            diagnostic, TARRY_ERROR_STATE,
            "secure sums: under this plan and all earlier ones over these samples %" PRIu32
            " colluders may hold all but %" PRIu64 " of %" PRIu64 " samples, and %" PRIu64
            " are to be left (%s): fewer copies, or more workers, leave more, and so does a job "
            "with the seed and the sizes of an earlier one",
            rules->colluders, left, own->cut.samples, rules->least, own->settings.least_name);
    return TARRY_OK;
}

static int check_plan(const tarry_secure_memory *own, const tarry_secure_offer *offer,
                      agreement *its, tarry_diagnostic *diagnostic)
{
    exposure *samples = NULL;
    int error = recall_held(own, its, &samples, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = held_add(samples, offer->plan, &own->cut, diagnostic);
    if (error == TARRY_OK)
        error = check_chunks(own, offer->plan, diagnostic);
    if (error == TARRY_OK)
        error = check_held(own, offer, samples, diagnostic);
    if (error == TARRY_OK && held_write(samples, &its->after, &its->after_size) != TARRY_OK)
        error = diagnose_no_memory(diagnostic, "samples held");
    exposure_free(samples);
    return error;
}

static void tell(const tarry_secure_memory *own, const char *what)
{
    char line[PATH_MAX + LINE_MOST];
    if (own->settings.tell == NULL)
        return;
    snprintf(line, sizeof(line), "secure sums: %s; %s has it from now on", what, own->kept->path);
    own->settings.tell(own->settings.user, line);
}

/* Writes the target last. So if the target is there and the record of its plans is missing, the
 * record was lost. */
static int keep(tarry_secure_memory *own, const agreement *its, tarry_diagnostic *diagnostic)
{
    char text[LINE_MOST];
    int error = TARRY_OK;
    if (its->before == NULL || its->before_size != its->after_size ||
        memcmp(its->before, its->after, its->after_size) != 0)
        error = pins_write_held(own->kept, its->key, its->after, its->after_size, diagnostic);
    if (error == TARRY_OK && !its->grid_pinned)
        error = pins_write_grid(own->kept, &its->grid, diagnostic);
    if (error == TARRY_OK && !its->target_pinned)
        error = pins_write_target(own->kept, &its->target, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (!its->target_pinned) {
        snprintf(text, sizeof(text), "sums are over these %" PRIu64 " samples",
                 its->target.samples);
        tell(own, text);
    }
    if (!its->grid_pinned) {
        snprintf(text, sizeof(text),
                 "numbers are multiples of 2^%" PRId32 " up to %g in %" PRIu32 " bits",
                 -its->grid.fraction, its->grid.bound, its->grid.bits);
        tell(own, text);
    }
    return TARRY_OK;
}

int tarry_secure_memory_agree(void *memory, const tarry_secure_offer *offer,
                              uint8_t target[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    tarry_secure_memory *own = memory;
    agreement its = {.before = NULL};
    pthread_mutex_lock(&own->lock);
    int error = check_offer(own, offer, diagnostic);
    if (error == TARRY_OK)
        error = check_grid(own, offer->rules, diagnostic);
    if (error == TARRY_OK)
        error = check_pins(own, offer, &its, diagnostic);
    if (error == TARRY_OK)
        error = check_plan(own, offer, &its, diagnostic);
    if (error == TARRY_OK)
        error = keep(own, &its, diagnostic);
    pthread_mutex_unlock(&own->lock);
    memory_release(NULL, its.before);
    memory_release(NULL, its.after);
    if (error == TARRY_OK)
        memcpy(target, its.key, sizeof(its.key));
    return error;
}

int tarry_secure_memory_lock(void *memory, const tarry_secure_attempt *attempt,
                             tarry_diagnostic *diagnostic)
{
    tarry_secure_memory *own = memory;
    pins_lock next = {
        .epoch = attempt->epoch,
        .round = attempt->round,
        .attempt = attempt->attempt,
    };
    memcpy(next.job, attempt->job_id, sizeof(next.job));
    memcpy(next.kappa, attempt->kappa, sizeof(next.kappa));
    pthread_mutex_lock(&own->lock);
    int error = pins_advance(own->kept, &next, diagnostic);
    pthread_mutex_unlock(&own->lock);
    return error;
}
