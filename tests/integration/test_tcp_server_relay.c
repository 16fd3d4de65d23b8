/* SPDX-License-Identifier: Apache-2.0 */
/* The network server as the root of relays: their children are workers like others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "coding/coefficients.h"
#include "key_folder.h"
#include "pki/authority.h"
#include "plain_relay.h"
#include "protocol/wire/wire_status.h"
#include "protocol/wire/wire_trunk.h"
#include "server_bench.h"

enum { RELAYS = 2, HALF = WORKERS / RELAYS, BATCH = 8 };

/* Workers that come by relays, and go on by the next one when theirs is gone. */
typedef struct roamer {
    script worker;
    uint32_t id;
    const char *parents[RELAYS + 1]; /* in their order; then NULL */
    _Atomic bool *over;              /* the run is: nobody comes back */
    pthread_t thread;
} roamer;

static void join(roamer *its, const char *parent)
{
    script_open(&its->worker, parent, (uint8_t)(its->id + 1));
    its->worker.slowness = 0.002;
    script_join(&its->worker, its->id);
}

static void *roam(void *argument)
{
    roamer *its = argument;
    script_work(&its->worker);
    for (uint32_t next = 1; its->parents[next] != NULL && !atomic_load(its->over); next++) {
        script_close(&its->worker);
        join(its, its->parents[next]);
        script_work(&its->worker);
    }
    return NULL;
}

typedef struct party {
    bench bench;
    plain_relay *relays[RELAYS];
    roamer workers[WORKERS];
    script_death death; /* of the second one */
    _Atomic bool over;
} party;

/* Worker i is at relay i / HALF, and knows the other one if it roams. */
static void begin(party *its, uint32_t parts, bool roams)
{
    bench_begin(&its->bench, parts);
    atomic_init(&its->over, false);
    for (uint32_t i = 0; i < RELAYS; i++)
        its->relays[i] = plain_relay_start(its->bench.address, BATCH);
    for (uint32_t i = 0; i < WORKERS; i++) {
        uint32_t first = i / HALF;
        roamer *worker = &its->workers[i];
        *worker = (roamer){.id = i, .over = &its->over};
        worker->parents[0] = plain_relay_address(its->relays[first]);
        worker->parents[1] = roams ? plain_relay_address(its->relays[RELAYS - 1 - first]) : NULL;
        join(worker, worker->parents[0]);
    }
    its->workers[1].worker.death = its->death;
    assert_int_equal(tarry_runtime_wait(its->bench.server, WORKERS, PATIENCE_NS, NULL), TARRY_OK);
    for (uint32_t i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&its->workers[i].thread, NULL, roam, &its->workers[i]), 0);
}

static void end(party *its)
{
    atomic_store(&its->over, true);
    bench_end(&its->bench);
    for (uint32_t i = 0; i < RELAYS; i++)
        plain_relay_free(its->relays[i]);
    for (uint32_t i = 0; i < WORKERS; i++) {
        pthread_join(its->workers[i].thread, NULL);
        script_close(&its->workers[i].worker);
    }
}

static void run_rounds(party *its, uint32_t rounds)
{
    for (uint32_t round = 0; round < rounds; round++) {
        float parameter = (float)round + 0.5f;
        assert_int_equal(bench_round(&its->bench, parameter), TARRY_OK);
        assert_true(its->bench.result.exact);
        assert_true_sum(&its->bench, parameter);
    }
}

/* Viewers are told of relays, and over which one a worker is here. */
static void see_relays(const party *its)
{
    script viewer;
    script_open(&viewer, its->bench.address, 99);
    script_say_hello(&viewer, WIRE_ROLE_VIEWER, WIRE_ANY_WORKER);
    script_await(&viewer, WIRE_STATUS);
    wire_status status;
    assert_int_equal(wire_status_decode(&viewer.head, viewer.body, &status), TARRY_OK);
    assert_int_equal(status.relays, RELAYS);
    assert_int_equal(status.more_relays, 0);
    for (uint32_t i = 0; i < RELAYS; i++) { /* the last one first */
        const wire_relay_status *relay = &status.relay[i];
        assert_int_equal(relay->number, RELAYS - i);
        assert_int_equal(relay->workers, HALF);
        assert_int_equal(relay->standbys, 0);
        assert_in_range(relay->round_trip_ns, 1, PATIENCE_NS);
    }
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        wire_worker_status one;
        assert_int_equal(wire_status_worker(&viewer.head, viewer.body, worker, &one), TARRY_OK);
        assert_int_equal(one.relay, worker / HALF + 1);
    }
    script_close(&viewer);
}

