/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes choose a worker's settings, and then events: whatever a server says, in frames or in
 * bytes that are none, and whenever computing and encoding end, the worker does not crash, holds no
 * more gradients than it may, computes nothing that it has, encodes nothing that it has not, has
 * one order about sums among workers in progress at most, steps only on the next step's sum, that
 * it holds, and all that it says can be read by the server. Where sums are secure it encodes what
 * the signal says that all sum, as far as it is its own, and does nothing more once it has refused.
 */
#include <math.h>
#include <string.h>

#include <tarry/worker.h>

#include "base/bitset.h"
#include "base/sum_id.h"
#include "coding/layout.h"
#include "coding/psi.h"
#include "fuzz_arena.h"
#include "fuzz_plans.h"
#include "plan/plan.h"
#include "protocol/wire/codec.h"

enum { MAX_STRIPES = 3, MAX_FRAME = 768, MAX_WORDS = 96 };

typedef struct run {
    const tarry_plan *plan;
    tarry_worker *worker;
    tarry_worker_settings settings;
    uint32_t load, stripes;
    codec_shape shape;
    uint64_t words[MAX_WORDS]; /* the sets of the message that comes in */

    /* What the worker was told last, for messages that make sense. */
    uint64_t round;
    uint32_t epoch, attempt, term;
    uint16_t sequence;

    /* What it has, by its effects: sets of one word, a bit per position. */
    uint64_t done, before; /* of this round, and of that before */
    uint64_t open;         /* finished, neither folded nor dropped */
    uint64_t out; /* with feedback: stripes that were encoded, and whose fate is not known */
    bool computing, encoding, refused;
    uint32_t slot;
    tarry_event encoded; /* what ends the encoding */

    /* With TARRY_SUM_EVERYWHERE. */
    tarry_effect_type task;  /* REDUCE, FETCH, LOAD, STEP; CANCEL: none is in progress */
    tarry_sum_id sum;        /* of it */
    tarry_sum_id held, last; /* by what the worker was told of what it began */
} run;

static void secure(tarry_worker_settings *settings, uint8_t rules)
{
    settings->server.secure = rules >> 7 != 0 ? 64 : 32;
    settings->server.keep = TARRY_KEEP_CREDITED;
    settings->server.sum = TARRY_SUM_SERVER;
    settings->server.compress = TARRY_COMPRESS_NONE;
    settings->server.fill = TARRY_FILL_NONE;
}

static bool begin(run *its, input *in)
{
    its->plan = take_plan(in);
    uint8_t rules = take(in);
    its->stripes = 1 + take(in) % MAX_STRIPES;
    its->settings = (tarry_worker_settings){
        .worker = take(in) % tarry_plan_workers(its->plan),
        .server = {.fill = (rules & 1) != 0 ? TARRY_FILL_STALE : TARRY_FILL_NONE,
                   .keep = (tarry_keep)(rules >> 1 & 1),
                   .ahead = rules >> 2 & 3,
                   .stripe_length = 4,
                   .dimension = 4U * its->stripes * tarry_plan_parts(its->plan) - take(in) % 4,
                   .conditioning_limit = 1e3,
                   .sum = (tarry_sum_place)(rules >> 4 & 1),
                   .compress = (rules >> 5 & 1) != 0 ? TARRY_COMPRESS_INT4 : TARRY_COMPRESS_NONE}};
    if (rules >> 6 != 0)
        secure(&its->settings, rules);
    its->task = TARRY_EFFECT_CANCEL;
    its->load = tarry_plan_load(its->plan, its->settings.worker);
    its->shape = codec_shape_of(its->plan, its->settings.worker, its->stripes);
    if (its->settings.server.secure != 0)
        codec_shape_secure(&its->shape, its->plan);
    require(its->load <= 64 && codec_max_size(&its->shape) <= MAX_FRAME);
    require(codec_words(&its->shape) <= MAX_WORDS);
    return tarry_worker_create(its->plan, &its->settings, arena_begin(), &its->worker, NULL) ==
           TARRY_OK;
}

/* ---- what it says and does ---- */

static bool keeps_credited(const run *its)
{
    return its->settings.server.keep == TARRY_KEEP_CREDITED;
}

