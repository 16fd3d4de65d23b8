/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "base/random.h"
#include "pki/authority.h"
#include "runtime/clock.h"
#include "test.h"

/* Longer than any back-off and any stall of the machine: what takes longer hangs. */
#define WAIT_NS UINT64_C(60000000000)
#define SILENCE_NS UINT64_C(10000000000)

void cluster_init(cluster *its)
{
    *its = (cluster){.dimension = 1000, .parameter_count = 40000, .seed = 1, .workers = 6};
    tarry_plan_settings_init(&its->plan_settings);
    its->plan_settings.workers = 6;
    its->plan_settings.chunks = 6;
    its->plan_settings.replication = 3;
    tarry_tcp_server_settings_init(&its->settings);
    its->settings.server.stripe_length = 96;
    its->settings.server.silence_ns = SILENCE_NS;
    pthread_mutex_init(&its->lock, NULL);
    assert_int_equal(clock_init_condition(&its->changed), 0);
    for (uint32_t worker = 0; worker < CLUSTER_MOST_WORKERS; worker++)
        its->members[worker].free = UINT32_MAX;
}

/* ---- what happens ---- */

void cluster_await_change(cluster *its)
{
    struct timespec limit = clock_timespec(clock_now_ns() + WAIT_NS);
    assert_int_equal(pthread_cond_timedwait(&its->changed, &its->lock, &limit), 0);
}

void cluster_hold(cluster *its, uint32_t worker, uint32_t after)
{
    pthread_mutex_lock(&its->lock);
    its->members[worker].free = after;
    pthread_mutex_unlock(&its->lock);
}

bool cluster_is_held(cluster *its, uint32_t worker)
{
    pthread_mutex_lock(&its->lock);
    bool held = its->members[worker].held;
    pthread_mutex_unlock(&its->lock);
    return held;
}

void cluster_await_held(cluster *its, uint32_t worker)
{
    pthread_mutex_lock(&its->lock);
    while (!its->members[worker].held)
        cluster_await_change(its);
    pthread_mutex_unlock(&its->lock);
}

void cluster_release(cluster *its)
{
    pthread_mutex_lock(&its->lock);
    for (uint32_t worker = 0; worker < CLUSTER_MOST_WORKERS; worker++)
        its->members[worker].free = UINT32_MAX;
    pthread_cond_broadcast(&its->changed);
    pthread_mutex_unlock(&its->lock);
}

/* In a worker's computation. */
static void pass_gate(cluster_member *member)
{
    cluster *its = member->cluster;
    pthread_mutex_lock(&its->lock);
    while (member->free == 0) {
        member->held = true;
        pthread_cond_broadcast(&its->changed);
        pthread_cond_wait(&its->changed, &its->lock);
    }
    member->held = false;
    member->free -= member->free < UINT32_MAX;
    pthread_mutex_unlock(&its->lock);
}

static bool is_whole(const cluster *its, proxy *between)
{
    for (uint32_t worker = 0; worker < its->workers; worker++)
        if (!proxy_holds(between, its->members[worker].seen))
            return false;
    return true;
}

void cluster_wait_whole(cluster *its, proxy *between)
{
    cluster_wait(its, its->workers);
    pthread_mutex_lock(&its->lock);
    while (!is_whole(its, between))
        cluster_await_change(its);
    pthread_mutex_unlock(&its->lock);
}

static void observe_server(void *user, const tarry_tcp_notice *notice)
{
    cluster *its = user;
    bool joined = notice->type == TARRY_TCP_JOINED;
    bool left = notice->type == TARRY_TCP_LEFT ||
                (notice->type == TARRY_TCP_LEFT_OUT &&
                 (notice->absence == TARRY_ABSENT_GONE || notice->absence == TARRY_ABSENT_SILENT));
    if (!joined && !left)
        return;
    pthread_mutex_lock(&its->lock);
    snprintf(its->members[notice->worker].seen, CLUSTER_ADDRESS, "%s", joined ? notice->peer : "");
    pthread_cond_broadcast(&its->changed);
    pthread_mutex_unlock(&its->lock);
}

