/* SPDX-License-Identifier: Apache-2.0 */
#include "program/network.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "program/crew.h"
#include "program/process.h"
#include "program/site.h"

enum {
    DIMENSION = 1000,
    ADDRESS_BYTES = 64,
};

/* All workers live in another process, whose memory does not count. */
typedef struct idle_workers {
    pid_t process;
    int to, from; /* the address; why it failed */
} idle_workers;

static void run_workers(int from, int to, const tarry_plan_settings *wanted,
                        const bench_cluster *cluster)
{
    char where[ADDRESS_BYTES] = "";
    tarry_plan *plan = NULL;
    bench_crew *crew = NULL;
    tarry_diagnostic why = {{0}};
    /* It is shorter than any buffer of the system, so it comes as a whole. */
    ssize_t got = read(from, where, sizeof(where) - 1);
    int error = got > 0 ? tarry_plan_create(wanted, NULL, &plan, &why) : TARRY_ERROR_SYSTEM;
    if (error == TARRY_OK)
        error = bench_crew_open(where, bench_cluster_connects(cluster), plan, 1, &crew, &why);
    if (error == TARRY_OK)
        error = bench_crew_run(crew, &why);
    if (error != TARRY_OK && write(to, why.text, strlen(why.text)) < 0)
        error = TARRY_ERROR_SYSTEM;
    bench_crew_free(crew, NULL);
    tarry_plan_free(plan);
    _exit(error == TARRY_OK ? 0 : 1);
}

/* Before this process has any other thread than that which waits for signals. */
static int start_workers(idle_workers *its, const tarry_plan_settings *wanted,
                         const bench_cluster *cluster, tarry_diagnostic *diagnostic)
{
    int there[2], back[2];
    if (pipe(there) != 0)
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "a pipe: %s", strerror(errno));
    if (pipe(back) != 0) {
        close(there[0]);
        close(there[1]);
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "a pipe: %s", strerror(errno));
    }
    fflush(NULL);
    its->process = fork();
    if (its->process == 0) {
        close(there[1]);
        close(back[0]);
        run_workers(there[0], back[1], wanted, cluster);
    }
    close(there[0]);
    close(back[1]);
    its->to = there[1];
    its->from = back[0];
    return its->process > 0 ? TARRY_OK
                            : diagnose(diagnostic, TARRY_ERROR_SYSTEM,
                                       "a process for the workers: %s", strerror(errno));
}

/* The server is gone, so the workers end. Why they failed, if they did, is why the server did. */
static int end_workers(idle_workers *its, int error, tarry_diagnostic *diagnostic)
{
    char why[sizeof(tarry_diagnostic)] = "";
    int status = 0;
    close(its->to);
    if (its->process > 0) {
        waitpid(its->process, &status, 0);
        if (status != 0 && read(its->from, why, sizeof(why) - 1) > 0)
            error = diagnose(diagnostic, TARRY_ERROR_SYSTEM, "%s", why);
    }
    close(its->from);
    return error;
}

static int measure(bench_site *site, const idle_workers *workers, double *bytes,
                   tarry_diagnostic *diagnostic)
{
    const char *where = tarry_runtime_address(site->server, 0);
    bench_site_round round;
    double before = 0, after = 0;
    malloc_trim(0); /* what earlier measurements have left would be used first */
    int error = bench_resident_bytes(getpid(), &before, diagnostic);
    if (error == TARRY_OK && write(workers->to, where, strlen(where)) < 0)
        error = diagnose(diagnostic, TARRY_ERROR_SYSTEM, "the workers are gone");
    if (error == TARRY_OK)
        error = bench_site_wait(site, diagnostic);
    if (error == TARRY_OK)
        error = bench_site_run(site, &round, diagnostic);
    if (error == TARRY_OK)
        error = bench_resident_bytes(getpid(), &after, diagnostic);
    if (error == TARRY_OK)
        *bytes = (after - before) / (double)tarry_plan_workers(site->plan);
    return error;
}

int bench_network_idle(const bench_network_settings *settings, const bench_cluster *cluster,
                       double *bytes, tarry_diagnostic *diagnostic)
{
    bench_site_settings wanted = {.dimension = DIMENSION, .cluster = cluster};
    tarry_plan_settings_init(&wanted.plan);
    wanted.plan.workers = wanted.plan.chunks = settings->idle;
    wanted.plan.replication = 1;
    wanted.plan.order = TARRY_ORDER_AS_IS;
    idle_workers workers = {.to = -1, .from = -1};
    bench_site site = {0};
    int error = bench_allow_files(settings->idle, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = start_workers(&workers, &wanted.plan, cluster, diagnostic);
    if (error == TARRY_OK)
        error = bench_site_open(&site, &wanted, diagnostic);
    if (error == TARRY_OK)
        error = measure(&site, &workers, bytes, diagnostic);
    bench_site_close(&site);
    return end_workers(&workers, error, diagnostic);
}
