/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control connections behind the wire. The bytes choose what a few strangers send, among it frames
 * as a peer would send them next, and when the owner accepts, takes, says and ends. Nothing crashes
 * or leaks, messages arrive whole and in their order, and a stranger that said anything else is not
 * heard any more.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include <tarry/control.h>

#include "fuzz_input.h"
#include "protocol/wire/wire_bodies.h"

enum {
    VISITORS = 4,
    TURNS = 6,   /* of the loop after each step: what came over loopback is dealt with */
    MOST = 3000, /* bytes of a message here */
    MOST_WAITING = 8000,
};

typedef struct visitor {
    int fd;        /* -1: none */
    bool greeted;  /* it has said HELLO, */
    bool honest;   /* and nothing that makes no sense */
    uint64_t peer; /* by which the owner knows it; 0: not yet */
    uint32_t said, heard;
    uint16_t port;
} visitor;

typedef struct run {
    tarry_control *control;
    struct sockaddr_in at;
    visitor visitors[VISITORS];
} run;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*body)(void *),
                          void *argument);
int __wrap_pthread_join(pthread_t thread, void **result);
int __real_uv_run(uv_loop_t *loop, uv_run_mode mode);
int __wrap_uv_run(uv_loop_t *loop, uv_run_mode mode);

/* The loop's turns are taken in this thread. */
static void *(*loop_body)(void *);
static void *loop_argument;
static uv_run_mode loop_mode;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*body)(void *),
                          void *argument)
{
    (void)how;
    *thread = pthread_self();
    loop_body = body;
    loop_argument = argument;
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
    (void)thread, (void)result;
    loop_mode = UV_RUN_DEFAULT;
    loop_body(loop_argument);
    return 0;
}

int __wrap_uv_run(uv_loop_t *loop, uv_run_mode mode)
{
    (void)mode;
    return __real_uv_run(loop, loop_mode);
}

static void turn(void)
{
    loop_mode = UV_RUN_NOWAIT;
    for (int i = 0; i < TURNS; i++)
        loop_body(loop_argument);
}

/* ---- what strangers do ---- */

static void hang_up(visitor *its)
{
    const struct linger hard = {.l_onoff = 1};
    if (its->fd >= 0) {
        setsockopt(its->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
        close(its->fd);
    }
    *its = (visitor){.fd = -1};
}

static void call(const run *all, visitor *its)
{
    struct sockaddr_in own;
    socklen_t size = sizeof(own);
    hang_up(its);
    its->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    require(its->fd >= 0);
    require(connect(its->fd, (const struct sockaddr *)&all->at, sizeof(all->at)) == 0 ||
            errno == EINPROGRESS);
    require(getsockname(its->fd, (struct sockaddr *)&own, &size) == 0);
    its->port = ntohs(own.sin_port);
    its->honest = true;
}

/* What is sent in part, or not at all, is nothing that an honest side says. */
static void send_all(visitor *its, const uint8_t *bytes, size_t size)
{
    if (its->fd >= 0 && send(its->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)size)
        hang_up(its);
}

static void greet(visitor *its, input *in)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES], how = take(in);
    const wire_hello hello = {
        .oldest = (uint16_t)(WIRE_VERSION + (how >= 0xf0)),
        .newest = (uint16_t)(WIRE_VERSION + (how >= 0xf0)),
        .role = how % 8 == 0 ? WIRE_ROLE_WORKER : WIRE_ROLE_CONTROL,
        .worker = WIRE_ANY_WORKER,
    };
    its->honest = its->honest && how < 0xf0 && how % 8 != 0 && !its->greeted;
    its->greeted = true;
    send_all(its, frame, wire_encode(WIRE_HELLO, &hello, frame));
}

static void say(visitor *its, input *in)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES + MOST];
    const wire_say what = {.kind = its->said,
                           .count = 1 + (take(in) | (size_t)take(in) << 8) % MOST};
    size_t size = wire_encode(WIRE_SAY, &what, frame);
    memset(frame + size, (int)(its->said & 0xff), what.count);
    its->honest = its->honest && its->greeted;
    its->said++;
    send_all(its, frame, size + what.count);
}

