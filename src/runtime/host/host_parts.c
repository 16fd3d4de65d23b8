/* SPDX-License-Identifier: Apache-2.0 */
/* Coded parts, from their arrival to the sum. */
#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "protocol/form.h"
#include "runtime/host/host.h"
#include "runtime/masked_words.h"

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
           message->attempt == signal->attempt && message->epoch == signal->epoch &&
           message->parts == signal->parts;
}

bool host_find_cut(const host *self, const tarry_message *message, layout *cut)
{
    const tarry_plan *plan = self->plan;
    if (message->parts < plan_least_parts(plan) || message->parts > plan->parts ||
        !form_may_be(message->form, form_of_round(&self->settings.server, message->round).kind))
        return false;
    *cut = layout_make(self->cut.dimension, message->parts, self->cut.stripe_length);
    return message->stripe < cut->stripes;
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

void host_unpark(host *self, uint32_t index)
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

void host_combine(host *self, const tarry_effect *effect)
{
    stripe *item = find(self, effect->worker, effect->stripe);
    assert(item != NULL && item->attempt == effect->attempt);
    item->scale = effect->scale;
    stripe_queue_push(&self->combining, item);
    self->combining_count++;
}

void host_drop_combining(host *self)
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
