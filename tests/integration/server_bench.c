/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "edge_plan.h"
#include "server_bench.h"
#include "test.h"

static void observe(void *user, const tarry_tcp_notice *notice)
{
    bench *its = user;
    pthread_mutex_lock(&its->lock);
    its->joined += notice->type == TARRY_TCP_JOINED;
    its->left += notice->type == TARRY_TCP_LEFT;
    if (notice->type == TARRY_TCP_LEFT_OUT) {
        its->left_out++;
        its->gone += notice->absence == TARRY_ABSENT_GONE;
    }
    its->refused += notice->type == TARRY_TCP_REFUSED;
    its->revocations += notice->type == TARRY_TCP_REVOCATION;
    if (notice->type == TARRY_TCP_REFUSED || notice->type == TARRY_TCP_REVOCATION) {
        size_t left = sizeof(its->told) - its->told_size;
        int length = snprintf(its->told + its->told_size, left, "%s\n", notice->text);
        its->told_size += (size_t)length < left ? (size_t)length : left - 1;
    }
    pthread_cond_broadcast(&its->changed);
    pthread_mutex_unlock(&its->lock);
}

static struct timespec soon(void)
{
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += PATIENCE_SECONDS;
    return limit;
}

void bench_await_count(bench *its, const uint32_t *count, uint32_t wanted)
{
    struct timespec limit = soon();
    int late = 0;
    pthread_mutex_lock(&its->lock);
    while (*count < wanted && late == 0)
        late = pthread_cond_timedwait(&its->changed, &its->lock, &limit);
    pthread_mutex_unlock(&its->lock);
    assert_int_equal(late, 0);
}

void bench_await_told(bench *its, const char *words)
{
    struct timespec limit = soon();
    int late = 0;
    pthread_mutex_lock(&its->lock);
    while (strstr(its->told, words) == NULL && late == 0)
        late = pthread_cond_timedwait(&its->changed, &its->lock, &limit);
    pthread_mutex_unlock(&its->lock);
    assert_int_equal(late, 0);
}

void bench_init(bench *its)
{
    *its = (bench){.chunks = CHUNKS};
    pthread_mutex_init(&its->lock, NULL);
    pthread_cond_init(&its->changed, NULL);
    tarry_tcp_server_settings *settings = &its->settings;
    tarry_tcp_server_settings_init(settings);
    settings->security.insecure = true;
    settings->parameters = PARAMETERS;
    settings->dimension = DIMENSION;
    settings->server.stripe_length = STRIPE;
    settings->server.silence_ns = PATIENCE_NS;
    settings->job = "what to compute";
    settings->job_size = sizeof("what to compute");
    settings->observe = observe;
    settings->observe_user = its;
}

tarry_plan *bench_plan(uint32_t parts)
{
    tarry_plan_settings settings;
    tarry_plan_settings_init(&settings);
    settings.workers = WORKERS;
    settings.chunks = CHUNKS;
    settings.replication = 3;
    settings.parts = parts;
    return plan_make(&settings);
}

void bench_begin(bench *its, uint32_t parts)
{
    static const char *const listen[] = {"127.0.0.1:0"};
    if (its->settings.listen_count == 0) {
        its->settings.listen = listen;
        its->settings.listen_count = 1;
    }
    its->plan = bench_plan(parts);
    tarry_diagnostic diagnostic;
    assert_ok_or(diagnostic, tarry_tcp_server_create(its->plan, &its->settings, NULL, &its->server,
                                                     &diagnostic));
    its->address = tarry_runtime_address(its->server, 0);
    if (its->settings.checkpoint == NULL) /* from now on it lets others in */
        assert_ok(tarry_runtime_open(its->server, NULL));
    for (size_t i = 0; i < PARAMETERS; i++)
        its->parameters[i] = (float)i;
}

void bench_open(bench *its, uint32_t parts)
{
    bench_init(its);
    bench_begin(its, parts);
}

void bench_end(bench *its)
{
    tarry_runtime_free(its->server, true);
    for (uint32_t i = 0; i < its->crew.count; i++) {
        if (its->crew.works[i])
            pthread_join(its->crew.threads[i], NULL);
        script_close(&its->crew.workers[i]);
    }
    tarry_plan_free(its->plan);
    pthread_cond_destroy(&its->changed);
    pthread_mutex_destroy(&its->lock);
}

void *crew_work(void *argument)
{
    script_work(argument);
    return NULL;
}

void bench_good_round(bench *its, float parameter)
{
    assert_ok(bench_round(its, parameter));
    assert_true_sum(its, parameter);
}

void crew_hire(bench *its, uint32_t count)
{
    its->crew.count = count;
    for (uint32_t i = 0; i < count; i++) {
        script_open(&its->crew.workers[i], its->address, (uint8_t)(i + 1));
        script_join(&its->crew.workers[i], i);
    }
    assert_ok(tarry_runtime_wait(its->server, count, PATIENCE_NS, NULL));
}

void crew_begin(bench *its, uint32_t worker, void *work(void *))
{
    crew *all = &its->crew;
    assert_int_equal(pthread_create(&all->threads[worker], NULL, work, &all->workers[worker]), 0);
    all->works[worker] = true;
}

void crew_start(bench *its)
{
    for (uint32_t i = 0; i < its->crew.count; i++)
        crew_begin(its, i, crew_work);
}

int bench_round(bench *its, float parameter)
{
    its->parameters[PARAMETERS - 1] = parameter;
    for (size_t i = 0; i < DIMENSION; i++)
        its->sum[i] = NAN;
    tarry_diagnostic diagnostic;
    int error =
        tarry_runtime_round(its->server, its->parameters, its->sum, &its->result, &diagnostic);
    if (error != TARRY_OK)
        print_message("%s\n", diagnostic.text);
    return error;
}

void assert_true_sum(const bench *its, float parameter)
{
    for (size_t i = 0; i < DIMENSION; i++) {
        double truth = 0;
        for (uint32_t chunk = 0; chunk < its->chunks; chunk++)
            truth += (double)script_gradient(its->result.round, chunk, i, parameter);
        assert_true(fabs((double)its->sum[i] - truth) <= 1e-4 * fabs(truth) + 1e-3);
    }
}

void bench_open_crewed(bench *its)
{
    bench_open(its, 1);
    crew_hire(its, WORKERS);
    crew_start(its);
}

void bench_open_crewed_but_one(bench *its)
{
    bench_open(its, 1);
    crew_hire(its, WORKERS);
    for (uint32_t i = 1; i < WORKERS; i++)
        crew_begin(its, i, crew_work);
}
