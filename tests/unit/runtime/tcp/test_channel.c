/* SPDX-License-Identifier: Apache-2.0 */
/* Two channels on one loop, or one and a bare socket. What is sent says what it is, so that whoever
 * receives can check it without having seen it. */
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/random.h"
#include "failing_allocator.h"
#include "pair.h"
#include "runtime/tcp/net/channel.h"
#include "seed.h"
#include "test.h"

enum {
    LONGEST = 700 << 10,
    LIMIT_MS = 100000,
    FIXED = 16, /* of PARAMETERS */
    SMALL_MOST = 3000,
    GENTLE_MS = 60000,
};

#define ASIDE (UINT64_C(1) << 32) /* numbers of small frames of another thread */

typedef enum moment {
    MOMENT_NEVER,
    MOMENT_OPENED,
    MOMENT_HEARD,
    MOMENT_FRAME,
    MOMENT_BEGIN,
    MOMENT_COMPLETE,
    MOMENT_DRAINED,
    MOMENT_ENDED,
    MOMENT_RELEASED,
    MOMENTS,
} moment;

typedef struct end {
    channel *channel;      /* NULL once it is closed */
    moment closes;         /* closes itself then */
    random_stream *random; /* NULL: never waits */
    uv_timer_t timer;
    bool opened, has_ended;
    channel_end how;
    char failure[200];
    uint64_t small_sent, loads_sent, released;
    uint64_t small, loads, small_at_load[64]; /* received; how many small ones before each load */
    uint64_t aside;                           /* received: small ones of another thread */
    uint8_t place[LONGEST];
} end;

typedef struct world {
    uv_loop_t loop;
    uv_timer_t limit;
    uint8_t shared[CHANNEL_SHARED_BYTES];
    uint8_t source[LONGEST];
    end ends[2];
    pair_contexts contexts;
} world;

static uint8_t byte_at(size_t at)
{
    return (uint8_t)(at * 7 + (at >> 8) * 13);
}

static void close_end(end *self)
{
    channel *closing = self->channel;
    self->channel = NULL;
    channel_close(closing);
}

static bool still(end *self, moment now)
{
    if (self->closes == now && self->channel != NULL)
        close_end(self);
    return self->channel != NULL;
}

static void on_opened(void *user)
{
    end *self = user;
    assert_non_null(self->channel);
    assert_false(self->opened);
    self->opened = true;
    still(self, MOMENT_OPENED);
}

static void on_heard(void *user)
{
    assert_non_null(((end *)user)->channel);
    still(user, MOMENT_HEARD);
}

static bool on_frame(void *user, const wire_head *head, const uint8_t *body)
{
    end *self = user;
    assert_non_null(self->channel);
    if (head->kind == WIRE_HEARTBEAT)
        return true;
    assert_int_equal(head->kind, WIRE_MESSAGE);
    uint64_t number = bytes_get(body + 8, 8);
    for (size_t i = 16; i < head->length; i++)
        assert_int_equal(body[i], byte_at(i + number));
    if (number >= ASIDE)
        assert_int_equal(number, ASIDE + self->aside++);
    else
        assert_int_equal(number, self->small++);
    return still(self, MOMENT_FRAME);
}

static void on_timer(uv_timer_t *timer)
{
    end *self = timer->data;
    if (self->channel != NULL)
        channel_resume(self->channel);
}

static channel_verdict on_begin(void *user, const wire_head *head, const uint8_t *fixed,
                                size_t bytes, void **place)
{
    end *self = user;
    assert_non_null(self->channel);
    assert_int_equal(head->length, FIXED + bytes);
    assert_int_equal(bytes_get(fixed, 8), self->loads);
    if (!still(self, MOMENT_BEGIN))
        return CHANNEL_END;
    if (self->random != NULL && random_below(self->random, 4) == 0) {
        uv_timer_start(&self->timer, on_timer, random_below(self->random, 3), 0);
        return CHANNEL_WAIT;
    }
    memset(self->place, 0, bytes);
    *place = self->random != NULL && random_below(self->random, 8) == 0 ? NULL : self->place;
    if (*place == NULL)
        self->place[0] = (uint8_t)(byte_at((size_t)bytes_get(fixed + 8, 8)) + 1);
    return CHANNEL_TAKE;
}

