/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a status that a server tells to viewers. What is read is written as a document that
 * is read as the same, and drawn on a screen.
 */
#include <string.h>

#include <tarry/runtime.h>

#include "cli/top/command_top.h"
#include "fuzz_input.h"

enum { MOST_LISTED = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void describe(void *user, status_worker *out)
{
    const top_run *run = user;
    *out = run->worker[out->id];
}

static void ignore(void *user, const char *line)
{
    (void)user;
    require(strchr(line, '\n') == NULL);
}

/* Seconds are read as nanoseconds, and written so: once they are, they stay. */
static void check_writing(top_run *run)
{
    static char text[TARRY_STATUS_BYTES + MOST_LISTED * TARRY_STATUS_WORKER_BYTES];
    top_run again = {.told = false}, same = {.told = false};
    record_out out = {.text = text, .size = sizeof(text)};
    const uint32_t workers = run->status.workers;
    require(status_write(&run->status, workers, describe, run, &out));
    require(record_is_line(text, out.length));
    require(top_run_read(&again, text, out.length, 0, NULL) == TARRY_OK);
    require(again.status.workers == workers && again.status.done == run->status.done);
    for (uint32_t i = 0; i < workers; i++)
        require(again.worker[i].state == run->worker[i].state &&
                again.worker[i].received == run->worker[i].received);
    out.length = 0;
    require(status_write(&again.status, workers, describe, &again, &out));
    require(top_run_read(&same, text, out.length, 0, NULL) == TARRY_OK);
    require(strcmp(same.status.note, again.status.note) == 0);
    top_run_free(&again);
    top_run_free(&same);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    top_run run = {.told = false};
    const top_link link = {.address = "a"};
    const top_screen screen = {.rows = 24, .columns = 80};
    if (top_run_read(&run, (const char *)data, size, 0, NULL) != TARRY_OK)
        return 0;
    if (run.status.workers <= MOST_LISTED)
        check_writing(&run);
    top_view_draw(&run, &link, &screen, ignore, NULL);
    top_run_free(&run);
    return 0;
}
