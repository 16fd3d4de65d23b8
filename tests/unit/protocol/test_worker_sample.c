/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker makes of weights. */
#include "test.h"
#include "worker_desk.h"

static void begin(desk *its, tarry_keep keep)
{
    desk_plan(its, 1);
    desk_create(its, (tarry_worker_settings){
                         .server = {.dimension = 3, .stripe_length = 3, .keep = keep, .ahead = 3}});
}

static void hears_round(desk *its, const float *weights)
{
    hears_message(its, (tarry_message){.type = TARRY_MESSAGE_ROUND, .weights = weights});
}

static void finishes(desk *its, uint32_t slot)
{
    has_computed(its, slot, false);
    const tarry_message *report = &expect(its, TARRY_EFFECT_SEND)->message;
    assert_int_equal(report->type, TARRY_MESSAGE_REPORT);
    assert_int_equal(report->slot, slot);
}

static void computes(desk *its, uint32_t slot)
{
    assert_int_equal(expect(its, TARRY_EFFECT_COMPUTE)->slot, slot);
    finishes(its, slot);
}

static const tarry_effect *hears_signal(desk *its, uint64_t psi)
{
    hears_signal_of_term(its, 1, psi, 1);
    return expect(its, TARRY_EFFECT_ENCODE);
}

DESK(computes_what_was_sampled_and_weighs_it)
{
    begin(its, TARRY_KEEP_ALL);
    const float weights[LOAD] = {2.5F, 0, 4};
    hears_round(its, weights);
    computes(its, 0);
    computes(its, 2);
    /* Chunk 1 has a copy at the third worker, too: each sends half of it. */
    const tarry_effect *encode = hears_signal(its, OWN_0 | OWN_2 | UINT64_C(1) << 6);
    assert_true(encode->coefficients[0] == 2.5F);
    assert_true(encode->coefficients[1] == 0);
    assert_true(encode->coefficients[2] == 2);
    happens(its, &(tarry_event){.type = TARRY_EVENT_ENCODED, .round = 0, .attempt = 1});
    its->round++; /* nothing of it is left in the next round */
    hears_round(its, NULL);
    for (uint32_t slot = 0; slot < LOAD; slot++)
        computes(its, slot);
    encode = hears_signal(its, OWN_0);
    assert_true(encode->coefficients[0] == 1 && encode->coefficients[2] == 0);
    happens(its, &(tarry_event){.type = TARRY_EVENT_ENCODED, .round = 1, .attempt = 1});
}

DESK(a_running_sum_takes_each_gradient_with_its_weight)
{
    begin(its, TARRY_KEEP_CREDITED);
    const float weights[LOAD] = {0, 8, 1.25F};
    hears_round(its, weights);
    computes(its, 1);
    assert_int_equal(expect(its, TARRY_EFFECT_COMPUTE)->slot, 2);
    hears_message(
        its, (tarry_message){.type = TARRY_MESSAGE_NEWS, .slot = 1, .fate = TARRY_FATE_CREDITED});
    const tarry_effect *fold = expect(its, TARRY_EFFECT_FOLD);
    assert_true(fold->begins && fold->weight == 8);
    finishes(its, 2);
    hears_signal_of_term(its, 1, OWN_1 | OWN_2, 1);
    fold = expect(its, TARRY_EFFECT_FOLD);
    assert_true(!fold->begins && fold->weight == 1.25F);
    const tarry_effect *encode = expect(its, TARRY_EFFECT_ENCODE);
    assert_true(encode->coefficients[1] == 1 && encode->coefficients[2] == 1);
    happens(its, &(tarry_event){.type = TARRY_EVENT_ENCODED, .round = 0, .attempt = 1});
}
