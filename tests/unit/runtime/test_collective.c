/* SPDX-License-Identifier: Apache-2.0 */
/* A collective whose engine and exchange do what the test says. */
#include <math.h>
#include <pthread.h>
#include <sched.h>

#include "base/memory.h"
#include "coding/vector_digest.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "runtime/worker/collective.h"
#include "test.h"

enum { WORKERS = 3, DIMENSION = 5, OWN = 1, RACES = 2000 };

static const edge edges[] = {{0, 0}, {1, 1}, {2, 2}};

/* What an engine or an exchange is asked and told. */
typedef struct puppet {
    bool running, woken;
    int outcome; /* of the next wait: 0: none yet, 1: done, -1: failed */
    size_t begun, abandoned;
} puppet;

typedef struct bench {
    tarry_engine engine;
    exchange exchange;
    pthread_mutex_t lock;
    pthread_cond_t change;
    puppet sums, paths;
    size_t ends;
    /* The engine's. */
    tarry_engine_group group;
    tarry_engine_member members[WORKERS];
    tarry_engine_sum wanted;
    float weights[WORKERS];
    /* The exchange's. */
    exchange_numbers into;
    bool fetches;
    float got[DIMENSION];
    tarry_sum_id after, held, offered;
    uint64_t ahead; /* so many steps later is what is got */
    bool holds;
    uint8_t bytes[sizeof(float)];
    float handed;        /* the state that was offered last */
    size_t offers, torn; /* states that are not those of their step */
    void (*asks)(void *user);
    void *asked;
    /* The replica's. */
    float state;
    uint64_t steps;
    int error;

    tarry_plan *plan;
    snapshots pool;
    worker_vectors vectors;
    collective *among;
} bench;

#define BENCH_OF(pointer, member) ((bench *)((char *)(pointer)-offsetof(bench, member)))

static void puppet_begin(bench *own, puppet *what)
{
    pthread_mutex_lock(&own->lock);
    what->running = true;
    what->outcome = 0;
    what->begun++;
    pthread_cond_broadcast(&own->change);
    pthread_mutex_unlock(&own->lock);
}

/* Waits for what the test says, or a wake, or not at all (0); gives back the outcome. */
static int wait_for(bench *own, puppet *what, uint64_t until_ns)
{
    pthread_mutex_lock(&own->lock);
    while (what->outcome == 0 && !what->woken && until_ns > 0)
        pthread_cond_wait(&own->change, &own->lock);
    what->woken = false;
    int outcome = what->outcome;
    if (outcome != 0)
        what->running = false;
    pthread_mutex_unlock(&own->lock);
    return outcome;
}

static void wake(bench *own, puppet *what)
{
    pthread_mutex_lock(&own->lock);
    what->woken = true;
    pthread_cond_broadcast(&own->change);
    pthread_mutex_unlock(&own->lock);
}

static void stop(bench *own, puppet *what)
{
    pthread_mutex_lock(&own->lock);
    what->abandoned += what->running;
    what->running = false;
    pthread_mutex_unlock(&own->lock);
}

static void tell(bench *own, puppet *what, int outcome)
{
    pthread_mutex_lock(&own->lock);
    what->outcome = outcome;
    pthread_cond_broadcast(&own->change);
    pthread_mutex_unlock(&own->lock);
}

static void await_begun(bench *own, const puppet *what, size_t begun)
{
    pthread_mutex_lock(&own->lock);
    while (what->begun < begun)
        pthread_cond_wait(&own->change, &own->lock);
    pthread_mutex_unlock(&own->lock);
}

/* Waits until it has begun so often, and ends what runs. */
static void comes_to(bench *own, puppet *what, size_t begun, int outcome)
{
    await_begun(own, what, begun);
    tell(own, what, outcome);
}

/* ---- the engine ---- */

static void engine_address(tarry_engine *engine, uint8_t *bytes, size_t *size)
{
    bytes[0] = OWN;
    bytes[1] = 7;
    *size = 2;
}

static int engine_form(tarry_engine *engine, const tarry_engine_group *group,
                       tarry_diagnostic *diagnostic)
{
    bench *own = BENCH_OF(engine, engine);
    own->group = *group;
    memcpy(own->members, group->members, group->count * sizeof(own->members[0]));
    return TARRY_OK;
}

static int engine_start(tarry_engine *engine, const tarry_engine_sum *sum)
{
    bench *own = BENCH_OF(engine, engine);
    own->wanted = *sum;
    memcpy(own->weights, sum->weights, own->group.count * sizeof(float));
    puppet_begin(own, &own->sums);
    return TARRY_OK;
}

