/* SPDX-License-Identifier: Apache-2.0 */
#include "congress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bitset.h"
#include "base/sum_id.h"
#include "protocol/wire/codec.h"

enum { MOST_EVENTS = 200000, MOST_TRIES = 4000 };

static void carry_out_server(congress *it, const tarry_effects *effects);
static void carry_out_worker(congress *it, uint32_t worker, const tarry_effects *effects);

static void hold(congress *it, bool good, const char *rule)
{
    if (!good && it->broken == NULL)
        it->broken = rule;
}

/* ---- links ---- */

static void post(congress *it, uint32_t worker, congress_link *link, const tarry_message *message)
{
    assert_true(link->count < CONGRESS_QUEUE);
    congress_mail *mail = &link->mails[(link->first + link->count++) % CONGRESS_QUEUE];
    codec_shape shape = codec_shape_of(it->plan, worker, 1);
    assert_true(codec_words(&shape) <= CONGRESS_WORDS);
    mail->message = *message;
    codec_keep_sets(&shape, &mail->message, mail->words);
}

static congress_mail *take(congress_link *link)
{
    congress_mail *mail = &link->mails[link->first];
    link->first = (link->first + 1) % CONGRESS_QUEUE;
    link->count--;
    return mail;
}

static void step_server(congress *it, const tarry_event *event)
{
    const tarry_effects *effects;
    assert_int_equal(tarry_server_step(it->server, it->now, event, &effects), TARRY_OK);
    carry_out_server(it, effects);
}

static void step_worker(congress *it, uint32_t worker, const tarry_event *event)
{
    const tarry_effects *effects;
    assert_int_equal(tarry_worker_step(it->workers[worker].machine, it->now, event, &effects),
                     TARRY_OK);
    carry_out_worker(it, worker, effects);
}

/* ---- the server ---- */

static void write_log(congress *it, const tarry_sum_id *sum)
{
    if (sum->attempt == 0) {
        hold(it, sum->step < it->logged && sum->term > it->term, "a return has a new term");
        it->logged = sum->step;
        it->term = sum->term;
        it->returns++;
        return;
    }
    hold(it, sum->step == it->logged + 1 && sum->term == it->term,
         "the log goes on a step at a time");
    for (uint64_t i = 1; i <= it->logged; i++)
        hold(it, !sum_id_named(&it->log[i], sum), "a name is used once");
    it->log[++it->logged] = *sum;
}

static void end_round(congress *it, const tarry_round_result *result)
{
    it->running = false;
    it->rounds++;
    if (result->error == TARRY_OK) {
        hold(it, sum_id_same(&result->sum, &it->log[it->logged]),
             "a round's sum is the log's last one");
        it->commits++;
    } else if (result->error == TARRY_ERROR_COVERAGE) {
        it->uncovered++;
    } else {
        it->ended = result->error;
    }
}

/* An attempt begins with what is whole, and fails only by what befalls it. */
static void see_signal(congress *it, const tarry_sum_id *name, bool arrives)
{
    if (!sum_id_named(name, &it->signalled))
        it->hit = false;
    it->signalled = *name;
    it->hit = it->hit || !arrives;
}

static void carry_out_server(congress *it, const tarry_effects *effects)
{
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        congress_worker *to = &it->workers[effect->worker];
        switch (effect->type) {
        case TARRY_EFFECT_SEND:
            if (to->connected && to->machine != NULL)
                post(it, effect->worker, &to->down, &effect->message);
            if (effect->message.type == TARRY_MESSAGE_SIGNAL)
                see_signal(it, &effect->message.sum, to->connected && to->machine != NULL);
            break;
        case TARRY_EFFECT_LOG:
            assert_false(it->log_due);
            it->log_due = true;
            it->log_sum = effect->sum;
            break;
        case TARRY_EFFECT_DONE:
            end_round(it, effect->result);
            break;
        case TARRY_EFFECT_REJECT:
        case TARRY_EFFECT_LEFT_OUT:
            break;
        default:
            fail_msg("effect %d of a server without a sum", effect->type);
        }
    }
}

static void create_server_machine(congress *it)
{
    assert_int_equal(tarry_server_create(it->plan, &it->server_settings, NULL, &it->server, NULL),
                     TARRY_OK);
}

