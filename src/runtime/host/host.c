/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/host.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <tarry/runtime.h>
#include <tarry/server.h>
#include <tarry/sum_log.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "coding/kernel.h"
#include "coding/layout.h"
#include "compress/compress_lowrank.h"
#include "compress/view.h"
#include "plan/plan.h"
#include "privacy/secure/ring.h"
#include "protocol/form.h"
#include "protocol/server/server_skip.h"
#include "protocol/wire/codec.h"
#include "runtime/clock.h"
#include "runtime/masked_words.h"
#include "runtime/sum/stripes.h"
#include "runtime/sum/summation.h"

/* Parked parts of the stripe, or of all (HOST_ALL_STRIPES), are not wanted any more. */
#define HOST_ALL_STRIPES UINT32_MAX

/* Coded parts, from their arrival to the sum. */

bool host_decode(const uint8_t *frame, size_t size, tarry_message *message)
{
    const codec_shape no_sets = {0}; /* what workers send has none */
    return codec_decode(&no_sets, frame, size, NULL, message) == TARRY_OK;
}

bool host_wants(const host *self, uint32_t worker, const tarry_message *message)
{
    const host_member *member = &self->members[worker];
    const host_signal *signal = &member->signal;
    return member->joined && signal->open && message->round == signal->round &&
           message->attempt == signal->attempt && message->epoch == signal->epoch;
}

bool host_find_cut(const host *self, const tarry_message *message, layout *cut)
{
    *cut = self->cut;
    return form_may_be(message->form, form_of_round(&self->settings.server, message->round).kind) &&
           message->stripe < cut->stripes;
}

size_t host_part_bytes(const host *self, const layout *cut, const tarry_message *message)
{
    const tarry_server_settings *settings = &self->settings.server;
    const ring *grid = &self->settings.grid;
    if (grid->bits != 0)
        return masked_stripe_bytes(grid, cut, message->stripe);
    return form_stripe_bytes(form_of_part(settings, message->round, message->form), cut,
                             message->stripe);
}

stripe *host_take_room(host *self)
{
    stripe *item = stripes_take(&self->pool);
    if (item == NULL)
        host_fail(self, TARRY_ERROR_NO_MEMORY);
    return item;
}

void host_label(stripe *item, uint32_t worker, const tarry_message *message)
{
    item->worker = worker;
    item->round = message->round;
    item->attempt = message->attempt;
    item->index = message->stripe;
    item->form = message->form;
}

void host_release(host *self, stripe *item)
{
    const host_transport *to = &self->settings.transport;
    bool pooled = item->owner == NULL;
    if (to->released != NULL)
        to->released(to->user, item);
    if (!pooled)
        return; /* it may be no more */
    stripes_give(&self->pool, item);
}

/* ---- parked ones ---- */

static stripe *take_parked(host_member *member, uint32_t index)
{
    stripe **at = &member->parked;
    while (*at != NULL && index != HOST_ALL_STRIPES && (*at)->index != index)
        at = &(*at)->next;
    stripe *item = *at;
    if (item != NULL) {
        *at = item->next;
        item->next = NULL;
    }
    return item;
}

static void park(host *self, stripe *item)
{
    host_member *member = &self->members[item->worker];
    item->next = member->parked;
    member->parked = item;
}

static void host_unpark(host *self, uint32_t index)
{
    if (!self->settings.server.reproducible)
        return; /* nothing is ever parked */
    for (uint32_t worker = 0; worker < self->plan->workers; worker++)
        for (stripe *item; (item = take_parked(&self->members[worker], index)) != NULL;)
            host_release(self, item);
}

/* ---- arrival ---- */

static const tarry_reject *step_with(host *self, uint32_t worker, const tarry_message *message)
{
    const tarry_reject *reject = host_step(self, &(tarry_event){
                                                     .type = TARRY_EVENT_MESSAGE,
                                                     .worker = worker,
                                                     .message = message,
                                                 });
    if (message->type == TARRY_MESSAGE_REPORT && !message->failed && reject == NULL)
        self->members[worker].chunks++;
    return reject;
}

