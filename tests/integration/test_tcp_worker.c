/* SPDX-License-Identifier: Apache-2.0 */
/* A network worker with a server that says what a test tells it, over a blocking socket. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tarry/tcp.h>

#include "plan/plan.h"
#include "plan/plan_code.h"
#include "protocol/wire/wire.h"
#include "runtime/tcp/net/address.h"
#include "script.h"
#include "test.h"

enum { WORKERS = 4, NUMBERS = 1000, LINE = 160 };

static const char SAMPLES[] = "samples";

typedef struct stage {
    tarry_plan *plan;
    wire_welcome welcome; /* a good one, with the plan behind it */
    int listener;
    script line;
    char folder[LINE], connect[LINE];
    tarry_tcp_worker *worker;
    pthread_t thread;
    bool held;           /* computations are held up: */
    sem_t computing, go; /* one has begun; it may end */
    int result;          /* of the worker's run */
    tarry_diagnostic why;
    uint32_t arrivals; /* of the worker that it was told of, before the last one */
} stage;

static void pass(sem_t *gate)
{
    while (sem_wait(gate) != 0)
        assert_int_equal(errno, EINTR);
}

static int compute(void *user, const tarry_task *task)
{
    stage *its = user;
    if (its->held) {
        sem_post(&its->computing);
        pass(&its->go);
    }
    return 0;
}

/* A job whose samples the server ships needs those of chunk 0. */
static int take_job(void *user, tarry_tcp_worker *worker, const tarry_tcp_job *job,
                    uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    memset(data, 0, TARRY_DIGEST_SIZE);
    const void *bytes;
    size_t size;
    int error = job->ships ? tarry_tcp_worker_fetch(worker, 0, &bytes, &size) : TARRY_OK;
    if (error == TARRY_OK && job->ships)
        assert_true(size == sizeof(SAMPLES) && memcmp(bytes, SAMPLES, size) == 0);
    return error;
}

static void *run_worker(void *argument)
{
    stage *its = argument;
    its->result = tarry_tcp_worker_run(its->worker, &its->why);
    return NULL;
}

static tarry_plan_settings plan_settings(void)
{
    tarry_plan_settings settings;
    tarry_plan_settings_init(&settings);
    settings.workers = settings.chunks = WORKERS;
    settings.replication = 2;
    return settings;
}

static void make_plan(stage *its, const tarry_plan_settings *settings)
{
    assert_ok(tarry_plan_create(settings, NULL, &its->plan, NULL));
    its->welcome = (wire_welcome){
        .version = WIRE_VERSION,
        .worker = settings->workers - 1,
        .job = {1},
        .plan_bytes = plan_encoded_size(its->plan),
        .terms = {.workers = settings->workers, .parameters = NUMBERS},
    };
    tarry_server_settings *server = &its->welcome.terms.server;
    tarry_server_settings_init(server);
    server->dimension = server->stripe_length = NUMBERS;
    server->silence_ns = UINT64_C(60000000000);
    tarry_plan_digest(its->plan, its->welcome.plan);
}

/* A worker whose server this test is, over a Unix socket. */
static void begin_with(stage *its, const tarry_plan_settings *plan)
{
    *its = (stage){.line.fd = -1};
    make_plan(its, plan);
    snprintf(its->folder, sizeof(its->folder), "/tmp/tarry-test-XXXXXX");
    assert_non_null(mkdtemp(its->folder));
    snprintf(its->connect, sizeof(its->connect), "unix:%.100s/socket", its->folder);
    address found[ADDRESS_MOST];
    uint32_t count;
    assert_ok(address_resolve(its->connect, true, found, &count, NULL));
    its->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(its->listener, (struct sockaddr *)&found[0].socket, found[0].size), 0);
    assert_int_equal(listen(its->listener, 4), 0);
    tarry_tcp_worker_settings settings;
    tarry_tcp_worker_settings_init(&settings);
    settings.connect = its->connect;
    settings.begin = take_job;
    settings.compute = compute;
    settings.user = its;
    sem_init(&its->computing, 0, 0);
    sem_init(&its->go, 0, 0);
    assert_ok(tarry_tcp_worker_create(&settings, NULL, &its->worker, &its->why));
    assert_int_equal(pthread_create(&its->thread, NULL, run_worker, its), 0);
}

static void begin(stage *its)
{
    const tarry_plan_settings plan = plan_settings();
    begin_with(its, &plan);
}

/* Waits for the worker's run to end, with this error. */
static void end(stage *its, int result)
{
    assert_int_equal(pthread_join(its->thread, NULL), 0);
    assert_int_equal(its->result, result);
    tarry_tcp_worker_free(its->worker);
    tarry_plan_free(its->plan);
    sem_destroy(&its->computing);
    sem_destroy(&its->go);
    script_close(&its->line);
    close(its->listener);
    unlink(its->connect + strlen("unix:"));
    rmdir(its->folder);
}

