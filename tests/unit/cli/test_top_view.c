/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of runs, as they stand on a screen. */
#include <stdio.h>

#include "base/random.h"
#include "cli/top/command_top.h"
#include "seed.h"
#include "test.h"
#include "told.h"

OWNED_STRUCT_BY(top_run, top_run_free)

#define SECOND UINT64_C(1000000000)

enum { TEXT_BYTES = 1 << 20 };

typedef struct sheet {
    char text[TEXT_BYTES];
    size_t size;
    unsigned rows, widest;
} sheet;

static sheet paper;

static void take_line(void *user, const char *line)
{
    sheet *to = user;
    size_t size = strlen(line);
    assert_null(strchr(line, '\n'));
    assert_true(to->size + size + 2 < sizeof(to->text));
    memcpy(to->text + to->size, line, size);
    to->size += size;
    to->text[to->size++] = '\n';
    to->text[to->size] = '\0';
    to->rows++;
    to->widest = size > to->widest ? (unsigned)size : to->widest;
}

static const char *draw(top_run *run, const top_link *link, const top_screen *screen)
{
    paper.size = 0;
    paper.rows = 0;
    paper.widest = 0;
    paper.text[0] = '\0';
    top_view_draw(run, link, screen, take_line, &paper);
    return paper.text;
}

static const top_link here = {.address = "node0:7000"};

static const status_worker workers[] = {
    {.state = WIRE_WORKER_COMPUTING,
     .load = 4,
     .finished = 2,
     .arrivals = 1,
     .pace_ns = 1234567,
     .received = 12300000},
    {.state = WIRE_WORKER_RESTING,
     .load = 4,
     .finished = 4,
     .arrivals = 1,
     .pace_ns = 2000000,
     .received = 4000},
    {.state = WIRE_WORKER_SENDING,
     .load = 4,
     .finished = 4,
     .arrivals = 2,
     .pace_ns = 990000,
     .received = 999},
    {.state = WIRE_WORKER_LATE, .load = 4, .finished = 1, .arrivals = 1, .pace_ns = 70 * SECOND},
    {.state = WIRE_WORKER_SILENT, .load = 4, .arrivals = 1, .heard_ns = 12 * SECOND},
    {.state = WIRE_WORKER_GONE, .load = 4, .arrivals = 3, .heard_ns = 190 * SECOND},
    {.state = WIRE_WORKER_LEFT, .load = 4, .arrivals = 1, .heard_ns = 36000 * SECOND},
    {.state = WIRE_WORKER_ABSENT, .load = 4},
};

enum { WORKERS = sizeof(workers) / sizeof(workers[0]) };

static const status_run status = {
    .done = 1233,
    .running = true,
    .elapsed_ns = 43200000,
    .median_ns = 80000000,
    .rounds = 5000,
    .exact = 1230,
    .attempts = 2,
    .workers = WORKERS,
    .note = "loss 0.4123",
};

TEST(a_run_as_plain_text)
{
    OWNED(top_run) run = {.told = false};
    tell_top(&run, &status, workers, 0);
    const top_screen screen = {.columns = 120};
    assert_string_equal(
        draw(&run, &here, &screen),
        "tarry top  node0:7000\n"
        "round 1,234 of 5,000  24.7 %  12.5 rounds/s  5 min 01 s left\n"
        "this round 43.2 ms   attempts 2   median 80.0 ms   exact rounds 1,230\n"
        "loss 0.4123\n"
        "8 workers: 1 left, 1 gone, 1 silent, 1 late, 1 sending, 1 computing, 1 resting, 1 absent\n"
        "\n"
        " WORKER  STATE                    DONE      PACE  CAME  RECEIVED\n"
        "      0  computing                 2/4   1.23 ms     1   12.3 MB\n"
        "      1  resting                   4/4   2.00 ms     1   4.00 kB\n"
        "      2  sending                   4/4    990 us     2     999 B\n"
        "      3  late                      1/4    70.0 s     1       0 B"
        "  the round goes on without it\n"
        "      4  silent 12.0 s             0/4         -     1       0 B"
        "  nothing comes from it\n"
        "      5  gone 3 min 10 s           0/4         -     3       0 B"
        "  its connection ended\n"
        "      6  left 10 h 00 min          0/4         -     1       0 B"
        "  it left the run\n"
        "      7  absent                    0/4         -     0       0 B"
        "  has not come yet\n");
}

