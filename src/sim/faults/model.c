/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/faults/model.h"

#include <math.h>
#include <string.h>

#define EVERYONE UINT32_MAX

static uint32_t bit(uint32_t index)
{
    return UINT32_C(1) << index;
}

static uint32_t count(uint32_t set)
{
    uint32_t members = 0;
    for (; set != 0; set &= set - 1)
        members++;
    return members;
}

/* Eigenvalues of a symmetric matrix of size n by Jacobi's rotations; they end on the diagonal. */
static void diagonalize(double a[MAX_PARTS][MAX_PARTS], uint32_t n)
{
    const double negligible = 1e-15; /* of values near 1, whose eigenvalues this moves by less */
    for (int sweep = 0; sweep < 30; sweep++) {
        for (uint32_t p = 0; p < n; p++) {
            for (uint32_t q = p + 1; q < n; q++) {
                if (fabs(a[p][q]) < negligible)
                    continue;
                double angle = 0.5 * atan2(2 * a[p][q], a[p][p] - a[q][q]);
                double c = cos(angle), s = sin(angle);
                for (uint32_t k = 0; k < n; k++) {
                    double x = a[k][p], y = a[k][q];
                    a[k][p] = c * x + s * y;
                    a[k][q] = c * y - s * x;
                }
                for (uint32_t k = 0; k < n; k++) {
                    double x = a[p][k], y = a[q][k];
                    a[p][k] = c * x + s * y;
                    a[q][k] = c * y - s * x;
                }
            }
        }
    }
}

/* Squares of the singular values of R_S: the eigenvalues of R_S R_S^T. */
static void find_squares(const server_model *it, uint32_t parts, uint32_t set,
                         double gram[MAX_PARTS][MAX_PARTS])
{
    for (uint32_t p = 0; p < parts; p++)
        for (uint32_t q = 0; q < parts; q++)
            for (uint32_t worker = 0; worker < it->workers; worker++)
                if (set & bit(worker))
                    gram[p][q] += tarry_plan_decode_weight(it->plan, parts, p, worker) *
                                  tarry_plan_decode_weight(it->plan, parts, q, worker);
    diagonalize(gram, parts);
}

/* Singular values of at least 1/limit, and those of at least that of a raised limit. */
static bool find_rank(server_model *it, uint32_t parts, uint32_t set)
{
    double squares[MAX_PARTS][MAX_PARTS] = {{0}};
    find_squares(it, parts, set, squares);
    bool beyond_doubt = true;
    double limit = 1 / it->settings.conditioning_limit, raised = 1 / TARRY_CONDITIONING_MOST;
    uint32_t found = 0, more = 0;
    for (uint32_t p = 0; p < parts; p++) {
        double sigma = squares[p][p] > 0 ? sqrt(squares[p][p]) : 0;
        found += sigma >= limit;
        more += sigma >= (raised < limit ? raised : limit);
        beyond_doubt = beyond_doubt && fabs(sigma - limit) > 1e-6;
    }
    it->rank[parts][set] = (uint8_t)found;
    it->raised_rank[parts][set] = (uint8_t)more;
    return beyond_doubt;
}

/* The largest 1/sigma that a raised limit counts, of this attempt's sets. */
static double find_conditioning(const server_model *it)
{
    double worst = 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        double squares[MAX_PARTS][MAX_PARTS] = {{0}};
        find_squares(it, it->parts, it->psi[chunk], squares);
        for (uint32_t p = 0; p < it->parts; p++) {
            double inverse = squares[p][p] > 0 ? 1 / sqrt(squares[p][p]) : INFINITY;
            if (inverse <= TARRY_CONDITIONING_MOST && inverse > worst)
                worst = inverse;
        }
    }
    return worst;
}

/* The ranks of all sets of workers that share a chunk: the non-empty subsets of its holders. */
static bool find_ranks(server_model *it)
{
    bool beyond_doubt = true;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        uint32_t holders = 0;
        for (uint32_t worker = 0; worker < it->workers; worker++)
            if (it->holds[worker] & bit(chunk))
                holders |= bit(worker);
        for (uint32_t set = holders; set != 0; set = (set - 1) & holders)
            for (uint32_t parts = it->least; parts <= it->most; parts++)
                if (it->rank[parts][set] == 0)
                    beyond_doubt = find_rank(it, parts, set) && beyond_doubt;
    }
    return beyond_doubt;
}

