/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of the network server. */
#include "runtime/clock.h"
#include "server_bench.h"
#include "test.h"

static int look(void *user, const tarry_server *machine)
{
    *(size_t *)user = tarry_server_checkpoint_size(machine);
    return 7;
}

/* A server that was restored lets nobody in before its own checkpoint is stored. */
BENCH(goes_on_from_a_checkpoint)
{
    bench_open_crewed(its);
    assert_ok(bench_round(its, 1));
    size_t size = 0;
    assert_int_equal(tarry_runtime_visit(its->server, look, &size), 7);
    OWNED(uint8_t) bytes = malloc(size);
    assert_ok(tarry_runtime_checkpoint(its->server, bytes));
    uint8_t job[TARRY_JOB_ID_SIZE];
    tarry_runtime_job_id(its->server, job);
    bench_end(its);

    bench_init(its);
    memcpy(its->settings.job_id, job, sizeof(job));
    its->settings.checkpoint = bytes;
    its->settings.checkpoint_size = size;
    bench_begin(its, 1);
    tarry_diagnostic diagnostic;
    assert_int_equal(
        tarry_runtime_round(its->server, its->parameters, its->sum, &its->result, &diagnostic),
        TARRY_ERROR_STATE);
    assert_ok(tarry_runtime_checkpoint(its->server, bytes));
    assert_int_equal(tarry_runtime_open(its->server, &diagnostic), TARRY_ERROR_STATE);
    tarry_runtime_stored(its->server, bytes);
    assert_ok(tarry_runtime_open(its->server, NULL));
    crew_hire(its, WORKERS);
    crew_start(its);
    assert_ok(bench_round(its, 2));
    assert_int_equal(its->result.round, 1);
    assert_true_sum(its, 2);
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
    assert_ok(tarry_runtime_checkpoint(its->bench->server, its->bytes));
    tarry_runtime_stored(its->bench->server, its->bytes);
}

BENCH(its_caller_can_store_a_checkpoint_in_a_round)
{
    attendant keeper = {.bench = its};
    bench_init(its);
    its->settings.attend = attend;
    its->settings.attend_user = &keeper;
    bench_begin(its, 1);
    crew_hire(its, WORKERS);
    keeper.times = 0;
    uint64_t start_ns = clock_now_ns();
    assert_int_equal(tarry_runtime_wait(its->server, WORKERS + 1, UINT64_C(1500000000), NULL),
                     TARRY_ERROR_STATE);
    uint64_t seconds = (clock_now_ns() - start_ns) / UINT64_C(1000000000);
    assert_in_range(keeper.times, 1, 1 + seconds); /* the first one may have been due */
    size_t size = 0;
    assert_int_equal(tarry_runtime_visit(its->server, look, &size), 7);
    assert_true(size <= sizeof(keeper.bytes));
    for (uint32_t i = 0; i < WORKERS; i++)
        its->crew.workers[i].slowness = 1.2;
    crew_start(its);
    uint32_t before = keeper.times;
    for (uint32_t round = 0; round < 20 && keeper.times == before; round++) {
        bench_good_round(its, 1);
    }
    assert_true(keeper.times > before);
}
