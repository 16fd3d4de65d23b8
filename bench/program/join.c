/* SPDX-License-Identifier: Apache-2.0 */
#include "program/join.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
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
#include "program/line.h"
#include "program/road.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh.h"
#include "runtime/tcp/mesh/mesh_address.h"

enum { WARM = 2 };

static const tarry_sum_id AFTER = {.step = 1, .term = 1, .attempt = 1};

typedef struct place {
    uint8_t address[TARRY_ENGINE_ADDRESS_MOST];
    size_t size;
    double begin, end; /* of the last sum */
} place;

/* Memory of all the processes. */
typedef struct area {
    pthread_barrier_t ready, barrier; /* of all but the link; of the members */
    tarry_diagnostic why;             /* of whoever fails first */
    int error;
    _Atomic bool loads, loaded;
    bool over; /* as all members see it after a barrier */
    double load_seconds, write_seconds;
    double alone[JOIN_TIMES_MOST], beside[JOIN_TIMES_MOST];
    uint32_t alone_count, beside_count;
    bench_road road;
    place places[JOIN_MEMBERS_MOST + 1]; /* the joiner's behind the members' */
} area;

typedef struct party {
    const bench_join_settings *settings;
    area *shared;
    uint32_t id;
    mesh *mesh;
    float *part, *sum, weights[JOIN_MEMBERS_MOST];
    atomic_bool wanted;
} party;

static int open_mesh(party *own, bool dials, tarry_diagnostic *why)
{
    const mesh_settings settings = {.listen = "127.0.0.1:0", .dials = dials};
    place *shown = &own->shared->places[own->id];
    int error = mesh_create(&settings, &own->mesh, why);
    if (error == TARRY_OK)
        mesh_own_address(own->mesh, shown->address, &shown->size);
    return error;
}

/* ---- a member ---- */

static void want(void *user)
{
    party *own = user;
    tarry_engine *engine = mesh_engine(own->mesh);
    atomic_store(&own->wanted, true);
    engine->methods->wake(engine);
}

/* As a replica's owner writes its state. */
static void offer_state(const party *own)
{
    double begin = clock_seconds();
    exchange *others = mesh_exchange(own->mesh);
    uint64_t size = own->settings->state;
    uint8_t *bytes = memory_allocate(NULL, (size_t)size, 1);
    for (uint64_t i = 0; bytes != NULL && i < size; i += sizeof(i))
        memcpy(bytes + i, &i, size - i < sizeof(i) ? (size_t)(size - i) : sizeof(i));
    others->methods->offer(others, &AFTER, bytes, size);
    own->shared->write_seconds = clock_seconds() - begin;
}

static int prepare(party *own, tarry_diagnostic *why)
{
    size_t dimension = own->settings->dimension;
    int error = open_mesh(own, false, why);
    if (error != TARRY_OK)
        return error;
    own->part = vector_allocate(NULL, dimension);
    own->sum = vector_allocate(NULL, dimension);
    if (own->part == NULL || own->sum == NULL)
        return diagnose_no_memory(why, "vectors");
    for (size_t x = 0; x < dimension; x++)
        own->part[x] = (float)(x % 61);
    for (uint32_t i = 0; i < JOIN_MEMBERS_MOST; i++)
        own->weights[i] = 1;
    exchange *others = mesh_exchange(own->mesh);
    if (own->id == 0)
        others->methods->serve(others, want, own);
    return TARRY_OK;
}

static int form(party *own, tarry_diagnostic *why)
{
    static const uint8_t plain[32];
    uint32_t count = own->settings->members;
    tarry_engine_member members[JOIN_MEMBERS_MOST];
    for (uint32_t i = 0; i < count; i++)
        members[i] =
            (tarry_engine_member){i, own->shared->places[i].address, own->shared->places[i].size};
    const tarry_engine_group group = {
        .epoch = 1, .count = count, .place = own->id, .members = members};
    tarry_engine *engine = mesh_engine(own->mesh);
    const place *joiner = &own->shared->places[count];
    if (own->id == 0 &&
        mesh_admit(own->mesh, count, joiner->address, joiner->size, plain) != TARRY_OK)
        return diagnose_no_memory(why, "the joiner");
    return engine->methods->form(engine, &group, why);
}

