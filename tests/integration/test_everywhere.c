/* SPDX-License-Identifier: Apache-2.0 */
/* Where everyone gets the sum, in one process: replicas are the same to the bit, and what an owner
 * of the parameters gets from sums at the server. */
#include <stdatomic.h>

#include <tarry/local.h>

#include "replica.h"
#include "test.h"

enum { WORKERS = 4, CHUNKS = 8, ROUNDS = 12 };
#define PATIENCE_NS UINT64_C(60000000000)

typedef struct bench {
    replica_job job;
    tarry_plan_settings plan_settings;
    tarry_local_settings settings;
    const char *straggler_spec; /* NULL: none */
    tarry_replica replicas[REPLICA_MOST_WORKERS];
    tarry_sum_id last[REPLICA_MOST_WORKERS];
    tarry_straggler *straggler;
    tarry_plan *plan;
    tarry_runtime *local;
    tarry_sum_id log[REPLICA_MOST_STEPS];
    size_t logged;
    size_t log_fails_at;              /* this entry, counted from 1; 0: none */
    const tarry_allocator *allocator; /* NULL: the usual one */
} bench;

static int append(void *user, const tarry_sum_id *entry)
{
    bench *own = user;
    if (own->log_fails_at == own->logged + 1)
        return TARRY_ERROR_FILE;
    own->log[own->logged++] = *entry;
    return TARRY_OK;
}

static void init(bench *own, size_t dimension)
{
    *own = (bench){0};
    replica_job_init(&own->job, WORKERS, CHUNKS, dimension);
    tarry_plan_settings_init(&own->plan_settings);
    own->plan_settings.workers = WORKERS;
    own->plan_settings.chunks = CHUNKS;
    own->plan_settings.replication = 2;
    tarry_local_settings_init(&own->settings);
    own->settings.parameters = own->settings.dimension = dimension;
    own->settings.compute = replica_compute;
    own->settings.user = &own->job;
    own->settings.server.silence_ns = UINT64_C(30000000000);
    own->settings.server.stripe_length = 100;
}

static void begin(bench *own, tarry_sum_place place)
{
    tarry_diagnostic why;
    tarry_local_settings *settings = &own->settings;
    settings->server.sum = place;
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        own->replicas[worker] = replica_of(&own->job, worker);
    settings->replicas = own->replicas;
    settings->engine = replica_engine;
    settings->engine_user = &own->job;
    settings->log.append = append;
    settings->log.user = own;
    assert_ok_or(why, tarry_plan_create(&own->plan_settings, NULL, &own->plan, &why));
    if (own->straggler_spec != NULL)
        assert_ok(
            tarry_straggler_create(own->straggler_spec, WORKERS, 1, NULL, &own->straggler, &why));
    settings->straggler = own->straggler;
    assert_ok_or(why, tarry_local_create(own->plan, settings, own->allocator, &own->local, &why));
}

static void stop(bench *own)
{
    tarry_runtime_free(own->local, true);
    tarry_plan_free(own->plan);
    tarry_straggler_free(own->straggler);
    own->local = NULL;
    own->plan = NULL;
    own->straggler = NULL;
}

static void end(bench *own)
{
    stop(own);
    replica_job_end(&own->job);
}

#define BENCH(name) TEST_OF(name, bench, own, end)

/* The parameters after the rounds, by sums at the server. */
static float *by_server(bench *own, int rounds)
{
    size_t d = own->job.dimension;
    float *state = checked_calloc(2 * d, sizeof(float));
    OWNED(float) sum = checked_calloc(d, sizeof(float));
    begin(own, TARRY_SUM_SERVER);
    for (int round = 0; round < rounds; round++) {
        tarry_round_result result;
        assert_ok(tarry_runtime_round(own->local, state, sum, &result, NULL));
        replica_descend(&own->job, state, sum);
    }
    stop(own);
    return state;
}

static void run_everywhere(bench *own, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        tarry_round_result result;
        tarry_diagnostic why;
        if (tarry_runtime_round(own->local, NULL, NULL, &result, &why) != TARRY_OK)
            fail_msg("round %d: %s", round, why.text);
        assert_true(result.exact);
        assert_true(result.sum.step == own->logged);
        assert_ok(tarry_runtime_wait(own->local, WORKERS, PATIENCE_NS, &why));
        replica_check(&own->job, result.sum.step);
    }
    assert_int_equal(own->logged, rounds);
}

