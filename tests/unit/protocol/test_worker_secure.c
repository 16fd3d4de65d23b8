/* SPDX-License-Identifier: Apache-2.0 */
/* Secure sums at a worker: what a signal must be for its part to be masked and sent, and that
 * nothing is sent any more once it was something else. */
#include "creation.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "test.h"
#include "worker_desk.h"

/* What a signal says: chunk 2 of worker 1 itself, 0 of worker 2, 1 of worker 1. */
typedef struct word {
    uint32_t holders[3], lives[3];
    uint64_t psi;
    bool open; /* it names no holders */
    tarry_message message;
} word;

enum {
    OWN_OF_TWO = 1 << 4, /* worker 2's copy of chunk 0, as worker 1 sees it */
    HONEST = OWN_0 | OWN_2 | OWN_OF_TWO,
};

static const uint64_t stripe = 1;

static word honest(void)
{
    return (word){.holders = {2, 1, 1},
                  .lives = {0, 1, 7},
                  .psi = HONEST,
                  .message = {.type = TARRY_MESSAGE_SIGNAL, .attempt = 1, .term = 1}};
}

static void hears_word(desk *its, word *told)
{
    if (!told->open) {
        told->message.holders = told->holders;
        told->message.lives = told->lives;
    }
    told->message.psi = &told->psi;
    told->message.stripes = &stripe;
    hears_message(its, told->message);
}

static void finishes(desk *its, uint32_t slot, tarry_fate fate)
{
    has_computed(its, slot, false);
    expect(its, TARRY_EFFECT_SEND);
    if (slot < 2)
        expect(its, TARRY_EFFECT_COMPUTE);
    hears_message(its, (tarry_message){.type = TARRY_MESSAGE_NEWS, .slot = slot, .fate = fate});
    expect(its, fate == TARRY_FATE_CREDITED ? TARRY_EFFECT_FOLD : TARRY_EFFECT_DROP);
}

static void desk_begin(desk *its, uint32_t secure)
{
    desk_create_folding(its, 3, secure);
    finishes(its, 0, TARRY_FATE_CREDITED);
    finishes(its, 1, TARRY_FATE_DROPPED);
    finishes(its, 2, TARRY_FATE_CREDITED);
}

DESK(a_part_is_masked_for_what_the_signal_says)
{
    desk_begin(its, 32);
    word told = honest();
    hears_word(its, &told);
    memset(&told, 0xff, sizeof(told)); /* it was borrowed for the step */
    const tarry_effect *encode = expect(its, TARRY_EFFECT_ENCODE);
    assert_memory_equal(encode->message.holders, ((const uint32_t[]){2, 1, 1}), 12);
    assert_memory_equal(encode->message.lives, ((const uint32_t[]){0, 1, 7}), 12);
    /* The same once more, or another of the same attempt: nothing goes out twice. */
    told = honest();
    hears_word(its, &told);
    expect_reject(its, TARRY_REJECT_STALE);
    told = honest();
    told.lives[2] = 8;
    hears_word(its, &told);
    expect_reject(its, TARRY_REJECT_STALE);
    /* The next one is of another life of worker 2. */
    happens(its, &(tarry_event){.type = TARRY_EVENT_ENCODED, .attempt = 1});
    told = honest();
    told.lives[2] = 8;
    told.message.attempt = 2;
    hears_word(its, &told);
    assert_int_equal(expect(its, TARRY_EFFECT_ENCODE)->message.lives[2], 8);
}

DESK(one_without_chunks_in_the_sum_sends_nothing)
{
    desk_create_folding(its, 0, 64);
    word told = honest();
    told.holders[0] = told.holders[2] = 0;
    told.holders[1] = 2;
    told.lives[0] = 3;
    told.lives[1] = 0;
    told.psi = 1 << 0 | 1 << 2 | 1 << 6;
    hears_word(its, &told);
    expect(its, TARRY_EFFECT_CANCEL);
}

