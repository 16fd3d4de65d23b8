/* SPDX-License-Identifier: Apache-2.0 */
/* The clauses of the vote (docs/collective.md), at a worker: a story each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/sum_id.h"
#include "protocol/vote/member.h"

static const tarry_sum_id none = {0};
static const tarry_sum_id name = {.step = 1, .term = 1, .attempt = 1};
static const tarry_sum_id sum = {.step = 1, .term = 1, .attempt = 1, .digest = 5};
static const tarry_sum_id next = {.step = 2, .term = 1, .attempt = 2};

static tarry_message order(tarry_message_type type, uint32_t count, tarry_sum_id about)
{
    return (tarry_message){.type = type, .epoch = 1, .attempt = count, .sum = about, .from = 3};
}

static member_says takes(member *it, tarry_message_type type, uint32_t count, tarry_sum_id about)
{
    tarry_message told = order(type, count, about);
    return member_order(it, &told);
}

static member_says ends(member *it, tarry_event_type type, tarry_sum_id about, bool failed)
{
    return member_ended(
        it, &(tarry_event){.type = type, .sum = about, .failed = failed, .state = 9, .from = 2});
}

/* It is asked for the first time. */
static member arrives(void)
{
    member it = {0};
    member_says says = takes(&it, TARRY_MESSAGE_ASK, 0, (tarry_sum_id){0});
    assert_true(says.answers && says.answer.type == TARRY_MESSAGE_STATE);
    return it;
}

static void reduces(member *it, tarry_sum_id of)
{
    member_says says = member_signal(it, &of, &none);
    assert_false(says.rejects);
    member_reduce(it);
}

/* It holds the first step's sum. */
static member holds(void)
{
    member it = arrives();
    reduces(&it, name);
    member_says says = ends(&it, TARRY_EVENT_REDUCED, sum, false);
    assert_true(says.answer.type == TARRY_MESSAGE_HELD && sum_id_same(&says.answer.sum, &sum));
    return it;
}

/* What the engine said of its connections goes with the sum that it made, once. */
static void it_tells_how_long_the_sum_took(void **state)
{
    (void)state;
    member it = arrives();
    reduces(&it, name);
    member_says says = member_ended(
        &it,
        &(tarry_event){.type = TARRY_EVENT_REDUCED, .sum = sum, .took_ns = 5, .latency_ns = 7});
    assert_int_equal(says.answer.type, TARRY_MESSAGE_HELD);
    assert_true(says.answer.took_ns == 5 && says.answer.latency_ns == 7);
    it = arrives();
    reduces(&it, name);
    says = member_ended(&it, &(tarry_event){.type = TARRY_EVENT_REDUCED,
                                            .sum = name,
                                            .failed = true,
                                            .took_ns = 5,
                                            .latency_ns = 7});
    assert_int_equal(says.answer.type, TARRY_MESSAGE_FAILED);
    assert_true(says.answer.took_ns == 0 && says.answer.latency_ns == 0);
}

static void it_steps_on_what_it_holds_alone(void **state)
{
    (void)state;
    tarry_sum_id wrong[3] = {sum, sum, sum};
    wrong[0].digest++;  /* other bits */
    wrong[1].attempt++; /* a void attempt's */
    wrong[2].term++;    /* a name of another life of the coordinator */
    for (int i = 0; i < 3; i++) {
        member it = holds();
        member_says says = takes(&it, TARRY_MESSAGE_COMMIT, 1, wrong[i]);
        assert_true(!says.begins && says.answer.type == TARRY_MESSAGE_STATE);
    }
    member it = holds();
    member_says says = takes(&it, TARRY_MESSAGE_COMMIT, 1, sum);
    assert_true(says.begins && it.task == MEMBER_STEPS && !says.answers);
    says = ends(&it, TARRY_EVENT_STEPPED, sum, false);
    assert_true(sum_id_same(&says.answer.last, &sum) && says.answer.state == 9);
    says = takes(&it, TARRY_MESSAGE_COMMIT, 2, sum); /* which is not its next step's any more */
    assert_true(!says.begins && says.answers);
}

