/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/links/direct.h"

#include "base/memory.h"
#include "sim/links/sending.h"

/* What a member sends and has got. */
typedef struct member {
    network_node *card;
    uint32_t turn;     /* of the slice that it sends: 1..n-1; n: none */
    bool gathers;      /* what it sends is the sum */
    uint32_t missing;  /* coded slices that it has not got */
    uint64_t owned_ns; /* when it is ready and has those that it has got */
    uint64_t left_ns;
} member;

typedef struct exchange {
    network *links;
    member *members;
    sending senders;
    uint32_t count;
    uint64_t bytes[2]; /* of a slice of a coded part, and of the sum */
} exchange;

/* The next slice leaves, at from_ns or when the card is free; gives back when its first byte is at
 * the card that it goes to. */
static uint64_t leave(exchange *all, member *its, uint64_t from_ns)
{
    uint64_t first_ns;
    its->left_ns =
        network_leave(all->links, &its->card->out, from_ns, all->bytes[its->gathers], &first_ns);
    return first_ns;
}

/* Once a member has sent its coded part and has the sum's slices that it owns, it sends them. */
static void gather(exchange *all, uint32_t place)
{
    member *its = &all->members[place];
    if (its->gathers || its->turn < all->count || its->missing > 0)
        return;
    its->gathers = true;
    its->turn = 1;
    sending_add(&all->senders, place, leave(all, its, its->owned_ns));
}

/* The slice whose first byte is the next to arrive does. */
static void deliver(exchange *all, uint64_t *done_ns)
{
    const uint32_t place = sending_first(&all->senders);
    member *from = &all->members[place];
    const uint32_t to = (uint32_t)(((uint64_t)place + from->turn) % all->count);
    const bool gathers = from->gathers;
    uint64_t there_ns =
        network_arrive(all->links, &all->members[to].card->in, all->senders.first_ns[place],
                       all->bytes[gathers], from->left_ns);
    if (++from->turn < all->count)
        sending_next(&all->senders, leave(all, from, 0));
    else
        sending_end(&all->senders);
    if (gathers) {
        done_ns[to] = network_later(done_ns[to], there_ns);
        return;
    }
    member *its = &all->members[to];
    its->owned_ns = network_later(its->owned_ns, there_ns);
    done_ns[to] = network_later(done_ns[to], its->owned_ns);
    its->missing--;
    gather(all, to);
    gather(all, place);
}

int direct_sum(network *state, const group_sum *sum, const uint64_t *ready_ns, uint64_t *done_ns,
               uint64_t *moved)
{
    const uint32_t count = sum->count;
    uint64_t part = (sum->dimension + sum->parts - 1) / sum->parts;
    uint64_t slice = (part + count - 1) / count;
    exchange all = {.links = state,
                    .count = count,
                    .bytes = {compress_bytes(sum->up, (size_t)slice),
                              sum->parts * compress_bytes(sum->down, (size_t)slice)}};
    all.members = memory_allocate(&state->allocator, count, sizeof(*all.members));
    int error = sending_init(&all.senders, count, &state->allocator);
    error = all.members != NULL ? error : TARRY_ERROR_NO_MEMORY;
    for (uint32_t place = 0; error == TARRY_OK && place < count; place++) {
        member *its = &all.members[place];
        *its = (member){.card = &state->workers[group_sum_member(sum, place)],
                        .turn = 1,
                        .missing = count - 1,
                        .owned_ns = ready_ns[place]};
        done_ns[place] = ready_ns[place];
        if (count == 1)
            continue;
        sending_add(&all.senders, place, leave(&all, its, ready_ns[place]));
    }
    while (error == TARRY_OK && all.senders.count > 0)
        deliver(&all, done_ns);
    *moved = (uint64_t)count * (count - 1) * (all.bytes[0] + all.bytes[1]);
    sending_destroy(&all.senders, &state->allocator);
    memory_release(&state->allocator, all.members);
    return error;
}
