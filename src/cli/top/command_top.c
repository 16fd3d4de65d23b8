/* SPDX-License-Identifier: Apache-2.0 */
/* tarry top: how a run on other machines stands. */
#include "cli/top/command_top.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

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

/* Those that the run does without come first. */
static int by_trouble(const void *a, const void *b)
{
    static const int ranks[WIRE_WORKER_STATES] = {
        [WIRE_WORKER_SILENT] = -6, [WIRE_WORKER_GONE] = -5, [WIRE_WORKER_LATE] = -4,
        [WIRE_WORKER_BEHIND] = -3, [WIRE_WORKER_LEFT] = -2, [WIRE_WORKER_ABSENT] = -1,
    };
    const status_worker *one = a, *other = b;
    int rank = ranks[one->state] - ranks[other->state];
    return rank != 0 ? rank : (one->id > other->id) - (one->id < other->id);
}

void top_run_sort(top_run *run)
{
    if (run->status.workers > 0)
        qsort(run->worker, run->status.workers, sizeof(*run->worker), by_trouble);
}

void top_run_free(top_run *run)
{
    memory_release(NULL, run->worker);
    *run = (top_run){.told = false};
}

/* ---- view: the run as lines of text ---- */

enum { LINE_BYTES = 1024 };

typedef struct picture {
    const top_run *run;
    const top_screen *screen;
    top_emit *emit;
    void *user;
    unsigned rows;         /* emitted */
    char line[LINE_BYTES]; /* that is being written */
    size_t size;
} picture;

__attribute__((format(printf, 2, 3))) static void line_print(picture *it, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(it->line + it->size, LINE_BYTES - it->size, format, arguments);
    va_end(arguments);
    it->size += more > 0 ? (size_t)more : 0;
    it->size = it->size < LINE_BYTES ? it->size : LINE_BYTES - 1;
}

/* Adds a text behind two spaces, if all of it fits. */
static void line_add_whole(picture *it, const char *text)
{
    if (text[0] != '\0' && it->size + 2 + strlen(text) <= it->screen->columns)
        line_print(it, "  %s", text);
}

/* Emits the line, if there is room for it. What a server told moves no cursor: a character that is
 * not printable ASCII is shown as '?'. */
static void line_end(picture *it)
{
    size_t size = 0;
    for (size_t i = 0; i < it->size && size < it->screen->columns; i++) {
        const char byte = it->line[i];
        if (((unsigned char)byte & 0xc0) != 0x80) /* else it goes on with a character */
            it->line[size++] = byte >= ' ' && byte <= '~' ? byte : '?';
    }
    while (size > 0 && it->line[size - 1] == ' ')
        size--;
    it->line[size] = '\0';
    it->size = 0;
    if (it->screen->rows > 0 && it->rows == it->screen->rows)
        return;
    it->emit(it->user, it->line);
    it->rows++;
}

static const struct {
    const char *why;
    bool lasts; /* the time since it was heard of says how long it has been so */
} states[WIRE_WORKER_STATES] = {
    [WIRE_WORKER_ABSENT] = {"has not come yet", false},
    [WIRE_WORKER_RESTING] = {"", false},
    [WIRE_WORKER_RECEIVING] = {"", false},
    [WIRE_WORKER_COMPUTING] = {"", false},
    [WIRE_WORKER_SENDING] = {"", false},
    [WIRE_WORKER_LATE] = {"the round goes on without it", false},
    [WIRE_WORKER_SILENT] = {"nothing comes from it", true},
    [WIRE_WORKER_GONE] = {"its connection ended", true},
    [WIRE_WORKER_LEFT] = {"it left the run", true},
    [WIRE_WORKER_BEHIND] = {"does not have the last parameters yet", false},
    [WIRE_WORKER_SUMMING] = {"", false},
    [WIRE_WORKER_HOLDING] = {"waits until all have the sum", false},
};

static void nanoseconds_text(uint64_t time_ns, char text[NUMBER_TEXT_SIZE])
{
    seconds_text((double)time_ns * 1e-9, text);
}