/* A new life: of the one before there is the log. Arrivals count on, as from a checkpoint. */
static void restart_server(congress *it)
{
    size_t size = tarry_server_checkpoint_size(it->server);
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    assert_int_equal(tarry_server_checkpoint(it->server, bytes), TARRY_OK);
    tarry_server_free(it->server);
    create_server_machine(it);
    assert_int_equal(tarry_server_restore(it->server, bytes, size, NULL), TARRY_OK);
    assert_int_equal(tarry_server_checkpoint(it->server, bytes), TARRY_OK);
    tarry_server_stored(it->server, bytes);
    free(bytes);
    tarry_sum_id last[2] = {{0}};
    for (uint64_t i = 0; i < 2 && i < it->logged; i++)
        last[i] = it->log[it->logged - i];
    assert_int_equal(tarry_server_log(it->server, last, ++it->term), TARRY_OK);
    if (it->vectors.step > 0)
        assert_int_equal(tarry_server_vectors(it->server, &it->vectors), TARRY_OK);
    it->log_due = it->running = false;
    it->hit = true;
    for (uint32_t worker = 0; worker < it->settings.workers; worker++) {
        congress_worker *of = &it->workers[worker];
        of->known = of->connected = false;
        of->up.count = of->down.count = 0;
    }
}

/* ---- workers ---- */

static void create_worker_machine(congress *it, uint32_t worker)
{
    congress_worker *of = &it->workers[worker];
    const tarry_worker_settings settings = {
        .worker = worker,
        .dimension = it->server_settings.dimension,
        .stripe_length = it->server_settings.stripe_length,
        .conditioning_limit = it->server_settings.conditioning_limit,
        .keep = it->settings.keep,
        .ahead = TARRY_USUAL_AHEAD,
        .sum = TARRY_SUM_EVERYWHERE,
    };
    of->stepped = 0;
    of->buffer = (tarry_sum_id){0};
    of->task = TARRY_EFFECT_CANCEL;
    of->computes = of->encodes = false;
    assert_int_equal(tarry_worker_create(it->plan, &settings, NULL, &of->machine, NULL), TARRY_OK);
}

static void take_step(congress *it, congress_worker *of, const tarry_sum_id *sum)
{
    assert_int_equal(sum->step, of->stepped + 1);
    assert_true(sum_id_same(sum, &of->buffer));
    if (it->returns > 0)
        return;
    hold(it, sum->step <= it->logged, "nobody steps on a sum before the log has it");
    hold(it, sum_id_same(sum, &it->log[sum->step]), "nobody steps on another sum than the log's");
    for (uint64_t i = 1; i <= of->stepped; i++)
        hold(it, sum_id_same(&of->history[i], &it->log[i]), "all have the same sums");
}

static uint64_t digest_of(const tarry_sum_id *sum)
{
    return sum->step * 1000003 + sum->attempt * 101 + sum->term;
}

static void carry_out_worker(congress *it, uint32_t worker, const tarry_effects *effects)
{
    congress_worker *of = &it->workers[worker];
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        bool begins = false;
        switch (effect->type) {
        case TARRY_EFFECT_SEND:
            if (of->connected)
                post(it, worker, &of->up, &effect->message);
            break;
        case TARRY_EFFECT_COMPUTE:
            assert_true(of->task != TARRY_EFFECT_STEP);
            of->computes = true;
            of->compute_slot = effect->slot;
            of->compute_round = effect->round;
            break;
        case TARRY_EFFECT_CANCEL:
            of->computes = false;
            break;
        case TARRY_EFFECT_ENCODE:
            assert_true(of->task == TARRY_EFFECT_CANCEL); /* an engine reads the part */
            assert_false(of->encodes);
            of->encodes = true;
            of->encode_stripe = effect->stripe;
            of->encode_attempt = effect->attempt;
            break;
        case TARRY_EFFECT_STOP:
            assert_true(of->task == TARRY_EFFECT_REDUCE && sum_id_named(&effect->sum, &of->sum));
            of->stops = true;
            break;
        case TARRY_EFFECT_ABANDON:
            assert_true(of->task != TARRY_EFFECT_CANCEL && of->task != TARRY_EFFECT_STEP);
            of->task = TARRY_EFFECT_CANCEL;
            break;
        case TARRY_EFFECT_REDUCE:
            of->group = effect->message.group[0];
            of->empty = effect->empty;
            assert_true(of->group >> worker & 1);
            assert_false(of->encodes);
            if (!sum_id_named(&it->begun_name[effect->sum.attempt % CONGRESS_STEPS],
                              &effect->sum)) {
                it->begun_name[effect->sum.attempt % CONGRESS_STEPS] = effect->sum;
                it->begun[effect->sum.attempt % CONGRESS_STEPS] = 0;
            }
            it->begun[effect->sum.attempt % CONGRESS_STEPS] |= UINT64_C(1) << worker;
            of->buffer = (tarry_sum_id){0};
            begins = true;
            break;
        case TARRY_EFFECT_FETCH:
            of->buffer = (tarry_sum_id){0};
            it->fetches++;
            begins = true;
            break;
        case TARRY_EFFECT_LOAD:
            it->loads++;
            begins = true;
            break;
        case TARRY_EFFECT_STEP:
            take_step(it, of, &effect->sum);
            it->steps++;
            begins = true;
            break;
        default: /* the fates of copies, what is rejected */
            break;
        }
        if (!begins)
            continue;
        assert_true(of->task == TARRY_EFFECT_CANCEL);
        of->task = effect->type;
        of->stops = false;
        of->sum = effect->sum;
        of->from = effect->from;
    }
}