uint64_t model_part_length(const server_model *it, uint32_t parts)
{
    return (it->settings.dimension + parts - 1) / parts;
}

uint32_t model_stripes(const server_model *it, uint32_t parts)
{
    uint64_t length = it->settings.stripe_length;
    return (uint32_t)((model_part_length(it, parts) + length - 1) / length);
}

static uint64_t stripe_size(const server_model *it, uint32_t parts, uint32_t stripe)
{
    uint64_t length = it->settings.stripe_length;
    uint64_t left = model_part_length(it, parts) - stripe * length;
    return left < length ? left : length;
}

static void set_parts(server_model *it, uint32_t parts)
{
    it->parts = parts;
    it->stripes = model_stripes(it, parts);
    for (uint32_t stripe = 0; stripe < it->stripes; stripe++)
        it->stripe_size[stripe] = stripe_size(it, parts, stripe);
    it->result.parts = parts;
    it->result.copies_needed = (uint64_t)it->chunks * parts;
}

static void weigh(server_model *it, uint32_t chunk)
{
    for (uint32_t i = 0; i < tarry_plan_span_count(it->plan, chunk); i++) {
        tarry_span span = tarry_plan_span(it->plan, chunk, i);
        it->weight[chunk] += (double)span.count / span.of;
    }
    it->all += it->weight[chunk];
}

bool model_init(server_model *it, const tarry_plan *plan, const tarry_server_settings *settings)
{
    *it = (server_model){
        .plan = plan,
        .settings = *settings,
        .workers = tarry_plan_workers(plan),
        .chunks = tarry_plan_chunks(plan),
        .least = tarry_plan_least_parts(plan),
        .most = tarry_plan_parts(plan),
    };
    set_parts(it, it->least);
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
        weigh(it, chunk);
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        it->members[worker].probed = TARRY_NEVER;
        for (uint32_t slot = 0; slot < tarry_plan_load(plan, worker); slot++)
            it->holds[worker] |= bit(tarry_plan_chunk(plan, worker, slot));
    }
    return find_ranks(it);
}

uint64_t model_frame_bytes(const server_model *it, uint32_t worker, const tarry_message *message)
{
    uint64_t slots = count(it->holds[worker]), view = 0, sets;
    uint64_t term = message->term != 0 ? 4 : 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
        if (it->holds[worker] & bit(chunk))
            view += tarry_plan_replication(it->plan, chunk);
    switch (message->type) {
    case TARRY_MESSAGE_SIGNAL:
        return 24 + term + (message->limit != 0 ? 8 : 0) + (view + 7) / 8 +
               (model_stripes(it, it->least) + 7) / 8 +
               (message->stale != NULL ? (slots + 7) / 8 : 0);
    case TARRY_MESSAGE_ROUND:
    case TARRY_MESSAGE_RESUME:
    case TARRY_MESSAGE_NEWS:
        sets = (message->first != NULL ? 1U : 0U) + (message->barred != NULL ? 1U : 0U) +
               (message->recalled != NULL ? 1U : 0U);
        return 24 + term + sets * ((slots + 7) / 8);
    default:
        return 24 + term;
    }
}

static bool is_able(const server_model *it, uint32_t worker, uint32_t among)
{
    return it->members[worker].present && !it->members[worker].excluded && (among & bit(worker));
}

static bool is_whole(const server_model *it, uint32_t worker)
{
    return it->members[worker].done == it->holds[worker];
}

uint32_t model_credited(const server_model *it, uint32_t chunk, uint32_t among)
{
    uint32_t set = 0;
    if (it->settings.keep == TARRY_KEEP_CREDITED) {
        for (uint32_t worker = 0; worker < it->workers; worker++)
            if (is_able(it, worker, among) && (it->members[worker].kept & bit(chunk)))
                set |= bit(worker);
        return set;
    }
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (is_able(it, worker, among) && (it->members[worker].done & bit(chunk)) &&
            (it->settings.credit == TARRY_CREDIT_CHUNK || is_whole(it, worker)))
            set |= bit(worker);
    return set;
}

uint32_t model_possible(const server_model *it, uint32_t chunk)
{
    uint32_t set = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (is_able(it, worker, EVERYONE) && (it->holds[worker] & bit(chunk)) &&
            !(it->members[worker].failed & bit(chunk)))
            set |= bit(worker);
    return set;
}

