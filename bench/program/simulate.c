/* SPDX-License-Identifier: Apache-2.0 */
#include "program/simulate.h"

#include <sys/resource.h>
#include <time.h>

#include <tarry/sim.h>

#include "base/diagnostic.h"
#include "sim/world.h"

/* Of the processor: what else the machine does doesn't count. */
static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double resident_bytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return 1024.0 * (double)usage.ru_maxrss;
}

static int measure(tarry_sim *sim, uint64_t reports, bench_simulate_row *row,
                   tarry_diagnostic *diagnostic)
{
    bench_simulate_row taken = {.rounds = 0};
    while (taken.reports < reports) {
        tarry_round_result result;
        double start = seconds_now();
        int error = tarry_sim_round(sim, &result);
        double seconds = seconds_now() - start;
        if (error == TARRY_OK)
            error = result.error;
        if (error != TARRY_OK)
            return diagnose(diagnostic, error, "round %llu: %s", (unsigned long long)taken.rounds,
                            tarry_error_text(error));
        taken.rounds++;
        taken.reports += result.copies_computed;
        taken.seconds += seconds;
        if (seconds > taken.longest_round)
            taken.longest_round = seconds;
        taken.virtual_round += (double)(result.end_ns - result.start_ns) * 1e-9;
    }
    taken.virtual_round /= (double)taken.rounds;
    taken.events = sim->events;
    taken.memory = resident_bytes();
    *row = taken;
    return TARRY_OK;
}

int bench_simulate_run(const bench_simulate_settings *settings, bench_simulate_row *row,
                       tarry_diagnostic *diagnostic)
{
    tarry_plan *plan = NULL;
    tarry_straggler *straggler = NULL;
    tarry_sim *sim = NULL;
    tarry_sim_settings world;
    tarry_sim_settings_init(&world);
    int error = tarry_plan_create(&settings->plan, NULL, &plan, diagnostic);
    if (error == TARRY_OK)
        error = tarry_straggler_create(settings->straggler, settings->plan.workers,
                                       settings->plan.seed, NULL, &straggler, diagnostic);
    world.straggler = straggler;
    if (error == TARRY_OK)
        error = tarry_sim_create(plan, &world, NULL, &sim, diagnostic);
    if (error == TARRY_OK)
        error = measure(sim, settings->reports, row, diagnostic);
    tarry_sim_free(sim);
    tarry_straggler_free(straggler);
    tarry_plan_free(plan);
    return error;
}
