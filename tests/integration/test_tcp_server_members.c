/* SPDX-License-Identifier: Apache-2.0 */
/* The network server over TLS: members, whose certificates say who they are, and revocation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "key_folder.h"
#include "pki/authority.h"
#include "server_bench.h"

/* A bench whose server has the credentials of a new cluster. */
static void init_secure(bench *its, key_folder *keys)
{
    key_folder_make(keys);
    bench_init(its);
    its->settings.security.insecure = false;
    its->settings.security.credentials = key_folder_member(keys, 0, "server");
}

static void lets_members_in_as_who_they_are(void **state)
{
    (void)state;
    bench its;
    key_folder keys;
    init_secure(&its, &keys);
    bench_begin(&its, 1);
    const char *third = key_folder_member(&keys, 1, "worker-2"),
               *any = key_folder_member(&keys, 2, "worker");
    script one;

    script_open(&one, its.address, 1); /* without TLS */
    script_say_hello(&one, WIRE_ROLE_WORKER, 0);
    assert_int_equal(script_reason(&one), 0);
    script_close(&one);
    assert_true(script_open_secure(&one, its.address, 1, third)); /* as another */
    script_say_hello(&one, WIRE_ROLE_WORKER, 4);
    assert_int_equal(script_reason(&one), WIRE_REFUSED_IDENTITY);
    script_close(&one);
    assert_true(script_open_secure(&one, its.address, 1, third)); /* in another role */
    script_say_hello(&one, WIRE_ROLE_VIEWER, WIRE_ANY_WORKER);
    assert_int_equal(script_reason(&one), WIRE_REFUSED_IDENTITY);
    script_close(&one);
    assert_true(script_open_secure(&one, its.address, 1, key_folder_member(&keys, 3, "viewer")));
    script_say_hello(&one, WIRE_ROLE_WORKER, WIRE_ANY_WORKER);
    assert_int_equal(script_reason(&one), WIRE_REFUSED_IDENTITY);
    script_close(&one);
    bench_await_count(&its, &its.refused, 4);

    crew all = {.count = WORKERS};
    for (uint32_t i = 0; i < WORKERS; i++) {
        const char *as = i == 2 ? third : any;
        assert_true(script_open_secure(&all.workers[i], its.address, (uint8_t)(i + 1), as));
        script_join(&all.workers[i], WIRE_ANY_WORKER);
    }
    assert_int_equal(tarry_runtime_wait(its.server, WORKERS, PATIENCE_NS, NULL), TARRY_OK);
    crew_start(&all);
    for (uint32_t round = 0; round < 3; round++) {
        assert_int_equal(bench_round(&its, 2), TARRY_OK);
        assert_true_sum(&its, 2);
    }
    bench_end(&its);
    crew_dismiss(&all);
    key_folder_remove(&keys);
}

static void enter(script *its, const bench *with, uint8_t instance, const char *as)
{
    assert_true(script_open_secure(its, with->address, instance, as));
    script_join(its, WIRE_ANY_WORKER);
}

/* Members that may have any id are there first, and make room for the one whose id it is. */
static void keeps_places_for_those_they_belong_to(void **state)
{
    (void)state;
    bench its;
    key_folder keys;
    init_secure(&its, &keys);
    its.settings.server.silence_ns = UINT64_C(8000000000);
    bench_begin(&its, 1);
    const char *third = key_folder_member(&keys, 1, "worker-2"),
               *any = key_folder_member(&keys, 2, "worker");
    script strangers[WORKERS], owner, other;
    for (uint32_t i = 0; i < WORKERS; i++) {
        enter(&strangers[i], &its, (uint8_t)(i + 1), any);
        assert_int_equal(strangers[i].welcome.worker, i);
    }
    enter(&owner, &its, 7, third);
    assert_int_equal(owner.welcome.worker, 2);
    assert_int_equal(script_reason(&strangers[2]), WIRE_REFUSED_TAKEN);
    script_close(&strangers[2]);
    bench_await_count(&its, &its.joined, WORKERS + 1);

    /* It is not given to another, for all its silence: a quarter of what others may keep. */
    usleep(2100000);
    assert_true(script_open_secure(&other, its.address, 3, any));
    script_say_hello(&other, WIRE_ROLE_WORKER, 2);
    assert_int_equal(script_reason(&other), WIRE_REFUSED_TAKEN);
    script_close(&other);
    bench_end(&its);
    for (uint32_t i = 0; i < WORKERS; i++)
        if (i != 2)
            script_close(&strangers[i]);
    script_close(&owner);
    key_folder_remove(&keys);
}