const tarry_reject *host_receive(host *self, uint32_t worker, tarry_message *message,
                                 stripe *numbers)
{
    if (message->type == TARRY_MESSAGE_PART && numbers == NULL)
        message->epoch = 0; /* of no arrival: it is counted, and never summed */
    self->arrived = numbers;
    const tarry_reject *reject = step_with(self, worker, message);
    stripe *item = self->arrived;
    self->arrived = NULL;
    if (item == NULL)
        return reject;
    /* Its attempt may have been given up in the same step. */
    if (reject != NULL || !self->round.running || !host_wants(self, worker, message))
        host_release(self, item);
    else
        park(self, item);
    return reject;
}

static stripe *copy_numbers(host *self, uint32_t worker, const tarry_message *message,
                            const float *numbers, size_t count)
{
    stripe *item = host_wants(self, worker, message) ? host_take_room(self) : NULL;
    if (item == NULL)
        return NULL;
    host_label(item, worker, message);
    memcpy(item->numbers, numbers, count * sizeof(float));
    return item;
}

int host_receive_frame(host *self, uint32_t worker, const uint8_t *frame, size_t size,
                       const float *numbers, size_t count)
{
    tarry_message message;
    layout cut;
    size_t wanted = 0;
    stripe *item = NULL;
    if (!host_decode(frame, size, &message))
        return TARRY_ERROR_FORMAT;
    bool part = message.type == TARRY_MESSAGE_PART;
    if (part && !host_find_cut(self, &message, &cut))
        return TARRY_ERROR_FORMAT;
    if (part)
        wanted = layout_stripe_length(&cut, message.stripe);
    if (count != wanted)
        return TARRY_ERROR_FORMAT;
    if (part)
        item = copy_numbers(self, worker, &message, numbers, count);
    host_receive(self, worker, &message, item);
    return TARRY_OK;
}

/* ---- the sum ---- */

static stripe *find(host *self, uint32_t worker, uint32_t index)
{
    stripe *item = self->arrived;
    if (item != NULL && item->worker == worker && item->index == index) {
        self->arrived = NULL;
        return item;
    }
    return take_parked(&self->members[worker], index);
}

/* The same: parts of effects. */
static void host_combine(host *self, const tarry_effect *effect)
{
    stripe *item = find(self, effect->worker, effect->stripe);
    assert(item != NULL && item->attempt == effect->attempt);
    item->scale = effect->scale;
    stripe_queue_push(&self->combining, item);
    self->combining_count++;
}

static void host_drop_combining(host *self)
{
    for (stripe *item; (item = stripe_queue_pop(&self->combining)) != NULL;)
        host_release(self, item);
    self->combining_count = 0;
}

void host_sum(host *self)
{
    if (self->sums == NULL)
        return;
    summation_add(self->sums, &self->combining);
    self->combining_count = 0;
}

/* Tells the machine that the sum has the coded part now. */
static void tell_combined(host *self, const stripe *item)
{
    if (self->round.running)
        host_step(self, &(tarry_event){
                            .type = TARRY_EVENT_COMBINED,
                            .worker = item->worker,
                            .round = item->round,
                            .attempt = item->attempt,
                            .stripe = item->index,
                        });
}

void host_collect(host *self)
{
    stripe_queue summed = {0}, dropped = {0};
    if (self->sums == NULL)
        return;
    summation_take(self->sums, &summed, &dropped);
    if (self->settings.grid.bits != 0 && summation_torn(self->sums).torn)
        host_fail(self, TARRY_ERROR_MASKS); /* before the machine hears that it has all */
    for (stripe *item; (item = stripe_queue_pop(&summed)) != NULL;) {
        tell_combined(self, item);
        host_release(self, item);
    }
    for (stripe *item; (item = stripe_queue_pop(&dropped)) != NULL;)
        host_release(self, item);
}

/* ---- coverage text ---- */

enum { MOST_NAMED = 8, LIST_BYTES = 128 };

/* "2, 5, 7 and 12 more" */
typedef struct list {
    char text[LIST_BYTES];
    size_t used;
    uint32_t named, more;
} list;

static void add(list *to, uint32_t number)
{
    if (to->named == MOST_NAMED) {
        to->more++;
        return;
    }
    to->used += (size_t)snprintf(to->text + to->used, LIST_BYTES - to->used,
                                 to->named > 0 ? ", %u" : "%u", number);
    to->named++;
}

static const char *finish(list *it)
{
    if (it->more > 0)
        snprintf(it->text + it->used, LIST_BYTES - it->used, " and %u more", it->more);
    return it->text;
}

