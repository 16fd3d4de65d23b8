/* SPDX-License-Identifier: Apache-2.0 */
/* What runtimes take from their allocators, against what tarry_memory_of says that they do. The
 * gradients are long, so that nothing else weighs: parameters are two numbers. */
#include <math.h>

#include <tarry/settings.h>

#include "cluster.h"
#include "counting_allocator.h"
#include "summing.h"
#include "test.h"

/* SUMMING_BYTES: through which a worker sums with others of its process. */
enum { WORKERS = 4, SUMMING_BYTES = 1 << 20 };
enum { ROUNDS = 2, SERVER_BYTES = 8 << 20 };

/* What a run is made of, where it is not as by default. */
typedef struct case_settings {
    const char *name;
    tarry_settings settings;
} case_settings;

static tarry_settings settings_of(uint32_t pieces, uint32_t parts)
{
    tarry_settings settings;
    tarry_settings_init(&settings);
    settings.plan.workers = WORKERS;
    settings.plan.chunks = 4;
    settings.plan.pieces = pieces;
    settings.plan.replication = 3;
    settings.plan.parts = parts;
    return settings;
}

enum { CASES = 8 };

static void fill_cases(case_settings cases[CASES])
{
    size_t i = 0;
    cases[i++] = (case_settings){"by default", settings_of(0, 1)};
    cases[i] = (case_settings){"all kept", settings_of(1, 1)};
    cases[i++].settings.keep_auto = false;
    cases[i] = (case_settings){"credited", settings_of(4, 1)};
    cases[i].settings.keep_auto = false;
    cases[i++].settings.server.keep = TARRY_KEEP_CREDITED;
    cases[i] = (case_settings){"credited, one ahead", settings_of(4, 1)};
    cases[i].settings.keep_auto = false;
    cases[i].settings.server.ahead = 1;
    cases[i++].settings.server.keep = TARRY_KEEP_CREDITED;
    cases[i++] = (case_settings){"two parts", settings_of(2, 2)};
    cases[i] = (case_settings){"credited, few chunks", settings_of(1, 1)};
    cases[i].settings.keep_auto = false;
    cases[i].settings.server.ahead = 1000;
    cases[i++].settings.server.keep = TARRY_KEEP_CREDITED;
    cases[i] = (case_settings){"a stale fill", settings_of(1, 1)};
    cases[i].settings.server.stop = TARRY_STOP_ERROR;
    cases[i].settings.server.error_limit = 0.5;
    cases[i++].settings.server.fill = TARRY_FILL_STALE;
    cases[i] = (case_settings){"static order", settings_of(2, 3)};
    cases[i++].settings.server.pick = TARRY_PICK_PLAN;
    assert_int_equal(i, CASES);
}

/* Settled, as every command does it. */
static void settle(tarry_settings *settings, uint64_t dimension, double bytes)
{
    tarry_conflict conflict;
    assert_ok(tarry_settings_settle(settings, 0, &conflict));
    tarry_settings_keep(settings, dimension, bytes, false);
}

static void assert_close(const char *name, uint64_t taken, uint64_t told)
{
    double ratio = (double)taken / (double)told;
    if (!(fabs(ratio - 1) <= 0.01))
        fail_msg("%s: %llu bytes are taken, %llu are told: %.4f times", name,
                 (unsigned long long)taken, (unsigned long long)told, ratio);
}

static void check_local(const char *name, const tarry_settings *settings, size_t dimension)
{
    counting_allocator memory;
    counting_allocator_init(&memory);
    summing job;
    summing_init(&job);
    job.plan_settings = settings->plan;
    uint64_t silence_ns = job.local_settings.server.silence_ns;
    job.local_settings.server = settings->server;
    job.local_settings.server.silence_ns = silence_ns;
    job.dimension = dimension;
    job.allocator = &memory.allocator;
    summing_begin(&job);
    tarry_memory told = tarry_memory_of(job.plan, &settings->server, dimension);
    for (int round = 0; round < ROUNDS; round++) {
        tarry_round_result result;
        assert_ok(summing_round(&job, &result, NULL));
    }
    assert_close(name, atomic_load(&memory.most), told.total);
    assert_in_range(told.total, 4 * told.least, 4 * told.most);
    summing_end(&job);
    assert_int_equal(atomic_load(&memory.live), 0);
}

/* ---- where workers make the sum ---- */

static int step(void *user, uint64_t number, const float *sum)
{
    return TARRY_OK;
}

static int parameters(void *user, float *into)
{
    into[0] = into[1] = 1;
    return TARRY_OK;
}

static counting_allocator job_memory; /* outlives the job that takes of it */

SUMMING(workers_with_the_sum_take_what_is_told)
{
    const tarry_replica replica = {.step = step, .parameters = parameters};
    const tarry_replica replicas[] = {replica, replica, replica, replica};
    const size_t dimension = 300000;
    tarry_settings settings = settings_of(2, 1);
    settings.server.sum = TARRY_SUM_EVERYWHERE;
    settle(&settings, dimension, INFINITY);
    counting_allocator_init(&job_memory);
    summing_init(job);
    job->plan_settings = settings.plan;
    uint64_t silence_ns = job->local_settings.server.silence_ns;
    job->local_settings.server = settings.server;
    job->local_settings.server.silence_ns = silence_ns;
    job->local_settings.replicas = replicas;
    job->dimension = dimension;
    job->allocator = &job_memory.allocator;
    summing_begin(job);
    tarry_round_result result;
    assert_ok(tarry_runtime_round(job->local, NULL, NULL, &result, NULL));
    assert_close("everywhere", atomic_load(&job_memory.most),
                 tarry_memory_of(job->plan, &settings.server, dimension).total +
                     WORKERS * SUMMING_BYTES);
}