/* The sum is the own part, times two. */
static void engine_wait(tarry_engine *engine, uint64_t until_ns, tarry_engine_progress *progress)
{
    bench *own = BENCH_OF(engine, engine);
    int outcome = wait_for(own, &own->sums, until_ns);
    *progress = (tarry_engine_progress){.state = TARRY_ENGINE_RUNNING};
    if (outcome < 0) {
        progress->state = TARRY_ENGINE_FAILED;
        progress->suspect = 2;
    } else if (outcome > 0) {
        progress->state = TARRY_ENGINE_DONE;
        for (size_t i = 0; i < DIMENSION; i++)
            own->wanted.sum[i] = own->wanted.part == NULL ? 0 : 2 * own->wanted.part[i];
    }
}

static void engine_wake(tarry_engine *engine)
{
    bench *own = BENCH_OF(engine, engine);
    wake(own, &own->sums);
}

static void engine_abandon(tarry_engine *engine)
{
    bench *own = BENCH_OF(engine, engine);
    stop(own, &own->sums);
}

static const tarry_engine_methods engine_methods = {
    .name = "puppet",
    .address = engine_address,
    .form = engine_form,
    .start = engine_start,
    .wait = engine_wait,
    .wake = engine_wake,
    .abandon = engine_abandon,
};

/* ---- the exchange ---- */

static int paths_fetch(exchange *paths, uint32_t from, const tarry_sum_id *sum,
                       const exchange_numbers *into)
{
    bench *own = BENCH_OF(paths, exchange);
    assert_int_equal(from, 2);
    assert_int_equal(into->count, DIMENSION);
    assert_false(own->holds); /* what is overwritten is nobody's any more */
    own->into = *into;
    own->fetches = true;
    puppet_begin(own, &own->paths);
    return TARRY_OK;
}

static int paths_load(exchange *paths, uint32_t from, const tarry_sum_id *after)
{
    bench *own = BENCH_OF(paths, exchange);
    assert_int_equal(from, 2);
    own->after = *after;
    own->fetches = false;
    puppet_begin(own, &own->paths);
    return TARRY_OK;
}

static void paths_wait(exchange *paths, uint64_t until_ns, exchange_progress *progress)
{
    bench *own = BENCH_OF(paths, exchange);
    int outcome = wait_for(own, &own->paths, until_ns);
    *progress = (exchange_progress){.state = outcome == 0  ? EXCHANGE_RUNNING
                                             : outcome < 0 ? EXCHANGE_FAILED
                                                           : EXCHANGE_DONE};
    if (outcome > 0 && own->fetches)
        assert_ok(own->into.write(own->into.user, 0, DIMENSION, own->got));
    if (outcome > 0 && !own->fetches) {
        progress->bytes = own->bytes;
        progress->size = sizeof(own->bytes);
        progress->after = own->after;
        progress->after.step += own->ahead;
    }
}

static void paths_wake(exchange *paths)
{
    bench *own = BENCH_OF(paths, exchange);
    wake(own, &own->paths);
}

static void paths_abandon(exchange *paths)
{
    bench *own = BENCH_OF(paths, exchange);
    stop(own, &own->paths);
}

static void paths_hold(exchange *paths, const tarry_sum_id *sum, const exchange_numbers *numbers)
{
    bench *own = BENCH_OF(paths, exchange);
    own->holds = sum != NULL;
    if (sum == NULL)
        return;
    own->held = *sum;
    float held[DIMENSION];
    assert_int_equal(numbers->count, DIMENSION);
    assert_ok(numbers->read(numbers->user, 0, DIMENSION, held));
    assert_true(sum->digest == vector_digest(sum->step, held, DIMENSION));
}

static int paths_offer(exchange *paths, const tarry_sum_id *after, uint8_t *bytes, uint64_t size)
{
    bench *own = BENCH_OF(paths, exchange);
    pthread_mutex_lock(&own->lock);
    assert_int_equal(size, sizeof(float));
    memcpy(&own->handed, bytes, sizeof(float));
    own->offered = *after;
    own->offers++;
    own->torn += own->handed != (float)after->step;
    memory_release(NULL, bytes);
    pthread_cond_broadcast(&own->change);
    pthread_mutex_unlock(&own->lock);
    return TARRY_OK;
}

static void paths_serve(exchange *paths, void (*wanted)(void *user), void *user)
{
    bench *own = BENCH_OF(paths, exchange);
    own->asks = wanted;
    own->asked = user;
}

