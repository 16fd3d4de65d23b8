/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/top_view.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

#include "cli/text/numbers.h"
#include "cli/top/command_top.h"

enum {
    PROGRESS_WIDTH = 16, /* of the run's bar */
    NARROWEST_BAR = 6,
    WIDEST_BAR = 20,
    LEAST_COLUMNS = 60,       /* narrower lines have no bars */
    COLUMNS_OF_ALL_ELSE = 62, /* about: half of what a line has beyond these goes to its bar */
    /* Where the columns end (numbers) or begin (texts) but for the bar's width. */
    END_OF_WORKER = 7,
    AT_STATE = 9,
    AT_BAR = 28,
    WIDTH_DONE = 10,
    WIDTH_PACE = 10,
    WIDTH_CAME = 6,
    WIDTH_RECEIVED = 10,
};

typedef struct picture {
    top_run *run;
    const top_screen *screen;
    top_emit *emit;
    void *user;
    unsigned rows;   /* emitted */
    unsigned bottom; /* rows that are kept for the last line */
    top_line line;   /* that is being written */
} picture;

/* ---- lines ---- */

static top_line *begin(picture *it)
{
    top_line_begin(&it->line, it->screen->columns, it->screen->colour);
    return &it->line;
}

static bool has_room(const picture *it)
{
    return it->screen->rows == 0 || it->rows + it->bottom < it->screen->rows;
}

static void end(picture *it)
{
    top_line_end(&it->line);
    if (!has_room(it))
        return;
    it->emit(it->user, it->line.text);
    it->rows++;
}

static void add_blank(picture *it)
{
    begin(it);
    end(it);
}

/* Adds a text that ends `width` columns behind the line's present end; if there is no room for all
 * of it, nothing follows any more. */
static void add_right(top_line *line, unsigned width, const char *text)
{
    unsigned length = (unsigned)strlen(text);
    if (line->columns + (width > length ? width : length + 1) > line->most)
        line->most = line->columns;
    top_line_pad(line, line->columns + (width > length ? width - length : 0), 1);
    top_line_add(line, text);
}

/* ---- words ---- */

static const struct {
    const char *why;
    top_style style;
    bool lasts; /* the time since it was heard of says how long it has been so */
} states[WIRE_WORKER_STATES] = {
    [WIRE_WORKER_ABSENT] = {"has not come yet", TOP_DIM, false},
    [WIRE_WORKER_RESTING] = {"", TOP_PLAIN, false},
    [WIRE_WORKER_RECEIVING] = {"", TOP_CYAN, false},
    [WIRE_WORKER_COMPUTING] = {"", TOP_GREEN, false},
    [WIRE_WORKER_SENDING] = {"", TOP_CYAN, false},
    [WIRE_WORKER_LATE] = {"the round goes on without it", TOP_YELLOW, false},
    [WIRE_WORKER_SILENT] = {"nothing comes from it", TOP_RED, true},
    [WIRE_WORKER_GONE] = {"its connection ended", TOP_RED, true},
    [WIRE_WORKER_LEFT] = {"took its leave", TOP_DIM, true},
    [WIRE_WORKER_BEHIND] = {"has not the last parameters yet", TOP_YELLOW, false},
    [WIRE_WORKER_SUMMING] = {"", TOP_CYAN, false},
    [WIRE_WORKER_HOLDING] = {"waits until all have the sum", TOP_PLAIN, false},
};

static const char *const sorts[TOP_SORTS] = {
    [TOP_SORT_TROUBLE] = "trouble first",
    [TOP_SORT_WORKER] = "by id",
    [TOP_SORT_PACE] = "slowest first",
};

/* "by trouble", ... */
static const char *top_sort_text(top_sort sort)
{
    return sorts[sort];
}

static void nanoseconds_text(uint64_t time_ns, char text[NUMBER_TEXT_SIZE])
{
    seconds_text((double)time_ns * 1e-9, text);
}

/* ---- the run ---- */

static void add_position(top_line *line, const status_run *status)
{
    char round[NUMBER_TEXT_SIZE], rounds[NUMBER_TEXT_SIZE];
    bool ahead = status->running || status->done == 0;
    whole_text(ahead && status->done < UINT64_MAX ? status->done + 1 : status->done, round);
    whole_text(status->rounds, rounds);
    if (status->waiting) {
        top_line_style(line, TOP_YELLOW);
        top_line_add(line, "waiting for workers");
        top_line_style(line, TOP_PLAIN);
        top_line_add(line, "  ");
    }
    top_line_style(line, TOP_BOLD);
    top_line_print(line, "%s %s",
                   status->running ? "round"
                   : ahead         ? "before round"
                                   : "after round",
                   round);
    if (status->rounds > 0)
        top_line_print(line, " of %s", rounds);
    top_line_style(line, TOP_PLAIN);
}

