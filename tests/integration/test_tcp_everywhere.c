/* SPDX-License-Identifier: Apache-2.0 */
/* Where everyone gets the sum, over connections: a server and its workers as threads. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <tarry/tcp.h>

#include "edge_plan.h"
#include "key_folder.h"
#include "proxy.h"
#include "replica.h"
#include "seed.h"
#include "test.h"

enum { WORKERS = 4, CHUNKS = 8, MOST_LOGGED = 64 };
#define PATIENCE_NS UINT64_C(60000000000)

typedef struct bench bench;

typedef struct member {
    bench *owner;
    uint32_t id;
    tarry_tcp_worker *worker;
    tarry_engine *engine; /* that it brings; NULL: none */
    pthread_t thread;
    bool runs;
    int result;
    tarry_diagnostic diagnostic;
} member;

struct bench {
    replica_job job;
    bool tls, shares, repeats;
    bool brings;         /* each worker an engine of its own, which loses what the job says */
    bool proxied;        /* what workers say to each other passes through proxies */
    uint64_t silence_ns; /* 0: long */
    uint64_t grace_ns;   /* 0: long */
    uint32_t attempts;   /* of a round; 0: the usual number, or, through proxies, almost any */
    uint32_t late;       /* the last so many workers do not come of themselves */
    /* Called when the first round has come to nothing, with its error. */
    void (*waits)(bench *own, int error);
    uint32_t waited; /* rounds that have */
    key_folder keys;
    tarry_plan *plan;
    tarry_runtime *server;
    char address[128];
    member members[WORKERS];
    proxy *before[WORKERS]; /* each worker, for others */
    tarry_sum_id log[MOST_LOGGED];
    size_t logged;
    uint32_t voters; /* of the last round's last attempt */
    /* A run that goes on: this state is after that sum. */
    void *saved;
    uint64_t saved_size;
    tarry_sum_id saved_after;
};

static int append(void *user, const tarry_sum_id *entry)
{
    bench *own = user;
    assert_true(own->logged < MOST_LOGGED);
    if (entry->attempt == 0) /* the run goes back */
        own->logged = (size_t)entry->step;
    else
        own->log[own->logged++] = *entry;
    return TARRY_OK;
}

/* ---- workers ---- */

/* An address of the loopback network that no other process's tests listen on. */
static void listen_address(uint32_t id, char text[64])
{
    unsigned process = (unsigned)getpid();
    snprintf(text, 64, "127.%u.%u.%u:%u", 64 + (process >> 16) % 64, (process >> 8) % 256,
             process % 256, 20000 + (unsigned)id);
}

static int begin_job(void *user, tarry_tcp_worker *worker, const tarry_tcp_job *job,
                     uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    const member *its = user;
    assert_int_equal(job->sum, TARRY_SUM_EVERYWHERE);
    assert_int_equal(job->worker, its->id);
    const tarry_replica replica = replica_of(&its->owner->job, its->id);
    tarry_tcp_worker_replica(worker, &replica, NULL);
    return TARRY_OK;
}

static int compute(void *user, const tarry_task *task)
{
    const member *its = user;
    return replica_compute(&its->owner->job, task);
}

static void *run(void *user)
{
    member *its = user;
    its->result = tarry_tcp_worker_run(its->worker, &its->diagnostic);
    return NULL;
}

static void start(bench *own, uint32_t id)
{
    member *its = &own->members[id];
    tarry_diagnostic why;
    tarry_tcp_worker_settings settings;
    tarry_tcp_worker_settings_init(&settings);
    settings.connect = own->address;
    settings.worker = id;
    settings.begin = begin_job;
    settings.compute = compute;
    settings.user = its;
    settings.share = own->shares;
    settings.security.insecure = !own->tls;
    char name[32];
    snprintf(name, sizeof(name), "worker-%u", (unsigned)id);
    if (own->tls)
        settings.security.credentials = key_folder_member(&own->keys, 1, name);
    char listen[64];
    listen_address(id, listen);
    if (own->proxied) {
        settings.listen = listen;
        settings.advertise = proxy_address(own->before[id]);
    }
    its->owner = own;
    its->id = id;
    if (own->brings)
        assert_ok(replica_engine(&own->job, id, &its->engine));
    settings.engine = its->engine;
    assert_ok_or(why, tarry_tcp_worker_create(&settings, NULL, &its->worker, &why));
    assert_int_equal(pthread_create(&its->thread, NULL, run, its), 0);
    its->runs = true;
}

static void join(member *its, int result)
{
    if (!its->runs)
        return;
    assert_int_equal(pthread_join(its->thread, NULL), 0);
    if (its->result != result)
        fail_msg("worker %u: %d: %s", its->id, its->result, its->diagnostic.text);
    tarry_tcp_worker_free(its->worker);
    if (its->engine != NULL)
        its->engine->methods->free(its->engine);
    its->engine = NULL;
    its->runs = false;
}

