/* SPDX-License-Identifier: Apache-2.0 */
#include "worlds/invariants.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bitset.h"
#include "protocol/wire/codec.h"

void invariant_broken(cluster *it, const char *name, const char *format, ...)
{
    if (it->broken != NULL)
        return;
    it->broken = name;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(it->why, sizeof(it->why), format, arguments);
    va_end(arguments);
}

static uint32_t all_stripes(const cluster *it)
{
    return bit(it->model.stripes) - 1;
}

static bool sends(const tarry_effect *effect, tarry_message_type type)
{
    return effect->type == TARRY_EFFECT_SEND && effect->message.type == type;
}

static model_verdict verdict_of(const tarry_effects *effects)
{
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        if (sends(effect, TARRY_MESSAGE_SIGNAL))
            return VERDICT_SIGNAL;
        if (sends(effect, TARRY_MESSAGE_RESUME))
            return VERDICT_RESUME;
        if (effect->type == TARRY_EFFECT_DONE && effect->result->error == TARRY_ERROR_COVERAGE)
            return VERDICT_FAIL;
    }
    return VERDICT_WAIT;
}

/* Whether somebody whom the round did without for being late is sent it anew. */
static bool calls_back(const cluster *it, const tarry_effects *effects)
{
    for (size_t i = 0; i < effects->count; i++)
        if ((sends(&effects->items[i], TARRY_MESSAGE_ROUND) ||
             sends(&effects->items[i], TARRY_MESSAGE_ASK)) &&
            it->model.members[effects->items[i].worker].put_off)
            return true;
    return false;
}

/* What becomes of the attempt that is out, and who is called back, before anything is chosen;
 * false: the round is not at that. */
static bool prepare_choice(cluster *it, const tarry_effects *effects, model_verdict actual)
{
    server_model *model = &it->model;
    if (it->everywhere)
        model->broken =
            model->phase == MODEL_CODING && (actual != VERDICT_WAIT || calls_back(it, effects));
    else if (model->phase == MODEL_CODING && !model->broken && actual != VERDICT_WAIT)
        invariants_of_lateness(it, effects);
    bool chooses =
        model->phase == MODEL_COMPUTING || (model->phase == MODEL_CODING && model->broken);
    bool may_fail = model_decide(model, it->now, false) == VERDICT_FAIL ||
                    model_decide(model, it->now, true) == VERDICT_FAIL;
    if (may_fail && calls_back(it, effects) && model_call_back(model, it->now))
        it->counts.called_back++;
    return chooses;
}

static void check_verdict(cluster *it, const tarry_effects *effects, model_verdict actual)
{
    server_model *model = &it->model;
    bool chooses = prepare_choice(it, effects, actual);
    if (chooses && actual == VERDICT_WAIT && it->everywhere && invariants_allow_waiting(it)) {
        if (model->broken && model_all_able(model, MODEL_EVERYONE) == 0)
            model_resume(model); /* there is nobody to tell */
        return;
    }
    model_verdict latest = model_decide(model, it->now, false);
    model_verdict earliest = model_decide(model, it->now, true);
    if (actual == VERDICT_FAIL && model_call_back(model, it->now))
        invariant_broken(it, "fails_only_when_hopeless",
                         "those who were late were not called back");
    if (actual == latest || actual == earliest)
        return;
    if (latest == VERDICT_FAIL && actual == VERDICT_RESUME && it->everywhere &&
        invariants_allow_waiting(it))
        return;
    const char *name = actual == VERDICT_FAIL || latest == VERDICT_FAIL
                           ? "fails_only_when_hopeless"
                           : "signals_when_the_stop_rule_holds";
    invariant_broken(it, name, "verdict %d, but the model says %d", actual, latest);
}

/* What came before the call back, in the same step, went to the arrival before: a probe, or an
 * order of the vote. An ASK comes after it. */
