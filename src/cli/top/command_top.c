/* SPDX-License-Identifier: Apache-2.0 */
/* tarry top: how a run on other machines stands. */
#include "cli/top/command_top.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

#include <tarry/tcp.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/options/network_options.h"
#include "cli/options/options.h"
#include "cli/output/clock.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "runtime/tcp/net/address.h"
#include "runtime/tcp/viewer/viewer.h"

/* ---- top run ---- */

static void add_step(top_run *run, uint64_t done, uint64_t now_ns)
{
    uint32_t count = run->step_count;
    if (count > 0 && done == run->steps[count - 1].done)
        return;
    /* A server that was started anew goes on from its last checkpoint. */
    if (count > 0 && done < run->steps[count - 1].done)
        count = 0;
    if (count == TOP_RUN_STEPS) {
        memmove(run->steps, run->steps + 1, (TOP_RUN_STEPS - 1) * sizeof(run->steps[0]));
        count--;
    }
    run->steps[count].time_ns = now_ns;
    run->steps[count].done = done;
    run->step_count = count + 1;
}

void top_run_pause(top_run *run)
{
    run->step_count = 0;
}

static int read_workers(const json_t *list, status_worker *workers, tarry_diagnostic *diagnostic)
{
    int error = TARRY_OK;
    size_t i;
    json_t *object;
    json_array_foreach(list, i, object)
    {
        error = record_read(status_worker_table, object, "workers.", &workers[i], diagnostic);
        if (error == TARRY_OK && workers[i].id != i)
            error = diagnose(diagnostic, TARRY_ERROR_FORMAT, "workers are out of order");
        if (error != TARRY_OK)
            break;
    }
    return error;
}

/* All but the workers. Errors: FORMAT. */
static int read_run(const json_t *document, status_run *run, tarry_diagnostic *diagnostic)
{
    const json_t *sum = json_object_get(document, "sum");
    const json_t *others = json_object_get(document, "unlisted");
    const json_t *workers = json_object_get(document, "workers");
    if (json_integer_value(json_object_get(document, "version")) != STATUS_VERSION || sum == NULL ||
        !json_is_array(workers) || json_array_size(workers) > UINT32_MAX)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "this is not a status of version %d",
                        STATUS_VERSION);
    int error =
        record_read(status_run_table, json_object_get(document, "run"), "run.", run, diagnostic);
    if (error == TARRY_OK && !json_is_null(sum))
        error = record_read(status_sum_table, sum, "sum.", &run->sum, diagnostic);
    run->workers = (uint32_t)json_array_size(workers);
    for (int state = 0; state < WIRE_WORKER_STATES; state++)
        run->others[state] =
            (uint32_t)json_integer_value(json_object_get(others, status_states[state]));
    return error;
}

int top_run_read(top_run *run, const char *text, size_t length, uint64_t now_ns,
                 tarry_diagnostic *diagnostic)
{
    status_run status = {.done = 0};
    status_worker *workers = NULL;
    json_t *document = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    int error = read_run(document, &status, diagnostic);
    if (error != TARRY_OK)
        goto release;
    error = TARRY_ERROR_NO_MEMORY;
    workers = memory_allocate(NULL, (size_t)status.workers + 1, sizeof(*workers));
    if (workers == NULL)
        goto release;
    error = read_workers(json_object_get(document, "workers"), workers, diagnostic);
    if (error != TARRY_OK)
        goto release;
    memory_release(NULL, run->worker);
    run->worker = workers;
    workers = NULL;
    run->told = true;
    run->status = status;
    run->now_ns = now_ns;
    if (status.waiting)
        top_run_pause(run);
    add_step(run, status.done, now_ns);
release:
    memory_release(NULL, workers);
    json_decref(document);
    return error;
}

double top_run_rate(const top_run *run)
{
    if (run->step_count >= 2) {
        uint32_t last = run->step_count - 1;
        double rounds = (double)(run->steps[last].done - run->steps[0].done);
        double time_ns = (double)(run->steps[last].time_ns - run->steps[0].time_ns);
        double since_ns = (double)(run->now_ns - run->steps[last].time_ns);
        if (time_ns > 0)
            return rounds * 1e9 / (time_ns + fmax(since_ns - time_ns / rounds, 0));
    }
    return run->status.median_ns > 0 ? 1e9 / (double)run->status.median_ns : NAN;
}

