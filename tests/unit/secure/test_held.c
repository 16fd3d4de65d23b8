/* SPDX-License-Identifier: Apache-2.0 */
#include "secure/secure_memory.h"

#include "base/memory.h"
#include "base/random.h"
#include "edge_plan.h"
#include "learn/optimizer.h"
#include "seed.h"
#include "test.h"

OWNED_BY(exposure, exposure_free)

enum { SAMPLES = 60, WORKERS = 6 };

static tarry_plan *make_plan(uint64_t seed, uint32_t chunks, uint32_t replication)
{
    tarry_plan_settings settings =
        plan_settings(WORKERS, chunks, replication, TARRY_DESIGN_RANDOM, TARRY_ORDER_OPTIMAL, seed);
    settings.pieces = 2;
    return plan_make(&settings);
}

/* Who holds what, sample by sample. */
typedef struct oracle {
    bool has[WORKERS][SAMPLES];
} oracle;

static void note(oracle *its, const tarry_plan *plan, const batch_settings *batch)
{
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        for (uint32_t slot = 0; slot < tarry_plan_load(plan, worker); slot++) {
            uint32_t chunk = tarry_plan_chunk(plan, worker, slot);
            for (uint32_t i = 0; i < tarry_plan_span_count(plan, chunk); i++) {
                tarry_span span = tarry_plan_span(plan, chunk, i);
                size_t first, count;
                uint64_t begin, end;
                batch_chunk(batch, span.origin, &first, &count);
                tarry_span_samples(span, count, &begin, &end);
                for (uint64_t sample = first + begin; sample < first + end; sample++)
                    its->has[worker][sample] = true;
            }
        }
    }
}

/* Of all sets of so many colluders: the fewest samples that none of them has. */
static uint64_t judge(const oracle *its, uint32_t colluders)
{
    uint64_t left = SAMPLES;
    for (uint32_t set = 0; set < 1u << WORKERS; set++) {
        if ((uint32_t)__builtin_popcount(set) != colluders)
            continue;
        uint64_t hidden = 0;
        for (uint32_t sample = 0; sample < SAMPLES; sample++) {
            bool known = false;
            for (uint32_t worker = 0; worker < WORKERS; worker++)
                known = known || ((set >> worker & 1) != 0 && its->has[worker][sample]);
            hidden += !known;
        }
        left = hidden < left ? hidden : left;
    }
    return left;
}

static uint64_t left_by(exposure *samples, uint32_t colluders)
{
    uint64_t left;
    assert_ok(held_left(samples, SAMPLES, colluders, &left));
    return left;
}

static void check(exposure *samples, const oracle *its)
{
    for (uint32_t colluders = 0; colluders <= WORKERS; colluders++)
        assert_int_equal(left_by(samples, colluders), judge(its, colluders));
}

/* Counts each chunk's samples one by one. */
static void check_smallest(const tarry_plan *plan, const batch_settings *batch, const held_cut *cut)
{
    uint64_t fewest = SAMPLES + 1, largest = 0;
    uint32_t chunk = UINT32_MAX, where = UINT32_MAX;
    for (uint32_t i = 0; i < tarry_plan_chunks(plan); i++) {
        uint64_t samples = 0;
        for (uint32_t j = 0; j < tarry_plan_span_count(plan, i); j++) {
            const tarry_span span = tarry_plan_span(plan, i, j);
            size_t first, count;
            uint64_t begin, end;
            batch_chunk(batch, span.origin, &first, &count);
            tarry_span_samples(span, count, &begin, &end);
            for (uint64_t sample = begin; sample < end; sample++)
                samples++;
        }
        if (samples < fewest) {
            fewest = samples;
            where = i;
        }
    }
    assert_int_equal(held_smallest(plan, cut, &chunk), fewest);
    assert_int_equal(chunk, where);
    for (uint32_t i = 0; i < batch->chunks; i++) {
        size_t first, count;
        batch_chunk(batch, i, &first, &count);
        largest = count > largest ? count : largest;
    }
    assert_int_equal(held_largest_origin(cut), largest);
}

