/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/server/newcomers.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

#include "runtime/tcp/server/tcp_server.h"

#define TELL_NS UINT64_C(1000000000)

enum {
    NEWCOMERS_MORE = 512,
    FILES_FRACTION = 4, /* the others are for workers, checkpoints, shared memory */
    LEAST = 4,
    WORDS_MORE = 64, /* refusals at a time, besides one per worker; */
    WORDS_BACK = 16, /* a second */
    /* In a turn of the loop, by all listeners, so that each is heard before it goes. */
    DISPLACED_FRACTION = 2,
};

typedef enum standing {
    STRANGER, /* has said nothing, or nothing that had an answer */
    ANSWERED, /* in the middle of a handshake */
    VERIFIED,
} standing;

void newcomers_init(tarry_tcp_server *server, uint32_t workers)
{
    newcomers *all = &server->newcomers;
    struct rlimit files;
    uint64_t most = server->settings.most_newcomers;
    if (most == 0)
        most = (uint64_t)workers + NEWCOMERS_MORE;
    if (most > server->settings.most_connections)
        most = server->settings.most_connections;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY &&
        most > files.rlim_cur / FILES_FRACTION)
        most = files.rlim_cur / FILES_FRACTION;
    all->most = most > LEAST ? (uint32_t)most : LEAST;
}

void newcomers_add(tarry_tcp_server *server, peer *its)
{
    newcomers *all = &server->newcomers;
    while (all->count >= all->most)
        newcomers_displace(server);
    its->elder = all->youngest;
    if (its->elder != NULL)
        its->elder->younger = its;
    else
        all->oldest = its;
    all->youngest = its;
    all->count++;
}

void newcomers_remove(tarry_tcp_server *server, peer *its)
{
    newcomers *all = &server->newcomers;
    assert(all->count > 0);
    if (its->elder != NULL)
        its->elder->younger = its->younger;
    else
        all->oldest = its->younger;
    if (its->younger != NULL)
        its->younger->elder = its->elder;
    else
        all->youngest = its->elder;
    its->elder = its->younger = NULL;
    all->count--;
}

/* How much is known of it: a handshake that has got on speaks for it. */
static standing standing_of(const peer *its)
{
    if (its->trusted)
        return VERIFIED;
    const SSL *ssl = channel_ssl(its->channel);
    OSSL_HANDSHAKE_STATE state = SSL_get_state(ssl);
    if (state == TLS_ST_BEFORE || state == TLS_ST_SR_CLNT_HELLO)
        return STRANGER;
    return SSL_is_init_finished(ssl) ? VERIFIED : ANSWERED;
}

bool newcomers_displace(tarry_tcp_server *server)
{
    newcomers *all = &server->newcomers;
    peer *first = NULL;
    standing least = VERIFIED;
    for (peer *its = all->oldest; its != NULL; its = its->younger) {
        standing now = standing_of(its);
        if (first == NULL || now < least) {
            first = its;
            least = now;
        }
        if (least == STRANGER)
            break;
    }
    if (first == NULL)
        return false;
    all->displaced++;
    peer_end(first, 0);
    return true;
}

bool newcomers_may_come(const tarry_tcp_server *server, uint32_t displaced)
{
    const newcomers *all = &server->newcomers;
    uint32_t each = all->count / DISPLACED_FRACTION / server->listener_count;
    return all->displaced - displaced < (each > 0 ? each : 1);
}

static void tell(tarry_tcp_server *server, const char *from, const char *why)
{
    tcp_server_notify(server, &(tarry_tcp_notice){
                                  .type = TARRY_TCP_REFUSED,
                                  .worker = TARRY_TCP_NO_WORKER,
                                  .peer = from,
                                  .text = why,
                              });
}

bool newcomers_refused(tarry_tcp_server *server, const peer *its, const char *from, const char *why)
{
    newcomers *all = &server->newcomers;
    const bucket_size words = {WORDS_MORE + (double)server->base.host->plan->workers, WORDS_BACK};
    /* A crowd of strangers does not leave a member without an answer to what it has said. */
    bool introduced = its != NULL && its->introduced;
    if (!bucket_take(&all->words[introduced], words, 1, tcp_server_now(server))) {
        all->unsaid++;
        return false;
    }
    tell(server, from, why);
    return true;
}

void newcomers_tick(tarry_tcp_server *server, uint64_t now)
{
    newcomers *all = &server->newcomers;
    char text[128];
    if (now - all->told_ns < TELL_NS || all->displaced + all->unsaid == 0)
        return;
    all->told_ns = now;
    if (all->displaced > 0) {
        snprintf(text, sizeof(text),
                 "%" PRIu32 " that had not said who they are made room for others", all->displaced);
        tell(server, "", text);
    }
    if (all->unsaid > 0) {
        snprintf(text, sizeof(text), "%" PRIu32 " more were turned away", all->unsaid);
        tell(server, "", text);
    }
    all->displaced = all->unsaid = 0;
}
