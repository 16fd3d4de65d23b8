/* SPDX-License-Identifier: Apache-2.0 */
/* A runtime of one's own whose transport is a queue in this process: what examples/pipes.c leaves
 * out. */
#include <math.h>
#include <pthread.h>
#include <time.h>

#include <tarry/host.h>

#include "edge_plan.h"
#include "failing_allocator.h"
#include "test.h"

enum { WORKERS = 3, DIMENSION = 50, QUEUE = 256, FRAME = 128 };

typedef struct posted {
    uint32_t worker;
    size_t size, count;
    uint8_t frame[FRAME];
    float numbers[DIMENSION];
} posted;

typedef struct bench bench;

typedef struct seat {
    bench *of;
    uint32_t worker;
    tarry_worker_host *host;
} seat;

struct bench {
    tarry_plan *plan;
    tarry_runtime *runtime;
    seat seats[WORKERS];
    pthread_mutex_t lock;
    pthread_cond_t filled;
    posted queue[QUEUE];
    size_t count;
    bool woken, cut; /* nothing reaches worker 0 any more */
    bool busy;       /* worker 0 answers nothing, and the others take their time; */
    bool heard;      /* but its process is heard of, as those of the others are */
    int ended;       /* 1: to be resumed, 2: finished */
};

static int compute(void *user, const tarry_task *task)
{
    const struct timespec while_busy = {.tv_nsec = 150000000};
    if (((const seat *)user)->of->busy)
        nanosleep(&while_busy, NULL);
    memset(task->gradient, 0, task->dimension * sizeof(float));
    for (uint32_t i = 0; i < task->span_count; i++)
        for (size_t k = 0; k < task->dimension; k++)
            task->gradient[k] += task->parameters[0] * (float)(task->spans[i].origin + 1) *
                                 (float)task->spans[i].count / (float)task->spans[i].of;
    return 0;
}

static void send_up(void *user, const void *frame, size_t size, const float *numbers, size_t count)
{
    const seat *own = user;
    bench *its = own->of;
    pthread_mutex_lock(&its->lock);
    assert_true(its->count < QUEUE && size <= FRAME && count <= DIMENSION);
    posted *item = &its->queue[its->count++];
    *item = (posted){.worker = own->worker, .size = size, .count = count};
    memcpy(item->frame, frame, size);
    if (count > 0)
        memcpy(item->numbers, numbers, count * sizeof(float));
    pthread_cond_signal(&its->filled);
    pthread_mutex_unlock(&its->lock);
}

static int send_down(void *user, uint32_t worker, const void *frame, size_t size,
                     const float *numbers, size_t count)
{
    const bench *its = user;
    if (its->cut && worker == 0)
        return -1;
    if (its->busy && worker == 0)
        return 0;
    return tarry_worker_host_deliver(its->seats[worker].host, frame, size, numbers, count);
}

/* What is waited for comes, or the test is over. */
static void receive(void *user, tarry_runtime *runtime, uint64_t until_ns)
{
    static posted taken[QUEUE];
    bench *its = user;
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec = soon.tv_nsec / 1000000 * 1000000 + 999999;
    pthread_mutex_lock(&its->lock);
    while (its->count == 0 && !its->woken && until_ns > 0 &&
           pthread_cond_timedwait(&its->filled, &its->lock, &soon) == 0)
        ;
    for (uint32_t worker = its->heard ? 0 : 1; worker < WORKERS && its->busy; worker++)
        tarry_host_heard(runtime, worker);
    size_t count = its->count;
    memcpy(taken, its->queue, count * sizeof(*taken));
    its->count = 0;
    its->woken = false;
    pthread_mutex_unlock(&its->lock);
    for (size_t i = 0; i < count; i++)
        assert_ok(tarry_host_deliver(runtime, taken[i].worker, taken[i].frame, taken[i].size,
                                     taken[i].numbers, taken[i].count));
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

static void end(void *user, bool finished)
{
    bench *its = user;
    its->ended = finished ? 2 : 1;
}

static tarry_host_settings wanted_host(bench *its)
{
    tarry_host_settings settings;
    tarry_host_settings_init(&settings);
    settings.parameters = 1;
    settings.dimension = DIMENSION;
    settings.transport = (tarry_transport){.user = its,
                                           .send = send_down,
                                           .receive = receive,
                                           .wake = wake,
                                           .replan = replan,
                                           .end = end};
    return settings;
}

static int make_worker(seat *own, const tarry_allocator *allocator)
{
    tarry_worker_host_settings settings;
    tarry_worker_host_settings_init(&settings);
    settings.worker = own->worker;
    settings.parameters = 1;
    settings.dimension = DIMENSION;
    settings.compute = compute;
    settings.send = send_up;
    settings.user = own;
    return tarry_worker_host_create(own->of->plan, &settings, allocator, &own->host, NULL);
}

static tarry_plan *make_plan(uint64_t seed)
{
    return plan_drawn(WORKERS, WORKERS, 2, seed);
}

static void begin_within(bench *its, uint64_t silence_ns)
{
    *its = (bench){.plan = make_plan(1)};
    pthread_mutex_init(&its->lock, NULL);
    pthread_cond_init(&its->filled, NULL);
    tarry_host_settings settings = wanted_host(its);
    settings.server.silence_ns = silence_ns;
    assert_ok(tarry_host_create(its->plan, &settings, NULL, &its->runtime, NULL));
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        its->seats[worker] = (seat){.of = its, .worker = worker};
        assert_ok(make_worker(&its->seats[worker], NULL));
        tarry_host_join(its->runtime, worker);
    }
}