/* Also one that is connected already. */
static void turns_the_revoked_away(void **state)
{
    (void)state;
    bench its;
    key_folder keys;
    init_secure(&its, &keys);
    bench_begin(&its, 1);
    const char *third = key_folder_member(&keys, 1, "worker-2");
    script one, again;
    assert_true(script_open_secure(&one, its.address, 1, third));
    script_join(&one, WIRE_ANY_WORKER);
    bench_await_count(&its, &its.joined, 1);
    const credential_identity who = {.role = CREDENTIAL_WORKER, .worker = 2};
    assert_int_equal(authority_revoke(keys.folder, who, (int64_t)time(NULL), NULL), TARRY_OK);
    assert_int_equal(script_reason(&one), WIRE_REFUSED_REVOKED);
    bench_await_count(&its, &its.left_out, 1);
    if (script_open_secure(&again, its.address, 1, third)) /* in TLS 1.3 it hears of it later */
        assert_false(script_read(&again));
    bench_await_count(&its, &its.refused, 2);
    bench_await_told(&its, "revoked");
    script_close(&again);
    script_close(&one);
    bench_end(&its);
    key_folder_remove(&keys);
}

/* A list that is damaged is not taken, which is told once; the next good one is. */
static void tells_of_a_list_that_is_not_taken(void **state)
{
    (void)state;
    bench its;
    key_folder keys;
    init_secure(&its, &keys);
    bench_begin(&its, 1);
    FILE *list = fopen(key_folder_member(&keys, 1, "server/revoked.pem"), "w");
    assert_non_null(list);
    assert_true(fputs("junk\n", list) >= 0);
    assert_int_equal(fclose(list), 0);
    bench_await_count(&its, &its.revocations, 1);
    bench_await_told(&its, "no revocation list in PEM");
    nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
    const credential_identity who = {.role = CREDENTIAL_WORKER, .worker = 2};
    assert_int_equal(authority_revoke(keys.folder, who, (int64_t)time(NULL), NULL), TARRY_OK);
    bench_await_count(&its, &its.revocations, 2);
    bench_await_told(&its, "in force");
    bench_end(&its);
    key_folder_remove(&keys);
}

/* And one that proved who it is while it was a member, and said nothing since. */
static void turns_the_revoked_away_before_they_speak(void **state)
{
    (void)state;
    bench its;
    key_folder keys;
    init_secure(&its, &keys);
    bench_begin(&its, 1);
    script quiet, joined;
    assert_true(
        script_open_secure(&quiet, its.address, 1, key_folder_member(&keys, 1, "worker-2")));
    assert_true(
        script_open_secure(&joined, its.address, 2, key_folder_member(&keys, 2, "worker-3")));
    script_join(&joined, WIRE_ANY_WORKER);
    bench_await_count(&its, &its.joined, 1);
    for (uint32_t worker = 2; worker <= 3; worker++) {
        const credential_identity who = {.role = CREDENTIAL_WORKER, .worker = worker};
        assert_int_equal(authority_revoke(keys.folder, who, (int64_t)time(NULL), NULL), TARRY_OK);
    }
    assert_int_equal(script_reason(&joined), WIRE_REFUSED_REVOKED); /* the list is in force */
    script_say_hello(&quiet, WIRE_ROLE_WORKER, WIRE_ANY_WORKER);
    assert_int_equal(script_reason(&quiet), WIRE_REFUSED_REVOKED);
    script_close(&joined);
    script_close(&quiet);
    bench_end(&its);
    key_folder_remove(&keys);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* OpenSSL's own writes to connections that the server closed */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lets_members_in_as_who_they_are),
        cmocka_unit_test(keeps_places_for_those_they_belong_to),
        cmocka_unit_test(turns_the_revoked_away),
        cmocka_unit_test(tells_of_a_list_that_is_not_taken),
        cmocka_unit_test(turns_the_revoked_away_before_they_speak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