static const exchange_methods paths_methods = {
    .fetch = paths_fetch,
    .load = paths_load,
    .wait = paths_wait,
    .wake = paths_wake,
    .abandon = paths_abandon,
    .hold = paths_hold,
    .offer = paths_offer,
    .serve = paths_serve,
};

/* ---- the replica: one number, to which the sum's first is added ---- */

static int replica_step(void *user, uint64_t step, const float *sum)
{
    bench *own = user;
    own->state += sum[0];
    own->steps = step;
    return own->error;
}

static int replica_parameters(void *user, float *parameters)
{
    const bench *own = user;
    parameters[0] = own->state;
    return TARRY_OK;
}

static uint64_t replica_size(void *user)
{
    return sizeof(float);
}

static int replica_save(void *user, uint64_t first, void *bytes, size_t size)
{
    const bench *own = user;
    assert_true(first == 0 && size == sizeof(float));
    sched_yield();
    memcpy(bytes, &own->state, size);
    return TARRY_OK;
}

static int replica_load(void *user, uint64_t total, uint64_t first, const void *bytes, size_t size)
{
    bench *own = user;
    assert_true(total == size && first == 0 && size == sizeof(float));
    memcpy(&own->state, bytes, size);
    return own->error;
}

static void ended(void *user)
{
    bench *own = user;
    pthread_mutex_lock(&own->lock);
    own->ends++;
    pthread_cond_broadcast(&own->change);
    pthread_mutex_unlock(&own->lock);
}

/* ---- the bench ---- */

static int make(bench *own, const tarry_allocator *allocator)
{
    int error = worker_vectors_init(&own->vectors, NULL, TARRY_ELEMENT_FLOAT32, allocator);
    if (error != TARRY_OK)
        return error;
    const collective_settings settings = {
        .worker = OWN,
        .workers = WORKERS,
        .parts = 1,
        .dimension = DIMENSION,
        .vectors = &own->vectors,
        .replica = {own, replica_step, replica_parameters, replica_size, replica_save,
                    replica_load},
        .engine = &own->engine,
        .exchange = &own->exchange,
        .snapshots = &own->pool,
        .ended = ended,
        .user = own,
    };
    return collective_create(&settings, allocator, &own->among);
}

static void meet_all(bench *own)
{
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        if (worker == OWN)
            continue; /* it knows its own */
        const uint8_t address[] = {(uint8_t)worker, 7};
        assert_ok(collective_meet(own->among, worker, address, sizeof(address)));
    }
}

static void begin(bench *own)
{
    *own = (bench){.engine.methods = &engine_methods, .exchange.methods = &paths_methods};
    own->plan = edge_plan_make(WORKERS, WORKERS, 1, edges, 3, NULL);
    edge_plan_random_decode(own->plan, 1);
    pthread_mutex_init(&own->lock, NULL);
    pthread_cond_init(&own->change, NULL);
    assert_ok(snapshots_init(&own->pool, 1, 1, NULL));
    assert_ok(make(own, NULL));
    assert_ok(collective_start(own->among));
    meet_all(own);
}

static void end(bench *own)
{
    collective_free(own->among);
    worker_vectors_destroy(&own->vectors);
    assert_false(own->holds); /* nobody reads what is gone, */
    assert_null(own->asks);   /* or asks for it */
    snapshots_destroy(&own->pool);
    tarry_plan_free(own->plan);
    pthread_cond_destroy(&own->change);
    pthread_mutex_destroy(&own->lock);
}

#define BENCH(name) TEST_OF(name, bench, own, end)

static const uint64_t all[] = {7};

static void reduce(bench *own, uint64_t step, const float *part)
{
    collective_gather(own->among, all);
    collective_reduce(own->among, &(collective_sum){
                                      .name = {.step = step, .term = 2, .attempt = 9},
                                      .plan = own->plan,
                                      .scale = 0.5,
                                      .part = part,
                                      .place = TARRY_NO_PLACE,
                                  });
}

/* Waits for the end of an order. */
static void await_end(bench *own)
{
    pthread_mutex_lock(&own->lock);
    while (own->ends == 0)
        pthread_cond_wait(&own->change, &own->lock);
    own->ends--;
    pthread_mutex_unlock(&own->lock);
}

/* And takes it. */
static tarry_event take(bench *own, int *error)
{
    tarry_event event;
    await_end(own);
    assert_true(collective_take(own->among, &event, error));
    return event;
}

static tarry_event take_good(bench *own)
{
    int error;
    tarry_event event = take(own, &error);
    assert_ok(error);
    return event;
}