static bool spend(uint32_t *left, random_stream *stream)
{
    if (*left == 0 || random_below(stream, 4) != 0)
        return false;
    --*left;
    return true;
}

/* Whether the engine can end, and how. */
static bool end_engine(congress *it, uint32_t worker, tarry_event *event)
{
    congress_worker *of = &it->workers[worker];
    bool all = (it->begun[of->sum.attempt % CONGRESS_STEPS] & of->group) == of->group &&
               sum_id_named(&it->begun_name[of->sum.attempt % CONGRESS_STEPS], &of->sum);
    bool trouble = it->hit || of->stops || spend(&it->failing_left, &it->stream);
    if (!all && !trouble)
        return false;
    event->failed = !all || (trouble && random_below(&it->stream, 2) == 0);
    it->hit = it->hit || event->failed;
    event->sum.digest = 0;
    if (event->failed) {
        event->from = random_below(&it->stream, it->settings.workers);
        it->voids++;
        return true;
    }
    event->sum.digest = digest_of(&of->sum);
    if (spend(&it->wrong_left, &it->stream))
        event->sum.digest += 1 + random_below(&it->stream, 2);
    of->buffer = event->sum;
    return true;
}

static void end_transfer(congress *it, uint32_t worker, tarry_event *event)
{
    congress_worker *of = &it->workers[worker];
    bool fails = spend(&it->failing_left, &it->stream);
    if (of->task == TARRY_EFFECT_LOAD && of->from == worker) {
        assert_true(sum_id_same(&of->sum, &it->vectors));
        of->stepped = it->vectors.step;
        memcpy(of->history, it->vectors_history, sizeof(of->history));
        of->buffer = (tarry_sum_id){0};
        return;
    }
    assert_true(of->from != worker && of->from < it->settings.workers);
    const congress_worker *source = &it->workers[of->from];
    fails = fails || source->machine == NULL;
    if (of->task == TARRY_EFFECT_FETCH) {
        event->failed = fails || !sum_id_same(&source->buffer, &of->sum);
        if (!event->failed)
            of->buffer = of->sum;
        return;
    }
    const tarry_sum_id none = {0};
    const tarry_sum_id *last = source->stepped == 0 ? &none : &source->history[source->stepped];
    event->failed = fails || (last->step <= of->sum.step && !sum_id_same(last, &of->sum));
    if (event->failed)
        return;
    event->sum = *last;
    of->stepped = source->stepped;
    memcpy(of->history, source->history, sizeof(of->history));
    of->buffer = (tarry_sum_id){0};
}

