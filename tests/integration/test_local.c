/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "summing.h"
#include "test.h"

/* Runs `rounds` rounds and asserts that each is exact to `tolerance`. */
static void assert_exact_rounds(summing *job, int rounds, double tolerance)
{
    summing_begin(job);
    for (int round = 0; round < rounds; round++) {
        tarry_round_result result;
        tarry_diagnostic diagnostic;
        int error = summing_round(job, &result, &diagnostic);
        assert_ok_or(diagnostic, error);
        assert_true(result.exact);
        assert_true(result.expected_error == 0);
        assert_int_equal(result.round, round);
        assert_true(result.copies_computed >= result.copies_needed);
        assert_true(result.end_ns >= result.signal_ns && result.signal_ns >= result.start_ns);
        if (!(summing_error(job) <= tolerance))
            fail_msg("round %d: error %g", round, summing_error(job));
    }
    summing_end(job);
}

TEST(rounds_are_exact_for_every_design_and_number_of_parts)
{
    const tarry_design designs[] = {TARRY_DESIGN_CYCLIC, TARRY_DESIGN_FRACTIONAL,
                                    TARRY_DESIGN_RANDOM};
    for (size_t design = 0; design < 3; design++)
        for (uint32_t parts = 1; parts <= 3; parts++)
            for (int whole = 0; whole < 2; whole++) {
                summing job;
                summing_init(&job);
                job.plan_settings.design = designs[design];
                job.plan_settings.parts = parts;
                job.local_settings.server.credit = whole ? TARRY_CREDIT_WHOLE : TARRY_CREDIT_CHUNK;
                assert_exact_rounds(&job, 5, parts == 1 ? 1e-5 : 1e-4);
            }
}

TEST(dimensions_need_not_be_divisible)
{
    const size_t dimensions[] = {1, 2, 3, 7, 64, 1001};
    const size_t stripes[] = {1, 5, 1000};
    for (size_t d = 0; d < sizeof(dimensions) / sizeof(*dimensions); d++)
        for (size_t s = 0; s < sizeof(stripes) / sizeof(*stripes); s++) {
            summing job;
            summing_init(&job);
            job.dimension = dimensions[d];
            job.plan_settings.parts = 2;
            job.local_settings.server.stripe_length = stripes[s];
            assert_exact_rounds(&job, 2, 1e-4);
        }
}

TEST(fewer_chunks_than_workers_and_the_other_way_round)
{
    const uint32_t chunks[] = {1, 3, 20};
    for (size_t i = 0; i < 3; i++) {
        summing job;
        summing_init(&job);
        job.plan_settings.chunks = chunks[i];
        assert_exact_rounds(&job, 3, 1e-5);
    }
}

/* Two workers need 20 s for a chunk; the round must not wait for them,
 * nor must the end of the program. */
TEST(stragglers_are_not_waited_for)
{
    summing job;
    summing_init(&job);
    job.straggler_spec = "exp:0.001+slow:2,20000";
    assert_exact_rounds(&job, 3, 1e-5);
}

/* A worker in the middle of its second chunk still sends its first: two chunks in the time of one,
 * and one copy of each, unless the machine holds one of the two up. */
SUMMING(a_partial_straggler_s_work_counts)
{
    enum { ATTEMPTS = 20 };
    bool seen = false;
    summing_init(job);
    job->plan_settings.workers = job->plan_settings.chunks = 2;
    job->plan_settings.replication = 2;
    job->straggler_spec = "shifted-exp:0.3,0";
    summing_begin(job);
    for (int attempt = 0; attempt < ATTEMPTS && !seen; attempt++) {
        tarry_round_result result;
        assert_ok(summing_round(job, &result, NULL));
        assert_true(result.exact);
        seen = result.copies_computed == 2 && result.workers_heard == 2 &&
               result.end_ns - result.start_ns < 600000000;
    }
    assert_true(seen);
}

TEST(reproducible_rounds_repeat_to_the_bit)
{
    OWNED(float) first = NULL;
    for (int run = 0; run < 3; run++) {
        OWNED(summing) job;
        summing_init(&job);
        job.plan_settings.parts = 2;
        job.local_settings.server.reproducible = true;
        job.local_settings.server.stripe_length = 100;
        job.straggler_spec = "exp:0.0005/chunk";
        summing_begin(&job);
        tarry_round_result result;
        assert_ok(summing_round(&job, &result, NULL));
        assert_int_equal(result.copies_computed, 24);
        if (run == 0) {
            first = checked_malloc(job.dimension * sizeof(float));
            memcpy(first, job.sum, job.dimension * sizeof(float));
        }
        assert_memory_equal(first, job.sum, job.dimension * sizeof(float));
    }
}

SUMMING(bytes_are_counted)
{
    summing_init(job);
    job->plan_settings.parts = 2;
    job->local_settings.server.stop = TARRY_STOP_WORKERS;
    job->local_settings.server.workers_needed = 8;
    summing_begin(job);
    tarry_round_result result;
    assert_ok(summing_round(job, &result, NULL));
    assert_int_equal(result.upload_bytes, 8 * 500 * sizeof(float));
    /* 8 rounds, 24 reports, 8 signals (24 bytes, psi of 9 bits, 1 stripe), 8 parts */
    assert_int_equal(result.control_messages, 48);
    assert_int_equal(result.control_bytes, 48 * 24 + 8 * (2 + 1));
}