/* The same of a round that ended with `error`, DIFFER or LINKS, and which workers are to blame as
 * far as the server knows. */
static int voters_describe(const tarry_server *server, const tarry_plan *plan,
                           const tarry_round_result *result, int error,
                           tarry_diagnostic *diagnostic)
{
    list workers = {.used = 0};
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        if (tarry_server_at_fault(server, worker))
            add(&workers, worker);
    unsigned long long round = result->round;
    if (workers.named == 0)
        return diagnose(diagnostic, error, "round %llu: %s", round, tarry_error_text(error));
    return diagnose(diagnostic, error, "round %llu: %s; to blame may be: worker %s", round,
                    tarry_error_text(error), finish(&workers));
}

/* Says why a round of `server` ended with TARRY_ERROR_COVERAGE, and which chunks are missing; gives
 * back that error. diagnostic: NULL is allowed. */
/* The library names no flags of the tool; which stop rules would do is the caller's to say. */
static int coverage_describe(const tarry_server *server, const tarry_plan *plan,
                             const tarry_server_settings *settings,
                             const tarry_round_result *result, tarry_diagnostic *diagnostic)
{
    unsigned long long round = result->round;
    if (settings->stop == TARRY_STOP_WORKERS)
        return diagnose(diagnostic, TARRY_ERROR_COVERAGE,
                        "round %llu: fewer than %u of %u workers can still finish all their chunks "
                        "(%u are lost)",
                        round, settings->workers_needed, plan->workers, result->workers_lost);
    list missing = {.used = 0};
    for (uint32_t chunk = tarry_server_next_hopeless(server, 0); chunk < plan->chunks;
         chunk = tarry_server_next_hopeless(server, chunk + 1))
        add(&missing, chunk);
    const char *chunks = finish(&missing);
    if (result->workers_lost == plan->workers)
        return diagnose(diagnostic, TARRY_ERROR_COVERAGE, "round %llu: all %u workers are lost",
                        round, plan->workers);
    if (plan->parts == 1)
        return diagnose(diagnostic, TARRY_ERROR_COVERAGE,
                        "round %llu: no worker that is left can give chunks %s (%u of %u workers "
                        "are lost)",
                        round, chunks, result->workers_lost, plan->workers);
    return diagnose(diagnostic, TARRY_ERROR_COVERAGE,
                    "round %llu: the workers that are left can't give chunks %s in %u parts "
                    "(%u of %u workers are lost)",
                    round, chunks, plan->parts, result->workers_lost, plan->workers);
}

/* Steps of the machine, and what its effects make of a round. */

/* To wake a decode thread takes about as long as it takes to sum a stripe. */
enum { STRIPES_AT_ONCE = 8 };

static uint64_t now_of(const host *self)
{
    const host_transport *to = &self->settings.transport;
    return to->now != NULL ? to->now(to->user) : clock_now_ns();
}

uint64_t host_deadline(const host *self)
{
    return tarry_server_deadline(self->machine);
}

/* ---- effects ---- */

static void leave(host *self, uint32_t worker)
{
    host_member *member = &self->members[worker];
    self->present -= member->joined;
    member->joined = false;
    member->signal.open = false;
}

/* What the message changes in what can be wanted from its receiver. */
static void note_sent(host *self, uint32_t worker, const tarry_message *message)
{
    host_signal *signal = &self->members[worker].signal;
    switch (message->type) {
    case TARRY_MESSAGE_ROUND:
        self->round.number = message->round;
        signal->open = false;
        break;
    case TARRY_MESSAGE_RESUME:
    case TARRY_MESSAGE_FINISH:
        signal->open = false;
        break;
    case TARRY_MESSAGE_SIGNAL:
        *signal = (host_signal){
            .open = true,
            .round = message->round,
            .attempt = message->attempt,
            .epoch = message->epoch,
        };
        break;
    default:
        break;
    }
}

/* The masks of an attempt are those of all who take part in it. */
static void expect_masked(host *self, const tarry_message *signal)
{
    uint32_t parts = 0;
    if (self->settings.grid.bits == 0)
        return;
    for (uint32_t worker = 0; worker < self->plan->workers; worker++)
        parts += signal->lives[worker] != 0;
    summation_expect(self->sums, parts);
}

