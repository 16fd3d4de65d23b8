/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coded parts that are added up on their way: those that the parent has named go up as one sum per
 * stripe, in as many blocks as there are parts. A part that comes before those that are to be added
 * before it is held, a few of each child; then the child is not read.
 */
#include <string.h>

#include "base/memory.h"
#include "coding/kernel.h"
#include "protocol/form.h"
#include "runtime/tcp/relay/relay_state.h"

enum {
    HELD_MOST = 2, /* of a child */
    OPEN_MOST = 4, /* stripes of a group that are being added up */
};

/* What workers send has no sets, for which a shape would be needed. */
static const codec_shape NO_SETS;

/* ---- sums ---- */

static relay_sum *make_sum(relay_group *group, uint32_t stripe)
{
    tcp_relay *self = group->relay;
    size_t length = layout_stripe_length(&group->cut, stripe);
    relay_sum *sum = memory_allocate(&self->allocator,
                                     sizeof(*sum) + group->cut.parts * length * sizeof(float), 1);
    if (sum == NULL)
        return NULL;
    sum->relay = self;
    sum->length = length;
    sum->cut = group->cut;
    sum->words = (wire_gathered){
        .round = group->round,
        .attempt = group->attempt,
        .group = group->number,
        .stripe = stripe,
    };
    group->sums[stripe] = sum;
    group->open++;
    return sum;
}

static void free_sum(relay_sum *sum)
{
    memory_release(&sum->relay->allocator, sum);
}

/* One block has gone out, or never will. */
static void on_sent(void *user, void *owner)
{
    (void)user;
    relay_sum *sum = owner;
    if (--sum->left == 0)
        free_sum(sum);
}

static size_t block_length(const relay_sum *sum, uint32_t part)
{
    return layout_present(&sum->cut, part, sum->words.stripe);
}

