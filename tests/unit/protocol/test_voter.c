/* SPDX-License-Identifier: Apache-2.0 */
/* The clauses of the vote (docs/collective.md), at a worker: a story each. */
#include "base/sum_id.h"
#include "protocol/vote/vote.h"
#include "test.h"

static const tarry_sum_id name = {.step = 1, .term = 1, .attempt = 1};
static const tarry_sum_id sum = {.step = 1, .term = 1, .attempt = 1, .digest = 5};
static const tarry_sum_id next = {.step = 2, .term = 1, .attempt = 2};

static tarry_message order(tarry_message_type type, uint32_t count, tarry_sum_id about)
{
    return (tarry_message){.type = type, .epoch = 1, .attempt = count, .sum = about, .from = 3};
}

static voter_says takes(voter *it, tarry_message_type type, uint32_t count, tarry_sum_id about)
{
    tarry_message told = order(type, count, about);
    return voter_order(it, &told);
}

static voter_says ends(voter *it, tarry_event_type type, tarry_sum_id about, bool failed)
{
    return voter_ended(
        it, &(tarry_event){.type = type, .sum = about, .failed = failed, .state = 9, .from = 2});
}

/* It is asked for the first time. */
static voter arrives(void)
{
    voter it = {0};
    voter_says says = takes(&it, TARRY_MESSAGE_ASK, 0, (tarry_sum_id){0});
    assert_true(says.answers && says.answer.type == TARRY_MESSAGE_STATE);
    return it;
}

static void reduces(voter *it, tarry_sum_id of)
{
    voter_says says = voter_signal(it, &of);
    assert_false(says.rejects);
    voter_reduce(it);
}

/* It holds the first step's sum. */
static voter holds(void)
{
    voter it = arrives();
    reduces(&it, name);
    voter_says says = ends(&it, TARRY_EVENT_REDUCED, sum, false);
    assert_true(says.answer.type == TARRY_MESSAGE_HELD && sum_id_same(&says.answer.sum, &sum));
    return it;
}

TEST(it_steps_on_what_it_holds_alone)
{
    tarry_sum_id wrong[3] = {sum, sum, sum};
    wrong[0].digest++;  /* other bits */
    wrong[1].attempt++; /* a void attempt's */
    wrong[2].term++;    /* a name of another life of the coordinator */
    for (int i = 0; i < 3; i++) {
        voter it = holds();
        voter_says says = takes(&it, TARRY_MESSAGE_COMMIT, 1, wrong[i]);
        assert_true(!says.begins && says.answer.type == TARRY_MESSAGE_STATE);
    }
    voter it = holds();
    voter_says says = takes(&it, TARRY_MESSAGE_COMMIT, 1, sum);
    assert_true(says.begins && it.task == VOTER_STEPS && !says.answers);
    says = ends(&it, TARRY_EVENT_STEPPED, sum, false);
    assert_true(sum_id_same(&says.answer.last, &sum) && says.answer.state == 9);
    says = takes(&it, TARRY_MESSAGE_COMMIT, 2, sum); /* which is not its next step's any more */
    assert_true(!says.begins && says.answers);
}

TEST(a_held_sum_stays_until_the_next_signal)
{
    voter it = holds();
    takes(&it, TARRY_MESSAGE_COMMIT, 1, sum);
    ends(&it, TARRY_EVENT_STEPPED, sum, false);
    assert_true(sum_id_same(&it.held, &sum)); /* so that others can fetch it */
    reduces(&it, next);
    assert_int_equal(it.held.step, 0);
    it = holds();
    tarry_sum_id other = sum;
    other.attempt = 2;
    voter_says says = takes(&it, TARRY_MESSAGE_FETCH, 1, other);
    assert_true(says.begins && it.held.step == 0);
    it = holds();
    takes(&it, TARRY_MESSAGE_LOAD, 1, sum);
    assert_true(sum_id_same(&it.held, &sum)); /* until it is completed */
    ends(&it, TARRY_EVENT_LOADED, sum, false);
    assert_true(it.held.step == 0 && sum_id_same(&it.last, &sum));
}

/* The source may have stepped since the order was given; an older state is none, nor another one.
 */