static void sums_rounds_of(uint32_t parts, bool reproducible, uint32_t threads)
{
    enum { ROUNDS = 10 };
    party its = {.death = SCRIPT_LIVES};
    bench_init(&its.bench);
    its.bench.settings.server.reproducible = reproducible;
    its.bench.settings.decode_threads = threads;
    begin(&its, parts, false);
    run_rounds(&its, ROUNDS);
    uint32_t reports = 0;
    for (uint32_t i = 0; i < RELAYS; i++) {
        plain_relay_counts counts = plain_relay_counted(its.relays[i]);
        assert_int_equal(counts.lanes, HALF);
        assert_int_equal(counts.plans, 1);
        assert_int_equal(counts.jobs, 1);
        assert_true(counts.parameters <= ROUNDS && counts.parameters > 0);
        assert_true(counts.most_out <= WIRE_LANE_WINDOW);
        bool gathers = !reproducible && HALF > parts;
        assert_int_equal(counts.gathers > 0, gathers);
        assert_int_equal(counts.gathered > 0, gathers);
        assert_true(counts.parts > 0 || gathers);
        reports += counts.reports;
    }
    assert_true(reports >= ROUNDS * CHUNKS);
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        tarry_worker_state state = tarry_runtime_worker(its.bench.server, worker);
        assert_true(state.present && state.arrivals == 1);
        assert_true(state.received > 0 && state.sent > 0);
    }
    assert_int_equal(its.bench.refused, 0);
    see_relays(&its);
    end(&its);
}

static void sums_rounds_over_relays(void **state)
{
    (void)state;
    sums_rounds_of(1, false, 1);
    sums_rounds_of(2, false, 0);
}

/* Stripes are parked until all are there, more of them than a lane's window has. */
static void sums_in_the_order_of_workers(void **state)
{
    (void)state;
    sums_rounds_of(1, true, 2);
}

/* Whoever comes back in time was never gone. */
static void a_relays_death_is_not_its_workers_loss(void **state)
{
    (void)state;
    party its = {.death = SCRIPT_LIVES};
    bench_init(&its.bench);
    its.bench.settings.relay_grace_ns = PATIENCE_NS;
    begin(&its, 1, true);
    run_rounds(&its, 2);
    plain_relay_kill(its.relays[0]);
    run_rounds(&its, 5);
    bench_await_count(&its.bench, &its.bench.joined, WORKERS + HALF);
    assert_int_equal(its.bench.gone, 0);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        assert_int_equal(tarry_runtime_worker(its.bench.server, worker).arrivals,
                         worker < HALF ? 2 : 1);
    run_rounds(&its, 2);
    end(&its);
}

typedef struct killer {
    plain_relay *victim;
    useconds_t after;
} killer;

static void *kill_later(void *argument)
{
    const killer *its = argument;
    usleep(its->after);
    plain_relay_kill(its->victim);
    return NULL;
}

/* In whatever phase of a round it dies: the sums that it was to make are made in another way. */
static void a_relay_may_die_at_any_time(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        party its = {.death = SCRIPT_LIVES};
        bench_init(&its.bench);
        its.bench.settings.relay_grace_ns = PATIENCE_NS;
        begin(&its, 1 + i % 2, true);
        run_rounds(&its, 1);
        killer how = {.victim = its.relays[i % RELAYS], .after = 3000 * i};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, kill_later, &how), 0);
        run_rounds(&its, 5);
        pthread_join(thread, NULL);
        bench_await_count(&its.bench, &its.bench.joined, WORKERS + HALF);
        run_rounds(&its, 1);
        assert_int_equal(its.bench.gone, 0);
        end(&its);
    }
}