/* The caller gets the state as a worker saves it. */
static void assert_state_can_be_had(bench *own)
{
    replica_check_state(&own->job, own->local, own->logged);
}

BENCH(the_sum_can_be_had)
{
    init(own, 1001);
    begin(own, TARRY_SUM_EVERYWHERE);
    float sum[1001];
    assert_int_equal(tarry_runtime_sum(own->local, 0, sum, NULL), TARRY_ERROR_STATE);
    run_everywhere(own, 3);
    replica_check_sum(&own->job, own->local);
}

BENCH(a_state_arrives_over_many_short_calls)
{
    init(own, 1001);
    begin(own, TARRY_SUM_EVERYWHERE);
    run_everywhere(own, 3);
    const unsigned before = replica_saves(&own->job);
    replica_check_state_in_slices(&own->job, own->local, 3);
    assert_int_equal(replica_saves(&own->job) - before, 1);
}

/* So many of the next large allocations but rows of bytes fail. */
static _Atomic int short_of_memory;

static void *allocate_small(void *user, size_t count, size_t size)
{
    enum { LARGE = 50000 };
    (void)user;
    if (size > 1 && count * size >= LARGE && atomic_load(&short_of_memory) > 0) {
        atomic_fetch_sub(&short_of_memory, 1);
        return NULL;
    }
    return calloc(count, size);
}

static void release_any(void *user, void *block)
{
    (void)user;
    free(block);
}

/* Memory is short for a piece on its way: the worker counts as gone, and another one is asked. */
BENCH(a_state_that_memory_is_short_for_is_asked_for_again)
{
    const tarry_allocator allocator = {.allocate = allocate_small, .release = release_any};
    init(own, 1001);
    own->allocator = &allocator;
    begin(own, TARRY_SUM_EVERYWHERE);
    run_everywhere(own, 3);
    atomic_store(&short_of_memory, 2);
    assert_state_can_be_had(own);
    assert_int_equal(atomic_load(&short_of_memory), 0);
}

static void compare(const bench *own, float *expected)
{
    replica_compare(&own->job, expected);
    free(expected);
}

static void equals_the_server(bench *own)
{
    float *expected = by_server(own, ROUNDS);
    begin(own, TARRY_SUM_EVERYWHERE);
    run_everywhere(own, ROUNDS);
    assert_state_can_be_had(own);
    stop(own);
    compare(own, expected);
}

TEST(training_equals_that_by_sums_at_the_server)
{
    for (uint32_t parts = 1; parts <= 2; parts++)
        for (int dynamic = 0; dynamic < 2; dynamic++) {
            bench own;
            init(&own, 1001);
            own.plan_settings.parts = parts;
            own.settings.server.pick = dynamic ? TARRY_PICK_SHARE : TARRY_PICK_PLAN;
            equals_the_server(&own);
            end(&own);
        }
}

BENCH(running_sums_are_summed_too)
{
    init(own, 1001);
    own->settings.server.pick = TARRY_PICK_SHARE;
    own->settings.server.keep = TARRY_KEEP_CREDITED;
    equals_the_server(own);
}

BENCH(stragglers_take_part_with_what_they_have)
{
    init(own, 300);
    own->straggler_spec = "shifted-exp:0.001,0.001+slow:1,10";
    own->settings.server.pick = TARRY_PICK_SHARE;
    equals_the_server(own);
}

BENCH(sum_that_fails_is_made_again)
{
    init(own, 500);
    own->job.failing[1] = 1 << 3 | 1 << 5;
    own->job.failing[3] = 1 << 8;
    equals_the_server(own);
}

/* A round's sum fails at worker 1 once it has most of it, if it is not through with it all by then.
 * Whether the round was made again. */
static bool fails_late(void)
{
    enum { DIMENSION = 600000, FAILING = 2, FEW = 3 };
    bench own;
    bool again = false;
    init(&own, DIMENSION);
    own.settings.server.stripe_length = DIMENSION;
    float *expected = by_server(&own, FEW);
    own.job.failing[1] = 1 << FAILING;
    own.job.fails_after = 5 * DIMENSION; /* bytes, of 6 */
    begin(&own, TARRY_SUM_EVERYWHERE);
    for (int round = 1; round <= FEW; round++) {
        tarry_round_result result;
        tarry_diagnostic why;
        if (tarry_runtime_round(own.local, NULL, NULL, &result, &why) != TARRY_OK)
            fail_msg("round %d: %s", round, why.text);
        if (round == FAILING)
            again = result.attempts >= 2;
        assert_ok(tarry_runtime_wait(own.local, WORKERS, PATIENCE_NS, &why));
        replica_check(&own.job, result.sum.step);
    }
    compare(&own, expected);
    end(&own);
    return again;
}

