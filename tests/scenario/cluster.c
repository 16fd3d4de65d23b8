/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster.h"

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "estimate.h"
#include "invariants.h"

/* Far more than any round needs. */
enum { LONGEST_ROUND = 200000, MOST_STEPS = 200000, PATIENCE_IN_DISORDER = 20000 };

bool cluster_chance(cluster *it, double probability)
{
    return random_uniform(&it->random) < probability;
}

uint64_t cluster_draw_time(cluster *it, uint32_t most)
{
    return random_below(&it->random, most + 1);
}

void cluster_note(cluster *it, const char *format, ...)
{
    if (it->trace == NULL)
        return;
    fprintf(it->trace, "%8llu  ", (unsigned long long)it->now);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(it->trace, format, arguments);
    va_end(arguments);
    fputc('\n', it->trace);
}

cluster_item *cluster_add(cluster *it, uint64_t time, item_type type, uint32_t worker)
{
    assert(it->count < MAX_ITEMS);
    cluster_item *added = &it->items[it->count++];
    added->time = time;
    added->sequence = it->sequence++;
    added->type = type;
    added->worker = worker;
    return added;
}

static size_t next_item(const cluster *it)
{
    size_t next = 0;
    for (size_t i = 1; i < it->count; i++) {
        const cluster_item *a = &it->items[i], *b = &it->items[next];
        if (a->time < b->time || (a->time == b->time && a->sequence < b->sequence))
            next = i;
    }
    return next;
}

static const char *const message_names[] = {"ROUND",  "SIGNAL", "RESUME", "PROBE",
                                            "FINISH", "REPORT", "PART",   "ALIVE"};

static void note_message(cluster *it, const char *where, uint32_t worker,
                         const tarry_message *message)
{
    cluster_note(it, "%s %u: %s round %llu epoch %u attempt %u slot %u stripe %u%s", where, worker,
                 message_names[message->type], (unsigned long long)message->round, message->epoch,
                 message->attempt, message->slot, message->stripe,
                 message->failed ? " failed" : "");
}

/* Puts a message on the link of `worker`, perhaps twice. */
static void transmit(cluster *it, item_type direction, uint32_t worker,
                     const tarry_message *message, const coded *part)
{
    cluster_node *node = &it->nodes[worker];
    bool up = direction == ITEM_TO_SERVER, reorder = up ? it->reorder_up : it->reorder_down;
    uint64_t *last = up ? &node->last_up : &node->last_down;
    uint64_t arrival = it->now + cluster_draw_time(it, it->delay);
    if (!reorder && arrival < *last)
        arrival = *last;
    *last = arrival;
    for (int copies = cluster_chance(it, it->duplicates) ? 2 : 1; copies > 0; copies--) {
        cluster_item *sent = cluster_add(it, arrival, direction, worker);
        sent->connection = node->connection;
        sent->size = (uint32_t)codec_size(&node->shape, message->type);
        codec_encode(&node->shape, message, sent->frame);
        if (part != NULL)
            sent->part = *part;
        arrival += cluster_draw_time(it, cluster_chance(it, 0.3) ? 5000 : 2 * it->delay);
    }
}

static void begin_encoding(cluster *it, uint32_t worker, const tarry_effect *effect)
{
    cluster_item *encoded =
        cluster_add(it, it->now + cluster_draw_time(it, it->encode_time), ITEM_ENCODED, worker);
    encoded->token = it->nodes[worker].life;
    encoded->round = effect->round;
    encoded->attempt = effect->attempt;
    encoded->stripe = effect->stripe;
    encoded->size = (uint32_t)codec_size(&it->nodes[worker].shape, TARRY_MESSAGE_PART);
    codec_encode(&it->nodes[worker].shape, &effect->message, encoded->frame);
    memset(&encoded->part, 0, sizeof(encoded->part));
    uint32_t parts = it->model.parts;
    for (uint32_t slot = 0; slot < tarry_plan_load(it->plan, worker); slot++)
        for (uint32_t part = 0; part < parts; part++)
            encoded->part.u[tarry_plan_chunk(it->plan, worker, slot)][part] =
                (double)effect->coefficients[slot * parts + part];
    if (it->planted == PLANT_BEND_PART)
        encoded->part.u[tarry_plan_chunk(it->plan, worker, 0)][0] *= 1.5;
    if (it->planted == PLANT_ENCODE_UNFINISHED) {
        uint32_t load = tarry_plan_load(it->plan, worker);
        encoded->part.u[tarry_plan_chunk(it->plan, worker, load - 1)][0] += 1;
    }
    invariants_of_encoding(it, worker, encoded);
    if (it->encoding_crashes_left > 0 && cluster_chance(it, it->crashes_while_encoding)) {
        it->encoding_crashes_left--;
        uint64_t time = it->now + cluster_draw_time(it, it->encode_time);
        cluster_add(it, time, cluster_chance(it, 0.5) ? ITEM_CRASH : ITEM_CRASH_SILENTLY, worker);
    }
}