static void take_hello(stage *its)
{
    script_take(&its->line, its->listener);
    script_await(&its->line, WIRE_HELLO);
}

static void tell(stage *its, const void *bytes, size_t size)
{
    assert_true(script_send(&its->line, bytes, size));
}

static void send_plan(stage *its, bool damaged)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES], plan[WIRE_BLOB_BYTES];
    size_t size = plan_encoded_size(its->plan);
    assert_true(size <= sizeof(plan));
    assert_ok(plan_encode(its->plan, plan));
    plan[size / 2] ^= damaged ? 1 : 0;
    const wire_blob blob = {.kind = WIRE_BLOB_PLAN, .total = size, .count = size};
    tell(its, frame, wire_encode(WIRE_BLOB, &blob, frame));
    tell(its, plan, size);
}

/* And what it announces; damaged: the plan is none. */
static void welcome(stage *its, const wire_welcome *words, bool damaged)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    tell(its, frame, wire_welcome_encode(words, frame));
    if (words->plan_bytes > 0)
        send_plan(its, damaged);
}

static void say_done(stage *its)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    tell(its, frame, wire_encode(WIRE_BYE, &(wire_bye){WIRE_BYE_DONE}, frame));
}

/* Takes a worker in that comes. */
static void let_in(stage *its)
{
    take_hello(its);
    welcome(its, &its->welcome, false);
    script_await(&its->line, WIRE_READY);
}

/* A worker that is ready, and comes again after its connection was lost. */
static void begin_again(stage *its)
{
    begin(its);
    let_in(its);
    script_hang_up(&its->line);
    take_hello(its);
}

TEST(it_comes_again_whenever_the_connection_is_lost)
{
    stage its;
    begin(&its);
    for (int i = 0; i < 3; i++) {
        let_in(&its);
        its.welcome.plan_bytes = 0;
        script_hang_up(&its.line);
    }
    take_hello(&its);
    welcome(&its, &its.welcome, false);
    say_done(&its);
    end(&its, TARRY_OK);
}

static void begin_round(stage *its)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    const codec_shape shape = codec_shape_of(its->plan, its->welcome.worker, 1);
    const tarry_message message = {.type = TARRY_MESSAGE_ROUND, .epoch = its->arrivals + 1};
    size_t size = codec_size(&shape, &message);
    assert_true(size <= WIRE_SMALL_BYTES);
    wire_message_head(size, 0, frame);
    codec_encode(&shape, &message, frame + WIRE_HEAD_BYTES);
    tell(its, frame, WIRE_HEAD_BYTES + size);
    const float numbers[NUMBERS] = {0};
    tell(its, frame, wire_encode(WIRE_PARAMETERS, &(wire_parameters){.count = NUMBERS}, frame));
    tell(its, numbers, sizeof(numbers));
}

/* The server may have gone over to another plan meanwhile, and would refuse whom it did not let in.
 */
TEST(says_nothing_of_a_round_before_to_a_server_that_has_not_spoken)
{
    stage its;
    begin(&its);
    its.welcome.terms.server.reports_per_frame = 1;
    its.held = true;
    let_in(&its);
    begin_round(&its);
    pass(&its.computing);
    script_hang_up(&its.line);
    its.welcome.plan_bytes = 0;
    let_in(&its);
    sem_post(&its.go);
    pass(&its.computing); /* the chunk before is finished */
    shutdown(its.line.fd, SHUT_WR);
    uint8_t byte;
    assert_int_equal(recv(its.line.fd, &byte, 1, MSG_WAITALL), 0);
    script_hang_up(&its.line);
    take_hello(&its);
    welcome(&its, &its.welcome, false);
    sem_post(&its.go);
    say_done(&its);
    end(&its, TARRY_OK);
}

/* Reads a frame of reports, or one alone. Gives back how many; they follow `next`. */
static uint32_t take_reports(const stage *its, uint32_t next)
{
    const codec_shape no_sets = {0};
    wire_batch batch = {.count = 1};
    bool alone = its->line.head.kind == WIRE_MESSAGE;
    if (!alone)
        assert_ok(wire_batch_decode(&its->line.head, its->line.body, &batch));
    for (uint32_t i = 0; i < batch.count; i++) {
        tarry_message report;
        if (alone)
            assert_ok(codec_decode(&no_sets, its->line.body, its->line.head.length, NULL, &report));
        else
            wire_batch_get(&batch, i, &report);
        assert_int_equal(report.type, TARRY_MESSAGE_REPORT);
        assert_true(report.round == 0 && report.epoch == its->arrivals + 1 &&
                    report.slot == next + i);
    }
    return batch.count;
}

