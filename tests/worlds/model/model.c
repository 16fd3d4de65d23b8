/* SPDX-License-Identifier: Apache-2.0 */
#include "worlds/model/model.h"

#include <math.h>
#include <string.h>

uint64_t model_part_length(const server_model *it)
{
    return (it->settings.dimension + it->parts - 1) / it->parts;
}

static uint32_t stripes_of(const server_model *it)
{
    uint64_t length = it->settings.stripe_length;
    return (uint32_t)((model_part_length(it) + length - 1) / length);
}

static uint64_t stripe_size(const server_model *it, uint32_t stripe)
{
    uint64_t length = it->settings.stripe_length;
    uint64_t left = model_part_length(it) - stripe * length;
    return left < length ? left : length;
}

static void weigh(server_model *it, uint32_t chunk)
{
    for (uint32_t i = 0; i < tarry_plan_span_count(it->plan, chunk); i++) {
        tarry_span span = tarry_plan_span(it->plan, chunk, i);
        it->data[chunk] += (double)span.count / span.of;
    }
}

bool model_init(server_model *it, const tarry_plan *plan, const tarry_server_settings *settings)
{
    *it = (server_model){
        .plan = plan,
        .settings = *settings,
        .workers = tarry_plan_workers(plan),
        .chunks = tarry_plan_chunks(plan),
        .parts = tarry_plan_parts(plan),
    };
    it->stripes = stripes_of(it);
    for (uint32_t stripe = 0; stripe < it->stripes; stripe++)
        it->stripe_size[stripe] = stripe_size(it, stripe);
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
        weigh(it, chunk);
    model_sample_init(it);
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        it->members[worker].probed = TARRY_NEVER;
        for (uint32_t slot = 0; slot < tarry_plan_load(plan, worker); slot++)
            it->held[worker] |= bit(tarry_plan_chunk(plan, worker, slot));
        it->holds[worker] = it->held[worker];
    }
    return model_find_ranks(it);
}

uint32_t model_credited(const server_model *it, uint32_t chunk, uint32_t among)
{
    uint32_t set = 0;
    if (it->settings.keep == TARRY_KEEP_CREDITED) {
        for (uint32_t worker = 0; worker < it->workers; worker++)
            if (model_able(it, worker, among) && (it->members[worker].kept & bit(chunk)))
                set |= bit(worker);
        return set;
    }
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (model_able(it, worker, among) && (it->members[worker].done & bit(chunk)) &&
            (it->settings.credit == TARRY_CREDIT_CHUNK || model_whole(it, worker)))
            set |= bit(worker);
    return set;
}

uint32_t model_possible(const server_model *it, uint32_t chunk)
{
    uint32_t set = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (model_able(it, worker, MODEL_EVERYONE) && (it->holds[worker] & bit(chunk)) &&
            !(it->members[worker].failed & bit(chunk)))
            set |= bit(worker);
    return set;
}

/* The workers, among those of `among`, that are asked for `chunk` as it was in the round before. */
static uint32_t stale_of(const server_model *it, uint32_t chunk, uint32_t among)
{
    uint32_t set = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (it->settings.fill == TARRY_FILL_STALE && model_able(it, worker, among) &&
            (it->members[worker].before & bit(chunk)))
            set |= bit(worker);
    return set;
}

double model_left(const server_model *it, uint32_t among)
{
    double missing = 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        uint32_t fresh = it->rank[model_credited(it, chunk, among)];
        uint32_t stale = it->rank[stale_of(it, chunk, among)];
        missing += it->weight[chunk] * (it->parts - (stale > fresh ? stale : fresh));
    }
    return it->all > 0 ? missing / (it->all * it->parts) : 0;
}

double model_error(const server_model *it, uint32_t among)
{
    double missing = 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
        missing += it->weight[chunk] * (it->parts - it->rank[model_credited(it, chunk, among)]);
    return it->all > 0 ? missing / (it->all * it->parts) : 0;
}

static bool is_everywhere(const server_model *it)
{
    return it->settings.sum == TARRY_SUM_EVERYWHERE;
}

void model_commit(server_model *it)
{
    it->complete = bit(it->stripes) - 1;
}

