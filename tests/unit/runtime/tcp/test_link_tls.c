/* SPDX-License-Identifier: Apache-2.0 */
/* TLS over two sockets, without a loop: how keys are renewed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tarry/error.h>

#include "pair.h"
#include "runtime/tcp/link.h"
#include "runtime/tcp/link_tls.h"

enum {
    RECORD_BYTES = 16 << 10,
    MOST_RECORDS = 8,
    ROUNDS = 20,
    LENGTH = 1 << 20,
    PIECE = 50000,
    MOST_TURNS = 100000,
    SIDES = 2,
};

typedef struct side {
    link_tls tls;
    int fd;
    uint32_t renewed; /* KeyUpdates that came */
    size_t sent, got;
} side;

typedef struct world {
    pair_contexts contexts;
    side sides[SIDES];
    uint8_t bytes[LENGTH];
} world;

static void on_message(int written, int version, int type, const void *bytes, size_t size, SSL *ssl,
                       void *user)
{
    (void)version;
    (void)ssl;
    if (!written && type == SSL3_RT_HANDSHAKE && size > 0 &&
        *(const uint8_t *)bytes == SSL3_MT_KEY_UPDATE)
        ((side *)user)->renewed++;
}

static world *world_make(uint32_t most_records)
{
    world *w = calloc(1, sizeof(*w));
    int fds[SIDES];
    char failure[LINK_FAILURE_TEXT];
    assert_non_null(w);
    pair_contexts_make(&w->contexts);
    pair_connect(PAIR_TCP, fds);
    for (int i = 0; i < SIDES; i++) {
        side *its = &w->sides[i];
        SSL *ssl = i == 0 ? pair_accepting(&w->contexts) : pair_connecting(w->contexts.client);
        its->fd = fds[i];
        assert_int_equal(fcntl(fds[i], F_SETFL, O_NONBLOCK), 0);
        assert_int_equal(link_tls_init(&its->tls, ssl, fds[i]), TARRY_OK);
        if (most_records > 0)
            its->tls.most_records = most_records;
        SSL_set_msg_callback(ssl, on_message);
        SSL_set_msg_callback_arg(ssl, its);
    }
    int came_to[SIDES] = {LINK_AGAIN, LINK_AGAIN};
    for (int turn = 0; came_to[0] != TARRY_OK || came_to[1] != TARRY_OK; turn++) {
        assert_true(turn < MOST_TURNS);
        for (int i = 0; i < SIDES; i++)
            if (came_to[i] != TARRY_OK)
                came_to[i] = link_tls_handshake(&w->sides[i].tls, failure);
        usleep(came_to[0] != TARRY_OK || came_to[1] != TARRY_OK ? 100 : 0);
    }
    for (size_t i = 0; i < LENGTH; i++)
        w->bytes[i] = (uint8_t)(i * 7 + (i >> 8) * 13);
    return w;
}

static void world_free(world *w)
{
    for (int i = 0; i < SIDES; i++) {
        link_tls_free(&w->sides[i].tls);
        close(w->sides[i].fd);
    }
    pair_contexts_free(&w->contexts);
    free(w);
}

/* As a link does, which hears from its loop when there is room. */
static bool has_room(const side *its)
{
    struct pollfd room = {.fd = its->fd, .events = POLLOUT};
    return poll(&room, 1, 0) == 1;
}

static void send_some(world *w, side *its, size_t most)
{
    char failure[LINK_FAILURE_TEXT] = "";
    size_t at = its->sent % LENGTH;
    size_t size = most - its->sent;
    if (size > LENGTH - at)
        size = LENGTH - at;
    if (size == 0)
        return;
    const struct iovec part = {.iov_base = w->bytes + at, .iov_len = size};
    ptrdiff_t sent = link_tls_write(&its->tls, &part, 1, failure);
    assert_string_equal(failure, "");
    assert_true(sent > 0 || sent == LINK_AGAIN);
    its->sent += sent > 0 ? (size_t)sent : 0;
}

static void receive_some(world *w, side *its)
{
    char failure[LINK_FAILURE_TEXT] = "";
    uint8_t place[PIECE];
    const struct iovec part = {.iov_base = place, .iov_len = sizeof(place)};
    ptrdiff_t got = link_tls_read(&its->tls, &part, 1, failure);
    assert_string_equal(failure, "");
    assert_true(got > 0 || got == LINK_AGAIN);
    for (ptrdiff_t i = 0; i < got; i++)
        assert_int_equal(place[i], w->bytes[its->got++ % LENGTH]);
}

/* Both write all the time and read seldom, so that writes are cut short. */
static void exchange(world *w, size_t most)
{
    for (int turn = 0; w->sides[0].got < most || w->sides[1].got < most; turn++) {
        assert_true(turn < MOST_TURNS);
        for (int i = 0; i < SIDES; i++) {
            if (has_room(&w->sides[i]))
                send_some(w, &w->sides[i], most);
            receive_some(w, &w->sides[1 - i]);
        }
    }
}

static void test_keys_are_renewed(void **state)
{
    (void)state;
    world *w = world_make(MOST_RECORDS);
    for (size_t round = 1; round <= ROUNDS; round++)
        exchange(w, round * LENGTH);
    /* While there is no room a key lasts longer, but there is some when a round begins. */
    for (int i = 0; i < SIDES; i++) {
        assert_true(w->sides[i].renewed >= ROUNDS - 1);
        assert_true(w->sides[i].renewed <= ROUNDS * LENGTH / RECORD_BYTES / MOST_RECORDS);
    }
    world_free(w);
}

/* Small writes are records, too, and nothing is renewed before its time. */
static void test_records_are_counted(void **state)
{
    (void)state;
    world *w = world_make(MOST_RECORDS);
    side *from = &w->sides[0], *to = &w->sides[1];
    for (size_t most = 1; most <= 3 * MOST_RECORDS + 1; most++) {
        send_some(w, from, most);
        for (int turn = 0; to->got < most; turn++) {
            assert_true(turn < MOST_TURNS);
            receive_some(w, to);
        }
        assert_int_equal(to->renewed, (most - 1) / MOST_RECORDS);
    }
    assert_int_equal(from->renewed, 0);
    world_free(w);
}

static void test_as_it_is(void **state)
{
    (void)state;
    world *w = world_make(0);
    assert_int_equal(w->sides[0].tls.most_records, 1 << 22);
    exchange(w, LENGTH);
    assert_int_equal(w->sides[0].tls.records, LENGTH / RECORD_BYTES);
    assert_int_equal(w->sides[1].renewed, 0);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_are_renewed),
        cmocka_unit_test(test_records_are_counted),
        cmocka_unit_test(test_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