static void a_held_sum_stays_until_the_next_signal(void **state)
{
    (void)state;
    member it = holds();
    takes(&it, TARRY_MESSAGE_COMMIT, 1, sum);
    ends(&it, TARRY_EVENT_STEPPED, sum, false);
    assert_true(sum_id_same(&it.held, &sum)); /* so that others can fetch it */
    reduces(&it, next);
    assert_int_equal(it.held.step, 0);
    it = holds();
    tarry_sum_id other = sum;
    other.attempt = 2;
    member_says says = takes(&it, TARRY_MESSAGE_FETCH, 1, other);
    assert_true(says.begins && it.held.step == 0);
    it = holds();
    takes(&it, TARRY_MESSAGE_LOAD, 1, sum);
    assert_true(sum_id_same(&it.held, &sum)); /* until it is completed */
    ends(&it, TARRY_EVENT_LOADED, sum, false);
    assert_true(it.held.step == 0 && sum_id_same(&it.last, &sum));
}

/* The source may have stepped since the order was given; an older state is none, nor another one.
 */
static void a_loaded_state_may_be_a_later_one(void **state)
{
    (void)state;
    tarry_sum_id later = sum, other = sum;
    later.step += 2;
    other.digest++;
    member it = holds();
    takes(&it, TARRY_MESSAGE_LOAD, 1, sum);
    assert_true(ends(&it, TARRY_EVENT_LOADED, other, false).rejects);
    assert_true(ends(&it, TARRY_EVENT_LOADED, (tarry_sum_id){0}, false).rejects);
    assert_true(ends(&it, TARRY_EVENT_LOADED, later, true).rejects);
    member_says says = ends(&it, TARRY_EVENT_LOADED, later, false);
    assert_true(says.answers && sum_id_same(&says.answer.last, &later));
    assert_true(it.held.step == 0 && sum_id_same(&it.last, &later));
    it = holds();
    takes(&it, TARRY_MESSAGE_FETCH, 1, other);
    assert_true(ends(&it, TARRY_EVENT_FETCHED, later, false).rejects);
}

static void a_new_order_ends_the_one_before(void **state)
{
    (void)state;
    member it = arrives();
    reduces(&it, name);
    member_says says = takes(&it, TARRY_MESSAGE_LOAD, 1, sum);
    assert_true(says.abandons && says.begins);
    says = ends(&it, TARRY_EVENT_REDUCED, sum, false); /* which comes late */
    assert_true(says.rejects && it.held.step == 0);
    says = takes(&it, TARRY_MESSAGE_FETCH, 2, sum);
    assert_true(says.abandons && says.begins);
    says = ends(&it, TARRY_EVENT_LOADED, sum, false);
    assert_true(says.rejects && it.last.step == 0);
    says = takes(&it, TARRY_MESSAGE_FETCH, 2, sum); /* the same once more */
    assert_true(says.rejects && it.task == MEMBER_FETCHES);
}

static void a_load_is_never_spared(void **state)
{
    (void)state;
    member it = holds();
    takes(&it, TARRY_MESSAGE_COMMIT, 1, sum);
    ends(&it, TARRY_EVENT_STEPPED, sum, false);
    member_says says = takes(&it, TARRY_MESSAGE_LOAD, 2, sum); /* its parameters are not right */
    assert_true(says.begins && it.task == MEMBER_LOADS && !says.answers);
}

static void without_the_coordinator_the_engine_goes_on(void **state)
{
    (void)state;
    member it = arrives();
    reduces(&it, name);
    tarry_message ask = order(TARRY_MESSAGE_ASK, 0, (tarry_sum_id){0});
    ask.epoch = 2;
    member_says says = member_order(&it, &ask);
    assert_true(says.answers && !says.abandons && it.task == MEMBER_REDUCES);
    says = ends(&it, TARRY_EVENT_REDUCED, sum, false);
    assert_int_equal(says.answer.type, TARRY_MESSAGE_HELD);

    it = holds();
    takes(&it, TARRY_MESSAGE_LOAD, 1, sum);
    says = member_order(&it, &ask);
    assert_true(says.abandons && it.task == MEMBER_RESTS);
    assert_true(sum_id_same(&says.answer.sum, &sum)); /* a stale LOAD has wiped nothing, */
    says = ends(&it, TARRY_EVENT_LOADED, sum, false);
    assert_true(says.rejects && sum_id_same(&it.held, &sum));
    says = takes(&it, TARRY_MESSAGE_LOAD, 2, sum); /* nor does one of before */
    assert_true(says.rejects);
}