static void begin_computing(cluster *it, uint32_t worker, const tarry_effect *effect)
{
    cluster_node *node = &it->nodes[worker];
    double time = node->speed * it->compute_time * random_exponential(&it->random);
    cluster_item *computed = cluster_add(it, it->now + (uint64_t)time, ITEM_COMPUTED, worker);
    node->token = computed->token = ++it->token;
    computed->round = effect->round;
    computed->slot = effect->slot;
    computed->failed = cluster_chance(it, it->failures);
}

static void step_worker(cluster *it, uint32_t worker, const tarry_event *event)
{
    cluster_node *node = &it->nodes[worker];
    const tarry_effects *effects;
    int error = tarry_worker_step(node->machine, it->now, event, &effects);
    if (error != TARRY_OK) {
        invariant_broken(it, "steps_succeed", "worker %u: %s", worker, tarry_error_text(error));
        return;
    }
    bool taken = effects->count == 0 || effects->items[0].type != TARRY_EFFECT_REJECT;
    if (taken && event->type == TARRY_EVENT_MESSAGE &&
        event->message->type == TARRY_MESSAGE_ROUND) {
        node->round = event->message->round;
        node->epoch = event->message->epoch;
    }
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        if (effect->type == TARRY_EFFECT_SEND && node->connected)
            transmit(it, ITEM_TO_SERVER, worker, &effect->message, NULL);
        else if (effect->type == TARRY_EFFECT_CANCEL)
            node->token = 0;
        else if (effect->type == TARRY_EFFECT_COMPUTE)
            begin_computing(it, worker, effect);
        else if (effect->type == TARRY_EFFECT_ENCODE)
            begin_encoding(it, worker, effect);
    }
}

static void end_round(cluster *it)
{
    it->rounds_done++;
    cluster_note(it, "round over");
    if (it->rounds_done < it->rounds)
        cluster_add(it, it->now + cluster_draw_time(it, cluster_chance(it, 0.3) ? 5000 : 20),
                    ITEM_START, 0);
}

static void carry_out(cluster *it, const tarry_effects *effects)
{
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        if (effect->type == TARRY_EFFECT_SEND) {
            note_message(it, "  to worker", effect->worker, &effect->message);
            bool swallowed =
                it->planted == PLANT_SWALLOW_SIGNAL && effect->message.type == TARRY_MESSAGE_SIGNAL;
            if (it->nodes[effect->worker].connected && !swallowed)
                transmit(it, ITEM_TO_WORKER, effect->worker, &effect->message, NULL);
        } else if (effect->type == TARRY_EFFECT_DONE) {
            end_round(it);
        }
    }
}

/* Workers that the server does not count on, and that know, come back. */
static void call_back(cluster *it)
{
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        cluster_node *node = &it->nodes[worker];
        if (node->machine != NULL && node->connected && !node->returning &&
            !tarry_server_present(it->server, worker)) {
            node->returning = true;
            cluster_add(it, it->now + 1 + cluster_draw_time(it, 500), ITEM_JOIN, worker);
        }
    }
}