/* An attempt is withdrawn, or another one begins: what came for those before is of no use. */
static void turn_attempt(host *self, const tarry_message *message)
{
    const host_transport *to = &self->settings.transport;
    if (message->type == TARRY_MESSAGE_RESUME && self->sums != NULL) {
        host_sum(self);
        summation_forget(self->sums);
        host_unpark(self, HOST_ALL_STRIPES);
    }
    if (message->type == TARRY_MESSAGE_SIGNAL && message->attempt != self->attempt) {
        self->attempt = message->attempt;
        host_unpark(self, HOST_ALL_STRIPES); /* also those of stripes that are no more */
        expect_masked(self, message);
        if (to->signalled != NULL)
            to->signalled(to->user, message->round, message->attempt);
    }
}

static void send_message(host *self, uint32_t worker, const tarry_message *message)
{
    const host_transport *to = &self->settings.transport;
    const codec_shape *shape = &self->shapes[worker];
    uint8_t *frame = self->frame + self->settings.head_bytes;
    turn_attempt(self, message);
    note_sent(self, worker, message);
    codec_encode(shape, message, frame);
    int error = to->send(to->user, worker, message, frame, codec_size(shape, message));
    if (error != TARRY_OK)
        host_fail(self, error);
    if (message->type == TARRY_MESSAGE_PROBE && to->is_there != NULL &&
        to->is_there(to->user, worker))
        self->vouching = self->members[worker].vouched = true;
}

static void leave_out(host *self, const tarry_effect *effect)
{
    const host_transport *to = &self->settings.transport;
    if (effect->reason == TARRY_ABSENT_SILENT)
        leave(self, effect->worker);
    if (to->left_out != NULL)
        to->left_out(to->user, effect);
}

static void end_round(host *self, const tarry_round_result *result)
{
    const host_transport *to = &self->settings.transport;
    host_round *round = &self->round;
    round->result = *result;
    round->error = self->failure != TARRY_OK ? self->failure : result->error;
    if (round->error == TARRY_ERROR_COVERAGE)
        coverage_describe(self->machine, self->plan, &self->settings.server, result,
                          &round->diagnostic);
    if (round->error == TARRY_ERROR_DIFFER || round->error == TARRY_ERROR_LINKS)
        voters_describe(self->machine, self->plan, result, round->error, &round->diagnostic);
    host_drop_combining(self);
    host_unpark(self, HOST_ALL_STRIPES);
    for (uint32_t worker = 0; worker < self->plan->workers; worker++)
        self->members[worker].signal.open = false;
    self->failure = TARRY_OK;
    round->running = false;
    if (to->done != NULL)
        to->done(to->user);
}

static void carry_out(host *self, const tarry_effects *effects)
{
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        switch (effect->type) {
        case TARRY_EFFECT_SEND:
            send_message(self, effect->worker, &effect->message);
            break;
        case TARRY_EFFECT_CLEAR:
            host_sum(self);
            summation_clear(self->sums, effect->stripe);
            host_unpark(self, effect->stripe);
            break;
        case TARRY_EFFECT_COMBINE:
            host_combine(self, effect);
            break;
        case TARRY_EFFECT_DONE:
            end_round(self, effect->result);
            break;
        case TARRY_EFFECT_REJECT:
            self->rejected = true;
            self->reject = effect->reject;
            break;
        case TARRY_EFFECT_LEFT_OUT:
            leave_out(self, effect);
            break;
        case TARRY_EFFECT_COMPUTE:
        case TARRY_EFFECT_CANCEL:
        case TARRY_EFFECT_ENCODE:
        case TARRY_EFFECT_FOLD:
        case TARRY_EFFECT_DROP:
        case TARRY_EFFECT_SETTLE:
        case TARRY_EFFECT_REDUCE:
        case TARRY_EFFECT_ABANDON:
        case TARRY_EFFECT_FETCH:
        case TARRY_EFFECT_LOAD:
        case TARRY_EFFECT_STEP:
        case TARRY_EFFECT_REFUSE:
            break;
        case TARRY_EFFECT_LOG:
            self->logging = true;
            self->entry = effect->sum;
            break;
        }
    }
    /* Never in the middle of a step: with `reproducible` its stripes are summed in one pass. */
    if (self->settings.decode_threads > 0 && self->combining_count >= STRIPES_AT_ONCE)
        host_sum(self);
}

