/* SPDX-License-Identifier: Apache-2.0 */
/* What workers hold where everyone gets the sum, against the server's own steps. */
#include <pthread.h>

#include "base/memory.h"
#include "cli/job/job.h"
#include "test.h"

enum { FEATURES = 5, SAMPLES = 20, WORKERS = 3 };

static const optimizer_kind kinds[] = {OPTIMIZER_GD, OPTIMIZER_MOMENTUM, OPTIMIZER_NESTEROV,
                                       OPTIMIZER_ADAM};

/* One run: the server's parameters and optimizer, and the workers'. */
typedef struct pair {
    objective *model;
    size_t dimension;
    float parameters[FEATURES], gradient[FEATURES], sum[FEATURES];
    optimizer *optimizer;
    job_replicas *replicas;
} pair;

static void begin(pair *run, optimizer_kind kind)
{
    const objective_settings model = {
        .model = MODEL_LOGISTIC, .features = FEATURES, .classes = 2, .l2 = 0.1};
    assert_ok(objective_create(&model, NULL, &run->model, NULL));
    run->dimension = objective_dimension(run->model);
    assert_int_equal(run->dimension, FEATURES);
    objective_initial(run->model, 1, run->parameters);
    const optimizer_settings steps = {kind, 0.5, OPTIMIZER_USUAL_DECAY};
    assert_ok(optimizer_create(&steps, FEATURES, NULL, &run->optimizer));
    const job_replicas_settings settings = {
        .model = run->model,
        .optimizer = steps,
        .samples = SAMPLES,
        .parameters = run->parameters,
        .state = optimizer_state_of(run->optimizer),
    };
    assert_ok(job_replicas_create(&settings, WORKERS, &run->replicas));
}

static void end(pair *run)
{
    job_replicas_free(run->replicas);
    optimizer_free(run->optimizer);
    objective_free(run->model);
}
OWNED_STRUCT_BY(pair, end)

/* The server's step, and what it steps on. */
static void step_server(pair *run, uint64_t step)
{
    for (size_t i = 0; i < FEATURES; i++)
        run->sum[i] = (float)(step * (i + 1)) - 7;
    objective_regularise(run->model, run->parameters, run->sum, SAMPLES, run->gradient);
    optimizer_step(run->optimizer, run->gradient, run->parameters);
}

static void step_worker(pair *run, uint32_t worker, uint64_t step)
{
    const tarry_replica *replica = &job_replicas_list(run->replicas)[worker];
    assert_ok(replica->step(replica->user, step, run->sum));
}

static void assert_has(pair *run, uint32_t worker)
{
    const tarry_replica *replica = &job_replicas_list(run->replicas)[worker];
    float found[FEATURES];
    assert_ok(replica->parameters(replica->user, found));
    assert_memory_equal(found, run->parameters, sizeof(found));
}

/* The state is that of the server's optimizer. */
static void assert_state(const pair *run, const optimizer_state *found)
{
    const optimizer_state *had = optimizer_state_of(run->optimizer);
    assert_memory_equal(found->velocity, had->velocity, sizeof(run->parameters));
    assert_memory_equal(found->square, had->square, sizeof(run->parameters));
    assert_true(found->decayed == had->decayed && found->square_decayed == had->square_decayed);
}

TEST(workers_step_as_the_server)
{
    for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
        OWNED(pair) run;
        begin(&run, kinds[kind]);
        for (uint64_t step = 1; step <= 5; step++) {
            step_server(&run, step);
            for (uint32_t worker = 0; worker < WORKERS; worker++) {
                step_worker(&run, worker, step);
                assert_has(&run, worker);
            }
        }
    }
}

/* In pieces of `size` bytes. */
static int pass(const tarry_replica *from, const tarry_replica *to, size_t size, uint64_t total)
{
    uint8_t piece[1024];
    int error = TARRY_OK;
    for (uint64_t first = 0; first < total && error == TARRY_OK; first += size) {
        size_t length = total - first < size ? (size_t)(total - first) : size;
        assert_ok(from->save(from->user, first, piece, length));
        error = to->load(to->user, total, first, piece, length);
    }
    return error;
}

TEST(a_state_goes_from_one_to_another)
{
    const size_t sizes[] = {1, 7, 48, 49, 1024};
    for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            OWNED(pair) run;
            begin(&run, kinds[kind]);
            const tarry_replica *list = job_replicas_list(run.replicas);
            for (uint64_t step = 1; step <= 3; step++) {
                step_server(&run, step);
                step_worker(&run, 0, step);
            }
            uint64_t total = list[0].state_size(list[0].user);
            assert_ok(pass(&list[0], &list[1], sizes[i], total));
            assert_has(&run, 1);
            step_server(&run, 4); /* the optimizer's state has come along */
            step_worker(&run, 0, 4);
            step_worker(&run, 1, 4);
            assert_has(&run, 0);
            assert_has(&run, 1);
        }
}