static void parameters_are(bench *own, float value)
{
    snapshot *now = snapshots_hold(&own->pool);
    assert_true(now->parameters[0] == value);
    snapshots_release(&own->pool, now);
}

/* Waits for a state, which is to be this one, of that step. */
static void is_offered(bench *own, float state, uint64_t step)
{
    pthread_mutex_lock(&own->lock);
    while (own->handed == -1)
        pthread_cond_wait(&own->change, &own->lock);
    assert_true(own->handed == state && own->offered.step == step);
    pthread_mutex_unlock(&own->lock);
}

/* ---- sums ---- */

BENCH(sum_is_made_by_the_group_and_held)
{
    begin(own);
    const float part[DIMENSION] = {1, 2, 3, 4, 5};
    reduce(own, 1, part);
    await_begun(own, &own->sums, 1);
    assert_int_equal(own->group.count, WORKERS);
    assert_int_equal(own->group.place, OWN);
    assert_true(own->group.epoch == (UINT64_C(2) << 32 | 9));
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        assert_int_equal(own->members[worker].worker, worker);
        assert_int_equal(own->members[worker].address_size, 2);
        assert_int_equal(own->members[worker].address[0], worker);
        assert_true(fabs(own->weights[worker] -
                         0.5 * tarry_plan_decode_weight(own->plan, 0, worker)) < 1e-6);
    }
    tell(own, &own->sums, 1);
    tarry_event event = take_good(own);
    const float sum[DIMENSION] = {2, 4, 6, 8, 10};
    assert_int_equal(event.type, TARRY_EVENT_REDUCED);
    assert_false(event.failed);
    assert_true(event.sum.step == 1 && event.sum.attempt == 9 &&
                event.sum.digest == vector_digest(1, sum, DIMENSION));
    assert_true(own->holds && own->held.digest == event.sum.digest);

    uint64_t digest;
    assert_ok(collective_step(own->among, &event.sum, true, &digest));
    assert_true(own->steps == 1 && own->state == 2 && own->holds);
    parameters_are(own, 2);
    event.sum.digest++;
    assert_int_equal(collective_step(own->among, &event.sum, true, &digest), TARRY_ERROR_STATE);
    assert_true(own->state == 2);
}

BENCH(failed_sum_names_its_suspect)
{
    begin(own);
    reduce(own, 1, NULL);
    comes_to(own, &own->sums, 1, -1);
    tarry_event event = take_good(own);
    assert_true(event.failed && event.from == 2 && !own->holds);
}

BENCH(member_without_an_address_is_suspected)
{
    begin(own);
    assert_ok(collective_meet(own->among, 0, NULL, 0));
    reduce(own, 1, NULL);
    tarry_event event = take_good(own);
    assert_true(event.failed && event.from == 0);
    assert_int_equal(own->sums.begun, 0);
}

BENCH(abandoned_sum_says_nothing)
{
    begin(own);
    reduce(own, 1, NULL);
    await_begun(own, &own->sums, 1);
    collective_abandon(own->among);
    assert_int_equal(own->sums.abandoned, 1);
    assert_int_equal(own->ends, 0);
    tarry_event event;
    int error;
    assert_false(collective_take(own->among, &event, &error));
    /* One that has ended, too; and then another one begins. */
    reduce(own, 1, NULL);
    comes_to(own, &own->sums, 2, 1);
    await_end(own);
    collective_abandon(own->among);
    assert_false(collective_take(own->among, &event, &error));
    reduce(own, 2, NULL);
    comes_to(own, &own->sums, 3, 1);
    assert_int_equal(take_good(own).sum.step, 2);
}

/* ---- what is got from others ---- */

BENCH(fetched_sum_counts_only_with_its_digest)
{
    begin(own);
    own->got[0] = 4;
    tarry_sum_id sum = {.step = 3, .term = 2, .attempt = 1};
    sum.digest = vector_digest(3, own->got, DIMENSION) + 1;
    collective_fetch(own->among, 2, &sum);
    comes_to(own, &own->paths, 1, 1);
    tarry_event event = take_good(own);
    assert_int_equal(event.type, TARRY_EVENT_FETCHED);
    assert_true(event.failed && !own->holds);
    sum.digest--;
    collective_fetch(own->among, 2, &sum);
    comes_to(own, &own->paths, 2, 1);
    assert_false(take_good(own).failed);
    assert_true(own->holds && own->held.digest == sum.digest);
    uint64_t digest;
    assert_ok(collective_step(own->among, &sum, true, &digest));
    assert_true(own->state == 4);
}