/* The server reads it: its shape for what workers send has no sets. */
static void take_sent(const run *its, const tarry_message *message)
{
    const codec_shape none = {0};
    uint8_t frame[CODEC_MOST_WORKER_BYTES];
    tarry_message read;
    size_t size = codec_size(&none, message);
    require(size <= sizeof(frame));
    codec_encode(&none, message, frame);
    require(codec_decode(&none, frame, size, NULL, &read) == TARRY_OK);
    if (read.type >= TARRY_MESSAGE_ASK) {
        require(its->settings.server.sum == TARRY_SUM_EVERYWHERE &&
                read.type >= TARRY_MESSAGE_HELD);
        if (read.type != TARRY_MESSAGE_FAILED)
            require(sum_id_same(&read.sum, &its->held));
        if (read.type == TARRY_MESSAGE_STATE)
            require(sum_id_same(&read.last, &its->last));
        return;
    }
    require(read.type == TARRY_MESSAGE_REPORT || read.type == TARRY_MESSAGE_ALIVE);
    require(read.next <= its->load);
    if (read.type == TARRY_MESSAGE_REPORT)
        require(read.slot < its->load && read.epoch == its->epoch);
}

static void take_compute(run *its, const tarry_effect *effect)
{
    require(effect->slot < its->load && effect->round == its->round);
    require(effect->chunk == tarry_plan_chunk(its->plan, its->settings.worker, effect->slot));
    require(!its->computing && !bitset_test(&its->done, effect->slot));
    require(its->task != TARRY_EFFECT_STEP);
    if (keeps_credited(its))
        require(bitset_count(&its->open, its->load) <= its->settings.server.ahead);
    its->computing = true;
    its->slot = effect->slot;
}

/* Of the own chunks those that it has summed are its own to all, and no others. */
static void check_holders(const run *its, const tarry_effect *encode)
{
    const uint32_t *holders = encode->message.holders, own = its->settings.worker;
    require((holders != NULL) == (its->settings.server.secure != 0));
    for (uint32_t slot = 0; holders != NULL && slot < its->load; slot++) {
        bool summed = bitset_test(&its->done, slot) && !bitset_test(&its->open, slot);
        require((holders[tarry_plan_chunk(its->plan, own, slot)] == own) == summed);
    }
    require(holders == NULL || encode->message.lives[own] == its->epoch);
}

static void take_encode(run *its, const tarry_effect *effect)
{
    require(!its->encoding && its->task == TARRY_EFFECT_CANCEL);
    check_holders(its, effect);
    const uint32_t parts = its->plan->parts;
    layout cut =
        layout_make(its->settings.server.dimension, parts, its->settings.server.stripe_length);
    require(effect->stripe < cut.stripes);
    for (uint32_t slot = 0; slot < its->load; slot++) {
        uint64_t there = bitset_test(effect->stale, slot) ? its->before : its->done;
        for (uint32_t part = 0; part < parts; part++) {
            float weight = effect->coefficients[slot * parts + part];
            require(isfinite(weight) && (weight == 0 || bitset_test(&there, slot)));
        }
    }
    const tarry_message *message = &effect->message;
    const codec_shape none = {0};
    uint8_t frame[CODEC_MOST_WORKER_BYTES];
    require(message->type == TARRY_MESSAGE_PART && message->stripe == effect->stripe);
    require(codec_size(&none, message) == CODEC_HEADER_BYTES);
    codec_encode(&none, message, frame);
    bitset_set(&its->out, effect->stripe);
    its->encoding = true;
    its->encoded = (tarry_event){
        .type = TARRY_EVENT_ENCODED,
        .round = effect->round,
        .attempt = effect->attempt,
        .stripe = effect->stripe,
    };
}

/* What is committed is what was encoded, once. */
static void take_settled(run *its, const tarry_effect *effect)
{
    uint64_t stood = *effect->stood, voids = *effect->voids;
    require(its->settings.server.compress != TARRY_COMPRESS_NONE &&
            (stood | voids) >> its->stripes == 0);
    require((stood & voids) == 0 && (stood | voids) != 0 && (stood & ~its->out) == 0);
    its->out &= ~(stood | voids);
}

