/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/diagnostic.h"
#include "cli/text/complain.h"
#include "cli/text/terminal.h"
#include "cli/top/top.h"
#include "cli/top/top_view.h"
#include "runtime/clock.h"
#include "runtime/tcp/viewer/viewer.h"

enum { FILE_COLUMNS = 120 };

typedef struct once {
    viewer *viewer;
    top_run run;
    int error;
    tarry_diagnostic why;
} once;

static void stop(once *its, int error, const char *why)
{
    its->error = error;
    diagnose(&its->why, error, "%s", why);
    viewer_close(its->viewer);
    its->viewer = NULL;
}

static void on_told(void *user, const wire_status *status, const wire_worker_status *worker)
{
    once *its = user;
    int error = top_run_take(&its->run, status, worker, clock_now_ns());
    stop(its, error, tarry_error_text(error));
}

static void on_lost(void *user, const char *why, uint64_t wait_ns)
{
    (void)wait_ns;
    stop(user, TARRY_ERROR_SYSTEM, why);
}

static void on_ended(void *user, bool over, const char *why)
{
    (void)over;
    stop(user, TARRY_ERROR_STATE, why);
}

static void print_line(void *user, const char *line)
{
    (void)user;
    puts(line);
}

static void print_run(const top_options *options, top_run *run)
{
    const top_link link = {.address = options->connect};
    top_screen screen = {
        .columns = FILE_COLUMNS,
        .colour = terminal_wants_colour(),
        .blocks = terminal_is_there() && terminal_is_utf8(),
        .sort = TOP_SORT_WORKER,
    };
    unsigned rows;
    terminal_size(&rows, &screen.columns);
    top_view_draw(run, &link, &screen, print_line, NULL);
}

int top_once(const top_options *options)
{
    once its = {.error = TARRY_OK};
    const viewer_handlers handlers = {
        .user = &its,
        .told = on_told,
        .lost = on_lost,
        .ended = on_ended,
    };
    uv_loop_t loop;
    int status = EXIT_FAILED;
    if (uv_loop_init(&loop) != 0)
        return complain(EXIT_FAILED, "top: no event loop");
    tarry_diagnostic why;
    if (viewer_open(&loop, options->connect, &options->security, &handlers, NULL, &its.viewer,
                    &why) != TARRY_OK) {
        complain(EXIT_FAILED, "top: %s", why.text);
        goto close_loop;
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    if (its.error == TARRY_OK) {
        print_run(options, &its.run);
        status = EXIT_DONE;
    } else {
        complain(EXIT_FAILED, "top: %s: %s", options->connect, its.why.text);
    }
    top_run_free(&its.run);
close_loop:
    uv_loop_close(&loop);
    return status;
}