static void say_anything(visitor *its, input *in)
{
    uint8_t bytes[16];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = take(in);
    its->honest = false;
    send_all(its, bytes, sizeof(bytes));
}

/* ---- what the owner does ---- */

static void accept_one(run *all)
{
    tarry_control_arrival arrival;
    tarry_diagnostic why;
    if (tarry_control_accept(all->control, 0, &arrival, &why) != TARRY_OK || arrival.peer == 0)
        return;
    const char *port = strrchr(arrival.where, ':');
    require(port != NULL);
    for (int i = 0; i < VISITORS; i++)
        if (all->visitors[i].fd >= 0 && all->visitors[i].port == atoi(port + 1)) {
            require(all->visitors[i].greeted);
            all->visitors[i].peer = arrival.peer;
            return;
        }
    tarry_control_end(all->control, arrival.peer); /* it has hung up */
}

static void hear(const run *all, visitor *its)
{
    tarry_control_message came;
    tarry_diagnostic why;
    if (its->peer == 0)
        return;
    int error = tarry_control_take(all->control, its->peer, 0, &came, &why);
    require(error == TARRY_OK || error == TARRY_ERROR_STATE || error == TARRY_ERROR_SYSTEM);
    require(error != TARRY_ERROR_SYSTEM || !its->honest);
    if (error != TARRY_OK)
        return;
    require(came.size >= 1 && came.size <= TARRY_CONTROL_MESSAGE_MOST);
    const uint8_t *bytes = came.bytes;
    for (size_t i = 0; i < came.size && its->honest; i++)
        require(bytes[i] == (its->heard & 0xff));
    require(!its->honest || came.kind == its->heard);
    its->heard++;
    tarry_control_release(all->control, &came);
}

static void answer(const run *all, const visitor *its, input *in)
{
    static const uint8_t zeros[MOST];
    tarry_diagnostic why;
    if (its->peer != 0)
        tarry_control_say(all->control, its->peer, 1, zeros, 1 + take(in) * 10U, 0, &why);
}

static void end(const run *all, visitor *its)
{
    if (its->peer == 0)
        return;
    tarry_control_end(all->control, its->peer);
    hang_up(its);
}

static void step(run *all, input *in)
{
    uint8_t what = take(in);
    visitor *its = &all->visitors[what / 16 % VISITORS];
    switch (what % 16) {
    case 0:
        call(all, its);
        break;
    case 1:
        hang_up(its);
        break;
    case 2:
        call(all, its);
        greet(its, in);
        break;
    case 3:
        greet(its, in);
        break;
    case 4:
    case 5:
    case 6:
        say(its, in);
        break;
    case 7:
        say_anything(its, in);
        break;
    case 8:
        end(all, its);
        break;
    case 9:
        answer(all, its, in);
        break;
    case 10:
    case 11:
        accept_one(all);
        break;
    default:
        hear(all, its);
        break;
    }
    turn();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    run all = {.at = {.sin_family = AF_INET}};
    tarry_control_settings settings;
    tarry_diagnostic why;
    tarry_control_settings_init(&settings);
    settings.listen = "127.0.0.1:0";
    settings.security.insecure = true;
    settings.most_waiting = MOST_WAITING;
    require(tarry_control_create(&settings, NULL, &all.control, &why) == TARRY_OK);
    const char *port = strrchr(tarry_control_address(all.control), ':');
    all.at.sin_port = htons((uint16_t)atoi(port + 1));
    all.at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < VISITORS; i++)
        all.visitors[i].fd = -1;
    for (int i = 0; i < 64 && in.left > 0; i++)
        step(&all, &in);
    for (int i = 0; i < VISITORS; i++)
        hang_up(&all.visitors[i]);
    tarry_control_free(all.control);
    return 0;
}
