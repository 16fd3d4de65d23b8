/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where everyone gets the sum: the vote, from what the server was told and what it says, held
 * against what workers have in truth.
 */
#include "worlds/invariants.h"

enum { USUAL_ATTEMPTS = 8, MOST_DIFFERING = 3 };

static uint32_t able(const cluster *it)
{
    return model_all_able(&it->model, MODEL_EVERYONE);
}

static uint32_t those(const ballots *it, ballot wanted)
{
    uint32_t set = 0;
    for (uint32_t worker = 0; worker < MAX_WORKERS; worker++)
        set |= it->of[worker] == wanted ? bit(worker) : 0;
    return set;
}

static bool differ(const ballots *it)
{
    uint32_t held = those(it, BALLOT_HELD), first = held != 0 ? (uint32_t)__builtin_ctz(held) : 0;
    for (uint32_t worker = 0; worker < MAX_WORKERS; worker++)
        if ((held & bit(worker)) && it->digest[worker] != it->digest[first])
            return true;
    return false;
}

/* What the attempt has failed for may be gone: the next one need not wait for that. */
static void change_group(ballots *votes, uint32_t worker)
{
    if ((votes->group & bit(worker)) || votes->of[worker] != BALLOT_NONE)
        votes->same = false;
}

/* An answer counts for the order that is out alone; unasked, HELD does if none is: one that has
 * overtaken the state which was asked for says nothing that stands after it. */
static void take_answer(ballots *it, uint32_t worker, const tarry_message *message)
{
    ballot *of = &it->of[worker];
    if (!it->open || !sum_id_named(&it->name, &message->sum))
        return;
    bool held = message->type == TARRY_MESSAGE_HELD;
    bool asked = message->fetched ? *of == BALLOT_FETCHING
                                  : *of == BALLOT_WAITING ||
                                        (held && *of == BALLOT_NONE && !(it->busy & bit(worker)));
    if (!asked)
        return;
    *of = held ? BALLOT_HELD : message->fetched ? BALLOT_FAILED_TWICE : BALLOT_FAILED;
    it->digest[worker] = message->sum.digest;
}

/* Who comes back with this very sum is a voter again. */
static void take_state(ballots *it, uint32_t worker, const tarry_message *message)
{
    if (!it->open || !sum_id_named(&it->name, &message->sum) ||
        message->last.step + 1 != it->name.step)
        return;
    if (it->of[worker] == BALLOT_NONE) {
        it->of[worker] = BALLOT_HELD;
        it->digest[worker] = message->sum.digest;
    }
}

/* Nobody is counted on who has not the last state. */
static void take_state_of(cluster *it, const tarry_event *event)
{
    tarry_sum_id last = history_last(&it->log.committed);
    take_state(&it->votes, event->worker, event->message);
    if (!sum_id_same(&last, &event->message->last))
        model_fall_behind(&it->model, event->worker);
}

/* taken: the server took it as an answer to what it asked. */
static void take_event(cluster *it, const tarry_event *event, bool taken)
{
    ballots *votes = &it->votes;
    const model_member *member = &it->model.members[event->worker];
    if (event->type == TARRY_EVENT_LOST || event->type == TARRY_EVENT_JOINED) {
        change_group(votes, event->worker);
        votes->of[event->worker] = BALLOT_NONE;
        votes->busy &= ~bit(event->worker);
    }
    if (event->type != TARRY_EVENT_MESSAGE || !member->present ||
        event->message->epoch != member->epoch)
        return;
    /* A fetch that failed may be an earlier one than that which is out. */
    bool failed =
        event->message->type == TARRY_MESSAGE_FAILED && (taken || !event->message->fetched);
    if (event->message->type == TARRY_MESSAGE_HELD || failed)
        take_answer(votes, event->worker, event->message);
    else if (event->message->type == TARRY_MESSAGE_STATE && taken)
        take_state_of(it, event);
    if (event->message->type >= TARRY_MESSAGE_ASK && taken)
        votes->busy &= ~bit(event->worker);
}

/* Whether the only one who has the sum can pass it to nobody. */
static bool is_stuck(const ballots *votes)
{
    return set_size(those(votes, BALLOT_HELD)) == 1 && those(votes, BALLOT_FAILED_TWICE) != 0 &&
           (those(votes, BALLOT_WAITING) | those(votes, BALLOT_FETCHING)) == 0;
}

/* With nobody to wait for, and no holder, or one that can pass it to nobody, it is void, whatever
 * comes of that, and when. */
static void look_whether_void(cluster *it)
{
    ballots *votes = &it->votes;
    bool nobody = (those(votes, BALLOT_WAITING) | those(votes, BALLOT_FETCHING) |
                   those(votes, BALLOT_HELD)) == 0;
    if (!votes->open || (!nobody && !is_stuck(votes)))
        return;
    votes->open = false;
    votes->void_ns = it->now;
}

/* The server gives the attempt up. */
static void check_void(cluster *it)
{
    const ballots *votes = &it->votes;
    uint32_t held = those(votes, BALLOT_HELD);
    if (held != 0 && !differ(votes) && !is_stuck(votes))
        invariant_broken(it, "no_attempt_beside_a_holder", "attempt %u is given up, held by %#x",
                         votes->name.attempt, held);
}

