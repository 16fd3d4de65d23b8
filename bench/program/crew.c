/* SPDX-License-Identifier: Apache-2.0 */
#include "program/crew.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "plan/plan.h"
#include "program/peer.h"
#include "runtime/clock.h"

struct bench_crew {
    uint32_t count, opened;
    uint32_t batch;
    bench_peer *peers;
    struct pollfd *watched;
    uint8_t *frame; /* of a coded part: prefix and numbers */
    _Atomic uint64_t began_ns;
    pthread_t thread;
    bool started;
    int error; /* of the thread */
    tarry_diagnostic diagnostic;
};

float bench_crew_number(size_t index)
{
    return 1.0F + (float)(index % 1024);
}

static int prepare(bench_crew *crew, tarry_diagnostic *diagnostic)
{
    size_t numbers = 0;
    for (uint32_t i = 0; i < crew->count; i++)
        if (crew->peers[i].cut.stripe_length > numbers)
            numbers = crew->peers[i].cut.stripe_length;
    size_t prefix = BENCH_PART_PREFIX_BYTES / sizeof(float);
    float *frame = memory_allocate(NULL, prefix + numbers, sizeof(float));
    if (frame == NULL)
        return diagnose_no_memory(diagnostic, "coded parts");
    for (size_t i = 0; i < numbers; i++)
        frame[prefix + i] = bench_crew_number(i);
    crew->frame = (uint8_t *)frame;
    return TARRY_OK;
}

int bench_crew_open(const char *where, const credential *self, const tarry_plan *plan,
                    uint32_t batch, bench_crew **out, tarry_diagnostic *diagnostic)
{
    bench_crew *crew = memory_allocate(NULL, 1, sizeof(*crew));
    if (crew == NULL)
        return diagnose_no_memory(diagnostic, "workers");
    crew->batch = batch;
    crew->count = plan->workers;
    crew->peers = memory_allocate(NULL, crew->count, sizeof(*crew->peers));
    crew->watched = memory_allocate(NULL, crew->count, sizeof(*crew->watched));
    int error = TARRY_OK;
    if (crew->peers == NULL || crew->watched == NULL)
        error = diagnose_no_memory(diagnostic, "workers");
    for (uint32_t i = 0; error == TARRY_OK && i < crew->count; i++) {
        error = bench_peer_open(&crew->peers[i], where, self, plan, i, diagnostic);
        if (error == TARRY_OK)
            crew->opened++;
    }
    if (error == TARRY_OK)
        error = prepare(crew, diagnostic);
    if (error != TARRY_OK) {
        bench_crew_free(crew, NULL);
        return error;
    }
    *out = crew;
    return TARRY_OK;
}

/* ---- a turn ---- */

/* Reads from all who were sent something. */
static int read_all(bench_crew *crew, bool wait, tarry_diagnostic *diagnostic)
{
    for (uint32_t i = 0; i < crew->count; i++)
        crew->watched[i] = (struct pollfd){.fd = crew->peers[i].line.fd, .events = POLLIN};
    int ready = poll(crew->watched, crew->count, wait ? -1 : 0);
    int error = TARRY_OK;
    for (uint32_t i = 0; error == TARRY_OK && ready > 0 && i < crew->count; i++)
        if (crew->watched[i].revents != 0) {
            error = bench_peer_read(&crew->peers[i], diagnostic);
            if (crew->peers[i].left)
                bench_line_close(&crew->peers[i].line);
        }
    return error;
}

static bool all_in_round(const bench_crew *crew)
{
    for (uint32_t i = 0; i < crew->count; i++)
        if (!crew->peers[i].in_round)
            return false;
    return true;
}

static bool send_reports(bench_crew *crew)
{
    bool any = true;
    atomic_store(&crew->began_ns, clock_now_ns());
    for (size_t at = 0; any; at += crew->batch) {
        any = false;
        for (uint32_t i = 0; i < crew->count; i++) {
            bench_peer *peer = &crew->peers[i];
            size_t count = peer->report_count > at ? peer->report_count - at : 0;
            if (count > crew->batch)
                count = crew->batch;
            if (count > 0 && !bench_line_write(&peer->line, peer->reports + at * BENCH_REPORT_BYTES,
                                               count * BENCH_REPORT_BYTES))
                return false;
            any = any || count > 0;
            peer->in_round = false;
        }
    }
    return true;
}

/* One stripe of each worker that has some to send. */
static int send_parts(bench_crew *crew, bool *any, tarry_diagnostic *diagnostic)
{
    int error = TARRY_OK;
    *any = false;
    for (uint32_t i = 0; error == TARRY_OK && i < crew->count; i++)
        if (crew->peers[i].encoding) {
            error = bench_peer_send_part(&crew->peers[i], crew->frame, diagnostic);
            *any = true;
        }
    return error;
}

static bool has_left(const bench_crew *crew)
{
    for (uint32_t i = 0; i < crew->count; i++)
        if (!crew->peers[i].left)
            return false;
    return true;
}

int bench_crew_run(bench_crew *crew, tarry_diagnostic *diagnostic)
{
    bool sending = false;
    while (!has_left(crew)) {
        int error = read_all(crew, !sending, diagnostic);
        if (error == TARRY_OK && all_in_round(crew) && !send_reports(crew))
            error = diagnose(diagnostic, TARRY_ERROR_SYSTEM, "a worker can't send its reports");
        if (error == TARRY_OK)
            error = send_parts(crew, &sending, diagnostic);
        if (error != TARRY_OK)
            return error;
    }
    return TARRY_OK;
}

/* ---- the thread ---- */

static void *run_thread(void *argument)
{
    bench_crew *crew = argument;
    crew->error = bench_crew_run(crew, &crew->diagnostic);
    /* The server's round must not wait for those who can't go on. */
    for (uint32_t i = 0; i < crew->count; i++)
        bench_line_close(&crew->peers[i].line);
    return NULL;
}

int bench_crew_start(bench_crew *crew, tarry_diagnostic *diagnostic)
{
    if (pthread_create(&crew->thread, NULL, run_thread, crew) != 0)
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "a thread can't be started");
    crew->started = true;
    return TARRY_OK;
}

uint64_t bench_crew_began_ns(const bench_crew *crew)
{
    return atomic_load(&crew->began_ns);
}

int bench_crew_free(bench_crew *crew, tarry_diagnostic *diagnostic)
{
    if (crew == NULL)
        return TARRY_OK;
    if (crew->started)
        pthread_join(crew->thread, NULL);
    int error = crew->error;
    if (error != TARRY_OK)
        diagnose(diagnostic, error, "%s", crew->diagnostic.text);
    for (uint32_t i = 0; i < crew->opened; i++)
        bench_peer_close(&crew->peers[i]);
    memory_release(NULL, crew->frame);
    memory_release(NULL, crew->watched);
    memory_release(NULL, crew->peers);
    memory_release(NULL, crew);
    return error;
}