/* The workers, among those of `among`, that are asked for `chunk` as it was in the round before. */
static uint32_t stale_of(const server_model *it, uint32_t chunk, uint32_t among)
{
    uint32_t set = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (it->settings.fill == TARRY_FILL_STALE && is_able(it, worker, among) &&
            (it->members[worker].before & bit(chunk)))
            set |= bit(worker);
    return set;
}

/* By this attempt's limit. */
static uint32_t rank_of(const server_model *it, uint32_t set)
{
    return it->raised ? it->raised_rank[it->parts][set] : it->rank[it->parts][set];
}

/* Whether an open chunk of the worker is of use: with a fixed order each one is, since the worker
 * computes them all. */
static bool has_more(const server_model *it, uint32_t worker, uint32_t among)
{
    uint32_t open = it->holds[worker] & ~it->members[worker].done & ~it->members[worker].failed;
    if (it->settings.pick == TARRY_PICK_PLAN)
        return open != 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
        if ((open & bit(chunk)) && it->rank[it->most][model_credited(it, chunk, among)] < it->most)
            return true;
    return false;
}

/* By the limit, or with a raised one. */
static double error_of(const server_model *it, uint32_t parts, uint32_t among, bool raised)
{
    double missing = 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        uint32_t set = model_credited(it, chunk, among);
        uint32_t rank = raised ? it->raised_rank[parts][set] : it->rank[parts][set];
        missing += it->weight[chunk] * (parts - rank);
    }
    return missing / (it->all * parts);
}

/* The same of this attempt's parts, with each chunk's copies of the round before if their rank is
 * higher. */
static double left_of(const server_model *it, uint32_t among, bool raised)
{
    double missing = 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        const uint8_t *rank = raised ? it->raised_rank[it->parts] : it->rank[it->parts];
        uint32_t fresh = rank[model_credited(it, chunk, among)];
        uint32_t stale = rank[stale_of(it, chunk, among)];
        missing += it->weight[chunk] * (it->parts - (stale > fresh ? stale : fresh));
    }
    return missing / (it->all * it->parts);
}

double model_left(const server_model *it, uint32_t among)
{
    return left_of(it, among, false);
}

double model_scale(const server_model *it)
{
    double found = 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
        found += it->weight[chunk] * rank_of(it, it->psi[chunk]);
    bool scaled = it->settings.fill == TARRY_FILL_SCALE && found > 0;
    return scaled ? it->all * it->parts / found : 1;
}

double model_error(const server_model *it, uint32_t parts, uint32_t among)
{
    return error_of(it, parts, among, false);
}

static bool is_all_in(const server_model *it, uint32_t among)
{
    bool all_in = true;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        if (is_able(it, worker, among))
            all_in = all_in && !has_more(it, worker, among);
    }
    return all_in;
}

/* The rule takes whatever there is. */
static bool is_overdue(const server_model *it, uint64_t now, uint32_t among)
{
    bool late = now - it->result.start_ns >= it->settings.deadline_ns;
    return (it->settings.stop == TARRY_STOP_DEADLINE && (late || is_all_in(it, among))) ||
           (it->settings.stop == TARRY_STOP_ERROR && is_all_in(it, among));
}

static bool meets_rule(const server_model *it, uint32_t parts, uint32_t among)
{
    uint32_t whole = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        whole += is_able(it, worker, among) && is_whole(it, worker);
    if (it->settings.reproducible && !is_all_in(it, among))
        return false;
    if (it->settings.stop == TARRY_STOP_WORKERS)
        return whole >= it->settings.workers_needed;
    double limit = it->settings.stop == TARRY_STOP_ERROR ? it->settings.error_limit : 0;
    return model_error(it, parts, among) <= limit;
}

uint32_t model_pick(const server_model *it, uint64_t now, uint32_t among)
{
    uint32_t picked = 0;
    double best = INFINITY;
    for (uint32_t parts = it->least; parts <= it->most; parts++)
        if ((it->complete == 0 || parts == it->parts) && meets_rule(it, parts, among))
            picked = parts;
    if (picked != 0 || !is_overdue(it, now, among))
        return picked;
    for (uint32_t parts = it->least; parts <= it->most; parts++) {
        double error = model_error(it, parts, among);
        if ((it->complete != 0 && parts != it->parts) || error > best)
            continue;
        picked = parts;
        best = error;
    }
    return picked;
}

