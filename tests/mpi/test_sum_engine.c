/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine over MPI without MPI: this file is the post. Blocks are carried in an order that the
 * seed says, so that they overtake each other as those of different ranks do.
 */
#include <math.h>

#include "draw.h"
#include "engine_group.h"
#include "mpi/sum_engine.h"
#include "seed.h"
#include "test.h"

enum { MOST = ENGINE_GROUP_MOST, MOST_CARRIED = 20000 };

/* ---- the post ---- */

typedef struct carried {
    uint32_t to, from;
    post_block *block;
} carried;

struct post {
    uint32_t rank;
    bool has_no_thread;
    uint64_t dropped; /* groups up to this one */
};

static struct post posts[MOST];
static carried queue[MOST_CARRIED];
static size_t queued, most_queued;
static int64_t blocks;       /* that are there */
static uint64_t block_bytes; /* of all that were put, with their heads */

post_block *post_block_reuse(post *self, size_t size)
{
    (void)self;
    post_block *made = aligned_alloc(64, (sizeof(*made) + size + 63) / 64 * 64);
    assert_non_null(made);
    atomic_init(&made->users, 1);
    made->size = size;
    blocks++;
    return made;
}

post_block *post_hold(post_block *block)
{
    atomic_fetch_add(&block->users, 1);
    return block;
}

void post_release(post_block *block)
{
    if (block == NULL || atomic_fetch_sub(&block->users, 1) > 1)
        return;
    blocks--;
    free(block);
}

void post_put(post *self, uint32_t to, uint64_t group, post_block *block)
{
    assert_true(group > 0 && queued < MOST_CARRIED && to != self->rank);
    queue[queued++] = (carried){.to = to, .from = self->rank, .block = block};
    most_queued = queued > most_queued ? queued : most_queued;
    block_bytes += block->size;
}

void post_wake(post *self)
{
}

bool post_begin(post *self)
{
    return !self->has_no_thread;
}

void post_drop(post *self, uint64_t group)
{
    self->dropped = group;
}

/* ---- a group ---- */

static void make(engine_group *group, uint32_t count)
{
    *group = (engine_group){.count = count};
    for (uint32_t i = 0; i < count; i++) {
        posts[i] = (struct post){.rank = i};
        group->workers[i] = i;
        group->engines[i] = sum_engine_create(&posts[i], i, MOST);
        assert_non_null(group->engines[i]);
    }
}

static void drop(size_t at)
{
    post_release(queue[at].block);
    queue[at] = queue[--queued];
}

static void finish(engine_group *group)
{
    while (queued > 0)
        drop(0);
    engine_group_release_sums(group);
    for (uint32_t i = 0; i < group->count; i++)
        group->engines[i]->methods->free(group->engines[i]);
    assert_int_equal(blocks, 0);
}

static void look(engine_group *group)
{
    for (uint32_t i = 0; i < group->count; i++)
        group->engines[i]->methods->wait(group->engines[i], 0, &group->progress[i]);
}

/* Delivers one block, any of those that are on their way. */
static void deliver(engine_group *group, uint64_t *random)
{
    size_t at = draw(random) % queued;
    carried item = queue[at];
    sum_engine_take(group->engines[item.to], item.from, item.block);
    drop(at);
}

/* Works in a random order until nothing can be done, or `most` times. */
static void run(engine_group *group, uint64_t *random, size_t most)
{
    for (size_t i = 0; i < most; i++) {
        uint32_t member = (uint32_t)(draw(random) % group->count);
        if (queued > 0 && draw(random) % 4 > 0) {
            deliver(group, random);
            continue;
        }
        sum_engine_turn(group->engines[member]);
        if (queued > 0)
            continue;
        for (uint32_t k = 0; k < group->count; k++)
            sum_engine_turn(group->engines[k]);
        if (queued == 0)
            break;
    }
    look(group);
}

static void sum_once(engine_group *group, const sum_case *of, uint64_t epoch, uint64_t *random)
{
    engine_group_form(group, epoch);
    engine_group_start(group, of, (uint32_t)epoch);
    run(group, random, SIZE_MAX);
}

/* All have the same bits; and each number was told of once. */
static void check_same(const engine_group *group, const sum_case *of)
{
    for (uint32_t i = 0; i < group->count; i++) {
        assert_int_equal(group->progress[i].state, TARRY_ENGINE_DONE);
        assert_memory_equal(group->sums[i], group->sums[0], of->dimension * sizeof(float));
        sum_watch_check(group->watches[i]);
    }
}

