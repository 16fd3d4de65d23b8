/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of emulated workers. */
#include "program/emulated/emulated.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "program/emulated/emulated_state.h"
#include "protocol/wire/wire.h"
#include "runtime/tcp/net/address.h"

enum {
    EVENTS_MOST = 512,
    PAUSE_MS = 1, /* between looks at the tally, and attempts to connect */
    LEAST_ROOM = 256,
};

static bool append(emulated_bytes *to, const uint8_t *bytes, size_t size)
{
    if (to->size + size > to->room) {
        size_t room = memory_room(to->room, to->size + size, LEAST_ROOM);
        uint8_t *grown = memory_grow(NULL, to->bytes, to->size, room, 1);
        if (grown == NULL)
            return false;
        to->bytes = grown;
        to->room = room;
    }
    memcpy(to->bytes + to->size, bytes, size);
    to->size += size;
    return true;
}

static void drop(emulated_bytes *which)
{
    memory_release(NULL, which->bytes);
    *which = (emulated_bytes){0};
}

/* ---- the connection ---- */

static void watch(const emulated *all, emulated_worker *its, int how)
{
    struct epoll_event events = {
        .events = EPOLLIN | EPOLLRDHUP | EPOLLET | (its->line.out.size > 0 ? EPOLLOUT : 0),
        .data.ptr = its,
    };
    epoll_ctl(all->poll, how, its->line.fd, &events);
}

static void close_line(emulated_line *line)
{
    if (line->fd >= 0)
        close(line->fd);
    line->fd = -1;
    drop(&line->in);
    drop(&line->out);
}

/* It comes again, unless the server has ended the run. */
static void hang_up(emulated *all, emulated_worker *its)
{
    close_line(&its->line);
    all->left += its->left;
    all->apart += !its->left;
}

/* Sends what waits, as far as it is taken. A connection that is broken is found by reading. */
static void flush(const emulated *all, emulated_worker *its)
{
    emulated_line *line = &its->line;
    ssize_t sent = send(line->fd, line->out.bytes, line->out.size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
        line->out.size -= (size_t)sent;
        memmove(line->out.bytes, line->out.bytes + sent, line->out.size);
    }
    if (line->out.size > 0)
        return;
    drop(&line->out);
    watch(all, its, EPOLL_CTL_MOD);
}

int emulated_send(const emulated *all, emulated_worker *its, const uint8_t *bytes, size_t size)
{
    emulated_line *line = &its->line;
    bool waited = line->out.size > 0;
    ssize_t sent = waited ? 0 : send(line->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    size_t taken = sent > 0 ? (size_t)sent : 0;
    if (taken == size)
        return TARRY_OK;
    if (!append(&line->out, bytes + taken, size - taken))
        return TARRY_ERROR_NO_MEMORY;
    if (!waited)
        watch(all, its, EPOLL_CTL_MOD);
    return TARRY_OK;
}

/* Nobody may listen yet, or any more: then the worker stays without. */
static int connect_one(emulated *all, emulated_worker *its, tarry_diagnostic *diagnostic)
{
    address found[ADDRESS_MOST];
    uint32_t count;
    int error = address_resolve(all->settings->address, false, found, &count, diagnostic);
    if (error != TARRY_OK)
        return error;
    int fd = socket(found[0].socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "a socket: %s", strerror(errno));
    if (connect(fd, (const struct sockaddr *)&found[0].socket, found[0].size) != 0) {
        close(fd);
        return TARRY_OK;
    }
    its->line.fd = fd;
    all->apart--;
    watch(all, its, EPOLL_CTL_ADD);
    return emulated_introduce(all, its);
}

static int connect_all(emulated *all, tarry_diagnostic *diagnostic)
{
    int error = TARRY_OK;
    for (uint32_t i = 0; error == TARRY_OK && i < all->count; i++)
        if (!all->workers[i].left && all->workers[i].line.fd < 0)
            error = connect_one(all, &all->workers[i], diagnostic);
    return error;
}

/* ---- what comes ---- */

/* Whole frames of `bytes`; gives back in *used how many of them that were. */
static int take_frames(emulated *all, emulated_worker *its, const uint8_t *bytes, size_t size,
                       size_t *used, tarry_diagnostic *diagnostic)
{
    size_t at = 0;
    int error = TARRY_OK;
    while (error == TARRY_OK && size - at >= WIRE_HEAD_BYTES) {
        wire_head head;
        if (wire_head_decode(bytes + at, &head) != TARRY_OK)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "the server sent what is no frame");
        if (size - at - WIRE_HEAD_BYTES < head.length)
            break;
        error = emulated_take_frame(all, its, &head, bytes + at + WIRE_HEAD_BYTES, diagnostic);
        at += WIRE_HEAD_BYTES + head.length;
    }
    *used = at;
    return error;
}

