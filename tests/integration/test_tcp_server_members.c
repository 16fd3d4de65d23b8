/* SPDX-License-Identifier: Apache-2.0 */
/* The network server over TLS: members, whose certificates say who they are, and revocation. */
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "key_folder.h"
#include "protocol/wire/wire_bodies.h"
#include "server_bench.h"
#include "test.h"

/* A bench whose server has the credentials of a new cluster. */
static void init_secure(bench *its, key_folder *keys)
{
    key_folder_make(keys, WORKERS, time(NULL));
    bench_init(its);
    its->settings.security.insecure = false;
    its->settings.security.credentials = key_folder_member(keys, 0, "server");
}

static void enter(script *its, const bench *with, uint8_t instance, const char *as)
{
    assert_true(script_open_secure(its, with->address, instance, as));
    script_join(its, WIRE_ANY_WORKER);
}

/* The word that a member gets for such a claim. */
static wire_reason reason_of(const bench *its, const char *as, wire_role role, uint32_t worker)
{
    script one;
    assert_true(script_open_secure(&one, its->address, 1, as));
    script_say_hello(&one, role, worker);
    wire_reason reason = script_reason(&one);
    script_close(&one);
    return reason;
}

TEST(lets_members_in_as_who_they_are)
{
    OWNED(key_folder) keys;
    OWNED(bench) its;
    init_secure(&its, &keys);
    bench_begin(&its, 1);
    const char *third = key_folder_member(&keys, 1, "worker-2"),
               *any = key_folder_member(&keys, 2, "worker");
    script one;

    script_open(&one, its.address, 1); /* without TLS */
    script_say_hello(&one, WIRE_ROLE_WORKER, 0);
    assert_int_equal(script_reason(&one), 0);
    script_close(&one);
    const char *viewer = key_folder_member(&keys, 3, "viewer");
    assert_int_equal(reason_of(&its, third, WIRE_ROLE_WORKER, 4), WIRE_REFUSED_IDENTITY);
    assert_int_equal(reason_of(&its, third, WIRE_ROLE_VIEWER, WIRE_ANY_WORKER),
                     WIRE_REFUSED_IDENTITY);
    assert_int_equal(reason_of(&its, viewer, WIRE_ROLE_WORKER, WIRE_ANY_WORKER),
                     WIRE_REFUSED_IDENTITY);
    bench_await_count(&its, &its.refused, 4);

    its.crew.count = WORKERS;
    for (uint32_t i = 0; i < WORKERS; i++) {
        const char *as = i == 2 ? third : any;
        enter(&its.crew.workers[i], &its, (uint8_t)(i + 1), as);
    }
    assert_ok(tarry_runtime_wait(its.server, WORKERS, PATIENCE_NS, NULL));
    crew_start(&its);
    for (uint32_t round = 0; round < 3; round++)
        bench_good_round(&its, 2);
}

/* Members that may have any id are there first, and make room for the one whose id it is. */
TEST(keeps_places_for_those_they_belong_to)
{
    bench its;
    OWNED(key_folder) keys;
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
}

/* Also one that is connected already. */
TEST(turns_the_revoked_away)
{
    OWNED(key_folder) keys;
    OWNED(bench) its;
    init_secure(&its, &keys);
    bench_begin(&its, 1);
    const char *third = key_folder_member(&keys, 1, "worker-2");
    script one, again;
    enter(&one, &its, 1, third);
    bench_await_count(&its, &its.joined, 1);
    key_folder_revoke(&keys, "worker-2", time(NULL));
    assert_int_equal(script_reason(&one), WIRE_REFUSED_REVOKED);
    bench_await_count(&its, &its.left_out, 1);
    if (script_open_secure(&again, its.address, 1, third)) /* in TLS 1.3 it hears of it later */
        assert_false(script_read(&again));
    bench_await_count(&its, &its.refused, 2);
    bench_await_told(&its, "revoked");
    script_close(&again);
    script_close(&one);
}

/* What it is told of a worker; it hears of the server itself, too. */
static wire_member await_member(script *its)
{
    wire_member member;
    do {
        script_await(its, WIRE_MEMBER);
        assert_ok(wire_decode(&its->head, its->body, &member));
    } while (member.worker == WORKERS);
    return member;
}

static void assert_told_of(script *its, uint32_t worker, uint8_t reached, const char *folder)
{
    uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES];
    OWNED(credential) theirs;
    wire_member member = await_member(its);
    assert_ok(credential_load(folder, NULL, &theirs, NULL));
    credential_own_fingerprint(theirs, fingerprint);
    assert_int_equal(member.worker, worker);
    assert_true(member.present);
    assert_int_equal(member.size, 1);
    assert_int_equal(member.address[0], reached);
    assert_memory_equal(member.fingerprint, fingerprint, sizeof(fingerprint));
}