static void draw_round(picture *it, bool over)
{
    const top_run *run = it->run;
    const status_run *status = &run->status;
    char left[NUMBER_TEXT_SIZE];
    top_line *line = begin(it);
    add_position(line, status);
    double done = (double)status->done, all = (double)status->rounds;
    if (status->rounds > 0 && it->screen->columns >= LEAST_COLUMNS) {
        top_line_add(line, "  ");
        top_line_style(line, TOP_GREEN);
        top_line_bar(line, PROGRESS_WIDTH, done, all, it->screen->blocks);
        top_line_style(line, TOP_PLAIN);
    }
    if (status->rounds > 0)
        top_line_print(line, " %.1f %%", fmin(100 * done / all, 100));
    double rate = status->waiting ? NAN : top_run_rate(run);
    if (rate > 0)
        top_line_print(line, "  %.3g rounds/s", rate);
    if (rate > 0 && all > done && !over) {
        seconds_text((all - done) / rate, left);
        top_line_print(line, "  %s left", left);
    }
    end(it);
}

/* The last sum that workers made. */
static void draw_sum(picture *it)
{
    const status_sum *sum = &it->run->status.sum;
    char step[NUMBER_TEXT_SIZE];
    if (sum->step == 0)
        return;
    whole_text(sum->step, step);
    top_line *line = begin(it);
    top_line_print(line, "last sum: step %s by %" PRIu32 " worker%s   attempts %" PRIu32, step,
                   sum->voters, sum->voters == 1 ? "" : "s", sum->tries);
    if (sum->fetches > 0)
        top_line_print(line, "   fetched by %" PRIu32, sum->fetches);
    if (sum->term > 1)
        top_line_print(line, "   term %" PRIu32, sum->term);
    end(it);
}

static void draw_figures(picture *it)
{
    const status_run *status = &it->run->status;
    char text[NUMBER_TEXT_SIZE];
    top_line *line = begin(it);
    if (status->running) {
        nanoseconds_text(status->elapsed_ns, text);
        top_line_print(line, "this round %s   attempts %" PRIu32 "   ", text, status->attempts);
    }
    if (status->median_ns > 0) {
        nanoseconds_text(status->median_ns, text);
        top_line_print(line, "median %s   ", text);
    }
    whole_text(status->exact, text);
    top_line_print(line, "exact rounds %s", text);
    end(it);
    draw_sum(it);
    if (status->note[0] == '\0')
        return;
    line = begin(it);
    top_line_add(line, status->note);
    end(it);
}

static uint64_t all_workers(const status_run *run)
{
    uint64_t workers = run->workers;
    for (int state = 0; state < WIRE_WORKER_STATES; state++)
        workers += run->others[state];
    return workers;
}

/* ": 1 gone, 5 computing", of workers from the first-th on and those that are not listed: first
 * what a narrow line must not cut. */
static void add_states(picture *it, top_line *line, uint32_t first)
{
    const top_run *run = it->run;
    uint64_t counts[WIRE_WORKER_STATES];
    for (int state = 0; state < WIRE_WORKER_STATES; state++)
        counts[state] = run->status.others[state];
    for (uint32_t i = first; i < run->status.workers; i++)
        counts[run->worker[i].state]++;
    const char *between = ": ";
    for (int state = WIRE_WORKER_STATES - 1; state >= 0; state--) {
        if (counts[state] == 0)
            continue;
        top_line_add(line, between);
        top_line_style(line, states[state].style);
        top_line_print(line, "%" PRIu64 " %s", counts[state], status_states[state]);
        top_line_style(line, TOP_PLAIN);
        between = ", ";
    }
}

static void draw_summary(picture *it)
{
    uint64_t workers = all_workers(&it->run->status);
    top_line *line = begin(it);
    top_line_print(line, "%" PRIu64 " worker%s", workers, workers == 1 ? "" : "s");
    add_states(it, line, 0);
    end(it);
}

/* ---- the workers ---- */

static unsigned bar_width(const top_screen *screen)
{
    if (screen->columns < LEAST_COLUMNS)
        return 0;
    if (screen->columns < COLUMNS_OF_ALL_ELSE + 2 * NARROWEST_BAR)
        return NARROWEST_BAR;
    unsigned width = (screen->columns - COLUMNS_OF_ALL_ELSE) / 2;
    return width < WIDEST_BAR ? width : WIDEST_BAR;
}

