/* SPDX-License-Identifier: Apache-2.0 */
#include "replica.h"

#include <math.h>
#include <stdbool.h>

#include "engine/shared.h"
#include "runtime/clock.h"
#include "test.h"

#define PATIENCE_NS UINT64_C(60000000000)
static const float RATE = 0.02F, MOMENTUM = 0.5F;

void replica_job_init(replica_job *job, uint32_t workers, uint32_t chunks, size_t dimension)
{
    *job = (replica_job){.workers = workers, .chunks = chunks, .dimension = dimension};
    assert_int_equal(pthread_mutex_init(&job->lock, NULL), 0);
    assert_int_equal(clock_init_condition(&job->change), 0);
    for (uint32_t worker = 0; worker < workers; worker++) {
        job->replicas[worker].job = job;
        job->replicas[worker].state = checked_calloc(2 * dimension, sizeof(float));
    }
}

void replica_job_end(replica_job *job)
{
    for (uint32_t worker = 0; worker < job->workers; worker++)
        free(job->replicas[worker].state);
    pthread_cond_destroy(&job->change);
    pthread_mutex_destroy(&job->lock);
}

/* Chunk c pulls coordinate i to (c + i) mod 7, with a strength of its own. */
int replica_compute(void *user, const tarry_task *task)
{
    const replica_job *job = user;
    memset(task->gradient, 0, task->dimension * sizeof(float));
    for (uint32_t s = 0; s < task->span_count; s++) {
        uint32_t chunk = task->spans[s].origin;
        for (size_t i = 0; i < job->dimension; i++)
            task->gradient[i] +=
                (float)(chunk % 3 + 1) * (task->parameters[i] - (float)((chunk + i) % 7));
    }
    return 0;
}

void replica_descend(const replica_job *job, float *state, const float *sum)
{
    float *velocity = state + job->dimension;
    for (size_t i = 0; i < job->dimension; i++) {
        velocity[i] = MOMENTUM * velocity[i] - RATE * sum[i];
        state[i] += velocity[i];
    }
}

static int step(void *user, uint64_t number, const float *sum)
{
    test_replica *own = user;
    pthread_mutex_lock(&own->job->lock);
    assert_true(number == own->steps + 1);
    replica_descend(own->job, own->state, sum);
    own->steps = number;
    pthread_cond_broadcast(&own->job->change);
    pthread_mutex_unlock(&own->job->lock);
    return TARRY_OK;
}

static int parameters(void *user, float *into)
{
    const test_replica *own = user;
    memcpy(into, own->state, own->job->dimension * sizeof(float));
    return TARRY_OK;
}

/* The steps, and the numbers. */
static uint64_t state_size(void *user)
{
    const test_replica *own = user;
    return sizeof(uint64_t) + 2 * own->job->dimension * sizeof(float);
}

static int save(void *user, uint64_t first, void *bytes, size_t size)
{
    test_replica *own = user;
    uint8_t *at = bytes;
    own->saves += first == 0;
    for (size_t i = 0; i < size; i++) {
        uint64_t place = first + i;
        at[i] = place < sizeof(uint64_t) ? ((const uint8_t *)&own->steps)[place]
                                         : ((const uint8_t *)own->state)[place - sizeof(uint64_t)];
    }
    return TARRY_OK;
}

static int load(void *user, uint64_t total, uint64_t first, const void *bytes, size_t size)
{
    test_replica *own = user;
    const uint8_t *at = bytes;
    assert_true(total == state_size(user));
    pthread_mutex_lock(&own->job->lock);
    for (size_t i = 0; i < size; i++) {
        uint64_t place = first + i;
        if (place < sizeof(uint64_t))
            ((uint8_t *)&own->steps)[place] = at[i];
        else
            ((uint8_t *)own->state)[place - sizeof(uint64_t)] = at[i];
    }
    own->loads++;
    pthread_cond_broadcast(&own->job->change);
    pthread_mutex_unlock(&own->job->lock);
    return TARRY_OK;
}

tarry_replica replica_of(replica_job *job, uint32_t worker)
{
    return (tarry_replica){
        .user = &job->replicas[worker],
        .step = step,
        .parameters = parameters,
        .state_size = state_size,
        .save = save,
        .load = load,
    };
}

