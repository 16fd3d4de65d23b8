/* SPDX-License-Identifier: Apache-2.0 */
/* The clauses of the vote (docs/collective.md), at the coordinator: a story each. */

#include "base/sum_id.h"
#include "protocol/vote/vote.h"
#include "test.h"

enum { WORKERS = 5, ORDERS = 64, GRACE = 1000, STEPS_PER_DIGEST = 2, ATTEMPTS = 5 };
enum { RIGHT = 77, WRONG = 78 }; /* digests */

static const tarry_sum_id none = {0};

typedef struct desk {
    vote *it;
    uint64_t now;
    vote_outcome outcome; /* of the last act */
    vote_order given[ORDERS];
    size_t count, seen;
    vote_order last[WORKERS]; /* that is to be answered */
} desk;

static void give(void *user, const vote_order *order)
{
    desk *own = user;
    assert_true(own->count < ORDERS);
    own->given[own->count++] = *order;
    if (order->type != TARRY_MESSAGE_BREAK)
        own->last[order->worker] = *order;
}

static void act(desk *own)
{
    vote_compare(own->it);
    own->outcome = vote_act(own->it, own->now, true, give, own);
}

static void passes(desk *own, uint64_t time)
{
    own->now += time;
    act(own);
}

/* The next order, which is of this type and to this worker. */
static const vote_order *expect(desk *own, tarry_message_type type, uint32_t worker)
{
    assert_true(own->seen < own->count);
    const vote_order *order = &own->given[own->seen++];
    assert_int_equal(order->type, type);
    assert_int_equal(order->worker, worker);
    return order;
}

static void expect_nothing(const desk *own)
{
    assert_int_equal(own->seen, own->count);
}

static bool says(desk *own, uint32_t worker, const tarry_message *message)
{
    bool counts = vote_told(own->it, own->now, worker, message);
    act(own);
    return counts;
}

/* STATE, in answer to the last order. */
static bool has(desk *own, uint32_t worker, tarry_sum_id last, tarry_sum_id held, uint64_t state)
{
    const vote_order *order = &own->last[worker];
    bool loads = order->type == TARRY_MESSAGE_LOAD;
    return says(own, worker,
                &(tarry_message){
                    .type = TARRY_MESSAGE_STATE,
                    .attempt = order->count,
                    .last = last,
                    .sum = held,
                    .state = state,
                    .from = loads ? order->from : TARRY_NO_WORKER,
                });
}

static tarry_sum_id sum_of(const desk *own, uint64_t digest)
{
    tarry_sum_id sum = own->it->pending;
    sum.digest = digest;
    return sum;
}

static bool holds(desk *own, uint32_t worker, uint64_t digest)
{
    return says(own, worker,
                &(tarry_message){.type = TARRY_MESSAGE_HELD,
                                 .sum = sum_of(own, digest),
                                 .from = TARRY_NO_WORKER});
}

static bool fails(desk *own, uint32_t worker, uint32_t suspect)
{
    return says(
        own, worker,
        &(tarry_message){.type = TARRY_MESSAGE_FAILED, .sum = sum_of(own, 0), .from = suspect});
}

/* The end of a FETCH. */
static bool fetches(desk *own, uint32_t worker, bool good)
{
    const vote_order *order = &own->last[worker];
    assert_int_equal(order->type, TARRY_MESSAGE_FETCH);
    return says(own, worker,
                &(tarry_message){
                    .type = good ? TARRY_MESSAGE_HELD : TARRY_MESSAGE_FAILED,
                    .sum = order->sum,
                    .attempt = order->count,
                    .fetched = true,
                    .from = order->from,
                });
}

static void joins(desk *own, uint32_t worker)
{
    vote_joined(own->it, worker);
    act(own);
    expect(own, TARRY_MESSAGE_ASK, worker);
}

/* It is asked, and has this. */
static void arrives(desk *own, uint32_t worker, tarry_sum_id last, tarry_sum_id held,
                    uint64_t state)
{
    joins(own, worker);
    assert_true(has(own, worker, last, held, state));
}

