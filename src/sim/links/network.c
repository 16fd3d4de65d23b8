/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/links/network.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <tarry/allocator.h>
#include <tarry/error.h>
#include <tarry/sim.h>

#include "base/memory.h"
#include "base/random.h"
#include "compress/compress.h"

/* The first one; there is one. */
static inline uint32_t sending_first(const sending *all)
{
    return all->heap[0];
}

static inline uint32_t group_sum_member(const group_sum *sum, uint32_t place)
{
    return sum->members != NULL ? sum->members[place] : place;
}

static uint64_t duration(uint64_t bytes, double ns_per_byte)
{
    double time = rint((double)bytes * ns_per_byte);
    return time < 0x1p64 ? (uint64_t)time : TARRY_NEVER;
}

int network_init(network *state, const tarry_sim_settings *settings, uint32_t workers,
                 const tarry_allocator *allocator)
{
    const tarry_sim_link *link = &settings->link;
    const network_way server = {.ns_per_byte = 1e9 / settings->server_bytes_per_second,
                                .shared = true};
    const double up =
        link->up_bytes_per_second > 0 ? link->up_bytes_per_second : link->bytes_per_second;
    const uint64_t message_ns = settings->way != TARRY_SIM_STAR ? link->message_ns : 0;
    *state = (network){
        .allocator = memory_allocator(allocator),
        .latency_ns = link->latency_ns,
        .jitter = jitter_make(settings),
        .server = {.in = server, .out = server},
        .card_shared = settings->card_shared,
    };
    state->workers = memory_allocate(allocator, workers, sizeof(*state->workers));
    if (state->workers == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t worker = 0; worker < workers; worker++) {
        double factor = settings->link_factor != NULL ? settings->link_factor[worker] : 1;
        state->workers[worker] = (network_node){
            .in = {.ns_per_byte = factor * 1e9 / link->bytes_per_second, .message_ns = message_ns},
            .out = {.ns_per_byte = factor * 1e9 / up, .message_ns = message_ns},
        };
    }
    return TARRY_OK;
}

void network_destroy(network *state)
{
    memory_release(&state->allocator, state->workers);
}

void network_renew(network *state, uint32_t worker, uint64_t now)
{
    state->workers[worker].in.free_ns = state->workers[worker].out.free_ns = now;
}

/* The bytes pass the card from *start on, which becomes when they begin to; gives back when they
 * have. */
static uint64_t pass(network_way *way, uint64_t *start, uint64_t bytes)
{
    uint64_t time = network_after(duration(bytes, way->ns_per_byte), way->message_ns);
    way->bytes += bytes;
    if (!way->shared || bytes > NETWORK_SMALL) {
        *start = network_later(*start, way->free_ns);
        return way->free_ns = network_after(*start, time);
    }
    *start = network_later(*start, way->small_ns);
    way->free_ns = network_after(network_later(way->free_ns, *start), time);
    return way->small_ns = network_after(*start, time);
}

uint64_t network_time(const network_way *way, uint64_t bytes)
{
    return duration(bytes, way->ns_per_byte);
}

uint64_t network_hop(network *state)
{
    return network_after(state->latency_ns, jitter_draw(&state->jitter));
}

uint64_t network_leave(network *state, network_way *out, uint64_t now, uint64_t bytes,
                       uint64_t *first_ns)
{
    const uint64_t waits_ns = jitter_draw(&state->jitter);
    uint64_t start = now, left_ns = pass(out, &start, bytes);
    *first_ns = network_after(network_after(start, waits_ns), state->latency_ns);
    return network_after(left_ns, waits_ns);
}

/* What the messages take together, all but the last byte's rounding. */
static uint64_t pass_many(network_way *way, uint64_t *start, uint64_t bytes, uint64_t messages)
{
    const uint64_t each = messages > 0 ? bytes / messages : 0;
    const uint64_t one = network_after(duration(each, way->ns_per_byte), way->message_ns);
    const uint64_t rest = duration(bytes - each * messages, way->ns_per_byte);
    way->bytes += bytes;
    *start = network_later(*start, way->free_ns);
    if (messages > 0 && one > (TARRY_NEVER - *start) / messages)
        return way->free_ns = TARRY_NEVER;
    return way->free_ns = network_after(*start + one * messages, rest);
}

/* The same of several messages, of which each has as many bytes as the others, one behind the
 * other: *first_ns and first_ns are of the first one. The longest of their jitters comes on top at
 * the end. */
static uint64_t network_leave_many(const network *state, network_way *out, uint64_t now,
                                   uint64_t bytes, uint64_t messages, uint64_t *first_ns)
{
    uint64_t start = now, left_ns = pass_many(out, &start, bytes, messages);
    *first_ns = network_after(start, state->latency_ns);
    return left_ns;
}

static uint64_t network_arrive_many(network *state, network_way *in, uint64_t first_ns,
                                    uint64_t bytes, uint64_t messages, uint64_t left_ns)
{
    const uint64_t waits_ns = jitter_longest(&state->jitter, messages);
    uint64_t start = first_ns, passed_ns = pass_many(in, &start, bytes, messages);
    return network_after(network_later(passed_ns, network_after(left_ns, state->latency_ns)),
                         waits_ns);
}