static bool went_before(model_member *member, const tarry_message *message)
{
    bool may = message->type == TARRY_MESSAGE_PROBE ||
               (codec_votes(message->type) && message->type != TARRY_MESSAGE_ASK);
    bool went = member->called_back && may && message->epoch + 1 == member->epoch;
    member->called_back = went;
    return went;
}

static void count_sent(cluster *it, const tarry_effect *effect)
{
    tarry_round_result *result = &it->model.result;
    result->control_messages++;
    result->control_bytes += model_frame_bytes(&it->model, effect->worker, &effect->message);
    model_member *member = &it->model.members[effect->worker];
    if (went_before(member, &effect->message))
        return;
    if (!member->present || effect->message.epoch != member->epoch)
        invariant_broken(it, "sends_to_who_is_there", "worker %u, of arrival %u", effect->worker,
                         effect->message.epoch);
    if (effect->message.type == TARRY_MESSAGE_PROBE)
        member->probed = it->now;
}

/* Whether the server and the worker speak of the same round of the same arrival. */
static bool speak_of_the_same(const cluster *it, uint32_t worker)
{
    const cluster_node *node = &it->nodes[worker];
    const model_member *member = &it->model.members[worker];
    return node->machine != NULL && member->present && !member->excluded &&
           it->model.phase != MODEL_IDLE && node->present.epoch == member->epoch &&
           node->present.round == it->model.round && node->present.parameters == it->parameters &&
           node->present.plan == it->number;
}

/* Whether a copy that the worker made is neither in its sum nor waiting for its fate. */
static bool was_dropped(const cluster *it, uint32_t worker, uint32_t chunk)
{
    const cluster_node *node = &it->nodes[worker];
    return it->settings.keep == TARRY_KEEP_CREDITED && speak_of_the_same(it, worker) &&
           node->sum[chunk] == 0 && !(node->open & bit(chunk));
}

/* The chunks that news recall, a bit each. */
static uint32_t recalled_by(const cluster *it, const tarry_effect *news)
{
    uint32_t chunks = 0;
    for (uint32_t slot = 0;
         news->message.recalled != NULL && slot < tarry_plan_load(it->plan, news->worker); slot++)
        if (bitset_test(news->message.recalled, slot))
            chunks |= bit(tarry_plan_chunk(it->plan, news->worker, slot));
    return chunks;
}

static void check_fate(cluster *it, const tarry_effect *effect)
{
    const model_member *member = &it->model.members[effect->worker];
    const tarry_message *news = &effect->message;
    uint32_t recalled = recalled_by(it, effect);
    if (news->fate != member->fate ||
        (news->fate != TARRY_FATE_OPEN && news->slot != member->fate_slot))
        invariant_broken(it, "every_copy_is_answered", "worker %u: fate %d of %u, told %d of %u",
                         effect->worker, member->fate, member->fate_slot, news->fate, news->slot);
    if (recalled != member->recalled || news->term != member->term + (recalled != 0))
        invariant_broken(it, "dropped_copies_are_recalled", "worker %u: %#x, told %#x, term %u",
                         effect->worker, member->recalled, recalled, news->term);
}

/* With TARRY_KEEP_CREDITED every copy that counts as finished gets its answer at once, and dropped
 * ones are recalled when they are needed. */
static void check_news(cluster *it, const tarry_effects *effects)
{
    server_model *model = &it->model;
    uint32_t due = 0, told = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        const model_member *member = &model->members[worker];
        if (member->present && !member->excluded &&
            (member->fate != TARRY_FATE_OPEN || member->recalled != 0))
            due |= bit(worker);
    }
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        if (!sends(effect, TARRY_MESSAGE_NEWS))
            continue;
        check_fate(it, effect);
        told |= bit(effect->worker);
        model_tell(model, effect->worker);
    }
    /* With a dynamic order there are other news, too. */
    if ((due & ~told) != 0 || (it->settings.pick == TARRY_PICK_PLAN && told != due))
        invariant_broken(it, "every_copy_is_answered", "workers %#x, due are %#x", told, due);
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        if (due & bit(worker))
            continue;
        model->members[worker].recalled = 0;
        model->members[worker].fate = TARRY_FATE_OPEN;
    }
}

