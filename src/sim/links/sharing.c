/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/links/sharing.h"

#include <math.h>

#include "base/memory.h"

#define NONE UINT32_MAX

int sharing_init(sharing *all, uint32_t count, uint32_t usual, const tarry_allocator *allocator)
{
    *all = (sharing){.allocator = memory_allocator(allocator), .usual = usual, .free = NONE};
    all->cards = memory_allocate(allocator, count, sizeof(*all->cards));
    int error = sending_init(&all->ends, count, allocator);
    return all->cards != NULL ? error : TARRY_ERROR_NO_MEMORY;
}

void sharing_destroy(sharing *all)
{
    memory_release(&all->allocator, all->messages);
    sending_destroy(&all->ends, &all->allocator);
    memory_release(&all->allocator, all->cards);
}

void sharing_card(sharing *all, uint32_t place, network_way *way)
{
    all->cards[place] = (shared_card){.way = way, .first = NONE, .last = NONE};
}

/* ---- messages of a card, by their ends ---- */

static int take_place(sharing *all, uint32_t *found)
{
    if (all->free != NONE) {
        *found = all->free;
        all->free = all->messages[*found].after;
        return TARRY_OK;
    }
    if (all->used == all->room) {
        const size_t room = memory_room(all->room, (size_t)all->used + 1, all->usual);
        void *grown =
            memory_grow(&all->allocator, all->messages, all->used, room, sizeof(*all->messages));
        if (grown == NULL)
            return TARRY_ERROR_NO_MEMORY;
        all->messages = grown;
        all->room = (uint32_t)room;
    }
    *found = all->used++;
    return TARRY_OK;
}

/* Behind those that end no later. */
static void insert(sharing *all, shared_card *its, uint32_t own)
{
    shared_message *messages = all->messages;
    uint32_t before = its->last;
    while (before != NONE && messages[before].end > messages[own].end)
        before = messages[before].before;
    const uint32_t after = before != NONE ? messages[before].after : its->first;
    messages[own].before = before;
    messages[own].after = after;
    *(before != NONE ? &messages[before].after : &its->first) = own;
    *(after != NONE ? &messages[after].before : &its->last) = own;
}

static uint32_t take_first(sharing *all, shared_card *its)
{
    const uint32_t first = its->first;
    its->first = all->messages[first].after;
    *(its->first != NONE ? &all->messages[its->first].before : &its->last) = NONE;
    all->messages[first].after = all->free;
    all->free = first;
    return first;
}

/* ---- time ---- */

/* When the first message of the card has passed if no other one comes: since it was idle, and by
 * the clock. */
static double passed_by(const sharing *all, const shared_card *its)
{
    return its->now + (all->messages[its->first].end - its->served) * its->passing;
}

static uint64_t end_of(const sharing *all, const shared_card *its)
{
    const double end = rint(passed_by(all, its));
    return end < 0x1p64 ? network_after(its->begins_ns, (uint64_t)end) : TARRY_NEVER;
}

/* The card's time goes on, unless it is busy with what it carried before. */
static void go_on(shared_card *its, uint64_t now)
{
    if (its->passing == 0) {
        its->begins_ns = network_later(now, its->way->free_ns);
        its->now = its->served = 0;
    } else if (now > its->begins_ns && (double)(now - its->begins_ns) > its->now) {
        const double since = (double)(now - its->begins_ns);
        its->served += (since - its->now) / its->passing;
        its->now = since;
    }
}

int sharing_add(sharing *all, uint32_t place, uint64_t now, uint64_t bytes, uint32_t mark)
{
    shared_card *its = &all->cards[place];
    uint32_t own;
    if (take_place(all, &own) != TARRY_OK)
        return TARRY_ERROR_NO_MEMORY;
    go_on(its, now);
    const uint64_t takes_ns = network_after(network_time(its->way, bytes), its->way->message_ns);
    all->messages[own] = (shared_message){.end = its->served + (double)takes_ns, .mark = mark};
    its->way->bytes += bytes;
    insert(all, its, own);
    if (its->passing++ == 0)
        sending_add(&all->ends, place, end_of(all, its));
    else
        sending_change(&all->ends, place, end_of(all, its));
    return TARRY_OK;
}

uint32_t sharing_end(sharing *all, uint32_t *mark)
{
    const uint32_t place = sending_first(&all->ends);
    shared_card *its = &all->cards[place];
    its->way->free_ns = all->ends.first_ns[place];
    its->now = passed_by(all, its);
    const shared_message *message = &all->messages[take_first(all, its)];
    its->served = message->end;
    *mark = message->mark;
    if (--its->passing > 0)
        sending_next(&all->ends, end_of(all, its));
    else
        sending_end(&all->ends);
    return place;
}