/* And they are near the case's sum. */
static void check(const engine_group *group, const sum_case *of)
{
    check_same(group, of);
    for (size_t k = 0; k < of->dimension; k++)
        assert_true(fabsf(group->sums[0][k] - of->sum[k]) <= 1e-4F * (1 + fabsf(of->sum[k])));
}

static void abandon_all(const engine_group *group)
{
    for (uint32_t i = 0; i < group->count; i++)
        group->engines[i]->methods->abandon(group->engines[i]);
}

TEST(any_shape_is_summed)
{
    uint64_t random = test_seed("sum_engine", 1);
    const size_t dimensions[] = {1, 15, 16, 100, 5000, 100000};
    for (size_t shape = 0; shape < sizeof(dimensions) / sizeof(dimensions[0]); shape++) {
        for (uint32_t count = 1; count <= 5; count += 2) {
            engine_group group;
            uint32_t parts = 1 + (uint32_t)(draw(&random) % 3);
            OWNED(sum_case)
            of = sum_case_make(dimensions[shape], parts, count, draw(&random) % 2, draw(&random));
            make(&group, count);
            sum_once(&group, of, 7, &random);
            check(&group, of);
            finish(&group);
        }
    }
}

#define ENGINE_GROUP(name) TEST_OF(name, engine_group, group, finish)

ENGINE_GROUP(no_more_than_a_window_is_on_its_way)
{
    uint64_t random = test_seed("sum_engine", 1);
    OWNED(sum_case) of = sum_case_make(1200000, 1, 4, false, 5);
    make(group, 4);
    engine_group_form(group, 7);
    engine_group_start(group, of, 1);
    most_queued = 0;
    for (uint32_t i = 0; i < 4; i++)
        sum_engine_turn(group->engines[i]); /* nobody has answered */
    assert_in_range(queued, 1, 4 * 3 * 8);
    run(group, &random, SIZE_MAX);
    assert_in_range(most_queued, 1, 2 * 4 * 3 * 10);
    check(group, of);
}

ENGINE_GROUP(who_begins_late_has_what_came_early)
{
    uint64_t random = test_seed("sum_engine", 1);
    OWNED(sum_case) of = sum_case_make(300000, 2, 3, true, 9);
    make(group, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(engine_group_form_one(group, i, 7, NULL));
        engine_group_start_one(group, i, of, 1);
        run(group, &random, SIZE_MAX);
    }
    check(group, of);
}

/* What is left of one attempt does not disturb the next one. */
TEST(an_abandoned_sum_leaves_nothing_behind)
{
    uint64_t random = test_seed("sum_engine", 1);
    for (int trial = 0; trial < 12; trial++) {
        engine_group group;
        uint32_t parts = 1 + (uint32_t)(draw(&random) % 2);
        OWNED(sum_case) of = sum_case_make(200000, parts, 3, false, 11);
        make(&group, 3);
        engine_group_form(&group, 7);
        engine_group_start(&group, of, 1);
        run(&group, &random, draw(&random) % 80);
        abandon_all(&group);
        sum_once(&group, of, 8, &random);
        check(&group, of);
        finish(&group);
    }
}

TEST(a_block_of_another_shape_fails_the_sum)
{
    uint64_t random = test_seed("sum_engine", 1);
    engine_group group;
    OWNED(sum_case) of = sum_case_make(100000, 1, 3, false, 13);
    make(&group, 3);
    engine_group_form(&group, 7);
    engine_group_start(&group, of, 1);
    for (uint32_t i = 0; i < 3; i++)
        sum_engine_turn(group.engines[i]);
    queue[0].block->size -= sizeof(float);
    uint32_t victim = queue[0].to;
    run(&group, &random, SIZE_MAX);
    assert_int_equal(group.progress[victim].state, TARRY_ENGINE_FAILED);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_not_equal(group.progress[i].state, TARRY_ENGINE_DONE);
    finish(&group);
}

/* Workers may have any ids: those are whom it suspects. A group whose members are not different
 * ranks, or one without the thread, is refused. */
