/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes choose the settings, and then events, one after the other: whatever workers, links, the
 * clock and the runtime do, the server neither crashes nor asks to be called at a time that has
 * passed, no round ends well with sums outstanding, and a sum among workers is committed once it is
 * logged and not before, one step after the other. Signals of secure sums name for each chunk one
 * that holds it, and the present arrivals of these. Messages come in as frames, in which the input
 * can change bytes; what the server sends is written to a frame and read back.
 */
#include <string.h>

#include <tarry/server.h>

#include "base/sum_id.h"
#include "fuzz_arena.h"
#include "fuzz_plans.h"
#include "protocol/wire/codec.h"

enum { MAX_STRIPES = 3, MAX_COMBINES = 256, MAX_FRAME = 768, MAX_WORDS = 96 };

typedef struct run {
    const tarry_plan *plan;
    tarry_server *server;
    uint32_t workers, stripes;
    codec_shape shape[FUZZ_MOST_WORKERS];
    uint64_t now, round;
    uint32_t epoch[FUZZ_MOST_WORKERS], term[FUZZ_MOST_WORKERS];
    uint16_t sequence[FUZZ_MOST_WORKERS];
    uint32_t attempt;
    tarry_event combines[MAX_COMBINES]; /* to be carried out */
    size_t combine_count;
    uint64_t words[MAX_WORDS]; /* the sets of the message that came in last */

    bool secure;

    /* With TARRY_SUM_EVERYWHERE. */
    bool everywhere, logging;
    tarry_sum_id name;                      /* of the last signal */
    tarry_sum_id log;                       /* the last entry, */
    tarry_sum_id log_next;                  /* and what is being written */
    tarry_message order[FUZZ_MOST_WORKERS]; /* the last about sums */
} run;

/* Secure sums, and what goes with them. */
static void secure(tarry_server_settings *settings)
{
    settings->secure = (settings->silence_ns & 8) != 0 ? 64 : 32;
    settings->keep = TARRY_KEEP_CREDITED;
    settings->credit = TARRY_CREDIT_CHUNK;
    settings->stop = TARRY_STOP_EXACT;
    settings->fill = TARRY_FILL_NONE;
    settings->compress = TARRY_COMPRESS_NONE;
    settings->sample_chunks = 0;
}

