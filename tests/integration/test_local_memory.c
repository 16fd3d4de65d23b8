/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The most memory that a process with the local runtime takes, with TARRY_KEEP_CREDITED, one
 * gradient ahead and 64 chunks for each worker: (3.2 m + 4) d numbers and 64 MiB, the caller's
 * parameters and sum included. TARRY_TEST_DIMENSION sets d, TARRY_TEST_WORKERS m.
 */
#include <stdio.h>
#include <sys/resource.h>

#include <tarry/local.h>

#include "edge_plan.h"
#include "test.h"

enum { CHUNKS_EACH = 64, REPLICATION = 2, ROUNDS = 4 };

static size_t number_from(const char *variable, size_t fallback)
{
    const char *text = getenv(variable);
    return text != NULL ? (size_t)strtoull(text, NULL, 10) : fallback;
}

/* The chunk's number, times what the round's parameters say. */
static int compute(void *user, const tarry_task *task)
{
    const size_t *dimension = user;
    for (size_t i = 0; i < *dimension; i++)
        task->gradient[i] = (float)task->chunk * task->parameters[i];
    return 0;
}

static size_t most_bytes(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return (size_t)usage.ru_maxrss * 1024;
}

TEST(three_vectors_per_worker_are_enough)
{
    size_t dimension = number_from("TARRY_TEST_DIMENSION", 1000000);
    uint32_t workers = (uint32_t)number_from("TARRY_TEST_WORKERS", 4);
    OWNED(tarry_plan)
    plan = plan_drawn(workers, CHUNKS_EACH * workers / REPLICATION, REPLICATION, 1);
    tarry_local_settings settings;
    tarry_local_settings_init(&settings);
    settings.parameters = settings.dimension = dimension;
    settings.compute = compute;
    settings.user = &dimension;
    settings.server.keep = TARRY_KEEP_CREDITED;
    settings.server.ahead = 1;
    tarry_runtime *local;
    assert_ok(tarry_local_create(plan, &settings, NULL, &local, NULL));
    float *parameters = checked_malloc(dimension * sizeof(*parameters));
    float *sum = checked_malloc(dimension * sizeof(*sum));

    float chunks = (float)(tarry_plan_chunks(plan) * (tarry_plan_chunks(plan) - 1) / 2);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < dimension; i++)
            parameters[i] = (float)(round + 1);
        tarry_round_result result;
        assert_ok(tarry_runtime_round(local, parameters, sum, &result, NULL));
        assert_true(result.exact);
        for (size_t i = 0; i < dimension; i++)
            assert_true(sum[i] == chunks * (float)(round + 1));
    }
    double vectors = (double)most_bytes() / (double)(dimension * sizeof(float));
    double allowed = 3.2 * workers + 4 + (double)(64 << 20) / (double)(dimension * sizeof(float));
    printf("%u workers of %d chunks, d = %zu: %.2f vectors, of %.2f\n", workers, CHUNKS_EACH,
           dimension, vectors, allowed);
    assert_true(vectors <= allowed);
    free(parameters);
    free(sum);
    tarry_runtime_free(local, true);
}
