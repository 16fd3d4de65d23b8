/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_machine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <setjmp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "fuzz_input.h"

enum { SOCKETS = 16, FIRST_FD = 1 << 20 };

#define NS_PER_SECOND UINT64_C(1000000000)

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t size);
int __wrap_getpeername(int fd, struct sockaddr *name, socklen_t *size);
ssize_t __wrap_readv(int fd, const struct iovec *parts, int count);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
int __wrap_shutdown(int fd, int how);
int __real_close(int fd);
int __wrap_close(int fd);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __real_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result);
int __real_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock);
int __real_pthread_cond_signal(pthread_cond_t *condition);
int __wrap_pthread_cond_signal(pthread_cond_t *condition);
int __real_pthread_cond_broadcast(pthread_cond_t *condition);
int __wrap_pthread_cond_broadcast(pthread_cond_t *condition);

/* ---- the clock ---- */

static uint64_t time_ns;

uint64_t machine_now(void)
{
    return time_ns;
}

void machine_set_time(uint64_t now_ns)
{
    require(now_ns >= time_ns);
    time_ns = now_ns;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    *now = (struct timespec){
        .tv_sec = (time_t)(time_ns / NS_PER_SECOND),
        .tv_nsec = (long)(time_ns % NS_PER_SECOND),
    };
    return 0;
}

/* ---- sockets ---- */

typedef struct connection {
    bool is_unix;
    bool there;   /* the server has it */
    bool visited; /* so does the other end */
    bool broken;
    bool in_over, out_over; /* nothing more is written */
    uint8_t in[MACHINE_ROOM_IN], out[MACHINE_ROOM_OUT];
    size_t in_size, out_size;
} connection;

static connection connections[SOCKETS];

static bool is_ours(int fd)
{
    return fd >= FIRST_FD && fd < FIRST_FD + SOCKETS;
}

static connection *find(int fd)
{
    require(is_ours(fd));
    return &connections[fd - FIRST_FD];
}

int machine_connect(bool is_unix)
{
    for (int i = 0; i < SOCKETS; i++) {
        connection *its = &connections[i];
        if (its->there || its->visited)
            continue;
        its->is_unix = is_unix;
        its->there = its->visited = true;
        its->broken = its->in_over = its->out_over = false;
        its->in_size = its->out_size = 0;
        return FIRST_FD + i;
    }
    return -1;
}

static size_t append(uint8_t *bytes, size_t *size, size_t room, const void *more, size_t count)
{
    size_t taken = count < room - *size ? count : room - *size;
    if (taken > 0)
        memcpy(bytes + *size, more, taken);
    *size += taken;
    return taken;
}

static size_t take_first(uint8_t *bytes, size_t *size, void *to, size_t room)
{
    size_t taken = room < *size ? room : *size;
    if (taken == 0)
        return 0;
    memcpy(to, bytes, taken);
    *size -= taken;
    memmove(bytes, bytes + taken, *size);
    return taken;
}

size_t machine_send(int fd, const uint8_t *bytes, size_t size)
{
    connection *its = find(fd);
    require(its->visited);
    if (!its->there || its->in_over)
        return 0;
    return append(its->in, &its->in_size, sizeof(its->in), bytes, size);
}

size_t machine_receive(int fd, uint8_t *bytes, size_t room, bool *over)
{
    connection *its = find(fd);
    require(its->visited);
    size_t taken = take_first(its->out, &its->out_size, bytes, room);
    *over = its->out_size == 0 && (its->out_over || !its->there);
    return taken;
}

void machine_end_sending(int fd)
{
    find(fd)->in_over = true;
}

void machine_leave(int fd, bool broken)
{
    connection *its = find(fd);
    its->visited = false;
    its->in_over = true;
    its->broken = broken;
}

size_t machine_count_left(void)
{
    size_t count = 0;
    for (size_t i = 0; i < SOCKETS; i++)
        count += connections[i].there && !connections[i].visited;
    return count;
}

int machine_socket_events(int fd)
{
    if (!is_ours(fd))
        return 0; /* a listening socket to which nobody comes */
    const connection *its = find(fd);
    require(its->there);
    return (its->in_size > 0 || its->in_over ? UV_READABLE : 0) |
           (its->out_size < sizeof(its->out) || !its->visited ? UV_WRITABLE : 0);
}