/* One sum; a state that is wanted is written meanwhile, as by a worker's exchange thread. */
static int make_sum(party *own, uint64_t step, tarry_diagnostic *why)
{
    tarry_engine *engine = mesh_engine(own->mesh);
    const tarry_engine_sum sum = {
        .name = {.step = step, .term = 1, .attempt = (uint32_t)step},
        .dimension = own->settings->dimension,
        .parts = 1,
        .part = own->part,
        .weights = own->weights,
        .sum = own->sum,
    };
    tarry_engine_progress progress;
    own->shared->places[own->id].begin = clock_seconds();
    int error = engine->methods->start(engine, &sum);
    progress.state = TARRY_ENGINE_RUNNING;
    while (error == TARRY_OK && progress.state == TARRY_ENGINE_RUNNING) {
        if (atomic_exchange(&own->wanted, false))
            offer_state(own);
        engine->methods->wait(engine, TARRY_NEVER, &progress);
    }
    own->shared->places[own->id].end = clock_seconds();
    if (error != TARRY_OK || progress.state != TARRY_ENGINE_DONE)
        return diagnose(why, TARRY_ERROR_SYSTEM, "a sum failed");
    return TARRY_OK;
}

/* By the first member, when all have the sum. */
static void note_sum(area *shared, uint32_t members, uint32_t times)
{
    double begin = shared->places[0].begin, end = 0;
    bool loads = atomic_load(&shared->loads);
    for (uint32_t i = 0; i < members; i++) {
        begin = shared->places[i].begin < begin ? shared->places[i].begin : begin;
        end = shared->places[i].end > end ? shared->places[i].end : end;
    }
    if (loads && shared->beside_count < JOIN_TIMES_MOST)
        shared->beside[shared->beside_count++] = end - begin;
    else if (!loads)
        shared->alone[shared->alone_count++] = end - begin;
    if (!loads && shared->alone_count == times)
        atomic_store(&shared->loads, true);
    shared->over = atomic_load(&shared->loaded);
}

static int be_member(party *own, tarry_diagnostic *why)
{
    area *shared = own->shared;
    const struct timespec compute = clock_timespec((uint64_t)(own->settings->compute * 1e9));
    int error = prepare(own, why);
    if (error != TARRY_OK)
        return error;
    pthread_barrier_wait(&shared->ready);
    error = form(own, why);
    for (uint64_t step = 1; error == TARRY_OK && !shared->over; step++) {
        nanosleep(&compute, NULL);
        pthread_barrier_wait(&shared->barrier);
        error = make_sum(own, step, why);
        if (error != TARRY_OK)
            break;
        pthread_barrier_wait(&shared->barrier);
        if (own->id == 0 && step > WARM)
            note_sum(shared, own->settings->members, own->settings->times);
        pthread_barrier_wait(&shared->barrier);
    }
    return error;
}

/* ---- the others ---- */

static int be_joiner(party *own, tarry_diagnostic *why)
{
    static const uint8_t plain[32];
    area *shared = own->shared;
    uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST];
    mesh_address source;
    size_t size;
    exchange_progress progress;
    struct sockaddr_in at;
    socklen_t length = sizeof(at);
    int error = open_mesh(own, true, why);
    if (error != TARRY_OK)
        return error;
    pthread_barrier_wait(&shared->ready);
    /* To the first member by the link. */
    mesh_address_decode(shared->places[0].address, shared->places[0].size, &source);
    getsockname(shared->road.listener, (struct sockaddr *)&at, &length);
    ((struct sockaddr_in *)&source.places[0].socket)->sin_port = at.sin_port;
    mesh_address_encode(&source, bytes, &size);
    error = mesh_admit(own->mesh, 0, bytes, size, plain);
    while (error == TARRY_OK && !atomic_load(&shared->loads))
        usleep(1000);
    exchange *others = mesh_exchange(own->mesh);
    double begin = clock_seconds();
    if (error == TARRY_OK)
        error = others->methods->load(others, 0, &AFTER);
    if (error != TARRY_OK)
        return diagnose(why, error, "the joiner: %s", tarry_error_text(error));
    others->methods->wait(others, TARRY_NEVER, &progress);
    shared->load_seconds = clock_seconds() - begin;
    atomic_store(&shared->loaded, true);
    return progress.state == EXCHANGE_DONE
               ? TARRY_OK
               : diagnose(why, TARRY_ERROR_SYSTEM, "the load failed: %s", progress.why);
}

