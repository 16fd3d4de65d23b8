/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of the machine, and what its effects make of a round. */
#include "runtime/host/host.h"

#include <string.h>

#include "base/diagnostic.h"
#include "protocol/form.h"
#include "runtime/clock.h"
#include "runtime/host/coverage_text.h"

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
            .parts = message->parts,
        };
        break;
    case TARRY_MESSAGE_NEWS:
    case TARRY_MESSAGE_PROBE:
    case TARRY_MESSAGE_REPORT:
    case TARRY_MESSAGE_PART:
    case TARRY_MESSAGE_ALIVE:
    case TARRY_MESSAGE_ASK:
    case TARRY_MESSAGE_BREAK:
    case TARRY_MESSAGE_FETCH:
    case TARRY_MESSAGE_LOAD:
    case TARRY_MESSAGE_COMMIT:
    case TARRY_MESSAGE_HELD:
    case TARRY_MESSAGE_FAILED:
    case TARRY_MESSAGE_STATE:
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
            summation_clear(self->sums, effect->parts, effect->stripe);
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
        case TARRY_EFFECT_STOP:
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

const float *host_join_factor(host *self, uint64_t round, const float *parameters)
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
