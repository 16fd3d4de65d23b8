/* SPDX-License-Identifier: Apache-2.0 */
/* Control connections: what arrives, what waits, who is let in, and what hostile sides can do. */
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <tarry/control.h>

#include "key_folder.h"
#include "runtime/tcp/net/address.h"
#include "script.h"
#include "test.h"

#define LIMIT_NS UINT64_C(60000000000)

OWNED_BY(tarry_control, tarry_control_free)

static tarry_control *begin(const char *listen, const char *connect, const char *credentials)
{
    tarry_control_settings settings;
    tarry_control *made;
    tarry_diagnostic why;
    tarry_control_settings_init(&settings);
    settings.listen = listen;
    settings.connect = connect;
    settings.security.credentials = credentials;
    settings.security.insecure = credentials == NULL;
    assert_ok_or(why, tarry_control_create(&settings, NULL, &made, &why));
    return made;
}

/* The next connection; lines on others are skipped. */
static tarry_control_arrival accept_one(tarry_control *its)
{
    tarry_control_arrival arrival;
    tarry_diagnostic why;
    do
        assert_ok_or(why, tarry_control_accept(its, LIMIT_NS, &arrival, &why));
    while (arrival.peer == 0);
    return arrival;
}

static void await_line(tarry_control *its, const char *part)
{
    tarry_control_arrival arrival = {.text = ""};
    tarry_diagnostic why;
    while (strstr(arrival.text, part) == NULL)
        assert_ok_or(why, tarry_control_accept(its, LIMIT_NS, &arrival, &why));
}

typedef struct pair {
    tarry_control *listens, *connects;
    uint64_t here, there; /* the connection, at both */
} pair;

static void pair_free(pair *its)
{
    tarry_control_free(its->connects);
    tarry_control_free(its->listens);
}
OWNED_STRUCT_BY(pair, pair_free)

static void pair_begin(pair *its, const char *at)
{
    its->listens = begin(at, NULL, NULL);
    its->connects = begin(NULL, tarry_control_address(its->listens), NULL);
    its->there = accept_one(its->connects).peer;
    its->here = accept_one(its->listens).peer;
}

static void say(tarry_control *its, uint64_t peer, uint32_t kind, const void *bytes, size_t size)
{
    tarry_diagnostic why;
    assert_ok_or(why, tarry_control_say(its, peer, kind, bytes, size, LIMIT_NS, &why));
}

/* The next message is this one. */
static void hears(tarry_control *its, uint64_t peer, uint32_t kind, const void *bytes, size_t size)
{
    tarry_control_message came;
    tarry_diagnostic why;
    assert_ok_or(why, tarry_control_take(its, peer, LIMIT_NS, &came, &why));
    assert_int_equal(came.kind, kind);
    assert_int_equal(came.size, size);
    assert_memory_equal(came.bytes, bytes, size);
    tarry_control_release(its, &came);
}

static void hears_the_end(tarry_control *its, uint64_t peer)
{
    tarry_control_message came;
    tarry_diagnostic why;
    assert_int_equal(tarry_control_take(its, peer, LIMIT_NS, &came, &why), TARRY_ERROR_SYSTEM);
    assert_true(why.text[0] != '\0');
    assert_false(tarry_control_is_open(its, peer));
}

static const char *const places[] = {"127.0.0.1:0", "unix:@tarry-test-control", ":0"};

TEST(messages_arrive_whole_and_in_order_on_both_sides)
{
    uint8_t *large = checked_calloc(TARRY_CONTROL_MESSAGE_MOST, 1);
    for (uint32_t i = 0; i < 2; i++) {
        OWNED(pair) its;
        pair_begin(&its, places[i]);
        assert_true(tarry_control_is_open(its.connects, its.there));
        for (uint8_t at = 1; at < 100; at++) {
            large[0] = at;
            say(its.connects, its.there, at, large, at % 10 == 0 ? TARRY_CONTROL_MESSAGE_MOST : at);
            hears(its.listens, its.here, at, large, at % 10 == 0 ? TARRY_CONTROL_MESSAGE_MOST : at);
            say(its.listens, its.here, 1000U + at, large, 1);
            hears(its.connects, its.there, 1000U + at, large, 1);
        }
    }
    free(large);
}

TEST(a_message_has_a_byte_and_at_most_a_mebibyte)
{
    OWNED(pair) its;
    tarry_diagnostic why;
    uint8_t *large = checked_calloc(TARRY_CONTROL_MESSAGE_MOST + 1, 1);
    pair_begin(&its, places[0]);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(tarry_control_say(its.connects, its.there, 0, large,
                                           i * (TARRY_CONTROL_MESSAGE_MOST + 1), 0, &why),
                         TARRY_ERROR_ARGUMENT);
    free(large);
}