/* One signal's: as credited, and only of copies that exist. */
static void check_psi(cluster *it, const tarry_effect *effect)
{
    server_model *model = &it->model;
    size_t at = 0;
    for (uint32_t slot = 0; slot < tarry_plan_load(it->plan, effect->worker); slot++) {
        uint32_t chunk = tarry_plan_chunk(it->plan, effect->worker, slot);
        bool filled = (model->filled & bit(chunk)) != 0;
        bool stale = effect->message.stale != NULL && bitset_test(effect->message.stale, slot);
        if (stale != (filled && (model->psi[chunk] & bit(effect->worker))))
            invariant_broken(it, "stale_copies_are_named", "chunk %u at %u: told %d", chunk,
                             effect->worker, stale);
        for (uint32_t h = 0; h < tarry_plan_replication(it->plan, chunk); h++, at++) {
            uint32_t holder = tarry_plan_holder(it->plan, chunk, h);
            bool told = bitset_test(effect->message.psi, at);
            if (told != ((model->psi[chunk] & bit(holder)) != 0))
                invariant_broken(it, "psi_is_what_was_credited", "copy of %u at %u: told %d", chunk,
                                 holder, told);
            if (!told)
                continue;
            uint32_t made = cluster_made(it, holder, model->members[holder].epoch,
                                         model->round - filled, it->parameters, it->number);
            if (!(made & bit(chunk)) || was_dropped(it, holder, chunk))
                invariant_broken(it, "psi_speaks_of_real_copies", "copy of %u at %u", chunk,
                                 holder);
            if (it->settings.credit == TARRY_CREDIT_WHOLE && !filled &&
                made != model->holds[holder])
                invariant_broken(it, "whole_credit_takes_whole_workers", "worker %u", holder);
        }
    }
    uint32_t open = all_stripes(it) & ~model->complete;
    for (uint32_t stripe = 0; stripe < it->stripes; stripe++)
        if (bitset_test(effect->message.stripes, stripe) != ((open >> stripe & 1) != 0))
            invariant_broken(it, "complete_stripes_stand", "signal for stripe %u", stripe);
}

static void check_signal(cluster *it, const tarry_effects *effects)
{
    server_model *model = &it->model;
    uint32_t cleared = 0, told = 0, present = 0;
    uint32_t stood = model->complete;
    for (size_t i = 0; i < effects->count; i++)
        told |= sends(&effects->items[i], TARRY_MESSAGE_SIGNAL) ? bit(effects->items[i].worker) : 0;
    model_begin_attempt(model, it->now, told);
    uint32_t open = all_stripes(it) & ~stood;
    it->counts.attempts += model->attempt > 1;
    uint32_t complete = model->complete;
    model->complete = all_stripes(it) & ~open; /* as the signal sees it */
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        if (effect->type == TARRY_EFFECT_CLEAR)
            cleared |= bit(effect->stripe);
        if (!sends(effect, TARRY_MESSAGE_SIGNAL))
            continue;
        check_psi(it, effect);
        invariants_of_holders(it, effect);
        if (effect->message.attempt != model->attempt)
            invariant_broken(it, "attempts_count_up", "%u", effect->message.attempt);
    }
    model->complete = complete;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (model->members[worker].present)
            present |= bit(worker);
    if (cleared != (it->everywhere ? 0 : open))
        invariant_broken(it, "complete_stripes_stand", "cleared %#x, open %#x", cleared, open);
    if (it->everywhere)
        invariants_of_group(it, told);
    else if (told != present)
        invariant_broken(it, "everyone_hears_the_signal", "%#x of %#x", told, present);
}

/* What a worker is told to compute first is what is missing; with a dynamic order, of that what is
 * planned for it. */
