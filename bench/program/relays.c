/* SPDX-License-Identifier: Apache-2.0 */
#include "program/relays.h"

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
#include "cli/text/complain.h"
#include "program/emulated/emulated.h"
#include "program/process.h"
#include "program/site.h"
#include "runtime/clock.h"
#include "runtime/tcp/relay/relay.h"

#define PATIENCE_NS UINT64_C(60000000000)

enum {
    DIMENSION = 16,
    PAUSE_US = 200,      /* between looks at what the workers' processes say */
    SETTLED_US = 100000, /* by then what a death leads to has come to all */
    WARM_UP = 1,
    ADDRESS_BYTES = 64,
    MOST_PARENTS = EMULATED_PARENTS_MOST,
    CREWS = 2, /* processes of workers */
};

/* Processes, and what they have in common. */
typedef struct stand {
    const bench_relays_settings *settings;
    tarry_plan_settings wanted;
    bool shared_out;
    char root[ADDRESS_BYTES], relay[MOST_PARENTS][ADDRESS_BYTES];
    emulated_tally *tally; /* shared */
    pid_t crews[CREWS], relays[MOST_PARENTS];
    uint32_t rounds; /* that workers were told to report in */
    uint32_t killed; /* relays: the first ones */
    bench_site site;
    double server_before, relays_before;
} stand;

/* ---- processes ---- */

static uint32_t parent_count(const stand *its)
{
    return its->settings->relays > 0 ? its->settings->relays : 1;
}

static void name_addresses(stand *its)
{
    snprintf(its->root, sizeof(its->root), "unix:@tarry-bench-%ld", (long)getpid());
    for (uint32_t i = 0; i < its->settings->relays; i++)
        snprintf(its->relay[i], sizeof(its->relay[i]), "unix:@tarry-bench-%ld-%u", (long)getpid(),
                 i);
}

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
        .standby = its->settings->relays > 1,
        .dimension = DIMENSION,
        .parent_count = parent_count(its),
        .parents = {its->root},
    };
    for (uint32_t i = 0; i < its->settings->relays; i++)
        settings.parents[i] = its->relay[i];
    if (error == TARRY_OK)
        error = emulated_run(&settings, its->tally, NULL);
    tarry_plan_free(plan);
    return error;
}

static int be_relay(const stand *its, uint32_t index)
{
    const char *const listen[] = {its->relay[index]};
    const tcp_relay_settings settings = {
        .connect = its->root,
        .listen = listen,
        .listen_count = 1,
        .security = {.insecure = true},
        .patience_ns = PATIENCE_NS,
    };
    tarry_diagnostic why = {{0}};
    tcp_relay *relay = NULL;
    int error = tcp_relay_create(&settings, NULL, &relay, &why);
    if (error == TARRY_OK)
        error = tcp_relay_run(relay, &why);
    tcp_relay_free(relay);
    if (error != TARRY_OK)
        complain(EXIT_FAILED, "relays: %s: %s", its->relay[index], why.text);
    return error;
}

/* Before this process has any other thread than that which waits for signals. */
static int start_process(const stand *its, int (*be)(const stand *its, uint32_t index),
                         uint32_t index, pid_t *process, tarry_diagnostic *diagnostic)
{
    fflush(NULL);
    *process = fork();
    if (*process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(be(its, index) == TARRY_OK ? 0 : 1);
    }
    return *process > 0
               ? TARRY_OK
               : diagnose(diagnostic, TARRY_ERROR_SYSTEM, "a process: %s", strerror(errno));
}