/* One of those whose parts are one sum. */
static void a_childs_death_breaks_a_sum_on_the_way(void **state)
{
    (void)state;
    for (script_death death = SCRIPT_DIES_COMPUTING; death <= SCRIPT_DIES_BEHIND_PART; death++) {
        party its = {.death = death};
        bench_init(&its.bench);
        begin(&its, 1, false);
        run_rounds(&its, 4);
        bench_await_count(&its.bench, &its.bench.gone, 1);
        assert_int_equal(its.bench.gone, 1);
        end(&its);
    }
}

static void those_who_do_not_come_back_are_lost(void **state)
{
    (void)state;
    party its = {.death = SCRIPT_LIVES};
    bench_init(&its.bench);
    its.bench.settings.relay_grace_ns = 50000000;
    begin(&its, 1, false);
    plain_relay_kill(its.relays[1]);
    bench_await_count(&its.bench, &its.bench.gone, HALF);
    run_rounds(&its, 2);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        assert_int_equal(tarry_runtime_worker(its.bench.server, worker).present, worker < HALF);
    end(&its);
}

/* Its children may be well, but nothing comes of them. */
static void a_silent_relay_is_given_up(void **state)
{
    (void)state;
    party its = {.death = SCRIPT_LIVES};
    bench_init(&its.bench);
    its.bench.settings.server.silence_ns = UINT64_C(2000000000);
    its.bench.settings.relay_grace_ns = 50000000;
    begin(&its, 1, false);
    plain_relay_freeze(its.relays[0]);
    bench_await_told(&its.bench, "the relay fell silent");
    bench_await_count(&its.bench, &its.bench.left_out, HALF);
    run_rounds(&its, 2);
    end(&its);
}

/* ---- a relay by hand ---- */

static void send_in_lane(script *relay, uint32_t lane, const uint8_t *frame, size_t size)
{
    uint8_t head[WIRE_HEAD_BYTES + WIRE_LANE_HEAD_BYTES];
    wire_lane_head(lane, size, head);
    script_send(relay, head, sizeof(head));
    script_send(relay, frame, size);
}

static void open_lane(script *relay, uint32_t lane, bool trusted, const uint8_t *der, size_t size)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_LANE_OPEN_BYTES];
    const wire_lane_open words = {
        .lane = lane, .trusted = trusted, .size = (uint16_t)size, .certificate = der, .from = "x"};
    script_send(relay, frame, wire_lane_open_encode(&words, frame));
}

static void hello_in_lane(script *relay, uint32_t lane, wire_role role, uint32_t worker,
                          uint8_t instance)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    const wire_hello hello = {.oldest = WIRE_VERSION,
                              .newest = WIRE_VERSION,
                              .role = role,
                              .ranking = COEFFICIENTS_VERSION,
                              .worker = worker,
                              .instance = {instance}};
    send_in_lane(relay, lane, frame, wire_hello_encode(&hello, frame));
}

/* Reads until something comes on that lane; its kind. */
static wire_kind await_in_lane(script *relay, uint32_t lane, wire_head *inner, const uint8_t **body)
{
    uint32_t of;
    do {
        script_await(relay, WIRE_LANE);
        assert_int_equal(wire_lane_decode(&relay->head, relay->body, &of, inner, body), TARRY_OK);
    } while (of != lane);
    return inner->kind;
}

static wire_reason reason_in_lane(script *relay, uint32_t lane)
{
    wire_head inner;
    const uint8_t *body;
    wire_refused words;
    assert_int_equal(await_in_lane(relay, lane, &inner, &body), WIRE_REFUSED);
    assert_int_equal(wire_refused_decode(&inner, body, &words), TARRY_OK);
    script_await(relay, WIRE_LANE_END);
    return words.reason;
}

static uint32_t welcomed_in_lane(script *relay, uint32_t lane)
{
    wire_head inner;
    const uint8_t *body;
    wire_welcome words;
    assert_int_equal(await_in_lane(relay, lane, &inner, &body), WIRE_WELCOME);
    assert_int_equal(wire_welcome_decode(&inner, body, &words), TARRY_OK);
    assert_int_equal(words.near[0], 0);
    return words.worker;
}

