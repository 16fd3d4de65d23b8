/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariants can fail: each error, planted into the worlds, is found by the one it breaks, in
 * few rounds, and shrinks to few faults.
 */
#include <stdio.h>

#include "seed.h"
#include "test.h"
#include "worlds/plants.h"
#include "worlds/shrink.h"

enum { ENOUGH = 10, PLENTY_ROUNDS = 1000, MOST_ROUNDS = 10000, FEW_FAULTS = 8, MOST_PLANTS = 100 };

static void count_line(void *user, const char *line)
{
    (void)line;
    ++*(uint32_t *)user;
}

/* Shrinks what `job` shows, and runs it with the faults that are left. bench/pages/reliability.py
 * reads the line. */
static void shrink(cluster *world, const cluster_job *job, const char *title, uint64_t rounds)
{
    char name[LINE_BYTES];
    size_t all = world->draws.struck.count;
    uint32_t lines = 0;
    snprintf(name, sizeof(name), "%s", world->broken);
    shrinking shrunk;
    assert_ok(shrink_faults(world, job, &shrunk));
    cluster_job left = *job;
    left.allowed = &shrunk.left;
    left.trace = count_line;
    left.user = &lines;
    assert_ok(cluster_run(world, &left));
    assert_non_null(world->broken);
    assert_string_equal(world->broken, name);
    assert_true(world->draws.struck.count <= all && shrunk.left.count <= FEW_FAULTS);
    printf("%s: %s: within %llu rounds; %zu of %zu faults show it, in %u lines\n", title, name,
           (unsigned long long)rounds, shrunk.left.count, all, lines);
}

/*
 * The error is found by its invariant in some worlds, the first of them among the first MOST_ROUNDS
 * rounds; one is enough once there were PLENTY_ROUNDS.
 */
static void error_is_found(void **state)
{
    const planted_error *of = *state;
    cluster_job job = {
        .seed = of->seed != 0 ? of->seed : test_seed("scenario/planted", 1),
        .run = of->first,
        .sum = of->worlds == PLANT_EVERYWHERE ? TARRY_SUM_EVERYWHERE : TARRY_SUM_SERVER,
        .secure = of->worlds == PLANT_SECURE,
        .planted = of->planted,
    };
    cluster *world;
    assert_ok(cluster_create(NULL, &world));
    uint64_t rounds = 0;
    for (uint32_t found = 0; found == 0 || (found < ENOUGH && rounds < PLENTY_ROUNDS); job.run++) {
        assert_ok(cluster_run(world, &job));
        rounds += world->rounds_done;
        assert_true(found > 0 || rounds <= MOST_ROUNDS);
        if (world->broken == NULL)
            continue;
        const bool its = strcmp(world->broken, of->invariant) == 0;
        if (its && found++ == 0)
            shrink(world, &job, of->title, rounds);
        else if (!its && of->others != NULL && strstr(of->others, world->broken) == NULL)
            fail_msg("run %u: %s (%s), expected %s", job.run, world->broken, world->why,
                     of->invariant);
    }
    cluster_free(world);
}

/* A case for each. */
__attribute__((constructor)) static void add_cases(void)
{
    static test_case cases[MOST_PLANTS];
    for (size_t i = 0; i < planted_error_count && i < MOST_PLANTS; i++) {
        const planted_error *of = &planted_errors[i];
        cases[i] = (test_case){
            .file = __FILE__,
            .line = (int)i,
            .test = {.name = of->name, .test_func = error_is_found, .initial_state = (void *)of},
        };
        test_case_add(&cases[i]);
    }
}