/* ---- gradients ---- */

/* A chunk's vector in a round, scaled by parameters so that a wrong round shows. */
static void add(const cluster *its, uint64_t round, uint32_t origin, double scale, double *sum)
{
    random_stream stream = random_stream_make(its->seed, RANDOM_TEST, (uint32_t)round, origin);
    for (size_t i = 0; i < its->dimension; i++)
        sum[i] += scale * random_normal(&stream);
}

static double scale_of(const cluster *its, const float *parameters)
{
    return (double)parameters[0] + (double)parameters[its->parameter_count - 1];
}

static int compute(void *user, const tarry_task *task)
{
    cluster_member *member = user;
    cluster *its = member->cluster;
    double *sum = calloc(its->dimension, sizeof(*sum));
    if (sum == NULL)
        return -1;
    int result = 0;
    for (uint32_t i = 0; i < task->span_count && result == 0; i++) {
        uint32_t origin = task->spans[i].origin;
        double scale = scale_of(its, task->parameters) * task->spans[i].count / task->spans[i].of;
        if (its->ships) {
            const void *bytes;
            size_t size;
            result = tarry_tcp_worker_fetch(member->worker, origin, &bytes, &size);
            if (result == 0 && (size != sizeof(uint64_t) ||
                                memcmp(bytes, &its->shipped[origin], sizeof(uint64_t)) != 0))
                result = -1;
        }
        if (result == 0)
            add(its, task->round, origin, scale, sum);
    }
    for (size_t i = 0; i < its->dimension; i++)
        task->gradient[i] = (float)sum[i];
    free(sum);
    pass_gate(member);
    return result;
}

static int ship(void *user, uint32_t origin, const void **bytes, size_t *size)
{
    cluster *its = user;
    *bytes = &its->shipped[origin];
    *size = sizeof(its->shipped[origin]);
    return 0;
}

/* ---- the server ---- */

static void make_authority(cluster *its)
{
    authority_rostered listed;
    key_folder_make(&its->keys, its->workers, time(NULL));
    if (its->secure)
        assert_ok(authority_roster(its->keys.home, time(NULL), &listed, NULL));
}

void cluster_begin_server(cluster *its)
{
    tarry_diagnostic diagnostic = {{0}};
    const char *listen[2] = {its->near ? its->socket : "127.0.0.1:0", its->socket};
    if (its->tls && its->keys.root[0] == '\0')
        make_authority(its);
    its->settings.security.credentials =
        its->tls ? key_folder_member(&its->keys, 0, "server") : NULL;
    its->settings.security.insecure = !its->tls;
    its->settings.parameters = its->parameter_count;
    its->settings.dimension = its->dimension;
    its->settings.ship = its->ships ? ship : NULL;
    its->settings.ship_user = its;
    its->settings.observe = observe_server;
    its->settings.observe_user = its;
    its->settings.listen = listen;
    its->settings.listen_count = its->socket != NULL && !its->near ? 2 : 1;
    /* A server made anew is at the address of the one before. */
    if (its->address[0] != '\0')
        listen[0] = its->address;
    if (its->plan == NULL)
        assert_ok_or(diagnostic,
                     tarry_plan_create(&its->plan_settings, NULL, &its->plan, &diagnostic));
    assert_ok_or(diagnostic, tarry_tcp_server_create(its->plan, &its->settings, its->allocator,
                                                     &its->server, &diagnostic));
    snprintf(its->address, sizeof(its->address), "%s", tarry_runtime_address(its->server, 0));
    if (its->connect[0] == '\0')
        snprintf(its->connect, sizeof(its->connect), "%s", its->address);
    if (its->sum != NULL)
        return;
    its->sum = checked_calloc(its->dimension, sizeof(*its->sum));
    its->truth = checked_calloc(its->dimension, sizeof(*its->truth));
    its->parameters = checked_calloc(its->parameter_count, sizeof(*its->parameters));
    for (size_t i = 0; i < its->parameter_count; i++)
        its->parameters[i] = 1 + (float)i;
    for (size_t i = 0; i < 256; i++)
        its->shipped[i] = UINT64_C(0x9e3779b97f4a7c15) * (i + 1);
}