/* All come, in their order, though far fewer frames than pieces do; and so does what it says
 * behind them. */
static void take_pieces(uint32_t reports_per_frame)
{
    enum { PIECES = 2000 };
    tarry_plan_settings plan = plan_settings();
    plan.workers = plan.replication = 1;
    plan.chunks = PIECES;
    stage its;
    begin_with(&its, &plan);
    its.welcome.terms.server.reports_per_frame = reports_per_frame;
    let_in(&its);
    begin_round(&its);
    uint32_t came = 0, frames = 0;
    while (came < PIECES) {
        assert_true(script_read(&its.line));
        if (its.line.head.kind == WIRE_HEARTBEAT)
            continue;
        came += take_reports(&its, came);
        frames++;
    }
    assert_true(reports_per_frame == 1 ? frames == PIECES : frames < PIECES);
    say_done(&its);
    end(&its, TARRY_OK);
}

TEST(reports_of_short_pieces_come_in_batches)
{
    take_pieces(128);
    take_pieces(1);
}

/* Figures of another job that are not of its plan, which is sent or was there before. */
static void refuse_figures(const wire_welcome *wrong)
{
    for (int sent = 0; sent < 2; sent++) {
        stage its;
        begin_again(&its);
        wire_welcome words = its.welcome;
        words.job[0]++;
        words.worker = wrong->worker;
        words.terms.workers = wrong->terms.workers;
        words.terms.server.dimension = wrong->terms.server.dimension;
        words.terms.server.stripe_length = wrong->terms.server.stripe_length;
        words.plan_bytes = sent == 1 ? words.plan_bytes : 0;
        welcome(&its, &words, false);
        end(&its, TARRY_ERROR_FORMAT);
        assert_non_null(strstr(its.why.text, "the server's plan"));
    }
}

TEST(refuses_figures_that_are_not_of_the_plan)
{
    refuse_figures(&(wire_welcome){
        .worker = WORKERS + 1,
        .terms = {.workers = WORKERS + 2,
                  .server = {.dimension = NUMBERS, .stripe_length = NUMBERS}},
    });
    refuse_figures(&(wire_welcome){
        .worker = 1,
        .terms = {.workers = WORKERS - 1,
                  .server = {.dimension = NUMBERS, .stripe_length = NUMBERS}},
    });
    refuse_figures(&(wire_welcome){
        .worker = 1,
        .terms = {.workers = WORKERS,
                  .server = {.dimension = WIRE_VECTOR_MOST, .stripe_length = 1}},
    });
}

/* The first job that it is given, or one that follows another. */
TEST(refuses_a_plan_that_is_none)
{
    for (int again = 0; again < 2; again++) {
        stage its;
        if (again == 1) {
            begin_again(&its);
        } else {
            begin(&its);
            take_hello(&its);
        }
        wire_welcome words = its.welcome;
        words.job[0]++;
        welcome(&its, &words, true);
        end(&its, TARRY_ERROR_FORMAT);
        assert_non_null(strstr(its.why.text, "the server's plan"));
    }
}

/* A plan of the job that the worker has: behind another WELCOME, or by itself. */
static void refuse_plan(const tarry_plan_settings *settings, bool welcomed)
{
    stage its;
    begin(&its);
    let_in(&its);
    tarry_plan_free(its.plan);
    assert_ok(tarry_plan_create(settings, NULL, &its.plan, NULL));
    if (welcomed) {
        script_hang_up(&its.line);
        take_hello(&its);
        its.welcome.plan_bytes = plan_encoded_size(its.plan);
        tarry_plan_digest(its.plan, its.welcome.plan);
        welcome(&its, &its.welcome, false);
    } else {
        send_plan(&its, false);
    }
    end(&its, TARRY_ERROR_FORMAT);
    assert_non_null(strstr(its.why.text, "in the same job"));
}

TEST(refuses_a_plan_that_its_job_cannot_go_on_with)
{
    tarry_plan_settings settings = plan_settings();
    settings.parts = 2;
    refuse_plan(&settings, true);
    refuse_plan(&settings, false);
    settings = plan_settings();
    settings.chunks = 2 * WORKERS;
    refuse_plan(&settings, false);
    settings = plan_settings();
    settings.pieces = 2;
    refuse_plan(&settings, false);
}

static void ship(stage *its, const wire_fetch *wanted)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    const wire_blob blob = {
        .kind = WIRE_BLOB_DATA,
        .index = wanted->index,
        .total = sizeof(SAMPLES),
        .count = sizeof(SAMPLES),
    };
    tell(its, frame, wire_encode(WIRE_BLOB, &blob, frame));
    tell(its, SAMPLES, sizeof(SAMPLES));
}

