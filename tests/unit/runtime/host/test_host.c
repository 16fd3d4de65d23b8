/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/bitset.h"
#include "base/random.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "runtime/clock.h"
#include "runtime/host/host.h"
#include "seed.h"
#include "test.h"

enum {
    WORKERS = 4,
    CHUNKS = 4,
    COPIES = 2,
    DIMENSION = 203,
    STRIPE = 16,
    HEAD = 4,
    MOST_WORDS = 32,
};

/* Longer than any stall of the machine. */
#define PATIENCE_NS (60 * UINT64_C(1000000000))

/* What a worker was told and has not answered yet. */
typedef struct told {
    bool round, signal;
    tarry_message message;
    uint64_t words[MOST_WORDS];
} told;

/* A runtime whose workers answer what they are told, one step at a time; coded parts are random
 * numbers, and the truth what they add up to, in double. */
typedef struct scene {
    tarry_plan *plan;
    host *host;
    told told[WORKERS];
    uint32_t epoch[WORKERS];
    float sum[DIMENSION];
    double truth[DIMENSION];
    random_stream random;
    uint32_t released, left_out, attempts, done;
    int send_error; /* of the next SIGNAL */
    uint64_t now;
} scene;

static int send_message(void *user, uint32_t worker, const tarry_message *message, uint8_t *frame,
                        size_t size)
{
    scene *its = user;
    told *to = &its->told[worker];
    memset(frame - HEAD, 0xff, HEAD); /* the runtime's own */
    assert_int_equal(size, codec_size(&its->host->shapes[worker], message));
    assert_ok(codec_decode(&its->host->shapes[worker], frame, size, to->words, &to->message));
    if (message->type == TARRY_MESSAGE_ROUND) {
        to->round = true;
        its->epoch[worker] = message->epoch;
    }
    if (message->type == TARRY_MESSAGE_SIGNAL) {
        to->signal = true;
        return its->send_error;
    }
    return TARRY_OK;
}

static void released(void *user, stripe *item)
{
    scene *its = user;
    assert_null(item->owner);
    its->released++;
}

static void left_out(void *user, const tarry_effect *effect)
{
    scene *its = user;
    assert_true(effect->worker < WORKERS);
    its->left_out++;
}

static void signalled(void *user, uint64_t round, uint32_t attempt)
{
    scene *its = user;
    assert_int_equal(round, its->host->round.number);
    its->attempts = attempt;
}

static void done(void *user)
{
    scene *its = user;
    assert_false(its->host->round.running);
    its->done++;
}

static void ignore(void *user)
{
}

static uint64_t now_of(void *user)
{
    return ((scene *)user)->now;
}

static host_settings settings_of(scene *its, uint32_t threads, bool reproducible)
{
    host_settings settings = {
        .name = "test runtime",
        .head_bytes = HEAD,
        .decode_threads = threads,
        .transport =
            {
                .user = its,
                .send = send_message,
                .released = released,
                .left_out = left_out,
                .signalled = signalled,
                .done = done,
                .summed = ignore,
                .now = now_of,
            },
    };
    tarry_server_settings_init(&settings.server);
    settings.server.dimension = DIMENSION;
    settings.server.stripe_length = STRIPE;
    settings.server.reproducible = reproducible;
    return settings;
}

static void begin(scene *its, uint32_t parts, uint32_t threads, bool reproducible, uint64_t seed)
{
    *its = (scene){.random = random_stream_make(seed, RANDOM_TEST, 0, 0), .now = 1};
    its->plan = edge_plan_cyclic(WORKERS, CHUNKS, COPIES, parts);
    edge_plan_random_decode(its->plan, seed);
    host_settings settings = settings_of(its, threads, reproducible);
    assert_ok(host_create(its->plan, &settings, NULL, &its->host, NULL));
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        assert_null(host_join(its->host, worker));
    assert_int_equal(its->host->present, WORKERS);
}

static void end(scene *its)
{
    assert_int_equal(its->host->pool.used, 0);
    host_free(its->host);
    tarry_plan_free(its->plan);
}

#define SCENE(name) TEST_OF(name, scene, its, end)

static int say(scene *its, uint32_t worker, const tarry_message *message, const float *numbers,
               size_t count)
{
    const codec_shape none = {0};
    uint8_t frame[CODEC_MOST_WORKER_BYTES];
    codec_encode(&none, message, frame);
    return host_receive_frame(its->host, worker, frame, codec_size(&none, message), numbers, count);
}