/* What is said waits for a side that takes nothing, and is all there when it does. */
TEST(a_side_that_takes_nothing_makes_the_other_wait)
{
    OWNED(pair) its;
    tarry_diagnostic why = {"not empty"};
    uint8_t *large = checked_calloc(TARRY_CONTROL_MESSAGE_MOST, 1);
    pair_begin(&its, places[0]);
    uint32_t said = 0;
    int error;
    while ((error = tarry_control_say(its.connects, its.there, said, large,
                                      TARRY_CONTROL_MESSAGE_MOST, 300000000, &why)) == TARRY_OK)
        assert_true(++said < 100);
    assert_int_equal(error, TARRY_ERROR_STATE);
    assert_string_equal(why.text, "");
    assert_true(said >= 4);
    for (uint32_t i = 0; i < said; i++)
        hears(its.listens, its.here, i, large, TARRY_CONTROL_MESSAGE_MOST);
    free(large);
}

TEST(what_was_said_before_the_end_arrives)
{
    OWNED(pair) its;
    uint8_t *large = checked_calloc(TARRY_CONTROL_MESSAGE_MOST, 1);
    pair_begin(&its, places[0]);
    for (uint32_t i = 0; i < 3; i++)
        say(its.listens, its.here, i, large, TARRY_CONTROL_MESSAGE_MOST);
    say(its.connects, its.there, 7, "unread", 6);
    tarry_control_end(its.listens, its.here);
    for (uint32_t i = 0; i < 3; i++)
        hears(its.connects, its.there, i, large, TARRY_CONTROL_MESSAGE_MOST);
    hears_the_end(its.connects, its.there);
    hears_the_end(its.listens, its.here);
    free(large);
}

TEST(the_end_of_a_side_is_noticed)
{
    OWNED(pair) its;
    tarry_diagnostic why;
    pair_begin(&its, places[0]);
    tarry_control_free(its.connects);
    its.connects = NULL;
    hears_the_end(its.listens, its.here);
    assert_int_equal(tarry_control_say(its.listens, its.here, 0, "x", 1, 0, &why),
                     TARRY_ERROR_SYSTEM);
    tarry_control_end(its.listens, 0);
    tarry_control_arrival arrival;
    assert_int_equal(tarry_control_accept(its.listens, LIMIT_NS, &arrival, &why),
                     TARRY_ERROR_SYSTEM);
}

TEST(a_side_that_connects_waits_for_who_listens)
{
    OWNED(tarry_control) connects = begin(NULL, "unix:@tarry-test-control-late", NULL);
    tarry_control_arrival arrival;
    tarry_diagnostic why = {"not empty"};
    assert_int_equal(tarry_control_accept(connects, 1000000, &arrival, &why), TARRY_ERROR_STATE);
    assert_string_equal(why.text, "");
    await_line(connects, "unix:@tarry-test-control-late: ");
    OWNED(tarry_control) listens = begin("unix:@tarry-test-control-late", NULL, NULL);
    assert_int_equal(accept_one(connects).peer, 1);
    assert_int_equal(accept_one(listens).peer, 1);
}

TEST(patience_ends)
{
    tarry_control_settings settings;
    tarry_control_arrival arrival;
    tarry_diagnostic why;
    tarry_control_settings_init(&settings);
    settings.connect = "unix:@tarry-test-control-nobody";
    settings.security.insecure = true;
    settings.patience_ns = 1000000;
    tarry_control *made;
    assert_ok(tarry_control_create(&settings, NULL, &made, &why));
    OWNED(tarry_control) its = made;
    assert_int_equal(tarry_control_accept(its, LIMIT_NS, &arrival, &why), TARRY_ERROR_SYSTEM);
    assert_says(why.text, "onnection refused");
}

static void refuses(const char *listen, const char *connect, bool insecure, int error)
{
    tarry_control_settings settings;
    tarry_control *made;
    tarry_diagnostic why;
    tarry_control_settings_init(&settings);
    settings.listen = listen;
    settings.connect = connect;
    settings.security.insecure = insecure;
    assert_int_equal(tarry_control_create(&settings, NULL, &made, &why), error);
    assert_true(why.text[0] != '\0');
}