static bool on_complete(void *user, const wire_head *head, const uint8_t *fixed)
{
    end *self = user;
    size_t from = bytes_get(fixed + 8, 8);
    assert_non_null(self->channel);
    if (self->place[0] == byte_at(from))
        for (size_t i = 0; i < head->length - FIXED; i++)
            assert_int_equal(self->place[i], byte_at(from + i));
    if (self->loads < 64)
        self->small_at_load[self->loads] = self->small;
    self->loads++;
    return still(self, MOMENT_COMPLETE);
}

static void on_drained(void *user)
{
    assert_non_null(((end *)user)->channel);
    still(user, MOMENT_DRAINED);
}

static void on_ended(void *user, channel_end how)
{
    end *self = user;
    assert_non_null(self->channel);
    assert_false(self->has_ended);
    self->has_ended = true;
    self->how = how;
    snprintf(self->failure, sizeof(self->failure), "%s", channel_failure(self->channel));
    still(self, MOMENT_ENDED);
}

static void on_released(void *user, void *owner)
{
    end *self = user;
    assert_ptr_equal(owner, self);
    self->released++;
    still(self, MOMENT_RELEASED);
}

static void on_limit(uv_timer_t *timer)
{
    fprintf(stderr, "a test hangs\n");
    abort();
}

static world *world_make(void)
{
    world *w = checked_calloc(1, sizeof(*w));
    assert_int_equal(uv_loop_init(&w->loop), 0);
    uv_timer_init(&w->loop, &w->limit);
    uv_timer_start(&w->limit, on_limit, LIMIT_MS, 0);
    uv_unref((uv_handle_t *)&w->limit);
    for (int i = 0; i < 2; i++) {
        uv_timer_init(&w->loop, &w->ends[i].timer);
        w->ends[i].timer.data = &w->ends[i];
    }
    for (size_t i = 0; i < LONGEST; i++)
        w->source[i] = byte_at(i);
    pair_contexts_make(&w->contexts);
    return w;
}

