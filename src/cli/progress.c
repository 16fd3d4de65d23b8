/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/numbers.h"

#define REDRAW_SECONDS 0.1

double clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void progress_begin(progress *line, uint64_t rounds, bool quiet, const char *what)
{
    *line = (progress){.quiet = quiet,
                       .terminal = isatty(STDERR_FILENO) == 1,
                       .rounds = rounds,
                       .start = clock_seconds()};
    if (!quiet && !line->terminal)
        fprintf(stderr, "%s\n", what);
}

static size_t terminal_width(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return 80;
    return size.ws_col;
}

static void describe(const progress *line, const progress_state *state, double now, char *text,
                     size_t size)
{
    double elapsed = now - line->start;
    double rate = elapsed > 0 ? (double)state->round / elapsed : 0;
    char left[NUMBER_TEXT_SIZE] = "-";
    if (rate > 0)
        seconds_text((double)(line->rounds - state->round) / rate, left);
    snprintf(text, size,
             "round %" PRIu64 "/%" PRIu64 "  loss %.5g  %.3g/s  %s left  %.2f copies/chunk  "
             "%u/%u heard",
             state->round, line->rounds, state->loss, rate, left, state->copies,
             state->workers_heard, state->workers);
}

void progress_round(progress *line, const progress_state *state)
{
    if (line->quiet)
        return;
    double now = clock_seconds();
    char text[256];
    if (line->terminal) {
        if (line->drawn && now - line->last < REDRAW_SECONDS && state->round != line->rounds)
            return;
        describe(line, state, now, text, sizeof(text));
        /* One column is left free: a full line would make some terminals wrap. */
        fprintf(stderr, "\r%.*s\033[K", (int)terminal_width() - 1, text);
        fflush(stderr);
        line->drawn = true;
        line->last = now;
        return;
    }
    unsigned percent = (unsigned)((double)state->round * 10 / (double)line->rounds) * 10;
    if (percent == line->percent && state->round != line->rounds)
        return;
    line->percent = percent;
    describe(line, state, now, text, sizeof(text));
    fprintf(stderr, "%s\n", text);
}

void progress_end(progress *line)
{
    if (line->drawn) {
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
        line->drawn = false;
    }
}
