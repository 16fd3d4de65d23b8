/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where everyone gets the sum, workers are processes, and die, stop or lose connections wherever a
 * seed says: every sum that is stepped on is right, all who step on it have the same bits, and
 * nothing hangs. TARRY_TEST_DEATHS says how many deaths there are in each test, and each is told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "mortal_party.h"
#include "seed.h"

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

static void deaths_over_connections(void **state)
{
    (void)state;
    die("deaths over connections", (party_settings){.dimension = 70000}, 14);
}

static void deaths_over_tls(void **state)
{
    (void)state;
    die("deaths over TLS", (party_settings){.dimension = 70000, .tls = true}, 4);
}

static void deaths_in_shared_memory(void **state)
{
    (void)state;
    die("deaths in shared memory", (party_settings){.dimension = 20000, .shares = true}, 4);
}

int main(int count, char **arguments)
{
    mortal_main(count, arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deaths_over_connections),
        cmocka_unit_test(deaths_over_tls),
        cmocka_unit_test(deaths_in_shared_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