static void await_fetch_and_ship(stage *its)
{
    wire_fetch wanted;
    script_await(&its->line, WIRE_FETCH);
    assert_ok(wire_decode(&its->line.head, its->line.body, &wanted));
    assert_int_equal(wanted.index, 0);
    ship(its, &wanted);
}

/* The connection is lost while samples are awaited, of which the next one knows nothing. */
TEST(asks_again_for_samples_that_it_waits_for)
{
    for (int sent = 0; sent < 2; sent++) {
        stage its;
        begin(&its);
        its.welcome.terms.ships = true;
        take_hello(&its);
        welcome(&its, &its.welcome, false);
        script_await(&its.line, WIRE_FETCH);
        script_hang_up(&its.line);
        take_hello(&its);
        wire_welcome words = its.welcome;
        words.plan_bytes = sent == 1 ? words.plan_bytes : 0;
        welcome(&its, &words, false);
        await_fetch_and_ship(&its);
        script_await(&its.line, WIRE_READY);
        say_done(&its);
        end(&its, TARRY_OK);
    }
}

/* While a computation of job 1 is waited for, job 2 is taken up, and job 3 takes its place: nobody
 * ships what job 2 needs. */
TEST(begins_no_job_whose_samples_nobody_ships)
{
    stage its;
    begin(&its);
    its.held = true;
    let_in(&its);
    begin_round(&its);
    pass(&its.computing);
    wire_welcome words = its.welcome;
    words.terms.ships = true;
    words.plan_bytes = 0;
    words.terms.server.silence_ns =
        UINT64_C(8000000000); /* a heartbeat says that WELCOME has come */
    for (int other = 0; other < 2; other++) {
        words.job[0]++;
        script_hang_up(&its.line);
        take_hello(&its);
        welcome(&its, &words, false);
        script_await(&its.line, WIRE_HEARTBEAT);
    }
    its.held = false;
    sem_post(&its.go);
    await_fetch_and_ship(&its);
    script_await(&its.line, WIRE_READY);
    say_done(&its);
    end(&its, TARRY_OK);
}

/* ---- what a name stands for ---- */

#define LOOPBACK "127.0.0.1:1" /* nobody listens there */
#define ELSEWHERE "192.0.2.1:1"

int __real_address_resolve(const char *text, bool listening, address found[ADDRESS_MOST],
                           uint32_t *count, tarry_diagnostic *diagnostic);
int __wrap_address_resolve(const char *text, bool listening, address found[ADDRESS_MOST],
                           uint32_t *count, tarry_diagnostic *diagnostic);

/* In place of a resolver: "A.B.test:1" stands for A and B, of which each is one of these two. */
int __wrap_address_resolve(const char *text, bool listening, address found[ADDRESS_MOST],
                           uint32_t *count, tarry_diagnostic *diagnostic)
{
    if (strstr(text, ".test:1") == NULL)
        return __real_address_resolve(text, listening, found, count, diagnostic);
    *count = 0;
    int error = TARRY_OK;
    for (const char *name = text; strcmp(name, "test:1") != 0 && error == TARRY_OK;
         name = strchr(name, '.') + 1) {
        address only[ADDRESS_MOST];
        uint32_t one;
        error = __real_address_resolve(strncmp(name, "here.", 5) == 0 ? LOOPBACK : ELSEWHERE,
                                       listening, only, &one, diagnostic);
        found[(*count)++] = only[0];
    }
    return error;
}

static int run_in_plain_text(const char *name, tarry_diagnostic *why)
{
    tarry_tcp_worker_settings settings;
    tarry_tcp_worker_settings_init(&settings);
    settings.connect = name;
    settings.security.insecure = true;
    settings.compute = compute; /* not called */
    settings.patience_ns = 300000000;
    tarry_tcp_worker *worker;
    assert_ok(tarry_tcp_worker_create(&settings, NULL, &worker, why));
    int result = tarry_tcp_worker_run(worker, why);
    tarry_tcp_worker_free(worker);
    return result;
}

/* A name of this machine's, too, is one to wait at. */
TEST(plain_text_goes_to_those_addresses_alone_that_are_near)
{
    tarry_diagnostic why;
    assert_int_equal(run_in_plain_text("here.elsewhere.test:1", &why), TARRY_ERROR_SYSTEM);
    assert_non_null(strstr(why.text, "no connection for"));
    assert_int_equal(run_in_plain_text("elsewhere.here.test:1", &why), TARRY_ERROR_SYSTEM);
    assert_non_null(strstr(why.text, "no connection for"));
    assert_int_equal(run_in_plain_text("elsewhere.test:1", &why), TARRY_ERROR_ARGUMENT);
    assert_non_null(strstr(why.text, "plain text is for loopback addresses"));
}
