/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/random.h"
#include "failing_allocator.h"
#include "seed.h"
#include "sim/links/network.h"
#include "test.h"

OWNED_STRUCT_BY(network, network_destroy)

enum { MOST = 12 };

static network make_links(tarry_sim_link link, const double *factor)
{
    const tarry_sim_settings settings = {
        .link = link, .link_factor = factor, .server_bytes_per_second = 1, .way = TARRY_SIM_DIRECT};
    network made;
    assert_ok(network_init(&made, &settings, MOST, NULL));
    return made;
}

static uint64_t last_of(const uint64_t *times, uint32_t count)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < count; i++)
        last = network_later(last, times[i]);
    return last;
}

/* When the last of the first `count` workers has a sum, of those that are ready as told. */
static uint64_t end_of(tarry_sim_way way, group_sum sum, tarry_sim_link link, const double *factor,
                       const uint64_t *ready_ns, uint64_t *moved)
{
    network links = make_links(link, factor);
    uint64_t done_ns[MOST];
    assert_ok(group_sum_run(&links, way, &sum, ready_ns, done_ns, moved));
    network_destroy(&links);
    return last_of(done_ns, sum.count);
}

/* One byte takes 10 ns; latency 1,000 ns. */
static const tarry_sim_link even = {.latency_ns = 1000, .bytes_per_second = 1e8};

/* Of d = 1,200 numbers, which n and l divide. */
TEST(equal_members_take_the_closed_forms)
{
    const uint64_t ready_ns[MOST] = {0}, all = 4 * 1200 * 10;
    for (uint32_t count = 1; count <= 6; count++) {
        uint64_t moved;
        group_sum sum = {.count = count, .dimension = 1200, .parts = 1};
        assert_int_equal(end_of(TARRY_SIM_RING, sum, even, NULL, ready_ns, &moved),
                         2 * (count - 1) * (1000 + all / count));
        assert_int_equal(moved, 2 * (count - 1) * 4800);
        for (sum.parts = 1; sum.parts <= 2; sum.parts++) {
            /* (1 + 1/l) d (n - 1) / n per member and direction */
            uint64_t links_ns = (count - 1) * (all + all / sum.parts) / count;
            assert_int_equal(end_of(TARRY_SIM_DIRECT, sum, even, NULL, ready_ns, &moved),
                             (count > 1 ? 2000 : 0) + links_ns);
            assert_int_equal(moved, (count - 1) * (4800 + 4800 / sum.parts));
        }
    }
}

/* On their way to owners numbers have a form, on the way back, or on both. */
TEST(each_way_has_a_form)
{
    const uint64_t ready_ns[MOST] = {0}, slice = 1024 + 4 * 4, whole = 4096;
    for (unsigned ways = 1; ways <= 3; ways++) {
        group_sum sum = {.count = 4, .dimension = 4096, .parts = 1};
        if ((ways & 1) != 0)
            sum.up.kind = TARRY_COMPRESS_INT8;
        if ((ways & 2) != 0)
            sum.down.kind = TARRY_COMPRESS_INT8;
        const uint64_t bytes = ways == 3 ? 2 * slice : slice + whole;
        uint64_t moved;
        assert_int_equal(end_of(TARRY_SIM_DIRECT, sum, even, NULL, ready_ns, &moved),
                         2000 + 3 * bytes * 10);
        assert_int_equal(moved, 4 * 3 * bytes);
    }
}

/* The last one begins when all others' numbers are with their owners. */
TEST(all_wait_for_the_last_one)
{
    const uint64_t ready_ns[MOST] = {0, 0, 700000, 0};
    const group_sum sum = {.count = 4, .dimension = 1200, .parts = 1};
    uint64_t moved;
    assert_int_equal(end_of(TARRY_SIM_DIRECT, sum, even, NULL, ready_ns, &moved),
                     700000 + 2000 + 2 * 3 * 12000);
    assert_int_equal(end_of(TARRY_SIM_RING, sum, even, NULL, ready_ns, &moved),
                     700000 + 6 * (1000 + 12000));
}

/* A member with a link of a tenth has ten times as much to do as the others, and all wait for it:
 * its numbers go, and the sum of its slice. */