TEST(a_member_is_a_rank_and_has_an_id)
{
    (void)state;
    uint64_t random = test_seed("sum_engine", 1);
    engine_group group;
    OWNED(sum_case) of = sum_case_make(100000, 1, 3, false, 17);
    make(&group, 3);
    for (uint32_t i = 0; i < 3; i++)
        group.workers[i] = 10 * (i + 1);
    engine_group_form(&group, 7);
    engine_group_start(&group, of, 1);
    run(&group, &random, 5);
    sum_engine_lose(group.engines[0], 2);
    run(&group, &random, SIZE_MAX);
    assert_int_equal(group.progress[0].state, TARRY_ENGINE_FAILED);
    assert_int_equal(group.progress[0].suspect, 30);
    assert_int_equal(posts[0].dropped, 0);
    engine_group_form(&group, 8);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(posts[i].dropped, 7); /* of the sum that did not come to its end */
    const uint32_t rank = 0, none = 3 * MOST;
    tarry_engine_member members[] = {
        {.worker = 1, .address = (const uint8_t *)&rank, .address_size = sizeof(rank)},
        {.worker = 2, .address = (const uint8_t *)&rank, .address_size = sizeof(rank)},
    };
    const tarry_engine_group twice = {.epoch = 9, .count = 2, .members = members};
    tarry_engine *engine = group.engines[0];
    assert_int_equal(engine->methods->form(engine, &twice, NULL), TARRY_ERROR_ARGUMENT);
    members[1].address = (const uint8_t *)&none;
    assert_int_equal(engine->methods->form(engine, &twice, NULL), TARRY_ERROR_ARGUMENT);
    posts[0].has_no_thread = true;
    tarry_diagnostic why;
    const tarry_engine_group alone = {.epoch = 9, .count = 1, .members = members};
    assert_int_equal(engine->methods->form(engine, &alone, &why), TARRY_ERROR_SYSTEM);
    assert_non_null(strstr(why.text, "cannot start its thread"));
    finish(&group);
}

/* In the middle of a sum, and before the next one; a group without it sums. */
TEST(a_member_that_nothing_reaches_is_suspected)
{
    uint64_t random = test_seed("sum_engine", 1);
    engine_group group;
    OWNED(sum_case) of = sum_case_make(100000, 1, 3, false, 17);
    OWNED(sum_case) fewer = sum_case_make(100000, 1, 2, false, 19);
    make(&group, 3);
    engine_group_form(&group, 7);
    engine_group_start(&group, of, 1);
    run(&group, &random, 5);
    sum_engine_lose(group.engines[0], 2);
    for (uint32_t epoch = 8; epoch < 10; epoch++) {
        run(&group, &random, SIZE_MAX);
        assert_int_equal(group.progress[0].state, TARRY_ENGINE_FAILED);
        assert_int_equal(group.progress[0].suspect, 2);
        assert_int_not_equal(group.progress[1].state, TARRY_ENGINE_DONE);
        engine_group_form(&group, epoch);
        engine_group_start(&group, of, epoch);
    }
    engine_group_release_sums(&group);
    group.count = 2;
    sum_once(&group, fewer, 10, &random);
    check(&group, fewer);
    group.count = 3;
    finish(&group);
}

/* ---- forms ---- */

enum { LONG = 70000, LONGER = 200000 };

static void check_rounded(const engine_group *group, const sum_case *of)
{
    check_same(group, of);
    sum_case_check_rounded_near(of, &group->forms, group->sums[0], 0, of->dimension);
}

/* The same bits at all, each number rounded once on its way and once on its way back. */
TEST(every_member_has_the_sum_as_it_was_sent)
{
    uint64_t random = test_seed("sum_engine forms", 1);
    static const struct {
        uint32_t count;
        size_t dimension;
    } shapes[] = {{1, 100}, {2, 1}, {3, 7}, {5, 9999}, {2, LONG}, {8, 20}};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (size_t f = 0; f < SUM_CASE_TRIED; f++) {
            engine_group group;
            OWNED(sum_case)
            of = sum_case_make(shapes[i].dimension, 1, shapes[i].count, f % 2 == 1, draw(&random));
            make(&group, shapes[i].count);
            group.forms = sum_case_tried[f];
            sum_once(&group, of, 7, &random);
            check_rounded(&group, of);
            finish(&group);
        }
    }
}

/* It is rounding; and an attempt that is made again, by whatever order of messages, rounds as the
 * one before. */
ENGINE_GROUP(chance_goes_by_the_seed)
{
    uint64_t random = test_seed("sum_engine forms", 1);
    OWNED(sum_case) of = sum_case_make(LONG, 1, 3, false, draw(&random));
    OWNED(float) first = checked_malloc(LONG * sizeof(*first));
    make(group, 3);
    group->forms = sum_case_tried[SUM_CASE_BOTH_INT8];
    sum_once(group, of, 7, &random);
    memcpy(first, group->sums[0], LONG * sizeof(*first));
    assert_true(sum_case_differing(first, of->sum, LONG) > LONG * 9 / 10);
    sum_once(group, of, 8, &random);
    assert_memory_equal(first, group->sums[0], LONG * sizeof(*first));
    group->forms.seed++;
    sum_once(group, of, 9, &random);
    assert_true(sum_case_differing(first, group->sums[0], LONG) > LONG / 2);
}