/* It has a state that the log does not know, and is told to load another one. */
static const vote_order *comes_astray(desk *own, uint32_t worker)
{
    arrives(own, worker, (tarry_sum_id){.step = 9, .digest = 1}, none, 0);
    return expect(own, TARRY_MESSAGE_LOAD, worker);
}

static void is_lost(desk *own, uint32_t worker)
{
    vote_lost(own->it, worker);
    act(own);
}

/* The first `count` workers are there, with the first state. */
static void begin(desk *own, uint32_t count)
{
    const vote_settings settings = {.workers = WORKERS,
                                    .grace_ns = GRACE,
                                    .attempts_most = ATTEMPTS,
                                    .digest_steps = STEPS_PER_DIGEST};
    *own = (desk){0};
    assert_ok(vote_create(&settings, NULL, &own->it));
    vote_round(own->it);
    for (uint32_t worker = 0; worker < count; worker++) {
        arrives(own, worker, none, none, 0);
    }
    expect_nothing(own);
}

static void end(desk *own)
{
    expect_nothing(own);
    vote_free(own->it);
}

#define DESK(name) TEST_OF(name, desk, own, end)

static void opens(desk *own, uint64_t group)
{
    assert_true(vote_may_open(own->it));
    vote_open(own->it, &group);
    act(own);
}

static tarry_sum_id logs(desk *own)
{
    assert_int_equal(own->outcome, VOTE_LOG);
    tarry_sum_id sum = own->it->pending;
    assert_true(vote_logged(own->it, &sum));
    act(own);
    return sum;
}

/* A step of the workers in `group`; each of whom tells the digest of its parameters. */
static tarry_sum_id steps(desk *own, uint64_t group, const uint64_t *states)
{
    opens(own, group);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        if (group >> worker & 1)
            assert_true(holds(own, worker, RIGHT));
    tarry_sum_id sum = logs(own);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        if (group >> worker & 1)
            assert_int_equal(expect(own, TARRY_MESSAGE_COMMIT, worker)->digests,
                             sum.step % STEPS_PER_DIGEST == 0);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        if (group >> worker & 1)
            assert_true(has(own, worker, sum, sum, states == NULL ? 0 : states[worker]));
    return sum;
}

DESK(names_have_a_term)
{
    begin(own, 0);
    const tarry_sum_id log[2] = {{.step = 4, .term = 2, .attempt = 9, .digest = RIGHT}, {0}};
    vote_restart(own->it, log, 3);
    for (uint32_t worker = 0; worker < 2; worker++) {
        arrives(own, worker, log[0], none, 0);
    }
    opens(own, 3);
    assert_true(own->it->pending.step == 5 && own->it->pending.term == 3 &&
                own->it->pending.attempt == 1);
}

DESK(steps_that_the_log_does_not_know_count_for_nothing)
{
    begin(own, 2);
    tarry_sum_id last = steps(own, 3, NULL);
    tarry_sum_id other = last;
    other.digest = WRONG;
    arrives(own, 2, other, none, 0);
    assert_true(sum_id_same(&expect(own, TARRY_MESSAGE_LOAD, 2)->sum, &last));
    other = last;
    other.step += 7;
    arrives(own, 3, other, none, 0);
    expect(own, TARRY_MESSAGE_LOAD, 3);
}

DESK(the_behind_get_commit_then_a_sum_then_the_state)
{
    begin(own, 3);
    tarry_sum_id first = steps(own, 7, NULL), last = steps(own, 7, NULL);
    is_lost(own, 2);
    arrives(own, 2, first, last, 0); /* it has come back with the sum */
    assert_true(sum_id_same(&expect(own, TARRY_MESSAGE_COMMIT, 2)->sum, &last));
    arrives(own, 2, first, none, 0);
    assert_true(sum_id_same(&expect(own, TARRY_MESSAGE_FETCH, 2)->sum, &last));
    assert_true(fetches(own, 2, true));
    expect(own, TARRY_MESSAGE_COMMIT, 2);
    /* With the first state, of which nobody has the sums any more. */
    arrives(own, 3, none, none, 0);
    expect(own, TARRY_MESSAGE_LOAD, 3);
    assert_false(vote_takes_part(own->it, 3));
}