static void enter_as_relay(script *relay, const char *address)
{
    script_open(relay, address, 99);
    script_say_hello(relay, WIRE_ROLE_RELAY, WIRE_ANY_WORKER);
    script_await(relay, WIRE_WELCOME);
}

static void a_relay_that_breaks_the_rules_is_refused(void **state)
{
    (void)state;
    bench its;
    bench_init(&its);
    bench_begin(&its, 1);
    for (uint32_t wrong = 0; wrong < 8; wrong++) {
        script relay;
        uint8_t frame[WIRE_HEAD_BYTES + WIRE_LANE_OPEN_BYTES + 64];
        enter_as_relay(&relay, its.address);
        open_lane(&relay, 7, true, NULL, 0);
        const tarry_message report = {.epoch = 1};
        wire_batch batch = {.lanes = true, .count = 1};
        const wire_lane_end end = {.lane = 6, .reason = WIRE_LANE_CLOSED};
        switch (wrong) {
        case 0: /* lanes that are not open */
            hello_in_lane(&relay, 8, WIRE_ROLE_WORKER, 0, 1);
            break;
        case 1:
            open_lane(&relay, 7, true, NULL, 0);
            break;
        case 2:
            wire_batch_put(&batch, frame, 0, 6, &report);
            script_send(&relay, frame, wire_batch_encode(&batch, frame));
            break;
        case 3:
            script_send(&relay, frame, wire_lane_end_encode(&end, frame));
            break;
        case 4: /* a batch that says not of whom */
            batch.lanes = false;
            wire_batch_put(&batch, frame, 0, 0, &report);
            script_send(&relay, frame, wire_batch_encode(&batch, frame));
            break;
        case 5: /* what is said on other connections */
            script_say_hello(&relay, WIRE_ROLE_WORKER, 0);
            break;
        case 6: { /* a part of nobody */
            wire_lane_part part = {.lane = 3, .message = {TARRY_MESSAGE_PART}, .bytes = 4};
            size_t size = wire_lane_part_encode(&part, frame);
            memset(frame + size, 0, sizeof(float));
            script_send(&relay, frame, size + sizeof(float));
            break;
        }
        case 7: { /* a blob that no lane was told of */
            const wire_fetch fetch = {.kind = WIRE_BLOB_PLAN};
            script_send(&relay, frame, wire_fetch_encode(&fetch, frame));
            break;
        }
        }
        wire_reason reason = script_reason(&relay);
        if (reason != (wrong == 7 ? WIRE_REFUSED_FLOOD : WIRE_REFUSED_FORMAT))
            fail_msg("%u: %d", wrong, (int)reason);
        script_close(&relay);
    }
    bench_end(&its);
}

/* The others of the same relay go on. */
static void a_child_that_breaks_the_rules_ends_its_lane_alone(void **state)
{
    (void)state;
    bench its;
    bench_init(&its);
    bench_begin(&its, 1);
    script relay;
    enter_as_relay(&relay, its.address);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    for (uint32_t lane = 0; lane < 4; lane++)
        open_lane(&relay, lane, true, NULL, 0);
    hello_in_lane(&relay, 0, WIRE_ROLE_WORKER, 0, 1);
    assert_int_equal(welcomed_in_lane(&relay, 0), 0);
    hello_in_lane(&relay, 0, WIRE_ROLE_WORKER, 0, 1); /* twice */
    assert_int_equal(reason_in_lane(&relay, 0), WIRE_REFUSED_FORMAT);
    hello_in_lane(&relay, 1, WIRE_ROLE_WORKER, WORKERS, 1); /* not in this job */
    assert_int_equal(reason_in_lane(&relay, 1), WIRE_REFUSED_RANGE);
    hello_in_lane(&relay, 2, WIRE_ROLE_RELAY, WIRE_ANY_WORKER, 1); /* a trunk in a lane */
    assert_int_equal(reason_in_lane(&relay, 2), WIRE_REFUSED_IDENTITY);
    wire_batch batch = {.lanes = true, .count = 1}; /* a report of one who has not joined */
    wire_batch_put(&batch, frame, 0, 3, &(tarry_message){.epoch = 1});
    script_send(&relay, frame, wire_batch_encode(&batch, frame));
    assert_int_equal(reason_in_lane(&relay, 3), WIRE_REFUSED_FORMAT);
    /* A number is free again once both have said so. */
    const wire_lane_end end = {.lane = 3, .reason = WIRE_LANE_CLOSED};
    script_send(&relay, frame, wire_lane_end_encode(&end, frame));
    open_lane(&relay, 3, true, NULL, 0);
    hello_in_lane(&relay, 3, WIRE_ROLE_WORKER, 5, 2);
    assert_int_equal(welcomed_in_lane(&relay, 3), 5);
    script_close(&relay);
    bench_end(&its);
}

