/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A runtime of one's own, from installed headers alone: workers are child processes, and frames
 * travel over a pair of sockets each. Sums ten rounds; one child is slow, and another one dies on
 * the way. With --reproducible, the sums are the same bits as over any other transport.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tarry/tarry.h>

enum { WORKERS = 4, CHUNKS = 8, DIMENSION = 1000, ROUNDS = 10, FRAME = 1024 };
enum { SLOW = 2, MORTAL = 1, DEADLY_ROUND = 3 };

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
    /* What a child does with its end. */
    int (*work)(const tarry_plan *plan, const tarry_server_settings *server, uint32_t id, int fd);
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

/* The gradient of chunk c is the parameters divided by c + 3. */
static float share_of(uint32_t chunk)
{
    return 1 / (float)(chunk + 3);
}

static int compute(void *user, const tarry_task *task)
{
    const struct timespec pause = {.tv_nsec = task->worker == SLOW ? 2000000 : 0};
    (void)user;
    nanosleep(&pause, NULL);
    for (size_t i = 0; i < task->dimension && !tarry_compute_cancelled(task); i++)
        task->gradient[i] = task->parameters[i] * share_of(task->chunk);
    return 0;
}

static bool is_deadly(const tarry_task *task)
{
    return task->worker == MORTAL && task->round >= DEADLY_ROUND;
}

static int compute_or_die(void *user, const tarry_task *task)
{
    if (is_deadly(task))
        kill(getpid(), SIGKILL);
    return compute(user, task);
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
    settings.compute = compute_or_die;
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
            _exit(own->work(plan, server, worker, ends[1]));
        }
        close(ends[1]);
        own->fd[worker] = ends[0];
    }
}

static tarry_plan *make_plan(tarry_diagnostic *why)
{
    tarry_plan_settings wanted;
    tarry_plan_settings_init(&wanted);
    wanted.workers = WORKERS;
    wanted.chunks = CHUNKS;
    tarry_plan *plan;
    return tarry_plan_create(&wanted, NULL, &plan, why) == TARRY_OK ? plan : NULL;
}

static int make_runtime(pipes *own, const tarry_plan *plan, const tarry_server_settings *server,
                        tarry_runtime **runtime, tarry_diagnostic *why)
{
    tarry_host_settings settings;
    tarry_host_settings_init(&settings);
    settings.parameters = settings.dimension = DIMENSION;
    settings.server = *server;
    settings.transport = (tarry_transport){
        .user = own, .send = send_down, .receive = receive, .wake = wake, .end = end};
    int error = tarry_host_create(plan, &settings, NULL, runtime, why);
    for (uint32_t worker = 0; worker < WORKERS && error == TARRY_OK; worker++)
        tarry_host_join(*runtime, worker);
    return error;
}

static int run_round(tarry_runtime *runtime, int round, float sum[DIMENSION], tarry_diagnostic *why)
{
    tarry_round_result result;
    float parameters[DIMENSION];
    for (int i = 0; i < DIMENSION; i++)
        parameters[i] = (float)(i + round);
    int error = tarry_runtime_round(runtime, parameters, sum, &result, why);
    if (error == TARRY_OK)
        printf("round %d: exact %d, %u workers heard\n", round, result.exact, result.workers_heard);
    return error;
}

static double error_of(int round, const float sum[DIMENSION])
{
    double worst = 0, shares = 0;
    for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
        shares += (double)share_of(chunk);
    for (int i = 0; i < DIMENSION; i++)
        worst = fmax(worst, fabs(sum[i] - shares * (i + round)));
    return worst;
}

int main(int count, char **words)
{
    tarry_diagnostic why = {{0}};
    pipes own = {.work = work};
    float sum[DIMENSION];
    double worst = 0;
    tarry_server_settings server;
    tarry_server_settings_init(&server);
    server.reproducible = count > 1 && strcmp(words[1], "--reproducible") == 0;
    tarry_plan *plan = make_plan(&why);
    tarry_runtime *runtime;
    if (plan != NULL)
        start(&own, plan, &server); /* before there are threads */
    bool good = plan != NULL && make_runtime(&own, plan, &server, &runtime, &why) == TARRY_OK;
    for (int round = 0; round < ROUNDS && good; round++) {
        good = run_round(runtime, round, sum, &why) == TARRY_OK;
        worst = good ? fmax(worst, error_of(round, sum)) : worst;
    }
    if (!good) {
        fprintf(stderr, "%s\n", why.text);
        return 1;
    }
    printf("largest error %g\n", worst);
    bool lost = !tarry_runtime_worker(runtime, MORTAL).present;
    tarry_runtime_free(runtime, true);
    tarry_plan_free(plan);
    return worst < 0.01 && lost ? 0 : 1;
}