static int measure_checkpoint(void *user, const tarry_server *machine)
{
    *(size_t *)user = tarry_server_checkpoint_size(machine);
    return 0;
}

/* Five rounds, and a new runtime that goes on after them, compute what ten rounds do. */
SUMMING(another_runtime_goes_on_from_a_checkpoint)
{
    summing_init(job);
    job->local_settings.server.reproducible = true;
    summing_begin(job);
    tarry_round_result result;
    for (uint32_t round = 0; round < 5; round++)
        assert_ok(summing_round(job, &result, NULL));
    uint8_t bytes[4096];
    size_t size;
    tarry_runtime_visit(job->local, measure_checkpoint, &size);
    assert_true(size <= sizeof(bytes));
    assert_ok(tarry_runtime_checkpoint(job->local, bytes));

    tarry_local_settings settings = job->local_settings;
    settings.checkpoint = bytes;
    settings.checkpoint_size = size;
    tarry_runtime *next = NULL;
    tarry_diagnostic diagnostic;
    settings.server.silence_ns++;
    assert_int_equal(tarry_local_create(job->plan, &settings, NULL, &next, &diagnostic),
                     TARRY_ERROR_FORMAT);
    assert_non_null(strstr(diagnostic.text, "with other settings: silence_ns is "));
    settings.server.silence_ns--;
    assert_ok(tarry_local_create(job->plan, &settings, NULL, &next, NULL));
    memset(bytes, 0, sizeof(bytes));
    float *sum = calloc(job->dimension, sizeof(*sum));
    for (uint64_t round = 5; round < 10; round++) {
        assert_ok(summing_round(job, &result, NULL));
        assert_ok(tarry_runtime_round(next, job->parameters, sum, &result, NULL));
        assert_int_equal(result.round, round);
        assert_memory_equal(sum, job->sum, job->dimension * sizeof(*sum));
    }
    free(sum);
    tarry_runtime_free(next, true);
}

SUMMING(settings_are_checked)
{
    summing_init(job);
    summing_begin(job);
    tarry_runtime *local = NULL;
    tarry_diagnostic diagnostic;
    tarry_local_settings settings = job->local_settings;
    settings.dimension = 0;
    assert_int_equal(tarry_local_create(job->plan, &settings, NULL, &local, &diagnostic),
                     TARRY_ERROR_ARGUMENT);
    settings = job->local_settings;
    settings.server.stop = TARRY_STOP_WORKERS;
    settings.server.workers_needed = 9;
    assert_int_equal(tarry_local_create(job->plan, &settings, NULL, &local, &diagnostic),
                     TARRY_ERROR_ARGUMENT);
    assert_non_null(strstr(diagnostic.text, "workers_needed is more"));
    settings = job->local_settings;
    tarry_straggler *mortal;
    assert_ok(tarry_straggler_create("fail:0", 8, 1, NULL, &mortal, NULL));
    settings.straggler = mortal;
    assert_int_equal(tarry_local_create(job->plan, &settings, NULL, &local, &diagnostic),
                     TARRY_ERROR_ARGUMENT);
    assert_string_equal(diagnostic.text, "straggler term 'fail' is for tarry simulate");
    tarry_straggler_free(mortal);
    assert_null(local);
}

/* Each sum is far off, and what they are off by comes later: of gradients that stay the same, that
 * of all rounds is off by less the more there are, whatever is rounded on the way down, and the
 * more so where stripes cut the matrix. */
TEST(thin_products_come_to_the_sum_in_the_end)
{
    enum { ROUNDS = 60 };
    const tarry_matrix matrix = {30, 30};
    for (uint32_t kind = 0; kind < 4; kind++) {
        OWNED(summing) job;
        summing_init(&job);
        tarry_server_settings *server = &job.local_settings.server;
        job.lasting = true;
        server->compress = TARRY_COMPRESS_POWERSGD;
        server->compress_rank = 5;
        server->compress_matrix_count = 1;
        server->compress_matrices = &matrix;
        server->compress_down = kind == 1 ? TARRY_COMPRESS_INT8 : TARRY_COMPRESS_NONE;
        server->keep = kind == 2 ? TARRY_KEEP_CREDITED : TARRY_KEEP_ALL;
        server->stripe_length = kind == 3 ? 400 : 0;
        summing_begin(&job);
        double *off = checked_calloc(job.dimension, sizeof(*off)), first = 0, last = 0, size = 0;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            tarry_round_result result;
            job.parameters[0] = 0; /* that of each round is 1 */
            assert_ok(summing_round(&job, &result, NULL));
            assert_true(result.exact);
            last = size = 0;
            for (size_t i = 0; i < job.dimension; i++) {
                off[i] += (double)job.sum[i] - job.truth[i];
                last += off[i] * off[i];
                size += job.truth[i] * job.truth[i];
                assert_true(i < 900 || fabs(job.sum[i] - job.truth[i]) < 1e-4);
            }
            first = round == 0 ? last : first;
            assert_true(result.upload_bytes > 0);
            if (kind != 3) /* of each worker a thin matrix, and what is no matrix */
                assert_int_equal(result.upload_bytes % ((30 * 5 + 100) * sizeof(float)), 0);
        }
        assert_true(first > 0.3 * size);
        assert_true(last < 0.1 * size * ROUNDS * ROUNDS);
        free(off);
    }
}