/* ---- the server ---- */

static void go_on(bench *own)
{
    tarry_diagnostic why;
    assert_ok_or(why, tarry_runtime_vectors(own->server, &own->saved_after, own->saved,
                                            own->saved_size, &why));
}

static void observe(void *user, const tarry_tcp_notice *notice)
{
    bench *own = user;
    if (notice->type != TARRY_TCP_WAITING)
        return;
    own->waited++;
    if (own->waits != NULL && own->waited == 1)
        own->waits(own, notice->result->error);
}

static void begin(bench *own, size_t dimension)
{
    tarry_diagnostic why;
    own->plan = plan_drawn(WORKERS, CHUNKS, 2, 1);
    replica_job_init(&own->job, WORKERS, CHUNKS, dimension);
    const char *const listen[] = {"127.0.0.1:0"};
    tarry_tcp_server_settings settings;
    tarry_tcp_server_settings_init(&settings);
    settings.listen = listen;
    settings.listen_count = 1;
    settings.parameters = settings.dimension = dimension;
    settings.server.sum = TARRY_SUM_EVERYWHERE;
    settings.server.reproducible = own->repeats;
    settings.server.pick = own->repeats ? TARRY_PICK_PLAN : TARRY_PICK_SHARE;
    settings.server.silence_ns = own->silence_ns > 0 ? own->silence_ns : UINT64_C(30000000000);
    settings.server.attempts_most = own->attempts == 0 && own->proxied ? 10000 : own->attempts;
    settings.server.voters_grace_ns = own->grace_ns > 0 ? own->grace_ns : PATIENCE_NS;
    settings.patience_ns = PATIENCE_NS;
    settings.observe = observe;
    settings.observe_user = own;
    settings.log = (tarry_sum_log){.append = append, .user = own};
    for (size_t i = 0; i < 2 && i < own->logged; i++)
        settings.log.last[i] = own->log[own->logged - 1 - i];
    settings.log.term = own->saved != NULL ? 2 : 0;
    settings.security.insecure = !own->tls;
    if (own->tls) {
        key_folder_make(&own->keys, WORKERS, time(NULL));
        settings.security.credentials = key_folder_member(&own->keys, 0, "server");
    }
    assert_ok_or(why, tarry_tcp_server_create(own->plan, &settings, NULL, &own->server, &why));
    if (own->saved != NULL)
        go_on(own);
    snprintf(own->address, sizeof(own->address), "%s", tarry_runtime_address(own->server, 0));
    for (uint32_t id = 0; id < WORKERS; id++) {
        char listens[64];
        listen_address(id, listens);
        own->before[id] = own->proxied ? proxy_begin(listens) : NULL;
        if (id < WORKERS - own->late)
            start(own, id);
    }
    assert_ok_or(why, tarry_runtime_wait(own->server, WORKERS - own->late, PATIENCE_NS, &why));
}

static void end(bench *own)
{
    tarry_runtime_free(own->server, true);
    for (uint32_t id = 0; id < WORKERS; id++)
        join(&own->members[id], TARRY_OK);
    for (uint32_t id = 0; id < WORKERS && own->proxied; id++)
        proxy_end(own->before[id]);
    tarry_plan_free(own->plan);
    if (own->tls)
        key_folder_remove(&own->keys);
    replica_job_end(&own->job);
}

#define BENCH(name) TEST_OF(name, bench, own, end)

static void run_rounds(bench *own, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        tarry_round_result result;
        tarry_diagnostic why;
        if (tarry_runtime_round(own->server, NULL, NULL, &result, &why) != TARRY_OK)
            fail_msg("round %d: %s", round, why.text);
        assert_true(result.exact && result.sum.step == own->logged);
        own->voters = result.voters;
    }
}

static void all_are_ready(bench *own)
{
    tarry_diagnostic why;
    assert_ok_or(why, tarry_runtime_wait(own->server, WORKERS, PATIENCE_NS, &why));
}

/* All have the state after the last sum, which is that of a single thread. */
static void check(bench *own)
{
    replica_await(&own->job, own->logged);
    replica_check(&own->job, own->logged);
    OWNED(float) expected = replica_expect(&own->job, own->logged);
    replica_compare(&own->job, expected);
}

/* ---- tests ---- */

static void train(bench *own, size_t dimension)
{
    begin(own, dimension);
    run_rounds(own, 10);
    check(own);
    replica_check_state(&own->job, own->server, own->logged); /* it has no parameters itself */
    replica_check_sum(&own->job, own->server);
    end(own);
}

