/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "base/random.h"
#include "cli/top/command_top.h"
#include "seed.h"
#include "test.h"
#include "told.h"

OWNED_STRUCT_BY(top_run, top_run_free)

#define SECOND UINT64_C(1000000000)

static void take(top_run *run, uint64_t done, uint64_t now_ns)
{
    const status_run status = {.done = done, .running = true};
    tell_top(run, &status, NULL, now_ns);
}

TEST(rates)
{
    OWNED(top_run) run = {.told = false};
    take(&run, 100, 0);
    assert_true(isnan(top_run_rate(&run)));
    take(&run, 100, 5 * SECOND);
    assert_true(isnan(top_run_rate(&run)));
    take(&run, 105, 10 * SECOND); /* 5 rounds since it was first heard of */
    assert_true(fabs(top_run_rate(&run) - 0.5) < 1e-12);
    for (uint64_t i = 1; i <= 20; i++)
        take(&run, 105 + 3 * i, (10 + i) * SECOND);
    assert_true(fabs(top_run_rate(&run) - 3) < 1e-12); /* what was before is forgotten */
    /* The next one is not overdue yet; then it is. */
    take(&run, 165, 30 * SECOND + SECOND / 3);
    assert_true(fabs(top_run_rate(&run) - 3) < 1e-8);
    take(&run, 165, 38 * SECOND + SECOND / 3);
    assert_true(fabs(top_run_rate(&run) - 1.5) < 1e-8);
    take(&run, 50, 40 * SECOND); /* resumed from a checkpoint */
    assert_true(isnan(top_run_rate(&run)));
    take(&run, 52, 41 * SECOND);
    assert_true(fabs(top_run_rate(&run) - 2) < 1e-12);
    top_run_pause(&run);
    take(&run, 90, 80 * SECOND);
    assert_true(isnan(top_run_rate(&run)));
    run.status.median_ns = SECOND / 4; /* what the server says, for want of better */
    assert_true(fabs(top_run_rate(&run) - 4) < 1e-12);
    /* Time in which workers are waited for is none in which rounds could have been done. */
    take(&run, 92, 81 * SECOND);
    assert_true(fabs(top_run_rate(&run) - 2) < 1e-12);
    const status_run waiting = {.done = 92, .waiting = true};
    tell_top(&run, &waiting, NULL, 82 * SECOND);
    tell_top(&run, &waiting, NULL, 90 * SECOND);
    take(&run, 94, 91 * SECOND);
    assert_true(fabs(top_run_rate(&run) - 2) < 1e-12);
}

static bool comes_before(const status_worker *a, const status_worker *b)
{
    static const wire_worker_state order[] = {WIRE_WORKER_SILENT, WIRE_WORKER_GONE,
                                              WIRE_WORKER_LATE,   WIRE_WORKER_BEHIND,
                                              WIRE_WORKER_LEFT,   WIRE_WORKER_ABSENT};
    for (size_t k = 0; k < 6; k++) {
        if ((a->state == order[k]) != (b->state == order[k]))
            return a->state == order[k];
    }
    return a->id < b->id;
}

TEST(trouble_comes_first)
{
    random_stream random = random_stream_make(test_seed("orders", 72), RANDOM_TEST, 0, 0);
    top_run run = {.told = false};
    status_worker worker[60];
    for (unsigned trial = 0; trial < 300; trial++) {
        const status_run status = {.workers = random_below(&random, 61)};
        for (uint32_t j = 0; j < status.workers; j++)
            worker[j] = (status_worker){
                .state = (wire_worker_state)random_below(&random, WIRE_WORKER_STATES),
            };
        tell_top(&run, &status, worker, trial);
        bool seen[60] = {false};
        top_run_sort(&run);
        for (uint32_t i = 0; i < status.workers; i++) {
            assert_in_range(run.worker[i].id, 0, status.workers - 1);
            assert_false(seen[run.worker[i].id]);
            seen[run.worker[i].id] = true;
            if (i > 0)
                assert_true(comes_before(&run.worker[i - 1], &run.worker[i]));
        }
    }
    top_run_free(&run);
    assert_false(run.told);
}

/* What a document must have is named; what is new in it is left alone. */
TEST(documents)
{
    static const char run_part[] =
        "\"run\":{\"rounds_done\":7,\"rounds\":null,\"rounds_exact\":6,\"running\":true,"
        "\"waiting\":false,\"round_seconds\":0.5,\"median_seconds\":null,\"attempts\":1,"
        "\"note\":\"\",\"new\":[1]}";
    static const char one[] =
        "{\"worker\":%d,\"state\":\"%s\",\"heard_seconds\":null,\"arrivals\":1,\"chunks_held\":4,"
        "\"chunks_done\":2,\"chunks_ever\":9,\"chunk_seconds\":1,\"received_bytes\":5,"
        "\"sent_bytes\":6,\"rack\":\"r\",\"host\":\"a\"}";
    static const struct {
        const char *version, *state;
        int id;
        const char *sum, *why; /* NULL: it is read */
    } cases[] = {
        {"1", "late", 0, "null", NULL},
        {"2", "late", 0, "null", "this is not a status of version 1"},
        {"1", "new", 0, "null", "'workers.state' is missing or wrong"},
        {"1", "late", 1, "null", "workers are out of order"},
        {"1", "late", 0, "{}", "'sum.step' is missing or wrong"},
        {"1", "late", 0, "", "this is not a status of version 1"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char worker[512], text[2048];
        OWNED(top_run) run = {.told = false};
        tarry_diagnostic why;
        snprintf(worker, sizeof(worker), one, cases[i].id, cases[i].state);
        int length = snprintf(text, sizeof(text),
                              "{\"version\":%s,%s,\"sum\":%s,\"workers\":[%s],\"unlisted\":{"
                              "\"gone\":3},\"events\":[]}",
                              cases[i].version, run_part, cases[i].sum, worker);
        int error = top_run_read(&run, text, (size_t)length, 0, &why);
        assert_int_equal(error, cases[i].why != NULL ? TARRY_ERROR_FORMAT : TARRY_OK);
        assert_int_equal(run.told, error == TARRY_OK);
        if (error != TARRY_OK) {
            assert_string_equal(why.text, cases[i].why);
            continue;
        }
        assert_int_equal(run.status.done, 7);
        assert_int_equal(run.status.elapsed_ns, SECOND / 2);
        assert_int_equal(run.status.others[WIRE_WORKER_GONE], 3);
        assert_int_equal(run.worker[0].state, WIRE_WORKER_LATE);
        assert_int_equal(run.worker[0].pace_ns, SECOND);
        assert_string_equal(run.worker[0].rack, "r");
        for (int end = 0; end < length; end++)
            assert_int_equal(top_run_read(&run, text, (size_t)end, 0, &why), TARRY_ERROR_FORMAT);
    }
}