static void send_sum(tcp_relay *self, relay_sum *sum)
{
    uint32_t parts = sum->cut.parts;
    sum->left = 1; /* this function's */
    relay_up_flush(self);
    self->sums_out++;
    self->work.sums++;
    for (uint32_t part = 0; part < parts; part++) {
        size_t length = block_length(sum, part);
        if (length == 0)
            continue;
        uint8_t prefix[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
        wire_gathered words = sum->words;
        words.part = part;
        words.count = length;
        size_t size = wire_gathered_encode(&words, prefix);
        const channel_load load = {
            .bytes = sum->numbers + part * sum->length,
            .size = length * sizeof(float),
            .released = on_sent,
            .owner = sum,
        };
        if (self->trunk.stage != TRUNK_UP ||
            !channel_send_load(self->trunk.channel, prefix, size, &load))
            break;
        sum->left++;
    }
    on_sent(NULL, sum);
}

static void send_ready(tcp_relay *self)
{
    while (self->sums != NULL && self->sums_out < WIRE_LANE_WINDOW) {
        relay_sum *sum = self->sums;
        self->sums = sum->next;
        send_sum(self, sum);
    }
}

static void queue_sum(tcp_relay *self, relay_sum *sum)
{
    relay_sum **at = &self->sums;
    while (*at != NULL)
        at = &(*at)->next;
    sum->next = NULL;
    *at = sum;
}

bool relay_gather_taken(tcp_relay *self, uint32_t count)
{
    if (count > self->sums_out)
        return false;
    self->sums_out -= count;
    send_ready(self);
    return true;
}

/* ---- groups ---- */

/* What a held part was in the way of may go on. */
static void let_go(relay_buffer *buffer)
{
    if (buffer->child != NULL) {
        buffer->child->held--;
        relay_child_resume(buffer->child);
    }
    buffer->child = NULL;
    relay_buffer_release(buffer);
}

/* Nothing of it goes up any more; parts that come for it are dropped. */
static void void_group(relay_group *group)
{
    group->is_void = true;
    while (group->held != NULL) {
        relay_buffer *buffer = group->held;
        group->held = buffer->next;
        let_go(buffer);
    }
    for (uint32_t stripe = 0; stripe < group->cut.stripes; stripe++) {
        if (group->sums[stripe] != NULL)
            free_sum(group->sums[stripe]);
        group->sums[stripe] = NULL;
    }
    group->open = 0;
}

static void resume_all(tcp_relay *self)
{
    for (relay_child *child = self->children.first; child != NULL; child = child->after)
        relay_child_resume(child);
}

static void free_group(relay_group *group)
{
    tcp_relay *self = group->relay;
    void_group(group);
    for (relay_child *child = self->children.first; child != NULL; child = child->after)
        if (child->into == group)
            child->into = NULL; /* what it sends goes to nowhere */
    gather_free(group->who);
    memory_release(&self->allocator, group->sums);
    memory_release(&self->allocator, group);
}

static void drop_others(tcp_relay *self, uint64_t round, uint32_t attempt)
{
    for (relay_group **at = &self->groups; *at != NULL;) {
        relay_group *group = *at;
        if (group->round == round && group->attempt == attempt) {
            at = &group->next;
            continue;
        }
        *at = group->next;
        free_group(group);
    }
    resume_all(self);
}

const char *relay_gather_begin(tcp_relay *self, const wire_gather *words)
{
    const wire_welcome *welcome = &self->trunk.welcome;
    drop_others(self, words->round, words->attempt);
    relay_group *group = memory_allocate(&self->allocator, 1, sizeof(*group));
    if (group == NULL)
        return "out of memory";
    group->relay = self;
    group->round = words->round;
    group->attempt = words->attempt;
    group->number = words->group;
    group->cut = layout_make(welcome->dimension, words->parts, welcome->stripe_length);
    group->sums = memory_allocate(&self->allocator, group->cut.stripes, sizeof(*group->sums));
    int error = group->sums == NULL
                    ? TARRY_ERROR_NO_MEMORY
                    : gather_create(words, group->cut.stripes, &self->allocator, &group->who);
    if (error != TARRY_OK) {
        memory_release(&self->allocator, group->sums);
        memory_release(&self->allocator, group);
        return error == TARRY_ERROR_NO_MEMORY ? "out of memory" : "a group names a child twice";
    }
    group->next = self->groups;
    self->groups = group;
    return NULL;
}

/* ---- parts ---- */

/* The group that the part is of, as its contributor; NULL: of none. */
static relay_group *group_of(const relay_child *child, const tarry_message *part, size_t bytes,
                             uint32_t *contributor)
{
    for (relay_group *group = child->relay->groups; group != NULL; group = group->next) {
        if (group->round != part->round || group->attempt != part->attempt)
            continue;
        *contributor = gather_find(group->who, child->lane);
        if (*contributor != GATHER_NOBODY &&
            gather_epoch(group->who, *contributor) == part->epoch &&
            group->cut.parts == part->parts &&
            gather_wants(group->who, *contributor, part->stripe) &&
            part->form == TARRY_COMPRESS_NONE &&
            layout_stripe_length(&group->cut, part->stripe) * sizeof(float) == bytes)
            return group;
    }
    return NULL;
}

/* Numbers that are exact in every form are float32; one number takes two of these at most. */
size_t relay_stripe_bytes(const tcp_relay *self)
{
    const wire_welcome *welcome = &self->trunk.welcome;
    const compress_form form = form_of_kind(welcome->compress, welcome->compress_share, 0);
    const size_t longest = (size_t)welcome->stripe_length;
    size_t bytes = compress_bytes(form, longest), plain = (longest + 1) * sizeof(float);
    bool may_be_plain = compress_feeds_back(form.kind) || welcome->compress_exact > 0;
    return may_be_plain && bytes < plain ? plain : bytes;
}

relay_gather_verdict relay_gather_begin_part(relay_child *child, const uint8_t *fixed, size_t bytes)
{
    tarry_message part;
    uint32_t contributor;
    if (codec_decode(&NO_SETS, fixed, CODEC_HEADER_BYTES, NULL, &part) != TARRY_OK)
        return RELAY_GATHER_NOT;
    relay_group *group = group_of(child, &part, bytes, &contributor);
    if (group == NULL)
        return RELAY_GATHER_NOT;
    if (group->is_void)
        return RELAY_GATHER_DROP;
    bool opens = group->sums[part.stripe] == NULL;
    if (child->held >= HELD_MOST || (opens && group->open >= OPEN_MOST))
        return RELAY_GATHER_WAIT;
    relay_buffer *buffer = relay_buffer_take(child->relay, bytes);
    if (buffer == NULL || (opens && make_sum(group, part.stripe) == NULL)) {
        relay_buffer_release(buffer);
        return RELAY_GATHER_NO_MEMORY;
    }
    buffer->gathers = true;
    buffer->child = NULL;
    buffer->contributor = contributor;
    buffer->stripe = part.stripe;
    child->incoming = buffer;
    child->into = group;
    return RELAY_GATHER_TAKE;
}

/* Each block of the sum gets the part's numbers times its weight. */
static void add(relay_group *group, const relay_buffer *buffer)
{
    relay_sum *sum = group->sums[buffer->stripe];
    const float *weights = gather_weights(group->who, buffer->contributor);
    const float *z = buffer->numbers;
    kernel_mode mode = gather_is_empty(group->who, buffer->stripe) ? KERNEL_SET : KERNEL_ADD;
    for (uint32_t part = 0; part < group->cut.parts; part++)
        kernel_best()->combine(sum->numbers + part * sum->length, &z, &weights[part], 1,
                               block_length(sum, part), mode);
}

static relay_buffer *take_held(relay_group *group, uint32_t contributor, uint32_t stripe)
{
    relay_buffer **at = &group->held;
    while ((*at)->contributor != contributor || (*at)->stripe != stripe)
        at = &(*at)->next;
    relay_buffer *found = *at;
    *at = found->next;
    return found;
}

void relay_gather_part(relay_child *child)
{
    tcp_relay *self = child->relay;
    relay_group *group = child->into;
    relay_buffer *buffer = child->incoming;
    child->into = NULL;
    child->incoming = NULL;
    if (group->is_void) {
        relay_buffer_release(buffer);
        return;
    }
    uint32_t stripe = buffer->stripe;
    gather_came(group->who, buffer->contributor, stripe);
    buffer->child = child;
    child->held++;
    buffer->next = group->held;
    group->held = buffer;
    bool complete = false;
    for (uint32_t next; (next = gather_next(group->who, stripe)) != GATHER_NOBODY;) {
        relay_buffer *due = take_held(group, next, stripe);
        add(group, due);
        let_go(due);
        complete = gather_added(group->who, stripe);
    }
    if (!complete)
        return;
    queue_sum(self, group->sums[stripe]);
    group->sums[stripe] = NULL;
    group->open--;
    send_ready(self);
    resume_all(self);
}

static bool has_sent_all(const relay_group *group, uint32_t contributor)
{
    for (uint32_t stripe = 0; stripe < group->cut.stripes; stripe++)
        if (gather_wants(group->who, contributor, stripe))
            return false;
    return true;
}

/* A group that waits for it never gets on: the parent will name another one. */
void relay_gather_lose(relay_child *child)
{
    child->into = NULL;
    for (relay_group *group = child->relay->groups; group != NULL; group = group->next) {
        uint32_t contributor = gather_find(group->who, child->lane);
        if (contributor == GATHER_NOBODY)
            continue;
        for (relay_buffer *buffer = group->held; buffer != NULL; buffer = buffer->next)
            if (buffer->child == child)
                buffer->child = NULL;
        if (!has_sent_all(group, contributor))
            void_group(group);
    }
}

void relay_gather_clear(tcp_relay *self)
{
    while (self->groups != NULL) {
        relay_group *group = self->groups;
        self->groups = group->next;
        free_group(group);
    }
    while (self->sums != NULL) {
        relay_sum *sum = self->sums;
        self->sums = sum->next;
        free_sum(sum);
    }
    self->sums_out = 0;
}
