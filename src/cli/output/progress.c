/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/output/clock.h"
#include "cli/text/numbers.h"
#include "cli/text/terminal.h"

#define REDRAW_SECONDS 0.1

void progress_begin(progress *line, uint64_t done, uint64_t total, const char *unit, bool quiet,
                    const char *what)
{
    *line = (progress){
        .quiet = quiet, .terminal = isatty(STDERR_FILENO) == 1, .unit = unit, .total = total};
    rate_begin(&line->rate, done, clock_seconds());
    if (!quiet && !line->terminal)
        fprintf(stderr, "%s\n", what);
}

void progress_pass_over(progress *line, double seconds)
{
    rate_pass_over(&line->rate, seconds);
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
    double per_second = rate_look(&line->rate, done, now);
    char text[256];
    if (line->terminal) {
        if (line->drawn && now - line->last < REDRAW_SECONDS && done != line->total)
            return;
        describe(line, done, detail, per_second, text, sizeof(text));
        /* One column is left free: a full line would make some terminals wrap. */
        fprintf(stderr, "\r%.*s\033[K", (int)terminal_error_columns() - 1, text);
        fflush(stderr);
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
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
        line->drawn = false;
    }
}