static void draw_titles(picture *it)
{
    top_line *line = begin(it);
    top_line_style(line, TOP_DIM);
    add_right(line, END_OF_WORKER, "WORKER");
    top_line_pad(line, AT_STATE, 1);
    top_line_add(line, "STATE");
    top_line_pad(line, AT_BAR, 1);
    if (bar_width(it->screen) > 0)
        top_line_add(line, "CHUNKS");
    top_line_pad(line, AT_BAR + bar_width(it->screen), 0);
    add_right(line, WIDTH_DONE, "DONE");
    add_right(line, WIDTH_PACE, "PACE");
    add_right(line, WIDTH_CAME, "CAME");
    add_right(line, WIDTH_RECEIVED, "RECEIVED");
    end(it);
}

static void add_state(top_line *line, const status_worker *worker)
{
    char time[NUMBER_TEXT_SIZE];
    top_line_style(line, states[worker->state].style);
    top_line_add(line, status_states[worker->state]);
    if (states[worker->state].lasts && worker->heard_ns > 0) {
        nanoseconds_text(worker->heard_ns, time);
        top_line_print(line, " %s", time);
    }
    top_line_style(line, TOP_PLAIN);
}

static void draw_worker(picture *it, const status_worker *worker)
{
    char text[NUMBER_TEXT_SIZE];
    top_line *line = begin(it);
    snprintf(text, sizeof(text), "%" PRIu32, worker->id);
    add_right(line, END_OF_WORKER, text);
    top_line_pad(line, AT_STATE, 1);
    add_state(line, worker);
    top_line_pad(line, AT_BAR, 1);
    top_line_style(line, states[worker->state].style);
    top_line_bar(line, bar_width(it->screen), worker->finished, worker->load, it->screen->blocks);
    top_line_style(line, TOP_PLAIN);
    snprintf(text, sizeof(text), "%" PRIu32 "/%" PRIu32, worker->finished, worker->load);
    add_right(line, WIDTH_DONE, text);
    if (worker->pace_ns > 0)
        nanoseconds_text(worker->pace_ns, text);
    add_right(line, WIDTH_PACE, worker->pace_ns > 0 ? text : "-");
    snprintf(text, sizeof(text), "%" PRIu32, worker->arrivals);
    add_right(line, WIDTH_CAME, text);
    bytes_text((double)worker->received, text);
    add_right(line, WIDTH_RECEIVED, text);
    if (worker->rack[0] != '\0' && line->columns + 2 + strlen(worker->rack) <= line->most)
        top_line_print(line, "  %s", worker->rack);
    const char *why = states[worker->state].why;
    if (why[0] != '\0' && line->columns + 2 + strlen(why) <= line->most) {
        top_line_style(line, TOP_DIM);
        top_line_print(line, "  %s", why);
    }
    end(it);
}

/* As many as there is room for; one line speaks for the rest. */
static void draw_workers(picture *it, unsigned room)
{
    uint64_t workers = all_workers(&it->run->status);
    uint32_t shown = it->run->status.workers;
    if (it->screen->rows > 0 && workers > room) {
        unsigned most = room > 0 ? room - 1 : 0;
        shown = shown < most ? shown : most;
    }
    for (uint32_t i = 0; i < shown; i++)
        draw_worker(it, &it->run->worker[i]);
    if (shown == workers)
        return;
    top_line *line = begin(it);
    top_line_print(line, "%10s %" PRIu64 " more", "and", workers - shown);
    add_states(it, line, shown);
    end(it);
}

/* ---- the whole ---- */

static void draw_bottom(picture *it, const top_link *link)
{
    top_line *line = begin(it);
    if (link->trouble != NULL) {
        top_line_style(line, TOP_RED);
        top_line_print(line, "no connection: %s; again in %.0f s", link->trouble,
                       ceil(fmax(link->wait_seconds, 0)));
    } else {
        top_line_style(line, TOP_DIM);
        top_line_print(line, "q quit   s sort (%s)", top_sort_text(it->screen->sort));
    }
    end(it);
}

static void draw_run(picture *it, bool over)
{
    draw_round(it, over);
    draw_figures(it);
    draw_summary(it);
    add_blank(it);
    draw_titles(it);
    unsigned used = it->rows + it->bottom;
    draw_workers(it, it->screen->rows > used ? it->screen->rows - used : 0);
}