/* Nothing is left in the loop once both channels are closed. */
static void world_free(world *w)
{
    for (int i = 0; i < 2; i++) {
        close_end(&w->ends[i]);
        uv_close((uv_handle_t *)&w->ends[i].timer, NULL);
    }
    uv_close((uv_handle_t *)&w->limit, NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(w->ends[i].released, w->ends[i].loads_sent);
    pair_contexts_free(&w->contexts);
    free(w);
}

OWNED_BY(world, world_free)

static int open_end(world *w, int i, int fd, SSL *ssl, const tarry_allocator *allocator)
{
    end *self = &w->ends[i];
    const channel_settings settings = {
        .most_waiting = 1 << 16, .most_length = FIXED + LONGEST, .shared = w->shared};
    const channel_handlers handlers = {
        .user = self,
        .opened = on_opened,
        .heard = on_heard,
        .frame = on_frame,
        .begin = on_begin,
        .complete = on_complete,
        .drained = on_drained,
        .ended = on_ended,
    };
    return channel_open(&w->loop, fd, ssl, i == 1, &settings, &handlers, allocator, &self->channel);
}

static void open_both(world *w, pair_sort sort, bool tls)
{
    int fds[2];
    pair_connect(sort, fds);
    SSL *accepting = tls ? pair_accepting(&w->contexts) : NULL;
    SSL *connecting = tls ? pair_connecting(w->contexts.client) : NULL;
    assert_ok(open_end(w, 0, fds[0], accepting, NULL));
    assert_ok(open_end(w, 1, fds[1], connecting, NULL));
}

/* Until what is sent goes out at once. */
static void open_whole(world *w, pair_sort sort, bool tls)
{
    open_both(w, sort, tls);
    while (!w->ends[0].opened || !w->ends[1].opened)
        uv_run(&w->loop, UV_RUN_NOWAIT);
}

/* One channel; gives back the other end's socket. */
static int open_one(world *w)
{
    int fds[2];
    pair_connect(PAIR_SOCKETPAIR, fds);
    assert_ok(open_end(w, 0, fds[0], NULL, NULL));
    assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
    return fds[1];
}

static size_t make_small(uint64_t number, size_t length, uint8_t *frame)
{
    wire_head_encode(WIRE_MESSAGE, (uint32_t)length, frame);
    memset(frame + WIRE_HEAD_BYTES, 0, 8);
    bytes_put(frame + WIRE_HEAD_BYTES + 8, number, 8);
    for (size_t i = 16; i < length; i++)
        frame[WIRE_HEAD_BYTES + i] = byte_at(i + number);
    return WIRE_HEAD_BYTES + length;
}

static void make_prefix(uint64_t number, size_t from, size_t size, uint8_t *prefix)
{
    wire_head_encode(WIRE_PARAMETERS, (uint32_t)(FIXED + size), prefix);
    bytes_put(prefix + WIRE_HEAD_BYTES, number, 8);
    bytes_put(prefix + WIRE_HEAD_BYTES + 8, from, 8);
}

static bool send_small(end *self, size_t length)
{
    uint8_t frame[WIRE_HEAD_BYTES + SMALL_MOST];
    if (!channel_send(self->channel, frame, make_small(self->small_sent, length, frame)))
        return false;
    self->small_sent++;
    return true;
}

static bool send_load(end *self, const uint8_t *source, size_t from, size_t size, uint32_t tag)
{
    uint8_t prefix[WIRE_HEAD_BYTES + FIXED];
    const channel_load load = {
        .bytes = source + from, .size = size, .tag = tag, .released = on_released, .owner = self};
    make_prefix(self->loads_sent, from, size, prefix);
    if (!channel_send_load(self->channel, prefix, sizeof(prefix), &load))
        return false;
    self->loads_sent++;
    return true;
}

static void turn(world *w)
{
    uv_run(&w->loop, UV_RUN_NOWAIT);
}

/* Enough turns for all that can happen without anyone's doing. */
static void settle(world *w)
{
    for (int i = 0; i < 200; i++)
        turn(w);
}

static void send_random(world *w, end *self, random_stream *random)
{
    size_t count = random_below(random, 4);
    for (size_t i = 0; i < count; i++) {
        if (random_below(random, 3) > 0) {
            assert_true(send_small(self, 24 + random_below(random, SMALL_MOST - 24)));
            continue;
        }
        size_t most = random_below(random, 4) == 0 ? LONGEST : 2000;
        size_t size = 4 * (1 + random_below(random, (uint32_t)(most / 4 - 1)));
        size_t from = random_below(random, (uint32_t)(LONGEST - size + 1));
        assert_true(send_load(self, w->source, from, size, 0));
    }
}

static bool all_there(const world *w)
{
    for (int i = 0; i < 2; i++)
        if (w->ends[i].small != w->ends[1 - i].small_sent ||
            w->ends[i].loads != w->ends[1 - i].loads_sent)
            return false;
    return true;
}

static void await_all(world *w)
{
    while (!all_there(w))
        uv_run(&w->loop, UV_RUN_ONCE);
}

static void await_end(world *w, int which)
{
    while (!w->ends[which].has_ended)
        uv_run(&w->loop, UV_RUN_ONCE);
}

static void close_gently(end *self, uint64_t limit_ns)
{
    channel *closing = self->channel;
    self->channel = NULL;
    channel_close_gently(closing, limit_ns);
}

static void exchange(pair_sort sort, bool tls, uint64_t seed)
{
    OWNED(world) w = world_make();
    random_stream random = random_stream_make(seed, RANDOM_TEST, sort, tls);
    for (int i = 0; i < 2; i++)
        w->ends[i].random = &random;
    open_both(w, sort, tls);
    for (int k = 0; k < 150; k++) {
        for (int i = 0; i < 2; i++)
            if (random_below(&random, 2) == 0)
                send_random(w, &w->ends[i], &random);
        for (uint32_t turns = random_below(&random, 12); turns > 0; turns--)
            turn(w);
        /* What waits is bounded: let some of it out. */
        for (int i = 0; i < 2; i++)
            while (channel_loads(w->ends[i].channel) > 12 ||
                   w->ends[i].small_sent > w->ends[1 - i].small + 12)
                uv_run(&w->loop, UV_RUN_ONCE);
    }
    await_all(w);
    settle(w);
    for (int i = 0; i < 2; i++) {
        assert_false(w->ends[i].has_ended);
        assert_int_equal(channel_sent(w->ends[i].channel),
                         channel_received(w->ends[1 - i].channel));
        assert_int_equal(channel_is_unix(w->ends[i].channel), sort != PAIR_TCP);
    }
    close_gently(&w->ends[0], (uint64_t)GENTLE_MS * 1000000);
    await_end(w, 1);
    assert_int_equal(w->ends[1].how, CHANNEL_PEER_CLOSED);
}

TEST(test_random)
{
    uint64_t seed = test_seed("channel", 5);
    for (pair_sort sort = 0; sort < PAIR_SORTS; sort++)
        for (int tls = 0; tls < 2; tls++)
            exchange(sort, tls == 1, seed);
}

static void put(int fd, const uint8_t *bytes, size_t size)
{
    assert_int_equal(send(fd, bytes, size, MSG_NOSIGNAL), size);
}

/* Every way to cut two small frames around a large one, then one byte at a time. */
TEST(test_cuts)
{
    OWNED(world) w = world_make();
    int fd = open_one(w);
    end *self = &w->ends[0];
    for (size_t cut = 0; cut < 140; cut++) {
        uint8_t bytes[512];
        size_t size = make_small(self->small, 24, bytes);
        make_prefix(self->loads, 3, 40, bytes + size);
        size += WIRE_HEAD_BYTES + FIXED;
        memcpy(bytes + size, w->source + 3, 40);
        size += 40;
        size += make_small(self->small + 1, 28, bytes + size);
        assert_in_range(size, 100, sizeof(bytes));
        if (cut > 0 && cut < size)
            put(fd, bytes, cut);
        settle(w);
        for (size_t at = cut < size ? cut : 0; at < size;) {
            size_t step = cut < size ? size - at : 1;
            put(fd, bytes + at, step);
            at += step;
            turn(w);
        }
        settle(w);
        assert_int_equal(self->small, 2 * (cut + 1));
        assert_int_equal(self->loads, cut + 1);
    }
    assert_false(self->has_ended);
    close(fd);
}

/* Large frames fill the socket; a small one that is sent then waits for that under way alone. */
static void test_small_goes_ahead(bool tls)
{
    OWNED(world) w = world_make();
    open_whole(w, PAIR_SOCKETPAIR, tls);
    for (int i = 0; i < 8; i++)
        assert_true(send_load(&w->ends[0], w->source, 0, LONGEST, (uint32_t)i));
    turn(w);
    assert_true(send_small(&w->ends[0], 24));
    await_all(w);
    assert_int_equal(w->ends[1].small_at_load[0], 0);
    assert_int_equal(w->ends[1].small_at_load[6], 1);
}

TEST(test_priority)
{
    test_small_goes_ahead(false);
    test_small_goes_ahead(true);
}

enum { ASIDE_COUNT = 2000 };

typedef struct writer {
    channel *to;
    uint64_t refused;
} writer;

static void *write_aside(void *argument)
{
    writer *self = argument;
    for (uint64_t number = 0; number < ASIDE_COUNT;) {
        uint8_t frame[WIRE_HEAD_BYTES + SMALL_MOST];
        size_t size = make_small(ASIDE + number, 24 + number % 50, frame);
        size_t sent = channel_send_aside(self->to, frame, size);
        assert_true(sent == size || sent == 0);
        number += sent > 0;
        self->refused += sent == 0;
    }
    return NULL;
}

/* What two threads send comes frame by frame, each one's in its order. */
static void exchange_aside(pair_sort sort)
{
    OWNED(world) w = world_make();
    open_whole(w, sort, false);
    writer its = {.to = w->ends[0].channel};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_aside, &its), 0);
    while (w->ends[1].aside < ASIDE_COUNT) {
        if (w->ends[0].small_sent < w->ends[1].small + 12)
            assert_true(send_small(&w->ends[0], 24 + w->ends[0].small_sent % 100));
        turn(w);
    }
    pthread_join(thread, NULL);
    await_all(w);
    assert_int_equal(w->ends[1].aside, ASIDE_COUNT);
    assert_int_equal(channel_sent(w->ends[0].channel), channel_received(w->ends[1].channel));
    print_message("%u frames aside, refused %llu times\n", (unsigned)ASIDE_COUNT,
                  (unsigned long long)its.refused);
}