static bool begin(run *its, input *in)
{
    its->plan = take_plan(in);
    its->workers = tarry_plan_workers(its->plan);
    tarry_server_settings settings;
    tarry_server_settings_init(&settings);
    uint8_t stop = take(in);
    settings.stop = (tarry_stop)((stop & 0x7f) % 5);
    settings.sum = (tarry_sum_place)(stop >> 7);
    its->everywhere = settings.sum == TARRY_SUM_EVERYWHERE;
    settings.voters_grace_ns = its->everywhere ? take(in) * 4U : 0;
    settings.digest_steps = its->everywhere ? 1 + settings.voters_grace_ns % 3 : 0;
    settings.attempt_limit_ns = settings.voters_grace_ns * 8;
    uint8_t rules = take(in);
    settings.credit = (tarry_credit)(rules & 1);
    settings.reproducible = (rules >> 1 & 1) != 0;
    settings.keep = (tarry_keep)(rules >> 2 & 1);
    settings.learn_costs = (rules >> 3 & 1) != 0;
    settings.pick = (rules >> 4 & 3) != 0 ? TARRY_PICK_SHARE : TARRY_PICK_PLAN;
    settings.fill = (tarry_fill)((rules >> 6) % 3);
    settings.deadline_ns = take(in) * 10U;
    settings.error_limit = take(in) / 200.0;
    settings.workers_needed = take(in) % 6;
    settings.silence_ns = take(in);
    settings.conditioning_limit = (settings.silence_ns & 1) != 0 ? 1.05 : 1000;
    its->stripes = 1 + take(in) % MAX_STRIPES;
    settings.stripe_length = 4;
    settings.dimension = 4U * its->stripes * tarry_plan_parts(its->plan);
    uint8_t rest = take(in);
    settings.dimension -= rest % 4;
    if (!its->everywhere && tarry_plan_parts(its->plan) == 1 && (rest & 4) != 0)
        settings.compress = (rest & 8) != 0 ? TARRY_COMPRESS_SIGN : TARRY_COMPRESS_INT4;
    if (settings.compress == TARRY_COMPRESS_SIGN && settings.dimension >= 4 && (rest & 1) != 0) {
        static const tarry_matrix matrix = {2, 2};
        settings.compress = TARRY_COMPRESS_POWERSGD;
        settings.compress_rank = 1;
        settings.compress_matrix_count = 1;
        settings.compress_matrices = &matrix;
    }
    if ((rest & 16) != 0) {
        settings.sample_chunks = 1 + (rest >> 6);
        settings.sample_seed = rest;
    }
    if ((settings.silence_ns & 0x84) == 0x84)
        secure(&settings);
    its->secure = settings.secure != 0;
    if (tarry_server_create(its->plan, &settings, arena_begin(), &its->server, NULL) != TARRY_OK)
        return false;
    for (uint32_t worker = 0; worker < its->workers; worker++) {
        its->shape[worker] = codec_shape_of(its->plan, worker, its->stripes);
        if (its->secure)
            codec_shape_secure(&its->shape[worker], its->plan);
        require(codec_max_size(&its->shape[worker]) <= MAX_FRAME);
        require(codec_words(&its->shape[worker]) <= MAX_WORDS);
    }
    return true;
}

static bool holds(const run *its, uint32_t worker, uint32_t chunk)
{
    for (uint32_t i = 0; i < tarry_plan_replication(its->plan, chunk); i++)
        if (tarry_plan_holder(its->plan, chunk, i) == worker)
            return true;
    return false;
}

static void check_holders(const run *its, const tarry_message *signal)
{
    require((signal->holders != NULL) == its->secure && (signal->lives != NULL) == its->secure);
    bool named[FUZZ_MOST_WORKERS] = {false};
    for (uint32_t chunk = 0; its->secure && chunk < tarry_plan_chunks(its->plan); chunk++) {
        require(holds(its, signal->holders[chunk], chunk));
        named[signal->holders[chunk]] = true;
    }
    for (uint32_t worker = 0; its->secure && worker < its->workers; worker++)
        require(signal->lives[worker] == (named[worker] ? its->epoch[worker] : 0));
}

/* A worker reads what the server sends to it. */
static void take_sent(run *its, uint32_t worker, const tarry_message *message)
{
    const codec_shape *shape = &its->shape[worker];
    uint8_t frame[MAX_FRAME];
    uint64_t words[MAX_WORDS];
    tarry_message read;
    codec_encode(shape, message, frame);
    require(codec_decode(shape, frame, codec_size(shape, message), words, &read) == TARRY_OK);
    require(read.round == message->round && read.epoch == message->epoch);
    if (read.type == TARRY_MESSAGE_COMMIT)
        require(sum_id_same(&read.sum, &its->log) && !its->logging);
    if (read.type == TARRY_MESSAGE_SIGNAL)
        its->name = read.sum;
    if (read.type == TARRY_MESSAGE_SIGNAL)
        check_holders(its, &read);
    for (uint32_t slot = 0; slot < shape->slots && read.weights != NULL; slot++)
        require(read.weights[slot] == message->weights[slot]);
    for (uint32_t stripe = 0; read.stood != NULL && stripe < its->stripes; stripe++)
        require(read.stood[stripe] <= read.epoch);
    if (codec_votes(read.type))
        its->order[worker] = read;
    its->round = read.round;
    its->epoch[worker] = read.epoch;
    its->attempt = message->attempt;
    if (read.type == TARRY_MESSAGE_ROUND) {
        its->sequence[worker] = 0;
        its->term[worker] = 0;
    }
    if (read.type == TARRY_MESSAGE_SIGNAL || read.type == TARRY_MESSAGE_RESUME ||
        read.type == TARRY_MESSAGE_NEWS)
        its->term[worker] = read.term;
}

