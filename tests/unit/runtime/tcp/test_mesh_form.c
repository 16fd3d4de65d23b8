/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over connections whose numbers travel in fewer bytes, against the oracle of sums. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "mesh_group.h"
#include "protocol/wire/wire_bodies.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh_state.h"
#include "seed.h"
#include "test.h"

enum { FEW = 4, LONG = 50000, LONGER = 200000, EXACT = 37 };

static const sum_case_forms FORMS[] = {
    {TARRY_COMPRESS_BF16, TARRY_COMPRESS_NONE, 0, 1},
    {TARRY_COMPRESS_NONE, TARRY_COMPRESS_BF16, EXACT, 1},
    {TARRY_COMPRESS_BF16, TARRY_COMPRESS_BF16, EXACT, 1},
    {TARRY_COMPRESS_INT8, TARRY_COMPRESS_NONE, EXACT, 1},
    {TARRY_COMPRESS_NONE, TARRY_COMPRESS_INT8, 0, 1},
    {TARRY_COMPRESS_INT8, TARRY_COMPRESS_INT8, EXACT, 1},
};
enum { FORM_COUNT = sizeof(FORMS) / sizeof(FORMS[0]), BOTH_INT8 = FORM_COUNT - 1 };

/* The same bits at all, each number rounded once on its way and once on its way back. */
TEST(every_member_gets_the_same_sum)
{
    static const struct {
        uint32_t count;
        size_t dimension;
    } shapes[] = {{1, 100}, {2, 1}, {2, LONG}, {3, 7}, {5, 9999}, {8, 20}, {8, 300000}};
    uint64_t seed = test_seed(__func__, 13);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        OWNED(mesh_group) group;
        mesh_group_make(&group, shapes[i].count, NULL);
        mesh_group_form(&group);
        for (size_t f = 0; f < FORM_COUNT; f++) {
            OWNED(sum_case)
            of = sum_case_make(shapes[i].dimension, 1, shapes[i].count, f % 2 == 1, seed + i);
            group.forms = FORMS[f];
            mesh_group_sum(&group, of);
        }
    }
}

/* The sum that all have, of `step`. */
static void sum_into(mesh_group *group, const sum_case *of, uint64_t step, float *sum)
{
    float *others[MESH_GROUP_MOST];
    group->step = step;
    for (uint32_t i = 0; i < group->count; i++) {
        others[i] = checked_calloc(of->dimension, sizeof(float));
        mesh_group_start(group, i, of, others[i]);
    }
    for (uint32_t i = 0; i < group->count; i++)
        assert_int_equal(mesh_group_wait(group, i).state, TARRY_ENGINE_DONE);
    memcpy(sum, others[0], of->dimension * sizeof(float));
    for (uint32_t i = 0; i < group->count; i++)
        free(others[i]);
}

static size_t count_different(const float *one, const float *other, size_t count)
{
    size_t different = 0;
    for (size_t i = 0; i < count; i++)
        different += memcmp(&one[i], &other[i], sizeof(one[i])) != 0;
    return different;
}

/* By the seed and the step, and by nothing else; and it is rounding. */
TEST(chance_goes_by_seed_and_step)
{
    mesh_group group;
    sum_case *of = sum_case_make(LONG, 1, 3, false, test_seed(__func__, 13));
    float *first = calloc(LONG, sizeof(float)), *again = calloc(LONG, sizeof(float));
    assert_true(first != NULL && again != NULL);
    mesh_group_make(&group, 3, NULL);
    mesh_group_form(&group);
    group.forms = FORMS[BOTH_INT8];
    sum_into(&group, of, 1, first);
    assert_true(count_different(first, of->sum, LONG) > LONG * 9 / 10);
    mesh_group_form(&group);
    sum_into(&group, of, 1, again);
    assert_memory_equal(first, again, LONG * sizeof(float));
    sum_into(&group, of, 2, again);
    assert_true(count_different(first, again, LONG) > LONG / 2);
    group.forms.seed++;
    sum_into(&group, of, 1, again);
    assert_true(count_different(first, again, LONG) > LONG / 2);
    free(first);
    free(again);
    mesh_group_free(&group);
    sum_case_free(of);
}

/* With the heads of all blocks. */
static uint64_t bytes_of_all(mesh_group *group, const sum_case *of)
{
    uint64_t bytes = 0;
    mesh_group_sum(group, of);
    for (uint32_t i = 0; i < group->count; i++) {
        const mesh_sum *sum = &group->members[i]->sum;
        bytes += mesh_group_wait(group, i).moved;
        bytes += UINT64_C(2) * sum->cut.stripes * (group->count - 1) *
                 (WIRE_HEAD_BYTES + WIRE_BLOCK_HEAD_BYTES);
    }
    return bytes;
}