/* Plans of a job, some of which follow from the one before: against a table of all samples. */
TEST(it_is_what_all_plans_gave)
{
    random_stream stream = random_stream_make(test_seed("held", 1), RANDOM_TEST, 0, 0);
    for (int job = 0; job < 40; job++) {
        const batch_settings batch = {.rows = SAMPLES,
                                      .chunks = 2 * (3 + random_below(&stream, 5))};
        const held_cut cut = {.samples = batch.rows, .origins = batch.chunks};
        static const oracle nothing;
        oracle its = nothing;
        OWNED(exposure) samples, again;
        assert_ok(exposure_create(NULL, &samples));
        check(samples, &its);
        for (int i = 0; i < 3; i++) {
            OWNED(tarry_plan)
            plan =
                make_plan(random_u64(&stream) >> 1, batch.chunks / 2, 1 + random_below(&stream, 3));
            double pace[WORKERS];
            for (int j = 0; j < WORKERS; j++)
                pace[j] = random_exponential(&stream) + 0.1;
            const tarry_plan_evolution wanted = {
                .pace = pace, .most_moves = random_below(&stream, 20), .heaviest = 1};
            tarry_diagnostic why;
            assert_ok_or(why, held_add(samples, plan, &cut, &why));
            note(&its, plan, &batch);
            check(samples, &its);
            OWNED(tarry_plan) next = plan_evolve(plan, &wanted, NULL);
            assert_ok(held_add(samples, next, &cut, NULL));
            note(&its, next, &batch);
            check(samples, &its);
            check_smallest(plan, &batch, &cut);
            check_smallest(next, &batch, &cut);
        }
        char *text;
        size_t size;
        assert_ok(held_write(samples, &text, &size));
        assert_ok(held_read(text, size, SAMPLES, &again));
        check(again, &its);
        memory_release(NULL, text);
    }
}

TEST(a_plan_of_other_chunks_is_refused)
{
    OWNED(tarry_plan) plan = make_plan(1, 5, 2);
    const held_cut cut = {.samples = SAMPLES, .origins = 11};
    OWNED(exposure) samples;
    tarry_diagnostic why;
    assert_ok(exposure_create(NULL, &samples));
    assert_int_equal(held_add(samples, plan, &cut, &why), TARRY_ERROR_FORMAT);
    assert_string_equal(why.text, "the plan is of other chunks than the job");
    assert_int_equal(left_by(samples, 1), SAMPLES);
}

TEST(other_texts_are_refused)
{
    static const char *const wrong[] = {
        "0 0 10",
        "0 0 10\n0 10 20\n",
        "0 0 10\n0 5 20\n",
        "1 0 10\n0 0 10\n",
        "0 10 10\n",
        "0 0 61\n",
        "0 00 10\n",
        " 0 0 10\n",
        "0 0 10\n\n",
        "0 0 10 3\n",
        "0 -1 10\n",
        "x\n",
        "0 0 0x10\n",
        "16777216 0 1\n",
        "0 0 99999999999999999999999999999999999999999999999999999999999999999999\n",
    };
    exposure *read;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(held_read(wrong[i], strlen(wrong[i]), SAMPLES, &read), TARRY_ERROR_FORMAT);
    assert_int_equal(held_read("0 0 10\0", 8, SAMPLES, &read), TARRY_ERROR_FORMAT);
    assert_ok(held_read("", 0, SAMPLES, &read));
    exposure_free(read);
    assert_ok(held_read("0 0 10\n0 11 60\n4 0 1\n", 21, SAMPLES, &read));
    assert_int_equal(left_by(read, 1), 1);
    assert_int_equal(left_by(read, UINT32_MAX), 1); /* that nobody holds */
    exposure_free(read);
}