TEST(test_aside)
{
    for (pair_sort sort = 0; sort < PAIR_SORTS; sort++)
        exchange_aside(sort);
}

/* Nothing goes aside while something waits that comes first, nor with TLS. */
TEST(test_aside_waits)
{
    uint8_t frame[WIRE_HEAD_BYTES + SMALL_MOST];
    size_t size = make_small(ASIDE, 24, frame);
    for (int tls = 0; tls < 2; tls++) {
        OWNED(world) w = world_make();
        open_whole(w, PAIR_TCP, tls == 1);
        assert_true(send_small(&w->ends[0], 24));
        assert_int_equal(channel_send_aside(w->ends[0].channel, frame, size), 0);
        await_all(w);
        assert_true(send_load(&w->ends[0], w->source, 0, LONGEST, 0));
        assert_int_equal(channel_send_aside(w->ends[0].channel, frame, size), 0);
        turn(w);
        await_all(w);
        settle(w);
        assert_int_equal(channel_send_aside(w->ends[0].channel, frame, size), tls == 1 ? 0 : size);
        settle(w);
        assert_int_equal(w->ends[1].aside, tls == 1 ? 0 : 1);
    }
}

/* A load under way is made the channel's own; those behind it are dropped. */
TEST(test_drop)
{
    OWNED(world) w = world_make();
    uint8_t *source = checked_malloc(LONGEST);
    memcpy(source, w->source, LONGEST);
    int fd = open_one(w);
    end *self = &w->ends[0];
    turn(w);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(send_load(self, source, 0, LONGEST, i / 3));
    settle(w);
    assert_int_equal(channel_loads(self->channel), 4);
    assert_true(channel_drop(self->channel, 0));
    assert_int_equal(channel_loads(self->channel), 2);
    assert_int_equal(self->released, 2);
    assert_true(channel_detach(self->channel, 0));
    assert_false(channel_drop(self->channel, 0));
    assert_int_equal(self->released, 3);
    assert_false(channel_drop(self->channel, 1));
    assert_int_equal(self->released, 4);
    memset(source, 0xee, LONGEST);
    size_t got = 0;
    uint8_t *bytes = w->ends[1].place;
    uint8_t head[WIRE_HEAD_BYTES + FIXED];
    assert_int_equal(recv(fd, head, sizeof(head), 0), sizeof(head));
    while (got < LONGEST) {
        ssize_t some = recv(fd, bytes + got, LONGEST - got, 0);
        if (some > 0)
            got += (size_t)some;
        turn(w);
    }
    assert_memory_equal(bytes, w->source, LONGEST);
    settle(w);
    assert_int_equal(recv(fd, head, 1, 0), -1);
    free(source);
    close(fd);
}