static void step_server(cluster *it, const tarry_event *event, const coded *part)
{
    const tarry_effects *effects;
    bool should_take = model_event(&it->model, it->now, event);
    int error = tarry_server_step(it->server, it->now, event, &effects);
    if (error != TARRY_OK) {
        invariant_broken(it, "steps_succeed", "server: %s", tarry_error_text(error));
        return;
    }
    if (should_take && part != NULL)
        it->inbox[event->worker][event->message->stripe] = *part;
    estimate_carry_out(it, effects);
    invariants_of_step(it, event, should_take, effects);
    if (it->planted == PLANT_SUM_STALE && !should_take && part != NULL &&
        event->message->attempt != it->model.attempt) {
        tarry_effect forged = {
            .type = TARRY_EFFECT_COMBINE,
            .worker = event->worker,
            .round = event->message->round,
            .attempt = event->message->attempt,
            .stripe = event->message->stripe,
        };
        invariants_of_step(it, &(tarry_event){.type = TARRY_EVENT_TIME}, true,
                           &(tarry_effects){.count = 1, .items = &forged});
    }
    if (it->broken != NULL)
        return;
    carry_out(it, effects);
    call_back(it);
}

static void deliver_to_server(cluster *it, cluster_item *sent)
{
    const cluster_node *node = &it->nodes[sent->worker];
    uint64_t words[FRAME_WORDS];
    tarry_message message;
    bool present = node->connected && sent->connection == node->connection;
    if (!present && cluster_chance(it, 0.5))
        return;
    int error = codec_decode(&node->shape, sent->frame, sent->size, words, &message);
    if (error != TARRY_OK) {
        invariant_broken(it, "frames_are_read", "%s", tarry_error_text(error));
        return;
    }
    note_message(it, "from", sent->worker, &message);
    if (it->planted == PLANT_FORGE_EPOCH)
        message.epoch = it->model.members[sent->worker].epoch;
    tarry_event event = {.type = TARRY_EVENT_MESSAGE, .worker = sent->worker, .message = &message};
    if (it->planted == PLANT_LOSE_REPORT && message.type == TARRY_MESSAGE_REPORT) {
        model_event(&it->model, it->now, &event);
        event = (tarry_event){.type = TARRY_EVENT_TIME};
    }
    if (it->planted == PLANT_REPEAT_UNNOTICED && message.type == TARRY_MESSAGE_ALIVE) {
        const tarry_effects *unseen;
        (void)tarry_server_step(it->server, it->now, &event, &unseen);
    }
    step_server(it, &event, message.type == TARRY_MESSAGE_PART ? &sent->part : NULL);
}

/* What a dead connection carried is lost, but for strays. */
static void deliver_to_worker(cluster *it, const cluster_item *sent)
{
    const cluster_node *node = &it->nodes[sent->worker];
    bool present = node->connected && sent->connection == node->connection;
    if (node->machine == NULL || (!present && !cluster_chance(it, it->strays)))
        return;
    uint64_t words[FRAME_WORDS];
    tarry_message message;
    int error = codec_decode(&node->shape, sent->frame, sent->size, words, &message);
    if (error != TARRY_OK) {
        invariant_broken(it, "frames_are_read", "%s", tarry_error_text(error));
        return;
    }
    note_message(it, "at", sent->worker, &message);
    step_worker(it, sent->worker, &(tarry_event){.type = TARRY_EVENT_MESSAGE, .message = &message});
}

static void on_computed(cluster *it, const cluster_item *done)
{
    cluster_node *node = &it->nodes[done->worker];
    if (node->machine == NULL || done->token != node->token)
        return;
    node->token = 0;
    uint32_t chunk = tarry_plan_chunk(it->plan, done->worker, done->slot);
    cluster_note(it, "worker %u: chunk %u %s", done->worker, chunk,
                 done->failed ? "failed" : "computed");
    if (!done->failed)
        node->made[node->epoch][node->round] |= UINT32_C(1) << chunk;
    step_worker(it, done->worker,
                &(tarry_event){.type = TARRY_EVENT_COMPUTED,
                               .round = done->round,
                               .slot = done->slot,
                               .failed = done->failed});
}

static void on_encoded(cluster *it, const cluster_item *done)
{
    cluster_node *node = &it->nodes[done->worker];
    if (node->machine == NULL || done->token != node->life)
        return;
    uint64_t words[FRAME_WORDS];
    tarry_message message;
    if (node->connected &&
        codec_decode(&node->shape, done->frame, done->size, words, &message) == TARRY_OK)
        transmit(it, ITEM_TO_SERVER, done->worker, &message, &done->part);
    step_worker(it, done->worker,
                &(tarry_event){.type = TARRY_EVENT_ENCODED,
                               .round = done->round,
                               .attempt = done->attempt,
                               .stripe = done->stripe});
}

