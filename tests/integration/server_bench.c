/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server_bench.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

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
    tarry_plan *plan;
    assert_int_equal(tarry_plan_create(&settings, NULL, &plan, NULL), TARRY_OK);
    return plan;
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
    int error = tarry_tcp_server_create(its->plan, &its->settings, NULL, &its->server, &diagnostic);
    if (error != TARRY_OK)
        fail_msg("%s", diagnostic.text);
    its->address = tarry_runtime_address(its->server, 0);
    if (its->settings.checkpoint == NULL) /* from now on it lets others in */
        assert_int_equal(tarry_runtime_open(its->server, NULL), TARRY_OK);
    for (size_t i = 0; i < PARAMETERS; i++)
        its->parameters[i] = (float)i;
}

void bench_end(bench *its)
{
    tarry_runtime_free(its->server, true);
    tarry_plan_free(its->plan);
    pthread_cond_destroy(&its->changed);
    pthread_mutex_destroy(&its->lock);
}

void *crew_work(void *argument)
{
    script_work(argument);
    return NULL;
}

void crew_hire(crew *its, bench *with, uint32_t count)
{
    its->count = count;
    for (uint32_t i = 0; i < count; i++) {
        script_open(&its->workers[i], with->address, (uint8_t)(i + 1));
        script_join(&its->workers[i], i);
    }
    assert_int_equal(tarry_runtime_wait(with->server, count, PATIENCE_NS, NULL), TARRY_OK);
}

void crew_start(crew *its)
{
    for (uint32_t i = 0; i < its->count; i++)
        assert_int_equal(pthread_create(&its->threads[i], NULL, crew_work, &its->workers[i]), 0);
}

/* Once the server is gone. */
void crew_dismiss(crew *its)
{
    for (uint32_t i = 0; i < its->count; i++) {
        pthread_join(its->threads[i], NULL);
        script_close(&its->workers[i]);
    }
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