TEST(test_stuck)
{
    OWNED(world) w = world_make();
    int fd = open_one(w);
    end *self = &w->ends[0];
    turn(w);
    uint64_t most = 10000;
    while (most > 0 && send_small(self, SMALL_MOST))
        most--;
    assert_true(most > 0);
    assert_false(self->has_ended);
    assert_false(send_small(self, 24));
    settle(w);
    assert_true(self->has_ended);
    assert_int_equal(self->how, CHANNEL_STUCK);
    close(fd);
}

static void close_at(moment when, bool tls, int who)
{
    OWNED(world) w = world_make();
    w->ends[who].closes = when;
    open_both(w, PAIR_TCP, tls);
    for (int i = 0; i < 2; i++) {
        end *self = &w->ends[i];
        for (int k = 0; k < 3 && self->channel != NULL; k++) {
            send_small(self, 24);
            send_load(self, w->source, 0, LONGEST, 0);
            send_small(self, 100);
            send_load(self, w->source, 0, 8, 0);
        }
    }
    if (when == MOMENT_ENDED) {
        await_all(w);
        close_end(&w->ends[1 - who]);
    }
    while (w->ends[who].channel != NULL)
        uv_run(&w->loop, UV_RUN_ONCE);
    settle(w);
}

TEST(test_close_anywhere)
{
    for (moment when = MOMENT_NEVER + 1; when < MOMENTS; when++)
        for (int tls = 0; tls < 2; tls++)
            for (int who = 0; who < 2; who++)
                close_at(when, tls == 1, who);
}