TEST(plain_text_is_chosen_and_stays_on_this_machine)
{
    refuses("127.0.0.1:0", NULL, false, TARRY_ERROR_ARGUMENT);
    refuses(":0", NULL, true, TARRY_ERROR_ARGUMENT);
    refuses("127.0.0.1:0", "127.0.0.1:1", true, TARRY_ERROR_ARGUMENT);
    refuses(NULL, NULL, true, TARRY_ERROR_ARGUMENT);
    refuses("nonsense", NULL, true, TARRY_ERROR_FORMAT);
}

TEST(members_come_with_their_credentials_until_these_are_revoked)
{
    OWNED(key_folder) keys;
    key_folder_make(&keys, 2, (int64_t)time(NULL));
    OWNED(tarry_control)
    listens = begin("127.0.0.1:0", NULL, key_folder_member(&keys, 0, "server"));
    const char *at = tarry_control_address(listens);
    OWNED(tarry_control) one = begin(NULL, at, key_folder_member(&keys, 1, "worker-1"));
    assert_string_equal(accept_one(one).name, "server");
    tarry_control_arrival arrival = accept_one(listens);
    assert_string_equal(arrival.name, "worker-1");
    say(one, 1, 5, "over TLS", 8);
    hears(listens, arrival.peer, 5, "over TLS", 8);

    tarry_control_arrival none;
    tarry_diagnostic why;
    OWNED(tarry_control) viewer = begin(NULL, at, key_folder_member(&keys, 2, "viewer"));
    assert_int_equal(tarry_control_accept(viewer, LIMIT_NS, &none, &why), TARRY_ERROR_STATE);
    assert_says(why.text, "refused: the credential of viewer, and workers come here");
    await_line(listens, "is turned away: the credential of viewer");

    OWNED(tarry_control) plain = begin(NULL, at, NULL);
    assert_int_equal(tarry_control_accept(plain, LIMIT_NS, &none, &why), TARRY_ERROR_SYSTEM);
    assert_says(why.text, "does it want credentials?");

    key_folder_revoke(&keys, "worker-1", (int64_t)time(NULL));
    hears_the_end(listens, arrival.peer);
    hears_the_end(one, 1);
    OWNED(tarry_control) again = begin(NULL, at, key_folder_member(&keys, 3, "worker-1"));
    assert_int_equal(tarry_control_accept(again, LIMIT_NS, &none, &why), TARRY_ERROR_STATE);
    assert_says(why.text, "revoked");
}

TEST(a_side_has_the_credentials_of_its_part)
{
    OWNED(key_folder) keys;
    key_folder_make(&keys, 1, (int64_t)time(NULL));
    tarry_control_settings settings;
    tarry_control *made;
    tarry_diagnostic why;
    tarry_control_settings_init(&settings);
    settings.listen = "127.0.0.1:0";
    settings.security.credentials = key_folder_member(&keys, 0, "worker-0");
    assert_int_equal(tarry_control_create(&settings, NULL, &made, &why), TARRY_ERROR_FORMAT);
    assert_says(why.text, "not the credentials of a server");
}

TEST(another_cluster_is_refused_by_both_sides)
{
    OWNED(key_folder) keys;
    key_folder_make(&keys, 1, (int64_t)time(NULL));
    key_folder_make_other(&keys, 1, (int64_t)time(NULL));
    OWNED(tarry_control)
    listens = begin("127.0.0.1:0", NULL, key_folder_member(&keys, 0, "server"));
    char folder[128];
    snprintf(folder, sizeof(folder), "%s/worker-0", keys.other);
    OWNED(tarry_control) other = begin(NULL, tarry_control_address(listens), folder);
    tarry_control_arrival none;
    tarry_diagnostic why;
    assert_int_equal(tarry_control_accept(other, LIMIT_NS, &none, &why), TARRY_ERROR_SYSTEM);
    assert_says(why.text, "peer's certificate: of another cluster");
}

/* ---- hostile sides ---- */

static void say_hello(script *its, wire_role role, uint16_t version)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    const wire_hello hello = {
        .oldest = version, .newest = version, .role = role, .worker = WIRE_ANY_WORKER};
    assert_true(script_send(its, frame, wire_encode(WIRE_HELLO, &hello, frame)));
}

typedef struct attack {
    const char *what;
    bool hello; /* a good one goes before */
    uint8_t bytes[32];
    size_t size;
} attack;

