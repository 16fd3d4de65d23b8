/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where everyone gets the sum, workers are processes, and die, stop or lose connections wherever a
 * seed says: every sum that is stepped on is right, all who step on it have the same bits, and
 * nothing hangs. TARRY_TEST_DEATHS says how many deaths there are in each test, and each is told.
 */

#include "mortal_party.h"
#include "seed.h"
#include "test.h"

enum { WORKERS = 5, CHUNKS = 10, LONG = 40 };

static uint32_t deaths_of(uint32_t usual)
{
    const char *text = getenv("TARRY_TEST_DEATHS");
    return text != NULL ? (uint32_t)atoi(text) : test_is_long() ? LONG : usual;
}

static void die(const char *name, party_settings settings, uint32_t deaths)
{
    settings.workers = WORKERS;
    settings.chunks = CHUNKS;
    settings.replication = 3;
    settings.seed = test_seed(name, 1);
    party its;
    party_begin(&its, &settings);
    while (its.deaths < deaths_of(deaths))
        party_lose_some(&its);
    party_end(&its, name);
}

TEST(deaths_over_connections)
{
    die("deaths over connections", (party_settings){.dimension = 70000}, 12);
}

TEST(deaths_over_tls)
{
    die("deaths over TLS", (party_settings){.dimension = 70000, .tls = true}, 4);
}

/* What each number may be off by is less than a step of each part. */
TEST(deaths_while_numbers_are_rounded)
{
    die("deaths in int8", (party_settings){.dimension = 70000, .compress = TARRY_COMPRESS_INT8},
        10);
    die("deaths in bf16 over TLS",
        (party_settings){.dimension = 70000, .compress = TARRY_COMPRESS_BF16, .tls = true}, 3);
    die("deaths in int8 in shared memory",
        (party_settings){.dimension = 20000, .compress = TARRY_COMPRESS_INT8, .shares = true}, 3);
}

TEST(deaths_in_shared_memory)
{
    die("deaths in shared memory", (party_settings){.dimension = 20000, .shares = true}, 4);
}

/* Others sum on without one that is stopped, and it catches up with them. */
static void stop_one(bool shares, mortal_place place)
{
    party its;
    const party_settings settings = {
        .workers = WORKERS,
        .chunks = CHUNKS,
        .replication = 3,
        .dimension = 20000,
        .shares = shares,
        .silence_ns = 1000000000,
    };
    party_begin(&its, &settings);
    party_stop(&its, 1, place);
    for (int round = 0; round < 3; round++)
        party_round(&its);
    assert_true(its.failed == 0 && its.crowd.area->slots[1].step + 3 <= its.last.step);
    mortals_continue(&its.crowd, 1);
    party_end(&its, mortal_place_names[place]);
}

TEST(a_stopped_worker_holds_nobody_up)
{
    stop_one(false, MORTAL_PART);
    stop_one(true, MORTAL_ENCODED);
    stop_one(false, MORTAL_STEPS_NOW);
    stop_one(false, MORTAL_SUM);
}

/* TARRY_TEST_ROUNDS: how many. */
TEST(a_long_run_with_everything)
{
    const char *text = getenv("TARRY_TEST_ROUNDS");
    party its;
    const party_settings settings = {
        .workers = WORKERS,
        .chunks = CHUNKS,
        .replication = 3,
        .dimension = 70000,
        .seed = test_seed("a long run", 1),
        .silence_ns = 1000000000,
    };
    party_begin(&its, &settings);
    party_endure(&its, text != NULL ? (uint32_t)atoi(text) : test_is_long() ? 100 : 20, 3);
    party_end(&its, "a long run");
}

int main(int count, char **arguments)
{
    mortal_main(count, arguments);
    return test_main(count, arguments);
}
