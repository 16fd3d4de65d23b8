/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "model.h"
#include "seed.h"
#include "test.h"

TEST(whoever_is_free_takes_the_next_piece)
{
    world all;
    baseline_settings own = {.kind = BASELINE_QUEUE};
    /* Of 8 pieces the fast worker does 6 of 0.25 s, the slow one 2 of 0.75 s. */
    lone_copies(&all, 2, 4, "slow:1,3");
    tarry_round_result result = lone_round(&all, own);
    assert_true(result.exact);
    assert_int_equal(result.end_ns, 3 * SECOND / 2);
    assert_int_equal(result.copies_computed, 8);
    assert_int_equal(result.upload_bytes, 2 * 4);
    /* At 1 s each the slow one's second ends at 2 s; its backup at 1.75 s. */
    all.spec = "slow:1,4";
    assert_int_equal(lone_round(&all, own).end_ns, 2 * SECOND);
    own.backups = true;
    result = lone_round(&all, own);
    assert_int_equal(result.end_ns, 7 * SECOND / 4);
    assert_int_equal(result.copies_computed, 8);
    assert_int_equal(result.copies_coded, 8);
}

TEST(latency_is_hidden_and_links_count)
{
    world all;
    lone_copies(&all, 3, 4, NULL);
    all.settings.dimension = 1000;
    all.settings.parameter_bytes = 1976;
    all.settings.link = (tarry_sim_link){.latency_ns = 10 * MILLISECOND, .bytes_per_second = 1e6};
    tarry_round_result result = lone_round(&all, (baseline_settings){.kind = BASELINE_QUEUE});
    /* 2,000 bytes down, 4,024 up, two latencies, four pieces in between without a gap. */
    assert_int_equal(result.end_ns, SECOND + 20 * MILLISECOND + 6024 * MILLISECOND / 1000);
    assert_int_equal(result.upload_bytes, 3 * 4000);
}

/* List scheduling: the worker that is free first takes the next piece. */
static uint64_t list_schedule(const world *all, uint64_t round, uint32_t workers, uint32_t pieces)
{
    uint64_t free_ns[16] = {0}, end_ns = 0;
    uint32_t done[16] = {0};
    for (uint32_t piece = 0; piece < workers * pieces; piece++) {
        uint32_t first = 0;
        for (uint32_t worker = 1; worker < workers; worker++)
            if (free_ns[worker] < free_ns[first])
                first = worker;
        free_ns[first] += tarry_straggler_time_ns(all->straggler, round, first, done[first]++,
                                                  piece / pieces, pieces, 0);
        end_ns = network_later(end_ns, free_ns[first]);
    }
    return end_ns;
}

WORLD(queues_without_backups_are_list_schedules)
{
    lone_copies(all, 9, 5, "shifted-exp:0.5,1/chunk+slow:2,3");
    all->straggler_seed = test_seed("baseline_queue", 5);
    world_begin(all);
    OWNED(baseline) plain = begin_model(all, (baseline_settings){.kind = BASELINE_QUEUE});
    OWNED(baseline)
    backed = begin_model(all, (baseline_settings){.kind = BASELINE_QUEUE, .backups = true});
    double saved = 0;
    for (uint64_t round = 0; round < 30; round++) {
        tarry_round_result result = model_round(plain), with = model_round(backed);
        assert_int_equal(result.end_ns - result.start_ns, list_schedule(all, round, 9, 5));
        assert_int_equal(result.copies_computed, 45);
        assert_true(with.exact && with.copies_coded == 45);
        assert_true(with.end_ns - with.start_ns <= result.end_ns - result.start_ns);
        saved += world_seconds(&result) - world_seconds(&with);
    }
    assert_true(saved > 0);
}

TEST(the_piece_that_would_end_last_is_backed_up)
{
    world all;
    /* One of four workers is slow. Pieces of cost 1 take 0.5 s, on the slow one 2 s. */
    lone_copies(&all, 4, 2, "slow:1,4");
    const double costs[] = {0.25, 0.25, 0.25, 0.25, 4, 4, 1, 1};
    all.settings.chunk_cost = costs;
    /*
     * 0.125 s: the fast workers begin pieces 4 and 5, which end at 2.125 s, and piece 6.
     * 0.5 s: the slow worker begins piece 7, which it would end at 2.5 s.
     * 0.625 s: the third fast worker has finished piece 6. It can end 7 at 1.125 s, and would not
     * help with pieces 4 and 5, which were given away before.
     */
    baseline_settings own = {.kind = BASELINE_QUEUE};
    assert_int_equal(lone_round(&all, own).end_ns, 5 * SECOND / 2);
    own.backups = true;
    tarry_round_result result = lone_round(&all, own);
    assert_true(result.exact);
    assert_int_equal(result.end_ns, 17 * SECOND / 8);
    assert_int_equal(result.copies_computed, 8);
}

/* A queue that knows all times, step by step. */
typedef struct schedule {
    const world *all;
    uint64_t round, now;
    uint32_t workers, pieces, given;
    uint32_t at[16]; /* the piece that a worker computes; NOTHING */
    uint32_t done[16];
    uint64_t ends_ns[16];
    bool finished[16 * 16];
} schedule;

#define NOTHING UINT32_MAX

static uint64_t time_of(const schedule *own, uint32_t worker, uint32_t piece)
{
    return tarry_straggler_time_ns(own->all->straggler, own->round, worker, own->done[worker],
                                   piece / own->pieces, own->pieces, 0);
}