/* What a dishonest server may say, and the rule that it breaks. */
static const struct {
    uint32_t holders[3], lives[3];
    uint64_t psi;
    tarry_refusal refusal;
} lies[] = {
    {{2, 1, 1}, {0, 1, 7}, HONEST, TARRY_REFUSAL_OPEN},  /* and no holders */
    {{2, 1, 1}, {0, 1, 7}, HONEST, TARRY_REFUSAL_FORM},  /* and stale copies */
    {{2, 0, 1}, {0, 1, 7}, HONEST, TARRY_REFUSAL_COVER}, /* a stranger */
    {{UINT32_MAX, 1, 1}, {0, 1, 7}, HONEST, TARRY_REFUSAL_COVER},
    {{2, 1, 1}, {0, 1, 0}, HONEST, TARRY_REFUSAL_GROUP}, /* too few */
    {{2, 1, 1}, {1, 1, 7}, HONEST, TARRY_REFUSAL_GROUP}, /* too many */
    {{2, 1, 1}, {0, 0, 7}, HONEST, TARRY_REFUSAL_GROUP}, /* without the worker itself */
    {{2, 1, 1}, {0, 2, 7}, HONEST, TARRY_REFUSAL_LIFE},
    {{2, 1, 1}, {0, 1, 7}, HONEST | 1 << 0, TARRY_REFUSAL_VIEW},
    {{2, 1, 1}, {0, 1, 7}, OWN_0 | OWN_2, TARRY_REFUSAL_VIEW},
    {{2, 1, 1}, {0, 1, 7}, OWN_0 | OWN_OF_TWO, TARRY_REFUSAL_VIEW},
    /* Its own dropped copy: everything agrees but what it has. */
    {{1, 1, 1}, {0, 1, 0}, OWN_0 | OWN_1 | OWN_2, TARRY_REFUSAL_OWN},
    /* A part that has more in it than all were told. */
    {{2, 2, 1}, {0, 1, 7}, OWN_0 | OWN_OF_TWO | 1 << 6, TARRY_REFUSAL_OWN},
};

static void hears_lie(desk *its, size_t lie)
{
    word told = honest();
    memcpy(told.holders, lies[lie].holders, sizeof(told.holders));
    memcpy(told.lives, lies[lie].lives, sizeof(told.lives));
    told.psi = lies[lie].psi;
    told.open = lies[lie].refusal == TARRY_REFUSAL_OPEN;
    told.message.stale = lies[lie].refusal == TARRY_REFUSAL_FORM ? &stripe : NULL;
    hears_word(its, &told);
}

TEST(a_lie_is_the_end)
{
    for (size_t lie = 0; lie < sizeof(lies) / sizeof(lies[0]); lie++) {
        desk its;
        desk_begin(&its, 32);
        hears_lie(&its, lie);
        assert_int_equal(expect(&its, TARRY_EFFECT_REFUSE)->refusal, lies[lie].refusal);
        assert_true(strlen(tarry_refusal_text(lies[lie].refusal)) > 10);
        /* Whatever comes now: the truth, a new round, a probe. */
        word told = honest();
        told.message.attempt = 2;
        hears_word(&its, &told);
        expect_reject(&its, TARRY_REJECT_MISPLACED);
        hears_message(&its, (tarry_message){.type = TARRY_MESSAGE_PROBE});
        expect_reject(&its, TARRY_REJECT_MISPLACED);
        its.round++;
        hears_message(&its, (tarry_message){.type = TARRY_MESSAGE_ROUND});
        expect_reject(&its, TARRY_REJECT_MISPLACED);
        desk_end(&its);
    }
}

DESK(what_is_computed_is_dropped_with_a_refusal)
{
    const float weights[] = {1, 2, 1};
    desk_create_folding(its, 0, 32);
    its->round++;
    hears_message(its, (tarry_message){.type = TARRY_MESSAGE_ROUND, .weights = weights});
    expect(its, TARRY_EFFECT_CANCEL);
    assert_int_equal(expect(its, TARRY_EFFECT_REFUSE)->refusal, TARRY_REFUSAL_FORM);
}

DESK(who_was_not_told_of_masks_refuses_them)
{
    desk_begin(its, 0);
    word told = honest();
    hears_word(its, &told);
    assert_int_equal(expect(its, TARRY_EFFECT_REFUSE)->refusal, TARRY_REFUSAL_SECRET);
}

TEST(settings_that_protect_nothing_are_refused)
{
    const tarry_worker_settings wrong[] = {
        {.server = {.keep = TARRY_KEEP_CREDITED, .secure = 31}},
        {.server = {.keep = TARRY_KEEP_ALL, .secure = 32}},
        {.server = {.keep = TARRY_KEEP_CREDITED, .secure = 32, .compress = TARRY_COMPRESS_INT4}},
        {.server = {.keep = TARRY_KEEP_CREDITED, .secure = 64, .sum = TARRY_SUM_EVERYWHERE}},
    };
    desk its;
    desk_plan(&its, 1);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        tarry_worker_settings settings = wrong[i];
        tarry_worker *worker;
        settings.worker = 1;
        settings.server.dimension = settings.server.stripe_length = 1;
        settings.server.conditioning_limit = 1000;
        assert_int_equal(tarry_worker_create(its.plan, &settings, NULL, &worker, NULL),
                         TARRY_ERROR_ARGUMENT);
    }
    tarry_plan_free(its.plan);
}