/* Whether the one that is there has been alone for so long that it may go on. */
static bool lonely(const cluster *it)
{
    return it->workers == 1 || it->now - it->votes.company >= it->settings.voters_grace_ns;
}

static void check_commit(cluster *it, const tarry_sum_id *sum)
{
    const ballots *votes = &it->votes;
    uint32_t held = those(votes, BALLOT_HELD);
    uint32_t open =
        those(votes, BALLOT_WAITING) | those(votes, BALLOT_FETCHING) | those(votes, BALLOT_FAILED);
    if (!votes->open || !sum_id_named(&votes->name, sum) || differ(votes) || held == 0 || open != 0)
        invariant_broken(it, "commits_what_all_hold",
                         "attempt %u: held by %#x, not answered by %#x", sum->attempt, held, open);
    if (set_size(held) < 2 && !lonely(it))
        invariant_broken(it, "two_hold_what_is_committed", "attempt %u: held by %#x alone",
                         sum->attempt, held);
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        const cluster_node *node = &it->nodes[worker];
        if ((held & bit(worker)) && node->machine != NULL && cluster_connected(it, worker) &&
            !sum_id_same(&node->replica.held, sum))
            invariant_broken(it, "answers_match_orders", "worker %u does not hold attempt %u",
                             worker, sum->attempt);
    }
}

/* How many attempts of the round have failed in this term. */
static uint32_t count_failed(const ballots *votes, uint64_t round, uint32_t term)
{
    return votes->round == round && votes->name.term == term ? votes->tried : 0;
}

/* Whether links that an attempt has failed for have time to come up, still: with the same group the
 * next one but the first follows after a pause, the last one after the grace. */
static bool pauses(const cluster *it, uint32_t failed)
{
    uint64_t paused = it->now - it->votes.void_ns;
    return it->votes.same && failed > 1 && failed < USUAL_ATTEMPTS &&
           paused < it->settings.voters_grace_ns >> (USUAL_ATTEMPTS - 1 - failed);
}

static void check_pause(cluster *it, uint32_t failed)
{
    uint64_t paused = it->now - it->votes.void_ns;
    if (failed >= USUAL_ATTEMPTS)
        invariant_broken(it, "attempts_are_bounded", "%u have failed", failed);
    else if (pauses(it, failed))
        invariant_broken(it, "links_have_time_to_come_up", "the next one of %u follows after %llu",
                         failed, (unsigned long long)paused);
}

static void take_signal(cluster *it, const tarry_effect *effect)
{
    ballots *votes = &it->votes;
    if (!votes->open || !sum_id_named(&votes->name, &effect->message.sum)) {
        uint32_t failed = count_failed(votes, effect->message.round, effect->message.sum.term);
        check_pause(it, failed);
        *votes = (ballots){
            .open = true,
            .same = true,
            .tried = failed + 1,
            .round = effect->message.round,
            .name = effect->message.sum,
            .group = (uint32_t)effect->message.group[0],
            .busy = votes->busy,
            .company = votes->company,
        };
        everywhere_open(it, &effect->message);
        invariants_of_voters(it, &effect->message);
    }
    votes->of[effect->worker] = BALLOT_WAITING;
}

static bool gives_up(const ballots *votes, const tarry_effect *effect)
{
    if (effect->type == TARRY_EFFECT_DONE)
        return effect->result->error != TARRY_OK;
    return effect->type == TARRY_EFFECT_SEND &&
           (effect->message.type == TARRY_MESSAGE_RESUME ||
            (effect->message.type == TARRY_MESSAGE_SIGNAL &&
             !sum_id_named(&votes->name, &effect->message.sum)));
}

/* Who is late in the sum is set aside; with no limit, the whole round does without it, once the
 * attempt is void. */
static void leave_out(cluster *it, const tarry_effect *effect)
{
    model_member *member = &it->model.members[effect->worker];
    change_group(&it->votes, effect->worker);
    if (effect->reason == TARRY_ABSENT_DIFFERS) {
        invariants_of_stray(it, effect->worker);
        it->votes.of[effect->worker] = BALLOT_NONE;
        it->votes.busy &= ~bit(effect->worker);
        model_arrive_again(&it->model, it->now, effect->worker, effect->reason);
        return;
    }
    bool suspected = effect->reason == TARRY_ABSENT_LATE && effect->limit_ns == 0;
    if (!suspected && effect->reason != TARRY_ABSENT_FAILED) /* its part is out */
        it->votes.of[effect->worker] = BALLOT_NONE;
    if (effect->reason != TARRY_ABSENT_LATE)
        return;
    if (effect->waited_ns < effect->limit_ns)
        invariant_broken(it, "passing_over_the_late_loses_nothing", "worker %u: before its limit",
                         effect->worker);
    it->counts.late++;
    if (suspected) {
        model_exclude(&it->model, bit(effect->worker), TARRY_ABSENT_LATE);
        return;
    }
    it->model.left[TARRY_ABSENT_LATE] |= bit(effect->worker);
    it->model.result.workers_late += !member->late;
    member->late = true;
}

