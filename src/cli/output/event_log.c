/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/event_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <tarry/tcp.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/output/clock.h"
#include "cli/text/numbers.h"

struct event_log {
    int file;
    bool failed;
    bool torn; /* the last line was written in part: for want of room, or by who was killed */
    pthread_mutex_t lock;
};

static bool ends_within_a_line(const char *path)
{
    struct stat status;
    char last = '\n';
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return false;
    bool read = fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
                pread(file, &last, 1, status.st_size - 1) == 1;
    close(file);
    return read && last != '\n';
}

int event_log_open(const char *path, event_log **out, tarry_diagnostic *diagnostic)
{
    event_log *log = memory_allocate(NULL, 1, sizeof(*log));
    if (log == NULL)
        return diagnose_no_memory(diagnostic, path);
    log->file = strcmp(path, "-") == 0
                    ? STDERR_FILENO
                    : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (log->file < 0) {
        int error = errno;
        memory_release(NULL, log);
        return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: cannot be written: %s", path,
                        strerror(error));
    }
    log->torn = log->file != STDERR_FILENO && ends_within_a_line(path);
    pthread_mutex_init(&log->lock, NULL);
    *out = log;
    return TARRY_OK;
}

bool event_log_close(event_log *log)
{
    if (log == NULL)
        return true;
    bool well = !log->failed;
    if (log->file != STDERR_FILENO)
        well = close(log->file) == 0 && well;
    pthread_mutex_destroy(&log->lock);
    memory_release(NULL, log);
    return well;
}

/* "2026-02-28T23:59:59.123Z" */
static void time_text(char *text, size_t size)
{
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t used = strftime(text, size, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + used, size - used, ".%03dZ", (int)(now.tv_nsec / 1000000));
}

