/* SPDX-License-Identifier: Apache-2.0 */
#include "mesh_group.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

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
    if (mesh_create(&settings, &made, &why) != TARRY_OK)
        fail_msg("%s", why.text);
    group->workers[place] = 10 * place;
    return made;
}

void mesh_group_make(mesh_group *group, uint32_t count, const char *const *credentials)
{
    assert_true(count <= MESH_GROUP_MOST);
    *group = (mesh_group){.count = count, .credentials = credentials};
    for (uint32_t i = 0; i < count; i++)
        group->members[i] = make(group, i, SILENCE_NS, 0);
}

void mesh_group_make_apart(mesh_group *group, uint32_t count)
{
    assert_true(count <= MESH_GROUP_MOST);
    *group = (mesh_group){.count = count};
    for (uint32_t i = 0; i < count; i++)
        group->members[i] = make(group, i, SILENCE_NS, 1);
}

void mesh_group_make_limited(mesh_group *group, uint32_t count, uint64_t silence_ns)
{
    assert_true(count <= MESH_GROUP_MOST);
    *group = (mesh_group){.count = count};
    for (uint32_t i = 0; i < count; i++)
        group->members[i] = make(group, i, silence_ns, 0);
}

void mesh_group_free(mesh_group *group)
{
    for (uint32_t i = 0; i < group->count; i++)
        mesh_free(group->members[i]);
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
        if (engine->methods->form(engine, &formed, &why) != TARRY_OK)
            fail_msg("%s", why.text);
        formed.place++;
    }
}

static void start(mesh_group *group, uint32_t place, const sum_case *of, float *sum,
                  sum_watch *watch)
{
    tarry_engine *engine = mesh_engine(group->members[place]);
    const tarry_engine_sum asked = {
        .name = {.step = group->step, .term = 1, .attempt = (uint32_t)group->step},
        .dimension = of->dimension,
        .parts = of->parts,
        .part = of->part[place],
        .weights = of->weights,
        .sum = sum,
        .came = watch != NULL ? sum_watch_came : NULL,
        .user = watch,
        .compress = group->forms.up,
        .compress_down = group->forms.down,
        .compress_exact = group->forms.exact,
        .compress_seed = group->forms.seed,
    };
    assert_ok(engine->methods->start(engine, &asked));
}

void mesh_group_start(mesh_group *group, uint32_t place, const sum_case *of, float *sum)
{
    start(group, place, of, sum, NULL);
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
    float *sum[MESH_GROUP_MOST];
    sum_watch *watch[MESH_GROUP_MOST];
    group->step++;
    for (uint32_t i = 0; i < group->count; i++) {
        sum[i] = checked_calloc(of->dimension, sizeof(float));
        watch[i] = sum_watch_make(sum[i], of->dimension);
        start(group, i, of, sum[i], watch[i]);
    }
    for (uint32_t i = 0; i < group->count; i++) {
        tarry_engine_progress progress = mesh_group_wait(group, i);
        if (progress.state != TARRY_ENGINE_DONE)
            fail_msg("member %u: state %d: %s", i, progress.state, progress.why);
        bool rounded =
            group->forms.up != TARRY_COMPRESS_NONE || group->forms.down != TARRY_COMPRESS_NONE;
        if (rounded && i == 0) /* the others' are the same */
            sum_case_check_rounded(of, &group->forms, sum[i], 0, of->dimension);
        else if (!rounded)
            sum_case_check(of, sum[i]);
        assert_memory_equal(sum[i], sum[0], of->dimension * sizeof(float));
        sum_watch_check(watch[i]);
        sum_watch_free(watch[i]);
    }
    for (uint32_t i = 0; i < group->count; i++)
        free(sum[i]);
}