/* Time never presses here. */
static void begin(bench *its)
{
    begin_within(its, UINT64_C(30000000000));
}

static void finish(bench *its, bool finished)
{
    tarry_runtime_free(its->runtime, finished);
    assert_int_equal(its->ended, finished ? 2 : 1);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        tarry_worker_host_free(its->seats[worker].host);
    tarry_plan_free(its->plan);
    pthread_cond_destroy(&its->filled);
    pthread_mutex_destroy(&its->lock);
}

static void sums_are_exact(bench *its, unsigned rounds)
{
    for (unsigned round = 1; round <= rounds; round++) {
        const float parameters[] = {(float)round};
        float sum[DIMENSION];
        tarry_round_result result;
        assert_ok(tarry_runtime_round(its->runtime, parameters, sum, &result, NULL));
        assert_true(result.exact);
        for (size_t i = 0; i < DIMENSION; i++)
            assert_true(fabsf(sum[i] - 6 * parameters[0]) < 1e-4F * parameters[0]);
    }
}

TEST(plans_change_and_workers_go)
{
    bench its;
    begin(&its);
    assert_ok(tarry_runtime_wait(its.runtime, WORKERS, 0, NULL));
    sums_are_exact(&its, 3);
    tarry_plan *next = make_plan(2);
    assert_ok(tarry_runtime_replan(its.runtime, next, NULL));
    tarry_plan_free(its.plan);
    its.plan = next;
    sums_are_exact(&its, 3);
    its.cut = true; /* that it is gone is found out by sending */
    sums_are_exact(&its, 2);
    assert_false(tarry_runtime_worker(its.runtime, 0).present);
    assert_int_equal(tarry_runtime_wait(its.runtime, WORKERS, 0, NULL), TARRY_ERROR_STATE);
    its.cut = false;
    tarry_host_join(its.runtime, 0);
    assert_ok(tarry_runtime_wait(its.runtime, WORKERS, 0, NULL));
    sums_are_exact(&its, 2);
    finish(&its, true);
}

/* Its threads answer no probe, as they may be adding up numbers for long. */
TEST(a_worker_that_is_heard_of_is_not_lost)
{
    for (int heard = 0; heard < 2; heard++) {
        bench its;
        begin_within(&its, UINT64_C(10000000));
        its.busy = true;
        its.heard = heard;
        sums_are_exact(&its, 1);
        assert_int_equal(tarry_runtime_worker(its.runtime, 0).present, heard);
        its.busy = its.heard = false;
        finish(&its, true);
    }
}

TEST(an_interrupt_ends_a_round)
{
    bench its;
    float sum[DIMENSION];
    const float parameters[] = {1};
    tarry_round_result result;
    begin(&its);
    tarry_runtime_interrupt(its.runtime);
    assert_int_equal(tarry_runtime_round(its.runtime, parameters, sum, &result, NULL),
                     TARRY_ERROR_INTERRUPTED);
    sums_are_exact(&its, 2);
    tarry_runtime_interrupt(its.runtime);
    assert_int_equal(tarry_runtime_wait(its.runtime, WORKERS + 1, TARRY_NEVER, NULL),
                     TARRY_ERROR_INTERRUPTED);
    finish(&its, false);
}