DESK(a_loaded_state_counts_only_as_what_it_is)
{
    begin(own, 2);
    tarry_sum_id last = steps(own, 3, NULL);
    comes_astray(own, 2);
    assert_true(has(own, 2, none, none, 0)); /* it has failed */
    assert_false(vote_takes_part(own->it, 2));
    passes(own, GRACE);
    expect(own, TARRY_MESSAGE_LOAD, 2); /* once more */
    assert_true(has(own, 2, last, none, 0));
    assert_true(vote_takes_part(own->it, 2));
}

/* However many load at a time: who got nothing from one asks another one. */
DESK(another_source_is_asked)
{
    uint32_t from[WORKERS];
    begin(own, 2);
    tarry_sum_id last = steps(own, 3, NULL);
    for (uint32_t worker = 2; worker < 4; worker++) {
        from[worker] = comes_astray(own, worker)->from;
    }
    for (uint32_t worker = 2; worker < 4; worker++)
        assert_true(has(own, worker, none, none, 0)); /* it has failed */
    passes(own, GRACE);
    for (uint32_t worker = 2; worker < 4; worker++) {
        uint32_t other = expect(own, TARRY_MESSAGE_LOAD, worker)->from;
        assert_true(other < 2 && other != from[worker]);
    }
    is_lost(own, 0); /* the only one that is left is asked again */
    uint32_t broken = own->last[2].from == 0 ? 2 : 3;
    assert_int_equal(expect(own, TARRY_MESSAGE_BREAK, broken)->from, 0);
    assert_true(has(own, broken, none, none, 0));
    passes(own, GRACE);
    assert_int_equal(expect(own, TARRY_MESSAGE_LOAD, broken)->from, 1);
    assert_true(has(own, broken, none, none, 0));
    passes(own, GRACE);
    assert_int_equal(expect(own, TARRY_MESSAGE_LOAD, broken)->from, 1);
    assert_true(has(own, broken, last, none, 0));
}

DESK(who_comes_later_is_no_voter)
{
    begin(own, 2);
    opens(own, 3);
    arrives(own, 2, none, none, 0);
    assert_true(holds(own, 0, RIGHT) && holds(own, 1, RIGHT));
    logs(own); /* 2 has nothing to say */
    expect(own, TARRY_MESSAGE_COMMIT, 0);
    expect(own, TARRY_MESSAGE_COMMIT, 1);
    expect(own, TARRY_MESSAGE_FETCH, 2);
}

DESK(who_comes_back_with_this_very_sum_votes)
{
    begin(own, 3);
    opens(own, 7);
    tarry_sum_id sum = sum_of(own, RIGHT);
    is_lost(own, 2);
    expect(own, TARRY_MESSAGE_BREAK, 0);
    expect(own, TARRY_MESSAGE_BREAK, 1);
    assert_true(fails(own, 0, 2));
    arrives(own, 2, none, sum, 0);
    assert_int_equal(expect(own, TARRY_MESSAGE_FETCH, 0)->from, 2);
    assert_true(fails(own, 1, 2));
    expect(own, TARRY_MESSAGE_FETCH, 1);
    assert_true(fetches(own, 0, true) && fetches(own, 1, true));
    assert_true(
        sum_id_same(&(tarry_sum_id){.step = 1, .term = 1, .attempt = 1, .digest = RIGHT}, &sum));
    logs(own);
    own->seen = own->count;
}

DESK(one_alone_waits_for_the_grace)
{
    begin(own, 1);
    assert_false(vote_may_open(own->it));
    passes(own, GRACE);
    steps(own, 1, NULL);
    end(own);

    begin(own, 2); /* of two voters one is left: it alone does not do */
    opens(own, 3);
    assert_true(holds(own, 0, RIGHT));
    is_lost(own, 1);
    assert_int_equal(own->outcome, VOTE_GOES_ON);
    passes(own, GRACE);
    logs(own);
    expect(own, TARRY_MESSAGE_COMMIT, 0);
}

