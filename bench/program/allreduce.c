/* SPDX-License-Identifier: Apache-2.0 */
#include "program/allreduce.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/output/clock.h"

enum { WARM = 2 }; /* sums that do not count */

/* What a member writes and all read, once everybody is at the barrier. */
typedef struct member_area {
    uint8_t address[TARRY_ENGINE_ADDRESS_MOST];
    size_t address_size;
    double begin, end, busy;
    double moved; /* bytes */
} member_area;

/* Memory of all the processes. */
typedef struct area {
    pthread_barrier_t barrier;
    tarry_diagnostic why; /* of whoever fails first */
    int error;
    bench_allreduce_row row; /* the first member writes it */
    member_area members[];
} area;

typedef struct member {
    const bench_allreduce_settings *settings;
    area *shared;
    uint32_t place;
    tarry_engine *engine;
    size_t length; /* of the coded part */
    float *part, *sum, *weights;
} member;

/* Small whole numbers, whose sums are exact in any order. */
static float number_of(uint32_t place, size_t x)
{
    return (float)(x % 61 + place % 7);
}

static double busy_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- a member ---- */

static int member_prepare(member *own, tarry_diagnostic *why)
{
    const bench_allreduce_settings *settings = own->settings;
    own->length = (settings->dimension - 1) / settings->parts + 1;
    own->part = vector_allocate(NULL, own->length);
    own->sum = vector_allocate(NULL, settings->dimension);
    own->weights =
        memory_allocate(NULL, (size_t)settings->members * settings->parts, sizeof(float));
    if (own->part == NULL || own->sum == NULL || own->weights == NULL)
        return diagnose_no_memory(why, "vectors");
    for (size_t x = 0; x < own->length; x++)
        own->part[x] = number_of(own->place, x);
    for (size_t i = 0; i < (size_t)settings->members * settings->parts; i++)
        own->weights[i] = 1;
    int error = tarry_direct_create(&settings->direct, NULL, &own->engine, why);
    if (error != TARRY_OK)
        return error;
    member_area *shown = &own->shared->members[own->place];
    own->engine->methods->address(own->engine, shown->address, &shown->address_size);
    return TARRY_OK;
}

static int member_form(member *own, tarry_diagnostic *why)
{
    uint32_t count = own->settings->members;
    tarry_engine_member members[ALLREDUCE_MEMBERS_MOST];
    for (uint32_t i = 0; i < count; i++)
        members[i] = (tarry_engine_member){i, own->shared->members[i].address,
                                           own->shared->members[i].address_size};
    const tarry_engine_group group = {
        .epoch = 1,
        .count = count,
        .place = own->place,
        .members = members,
    };
    return own->engine->methods->form(own->engine, &group, why);
}

static int member_sum(member *own, uint32_t time, tarry_diagnostic *why)
{
    const bench_allreduce_settings *settings = own->settings;
    member_area *shown = &own->shared->members[own->place];
    const tarry_engine_sum sum = {
        .name = {.step = time + 1, .term = 1, .attempt = time + 1},
        .dimension = settings->dimension,
        .parts = settings->parts,
        .part = own->part,
        .weights = own->weights,
        .sum = own->sum,
    };
    tarry_engine_progress progress;
    if (own->place == 0) {
        struct timespec late = clock_timespec((uint64_t)(settings->late * 1e9));
        nanosleep(&late, NULL);
    }
    double busy = busy_seconds();
    shown->begin = clock_seconds();
    int error = own->engine->methods->start(own->engine, &sum);
    if (error != TARRY_OK)
        return diagnose(why, error, "start: %s", tarry_error_text(error));
    own->engine->methods->wait(own->engine, TARRY_NEVER, &progress);
    shown->end = clock_seconds();
    shown->busy = busy_seconds() - busy;
    shown->moved = (double)progress.moved;
    return progress.state == TARRY_ENGINE_DONE
               ? TARRY_OK
               : diagnose(why, TARRY_ERROR_SYSTEM, "a sum failed: %s", progress.why);
}

static int member_check(const member *own, tarry_diagnostic *why)
{
    for (size_t x = 0; x < own->settings->dimension; x++) {
        float expected = 0;
        for (uint32_t i = 0; i < own->settings->members; i++)
            expected += number_of(i, x % own->length);
        if (own->sum[x] < expected || own->sum[x] > expected)
            return diagnose(why, TARRY_ERROR_NUMERICAL, "number %zu of the sum is %g, not %g", x,
                            (double)own->sum[x], (double)expected);
    }
    return TARRY_OK;
}