void model_enlist(server_model *it, uint32_t worker)
{
    model_member *member = &it->members[worker];
    member->excluded = member->put_off = member->participant = false;
    member->done = member->failed = member->kept = member->recalled = 0;
    member->term = member->signal_term = 0;
    memset(member->recall_term, 0, sizeof(member->recall_term));
}

void model_begin_attempt(server_model *it, uint64_t now, uint32_t told)
{
    it->phase = MODEL_CODING;
    it->broken = false;
    it->attempt++;
    it->attempt_start = now;
    it->senders = 0;
    it->result.attempts++;
    it->result.copies_coded = 0;
    it->result.chunks_filled = 0;
    it->filled = 0;
    it->attempt_missing = model_error(it, MODEL_EVERYONE);
    it->attempt_left = model_left(it, MODEL_EVERYONE);
    if (it->result.signal_ns == TARRY_NEVER)
        it->result.signal_ns = now;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        uint32_t fresh = model_credited(it, chunk, MODEL_EVERYONE);
        uint32_t stale = stale_of(it, chunk, MODEL_EVERYONE);
        bool filled = it->rank[stale] > it->rank[fresh];
        it->psi[chunk] = filled ? stale : fresh;
        it->senders |= it->psi[chunk];
        it->filled |= filled ? bit(chunk) : 0;
        it->result.chunks_filled += filled;
        it->result.copies_coded += filled ? 0 : set_size(fresh);
    }
    uint32_t stripes = (bit(it->stripes) - 1) & ~it->complete;
    it->asked = set_size(stripes);
    it->first_stripe = TARRY_NEVER;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        it->members[worker].participant = (it->senders & bit(worker)) != 0;
        bool owes = it->members[worker].participant && !is_everywhere(it);
        it->members[worker].due = owes ? stripes : 0;
        if (it->settings.keep == TARRY_KEEP_CREDITED && (told & bit(worker)))
            it->members[worker].signal_term = ++it->members[worker].term;
    }
    for (uint32_t stripe = 0; stripe < it->stripes; stripe++) {
        it->got[stripe] = it->put[stripe] = it->back[stripe] = 0;
        if (it->back[stripe] == it->senders && !(it->complete & bit(stripe)) && !is_everywhere(it))
            it->complete |= bit(stripe);
    }
}

void model_resume(server_model *it)
{
    it->phase = MODEL_COMPUTING;
    it->broken = false;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        it->members[worker].participant = false;
        it->members[worker].due = 0;
    }
}

static void leave_attempt(server_model *it, uint32_t worker)
{
    model_member *member = &it->members[worker];
    if (member->participant && member->due != 0)
        it->broken = true;
    member->participant = false;
    member->due = 0;
}

/* The worker is out, and the holders that dropped their copies of what it was credited with compute
 * them again. */
static void recall(server_model *it, uint32_t worker)
{
    uint32_t gone = it->members[worker].kept;
    it->members[worker].kept = 0;
    for (uint32_t other = 0; other < it->workers && it->phase != MODEL_IDLE; other++) {
        model_member *member = &it->members[other];
        if (!model_able(it, other, MODEL_EVERYONE))
            continue;
        uint32_t again = gone & member->done;
        member->done &= ~again;
        member->recalled |= again;
        for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
            if (again & bit(chunk))
                member->recall_term[chunk] = member->term + 1;
    }
}

void model_tell(server_model *it, uint32_t worker)
{
    model_member *member = &it->members[worker];
    member->term += member->recalled != 0;
    member->recalled = 0;
    member->fate = TARRY_FATE_OPEN;
}

static void lose(server_model *it, uint32_t worker)
{
    leave_attempt(it, worker);
    it->members[worker].present = false;
    recall(it, worker);
}

void model_lose(server_model *it, uint32_t worker, tarry_absence reason)
{
    it->left[reason] |= bit(worker);
    lose(it, worker);
}

uint32_t model_late(const server_model *it)
{
    uint32_t late = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (it->phase == MODEL_CODING && it->members[worker].due != 0)
            late |= bit(worker);
    return late;
}