void top_view_draw(top_run *run, const top_link *link, const top_screen *screen, top_emit *emit,
                   void *user)
{
    picture it = {.run = run, .screen = screen, .emit = emit, .user = user};
    it.bottom = screen->rows > 1 ? 1 : 0;
    top_line *line = begin(&it);
    top_line_style(line, TOP_BOLD);
    top_line_add(line, "tarry top");
    top_line_style(line, TOP_PLAIN);
    top_line_print(line, "  %s", link->address);
    end(&it);
    top_run_sort(run, screen->sort);
    if (run->told) {
        draw_run(&it, link->over);
    } else {
        line = begin(&it);
        top_line_add(line, "no word from the server yet");
        end(&it);
    }
    if (it.bottom == 0)
        return;
    while (has_room(&it))
        add_blank(&it);
    it.bottom = 0;
    draw_bottom(&it, link);
}

/* ---- line ---- */

static const char *const codes[TOP_STYLES] = {
    [TOP_PLAIN] = "\x1b[0m",  [TOP_BOLD] = "\x1b[1m",  [TOP_DIM] = "\x1b[2m",
    [TOP_GREEN] = "\x1b[32m", [TOP_CYAN] = "\x1b[36m", [TOP_YELLOW] = "\x1b[33m",
    [TOP_RED] = "\x1b[31m",
};

enum { CODE_BYTES = 8 }; /* of the longest of them, with room to spare */

void top_line_begin(top_line *line, unsigned most, bool colour)
{
    line->text[0] = '\0';
    line->size = 0;
    line->columns = 0;
    line->most = most < TOP_LINE_COLUMNS ? most : TOP_LINE_COLUMNS;
    line->colour = colour;
    line->styled = false;
}

/* The room for the last change of style, which top_line_end makes, is never used up. */
static bool put(top_line *line, const char *bytes, size_t size, size_t reserved)
{
    if (line->size + size + reserved >= sizeof(line->text))
        return false;
    memcpy(line->text + line->size, bytes, size);
    line->size += size;
    line->text[line->size] = '\0';
    return true;
}

void top_line_style(top_line *line, top_style style)
{
    if (!line->colour)
        return;
    if (line->styled)
        line->styled = !put(line, codes[TOP_PLAIN], strlen(codes[TOP_PLAIN]), CODE_BYTES);
    if (style != TOP_PLAIN)
        line->styled = put(line, codes[style], strlen(codes[style]), CODE_BYTES) || line->styled;
}

static void put_character(top_line *line, const char *bytes, size_t size, unsigned columns)
{
    if (line->columns + columns <= line->most && put(line, bytes, size, CODE_BYTES))
        line->columns += columns;
    else
        line->most = line->columns; /* nothing narrower goes in its place */
}

void top_line_add(top_line *line, const char *text)
{
    mbstate_t state;
    memset(&state, 0, sizeof(state));
    size_t left = strlen(text);
    while (left > 0) {
        wchar_t character;
        size_t size = mbrtowc(&character, text, left, &state);
        bool sound = size > 0 && size <= left; /* neither of the two error values */
        int columns = sound && iswprint((wint_t)character) ? wcwidth(character) : -1;
        if (!sound) {
            memset(&state, 0, sizeof(state));
            size = 1;
        }
        if (columns >= 1)
            put_character(line, text, size, (unsigned)columns);
        else
            put_character(line, "?", 1, 1);
        text += size;
        left -= size;
    }
}

void top_line_print(top_line *line, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    top_line_add(line, text);
}

void top_line_pad(top_line *line, unsigned column, unsigned least)
{
    for (unsigned i = 0; line->columns < line->most && (i < least || line->columns < column); i++)
        put_character(line, " ", 1, 1);
}

void top_line_bar(top_line *line, unsigned width, double part, double whole, bool blocks)
{
    static const char full_block[] = "\u2588", empty_block[] = "\u2591";
    double share = whole > 0 ? part / whole : 0;
    unsigned full = share >= 1 ? width : (unsigned)(share * width);
    for (unsigned i = 0; i < width; i++) {
        bool done = i < full;
        if (blocks)
            put_character(line, done ? full_block : empty_block, sizeof(full_block) - 1, 1);
        else
            put_character(line, done ? "#" : ".", 1, 1);
    }
}

void top_line_end(top_line *line)
{
    if (line->styled) {
        put(line, codes[TOP_PLAIN], strlen(codes[TOP_PLAIN]), 0);
        line->styled = false;
        return;
    }
    while (line->size > 0 && line->text[line->size - 1] == ' ')
        line->size--;
    line->text[line->size] = '\0';
}
