/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/server/newcomers.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

#include "runtime/tcp/server/peer.h"

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

void newcomers_init(newcomers *self, uint32_t workers, uint32_t wanted, uint32_t connections)
{
    struct rlimit files;
    uint64_t most = wanted > 0 ? wanted : (uint64_t)workers + NEWCOMERS_MORE;
    if (most > connections)
        most = connections;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY &&
        most > files.rlim_cur / FILES_FRACTION)
        most = files.rlim_cur / FILES_FRACTION;
    self->most = most > LEAST ? (uint32_t)most : LEAST;
    self->workers = workers;
}

void newcomers_add(peers *all, peer *who)
{
    newcomers *self = &all->newcomers;
    while (self->count >= self->most)
        newcomers_displace(all);
    who->elder = self->youngest;
    if (who->elder != NULL)
        who->elder->younger = who;
    else
        self->oldest = who;
    self->youngest = who;
    self->count++;
}

void newcomers_remove(peers *all, peer *who)
{
    newcomers *self = &all->newcomers;
    assert(self->count > 0);
    if (who->elder != NULL)
        who->elder->younger = who->younger;
    else
        self->oldest = who->younger;
    if (who->younger != NULL)
        who->younger->elder = who->elder;
    else
        self->youngest = who->elder;
    who->elder = who->younger = NULL;
    self->count--;
}

/* How much is known of it: a handshake that has got on speaks for it. */
static standing standing_of(const peer *who)
{
    if (who->trusted)
        return VERIFIED;
    const SSL *ssl = channel_ssl(who->channel);
    OSSL_HANDSHAKE_STATE state = SSL_get_state(ssl);
    if (state == TLS_ST_BEFORE || state == TLS_ST_SR_CLNT_HELLO)
        return STRANGER;
    return SSL_is_init_finished(ssl) ? VERIFIED : ANSWERED;
}

bool newcomers_displace(peers *all)
{
    newcomers *self = &all->newcomers;
    peer *first = NULL;
    standing least = VERIFIED;
    for (peer *who = self->oldest; who != NULL; who = who->younger) {
        standing now = standing_of(who);
        if (first == NULL || now < least) {
            first = who;
            least = now;
        }
        if (least == STRANGER)
            break;
    }
    if (first == NULL)
        return false;
    self->displaced++;
    peer_end(first, 0);
    return true;
}

bool newcomers_may_come(const newcomers *self, uint32_t displaced, uint32_t listeners)
{
    uint32_t each = self->count / DISPLACED_FRACTION / listeners;
    return self->displaced - displaced < (each > 0 ? each : 1);
}

static void tell(const peers *all, const char *from, const char *why)
{
    all->events.turned_away(all->events.user, WIRE_ANY_WORKER, from, why);
}

bool newcomers_refused(peers *all, bool introduced, const char *from, const char *why)
{
    newcomers *self = &all->newcomers;
    const bucket_size words = {WORDS_MORE + (double)self->workers, WORDS_BACK};
    /* A crowd of strangers does not leave a member without an answer to what it has said. */
    if (!bucket_take(&self->words[introduced], words, 1, all->events.now(all->events.user))) {
        self->unsaid++;
        return false;
    }
    tell(all, from, why);
    return true;
}

void newcomers_tick(peers *all, uint64_t now)
{
    newcomers *self = &all->newcomers;
    char text[128];
    if (now - self->told_ns < TELL_NS || self->displaced + self->unsaid == 0)
        return;
    self->told_ns = now;
    if (self->displaced > 0) {
        snprintf(text, sizeof(text),
                 "%" PRIu32 " that had not said who they are made room for others",
                 self->displaced);
        tell(all, "", text);
    }
    if (self->unsaid > 0) {
        snprintf(text, sizeof(text), "%" PRIu32 " more were turned away", self->unsaid);
        tell(all, "", text);
    }
    self->displaced = self->unsaid = 0;
}
