/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/output/clock.h"
#include "cli/text/complain.h"
#include "cli/text/terminal.h"
#include "cli/top/top.h"
#include "cli/top/top_line.h"
#include "cli/top/top_view.h"
#include "runtime/tcp/viewer/viewer.h"

enum { SIGNALS = 7, MOST_ROWS = 512 };

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
    /* At once: the loop may have to wait for the resolver yet. */
    if (its->terminal_there)
        terminal_leave(&its->terminal);
    viewer_close(its->viewer);
    uv_close((uv_handle_t *)&its->timer, NULL);
    if (its->terminal.has_keys)
        uv_close((uv_handle_t *)&its->keys, NULL);
    for (size_t i = 0; i < SIGNALS; i++)
        uv_close((uv_handle_t *)&its->signals[i], NULL);
}

/* ---- what comes from the server ---- */

static void on_told(void *user, const wire_status *status, const wire_worker_status *worker)
{
    live *its = user;
    int error = top_run_take(&its->run, status, worker, clock_now_ns());
    its->trouble[0] = '\0';
    if (error == TARRY_OK)
        return;
    diagnose_no_memory(&its->why, "status");
    its->failed = true;
    stop(its);
}

static void on_lost(void *user, const char *why, uint64_t wait_ns)
{
    live *its = user;
    snprintf(its->trouble, sizeof(its->trouble), "%s", why);
    its->retry = clock_seconds() + (double)wait_ns * 1e-9;
    top_run_pause(&its->run);
    draw(its);
}

static void on_ended(void *user, bool over, const char *why)
{
    live *its = user;
    its->over = over;
    its->failed = !over;
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

static void print_line(void *user, const char *line)
{
    (void)user;
    puts(line);
}

/* How the run stood at its end stays on the terminal. */
static void print_end(live *its)
{
    if (!its->run.told)
        return;
    const top_link link = {.address = its->options->connect, .over = true};
    its->screen.rows = 0;
    its->screen.sort = TOP_SORT_WORKER;
    top_view_draw(&its->run, &link, &its->screen, print_line, NULL);
}

static int watch(live *its)
{
    terminal_begin(&its->terminal);
    start_handles(its);
    terminal_enter(&its->terminal);
    uv_run(&its->loop, UV_RUN_DEFAULT);
    if (its->failed)
        return complain(EXIT_FAILED, "top: %s: %s", its->options->connect, its->why.text);
    if (its->over) {
        print_end(its);
        printf("%s: %s\n", its->options->connect, its->why.text);
    }
    return EXIT_DONE;
}

int top_live(const top_options *options)
{
    /* One at a time, and too large for a stack. */
    live *its = memory_allocate(NULL, 1, sizeof(*its));
    if (its == NULL)
        return complain(EXIT_FAILED, "top: out of memory");
    its->options = options;
    its->terminal_there = true;
    its->screen.colour = terminal_wants_colour();
    its->screen.blocks = terminal_is_utf8();
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
