/* SPDX-License-Identifier: Apache-2.0 */
#include "mesh_group.h"

#include <stdbool.h>

#include "runtime/clock.h"
#include "test.h"

#define PATIENCE_NS UINT64_C(60000000000)
#define SILENCE_NS (10 * PATIENCE_NS) /* no sum ends because the machine is busy */

static mesh *make(mesh_group *group, uint32_t place, uint64_t silence_ns, uint32_t connects_most)
{
    mesh *made;
    tarry_diagnostic why = {""};
    const mesh_settings settings = {
        .listen = "127.0.0.1:0",
        .credentials = group->credentials != NULL ? group->credentials[place] : NULL,
        .silence_ns = silence_ns,
        .connects_most = connects_most,
    };
    assert_ok_or(why, mesh_create(&settings, &made, &why));
    group->workers[place] = 10 * place;
    return made;
}

static void make_all(mesh_group *group, uint32_t count, const char *const *credentials,
                     uint64_t silence_ns, uint32_t connects_most)
{
    assert_true(count <= MESH_GROUP_MOST);
    *group = (mesh_group){.count = count, .credentials = credentials};
    for (uint32_t i = 0; i < count; i++)
        group->members[i] = make(group, i, silence_ns, connects_most);
}

void mesh_group_make(mesh_group *group, uint32_t count, const char *const *credentials)
{
    make_all(group, count, credentials, SILENCE_NS, 0);
}

void mesh_group_begin(mesh_group *group, uint32_t count)
{
    mesh_group_make(group, count, NULL);
    mesh_group_form(group);
}

void mesh_group_make_apart(mesh_group *group, uint32_t count)
{
    make_all(group, count, NULL, SILENCE_NS, 1);
}

void mesh_group_make_limited(mesh_group *group, uint32_t count, uint64_t silence_ns)
{
    make_all(group, count, NULL, silence_ns, 0);
}

void mesh_group_free(mesh_group *group)
{
    for (uint32_t i = 0; i < group->count; i++)
        mesh_free(group->members[i]);
    for (uint32_t i = 0; i < MESH_GROUP_MOST; i++)
        free(group->sums[i]);
}

void mesh_group_form(mesh_group *group)
{
    uint8_t address[MESH_GROUP_MOST][TARRY_ENGINE_ADDRESS_MOST];
    tarry_engine_member member[MESH_GROUP_MOST];
    tarry_engine_group formed = {.epoch = ++group->epoch, .members = member};
    for (uint32_t i = 0; i < group->count; i++) {
        if (group->members[i] == NULL)
            continue;
        tarry_engine *engine = mesh_engine(group->members[i]);
        tarry_engine_member *its = &member[formed.count];
        its->worker = group->workers[i];
        engine->methods->address(engine, address[i], &its->address_size);
        its->address = address[i];
        formed.count++;
    }
    for (uint32_t i = 0; i < group->count; i++) {
        if (group->members[i] == NULL)
            continue;
        tarry_engine *engine = mesh_engine(group->members[i]);
        tarry_diagnostic why = {""};
        assert_ok_or(why, engine->methods->form(engine, &formed, &why));
        formed.place++;
    }
}

static void start(mesh_group *group, uint32_t place, const sum_case *of, sum_watch *watch)
{
    tarry_engine *engine = mesh_engine(group->members[place]);
    const tarry_engine_sum asked = {
        .name = {.step = group->step, .term = 1, .attempt = (uint32_t)group->step},
        .dimension = of->dimension,
        .parts = of->parts,
        .part = of->part[place],
        .weights = of->weights,
        .sum = group->sums[place],
        .came = watch != NULL ? sum_watch_came : NULL,
        .user = watch,
        .compress = group->forms.up,
        .compress_down = group->forms.down,
        .compress_exact = group->forms.exact,
        .compress_seed = group->forms.seed,
    };
    assert_ok(engine->methods->start(engine, &asked));
}

static void renew_sum(mesh_group *group, uint32_t place, const sum_case *of)
{
    free(group->sums[place]);
    group->sums[place] = checked_calloc(of->dimension, sizeof(float));
}

void mesh_group_start(mesh_group *group, uint32_t place, const sum_case *of)
{
    renew_sum(group, place, of);
    start(group, place, of, NULL);
}

void mesh_group_start_but(mesh_group *group, uint32_t idle, const sum_case *of)
{
    group->step++;
    for (uint32_t i = 0; i < group->count; i++)
        if (i != idle)
            mesh_group_start(group, i, of);
}

tarry_engine_progress mesh_group_wait(const mesh_group *group, uint32_t place)
{
    tarry_engine *engine = mesh_engine(group->members[place]);
    tarry_engine_progress progress;
    engine->methods->wait(engine, clock_from_now(PATIENCE_NS), &progress);
    return progress;
}

void mesh_group_sum(mesh_group *group, const sum_case *of)
{
    sum_watch *watch[MESH_GROUP_MOST];
    group->step++;
    for (uint32_t i = 0; i < group->count; i++) {
        renew_sum(group, i, of);
        watch[i] = sum_watch_make(group->sums[i], of->dimension);
        start(group, i, of, watch[i]);
    }
    for (uint32_t i = 0; i < group->count; i++) {
        const float *sum = group->sums[i];
        tarry_engine_progress progress = mesh_group_wait(group, i);
        if (progress.state != TARRY_ENGINE_DONE)
            fail_msg("member %u: state %d: %s", i, progress.state, progress.why);
        bool rounded =
            group->forms.up != TARRY_COMPRESS_NONE || group->forms.down != TARRY_COMPRESS_NONE;
        if (rounded && i == 0) /* the others' are the same */
            sum_case_check_rounded(of, &group->forms, sum, 0, of->dimension);
        else if (!rounded)
            sum_case_check(of, sum);
        assert_memory_equal(sum, group->sums[0], of->dimension * sizeof(float));
        sum_watch_check(watch[i]);
        sum_watch_free(watch[i]);
    }
}

void mesh_group_lose_last(mesh_group *group, const sum_case *first, uint64_t after_ns,
                          const sum_case *second)
{
    tarry_engine_progress progress;
    tarry_engine *watched = mesh_engine(group->members[0]);
    mesh_group_start_but(group, MESH_GROUP_MOST, first);
    watched->methods->wait(watched, clock_from_now(after_ns), &progress);
    mesh_free(group->members[--group->count]);
    mesh_group_form(group);
    mesh_group_sum(group, second);
}

void mesh_group_hold(exchange *giver, const tarry_sum_id *sum, const float *numbers, size_t count)
{
    const exchange_numbers held = exchange_numbers_at((float *)numbers, count);
    giver->methods->hold(giver, sum, &held);
}

int mesh_group_fetch(exchange *taker, uint32_t from, const tarry_sum_id *sum, float *into,
                     size_t count)
{
    const exchange_numbers place = exchange_numbers_at(into, count);
    return taker->methods->fetch(taker, from, sum, &place);
}