/* The fate of a copy; one that is dropped may be asked for again. */
static void take_fate(run *its, const tarry_effect *effect)
{
    require(keeps_credited(its) && effect->slot < its->load);
    require(bitset_test(&its->open, effect->slot));
    bitset_reset(&its->open, effect->slot);
    if (effect->type == TARRY_EFFECT_FOLD)
        return;
    bitset_reset(&its->done, effect->slot);
    bitset_reset(&its->before, effect->slot);
}

static void take_task(run *its, const tarry_effect *effect)
{
    require(its->task == TARRY_EFFECT_CANCEL);
    its->task = effect->type;
    its->sum = effect->sum;
    if (effect->type == TARRY_EFFECT_STEP) {
        require(effect->sum.step == its->last.step + 1);
        require(sum_id_same(&effect->sum, &its->held));
    }
    if (effect->type == TARRY_EFFECT_REDUCE)
        require(bitset_test(effect->message.group, its->settings.worker) && effect->scale > 0 &&
                !its->encoding);
    if (effect->type == TARRY_EFFECT_REDUCE || effect->type == TARRY_EFFECT_FETCH)
        its->held = (tarry_sum_id){0};
}

static void take_effects(run *its, const tarry_effects *effects)
{
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        switch (effect->type) {
        case TARRY_EFFECT_SEND:
            take_sent(its, &effect->message);
            break;
        case TARRY_EFFECT_COMPUTE:
            take_compute(its, effect);
            break;
        case TARRY_EFFECT_CANCEL:
            require(its->computing && effect->slot == its->slot);
            its->computing = false;
            break;
        case TARRY_EFFECT_ENCODE:
            take_encode(its, effect);
            break;
        case TARRY_EFFECT_SETTLE:
            take_settled(its, effect);
            break;
        case TARRY_EFFECT_FOLD:
        case TARRY_EFFECT_DROP:
            take_fate(its, effect);
            break;
        case TARRY_EFFECT_REJECT:
            require(effects->count == 1);
            break;
        case TARRY_EFFECT_REFUSE:
            require(i + 1 == effects->count && !its->computing);
            its->refused = true;
            break;
        case TARRY_EFFECT_ABANDON:
            require(its->task != TARRY_EFFECT_CANCEL && its->task != TARRY_EFFECT_STEP);
            its->task = TARRY_EFFECT_CANCEL;
            break;
        case TARRY_EFFECT_REDUCE:
        case TARRY_EFFECT_FETCH:
        case TARRY_EFFECT_LOAD:
        case TARRY_EFFECT_STEP:
            take_task(its, effect);
            break;
        default:
            abort();
        }
    }
}

/* ---- what it is told ---- */

/* psi with own copies where they are, and some of the others'. */
static void draw_psi(const run *its, input *in, uint64_t *psi)
{
    for (psi_walk at = psi_begin(its->plan, its->settings.worker); psi_here(&at); psi_next(&at)) {
        uint8_t others = take(in);
        for (uint32_t holder = 0; holder < at.holders; holder++)
            bitset_put(psi, at.bit + holder,
                       at.bit + holder == psi_own(&at)
                           ? bitset_test(&its->done, at.position) != (others >= 0xf0)
                           : (others >> holder % 8 & 1) != 0);
    }
}

typedef struct sets {
    uint64_t psi[MAX_WORDS], stripes, stale, first, barred, recalled, group;
    uint32_t stood[MAX_STRIPES];
    float weights[64];
    uint32_t holders[64], lives[FUZZ_MOST_WORKERS];
} sets;

/* The holder that the byte chooses; its own copy as it has it, but for some lies. */
static uint32_t draw_holder(const run *its, uint32_t chunk, uint8_t choice)
{
    uint32_t own = its->settings.worker, copies = tarry_plan_replication(its->plan, chunk);
    for (uint32_t slot = 0; slot < its->load; slot++) {
        if (tarry_plan_chunk(its->plan, own, slot) != chunk || choice >= 0xf8)
            continue;
        bool open = bitset_test(&its->open, slot), done = bitset_test(&its->done, slot);
        if (done && (!open || (choice & 0x80) != 0))
            return own;
        for (uint32_t i = 0; i < copies; i++)
            if (tarry_plan_holder(its->plan, chunk, (choice + i) % copies) != own)
                return tarry_plan_holder(its->plan, chunk, (choice + i) % copies);
    }
    return choice == 0xff ? FUZZ_MOST_WORKERS
                          : tarry_plan_holder(its->plan, chunk, choice % copies);
}

