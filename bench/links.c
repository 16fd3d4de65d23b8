/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A switch between network namespaces whose links have a rate and a latency, where the kernel has
 * no netem: `tarry-links BYTES_PER_SECOND LATENCY_US NAMESPACE...`.
 *
 * In each namespace it makes a device `tarry`, and passes on what is sent to 10.78.0.N (N from 1,
 * in the order of the namespaces). A packet leaves through its sender's card, is on its way for the
 * latency, and comes in through its receiver's card, each at the rate. A card that is busy for more
 * than a millisecond is not read from, so that packets wait where they were sent; at a receiver's
 * card they wait in 4 MB of buffer, and are dropped beyond that. It says `ready` once all devices
 * are there, and ends with its standard input.
 */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <linux/if.h>
#include <linux/if_tun.h>

enum {
    LINKS_MOST = 64,
    PACKET_MOST = 9216,
    AHEAD_NS = 1000000, /* of a sender's card */
    BUFFER_BYTES = 4 << 20,
    WAITING_MOST = 1 << 17, /* packets */
    HEAD_BYTES = 20,        /* of IPv4 */
    LAST_OF_TARGET = 19,
    NS_PER_S = 1000000000,
    NS_PER_US = 1000,
};

typedef struct packet {
    uint64_t due_ns;
    uint32_t size, to;
    bool comes_in; /* through the receiver's card: then it is there */
    uint8_t *bytes;
} packet;

static struct {
    int fd[LINKS_MOST];
    uint64_t out_ns[LINKS_MOST], in_ns[LINKS_MOST]; /* until when each card is busy */
    uint32_t count;
    double rate;
    uint64_t latency_ns;
    packet *heap; /* by due_ns */
    size_t waiting;
} its;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t later(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

static uint64_t carrying_ns(uint32_t size)
{
    return (uint64_t)(size / its.rate * NS_PER_S);
}

/* ---- the heap ---- */

static void push(packet of)
{
    size_t at = its.waiting++;
    for (; at > 0 && its.heap[(at - 1) / 2].due_ns > of.due_ns; at = (at - 1) / 2)
        its.heap[at] = its.heap[(at - 1) / 2];
    its.heap[at] = of;
}

static packet pop(void)
{
    const packet first = its.heap[0], last = its.heap[--its.waiting];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < its.waiting; at = child) {
        if (child + 1 < its.waiting && its.heap[child + 1].due_ns < its.heap[child].due_ns)
            child++;
        if (its.heap[child].due_ns >= last.due_ns)
            break;
        its.heap[at] = its.heap[child];
    }
    its.heap[at] = last;
    return first;
}

/* ---- packets ---- */

static void make_device(uint32_t index, const char *name)
{
    char path[128];
    struct ifreq wanted = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    snprintf(path, sizeof(path), "/run/netns/%s", name);
    snprintf(wanted.ifr_name, sizeof(wanted.ifr_name), "tarry");
    int home = open("/proc/self/ns/net", O_RDONLY), there = open(path, O_RDONLY);
    if (home < 0 || there < 0 || setns(there, CLONE_NEWNET) != 0)
        die(path);
    its.fd[index] = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    if (its.fd[index] < 0 || ioctl(its.fd[index], TUNSETIFF, &wanted) != 0)
        die("/dev/net/tun");
    if (setns(home, CLONE_NEWNET) != 0)
        die("setns");
    close(there);
    close(home);
}

/* Takes what is sent until the card is busy for a while. */
static void take_from(uint32_t from)
{
    uint8_t bytes[PACKET_MOST];
    uint64_t now = now_ns();
    while (its.out_ns[from] < now + AHEAD_NS && its.waiting < WAITING_MOST) {
        ssize_t size = read(its.fd[from], bytes, sizeof(bytes));
        if (size <= 0)
            return;
        uint32_t to = size >= HEAD_BYTES ? bytes[LAST_OF_TARGET] - 1U : its.count;
        if (bytes[0] >> 4 != 4 || to >= its.count)
            continue; /* no IPv4, or for nobody */
        packet sent = {.size = (uint32_t)size, .to = to, .bytes = malloc((size_t)size)};
        if (sent.bytes == NULL)
            die("malloc");
        memcpy(sent.bytes, bytes, (size_t)size);
        its.out_ns[from] = later(its.out_ns[from], now) + carrying_ns(sent.size);
        sent.due_ns = its.out_ns[from] + its.latency_ns;
        push(sent);
    }
}

static void go_on(packet of)
{
    uint64_t *busy_ns = &its.in_ns[of.to];
    if (of.comes_in) {
        /* A device that is down, or full: as a packet that is lost. */
        ssize_t written = write(its.fd[of.to], of.bytes, of.size);
        (void)written;
        free(of.bytes);
        return;
    }
    uint64_t begins = later(*busy_ns, of.due_ns);
    if ((double)(begins - of.due_ns) / NS_PER_S * its.rate > BUFFER_BYTES) {
        free(of.bytes);
        return;
    }
    *busy_ns = of.due_ns = begins + carrying_ns(of.size);
    of.comes_in = true;
    push(of);
}

static uint64_t wake_ns(uint64_t now, struct pollfd *polled)
{
    uint64_t wake = its.waiting > 0 ? its.heap[0].due_ns : UINT64_MAX;
    for (uint32_t i = 0; i < its.count; i++) {
        bool takes = its.out_ns[i] < now + AHEAD_NS && its.waiting < WAITING_MOST;
        polled[i] = (struct pollfd){.fd = its.fd[i], .events = takes ? POLLIN : 0};
        if (!takes && its.out_ns[i] - AHEAD_NS < wake)
            wake = its.out_ns[i] - AHEAD_NS;
    }
    return wake;
}

int main(int count, char **arguments)
{
    struct pollfd polled[LINKS_MOST + 1];
    its.rate = count > 1 ? atof(arguments[1]) : 0;
    if (count < 4 || count - 3 > LINKS_MOST || !(its.rate > 0)) {
        fprintf(stderr, "usage: %s BYTES_PER_SECOND LATENCY_US NAMESPACE...\n", arguments[0]);
        return 2;
    }
    its.latency_ns = strtoull(arguments[2], NULL, 10) * NS_PER_US;
    its.count = (uint32_t)count - 3;
    its.heap = calloc(2 * WAITING_MOST, sizeof(*its.heap));
    if (its.heap == NULL)
        die("calloc");
    for (uint32_t i = 0; i < its.count; i++)
        make_device(i, arguments[3 + i]);
    puts("ready");
    fflush(stdout);
    for (;;) {
        uint64_t now = now_ns(), wake = wake_ns(now, polled), wait = wake > now ? wake - now : 0;
        struct timespec most = {.tv_sec = (time_t)(wait / NS_PER_S),
                                .tv_nsec = (long)(wait % NS_PER_S)};
        polled[its.count] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
        ppoll(polled, its.count + 1, wake == UINT64_MAX ? NULL : &most, NULL);
        if (polled[its.count].revents != 0)
            return 0;
        for (uint32_t i = 0; i < its.count; i++)
            if (polled[i].revents & POLLIN)
                take_from(i);
        for (now = now_ns(); its.waiting > 0 && its.heap[0].due_ns <= now;)
            go_on(pop());
    }
}
