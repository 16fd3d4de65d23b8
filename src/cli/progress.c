/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/clock.h"
#include "cli/numbers.h"

#define REDRAW_SECONDS 0.1

void progress_begin(progress *line, uint64_t total, const char *unit, bool quiet, const char *what)
{
    *line = (progress){.quiet = quiet,
                       .terminal = isatty(STDERR_FILENO) == 1,
                       .unit = unit,
                       .total = total,
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

static void describe(const progress *line, uint64_t done, const char *detail, double now,
                     char *text, size_t size)
{
    double elapsed = now - line->start;
    double rate = elapsed > 0 ? (double)done / elapsed : 0;
    char left[NUMBER_TEXT_SIZE] = "-";
    if (rate > 0)
        seconds_text((double)(line->total - done) / rate, left);
    snprintf(text, size, "%s %" PRIu64 "/%" PRIu64 "  %.3g/s  %s left%s%s", line->unit, done,
             line->total, rate, left, *detail != '\0' ? "  " : "", detail);
}

void progress_update(progress *line, uint64_t done, const char *detail)
{
    if (line->quiet)
        return;
    double now = clock_seconds();
    char text[256];
    if (line->terminal) {
        if (line->drawn && now - line->last < REDRAW_SECONDS && done != line->total)
            return;
        describe(line, done, detail, now, text, sizeof(text));
        /* One column is left free: a full line would make some terminals wrap. */
        fprintf(stderr, "\r%.*s\033[K", (int)terminal_width() - 1, text);
        fflush(stderr);
        line->drawn = true;
        line->last = now;
        return;
    }
    unsigned percent = (unsigned)((double)done * 10 / (double)line->total) * 10;
    if (percent == line->percent && done != line->total)
        return;
    line->percent = percent;
    describe(line, done, detail, now, text, sizeof(text));
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