static void expect_end(const uint8_t *bytes, size_t size, channel_end how, const char *words)
{
    OWNED(world) w = world_make();
    int fd = open_one(w);
    const end *self = &w->ends[0];
    put(fd, bytes, size);
    close(fd);
    await_end(w, 0);
    assert_int_equal(self->how, how);
    if (strstr(self->failure, words) == NULL)
        fail_msg("'%s' does not say '%s'", self->failure, words);
}

TEST(test_ends)
{
    uint8_t bytes[256];
    size_t size = make_small(0, 40, bytes);
    expect_end(bytes, size, CHANNEL_PEER_CLOSED, "closed by the peer");
    for (size_t cut = 1; cut < size; cut++)
        expect_end(bytes, cut, CHANNEL_BROKEN, "in the middle of a frame");
    make_prefix(0, 0, 100, bytes);
    expect_end(bytes, WIRE_HEAD_BYTES + FIXED + 9, CHANNEL_BROKEN, "in the middle of a frame");
    make_prefix(0, 0, LONGEST + 4, bytes);
    expect_end(bytes, WIRE_HEAD_BYTES + FIXED, CHANNEL_NOT_FRAMES, "longer");
    memset(bytes, 0xff, sizeof(bytes));
    expect_end(bytes, WIRE_HEAD_BYTES, CHANNEL_NOT_FRAMES, "no frame");
}

/* Without TLS's own end, the stream may have been cut by anyone. */
TEST(test_truncation)
{
    OWNED(world) w = world_make();
    open_both(w, PAIR_TCP, true);
    send_small(&w->ends[1], 24);
    await_all(w);
    close_end(&w->ends[1]);
    await_end(w, 0);
    assert_int_equal(w->ends[0].how, CHANNEL_BROKEN);
    assert_non_null(strstr(w->ends[0].failure, "cut off"));
}

TEST(test_stranger)
{
    OWNED(world) w = world_make();
    int fds[2];
    pair_connect(PAIR_TCP, fds);
    SSL *stranger = pair_connecting(w->contexts.stranger);
    assert_ok(open_end(w, 0, fds[0], pair_accepting(&w->contexts), NULL));
    assert_ok(open_end(w, 1, fds[1], stranger, NULL));
    await_end(w, 0);
    await_end(w, 1);
    assert_false(w->ends[0].opened);
    assert_non_null(strstr(w->ends[0].failure, "certificate"));
    assert_int_equal(w->ends[1].how, CHANNEL_BROKEN);
}