/* A signal of secure sums: psi, the holders and the group agree, as a rule. */
static void draw_holders(const run *its, input *in, sets *own, tarry_message *signal)
{
    uint8_t lie = take(in);
    for (uint32_t chunk = 0; chunk < tarry_plan_chunks(its->plan); chunk++) {
        uint32_t holder = own->holders[chunk] = draw_holder(its, chunk, take(in));
        if (holder < FUZZ_MOST_WORKERS)
            own->lives[holder] = holder == its->settings.worker ? its->epoch : 1U + take(in) % 3;
    }
    if (lie >= 0xf0)
        own->lives[lie % FUZZ_MOST_WORKERS] ^= 1;
    for (psi_walk at = psi_begin(its->plan, its->settings.worker); psi_here(&at); psi_next(&at))
        for (uint32_t i = 0; i < at.holders; i++)
            bitset_put(own->psi, at.bit + i,
                       its->plan->holder_worker[at.first + i] == own->holders[at.chunk]);
    if (lie == 0xe0)
        own->psi[0] ^= 1;
    signal->holders = own->holders;
    signal->lives = own->lives;
}

/* Now and then the sum that it holds, the next one, or one that is neither. */
static tarry_sum_id draw_sum(const run *its, input *in)
{
    uint8_t which = take(in);
    if (which % 4 == 0)
        return its->held;
    if (which % 4 == 1)
        return its->sum;
    return (tarry_sum_id){
        .step = its->last.step + (which >> 2 & 3),
        .term = 1,
        .attempt = which >> 4 & 3,
        .digest = which >> 6,
    };
}

/* What only comes where workers sum among themselves. */
static void draw_vote(const run *its, input *in, uint8_t kind, sets *own, tarry_message *message)
{
    own->group = take(in) | (kind & 0x10 ? 0 : UINT64_C(1) << its->settings.worker);
    if (message->type == TARRY_MESSAGE_SIGNAL) {
        message->group = &own->group;
        message->sum = (tarry_sum_id){.step = its->last.step + 1, .term = 1, .attempt = take(in)};
        message->scale = 1 + (kind & 1);
        return;
    }
    if ((kind & 0x0f) < 8)
        return;
    message->type = (tarry_message_type)(TARRY_MESSAGE_ASK + take(in) % 8);
    message->epoch += message->type == TARRY_MESSAGE_ASK;
    message->sum = draw_sum(its, in);
    message->from = take(in);
    message->attempt = take(in);
}

/* What was not sampled has the weight 0. */
static const float *draw_weights(const run *its, input *in, sets *own)
{
    uint8_t sampled = take(in), weight = take(in);
    for (uint32_t slot = 0; slot < its->load; slot++)
        own->weights[slot] = (sampled >> slot % 8 & 1) != 0 ? 1 + (float)(weight & 3) : 0;
    return own->weights;
}