static void draw_round(picture *it, bool over)
{
    const status_run *status = &it->run->status;
    char round[NUMBER_TEXT_SIZE], rounds[NUMBER_TEXT_SIZE], left[NUMBER_TEXT_SIZE];
    const bool ahead = status->running || status->done == 0;
    const double done = (double)status->done, all = (double)status->rounds;
    const double rate = status->waiting ? NAN : top_run_rate(it->run);
    whole_text(ahead && status->done < UINT64_MAX ? status->done + 1 : status->done, round);
    whole_text(status->rounds, rounds);
    line_print(it, "%s%s %s", status->waiting ? "waiting for workers  " : "",
               status->running ? "round"
               : ahead         ? "before round"
                               : "after round",
               round);
    if (status->rounds > 0)
        line_print(it, " of %s  %.1f %%", rounds, fmin(100 * done / all, 100));
    if (rate > 0)
        line_print(it, "  %.3g rounds/s", rate);
    if (rate > 0 && all > done && !over) {
        seconds_text((all - done) / rate, left);
        line_print(it, "  %s left", left);
    }
    line_end(it);
}

/* The last sum that workers made. */
static void draw_sum(picture *it)
{
    const status_sum *sum = &it->run->status.sum;
    char step[NUMBER_TEXT_SIZE];
    if (sum->step == 0)
        return;
    whole_text(sum->step, step);
    line_print(it, "last sum: step %s by %" PRIu32 " worker%s   attempts %" PRIu32, step,
               sum->voters, sum->voters == 1 ? "" : "s", sum->tries);
    if (sum->fetches > 0)
        line_print(it, "   fetched by %" PRIu32, sum->fetches);
    if (sum->term > 1)
        line_print(it, "   term %" PRIu32, sum->term);
    line_end(it);
}

static void draw_figures(picture *it)
{
    const status_run *status = &it->run->status;
    char text[NUMBER_TEXT_SIZE];
    if (status->running) {
        nanoseconds_text(status->elapsed_ns, text);
        line_print(it, "this round %s   attempts %" PRIu32 "   ", text, status->attempts);
    }
    if (status->median_ns > 0) {
        nanoseconds_text(status->median_ns, text);
        line_print(it, "median %s   ", text);
    }
    whole_text(status->exact, text);
    line_print(it, "exact rounds %s", text);
    line_end(it);
    draw_sum(it);
    if (status->note[0] == '\0')
        return;
    line_print(it, "%s", status->note);
    line_end(it);
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
static void add_states(picture *it, uint32_t first)
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
        line_print(it, "%s%" PRIu64 " %s", between, counts[state], status_states[state]);
        between = ", ";
    }
}

static void draw_worker(picture *it, const status_worker *worker)
{
    char state[64], done[32], pace[NUMBER_TEXT_SIZE] = "-", received[NUMBER_TEXT_SIZE];
    char time[NUMBER_TEXT_SIZE] = "";
    if (states[worker->state].lasts && worker->heard_ns > 0)
        nanoseconds_text(worker->heard_ns, time);
    snprintf(state, sizeof(state), "%s %s", status_states[worker->state], time);
    snprintf(done, sizeof(done), "%" PRIu32 "/%" PRIu32, worker->finished, worker->load);
    if (worker->pace_ns > 0)
        nanoseconds_text(worker->pace_ns, pace);
    bytes_text((double)worker->received, received);
    line_print(it, "%7" PRIu32 "  %-18s %10s %9s %5" PRIu32 " %9s", worker->id, state, done, pace,
               worker->arrivals, received);
    line_add_whole(it, worker->rack);
    line_add_whole(it, states[worker->state].why);
    line_end(it);
}

/* As many as there is room for; one line speaks for the rest. */
static void draw_workers(picture *it, unsigned room)
{
    const uint64_t workers = all_workers(&it->run->status);
    uint32_t shown = it->run->status.workers;
    if (it->screen->rows > 0 && workers > room) {
        const unsigned most = room > 0 ? room - 1 : 0;
        shown = shown < most ? shown : most;
    }
    for (uint32_t i = 0; i < shown; i++)
        draw_worker(it, &it->run->worker[i]);
    if (shown == workers)
        return;
    line_print(it, "%10s %" PRIu64 " more", "and", workers - shown);
    add_states(it, shown);
    line_end(it);
}