uint64_t network_arrive(const network *state, network_way *in, uint64_t first_ns, uint64_t bytes,
                        uint64_t left_ns)
{
    uint64_t start = first_ns, passed_ns = pass(in, &start, bytes);
    return network_later(passed_ns, network_after(left_ns, state->latency_ns));
}

/* ---- flows ---- */

uint64_t flows_messages(uint32_t count)
{
    return 2 * (uint64_t)count * (count - 1);
}

/* Each member sends `bytes` to each other one. from_ns[i]: when member i may begin; becomes when it
 * has sent and got all, which for what it got is there_ns[i]. */
static void exchange_flows(network *links, const group_sum *sum, uint64_t bytes, uint64_t *from_ns,
                           uint64_t *there_ns)
{
    const uint64_t others = sum->count - 1;
    uint64_t begun_ns = TARRY_NEVER, sent_ns = 0;
    for (uint32_t place = 0; place < sum->count; place++) {
        network_way *out = &links->workers[group_sum_member(sum, place)].out;
        uint64_t first_ns;
        from_ns[place] =
            network_leave_many(links, out, from_ns[place], others * bytes, others, &first_ns);
        begun_ns = first_ns < begun_ns ? first_ns : begun_ns;
        sent_ns = network_later(sent_ns, from_ns[place]);
    }
    for (uint32_t place = 0; place < sum->count; place++) {
        network_way *in = &links->workers[group_sum_member(sum, place)].in;
        there_ns[place] = network_arrive_many(links, in, begun_ns, others * bytes, others, sent_ns);
        from_ns[place] = network_later(from_ns[place], there_ns[place]);
    }
}

int flows_sum(network *state, const group_sum *sum, const uint64_t *ready_ns, uint64_t *done_ns,
              uint64_t *moved)
{
    const uint64_t count = sum->count;
    const uint64_t part = (sum->dimension + sum->parts - 1) / sum->parts;
    const size_t slice = (size_t)((part + count - 1) / count);
    const uint64_t up = compress_bytes(sum->up, slice);
    const uint64_t down = sum->parts * compress_bytes(sum->down, slice);
    uint64_t *from_ns = memory_allocate(&state->allocator, sum->count, sizeof(*from_ns));
    if (from_ns == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t place = 0; place < sum->count; place++)
        from_ns[place] = done_ns[place] = ready_ns[place];
    if (sum->count > 1) {
        exchange_flows(state, sum, up, from_ns, done_ns);
        exchange_flows(state, sum, down, from_ns, done_ns);
    }
    *moved = count * (count - 1) * (up + down);
    memory_release(&state->allocator, from_ns);
    return TARRY_OK;
}

/* ---- jitter ---- */

jitter jitter_make(const tarry_sim_settings *settings)
{
    const tarry_sim_link *link = &settings->link;
    const double deviation = sqrt(log1p(link->jitter_spread * link->jitter_spread));
    return (jitter){
        .median_ns = (double)link->jitter_ns * exp(-deviation * deviation / 2),
        .deviation = deviation,
        .draws = random_stream_make(settings->seed, RANDOM_JITTER, (uint32_t)settings->first_round,
                                    (uint32_t)(settings->first_round >> 32)),
    };
}

static uint64_t wait_of(const jitter *state, double normal)
{
    double time = rint(state->median_ns * exp(state->deviation * normal));
    return time < 0x1p63 ? (uint64_t)time : UINT64_C(1) << 63;
}

uint64_t jitter_most(const jitter *state)
{
    return wait_of(state, 8);
}

uint64_t jitter_draw(jitter *state)
{
    return state->median_ns > 0 ? wait_of(state, random_normal(&state->draws)) : 0;
}

/* What a standard normal number exceeds with the probability `tail`, within 0.00045: M. Abramowitz
 * and I. Stegun, Handbook of Mathematical Functions, 26.2.23. */