/* ---- steps ---- */

static void step_at(host *self, uint64_t now, const tarry_event *event)
{
    const tarry_effects *effects;
    int error = tarry_server_step(self->machine, now, event, &effects);
    if (error != TARRY_OK)
        host_fail(self, error);
    else if (effects->count > 0)
        carry_out(self, effects);
}

/* Answers probes for workers that are there, in the moment in which they were sent: no worker waits
 * while the others are answered for. */
static void vouch(host *self, uint64_t now)
{
    const bool rejected = self->rejected;
    const tarry_reject reject = self->reject;
    while (self->vouching) {
        self->vouching = false;
        for (uint32_t worker = 0; worker < self->plan->workers; worker++) {
            const bool vouched = self->members[worker].vouched;
            self->members[worker].vouched = false;
            if (vouched && self->members[worker].joined)
                step_at(self, now, &(tarry_event){.type = TARRY_EVENT_HEARD, .worker = worker});
        }
    }
    self->rejected = rejected;
    self->reject = reject;
}

/* Vouches at once: the next event may find those who did not answer silent. */
static void step(host *self, const tarry_event *event)
{
    const uint64_t now = now_of(self);
    step_at(self, now, event);
    if (self->vouching)
        vouch(self, now);
}

/* What is not in the log is committed to nobody. */
static void write_log(host *self)
{
    const tarry_sum_log *log = &self->settings.log;
    while (self->logging && self->log_error == TARRY_OK) {
        const tarry_event logged = {.type = TARRY_EVENT_LOGGED, .sum = self->entry};
        self->logging = false;
        if (log->append != NULL)
            self->log_error = log->append(log->user, &logged.sum);
        if (self->log_error != TARRY_OK) {
            host_fail(self, self->log_error);
            return;
        }
        self->committed = logged.sum.attempt > 0 ? logged.sum : (tarry_sum_id){0};
        step(self, &logged);
    }
}

const tarry_reject *host_step(host *self, const tarry_event *event)
{
    self->rejected = false;
    step(self, event);
    bool rejected = self->rejected;
    write_log(self);
    return rejected ? &self->reject : NULL;
}

const tarry_reject *host_join(host *self, uint32_t worker)
{
    host_member *member = &self->members[worker];
    self->present += !member->joined;
    member->joined = true;
    const tarry_reject *reject =
        host_step(self, &(tarry_event){.type = TARRY_EVENT_JOINED, .worker = worker});
    if (reject != NULL)
        leave(self, worker);
    return reject;
}

void host_lose(host *self, uint32_t worker)
{
    if (!self->members[worker].joined)
        return;
    leave(self, worker);
    host_step(self, &(tarry_event){.type = TARRY_EVENT_LOST, .worker = worker});
}

static const float *host_join_factor(host *self, uint64_t round, const float *parameters)
{
    const size_t own = self->settings.parameters;
    if (self->shared == NULL)
        return parameters;
    memcpy(self->joined, parameters, own * sizeof(float));
    memcpy(self->joined + own, factors_of(self->shared, round),
           (self->numbers - own) * sizeof(float));
    return self->joined;
}

/* What workers have of the factor. */
static const float *factor_of(const host *self)
{
    return self->sent + self->settings.parameters;
}

const float *host_see(host *self, const float *parameters)
{
    const uint64_t round = tarry_server_round(self->machine);
    parameters = host_join_factor(self, round, parameters);
    if (self->seen == NULL)
        return self->sent = parameters;
    if (view_stamp(self->seen) == 0)
        view_set(self->seen, round, parameters);
    else if (view_stamp(self->seen) <= round) /* else a round in progress is begun anew */
        view_move(self->seen, round, parameters, self->settings.server.compress_seed);
    return self->sent = view_numbers(self->seen);
}

void host_begin(host *self, float *sum)
{
    host_round *round = &self->round;
    round->running = true;
    round->error = TARRY_OK;
    round->diagnostic.text[0] = '\0';
    round->start_ns = now_of(self);
    self->failure = TARRY_OK;
    self->attempt = 0;
    if (self->sums != NULL)
        summation_begin(self->sums, sum);
    self->sum = sum;
    if (self->shared != NULL) {
        const uint64_t next = tarry_server_round(self->machine);
        summation_form(self->sums,
                       form_with(form_of_round(&self->settings.server, next), factor_of(self)));
    }
    host_step(self, &(tarry_event){.type = TARRY_EVENT_START});
    if (self->log_error != TARRY_OK)
        host_fail(self, self->log_error);
}

