/* SPDX-License-Identifier: Apache-2.0 */
/* A run as a picture of text: what is known of it in, lines out. */
#ifndef CLI_TOP_VIEW_H
#define CLI_TOP_VIEW_H

#include "cli/top/top_run.h"

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

/* "by trouble", ... */
const char *top_sort_text(top_sort sort);

#endif