/* Who fetches the last sum, or steps on it, is there: the grace begins when it is lost. */
DESK(who_is_helped_is_company)
{
    begin(own, 1);
    passes(own, GRACE);
    steps(own, 1, NULL);

    arrives(own, 1, none, none, 0);
    expect(own, TARRY_MESSAGE_FETCH, 1);
    own->now += GRACE / 2;
    assert_true(fetches(own, 1, true));
    expect(own, TARRY_MESSAGE_COMMIT, 1);
    own->now += GRACE / 2;
    is_lost(own, 1);
    assert_false(vote_may_open(own->it));
    passes(own, GRACE - 1);
    assert_false(vote_may_open(own->it));
    passes(own, 1);
    assert_true(vote_may_open(own->it));
}

DESK(one_alone_waits_for_the_grace_once)
{
    begin(own, 1);
    passes(own, GRACE);
    for (int round = 0; round < 3; round++) {
        opens(own, 1);
        assert_true(holds(own, 0, RIGHT));
        const tarry_sum_id sum = logs(own);
        expect(own, TARRY_MESSAGE_COMMIT, 0);
        passes(own, 1); /* while it steps */
        assert_true(has(own, 0, sum, sum, 0));
        passes(own, 0);
    }
}

/* Time without any worker does not count as waiting. */
DESK(who_comes_back_first_waits_for_others)
{
    begin(own, 2);
    is_lost(own, 0);
    is_lost(own, 1);
    passes(own, 2 * GRACE);
    arrives(own, 0, none, none, 0);
    passes(own, GRACE - 1);
    assert_false(vote_may_open(own->it));
    passes(own, 1);
    assert_true(vote_may_open(own->it));
}

DESK(an_answer_counts_for_its_order_alone)
{
    begin(own, 3);
    opens(own, 7);
    assert_true(fails(own, 2, TARRY_NO_WORKER));
    expect(own, TARRY_MESSAGE_BREAK, 0);
    expect(own, TARRY_MESSAGE_BREAK, 1);
    assert_true(holds(own, 0, RIGHT));
    expect(own, TARRY_MESSAGE_FETCH, 2);
    assert_false(holds(own, 2, RIGHT)); /* its engine's late end is none to the FETCH */
    assert_false(fails(own, 2, 0));
    own->last[2].count++;
    assert_false(fetches(own, 2, true)); /* nor is the end of another FETCH */
    own->last[2].count--;
    assert_true(fetches(own, 2, true));
    assert_false(fetches(own, 2, true));
    own->last[1].count = 99;
    assert_false(has(own, 1, none, none, 0)); /* a STATE that nobody asked for */
    assert_true(holds(own, 1, RIGHT));
    logs(own);
    own->seen = own->count;
}

DESK(sums_that_differ_are_void_and_three_in_a_row_the_end)
{
    begin(own, 3);
    for (int i = 0; i < 3; i++) {
        opens(own, 7);
        assert_true(holds(own, 0, RIGHT) && holds(own, 1, WRONG) && holds(own, 2, RIGHT));
        assert_int_equal(own->outcome, i < 2 ? VOTE_VOID : VOTE_DIFFERS);
    }
    assert_true(vote_at_fault(own->it, 1) && !vote_at_fault(own->it, 0));
}