/* What the workers that are no more there said last. */
static void tell_ended(cluster *its)
{
    pthread_mutex_lock(&its->lock);
    for (uint32_t worker = 0; worker < its->workers; worker++)
        if (its->members[worker].ended)
            print_error("worker %u ended: %s\n", worker, its->members[worker].diagnostic.text);
    pthread_mutex_unlock(&its->lock);
}

void cluster_wait(cluster *its, uint32_t workers)
{
    tarry_diagnostic diagnostic;
    int error = tarry_runtime_wait(its->server, workers, WAIT_NS, &diagnostic);
    if (error != TARRY_OK)
        tell_ended(its);
    assert_ok_or(diagnostic, error);
}

/* ---- workers ---- */

static int begin(void *user, tarry_tcp_worker *worker, const tarry_tcp_job *job,
                 uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    cluster_member *member = user;
    assert_ptr_equal(worker, member->worker);
    assert_int_equal(job->worker, member - member->cluster->members);
    assert_int_equal(job->dimension, member->cluster->dimension);
    assert_int_equal(job->job_size, member->cluster->settings.job_size);
    memset(data, 0, TARRY_DIGEST_SIZE);
    pthread_mutex_lock(&member->cluster->lock);
    snprintf(member->job, sizeof(member->job), "%.*s", (int)job->job_size,
             job->job_size > 0 ? (const char *)job->job : "");
    pthread_mutex_unlock(&member->cluster->lock);
    member->begun++;
    tarry_tcp_worker_numerics(worker, member->numerics);
    return TARRY_OK;
}

static void observe(void *user, const tarry_tcp_notice *notice)
{
    cluster_member *member = user;
    cluster *its = member->cluster;
    pthread_mutex_lock(&its->lock);
    if (notice->type == TARRY_TCP_WAITING)
        member->wait_ns = notice->waited_ns;
    member->connections += notice->type == TARRY_TCP_CONNECTED;
    pthread_cond_broadcast(&its->changed);
    pthread_mutex_unlock(&its->lock);
}

static void *work(void *argument)
{
    cluster_member *member = argument;
    member->result = tarry_tcp_worker_run(member->worker, &member->diagnostic);
    pthread_mutex_lock(&member->cluster->lock);
    member->ended = true;
    pthread_mutex_unlock(&member->cluster->lock);
    return NULL;
}

void cluster_start(cluster *its, uint32_t worker)
{
    cluster_member *member = &its->members[worker];
    member->cluster = its;
    member->begun = 0;
    member->connections = 0;
    member->joined = member->ended = false;
    tarry_tcp_worker_settings *settings = &member->settings;
    tarry_tcp_worker_settings_init(settings);
    settings->connect = its->connect;
    settings->security.insecure = !its->tls;
    if (its->tls) {
        snprintf(member->credentials, sizeof(member->credentials), "%s/worker-%u", its->keys.home,
                 worker);
        settings->security.credentials = member->credentials;
    }
    settings->worker = worker;
    settings->begin = begin;
    settings->compute = compute;
    settings->user = member;
    settings->observe = observe;
    settings->observe_user = member;
    settings->straggler = its->straggler;
    settings->patience_ns = WAIT_NS;
    settings->seed = its->seed;
    settings->secure = member->member;
    settings->secure.required = its->secure;
    tarry_diagnostic diagnostic;
    assert_ok_or(diagnostic, tarry_tcp_worker_create(settings, member->allocator, &member->worker,
                                                     &diagnostic));
    assert_int_equal(pthread_create(&member->thread, NULL, work, member), 0);
    member->started = true;
}

void cluster_join(cluster *its, uint32_t worker)
{
    cluster_member *member = &its->members[worker];
    if (!member->started || member->joined)
        return;
    member->joined = true;
    pthread_join(member->thread, NULL);
    tarry_tcp_worker_free(member->worker);
    member->worker = NULL;
}

