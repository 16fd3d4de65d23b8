/* SPDX-License-Identifier: Apache-2.0 */
#include "program/connections.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/quantile.h"
#include "program/emulated/emulated.h"
#include "program/process.h"
#include "program/site.h"
#include "runtime/clock.h"

#define PATIENCE_NS UINT64_C(60000000000)

enum {
    DIMENSION = 16,
    PAUSE_US = 200, /* between looks at what the workers' processes say */
    WARM_UP = 1,
    ADDRESS_BYTES = 64,
    CREWS = 2, /* processes of workers */
};

/* Processes, and what they have in common. */
typedef struct stand {
    const bench_connections_settings *settings;
    tarry_plan_settings wanted;
    char address[ADDRESS_BYTES];
    emulated_tally *tally; /* shared */
    pid_t crews[CREWS];
    uint32_t rounds; /* that workers were told to report in */
    bench_site site;
    double server_before;
} stand;

/* ---- processes ---- */

static int be_workers(const stand *its, uint32_t crew)
{
    uint32_t workers = its->settings->workers;
    tarry_plan *plan = NULL;
    int error = tarry_plan_create(&its->wanted, NULL, &plan, NULL);
    emulated_settings settings = {
        .plan = plan,
        .first = workers / CREWS * crew,
        .count = crew + 1 < CREWS ? workers / CREWS : workers - workers / CREWS * crew,
        .batch = its->settings->batch,
        .dimension = DIMENSION,
        .address = its->address,
    };
    if (error == TARRY_OK)
        error = emulated_run(&settings, its->tally, NULL);
    tarry_plan_free(plan);
    return error;
}

/* Before this process has any other thread than that which waits for signals. */
static int start_crews(stand *its, tarry_diagnostic *diagnostic)
{
    fflush(NULL);
    for (uint32_t i = 0; i < CREWS; i++) {
        its->crews[i] = fork();
        if (its->crews[i] < 0)
            return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "a process: %s", strerror(errno));
        if (its->crews[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(be_workers(its, i) == TARRY_OK ? 0 : 1);
        }
    }
    return TARRY_OK;
}

static void end_process(pid_t process)
{
    if (process <= 0)
        return;
    kill(process, SIGKILL);
    waitpid(process, NULL, 0);
}

/* ---- waiting ---- */

static bool is_over(const void *flag)
{
    return atomic_load((const _Atomic bool *)flag);
}

typedef struct wanted_count {
    const _Atomic uint32_t *count;
    uint32_t least;
} wanted_count;

static bool is_reached(const void *wanted)
{
    const wanted_count *its = wanted;
    return atomic_load(its->count) >= its->least;
}

static int await(const stand *its, bool (*done)(const void *what), const void *what,
                 const char *name, tarry_diagnostic *diagnostic)
{
    uint64_t end = clock_now_ns() + PATIENCE_NS;
    while (!done(what)) {
        if (atomic_load(&its->tally->failed))
            return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "emulated workers: %s",
                            its->tally->why);
        if (clock_now_ns() > end)
            return diagnose(diagnostic, TARRY_ERROR_STATE, "%s: not within a minute", name);
        usleep(PAUSE_US);
    }
    return TARRY_OK;
}

static int await_count(const stand *its, const _Atomic uint32_t *count, uint32_t least,
                       const char *name, tarry_diagnostic *diagnostic)
{
    const wanted_count wanted = {count, least};
    return await(its, is_reached, &wanted, name, diagnostic);
}

/* ---- the stand ---- */

