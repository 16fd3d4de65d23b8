/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums among workers. An engine ends well only if everybody in the group has begun, and then each
 * member's at a time of its own; where one of them ends sooner, or two can't reach each other, the
 * others' may fail, at once or later, or never end. Fetches and loads fail likewise, but they end.
 */
#include "worlds/cluster.h"
#include "worlds/invariants.h"

#include <string.h>

enum { LONG_SILENCES = 3, ROUNDING = 64 /* to a multiple */ };

static bool in(uint32_t set, uint32_t worker)
{
    return (set & bit(worker)) != 0;
}

sum_attempt *everywhere_attempt(cluster *it, const tarry_sum_id *name)
{
    uint32_t known = it->attempt_count < MAX_ATTEMPTS ? it->attempt_count : MAX_ATTEMPTS;
    for (uint32_t i = 0; i < known; i++)
        if (sum_id_named(&it->attempts[i].name, name))
            return &it->attempts[i];
    return NULL;
}

/* ---- sums in another form: who sums a share sends it rounded, and that is the sum ---- */

static bool rounds(const cluster *it)
{
    return it->settings.compress_down != TARRY_COMPRESS_NONE;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
    return x ^ x >> 33;
}

/* The share of the sum of that name that the owner has summed, a whole number, and what it sends of
 * it. */
static uint64_t summed_by(const tarry_sum_id *name, uint32_t owner)
{
    return mix(everywhere_digest(name) + owner) >> 32;
}

static uint64_t sent_by(const tarry_sum_id *name, uint32_t owner)
{
    uint64_t summed = summed_by(name, owner);
    bool up = (mix(name->step << 8 | owner) & 1) != 0; /* by step and place alone */
    return summed - summed % ROUNDING + (up ? ROUNDING : 0);
}

/* That of the sum as the worker has it, where nothing went wrong. */
static uint64_t digest_at(const cluster *it, uint32_t worker, const sum_attempt *of)
{
    uint64_t digest = everywhere_digest(&of->name);
    for (uint32_t owner = 0; owner < it->workers && rounds(it); owner++) {
        bool keeps = owner == worker && cluster_planted(it, PLANT_KEEP_EXACT);
        uint64_t sent = sent_by(&of->name, owner);
        if (in(of->group, owner))
            digest += mix(keeps ? summed_by(&of->name, owner) : sent) - mix(sent);
    }
    return digest;
}

void everywhere_open(cluster *it, const tarry_message *signal)
{
    if (everywhere_attempt(it, &signal->sum) != NULL)
        invariant_broken(it, "names_are_never_used_again", "step %llu, term %u, attempt %u",
                         (unsigned long long)signal->sum.step, signal->sum.term,
                         signal->sum.attempt);
    sum_attempt *opened = &it->attempts[it->attempt_count++ % MAX_ATTEMPTS];
    opened->name = signal->sum;
    opened->group = (uint32_t)signal->group[0];
    opened->begun = opened->empty = 0;
    opened->hit = false;
    opened->scale = signal->scale;
    it->counts.rounded += rounds(it);
}

bool everywhere_parted(const cluster *it, uint32_t a, uint32_t b)
{
    return it->now < it->parted_until[a][b];
}

/* ---- engines ---- */

static bool makes(const cluster *it, uint32_t worker, const sum_attempt *of)
{
    const replica *own = &it->nodes[worker].replica;
    return own->task == TASK_REDUCE && sum_id_named(&own->sum, &of->name);
}

static uint64_t soon(cluster *it, uint32_t worker)
{
    return it->now + draws_between(&it->draws, DRAW_ENGINE, worker, 0, it->transfer_time);
}

/* What ends the task at `time`, and nothing else does. */
static cluster_item *end_at(cluster *it, uint32_t worker, item_type type, uint64_t time)
{
    replica *own = &it->nodes[worker].replica;
    own->token = ++it->token;
    cluster_item *end = cluster_add(it, time, type, worker);
    end->token = own->token;
    end->sum = own->sum;
    end->failed = false;
    return end;
}