bool machine_socket_is_broken(int fd)
{
    return is_ours(fd) && find(fd)->broken;
}

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size)
{
    const connection *its = find(fd);
    require(its->there);
    if (level == IPPROTO_TCP) { /* how long its packets take is not known */
        require(option == TCP_INFO && !its->is_unix);
        errno = ENOPROTOOPT;
        return -1;
    }
    require(level == SOL_SOCKET);
    int number = 0;
    switch (option) {
    case SO_DOMAIN:
        number = its->is_unix ? AF_UNIX : AF_INET;
        break;
    case SO_ERROR:
        break;
    default:
        require(option == SO_PEERCRED && *size == sizeof(struct ucred));
        memcpy(value, &(struct ucred){.pid = 1, .uid = 1, .gid = 1}, sizeof(struct ucred));
        return 0;
    }
    require(*size == sizeof(number));
    memcpy(value, &number, sizeof(number));
    return 0;
}

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
    (void)level;
    (void)option;
    (void)value;
    (void)size;
    require(find(fd)->there && !find(fd)->is_unix);
    return 0;
}

int __wrap_getpeername(int fd, struct sockaddr *name, socklen_t *size)
{
    const struct sockaddr_in peer = {
        .sin_family = AF_INET,
        .sin_port = htons(1),
        .sin_addr = {htonl(INADDR_LOOPBACK)},
    };
    require(find(fd)->there && *size >= sizeof(peer));
    memcpy(name, &peer, sizeof(peer));
    *size = sizeof(peer);
    return 0;
}

ssize_t __wrap_readv(int fd, const struct iovec *parts, int count)
{
    connection *its = find(fd);
    require(its->there);
    if (its->broken || (its->in_size == 0 && !its->in_over)) {
        errno = its->broken ? ECONNRESET : EAGAIN;
        return -1;
    }
    size_t taken = 0;
    for (int i = 0; i < count; i++)
        taken += take_first(its->in, &its->in_size, parts[i].iov_base, parts[i].iov_len);
    return (ssize_t)taken;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    connection *its = find(fd);
    require(its->there && !its->out_over && (flags & MSG_NOSIGNAL) != 0);
    if (!its->visited || its->out_size == sizeof(its->out)) {
        errno = its->visited ? EAGAIN : EPIPE;
        return -1;
    }
    size_t taken = 0;
    for (size_t i = 0; i < message->msg_iovlen; i++)
        taken += append(its->out, &its->out_size, sizeof(its->out), message->msg_iov[i].iov_base,
                        message->msg_iov[i].iov_len);
    return (ssize_t)taken;
}

int __wrap_shutdown(int fd, int how)
{
    require(find(fd)->there && how == SHUT_WR);
    find(fd)->out_over = true;
    return 0;
}

/* libFuzzer's files go through here, too. */
int __wrap_close(int fd)
{
    if (!is_ours(fd))
        return fd >= FIRST_FD ? 0 : __real_close(fd);
    require(find(fd)->there);
    find(fd)->there = false;
    return 0;
}

/* ---- the thread ---- */

static bool begun; /* the fuzzer's own threads are none of the machine's */
static bool resting, going_on;
static void *(*run_thread)(void *);
static void *thread_argument;
static const pthread_cond_t *awaited; /* NULL: it may go on */
static jmp_buf waiting;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    if (!begun)
        return __real_pthread_create(thread, attributes, run, argument);
    require(run_thread == NULL);
    run_thread = run;
    thread_argument = argument;
    awaited = NULL;
    *thread = 0;
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
    if (!begun)
        return __real_pthread_join(thread, result);
    run_thread = NULL;
    return 0;
}

/* A thread that waits has nothing on its stack that is needed: it can as well begin anew. */
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock)
{
    if (!begun)
        return __real_pthread_cond_wait(condition, lock);
    require(going_on); /* nobody else waits: there is nobody who would end that */
    pthread_mutex_unlock(lock);
    awaited = condition;
    longjmp(waiting, 1);
}

int __wrap_pthread_cond_signal(pthread_cond_t *condition)
{
    if (awaited == condition)
        awaited = NULL;
    return __real_pthread_cond_signal(condition);
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *condition)
{
    if (awaited == condition)
        awaited = NULL;
    return __real_pthread_cond_broadcast(condition);
}

bool machine_thread_is_due(void)
{
    return run_thread != NULL && awaited == NULL && !resting;
}

void machine_run_thread(void)
{
    if (!machine_thread_is_due())
        return;
    going_on = true;
    if (setjmp(waiting) == 0)
        run_thread(thread_argument);
    going_on = false;
}

void machine_rest(bool rests)
{
    resting = rests;
}

void machine_begin(void)
{
    time_ns = NS_PER_SECOND;
    begun = true;
    resting = false;
    require(run_thread == NULL);
}

void machine_end(void)
{
    begun = false;
    for (size_t i = 0; i < SOCKETS; i++)
        require(!connections[i].there && !connections[i].visited);
}