TEST(the_thinnest_link_decides)
{
    const uint64_t ready_ns[MOST] = {0};
    const double factor[MOST] = {1, 10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const group_sum sum = {.count = 4, .dimension = 1200, .parts = 1};
    const tarry_sim_link lopsided = {
        .latency_ns = 0, .bytes_per_second = INFINITY, .up_bytes_per_second = 1e8};
    uint64_t moved;
    assert_int_equal(end_of(TARRY_SIM_DIRECT, sum, lopsided, factor, ready_ns, &moved),
                     10 * 2 * 3 * 12000);
    assert_int_equal(end_of(TARRY_SIM_RING, sum, lopsided, factor, ready_ns, &moved),
                     10 * 6 * 12000);
}

TEST(groups_are_of_their_members)
{
    const uint32_t members[] = {1, 5, 7};
    const uint64_t ready_ns[] = {0, 0, 0};
    const group_sum sum = {.members = members, .count = 3, .dimension = 1200, .parts = 1};
    for (tarry_sim_way way = TARRY_SIM_RING; way <= TARRY_SIM_DIRECT; way++) {
        OWNED(network) links = make_links(even, NULL);
        uint64_t done_ns[3], moved;
        assert_ok(group_sum_run(&links, way, &sum, ready_ns, done_ns, &moved));
        for (uint32_t worker = 0; worker < MOST; worker++)
            assert_true((links.workers[worker].in.free_ns > 0) ==
                        (worker == 1 || worker == 5 || worker == 7));
    }
}

/* ---- a slow oracle of the direct exchange: a nanosecond after the other, links all alike ---- */

typedef struct parcel {
    uint32_t from, to;
    uint64_t first_ns, end_ns; /* at the receiver's card; TARRY_NEVER: not yet */
    bool gathers, taken;
} parcel;

typedef struct oracle {
    uint32_t count;
    uint64_t latency_ns, time_ns[2]; /* that a slice takes on a card */
    uint64_t out_free_ns[MOST], in_free_ns[MOST];
    uint32_t sent[MOST]; /* slices, of both kinds */
    parcel parcels[2 * MOST * MOST];
    uint32_t parcel_count;
} oracle;

/* When the worker has got all parcels of the kind; TARRY_NEVER: some are missing. */
static uint64_t has_all(const oracle *all, uint32_t worker, bool gathers, uint64_t ready_ns)
{
    uint32_t got = 0;
    uint64_t end_ns = ready_ns;
    for (uint32_t i = 0; i < all->parcel_count; i++) {
        const parcel *its = &all->parcels[i];
        if (its->to != worker || its->gathers != gathers || its->end_ns == TARRY_NEVER)
            continue;
        got++;
        end_ns = network_later(end_ns, its->end_ns);
    }
    return got == all->count - 1 ? end_ns : TARRY_NEVER;
}

static void oracle_sends(oracle *all, const uint64_t *ready_ns, uint64_t now)
{
    for (uint32_t worker = 0; worker < all->count; worker++) {
        const uint32_t others = all->count - 1;
        bool gathers = all->sent[worker] >= others;
        if (all->sent[worker] == 2 * others || all->out_free_ns[worker] > now ||
            ready_ns[worker] > now ||
            (gathers && has_all(all, worker, false, ready_ns[worker]) > now))
            continue;
        uint32_t turn = all->sent[worker] % others + 1;
        all->parcels[all->parcel_count++] = (parcel){.from = worker,
                                                     .to = (worker + turn) % all->count,
                                                     .first_ns = now + all->latency_ns,
                                                     .end_ns = TARRY_NEVER,
                                                     .gathers = gathers};
        all->out_free_ns[worker] = now + all->time_ns[gathers];
        all->sent[worker]++;
    }
}

static void oracle_takes(oracle *all, uint64_t now)
{
    for (uint32_t worker = 0; worker < all->count; worker++) {
        parcel *next = NULL;
        for (uint32_t i = 0; i < all->parcel_count; i++) {
            parcel *its = &all->parcels[i];
            if (its->to == worker && !its->taken && its->first_ns <= now &&
                (next == NULL || its->first_ns < next->first_ns ||
                 (its->first_ns == next->first_ns && its->from < next->from)))
                next = its;
        }
        if (next == NULL || all->in_free_ns[worker] > now)
            continue;
        next->taken = true;
        next->end_ns = all->in_free_ns[worker] = now + all->time_ns[next->gathers];
    }
}

TEST(uneven_members_go_by_the_oracle)
{
    random_stream random = random_stream_make(test_seed("group_sum", 3), RANDOM_TEST, 0, 0);
    for (int trial = 0; trial < 60; trial++) {
        oracle all = {.count = 2 + random_below(&random, 5),
                      .latency_ns = 1 + random_below(&random, 20)};
        group_sum sum = {.count = all.count, .parts = 1 + random_below(&random, 3)};
        uint64_t slice = 1 + random_below(&random, 5), ready_ns[MOST], done_ns[MOST], moved;
        sum.dimension = slice * sum.parts * sum.count;
        all.time_ns[0] = 4 * slice;
        all.time_ns[1] = 4 * slice * sum.parts;
        for (uint32_t i = 0; i < sum.count; i++)
            ready_ns[i] = random_below(&random, 200);
        OWNED(network)
        links = make_links((tarry_sim_link){.latency_ns = all.latency_ns, .bytes_per_second = 1e9},
                           NULL);
        assert_ok(group_sum_run(&links, TARRY_SIM_DIRECT, &sum, ready_ns, done_ns, &moved));
        for (uint64_t now = 0; now < 5000; now++) {
            oracle_sends(&all, ready_ns, now);
            oracle_takes(&all, now);
        }
        for (uint32_t i = 0; i < sum.count; i++)
            assert_int_equal(done_ns[i], network_later(has_all(&all, i, false, ready_ns[i]),
                                                       has_all(&all, i, true, 0)));
    }
}

/* ---- flows, in place of many messages ---- */

typedef int sum_run(network *state, const group_sum *sum, const uint64_t *ready_ns,
                    uint64_t *done_ns, uint64_t *moved);

static uint64_t end_by(sum_run *by, group_sum sum, tarry_sim_link link, uint64_t *moved)
{
    const uint64_t ready_ns[MOST] = {0};
    network links = make_links(link, NULL);
    uint64_t done_ns[MOST];
    assert_ok(by(&links, &sum, ready_ns, done_ns, moved));
    network_destroy(&links);
    return last_of(done_ns, sum.count);
}

/* To the nanosecond, as members are alike. */
TEST(flows_take_what_their_messages_do)
{
    tarry_sim_link link = even;
    link.message_ns = 300;
    for (uint32_t count = 1; count <= MOST; count++)
        for (uint32_t parts = 1; parts <= 3; parts++) {
            const group_sum sum = {
                .count = count, .dimension = UINT64_C(60) * count * parts, .parts = parts};
            uint64_t moved, by_flows;
            assert_int_equal(end_by(flows_sum, sum, link, &by_flows),
                             end_by(direct_sum, sum, link, &moved));
            assert_int_equal(by_flows, moved);
        }
}

TEST(flows_stand_for_many_messages)
{
    assert_int_equal(flows_messages(5), 40);
    assert_true(flows_messages(4096) <= FLOWS_MOST_MESSAGES);
    assert_true(flows_messages(4097) > FLOWS_MOST_MESSAGES);
    assert_int_equal(flows_messages(1000000), UINT64_C(1999998000000));
}

/* Each way has its form, also where messages are not followed one by one. */
TEST(forms_shorten_each_way)
{
    static sum_run *const runs[] = {direct_sum, flows_sum};
    const tarry_compress kinds[] = {TARRY_COMPRESS_NONE, TARRY_COMPRESS_BF16, TARRY_COMPRESS_INT8};
    const uint64_t bytes_of[] = {4 * 3200, 2 * 3200, 3200 + 4 * 13}; /* of a share */
    for (size_t i = 0; i < 2 * 9; i++) {
        const size_t up = i / 2 % 3, down = i / 6;
        const group_sum sum = {.count = 5,
                               .dimension = UINT64_C(5) * 3200,
                               .parts = 1,
                               .up = {.kind = kinds[up]},
                               .down = {.kind = kinds[down]}};
        const uint64_t each = 4 * (bytes_of[up] + bytes_of[down]);
        uint64_t moved;
        assert_int_equal(end_by(runs[i % 2], sum, even, &moved), 2 * 1000 + 10 * each);
        assert_int_equal(moved, 5 * each);
    }
}

/* A card that carries nothing: nobody has a sum that its member's numbers are not in. */
TEST(what_never_passes_is_in_nobodys_sum)
{
    static sum_run *const runs[] = {direct_sum, flows_sum};
    const uint64_t ready_ns[MOST] = {0};
    for (size_t i = 0; i < 2; i++)
        for (uint32_t thin = 0; thin < MOST; thin++) {
            OWNED(network) links = make_links(even, NULL);
            const group_sum sum = {.count = MOST, .dimension = 100000, .parts = 1};
            uint64_t done_ns[MOST], moved;
            links.workers[thin].out.ns_per_byte = INFINITY;
            assert_ok(runs[i](&links, &sum, ready_ns, done_ns, &moved));
            for (uint32_t place = 0; place < MOST; place++)
                assert_true(place == thin || done_ns[place] == TARRY_NEVER);
        }
}

static int run(void *user, const tarry_allocator *allocator)
{
    const tarry_sim_way *way = user;
    const uint64_t ready_ns[MOST] = {0};
    const group_sum sum = {.count = 5, .dimension = 10, .parts = 2};
    const tarry_sim_settings settings = {.link = even, .server_bytes_per_second = 1};
    uint64_t done_ns[MOST], moved;
    OWNED(network) links;
    int error = network_init(&links, &settings, MOST, allocator);
    if (error == TARRY_OK) {
        error = group_sum_run(&links, *way, &sum, ready_ns, done_ns, &moved);
        assert_true((links.workers[0].out.free_ns > 0) == (error == TARRY_OK));
    }
    return error;
}

TEST(each_allocation_may_fail)
{
    tarry_sim_way ways[] = {TARRY_SIM_RING, TARRY_SIM_DIRECT};
    assert_int_equal(fail_each_allocation(run, &ways[0]), 2);
    assert_int_equal(fail_each_allocation(run, &ways[1]), 4);
}