bool model_foresees(const server_model *it, uint64_t now, uint32_t late, uint64_t compute)
{
    double rest = 0, slowest = 0, open = it->stripes - set_size(it->complete);
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        const model_member *member = &it->members[worker];
        uint32_t due = set_size(member->due), got = it->asked - due;
        if (!member->participant || (got == 0 && !(late & bit(worker))))
            continue;
        if (got == 0)
            return false;
        double each = (double)(member->stripe - it->first_stripe) / got;
        double since = (double)(now - member->stripe);
        double left = (due - 1) * each + fmax(since, each - since);
        if (!(late & bit(worker)))
            slowest = fmax(slowest, each);
        else
            rest = fmax(rest, left);
    }
    double again = (double)(it->first_stripe - it->attempt_start) + open * slowest;
    return late != 0 && rest >= 2 * (again + (double)compute) * (1 - 1e-9);
}

void model_exclude(server_model *it, uint32_t late, tarry_absence reason)
{
    it->left[reason] |= late;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        if (!(late & bit(worker)))
            continue;
        model_member *member = &it->members[worker];
        leave_attempt(it, worker);
        member->excluded = true;
        member->put_off = reason == TARRY_ABSENT_LATE;
        it->result.workers_late += reason == TARRY_ABSENT_LATE && !member->late;
        member->late = member->late || reason == TARRY_ABSENT_LATE;
        recall(it, worker);
    }
}

static void start(server_model *it, uint64_t now)
{
    it->phase = MODEL_COMPUTING;
    it->attempt = 0;
    it->broken = false;
    it->complete = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        model_member *member = &it->members[worker];
        member->reported = member->late = member->participant = false;
        member->excluded = is_everywhere(it); /* until it is sent the round */
        member->put_off = false;
        member->before = member->done;
        member->done = member->failed = member->due = 0;
        member->kept = member->term = member->signal_term = 0;
        memset(member->recall_term, 0, sizeof(member->recall_term));
    }
    it->result = (tarry_round_result){
        .round = it->round,
        .parts = it->parts,
        .copies_needed = (uint64_t)it->chunks * it->parts,
        .start_ns = now,
        .signal_ns = TARRY_NEVER,
    };
    model_sample_start(it);
}

static bool report(server_model *it, uint32_t worker, const tarry_message *message)
{
    model_member *member = &it->members[worker];
    if (it->phase == MODEL_IDLE || message->round != it->round ||
        message->slot >= tarry_plan_load(it->plan, worker) || message->term > member->term)
        return false;
    uint32_t chunk = tarry_plan_chunk(it->plan, worker, message->slot);
    if (!model_in(it, chunk) || ((member->done | member->failed) & bit(chunk)) ||
        message->term < member->recall_term[chunk])
        return false;
    if (message->failed) {
        member->failed |= bit(chunk);
        if (it->settings.credit == TARRY_CREDIT_WHOLE && !member->excluded)
            model_exclude(it, bit(worker), TARRY_ABSENT_FAILED);
        return true;
    }
    it->result.copies_computed++;
    it->result.workers_heard += !member->reported;
    member->reported = true;
    if (message->term < member->signal_term) {
        member->recall_term[chunk] = member->signal_term; /* the worker has dropped it */
        return true;
    }
    member->done |= bit(chunk);
    if (it->settings.keep == TARRY_KEEP_CREDITED && !member->excluded) {
        bool counts = model_credited(it, chunk, MODEL_EVERYONE) == 0;
        member->kept |= counts ? bit(chunk) : 0;
        member->fate = counts ? TARRY_FATE_CREDITED : TARRY_FATE_DROPPED;
        member->fate_slot = message->slot;
    }
    return true;
}

static bool part(server_model *it, uint64_t now, uint32_t worker, const tarry_message *message)
{
    model_member *member = &it->members[worker];
    if (it->phase != MODEL_CODING || message->round != it->round ||
        message->attempt != it->attempt || message->stripe >= it->stripes ||
        !(member->due & bit(message->stripe)))
        return false;
    member->due &= ~bit(message->stripe);
    member->stripe = now;
    it->first_stripe = it->first_stripe == TARRY_NEVER ? now : it->first_stripe;
    it->got[message->stripe] |= bit(worker);
    return true;
}

