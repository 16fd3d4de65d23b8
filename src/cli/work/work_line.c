/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/work/work_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/output/clock.h"
#include "cli/text/numbers.h"
#include "cli/text/terminal.h"

#define REDRAW_SECONDS 0.1

void work_line_begin(work_line *line, bool quiet)
{
    *line = (work_line){.quiet = quiet, .terminal = isatty(STDERR_FILENO) == 1};
    snprintf(line->state, sizeof(line->state), "connecting");
    pthread_mutex_init(&line->lock, NULL);
}

static void draw(work_line *line, const char *text)
{
    /* One column is left free: a full line would make some terminals wrap. */
    fprintf(stderr, "\r%.*s\033[K", (int)terminal_error_columns() - 1, text);
    fflush(stderr);
    line->drawn = true;
    line->last = clock_seconds();
}

static void describe(const tarry_tcp_notice *notice, char *text, size_t size)
{
    char wait[NUMBER_TEXT_SIZE];
    switch (notice->type) {
    case TARRY_TCP_CONNECTED:
        snprintf(text, size, "connected to %s", notice->peer);
        break;
    case TARRY_TCP_LOST:
        snprintf(text, size, "connection ended: %s", notice->text);
        break;
    case TARRY_TCP_WAITING:
        seconds_text((double)notice->waited_ns * 1e-9, wait);
        snprintf(text, size, "%s: %s; tries again in %s", notice->peer, notice->text, wait);
        break;
    case TARRY_TCP_OTHERS:
        snprintf(text, size, "sums with other workers: %s", notice->text);
        break;
    default:
        snprintf(text, size, "%s", notice->text);
        break;
    }
}

/* Shows a state that is new. */
static void show(work_line *line, bool matters)
{
    if (line->terminal)
        draw(line, line->state);
    else if (matters)
        fprintf(stderr, "%s\n", line->state);
}

/* Why there is no connection is told once, however often it is tried. */
static bool is_new(work_line *line, const tarry_tcp_notice *notice)
{
    if (notice->type == TARRY_TCP_CONNECTED)
        line->reason[0] = '\0';
    bool known = notice->type != TARRY_TCP_CONNECTED && strcmp(line->reason, notice->text) == 0;
    if (notice->type == TARRY_TCP_LOST || notice->type == TARRY_TCP_WAITING ||
        notice->type == TARRY_TCP_OTHERS)
        snprintf(line->reason, sizeof(line->reason), "%s", notice->text);
    return !known;
}

void work_line_notice(work_line *line, const tarry_tcp_notice *notice)
{
    if (line->quiet)
        return;
    pthread_mutex_lock(&line->lock);
    describe(notice, line->state, sizeof(line->state));
    show(line, is_new(line, notice));
    pthread_mutex_unlock(&line->lock);
}

void work_line_leave(work_line *line)
{
    if (line->quiet)
        return;
    pthread_mutex_lock(&line->lock);
    line->leaving = true;
    snprintf(line->state, sizeof(line->state), "leaving");
    show(line, true);
    pthread_mutex_unlock(&line->lock);
}

void work_line_update(work_line *line, const tarry_tcp_work *work)
{
    if (line->quiet || !line->terminal)
        return;
    pthread_mutex_lock(&line->lock);
    if (!line->drawn || clock_seconds() - line->last >= REDRAW_SECONDS) {
        char text[384];
        snprintf(text, sizeof(text),
                 "worker %" PRIu32 "  round %" PRIu64 "  %" PRIu64 " chunks  %s", work->worker,
                 work->round, work->chunks, line->state);
        draw(line, text);
    }
    pthread_mutex_unlock(&line->lock);
}

static void tell_end(const work_line *line, const tarry_tcp_work *work)
{
    const char *how = line->leaving ? "left" : "the run is over";
    if (work->worker == TARRY_TCP_NO_WORKER)
        fprintf(stderr, "%s; no server had given an id\n", how);
    else
        fprintf(stderr, "worker %" PRIu32 ": %s; %" PRIu64 " chunks\n", work->worker, how,
                work->chunks);
}

void work_line_end(work_line *line, const tarry_tcp_work *work)
{
    if (line->drawn)
        fprintf(stderr, "\r\033[K");
    line->drawn = false;
    if (work != NULL && !line->quiet)
        tell_end(line, work);
    pthread_mutex_destroy(&line->lock);
}
