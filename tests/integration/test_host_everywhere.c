/* SPDX-License-Identifier: Apache-2.0 */
/* A runtime of one's own where everyone gets the sum: its transport is a queue in this process. */
#include <pthread.h>
#include <time.h>

#include <tarry/direct.h>
#include <tarry/host.h>

#include "edge_plan.h"
#include "failing_allocator.h"
#include "replica.h"
#include "test.h"

/* States take several pieces, more than are on their way at a time. */
enum { WORKERS = 4, CHUNKS = 8, DIMENSION = 70000, PATIENCE_S = 60 };

/* A frame to the server (to: NO_WORKER, passed: false), or what was passed to anybody. */
typedef struct posted {
    struct posted *next;
    uint32_t from, to;
    bool passed;
    size_t size;
    uint8_t bytes[];
} posted;

typedef struct bench bench;

typedef struct seat {
    bench *of;
    uint32_t worker;
    tarry_worker_host *host;
    tarry_engine *engine;
} seat;

struct bench {
    tarry_plan *plan;
    tarry_runtime *runtime;
    replica_job job;
    seat seats[WORKERS];
    pthread_mutex_t lock;
    pthread_cond_t filled;
    posted *first, **last;
    bool woken;
    bool cut[WORKERS];      /* nothing reaches the worker, or comes from it */
    unsigned passes;        /* that came */
    unsigned gave[WORKERS]; /* of those, to the server */
};

static void post(bench *its, uint32_t from, uint32_t to, bool passed, const void *bytes,
                 size_t size)
{
    posted *item = checked_malloc(sizeof(*item) + size);
    *item = (posted){.from = from, .to = to, .passed = passed, .size = size};
    memcpy(item->bytes, bytes, size);
    pthread_mutex_lock(&its->lock);
    *its->last = item;
    its->last = &item->next;
    pthread_cond_signal(&its->filled);
    pthread_mutex_unlock(&its->lock);
}

static void send_up(void *user, const void *frame, size_t size, const float *numbers, size_t count)
{
    const seat *own = user;
    assert_true(numbers == NULL && count == 0);
    post(own->of, own->worker, TARRY_NO_WORKER, false, frame, size);
}

static void pass_on(void *user, uint32_t to, const void *bytes, size_t size)
{
    const seat *own = user;
    assert_true(size <= TARRY_PASS_MOST);
    post(own->of, own->worker, to, true, bytes, size);
}

static void pass_down(void *user, uint32_t worker, const void *bytes, size_t size)
{
    post(user, TARRY_NO_WORKER, worker, true, bytes, size);
}

static int send_down(void *user, uint32_t worker, const void *frame, size_t size,
                     const float *numbers, size_t count)
{
    const bench *its = user;
    if (its->cut[worker])
        return -1;
    return tarry_worker_host_deliver(its->seats[worker].host, frame, size, numbers, count);
}

static bool is_cut(const bench *its, uint32_t party)
{
    return party != TARRY_NO_WORKER && its->cut[party];
}

static void deliver(bench *its, const posted *item)
{
    int error;
    if (is_cut(its, item->from) || is_cut(its, item->to))
        return;
    its->passes += item->passed;
    if (item->passed && item->to == TARRY_NO_WORKER)
        its->gave[item->from]++;
    if (!item->passed)
        error = tarry_host_deliver(its->runtime, item->from, item->bytes, item->size, NULL, 0);
    else if (item->to == TARRY_NO_WORKER)
        error = tarry_host_passed(its->runtime, item->from, item->bytes, item->size);
    else
        error = tarry_worker_host_passed(its->seats[item->to].host, item->from, item->bytes,
                                         item->size);
    assert_ok(error);
}

/* Time never presses here: what is waited for comes, or the test is over. */
static void receive(void *user, tarry_runtime *runtime, uint64_t until_ns)
{
    bench *its = user;
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec = soon.tv_nsec / 1000000 * 1000000 + 999999;
    pthread_mutex_lock(&its->lock);
    while (its->first == NULL && !its->woken && until_ns > 0 &&
           pthread_cond_timedwait(&its->filled, &its->lock, &soon) == 0)
        ;
    posted *item = its->first;
    its->first = NULL;
    its->last = &its->first;
    its->woken = false;
    pthread_mutex_unlock(&its->lock);
    while (item != NULL) {
        posted *next = item->next;
        deliver(its, item);
        free(item);
        item = next;
    }
}

static void wake(void *user)
{
    bench *its = user;
    pthread_mutex_lock(&its->lock);
    its->woken = true;
    pthread_cond_signal(&its->filled);
    pthread_mutex_unlock(&its->lock);
}