static bool end_task(congress *it, uint32_t worker)
{
    congress_worker *of = &it->workers[worker];
    tarry_event event = {.sum = of->sum};
    switch (of->task) {
    case TARRY_EFFECT_REDUCE:
        event.type = TARRY_EVENT_REDUCED;
        if (!end_engine(it, worker, &event))
            return false;
        break;
    case TARRY_EFFECT_FETCH:
        event.type = TARRY_EVENT_FETCHED;
        end_transfer(it, worker, &event);
        break;
    case TARRY_EFFECT_LOAD:
        event.type = TARRY_EVENT_LOADED;
        end_transfer(it, worker, &event);
        break;
    default:
        event.type = TARRY_EVENT_STEPPED;
        of->history[++of->stepped] = of->sum;
    }
    of->task = TARRY_EFFECT_CANCEL;
    step_worker(it, worker, &event);
    return true;
}

/* ---- faults ---- */

static void cut_link(congress *it, uint32_t worker)
{
    congress_worker *of = &it->workers[worker];
    of->connected = false;
    of->up.count = of->down.count = 0;
    it->hit = true;
}

static void crash(congress *it, uint32_t worker)
{
    congress_worker *of = &it->workers[worker];
    cut_link(it, worker);
    tarry_worker_free(of->machine);
    of->machine = NULL;
    of->buffer = (tarry_sum_id){0};
    of->task = TARRY_EFFECT_CANCEL;
    of->computes = of->encodes = false;
}

static bool happens_fault(congress *it)
{
    if (it->faults_left == 0 || random_below(&it->stream, 40) != 0)
        return false;
    uint32_t worker = random_below(&it->stream, it->settings.workers);
    congress_worker *of = &it->workers[worker];
    it->faults_left--;
    switch (random_below(&it->stream, 3)) {
    case 0:
        if (it->settings.crashes && of->machine != NULL)
            crash(it, worker);
        return true;
    case 1:
        if (it->settings.cuts && of->connected)
            cut_link(it, worker);
        return true;
    default:
        if (it->settings.restarts)
            restart_server(it);
        return true;
    }
}

/* The server notices a loss, or a worker comes back. */
static bool happens_at_link(congress *it, uint32_t worker)
{
    congress_worker *of = &it->workers[worker];
    if (of->connected)
        return false;
    if (of->known && random_below(&it->stream, 2) == 0) {
        of->known = false;
        step_server(it, &(tarry_event){.type = TARRY_EVENT_LOST, .worker = worker});
        return true;
    }
    if (of->machine == NULL && it->settings.forever)
        return false;
    if (of->machine == NULL)
        create_worker_machine(it, worker);
    of->connected = of->known = true;
    step_server(it, &(tarry_event){.type = TARRY_EVENT_JOINED, .worker = worker});
    return true;
}

/* ---- events ---- */

static bool happens_at_worker(congress *it, uint32_t worker)
{
    congress_worker *of = &it->workers[worker];
    switch (random_below(&it->stream, 6)) {
    case 0:
        return happens_at_link(it, worker);
    case 1:
        if (of->machine == NULL || of->down.count == 0)
            return false;
        step_worker(
            it, worker,
            &(tarry_event){.type = TARRY_EVENT_MESSAGE, .message = &take(&of->down)->message});
        return true;
    case 2:
        if (of->up.count == 0)
            return false;
        step_server(it, &(tarry_event){.type = TARRY_EVENT_MESSAGE,
                                       .worker = worker,
                                       .message = &take(&of->up)->message});
        return true;
    case 3:
        if (!of->computes)
            return false;
        of->computes = false;
        step_worker(it, worker,
                    &(tarry_event){.type = TARRY_EVENT_COMPUTED,
                                   .round = of->compute_round,
                                   .slot = of->compute_slot});
        return true;
    case 4:
        if (!of->encodes)
            return false;
        of->encodes = false;
        step_worker(it, worker,
                    &(tarry_event){.type = TARRY_EVENT_ENCODED,
                                   .attempt = of->encode_attempt,
                                   .stripe = of->encode_stripe});
        return true;
    default:
        return of->machine != NULL && of->task != TARRY_EFFECT_CANCEL && end_task(it, worker);
    }
}

static bool happens_at_server(congress *it)
{
    if (it->log_due && random_below(&it->stream, 4) == 0) {
        it->log_due = false;
        write_log(it, &it->log_sum);
        step_server(it, &(tarry_event){.type = TARRY_EVENT_LOGGED, .sum = it->log_sum});
        return true;
    }
    if (it->running || it->log_due || it->logged + 2 >= CONGRESS_STEPS)
        return false;
    it->running = true;
    step_server(it, &(tarry_event){.type = TARRY_EVENT_START});
    return true;
}

