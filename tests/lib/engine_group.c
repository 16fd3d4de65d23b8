/* SPDX-License-Identifier: Apache-2.0 */
#include "engine_group.h"

#include "base/random.h"
#include "test.h"

int engine_group_form_one(const engine_group *group, uint32_t place, uint64_t epoch,
                          tarry_diagnostic *diagnostic)
{
    static uint8_t addresses[ENGINE_GROUP_MOST][TARRY_ENGINE_ADDRESS_MOST];
    tarry_engine_member members[ENGINE_GROUP_MOST];
    for (uint32_t i = 0; i < group->count; i++) {
        members[i] = group->elsewhere[i];
        members[i].worker = group->workers[i];
        if (group->engines[i] == NULL)
            continue;
        members[i].address = addresses[i];
        group->engines[i]->methods->address(group->engines[i], addresses[i],
                                            &members[i].address_size);
    }
    tarry_engine *own = group->engines[place];
    return own->methods->form(
        own,
        &(tarry_engine_group){
            .epoch = epoch, .count = group->count, .place = place, .members = members},
        diagnostic);
}

void engine_group_form(engine_group *group, uint64_t epoch)
{
    tarry_diagnostic why;
    for (uint32_t i = 0; i < group->count; i++) {
        if (group->engines[i] == NULL || engine_group_form_one(group, i, epoch, &why) == TARRY_OK)
            continue;
        print_error("%s\n", why.text);
        fail();
    }
}

static void start(engine_group *group, uint32_t place, const sum_case *of, uint32_t attempt)
{
    tarry_engine *engine = group->engines[place];
    sum_watch_free(group->watches[place]);
    group->watches[place] = sum_watch_make(group->sums[place], of->dimension);
    const tarry_engine_sum sum = {
        .name = {.step = 1, .term = 1, .attempt = attempt},
        .dimension = of->dimension,
        .parts = of->parts,
        .part = of->part[place],
        .weights = of->weights,
        .sum = group->sums[place],
        .came = sum_watch_came,
        .user = group->watches[place],
        .compress = group->forms.up,
        .compress_down = group->forms.down,
        .compress_exact = group->forms.exact,
        .compress_seed = group->forms.seed,
    };
    group->progress[place] = (tarry_engine_progress){.state = TARRY_ENGINE_RUNNING};
    assert_ok(engine->methods->start(engine, &sum));
}

void engine_group_start_one(engine_group *group, uint32_t place, const sum_case *of,
                            uint32_t attempt)
{
    free(group->sums[place]);
    group->sums[place] = checked_malloc(of->dimension * sizeof(float));
    for (size_t x = 0; x < of->dimension; x++)
        group->sums[place][x] = -7.5F;
    start(group, place, of, attempt);
}

void engine_group_start(engine_group *group, const sum_case *of, uint32_t attempt)
{
    assert_int_equal(group->count, of->count);
    for (uint32_t i = 0; i < group->count; i++)
        if (group->engines[i] != NULL)
            engine_group_start_one(group, i, of, attempt);
}

void engine_group_step(engine_group *group, uint32_t place)
{
    const uint64_t past = 1;
    group->engines[place]->methods->wait(group->engines[place], past, &group->progress[place]);
}

uint64_t engine_group_run(engine_group *group, uint64_t seed, uint64_t steps)
{
    random_stream stream = random_stream_make(seed, RANDOM_TEST, 9, 9);
    enum { LONG = 200 };
    uint32_t idle = 0;
    for (uint64_t step = 0; steps == 0 || step < steps; step++) {
        uint32_t running = 0;
        for (uint32_t i = 0; i < group->count; i++)
            running += group->progress[i].state == TARRY_ENGINE_RUNNING;
        if (running == 0 || idle > LONG * group->count)
            return step;
        uint32_t place = random_below(&stream, group->count);
        tarry_engine_progress before = group->progress[place];
        if (before.state != TARRY_ENGINE_RUNNING)
            continue;
        engine_group_step(group, place);
        bool moved = group->progress[place].moved != before.moved ||
                     group->progress[place].state != before.state;
        idle = moved ? 0 : idle + 1;
    }
    return steps;
}

void engine_group_check(const engine_group *group, const sum_case *of)
{
    for (uint32_t i = 0; i < group->count; i++) {
        if (group->engines[i] == NULL)
            continue;
        if (group->progress[i].state != TARRY_ENGINE_DONE)
            print_error("member %u of %u: state %d, %s\n", i, group->count,
                        (int)group->progress[i].state, group->progress[i].why);
        assert_int_equal(group->progress[i].state, TARRY_ENGINE_DONE);
        if (group->forms.up != TARRY_COMPRESS_NONE || group->forms.down != TARRY_COMPRESS_NONE) {
            sum_case_check_rounded(of, &group->forms, group->sums[i], 0, of->dimension);
            assert_memory_equal(group->sums[i], group->sums[0], of->dimension * sizeof(float));
        } else {
            sum_case_check(of, group->sums[i]); /* to the bit, so that all are the same */
        }
        if (group->watches[i] != NULL)
            sum_watch_check(group->watches[i]);
    }
}

void engine_group_sum(engine_group *group, const sum_case *of, uint32_t attempt, uint64_t seed)
{
    engine_group_start(group, of, attempt);
    engine_group_run(group, seed, 0);
    engine_group_check(group, of);
}

void engine_refuses_forms(tarry_engine *engine)
{
    static const struct {
        tarry_compress up, down;
        uint32_t parts;
    } refused[] = {
        {TARRY_COMPRESS_INT4, TARRY_COMPRESS_NONE, 1},
        {TARRY_COMPRESS_TOPK, TARRY_COMPRESS_NONE, 1},
        {TARRY_COMPRESS_NONE, TARRY_COMPRESS_TOPK, 1},
        {TARRY_COMPRESS_INT8, TARRY_COMPRESS_NONE, 2},
        {TARRY_COMPRESS_NONE, TARRY_COMPRESS_BF16, 2},
    };
    static const float weights[2 * ENGINE_GROUP_MOST];
    float sum[100];
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        const tarry_engine_sum asked = {
            .name = {.step = 1},
            .dimension = 100,
            .parts = refused[i].parts,
            .weights = weights,
            .sum = sum,
            .compress = refused[i].up,
            .compress_down = refused[i].down,
        };
        assert_int_equal(engine->methods->start(engine, &asked), TARRY_ERROR_ARGUMENT);
    }
}

void engine_group_release_sums(engine_group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        free(group->sums[i]);
        sum_watch_free(group->watches[i]);
        group->sums[i] = NULL;
        group->watches[i] = NULL;
    }
}