TEST(a_screen_of_80_columns)
{
    OWNED(top_run) run = {.told = false};
    tell_top(&run, &status, workers, 0);
    top_run_sort(&run);
    const top_screen screen = {.rows = 11, .columns = 79};
    assert_string_equal(
        draw(&run, &here, &screen),
        "tarry top  node0:7000\n"
        "round 1,234 of 5,000  24.7 %  12.5 rounds/s  5 min 01 s left\n"
        "this round 43.2 ms   attempts 2   median 80.0 ms   exact rounds 1,230\n"
        "loss 0.4123\n"
        "8 workers: 1 left, 1 gone, 1 silent, 1 late, 1 sending, 1 computing, 1 resting,\n"
        "\n"
        " WORKER  STATE                    DONE      PACE  CAME  RECEIVED\n"
        "      4  silent 12.0 s             0/4         -     1       0 B\n"
        "      5  gone 3 min 10 s           0/4         -     3       0 B\n"
        "      3  late                      1/4    70.0 s     1       0 B\n"
        "       and 5 more: 1 left, 1 sending, 1 computing, 1 resting, 1 absent\n");
}

/* More workers than the server lists. */
TEST(workers_that_are_not_listed)
{
    OWNED(top_run) run = {.told = false};
    tell_top(&run, &status, workers, 0);
    run.status.others[WIRE_WORKER_GONE] = 2;
    run.status.others[WIRE_WORKER_COMPUTING] = 100000;
    const top_screen all = {.columns = 120};
    const char *text = draw(&run, &here, &all);
    assert_says(text, "\n100010 workers: 1 left, 3 gone, 1 silent, 1 late, 1 sending, "
                      "100001 computing, 1 resting, 1 absent\n");
    assert_says(text, "\n      7  absent ");
    assert_says(text, "\n       and 100002 more: 2 gone, 100000 computing\n");
    const top_screen some = {.rows = 11, .columns = 79};
    assert_says(draw(&run, &here, &some), "\n       and 100007 more: 1 left, 3 gone, ");
    top_run_sort(&run);
    assert_says(draw(&run, &here, &some), "\n       and 100007 more: 1 left, 2 gone, ");
    run.status.workers = 0;
    assert_says(draw(&run, &here, &some), "\n       and 100002 more: 2 gone, ");
    run.status.others[WIRE_WORKER_GONE] = run.status.others[WIRE_WORKER_LATE] = UINT32_MAX;
    run.status.others[WIRE_WORKER_COMPUTING] = 0;
    assert_says(draw(&run, &here, &some), "\n8589934590 workers: ");
}

TEST(between_rounds)
{
    OWNED(top_run) run = {.told = false};
    const status_run idle = {.done = 9, .exact = 8, .workers = 1};
    tell_top(&run, &idle, workers, 0);
    const top_screen screen = {.columns = 79};
    assert_string_equal(draw(&run, &here, &screen),
                        "tarry top  node0:7000\n"
                        "after round 9\n"
                        "exact rounds 8\n"
                        "1 worker: 1 computing\n"
                        "\n"
                        " WORKER  STATE                    DONE      PACE  CAME  RECEIVED\n"
                        "      0  computing                 2/4   1.23 ms     1   12.3 MB\n");
}

TEST(workers_that_make_the_sum)
{
    static const status_worker members[] = {
        {.state = WIRE_WORKER_HOLDING, .load = 4, .finished = 4, .arrivals = 1},
        {.state = WIRE_WORKER_SUMMING, .load = 4, .finished = 3, .arrivals = 1},
        {.state = WIRE_WORKER_BEHIND, .load = 4, .arrivals = 2},
    };
    OWNED(top_run) run = {.told = false};
    status_run sums = {.done = 9, .running = true, .attempts = 2, .exact = 9, .workers = 3};
    const top_screen screen = {.columns = 120};
    tell_top(&run, &sums, members, 0);
    assert_null(strstr(draw(&run, &here, &screen), "last sum"));
    sums.sum = (status_sum){.step = 9, .term = 1, .attempt = 11, .voters = 1, .tries = 1};
    tell_top(&run, &sums, members, 0);
    assert_says(draw(&run, &here, &screen),
                "\nlast sum: step 9 by 1 worker   attempts 1\n3 workers: ");
    sums.sum.voters = 3;
    sums.sum.tries = 2;
    sums.sum.fetches = 1;
    sums.sum.term = 4;
    tell_top(&run, &sums, members, 0);
    assert_string_equal(draw(&run, &here, &screen),
                        "tarry top  node0:7000\n"
                        "round 10\n"
                        "this round 0 s   attempts 2   exact rounds 9\n"
                        "last sum: step 9 by 3 workers   attempts 2   fetched by 1   term 4\n"
                        "3 workers: 1 holding, 1 summing, 1 behind\n"
                        "\n"
                        " WORKER  STATE                    DONE      PACE  CAME  RECEIVED\n"
                        "      0  holding                   4/4         -     1       0 B"
                        "  waits until all have the sum\n"
                        "      1  summing                   3/4         -     1       0 B\n"
                        "      2  behind                    0/4         -     2       0 B"
                        "  does not have the last parameters yet\n");
}

