/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/options/options.h"
#include "cli/train/train_checkpoint.h"
#include "edge_plan.h"
#include "learn/dataset.h"
#include "runtime/host/runtime.h"
#include "test.h"

enum { DIMENSION = 3, FEW = TARRY_CHECKPOINT_ARRIVALS / 2 };

/* A runner that has nothing but the server's machine, and the run's other half. */
typedef struct bench {
    runner base;
    tarry_runtime runtime;
    host host;
    tarry_plan *plan;
    tarry_server *server;
    dataset *data;
    history *past;
    train_options options;
    train_checkpoint *keeper;
    char folder[32], path[64], blocker[64];
} bench;

static const uint8_t *job_id(const tarry_runtime *self)
{
    static const uint8_t id[TARRY_JOB_ID_SIZE] = {1, 1};
    return id;
}

static const runtime_methods methods = {.job_id = job_id};

/* The options by their names; that all of them are at no value does not matter. */
static json_t *make_config(train_options *options)
{
    json_t *config = json_object();
    option_group groups[TRAIN_GROUPS];
    train_options_groups(options, groups);
    for (size_t group = 0; group < TRAIN_GROUPS; group++)
        for (size_t i = 0; i < groups[group].count; i++)
            json_object_set_new(config, groups[group].entries[i].name, json_null());
    return config;
}

static void begin(bench *its)
{
    *its = (bench){.runtime.methods = &methods, .folder = "/tmp/tarry-test-XXXXXX"};
    assert_non_null(mkdtemp(its->folder));
    snprintf(its->path, sizeof(its->path), "%s/run.ck", its->folder);
    snprintf(its->blocker, sizeof(its->blocker), "%s/run.ck.new", its->folder);
    its->plan = plan_drawn(2, 2, 1, 1);
    tarry_server_settings settings;
    tarry_server_settings_init(&settings);
    settings.dimension = DIMENSION;
    assert_ok(tarry_server_create(its->plan, &settings, NULL, &its->server, NULL));
    its->host.machine = its->server;
    its->runtime.host = &its->host;
    its->base.runtime = &its->runtime;
    const synthetic_settings made = {.rows = 10, .features = DIMENSION, .seed = 1};
    assert_ok(dataset_synthetic(&made, NULL, &its->data, NULL));
    json_t *config = make_config(&its->options);
    assert_ok(history_create(2, 2, &its->past));
    its->options.checkpoint = its->path;
    const train_identity identity = {.config = config, .plan = its->plan, .train = its->data};
    assert_int_equal(train_checkpoint_open(&its->options, &identity, &its->keeper),
                     OPTIONS_PROCEED);
    json_decref(config);
}

static void end(bench *its)
{
    char beside[80];
    snprintf(beside, sizeof(beside), "%s.previous", its->path);
    unlink(beside);
    snprintf(beside, sizeof(beside), "%s.history", its->path);
    unlink(beside);
    unlink(its->path);
    train_checkpoint_close(its->keeper);
    assert_int_equal(rmdir(its->folder), 0);
    history_free(its->past);
    dataset_free(its->data);
    tarry_server_free(its->server);
    tarry_plan_free(its->plan);
}

#define BENCH(name) TEST_WITH(name, bench, its, begin, end)

static int save_numbers(bench *its, const float *parameters, const optimizer_state *steps)
{
    assert_ok(train_checkpoint_mark(its->keeper, &its->base, its->plan));
    return train_checkpoint_write(its->keeper, &its->base, DIMENSION, parameters, steps, its->past,
                                  NULL);
}

static int save(bench *its)
{
    const float parameters[DIMENSION] = {1, 2, 3};
    return save_numbers(its, parameters, &(optimizer_state){0});
}

static void comes_back(bench *its, uint32_t times)
{
    const tarry_event event = {.type = TARRY_EVENT_JOINED, .worker = 1};
    const tarry_effects *effects;
    for (; times > 0; times--) {
        assert_ok(tarry_server_step(its->server, 0, &event, &effects));
        assert_int_equal(effects->count, 0);
    }
}

static bool is_urgent(bench *its)
{
    return train_checkpoint_urgent(its->keeper, &its->base);
}

BENCH(a_worker_that_keeps_coming_back_makes_one_urgent)
{
    assert_false(is_urgent(its)); /* nothing is reserved before the first */
    assert_ok(save(its));
    for (int again = 0; again < 3; again++) {
        comes_back(its, TARRY_CHECKPOINT_ARRIVALS - FEW - 1);
        assert_false(is_urgent(its));
        comes_back(its, 1);
        assert_true(is_urgent(its));
        assert_ok(save(its));
        assert_false(is_urgent(its));
        assert_int_equal(tarry_server_arrivals_left(its->server), TARRY_CHECKPOINT_ARRIVALS);
    }
}

BENCH(one_that_is_not_written_reserves_nothing)
{
    assert_ok(save(its));
    comes_back(its, TARRY_CHECKPOINT_ARRIVALS - FEW);
    assert_int_equal(mkdir(its->blocker, 0700), 0); /* where it is to be written */
    for (uint32_t few = FEW; few > 1; few /= 2) {
        assert_true(is_urgent(its));
        assert_int_equal(save(its), TARRY_ERROR_FILE);
        assert_int_equal(tarry_server_arrivals_left(its->server), few);
        assert_false(is_urgent(its)); /* it is not tried all the time */
        comes_back(its, few / 2);
    }
    assert_int_equal(rmdir(its->blocker), 0);
    assert_ok(save(its));
    assert_int_equal(tarry_server_arrivals_left(its->server), TARRY_CHECKPOINT_ARRIVALS);
}

static ino_t file_at(const bench *its)
{
    struct stat status;
    assert_int_equal(stat(its->path, &status), 0);
    return status.st_ino;
}

BENCH(numbers_that_are_not_finite_replace_none_that_are)
{
    assert_ok(save(its));
    comes_back(its, TARRY_CHECKPOINT_ARRIVALS - FEW);
    const ino_t good = file_at(its);
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < DIMENSION; i++) {
        float finite[DIMENSION] = {1, 2, 3}, broken[DIMENSION] = {1, 2, 3};
        broken[i] = bad[i];
        optimizer_state with_velocity = {.velocity = broken};
        optimizer_state with_square = {.velocity = finite, .square = broken};
        assert_int_equal(save_numbers(its, broken, &(optimizer_state){0}), TARRY_ERROR_NUMERICAL);
        assert_int_equal(save_numbers(its, finite, &with_velocity), TARRY_ERROR_NUMERICAL);
        assert_int_equal(save_numbers(its, finite, &with_square), TARRY_ERROR_NUMERICAL);
    }
    assert_int_equal(file_at(its), good);
    assert_int_equal(tarry_server_arrivals_left(its->server), FEW);
    assert_ok(save(its));
    assert_int_not_equal(file_at(its), good);
}