static void report_all(scene *its, uint32_t worker)
{
    uint32_t load = tarry_plan_load(its->plan, worker);
    for (uint32_t slot = 0; slot < load; slot++) {
        const tarry_message report = {
            .type = TARRY_MESSAGE_REPORT,
            .round = its->host->round.number,
            .epoch = its->epoch[worker],
            .slot = slot,
            .next = slot + 1,
        };
        assert_ok(say(its, worker, &report, NULL, 0));
    }
}

/* Adds R[part][worker] times the numbers to the truth, number by number. */
static void add_truth(scene *its, const layout *cut, uint32_t worker, uint32_t index,
                      const float *numbers)
{
    const double *decode = its->plan->decode;
    size_t start = layout_stripe_start(cut, index);
    for (uint32_t part = 0; part < cut->parts; part++)
        for (size_t x = 0; x < layout_present(cut, part, index); x++)
            its->truth[part * cut->part_length + start + x] +=
                decode[part * WORKERS + worker] * (double)numbers[x];
}

static tarry_message part_of(const scene *its, uint32_t worker, uint32_t index)
{
    const tarry_message *signal = &its->told[worker].message;
    return (tarry_message){
        .type = TARRY_MESSAGE_PART,
        .round = signal->round,
        .epoch = signal->epoch,
        .attempt = signal->attempt,
        .stripe = index,
    };
}

static void send_parts(scene *its, uint32_t worker)
{
    layout cut = layout_make(DIMENSION, its->plan->parts, STRIPE);
    for (uint32_t index = 0; index < cut.stripes; index++) {
        float numbers[STRIPE];
        size_t count = layout_stripe_length(&cut, index);
        for (size_t i = 0; i < count; i++)
            numbers[i] = (float)random_normal(&its->random);
        add_truth(its, &cut, worker, index, numbers);
        const tarry_message part = part_of(its, worker, index);
        assert_ok(say(its, worker, &part, numbers, count));
    }
}

/* One worker does the next thing that it was told. */
static void act(scene *its, uint32_t worker)
{
    told *to = &its->told[worker];
    if (to->signal) {
        to->signal = false;
        if (!to->round) /* else it has nothing to send */
            send_parts(its, worker);
    } else if (to->round) {
        to->round = false;
        report_all(its, worker);
    }
}

static int run(scene *its, tarry_round_result *result, tarry_diagnostic *diagnostic)
{
    for (size_t i = 0; i < DIMENSION; i++) {
        its->sum[i] = NAN;
        its->truth[i] = 0;
    }
    uint32_t over = its->done;
    host_begin(its->host, its->sum);
    uint64_t until_ns = clock_now_ns() + PATIENCE_NS; /* decoding threads take what time they get */
    while (its->host->round.running) {
        assert_true(clock_now_ns() < until_ns);
        act(its, random_below(&its->random, WORKERS));
        host_turn(its->host);
        host_collect(its->host);
    }
    assert_int_equal(its->done, over + 1);
    return host_finish(its->host, result, diagnostic);
}

static void assert_true_sum(const scene *its)
{
    for (size_t i = 0; i < DIMENSION; i++)
        assert_float_equal((double)its->sum[i], its->truth[i], 1e-4);
}

TEST(sums_what_workers_send)
{
    uint64_t seed = test_seed("host", 1);
    for (uint32_t kind = 0; kind < 12; kind++) {
        scene its;
        begin(&its, 1 + kind % 2, kind / 2 % 3, kind >= 6, seed + kind);
        for (uint32_t round = 0; round < 3; round++) {
            tarry_round_result result;
            assert_ok(run(&its, &result, NULL));
            assert_int_equal(result.round, round);
            assert_int_equal(its.attempts, 1);
            assert_true_sum(&its);
        }
        assert_true(its.released > 0);
        for (uint32_t worker = 0; worker < WORKERS; worker++)
            assert_true(its.host->members[worker].chunks <= 3 * COPIES);
        end(&its);
    }
}

SCENE(goes_on_with_another_plan)
{
    begin(its, 1, 0, false, 5);
    tarry_plan *first = its->plan, *small = edge_plan_cyclic(WORKERS - 1, CHUNKS, COPIES, 1);
    tarry_diagnostic why;
    tarry_round_result result;
    assert_ok(run(its, &result, NULL));
    assert_int_equal(host_replan(its->host, small, &why), TARRY_ERROR_ARGUMENT);
    assert_string_equal(why.text, "test runtime: the next plan is of another number of workers");
    tarry_plan_free(small);
    its->plan = edge_plan_cyclic(WORKERS, CHUNKS, COPIES, 1);
    edge_plan_random_decode(its->plan, 6);
    assert_ok(host_replan(its->host, its->plan, NULL));
    tarry_plan_free(first);
    assert_ok(run(its, &result, NULL));
    assert_int_equal(result.round, 1);
    assert_true_sum(its);
}