static const attack attacks[] = {
    {"nothing", false, {0}, 0},
    {"a request of HTTP", false, "GET / HTTP/1.1\r\n\r\n", 18},
    {"zeros", false, {0}, 32},
    {"a message before HELLO", false, {5, 0, 0, 0, 23, 0, 0, 0, 1, 0, 0, 0, 'x'}, 13},
    {"a message without a byte", true, {4, 0, 0, 0, 23, 0, 0, 0, 1, 0, 0, 0}, 12},
    {"a message that is too long", true, {5, 0, 16, 0, 23, 0, 0, 0, 1, 0, 0, 0, 'x'}, 13},
    {"a message that is cut off", true, {9, 0, 0, 0, 23, 0, 0, 0, 1, 0, 0, 0, 'x'}, 13},
    {"a kind that there is not", true, {5, 0, 0, 0, 24, 0, 0, 0, 1, 0, 0, 0, 'x'}, 13},
    {"a BLOB", true, {25, 0, 0, 0, 8, 0, 0, 0, 1}, 9},
    {"a FETCH", true, {8, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}, 16},
};

TEST(hostile_bytes_end_their_connection_alone)
{
    OWNED(pair) its;
    pair_begin(&its, places[0]);
    for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
        script stranger = {.fd = -1};
        uint64_t peer = 0;
        script_open(&stranger, tarry_control_address(its.listens), 9);
        if (attacks[i].hello) {
            say_hello(&stranger, WIRE_ROLE_CONTROL, WIRE_VERSION);
            script_await(&stranger, WIRE_HELLO);
            peer = accept_one(its.listens).peer;
        }
        script_send(&stranger, attacks[i].bytes, attacks[i].size);
        shutdown(stranger.fd, SHUT_WR);
        while (script_read(&stranger))
            assert_int_equal(stranger.head.kind, WIRE_REFUSED);
        script_close(&stranger);
        if (peer != 0) {
            hears_the_end(its.listens, peer);
            tarry_control_end(its.listens, peer);
        }
        say(its.connects, its.there, 3, attacks[i].what, strlen(attacks[i].what));
        hears(its.listens, its.here, 3, attacks[i].what, strlen(attacks[i].what));
    }
}

TEST(other_roles_and_versions_are_told_why_not)
{
    OWNED(tarry_control) listens = begin(places[0], NULL, NULL);
    const struct {
        wire_role role;
        uint16_t version;
        wire_reason reason;
    } cases[] = {
        {WIRE_ROLE_WORKER, WIRE_VERSION, WIRE_REFUSED_IDENTITY},
        {WIRE_ROLE_VIEWER, WIRE_VERSION, WIRE_REFUSED_IDENTITY},
        {WIRE_ROLE_CONTROL, WIRE_VERSION - 1, WIRE_REFUSED_VERSION},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        script other = {.fd = -1};
        script_open(&other, tarry_control_address(listens), 9);
        say_hello(&other, cases[i].role, cases[i].version);
        assert_int_equal(script_reason(&other), cases[i].reason);
        script_close(&other);
    }
}

TEST(those_who_say_nothing_keep_nobody_out)
{
    enum { CROWD = 200 };
    OWNED(tarry_control) listens = begin(places[0], NULL, NULL);
    script crowd[CROWD];
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = (script){.fd = -1};
        script_open(&crowd[i], tarry_control_address(listens), 9);
    }
    OWNED(tarry_control) connects = begin(NULL, tarry_control_address(listens), NULL);
    assert_int_equal(accept_one(connects).peer, 1);
    assert_false(script_read(&crowd[0])); /* the oldest has made room */
    for (int i = 0; i < CROWD; i++)
        script_close(&crowd[i]);
}

TEST(a_server_that_is_none_is_not_believed)
{
    OWNED(tarry_control) connects = NULL;
    address found[ADDRESS_MOST];
    char text[ADDRESS_TEXT];
    uint32_t count;
    int listener;
    tarry_control_settings settings;
    tarry_control_arrival none;
    tarry_diagnostic why;
    assert_ok(address_resolve("127.0.0.1:0", true, found, &count, NULL));
    assert_ok(address_listen(&found[0], &listener, NULL));
    assert_ok(address_of(listener, &found[0], NULL));
    address_text(&found[0], text);
    tarry_control_settings_init(&settings);
    settings.connect = text;
    settings.security.insecure = true;
    settings.patience_ns = 1;
    assert_ok(tarry_control_create(&settings, NULL, &connects, &why));
    script server = {.fd = -1};
    struct pollfd comes = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&comes, 1, 60000), 1);
    script_take(&server, listener);
    script_await(&server, WIRE_HELLO);
    script_send(&server, attacks[3].bytes, attacks[3].size);
    assert_int_equal(tarry_control_accept(connects, LIMIT_NS, &none, &why), TARRY_ERROR_SYSTEM);
    assert_says(why.text, "does not speak this protocol");
    script_close(&server);
    close(listener);
}
