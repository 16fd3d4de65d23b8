/* SPDX-License-Identifier: Apache-2.0 */
/* Where everyone gets the sum: what workers step on, and what the log has. */
#include "worlds/invariants.h"

static bool is_in(const history *of, const tarry_sum_id *sum)
{
    for (uint32_t i = 0; i < of->count; i++)
        if (sum_id_same(&of->sums[i], sum))
            return true;
    return false;
}

void invariants_of_reduce(cluster *it, uint32_t worker, const tarry_effect *effect,
                          const sum_attempt *of)
{
    const replica *own = &it->nodes[worker].replica;
    if (of == NULL || (uint32_t)effect->message.group[0] != of->group ||
        effect->scale != of->scale || !(of->group & bit(worker)))
        invariant_broken(it, "one_attempt_for_all", "worker %u: attempt %u is another one", worker,
                         effect->sum.attempt);
    else if (of->begun & bit(worker))
        invariant_broken(it, "one_attempt_for_all", "worker %u begins attempt %u again", worker,
                         effect->sum.attempt);
    else if (own->state.count + 1 != effect->sum.step)
        invariant_broken(it, "all_have_the_same_sums", "worker %u, of step %u, sums for step %llu",
                         worker, own->state.count, (unsigned long long)effect->sum.step);
}

void invariants_of_reduced(cluster *it, uint32_t worker)
{
    const cluster_node *node = &it->nodes[worker];
    for (uint32_t chunk = 0; chunk < MAX_CHUNKS; chunk++)
        if (node->sum[chunk] != node->replica.before[chunk])
            invariant_broken(it, "a_sum_leaves_z_alone", "worker %u, chunk %u: %g, before %g",
                             worker, chunk, node->sum[chunk], node->replica.before[chunk]);
    const tarry_sum_id *held = &node->replica.held;
    if (held->step != 0 && held->digest != everywhere_digest(held) && it->wrong_sums == 0)
        invariant_broken(it, "all_make_the_same_sum", "worker %u, attempt %u", worker,
                         held->attempt);
}

void invariants_of_z(cluster *it, uint32_t worker)
{
    if (it->nodes[worker].replica.task == TASK_REDUCE)
        invariant_broken(it, "a_sum_leaves_z_alone", "worker %u changes what is being summed",
                         worker);
}

void invariants_of_stepping(cluster *it, uint32_t worker, const tarry_sum_id *sum)
{
    const replica *own = &it->nodes[worker].replica;
    if (!is_in(&it->log.ever, sum))
        invariant_broken(it, "steps_only_on_what_is_committed",
                         "worker %u: step %llu, term %u, attempt %u is not in the log", worker,
                         (unsigned long long)sum->step, sum->term, sum->attempt);
    if (!sum_id_same(&own->held, sum))
        invariant_broken(it, "steps_only_on_what_is_committed",
                         "worker %u holds step %llu, term %u, attempt %u instead", worker,
                         (unsigned long long)own->held.step, own->held.term, own->held.attempt);
    if (sum->step != own->state.count + 1 || own->state.count == MAX_STEPS)
        invariant_broken(it, "steps_follow_each_other", "worker %u: step %llu after %u", worker,
                         (unsigned long long)sum->step, own->state.count);
}

/* Cut off, a worker may go on in a history that was left. */
void invariants_of_state(cluster *it, uint32_t worker)
{
    const history *state = &it->nodes[worker].replica.state;
    if (it->counts.returns == 0 && !history_begins(state, &it->log.committed))
        invariant_broken(it, "all_have_the_same_sums", "worker %u, after step %u", worker,
                         state->count);
}