static int trouble_of(const status_worker *worker)
{
    static const int ranks[WIRE_WORKER_STATES] = {
        [WIRE_WORKER_SILENT] = -6, [WIRE_WORKER_GONE] = -5, [WIRE_WORKER_LATE] = -4,
        [WIRE_WORKER_BEHIND] = -3, [WIRE_WORKER_LEFT] = -2, [WIRE_WORKER_ABSENT] = -1,
    };
    return ranks[worker->state];
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_id(const void *a, const void *b)
{
    const status_worker *one = a, *other = b;
    return compare(one->id, other->id);
}

static int by_trouble(const void *a, const void *b)
{
    int rank = trouble_of(a) - trouble_of(b);
    return rank != 0 ? rank : by_id(a, b);
}

static int by_pace(const void *a, const void *b)
{
    const status_worker *one = a, *other = b;
    int slower = compare(other->pace_ns, one->pace_ns);
    return slower != 0 ? slower : by_id(a, b);
}

void top_run_sort(top_run *run, top_sort sort)
{
    static int (*const orders[TOP_SORTS])(const void *, const void *) = {
        [TOP_SORT_TROUBLE] = by_trouble,
        [TOP_SORT_WORKER] = by_id,
        [TOP_SORT_PACE] = by_pace,
    };
    if (run->status.workers > 0)
        qsort(run->worker, run->status.workers, sizeof(*run->worker), orders[sort]);
}

void top_run_free(top_run *run)
{
    memory_release(NULL, run->worker);
    *run = (top_run){.told = false};
}

/* ---- view: the run as lines of text ---- */

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

/* ---- view: words ---- */

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

/* ---- view: the run ---- */

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

/* ---- view: the workers ---- */

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

/* ---- view: the whole ---- */

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

/* ---- view: a line ---- */

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
static bool line_put(top_line *line, const char *bytes, size_t size, size_t reserved)
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
        line->styled = !line_put(line, codes[TOP_PLAIN], strlen(codes[TOP_PLAIN]), CODE_BYTES);
    if (style != TOP_PLAIN)
        line->styled =
            line_put(line, codes[style], strlen(codes[style]), CODE_BYTES) || line->styled;
}

static void put_character(top_line *line, const char *bytes, size_t size, unsigned columns)
{
    if (line->columns + columns <= line->most && line_put(line, bytes, size, CODE_BYTES))
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
        line_put(line, codes[TOP_PLAIN], strlen(codes[TOP_PLAIN]), 0);
        line->styled = false;
        return;
    }
    while (line->size > 0 && line->text[line->size - 1] == ' ')
        line->size--;
    line->text[line->size] = '\0';
}

/* ---- the terminal ---- */

/* The terminal that standard output and, for keys, standard input are, as a full-screen program
 * uses it. */

typedef struct terminal {
    bool has_keys; /* standard input is a terminal: keys come one by one, without echo */
    struct termios before;
} terminal;

enum { ROWS = 24, COLUMNS = 80 };

/* Second screen, no cursor, no wrapping; and back. Every terminal of our days knows these. */
static const char enter_code[] = "\x1b[?1049h\x1b[?25l\x1b[?7l";
static const char leave_code[] = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

/* Whether standard output is a terminal that knows of cursors. */
static bool terminal_is_there(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDOUT_FILENO) == 1 && kind != NULL && strcmp(kind, "dumb") != 0;
}

/* Whether it is to be coloured: it is there, and NO_COLOR (no-color.org) does not forbid it. */
static bool terminal_wants_colour(void)
{
    const char *without = getenv("NO_COLOR");
    return terminal_is_there() && (without == NULL || without[0] == '\0');
}

/* Whether the locale's characters are UTF-8; call setlocale before. */
static bool terminal_is_utf8(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* Rows and columns; 24 and 80 if it does not say. False, and nothing is set: standard output is no
 * terminal. */
static bool terminal_size(unsigned *rows, unsigned *columns)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        return false;
    *rows = size.ws_row > 0 ? size.ws_row : ROWS;
    *columns = size.ws_col > 0 ? size.ws_col : COLUMNS;
    return true;
}

/* Remembers how the terminal is set. To be called once, before the others. */
static void terminal_begin(terminal *self)
{
    self->has_keys = isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &self->before) == 0;
}