static int open_stand(stand *its, tarry_diagnostic *diagnostic)
{
    snprintf(its->address, sizeof(its->address), "unix:@tarry-bench-%ld", (long)getpid());
    its->tally =
        mmap(NULL, sizeof(*its->tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (its->tally == MAP_FAILED) {
        its->tally = NULL;
        return diagnose_no_memory(diagnostic, "memory that processes share");
    }
    int error = bench_allow_files(its->settings->workers, diagnostic);
    if (error == TARRY_OK)
        error = start_crews(its, diagnostic);
    const bench_site_settings wanted = {
        .plan = its->wanted,
        .dimension = DIMENSION,
        .listen = its->address,
    };
    if (error == TARRY_OK)
        error = bench_site_open(&its->site, &wanted, diagnostic);
    if (error == TARRY_OK) {
        malloc_trim(0);
        error = bench_resident_bytes(getpid(), &its->server_before, diagnostic);
    }
    if (error != TARRY_OK)
        return error;
    atomic_store(&its->tally->open, true);
    error = await_count(its, &its->tally->ready, its->settings->workers, "the workers' arrival",
                        diagnostic);
    return error == TARRY_OK ? bench_site_wait(&its->site, diagnostic) : error;
}

static void close_stand(stand *its)
{
    bench_site_close(&its->site);
    for (uint32_t i = 0; i < CREWS; i++)
        end_process(its->crews[i]);
    if (its->tally != NULL)
        munmap(its->tally, sizeof(*its->tally));
}

/* ---- a round ---- */

typedef struct stand_round {
    stand *its;
    pthread_t thread;
    _Atomic bool over;
    int error;
    bench_site_round round;
    tarry_diagnostic diagnostic;
    uint64_t cpu_ns; /* when the workers were told to report */
} stand_round;

static void *run_round(void *argument)
{
    stand_round *call = argument;
    call->error = bench_site_run(&call->its->site, &call->round, &call->diagnostic);
    atomic_store(&call->over, true);
    return NULL;
}

/* Begins a round, until all workers are in it. */
static int begin_round(stand_round *call, stand *its, tarry_diagnostic *diagnostic)
{
    *call = (stand_round){.its = its};
    if (pthread_create(&call->thread, NULL, run_round, call) != 0)
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "a thread can't be started");
    int error = await_count(its, &its->tally->in_round, its->settings->workers * (its->rounds + 1),
                            "the workers' beginning of a round", diagnostic);
    if (error == TARRY_OK)
        return TARRY_OK;
    tarry_runtime_interrupt(its->site.server);
    pthread_join(call->thread, NULL);
    return error;
}

static int end_round(stand_round *call, tarry_diagnostic *diagnostic)
{
    stand *its = call->its;
    call->cpu_ns = bench_process_cpu_ns();
    atomic_store(&its->tally->began_ns, 0);
    atomic_store(&its->tally->rounds_due, ++its->rounds);
    int error = await(its, is_over, &call->over, "a round", diagnostic);
    if (error != TARRY_OK)
        tarry_runtime_interrupt(its->site.server);
    pthread_join(call->thread, NULL);
    if (error == TARRY_OK && call->error != TARRY_OK)
        error = diagnose(diagnostic, call->error, "%s", call->diagnostic.text);
    return error;
}

/* ---- what is measured ---- */

static int measure_memory(const stand *its, bench_connections_result *result,
                          tarry_diagnostic *diagnostic)
{
    double server = 0;
    int error = bench_resident_bytes(getpid(), &server, diagnostic);
    result->server_bytes = (server - its->server_before) / its->settings->workers;
    return error;
}

static int measure_rounds(stand *its, double *samples, bench_connections_result *result,
                          tarry_diagnostic *diagnostic)
{
    uint32_t rounds = its->settings->rounds;
    double *rate = samples, *cpu = rate + rounds, *told = cpu + rounds;
    for (uint32_t i = 0; i < WARM_UP + rounds; i++) {
        stand_round call;
        int error = begin_round(&call, its, diagnostic);
        if (error == TARRY_OK)
            error = end_round(&call, diagnostic);
        if (error != TARRY_OK)
            return error;
        double reports = (double)call.round.result.copies_computed;
        uint64_t signal_ns = call.round.signal_ns;
        if (call.round.result.copies_computed != tarry_plan_chunks(its->site.plan))
            return diagnose(diagnostic, TARRY_ERROR_STATE, "reports were not accepted");
        if (i < WARM_UP)
            continue;
        uint32_t sample = i - WARM_UP;
        rate[sample] = reports * 1e9 / (double)(signal_ns - atomic_load(&its->tally->began_ns));
        cpu[sample] = (double)(atomic_load(&its->site.cpu_ns) - call.cpu_ns) * 1e-9 / reports;
        told[sample] = (double)(atomic_load(&its->tally->signal_ns) - signal_ns) * 1e-9;
    }
    result->reports = tarry_plan_chunks(its->site.plan);
    result->reports_per_second = quantile_of(rate, rounds, 0.5);
    result->report_cpu_seconds = quantile_of(cpu, rounds, 0.5);
    result->signal_seconds = quantile_of(told, rounds, 0.5);
    result->worst_signal_seconds = quantile_of(told, rounds, 1);
    return measure_memory(its, result, diagnostic);
}

int bench_connections_run(const bench_connections_settings *settings,
                          bench_connections_result *result, tarry_diagnostic *diagnostic)
{
    stand its = {.settings = settings};
    *result = (bench_connections_result){0};
    tarry_plan_settings_init(&its.wanted);
    its.wanted.workers = settings->workers;
    its.wanted.chunks = settings->reports / settings->workers * settings->workers;
    its.wanted.replication = 1;
    its.wanted.order = TARRY_ORDER_AS_IS;
    its.wanted.design = TARRY_DESIGN_CYCLIC;
    double *samples = memory_allocate(NULL, (size_t)3 * settings->rounds, sizeof(double));
    int error = samples == NULL ? diagnose_no_memory(diagnostic, "connections")
                                : open_stand(&its, diagnostic);
    if (error == TARRY_OK)
        error = measure_rounds(&its, samples, result, diagnostic);
    close_stand(&its);
    memory_release(NULL, samples);
    return error;
}
