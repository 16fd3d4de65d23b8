/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A runtime of one's own, from installed headers alone: workers are child processes, and frames
 * travel over a pair of sockets each. Sums ten rounds; one child is killed on the way.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tarry/tarry.h>

enum { WORKERS = 4, DIMENSION = 1000, ROUNDS = 10, DEADLY_ROUND = 3, FRAME = 1024 };

/* In front of each frame; count float32 numbers follow it. */
typedef struct head {
    uint32_t size, count;
} head;

/* Room for what comes in. */
typedef struct room {
    uint8_t frame[FRAME];
    float numbers[DIMENSION];
} room;

typedef struct pipes {
    int fd[WORKERS]; /* -1: its worker is gone */
    pid_t child[WORKERS];
    int wake[2];
    room room;
} pipes;

static bool move_all(int fd, void *bytes, size_t size, bool out)
{
    for (size_t done = 0; done < size;) {
        uint8_t *at = (uint8_t *)bytes + done;
        ssize_t moved = out ? write(fd, at, size - done) : read(fd, at, size - done);
        if (moved == 0 || (moved < 0 && errno != EINTR))
            return false;
        done += moved > 0 ? (size_t)moved : 0;
    }
    return true;
}

static int send_frame(int fd, const void *frame, size_t size, const float *numbers, size_t count)
{
    head first = {(uint32_t)size, (uint32_t)count};
    bool sent = move_all(fd, &first, sizeof(first), true) &&
                move_all(fd, (void *)frame, size, true) &&
                move_all(fd, (void *)numbers, count * sizeof(float), true);
    return sent ? 0 : -1;
}

static bool receive_frame(int fd, room *in, head *first)
{
    return move_all(fd, first, sizeof(*first), false) && first->size <= FRAME &&
           first->count <= DIMENSION && move_all(fd, in->frame, first->size, false) &&
           move_all(fd, in->numbers, first->count * sizeof(float), false);
}

/* The gradient of chunk c is c + 1 times the parameters. */
static int compute(void *user, const tarry_task *task)
{
    (void)user;
    for (size_t i = 0; i < task->dimension && !tarry_compute_cancelled(task); i++)
        task->gradient[i] = task->parameters[i] * (float)(task->chunk + 1);
    return 0;
}

static void send_up(void *user, const void *frame, size_t size, const float *numbers, size_t count)
{
    send_frame(*(int *)user, frame, size, numbers, count); /* an end is found by reading */
}

static int work(const tarry_plan *plan, const tarry_server_settings *server, uint32_t id, int fd)
{
    tarry_worker_host_settings settings;
    tarry_worker_host_settings_init(&settings);
    settings.worker = id;
    settings.parameters = settings.dimension = DIMENSION;
    settings.server = *server;
    settings.compute = compute;
    settings.send = send_up;
    settings.user = &fd;
    tarry_worker_host *worker;
    if (tarry_worker_host_create(plan, &settings, NULL, &worker, NULL) != TARRY_OK)
        return 1;
    room in;
    head first;
    while (receive_frame(fd, &in, &first))
        if (tarry_worker_host_deliver(worker, in.frame, first.size, in.numbers, first.count) != 0)
            break;
    tarry_worker_host_free(worker);
    return 0;
}

static int send_down(void *user, uint32_t worker, const void *frame, size_t size,
                     const float *numbers, size_t count)
{
    const pipes *own = user;
    return send_frame(own->fd[worker], frame, size, numbers, count);
}

static int milliseconds_until(uint64_t until_ns)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    uint64_t ms = until_ns <= now_ns ? 0 : (until_ns - now_ns) / 1000000 + 1;
    return ms > 1000000 ? -1 : (int)ms;
}

static void receive(void *user, tarry_runtime *runtime, uint64_t until_ns)
{
    pipes *own = user;
    struct pollfd ready[WORKERS + 1] = {[WORKERS] = {.fd = own->wake[0], .events = POLLIN}};
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        ready[worker] = (struct pollfd){.fd = own->fd[worker], .events = POLLIN};
    if (poll(ready, WORKERS + 1, milliseconds_until(until_ns)) <= 0)
        return;
    char woken[16];
    if (ready[WORKERS].revents != 0 && read(own->wake[0], woken, sizeof(woken)) < 0)
        return;
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        head first = {0};
        if (ready[worker].revents == 0)
            continue;
        if (!receive_frame(own->fd[worker], &own->room, &first) ||
            tarry_host_deliver(runtime, worker, own->room.frame, first.size, own->room.numbers,
                               first.count) != TARRY_OK) {
            close(own->fd[worker]);
            own->fd[worker] = -1;
            tarry_host_lose(runtime, worker);
        }
    }
}