static void a_break_ends_an_attempt_and_not_a_held_sum(void **state)
{
    (void)state;
    member it = arrives();
    reduces(&it, name);
    member_says says = takes(&it, TARRY_MESSAGE_BREAK, 1, name);
    assert_true(says.stops && !says.abandons && !says.answers);
    says = ends(&it, TARRY_EVENT_REDUCED, name, true);
    assert_true(says.answer.type == TARRY_MESSAGE_FAILED && says.answer.whole == 0);
    it = arrives();
    reduces(&it, name);
    takes(&it, TARRY_MESSAGE_BREAK, 1, name);
    says = ends(&it, TARRY_EVENT_REDUCED, sum, false); /* it was done just then */
    assert_int_equal(says.answer.type, TARRY_MESSAGE_HELD);
    it = holds();
    says = takes(&it, TARRY_MESSAGE_BREAK, 1, name);
    assert_true(says.rejects && sum_id_same(&it.held, &sum));
}

/* It has summed 32 numbers of each part of the first attempt, which has failed then. */
static member has_piece(void)
{
    member it = arrives();
    reduces(&it, name);
    member_says says = member_ended(&it, &(tarry_event){.type = TARRY_EVENT_REDUCED,
                                                        .sum = sum,
                                                        .failed = true,
                                                        .whole = 32,
                                                        .from = TARRY_NO_WORKER});
    assert_int_equal(says.answer.type, TARRY_MESSAGE_FAILED);
    assert_true(sum_id_same(&says.answer.sum, &name)); /* of which it has no digest, */
    assert_true(sum_id_same(&says.answer.piece, &sum) && says.answer.whole == 32);
    return it;
}

static void a_piece_stays_while_it_stands(void **state)
{
    (void)state;
    const tarry_sum_id second = {.step = 1, .term = 1, .attempt = 2};
    tarry_sum_id shorter = sum; /* less of it, which has another digest */
    shorter.digest++;
    member it = has_piece();
    member_signal(&it, &second, &shorter);
    member_says says = takes(&it, TARRY_MESSAGE_BREAK, 1, second); /* before its engine began */
    assert_true(sum_id_same(&says.answer.piece, &sum) && says.answer.whole == 32);
    it = has_piece();
    member_signal(&it, &second, &none);
    says = takes(&it, TARRY_MESSAGE_BREAK, 1, second);
    assert_true(says.answer.piece.step == 0 && says.answer.whole == 0);
    it = has_piece();
    member_signal(&it, &second, &shorter);
    member_reduce(&it);
    says = ends(&it, TARRY_EVENT_REDUCED, second, true); /* which has overwritten it */
    assert_true(says.answer.piece.step == 0 && says.answer.whole == 0);
}

static void a_piece_ends_with_what_takes_its_place(void **state)
{
    (void)state;
    static const tarry_message_type orders[] = {TARRY_MESSAGE_FETCH, TARRY_MESSAGE_LOAD};
    for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
        member it = has_piece();
        takes(&it, orders[i], 1, sum);
        assert_true(it.piece.step == 0 && it.whole == 0);
    }
}

static void a_signal_of_another_step_is_none(void **state)
{
    (void)state;
    member it = arrives();
    member_says says = member_signal(&it, &next, &none);
    assert_true(says.rejects && it.task == MEMBER_RESTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_tells_how_long_the_sum_took),
        cmocka_unit_test(it_steps_on_what_it_holds_alone),
        cmocka_unit_test(a_held_sum_stays_until_the_next_signal),
        cmocka_unit_test(a_loaded_state_may_be_a_later_one),
        cmocka_unit_test(a_new_order_ends_the_one_before),
        cmocka_unit_test(a_load_is_never_spared),
        cmocka_unit_test(without_the_coordinator_the_engine_goes_on),
        cmocka_unit_test(a_break_ends_an_attempt_and_not_a_held_sum),
        cmocka_unit_test(a_piece_stays_while_it_stands),
        cmocka_unit_test(a_piece_ends_with_what_takes_its_place),
        cmocka_unit_test(a_signal_of_another_step_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