DESK(no_attempt_begins_beside_a_holder)
{
    begin(own, 3);
    opens(own, 7);
    assert_true(fails(own, 1, 2));
    expect(own, TARRY_MESSAGE_BREAK, 0);
    expect(own, TARRY_MESSAGE_BREAK, 2);
    assert_true(holds(own, 0, RIGHT));
    assert_int_equal(expect(own, TARRY_MESSAGE_FETCH, 1)->from, 0);
    assert_true(fails(own, 2, 1));
    expect(own, TARRY_MESSAGE_FETCH, 2);
    assert_int_equal(own->outcome, VOTE_GOES_ON);
    assert_true(fetches(own, 1, true));
    assert_true(fetches(own, 2, false));
    assert_int_equal(own->outcome, VOTE_LOG); /* 2 is set aside: two hold it */
    assert_int_equal(own->it->members[2].answer, VOTE_NONE);
    logs(own);
    own->seen = own->count;
    end(own);

    begin(own, 2); /* the only holder can pass it to nobody */
    opens(own, 3);
    assert_true(fails(own, 1, 0));
    expect(own, TARRY_MESSAGE_BREAK, 0);
    assert_true(holds(own, 0, RIGHT));
    expect(own, TARRY_MESSAGE_FETCH, 1);
    assert_true(fetches(own, 1, false));
    assert_int_equal(own->outcome, VOTE_VOID);
}

DESK(a_sum_that_its_only_voter_holds_is_fetched_first)
{
    begin(own, 3);
    opens(own, 3);
    is_lost(own, 1);
    expect(own, TARRY_MESSAGE_BREAK, 0);
    assert_true(holds(own, 0, RIGHT));
    assert_int_equal(expect(own, TARRY_MESSAGE_FETCH, 2)->from, 0);
    assert_int_equal(own->outcome, VOTE_GOES_ON);
    assert_true(fetches(own, 2, true));
    logs(own);
    own->seen = own->count;
}

DESK(commit_comes_after_the_log)
{
    begin(own, 2);
    opens(own, 3);
    assert_true(holds(own, 0, RIGHT));
    expect_nothing(own); /* one of them is not enough */
    assert_true(holds(own, 1, RIGHT));
    assert_int_equal(own->outcome, VOTE_LOG);
    expect_nothing(own);
    tarry_sum_id other = own->it->pending;
    other.digest = WRONG;
    assert_false(vote_logged(own->it, &other));
    logs(own);
    expect(own, TARRY_MESSAGE_COMMIT, 0);
    expect(own, TARRY_MESSAGE_COMMIT, 1);
}

/* Nobody in the group reaches another one. */
static void fails_once(desk *own, uint64_t group)
{
    opens(own, group);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        if (group >> worker & 1)
            assert_true(fails(own, worker, worker == 0 ? 1 : 0));
    assert_int_equal(own->outcome, VOTE_VOID);
    own->seen = own->count;
}

/* The first attempt is repeated at once, the others when links have had time to come up. */
DESK(attempts_are_bounded)
{
    begin(own, 2);
    static const uint64_t pauses[ATTEMPTS] = {0, 0, GRACE / 4, GRACE / 2, GRACE};
    for (int i = 0; i < ATTEMPTS; i++) {
        assert_false(vote_exhausted(own->it));
        if (pauses[i] > 0) {
            assert_false(vote_may_open(own->it));
            assert_int_equal(vote_deadline(own->it), own->now + pauses[i]);
            passes(own, pauses[i] - 1);
            assert_false(vote_may_open(own->it));
            passes(own, 1);
        }
        fails_once(own, 3);
    }
    assert_true(vote_exhausted(own->it) && vote_suspect(own->it) != TARRY_NO_WORKER);
    assert_int_equal(vote_deadline(own->it), TARRY_NEVER);
    vote_round(own->it); /* another one begins at once */
    opens(own, 3);
}

/* What the attempt failed for is gone with one that was in it. */
DESK(another_group_tries_at_once)
{
    begin(own, 4);
    fails_once(own, 7);
    fails_once(own, 7);
    assert_false(vote_may_open(own->it));
    is_lost(own, 3); /* which it did without */
    assert_false(vote_may_open(own->it));
    is_lost(own, 2);
    fails_once(own, 3);
    assert_false(vote_may_open(own->it));
    vote_hurry(own->it); /* one of them is left out */
    assert_true(vote_may_open(own->it));
    opens(own, 3);
    is_lost(own, 1); /* of an attempt that runs */
    expect(own, TARRY_MESSAGE_BREAK, 0);
    arrives(own, 2, none, none, 0);
    assert_true(fails(own, 0, 1));
    assert_int_equal(own->outcome, VOTE_VOID);
    assert_true(vote_may_open(own->it));
}