/* Each way: of the two, one is sent as it is while the other is measured. */
TEST(int8_takes_a_quarter_of_the_bytes)
{
    OWNED(sum_case) of = sum_case_make(LONGER, 1, FEW, false, test_seed(__func__, 13));
    OWNED(mesh_group) group;
    mesh_group_make(&group, FEW, NULL);
    mesh_group_form(&group);
    const double whole = (double)bytes_of_all(&group, of), way = whole / 2;
    assert_true(way >= sizeof(float) * (double)LONGER * (FEW - 1));
    const tarry_compress none = TARRY_COMPRESS_NONE, int8 = TARRY_COMPRESS_INT8;
    group.forms = (sum_case_forms){.up = int8, .down = none};
    assert_true((double)bytes_of_all(&group, of) - way < way / 3.9);
    group.forms = (sum_case_forms){.up = none, .down = int8};
    assert_true((double)bytes_of_all(&group, of) - way < way / 3.9);
    group.forms = (sum_case_forms){.up = int8, .down = int8};
    assert_true((double)bytes_of_all(&group, of) < whole / 3.9);
    group.forms = (sum_case_forms){.up = TARRY_COMPRESS_BF16, .down = TARRY_COMPRESS_BF16};
    assert_true((double)bytes_of_all(&group, of) < whole / 1.99);
}

/* One ends in the middle of a sum, earlier and later: nothing of it is in the next one. */
TEST(those_who_are_left_sum_on)
{
    uint64_t seed = test_seed(__func__, 13);
    for (uint64_t trial = 0; trial < 5; trial++) {
        float *sum[FEW];
        OWNED(sum_case) first = sum_case_make(LONGER, 1, FEW, false, ++seed);
        OWNED(sum_case) second = sum_case_make(LONGER, 1, FEW - 1, false, ++seed);
        OWNED(mesh_group) group;
        mesh_group_make(&group, FEW, NULL);
        mesh_group_form(&group);
        group.forms = FORMS[trial % 2 == 0 ? BOTH_INT8 : 2];
        group.step++;
        for (uint32_t i = 0; i < FEW; i++) {
            sum[i] = checked_calloc(LONGER, sizeof(float));
            mesh_group_start(&group, i, first, sum[i]);
        }
        tarry_engine_progress progress;
        tarry_engine *watched = mesh_engine(group.members[0]);
        watched->methods->wait(watched, clock_from_now(trial * UINT64_C(1500000)), &progress);
        mesh_free(group.members[FEW - 1]);
        group.count--;
        mesh_group_form(&group);
        mesh_group_sum(&group, second);
        for (uint32_t i = 0; i < FEW; i++)
            free(sum[i]);
    }
}

static tarry_engine_progress start_two(mesh_group *group, const sum_case *of, float *const *sum,
                                       sum_case_forms one, sum_case_forms other)
{
    group->step++;
    group->forms = one;
    mesh_group_start(group, 0, of, sum[0]);
    group->forms = other;
    mesh_group_start(group, 1, of, sum[1]);
    tarry_engine_progress progress = mesh_group_wait(group, 0);
    for (uint32_t i = 0; i < 2; i++)
        mesh_engine(group->members[i])->methods->abandon(mesh_engine(group->members[i]));
    return progress;
}

MESH_GROUP(who_has_another_form_is_suspected)
{
    OWNED(sum_case) of = sum_case_make(1000, 1, 2, false, 5);
    float *sum[2] = {calloc(1000, sizeof(float)), calloc(1000, sizeof(float))};
    mesh_group_make(group, 2, NULL);
    mesh_group_form(group);
    for (size_t f = 0; f < FORM_COUNT; f++) {
        sum_case_forms other = FORMS[f];
        if (f % 2 == 0)
            other.up = other.up == TARRY_COMPRESS_INT8 ? TARRY_COMPRESS_BF16 : TARRY_COMPRESS_INT8;
        else
            other.down =
                other.down == TARRY_COMPRESS_NONE ? TARRY_COMPRESS_BF16 : TARRY_COMPRESS_NONE;
        tarry_engine_progress progress = start_two(group, of, sum, FORMS[f], other);
        assert_int_equal(progress.state, TARRY_ENGINE_FAILED);
        assert_int_equal(progress.suspect, 10);
        assert_non_null(strstr(progress.why, "in another form"));
    }
    free(sum[0]);
    free(sum[1]);
}

/* Forms with feedback, and of several parts. */
MESH_GROUP(forms_that_are_none_of_sums_are_refused)
{
    static const float weights[4 * FEW];
    float sum[100];
    mesh_group_make(group, FEW, NULL);
    mesh_group_form(group);
    tarry_engine *engine = mesh_engine(group->members[0]);
    tarry_engine_sum asked = {
        .name = {.step = 1}, .dimension = 100, .parts = 1, .weights = weights, .sum = sum};
    asked.compress = TARRY_COMPRESS_INT4;
    assert_int_equal(engine->methods->start(engine, &asked), TARRY_ERROR_ARGUMENT);
    asked.compress = TARRY_COMPRESS_NONE;
    asked.compress_down = TARRY_COMPRESS_TOPK;
    assert_int_equal(engine->methods->start(engine, &asked), TARRY_ERROR_ARGUMENT);
    asked.compress_down = TARRY_COMPRESS_BF16;
    asked.parts = 2;
    assert_int_equal(engine->methods->start(engine, &asked), TARRY_ERROR_ARGUMENT);
}