/* Of a secure sum: an integer per number, two that count, and two that check. */
static uint64_t stripe_bytes(const server_model *it, const tarry_message *part)
{
    uint64_t numbers = stripe_size(it, part->stripe);
    uint32_t bits = it->settings.secure;
    return bits == 0 ? numbers * sizeof(float) : (numbers + 4) * bits / 8;
}

static bool hear(server_model *it, uint64_t now, uint32_t worker, const tarry_message *message)
{
    model_member *member = &it->members[worker];
    if (!member->present)
        return false;
    it->result.control_messages++;
    it->result.control_bytes += model_frame_bytes(it, worker, message);
    if (message->type == TARRY_MESSAGE_PART)
        it->result.upload_bytes += stripe_bytes(it, message);
    if (message->epoch != member->epoch)
        return false;
    member->heard = now;
    member->probed = TARRY_NEVER;
    if (message->type == TARRY_MESSAGE_REPORT)
        return report(it, worker, message);
    if (message->type == TARRY_MESSAGE_PART)
        return part(it, now, worker, message);
    return message->type == TARRY_MESSAGE_ALIVE || message->type == TARRY_MESSAGE_STATE;
}

static bool combined(server_model *it, const tarry_event *event)
{
    uint32_t stripe = event->stripe;
    if (it->phase != MODEL_CODING || event->round != it->round || event->attempt != it->attempt)
        return false;
    it->back[stripe] |= bit(event->worker);
    if (it->back[stripe] == it->senders)
        it->complete |= bit(stripe);
    return true;
}

static void join(server_model *it, uint64_t now, uint32_t worker)
{
    model_member *member = &it->members[worker];
    lose(it, worker);
    *member = (model_member){
        .present = true,
        .excluded = is_everywhere(it), /* until it is sent the round */
        .reported = member->reported,
        .late = member->late,
        .epoch = member->epoch + 1,
        .heard = now,
        .probed = TARRY_NEVER,
    };
}

void model_fall_behind(server_model *it, uint32_t worker)
{
    if (!model_able(it, worker, MODEL_EVERYONE))
        return;
    leave_attempt(it, worker);
    it->members[worker].excluded = true;
    recall(it, worker);
}

bool model_call_back(server_model *it, uint64_t now)
{
    uint32_t called = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (it->members[worker].present && it->members[worker].put_off) {
            join(it, now, worker);
            it->members[worker].called_back = true;
            called++;
        }
    return called > 0;
}

void model_arrive_again(server_model *it, uint64_t now, uint32_t worker, tarry_absence reason)
{
    it->left[reason] |= bit(worker);
    join(it, now, worker);
    it->members[worker].called_back = true;
}

bool model_event(server_model *it, uint64_t now, const tarry_event *event)
{
    model_member *member = &it->members[event->worker];
    memset(it->left, 0, sizeof(it->left));
    for (uint32_t worker = 0; worker < it->workers; worker++)
        it->members[worker].called_back = false;
    switch (event->type) {
    case TARRY_EVENT_MESSAGE:
        return hear(it, now, event->worker, event->message);
    case TARRY_EVENT_START:
        start(it, now);
        return true;
    case TARRY_EVENT_JOINED:
        join(it, now, event->worker);
        return true;
    case TARRY_EVENT_LOST:
        if (!member->present)
            return false;
        model_lose(it, event->worker, TARRY_ABSENT_GONE);
        return true;
    case TARRY_EVENT_HEARD:
        if (!member->present)
            return false;
        member->heard = now;
        member->probed = TARRY_NEVER;
        return true;
    case TARRY_EVENT_COMBINED:
        return combined(it, event);
    case TARRY_EVENT_TIME:
    case TARRY_EVENT_ABORT:
    case TARRY_EVENT_COMPUTED:
    case TARRY_EVENT_ENCODED:
    case TARRY_EVENT_REDUCED:
    case TARRY_EVENT_FETCHED:
    case TARRY_EVENT_LOADED:
    case TARRY_EVENT_STEPPED:
    case TARRY_EVENT_LOGGED:
        break;
    }
    return true;
}

void model_restart(server_model *it, uint64_t round, const uint32_t *epochs)
{
    it->phase = MODEL_IDLE;
    it->round = round;
    it->attempt = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        it->members[worker] = (model_member){.epoch = epochs[worker], .probed = TARRY_NEVER};
}