void cluster_begin(cluster *its)
{
    tarry_diagnostic diagnostic;
    if (its->straggler_spec != NULL)
        assert_ok_or(diagnostic,
                     tarry_straggler_create(its->straggler_spec, its->plan_settings.workers,
                                            its->seed, NULL, &its->straggler, &diagnostic));
    cluster_begin_server(its);
    for (uint32_t worker = 0; worker < its->workers; worker++)
        cluster_start(its, worker);
    cluster_wait(its, its->workers);
}

void cluster_end(cluster *its)
{
    tarry_runtime_free(its->server, true);
    for (uint32_t worker = 0; worker < CLUSTER_MOST_WORKERS; worker++) {
        cluster_member *member = &its->members[worker];
        bool ends = member->started && !member->joined;
        cluster_join(its, worker);
        if (ends && member->result != TARRY_OK)
            fail_msg("worker %u: %s", worker, member->diagnostic.text);
    }
    tarry_straggler_free(its->straggler);
    tarry_plan_free(its->plan);
    free(its->sum);
    free(its->truth);
    free(its->parameters);
    pthread_cond_destroy(&its->changed);
    pthread_mutex_destroy(&its->lock);
    if (its->keys.root[0] != '\0')
        key_folder_remove(&its->keys);
}

void cluster_replan(cluster *its, tarry_plan *next)
{
    assert_ok(tarry_runtime_replan(its->server, next, NULL));
    tarry_plan_free(its->plan);
    its->plan = next;
}

/* ---- rounds ---- */

void cluster_gradient(const cluster *its, uint64_t round, uint32_t chunk, float *gradient)
{
    OWNED(double) sum = checked_calloc(its->dimension, sizeof(*sum));
    for (uint32_t i = 0; i < tarry_plan_span_count(its->plan, chunk); i++) {
        const tarry_span span = tarry_plan_span(its->plan, chunk, i);
        add(its, round, span.origin, scale_of(its, its->parameters) * span.count / span.of, sum);
    }
    for (size_t i = 0; i < its->dimension; i++)
        gradient[i] = (float)sum[i];
}

int cluster_round(cluster *its, tarry_round_result *result, tarry_diagnostic *diagnostic)
{
    its->parameters[0] += 1;
    int error = tarry_runtime_round(its->server, its->parameters, its->sum, result, diagnostic);
    if (error != TARRY_OK)
        return error;
    memset(its->truth, 0, its->dimension * sizeof(*its->truth));
    for (uint32_t origin = 0; origin < tarry_plan_origins(its->plan); origin++)
        add(its, result->round, origin, scale_of(its, its->parameters), its->truth);
    return TARRY_OK;
}

static void *run_round(void *argument)
{
    cluster_call *call = argument;
    call->error = cluster_round(call->its, &call->result, &call->diagnostic);
    return NULL;
}

void cluster_begin_round(cluster *its, cluster_call *call)
{
    *call = (cluster_call){.its = its};
    assert_int_equal(pthread_create(&call->thread, NULL, run_round, call), 0);
}

void cluster_end_round(cluster_call *call)
{
    pthread_join(call->thread, NULL);
}

tarry_round_result cluster_good_round(cluster *its)
{
    tarry_round_result result;
    tarry_diagnostic diagnostic;
    assert_ok_or(diagnostic, cluster_round(its, &result, &diagnostic));
    if (result.exact && cluster_error(its) > cluster_tolerance(its))
        fail_msg("round %llu: error %g", (unsigned long long)result.round, cluster_error(its));
    return result;
}

void cluster_exact_rounds(cluster *its, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        tarry_round_result result = cluster_good_round(its);
        assert_true(result.exact);
    }
}

double cluster_tolerance(const cluster *its)
{
    return fmax(1e-5, 2e-6 * tarry_plan_conditioning(its->plan).worst);
}

double cluster_error(const cluster *its)
{
    double error = 0, largest = 0;
    for (size_t i = 0; i < its->dimension; i++) {
        error = fmax(error, fabs(its->sum[i] - its->truth[i]));
        largest = fmax(largest, fabs(its->truth[i]));
    }
    return error / largest;
}