static int replan(void *user, const tarry_plan *next)
{
    bench *its = user;
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        if (tarry_worker_host_replan(its->seats[worker].host, next) != TARRY_OK)
            return -1;
    return 0;
}

static tarry_server_settings server_settings(void)
{
    tarry_server_settings server;
    tarry_server_settings_init(&server);
    server.sum = TARRY_SUM_EVERYWHERE;
    server.silence_ns = UINT64_C(30000000000);
    return server;
}

static tarry_host_settings wanted_host(bench *its)
{
    tarry_host_settings settings;
    tarry_host_settings_init(&settings);
    settings.parameters = settings.dimension = DIMENSION;
    settings.server = server_settings();
    settings.transport = (tarry_transport){.user = its,
                                           .send = send_down,
                                           .receive = receive,
                                           .wake = wake,
                                           .replan = replan,
                                           .pass = pass_down};
    return settings;
}

/* The user of `compute` is the seat's. */
static int compute(void *user, const tarry_task *task)
{
    seat *own = user;
    return replica_compute(&own->of->job, task);
}

static tarry_worker_host_settings wanted_worker(seat *own)
{
    tarry_worker_host_settings settings;
    tarry_worker_host_settings_init(&settings);
    settings.worker = own->worker;
    settings.parameters = settings.dimension = DIMENSION;
    settings.server = server_settings();
    settings.compute = compute;
    settings.user = own;
    settings.send = send_up;
    settings.pass = pass_on;
    settings.replica = replica_of(&own->of->job, own->worker);
    settings.engine = own->engine;
    return settings;
}

static int make_worker(seat *own, const tarry_allocator *allocator)
{
    tarry_worker_host_settings settings = wanted_worker(own);
    return tarry_worker_host_create(own->of->plan, &settings, allocator, &own->host, NULL);
}

static void introduce(bench *its)
{
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        uint8_t address[TARRY_ENGINE_ADDRESS_MOST];
        size_t size;
        tarry_engine *engine = its->seats[worker].engine;
        engine->methods->address(engine, address, &size);
        for (uint32_t other = 0; other < WORKERS; other++)
            if (other != worker)
                assert_ok(tarry_worker_host_meet(its->seats[other].host, worker, address, size));
    }
}

static tarry_plan *make_plan(uint64_t seed)
{
    return plan_drawn(WORKERS, CHUNKS, 2, seed);
}

static void begin(bench *its)
{
    *its = (bench){.plan = make_plan(1)};
    its->last = &its->first;
    replica_job_init(&its->job, WORKERS, CHUNKS, DIMENSION);
    pthread_mutex_init(&its->lock, NULL);
    pthread_cond_init(&its->filled, NULL);
    const tarry_host_settings settings = wanted_host(its);
    assert_ok(tarry_host_create(its->plan, &settings, NULL, &its->runtime, NULL));
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        its->seats[worker] = (seat){.of = its, .worker = worker};
        replica_engine(&its->job, worker, &its->seats[worker].engine);
        assert_ok(make_worker(&its->seats[worker], NULL));
    }
    introduce(its);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        tarry_host_join(its->runtime, worker);
}

static void end(bench *its)
{
    tarry_runtime_free(its->runtime, true);
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        tarry_worker_host_free(its->seats[worker].host);
        its->seats[worker].engine->methods->free(its->seats[worker].engine);
    }
    while (its->first != NULL) {
        posted *item = its->first;
        its->first = item->next;
        free(item);
    }
    tarry_plan_free(its->plan);
    replica_job_end(&its->job);
    pthread_cond_destroy(&its->filled);
    pthread_mutex_destroy(&its->lock);
}

#define BENCH(name) TEST_OF(name, bench, its, end)

static void run_rounds(bench *its, unsigned rounds)
{
    tarry_round_result result;
    for (unsigned round = 0; round < rounds; round++) {
        tarry_diagnostic why = {""};
        assert_ok_or(why, tarry_runtime_round(its->runtime, NULL, NULL, &result, &why));
        assert_true(result.exact);
    }
}

static void all_are_ready(bench *its, uint32_t workers)
{
    assert_ok(tarry_runtime_wait(its->runtime, workers, UINT64_C(1000000000) * PATIENCE_S, NULL));
}

/* What is passed is carried only while the runtime waits: so it does until all are up to date. */
static void all_have_stepped(bench *its, uint64_t steps)
{
    all_are_ready(its, WORKERS);
    replica_await(&its->job, steps);
}