/* The first member's notes on a sum that all have ended. */
static void note_sum(const bench_allreduce_settings *settings, area *shared, uint32_t time)
{
    double begin = shared->members[0].begin, end = 0, moved = 0, busy = 0;
    for (uint32_t i = 0; i < settings->members; i++) {
        const member_area *one = &shared->members[i];
        if (settings->late <= 0 && one->begin < begin)
            begin = one->begin;
        end = one->end > end ? one->end : end;
        moved += one->moved / sizeof(float) / settings->members;
        busy += i == 0 ? 0 : one->busy;
    }
    shared->row.seconds[time] = end - begin;
    shared->row.moved = moved;
    shared->row.busy +=
        busy / (settings->members > 1 ? settings->members - 1 : 1) / settings->times;
}

static int member_run(member *own, tarry_diagnostic *why)
{
    area *shared = own->shared;
    int error = member_prepare(own, why);
    if (error != TARRY_OK)
        return error;
    pthread_barrier_wait(&shared->barrier);
    error = member_form(own, why);
    for (uint32_t time = 0; error == TARRY_OK && time < WARM + own->settings->times; time++) {
        pthread_barrier_wait(&shared->barrier);
        error = member_sum(own, time, why);
        if (error != TARRY_OK)
            break;
        pthread_barrier_wait(&shared->barrier);
        if (time == 0)
            error = member_check(own, why);
        else if (time >= WARM && own->place == 0)
            note_sum(own->settings, shared, time - WARM);
    }
    return error == TARRY_OK ? member_check(own, why) : error;
}

/* ---- all of them ---- */

static void be_member(const bench_allreduce_settings *settings, area *shared, uint32_t place)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    member own = {.settings = settings, .shared = shared, .place = place};
    tarry_diagnostic why;
    int error = member_run(&own, &why);
    if (error != TARRY_OK) {
        shared->why = why;
        shared->error = error;
    }
    _exit(error == TARRY_OK ? 0 : 1); /* memory goes with the process */
}

/* Waits for all; once one fails, the others would wait for it without end. */
static int await_members(area *shared, pid_t *processes, uint32_t count,
                         tarry_diagnostic *diagnostic)
{
    int error = TARRY_OK;
    for (uint32_t left = count; left > 0;) {
        int status;
        pid_t ended = waitpid(-1, &status, 0);
        if (ended < 0 && errno == EINTR)
            continue;
        left--;
        bool good = ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        for (uint32_t i = 0; i < count; i++)
            if (processes[i] == ended)
                processes[i] = 0;
        if (good || error != TARRY_OK)
            continue;
        error = shared->error != TARRY_OK
                    ? diagnose(diagnostic, shared->error, "%s", shared->why.text)
                    : diagnose(diagnostic, TARRY_ERROR_SYSTEM, "a member's process ended");
        for (uint32_t i = 0; i < count; i++)
            if (processes[i] > 0)
                kill(processes[i], SIGKILL);
    }
    return error;
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(const double *values, uint32_t count)
{
    double sorted[ALLREDUCE_TIMES_MOST];
    memcpy(sorted, values, count * sizeof(*values));
    qsort(sorted, count, sizeof(*sorted), compare);
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

int bench_allreduce_run(const bench_allreduce_settings *settings, bench_allreduce_row *row,
                        tarry_diagnostic *diagnostic)
{
    pid_t processes[ALLREDUCE_MEMBERS_MOST];
    size_t bytes = sizeof(area) + settings->members * sizeof(member_area);
    area *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return diagnose_no_memory(diagnostic, "members");
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attributes, settings->members);
    pthread_barrierattr_destroy(&attributes);
    uint32_t count = 0;
    while (count < settings->members) {
        processes[count] = fork();
        if (processes[count] == 0)
            be_member(settings, shared, count);
        if (processes[count] < 0)
            break;
        count++;
    }
    for (uint32_t i = 0; count < settings->members && i < count; i++)
        kill(processes[i], SIGKILL);
    int error = await_members(shared, processes, count, diagnostic);
    if (count < settings->members)
        error = diagnose(diagnostic, TARRY_ERROR_SYSTEM, "a process can't be started");
    if (error == TARRY_OK) {
        *row = shared->row;
        row->median = median(row->seconds, settings->times);
    }
    munmap(shared, bytes);
    return error;
}