SCENE(a_message_that_can_not_be_sent_ends_the_round)
{
    tarry_round_result result;
    tarry_diagnostic why;
    begin(its, 1, 0, false, 7);
    its->send_error = TARRY_ERROR_NO_MEMORY;
    assert_int_equal(run(its, &result, &why), TARRY_ERROR_NO_MEMORY);
    assert_string_equal(why.text, "round 0: out of memory");
    its->send_error = TARRY_OK;
    memset(its->told, 0, sizeof(its->told));
    assert_ok(run(its, &result, &why));
    assert_int_equal(result.round, 1);
    assert_true_sum(its);
}

SCENE(frames_that_are_none_change_nothing)
{
    float numbers[STRIPE + 1] = {0};
    begin(its, 2, 0, false, 9);
    host_begin(its->host, its->sum);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        act(its, worker);
    assert_true(its->told[0].signal);
    layout cut = layout_make(DIMENSION, 2, STRIPE);
    tarry_message part = part_of(its, 0, 0);
    assert_int_equal(host_receive_frame(its->host, 0, (const uint8_t *)"no", 2, NULL, 0),
                     TARRY_ERROR_FORMAT);
    assert_int_equal(say(its, 0, &part, numbers, STRIPE + 1), TARRY_ERROR_FORMAT);
    assert_int_equal(say(its, 0, &part, numbers, STRIPE - 1), TARRY_ERROR_FORMAT);
    part.stripe = cut.stripes;
    assert_int_equal(say(its, 0, &part, numbers, STRIPE), TARRY_ERROR_FORMAT);
    part.stripe = 0;
    const tarry_message report = {.type = TARRY_MESSAGE_ALIVE};
    assert_int_equal(say(its, 0, &report, numbers, 1), TARRY_ERROR_FORMAT);
    assert_int_equal(its->host->pool.used, 0);
    /* One of another attempt is no error, and takes no room. */
    part.attempt++;
    assert_ok(say(its, 0, &part, numbers, STRIPE));
    assert_int_equal(its->host->pool.used, 0);
    host_fail(its->host, TARRY_ERROR_INTERRUPTED);
    host_turn(its->host);
    assert_false(its->host->round.running);
    assert_int_equal(host_finish(its->host, &(tarry_round_result){0}, NULL),
                     TARRY_ERROR_INTERRUPTED);
}

SCENE(a_round_without_workers_says_which_chunks_are_missing)
{
    tarry_round_result result;
    tarry_diagnostic why;
    begin(its, 1, 0, false, 11);
    for (uint32_t worker = 0; worker + 1 < WORKERS; worker++)
        host_lose(its->host, worker);
    host_lose(its->host, 0); /* again: it is gone already */
    assert_int_equal(its->host->present, 1);
    assert_int_equal(run(its, &result, &why), TARRY_ERROR_COVERAGE);
    assert_int_equal(result.workers_lost, WORKERS - 1);
    assert_non_null(strstr(why.text, "no worker that is left can give chunks"));
    assert_non_null(host_step(its->host, &(tarry_event){.type = TARRY_EVENT_HEARD, .worker = 0}));
    assert_null(host_join(its->host, 0));
    assert_int_equal(its->host->present, 2);
}

static int create(void *user, const tarry_allocator *allocator)
{
    scene *its = user;
    host_settings settings = settings_of(its, 0, false);
    host *made;
    int error = host_create(its->plan, &settings, allocator, &made, NULL);
    if (error == TARRY_OK)
        host_free(made);
    return error;
}

static int replan(void *user, const tarry_allocator *allocator)
{
    scene *its = user;
    host_settings settings = settings_of(its, 0, false);
    host *made;
    int error = host_create(its->plan, &settings, allocator, &made, NULL);
    if (error != TARRY_OK)
        return error;
    const tarry_server *before = made->machine;
    error = host_replan(made, its->plan, NULL);
    assert_true(error == TARRY_OK || made->machine == before);
    host_free(made);
    return error;
}

SCENE(each_allocation_may_fail)
{
    begin(its, 2, 0, false, 13);
    assert_true(fail_each_allocation(create, its) > 5);
    assert_true(fail_each_allocation(replan, its) > 8);
}