BENCH(everyone_steps_on_the_same_sums)
{
    begin(its);
    all_are_ready(its, WORKERS);
    run_rounds(its, 3);
    tarry_plan *next = make_plan(2);
    assert_ok(tarry_runtime_replan(its->runtime, next, NULL));
    tarry_plan_free(its->plan);
    its->plan = next;
    run_rounds(its, 3);
    all_have_stepped(its, 6);
    replica_check(&its->job, 6);
    OWNED(float) expected = replica_expect(&its->job, 6);
    replica_compare(&its->job, expected);
}

BENCH(one_that_loses_its_sums_gets_them)
{
    begin(its);
    its->job.losing[1] = 1 << 2 | 1 << 3 | 1 << 4;
    run_rounds(its, 4);
    all_have_stepped(its, 4);
    replica_check(&its->job, 4);
    assert_true(its->passes >= 2 * DIMENSION * sizeof(float) / TARRY_PASS_MOST);
}

BENCH(one_that_was_gone_loads_the_state)
{
    begin(its);
    run_rounds(its, 1);
    all_have_stepped(its, 1);
    its->cut[2] = true;
    tarry_host_lose(its->runtime, 2);
    for (uint32_t other = 0; other < WORKERS; other++)
        if (other != 2)
            tarry_worker_host_part(its->seats[other].host, 2);
    run_rounds(its, 3);
    assert_int_equal(its->job.replicas[2].steps, 1);
    its->cut[2] = false;
    tarry_worker_host_cut(its->seats[2].host);
    tarry_host_join(its->runtime, 2);
    all_are_ready(its, WORKERS);
    run_rounds(its, 2);
    all_have_stepped(its, 6);
    replica_check(&its->job, 6);
    assert_true(its->job.replicas[2].loads >= 1);
}

BENCH(the_server_gets_copies)
{
    tarry_sum_id after;
    void *bytes;
    uint64_t size;
    begin(its);
    run_rounds(its, 2);
    assert_ok(tarry_runtime_state(its->runtime, UINT64_C(1000000000) * PATIENCE_S, &after, &bytes,
                                  &size, NULL));
    all_have_stepped(its, 2);
    assert_int_equal(after.step, 2);
    assert_int_equal(size, sizeof(uint64_t) + 2 * DIMENSION * sizeof(float));
    assert_memory_equal((uint8_t *)bytes + sizeof(uint64_t), its->job.replicas[0].state,
                        2 * DIMENSION * sizeof(float));
    tarry_runtime_release_state(its->runtime, bytes);
    OWNED(float) before = checked_malloc(2 * DIMENSION * sizeof(float));
    OWNED(float) sum = checked_malloc(DIMENSION * sizeof(float));
    memcpy(before, its->job.replicas[0].state, 2 * DIMENSION * sizeof(float));
    run_rounds(its, 1);
    assert_ok(tarry_runtime_sum(its->runtime, UINT64_C(1000000000) * PATIENCE_S, sum, NULL));
    all_have_stepped(its, 3);
    replica_descend(&its->job, before, sum);
    assert_memory_equal(before, its->job.replicas[0].state, 2 * DIMENSION * sizeof(float));
}

/* In calls that wait no time, until something of the state has come. */
static void ask_until_copied(bench *its)
{
    tarry_sum_id after;
    void *bytes;
    uint64_t size, copied = tarry_runtime_copied(its->runtime);
    while (tarry_runtime_copied(its->runtime) == copied)
        assert_int_equal(tarry_runtime_state(its->runtime, 0, &after, &bytes, &size, NULL),
                         TARRY_ERROR_STATE);
}

/* What a call does not get is there for the next one: the worker writes its state once. A round in
 * between, and a worker that is lost in the middle, begin a new transfer. */
BENCH(a_state_arrives_over_many_short_calls)
{
    tarry_sum_id after;
    void *bytes;
    uint64_t size;
    begin(its);
    run_rounds(its, 2);
    all_have_stepped(its, 2);
    unsigned before = replica_saves(&its->job);
    assert_true(replica_check_state_in_slices(&its->job, its->runtime, 2) > 1);
    assert_int_equal(replica_saves(&its->job) - before, 1);
    ask_until_copied(its);
    run_rounds(its, 1);
    all_have_stepped(its, 3);
    memset(its->gave, 0, sizeof(its->gave));
    ask_until_copied(its);
    uint32_t giver = 0;
    while (giver < WORKERS && its->gave[giver] == 0)
        giver++;
    assert_true(giver < WORKERS);
    its->cut[giver] = true;
    tarry_host_lose(its->runtime, giver);
    before = replica_saves(&its->job);
    assert_ok(tarry_runtime_state(its->runtime, UINT64_C(1000000000) * PATIENCE_S, &after, &bytes,
                                  &size, NULL));
    assert_int_equal(after.step, 3);
    assert_int_equal(replica_saves(&its->job) - before, 1);
    tarry_runtime_release_state(its->runtime, bytes);
}