static tarry_message draw_message(run *its, input *in, sets *own)
{
    static const tarry_message_type types[] = {
        TARRY_MESSAGE_ROUND, TARRY_MESSAGE_SIGNAL, TARRY_MESSAGE_SIGNAL, TARRY_MESSAGE_RESUME,
        TARRY_MESSAGE_NEWS,  TARRY_MESSAGE_NEWS,   TARRY_MESSAGE_PROBE,  TARRY_MESSAGE_FINISH,
    };
    uint8_t kind = take(in);
    uint8_t off = kind >= 0xe0 ? take(in) : 0;
    tarry_message message = {
        .type = types[kind % 8],
        .round = its->round + (off & 1) - (off >> 1 & 1),
        .epoch = its->epoch + (off >> 2 & 1) - (off >> 3 & 1),
        .attempt = its->attempt + (off >> 4 & 1),
        .term = its->term + (kind >> 3 & 1) - (off >> 5 & 1),
        .sequence = (uint16_t)(its->sequence + 1 - (off >> 6)),
    };
    uint64_t all = (UINT64_C(1) << its->load) - 1;
    *own = (sets){.first = take(in) & all, .barred = take(in) & all};
    if (message.type == TARRY_MESSAGE_ROUND)
        message.round += (off & 1) == 0;
    if (message.type == TARRY_MESSAGE_ROUND && (kind & 0x08) != 0)
        message.weights = draw_weights(its, in, own);
    if (message.type == TARRY_MESSAGE_SIGNAL) {
        message.attempt++;
        own->stripes = take(in) & ((UINT64_C(1) << its->stripes) - 1);
        own->stale = own->first & its->before;
        draw_psi(its, in, own->psi);
        if (its->settings.server.secure != 0 && kind != 0x81)
            draw_holders(its, in, own, &message);
    }
    if (message.type == TARRY_MESSAGE_NEWS) {
        message.slot = take(in) % (its->load + 1);
        message.fate = (tarry_fate)(take(in) % 3);
        own->recalled = take(in) & all;
    }
    if (its->settings.server.compress != TARRY_COMPRESS_NONE && (kind & 0x80) == 0 &&
        (message.type == TARRY_MESSAGE_ROUND || message.type == TARRY_MESSAGE_FINISH)) {
        for (uint32_t stripe = 0; stripe < its->stripes; stripe++)
            own->stood[stripe] = its->epoch - take(in) % 3;
        message.stood = own->stood;
    }
    message.psi = own->psi;
    message.stripes = &own->stripes;
    message.stale = (kind & 0x10) != 0 && message.holders == NULL ? &own->stale : NULL;
    message.first = (kind & 0x20) != 0 ? &own->first : NULL;
    message.barred = (kind & 0x40) != 0 ? &own->barred : NULL;
    message.recalled = (kind & 0x80) != 0 ? &own->recalled : NULL;
    if (its->settings.server.sum == TARRY_SUM_EVERYWHERE)
        draw_vote(its, in, kind, own, &message);
    return message;
}

/* The message as the link brings it, with bytes changed on the way; or any bytes. */
static bool receive(run *its, input *in, tarry_message *message)
{
    uint8_t frame[MAX_FRAME];
    uint8_t change = take(in);
    size_t size;
    if (change == 0xff) {
        size = take(in);
        for (size_t i = 0; i < size; i++)
            frame[i] = take(in);
    } else {
        sets own;
        tarry_message drawn = draw_message(its, in, &own);
        size = codec_size(&its->shape, &drawn);
        codec_encode(&its->shape, &drawn, frame);
        for (uint8_t i = 0; change >= 0xe0 && i <= change % 4; i++) {
            size_t place = take(in) % size;
            frame[place] ^= take(in);
        }
    }
    return codec_decode(&its->shape, frame, size, its->words, message) == TARRY_OK;
}

/* What was not rejected is what the worker goes by, before its effects. */
static void note_message(run *its, const tarry_message *message)
{
    switch (message->type) {
    case TARRY_MESSAGE_ROUND: {
        bool next = message->epoch == its->epoch && message->round == its->round + 1;
        its->before = its->settings.server.fill == TARRY_FILL_STALE && next ? its->done : 0;
        its->done = 0;
        its->epoch = message->epoch;
        its->round = message->round;
        its->attempt = 0;
        its->term = message->term;
        its->sequence = message->sequence;
        break;
    }
    case TARRY_MESSAGE_ASK:
        its->epoch = message->epoch;
        its->done = its->before = 0;
        break;
    case TARRY_MESSAGE_SIGNAL:
        its->attempt = message->attempt;
        its->term = message->term;
        if (its->settings.server.sum == TARRY_SUM_EVERYWHERE)
            its->held = (tarry_sum_id){0};
        break;
    case TARRY_MESSAGE_FETCH:
        if (!sum_id_same(&its->held, &message->sum) || message->sum.step == 0)
            its->held = (tarry_sum_id){0};
        break;
    case TARRY_MESSAGE_RESUME:
        its->attempt = message->attempt;
        its->term = message->term;
        its->sequence = message->sequence;
        break;
    case TARRY_MESSAGE_NEWS:
        its->term = message->term;
        its->sequence = message->sequence;
        break;
    default:
        break;
    }
}

