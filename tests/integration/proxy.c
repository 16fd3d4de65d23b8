/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

enum { MOST = 64, BYTES = 65536 };

typedef struct side {
    int fd;
    uint8_t bytes[BYTES]; /* read from it, to be written to the other one */
    size_t start, end;
} side;

typedef struct pair {
    bool used, cut;
    char seen[64]; /* the server sees it come from there */
    side sides[2];
} pair;

struct proxy {
    pthread_t thread;
    pthread_mutex_t lock;
    int listener;
    int wake[2]; /* a pipe */
    bool ending, muted, refuses;
    bool resets; /* all, once so many more bytes were handed on: */
    uint64_t left;
    uint32_t connections;
    struct sockaddr_in to;
    char address[64];
    pair pairs[MOST];
};

static void write_address(const struct sockaddr_in *where, char text[64])
{
    snprintf(text, 64, "127.0.0.1:%u", (unsigned)ntohs(where->sin_port));
}

static void close_pair(pair *its)
{
    close(its->sides[0].fd);
    close(its->sides[1].fd);
    its->used = false;
}

static void reset_all(proxy *its)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    for (uint32_t i = 0; i < MOST; i++) {
        pair *each = &its->pairs[i];
        for (int which = 0; which < 2 && each->used; which++)
            setsockopt(each->sides[which].fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        if (each->used)
            close_pair(each);
    }
    its->resets = false;
}

static void take(proxy *its)
{
    int fd = accept(its->listener, NULL, NULL);
    if (fd < 0)
        return;
    if (its->refuses) {
        close(fd);
        return;
    }
    int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pair *place = NULL;
    for (uint32_t i = 0; i < MOST && place == NULL; i++)
        if (!its->pairs[i].used)
            place = &its->pairs[i];
    if (place == NULL || other < 0 ||
        connect(other, (struct sockaddr *)&its->to, sizeof(its->to)) != 0) {
        close(other);
        close(fd);
        return;
    }
    memset(place, 0, sizeof(*place));
    struct sockaddr_in from;
    socklen_t size = sizeof(from);
    if (getsockname(other, (struct sockaddr *)&from, &size) == 0)
        write_address(&from, place->seen);
    place->used = true;
    place->sides[0].fd = fd;
    place->sides[1].fd = other;
    its->connections++;
}