bool model_may_wait(const server_model *it, uint64_t now)
{
    uint32_t parts = model_pick(it, now, EVERYONE);
    return parts != 0 && parts < it->most && it->attempt == 0 && !is_all_in(it, EVERYONE) &&
           !is_overdue(it, now, EVERYONE) && !it->settings.reproducible && it->longest > 0 &&
           now - it->ready <= it->longest * it->most;
}

void model_give_up_stripes(server_model *it, uint64_t now)
{
    uint32_t complete = it->complete;
    if (it->least == it->most || complete == 0 || model_pick(it, now, EVERYONE) != 0)
        return;
    it->complete = 0;
    if (model_pick(it, now, EVERYONE) == 0)
        it->complete = complete;
    else
        it->result.conditioning = 0;
}

bool model_hopeless(const server_model *it, uint32_t chunk, bool foresight)
{
    uint32_t possible = model_possible(it, chunk);
    if (it->raised_rank[it->least][possible] == it->least)
        return false;
    return foresight || count(possible) < it->least ||
           possible == model_credited(it, chunk, EVERYONE);
}

static bool is_doomed(const server_model *it, bool foresight)
{
    uint32_t able = 0, capable = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        if (!is_able(it, worker, EVERYONE))
            continue;
        able++;
        capable += it->members[worker].failed == 0;
    }
    bool hopeless = false;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
        hopeless = hopeless || model_hopeless(it, chunk, foresight);
    return able == 0 || (it->settings.stop == TARRY_STOP_EXACT && hopeless) ||
           (it->settings.stop == TARRY_STOP_WORKERS && capable < it->settings.workers_needed);
}

model_verdict model_decide(const server_model *it, uint64_t now, bool foresight)
{
    if (it->phase == MODEL_IDLE || (it->phase == MODEL_CODING && !it->broken))
        return VERDICT_WAIT;
    bool anyone = false;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        anyone = anyone || is_able(it, worker, EVERYONE);
    if (anyone && (model_pick(it, now, EVERYONE) != 0 || model_must_raise(it)))
        return VERDICT_SIGNAL;
    if (is_doomed(it, foresight))
        return VERDICT_FAIL;
    return it->broken ? VERDICT_RESUME : VERDICT_WAIT;
}

static void complete(server_model *it, uint32_t stripe)
{
    it->complete |= bit(stripe);
    it->result.conditioning = fmax(it->result.conditioning, it->conditioning);
}

void model_begin_attempt(server_model *it, uint64_t now, uint32_t parts)
{
    set_parts(it, parts);
    it->raised = model_raises(it, parts);
    it->from_scratch = it->complete == 0;
    it->phase = MODEL_CODING;
    it->broken = false;
    it->attempt++;
    it->attempt_start = now;
    it->senders = 0;
    it->result.attempts++;
    it->result.copies_coded = 0;
    it->result.chunks_filled = 0;
    it->filled = 0;
    it->attempt_missing = error_of(it, parts, EVERYONE, it->raised);
    it->attempt_left = left_of(it, EVERYONE, it->raised);
    if (it->result.signal_ns == TARRY_NEVER)
        it->result.signal_ns = now;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        uint32_t fresh = model_credited(it, chunk, EVERYONE);
        uint32_t stale = stale_of(it, chunk, EVERYONE);
        bool filled = rank_of(it, stale) > rank_of(it, fresh);
        it->psi[chunk] = filled ? stale : fresh;
        it->senders |= it->psi[chunk];
        it->filled |= filled ? bit(chunk) : 0;
        it->result.chunks_filled += filled;
        it->result.copies_coded += filled ? 0 : count(fresh);
    }
    it->conditioning = it->raised ? find_conditioning(it) : 0;
    uint32_t stripes = (bit(it->stripes) - 1) & ~it->complete;
    it->asked = count(stripes);
    it->first_stripe = TARRY_NEVER;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        it->members[worker].participant = (it->senders & bit(worker)) != 0;
        it->members[worker].due = it->members[worker].participant ? stripes : 0;
        if (it->settings.keep == TARRY_KEEP_CREDITED && it->members[worker].present)
            it->members[worker].signal_term = ++it->members[worker].term;
    }
    for (uint32_t stripe = 0; stripe < it->stripes; stripe++) {
        it->got[stripe] = it->put[stripe] = it->back[stripe] = 0;
        if (it->senders == 0 && !(it->complete & bit(stripe)))
            complete(it, stripe);
    }
}

