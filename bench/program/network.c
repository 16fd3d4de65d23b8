/* SPDX-License-Identifier: Apache-2.0 */
#include "program/network.h"

#include <math.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/quantile.h"
#include "coding/layout.h"
#include "program/bare.h"
#include "program/crew.h"
#include "program/peer.h"
#include "program/site.h"

enum {
    WARM_UP = 2,
    REPORTS_DIMENSION = 1000,
    DEFAULT_STRIPE = 65536, /* the runtime's */
};

/* A server, its workers, and bare connections beside them. */
typedef struct stand {
    bench_site site;
    bench_crew *crew;
    bench_bare *bare;
    bench_bare_job job;
    uint8_t *bytes; /* of the job */
    double *samples;
} stand;

/* ---- what both measurements do ---- */

static int open_stand(stand *its, const bench_network_settings *settings,
                      const bench_site_settings *wanted, uint32_t batch,
                      tarry_diagnostic *diagnostic)
{
    *its = (stand){0};
    int error = bench_site_open(&its->site, wanted, diagnostic);
    if (error != TARRY_OK)
        return error;
    its->samples = memory_allocate(NULL, (size_t)3 * settings->rounds, sizeof(double));
    if (its->samples == NULL)
        return diagnose_no_memory(diagnostic, "network");
    error = bench_crew_open(tarry_runtime_address(its->site.server, 0),
                            bench_cluster_connects(wanted->cluster), its->site.plan, batch,
                            &its->crew, diagnostic);
    if (error == TARRY_OK)
        error = bench_crew_start(its->crew, diagnostic);
    if (error == TARRY_OK)
        error = bench_site_wait(&its->site, diagnostic);
    if (error == TARRY_OK)
        error = bench_bare_open(settings->workers, bench_cluster_accepts(wanted->cluster),
                                bench_cluster_connects(wanted->cluster), &its->bare, diagnostic);
    return error;
}

/* What a worker complains of is why the server could not go on. */
static int close_stand(stand *its, int error, tarry_diagnostic *diagnostic)
{
    bench_site_close(&its->site);
    int reason = bench_crew_free(its->crew, diagnostic);
    bench_bare_free(its->bare);
    memory_release(NULL, its->bytes);
    memory_release(NULL, its->samples);
    return reason != TARRY_OK ? reason : error;
}

/* Rounds and bare runs in turn; `amount` says how much of what is counted a round moved. */
static int take_turns(stand *its, uint32_t rounds,
                      int (*amount)(const stand *its, const bench_site_round *round, double *moved,
                                    double *seconds, tarry_diagnostic *diagnostic),
                      bench_network_pair *pair, tarry_diagnostic *diagnostic)
{
    double *bare = its->samples, *ours = bare + rounds, *ratio = ours + rounds;
    for (uint32_t i = 0; i < WARM_UP + rounds; i++) {
        bench_site_round round;
        double bare_seconds, seconds = 0, moved = 0;
        uint64_t frames;
        int error = bench_bare_run(its->bare, &its->job, &bare_seconds, &frames, diagnostic);
        if (error == TARRY_OK)
            error = bench_site_run(&its->site, &round, diagnostic);
        if (error == TARRY_OK)
            error = amount(its, &round, &moved, &seconds, diagnostic);
        if (error != TARRY_OK)
            return error;
        if (i < WARM_UP)
            continue;
        uint32_t sample = i - WARM_UP;
        bare[sample] = moved / bare_seconds;
        ours[sample] = moved / seconds;
        ratio[sample] = ours[sample] / bare[sample];
    }
    *pair = (bench_network_pair){
        .bare = quantile_of(bare, rounds, 0.5),
        .ours = quantile_of(ours, rounds, 0.5),
        .ratio = quantile_of(ratio, rounds, 0.5),
    };
    return TARRY_OK;
}

/* ---- coded parts ---- */

/* All workers send the same numbers, so that the sum is these times the sum of the weights. */
static int check_sum(const stand *its, size_t dimension, size_t stripe_length)
{
    double weight = 0;
    for (uint32_t worker = 0; worker < tarry_plan_workers(its->site.plan); worker++)
        weight += tarry_plan_decode_weight(its->site.plan, 0, worker);
    for (size_t i = 0; i < dimension; i++) {
        double wanted = weight * (double)bench_crew_number(i % stripe_length);
        if (!(fabs((double)its->site.sum[i] - wanted) <= 1e-4 * (1 + fabs(wanted))))
            return TARRY_ERROR_NUMERICAL;
    }
    return TARRY_OK;
}

static int amount_of_parts(const stand *its, const bench_site_round *round, double *moved,
                           double *seconds, tarry_diagnostic *diagnostic)
{
    (void)diagnostic;
    *moved = (double)its->job.size * (double)its->job.repeats * tarry_plan_workers(its->site.plan);
    *seconds = round->seconds;
    return TARRY_OK;
}

