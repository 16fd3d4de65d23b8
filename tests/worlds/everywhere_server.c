/* SPDX-License-Identifier: Apache-2.0 */
#include "worlds/cluster.h"
#include "worlds/invariants.h"

/* The estimate is the sum: what those in its group contributed, each part once. */
static void take_estimate(cluster *it, const tarry_sum_id *sum)
{
    const sum_attempt *of = everywhere_attempt(it, sum);
    if (of == NULL)
        return; /* which is broken, see invariants_of_entry */
    cluster_item part = {.scale = of->scale};
    for (part.stripe = 0; part.stripe < it->model.stripes; part.stripe++) {
        cluster_clear_estimate(it, part.stripe);
        for (part.worker = 0; part.worker < it->workers; part.worker++) {
            part.part = of->part[part.worker];
            if (of->group & ~of->empty & bit(part.worker))
                cluster_add_part(it, &part);
        }
    }
    model_commit(&it->model);
}

static void write_entry(cluster *it, const tarry_sum_id *sum)
{
    history *log = &it->log.committed, *ever = &it->log.ever;
    if (sum->attempt == 0) {
        cluster_note(it, "log: back to step %llu, term %u", (unsigned long long)sum->step,
                     sum->term);
        log->count = (uint32_t)sum->step;
        it->log.term = sum->term;
        it->counts.returns++;
    } else {
        cluster_note(it, "log: step %llu, term %u, attempt %u", (unsigned long long)sum->step,
                     sum->term, sum->attempt);
        invariants_of_entry(it, sum);
        if (it->broken != NULL)
            return;
        log->sums[log->count++] = *sum;
        ever->sums[ever->count++] = *sum;
        it->counts.commits++;
    }
    it->parameters = history_number(log);
}

/* The server knows where the vectors' checkpoint stands. */
static void tell_saved(cluster *it)
{
    tarry_sum_id last = history_last(&it->saved);
    tarry_server_vectors(it->server, &last);
}

/* What ITEM_LOGGED does, in `slot`: a bit each. */
enum { ENTRY_WRITTEN = 1, ENTRY_TOLD = 2 };

static void add_entry(cluster *it, const tarry_sum_id *sum, uint64_t time, uint32_t what)
{
    cluster_item *entry = cluster_add(it, time, ITEM_LOGGED, 0);
    entry->sum = *sum;
    entry->round = it->model.round;
    entry->slot = what;
}

void everywhere_log(cluster *it, const tarry_effect *effect)
{
    uint64_t time = it->now + draws_between(&it->draws, DRAW_SUM, 0, 0, it->sum_time);
    bool early = cluster_planted(it, PLANT_COMMIT_FIRST);
    if (everywhere_logs(it) && !early)
        invariant_broken(it, "steps_follow_each_other", "an entry before the last one is written");
    if (early)
        add_entry(it, &effect->sum, it->now, ENTRY_TOLD);
    add_entry(it, &effect->sum, time, early ? ENTRY_WRITTEN : ENTRY_WRITTEN | ENTRY_TOLD);
}

void everywhere_logged(cluster *it, const cluster_item *due)
{
    /* The entry of a round that was given up meanwhile is no other round's sum. */
    bool runs = it->model.phase != MODEL_IDLE && it->model.round == due->round;
    if (runs && due->sum.attempt != 0 && (due->slot & ENTRY_TOLD))
        take_estimate(it, &due->sum);
    if (due->slot & ENTRY_WRITTEN)
        write_entry(it, &due->sum);
    tarry_event logged = {.type = TARRY_EVENT_LOGGED, .sum = due->sum};
    if (it->broken != NULL || !(due->slot & ENTRY_TOLD))
        return;
    it->log.told = due->sum;
    cluster_step_server(it, &logged, NULL);
}

tarry_event everywhere_forge(const cluster *it, const tarry_event *event, tarry_message *message)
{
    if (event->type != TARRY_EVENT_MESSAGE)
        return *event;
    tarry_event given = *event;
    *message = *event->message;
    given.message = message;
    if (message->type == TARRY_MESSAGE_FAILED && cluster_planted(it, PLANT_ONE_HOLDER)) {
        message->type = TARRY_MESSAGE_HELD;
        message->sum.digest = everywhere_digest(&message->sum);
    } else if (message->type == TARRY_MESSAGE_HELD && cluster_planted(it, PLANT_LOSE_HOLDER)) {
        message->type = TARRY_MESSAGE_FAILED;
        message->from = TARRY_NO_WORKER;
    } else if (message->type == TARRY_MESSAGE_HELD && cluster_planted(it, PLANT_ANY_DIGEST)) {
        message->sum.digest = everywhere_digest(&message->sum);
    } else if (message->type == TARRY_MESSAGE_STATE && cluster_planted(it, PLANT_NO_STATES)) {
        message->state = 0;
    }
    return given;
}

bool everywhere_logs(const cluster *it)
{
    for (size_t i = 0; i < it->count; i++)
        if (it->items[i].type == ITEM_LOGGED)
            return true;
    return false;
}

bool everywhere_is_settled(const cluster *it)
{
    const history *log = &it->log.committed;
    bool settled = !everywhere_logs(it);
    for (uint32_t worker = 0; settled && worker < it->workers; worker++) {
        const cluster_node *node = &it->nodes[worker];
        const history *state = &node->replica.state;
        settled = node->machine == NULL || !cluster_connected(it, worker) ||
                  (state->count == log->count && history_begins(state, log));
    }
    return settled;
}

void everywhere_settle_log(cluster *it, random_stream *details)
{
    for (size_t i = it->count; i-- > 0;) {
        if (it->items[i].type != ITEM_LOGGED)
            continue;
        tarry_sum_id sum = it->items[i].sum;
        bool writes = (it->items[i].slot & ENTRY_WRITTEN) != 0;
        cluster_remove(it, i);
        if (writes && stream_chance(details, 0.5))
            write_entry(it, &sum);
    }
}

void everywhere_restore(cluster *it)
{
    const history *log = &it->log.committed;
    tarry_sum_id last[2] = {{0}, {0}};
    for (uint32_t i = 0; i < 2 && i < log->count; i++)
        last[i] = log->sums[log->count - 1 - i];
    it->log.term += !cluster_planted(it, PLANT_SAME_TERM);
    it->parameters = history_number(log);
    it->votes = (ballots){.company = it->now};
    int error = tarry_server_log(it->server, last, it->log.term);
    if (error != TARRY_OK)
        invariant_broken(it, "restarts_from_its_log", "%s", tarry_error_text(error));
    else if (it->has_saved)
        tell_saved(it);
}

void everywhere_save(cluster *it)
{
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        const cluster_node *node = &it->nodes[worker];
        if (node->machine != NULL && cluster_connected(it, worker) &&
            node->replica.task == TASK_NONE &&
            node->replica.state.count == it->log.committed.count &&
            history_begins(&node->replica.state, &it->log.committed)) {
            it->saved = node->replica.state;
            it->has_saved = true;
            tell_saved(it);
            return;
        }
    }
}
