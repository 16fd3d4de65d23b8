/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over connections whose numbers travel in fewer bytes, against the oracle of sums. */
#include <stdbool.h>

#include "engine_group.h"
#include "mesh_group.h"
#include "protocol/wire/wire_bodies.h"
#include "runtime/tcp/mesh/mesh_state.h"
#include "seed.h"
#include "test.h"

enum { FEW = 4, LONG = 50000, LONGER = 200000 };

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
        mesh_group_begin(&group, shapes[i].count);
        for (size_t f = 0; f < SUM_CASE_TRIED; f++) {
            OWNED(sum_case)
            of = sum_case_make(shapes[i].dimension, 1, shapes[i].count, f % 2 == 1, seed + i);
            group.forms = sum_case_tried[f];
            mesh_group_sum(&group, of);
        }
    }
}

/* The sum that all have, of `step`. */
static void sum_into(mesh_group *group, const sum_case *of, uint64_t step, float *sum)
{
    group->step = step - 1;
    mesh_group_start_but(group, MESH_GROUP_MOST, of);
    for (uint32_t i = 0; i < group->count; i++)
        assert_int_equal(mesh_group_wait(group, i).state, TARRY_ENGINE_DONE);
    memcpy(sum, group->sums[0], of->dimension * sizeof(float));
}

/* By the seed and the step, and by nothing else; and it is rounding. */
TEST(chance_goes_by_seed_and_step)
{
    OWNED(sum_case) of = sum_case_make(LONG, 1, 3, false, test_seed(__func__, 13));
    OWNED(mesh_group) group;
    OWNED(float) first = checked_calloc(LONG, sizeof(float));
    OWNED(float) again = checked_calloc(LONG, sizeof(float));
    mesh_group_begin(&group, 3);
    group.forms = sum_case_tried[SUM_CASE_BOTH_INT8];
    sum_into(&group, of, 1, first);
    assert_true(sum_case_differing(first, of->sum, LONG) > LONG * 9 / 10);
    mesh_group_form(&group);
    sum_into(&group, of, 1, again);
    assert_memory_equal(first, again, LONG * sizeof(float));
    sum_into(&group, of, 2, again);
    assert_true(sum_case_differing(first, again, LONG) > LONG / 2);
    group.forms.seed++;
    sum_into(&group, of, 1, again);
    assert_true(sum_case_differing(first, again, LONG) > LONG / 2);
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
    mesh_group_begin(&group, FEW);
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
        OWNED(sum_case) first = sum_case_make(LONGER, 1, FEW, false, ++seed);
        OWNED(sum_case) second = sum_case_make(LONGER, 1, FEW - 1, false, ++seed);
        OWNED(mesh_group) group;
        mesh_group_begin(&group, FEW);
        group.forms = sum_case_tried[trial % 2 == 0 ? SUM_CASE_BOTH_INT8 : 2];
        mesh_group_lose_last(&group, first, trial * UINT64_C(1500000), second);
    }
}

static tarry_engine_progress start_two(mesh_group *group, const sum_case *of, sum_case_forms one,
                                       sum_case_forms other)
{
    group->step++;
    group->forms = one;
    mesh_group_start(group, 0, of);
    group->forms = other;
    mesh_group_start(group, 1, of);
    tarry_engine_progress progress = mesh_group_wait(group, 0);
    for (uint32_t i = 0; i < 2; i++)
        mesh_engine(group->members[i])->methods->abandon(mesh_engine(group->members[i]));
    return progress;
}

MESH_GROUP(who_has_another_form_is_suspected)
{
    OWNED(sum_case) of = sum_case_make(1000, 1, 2, false, 5);
    mesh_group_begin(group, 2);
    for (size_t f = 0; f < SUM_CASE_TRIED; f++) {
        sum_case_forms other = sum_case_tried[f];
        if (f % 2 == 0)
            other.up = other.up == TARRY_COMPRESS_INT8 ? TARRY_COMPRESS_BF16 : TARRY_COMPRESS_INT8;
        else
            other.down =
                other.down == TARRY_COMPRESS_NONE ? TARRY_COMPRESS_BF16 : TARRY_COMPRESS_NONE;
        tarry_engine_progress progress = start_two(group, of, sum_case_tried[f], other);
        assert_int_equal(progress.state, TARRY_ENGINE_FAILED);
        assert_int_equal(progress.suspect, 10);
        assert_non_null(strstr(progress.why, "in another form"));
    }
}

/* Forms with feedback, and of several parts. */
MESH_GROUP(forms_that_are_none_of_sums_are_refused)
{
    mesh_group_begin(group, FEW);
    engine_refuses_forms(mesh_engine(group->members[0]));
}