/* As many bytes as a coded part has, a stripe at a time. */
static int make_parts_job(stand *its, size_t dimension, size_t stripe_length,
                          tarry_diagnostic *diagnostic)
{
    layout cut = layout_make(dimension, 1, stripe_length);
    size_t size = dimension * sizeof(float) + (size_t)cut.stripes * BENCH_PART_PREFIX_BYTES;
    its->bytes = memory_allocate(NULL, size, 1);
    if (its->bytes == NULL)
        return diagnose_no_memory(diagnostic, "coded parts");
    its->job = (bench_bare_job){
        .bytes = its->bytes,
        .size = size,
        .piece = stripe_length * sizeof(float) + BENCH_PART_PREFIX_BYTES,
        .repeats = 1,
    };
    return TARRY_OK;
}

int bench_network_parts(const bench_network_settings *settings, const bench_cluster *cluster,
                        bench_network_pair *pair, tarry_diagnostic *diagnostic)
{
    bench_site_settings wanted = {
        .dimension = settings->dimension,
        .stripe_length = settings->stripe_length > 0 ? settings->stripe_length : DEFAULT_STRIPE,
        .cluster = cluster,
    };
    tarry_plan_settings_init(&wanted.plan);
    wanted.plan.workers = wanted.plan.chunks = settings->workers;
    if (wanted.plan.replication > settings->workers)
        wanted.plan.replication = settings->workers;
    stand its;
    int error = open_stand(&its, settings, &wanted, 1, diagnostic);
    if (error == TARRY_OK)
        error = make_parts_job(&its, settings->dimension, wanted.stripe_length, diagnostic);
    if (error == TARRY_OK)
        error = take_turns(&its, settings->rounds, amount_of_parts, pair, diagnostic);
    if (error == TARRY_OK && check_sum(&its, settings->dimension, wanted.stripe_length) != TARRY_OK)
        error = diagnose(diagnostic, TARRY_ERROR_NUMERICAL, "the sum of coded parts is wrong");
    return close_stand(&its, error, diagnostic);
}

/* ---- reports ---- */

static int amount_of_reports(const stand *its, const bench_site_round *round, double *moved,
                             double *seconds, tarry_diagnostic *diagnostic)
{
    uint64_t began = bench_crew_began_ns(its->crew);
    if (round->result.copies_computed != tarry_plan_chunks(its->site.plan))
        return diagnose(diagnostic, TARRY_ERROR_STATE, "reports were not accepted");
    *moved = (double)round->result.copies_computed;
    *seconds = (double)(round->signal_ns - began) * 1e-9;
    return TARRY_OK;
}

static int make_reports_job(stand *its, uint32_t batch, tarry_diagnostic *diagnostic)
{
    size_t count = tarry_plan_chunks(its->site.plan) / tarry_plan_workers(its->site.plan);
    const codec_shape no_sets = {0};
    its->bytes = memory_allocate(NULL, count, BENCH_REPORT_BYTES);
    if (its->bytes == NULL)
        return diagnose_no_memory(diagnostic, "reports");
    for (size_t i = 0; i < count; i++) {
        const tarry_message report = {.type = TARRY_MESSAGE_REPORT, .slot = (uint32_t)i};
        uint8_t *frame = its->bytes + i * BENCH_REPORT_BYTES;
        wire_message_head(CODEC_HEADER_BYTES, 0, frame);
        codec_encode(&no_sets, &report, frame + WIRE_HEAD_BYTES);
    }
    its->job = (bench_bare_job){
        .bytes = its->bytes,
        .size = count * BENCH_REPORT_BYTES,
        .piece = (size_t)batch * BENCH_REPORT_BYTES,
        .repeats = 1,
        .counts = true,
    };
    return TARRY_OK;
}

int bench_network_reports(const bench_network_settings *settings, uint32_t batch,
                          bench_network_pair *pair, tarry_diagnostic *diagnostic)
{
    bench_site_settings wanted = {.dimension = REPORTS_DIMENSION};
    tarry_plan_settings_init(&wanted.plan);
    wanted.plan.workers = settings->workers;
    wanted.plan.chunks = settings->reports / settings->workers * settings->workers;
    wanted.plan.replication = 1;
    wanted.plan.order = TARRY_ORDER_AS_IS;
    wanted.plan.design = TARRY_DESIGN_CYCLIC;
    stand its;
    int error = open_stand(&its, settings, &wanted, batch, diagnostic);
    if (error == TARRY_OK)
        error = make_reports_job(&its, batch, diagnostic);
    if (error == TARRY_OK)
        error = take_turns(&its, settings->rounds, amount_of_reports, pair, diagnostic);
    return close_stand(&its, error, diagnostic);
}