TEST(bytes_that_are_no_frame_are_refused)
{
    bench its;
    const uint8_t bytes[40] = {0xff};
    const float number = 1;
    begin(&its);
    for (size_t size = 0; size <= sizeof(bytes); size++) {
        assert_int_equal(tarry_host_deliver(its.runtime, 0, bytes, size, &number, 1),
                         TARRY_ERROR_FORMAT);
        assert_int_equal(tarry_worker_host_deliver(its.seats[0].host, bytes, size, NULL, 0),
                         TARRY_ERROR_FORMAT);
    }
    sums_are_exact(&its, 1);
    finish(&its, true);
}

TEST(frames_are_read_as_they_were_written)
{
    OWNED(tarry_plan) plan = make_plan(1);
    tarry_codec *codec;
    uint8_t frame[FRAME];
    assert_int_equal(tarry_codec_create(plan, WORKERS, DIMENSION, 10, NULL, &codec, NULL),
                     TARRY_ERROR_ARGUMENT);
    assert_ok(tarry_codec_create(plan, 0, DIMENSION, 10, NULL, &codec, NULL));
    const uint64_t psi = 5, stripes = 31;
    const tarry_message signal = {.type = TARRY_MESSAGE_SIGNAL,
                                  .round = 7,
                                  .epoch = 2,
                                  .attempt = 1,
                                  .psi = &psi,
                                  .stripes = &stripes};
    size_t size = tarry_codec_size(codec, &signal);
    assert_in_range(size, 1, tarry_codec_most(codec));
    assert_in_range(tarry_codec_most(codec), size, FRAME);
    tarry_codec_encode(codec, &signal, frame);
    tarry_message read;
    assert_ok(tarry_codec_decode(codec, frame, size, &read));
    assert_int_equal(read.type, TARRY_MESSAGE_SIGNAL);
    assert_int_equal(read.round, 7);
    assert_int_equal(*read.psi, psi);
    assert_int_equal(*read.stripes, stripes);
    assert_int_equal(tarry_codec_decode(codec, frame, size - 1, &read), TARRY_ERROR_FORMAT);
    tarry_codec_free(codec);
}

TEST(settings_are_checked)
{
    bench its = {.plan = make_plan(1)};
    tarry_runtime *runtime;
    tarry_host_settings settings = wanted_host(&its);
    settings.size--;
    assert_int_equal(tarry_host_create(its.plan, &settings, NULL, &runtime, NULL),
                     TARRY_ERROR_ARGUMENT);
    settings = wanted_host(&its);
    settings.transport.send = NULL;
    assert_int_equal(tarry_host_create(its.plan, &settings, NULL, &runtime, NULL),
                     TARRY_ERROR_ARGUMENT);
    its.seats[0] = (seat){.of = &its, .worker = WORKERS};
    assert_int_equal(make_worker(&its.seats[0], NULL), TARRY_ERROR_ARGUMENT);
    tarry_worker_host_settings idle;
    tarry_worker_host_settings_init(&idle);
    idle.parameters = idle.dimension = 1;
    idle.send = send_up;
    assert_int_equal(tarry_worker_host_create(its.plan, &idle, NULL, &its.seats[0].host, NULL),
                     TARRY_ERROR_ARGUMENT); /* computes nothing */
    tarry_plan_free(its.plan);
}

static int try_to_make(void *user, const tarry_allocator *allocator)
{
    bench *its = user;
    tarry_codec *codec;
    const tarry_host_settings settings = wanted_host(its);
    int error = tarry_codec_create(its->plan, 0, DIMENSION, 10, allocator, &codec, NULL);
    if (error != TARRY_OK)
        return error;
    tarry_codec_free(codec);
    error = tarry_host_create(its->plan, &settings, allocator, &its->runtime, NULL);
    if (error != TARRY_OK)
        return error;
    tarry_runtime_free(its->runtime, true);
    error = make_worker(&its->seats[0], allocator);
    if (error == TARRY_OK)
        tarry_worker_host_free(its->seats[0].host);
    return error;
}

TEST(each_allocation_may_fail)
{
    bench its = {.plan = make_plan(1)};
    its.seats[0].of = &its;
    fail_each_allocation(try_to_make, &its);
    tarry_plan_free(its.plan);
}
