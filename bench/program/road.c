/* SPDX-License-Identifier: Apache-2.0 */
#include "program/road.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/output/clock.h"
#include "program/line.h"
#include "runtime/clock.h"

enum { PACKETS = 1 << 16, READ_BYTES = 64 << 10, LEAST_QUEUE = 256 << 10 };

/* Bytes that came together. */
typedef struct packet {
    double due; /* when they are there */
    size_t bytes;
} packet;

/* One way. */
typedef struct lane {
    int from, to;
    uint8_t *ring;
    size_t room, begin, held; /* bytes */
    packet packets[PACKETS];
    uint32_t first, count;
    double free;  /* when the last one has passed */
    bool ended;   /* nothing more comes */
    bool blocked; /* the receiver takes no more */
} lane;

static bool may_take(const lane *way)
{
    return !way->ended && way->held + READ_BYTES <= way->room && way->count < PACKETS;
}

/* Of what comes: false if there is nothing. */
static bool take(lane *way, double now, const bench_road *road)
{
    size_t end = (way->begin + way->held) % way->room, most = way->room - end;
    ssize_t got = read(way->from, way->ring + end, most < READ_BYTES ? most : READ_BYTES);
    if (got <= 0) {
        way->ended = got == 0 || errno != EAGAIN;
        return false;
    }
    way->free = (way->free > now ? way->free : now) + (double)got * 8 / road->rate;
    way->packets[(way->first + way->count++) % PACKETS] =
        (packet){way->free + road->round_trip / 2, (size_t)got};
    way->held += (size_t)got;
    return true;
}

/* Of what is there by now. */
static bool give(lane *way, double now)
{
    packet *next = &way->packets[way->first];
    if (way->count == 0 || next->due > now)
        return false;
    size_t most = way->room - way->begin;
    ssize_t sent = send(way->to, way->ring + way->begin, next->bytes < most ? next->bytes : most,
                        MSG_NOSIGNAL);
    way->blocked = sent < 0;
    if (sent < 0) {
        way->ended = way->ended || errno != EAGAIN;
        return false;
    }
    way->begin = (way->begin + (size_t)sent) % way->room;
    way->held -= (size_t)sent;
    next->bytes -= (size_t)sent;
    if (next->bytes == 0) {
        way->first = (way->first + 1) % PACKETS;
        way->count--;
    }
    return true;
}

/* Until one of both has something to do. */
static void rest(lane ways[2], double now)
{
    struct pollfd at[2] = {{.fd = ways[0].from}, {.fd = ways[1].from}};
    double due = now + 1;
    for (int i = 0; i < 2; i++) {
        const lane *way = &ways[i];
        at[i].events |= may_take(way) ? POLLIN : 0;
        at[1 - i].events |= way->count > 0 && way->blocked ? POLLOUT : 0;
        if (way->count > 0 && !way->blocked && way->packets[way->first].due < due)
            due = way->packets[way->first].due;
    }
    struct timespec wait = clock_timespec(due > now ? (uint64_t)((due - now) * 1e9) : 0);
    ppoll(at, 2, &wait, NULL);
}

static void serve(lane ways[2], const bench_road *road)
{
    while (!ways[0].ended && !ways[1].ended) {
        double now = clock_seconds();
        bool moved = false;
        for (int i = 0; i < 2; i++) {
            while (give(&ways[i], now))
                moved = true;
            while (may_take(&ways[i]) && take(&ways[i], now, road))
                moved = true;
        }
        if (!moved)
            rest(ways, now);
    }
}

static bool open_lane(lane *way, int from, int to, const bench_road *road)
{
    double on_way = road->rate / 8 * road->round_trip / 2;
    way->from = from;
    way->to = to;
    way->room = 2 * (size_t)on_way + LEAST_QUEUE;
    way->ring = memory_allocate(NULL, way->room, 1);
    return way->ring != NULL && fcntl(from, F_SETFL, O_NONBLOCK) == 0;
}

int bench_road_run(const bench_road *road, tarry_diagnostic *diagnostic)
{
    bench_line ends[2] = {{.fd = -1}, {.fd = -1}};
    lane *ways = memory_allocate(NULL, 2, sizeof(*ways));
    if (ways == NULL)
        return diagnose_no_memory(diagnostic, "a link");
    int error = bench_line_accept(road->listener, NULL, &ends[0], diagnostic);
    if (error == TARRY_OK)
        error = bench_line_connect(road->leads, NULL, &ends[1], diagnostic);
    for (int i = 0; error == TARRY_OK && i < 2; i++)
        if (!open_lane(&ways[i], ends[i].fd, ends[1 - i].fd, road))
            error = diagnose_no_memory(diagnostic, "a link");
    if (error == TARRY_OK)
        serve(ways, road);
    for (int i = 0; i < 2; i++) {
        bench_line_close(&ends[i]);
        memory_release(NULL, ways[i].ring);
    }
    memory_release(NULL, ways);
    return error;
}