/* The first or the last of the workers at the piece; NOTHING if there is none. */
static uint32_t worker_at(const schedule *own, uint32_t piece, bool last)
{
    uint32_t found = NOTHING;
    for (uint32_t worker = 0; worker < own->workers; worker++)
        if (own->at[worker] == piece &&
            (found == NOTHING || (own->ends_ns[worker] > own->ends_ns[found]) == last))
            found = worker;
    return found;
}

/* The piece that ends last of those that the worker would end earlier. */
static uint32_t best_backup(const schedule *own, uint32_t worker)
{
    uint32_t best = NOTHING;
    uint64_t best_ns = 0;
    for (uint32_t piece = 0; piece < own->workers * own->pieces; piece++) {
        uint32_t first = own->finished[piece] ? NOTHING : worker_at(own, piece, false);
        if (first != NOTHING && own->ends_ns[first] > best_ns &&
            own->now + time_of(own, worker, piece) < own->ends_ns[first]) {
            best = piece;
            best_ns = own->ends_ns[first];
        }
    }
    return best;
}

static void find_work(schedule *own, uint32_t worker)
{
    bool left = own->given < own->workers * own->pieces;
    uint32_t piece = left ? own->given++ : best_backup(own, worker);
    if (piece == NOTHING)
        return;
    uint32_t last = worker_at(own, piece, true);
    if (worker_at(own, piece, false) != last)
        own->at[last] = NOTHING;
    own->at[worker] = piece;
    own->ends_ns[worker] = own->now + time_of(own, worker, piece);
}

static uint64_t known_schedule(const world *all, uint64_t round, uint32_t workers, uint32_t pieces)
{
    schedule own = {.all = all, .round = round, .workers = workers, .pieces = pieces};
    for (uint32_t worker = 0; worker < workers; worker++)
        own.at[worker] = NOTHING;
    for (uint32_t worker = 0; worker < workers; worker++)
        find_work(&own, worker);
    for (uint32_t left = workers * pieces; left > 0; left--) {
        uint32_t next = NOTHING;
        for (uint32_t worker = 0; worker < workers; worker++)
            if (own.at[worker] != NOTHING &&
                (next == NOTHING || own.ends_ns[worker] < own.ends_ns[next]))
                next = worker;
        uint32_t piece = own.at[next];
        own.now = own.ends_ns[next];
        own.finished[piece] = true;
        own.done[next]++;
        own.at[next] = NOTHING;
        uint32_t other = worker_at(&own, piece, false);
        if (other != NOTHING)
            own.at[other] = NOTHING;
        find_work(&own, next);
        if (other != NOTHING)
            find_work(&own, other);
    }
    return own.now;
}

TEST(backups_go_by_known_speeds)
{
    const char *const specs[] = {"exp:1", "shifted-exp:0.5,1/chunk+slow:2,3", "pareto:1,1.1"};
    uint64_t seed = test_seed("baseline_queue", 5);
    for (uint32_t i = 0; i < 9; i++) {
        OWNED(world) all;
        uint32_t pieces = i / 3 * 3 + 1;
        lone_copies(&all, 12, pieces, specs[i % 3]);
        all.straggler_seed = seed + i;
        world_begin(&all);
        OWNED(baseline)
        model = begin_model(&all, (baseline_settings){.kind = BASELINE_QUEUE, .backups = true});
        for (uint64_t round = 0; round < 30; round++) {
            tarry_round_result result = model_round(model);
            assert_true(result.exact && result.copies_coded == 12 * pieces);
            assert_int_equal(result.end_ns - result.start_ns,
                             known_schedule(&all, round, 12, pieces));
        }
    }
}

/* Whoever dies, and whatever is on its way then: no piece is lost as long as a worker is left. */
TEST(pieces_of_the_dead_are_put_back)
{
    const char *const specs[] = {"exp:1/chunk+fail:0.3+rejoin:1", "exp:1+fail:0.5+rejoin:0.1",
                                 "dead:3+fail:0.4+rejoin:2+shifted-exp:0.1,1"};
    uint32_t lost = 0, failed = 0;
    uint64_t again = 0;
    for (uint32_t i = 0; i < 12; i++) {
        OWNED(world) all;
        lone_copies(&all, 8, 4, specs[i % 3]);
        all.straggler_seed = test_seed("baseline_queue", 5) + i;
        all.settings.server.silence_ns = SECOND / 2;
        all.settings.dimension = all.settings.parameter_bytes = 10000;
        all.settings.link = (tarry_sim_link){.latency_ns = i % 2 * 100 * MILLISECOND,
                                             .bytes_per_second = i % 4 < 2 ? INFINITY : 1e5};
        all.settings.server_bytes_per_second = i % 4 < 2 ? 2e5 : INFINITY;
        world_begin(&all);
        OWNED(baseline)
        model =
            begin_model(&all, (baseline_settings){.kind = BASELINE_QUEUE, .backups = i % 5 != 0});
        for (int round = 0; round < 40; round++) {
            tarry_round_result result = model_round(model);
            assert_true(result.end_ns > result.start_ns || result.workers_lost == 8);
            assert_int_equal(result.exact, result.error == TARRY_OK);
            if (result.error == TARRY_OK) {
                assert_int_equal(result.copies_coded, 32);
                assert_true(result.copies_computed >= 32);
                again += result.copies_computed - 32;
            } else {
                assert_int_equal(result.workers_lost, 8);
                failed++;
            }
            lost += result.workers_lost;
        }
    }
    printf("%u workers lost, %u rounds without any left, %u pieces once more\n", lost, failed,
           (unsigned)again);
    assert_true(lost > 100 && again > 0 && failed < 100);
}