TEST(waiting_for_workers)
{
    OWNED(top_run) run = {.told = false};
    status_run waits = {.waiting = true, .rounds = 400, .workers = 1};
    const top_screen screen = {.columns = 79}, narrow = {.columns = 51};
    tell_top(&run, &waits, workers, 0);
    assert_says(draw(&run, &here, &screen),
                "\nwaiting for workers  before round 1 of 400  0.0 %\n");
    waits.done = 100;
    waits.median_ns = SECOND;
    tell_top(&run, &waits, workers, SECOND);
    assert_string_equal(draw(&run, &here, &narrow),
                        "tarry top  node0:7000\n"
                        "waiting for workers  after round 100 of 400  25.0 %\n"
                        "median 1.00 s   exact rounds 0\n"
                        "1 worker: 1 computing\n"
                        "\n"
                        " WORKER  STATE                    DONE      PACE  C\n"
                        "      0  computing                 2/4   1.23 ms\n");
}

TEST(the_end)
{
    OWNED(top_run) run = {.told = false};
    status_run last = status;
    last.running = false;
    tell_top(&run, &last, workers, 0);
    const top_screen screen = {.columns = 79};
    const top_link over = {.address = "node0:7000", .over = true};
    assert_says(draw(&run, &over, &screen),
                "\nafter round 1,233 of 5,000  24.7 %  12.5 rounds/s\n");
}

TEST(no_connection)
{
    top_run run = {.told = false};
    const top_screen screen = {.rows = 5, .columns = 60};
    const top_link lost = {"node0:7000", "Connection refused", false};
    assert_string_equal(draw(&run, &here, &screen), "tarry top  node0:7000\n"
                                                    "no word from the server yet\n");
    assert_string_equal(draw(&run, &lost, &screen),
                        "tarry top  node0:7000\n"
                        "no word from the server yet\n"
                        "no connection: Connection refused; tries again\n");
    const top_link escape = {"node0:7000", "\x1b[2J\r\n", false};
    assert_says(draw(&run, &escape, &screen), "no connection: ?[2J??; tries again\n");
    const top_link foreign = {"node0:7000", "\u00e9t\u00e9 \u202e", false};
    assert_says(draw(&run, &foreign, &screen), "no connection: ?t? ?; tries again\n");
}

/* What needs a look is there even if the workers take all rows. */
TEST(trouble_on_a_full_screen)
{
    OWNED(top_run) run = {.told = false};
    tell_top(&run, &status, workers, 0);
    const top_screen screen = {.rows = 11, .columns = 60};
    const top_link lost = {"node0:7000", "Connection refused", false};
    assert_says(draw(&run, &lost, &screen), "\nno connection: Connection refused; tries again\n");
    assert_int_equal(paper.rows, 11);
}

/* Any status on any screen: no more lines than rows, and none wider than there are columns. */
TEST(any_screen)
{
    random_stream random = random_stream_make(test_seed("any_screen", 73), RANDOM_TEST, 0, 0);
    OWNED(top_run) run = {.told = false};
    static status_worker some[75];
    for (unsigned trial = 0; trial < 3000; trial++) {
        status_run any = {
            .done = random_u64(&random) >> random_below(&random, 64),
            .running = random_below(&random, 2) == 0,
            .waiting = random_below(&random, 2) == 0,
            .elapsed_ns = random_u64(&random) >> random_below(&random, 64),
            .median_ns = random_u64(&random) >> random_below(&random, 64),
            .rounds = random_u64(&random) >> random_below(&random, 64),
            .workers = random_below(&random, 76),
        };
        snprintf(any.note, sizeof(any.note), "%0*d", (int)random_below(&random, 200), 1);
        for (uint32_t j = 0; j < any.workers; j++) {
            some[j] = (status_worker){
                .state = (wire_worker_state)random_below(&random, WIRE_WORKER_STATES),
                .load = (uint32_t)random_u64(&random),
                .finished = (uint32_t)random_u64(&random),
                .pace_ns = random_u64(&random) >> random_below(&random, 64),
                .heard_ns = random_u64(&random) >> random_below(&random, 64),
                .received = random_u64(&random) >> random_below(&random, 64),
            };
        }
        tell_top(&run, &any, some, random_u64(&random) >> 1);
        const top_screen screen = {
            .rows = 1 + random_below(&random, 60),
            .columns = 1 + random_below(&random, 200),
        };
        draw(&run, &here, &screen);
        assert_in_range(paper.rows, 1, screen.rows);
        assert_true(paper.widest <= screen.columns);
    }
}