static void take_effects(run *its, const tarry_effects *effects)
{
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        if (effect->type == TARRY_EFFECT_SEND)
            take_sent(its, effect->worker, &effect->message);
        if (effect->type == TARRY_EFFECT_LOG) {
            bool returns = effect->sum.attempt == 0;
            require(its->everywhere && !its->logging);
            require(returns ? effect->sum.step < its->log.step
                            : effect->sum.step == its->log.step + 1);
            its->logging = true;
            its->log_next = effect->sum;
        }
        if (effect->type == TARRY_EFFECT_COMBINE) {
            require(its->combine_count < MAX_COMBINES);
            its->combines[its->combine_count++] = (tarry_event){
                .type = TARRY_EVENT_COMBINED,
                .worker = effect->worker,
                .round = effect->round,
                .attempt = effect->attempt,
                .stripe = effect->stripe,
            };
        }
        if (effect->type == TARRY_EFFECT_CLEAR || effect->type == TARRY_EFFECT_DONE) {
            if (effect->type == TARRY_EFFECT_DONE && effect->result->error == TARRY_OK)
                require(its->combine_count == 0);
            its->combine_count = 0;
        }
    }
}

/* What is committed, what is being made, what the worker was ordered to, or nothing. */
static tarry_sum_id draw_sum(const run *its, uint8_t which, const tarry_message *order)
{
    tarry_sum_id made = its->name;
    made.digest = 1U + (which >> 7);
    return which % 4 == 0   ? its->log
           : which % 4 == 1 ? made
           : which % 4 == 2 ? order->sum
                            : (tarry_sum_id){0};
}

static void draw_vote(const run *its, input *in, uint32_t worker, tarry_message *message)
{
    static const tarry_message none = {0};
    const tarry_message *order = worker < its->workers ? &its->order[worker] : &none;
    uint8_t kind = take(in);
    message->type = (tarry_message_type)(TARRY_MESSAGE_HELD + (kind & 0x7f) % 3);
    message->attempt = order->attempt;
    message->fetched = order->type == TARRY_MESSAGE_FETCH;
    message->from = order->type == TARRY_MESSAGE_FETCH || order->type == TARRY_MESSAGE_LOAD
                        ? order->from
                        : TARRY_NO_WORKER;
    message->sum = draw_sum(its, take(in), order);
    message->last = draw_sum(its, take(in), order);
    message->state = kind >> 5 & 3;
    if (kind < 0x80)
        return;
    message->fetched = (kind & 1) != 0;
    message->from = take(in) % FUZZ_MOST_WORKERS;
}

/* What a worker may say; each number can be a little off. */
static tarry_message draw_message(run *its, input *in, uint8_t kind, uint32_t worker)
{
    static const uint64_t no_bits[2] = {0};
    uint8_t off = kind >= 0xf0 ? take(in) : 0;
    bool known = worker < its->workers;
    tarry_message message = {
        .type = TARRY_MESSAGE_REPORT,
        .round = its->round + (off & 1) - (off >> 1 & 1),
        .epoch = (known ? its->epoch[worker] : 0) + (off >> 2 & 1),
        .attempt = its->attempt + (off >> 3 & 1) - (off >> 4 & 1),
        .term = (known ? its->term[worker] : 0) - (off >> 6 & 1),
        .sequence = (uint16_t)((known ? its->sequence[worker] : 0) + 1 - (off >> 7)),
    };
    switch (kind % 16) {
    case 8:
        message.type = (tarry_message_type)(take(in) % TARRY_MESSAGE_TYPES);
        message.psi = message.stripes = no_bits;
        message.next = take(in) % (FUZZ_MOST_CHUNKS + 2);
        break;
    case 9:
    case 10:
    case 11:
    case 12:
        if (its->everywhere && kind % 16 != 9) {
            draw_vote(its, in, worker, &message);
            break;
        }
        message.type = TARRY_MESSAGE_PART;
        message.stripe = take(in) % (MAX_STRIPES + 1);
        break;
    default: {
        uint8_t places = take(in);
        message.slot = places % (FUZZ_MOST_CHUNKS + 1);
        message.next = places / 16 % (FUZZ_MOST_CHUNKS + 2);
        message.failed = kind >= 0xe0;
        break;
    }
    }
    if (known && (message.type == TARRY_MESSAGE_REPORT || message.type == TARRY_MESSAGE_ALIVE))
        its->sequence[worker] = message.sequence;
    return message;
}