void host_fail(host *self, int error)
{
    if (self->round.running && self->failure == TARRY_OK)
        self->failure = error;
}

/* A machine that can't even be told to end the round has none. */
static void abort_failed(host *self)
{
    const tarry_effects *effects;
    int error = tarry_server_step(self->machine, now_of(self),
                                  &(tarry_event){.type = TARRY_EVENT_ABORT}, &effects);
    if (error == TARRY_OK)
        carry_out(self, effects);
    else
        end_round(self, &(tarry_round_result){
                            .round = tarry_server_round(self->machine),
                            .error = error,
                        });
}

void host_turn(host *self)
{
    do {
        host_sum(self);
        if (self->settings.decode_threads == 0)
            host_collect(self);
    } while (self->combining_count > 0);
    if (self->round.running && self->failure != TARRY_OK)
        abort_failed(self);
}

int host_finish(host *self, tarry_round_result *result, tarry_diagnostic *diagnostic)
{
    const host_round *round = &self->round;
    unsigned long long number = round->result.round;
    int error = round->error;
    if (self->sums != NULL)
        summation_settle(self->sums, error == TARRY_OK);
    const summation_tear tear =
        self->settings.grid.bits != 0 ? summation_torn(self->sums) : (summation_tear){0};
    if (error == TARRY_OK && tear.torn)
        error = TARRY_ERROR_MASKS;
    switch (error) {
    case TARRY_OK:
        *result = round->result;
        if (self->shared != NULL)
            factors_learn(self->shared, result->round, factor_of(self), self->sum);
        if (self->settings.grid.bits != 0)
            result->clamped = summation_clamped(self->sums);
        return TARRY_OK;
    case TARRY_ERROR_COVERAGE:
        *result = round->result;
        return diagnose(diagnostic, TARRY_ERROR_COVERAGE, "%s", round->diagnostic.text);
    case TARRY_ERROR_DIFFER:
    case TARRY_ERROR_LINKS:
        return diagnose(diagnostic, error, "%s", round->diagnostic.text);
    case TARRY_ERROR_MASKS:
        /* Stripes that were decoded before the tear was found must not get out either. */
        memset(self->sum, 0, self->cut.dimension * sizeof(*self->sum));
        if (tear.masked)
            return diagnose(
                diagnostic, error,
                "round %llu: %s: the check of stripe %u failed; at least one worker was "
                "told something else about the run or the round than the others",
                number, tarry_error_text(error), tear.stripe);
        return diagnose(diagnostic, error,
                        "round %llu: %s: stripe %u counts %llu chunks, and the plan has %u", number,
                        tarry_error_text(error), tear.stripe, (unsigned long long)tear.chunks,
                        self->plan->chunks);
    case TARRY_ERROR_INTERRUPTED:
        return diagnose(diagnostic, TARRY_ERROR_INTERRUPTED, "round %llu: interrupted", number);
    default:
        return diagnose(diagnostic, error, "round %llu: %s", number, tarry_error_text(error));
    }
}

/* A host for a plan, and for the next one. */

/* What belongs to one plan. */
typedef struct planned {
    tarry_server *machine;
    codec_shape *shapes;
    uint8_t *frame;
} planned;

static void discard(const host *self, planned *made)
{
    memory_release(&self->allocator, made->frame);
    memory_release(&self->allocator, made->shapes);
    tarry_server_free(made->machine);
}