static void draw_run(picture *it, bool over, unsigned below)
{
    const uint64_t workers = all_workers(&it->run->status);
    draw_round(it, over);
    draw_figures(it);
    line_print(it, "%" PRIu64 " worker%s", workers, workers == 1 ? "" : "s");
    add_states(it, 0);
    line_end(it);
    line_end(it);
    line_print(it, "%7s  %-18s %10s %9s %5s %9s", "WORKER", "STATE", "DONE", "PACE", "CAME",
               "RECEIVED");
    line_end(it);
    const unsigned used = it->rows + below;
    draw_workers(it, it->screen->rows > used ? it->screen->rows - used : 0);
}

void top_view_draw(const top_run *run, const top_link *link, const top_screen *screen,
                   top_emit *emit, void *user)
{
    picture it = {.run = run, .screen = screen, .emit = emit, .user = user};
    line_print(&it, "tarry top  %s", link->address);
    line_end(&it);
    if (run->told) {
        draw_run(&it, link->over, link->trouble != NULL ? 1 : 0);
    } else {
        line_print(&it, "no word from the server yet");
        line_end(&it);
    }
    if (link->trouble == NULL)
        return;
    line_print(&it, "no connection: %s; tries again", link->trouble);
    line_end(&it);
}

/* ---- the command ---- */

typedef struct top_options {
    const char *connect;
    tarry_tcp_security security;
    bool once, json;
} top_options;

typedef struct watch {
    const top_options *options;
    viewer *viewer;
    top_run run;
    char trouble[TARRY_DIAGNOSTIC_SIZE]; /* "": none */
    bool live;                           /* pictures on a terminal; else text, */
    bool streams;                        /* documents until the end; else once */
    bool over;                           /* the run is */
    bool failed;                         /* it can't look on: `why` */
    tarry_diagnostic why;
} watch;

static void stop(watch *its)
{
    viewer_close(its->viewer);
    its->viewer = NULL;
}

static void fail(watch *its, const char *why)
{
    its->failed = true;
    diagnose(&its->why, TARRY_ERROR_STATE, "%s", why);
    stop(its);
}

static void put_line(void *user, const char *line)
{
    /* On a terminal nothing of the picture before stays behind it. */
    printf("%s%s\n", line, ((const watch *)user)->live ? "\x1b[K" : "");
}

/* All of the run, by id; of a screen of `rows` what needs a look first. */
static void draw(watch *its, unsigned rows, unsigned columns)
{
    const top_screen screen = {.rows = rows, .columns = columns};
    const top_link link = {
        .address = its->options->connect,
        .trouble = its->trouble[0] != '\0' ? its->trouble : NULL,
        .over = its->over,
    };
    top_view_draw(&its->run, &link, &screen, put_line, its);
}

/* Of standard output; all that a line may have if it is not a terminal. */
static top_screen terminal_size(void)
{
    enum { ROWS = 24, COLUMNS = 80 };
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        return (top_screen){.columns = LINE_BYTES};
    return (top_screen){.rows = size.ws_row > 0 ? size.ws_row : ROWS,
                        .columns = size.ws_col > 0 ? size.ws_col : COLUMNS};
}

/* In place of the one before. Signals do what they do to any program that prints: the terminal is
 * as it was. */
static void draw_live(watch *its)
{
    const top_screen size = terminal_size();
    printf("\x1b[H");
    top_run_sort(&its->run);
    /* The cursor stands below the last line, and never right of a full one. */
    draw(its, size.rows > 1 ? size.rows - 1 : 1, size.columns > 1 ? size.columns - 1 : 1);
    printf("\x1b[J");
    if (fflush(stdout) != 0)
        fail(its, "standard output cannot be written");
}

