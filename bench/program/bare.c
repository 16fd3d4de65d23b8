/* SPDX-License-Identifier: Apache-2.0 */
#include "program/bare.h"

#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/output/clock.h"
#include "program/line.h"
#include "protocol/wire/wire.h"

enum {
    BUFFER_BYTES = 256 << 10,
    EVENTS_MOST = 64,
    ADDRESS_BYTES = 64,
};

/* One connection. */
typedef struct bare_pair {
    bench_line out, in;
    uint8_t head[WIRE_HEAD_BYTES]; /* of a frame whose beginning was read */
    size_t head_size;
    size_t skip; /* bytes of a frame's body that are still to come */
} bare_pair;

struct bench_bare {
    uint32_t count;
    bare_pair *pairs;
    uint8_t *buffer;
    int epoll;
    const credential *worker;
    char where[ADDRESS_BYTES];
    bench_bare_job job;
    double began; /* when the first byte was written */
    int error;    /* of the thread that writes */
    tarry_diagnostic diagnostic;
};

/* ---- connecting ---- */

static void *connect_all(void *argument)
{
    bench_bare *bare = argument;
    bare->error = TARRY_OK;
    for (uint32_t i = 0; i < bare->count && bare->error == TARRY_OK; i++)
        bare->error =
            bench_line_connect(bare->where, bare->worker, &bare->pairs[i].out, &bare->diagnostic);
    return NULL;
}

static int watch(bench_bare *bare, uint32_t index, tarry_diagnostic *diagnostic)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = index}};
    if (epoll_ctl(bare->epoll, EPOLL_CTL_ADD, bare->pairs[index].in.fd, &event) != 0)
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "epoll can't watch a connection");
    return TARRY_OK;
}

static int accept_all(bench_bare *bare, int listening, const credential *server,
                      tarry_diagnostic *diagnostic)
{
    int error = TARRY_OK;
    for (uint32_t i = 0; i < bare->count && error == TARRY_OK; i++) {
        error = bench_line_accept(listening, server, &bare->pairs[i].in, diagnostic);
        if (error == TARRY_OK)
            error = watch(bare, i, diagnostic);
    }
    return error;
}

static int connect_both(bench_bare *bare, const credential *server, tarry_diagnostic *diagnostic)
{
    int listening;
    pthread_t thread;
    int error = bench_line_listen(&listening, bare->where, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (pthread_create(&thread, NULL, connect_all, bare) != 0) {
        close(listening);
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "a thread can't be started");
    }
    error = accept_all(bare, listening, server, diagnostic);
    close(listening);
    pthread_join(thread, NULL);
    if (error == TARRY_OK && bare->error != TARRY_OK)
        error = diagnose(diagnostic, bare->error, "%s", bare->diagnostic.text);
    return error;
}

int bench_bare_open(uint32_t connections, const credential *server, const credential *worker,
                    bench_bare **out, tarry_diagnostic *diagnostic)
{
    bench_bare *bare = memory_allocate(NULL, 1, sizeof(*bare));
    if (bare == NULL)
        return diagnose_no_memory(diagnostic, "bare connections");
    bare->worker = worker;
    bare->epoll = epoll_create1(EPOLL_CLOEXEC);
    bare->buffer = memory_allocate(NULL, BUFFER_BYTES, 1);
    bare->pairs = memory_allocate(NULL, connections, sizeof(*bare->pairs));
    int error = TARRY_OK;
    if (bare->buffer == NULL || bare->pairs == NULL)
        error = diagnose_no_memory(diagnostic, "bare connections");
    else if (bare->epoll < 0)
        error = diagnose(diagnostic, TARRY_ERROR_SYSTEM, "epoll is not to be had");
    for (uint32_t i = 0; bare->pairs != NULL && i < connections; i++)
        bare->pairs[i].in.fd = bare->pairs[i].out.fd = -1;
    if (error == TARRY_OK) {
        bare->count = connections;
        error = connect_both(bare, server, diagnostic);
    }
    if (error != TARRY_OK) {
        bench_bare_free(bare);
        return error;
    }
    *out = bare;
    return TARRY_OK;
}