void model_end_attempt(server_model *it, uint64_t now)
{
    uint64_t time = now - it->attempt_start;
    if (it->from_scratch && it->senders != 0 && time > it->longest)
        it->longest = time;
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
    if (it->phase == MODEL_CODING && member->participant && member->due != 0)
        it->broken = true;
    member->participant = false;
    member->due = 0;
}

/* The worker is out: who has dropped what it was credited with shall compute it again. */
static void recall(server_model *it, uint32_t worker)
{
    uint32_t gone = it->members[worker].kept;
    it->members[worker].kept = 0;
    for (uint32_t other = 0; other < it->workers && it->phase != MODEL_IDLE; other++) {
        model_member *member = &it->members[other];
        if (!is_able(it, other, EVERYONE))
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
    double rest = 0, slowest = 0, open = it->stripes - count(it->complete);
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        const model_member *member = &it->members[worker];
        uint32_t due = count(member->due), got = it->asked - due;
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
        member->excluded = member->reported = member->late = member->participant = false;
        member->put_off = false;
        member->before = member->done;
        member->done = member->failed = member->due = 0;
        member->kept = member->term = member->signal_term = 0;
        memset(member->recall_term, 0, sizeof(member->recall_term));
    }
    it->result = (tarry_round_result){
        .round = it->round,
        .start_ns = now,
        .signal_ns = TARRY_NEVER,
    };
    it->ready = TARRY_NEVER;
    set_parts(it, it->least);
}

static bool report(server_model *it, uint32_t worker, const tarry_message *message)
{
    model_member *member = &it->members[worker];
    if (it->phase == MODEL_IDLE || message->round != it->round ||
        message->slot >= tarry_plan_load(it->plan, worker) || message->term > member->term)
        return false;
    uint32_t chunk = tarry_plan_chunk(it->plan, worker, message->slot);
    if (((member->done | member->failed) & bit(chunk)) ||
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
        bool counts = model_credited(it, chunk, EVERYONE) == 0;
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
        message->attempt != it->attempt || message->parts != it->parts ||
        message->stripe >= it->stripes || !(member->due & bit(message->stripe)))
        return false;
    member->due &= ~bit(message->stripe);
    member->stripe = now;
    it->first_stripe = it->first_stripe == TARRY_NEVER ? now : it->first_stripe;
    it->got[message->stripe] |= bit(worker);
    return true;
}

static bool hear(server_model *it, uint64_t now, uint32_t worker, const tarry_message *message)
{
    model_member *member = &it->members[worker];
    if (!member->present)
        return false;
    it->result.control_messages++;
    it->result.control_bytes += model_frame_bytes(it, worker, message);
    if (message->type == TARRY_MESSAGE_PART)
        it->result.upload_bytes += stripe_size(it, message->parts, message->stripe) * sizeof(float);
    if (message->epoch != member->epoch)
        return false;
    member->heard = now;
    member->probed = TARRY_NEVER;
    if (message->type == TARRY_MESSAGE_REPORT)
        return report(it, worker, message);
    if (message->type == TARRY_MESSAGE_PART)
        return part(it, now, worker, message);
    return message->type == TARRY_MESSAGE_ALIVE;
}

static bool combined(server_model *it, const tarry_event *event)
{
    uint32_t stripe = event->stripe;
    if (it->phase != MODEL_CODING || event->round != it->round || event->attempt != it->attempt)
        return false;
    it->back[stripe] |= bit(event->worker);
    if (it->back[stripe] == it->senders)
        complete(it, stripe);
    return true;
}

static void join(server_model *it, uint64_t now, uint32_t worker)
{
    model_member *member = &it->members[worker];
    lose(it, worker);
    *member = (model_member){
        .present = true,
        .reported = member->reported,
        .late = member->late,
        .epoch = member->epoch + 1,
        .heard = now,
        .probed = TARRY_NEVER,
    };
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
        break;
    }
    return true;
}

void model_restart(server_model *it, uint64_t round, const uint32_t *epochs)
{
    it->phase = MODEL_IDLE;
    it->round = round;
    it->attempt = 0;
    it->longest = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        it->members[worker] = (model_member){.epoch = epochs[worker], .probed = TARRY_NEVER};
}