static void take_effect(cluster *it, const tarry_effect *effect, bool aborted)
{
    ballots *votes = &it->votes;
    const tarry_message *message = &effect->message;
    if (votes->open && gives_up(votes, effect)) {
        if (!aborted)
            check_void(it);
        look_whether_void(it);
        votes->same = votes->same && !votes->open;
        votes->open = false;
    }
    if (effect->type == TARRY_EFFECT_LEFT_OUT)
        leave_out(it, effect);
    if (effect->type == TARRY_EFFECT_LOG && effect->sum.attempt == 0) {
        invariants_of_return(it, &effect->sum);
    } else if (effect->type == TARRY_EFFECT_LOG) {
        check_commit(it, &effect->sum);
        votes->open = false;
    }
    if (effect->type != TARRY_EFFECT_SEND)
        return;
    if (message->type == TARRY_MESSAGE_ROUND)
        model_enlist(&it->model, effect->worker);
    else if (message->type == TARRY_MESSAGE_SIGNAL)
        take_signal(it, effect);
    else if (message->type == TARRY_MESSAGE_FETCH && votes->open &&
             sum_id_named(&votes->name, &message->sum))
        votes->of[effect->worker] = BALLOT_FETCHING;
    else if (message->type == TARRY_MESSAGE_ASK || message->type == TARRY_MESSAGE_FETCH ||
             message->type == TARRY_MESSAGE_LOAD || message->type == TARRY_MESSAGE_COMMIT)
        votes->busy |= bit(effect->worker);
}

bool invariants_allow_waiting(const cluster *it)
{
    uint32_t ready = able(it) & ~it->votes.busy, behind = 0, crashed = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        const model_member *member = &it->model.members[worker];
        behind |= member->present && member->excluded && !member->put_off ? bit(worker) : 0;
        crashed |= it->nodes[worker].machine == NULL ? bit(worker) : 0;
    }
    uint32_t failed = count_failed(&it->votes, it->model.round, it->log.term);
    return set_size(ready) < 2 || (able(it) & it->votes.busy) != 0 || behind != 0 ||
           invariants_see_split(it, ready) || pauses(it, failed) ||
           (it->flipped > 0 && (ready & crashed) != 0); /* what these told is not known here */
}

void invariants_of_group(cluster *it, uint32_t told)
{
    uint32_t may = able(it), must = may & ~it->votes.busy;
    if (told != it->votes.group)
        invariant_broken(it, "everyone_hears_the_signal", "%#x of %#x", told, it->votes.group);
    if ((told & ~may) != 0 || (must & ~told) != 0)
        invariant_broken(it, "everyone_hears_the_signal", "%#x, but %#x are able, %#x ready", told,
                         may, must);
}

bool invariants_of_end(cluster *it, const tarry_effects *effects)
{
    int error = TARRY_OK;
    for (size_t i = 0; i < effects->count; i++) {
        if (effects->items[i].type != TARRY_EFFECT_DONE)
            continue;
        const tarry_round_result *result = effects->items[i].result;
        error = result->error;
        if (error == TARRY_OK && !sum_id_same(&result->sum, &it->log.told))
            invariant_broken(it, "rounds_end_with_what_is_logged", "step %llu, attempt %u",
                             (unsigned long long)result->sum.step, result->sum.attempt);
    }
    if (error == TARRY_ERROR_DIFFER && it->wrong_sums < MOST_DIFFERING && it->flipped == 0)
        invariant_broken(it, "ends_only_for_a_reason", "sums differ, of %u wrong ones",
                         it->wrong_sums);
    if (error == TARRY_ERROR_LINKS && it->model.attempt < USUAL_ATTEMPTS)
        invariant_broken(it, "ends_only_for_a_reason", "links fail, after %u attempts",
                         it->model.attempt);
    if (error == TARRY_ERROR_GONE)
        invariants_of_return(it, NULL);
    return error == TARRY_ERROR_DIFFER || error == TARRY_ERROR_LINKS || error == TARRY_ERROR_GONE;
}

static bool is_anybody_there(const cluster *it)
{
    bool there = false;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        there = there || it->model.members[worker].present;
    return there;
}

bool invariants_of_vote(cluster *it, const tarry_event *event, bool should_take,
                        const tarry_effects *effects)
{
    bool taken = effects->count == 0 || effects->items[0].type != TARRY_EFFECT_REJECT;
    bool deserted = !is_anybody_there(it);
    take_event(it, event, taken);
    if (set_size(able(it)) > 1 || deserted)
        it->votes.company = it->now;
    for (size_t i = 0; i < effects->count && it->broken == NULL; i++)
        take_effect(it, &effects->items[i], event->type == TARRY_EVENT_ABORT);
    look_whether_void(it);
    const model_member *member = &it->model.members[event->worker];
    bool free = event->type == TARRY_EVENT_MESSAGE && event->message->type >= TARRY_MESSAGE_ASK &&
                member->present && event->message->epoch == member->epoch;
    return free ? taken : should_take;
}