static bool have_stepped(const replica_job *job, uint64_t steps)
{
    for (uint32_t worker = 0; worker < job->workers; worker++)
        if (job->replicas[worker].steps < steps)
            return false;
    return true;
}

void replica_await(replica_job *job, uint64_t steps)
{
    struct timespec until = clock_timespec(clock_from_now(PATIENCE_NS));
    pthread_mutex_lock(&job->lock);
    while (!have_stepped(job, steps))
        if (pthread_cond_timedwait(&job->change, &job->lock, &until) != 0)
            fail_msg("not all have stepped %llu times", (unsigned long long)steps);
    pthread_mutex_unlock(&job->lock);
}

void replica_check(replica_job *job, uint64_t steps)
{
    pthread_mutex_lock(&job->lock);
    for (uint32_t worker = 0; worker < job->workers; worker++) {
        const test_replica *own = &job->replicas[worker];
        assert_true(own->steps == steps);
        assert_memory_equal(own->state, job->replicas[0].state, 2 * job->dimension * sizeof(float));
    }
    pthread_mutex_unlock(&job->lock);
}

float *replica_expect(const replica_job *job, uint64_t steps)
{
    size_t d = job->dimension;
    float *state = checked_calloc(2 * d, sizeof(float)), *sum = checked_calloc(d, sizeof(float));
    OWNED(float) gradient = checked_calloc(d, sizeof(float));
    for (uint64_t step = 0; step < steps; step++) {
        memset(sum, 0, d * sizeof(float));
        for (uint32_t chunk = 0; chunk < job->chunks; chunk++) {
            const tarry_span span = {.origin = chunk, .count = 1, .of = 1};
            replica_compute((void *)job, &(tarry_task){.parameters = state,
                                                       .spans = &span,
                                                       .span_count = 1,
                                                       .gradient = gradient,
                                                       .dimension = d});
            for (size_t i = 0; i < d; i++)
                sum[i] += gradient[i];
        }
        replica_descend(job, state, sum);
    }
    free(sum);
    return state;
}

void replica_compare(const replica_job *job, const float *expected)
{
    const float *got = job->replicas[0].state;
    double most = 0, scale = 0;
    for (size_t i = 0; i < job->dimension; i++) {
        most = fmax(most, fabs((double)got[i] - expected[i]));
        scale = fmax(scale, fabs((double)expected[i]));
    }
    if (!(most <= 1e-6 * scale))
        fail_msg("differs by %g of %g", most, scale);
}

/* ---- engines that lose sums ---- */

typedef struct losing_engine {
    tarry_engine base;
    tarry_engine *inner;
    replica_job *job;
    uint32_t worker;
    unsigned sums;
    bool failing, failed;
} losing_engine;

static bool is_told(const uint64_t *set, unsigned sum)
{
    return sum < 64 && (*set >> sum & 1) != 0;
}

static void get_address(tarry_engine *engine, uint8_t *bytes, size_t *size)
{
    tarry_engine *inner = ((losing_engine *)engine)->inner;
    inner->methods->address(inner, bytes, size);
}

static int form(tarry_engine *engine, const tarry_engine_group *group, tarry_diagnostic *diagnostic)
{
    tarry_engine *inner = ((losing_engine *)engine)->inner;
    return inner->methods->form(inner, group, diagnostic);
}

static int start(tarry_engine *engine, const tarry_engine_sum *sum)
{
    losing_engine *own = (losing_engine *)engine;
    own->sums++;
    own->failed = false;
    own->failing = is_told(&own->job->failing[own->worker], own->sums);
    return own->inner->methods->start(own->inner, sum);
}

/* Whether it has moved as much as it is to before it fails. */
static bool is_due(losing_engine *own, tarry_engine_progress *progress)
{
    const uint64_t nap_ns = 1000000;
    if (own->job->fails_after == 0)
        return true;
    own->inner->methods->wait(own->inner, clock_from_now(nap_ns), progress);
    return progress->state != TARRY_ENGINE_RUNNING || progress->moved >= own->job->fails_after;
}