static void check_first(cluster *it, const tarry_effect *effect)
{
    bool all = it->settings.pick == TARRY_PICK_PLAN;
    const server_model *model = &it->model;
    const model_member *member = &model->members[effect->worker];
    for (uint32_t slot = 0; slot < tarry_plan_load(it->plan, effect->worker); slot++) {
        uint32_t chunk = tarry_plan_chunk(it->plan, effect->worker, slot);
        uint32_t credited = model_credited(model, chunk, UINT32_MAX);
        bool open = model_in(model, chunk) && model->rank[credited] < model->parts &&
                    !((member->done | member->failed) & bit(chunk));
        bool told = effect->message.first != NULL && bitset_test(effect->message.first, slot);
        if (all ? told != open : told && !open)
            invariant_broken(it, "first_comes_what_is_missing", "worker %u, chunk %u",
                             effect->worker, chunk);
    }
}

static void check_combine(cluster *it, const tarry_effect *effect)
{
    server_model *model = &it->model;
    uint32_t stripe = effect->stripe, worker = bit(effect->worker);
    bool fresh = model->phase == MODEL_CODING && effect->round == model->round &&
                 effect->attempt == model->attempt && (model->got[stripe] & worker);
    if (!fresh)
        invariant_broken(it, "no_stale_message_summed", "part of %u, stripe %u, attempt %u",
                         effect->worker, stripe, effect->attempt);
    if (model->put[stripe] & worker)
        invariant_broken(it, "no_chunk_counted_twice", "part of %u, stripe %u, again",
                         effect->worker, stripe);
    if (it->settings.reproducible &&
        (model->got[stripe] != model->senders || model->put[stripe] >= worker))
        invariant_broken(it, "reproducible_sums_in_worker_order", "worker %u", effect->worker);
    if (fabs(effect->scale - model_scale(model)) > 1e-12)
        invariant_broken(it, "parts_are_scaled", "by %g", effect->scale);
    model->put[stripe] |= worker;
}

static void check_hopeless(cluster *it)
{
    for (uint32_t chunk = 0; chunk < it->model.chunks; chunk++) {
        bool named = tarry_server_next_hopeless(it->server, chunk) == chunk;
        if (named && !model_hopeless(&it->model, chunk, true))
            invariant_broken(it, "fails_only_when_hopeless", "chunk %u is not", chunk);
        if (!named && model_hopeless(&it->model, chunk, false))
            invariant_broken(it, "the_hopeless_are_named", "chunk %u is not", chunk);
    }
}

static void check_counters(cluster *it, const tarry_round_result *actual)
{
    const tarry_round_result *model = &it->model.result;
    struct {
        const char *name;
        uint64_t actual, model;
    } counters[] = {
        {"round", actual->round, model->round},
        {"parts", actual->parts, model->parts},
        {"attempts", actual->attempts, model->attempts},
        {"copies_computed", actual->copies_computed, model->copies_computed},
        {"copies_coded", actual->copies_coded, model->copies_coded},
        {"chunks_filled", actual->chunks_filled, model->chunks_filled},
        {"copies_needed", actual->copies_needed, model->copies_needed},
        {"chunks_sampled", actual->chunks_sampled, model->chunks_sampled},
        {"workers_heard", actual->workers_heard, model->workers_heard},
        {"workers_lost", actual->workers_lost, model->workers_lost},
        {"workers_late", actual->workers_late, model->workers_late},
        {"upload_bytes", actual->upload_bytes, model->upload_bytes},
        {"control_bytes", actual->control_bytes, model->control_bytes},
        {"control_messages", actual->control_messages, model->control_messages},
        {"start_ns", actual->start_ns, model->start_ns},
        {"signal_ns", actual->signal_ns, model->signal_ns},
        {"end_ns", actual->end_ns, it->now},
    };
    for (size_t i = 0; i < sizeof(counters) / sizeof(*counters); i++)
        if (counters[i].actual != counters[i].model)
            invariant_broken(it, "counters_agree", "%s is %llu, the model says %llu",
                             counters[i].name, (unsigned long long)counters[i].actual,
                             (unsigned long long)counters[i].model);
}