/* Writes all of it. False: the terminal is gone. */
static bool terminal_write(const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t written = write(STDOUT_FILENO, bytes, size);
        if (written >= 0) {
            bytes += written;
            size -= (size_t)written;
        } else if (errno == EAGAIN) {
            /* Somebody else who shares the terminal made it so. */
            struct pollfd wait = {.fd = STDOUT_FILENO, .events = POLLOUT};
            poll(&wait, 1, -1);
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* Turns to the second screen, without a cursor, and to single keys. */
static void terminal_enter(const terminal *self)
{
    if (self->has_keys) {
        struct termios now = self->before;
        now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        now.c_cc[VMIN] = 1;
        now.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSANOW, &now);
    }
    terminal_write(enter_code, strlen(enter_code));
}

/* Turns back, and to the settings from before: the terminal looks as if nothing had been. */
static void terminal_leave(const terminal *self)
{
    terminal_write(leave_code, strlen(leave_code));
    if (self->has_keys)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &self->before);
}

/* ---- live ---- */

enum { SIGNALS = 7, MOST_ROWS = 512, FILE_COLUMNS = 120 };

typedef struct top_options {
    const char *connect;
    tarry_tcp_security security;
    bool once, json;
    double interval; /* seconds between two pictures */
} top_options;

typedef struct live live;

/* What goes to the terminal in one piece. */
typedef struct frame {
    char bytes[MOST_ROWS * (TOP_LINE_BYTES / 8)];
    size_t size;
    unsigned rows;
} frame;

struct live {
    const top_options *options;
    uv_loop_t loop;
    uv_timer_t timer;
    uv_poll_t keys;
    uv_signal_t signals[SIGNALS];
    terminal terminal;
    viewer *viewer;
    top_run run;
    top_screen screen;
    frame frame;
    char trouble[TARRY_DIAGNOSTIC_SIZE]; /* "": none */
    double retry;                        /* when it connects again, by clock_seconds */
    bool live;                           /* pictures on a terminal; else text, */
    bool streams;                        /* documents until the end; else once */
    bool stopped;
    bool over;           /* the run is */
    bool failed;         /* it can't look on: `why` */
    bool terminal_there; /* it takes what is written */
    tarry_diagnostic why;
};

/* ---- the picture ---- */

static void put(frame *to, const char *bytes)
{
    size_t size = strlen(bytes);
    if (size > sizeof(to->bytes) - to->size)
        return;
    memcpy(to->bytes + to->size, bytes, size);
    to->size += size;
}

static void put_line(void *user, const char *line)
{
    frame *to = user;
    if (to->rows++ > 0)
        put(to, "\r\n");
    put(to, line);
    put(to, "\x1b[K");
}

static void stop(live *its);

static void draw(live *its)
{
    if (its->stopped)
        return;
    top_screen *screen = &its->screen;
    if (!terminal_size(&screen->rows, &screen->columns)) {
        its->terminal_there = false;
        stop(its);
        return;
    }
    if (screen->rows > MOST_ROWS)
        screen->rows = MOST_ROWS;
    /* What clears the rest of a line must not find the cursor on its last character. */
    if (screen->columns > 1)
        screen->columns--;
    const top_link link = {
        .address = its->options->connect,
        .trouble = its->trouble[0] != '\0' ? its->trouble : NULL,
        .wait_seconds = its->retry - clock_seconds(),
    };
    frame *to = &its->frame;
    to->size = 0;
    to->rows = 0;
    put(to, "\x1b[H");
    top_view_draw(&its->run, &link, screen, put_line, to);
    put(to, "\x1b[J");
    if (!terminal_write(to->bytes, to->size)) {
        its->terminal_there = false;
        stop(its);
    }
}

static void on_timer(uv_timer_t *timer)
{
    draw(timer->data);
}

/* ---- the end ---- */

static void stop(live *its)
{
    if (its->stopped)
        return;
    its->stopped = true;
    viewer_close(its->viewer);
    if (!its->live)
        return;
    /* At once: the loop may have to wait for the resolver yet. */
    if (its->terminal_there)
        terminal_leave(&its->terminal);
    uv_close((uv_handle_t *)&its->timer, NULL);
    if (its->terminal.has_keys)
        uv_close((uv_handle_t *)&its->keys, NULL);
    for (size_t i = 0; i < SIGNALS; i++)
        uv_close((uv_handle_t *)&its->signals[i], NULL);
}

/* ---- what comes from the server ---- */

static void fail(live *its, const char *why)
{
    its->failed = true;
    diagnose(&its->why, TARRY_ERROR_STATE, "%s", why);
    stop(its);
}

