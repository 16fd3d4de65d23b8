/* SPDX-License-Identifier: Apache-2.0 */
/* What a seed means stays what it is, on every machine; and a world without some of its faults. */
#include <stdio.h>

#include "base/digest.h"
#include "failing_allocator.h"
#include "test.h"
#include "worlds/cluster.h"

static void add_line(void *user, const char *line)
{
    assert_int_equal(digest_add_bytes(user, (const uint8_t *)line, strlen(line)), 0);
    assert_int_equal(digest_add_bytes(user, (const uint8_t *)"\n", 1), 0);
}

static void hash(cluster *world, cluster_job job, uint32_t runs, uint8_t out[32])
{
    digest *sum = digest_begin();
    assert_non_null(sum);
    job.trace = add_line;
    job.user = sum;
    for (uint32_t run = 0; run < runs; run++, job.run++)
        assert_ok(cluster_run(world, &job));
    assert_int_equal(digest_end(sum, out), 0);
}

/*
 * What `tarry-worlds --trace --seed 1 --runs 200` prints, without the lines 'world N'.
 * Changes with anything that the machines or the worlds do otherwise.
 */
TEST(traces_are_the_golden_ones)
{
    static const char golden[] = "636bd1564bb39a83c70751c78642632fff7f7d2a6215557fc29ec587a530ff69";
    cluster *world;
    assert_ok(cluster_create(NULL, &world));
    uint8_t sum[32];
    hash(world, (cluster_job){.seed = 1}, 200, sum);
    cluster_free(world);
    char text[65];
    for (size_t i = 0; i < 32; i++)
        snprintf(text + 2 * i, 3, "%02x", sum[i]);
    assert_string_equal(text, golden);
}

/* A run does not depend on those before it, nor on what the memory was used for. */
TEST(a_run_stands_alone)
{
    cluster *one, *other;
    assert_ok(cluster_create(NULL, &one));
    assert_ok(cluster_create(NULL, &other));
    uint8_t first[32], second[32];
    hash(one, (cluster_job){.seed = 3}, 37, first);
    hash(one, (cluster_job){.seed = 3, .run = 37}, 1, first);
    hash(other, (cluster_job){.seed = 3, .run = 37}, 1, second);
    assert_memory_equal(first, second, 32);
    hash(other, (cluster_job){.seed = 4, .run = 37}, 1, second);
    assert_memory_not_equal(first, second, 32);
    cluster_free(one);
    cluster_free(other);
}

TEST(only_allowed_faults_strike)
{
    cluster *world;
    assert_ok(cluster_create(NULL, &world));
    size_t most = 0;
    for (uint32_t run = 0; run < 200; run++) {
        cluster_job job = {.seed = 5, .run = run};
        uint8_t all[32], same[32];
        hash(world, job, 1, all);
        const fault_list struck = world->draws.struck;
        most = struck.count > most ? struck.count : most;
        /* All that struck are enough for the same world. */
        job.allowed = &struck;
        if (struck.count < MAX_FAULTS) {
            hash(world, job, 1, same);
            assert_memory_equal(all, same, 32);
        }
        const fault_list none = {.count = 0};
        job.allowed = &none;
        hash(world, job, 1, same);
        assert_int_equal(world->draws.struck.count, 0);
        assert_int_equal(world->counts.silent + world->counts.restarts + world->counts.replans, 0);
        assert_null(world->broken);
    }
    assert_true(most > 20);
    cluster_free(world);
}

/* One in which the server restarts, and the plan changes. */
static int run_a_world(void *user, const tarry_allocator *allocator)
{
    (void)user;
    cluster *world;
    int error = cluster_create(allocator, &world);
    if (error != TARRY_OK)
        return error;
    error = cluster_run(world, &(cluster_job){.seed = 1, .run = 35});
    if (error == TARRY_OK)
        assert_true(world->counts.restarts > 0 && world->counts.turned > 0);
    cluster_free(world);
    return error;
}

TEST(each_allocation_can_fail)
{
    assert_true(fail_each_allocation(run_a_world, NULL) > 50);
}