static int shape_messages(const host *self, const tarry_plan *plan, planned *made,
                          tarry_diagnostic *diagnostic)
{
    const host_settings *settings = &self->settings;
    const tarry_allocator *allocator = &self->allocator;
    bool samples = settings->server.sample_chunks > 0;
    made->shapes = memory_allocate(allocator, plan->workers, sizeof(*made->shapes));
    if (made->shapes == NULL)
        return diagnose_no_memory(diagnostic, settings->name);
    size_t most = 0;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        made->shapes[worker] = codec_shape_of(plan, worker, self->cut.stripes);
        if (settings->server.secure != 0)
            codec_shape_secure(&made->shapes[worker], plan);
        size_t size = samples ? codec_max_size(&made->shapes[worker])
                              : codec_plain_max_size(&made->shapes[worker]);
        most = size > most ? size : most;
    }
    if (settings->most_message_bytes > 0 && most > settings->most_message_bytes)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "%s: messages of %zu bytes to a worker, and at most %zu can be sent; fewer "
                        "chunks per worker or longer stripes make them shorter",
                        settings->name, most, settings->most_message_bytes);
    made->frame = memory_allocate(allocator, settings->head_bytes + most, 1);
    return made->frame != NULL ? TARRY_OK : diagnose_no_memory(diagnostic, settings->name);
}

static int make_planned(const host *self, const tarry_plan *plan, planned *made,
                        tarry_diagnostic *diagnostic)
{
    int error = tarry_server_create(plan, &self->settings.server, &self->allocator, &made->machine,
                                    diagnostic);
    return error == TARRY_OK ? shape_messages(self, plan, made, diagnostic) : error;
}

/* Exchanges what the host has for what was made. */
static void take(host *self, const tarry_plan *plan, planned *made)
{
    const planned before = {self->machine, self->shapes, self->frame};
    self->plan = plan;
    self->machine = made->machine;
    self->shapes = made->shapes;
    self->frame = made->frame;
    *made = before;
}

static int restore(host *self, tarry_diagnostic *diagnostic)
{
    const host_settings *settings = &self->settings;
    if (settings->checkpoint == NULL)
        return TARRY_OK;
    int error = tarry_server_restore(self->machine, settings->checkpoint, settings->checkpoint_size,
                                     diagnostic);
    if (error == TARRY_OK)
        self->round.number = tarry_server_round(self->machine);
    return error;
}

/* The log may be ahead of the checkpoint, or a checkpoint be of a server that was ahead of it. */
static int take_log(host *self)
{
    const host_settings *settings = &self->settings;
    const uint64_t step = tarry_server_last_sum(self->machine).step;
    int error = tarry_server_log(self->machine, settings->log.last, settings->log.term);
    if (error != TARRY_OK || settings->checkpoint == NULL)
        return error;
    server_skip_rounds(self->machine, step);
    self->round.number = tarry_server_round(self->machine);
    return TARRY_OK;
}

static int make_sums(host *self, tarry_diagnostic *diagnostic)
{
    const host_settings *settings = &self->settings;
    const layout *cut = &self->cut;
    size_t longest = layout_stripe_length(cut, 0);
    size_t bytes = settings->grid.bits != 0 ? masked_stripe_bytes(&settings->grid, cut, 0)
                                            : form_most_bytes(form_of(&settings->server), cut);
    size_t room = (bytes + sizeof(float) - 1) / sizeof(float);
    stripes_init(&self->pool, room > longest ? room : longest, &self->allocator);
    self->members = memory_allocate(&self->allocator, self->plan->workers, sizeof(*self->members));
    const summation_settings wanted = {
        .dimension = cut->dimension,
        .stripe_length = cut->stripe_length,
        .form = form_of(&settings->server),
        .grid = settings->grid,
        .threads = settings->decode_threads,
        .kernels = kernel_best(),
        .finished = settings->transport.summed,
        .user = settings->transport.user,
    };
    int error = self->members == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
    if (error == TARRY_OK && settings->server.sum == TARRY_SUM_SERVER)
        error = summation_create(self->plan, &wanted, &self->allocator, &self->sums);
    return error == TARRY_OK
               ? TARRY_OK
               : diagnose(diagnostic, error, "%s: %s", settings->name, tarry_error_text(error));
}

/* After the machine was restored. */
static int make_view(host *self, tarry_diagnostic *diagnostic)
{
    const host_settings *settings = &self->settings;
    const tarry_view *from = &settings->seen;
    const uint64_t next = tarry_server_round(self->machine);
    const tarry_compress form = form_of_view(&settings->server);
    if (form == TARRY_COMPRESS_NONE)
        return TARRY_OK;
    int error = view_create(form, self->numbers, &self->allocator, &self->seen);
    if (error != TARRY_OK)
        return diagnose_no_memory(diagnostic, settings->name);
    /* A round of a later number was broken off since the checkpoint: its view is the next one's. */
    if (from->numbers != NULL)
        view_set(self->seen, from->round < next ? from->round : next,
                 host_join_factor(self, next, from->numbers));
    return TARRY_OK;
}