static void print_line(void *user, const char *line)
{
    (void)user;
    puts(line);
}

/* All of the run, by id. */
static void print_run(live *its)
{
    const top_link link = {.address = its->options->connect, .over = its->over};
    its->screen.rows = 0;
    its->screen.sort = TOP_SORT_WORKER;
    top_view_draw(&its->run, &link, &its->screen, print_line, NULL);
}

/* A document is handed on as it is, once it has been read: then it is one. */
static void print_told(live *its, const char *text, size_t length)
{
    if (its->options->json) {
        fwrite(text, 1, length, stdout);
        putchar('\n');
    } else {
        print_run(its);
    }
    if (fflush(stdout) != 0)
        fail(its, "standard output cannot be written");
    else if (!its->streams)
        stop(its);
}

static int on_told(void *user, const char *text, size_t length, tarry_diagnostic *why)
{
    live *its = user;
    int error = top_run_read(&its->run, text, length, clock_now_ns(), why);
    if (error == TARRY_OK)
        its->trouble[0] = '\0';
    if (error == TARRY_OK && !its->live)
        print_told(its, text, length);
    return error;
}

static void on_lost(void *user, const char *why, uint64_t wait_ns)
{
    live *its = user;
    if (!its->live && !its->streams) {
        fail(its, why);
        return;
    }
    bool told = strcmp(its->trouble, why) == 0;
    snprintf(its->trouble, sizeof(its->trouble), "%s", why);
    its->retry = clock_seconds() + (double)wait_ns * 1e-9;
    top_run_pause(&its->run);
    if (its->live)
        draw(its);
    else if (!told)
        complain(EXIT_FAILED, "top: %s: %s", its->options->connect, why);
}

static void on_ended(void *user, bool over, const char *why)
{
    live *its = user;
    its->over = over && (its->live || its->streams);
    its->failed = !its->over;
    diagnose(&its->why, TARRY_ERROR_STATE, "%s", why);
    stop(its);
}

/* ---- what comes from the user ---- */

static void take_key(live *its, char key)
{
    if (key == 'q' || key == 'Q') {
        stop(its);
    } else if (key == 's' || key == 'S') {
        its->screen.sort = (top_sort)((its->screen.sort + 1) % TOP_SORTS);
        draw(its);
    }
}

static void on_keys(uv_poll_t *poll, int status, int events)
{
    (void)events;
    live *its = poll->data;
    char keys[64];
    ssize_t count = status == 0 ? read(STDIN_FILENO, keys, sizeof(keys)) : -1;
    if (count <= 0)
        stop(its); /* the terminal is gone */
    for (ssize_t i = 0; i < count && !its->stopped; i++)
        take_key(its, keys[i]);
}

static void on_signal(uv_signal_t *signal, int number)
{
    live *its = signal->data;
    switch (number) {
    case SIGTSTP: /* the shell gets its terminal back as it was; SIGCONT brings us back */
        terminal_leave(&its->terminal);
        raise(SIGSTOP);
        break;
    case SIGCONT:
        terminal_enter(&its->terminal);
        draw(its);
        break;
    case SIGWINCH:
        draw(its);
        break;
    default:
        stop(its);
        break;
    }
}

/* ---- the whole ---- */

static void start_handles(live *its)
{
    static const int numbers[SIGNALS] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                         SIGTSTP, SIGCONT, SIGWINCH};
    for (size_t i = 0; i < SIGNALS; i++) {
        uv_signal_init(&its->loop, &its->signals[i]);
        its->signals[i].data = its;
        uv_signal_start(&its->signals[i], on_signal, numbers[i]);
    }
    if (its->terminal.has_keys) {
        /* libuv makes it non-blocking, for everybody who has it open: it is the shell's, too, and
         * that of our own output. One key is read when there is one. */
        int flags = fcntl(STDIN_FILENO, F_GETFL);
        uv_poll_init(&its->loop, &its->keys, STDIN_FILENO);
        fcntl(STDIN_FILENO, F_SETFL, flags);
        its->keys.data = its;
        uv_poll_start(&its->keys, UV_READABLE, on_keys);
    }
    uint64_t interval_ms = (uint64_t)ceil(its->options->interval * 1e3);
    uv_timer_init(&its->loop, &its->timer);
    its->timer.data = its;
    uv_timer_start(&its->timer, on_timer, 0, interval_ms);
}