static void wait(tarry_engine *engine, uint64_t until_ns, tarry_engine_progress *progress)
{
    losing_engine *own = (losing_engine *)engine;
    if (own->failing && !is_due(own, progress))
        return;
    if (own->failing) { /* the others notice */
        own->inner->methods->abandon(own->inner);
        own->failing = false;
        own->failed = true;
    }
    own->inner->methods->wait(own->inner, own->failed ? 0 : until_ns, progress);
    if (own->failed) {
        progress->state = TARRY_ENGINE_FAILED;
        progress->suspect = TARRY_ENGINE_NOBODY;
        return;
    }
    if (progress->state == TARRY_ENGINE_DONE &&
        is_told(&own->job->losing[own->worker], own->sums)) {
        progress->state = TARRY_ENGINE_FAILED;
        progress->suspect = TARRY_ENGINE_NOBODY;
    }
}

static void wake(tarry_engine *engine)
{
    tarry_engine *inner = ((losing_engine *)engine)->inner;
    inner->methods->wake(inner);
}

static void abandon(tarry_engine *engine)
{
    tarry_engine *inner = ((losing_engine *)engine)->inner;
    inner->methods->abandon(inner);
}

static void release(tarry_engine *engine)
{
    losing_engine *own = (losing_engine *)engine;
    own->inner->methods->free(own->inner);
    free(own);
}

static const tarry_engine_methods methods = {
    .name = "losing",
    .address = get_address,
    .form = form,
    .start = start,
    .wait = wait,
    .wake = wake,
    .abandon = abandon,
    .free = release,
};

int replica_engine(void *job, uint32_t worker, tarry_engine **engine)
{
    losing_engine *made = checked_calloc(1, sizeof(*made));
    made->base.methods = &methods;
    made->job = job;
    made->worker = worker;
    int error = shared_engine_create(1 << 12, NULL, NULL, &made->inner, NULL);
    assert_ok(error);
    *engine = &made->base;
    return TARRY_OK;
}

void replica_check_sum(replica_job *job, tarry_runtime *runtime)
{
    const size_t size = 2 * job->dimension * sizeof(float);
    OWNED(float) state = malloc(size), sum = malloc(job->dimension * sizeof(float));
    tarry_round_result result;
    memcpy(state, job->replicas[0].state, size);
    assert_ok(tarry_runtime_round(runtime, NULL, NULL, &result, NULL));
    assert_ok(tarry_runtime_sum(runtime, UINT64_C(30000000000), sum, NULL));
    replica_await(job, result.sum.step);
    replica_descend(job, state, sum);
    assert_memory_equal(state, job->replicas[0].state, size);
}

unsigned replica_saves(const replica_job *job)
{
    unsigned saves = 0;
    for (uint32_t worker = 0; worker < job->workers; worker++)
        saves += atomic_load(&job->replicas[worker].saves);
    return saves;
}

/* And gives it back. */
static void check_state(replica_job *job, tarry_runtime *runtime, const tarry_sum_id *after,
                        void *bytes, uint64_t size, uint64_t steps)
{
    const size_t vectors = 2 * job->dimension * sizeof(float);
    assert_int_equal(size, sizeof(uint64_t) + vectors);
    assert_int_equal(after->step, steps);
    assert_memory_equal((uint8_t *)bytes + sizeof(uint64_t), job->replicas[0].state, vectors);
    tarry_runtime_release_state(runtime, bytes);
}

void replica_check_state(replica_job *job, tarry_runtime *runtime, uint64_t steps)
{
    tarry_sum_id after;
    tarry_diagnostic why;
    void *bytes;
    uint64_t size;
    assert_ok_or(why, tarry_runtime_state(runtime, PATIENCE_NS, &after, &bytes, &size, &why));
    check_state(job, runtime, &after, bytes, size, steps);
}

unsigned replica_check_state_in_slices(replica_job *job, tarry_runtime *runtime, uint64_t steps)
{
    const uint64_t until = clock_from_now(PATIENCE_NS);
    uint64_t copied = tarry_runtime_copied(runtime), size;
    unsigned calls = 0;
    tarry_sum_id after;
    void *bytes;
    int error;
    do {
        error = tarry_runtime_state(runtime, 0, &after, &bytes, &size, NULL);
        calls++;
    } while (error == TARRY_ERROR_STATE && clock_now_ns() < until);
    assert_ok(error);
    assert_int_equal(tarry_runtime_copied(runtime) - copied, size);
    check_state(job, runtime, &after, bytes, size, steps);
    return calls;
}

unsigned replica_engine_sums(const tarry_engine *engine)
{
    return ((const losing_engine *)engine)->sums;
}