static int take_bytes(emulated *all, emulated_worker *its, size_t size,
                      tarry_diagnostic *diagnostic)
{
    emulated_bytes *in = &its->line.in;
    size_t used = 0;
    bool whole = in->size == 0;
    if (!whole && !append(in, all->input, size))
        return diagnose_no_memory(diagnostic, "a worker");
    const uint8_t *bytes = whole ? all->input : in->bytes;
    size = whole ? size : in->size;
    int error = take_frames(all, its, bytes, size, &used, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (whole)
        return used == size || append(in, bytes + used, size - used)
                   ? TARRY_OK
                   : diagnose_no_memory(diagnostic, "a worker");
    in->size -= used;
    memmove(in->bytes, in->bytes + used, in->size);
    if (in->size == 0)
        drop(in);
    return TARRY_OK;
}

/* What is there, or the end if `ending`: nobody says so again. */
static int hear(emulated *all, emulated_worker *its, bool ending, tarry_diagnostic *diagnostic)
{
    ssize_t got = 0;
    int error = TARRY_OK;
    do {
        got = recv(its->line.fd, all->input, EMULATED_READ_BYTES, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return TARRY_OK;
        if (got > 0)
            error = take_bytes(all, its, (size_t)got, diagnostic);
    } while (error == TARRY_OK && !its->left && (ending ? got > 0 : got == EMULATED_READ_BYTES));
    if (error == TARRY_OK && (got <= 0 || its->left))
        hang_up(all, its);
    return error;
}

static int turn(emulated *all, tarry_diagnostic *diagnostic)
{
    struct epoll_event events[EVENTS_MOST];
    bool looks = all->apart > 0 || all->in_round > 0 || all->owing > 0;
    int count = epoll_wait(all->poll, events, EVENTS_MOST, looks ? PAUSE_MS : -1);
    int error = TARRY_OK;
    for (int i = 0; error == TARRY_OK && i < count; i++) {
        emulated_worker *its = events[i].data.ptr;
        if (its->line.fd >= 0 && (events[i].events & EPOLLOUT) != 0)
            flush(all, its);
        if (its->line.fd >= 0 && (events[i].events & ~(uint32_t)EPOLLOUT) != 0)
            error = hear(all, its, (events[i].events & ~(uint32_t)(EPOLLIN | EPOLLOUT)) != 0,
                         diagnostic);
    }
    if (error == TARRY_OK && all->apart > 0)
        error = connect_all(all, diagnostic);
    if (error == TARRY_OK)
        error = emulated_report(all);
    return error == TARRY_OK ? emulated_send_parts(all) : error;
}

/* ---- the run ---- */

/* The longest that a worker says at once. */
static size_t scratch_size(const emulated_settings *settings)
{
    size_t most = settings->dimension * sizeof(float);
    for (uint32_t worker = 0; worker < tarry_plan_workers(settings->plan); worker++) {
        size_t reports = tarry_plan_load(settings->plan, worker) *
                         (size_t)(WIRE_HEAD_BYTES + WIRE_BATCH_HEAD_BYTES + CODEC_HEADER_BYTES);
        most = reports > most ? reports : most;
    }
    return WIRE_HEAD_BYTES + CODEC_HEADER_BYTES + most;
}

static int begin(emulated *all, tarry_diagnostic *diagnostic)
{
    all->count = all->apart = all->settings->count;
    tarry_plan_digest(all->settings->plan, all->digest);
    all->poll = epoll_create1(EPOLL_CLOEXEC);
    if (all->poll < 0)
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "epoll: %s", strerror(errno));
    all->scratch = memory_allocate(NULL, scratch_size(all->settings), 1);
    all->input = memory_allocate(NULL, EMULATED_READ_BYTES, 1);
    all->workers = memory_allocate(NULL, all->count, sizeof(*all->workers));
    if (all->scratch == NULL || all->input == NULL || all->workers == NULL)
        return diagnose_no_memory(diagnostic, "workers");
    for (uint32_t i = 0; i < all->count; i++)
        all->workers[i] = (emulated_worker){.worker = all->settings->first + i, .line = {.fd = -1}};
    return TARRY_OK;
}

static void end(emulated *all)
{
    for (uint32_t i = 0; all->workers != NULL && i < all->count; i++)
        close_line(&all->workers[i].line);
    memory_release(NULL, all->workers);
    memory_release(NULL, all->input);
    memory_release(NULL, all->scratch);
    if (all->poll >= 0)
        close(all->poll);
}

int emulated_run(const emulated_settings *settings, emulated_tally *tally,
                 tarry_diagnostic *diagnostic)
{
    emulated all = {.settings = settings, .tally = tally, .poll = -1};
    tarry_diagnostic why = {{0}};
    int error = begin(&all, &why);
    while (error == TARRY_OK && !atomic_load(&tally->open))
        usleep(PAUSE_MS * 1000);
    while (error == TARRY_OK && all.left < all.count)
        error = turn(&all, &why);
    if (error != TARRY_OK) {
        snprintf(tally->why, sizeof(tally->why), "%.150s",
                 why.text[0] != '\0' ? why.text : tarry_error_text(error));
        atomic_store(&tally->failed, true);
        diagnose(diagnostic, error, "%s", tally->why);
    }
    end(&all);
    return error;
}