TEST(test_refused)
{
    OWNED(world) w = world_make();
    const struct sockaddr_in nobody = {
        .sin_family = AF_INET, .sin_port = htons(1), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    connect(fd, (const struct sockaddr *)&nobody, sizeof(nobody));
    assert_ok(open_end(w, 1, fd, NULL, NULL));
    await_end(w, 1);
    assert_false(w->ends[1].opened);
    assert_non_null(strstr(w->ends[1].failure, "refused"));
}

TEST(test_gentle)
{
    for (int tls = 0; tls < 2; tls++) {
        OWNED(world) w = world_make();
        open_both(w, PAIR_TCP, tls == 1);
        while (!w->ends[0].opened)
            turn(w);
        assert_true(send_small(&w->ends[0], 24));
        assert_true(send_load(&w->ends[0], w->source, 0, LONGEST, 0));
        /* The peer's bytes that nobody reads must not make the kernel cut the connection. */
        assert_true(send_small(&w->ends[1], 24));
        turn(w);
        assert_true(send_small(&w->ends[0], 24));
        close_gently(&w->ends[0], (uint64_t)GENTLE_MS * 1000000);
        await_end(w, 1);
        assert_int_equal(w->ends[1].how, CHANNEL_PEER_CLOSED);
        assert_int_equal(w->ends[1].small, 2);
    }
}

/* The process stands still while it takes its leave, for longer than that may last. */
TEST(test_gentle_when_held_up)
{
    for (int tls = 0; tls < 2; tls++) {
        OWNED(world) w = world_make();
        open_whole(w, PAIR_TCP, tls == 1);
        assert_true(send_small(&w->ends[0], 24));
        usleep(20000);
        close_gently(&w->ends[0], 10 * 1000000);
        usleep(20000);
        await_end(w, 1);
        assert_int_equal(w->ends[1].small, 1);
    }
}

/* Nobody reads at the other end: it is over all the same. */
TEST(test_gentle_ends)
{
    world *w = world_make();
    int fd = open_one(w);
    turn(w);
    assert_true(send_load(&w->ends[0], w->source, 0, LONGEST, 0));
    turn(w);
    close_gently(&w->ends[0], 20 * 1000000);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    world_free(w);
    close(fd);
}

static bool leave_on_frame(void *user, const wire_head *head, const uint8_t *body)
{
    end *self = user;
    assert_true(send_small(self, 24));
    close_gently(self, (uint64_t)LIMIT_MS * 1000000);
    return false;
}

static channel_verdict wait_on_begin(void *user, const wire_head *head, const uint8_t *fixed,
                                     size_t bytes, void **place)
{
    end *self = user;
    *place = NULL;
    return self->loads++ == 0 ? CHANNEL_WAIT : CHANNEL_TAKE;
}

static bool on_nothing(void *user, const wire_head *head, const uint8_t *fixed)
{
    return true;
}

/* One channel that leaves when a small frame comes. */
static int open_leaving(world *w)
{
    int fds[2];
    const channel_settings settings = {
        .most_waiting = 1 << 16, .most_length = FIXED + LONGEST, .shared = w->shared};
    const channel_handlers handlers = {
        .user = &w->ends[0],
        .opened = on_opened,
        .frame = leave_on_frame,
        .begin = wait_on_begin,
        .complete = on_nothing,
        .drained = on_drained,
        .ended = on_ended,
    };
    pair_connect(PAIR_TCP, fds);
    assert_ok(channel_open(&w->loop, fds[0], NULL, false, &settings, &handlers, NULL,
                           &w->ends[0].channel));
    return fds[1];
}

/* It is over as soon as the peer's stream is, and not only when the time is. */
TEST(test_gentle_from_within)
{
    OWNED(world) w = world_make();
    int fd = open_leaving(w);
    uint8_t frame[64];
    put(fd, frame, make_small(0, 24, frame));
    while (w->ends[0].channel != NULL)
        turn(w);
    settle(w);
    close(fd);
    uv_run(&w->loop, UV_RUN_DEFAULT); /* would take as long as world_make allows */
}

/* It leaves over what waited, and the peer is gone by then: no handler hears of that. */
TEST(test_gentle_when_resumed)
{
    OWNED(world) w = world_make();
    int fd = open_leaving(w);
    uint8_t frame[2 * WIRE_HEAD_BYTES + FIXED + 4 + 64] = {0};
    make_prefix(0, 0, 4, frame);
    size_t size = WIRE_HEAD_BYTES + FIXED + 4;
    size += make_small(0, 24, frame + size);
    put(fd, frame, size);
    while (w->ends[0].loads == 0)
        uv_run(&w->loop, UV_RUN_ONCE);
    settle(w);
    assert_int_equal(w->ends[0].loads, 1);
    const struct linger at_once = {.l_onoff = 1};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    close(fd);
    channel_resume(w->ends[0].channel);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_null(w->ends[0].channel);
}

/* Whether a small and a large frame get out and one comes in. */
static int use_channel(void *user, const tarry_allocator *allocator)
{
    world *w = world_make();
    int fds[2];
    pair_connect(PAIR_SOCKETPAIR, fds);
    end *self = &w->ends[0];
    int error = open_end(w, 0, fds[0], NULL, allocator);
    if (error == TARRY_OK) {
        uint8_t frame[100];
        size_t size = make_small(0, 40, frame);
        put(fds[1], frame, size - 1);
        turn(w);
        settle(w);
        put(fds[1], frame + size - 1, 1);
        settle(w);
        bool sent =
            !self->has_ended && send_small(self, 24) && send_load(self, w->source, 0, LONGEST, 1);
        settle(w);
        sent = sent && channel_detach(self->channel, 1);
        settle(w);
        assert_int_equal(self->has_ended, !sent);
        if (self->has_ended)
            assert_string_equal(self->failure, "out of memory");
        error = sent ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
    } else {
        self->channel = NULL;
    }
    close(fds[1]);
    world_free(w);
    return error;
}

TEST(test_allocation)
{
    assert_true(fail_each_allocation(use_channel, NULL) >= 5);
}