/* The engine fails, sooner or later, with a suspicion or without; or it never ends. */
static void spoil(cluster *it, uint32_t worker, const sum_attempt *of, random_stream *details)
{
    replica *own = &it->nodes[worker].replica;
    own->spoilt = true;
    own->token = ++it->token;
    if (stream_chance(details, 0.3)) {
        cluster_note(it, "the engine of worker %u hangs", worker);
        if (!cluster_planted(it, PLANT_NO_LIMIT))
            cluster_disturb(it, it->now + it->settings.attempt_limit_ns);
        return;
    }
    uint32_t most = stream_chance(details, 0.7) ? it->transfer_time
                                                : LONG_SILENCES * (uint32_t)it->settings.silence_ns;
    cluster_item *end =
        end_at(it, worker, ITEM_REDUCED, it->now + stream_between(details, 0, most));
    end->failed = true;
    uint32_t suspect = stream_between(details, 0, it->workers - 1);
    end->from = in(of->group, suspect) && suspect != worker ? suspect : TARRY_NO_WORKER;
    cluster_disturb(it, end->time);
}

/* All have begun. Its end may still be a bad one, or have other bits than those of the others.
 * True: the others notice. */
static bool finish(cluster *it, uint32_t worker, sum_attempt *of)
{
    random_stream details;
    if (!draws_fault(&it->draws, FAULT_ENGINE, worker, it->engine_faults, &details)) {
        end_at(it, worker, ITEM_REDUCED, soon(it, worker))->sum.digest = digest_at(it, worker, of);
    } else if (stream_chance(&details, 0.2)) {
        cluster_note(it, "worker %u gets another sum than the others", worker);
        it->wrong_sums++;
        end_at(it, worker, ITEM_REDUCED, soon(it, worker))->sum.digest =
            everywhere_digest(&of->name) + 1 + worker;
    } else {
        spoil(it, worker, of, &details);
        return stream_chance(&details, 0.5);
    }
    return false;
}

/* Somebody in the group is gone, which the server will notice, or can't be reached by all, which
 * the engines do: where all have begun, some may still end well, unless nobody has got that far. */
static void hit(cluster *it, sum_attempt *of)
{
    bool begun = of->begun == of->group;
    of->hit = of->hit || !begun;
    random_stream *common = &it->draws.streams[DRAW_TROUBLE][__builtin_ctz(of->group)];
    bool none = !begun || stream_chance(common, 0.5);
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        random_stream *draw = &it->draws.streams[DRAW_TROUBLE][worker];
        if (in(of->begun, worker) && makes(it, worker, of) && !it->nodes[worker].replica.spoilt &&
            (none || stream_chance(draw, 0.5)))
            spoil(it, worker, of, draw);
    }
}

static void begin(cluster *it, uint32_t worker, task_kind task, const tarry_sum_id *sum)
{
    replica *own = &it->nodes[worker].replica;
    if (own->task != TASK_NONE || (task == TASK_REDUCE && it->nodes[worker].encodes))
        invariant_broken(it, "one_order_at_a_time", "worker %u: task %d in task %d", worker, task,
                         own->task);
    own->task = task;
    own->sum = *sum;
    own->spoilt = false;
    own->token = ++it->token;
}

void everywhere_reduce(cluster *it, uint32_t worker, const tarry_effect *effect)
{
    replica *own = &it->nodes[worker].replica;
    sum_attempt *of = everywhere_attempt(it, &effect->sum);
    begin(it, worker, TASK_REDUCE, &effect->sum);
    own->held = (tarry_sum_id){0};
    invariants_of_reduce(it, worker, effect, of);
    if (it->broken != NULL)
        return;
    of->begun |= bit(worker);
    cluster_note(it, "worker %u begins attempt %u of step %llu", worker, of->name.attempt,
                 (unsigned long long)of->name.step);
    of->empty |= effect->empty ? bit(worker) : 0;
    of->part[worker] = own->part;
    memcpy(own->before, it->nodes[worker].sum, sizeof(own->before));
    for (uint32_t other = 0; other < it->workers; other++)
        of->hit = of->hit || (in(of->group, other) && (it->nodes[other].machine == NULL ||
                                                       everywhere_parted(it, worker, other)));
    if (of->hit)
        hit(it, of);
    bool noticed = false;
    for (uint32_t each = 0; each < it->workers && !of->hit && of->begun == of->group; each++)
        if (in(of->group, each))
            noticed = finish(it, each, of) || noticed;
    if (noticed)
        hit(it, of);
}