static void wake(void *user)
{
    const pipes *own = user;
    if (write(own->wake[1], "", 1) < 0)
        return; /* it is full: a wake is on its way */
}

static void end(void *user, bool finished)
{
    (void)finished;
    pipes *own = user;
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        if (own->fd[worker] >= 0)
            close(own->fd[worker]);
        waitpid(own->child[worker], NULL, 0);
    }
    close(own->wake[0]);
    close(own->wake[1]);
}

/* Whether the longest frame to any worker has room. */
static bool fits(const tarry_plan *plan, const tarry_server_settings *server)
{
    bool good = true;
    for (uint32_t worker = 0; worker < WORKERS && good; worker++) {
        tarry_codec *codec;
        if (tarry_codec_create(plan, worker, DIMENSION, server->stripe_length, NULL, &codec, NULL))
            return false;
        good = tarry_codec_most(codec) <= FRAME;
        tarry_codec_free(codec);
    }
    return good;
}

static void start(pipes *own, const tarry_plan *plan, const tarry_server_settings *server)
{
    signal(SIGPIPE, SIG_IGN);
    if (!fits(plan, server) || pipe(own->wake) != 0 ||
        fcntl(own->wake[1], F_SETFL, O_NONBLOCK) != 0)
        exit(1);
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || (own->child[worker] = fork()) < 0)
            exit(1);
        if (own->child[worker] == 0) {
            for (uint32_t other = 0; other < worker; other++)
                close(own->fd[other]);
            close(ends[0]);
            _exit(work(plan, server, worker, ends[1]));
        }
        close(ends[1]);
        own->fd[worker] = ends[0];
    }
}

static int fail(const tarry_diagnostic *why)
{
    fprintf(stderr, "%s\n", why->text);
    return 1;
}

int main(void)
{
    tarry_diagnostic why = {{0}};
    pipes own;
    tarry_plan_settings wanted;
    tarry_plan_settings_init(&wanted);
    wanted.workers = WORKERS;
    tarry_plan *plan;
    if (tarry_plan_create(&wanted, NULL, &plan, &why) != TARRY_OK)
        return fail(&why);
    tarry_host_settings settings;
    tarry_host_settings_init(&settings);
    settings.parameters = settings.dimension = DIMENSION;
    settings.transport = (tarry_transport){
        .user = &own, .send = send_down, .receive = receive, .wake = wake, .end = end};
    start(&own, plan, &settings.server); /* before there are threads */
    tarry_runtime *runtime;
    if (tarry_host_create(plan, &settings, NULL, &runtime, &why) != TARRY_OK)
        return fail(&why);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        tarry_host_join(runtime, worker);

    float parameters[DIMENSION], sum[DIMENSION];
    double worst = 0;
    for (int round = 0; round < ROUNDS; round++) {
        tarry_round_result result;
        if (round == DEADLY_ROUND && kill(own.child[1], SIGKILL) == 0)
            waitpid(own.child[1], NULL, 0);
        for (int i = 0; i < DIMENSION; i++)
            parameters[i] = (float)(i + round);
        if (tarry_runtime_round(runtime, parameters, sum, &result, &why) != TARRY_OK)
            return fail(&why);
        for (int i = 0; i < DIMENSION; i++) /* 1 + 2 + ... + 8 */
            worst = fmax(worst, fabs(sum[i] - 36.0 * parameters[i]));
        printf("round %d: exact %d, %u workers heard\n", round, result.exact, result.workers_heard);
    }
    printf("largest error %g\n", worst);
    bool lost = !tarry_runtime_worker(runtime, 1).present;
    tarry_runtime_free(runtime, true);
    tarry_plan_free(plan);
    return worst < 0.1 && lost ? 0 : 1;
}
