/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_desk.h"
#include "edge_plan.h"
#include "test.h"

static const edge edges[] = {{1, 2}, {1, 0}, {1, 1}, {0, 0}, {2, 0}, {2, 1}, {0, 2}};

void desk_plan(desk *its, uint32_t parts)
{
    *its = (desk){.epoch = 1};
    its->plan = edge_plan_make(3, 3, parts, edges, 7, NULL);
}

void desk_create(desk *its, tarry_worker_settings settings)
{
    settings.worker = 1;
    if (settings.server.conditioning_limit == 0)
        settings.server.conditioning_limit = 1000;
    assert_ok(tarry_worker_create(its->plan, &settings, NULL, &its->worker, NULL));
    assert_true(tarry_worker_deadline(its->worker) == TARRY_NEVER);
}

void desk_create_folding(desk *its, uint32_t ahead, uint32_t secure)
{
    desk_plan(its, 1);
    desk_create(its, (tarry_worker_settings){.server = {.dimension = 1,
                                                        .stripe_length = 1,
                                                        .keep = TARRY_KEEP_CREDITED,
                                                        .ahead = ahead,
                                                        .secure = secure}});
    hears_message(its, (tarry_message){.type = TARRY_MESSAGE_ROUND});
    assert_int_equal(expect(its, TARRY_EFFECT_COMPUTE)->slot, 0);
}

void desk_end(desk *its)
{
    expect_nothing(its);
    tarry_worker_free(its->worker);
    tarry_plan_free(its->plan);
}

void happens(desk *its, const tarry_event *event)
{
    expect_nothing(its);
    its->expected = 0;
    assert_ok(tarry_worker_step(its->worker, 0, event, &its->effects));
}

void hears_message(desk *its, tarry_message message)
{
    message.round = its->round;
    message.epoch = its->epoch;
    happens(its, &(tarry_event){.type = TARRY_EVENT_MESSAGE, .message = &message});
}

void hears_signal_of_term(desk *its, uint32_t attempt, uint64_t psi, uint32_t term)
{
    const uint64_t stripes = 1;
    hears_message(its, (tarry_message){.type = TARRY_MESSAGE_SIGNAL,
                                       .attempt = attempt,
                                       .psi = &psi,
                                       .stripes = &stripes,
                                       .term = term});
}

void has_computed(desk *its, uint32_t slot, bool failed)
{
    happens(its,
            &(tarry_event){
                .type = TARRY_EVENT_COMPUTED, .round = its->round, .slot = slot, .failed = failed});
}

const tarry_effect *expect(desk *its, tarry_effect_type type)
{
    assert_true(its->expected < its->effects->count);
    const tarry_effect *effect = &its->effects->items[its->expected++];
    assert_int_equal(effect->type, type);
    assert_int_equal(effect->worker, 1);
    return effect;
}

void expect_nothing(const desk *its)
{
    if (its->effects != NULL)
        assert_int_equal(its->expected, its->effects->count);
}

void expect_reject(desk *its, tarry_reject why)
{
    assert_int_equal(expect(its, TARRY_EFFECT_REJECT)->reject, why);
}
