/* SPDX-License-Identifier: Apache-2.0 */
/* The decode weights are random: the search for good ones would take minutes. */
#include "fuzz_plans.h"

#include <math.h>

#include "base/memory.h"
#include "base/random.h"
#include "plan/decode/decode.h"
#include "plan/design/design.h"
#include "plan/rack/rack.h"

enum { SEEDS = 8, FIRST_SPLIT = 6, RACKED = 3, RACK_SIZE = 2 };

static tarry_plan
    *plans[FUZZ_MOST_WORKERS][FUZZ_MOST_CHUNKS][FUZZ_MOST_WORKERS][FUZZ_MOST_WORKERS][SEEDS];

int LLVMFuzzerInitialize(int *count, char ***arguments);

static void draw_columns(double *matrix, uint32_t parts, uint32_t workers, random_stream *stream)
{
    for (uint32_t worker = 0; worker < workers; worker++) {
        double square = 0;
        for (uint32_t part = 0; part < parts; part++) {
            matrix[part * workers + worker] = random_normal(stream);
            square += matrix[part * workers + worker] * matrix[part * workers + worker];
        }
        for (uint32_t part = 0; part < parts; part++)
            matrix[part * workers + worker] /= sqrt(square);
    }
}

static int set_decode(tarry_plan *plan)
{
    double decode[FUZZ_MOST_WORKERS * FUZZ_MOST_WORKERS];
    tarry_plan drawn = *plan;
    drawn.decode = decode;
    random_stream stream = random_stream_make(plan->seed, RANDOM_TEST, plan->workers, plan->parts);
    draw_columns(decode, plan->parts, plan->workers, &stream);
    return decode_make(plan, plan->seed, &drawn);
}

static tarry_plan *make_plan(const tarry_plan_settings *settings)
{
    tarry_plan *plan = memory_allocate(NULL, 1, sizeof(*plan));
    require(plan != NULL);
    plan->allocator = memory_allocator(NULL);
    plan->workers = settings->workers;
    plan->chunks = plan->origins = settings->chunks;
    plan->pieces = 1;
    plan->parts = settings->parts;
    plan->order = settings->order;
    plan->seed = settings->seed;
    require(rack_assign(plan, settings, NULL) == TARRY_OK);
    require(design_assign(plan, settings, NULL) == TARRY_OK);
    require(plan_arrange(plan, plan->order) == TARRY_OK);
    require(set_decode(plan) == TARRY_OK);
    require(plan_take_digest(plan) == TARRY_OK);
    return plan;
}

/* The plan that comes from this one when its first chunk is heavy: it is split, and what the chunks
 * stand for has to be said. */
static tarry_plan *split_first(tarry_plan *plan)
{
    double cost[FUZZ_MOST_CHUNKS] = {3.5, 1, 1, 1, 1, 1};
    const tarry_plan_evolution wanted = {.cost = cost, .heaviest = 1};
    tarry_plan *next = NULL;
    require(tarry_plan_evolve(plan, &wanted, NULL, &next, NULL, NULL) == TARRY_OK);
    tarry_plan_free(plan);
    return next;
}

static void make_plans(uint32_t workers, uint32_t chunks, uint32_t replication)
{
    tarry_plan_settings settings;
    tarry_plan_settings_init(&settings);
    settings.workers = workers;
    settings.chunks = chunks;
    settings.replication = replication;
    for (settings.parts = 1; settings.parts <= replication; settings.parts++) {
        for (settings.seed = 0; settings.seed < SEEDS; settings.seed++) {
            settings.rack_size = settings.seed % 4 == RACKED && workers > 1 ? RACK_SIZE : 0;
            tarry_plan *plan = make_plan(&settings);
            if (settings.seed >= FIRST_SPLIT)
                plan = split_first(plan);
            plans[workers - 1][chunks - 1][replication - 1][settings.parts - 1][settings.seed] =
                plan;
        }
    }
}

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    (void)count;
    (void)arguments;
    for (uint32_t workers = 1; workers <= FUZZ_MOST_WORKERS; workers++)
        for (uint32_t chunks = 1; chunks <= FUZZ_MOST_CHUNKS; chunks++)
            for (uint32_t replication = 1; replication <= workers; replication++)
                make_plans(workers, chunks, replication);
    return 0;
}

const tarry_plan *take_plan(input *in)
{
    uint32_t workers = take(in) % FUZZ_MOST_WORKERS, chunks = take(in) % FUZZ_MOST_CHUNKS;
    uint32_t replication = take(in) % (workers + 1), parts = take(in) % (replication + 1);
    return plans[workers][chunks][replication][parts][take(in) % SEEDS];
}