TEST(a_loaded_state_may_be_a_later_one)
{
    tarry_sum_id later = sum, other = sum;
    later.step += 2;
    other.digest++;
    voter it = holds();
    takes(&it, TARRY_MESSAGE_LOAD, 1, sum);
    assert_true(ends(&it, TARRY_EVENT_LOADED, other, false).rejects);
    assert_true(ends(&it, TARRY_EVENT_LOADED, (tarry_sum_id){0}, false).rejects);
    assert_true(ends(&it, TARRY_EVENT_LOADED, later, true).rejects);
    voter_says says = ends(&it, TARRY_EVENT_LOADED, later, false);
    assert_true(says.answers && sum_id_same(&says.answer.last, &later));
    assert_true(it.held.step == 0 && sum_id_same(&it.last, &later));
    it = holds();
    takes(&it, TARRY_MESSAGE_FETCH, 1, other);
    assert_true(ends(&it, TARRY_EVENT_FETCHED, later, false).rejects);
}

TEST(a_new_order_ends_the_one_before)
{
    voter it = arrives();
    reduces(&it, name);
    voter_says says = takes(&it, TARRY_MESSAGE_LOAD, 1, sum);
    assert_true(says.abandons && says.begins);
    says = ends(&it, TARRY_EVENT_REDUCED, sum, false); /* which comes late */
    assert_true(says.rejects && it.held.step == 0);
    says = takes(&it, TARRY_MESSAGE_FETCH, 2, sum);
    assert_true(says.abandons && says.begins);
    says = ends(&it, TARRY_EVENT_LOADED, sum, false);
    assert_true(says.rejects && it.last.step == 0);
    says = takes(&it, TARRY_MESSAGE_FETCH, 2, sum); /* the same once more */
    assert_true(says.rejects && it.task == VOTER_FETCHES);
}

TEST(a_load_is_never_spared)
{
    voter it = holds();
    takes(&it, TARRY_MESSAGE_COMMIT, 1, sum);
    ends(&it, TARRY_EVENT_STEPPED, sum, false);
    voter_says says = takes(&it, TARRY_MESSAGE_LOAD, 2, sum); /* its parameters are not right */
    assert_true(says.begins && it.task == VOTER_LOADS && !says.answers);
}

TEST(without_the_coordinator_the_engine_goes_on)
{
    voter it = arrives();
    reduces(&it, name);
    tarry_message ask = order(TARRY_MESSAGE_ASK, 0, (tarry_sum_id){0});
    ask.epoch = 2;
    voter_says says = voter_order(&it, &ask);
    assert_true(says.answers && !says.abandons && it.task == VOTER_REDUCES);
    says = ends(&it, TARRY_EVENT_REDUCED, sum, false);
    assert_int_equal(says.answer.type, TARRY_MESSAGE_HELD);

    it = holds();
    takes(&it, TARRY_MESSAGE_LOAD, 1, sum);
    says = voter_order(&it, &ask);
    assert_true(says.abandons && it.task == VOTER_RESTS);
    assert_true(sum_id_same(&says.answer.sum, &sum)); /* a stale LOAD has wiped nothing, */
    says = ends(&it, TARRY_EVENT_LOADED, sum, false);
    assert_true(says.rejects && sum_id_same(&it.held, &sum));
    says = takes(&it, TARRY_MESSAGE_LOAD, 2, sum); /* nor does one of before */
    assert_true(says.rejects);
}

TEST(a_break_ends_an_attempt_and_not_a_held_sum)
{
    voter it = arrives();
    reduces(&it, name);
    voter_says says = takes(&it, TARRY_MESSAGE_BREAK, 1, name);
    assert_true(says.abandons && says.answer.type == TARRY_MESSAGE_FAILED);
    it = holds();
    says = takes(&it, TARRY_MESSAGE_BREAK, 1, name);
    assert_true(says.rejects && sum_id_same(&it.held, &sum));
}

TEST(a_signal_of_another_step_is_none)
{
    voter it = arrives();
    voter_says says = voter_signal(&it, &next);
    assert_true(says.rejects && it.task == VOTER_RESTS);
}
