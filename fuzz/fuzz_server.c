/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes choose the settings, and then events, one after the other: whatever workers, the clock
 * and the runtime do, the server neither crashes nor asks to be called at a time that has passed,
 * and no round ends well with sums outstanding.
 */
#include <stdlib.h>

#include <tarry/server.h>

enum { MAX_WORKERS = 5, MAX_STRIPES = 3, MAX_COMBINES = 256 };

typedef struct input {
    const uint8_t *data;
    size_t left;
} input;

typedef struct run {
    tarry_plan *plan;
    tarry_server *server;
    uint32_t workers, stripes;
    uint64_t now, round;
    uint32_t epoch[MAX_WORKERS];
    uint32_t attempt, parts;
    tarry_event combines[MAX_COMBINES]; /* to be carried out */
    size_t combine_count;
} run;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static uint8_t take(input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->data++;
}

static bool begin(run *its, input *in)
{
    tarry_plan_settings plan;
    tarry_plan_settings_init(&plan);
    its->workers = plan.workers = 1 + take(in) % MAX_WORKERS;
    plan.chunks = 1 + take(in) % 6;
    plan.replication = 1 + take(in) % plan.workers;
    plan.parts = 1 + take(in) % plan.replication;
    plan.seed = take(in);
    plan.adaptive_parts = plan.seed % 2 == 1;
    if (tarry_plan_create(&plan, NULL, &its->plan, NULL) != TARRY_OK)
        return false;
    tarry_server_settings settings;
    tarry_server_settings_init(&settings);
    settings.stop = (tarry_stop)(take(in) % 5);
    settings.credit = (tarry_credit)(take(in) % 2);
    settings.reproducible = take(in) % 2 == 1;
    settings.deadline_ns = take(in) * 10U;
    settings.error_limit = take(in) / 200.0;
    settings.workers_needed = take(in) % 6;
    settings.silence_ns = take(in);
    settings.fill = (tarry_fill)(take(in) % 4);
    its->stripes = 1 + take(in) % MAX_STRIPES;
    settings.stripe_length = 4;
    settings.dimension = 4U * its->stripes * tarry_plan_least_parts(its->plan);
    settings.dimension -= take(in) % 4;
    if (tarry_server_create(its->plan, &settings, NULL, &its->server, NULL) == TARRY_OK)
        return true;
    tarry_plan_free(its->plan);
    return false;
}

static void take_effects(run *its, const tarry_effects *effects)
{
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        if (effect->type == TARRY_EFFECT_SEND) {
            its->round = effect->message.round;
            its->epoch[effect->worker] = effect->message.epoch;
            its->attempt = effect->message.attempt;
            its->parts = effect->message.parts;
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

/* Most events make sense; each number can be a little off. */
static tarry_event draw(run *its, input *in, tarry_message *message)
{
    uint8_t kind = take(in);
    uint32_t worker = take(in) % (MAX_WORKERS + 1);
    tarry_event event = {.type = TARRY_EVENT_MESSAGE, .worker = worker, .message = message};
    uint8_t off = kind >= 0xf0 ? take(in) : 0;
    *message = (tarry_message){
        .type = TARRY_MESSAGE_REPORT,
        .round = its->round + (off & 1) - (off >> 1 & 1),
        .epoch = (worker < MAX_WORKERS ? its->epoch[worker] : 0) + (off >> 2 & 1),
        .attempt = its->attempt + (off >> 3 & 1) - (off >> 4 & 1),
    };
    switch (kind % 16) {
    case 0:
        event.type = TARRY_EVENT_START;
        break;
    case 1:
    case 2:
        event.type = TARRY_EVENT_JOINED;
        break;
    case 3:
        event.type = TARRY_EVENT_LOST;
        break;
    case 4:
        event.type = take(in) % 4 == 0 ? TARRY_EVENT_ABORT : TARRY_EVENT_TIME;
        break;
    case 5:
    case 6:
    case 7:
        if (its->combine_count > 0)
            event = its->combines[--its->combine_count];
        break;
    case 8:
        message->type = (tarry_message_type)(take(in) % (TARRY_MESSAGE_ALIVE + 1));
        break;
    case 9:
    case 10:
    case 11:
    case 12:
        message->type = TARRY_MESSAGE_PART;
        message->parts = its->parts + (off >> 5 & 1);
        message->stripe = take(in) % (MAX_STRIPES + 1);
        break;
    default:
        message->slot = take(in) % 7;
        message->failed = kind >= 0xe0;
        break;
    }
    return event;
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
        tarry_message message;
        tarry_event event = draw(&its, &in, &message);
        const tarry_effects *effects;
        int error = tarry_server_step(its.server, its.now, &event, &effects);
        require(error == TARRY_OK || error == TARRY_ERROR_STATE);
        if (error != TARRY_OK)
            continue;
        take_effects(&its, effects);
        require(tarry_server_deadline(its.server) > its.now);
    }
    tarry_server_free(its.server);
    tarry_plan_free(its.plan);
    return 0;
}