static void on_combine(cluster *it, const cluster_item *done)
{
    estimate_add_part(it, done);
    if (it->planted == PLANT_SUM_TWICE)
        estimate_add_part(it, done);
    step_server(it,
                &(tarry_event){.type = TARRY_EVENT_COMBINED,
                               .worker = done->worker,
                               .round = done->round,
                               .attempt = done->attempt,
                               .stripe = done->stripe},
                NULL);
}

static void on_join(cluster *it, uint32_t worker)
{
    cluster_node *node = &it->nodes[worker];
    node->returning = false;
    if (node->machine == NULL) {
        tarry_worker_settings settings = {
            .worker = worker,
            .stripes = it->stripes,
            .conditioning_limit = it->settings.conditioning_limit,
        };
        int error = tarry_worker_create(it->plan, &settings, NULL, &node->machine, NULL);
        assert(error == TARRY_OK);
        (void)error;
        node->epoch = 0;
    }
    node->connected = true;
    node->connection++;
    cluster_note(it, "worker %u joins", worker);
    step_server(it, &(tarry_event){.type = TARRY_EVENT_JOINED, .worker = worker}, NULL);
}

static void return_later(cluster *it, uint32_t worker, uint32_t most)
{
    if (it->nodes[worker].returning)
        return;
    it->nodes[worker].returning = true;
    cluster_add(it, it->now + cluster_draw_time(it, most), ITEM_JOIN, worker);
}

static void disconnect(cluster *it, uint32_t worker, bool noticed)
{
    cluster_node *node = &it->nodes[worker];
    if (noticed && node->connected)
        cluster_add(it, it->now + cluster_draw_time(it, 2 * it->delay), ITEM_LOST, worker)
            ->connection = node->connection;
    node->connected = false;
}

static void crash(cluster *it, uint32_t worker, bool noticed)
{
    cluster_node *node = &it->nodes[worker];
    if (node->machine == NULL)
        return;
    cluster_note(it, "worker %u crashes%s", worker, noticed ? "" : " silently");
    tarry_worker_free(node->machine);
    node->machine = NULL;
    node->token = 0;
    node->life++;
    disconnect(it, worker, noticed);
    if (cluster_chance(it, 0.7))
        return_later(it, worker, cluster_chance(it, 0.5) ? 200 : 3000);
}

/* A pause never ends sooner than was said before: what waits for its end stays in order. */
static void extend(uint64_t *until, uint64_t time)
{
    *until = time > *until ? time : *until;
}

static void pause_worker(cluster *it, uint32_t worker)
{
    uint32_t silence = (uint32_t)it->settings.silence_ns;
    uint32_t most = cluster_chance(it, 0.5) ? silence / 2 : 3 * silence;
    extend(&it->nodes[worker].paused_until, it->now + cluster_draw_time(it, most));
    cluster_note(it, "worker %u pauses", worker);
}

static void pause_server(cluster *it)
{
    uint32_t most = 2 * (uint32_t)it->settings.silence_ns;
    extend(&it->server_paused_until, it->now + cluster_draw_time(it, most));
    cluster_note(it, "the server pauses");
}

static bool concerns_server(item_type type)
{
    return type == ITEM_TO_SERVER || type == ITEM_COMBINE || type == ITEM_CLEAR ||
           type == ITEM_START || type == ITEM_ABORT || type == ITEM_JOIN || type == ITEM_LOST;
}

static bool concerns_worker(item_type type)
{
    return type == ITEM_TO_WORKER || type == ITEM_COMPUTED || type == ITEM_ENCODED;
}

/* Puts the item off if who it concerns does nothing now. */
static bool put_off(cluster *it, cluster_item *due)
{
    uint64_t until = 0;
    if (concerns_server(due->type))
        until = it->server_paused_until;
    else if (concerns_worker(due->type))
        until = it->nodes[due->worker].paused_until;
    if (until <= due->time)
        return false;
    due->time = until;
    return true;
}