BENCH(state_is_loaded_when_its_end_is_taken)
{
    begin(own);
    const float theirs = 42;
    const tarry_sum_id last = {.step = 8, .term = 2, .attempt = 3, .digest = 5};
    memcpy(own->bytes, &theirs, sizeof(theirs));
    /* Abandoned after it was got: nothing has changed. */
    collective_load(own->among, 2, &last, false);
    comes_to(own, &own->paths, 1, 1);
    await_end(own);
    collective_abandon(own->among);
    assert_true(own->state == 0);

    collective_load(own->among, 2, &last, false);
    comes_to(own, &own->paths, 2, 1);
    tarry_event event = take_good(own);
    assert_int_equal(event.type, TARRY_EVENT_LOADED);
    assert_true(!event.failed && event.sum.digest == 5 && own->state == 42 && !own->holds);
    own->ahead = 2; /* its source has stepped meanwhile */
    collective_load(own->among, 2, &last, false);
    comes_to(own, &own->paths, 3, 1);
    event = take_good(own);
    assert_true(!event.failed && event.sum.step == last.step + 2);
    parameters_are(own, 42);
}

BENCH(replica_that_fails_is_told)
{
    begin(own);
    own->error = TARRY_ERROR_NUMERICAL;
    collective_load(own->among, 2, &(tarry_sum_id){.step = 1}, false);
    comes_to(own, &own->paths, 1, 1);
    int error;
    take(own, &error);
    assert_int_equal(error, TARRY_ERROR_NUMERICAL);
}

BENCH(state_is_offered_even_during_a_sum)
{
    begin(own);
    own->state = 6;
    own->handed = -1;
    reduce(own, 1, NULL);
    await_begun(own, &own->sums, 1);
    own->asks(own->asked);
    is_offered(own, 6, 0);
    tell(own, &own->sums, 1);
    assert_false(take_good(own).failed);
}

/* What the owner of the replica steps on stays as it is, and the state is offered afterwards. */
BENCH(state_is_not_offered_while_its_owner_steps)
{
    begin(own);
    const float part[DIMENSION] = {1, 2, 3, 4, 5};
    const float *numbers;
    uint64_t digest;
    own->handed = -1;
    reduce(own, 1, part);
    comes_to(own, &own->sums, 1, 1);
    tarry_event event = take_good(own);
    const tarry_sum_id other = {.step = 9};
    assert_int_equal(collective_lend(own->among, &other, &numbers), TARRY_ERROR_STATE);
    assert_ok(collective_lend(own->among, &event.sum, &numbers));
    own->asks(own->asked);
    own->state = numbers[0];
    sched_yield();
    pthread_mutex_lock(&own->lock);
    assert_true(own->handed == -1);
    pthread_mutex_unlock(&own->lock);
    own->state = 7;
    assert_ok(collective_stepped(own->among, &event.sum, true, &digest));
    is_offered(own, 7, 1);
    parameters_are(own, 7);
}

/* Others ask while the owner steps on one sum after the other: what they get is of the step that it
 * is said to be of. */
BENCH(states_are_of_the_step_that_they_are_offered_as)
{
    begin(own);
    const float part[DIMENSION] = {1};
    for (uint64_t step = 1; step <= RACES; step++) {
        const float *numbers;
        uint64_t digest;
        own->sums.begun = 0;
        reduce(own, step, part);
        await_begun(own, &own->sums, 1);
        tell(own, &own->sums, 1);
        tarry_event event = take_good(own);
        own->asks(own->asked);
        for (uint64_t i = 0; i < step % 4; i++)
            sched_yield();
        assert_ok(collective_lend(own->among, &event.sum, &numbers));
        own->state = -1;
        sched_yield();
        own->state = (float)step;
        assert_ok(collective_stepped(own->among, &event.sum, false, &digest));
    }
    own->asks(own->asked);
    pthread_mutex_lock(&own->lock);
    while (own->offers == 0 || own->offered.step < RACES)
        pthread_cond_wait(&own->change, &own->lock);
    print_message("%zu states were offered\n", own->offers);
    assert_int_equal(own->torn, 0);
    pthread_mutex_unlock(&own->lock);
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    bench *own = user;
    int error = make(own, allocator);
    if (error == TARRY_OK)
        collective_free(own->among);
    worker_vectors_destroy(&own->vectors);
    return error;
}

TEST(every_allocation_may_fail)
{
    bench own = {.engine.methods = &engine_methods, .exchange.methods = &paths_methods};
    assert_ok(snapshots_init(&own.pool, 1, 1, NULL));
    fail_each_allocation(attempt, &own);
    snapshots_destroy(&own.pool);
}
