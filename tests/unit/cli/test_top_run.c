/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "cli/top/top_run.h"
#include "seed.h"

#define SECOND UINT64_C(1000000000)

static void take(top_run *run, uint64_t done, uint64_t now_ns)
{
    const wire_status status = {.done = done, .running = true};
    assert_int_equal(top_run_take(run, &status, NULL, now_ns), TARRY_OK);
}

static void rates(void **state)
{
    (void)state;
    top_run run = {.told = false};
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
    const wire_status waiting = {.done = 92, .waiting = true};
    assert_int_equal(top_run_take(&run, &waiting, NULL, 82 * SECOND), TARRY_OK);
    assert_int_equal(top_run_take(&run, &waiting, NULL, 90 * SECOND), TARRY_OK);
    take(&run, 94, 91 * SECOND);
    assert_true(fabs(top_run_rate(&run) - 2) < 1e-12);
    top_run_free(&run);
}

static bool comes_before(const top_run *run, top_sort sort, uint32_t i, uint32_t j)
{
    static const wire_worker_state order[] = {WIRE_WORKER_SILENT, WIRE_WORKER_GONE,
                                              WIRE_WORKER_LATE,   WIRE_WORKER_BEHIND,
                                              WIRE_WORKER_LEFT,   WIRE_WORKER_ABSENT};
    const wire_worker_status *a = &run->worker[i], *b = &run->worker[j];
    for (size_t k = 0; sort == TOP_SORT_TROUBLE && k < 6; k++) {
        if ((a->state == order[k]) != (b->state == order[k]))
            return a->state == order[k];
    }
    if (sort == TOP_SORT_PACE && a->pace_ns != b->pace_ns)
        return a->pace_ns > b->pace_ns;
    return i < j;
}

static void orders(void **state)
{
    (void)state;
    random_stream random = random_stream_make(test_seed("orders", 72), RANDOM_TEST, 0, 0);
    top_run run = {.told = false};
    wire_worker_status worker[60];
    for (unsigned trial = 0; trial < 300; trial++) {
        const wire_status status = {.workers = random_below(&random, 61)};
        for (uint32_t j = 0; j < status.workers; j++) {
            worker[j] = (wire_worker_status){
                .state = (wire_worker_state)random_below(&random, WIRE_WORKER_STATES),
                .pace_ns = random_below(&random, 4),
            };
        }
        assert_int_equal(top_run_take(&run, &status, worker, trial), TARRY_OK);
        for (top_sort sort = TOP_SORT_TROUBLE; sort < TOP_SORTS; sort++) {
            bool seen[60] = {false};
            top_run_sort(&run, sort);
            for (uint32_t i = 0; i < status.workers; i++) {
                assert_in_range(run.order[i], 0, status.workers - 1);
                assert_false(seen[run.order[i]]);
                seen[run.order[i]] = true;
                if (i > 0)
                    assert_true(comes_before(&run, sort, run.order[i - 1], run.order[i]));
            }
        }
    }
    top_run_free(&run);
    assert_false(run.told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates),
        cmocka_unit_test(orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