/* Gives back how many bytes were written. */
static size_t put(const event_log *log, const char *bytes, size_t length)
{
    size_t done = 0;
    while (done < length) {
        ssize_t wrote = write(log->file, bytes + done, length - done);
        if (wrote < 0 && errno != EINTR)
            break;
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    return done;
}

/* One write per line, so that those of several processes in one file don't mix. */
static void write_line(event_log *log, char *line, size_t length)
{
    line[length++] = '\n';
    pthread_mutex_lock(&log->lock);
    if (log->torn)
        log->torn = put(log, "\n", 1) == 0;
    size_t done = log->torn ? 0 : put(log, line, length);
    log->failed = log->failed || done < length;
    log->torn = log->torn || (done > 0 && done < length);
    pthread_mutex_unlock(&log->lock);
}

void event_log_add(event_log *log, const char *event, json_t *fields)
{
    char now[64];
    time_text(now, sizeof(now));
    json_t *entry = log != NULL ? json_pack("{s:s, s:s}", "time", now, "event", event) : NULL;
    if (entry == NULL) {
        json_decref(fields);
        return;
    }
    const char *name;
    json_t *value;
    json_object_foreach(fields, name, value)
    {
        if (!json_is_null(value))
            json_object_set(entry, name, value);
    }
    json_decref(fields);
    /* The line's end takes the place of the text's. */
    char *line = json_dumps(entry, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(entry);
    if (line != NULL)
        write_line(log, line, strlen(line));
    free(line);
}

/* "gone", "silent", "late", "failed" or "differs". */
static const char *absence_name(tarry_absence absence)
{
    switch (absence) {
    case TARRY_ABSENT_GONE:
        return "gone";
    case TARRY_ABSENT_SILENT:
        return "silent";
    case TARRY_ABSENT_LATE:
        return "late";
    case TARRY_ABSENT_FAILED:
        return "failed";
    case TARRY_ABSENT_DIFFERS:
        return "differs";
    }
    return "unknown";
}

static const char *const arrival_names[] = {
    [TARRY_ARRIVAL_FIRST] = "first",
    [TARRY_ARRIVAL_AGAIN] = "again",
    [TARRY_ARRIVAL_RESTARTED] = "restarted",
};

static const char *const names[] = {
    [TARRY_TCP_LISTENING] = "listening",
    [TARRY_TCP_JOINED] = "joined",
    [TARRY_TCP_LEFT_OUT] = "left_out",
    [TARRY_TCP_LEFT] = "left",
    [TARRY_TCP_REFUSED] = "refused",
    [TARRY_TCP_SIGNAL] = "signal",
    [TARRY_TCP_ROUND] = "round",
    [TARRY_TCP_CONNECTED] = "connected",
    [TARRY_TCP_LOST] = "lost",
    [TARRY_TCP_WAITING] = "waiting",
    [TARRY_TCP_OTHERS] = "others",
    [TARRY_TCP_REVOCATION] = "revocation",
    [TARRY_TCP_FETCH] = "fetch",
    [TARRY_TCP_LOAD] = "load",
    [TARRY_TCP_SUM_FAILED] = "sum_failed",
};

static json_t *milliseconds(uint64_t ns)
{
    return ns == TARRY_NEVER ? json_null() : json_real((double)ns * 1e-6);
}

/* Its name, and its digest if it is known. */
static json_t *sum_id_json(const tarry_sum_id *sum)
{
    json_t *named = json_pack("{s:I, s:I, s:I}", "step", (json_int_t)sum->step, "term",
                              (json_int_t)sum->term, "attempt", (json_int_t)sum->attempt);
    if (sum->digest != 0)
        json_object_set_new(named, "digest", json_fingerprint(sum->digest));
    return named;
}

json_t *sum_json(const tarry_round_result *result)
{
    if (result->sum.step == 0)
        return json_null();
    json_t *sum = sum_id_json(&result->sum);
    json_object_set_new(sum, "voters", json_integer((json_int_t)result->voters));
    json_object_set_new(sum, "fetches", json_integer((json_int_t)result->fetches));
    return sum;
}

static void add_result(json_t *fields, const tarry_round_result *result)
{
    json_t *figures = json_pack(
        "{s:o, s:o, s:b, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "took_ms",
        milliseconds(result->end_ns - result->start_ns), "signal_ms",
        milliseconds(result->signal_ns == TARRY_NEVER ? TARRY_NEVER
                                                      : result->signal_ns - result->start_ns),
        "exact", result->exact, "expected_error", number_json(result->expected_error), "attempts",
        (json_int_t)result->attempts, "parts", (json_int_t)result->parts, "copies_computed",
        (json_int_t)result->copies_computed, "workers_heard", (json_int_t)result->workers_heard,
        "workers_lost", (json_int_t)result->workers_lost, "upload_bytes",
        (json_int_t)result->upload_bytes, "control_bytes", (json_int_t)result->control_bytes);
    json_object_update(fields, figures);
    json_decref(figures);
    json_object_set_new(fields, "sum", sum_json(result));
    if (result->error != TARRY_OK)
        json_object_set_new(fields, "error", json_string(tarry_error_text(result->error)));
}

static json_t *text_or_null(const char *text)
{
    return json_text(text != NULL && *text != '\0' ? text : NULL);
}

void event_log_notice(event_log *log, const tarry_tcp_notice *notice)
{
    if (log == NULL)
        return;
    tarry_tcp_notice_type type = notice->type;
    bool in_round = type == TARRY_TCP_LEFT_OUT || type == TARRY_TCP_SIGNAL ||
                    type == TARRY_TCP_ROUND || type == TARRY_TCP_JOINED || notice->sum != NULL;
    json_t *fields = json_object();
    if (in_round)
        json_object_set_new(fields, "round", json_integer((json_int_t)notice->round));
    if (notice->worker != TARRY_TCP_NO_WORKER)
        json_object_set_new(fields, "worker", json_integer((json_int_t)notice->worker));
    if (type == TARRY_TCP_SIGNAL)
        json_object_set_new(fields, "attempt", json_integer((json_int_t)notice->attempt));
    if (notice->sum != NULL) {
        json_object_set_new(fields, "sum", sum_id_json(notice->sum));
        if (notice->from != TARRY_TCP_NO_WORKER)
            json_object_set_new(fields, type == TARRY_TCP_SUM_FAILED ? "suspect" : "from",
                                json_integer((json_int_t)notice->from));
    }
    if (type == TARRY_TCP_LEFT_OUT) {
        json_object_set_new(fields, "reason", json_string(absence_name(notice->absence)));
        json_object_set_new(fields, "limit_ms", milliseconds(notice->limit_ns));
    }
    if (type == TARRY_TCP_LEFT_OUT || type == TARRY_TCP_WAITING)
        json_object_set_new(fields, "waited_ms", milliseconds(notice->waited_ns));
    if (type == TARRY_TCP_JOINED) {
        json_object_set_new(fields, "rack", text_or_null(notice->rack));
        json_object_set_new(fields, "numerics", json_fingerprint(notice->numerics));
    }
    json_object_set_new(fields, "peer", text_or_null(notice->peer));
    json_object_set_new(
        fields, "text",
        text_or_null(type == TARRY_TCP_JOINED ? arrival_names[notice->arrival] : notice->text));
    if (type == TARRY_TCP_ROUND && notice->result != NULL)
        add_result(fields, notice->result);
    event_log_add(log, names[type], fields);
}

/* ---- progress ---- */

#define REDRAW_SECONDS 0.1

void progress_begin(progress *line, uint64_t done, uint64_t total, const char *unit, bool quiet,
                    const char *what)
{
    *line = (progress){
        .quiet = quiet,
        .terminal = isatty(STDERR_FILENO) == 1,
        .unit = unit,
        .total = total,
        .before = done,
        .begin = clock_seconds(),
    };
    if (!quiet && !line->terminal)
        fprintf(stderr, "%s\n", what);
}

void progress_pass_over(progress *line, double seconds)
{
    line->begin += seconds;
}

void terminal_line_draw(const char *text)
{
    struct winsize size;
    bool told = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    /* One column is left free: a full line would make some terminals wrap. */
    fprintf(stderr, "\r%.*s\033[K", (told ? size.ws_col : 80) - 1, text);
    fflush(stderr);
}

void terminal_line_remove(void)
{
    fprintf(stderr, "\r\033[K");
    fflush(stderr);
}

static void describe(const progress *line, uint64_t done, const char *detail, double per_second,
                     char *text, size_t size)
{
    char left[NUMBER_TEXT_SIZE] = "-";
    if (per_second > 0)
        seconds_text((double)(line->total - done) / per_second, left);
    snprintf(text, size, "%s %" PRIu64 "/%" PRIu64 "  %.3g/s  %s left%s%s", line->unit, done,
             line->total, per_second, left, *detail != '\0' ? "  " : "", detail);
}

void progress_update(progress *line, uint64_t done, const char *detail)
{
    if (line->quiet)
        return;
    double now = clock_seconds();
    double per_second = now > line->begin ? (double)(done - line->before) / (now - line->begin) : 0;
    char text[256];
    if (line->terminal) {
        if (line->drawn && now - line->last < REDRAW_SECONDS && done != line->total)
            return;
        describe(line, done, detail, per_second, text, sizeof(text));
        terminal_line_draw(text);
        line->drawn = true;
        line->last = now;
        return;
    }
    unsigned percent = (unsigned)((double)done * 10 / (double)line->total) * 10;
    if (percent == line->percent && done != line->total)
        return;
    line->percent = percent;
    describe(line, done, detail, per_second, text, sizeof(text));
    fprintf(stderr, "%s\n", text);
}

void progress_end(progress *line)
{
    if (line->drawn) {
        terminal_line_remove();
        line->drawn = false;
    }
}