static int watch(live *its)
{
    if (its->live) {
        terminal_begin(&its->terminal);
        start_handles(its);
        terminal_enter(&its->terminal);
    }
    uv_run(&its->loop, UV_RUN_DEFAULT);
    if (its->failed)
        return complain(EXIT_FAILED, "top: %s: %s", its->options->connect, its->why.text);
    if (its->over && its->live) { /* how the run stood at its end stays on the terminal */
        if (its->run.told)
            print_run(its);
        printf("%s: %s\n", its->options->connect, its->why.text);
    }
    return EXIT_DONE;
}

/* Watches the run until its end or the user's; gives back the exit status. */
static int top_watch(const top_options *options)
{
    unsigned rows;
    /* One at a time, and too large for a stack. */
    live *its = memory_allocate(NULL, 1, sizeof(*its));
    if (its == NULL)
        return complain(EXIT_FAILED, "top: out of memory");
    its->options = options;
    its->terminal_there = true;
    its->live = !options->once && !options->json && terminal_is_there();
    its->streams = options->json && !options->once;
    its->screen.columns = FILE_COLUMNS;
    terminal_size(&rows, &its->screen.columns);
    its->screen.colour = terminal_wants_colour();
    its->screen.blocks = terminal_is_there() && terminal_is_utf8();
    const viewer_handlers handlers = {
        .user = its,
        .told = on_told,
        .lost = on_lost,
        .ended = on_ended,
    };
    int status = EXIT_FAILED;
    if (uv_loop_init(&its->loop) != 0) {
        complain(EXIT_FAILED, "top: no event loop");
        goto release;
    }
    tarry_diagnostic why;
    if (viewer_open(&its->loop, options->connect, &options->security, &handlers, NULL, &its->viewer,
                    &why) == TARRY_OK)
        status = watch(its);
    else
        complain(EXIT_FAILED, "top: %s", why.text);
    top_run_free(&its->run);
    uv_loop_close(&its->loop);
release:
    memory_release(NULL, its);
    return status;
}

/* ---- the command ---- */

static int read_address(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    (void)values;
    return address_check(text, false, diagnostic);
}

static const option_entry entries[] = {
    {.name = "connect",
     .argument = "ADDRESS",
     .help = "The server: HOST:PORT, [HOST]:PORT or unix:PATH (required)",
     .kind = OPTION_TEXT,
     .offset = offsetof(top_options, connect),
     .read = read_address},
    {.name = "credentials",
     .argument = "DIR",
     .help = "A viewer's folder, made by tarry keys; not needed over a Unix socket",
     .kind = OPTION_TEXT,
     .offset = offsetof(top_options, security.credentials)},
    {.name = "insecure",
     .help = "Plain text in its place, on this machine only",
     .kind = OPTION_FLAG,
     .offset = offsetof(top_options, security.insecure)},
    {.name = "force",
     .help = "With --insecure: to any machine",
     .kind = OPTION_FLAG,
     .offset = offsetof(top_options, security.force)},
    {.name = "once",
     .help = "Print how the run stands once, and end; so it does where it writes to no terminal",
     .kind = OPTION_FLAG,
     .offset = offsetof(top_options, once)},
    {.name = "json",
     .help = "Print one JSON document per line as often as the server tells, or with --once one",
     .kind = OPTION_FLAG,
     .offset = offsetof(top_options, json)},
    {.name = "interval",
     .argument = "SECONDS",
     .help = "Time between two pictures, 0.1 to 3600 (default 0.5, as often as the server tells)",
     .kind = OPTION_REAL,
     .offset = offsetof(top_options, interval),
     .low = 0.1,
     .high = 3600},
};

static int check(const top_options *options)
{
    if (options->connect == NULL)
        return complain(EXIT_USAGE, "top: say where the server is (--connect ADDRESS)");
    return network_security_check(&options->security, "top",
                                  address_text_is_file(options->connect));
}

int command_top(int argc, char **argv)
{
    top_options options = {.interval = 0.5};
    const option_group group = OPTION_GROUP("The run", entries, &options);
    const option_command command = {
        "top", "Shows how a run on other machines stands: its rounds, and each worker.", &group, 1};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED)
        status = check(&options);
    if (status == OPTIONS_PROCEED) {
        setlocale(LC_CTYPE, ""); /* how wide the characters of a note are */
        status = top_watch(&options);
    }
    config_free(file);
    return status;
}