/* The message as its worker's link brings it, with bytes changed on the way; false: it is none. */
static bool transmit(run *its, input *in, uint32_t worker, tarry_message *message)
{
    if (worker >= its->workers)
        return true; /* the link of nobody: the machine is to say so */
    const codec_shape *shape = &its->shape[worker];
    uint8_t frame[MAX_FRAME];
    size_t size = codec_size(shape, message);
    codec_encode(shape, message, frame);
    uint8_t change = take(in);
    for (uint8_t i = 0; change >= 0xf0 && i <= change % 4; i++) {
        size_t place = take(in) % size;
        frame[place] ^= take(in);
    }
    return codec_decode(shape, frame, size, its->words, message) == TARRY_OK;
}

/* The next event, if there is one; most make sense. */
static bool draw(run *its, input *in, tarry_event *event, tarry_message *message)
{
    uint8_t kind = take(in);
    uint32_t worker = take(in) % (FUZZ_MOST_WORKERS + 1);
    *event = (tarry_event){.type = TARRY_EVENT_MESSAGE, .worker = worker, .message = message};
    switch (kind % 16) {
    case 0:
        event->type = TARRY_EVENT_START;
        return true;
    case 1:
    case 2:
        event->type = TARRY_EVENT_JOINED;
        return true;
    case 3:
        event->type = TARRY_EVENT_LOST;
        return true;
    case 4:
        event->type = (const tarry_event_type[]){TARRY_EVENT_ABORT, TARRY_EVENT_HEARD,
                                                 TARRY_EVENT_TIME}[take(in) % 3];
        return true;
    case 5:
    case 6:
    case 7:
        if (its->logging) {
            *event = (tarry_event){.type = TARRY_EVENT_LOGGED, .sum = its->log_next};
            if (its->log_next.attempt != 0)
                its->log = its->log_next;
            its->logging = false;
            return true;
        }
        if (its->combine_count == 0)
            return false;
        *event = its->combines[--its->combine_count];
        return true;
    default:
        *message = draw_message(its, in, kind, worker);
        return transmit(its, in, worker, message);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {.data = data, .left = size};
    run its = {0};
    if (!begin(&its, &in))
        return 0;
    while (in.left > 0) {
        uint8_t pause = take(&in);
        uint64_t deadline = tarry_server_deadline(its.server);
        if (pause >= 0xf0 && deadline != TARRY_NEVER)
            its.now = deadline > its.now ? deadline : its.now;
        else
            its.now += pause % 16;
        tarry_message message = {0};
        tarry_event event;
        if (!draw(&its, &in, &event, &message))
            continue;
        const tarry_effects *effects;
        int error = tarry_server_step(its.server, its.now, &event, &effects);
        require(error == TARRY_OK || error == TARRY_ERROR_STATE);
        if (error != TARRY_OK)
            continue;
        take_effects(&its, effects);
        require(tarry_server_deadline(its.server) > its.now);
    }
    tarry_server_free(its.server);
    arena_end();
    return 0;
}