static int be_road(const party *own, tarry_diagnostic *why)
{
    bench_road road = own->shared->road;
    const place *first = &own->shared->places[0];
    mesh_address source;
    pthread_barrier_wait(&own->shared->ready);
    mesh_address_decode(first->address, first->size, &source);
    snprintf(road.leads, sizeof(road.leads), "127.0.0.1:%u",
             ntohs(((struct sockaddr_in *)&source.places[0].socket)->sin_port));
    return bench_road_run(&road, why);
}

/* ---- all of them ---- */

/* One that fails ends all: they would wait for it without end. */
static void be(const bench_join_settings *settings, area *shared, uint32_t id)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    party own = {.settings = settings, .shared = shared, .id = id};
    tarry_diagnostic why;
    int error = id < settings->members    ? be_member(&own, &why)
                : id == settings->members ? be_joiner(&own, &why)
                                          : be_road(&own, &why);
    if (error != TARRY_OK) {
        shared->why = why;
        shared->error = error;
    }
    _exit(error == TARRY_OK ? 0 : 1); /* memory goes with the process */
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *values, uint32_t count)
{
    qsort(values, count, sizeof(*values), compare);
    return count > 0 ? (values[(count - 1) / 2] + values[count / 2]) / 2 : 0;
}

static int await(area *shared, const pid_t *processes, uint32_t count, tarry_diagnostic *diagnostic)
{
    int error = TARRY_OK;
    for (uint32_t left = count; left > 0;) {
        int status;
        pid_t ended = waitpid(-1, &status, 0);
        if (ended < 0 && errno == EINTR)
            continue;
        left--;
        if (error != TARRY_OK || (ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0))
            continue;
        error = shared->error != TARRY_OK
                    ? diagnose(diagnostic, shared->error, "%s", shared->why.text)
                    : diagnose(diagnostic, TARRY_ERROR_SYSTEM, "a process ended");
        for (uint32_t i = 0; i < count; i++)
            kill(processes[i], SIGKILL);
    }
    return error;
}

static void make_barrier(pthread_barrier_t *barrier, uint32_t count)
{
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(barrier, &attributes, count);
    pthread_barrierattr_destroy(&attributes);
}

static int run(const bench_join_settings *settings, area *shared, tarry_diagnostic *diagnostic)
{
    pid_t processes[JOIN_MEMBERS_MOST + 2];
    uint32_t count = 0, wanted = settings->members + 2;
    make_barrier(&shared->ready, wanted);
    make_barrier(&shared->barrier, settings->members);
    for (; count < wanted; count++) {
        processes[count] = fork();
        if (processes[count] == 0)
            be(settings, shared, count);
        if (processes[count] < 0)
            break;
    }
    for (uint32_t i = 0; count < wanted && i < count; i++)
        kill(processes[i], SIGKILL);
    return await(shared, processes, count, diagnostic);
}

int bench_join_run(const bench_join_settings *settings, bench_join_row *row,
                   tarry_diagnostic *diagnostic)
{
    char where[64];
    area *shared =
        mmap(NULL, sizeof(area), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return diagnose_no_memory(diagnostic, "members");
    shared->road = (bench_road){.round_trip = settings->round_trip, .rate = settings->rate};
    int error = bench_line_listen(&shared->road.listener, where, diagnostic);
    if (error == TARRY_OK) {
        error = run(settings, shared, diagnostic);
        close(shared->road.listener);
    }
    if (error == TARRY_OK) {
        *row = (bench_join_row){
            .seconds = shared->load_seconds,
            .written = shared->write_seconds,
            .alone = median(shared->alone, shared->alone_count),
            .beside = median(shared->beside, shared->beside_count),
            .sums = shared->beside_count,
        };
        row->longest = row->sums > 0 ? shared->beside[row->sums - 1] : 0;
        row->longest_alone = shared->alone[shared->alone_count - 1];
    }
    munmap(shared, sizeof(area));
    return error;
}
