/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMAND_TOP_H
#define CLI_COMMAND_TOP_H

#include <stdbool.h>
#include <stddef.h>

#include "protocol/wire/status.h"

/* What is known of a run that is looked at: what its server told last, and how fast rounds go. */

enum { TOP_RUN_STEPS = 9 };

typedef enum top_sort {
    TOP_SORT_TROUBLE, /* those that the run does without first, then by id */
    TOP_SORT_WORKER,  /* by id */
    TOP_SORT_PACE,    /* the slowest first, those of unknown pace last */
    TOP_SORTS,
} top_sort;

typedef struct top_run {
    bool told; /* all below is known */
    status_run status;
    status_worker *worker; /* status.workers of them; see top_run_sort */
    struct {
        uint64_t time_ns, done;
    } steps[TOP_RUN_STEPS]; /* when more rounds were done than before, and how many; the last ones,
                               in order */
    uint32_t step_count;
    uint64_t now_ns; /* when it was told last */
} top_run;           /* zeroed at first */

/* Takes a document of `length` bytes that was told at now_ns. Errors: FORMAT, with a diagnostic (it
 * is not a status of STATUS_VERSION), NO_MEMORY; nothing changes then. */
int top_run_read(top_run *run, const char *text, size_t length, uint64_t now_ns,
                 tarry_diagnostic *diagnostic);
/* Nothing is told for a while: rounds that are done meanwhile say nothing of how fast they go. */
void top_run_pause(top_run *run);

/* Rounds per second, over the last ones since workers were waited for; less if the next is overdue.
 * NAN: not known. */
double top_run_rate(const top_run *run);
/* Sorts the workers. */
void top_run_sort(top_run *run, top_sort sort);

void top_run_free(top_run *run);

/* A run as a picture of text: what is known of it in, lines out. */

typedef struct top_screen {
    unsigned rows; /* 0: as many as it takes, without the line at the bottom */
    unsigned columns;
    bool colour;
    bool blocks; /* bars of block elements, in UTF-8; else of ASCII characters */
    top_sort sort;
} top_screen;

typedef struct top_link {
    const char *address;
    const char *trouble; /* why there is no connection; NULL: there is one, or a first attempt */
    double wait_seconds; /* until the next attempt */
    bool over;           /* the run is */
} top_link;

/* Takes the lines one after the other, each without its end. */
typedef void top_emit(void *user, const char *line);

/* Emits screen->rows lines, or as many as it takes. Sets the order of the run's workers. */
void top_view_draw(top_run *run, const top_link *link, const top_screen *screen, top_emit *emit,
                   void *user);

/*
 * One line of a terminal, written from left to right and cut at its width. What it holds moves no
 * cursor and breaks no line, whatever the texts were: only its own colours are escape sequences.
 */

enum {
    TOP_LINE_COLUMNS = 512, /* widest line */
    TOP_LINE_BYTES = 8192,
};

typedef enum top_style {
    TOP_PLAIN,
    TOP_BOLD,
    TOP_DIM,
    TOP_GREEN,
    TOP_CYAN,
    TOP_YELLOW,
    TOP_RED,
    TOP_STYLES,
} top_style;

typedef struct top_line {
    char text[TOP_LINE_BYTES]; /* always ends with a NUL, and in plain style once it is ended */
    size_t size;
    unsigned columns; /* that are taken */
    unsigned most;
    bool colour;
    bool styled; /* not plain at its end */
} top_line;

/* An empty line of at most `most` columns (or TOP_LINE_COLUMNS); styles are shown with colour. */
void top_line_begin(top_line *line, unsigned most, bool colour);
/* The style of what follows. */
void top_line_style(top_line *line, top_style style);
/*
 * Adds a text of the locale's characters (LC_CTYPE): each byte that is part of none, and each
 * character that is not printable or takes no column of its own, becomes '?'.
 */
void top_line_add(top_line *line, const char *text);
__attribute__((format(printf, 2, 3))) void top_line_print(top_line *line, const char *format, ...);
/* Adds spaces up to `column`, at least `least` of them. */
void top_line_pad(top_line *line, unsigned column, unsigned least);
/* Adds `part` of `whole` (both may be 0, or part beyond it) as a bar of `width` columns, in block
 * elements or ASCII. */
void top_line_bar(top_line *line, unsigned width, double part, double whole, bool blocks);
/* Nothing follows: trailing spaces go, and the style is plain again. */
void top_line_end(top_line *line);

#endif