TEST(threads_take_what_is_told)
{
    const size_t dimension = 300000;
    case_settings cases[CASES];
    fill_cases(cases);
    for (size_t i = 0; i < CASES; i++) {
        settle(&cases[i].settings, dimension, INFINITY);
        check_local(cases[i].name, &cases[i].settings, dimension);
    }
}

/* Workers run ahead as the memory allows, within limits: of 4 workers each has a running sum, a
 * gradient in progress, and as many as it runs ahead. */
TEST(what_is_not_needed_is_not_kept)
{
    const size_t dimension = 300000;
    const double vector = dimension * sizeof(float);
    const struct {
        double bytes;
        uint32_t ahead;
    } cases[] = {
        {0, 3}, {4 * 5 * vector, 3}, {4 * 6 * vector, 4}, {4 * 10 * vector, 8}, {INFINITY, 8},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tarry_settings settings = settings_of(8, 1);
        settle(&settings, dimension, cases[i].bytes);
        assert_int_equal(settings.server.keep, TARRY_KEEP_CREDITED);
        assert_int_equal(settings.server.ahead, cases[i].ahead);
        check_local("by default", &settings, dimension);
    }
}

/* What a running sum can't do keeps all. */
TEST(all_is_kept_where_it_has_to_be)
{
    tarry_settings cases[] = {settings_of(2, 2), settings_of(2, 1), settings_of(2, 1),
                              settings_of(2, 1), settings_of(2, 1)};
    cases[1].server.reproducible = true;
    cases[2].server.credit = TARRY_CREDIT_WHOLE;
    cases[3].server.stop = TARRY_STOP_ERROR;
    cases[3].server.fill = TARRY_FILL_STALE;
    cases[4].keep_auto = false; /* by choice */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        settle(&cases[i], 10, INFINITY);
        assert_int_equal(cases[i].server.keep, TARRY_KEEP_ALL);
    }
}

/* A worker's connection has buffers of 100 kB, which are to weigh less than that. */
static size_t heavy_dimension(const tarry_settings *settings)
{
    uint64_t each = tarry_worker_bytes(3 * (uint64_t)settings->plan.pieces, settings->plan.parts,
                                       &settings->server, 6);
    return (size_t)(6 * 16e6 / (double)each);
}

static void check_processes(const char *name, tarry_settings *settings)
{
    settle(settings, 1, INFINITY);
    const bool secure = settings->server.secure != 0;
    /* A connection of TLS has more buffers. */
    const size_t dimension = heavy_dimension(settings) * (secure ? 3 : 1);
    counting_allocator server, worker[4];
    cluster its;
    cluster_init(&its);
    its.plan_settings = settings->plan;
    uint64_t silence_ns = its.settings.server.silence_ns;
    its.settings.server = settings->server;
    its.settings.server.silence_ns = silence_ns;
    its.tls = its.secure = secure;
    its.settings.secure = (tarry_secure_rules){.bits = settings->server.secure, .bound = 1e6};
    its.workers = 4;
    its.dimension = dimension;
    its.parameter_count = 2;
    counting_allocator_init(&server);
    its.allocator = &server.allocator;
    for (uint32_t id = 0; id < 4; id++) {
        counting_allocator_init(&worker[id]);
        its.members[id].allocator = &worker[id].allocator;
    }
    cluster_begin(&its);
    tarry_round_result result;
    assert_ok(cluster_round(&its, &result, NULL));
    for (uint32_t id = 0; id < 4; id++) {
        uint64_t told =
            tarry_worker_bytes(tarry_plan_load(its.plan, id), tarry_plan_parts(its.plan),
                               &settings->server, dimension);
        assert_close(name, atomic_load(&worker[id].most), told);
    }
    /* Wide words are summed beside the caller's vector. */
    uint64_t words = settings->server.secure == 64 ? dimension * sizeof(uint64_t) : 0;
    assert_true(atomic_load(&server.most) < SERVER_BYTES + words);
    cluster_end(&its);
    assert_int_equal(atomic_load(&server.live), 0);
}

/* Every second case: a worker of the network keeps the same as a thread. The server has its
 * caller's vectors, and what its connections hold for a while. */
TEST(processes_take_what_is_told)
{
    case_settings cases[CASES];
    fill_cases(cases);
    for (size_t i = 1; i < CASES; i += 2)
        check_processes(cases[i].name, &cases[i].settings);
}

TEST(workers_of_secure_sums_take_what_is_told)
{
    static const uint32_t bits[] = {32, 64};
    for (unsigned i = 0; i < 2; i++) {
        tarry_settings settings = settings_of(1, 1);
        settings.server.secure = bits[i];
        check_processes(i == 0 ? "secure, 32 bits" : "secure, 64 bits", &settings);
    }
}
