/* SPDX-License-Identifier: Apache-2.0 */
/* What the network server shows to viewers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <string.h>

#include "server_bench.h"

/* `listed`: workers of which the state says more than how many are in each state. */
static void show_how_it_stands(uint32_t listed)
{
    bench its;
    crew all;
    bench_init(&its);
    if (listed < WORKERS) {
        wire_status most = {.workers = listed};
        memset(most.note, 'x', WIRE_STATUS_NOTE_BYTES);
        its.settings.most_peer_bytes = 2 * wire_status_size(&most);
    }
    bench_begin(&its, 1);
    crew_hire(&all, &its, WORKERS);
    crew_start(&all);
    assert_int_equal(bench_round(&its, 1), TARRY_OK);
    tarry_runtime_note(its.server, 5, 12, "loss 0.5");
    assert_int_equal(bench_round(&its, 2), TARRY_OK);
    script viewer;
    script_open(&viewer, its.address, 99);
    script_say_hello(&viewer, WIRE_ROLE_VIEWER, WIRE_ANY_WORKER);
    script_await(&viewer, WIRE_STATUS);
    wire_status status;
    assert_int_equal(wire_status_decode(&viewer.head, viewer.body, &status), TARRY_OK);
    assert_string_equal(status.note, "loss 0.5");
    assert_int_equal(status.rounds, 12);
    assert_int_equal(status.done, 6);
    assert_int_equal(status.exact, 2);
    assert_false(status.running);
    assert_false(status.waiting);
    assert_int_equal(status.workers, listed);
    assert_int_equal(status.others[WIRE_WORKER_RESTING], WORKERS - listed);
    assert_int_equal(wire_status_all_workers(&status), WORKERS);
    for (uint32_t worker = 0; worker < listed; worker++) {
        wire_worker_status one;
        assert_int_equal(wire_status_worker(&viewer.head, viewer.body, worker, &one), TARRY_OK);
        assert_int_equal(one.state, WIRE_WORKER_RESTING);
        assert_int_equal(one.load, 3);
    }
    script_close(&viewer);
    bench_end(&its);
    crew_dismiss(&all);
}

static void shows_viewers_how_it_stands(void **state)
{
    (void)state;
    show_how_it_stands(WORKERS);
}

static void lists_as_many_workers_as_fit(void **state)
{
    (void)state;
    show_how_it_stands(WORKERS - 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows_viewers_how_it_stands),
        cmocka_unit_test(lists_as_many_workers_as_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