static int start_processes(stand *its, tarry_diagnostic *diagnostic)
{
    int error = TARRY_OK;
    for (uint32_t i = 0; error == TARRY_OK && i < CREWS; i++)
        error = start_process(its, be_workers, i, &its->crews[i], diagnostic);
    for (uint32_t i = 0; error == TARRY_OK && i < its->settings->relays; i++)
        error = start_process(its, be_relay, i, &its->relays[i], diagnostic);
    return error;
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

/* By itself; why it has said so itself. */
static bool has_lost_a_relay(const stand *its)
{
    siginfo_t ended = {.si_pid = 0};
    for (uint32_t i = its->killed; i < its->settings->relays; i++)
        if (waitid(P_PID, (id_t)its->relays[i], &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            ended.si_pid != 0)
            return true;
    return false;
}

static int await(const stand *its, bool (*done)(const void *what), const void *what,
                 const char *name, tarry_diagnostic *diagnostic)
{
    uint64_t end = clock_now_ns() + PATIENCE_NS;
    while (!done(what)) {
        if (atomic_load(&its->tally->failed))
            return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "emulated workers: %s",
                            its->tally->why);
        if (has_lost_a_relay(its))
            return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "a relay has ended");
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

static int relays_bytes(const stand *its, double *bytes, tarry_diagnostic *diagnostic)
{
    int error = TARRY_OK;
    *bytes = 0;
    for (uint32_t i = 0; error == TARRY_OK && i < its->settings->relays; i++) {
        double one = 0;
        error = bench_resident_bytes(its->relays[i], &one, diagnostic);
        *bytes += one;
    }
    return error;
}

static int open_stand(stand *its, tarry_diagnostic *diagnostic)
{
    name_addresses(its);
    its->tally =
        mmap(NULL, sizeof(*its->tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (its->tally == MAP_FAILED) {
        its->tally = NULL;
        return diagnose_no_memory(diagnostic, "memory that processes share");
    }
    atomic_store(&its->tally->lost_parent, EMULATED_NO_PARENT);
    int error = bench_allow_files(its->settings->workers, diagnostic);
    if (error == TARRY_OK)
        error = start_processes(its, diagnostic);
    const bench_site_settings wanted = {
        .plan = its->wanted,
        .dimension = DIMENSION,
        .listen = its->root,
        .shared_out = its->shared_out,
    };
    if (error == TARRY_OK)
        error = bench_site_open(&its->site, &wanted, diagnostic);
    if (error == TARRY_OK) {
        malloc_trim(0);
        error = bench_resident_bytes(getpid(), &its->server_before, diagnostic);
    }
    if (error == TARRY_OK)
        error = relays_bytes(its, &its->relays_before, diagnostic);
    if (error != TARRY_OK)
        return error;
    atomic_store(&its->tally->open, true);
    error = await_count(its, &its->tally->ready, its->settings->workers, "the workers' arrival",
                        diagnostic);
    if (error == TARRY_OK && its->settings->relays > 1)
        error = await_count(its, &its->tally->standing, its->settings->workers,
                            "the workers' second connections", diagnostic);
    return error == TARRY_OK ? bench_site_wait(&its->site, diagnostic) : error;
}

static void close_stand(stand *its)
{
    bench_site_close(&its->site);
    for (uint32_t i = 0; i < CREWS; i++)
        end_process(its->crews[i]);
    for (uint32_t i = 0; i < its->settings->relays; i++)
        end_process(its->relays[i]);
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

static int measure_memory(const stand *its, bench_relays_result *result,
                          tarry_diagnostic *diagnostic)
{
    double server = 0, relays = 0;
    int error = bench_resident_bytes(getpid(), &server, diagnostic);
    if (error == TARRY_OK)
        error = relays_bytes(its, &relays, diagnostic);
    result->server_bytes = (server - its->server_before) / its->settings->workers;
    result->relay_bytes = (relays - its->relays_before) / its->settings->workers;
    return error;
}

static int measure_rounds(stand *its, double *samples, bench_relays_result *result,
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

int bench_relays_run(const bench_relays_settings *settings, bench_relays_result *result,
                     tarry_diagnostic *diagnostic)
{
    stand its = {.settings = settings};
    *result = (bench_relays_result){0};
    tarry_plan_settings_init(&its.wanted);
    its.wanted.workers = settings->workers;
    its.wanted.chunks = settings->reports / settings->workers * settings->workers;
    its.wanted.replication = 1;
    its.wanted.order = TARRY_ORDER_AS_IS;
    its.wanted.design = TARRY_DESIGN_CYCLIC;
    double *samples = memory_allocate(NULL, (size_t)3 * settings->rounds, sizeof(double));
    int error =
        samples == NULL ? diagnose_no_memory(diagnostic, "relays") : open_stand(&its, diagnostic);
    if (error == TARRY_OK)
        error = measure_rounds(&its, samples, result, diagnostic);
    close_stand(&its);
    memory_release(NULL, samples);
    return error;
}

/* ---- a relay's death ---- */

static uint32_t workers_of_first(const stand *its)
{
    uint32_t count = 0;
    const emulated_settings spread = {.parent_count = parent_count(its)};
    for (uint32_t worker = 0; worker < its->settings->workers; worker++)
        count += emulated_parent(&spread, worker) == 0;
    return count;
}

static int kill_first(stand *its, bench_relays_repair *result, tarry_diagnostic *diagnostic)
{
    emulated_tally *tally = its->tally;
    result->lost = workers_of_first(its);
    atomic_store(&tally->lost_ns, 0);
    atomic_store(&tally->lost_parent, 0);
    its->killed = 1;
    uint64_t died = clock_now_ns();
    kill(its->relays[0], SIGKILL);
    int error = await_count(its, &tally->returned, result->lost, "the workers' return", diagnostic);
    result->detected = (double)(atomic_load(&tally->lost_ns) - died) * 1e-9;
    result->repaired = (double)(atomic_load(&tally->returned_ns) - died) * 1e-9;
    result->welcomed = (double)atomic_load(&tally->welcome_most_ns) * 1e-9;
    result->returned = (double)atomic_load(&tally->return_most_ns) * 1e-9;
    result->round_trips = result->returned / result->welcomed;
    usleep(SETTLED_US);
    result->disturbed = atomic_load(&tally->disturbed);
    return error;
}

/* In the first round, in which the server has no times yet that anybody could be late by: what it
 * orders is for the death alone. */
static int measure_repair(stand *its, bench_relays_repair *result, tarry_diagnostic *diagnostic)
{
    stand_round call;
    int error = begin_round(&call, its, diagnostic);
    if (error != TARRY_OK)
        return error;
    int killed = kill_first(its, result, diagnostic);
    error = end_round(&call, killed == TARRY_OK ? diagnostic : NULL);
    result->exact = killed == TARRY_OK && error == TARRY_OK && call.round.result.exact;
    return killed != TARRY_OK ? killed : error;
}

/* Each chunk has another worker, with another relay, which is told to compute it once the first
 * one is lost. */
int bench_relays_repair_run(const bench_relays_settings *settings, bench_relays_repair *result,
                            tarry_diagnostic *diagnostic)
{
    stand its = {.settings = settings, .shared_out = true};
    *result = (bench_relays_repair){0};
    tarry_plan_settings_init(&its.wanted);
    its.wanted.workers = its.wanted.chunks = settings->workers;
    its.wanted.replication = settings->workers > 1 ? 2 : 1;
    its.wanted.design = TARRY_DESIGN_CYCLIC;
    int error = open_stand(&its, diagnostic);
    if (error == TARRY_OK)
        error = measure_repair(&its, result, diagnostic);
    close_stand(&its);
    return error;
}