static double normal_above(double tail)
{
    if (tail > 0.5)
        return -normal_above(1 - tail);
    const double t = sqrt(-2 * log(tail));
    return t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                   (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

uint64_t jitter_longest(jitter *state, uint64_t messages)
{
    if (!(state->median_ns > 0) || messages == 0)
        return 0;
    /* All are below x with the probability P(one is) to the power of their number. */
    const double tail = -expm1(log(random_uniform(&state->draws)) / (double)messages);
    return wait_of(state, normal_above(fmin(fmax(tail, 0x1p-1022), 1 - 0x1p-53)));
}

/* ---- sending ---- */

static int sending_init(sending *all, uint32_t most, const tarry_allocator *allocator)
{
    *all = (sending){
        .heap = memory_allocate(allocator, most, sizeof(*all->heap)),
        .first_ns = memory_allocate(allocator, most, sizeof(*all->first_ns)),
    };
    return all->heap != NULL && all->first_ns != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

static void sending_destroy(sending *all, const tarry_allocator *allocator)
{
    memory_release(allocator, all->heap);
    memory_release(allocator, all->first_ns);
}

static bool is_before(const sending *all, uint32_t a, uint32_t b)
{
    uint64_t one = all->first_ns[a], other = all->first_ns[b];
    return one < other || (one == other && a < b);
}

static void sift_down(sending *all, uint32_t at)
{
    for (uint32_t place = all->heap[at];; all->heap[at] = place) {
        uint32_t child = 2 * at + 1;
        if (child < all->count)
            child +=
                child + 1 < all->count && is_before(all, all->heap[child + 1], all->heap[child]);
        if (child >= all->count || !is_before(all, all->heap[child], place))
            return;
        all->heap[at] = all->heap[child];
        at = child;
    }
}

/* `place`, which is not among them, sends from here on. */
static void sending_add(sending *all, uint32_t place, uint64_t first_ns)
{
    uint32_t at = all->count++;
    all->first_ns[place] = first_ns;
    for (; at > 0 && is_before(all, place, all->heap[(at - 1) / 2]); at = (at - 1) / 2)
        all->heap[at] = all->heap[(at - 1) / 2];
    all->heap[at] = place;
}

/* What the first one sends is served: the next one of it is there then. */
static void sending_next(sending *all, uint64_t first_ns)
{
    all->first_ns[all->heap[0]] = first_ns;
    sift_down(all, 0);
}

/* The same, and it has nothing more to send. */
static void sending_end(sending *all)
{
    all->heap[0] = all->heap[--all->count];
    if (all->count > 0)
        sift_down(all, 0);
}

/* ---- direct ---- */

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

/* ---- ring ---- */

int ring_group_sum(network *state, const group_sum *sum, const uint64_t *ready_ns,
                   uint64_t *done_ns, uint64_t *moved)
{
    const uint32_t count = sum->count;
    uint64_t segment = (sum->dimension + count - 1) / count * sizeof(float);
    uint64_t *next = memory_allocate(&state->allocator, count, sizeof(*next));
    if (next == NULL)
        return TARRY_ERROR_NO_MEMORY;
    memcpy(done_ns, ready_ns, count * sizeof(*next));
    for (uint32_t step = 0; step < 2 * (count - 1); step++) {
        for (uint32_t place = 0; place < count; place++) {
            uint32_t after = place + 1 < count ? place + 1 : 0;
            network_node *from = &state->workers[group_sum_member(sum, place)];
            network_node *to = &state->workers[group_sum_member(sum, after)];
            uint64_t first_ns,
                left_ns = network_leave(state, &from->out, done_ns[place], segment, &first_ns);
            uint64_t there_ns = network_arrive(state, &to->in, first_ns, segment, left_ns);
            /* One that is not ready adds to what came in when it is. */
            next[after] = network_later(there_ns, done_ns[after]);
        }
        memcpy(done_ns, next, count * sizeof(*next));
    }
    memory_release(&state->allocator, next);
    *moved = 2 * (uint64_t)(count - 1) * count * segment;
    return TARRY_OK;
}

/* ---- group sum ---- */

int group_sum_run(network *state, tarry_sim_way way, const group_sum *sum, const uint64_t *ready_ns,
                  uint64_t *done_ns, uint64_t *moved)
{
    if (way == TARRY_SIM_RING)
        return ring_group_sum(state, sum, ready_ns, done_ns, moved);
    return flows_messages(sum->count) > FLOWS_MOST_MESSAGES
               ? flows_sum(state, sum, ready_ns, done_ns, moved)
               : direct_sum(state, sum, ready_ns, done_ns, moved);
}

/* ---- star ---- */

void star_share(network *state, uint64_t now, uint32_t count, uint64_t bytes)
{
    if (!state->card_shared || bytes <= NETWORK_SMALL)
        return;
    uint64_t first_ns;
    state->together = count;
    state->begins_ns = network_later(now, state->server.out.free_ns);
    for (uint32_t i = 0; i < count; i++)
        state->leaves_ns = network_leave(state, &state->server.out, now, bytes, &first_ns);
}

uint64_t star_down(network *state, uint32_t worker, uint64_t now, uint64_t bytes)
{
    network_way *in = &state->workers[worker].in;
    uint64_t first_ns, left_ns;
    if (state->together > 0 && bytes > NETWORK_SMALL) {
        state->together--;
        first_ns = network_after(state->begins_ns, state->latency_ns);
        left_ns = state->leaves_ns;
    } else {
        left_ns = network_leave(state, &state->server.out, now, bytes, &first_ns);
    }
    /* All of it is one flow, in which nothing comes before the last byte of what was sent before.
     */
    return in->free_ns = network_arrive(state, in, first_ns, bytes, left_ns);
}

uint64_t star_up(network *state, uint32_t worker, uint64_t now, uint64_t bytes, uint64_t *first_ns)
{
    return network_leave(state, &state->workers[worker].out, now, bytes, first_ns);
}

uint64_t star_receive(network *state, uint64_t now, uint64_t bytes, uint64_t left_ns)
{
    return network_arrive(state, &state->server.in, now, bytes, left_ns);
}
