/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of the network server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <string.h>

#include "runtime/clock.h"
#include "server_bench.h"

static int look(void *user, const tarry_server *machine)
{
    *(size_t *)user = tarry_server_checkpoint_size(machine);
    return 7;
}

/* A server that was restored lets nobody in before its own checkpoint is stored. */
static void goes_on_from_a_checkpoint(void **state)
{
    (void)state;
    bench its;
    crew all;
    bench_init(&its);
    bench_begin(&its, 1);
    crew_hire(&all, &its, WORKERS);
    crew_start(&all);
    assert_int_equal(bench_round(&its, 1), TARRY_OK);
    size_t size = 0;
    assert_int_equal(tarry_runtime_visit(its.server, look, &size), 7);
    uint8_t *bytes = malloc(size);
    assert_int_equal(tarry_runtime_checkpoint(its.server, bytes), TARRY_OK);
    uint8_t job[TARRY_JOB_ID_SIZE];
    tarry_runtime_job_id(its.server, job);
    bench_end(&its);
    crew_dismiss(&all);

    bench_init(&its);
    memcpy(its.settings.job_id, job, sizeof(job));
    its.settings.checkpoint = bytes;
    its.settings.checkpoint_size = size;
    bench_begin(&its, 1);
    tarry_diagnostic diagnostic;
    assert_int_equal(
        tarry_runtime_round(its.server, its.parameters, its.sum, &its.result, &diagnostic),
        TARRY_ERROR_STATE);
    assert_int_equal(tarry_runtime_checkpoint(its.server, bytes), TARRY_OK);
    assert_int_equal(tarry_runtime_open(its.server, &diagnostic), TARRY_ERROR_STATE);
    tarry_runtime_stored(its.server, bytes);
    assert_int_equal(tarry_runtime_open(its.server, NULL), TARRY_OK);
    crew_hire(&all, &its, WORKERS);
    crew_start(&all);
    assert_int_equal(bench_round(&its, 2), TARRY_OK);
    assert_int_equal(its.result.round, 1);
    assert_true_sum(&its, 2);
    bench_end(&its);
    crew_dismiss(&all);
    free(bytes);
}

/* What the caller does while it waits. */
typedef struct attendant {
    bench *bench;
    uint32_t times;
    uint8_t bytes[4096];
} attendant;

static void attend(void *user)
{
    attendant *its = user;
    its->times++;
    assert_int_equal(tarry_runtime_checkpoint(its->bench->server, its->bytes), TARRY_OK);
    tarry_runtime_stored(its->bench->server, its->bytes);
}

static void its_caller_can_store_a_checkpoint_in_a_round(void **state)
{
    (void)state;
    bench its;
    crew all;
    attendant keeper = {.bench = &its};
    bench_init(&its);
    its.settings.attend = attend;
    its.settings.attend_user = &keeper;
    bench_begin(&its, 1);
    crew_hire(&all, &its, WORKERS);
    keeper.times = 0;
    uint64_t start_ns = clock_now_ns();
    assert_int_equal(tarry_runtime_wait(its.server, WORKERS + 1, UINT64_C(1500000000), NULL),
                     TARRY_ERROR_STATE);
    uint64_t seconds = (clock_now_ns() - start_ns) / UINT64_C(1000000000);
    assert_in_range(keeper.times, 1, 1 + seconds); /* the first one may have been due */
    size_t size = 0;
    assert_int_equal(tarry_runtime_visit(its.server, look, &size), 7);
    assert_true(size <= sizeof(keeper.bytes));
    for (uint32_t i = 0; i < WORKERS; i++)
        all.workers[i].slowness = 1.2;
    crew_start(&all);
    uint32_t before = keeper.times;
    for (uint32_t round = 0; round < 20 && keeper.times == before; round++) {
        assert_int_equal(bench_round(&its, 1), TARRY_OK);
        assert_true_sum(&its, 1);
    }
    assert_true(keeper.times > before);
    bench_end(&its);
    crew_dismiss(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_from_a_checkpoint),
        cmocka_unit_test(its_caller_can_store_a_checkpoint_in_a_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