/* Which of the members have a part decides how much moves, so that at times all of it has before
 * the fault comes. */
TEST(sum_that_fails_late_is_made_again)
{
    enum { MOST_TRIES = 20 };
    int tries = 1;
    while (!fails_late())
        assert_true(++tries <= MOST_TRIES);
}

BENCH(lost_copy_is_fetched)
{
    init(own, 500);
    own->job.losing[2] = 1 << 2 | 1 << 6;
    own->job.losing[0] = 1 << 6;
    equals_the_server(own);
}

BENCH(who_is_behind_loads_the_state)
{
    init(own, 500);
    float *expected = by_server(own, 8);
    begin(own, TARRY_SUM_EVERYWHERE);
    run_everywhere(own, 5);
    stop(own);
    /* All but worker 2, which begins anew, go on. */
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        own->last[worker] = own->log[own->logged - 1];
    own->last[2] = (tarry_sum_id){0};
    own->job.replicas[2].steps = 0;
    memset(own->job.replicas[2].state, 0, 2 * own->job.dimension * sizeof(float));
    own->settings.last = own->last;
    own->settings.log.last[0] = own->log[own->logged - 1];
    own->settings.log.last[1] = own->log[own->logged - 2];
    own->settings.log.term = own->log[own->logged - 1].term + 1;
    begin(own, TARRY_SUM_EVERYWHERE);
    for (int round = 5; round < 8; round++) {
        tarry_round_result result;
        assert_ok(tarry_runtime_round(own->local, NULL, NULL, &result, NULL));
        assert_true(result.sum.step == (uint64_t)round + 1);
    }
    assert_ok(tarry_runtime_wait(own->local, WORKERS, PATIENCE_NS, NULL));
    replica_check(&own->job, 8);
    assert_true(own->job.replicas[2].loads > 0);
    compare(own, expected);
}

/* A bit of the memory that a worker holds its parameters in. */
static void flip(bench *own, uint32_t worker, float by)
{
    pthread_mutex_lock(&own->job.lock);
    own->job.replicas[worker].state[0] += by;
    pthread_mutex_unlock(&own->job.lock);
}

BENCH(who_has_other_parameters_loads)
{
    init(own, 500);
    own->settings.server.digest_steps = 2;
    begin(own, TARRY_SUM_EVERYWHERE);
    run_everywhere(own, 2);
    flip(own, 2, 0.25f);
    tarry_round_result result;
    for (int round = 2; round < 4; round++)
        assert_ok(tarry_runtime_round(own->local, NULL, NULL, &result, NULL));
    assert_ok(tarry_runtime_wait(own->local, WORKERS, PATIENCE_NS, NULL));
    replica_check(&own->job, 4);
    assert_true(own->job.replicas[2].loads > 0);
}

BENCH(nobody_goes_on_with_parameters_that_none_can_judge)
{
    tarry_diagnostic why;
    init(own, 500);
    own->settings.server.digest_steps = 1;
    own->settings.server.voters_grace_ns = UINT64_C(20000000);
    begin(own, TARRY_SUM_EVERYWHERE);
    run_everywhere(own, 2);
    flip(own, 2, 0.25f);
    flip(own, 3, 0.5f);
    tarry_round_result result;
    assert_ok(tarry_runtime_round(own->local, NULL, NULL, &result, NULL));
    assert_int_equal(tarry_runtime_round(own->local, NULL, NULL, &result, &why),
                     TARRY_ERROR_DIFFER);
    assert_string_equal(why.text,
                        "round 3: workers have different sums or parameters, and none are "
                        "those of most; to blame may be: worker 0, 1, 2, 3");
}

BENCH(log_that_fails_ends_the_round)
{
    init(own, 100);
    own->log_fails_at = 3;
    begin(own, TARRY_SUM_EVERYWHERE);
    run_everywhere(own, 2);
    tarry_round_result result;
    assert_int_equal(tarry_runtime_round(own->local, NULL, NULL, &result, NULL), TARRY_ERROR_FILE);
    stop(own);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        assert_true(own->job.replicas[worker].steps == 2); /* nobody stepped on it */
}