bool congress_event(congress *it)
{
    if (happens_fault(it))
        return true;
    for (uint32_t tries = 0; tries < MOST_TRIES; tries++) {
        uint32_t which = random_below(&it->stream, it->settings.workers + 1);
        if (which == it->settings.workers ? happens_at_server(it) : happens_at_worker(it, which)) {
            it->now += 1000;
            return true;
        }
    }
    uint64_t deadline = tarry_server_deadline(it->server);
    hold(it, deadline != TARRY_NEVER, "something will happen");
    if (it->broken != NULL)
        return false;
    it->now = deadline > it->now ? deadline : it->now + 1;
    step_server(it, &(tarry_event){.type = TARRY_EVENT_TIME});
    return false;
}

void congress_run(congress *it, uint32_t rounds)
{
    uint32_t events = 0;
    while (it->commits < rounds && it->ended == TARRY_OK && it->broken == NULL) {
        congress_event(it);
        hold(it, ++events < MOST_EVENTS, "a round ends");
    }
}

bool congress_save(congress *it)
{
    for (uint32_t worker = 0; worker < it->settings.workers; worker++) {
        const congress_worker *of = &it->workers[worker];
        if (of->machine == NULL || of->stepped != it->logged || it->logged == 0 ||
            !sum_id_same(&of->history[of->stepped], &it->log[it->logged]))
            continue;
        it->vectors = it->log[it->logged];
        memcpy(it->vectors_history, of->history, sizeof(of->history));
        assert_int_equal(tarry_server_vectors(it->server, &it->vectors), TARRY_OK);
        return true;
    }
    return false;
}

static bool is_settled(const congress *it)
{
    bool settled = !it->log_due;
    for (uint32_t worker = 0; worker < it->settings.workers; worker++) {
        const congress_worker *of = &it->workers[worker];
        settled =
            settled &&
            (of->machine == NULL || !of->connected ||
             (of->stepped == it->logged &&
              (it->logged == 0 || sum_id_same(&of->history[of->stepped], &it->log[it->logged]))));
    }
    return settled;
}

void congress_settle(congress *it)
{
    for (uint32_t events = 0; !is_settled(it) && it->ended == TARRY_OK && it->broken == NULL;
         events++) {
        congress_event(it);
        hold(it, events < MOST_EVENTS, "who is there gets the last state");
    }
    for (uint32_t worker = 0; worker < it->settings.workers && it->ended == TARRY_OK; worker++) {
        const congress_worker *of = &it->workers[worker];
        for (uint64_t i = 1; of->machine != NULL && of->connected && i <= it->logged; i++)
            hold(it, sum_id_same(&of->history[i], &it->log[i]), "all have the same sums");
    }
}

void congress_begin(congress *it, const congress_settings *settings, uint64_t seed)
{
    *it = (congress){
        .settings = *settings,
        .now = 1,
        .term = 1,
        .faults_left = settings->faults,
        .failing_left = settings->failing,
        .wrong_left = settings->wrong,
        .stream = random_stream_make(seed, RANDOM_TEST, 0, 0),
    };
    tarry_plan_settings plan;
    tarry_plan_settings_init(&plan);
    plan.workers = settings->workers;
    plan.chunks = settings->workers;
    plan.replication = settings->workers < 3 ? settings->workers : 3;
    plan.parts = settings->parts;
    assert_int_equal(tarry_plan_create(&plan, NULL, &it->plan, NULL), TARRY_OK);
    tarry_server_settings_init(&it->server_settings);
    it->server_settings.dimension = 10;
    it->server_settings.stripe_length = 16;
    it->server_settings.sum = TARRY_SUM_EVERYWHERE;
    it->server_settings.keep = settings->keep;
    it->workers = calloc(CONGRESS_WORKERS, sizeof(*it->workers));
    assert_non_null(it->workers);
    create_server_machine(it);
    for (uint32_t worker = 0; worker < settings->workers; worker++)
        create_worker_machine(it, worker);
}

void congress_end(congress *it)
{
    for (uint32_t worker = 0; worker < it->settings.workers; worker++)
        tarry_worker_free(it->workers[worker].machine);
    free(it->workers);
    tarry_server_free(it->server);
    tarry_plan_free(it->plan);
}