TEST(training_is_that_of_one_thread)
{
    train(&(bench){.shares = false}, 5000); /* over connections */
    train(&(bench){.shares = true}, 5000);
    train(&(bench){.tls = true}, 5000);
}

/* It is called for each sum, and freed by who brought it. A worker whose engine loses a sum gets it
 * over connections, and one that all lose is made anew. */
BENCH(an_engine_that_workers_bring_makes_the_sums)
{
    *own = (bench){.brings = true};
    begin(own, 5000);
    own->job.losing[1] = 1 << 2 | 1 << 5;
    own->job.failing[2] = 1 << 4;
    run_rounds(own, 10);
    check(own);
    unsigned sums = 0;
    for (uint32_t id = 0; id < WORKERS; id++)
        sums += replica_engine_sums(own->members[id].engine);
    assert_true(sums >= 2 * 10); /* who is late has no part in one, and at least two have */
}

/* Of a job whose other workers sum by another engine. */
BENCH(a_worker_with_an_engine_of_its_own_alone_is_refused)
{
    *own = (bench){.late = 1};
    begin(own, 5000);
    run_rounds(own, 1);
    own->brings = true;
    start(own, WORKERS - 1);
    member *its = &own->members[WORKERS - 1];
    assert_int_equal(pthread_join(its->thread, NULL), 0);
    assert_int_equal(its->result, TARRY_ERROR_STATE);
    assert_non_null(strstr(its->diagnostic.text,
                           "sums by the engine 'losing', where the others have 'direct'"));
    tarry_tcp_worker_free(its->worker);
    its->engine->methods->free(its->engine);
    its->engine = NULL;
    its->runs = own->brings = false;
    run_rounds(own, 1);
    start(own, WORKERS - 1);
    all_are_ready(own);
    run_rounds(own, 1);
    check(own);
}

static int create_with(tarry_engine *engine, tarry_diagnostic *why)
{
    tarry_tcp_worker *worker;
    tarry_tcp_worker_settings settings;
    tarry_tcp_worker_settings_init(&settings);
    settings.connect = "127.0.0.1:1";
    settings.security.insecure = true;
    settings.engine = engine;
    int error = tarry_tcp_worker_create(&settings, NULL, &worker, why);
    if (error == TARRY_OK)
        tarry_tcp_worker_free(worker);
    return error;
}

TEST(an_engine_needs_a_name)
{
    static const char *const none[] = {"", "two words", "n\xc3\xa4mlich",
                                       "a-name-of-more-than-32-characters-is-too-long"};
    tarry_diagnostic why;
    tarry_engine_methods methods = {.name = "good-enough"};
    tarry_engine engine = {.methods = &methods};
    assert_ok(create_with(&engine, &why));
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        methods.name = none[i];
        assert_int_equal(create_with(&engine, &why), TARRY_ERROR_ARGUMENT);
        assert_string_equal(why.text, "network worker: its engine's name is none");
    }
}

/* A process that comes in the place of one that has gone has the first state. */
BENCH(who_comes_later_loads_the_state)
{
    *own = (bench){0};
    begin(own, 5000);
    run_rounds(own, 4);
    check(own);
    tarry_tcp_worker_leave(own->members[2].worker, 0);
    run_rounds(own, 3);
    join(&own->members[2], TARRY_OK);
    test_replica *gone = &own->job.replicas[2];
    gone->steps = 0;
    memset(gone->state, 0, 2 * own->job.dimension * sizeof(float));
    start(own, 2);
    all_are_ready(own);
    replica_check(&own->job, own->logged); /* who is waited for has loaded */
    run_rounds(own, 4);
    check(own);
    assert_true(gone->loads > 0);
}

/* ---- workers that do not reach each other, while all reach the server ---- */

/* The proxies before those that others connect to. */
static proxy *proxy_in_use(const bench *own, size_t turn)
{
    while (proxy_connections(own->before[turn % WORKERS]) == 0)
        turn++;
    return own->before[turn % WORKERS];
}

/* That were ever made through proxies. */
static uint32_t count_connections(const bench *own)
{
    uint32_t count = 0;
    for (uint32_t id = 0; id < WORKERS; id++)
        count += proxy_connections(own->before[id]);
    return count;
}

/* Before a round, among its coded parts, among its sums, or in what comes after it: whoever misses
 * the sum gets it, or the state. Nobody waits for the limit of silence, which is longer than this
 * test may take. */
BENCH(connections_that_break_cost_no_sum)
{
    static const uint64_t after[] = {0, 1, 1000, 50000, 150000, 250000, 390000, 800000};
    *own = (bench){.proxied = true, .silence_ns = 20 * PATIENCE_NS};
    begin(own, 100000);
    run_rounds(own, 1);
    uint32_t before = count_connections(own);
    for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++) {
        proxy_reset_after(proxy_in_use(own, i), after[i]);
        run_rounds(own, 1);
    }
    run_rounds(own, 2);
    all_are_ready(own);
    check(own);
    while (count_connections(own) == before) /* what broke is made again */
        usleep(1000);
}