/* A document is handed on as it is, once it has been read: then it is one. */
static void print_told(watch *its, const char *text, size_t length)
{
    if (its->options->json) {
        fwrite(text, 1, length, stdout);
        putchar('\n');
    } else {
        draw(its, 0, terminal_size().columns);
    }
    if (fflush(stdout) != 0)
        fail(its, "standard output cannot be written");
    else if (!its->streams)
        stop(its);
}

static int on_told(void *user, const char *text, size_t length, tarry_diagnostic *why)
{
    watch *its = user;
    int error = top_run_read(&its->run, text, length, clock_now_ns(), why);
    if (error != TARRY_OK)
        return error;
    its->trouble[0] = '\0';
    if (its->live)
        draw_live(its);
    else
        print_told(its, text, length);
    return TARRY_OK;
}

static void on_lost(void *user, const char *why, uint64_t wait_ns)
{
    watch *its = user;
    (void)wait_ns;
    if (!its->live && !its->streams) {
        fail(its, why);
        return;
    }
    const bool told = strcmp(its->trouble, why) == 0;
    snprintf(its->trouble, sizeof(its->trouble), "%s", why);
    top_run_pause(&its->run);
    if (its->live)
        draw_live(its);
    else if (!told)
        complain(EXIT_FAILED, "top: %s: %s", its->options->connect, why);
}

static void on_ended(void *user, bool over, const char *why)
{
    watch *its = user;
    its->over = over && (its->live || its->streams);
    its->failed = !its->over;
    diagnose(&its->why, TARRY_ERROR_STATE, "%s", why);
    if (its->over && its->live) { /* how the run stood at its end stays on the terminal */
        its->trouble[0] = '\0';
        draw_live(its);
        printf("%s: %s\n", its->options->connect, why);
    }
    stop(its);
}

/* True if standard output is a terminal that knows of cursors. */
static bool terminal_is_there(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDOUT_FILENO) == 1 && kind != NULL && strcmp(kind, "dumb") != 0;
}

enum { PICTURE_BYTES = 1 << 16 };

/* Watches the run until its end; gives back the exit status. */
static int top_watch(const top_options *options)
{
    watch its = {
        .options = options,
        .live = !options->once && !options->json && terminal_is_there(),
        .streams = options->json && !options->once,
    };
    const viewer_handlers handlers = {
        .user = &its,
        .told = on_told,
        .lost = on_lost,
        .ended = on_ended,
    };
    uv_loop_t loop;
    tarry_diagnostic why;
    if (its.live) /* a picture is there at once, and not line by line */
        setvbuf(stdout, NULL, _IOFBF, PICTURE_BYTES);
    if (uv_loop_init(&loop) != 0)
        return complain(EXIT_FAILED, "top: no event loop");
    int status = EXIT_DONE;
    if (viewer_open(&loop, options->connect, &options->security, &handlers, NULL, &its.viewer,
                    &why) != TARRY_OK)
        status = complain(EXIT_FAILED, "top: %s", why.text);
    else
        uv_run(&loop, UV_RUN_DEFAULT);
    if (its.failed)
        status = complain(EXIT_FAILED, "top: %s: %s", options->connect, its.why.text);
    top_run_free(&its.run);
    uv_loop_close(&loop);
    return status;
}

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
    {.name = "once",
     .help = "Print how the run stands once, and end; so it does where it writes to no terminal",
     .kind = OPTION_FLAG,
     .offset = offsetof(top_options, once)},
    {.name = "json",
     .help = "Print one JSON document per line as often as the server tells, or with --once one",
     .kind = OPTION_FLAG,
     .offset = offsetof(top_options, json)},
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
    top_options options = {0};
    const option_group groups[] = {OPTION_GROUP("The run", entries, &options),
                                   network_security_group(&options.security)};
    const option_command command = {
        "top", "Shows how a run on other machines stands: its rounds, and each worker.", groups, 2};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED)
        status = check(&options);
    if (status == OPTIONS_PROCEED)
        status = top_watch(&options);
    config_free(file);
    return status;
}
