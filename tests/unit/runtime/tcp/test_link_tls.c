/* SPDX-License-Identifier: Apache-2.0 */
/* TLS over two sockets, without a loop: how keys are renewed, and that a peer can't do it for ever.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <unistd.h>

#include "pair.h"
#include "runtime/tcp/net/channel.h"
#include "test.h"

enum {
    RECORD_BYTES = 16 << 10,
    LENGTH = 1 << 20,
    FEW_RECORDS = 8,
    MANY_RECORDS = LENGTH / RECORD_BYTES,
    ROUNDS = 40, /* more than renewals that are free */
    PIECE = 50000,
    MANY_RENEWALS = 10000,
    MOST_TURNS = 100000,
    SIDES = 2,
};

typedef struct side {
    link_tls tls;
    int fd;
    size_t sent, got;
} side;

typedef struct world {
    pair_contexts contexts;
    side sides[SIDES];
    uint8_t bytes[LENGTH];
} world;

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
        assert_ok(link_tls_init(&its->tls, ssl, fds[i]));
        if (most_records > 0)
            its->tls.most_records = most_records;
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

OWNED_BY(world, world_free)

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

TEST(test_keys_are_renewed)
{
    OWNED(world) w = world_make(MANY_RECORDS);
    for (size_t round = 1; round <= ROUNDS; round++)
        exchange(w, round * LENGTH);
    /* While there is no room a key lasts longer, but there is some when a round begins. */
    for (int i = 0; i < SIDES; i++) {
        assert_true(w->sides[i].tls.renewals >= ROUNDS - 1);
        assert_true(w->sides[i].tls.renewals <= ROUNDS);
    }
}

/* Small writes are records, too, and nothing is renewed before its time. */
TEST(test_records_are_counted)
{
    OWNED(world) w = world_make(FEW_RECORDS);
    side *from = &w->sides[0], *to = &w->sides[1];
    for (size_t most = 1; most <= 3 * FEW_RECORDS + 1; most++) {
        send_some(w, from, most);
        for (int turn = 0; to->got < most; turn++) {
            assert_true(turn < MOST_TURNS);
            receive_some(w, to);
        }
        assert_int_equal(to->tls.renewals, (most - 1) / FEW_RECORDS);
    }
    assert_int_equal(from->tls.renewals, 0);
}

TEST(test_as_it_is)
{
    OWNED(world) w = world_make(0);
    assert_int_equal(w->sides[0].tls.most_records, 1 << 22);
    exchange(w, LENGTH);
    assert_int_equal(w->sides[0].tls.records, LENGTH / RECORD_BYTES);
    assert_int_equal(w->sides[1].tls.renewals, 0);
}

/* As much as there is room for. False: there is none any more. */
static bool renew(side *its)
{
    if (!has_room(its) || SSL_key_update(its->tls.ssl, SSL_KEY_UPDATE_NOT_REQUESTED) != 1)
        return false;
    return SSL_do_handshake(its->tls.ssl) == 1;
}

/* There is always one more to be read, which a reader can't see the end of by itself. */
TEST(test_renewing_for_ever)
{
    OWNED(world) w = world_make(0);
    side *from = &w->sides[0], *to = &w->sides[1];
    char failure[LINK_FAILURE_TEXT] = "";
    uint8_t place[PIECE];
    const struct iovec part = {.iov_base = place, .iov_len = sizeof(place)};
    for (int i = 0; i < 16; i++)
        assert_true(renew(from));
    send_some(w, from, PIECE);
    for (int turn = 0; to->got < PIECE; turn++) {
        assert_true(turn < MOST_TURNS);
        receive_some(w, to);
    }
    int renewed = 0;
    ptrdiff_t got = LINK_AGAIN;
    for (int turn = 0; got != LINK_BROKEN; turn++) {
        assert_true(turn < MOST_TURNS);
        for (int i = 0; i < MANY_RENEWALS && renew(from); i++)
            renewed++;
        got = link_tls_read(&to->tls, &part, 1, failure);
        assert_true(got == LINK_AGAIN || got == LINK_BROKEN);
    }
    assert_string_equal(failure, "renews its keys too often");
    assert_true(renewed > 0);
    /* What was in the buffer already is all that it still looks at. */
    assert_true(to->tls.renewals <= 16 + 1 + (64 << 10) / 20);
}