void bench_bare_free(bench_bare *bare)
{
    if (bare == NULL)
        return;
    for (uint32_t i = 0; i < bare->count; i++) {
        bench_line_close(&bare->pairs[i].out);
        bench_line_close(&bare->pairs[i].in);
    }
    if (bare->epoll >= 0)
        close(bare->epoll);
    memory_release(NULL, bare->pairs);
    memory_release(NULL, bare->buffer);
    memory_release(NULL, bare);
}

/* ---- moving bytes ---- */

static bool write_piece(bench_bare *bare, size_t at)
{
    const bench_bare_job *job = &bare->job;
    size_t size = job->size - at < job->piece ? job->size - at : job->piece;
    for (uint32_t i = 0; i < bare->count; i++)
        if (!bench_line_write(&bare->pairs[i].out, job->bytes + at, size))
            return false;
    return true;
}

static void *write_all(void *argument)
{
    bench_bare *bare = argument;
    bool good = true;
    bare->began = clock_seconds();
    for (size_t repeat = 0; good && repeat < bare->job.repeats; repeat++)
        for (size_t at = 0; good && at < bare->job.size; at += bare->job.piece)
            good = write_piece(bare, at);
    if (!good) /* whoever reads would wait for ever */
        for (uint32_t i = 0; i < bare->count; i++)
            bench_line_close(&bare->pairs[i].out);
    return NULL;
}

/* Counts the frames whose heads are among the bytes. */
static int count_frames(bare_pair *pair, const uint8_t *bytes, size_t size, uint64_t *frames)
{
    while (size > 0) {
        size_t used;
        if (pair->skip > 0) {
            used = size < pair->skip ? size : pair->skip;
            pair->skip -= used;
        } else {
            wire_head head;
            const uint8_t *whole = bytes;
            used = WIRE_HEAD_BYTES - pair->head_size;
            if (used > size || pair->head_size > 0) {
                used = used < size ? used : size;
                memcpy(pair->head + pair->head_size, bytes, used);
                pair->head_size += used;
                if (pair->head_size < WIRE_HEAD_BYTES)
                    return TARRY_OK;
                whole = pair->head;
            }
            if (wire_head_decode(whole, &head) != TARRY_OK)
                return TARRY_ERROR_FORMAT;
            pair->skip = head.length;
            pair->head_size = 0;
            ++*frames;
        }
        bytes += used;
        size -= used;
    }
    return TARRY_OK;
}

/* What one connection has; *left counts down what is still to come of all. */
static int read_some(bench_bare *bare, bare_pair *pair, uint64_t *left, uint64_t *frames,
                     tarry_diagnostic *diagnostic)
{
    do {
        size_t got = bench_line_read(&pair->in, bare->buffer, BUFFER_BYTES);
        if (got == 0)
            return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "a bare connection was lost");
        *left -= got;
        if (bare->job.counts && count_frames(pair, bare->buffer, got, frames) != TARRY_OK)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "a bare connection mixes frames up");
    } while (*left > 0 && bench_line_pending(&pair->in));
    return TARRY_OK;
}

static int read_all(bench_bare *bare, uint64_t *frames, tarry_diagnostic *diagnostic)
{
    uint64_t left = (uint64_t)bare->job.size * bare->job.repeats * bare->count;
    int error = TARRY_OK;
    while (left > 0 && error == TARRY_OK) {
        struct epoll_event events[EVENTS_MOST];
        int ready = epoll_wait(bare->epoll, events, EVENTS_MOST, -1);
        for (int e = 0; e < ready && error == TARRY_OK; e++)
            error = read_some(bare, &bare->pairs[events[e].data.u32], &left, frames, diagnostic);
    }
    return error;
}

int bench_bare_run(bench_bare *bare, const bench_bare_job *job, double *seconds, uint64_t *frames,
                   tarry_diagnostic *diagnostic)
{
    pthread_t thread;
    uint64_t counted = 0;
    bare->job = *job;
    if (pthread_create(&thread, NULL, write_all, bare) != 0)
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "a thread can't be started");
    int error = read_all(bare, &counted, diagnostic);
    double ended = clock_seconds();
    if (error != TARRY_OK) /* whoever writes would wait for ever */
        for (uint32_t i = 0; i < bare->count; i++)
            bench_line_close(&bare->pairs[i].in);
    pthread_join(thread, NULL);
    if (error != TARRY_OK)
        return error;
    *seconds = ended - bare->began;
    *frames = counted;
    return TARRY_OK;
}
