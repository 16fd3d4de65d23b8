/* SPDX-License-Identifier: Apache-2.0 */
#include "program/site.h"

#include "base/diagnostic.h"
#include "base/memory.h"
#include "program/process.h"
#include "runtime/clock.h"

#define PATIENCE_NS UINT64_C(60000000000)
/* Nobody is to be given up because the machine is busy. */
#define SILENCE_NS UINT64_C(600000000000)

static void observe(void *user, const tarry_tcp_notice *notice)
{
    bench_site *site = user;
    if (notice->type != TARRY_TCP_SIGNAL)
        return;
    atomic_store(&site->cpu_ns, bench_process_cpu_ns());
    atomic_store(&site->signal_ns, clock_now_ns());
}

static int open_server(bench_site *site, const bench_site_settings *settings,
                       tarry_diagnostic *diagnostic)
{
    const char *const listen[] = {settings->listen != NULL ? settings->listen : "127.0.0.1:0"};
    tarry_tcp_server_settings own;
    tarry_tcp_server_settings_init(&own);
    own.listen = listen;
    own.listen_count = 1;
    own.security = bench_cluster_server(settings->cluster);
    own.parameters = 1;
    own.dimension = settings->dimension;
    own.server.stripe_length = settings->stripe_length;
    own.server.silence_ns = SILENCE_NS;
    own.server.stop = TARRY_STOP_WORKERS;
    own.server.workers_needed = settings->plan.workers;
    own.observe = observe;
    own.observe_user = site;
    int error = tarry_tcp_server_create(site->plan, &own, NULL, &site->server, diagnostic);
    if (error == TARRY_OK) /* workers are let in from now on */
        error = tarry_runtime_open(site->server, diagnostic);
    return error;
}

int bench_site_open(bench_site *site, const bench_site_settings *settings,
                    tarry_diagnostic *diagnostic)
{
    *site = (bench_site){0};
    site->sum = vector_allocate(NULL, settings->dimension);
    int error = site->sum == NULL
                    ? diagnose_no_memory(diagnostic, "the sum")
                    : tarry_plan_create(&settings->plan, NULL, &site->plan, diagnostic);
    if (error == TARRY_OK)
        error = open_server(site, settings, diagnostic);
    if (error != TARRY_OK)
        bench_site_close(site);
    return error;
}

void bench_site_close(bench_site *site)
{
    tarry_runtime_free(site->server, true);
    tarry_plan_free(site->plan);
    vector_release(NULL, site->sum);
    site->server = NULL;
    site->plan = NULL;
    site->sum = NULL;
}

int bench_site_wait(bench_site *site, tarry_diagnostic *diagnostic)
{
    return tarry_runtime_wait(site->server, tarry_plan_workers(site->plan), PATIENCE_NS,
                              diagnostic);
}

int bench_site_run(bench_site *site, bench_site_round *round, tarry_diagnostic *diagnostic)
{
    const float parameters[] = {0};
    int error =
        tarry_runtime_round(site->server, parameters, site->sum, &round->result, diagnostic);
    uint64_t ended = clock_now_ns();
    if (error != TARRY_OK)
        return error;
    round->signal_ns = atomic_load(&site->signal_ns);
    round->seconds = (double)(ended - round->signal_ns) * 1e-9;
    return TARRY_OK;
}