/* POWERSGD. Of a factor nothing is in checkpoints. */
static int make_factors(host *self, tarry_diagnostic *diagnostic)
{
    const host_settings *settings = &self->settings;
    const compress_form form = form_of_parts(&settings->server);
    self->numbers = settings->parameters + form_factor_numbers(form);
    if (form.kind != TARRY_COMPRESS_POWERSGD)
        return TARRY_OK;
    int error =
        factors_create(&form.low, settings->server.compress_seed, &self->allocator, &self->shared);
    self->joined = vector_allocate(&self->allocator, self->numbers);
    return error == TARRY_OK && self->joined != NULL
               ? TARRY_OK
               : diagnose_no_memory(diagnostic, settings->name);
}

int host_create(const tarry_plan *plan, const host_settings *settings,
                const tarry_allocator *allocator, host **made, tarry_diagnostic *diagnostic)
{
    if (settings->server.secure != settings->grid.bits)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "%s: sums can be secure over a network alone", settings->name);
    host *self = memory_allocate(allocator, 1, sizeof(*self));
    if (self == NULL)
        return diagnose_no_memory(diagnostic, settings->name);
    tarry_server_settings *server = &self->settings.server;
    self->allocator = memory_allocator(allocator);
    self->settings = *settings;
    self->plan = plan;
    self->cut = layout_make(server->dimension, plan->parts, form_stripe_length(server));
    server->stripe_length = self->cut.stripe_length;
    planned first = {0};
    int error = make_planned(self, plan, &first, diagnostic);
    take(self, plan, &first);
    if (error == TARRY_OK)
        error = restore(self, diagnostic);
    if (error == TARRY_OK && settings->log.term > 0)
        error = take_log(self);
    if (error == TARRY_OK)
        error = make_sums(self, diagnostic);
    if (error == TARRY_OK)
        error = make_factors(self, diagnostic);
    if (error == TARRY_OK)
        error = make_view(self, diagnostic);
    if (error == TARRY_OK)
        self->committed = tarry_server_last_sum(self->machine);
    if (error != TARRY_OK) {
        host_free(self);
        return error;
    }
    self->settings.checkpoint = NULL; /* the caller's */
    self->settings.seen = (tarry_view){0};
    *made = self;
    return TARRY_OK;
}

void host_free(host *self)
{
    if (self == NULL)
        return;
    tarry_allocator allocator = self->allocator;
    planned last = {self->machine, self->shapes, self->frame};
    if (self->sums != NULL)
        host_collect(self);
    summation_free(self->sums);
    view_free(self->seen);
    factors_free(self->shared);
    vector_release(&allocator, self->joined);
    stripes_destroy(&self->pool);
    memory_release(&allocator, self->members);
    discard(self, &last);
    memory_release(&allocator, self);
}

int host_check_plan(const host *self, const tarry_plan *next, tarry_diagnostic *diagnostic)
{
    const tarry_plan *plan = self->plan;
    const char *fault = NULL;
    if (next->workers != plan->workers)
        fault = "the next plan is of another number of workers";
    else if (next->origins != plan->origins || next->pieces != plan->pieces)
        fault = "the next plan is of other data";
    else if (next->parts != plan->parts)
        fault = "the next plan is of another number of parts";
    else if (self->settings.grid.bits != 0 && !ring_fits(&self->settings.grid, next->chunks))
        fault = "sums of the next plan's chunks can wrap";
    return fault == NULL
               ? TARRY_OK
               : diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "%s: %s", self->settings.name, fault);
}

int host_replan(host *self, const tarry_plan *next, tarry_diagnostic *diagnostic)
{
    planned made = {0};
    int error = host_check_plan(self, next, diagnostic);
    if (error == TARRY_OK)
        error = make_planned(self, next, &made, diagnostic);
    if (error == TARRY_OK)
        error = tarry_server_adopt(made.machine, self->machine, diagnostic);
    if (error == TARRY_OK) {
        take(self, next, &made);
        if (self->sums != NULL)
            summation_replan(self->sums, next);
    }
    discard(self, &made);
    return error;
}
