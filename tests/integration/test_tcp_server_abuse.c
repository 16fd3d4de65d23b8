/* SPDX-License-Identifier: Apache-2.0 */
/* The network server among nuisances and crowds. */
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol/wire/wire.h"
#include "server_bench.h"
#include "test.h"

/* A worker that sends what nobody can want is refused; the round goes on with the others. */
typedef enum nuisance {
    WRONG_LENGTH,
    FLOOD,
    OLD_ROUND,
    NO_SUCH_STRIPE,
    GARBAGE,
    HEARTBEATS,
    READIES,
    BATCHES,
    EMPTY_BATCH,
    TORN_BATCH,
    NUISANCES
} nuisance;

/* What it says besides messages, until it is turned away. */
static void repeat(script *its, nuisance kind)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    size_t size = wire_encode(WIRE_HEARTBEAT, NULL, frame);
    wire_ready ready = {.data = {0}};
    memcpy(ready.plan, its->welcome.plan, WIRE_DIGEST_BYTES);
    if (kind == READIES)
        size = wire_encode(WIRE_READY, &ready, frame);
    for (uint32_t i = 0; i < 100000 && script_send(its, frame, size); i++) {
    }
}

/* It counts what it says, not its frames: of these a few are too many. */
static void annoy_in_batches(script *its, nuisance kind, const tarry_message *report)
{
    enum { REPORTS = 1024 };
    static tarry_message reports[REPORTS];
    const wire_batch none = {.round = report->round};
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES] = {0};
    size_t size = wire_batch_encode(&none, frame);
    for (uint32_t i = 0; i < REPORTS; i++)
        reports[i] = *report;
    if (kind == BATCHES)
        /* Once the round is over each counts for less: so many that it's too much then, too. */
        for (uint32_t i = 0; i < 1000 && script_batch(its, reports, REPORTS); i++) {
        }
    else if (kind == TORN_BATCH)
        frame[0] += 3 * WIRE_BATCH_REPORT_BYTES / 2, size += 3 * WIRE_BATCH_REPORT_BYTES / 2;
    if (kind == EMPTY_BATCH || kind == TORN_BATCH)
        script_send(its, frame, size);
}

static void annoy(script *its, nuisance kind)
{
    tarry_message round;
    script_await_message(its, TARRY_MESSAGE_ROUND, &round);
    static const float numbers[STRIPE];
    tarry_message part = {
        .type = TARRY_MESSAGE_PART,
        .round = round.round,
        .epoch = round.epoch,
        .attempt = 1,
    };
    tarry_message report = {
        .type = TARRY_MESSAGE_REPORT, .round = round.round, .epoch = round.epoch, .slot = 99};
    bool on = true;
    switch (kind) {
    case WRONG_LENGTH:
        script_message(its, &part, numbers, STRIPE - 1);
        break;
    case NO_SUCH_STRIPE:
        part.stripe = 1000;
        script_message(its, &part, numbers, STRIPE);
        break;
    case FLOOD:
        for (uint32_t i = 0; i < 1000000 && on; i++)
            on = script_message(its, &report, NULL, 0);
        break;
    case OLD_ROUND: /* replayed: dropped, and a flood in the end */
        part.epoch = report.epoch = 77;
        for (uint32_t i = 0; i < 1000000 && on; i++)
            on = script_message(its, &part, numbers, STRIPE);
        break;
    case GARBAGE:
        script_send(its, "\x08\0\0\0\x06\0\0\0garbage!", 16);
        break;
    case HEARTBEATS:
    case READIES:
        repeat(its, kind);
        break;
    case BATCHES:
    case EMPTY_BATCH:
    case TORN_BATCH:
        annoy_in_batches(its, kind, &report);
        break;
    case NUISANCES:
        break;
    }
}

static void *be_a_nuisance(void *argument)
{
    script *its = argument;
    annoy(its, (nuisance)its->stripes_sent);
    script_reason(its);
    return NULL;
}

TEST(turns_nuisances_away)
{
    for (nuisance kind = 0; kind < NUISANCES; kind++) {
        OWNED(bench) its;
        bench_open(&its, 1);
        crew_hire(&its, WORKERS);
        its.crew.workers[0].stripes_sent = kind;
        for (uint32_t i = 1; i < WORKERS; i++)
            crew_begin(&its, i, crew_work);
        crew_begin(&its, 0, be_a_nuisance);
        bench_good_round(&its, 4);
        assert_true(its.result.exact);
        bench_await_count(&its, &its.refused, 1);
        if (kind == FLOOD || kind == OLD_ROUND || (kind >= HEARTBEATS && kind <= BATCHES))
            bench_await_told(&its, wire_reason_text(WIRE_REFUSED_FLOOD));
        bench_good_round(&its, 5);
    }
}