static size_t certificate_of(const char *credentials, uint8_t der[WIRE_CERTIFICATE_BYTES])
{
    char path[512];
    snprintf(path, sizeof(path), "%s/cert.pem", credentials);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    X509 *certificate = PEM_read_X509(file, NULL, NULL, NULL);
    fclose(file);
    assert_non_null(certificate);
    int size = i2d_X509(certificate, &der);
    X509_free(certificate);
    assert_true(size > 0 && size <= WIRE_CERTIFICATE_BYTES);
    return (size_t)size;
}

/* With TLS everybody is who the certificate says; a relay's word that a child is trusted counts
 * nothing. */
static void children_show_certificates(void **state)
{
    (void)state;
    bench its;
    key_folder keys, others;
    key_folder_make(&keys);
    key_folder_make(&others);
    const credential_identity as_relay = {.role = CREDENTIAL_RELAY, .worker = CREDENTIAL_ANY_ID};
    assert_int_equal(
        authority_add(keys.folder, as_relay, (authority_hosts){0}, (int64_t)time(NULL), NULL),
        TARRY_OK);
    bench_init(&its);
    its.settings.security.insecure = false;
    its.settings.security.credentials = key_folder_member(&keys, 0, "server");
    bench_begin(&its, 1);
    script relay, worker;
    uint8_t der[WIRE_CERTIFICATE_BYTES];
    assert_true(script_open_secure(&worker, its.address, 9, key_folder_member(&keys, 1, "worker")));
    script_say_hello(&worker, WIRE_ROLE_RELAY, WIRE_ANY_WORKER);
    assert_int_equal(script_reason(&worker), WIRE_REFUSED_IDENTITY);
    script_close(&worker);

    assert_true(script_open_secure(&relay, its.address, 99, key_folder_member(&keys, 2, "relay")));
    script_say_hello(&relay, WIRE_ROLE_RELAY, WIRE_ANY_WORKER);
    script_await(&relay, WIRE_WELCOME);
    open_lane(&relay, 0, false, der, certificate_of(key_folder_member(&keys, 3, "worker-2"), der));
    hello_in_lane(&relay, 0, WIRE_ROLE_WORKER, WIRE_ANY_WORKER, 1);
    assert_int_equal(welcomed_in_lane(&relay, 0), 2);
    open_lane(&relay, 1, false, der, certificate_of(key_folder_member(&keys, 3, "worker-2"), der));
    hello_in_lane(&relay, 1, WIRE_ROLE_WORKER, 3, 1); /* another one's id */
    assert_int_equal(reason_in_lane(&relay, 1), WIRE_REFUSED_IDENTITY);
    open_lane(&relay, 2, true, NULL, 0);
    assert_int_equal(reason_in_lane(&relay, 2), WIRE_REFUSED_IDENTITY);
    open_lane(&relay, 3, false, der, certificate_of(key_folder_member(&others, 0, "worker"), der));
    assert_int_equal(reason_in_lane(&relay, 3), WIRE_REFUSED_IDENTITY);
    open_lane(&relay, 4, false, (const uint8_t *)"no certificate", 14);
    assert_int_equal(reason_in_lane(&relay, 4), WIRE_REFUSED_IDENTITY);

    /* One that is revoked while it is there. */
    const credential_identity who = {.role = CREDENTIAL_WORKER, .worker = 2};
    assert_int_equal(
        authority_revoke(keys.folder, who, NULL, (int64_t)time(NULL), &(authority_tally){0}, NULL),
        TARRY_OK);
    assert_int_equal(reason_in_lane(&relay, 0), WIRE_REFUSED_REVOKED);
    script_close(&relay);
    bench_end(&its);
    key_folder_remove(&keys);
    key_folder_remove(&others);
}