static void note(run *its, const tarry_event *event)
{
    switch (event->type) {
    case TARRY_EVENT_MESSAGE:
        note_message(its, event->message);
        break;
    case TARRY_EVENT_COMPUTED:
        require(its->computing);
        its->computing = false;
        if (event->failed)
            break;
        bitset_set(&its->done, its->slot);
        if (keeps_credited(its))
            bitset_set(&its->open, its->slot);
        break;
    case TARRY_EVENT_REDUCED:
    case TARRY_EVENT_FETCHED:
        if (!event->failed)
            its->held = event->sum;
        its->task = TARRY_EFFECT_CANCEL;
        break;
    case TARRY_EVENT_LOADED:
        if (!event->failed) {
            its->last = event->sum;
            its->held = (tarry_sum_id){0};
        }
        its->task = TARRY_EFFECT_CANCEL;
        break;
    case TARRY_EVENT_STEPPED:
        its->last = event->sum;
        its->task = TARRY_EFFECT_CANCEL;
        break;
    default:
        require(its->encoding);
        its->encoding = false;
        break;
    }
}

/* What is in progress ends, well or not. */
static tarry_event draw_end(const run *its, uint8_t kind)
{
    static const tarry_event_type types[] = {
        [TARRY_EFFECT_REDUCE] = TARRY_EVENT_REDUCED,
        [TARRY_EFFECT_FETCH] = TARRY_EVENT_FETCHED,
        [TARRY_EFFECT_LOAD] = TARRY_EVENT_LOADED,
        [TARRY_EFFECT_STEP] = TARRY_EVENT_STEPPED,
    };
    tarry_event event = {
        .type = types[its->task],
        .sum = its->sum,
        .failed = its->task != TARRY_EFFECT_STEP && (kind & 0x40) != 0,
        .from = TARRY_NO_WORKER,
    };
    if (its->task == TARRY_EFFECT_LOAD && !event.failed)
        event.sum.step += kind >> 7; /* the source has stepped since */
    if (its->task == TARRY_EFFECT_REDUCE)
        event.sum.digest = 1U + (kind >> 7);
    return event;
}

static bool draw(run *its, input *in, tarry_event *event, tarry_message *message)
{
    uint8_t kind = take(in);
    if (kind % 8 == 3 && its->task != TARRY_EFFECT_CANCEL) {
        *event = draw_end(its, kind);
        return true;
    }
    if (kind % 4 == 0) {
        *event = its->encoded;
        return its->encoding;
    }
    if (kind % 4 == 1) {
        *event = (tarry_event){
            .type = TARRY_EVENT_COMPUTED,
            .round = its->round - (kind >= 0xf0),
            .slot = its->slot,
            .failed = kind >> 2 == 1,
        };
        return its->computing || kind >= 0xf0;
    }
    *event = (tarry_event){.type = TARRY_EVENT_MESSAGE, .message = message};
    return receive(its, in, message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {.data = data, .left = size};
    run its = {0};
    if (!begin(&its, &in))
        return 0;
    while (in.left > 0) {
        tarry_event event;
        tarry_message message;
        if (!draw(&its, &in, &event, &message))
            continue;
        const tarry_effects *effects;
        bool refused = its.refused;
        int error = tarry_worker_step(its.worker, 0, &event, &effects);
        require(error == TARRY_OK || error == TARRY_ERROR_NUMERICAL);
        if (error != TARRY_OK)
            break; /* whoever carries it out ends here, too */
        require(!refused || (effects->count == 1 && effects->items[0].type == TARRY_EFFECT_REJECT));
        if (effects->count == 0 || effects->items[0].type != TARRY_EFFECT_REJECT)
            note(&its, &event);
        take_effects(&its, effects);
        require(tarry_worker_deadline(its.worker) == TARRY_NEVER);
    }
    tarry_worker_free(its.worker);
    arena_end();
    return 0;
}