static void check_done(cluster *it, const tarry_round_result *given)
{
    server_model *model = &it->model;
    tarry_round_result result = *given;
    if (cluster_planted(it, PLANT_BEND_RESULT))
        result.expected_error /= 2;
    if (result.error == TARRY_OK) {
        if (model->complete != all_stripes(it))
            invariant_broken(it, "done_when_complete", "stripes %#x are", model->complete);
        invariants_of_estimate(it, &result);
        it->counts.exact += result.exact;
    } else {
        it->counts.failed++;
        if (result.exact || fabs(result.expected_error - model_error(model, UINT32_MAX)) > 1e-12)
            invariant_broken(it, "expected_error_is_the_error", "%g in a failed round",
                             result.expected_error);
        check_hopeless(it);
    }
    model->result.workers_lost = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        model->result.workers_lost += !model->members[worker].present;
    check_counters(it, &result);
    model->phase = MODEL_IDLE;
    model->round++;
}

/* Workers keep to the protocol: what they say may be late, but is never of what does not exist. */
static bool is_taken(cluster *it, const tarry_event *event, const tarry_effects *effects)
{
    for (size_t i = 0; i < effects->count; i++) {
        if (effects->items[i].type != TARRY_EFFECT_REJECT)
            continue;
        if (effects->items[i].reject == TARRY_REJECT_RANGE)
            invariant_broken(it, "what_is_over_is_stale", "event %d of worker %u is out of range",
                             event->type, event->worker);
        return false;
    }
    return true;
}

void invariants_of_step(cluster *it, const tarry_event *event, bool should_take,
                        const tarry_effects *effects)
{
    server_model *model = &it->model;
    bool running = model->phase != MODEL_IDLE;
    it->parted = 0;
    if (it->everywhere)
        should_take = invariants_of_vote(it, event, should_take, effects);
    if (is_taken(it, event, effects) != should_take)
        invariant_broken(it, "takes_what_counts", "event %d of worker %u: taken %d", event->type,
                         event->worker, !should_take);
    /* What is combined before the estimate is cleared still belongs to the attempt before. */
    size_t before = 0;
    for (; before < effects->count && effects->items[before].type != TARRY_EFFECT_CLEAR; before++)
        if (effects->items[before].type == TARRY_EFFECT_COMBINE)
            check_combine(it, &effects->items[before]);
    invariants_of_presence(it);
    bool ends = event->type != TARRY_EVENT_ABORT && invariants_of_end(it, effects);
    if (ends && calls_back(it, effects)) /* and they don't help: all attempts are used up */
        prepare_choice(it, effects, VERDICT_FAIL);
    if (ends)
        check_news(it, effects);
    if (event->type != TARRY_EVENT_ABORT && !ends) {
        model_verdict actual = verdict_of(effects);
        check_verdict(it, effects, actual);
        check_news(it, effects);
        if (actual == VERDICT_SIGNAL)
            check_signal(it, effects);
        else if (actual == VERDICT_RESUME)
            model_resume(model);
    }
    invariants_of_absence(it, effects);
    for (size_t i = 0; i < effects->count; i++) /* the result counts what comes after it, too */
        if (effects->items[i].type == TARRY_EFFECT_SEND)
            count_sent(it, &effects->items[i]);
    invariants_of_draw(it);
    bool done = false;
    for (size_t i = 0; i < effects->count && it->broken == NULL; i++) {
        const tarry_effect *effect = &effects->items[i];
        if (sends(effect, TARRY_MESSAGE_RESUME) ||
            (it->settings.pick == TARRY_PICK_PLAN && sends(effect, TARRY_MESSAGE_NEWS) &&
             effect->message.first != NULL))
            check_first(it, effect);
        if (sends(effect, TARRY_MESSAGE_ROUND))
            invariants_of_round(it, effect);
        if (effect->type == TARRY_EFFECT_SEND)
            invariants_of_order(it, effects, i);
        if (effect->type == TARRY_EFFECT_COMBINE && i > before)
            check_combine(it, effect);
        if (effect->type == TARRY_EFFECT_DONE) {
            check_done(it, effect->result);
            done = true;
        }
    }
    if (running && !done &&
        (event->type == TARRY_EVENT_ABORT || model->complete == all_stripes(it)))
        invariant_broken(it, "done_when_complete", "the round goes on");
    if (it->broken == NULL && tarry_server_deadline(it->server) <= it->now)
        invariant_broken(it, "time_moves_on", "the server asks to be called in the past");
}