void everywhere_end_task(cluster *it, uint32_t worker)
{
    replica *own = &it->nodes[worker].replica;
    sum_attempt *of = own->task == TASK_REDUCE ? everywhere_attempt(it, &own->sum) : NULL;
    own->task = TASK_NONE;
    if (of != NULL)
        hit(it, of);
}

/* How long a fetch, a load or a step takes; *failed: whether a fault ends it. */
static uint64_t transfer_end(cluster *it, uint32_t worker, bool *failed)
{
    uint64_t time = soon(it, worker);
    random_stream details;
    *failed = draws_fault(&it->draws, FAULT_TRANSFER, worker, it->transfer_faults, &details);
    if (*failed && stream_chance(&details, 0.5)) {
        uint32_t silence = (uint32_t)it->settings.silence_ns;
        time += stream_between(&details, 0, LONG_SILENCES * silence);
        cluster_disturb(it, time);
    }
    return time;
}

/* The source's state as it is now, if it is the one that is asked for, or a later one. */
static bool take_state(const cluster *it, uint32_t worker, const tarry_effect *load, history *state)
{
    const cluster_node *source = &it->nodes[load->from];
    const history *from = load->from == worker ? &it->saved : &source->replica.state;
    tarry_sum_id last = history_last(from);
    if ((last.step <= load->sum.step && !sum_id_same(&last, &load->sum)) ||
        (load->from != worker && source->machine == NULL))
        return false;
    *state = *from;
    return true;
}

void everywhere_transfer(cluster *it, uint32_t worker, const tarry_effect *effect)
{
    replica *own = &it->nodes[worker].replica;
    bool failed, load = effect->type == TARRY_EFFECT_LOAD;
    cluster_note(it, "worker %u %s from %u", worker, load ? "loads" : "fetches", effect->from);
    begin(it, worker, load ? TASK_LOAD : TASK_FETCH, &effect->sum);
    if (effect->from >= it->workers || (!load && effect->from == worker))
        invariant_broken(it, "fetches_from_others", "worker %u, from %u", worker, effect->from);
    own->digests = effect->digests;
    uint64_t time = transfer_end(it, worker, &failed);
    if (load)
        failed = !take_state(it, worker, effect, &own->incoming) || failed;
    else
        own->held = (tarry_sum_id){0};
    cluster_item *end = end_at(it, worker, load ? ITEM_LOADED : ITEM_FETCHED, time);
    end->from = effect->from;
    end->failed = failed;
}

void everywhere_step(cluster *it, uint32_t worker, const tarry_effect *effect)
{
    replica *own = &it->nodes[worker].replica;
    begin(it, worker, TASK_STEP, &effect->sum);
    it->nodes[worker].computes = false;
    invariants_of_stepping(it, worker, &effect->sum);
    if (it->broken != NULL)
        return;
    own->state.sums[own->state.count++] = own->held;
    own->digests = effect->digests;
    random_stream details;
    if (draws_fault(&it->draws, FAULT_FLIP, worker, it->flips, &details)) {
        own->state.flipped ^= 1 + stream_between(&details, 0, 2);
        cluster_note(it, "worker %u: its parameters are not right any more", worker);
        it->flipped++;
    }
    invariants_of_state(it, worker);
    own->ends = soon(it, worker);
    end_at(it, worker, ITEM_STEPPED, own->ends);
}

void everywhere_part(cluster *it, uint32_t worker, random_stream *details)
{
    uint32_t other = stream_between(details, 0, it->workers - 1);
    uint64_t until =
        it->now + stream_between(details, 0, LONG_SILENCES * (uint32_t)it->settings.silence_ns);
    if (other == worker)
        return;
    cluster_note(it, "workers %u and %u can't reach each other", worker, other);
    if (until > it->parted_until[worker][other])
        it->parted_until[worker][other] = it->parted_until[other][worker] = until;
    cluster_disturb(it, until);
    uint32_t known = it->attempt_count < MAX_ATTEMPTS ? it->attempt_count : MAX_ATTEMPTS;
    for (uint32_t i = 0; i < known; i++)
        if (in(it->attempts[i].group, worker) && in(it->attempts[i].group, other))
            hit(it, &it->attempts[i]);
}