static void happen_to_server(cluster *it, cluster_item *due)
{
    const cluster_node *node = &it->nodes[due->worker];
    switch (due->type) {
    case ITEM_TO_SERVER:
        deliver_to_server(it, due);
        break;
    case ITEM_CLEAR:
        estimate_clear(it, due->stripe);
        break;
    case ITEM_COMBINE:
        on_combine(it, due);
        break;
    case ITEM_START:
        cluster_note(it, "round %u starts", it->rounds_done);
        it->round_start = it->now;
        if (it->reorder_down)
            cluster_add(it, it->now + PATIENCE_IN_DISORDER, ITEM_ABORT, 0)->round = it->rounds_done;
        step_server(it, &(tarry_event){.type = TARRY_EVENT_START}, NULL);
        break;
    case ITEM_ABORT:
        if (it->model.phase != MODEL_IDLE && due->round == it->rounds_done)
            step_server(it, &(tarry_event){.type = TARRY_EVENT_ABORT}, NULL);
        break;
    case ITEM_JOIN:
        on_join(it, due->worker);
        break;
    default: /* LOST; that of an earlier connection has been overtaken by its JOINED */
        if (due->connection == node->connection && !node->connected)
            step_server(it, &(tarry_event){.type = TARRY_EVENT_LOST, .worker = due->worker}, NULL);
        break;
    }
}

static void happen(cluster *it, cluster_item *due)
{
    switch (due->type) {
    case ITEM_TO_WORKER:
        deliver_to_worker(it, due);
        break;
    case ITEM_COMPUTED:
        on_computed(it, due);
        break;
    case ITEM_ENCODED:
        on_encoded(it, due);
        break;
    case ITEM_CRASH:
    case ITEM_CRASH_SILENTLY:
        crash(it, due->worker, due->type == ITEM_CRASH);
        break;
    case ITEM_DISCONNECT:
    case ITEM_RECONNECT:
        if (it->nodes[due->worker].machine == NULL)
            break;
        cluster_note(it, "worker %u loses its connection", due->worker);
        disconnect(it, due->worker, due->type == ITEM_DISCONNECT);
        return_later(it, due->worker, due->type == ITEM_DISCONNECT ? 1000 : 10);
        break;
    case ITEM_PAUSE:
        pause_worker(it, due->worker);
        break;
    case ITEM_PAUSE_SERVER:
        pause_server(it);
        break;
    default:
        happen_to_server(it, due);
        break;
    }
}

static void run_until_done(cluster *it)
{
    while (it->broken == NULL && it->rounds_done < it->rounds) {
        uint64_t look = tarry_server_deadline(it->server);
        if (look != TARRY_NEVER && look < it->server_paused_until)
            look = it->server_paused_until;
        size_t next = next_item(it);
        uint64_t time = it->count > 0 ? it->items[next].time : TARRY_NEVER;
        if ((time == TARRY_NEVER && look == TARRY_NEVER) || ++it->steps > MOST_STEPS ||
            it->now - it->round_start > LONGEST_ROUND) {
            invariant_broken(it, "every_run_ends", "round %u does not, after %llu steps",
                             it->rounds_done, (unsigned long long)it->steps);
        } else if (look < time) {
            it->now = look;
            step_server(it, &(tarry_event){.type = TARRY_EVENT_TIME}, NULL);
        } else if (!put_off(it, &it->items[next])) {
            it->now = time;
            cluster_item due = it->items[next];
            it->items[next] = it->items[--it->count];
            happen(it, &due);
        }
    }
}

cluster *cluster_create(void)
{
    cluster *made = calloc(1, sizeof(*made));
    assert(made != NULL);
    return made;
}

void cluster_free(cluster *it)
{
    tarry_plan_free(it->plan);
    free(it);
}

void cluster_run(cluster *it, uint64_t seed, uint32_t run, plant planted, FILE *trace)
{
    size_t draw = offsetof(cluster, random), items = offsetof(cluster, items);
    size_t past = items + sizeof(it->items);
    memset((char *)it + draw, 0, items - draw);
    memset((char *)it + past, 0, sizeof(*it) - past);
    it->planted = planted;
    it->trace = trace;
    cluster_set_up(it, seed, run);
    run_until_done(it);
    for (uint32_t worker = 0; worker < it->workers; worker++)
        tarry_worker_free(it->nodes[worker].machine);
    tarry_server_free(it->server);
}