/* It may wait for a while, and be heard of all at once. */
BENCH(bears_with_the_patient)
{
    bench_open(its, 1);
    crew_hire(its, WORKERS);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    size_t size = wire_encode(WIRE_HEARTBEAT, NULL, frame);
    for (uint32_t i = 0; i < 200; i++) /* those of 25 silences */
        assert_true(script_send(&its->crew.workers[0], frame, size));
    crew_start(its);
    for (uint32_t round = 0; round < 200; round++) {
        assert_ok(bench_round(its, 2));
        assert_true(its->result.exact);
    }
    assert_int_equal(its->refused, 0);
}

/* Whoever says nothing makes room for the next: the oldest first. */
TEST(lets_members_in_through_a_crowd)
{
    enum { ROOM = 8, CROWD = 50 };
    bench its;
    script crowd[CROWD];
    bench_init(&its);
    its.settings.most_newcomers = ROOM;
    bench_begin(&its, 1);
    for (uint32_t i = 0; i < CROWD; i++)
        script_open(&crowd[i], its.address, 77);
    for (uint32_t i = 0; i < CROWD - ROOM; i++)
        assert_int_equal(script_reason(&crowd[i]), 0); /* closed */
    script_say_hello(&crowd[CROWD - 1], WIRE_ROLE_VIEWER, WIRE_ANY_WORKER);
    script_await(&crowd[CROWD - 1], WIRE_WELCOME);
    bench_await_told(&its, "made room for others");
    crew_hire(&its, WORKERS);
    crew_start(&its);
    bench_good_round(&its, 1);
    bench_end(&its);
    for (uint32_t i = 0; i < CROWD; i++)
        script_close(&crowd[i]);
}

/* Nobody can make the server hold much, or write much, before it is known. */
TEST(believes_strangers_little)
{
    enum { CROWD = 200 };
    bench its;
    bench_open(&its, 1);
    script one, crowd[CROWD];
    script_open(&one, its.address, 1);
    uint8_t head[WIRE_HEAD_BYTES];
    wire_message_head(WIRE_SMALL_BYTES + 1, 0, head);
    script_send(&one, head, sizeof(head));
    assert_int_equal(script_reason(&one), 0); /* without waiting for the rest */
    script_close(&one);
    for (uint32_t i = 0; i < CROWD; i++) { /* all at once */
        script_open(&crowd[i], its.address, 1);
        script_say_hello(&crowd[i], WIRE_ROLE_WORKER, WORKERS);
    }
    for (uint32_t i = 0; i < CROWD; i++) {
        wire_reason reason = script_reason(&crowd[i]);
        assert_true(reason == WIRE_REFUSED_RANGE || reason == 0);
        script_close(&crowd[i]);
    }
    bench_await_told(&its, "more were turned away");
    bench_end(&its);
    assert_true(its.refused < CROWD);
}

/* A crowd that makes no sense uses up all words but those for one that has said who it is. */
BENCH(answers_those_who_have_said_who_they_are)
{
    enum { CROWD = 200 };
    static const uint8_t garbage[WIRE_HEAD_BYTES] = {0xff, 0xff, 0xff, 0xff,
                                                     0xff, 0xff, 0xff, 0xff};
    bench_open(its, 1);
    script one, crowd[CROWD];
    for (uint32_t i = 0; i < CROWD; i++) {
        script_open(&crowd[i], its->address, 1);
        script_send(&crowd[i], garbage, sizeof(garbage));
    }
    script_open(&one, its->address, 1);
    script_say_hello(&one, WIRE_ROLE_WORKER, WORKERS);
    assert_int_equal(script_reason(&one), WIRE_REFUSED_RANGE);
    script_close(&one);
    for (uint32_t i = 0; i < CROWD; i++) {
        assert_int_equal(script_reason(&crowd[i]), 0);
        script_close(&crowd[i]);
    }
    bench_await_told(its, "more were turned away");
}

/* In a process of its own, which has descriptors enough. */
static pid_t flood(const char *address, uint32_t connections)
{
    uint16_t port = (uint16_t)atoi(strrchr(address, ':') + 1);
    pid_t process = fork();
    if (process != 0)
        return process;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    const struct sockaddr_in where = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr = {htonl(INADDR_LOOPBACK)},
    };
    for (uint32_t i = 0; i < connections; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || connect(fd, (const struct sockaddr *)&where, sizeof(where)) != 0)
            _exit(1);
    }
    sleep(60);
    _exit(0);
}

/* However many connect, the process can still open files. */
TEST(leaves_descriptors_to_others)
{
    bench its;
    bench_open(&its, 1);
    struct rlimit before, low;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    low.rlim_cur = 128;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    pid_t crowd = flood(its.address, 200);
    assert_true(crowd > 0);
    bench_await_told(&its, "made room for others");
    int files[16];
    for (size_t i = 0; i < 16; i++)
        files[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < 16; i++) {
        assert_true(files[i] >= 0);
        close(files[i]);
    }
    kill(crowd, SIGKILL);
    assert_int_equal(waitpid(crowd, NULL, 0), crowd);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    script late;
    script_open(&late, its.address, 1);
    script_join(&late, 0);
    bench_await_count(&its, &its.joined, 1);
    bench_end(&its);
    script_close(&late);
}
