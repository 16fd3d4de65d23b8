/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/links/tree.h"

#include "base/memory.h"
#include "route/route_cost.h"
#include "route/route_tree.h"
#include "sim/links/sending.h"

/* Of the numbers of a tree; more would change the filling alone. */
#define MOST_BLOCKS 64
#define MOST_MESSAGES (UINT64_C(1) << 25)

/* Of a member: up each tree, then down to each child in it. */
enum { EDGES = ROUTE_TREES * (1 + ROUTE_CHILDREN) };

/* A block at one member of one tree. */
typedef struct block {
    uint32_t missing; /* children that it lacks it from */
    uint64_t got_ns;  /* when it has it from the others, and itself */
    uint64_t sum_ns;  /* when it has the sum; NEVER: not yet */
} block;

typedef struct message {
    bool down; /* the sum */
    uint32_t tree, at, to;
    uint64_t bytes;
    uint32_t edge;
    uint64_t ready_ns; /* NEVER: there is none */
} message;

typedef struct member {
    network_node *card;
    bool sends; /* `last` is on its way */
    message last;
    uint64_t left_ns;
    uint32_t lacks;       /* blocks of whose sum it has not got */
    uint32_t sent[EDGES]; /* blocks */
    uint64_t turn;        /* messages so far, */
    uint64_t had[EDGES];  /* and up to the last one of an edge */
} member;

typedef struct exchange {
    network *links;
    uint32_t count, blocks; /* of a tree */
    uint64_t lengths[ROUTE_TREES];
    uint64_t parts;
    member *members;
    block *state; /* of member, tree, block */
    sending senders;
    uint64_t moved;
} exchange;

static block *block_of(const exchange *all, uint32_t place, uint32_t tree, uint32_t at)
{
    return &all->state[((size_t)place * ROUTE_TREES + tree) * all->blocks + at];
}

static uint64_t block_bytes(const exchange *all, uint32_t tree, uint32_t at)
{
    const uint64_t length = all->lengths[tree], blocks = all->blocks;
    return sizeof(float) * (length / blocks + (at < length % blocks));
}

/* The next block up the tree, and the next one down to a child. */
static message up_of(const exchange *all, uint32_t place, uint32_t tree, bool is_leaf)
{
    message found = {.tree = tree,
                     .at = all->members[place].sent[tree],
                     .to = route_tree_parent(all->count, tree, place),
                     .edge = tree,
                     .ready_ns = TARRY_NEVER};
    if (found.at == all->blocks || found.to == ROUTE_NOBODY)
        return found;
    const block *its = block_of(all, place, tree, found.at);
    found.bytes = block_bytes(all, tree, found.at) * (is_leaf ? 1 : all->parts);
    found.ready_ns = its->missing == 0 ? its->got_ns : TARRY_NEVER;
    return found;
}

static message down_of(const exchange *all, uint32_t place, uint32_t tree, uint32_t child,
                       uint32_t to)
{
    const uint32_t edge = ROUTE_TREES + tree * ROUTE_CHILDREN + child;
    message found = {.down = true,
                     .tree = tree,
                     .at = all->members[place].sent[edge],
                     .to = to,
                     .edge = edge,
                     .ready_ns = TARRY_NEVER};
    if (found.at == all->blocks)
        return found;
    found.bytes = block_bytes(all, tree, found.at) * all->parts;
    found.ready_ns = block_of(all, place, tree, found.at)->sum_ns;
    return found;
}

/* Whether one block leaves before the other one: that which can first; of several that wait for the
 * card, that of the edge which has waited for longest, so that edges take turns as connections do.
 */
static bool is_before(const member *its, const message *one, const message *other)
{
    const uint64_t free_ns = its->card->out.free_ns;
    const uint64_t one_ns = network_later(one->ready_ns, free_ns);
    const uint64_t other_ns = network_later(other->ready_ns, free_ns);
    return one_ns < other_ns || (one_ns == other_ns && one_ns != TARRY_NEVER &&
                                 its->had[one->edge] < its->had[other->edge]);
}

/* The next block to leave, which counts as sent. */
static message choose(exchange *all, uint32_t place)
{
    member *its = &all->members[place];
    message best = {.ready_ns = TARRY_NEVER};
    for (uint32_t tree = 0; tree < ROUTE_TREES; tree++) {
        uint32_t children[ROUTE_CHILDREN];
        const uint32_t below = route_tree_children(all->count, tree, place, children);
        const message up = up_of(all, place, tree, below == 0);
        if (is_before(its, &up, &best))
            best = up;
        for (uint32_t child = 0; child < below; child++) {
            const message down = down_of(all, place, tree, child, children[child]);
            if (is_before(its, &down, &best))
                best = down;
        }
    }
    if (best.ready_ns != TARRY_NEVER) {
        its->sent[best.edge]++;
        its->had[best.edge] = ++its->turn;
    }
    return best;
}