/* Of two workers the one with the larger instance connects, so that one proxy is before a single
 * connection: what passes through that is the talk of these two. */
static proxy *between_two(const bench *own)
{
    proxy *found = NULL;
    for (uint32_t id = 0; id < WORKERS; id++) {
        uint32_t count = proxy_connections(own->before[id]);
        if (count > 0 && (found == NULL || count < proxy_connections(found)))
            found = own->before[id];
    }
    assert_non_null(found);
    return found;
}

/* Nothing comes through, and no connection breaks: the sum fails for the silence limit, and goes on
 * without one of the two, which gets the sum that the others hold, or the state. */
BENCH(two_that_hear_nothing_of_each_other_cost_no_sum)
{
    *own = (bench){.proxied = true, .silence_ns = 1000000000};
    begin(own, 100000);
    run_rounds(own, 1);
    check(own);
    proxy *between = between_two(own);
    proxy_mute(between, true);
    for (int round = 0; round < (test_is_long() ? 4 : 1); round++) {
        run_rounds(own, 1);
        assert_true(own->voters < WORKERS); /* all together can't make it */
        all_are_ready(own);
        check(own);
    }
    proxy_mute(between, false);
    run_rounds(own, 2);
    all_are_ready(own);
    check(own);
}

/* The server asks one worker once, however often its caller looks. */
BENCH(a_state_arrives_over_many_short_calls)
{
    *own = (bench){.shares = false};
    begin(own, 2000000);
    run_rounds(own, 1);
    check(own);
    all_are_ready(own);
    const unsigned before = replica_saves(&own->job);
    assert_true(replica_check_state_in_slices(&own->job, own->server, own->logged) > 1);
    assert_int_equal(replica_saves(&own->job) - before, 1);
    replica_check_sum(&own->job, own->server);
}

/* ---- a run that begins before all are there ---- */

static void let_others_come(bench *own, int error)
{
    assert_int_equal(error, TARRY_ERROR_LINKS);
    for (uint32_t id = 0; id < WORKERS; id++)
        proxy_refuse(own->before[id], false);
    for (uint32_t id = WORKERS - own->late; id < WORKERS; id++)
        start(own, id);
}

/* Those who are there do not reach each other until the first round is given up, when others come,
 * too. */
BENCH(a_run_begins_once_workers_reach_each_other)
{
    *own = (bench){
        .proxied = true, .attempts = 3, .grace_ns = 10000000, .late = 1, .waits = let_others_come};
    begin(own, 5000);
    for (uint32_t id = 0; id < WORKERS; id++)
        proxy_refuse(own->before[id], true);
    run_rounds(own, 3);
    assert_true(own->waited > 0);
    all_are_ready(own);
    check(own);
}

/* ---- runs that go on ---- */

static void save(bench *own)
{
    tarry_diagnostic why;
    assert_ok_or(why, tarry_runtime_state(own->server, PATIENCE_NS, &own->saved_after, &own->saved,
                                          &own->saved_size, &why));
    void *copy = checked_malloc((size_t)own->saved_size);
    memcpy(copy, own->saved, (size_t)own->saved_size);
    tarry_runtime_release_state(own->server, own->saved);
    own->saved = copy;
}

/* All processes are gone after 5 steps, and there is a state after 4. Others come to the same as
 * those would have, to the bit: with a log that ends with that state, or is one step ahead. */
static void go_on_from(bench *own, size_t logged, const float *expected)
{
    enum { DIMENSION = 5000 };
    begin(own, DIMENSION);
    run_rounds(own, 4);
    save(own);
    run_rounds(own, 1);
    end(own);
    own->logged = logged;
    own->grace_ns = 100000000;
    begin(own, DIMENSION);
    run_rounds(own, 3);
    replica_await(&own->job, 7);
    replica_check(&own->job, 7);
    assert_memory_equal(own->job.replicas[0].state, expected, 2 * DIMENSION * sizeof(float));
    end(own);
    free(own->saved);
}

TEST(a_run_goes_on_from_a_saved_state)
{
    for (int tls = 0; tls < 2; tls++) {
        bench whole = {.repeats = true, .tls = tls}, cut = whole, ahead = whole;
        begin(&whole, 5000);
        run_rounds(&whole, 7);
        check(&whole);
        go_on_from(&cut, 4, whole.job.replicas[0].state);
        go_on_from(&ahead, 5, whole.job.replicas[0].state);
        end(&whole);
    }
}