void invariants_of_computing(cluster *it, uint32_t worker)
{
    const cluster_node *node = &it->nodes[worker];
    const model_member *member = &it->model.members[worker];
    if (node->replica.task == TASK_STEP || node->replica.task == TASK_LOAD)
        invariant_broken(it, "nothing_begins_before_the_step", "worker %u", worker);
    /* Of a connection that is dead a round may have come and the commit before it not. */
    bool heard =
        cluster_connected(it, worker) && member->present && node->present.epoch == member->epoch;
    if (heard && node->present.parameters != history_number(&node->replica.state))
        invariant_broken(it, "all_have_the_same_sums", "worker %u: the state is not the round's",
                         worker);
    bool spoken_to =
        heard && it->model.phase != MODEL_IDLE && node->present.round == it->model.round;
    if (spoken_to && node->present.parameters != it->parameters)
        invariant_broken(it, "all_have_the_same_sums",
                         "worker %u computes after step %u, the log has %u", worker,
                         node->replica.state.count, it->log.committed.count);
}

/* Whether the worker has the log's last state, or what makes it of the one before; not where its
 * parameters are not right, by which nobody could go on. */
static bool has_last(const cluster *it, uint32_t worker)
{
    const cluster_node *node = &it->nodes[worker];
    const history *log = &it->log.committed, *state = &node->replica.state;
    tarry_sum_id last = history_last(log);
    if (node->machine == NULL || state->flipped != 0 || !history_begins(state, log))
        return false;
    return state->count == log->count ||
           (state->count + 1 == log->count && sum_id_same(&node->replica.held, &last));
}

void invariants_of_return(cluster *it, const tarry_sum_id *sum)
{
    uint32_t steps = it->log.committed.count;
    if (sum != NULL && (sum->step > steps || sum->term <= it->log.term))
        invariant_broken(it, "committed_rounds_stand", "back to step %llu, term %u, from %u, %u",
                         (unsigned long long)sum->step, sum->term, steps, it->log.term);
    if (sum != NULL && sum->step == steps)
        return;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (has_last(it, worker) && cluster_connected(it, worker) &&
            it->model.members[worker].present)
            invariant_broken(it, "committed_rounds_stand", "step %u is given up, worker %u has it",
                             steps, worker);
}

void invariants_of_entry(cluster *it, const tarry_sum_id *sum)
{
    if (sum->step != it->log.committed.count + 1 || sum->term != it->log.term ||
        it->log.ever.count == MAX_STEPS)
        invariant_broken(it, "steps_follow_each_other", "the log has %u, then step %llu, term %u",
                         it->log.committed.count, (unsigned long long)sum->step, sum->term);
    else if (everywhere_attempt(it, sum) == NULL)
        invariant_broken(it, "one_attempt_for_all", "attempt %u was never signalled", sum->attempt);
}

static bool differ(const cluster *it, uint32_t worker, uint32_t other)
{
    const cluster_node *a = &it->nodes[worker], *b = &it->nodes[other];
    return a->machine != NULL && b->machine != NULL &&
           history_parameters(&a->replica.state) != history_parameters(&b->replica.state);
}

bool invariants_see_split(const cluster *it, uint32_t workers)
{
    uint32_t steps = it->log.committed.count, every = it->settings.digest_steps;
    if (every == 0 || steps == 0 || steps % every != 0 || workers == 0)
        return false;
    uint32_t first = (uint32_t)__builtin_ctz(workers);
    for (uint32_t worker = first; worker < it->workers; worker++)
        if ((workers & bit(worker)) && differ(it, first, worker))
            return true;
    return false;
}

void invariants_of_voters(cluster *it, const tarry_message *signal)
{
    if (invariants_see_split(it, (uint32_t)signal->group[0]))
        invariant_broken(it, "who_differs_loads", "not all of %#x have the same parameters",
                         (uint32_t)signal->group[0]);
}

void invariants_of_stray(cluster *it, uint32_t worker)
{
    it->counts.differing++;
    /* Of who has crashed the server may not know it yet: what it was is not there any more. And one
     * that is wrong may have all the rest wrong beside it: who told what is right may have gone. */
    const cluster_node *own = &it->nodes[worker];
    bool gone = own->machine == NULL || own->replica.state.flipped != 0;
    for (uint32_t other = 0; other < it->workers; other++)
        if (gone || differ(it, worker, other) ||
            (it->model.members[other].present && it->nodes[other].machine == NULL))
            return;
    invariant_broken(it, "who_differs_loads", "worker %u has what all have", worker);
}