/* ---- standby ---- */

static void a_standby_becomes_a_worker_at_once(void **state)
{
    (void)state;
    bench its;
    bench_init(&its);
    bench_begin(&its, 1);
    script first, second;
    script_open(&first, its.address, 1);
    script_join(&first, 4);
    bench_await_count(&its, &its.joined, 1);
    script_open(&second, its.address, 1);
    script_say_hello(&second, WIRE_ROLE_STANDBY, WIRE_ANY_WORKER);
    script_await(&second, WIRE_WELCOME);
    assert_int_equal(wire_welcome_decode(&second.head, second.body, &second.welcome), TARRY_OK);
    assert_int_equal(second.welcome.worker, WIRE_ANY_WORKER);
    assert_int_equal(second.welcome.plan_bytes + second.welcome.job_bytes, 0);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_hello hello = {.oldest = WIRE_VERSION,
                        .newest = WIRE_VERSION,
                        .ranking = COEFFICIENTS_VERSION,
                        .worker = 4,
                        .instance = {1}};
    memcpy(hello.job, second.welcome.job, WIRE_ID_BYTES);
    tarry_plan_digest(first.plan, hello.plan);
    wire_ready ready = {0};
    memcpy(ready.plan, hello.plan, WIRE_DIGEST_BYTES);
    script_close(&first);
    script_send(&second, frame, wire_hello_encode(&hello, frame));
    script_send(&second, frame, wire_ready_encode(&ready, frame)); /* before its WELCOME */
    script_await(&second, WIRE_WELCOME);
    assert_int_equal(wire_welcome_decode(&second.head, second.body, &second.welcome), TARRY_OK);
    assert_int_equal(second.welcome.worker, 4);
    bench_await_count(&its, &its.joined, 2);
    script_close(&second);

    /* One that goes by another plan is told of this one first. */
    script_open(&second, its.address, 2);
    script_say_hello(&second, WIRE_ROLE_STANDBY, WIRE_ANY_WORKER);
    script_await(&second, WIRE_WELCOME);
    hello.plan[0] ^= 1;
    hello.worker = 5;
    hello.instance[0] = 2;
    ready.plan[0] ^= 1;
    script_send(&second, frame, wire_hello_encode(&hello, frame));
    script_send(&second, frame, wire_ready_encode(&ready, frame));
    script_await(&second, WIRE_BLOB);
    ready.plan[0] ^= 1;
    script_send(&second, frame, wire_ready_encode(&ready, frame));
    bench_await_count(&its, &its.joined, 3);
    assert_int_equal(its.refused, 0);

    /* Once it is a worker it is none again. */
    script_say_hello(&second, WIRE_ROLE_STANDBY, WIRE_ANY_WORKER);
    assert_int_equal(script_reason(&second), WIRE_REFUSED_FORMAT);
    script_close(&second);
    bench_end(&its);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_rounds_over_relays),
        cmocka_unit_test(sums_in_the_order_of_workers),
        cmocka_unit_test(a_relays_death_is_not_its_workers_loss),
        cmocka_unit_test(a_relay_may_die_at_any_time),
        cmocka_unit_test(a_childs_death_breaks_a_sum_on_the_way),
        cmocka_unit_test(those_who_do_not_come_back_are_lost),
        cmocka_unit_test(a_silent_relay_is_given_up),
        cmocka_unit_test(a_relay_that_breaks_the_rules_is_refused),
        cmocka_unit_test(a_child_that_breaks_the_rules_ends_its_lane_alone),
        cmocka_unit_test(children_show_certificates),
        cmocka_unit_test(a_standby_becomes_a_worker_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
