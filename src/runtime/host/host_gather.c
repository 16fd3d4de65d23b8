/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/host_gather.h"

#include <string.h>

#include "base/memory.h"

bool host_may_gather(const host *self)
{
    const tarry_server_settings *settings = &self->settings.server;
    return settings->sum == TARRY_SUM_SERVER && !settings->reproducible &&
           settings->compress == TARRY_COMPRESS_NONE;
}

double host_scale(const host *self)
{
    return tarry_server_scale(self->machine);
}

/* As the sum here has them (runtime/sum/summation.c). */
void host_weights(const host *self, uint32_t parts, uint32_t worker, double scale, float *weights)
{
    const double *decode = plan_decode(self->plan, parts);
    for (uint32_t part = 0; part < parts; part++)
        weights[part] = (float)(scale * decode[(size_t)part * self->plan->workers + worker]);
}

static tarry_message part_of(const host_gather *of, uint32_t i, uint32_t index)
{
    return (tarry_message){
        .type = TARRY_MESSAGE_PART,
        .round = of->round,
        .attempt = of->attempt,
        .parts = of->parts,
        .epoch = of->epoch[i],
        .stripe = index,
    };
}

/* How many of the parts would count. */
static uint32_t count_wanted(const host *self, const host_gather *of, uint32_t index)
{
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < of->count; i++) {
        const tarry_message part = part_of(of, i, index);
        wanted += self->members[of->worker[i]].joined &&
                  tarry_server_wants(self->machine, of->worker[i], &part);
    }
    return wanted;
}

/* The machine takes a PART of each. Whether all of them are in the sum now. */
static bool step_with_all(host *self, const host_gather *of, uint32_t index)
{
    uint32_t taken = 0;
    self->gathering = true;
    self->gather_scale = of->scale;
    self->gathered = 0;
    for (uint32_t i = 0; i < of->count && self->round.running; i++) {
        tarry_message part = part_of(of, i, index);
        const tarry_reject *reject = host_step(self, &(tarry_event){
                                                         .type = TARRY_EVENT_MESSAGE,
                                                         .worker = of->worker[i],
                                                         .message = &part,
                                                     });
        taken += reject == NULL;
    }
    self->gathering = false;
    return taken == of->count && self->gathered == of->count;
}

static void release_all(host *self, stripe **blocks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        host_release(self, blocks[i]);
}

static bool is_current(const host *self, const host_gather *of)
{
    return self->round.running && self->round.number == of->round && self->attempt == of->attempt;
}

static void label(stripe *item, const host_gather *of, uint32_t index, uint32_t part)
{
    item->gathered = true;
    item->round = of->round;
    item->attempt = of->attempt;
    item->worker = of->worker[0];
    item->scale = of->scale;
    item->index = index;
    item->part = part;
}

/* The same, with its workers and then their epochs in `own`. */
static host_gather copy_to(uint32_t *own, const host_gather *of)
{
    memcpy(own, of->worker, of->count * sizeof(*own));
    memcpy(own + of->count, of->epoch, of->count * sizeof(*own));
    host_gather copy = *of;
    copy.worker = own;
    copy.epoch = own + of->count;
    return copy;
}

void host_receive_gathered(host *self, const host_gather *told, uint32_t index, stripe **blocks,
                           uint32_t count)
{
    uint32_t *crew = memory_allocate(&self->allocator, 2 * (size_t)told->count, sizeof(*crew));
    if (crew == NULL) {
        host_fail(self, TARRY_ERROR_NO_MEMORY);
        release_all(self, blocks, count);
        return;
    }
    /* A step may begin another attempt, for which the caller's is built anew. */
    const host_gather copy = copy_to(crew, told), *of = &copy;
    uint32_t wanted = is_current(self, of) ? count_wanted(self, of, index) : 0;
    bool whole = wanted == of->count && step_with_all(self, of, index);
    if (!whole || !is_current(self, of)) {
        /* What some of them will never send again by themselves. */
        if (wanted > 0 && is_current(self, of))
            host_step(self, &(tarry_event){.type = TARRY_EVENT_STALLED});
        memory_release(&self->allocator, crew);
        release_all(self, blocks, count);
        return;
    }
    for (uint32_t part = 0; part < count; part++) {
        label(blocks[part], of, index, part);
        blocks[part]->crew = part + 1 == count ? crew : NULL;
        blocks[part]->crew_count = part + 1 == count ? of->count : 0;
        stripe_queue_push(&self->combining, blocks[part]);
        self->combining_count++;
    }
}