/* False: the connection is over. */
static bool move(proxy *its, pair *between, int from, short got, short other_got)
{
    side *in = &between->sides[from], *out = &between->sides[1 - from];
    if (in->start == in->end && (got & (POLLIN | POLLHUP | POLLERR)) != 0) {
        ssize_t size = recv(in->fd, in->bytes, BYTES, MSG_DONTWAIT);
        if (size <= 0)
            return false;
        in->start = 0;
        in->end = (size_t)size;
    }
    if (in->start < in->end && ((other_got & POLLOUT) != 0 || in->start == 0)) {
        ssize_t size =
            send(out->fd, in->bytes + in->start, in->end - in->start, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (size > 0) {
            in->start += (size_t)size;
            its->left -= its->left < (uint64_t)size ? its->left : (uint64_t)size;
        }
    }
    return true;
}

static short wanted(const pair *its, int which)
{
    const side *own = &its->sides[which], *other = &its->sides[1 - which];
    short events = own->start == own->end ? POLLIN : 0;
    return (short)(other->start < other->end ? events | POLLOUT : events);
}

static void *run(void *argument)
{
    proxy *its = argument;
    for (;;) {
        struct pollfd polled[2 + 2 * MOST];
        pair *of[MOST];
        nfds_t count = 0;
        polled[0] = (struct pollfd){its->listener, POLLIN, 0};
        polled[1] = (struct pollfd){its->wake[0], POLLIN, 0};
        pthread_mutex_lock(&its->lock);
        bool ending = its->ending, muted = its->muted;
        for (uint32_t i = 0; i < MOST; i++) {
            pair *each = &its->pairs[i];
            if (each->used && (each->cut || its->refuses || ending))
                close_pair(each);
            if (!each->used)
                continue;
            of[count] = each;
            for (int which = 0; which < 2; which++)
                polled[2 + 2 * count + (nfds_t)which] =
                    (struct pollfd){muted ? -1 : each->sides[which].fd, wanted(each, which), 0};
            count++;
        }
        pthread_mutex_unlock(&its->lock);
        if (ending)
            return NULL;
        poll(polled, 2 + 2 * count, -1);
        pthread_mutex_lock(&its->lock);
        char token;
        if ((polled[1].revents & POLLIN) != 0 && read(its->wake[0], &token, 1) < 0)
            token = 0;
        for (nfds_t i = 0; i < count && !muted; i++) {
            short first = polled[2 + 2 * i].revents, second = polled[3 + 2 * i].revents;
            if (!move(its, of[i], 0, first, second) || !move(its, of[i], 1, second, first))
                close_pair(of[i]);
        }
        if (its->resets && its->left == 0)
            reset_all(its);
        if ((polled[0].revents & POLLIN) != 0)
            take(its);
        pthread_mutex_unlock(&its->lock);
    }
}

proxy *proxy_begin(const char *to)
{
    proxy *its = checked_calloc(1, sizeof(*its));
    char host[64];
    unsigned port;
    assert_int_equal(sscanf(to, "%63[0-9.]:%u", host, &port), 2);
    its->to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    assert_int_equal(inet_pton(AF_INET, host, &its->to.sin_addr), 1);
    struct sockaddr_in own = {.sin_family = AF_INET};
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(own);
    its->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(its->listener >= 0);
    assert_int_equal(bind(its->listener, (struct sockaddr *)&own, size), 0);
    assert_int_equal(listen(its->listener, MOST), 0);
    assert_int_equal(getsockname(its->listener, (struct sockaddr *)&own, &size), 0);
    write_address(&own, its->address);
    assert_int_equal(pipe(its->wake), 0);
    pthread_mutex_init(&its->lock, NULL);
    assert_int_equal(pthread_create(&its->thread, NULL, run, its), 0);
    return its;
}

const char *proxy_address(const proxy *its)
{
    return its->address;
}

static void wake(proxy *its)
{
    assert_int_equal(write(its->wake[1], "", 1), 1);
}

void proxy_cut(proxy *its, uint32_t which)
{
    pthread_mutex_lock(&its->lock);
    uint32_t count = 0;
    for (uint32_t i = 0; i < MOST; i++)
        count += its->pairs[i].used && !its->pairs[i].cut;
    uint32_t at = count > 0 ? which % count : 0;
    for (uint32_t i = 0; i < MOST && count > 0; i++)
        if (its->pairs[i].used && !its->pairs[i].cut && at-- == 0) {
            its->pairs[i].cut = true;
            break;
        }
    pthread_mutex_unlock(&its->lock);
    wake(its);
}

void proxy_reset_after(proxy *its, uint64_t bytes)
{
    pthread_mutex_lock(&its->lock);
    its->resets = true;
    its->left = bytes;
    pthread_mutex_unlock(&its->lock);
    wake(its);
}

void proxy_mute(proxy *its, bool mute)
{
    pthread_mutex_lock(&its->lock);
    its->muted = mute;
    pthread_mutex_unlock(&its->lock);
    wake(its);
}

void proxy_refuse(proxy *its, bool refuse)
{
    pthread_mutex_lock(&its->lock);
    its->refuses = refuse;
    pthread_mutex_unlock(&its->lock);
    wake(its);
}

static pair *find(proxy *its, const char *seen)
{
    for (uint32_t i = 0; i < MOST; i++) {
        pair *each = &its->pairs[i];
        if (each->used && !each->cut && strcmp(each->seen, seen) == 0)
            return each;
    }
    return NULL;
}

bool proxy_cut_as(proxy *its, const char *seen)
{
    pthread_mutex_lock(&its->lock);
    pair *found = find(its, seen);
    if (found != NULL)
        found->cut = true;
    pthread_mutex_unlock(&its->lock);
    if (found != NULL)
        wake(its);
    return found != NULL;
}

bool proxy_holds(proxy *its, const char *seen)
{
    pthread_mutex_lock(&its->lock);
    bool held = find(its, seen) != NULL;
    pthread_mutex_unlock(&its->lock);
    return held;
}

uint32_t proxy_connections(proxy *its)
{
    pthread_mutex_lock(&its->lock);
    uint32_t connections = its->connections;
    pthread_mutex_unlock(&its->lock);
    return connections;
}

void proxy_end(proxy *its)
{
    pthread_mutex_lock(&its->lock);
    its->ending = true;
    pthread_mutex_unlock(&its->lock);
    wake(its);
    pthread_join(its->thread, NULL);
    close(its->listener);
    close(its->wake[0]);
    close(its->wake[1]);
    pthread_mutex_destroy(&its->lock);
    free(its);
}