/* Where they make the sum: of those who are there with their certificates, of those who have left,
 * and of one that was revoked while its connection to the server was lost. */
TEST(tells_members_of_each_other)
{
    OWNED(key_folder) keys;
    OWNED(bench) its;
    init_secure(&its, &keys);
    its.settings.server.sum = TARRY_SUM_EVERYWHERE;
    bench_begin(&its, 1);
    const char *second = key_folder_member(&keys, 1, "worker-1"),
               *third = key_folder_member(&keys, 2, "worker-2"),
               *fourth = key_folder_member(&keys, 3, "worker-3");
    script one, other, last;
    assert_true(script_open_secure(&one, its.address, 1, second));
    one.reached = 'a';
    script_join(&one, WIRE_ANY_WORKER);
    assert_int_equal(one.welcome.terms.server.sum, TARRY_SUM_EVERYWHERE);
    bench_await_count(&its, &its.joined, 1);
    assert_true(script_open_secure(&other, its.address, 2, third));
    other.reached = 'b';
    script_join(&other, WIRE_ANY_WORKER);
    assert_told_of(&one, 2, 'b', third);
    assert_told_of(&other, 1, 'a', second);

    script_close(&other); /* which changes nothing between the two */
    bench_await_count(&its, &its.left_out, 1);
    key_folder_revoke(&keys, "worker-2", time(NULL));
    wire_member member = await_member(&one);
    assert_int_equal(member.worker, 2);
    assert_false(member.present);

    assert_true(script_open_secure(&last, its.address, 3, fourth));
    last.reached = 'c';
    script_join(&last, WIRE_ANY_WORKER);
    assert_told_of(&one, 3, 'c', fourth);
    assert_told_of(&last, 1, 'a', second);
    member = await_member(&last); /* it may have heard of that one before */
    assert_int_equal(member.worker, 2);
    assert_false(member.present);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    script_send(&last, frame, wire_encode(WIRE_BYE, &(wire_bye){WIRE_BYE_LEAVING}, frame));
    member = await_member(&one);
    assert_int_equal(member.worker, 3);
    assert_false(member.present);
    script_close(&one);
    script_close(&last);
}

/* A list that is damaged is not taken, which is told once; the next good one is. */
TEST(tells_of_a_list_that_is_not_taken)
{
    OWNED(key_folder) keys;
    OWNED(bench) its;
    init_secure(&its, &keys);
    bench_begin(&its, 1);
    FILE *list = fopen(key_folder_member(&keys, 1, "server/revoked.pem"), "w");
    assert_non_null(list);
    assert_true(fputs("junk\n", list) >= 0);
    assert_int_equal(fclose(list), 0);
    bench_await_count(&its, &its.revocations, 1);
    bench_await_told(&its, "no revocation list in PEM");
    nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
    key_folder_revoke(&keys, "worker-2", time(NULL));
    bench_await_count(&its, &its.revocations, 2);
    bench_await_told(&its, "in force");
}

/* And one that proved who it is while it was a member, and said nothing since. */
TEST(turns_the_revoked_away_before_they_speak)
{
    OWNED(key_folder) keys;
    OWNED(bench) its;
    init_secure(&its, &keys);
    bench_begin(&its, 1);
    script quiet, joined;
    assert_true(
        script_open_secure(&quiet, its.address, 1, key_folder_member(&keys, 1, "worker-2")));
    enter(&joined, &its, 2, key_folder_member(&keys, 2, "worker-3"));
    bench_await_count(&its, &its.joined, 1);
    key_folder_revoke(&keys, "worker-2", time(NULL));
    key_folder_revoke(&keys, "worker-3", time(NULL));
    assert_int_equal(script_reason(&joined), WIRE_REFUSED_REVOKED); /* the list is in force */
    script_say_hello(&quiet, WIRE_ROLE_WORKER, WIRE_ANY_WORKER);
    assert_int_equal(script_reason(&quiet), WIRE_REFUSED_REVOKED);
    script_close(&joined);
    script_close(&quiet);
}

/* OpenSSL's own writes to connections that the server closed. */
static int ignore_broken_pipes(void **state)
{
    signal(SIGPIPE, SIG_IGN);
    return 0;
}

TEST_GROUP(ignore_broken_pipes, NULL)