TEST(a_state_that_nobody_has_is_gone_after_the_grace)
{
    for (int saved = 0; saved < 2; saved++) {
        desk own;
        begin(&own, 2);
        tarry_sum_id first = steps(&own, 3, NULL);
        own.it->has_vectors = saved == 1;
        own.it->vectors = first;
        steps(&own, 3, NULL);
        is_lost(&own, 0);
        is_lost(&own, 1);
        arrives(&own, 2, none, none, 0);
        assert_int_equal(own.outcome, VOTE_GOES_ON);
        passes(&own, GRACE);
        if (saved == 0) {
            assert_int_equal(own.outcome, VOTE_GONE);
        } else {
            assert_true(own.outcome == VOTE_LOG && own.it->pending.attempt == 0 &&
                        own.it->pending.step == 1 && own.it->pending.term == 2);
            logs(&own);
            assert_int_equal(expect(&own, TARRY_MESSAGE_LOAD, 2)->from, 2);
        }
        end(&own);
    }
}

DESK(the_late_are_set_aside_and_behind_then)
{
    begin(own, 3);
    opens(own, 7);
    assert_true(holds(own, 0, RIGHT) && holds(own, 1, RIGHT));
    vote_late(own->it, 2);
    act(own);
    expect(own, TARRY_MESSAGE_BREAK, 2);
    logs(own);
    expect(own, TARRY_MESSAGE_COMMIT, 0);
    expect(own, TARRY_MESSAGE_COMMIT, 1);
    expect(own, TARRY_MESSAGE_FETCH, 2);
    assert_false(vote_is_ready(own->it, 2));
}

DESK(who_differs_from_most_loads)
{
    begin(own, 3);
    steps(own, 7, NULL); /* 1: nobody is asked */
    steps(own, 7, (const uint64_t[]){RIGHT, RIGHT, WRONG});
    assert_int_equal(vote_next_stray(own->it), 2);
    assert_int_equal(vote_next_stray(own->it), TARRY_NO_WORKER);
    assert_false(vote_takes_part(own->it, 2));
    arrives(own, 2, own->it->log[0], none, WRONG);
    assert_true(expect(own, TARRY_MESSAGE_LOAD, 2)->digests);
    assert_true(has(own, 2, own->it->log[0], none, RIGHT));
    assert_true(vote_is_ready(own->it, 2));
    arrives(own, 3, own->it->log[0], none, WRONG);
    expect(own, TARRY_MESSAGE_LOAD, 3);
    assert_int_equal(vote_next_stray(own->it), TARRY_NO_WORKER); /* it had no share yet */
}

/* The source has stepped since the order was given, to where parameters are compared. */
DESK(a_later_state_that_is_loaded_is_compared)
{
    begin(own, 3);
    tarry_sum_id other = steps(own, 7, NULL);
    other.digest = WRONG;
    arrives(own, 3, other, none, 0);
    assert_true(expect(own, TARRY_MESSAGE_LOAD, 3)->digests);
    tarry_sum_id second = steps(own, 7, (const uint64_t[]){RIGHT, RIGHT, RIGHT});
    assert_true(has(own, 3, second, none, WRONG));
    assert_false(vote_is_ready(own->it, 3));
    passes(own, GRACE);
    assert_true(sum_id_same(&expect(own, TARRY_MESSAGE_LOAD, 3)->sum, &second));
    assert_true(has(own, 3, second, none, RIGHT));
    assert_true(vote_is_ready(own->it, 3));
}