/* The member's next block leaves, if there is one; *first_ns as of network_leave. */
static bool leave(exchange *all, uint32_t place, uint64_t *first_ns)
{
    member *its = &all->members[place];
    its->last = choose(all, place);
    its->sends = its->last.ready_ns != TARRY_NEVER;
    if (!its->sends)
        return false;
    its->left_ns =
        network_leave(all->links, &its->card->out, its->last.ready_ns, its->last.bytes, first_ns);
    all->moved += its->last.bytes;
    return true;
}

static void wake(exchange *all, uint32_t place)
{
    uint64_t first_ns;
    if (!all->members[place].sends && leave(all, place, &first_ns))
        sending_add(&all->senders, place, first_ns);
}

/* The member has a block's sum. */
static void take_sum(member *its, block *of, uint64_t there_ns, uint64_t *done_ns)
{
    its->lacks--;
    of->sum_ns = there_ns;
    *done_ns = network_later(*done_ns, there_ns);
}

static void deliver(exchange *all, uint64_t *done_ns)
{
    const uint32_t place = sending_first(&all->senders);
    const message sent = all->members[place].last;
    uint64_t first_ns = all->senders.first_ns[place];
    uint64_t there_ns = network_arrive(all->links, &all->members[sent.to].card->in, first_ns,
                                       sent.bytes, all->members[place].left_ns);
    block *its = block_of(all, sent.to, sent.tree, sent.at);
    if (sent.down) {
        take_sum(&all->members[sent.to], its, there_ns, &done_ns[sent.to]);
    } else {
        its->missing--;
        its->got_ns = network_later(its->got_ns, there_ns);
        if (its->missing == 0 && route_tree_parent(all->count, sent.tree, sent.to) == ROUTE_NOBODY)
            take_sum(&all->members[sent.to], its, its->got_ns, &done_ns[sent.to]);
    }
    if (leave(all, place, &first_ns))
        sending_next(&all->senders, first_ns);
    else
        sending_end(&all->senders);
    wake(all, sent.to);
}

static void prepare(exchange *all, const group_sum *sum, const uint64_t *ready_ns)
{
    for (uint32_t place = 0; place < sum->count; place++) {
        all->members[place].card = &all->links->workers[group_sum_member(sum, place)];
        all->members[place].lacks = sum->count > 1 ? ROUTE_TREES * all->blocks : 0;
        for (uint32_t tree = 0; tree < ROUTE_TREES; tree++) {
            uint32_t children[ROUTE_CHILDREN];
            const block at_first = {
                .missing = route_tree_children(all->count, tree, place, children),
                .got_ns = ready_ns[place],
                .sum_ns = TARRY_NEVER,
            };
            for (uint32_t at = 0; at < all->blocks; at++)
                *block_of(all, place, tree, at) = at_first;
        }
    }
}

uint32_t tree_blocks(uint32_t members, uint64_t numbers)
{
    /* Up and down an edge of each member's in either tree. */
    const uint64_t affordable = MOST_MESSAGES / (4 * (uint64_t)members);
    const uint64_t most = affordable < MOST_BLOCKS ? affordable : MOST_BLOCKS;
    const uint64_t wanted = numbers / ROUTE_BLOCK_NUMBERS + 1;
    return (uint32_t)(wanted < most ? wanted : most > 1 ? most : 1);
}

int tree_sum(network *state, const group_sum *sum, const uint64_t *ready_ns, uint64_t *done_ns,
             uint64_t *moved)
{
    const uint64_t part_length = (sum->dimension + sum->parts - 1) / sum->parts;
    const uint64_t half = (part_length + 1) / 2;
    exchange all = {.links = state,
                    .count = sum->count,
                    .blocks = tree_blocks(sum->count, half),
                    .lengths = {half, part_length - half},
                    .parts = sum->parts};
    all.members = memory_allocate(&state->allocator, sum->count, sizeof(*all.members));
    all.state = memory_allocate(&state->allocator, (size_t)sum->count * all.blocks,
                                ROUTE_TREES * sizeof(*all.state));
    int error = sending_init(&all.senders, sum->count, &state->allocator);
    error = all.members != NULL && all.state != NULL ? error : TARRY_ERROR_NO_MEMORY;
    if (error == TARRY_OK)
        prepare(&all, sum, ready_ns);
    for (uint32_t place = 0; error == TARRY_OK && place < sum->count; place++)
        done_ns[place] = ready_ns[place];
    for (uint32_t place = 0; error == TARRY_OK && place < sum->count; place++)
        wake(&all, place);
    while (error == TARRY_OK && all.senders.count > 0)
        deliver(&all, done_ns);
    for (uint32_t place = 0; error == TARRY_OK && place < sum->count; place++)
        if (all.members[place].lacks > 0) /* what never passes */
            done_ns[place] = TARRY_NEVER;
    *moved = all.moved;
    sending_destroy(&all.senders, &state->allocator);
    memory_release(&state->allocator, all.state);
    memory_release(&state->allocator, all.members);
    return error;
}
