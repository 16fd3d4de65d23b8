/* SPDX-License-Identifier: Apache-2.0 */
/* The shares at a round's start, against a maximum flow. */
#include "base/random.h"
#include "books.h"
#include "creation.h"
#include "edge_plan.h"
#include "seed.h"
#include "test.h"

enum { MOST_WORKERS = 9, MOST_CHUNKS = 14 };

typedef struct flow {
    const tarry_plan *plan;
    bool gone[MOST_WORKERS]; /* not there */
    bool takes[MOST_WORKERS][MOST_CHUNKS];
    uint32_t share[MOST_WORKERS];
    bool seen[MOST_WORKERS];
} flow;

static bool holds(const tarry_plan *plan, uint32_t worker, uint32_t chunk)
{
    for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
         slot++)
        if (plan->slot_chunk[slot] == chunk)
            return true;
    return false;
}

/* One more copy of the chunk at a worker, of shares of at most `most`, others making room. */
static bool augment(flow *it, uint32_t chunk, uint32_t most)
{
    for (uint32_t worker = 0; worker < it->plan->workers; worker++) {
        if (it->gone[worker] || it->seen[worker] || it->takes[worker][chunk] ||
            !holds(it->plan, worker, chunk))
            continue;
        it->seen[worker] = true;
        bool room = it->share[worker] < most;
        for (uint32_t other = 0; other < it->plan->chunks && !room; other++) {
            if (!it->takes[worker][other] || !augment(it, other, most))
                continue;
            it->takes[worker][other] = false;
            it->share[worker]--;
            room = true;
        }
        if (!room)
            continue;
        it->takes[worker][chunk] = true;
        it->share[worker]++;
        return true;
    }
    return false;
}

static bool can_be(const tarry_plan *plan, const bool *gone, uint32_t most)
{
    flow it = {.plan = plan};
    memcpy(it.gone, gone, sizeof(it.gone));
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        for (uint32_t copy = 0; copy < plan->parts; copy++) {
            memset(it.seen, 0, sizeof(it.seen));
            if (!augment(&it, chunk, most))
                return false;
        }
    }
    return true;
}

static uint32_t longest_share(const tarry_server *server)
{
    uint32_t longest = 0;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        uint32_t load =
            server->plan->worker_offset[worker + 1] - server->plan->worker_offset[worker];
        const steering *it = server->steering;
        uint32_t share = it->workers[worker].current < load;
        share += (uint32_t)bitset_count(it->plans + it->set_start[worker], load);
        longest = share > longest ? share : longest;
    }
    return longest;
}

static tarry_server *server_of(const tarry_plan *plan, const bool *gone)
{
    tarry_server_settings settings;
    tarry_server_settings_init(&settings);
    settings.dimension = 1;
    settings.conditioning_limit = 30; /* no copies go better together than others */
    settings.pick = TARRY_PICK_SHARE;
    const tarry_effects *effects;
    tarry_server *server = server_make(plan, &settings);
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        tarry_event joined = {.type = TARRY_EVENT_JOINED, .worker = worker};
        if (!gone[worker])
            assert_ok(tarry_server_step(server, 0, &joined, &effects));
    }
    tarry_event start = {.type = TARRY_EVENT_START};
    assert_ok(tarry_server_step(server, 0, &start, &effects));
    return server;
}

TEST(shares_are_as_even_as_a_flow_can_make_them)
{
    uint64_t seed = test_seed("steering/share", 1);
    random_stream stream = random_stream_make(seed, RANDOM_TEST, 0, 0);
    uint32_t even = 0, uneven = 0;
    for (uint32_t run = 0; run < 3000; run++) {
        uint32_t workers = 2 + random_below(&stream, MOST_WORKERS - 1);
        uint32_t chunks = 1 + random_below(&stream, MOST_CHUNKS);
        uint32_t replication = 1 + random_below(&stream, workers < 5 ? workers : 5);
        uint32_t parts = 1 + random_below(&stream, replication < 3 ? replication : 3);
        OWNED(tarry_plan)
        plan = edge_plan_random(workers, chunks, replication, parts, random_u64(&stream));
        assert_non_null(plan);
        if (parts > 1)
            edge_plan_random_decode(plan, 1);
        bool gone[MOST_WORKERS] = {false};
        uint32_t there = workers;
        if (random_below(&stream, 3) == 0) {
            gone[random_below(&stream, workers)] = true;
            there--;
        }
        OWNED(tarry_server) server = server_of(plan, gone);
        books_agree(server);
        uint32_t least = 0;
        while (least < chunks && !can_be(plan, gone, least))
            least++;
        if (can_be(plan, gone, least) && server->phase == SERVER_COMPUTING) {
            assert_int_equal(longest_share(server), least);
            *(least == (chunks * parts + there - 1) / there ? &even : &uneven) += 1;
        }
    }
    assert_true(even > 1000 && uneven > 100);
}