DESK(most_are_of_all_who_will_tell)
{
    begin(own, 5);
    steps(own, 31, NULL);
    steps(own, 31, (const uint64_t[]){WRONG, WRONG, RIGHT, RIGHT, RIGHT});
    assert_int_equal(vote_next_stray(own->it), 0); /* though they told the same first */
    assert_int_equal(vote_next_stray(own->it), 1);
    assert_int_equal(vote_next_stray(own->it), TARRY_NO_WORKER);
    expect(own, TARRY_MESSAGE_LOAD, 0);
    expect(own, TARRY_MESSAGE_LOAD, 1);
    end(own);

    begin(own, 0); /* one who comes first is not most, either */
    const tarry_sum_id log[2] = {{.step = 2, .term = 1, .attempt = 2, .digest = RIGHT}, {0}};
    vote_restart(own->it, log, 2);
    for (uint32_t worker = 0; worker < 3; worker++) {
        arrives(own, worker, log[0], none, worker == 0 ? WRONG : RIGHT);
    }
    assert_int_equal(vote_next_stray(own->it), 0);
    expect(own, TARRY_MESSAGE_LOAD, 0);
}

DESK(a_split_ends_after_the_grace)
{
    begin(own, 2);
    steps(own, 3, NULL);
    steps(own, 3, (const uint64_t[]){RIGHT, WRONG});
    assert_false(vote_may_open(own->it));
    passes(own, GRACE - 1);
    assert_int_equal(own->outcome, VOTE_GOES_ON);
    assert_true(vote_deadline(own->it) == own->now + 1);
    passes(own, 1);
    assert_int_equal(own->outcome, VOTE_SPLIT);
    assert_true(vote_at_fault(own->it, 0) && vote_at_fault(own->it, 1));
    end(own);

    begin(own, 2);
    steps(own, 3, NULL);
    tarry_sum_id last = steps(own, 3, (const uint64_t[]){RIGHT, WRONG});
    arrives(own, 2, last, none, RIGHT); /* which tells who is right */
    assert_int_equal(vote_next_stray(own->it), 1);
    expect(own, TARRY_MESSAGE_LOAD, 1);
    assert_true(vote_may_open(own->it));
}

DESK(rounds_wait_for_a_load_that_they_would_outrun)
{
    begin(own, 2);
    tarry_sum_id first = steps(own, 3, NULL);
    comes_astray(own, 2);
    tarry_sum_id second = steps(own, 3, NULL); /* the load goes on */
    assert_false(vote_may_open(own->it));
    passes(own, GRACE / 2);
    assert_true(has(own, 2, first, none, 0));
    assert_true(sum_id_same(&expect(own, TARRY_MESSAGE_FETCH, 2)->sum, &second));
    assert_false(vote_may_open(own->it));
    assert_true(fetches(own, 2, true));
    expect(own, TARRY_MESSAGE_COMMIT, 2);
    assert_false(vote_may_open(own->it)); /* it is a step from taking part */
    assert_true(has(own, 2, second, second, 0));
    assert_true(vote_is_ready(own->it, 2));
    assert_true(vote_may_open(own->it));
}

/* Its source had stepped by the time that it was asked. */
DESK(a_later_state_than_was_asked_for_counts)
{
    begin(own, 2);
    steps(own, 3, NULL);
    comes_astray(own, 2);
    tarry_sum_id second = steps(own, 3, NULL);
    assert_true(has(own, 2, second, none, 0));
    assert_true(vote_is_ready(own->it, 2) && vote_may_open(own->it));
}

/* Not without end; and longer where it is known how long a load takes. */
DESK(waiting_for_a_load_is_bounded)
{
    begin(own, 2);
    tarry_sum_id first = steps(own, 3, NULL);
    comes_astray(own, 2);
    steps(own, 3, NULL);
    assert_int_equal(vote_deadline(own->it), own->now + GRACE);
    passes(own, GRACE);
    steps(own, 3, NULL); /* nobody has what it would need now */
    assert_true(vote_may_open(own->it));
    passes(own, GRACE);
    assert_true(has(own, 2, first, none, 0));
    expect(own, TARRY_MESSAGE_LOAD, 2);
    steps(own, 3, NULL);
    assert_int_equal(vote_deadline(own->it), own->now + 4 * GRACE);
}