void invariants_of_encoding(cluster *it, uint32_t worker, const cluster_item *encoded)
{
    const cluster_record *present = &it->nodes[worker].present;
    const coded *part = &encoded->part;
    uint32_t before =
        cluster_made(it, worker, present->epoch, part->before, present->parameters, present->plan);
    uint32_t made = (present->made & ~part->stale) | (before & part->stale), stale = 0;
    for (uint32_t chunk = 0; chunk < MAX_CHUNKS; chunk++)
        for (uint32_t k = 0; k < MAX_PARTS; k++) {
            if (part->u[chunk][k] == 0)
                continue;
            stale |= part->stale & bit(chunk);
            if (!(made & bit(chunk)))
                invariant_broken(it, "encodes_only_finished_copies", "worker %u, chunk %u", worker,
                                 chunk);
        }
    if (stale != 0 && part->before + 1 != present->round)
        invariant_broken(it, "fills_from_the_round_before", "worker %u encodes round %llu", worker,
                         (unsigned long long)part->before);
}

void invariants_of_coefficients(cluster *it, uint32_t worker, const float *coefficients)
{
    const cluster_node *node = &it->nodes[worker];
    if (it->settings.keep != TARRY_KEEP_CREDITED)
        return;
    const tarry_plan *plan = cluster_plan_of(it, worker);
    for (uint32_t slot = 0; slot < tarry_plan_load(plan, worker); slot++) {
        bool in_sum = node->sum[tarry_plan_chunk(plan, worker, slot)] != 0;
        if (coefficients[slot] != (float)in_sum)
            invariant_broken(it, "sends_what_is_in_the_sum", "worker %u, position %u: %g", worker,
                             slot, (double)coefficients[slot]);
    }
}

void invariants_of_fate(cluster *it, uint32_t worker, uint32_t chunk, bool fold)
{
    const cluster_node *node = &it->nodes[worker];
    if (!(node->open & bit(chunk)))
        invariant_broken(it, "each_copy_has_one_fate", "worker %u, chunk %u", worker, chunk);
    if (!fold || !speak_of_the_same(it, worker))
        return;
    if (!(it->model.members[worker].kept & bit(chunk)))
        invariant_broken(it, "folds_only_credited_copies", "worker %u, chunk %u", worker, chunk);
}

void invariants_of_memory(cluster *it, uint32_t worker)
{
    const cluster_node *node = &it->nodes[worker];
    if (it->settings.keep != TARRY_KEEP_CREDITED)
        return;
    int gradients = __builtin_popcount(node->open) + (node->token != 0);
    if (gradients > (int)it->settings.ahead + 1)
        invariant_broken(it, "runs_no_further_ahead", "worker %u: %d gradients and a sum, of %u",
                         worker, gradients, it->settings.ahead + 1);
    for (uint32_t chunk = 0; chunk < MAX_CHUNKS; chunk++)
        if (!cluster_samples(it) && node->sum[chunk] > 1)
            invariant_broken(it, "no_chunk_counted_twice", "worker %u, chunk %u in its sum", worker,
                             chunk);
}

void invariants_of_plan(cluster *it, uint32_t worker)
{
    const cluster_node *node = &it->nodes[worker];
    if (node->present.plan != node->plan)
        invariant_broken(it, "computes_by_the_plan_of_the_round",
                         "worker %u goes by plan %u in round %llu of plan %u", worker, node->plan,
                         (unsigned long long)node->present.round, node->present.plan);
}