TEST(a_state_of_another_kind_is_refused)
{
    OWNED(pair) run, other;
    begin(&run, OPTIMIZER_MOMENTUM);
    begin(&other, OPTIMIZER_NESTEROV);
    step_server(&other, 1);
    step_worker(&other, 0, 1);
    const tarry_replica *from = job_replicas_list(other.replicas);
    const tarry_replica *to = job_replicas_list(run.replicas);
    uint64_t total = to->state_size(to->user);
    assert_int_equal(total, from->state_size(from->user));
    assert_int_equal(pass(from, to, 16, total), TARRY_ERROR_FORMAT);
    assert_has(&run, 0);
    assert_int_equal(pass(to, to, 1024, total - 4), TARRY_ERROR_FORMAT);
}

/* All of worker 0's state. */
static uint64_t save(const pair *run, uint8_t bytes[1024])
{
    const tarry_replica *replica = job_replicas_list(run->replicas);
    uint64_t total = replica->state_size(replica->user);
    assert_true(total <= 1024);
    assert_ok(replica->save(replica->user, 0, bytes, (size_t)total));
    return total;
}

TEST(a_state_is_read_only_after_its_step)
{
    OWNED(pair) run, other;
    uint8_t bytes[1024];
    begin(&run, OPTIMIZER_ADAM);
    begin(&other, OPTIMIZER_ADAM);
    for (uint64_t step = 1; step <= 3; step++) {
        step_server(&run, step);
        step_worker(&run, 0, step);
    }
    uint64_t total = save(&run, bytes);
    float parameters[FEATURES] = {0}, none[FEATURES] = {0};
    optimizer_state *read = optimizer_state_of(other.optimizer);
    const job_replicas *its = other.replicas;
    assert_int_equal(job_replicas_read(its, 2, bytes, total, parameters, read), TARRY_ERROR_FORMAT);
    assert_int_equal(job_replicas_read(its, 3, bytes, total - 1, parameters, read),
                     TARRY_ERROR_FORMAT);
    bytes[0]++; /* of another order of bytes */
    assert_int_equal(job_replicas_read(its, 3, bytes, total, parameters, read), TARRY_ERROR_FORMAT);
    bytes[0]--;
    assert_memory_equal(parameters, none, sizeof(parameters));
    assert_ok(job_replicas_read(its, 3, bytes, total, parameters, read));
    assert_memory_equal(parameters, run.parameters, sizeof(parameters));
    assert_state(&run, read);
    uint8_t *copied;
    uint64_t size;
    assert_ok(job_replicas_copy(run.replicas, &copied, &size));
    assert_int_equal(size, total);
    assert_memory_equal(copied, bytes, total);
    memory_release(NULL, copied);
}

/* As a worker of another process makes it, which the job tells the seed. */
TEST(the_first_state_is_drawn_by_the_seed)
{
    const objective_settings model = {
        .model = MODEL_PERCEPTRON,
        .features = 3,
        .classes = 2,
        .hidden = {4},
        .hidden_layers = 1,
    };
    job_replicas_settings settings = {.optimizer = {.kind = OPTIMIZER_GD, .rate = 1}, .samples = 1};
    objective *made;
    float wanted[64], found[64];
    assert_ok(objective_create(&model, NULL, &made, NULL));
    assert_true(objective_dimension(made) <= 64);
    settings.model = made;
    for (settings.seed = 1; settings.seed <= 2; settings.seed++) {
        job_replicas *drawn;
        assert_ok(job_replicas_create(&settings, 1, &drawn));
        const tarry_replica *replica = job_replicas_list(drawn);
        assert_ok(replica->parameters(replica->user, found));
        objective_initial(made, settings.seed, wanted);
        assert_memory_equal(found, wanted, objective_dimension(made) * sizeof(float));
        job_replicas_free(drawn);
    }
    objective_free(made);
}

typedef struct stepping {
    pair *run;
    uint32_t worker;
} stepping;

static void *step_beside(void *user)
{
    const stepping *own = user;
    step_worker(own->run, own->worker, 1);
    return NULL;
}

TEST(whoever_looks_waits_for_the_step)
{
    OWNED(pair) run, mine;
    begin(&run, OPTIMIZER_ADAM);
    begin(&mine, OPTIMIZER_ADAM);
    step_server(&run, 1);
    stepping own = {&run, 2};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, step_beside, &own), 0);
    float parameters[FEATURES];
    job_replicas_look(run.replicas, 1, parameters, optimizer_state_of(mine.optimizer));
    assert_memory_equal(parameters, run.parameters, sizeof(parameters));
    assert_state(&run, optimizer_state_of(mine.optimizer));
    pthread_join(thread, NULL);
}