/* Of all blocks, with their heads; the engines tell of those without them. */
static double bytes_of_all(sum_case_forms forms, const sum_case *of, uint64_t *random)
{
    engine_group group;
    uint64_t moved = 0;
    make(&group, of->count);
    group.forms = forms;
    block_bytes = 0;
    sum_once(&group, of, 7, random);
    for (uint32_t i = 0; i < of->count; i++)
        moved += group.progress[i].moved;
    assert_true(moved < block_bytes && moved > block_bytes / 100 * 99);
    finish(&group);
    return (double)block_bytes;
}

/* Each way: of the two, one is sent as it is while the other is measured. */
TEST(int8_takes_a_quarter_of_the_bytes)
{
    uint64_t random = test_seed("sum_engine forms", 1);
    OWNED(sum_case) of = sum_case_make(LONGER, 1, 4, false, draw(&random));
    const tarry_compress none = TARRY_COMPRESS_NONE, int8 = TARRY_COMPRESS_INT8,
                         bf16 = TARRY_COMPRESS_BF16;
    const double whole = bytes_of_all((sum_case_forms){0}, of, &random), way = whole / 2;
    assert_true(way >= sizeof(float) * (double)LONGER * 3);
    assert_true(bytes_of_all((sum_case_forms){int8, none, 0, 1}, of, &random) - way < way / 3.9);
    assert_true(bytes_of_all((sum_case_forms){none, int8, 0, 1}, of, &random) - way < way / 3.9);
    assert_true(bytes_of_all((sum_case_forms){int8, int8, 0, 1}, of, &random) < whole / 3.9);
    assert_true(bytes_of_all((sum_case_forms){bf16, bf16, 0, 1}, of, &random) < whole / 1.99);
}

/* Nothing of an attempt that was given up is in the next one. */
TEST(an_abandoned_sum_in_forms_leaves_nothing_behind)
{
    uint64_t random = test_seed("sum_engine forms", 1);
    for (int trial = 0; trial < 6; trial++) {
        engine_group group;
        OWNED(sum_case) first = sum_case_make(LONGER, 1, 2, false, draw(&random));
        OWNED(sum_case) second = sum_case_make(LONGER, 1, 2, false, draw(&random));
        make(&group, 2);
        group.forms = sum_case_tried[trial % 2 == 0 ? SUM_CASE_BOTH_INT8 : 2];
        engine_group_form(&group, 7);
        engine_group_start(&group, first, 1);
        run(&group, &random, 12 + draw(&random) % 30);
        abandon_all(&group);
        sum_once(&group, second, 8, &random);
        check_rounded(&group, second);
        finish(&group);
    }
}

/* Four numbers take as many bytes in int8 as in bf16. */
TEST(who_has_another_form_is_suspected)
{
    uint64_t random = test_seed("sum_engine forms", 1);
    for (size_t f = 0; f < SUM_CASE_TRIED; f++) {
        engine_group group;
        OWNED(sum_case) of = sum_case_make(f % 2 == 0 ? 1000 : 20, 1, 2, false, 5);
        make(&group, 2);
        engine_group_form(&group, 7);
        group.forms = sum_case_tried[f];
        engine_group_start_one(&group, 0, of, 1);
        if (f < SUM_CASE_TRIED / 2)
            group.forms.up =
                group.forms.up == TARRY_COMPRESS_INT8 ? TARRY_COMPRESS_BF16 : TARRY_COMPRESS_INT8;
        else
            group.forms.down =
                group.forms.down == TARRY_COMPRESS_BF16 ? TARRY_COMPRESS_NONE : TARRY_COMPRESS_BF16;
        engine_group_start_one(&group, 1, of, 1);
        run(&group, &random, SIZE_MAX);
        for (uint32_t i = 0; i < 2; i++) {
            if (group.progress[i].state != TARRY_ENGINE_FAILED)
                continue;
            assert_int_equal(group.progress[i].suspect, 1 - i);
            assert_non_null(strstr(group.progress[i].why, "in another form"));
        }
        assert_true(group.progress[0].state == TARRY_ENGINE_FAILED ||
                    group.progress[1].state == TARRY_ENGINE_FAILED);
        finish(&group);
    }
}

ENGINE_GROUP(forms_that_are_none_of_sums_are_refused)
{
    make(group, 2);
    engine_group_form(group, 7);
    engine_refuses_forms(group->engines[0]);
}