static int try_to_make(void *user, const tarry_allocator *allocator)
{
    bench *its = user;
    const tarry_host_settings settings = wanted_host(its);
    int error = tarry_host_create(its->plan, &settings, allocator, &its->runtime, NULL);
    if (error != TARRY_OK)
        return error;
    tarry_runtime_free(its->runtime, true);
    error = make_worker(&its->seats[0], allocator);
    if (error != TARRY_OK)
        return error;
    const uint8_t address[8] = {1};
    error = tarry_worker_host_meet(its->seats[0].host, 1, address, sizeof(address));
    tarry_worker_host_free(its->seats[0].host);
    return error;
}

TEST(settings_are_checked_and_allocations_may_fail)
{
    static bench its;
    its = (bench){.plan = make_plan(1)};
    replica_job_init(&its.job, WORKERS, CHUNKS, DIMENSION);
    its.seats[0].of = &its;
    assert_int_equal(make_worker(&its.seats[0], NULL), TARRY_ERROR_ARGUMENT); /* no engine */
    replica_engine(&its.job, 0, &its.seats[0].engine);
    fail_each_allocation(try_to_make, &its);
    assert_ok(make_worker(&its.seats[0], NULL));
    assert_int_equal(tarry_worker_host_meet(its.seats[0].host, WORKERS, NULL, 0),
                     TARRY_ERROR_ARGUMENT);
    const uint8_t bytes[40] = {0xff};
    for (size_t size = 0; size <= sizeof(bytes); size++)
        assert_int_equal(tarry_worker_host_passed(its.seats[0].host, 1, bytes, size),
                         TARRY_ERROR_FORMAT);
    tarry_worker_host_free(its.seats[0].host);
    its.seats[0].engine->methods->free(its.seats[0].engine);
    replica_job_end(&its.job);
    tarry_plan_free(its.plan);
}

static void expect_form_refused(seat *own, tarry_worker_host_settings settings, const char *why)
{
    tarry_diagnostic said;
    assert_int_equal(tarry_worker_host_create(own->of->plan, &settings, NULL, &own->host, &said),
                     TARRY_ERROR_ARGUMENT);
    assert_non_null(strstr(said.text, why));
}

/* It is the engine that has to know them, and no engine has those with feedback. */
TEST(forms_go_by_the_engine)
{
    static bench its;
    its = (bench){.plan = make_plan(1)};
    replica_job_init(&its.job, WORKERS, CHUNKS, DIMENSION);
    seat *own = &its.seats[0];
    *own = (seat){.of = &its};
    tarry_engine_methods methods = {.name = "plain"};
    tarry_engine plain = {.methods = &methods}, *direct;
    tarry_direct_settings wanted;
    tarry_direct_settings_init(&wanted);
    wanted.listen = NULL;
    assert_ok(tarry_direct_create(&wanted, NULL, &direct, NULL));
    own->engine = &plain;
    tarry_worker_host_settings settings = wanted_worker(own);
    settings.server.compress = TARRY_COMPRESS_INT8;
    expect_form_refused(own, settings, "the engine 'plain' sums float32");
    settings.server.compress = TARRY_COMPRESS_NONE;
    settings.server.compress_down = TARRY_COMPRESS_BF16;
    expect_form_refused(own, settings, "the engine 'plain' sums float32");
    settings.engine = direct;
    assert_ok(tarry_worker_host_create(its.plan, &settings, NULL, &own->host, NULL));
    tarry_worker_host_free(own->host);
    settings.server.sum = TARRY_SUM_SERVER;
    settings.server.compress = TARRY_COMPRESS_INT8;
    expect_form_refused(own, settings, "carries float32 alone");
    tarry_host_settings host = wanted_host(&its);
    host.server.compress = TARRY_COMPRESS_TOPK;
    host.server.compress_share = 1000;
    assert_int_equal(tarry_host_create(its.plan, &host, NULL, &its.runtime, NULL),
                     TARRY_ERROR_ARGUMENT);
    host.server.compress = TARRY_COMPRESS_INT8;
    host.server.compress_share = 0;
    assert_ok(tarry_host_create(its.plan, &host, NULL, &its.runtime, NULL));
    tarry_runtime_free(its.runtime, true);
    direct->methods->free(direct);
    replica_job_end(&its.job);
    tarry_plan_free(its.plan);
}
