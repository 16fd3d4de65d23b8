/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secure sums: workers are told the rules before WELCOME, and of each other's keys. That a key is
 * good is for the workers to see, who don't take the server's word; it looks, too, so that one bad
 * key does not end all of them.
 */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/memory.h"
#include "privacy/secure/masked_counts.h"
#include "runtime/tcp/server/tcp_server.h"
#include "runtime/tcp/trust/key_proof.h"

/* Where the epoch stands in a KEY. */
enum { EPOCH_AT = WIRE_HEAD_BYTES + 4, NUMBER_BYTES = 4 };

static bool is_secure(const tarry_tcp_server *server)
{
    return server->settings.secure.bits != 0;
}

int tcp_server_check_secure(const tarry_tcp_server_settings *settings, uint32_t chunks,
                            tarry_diagnostic *diagnostic)
{
    const tarry_secure_rules *rules = &settings->secure;
    const ring grid = tcp_server_grid(rules);
    const char *fault = NULL;
    if (rules->bits != settings->server.secure)
        fault = "the rules of secure sums are of other bits than the server's settings";
    else if (rules->bits == 0)
        return TARRY_OK;
    else if (settings->security.credentials == NULL)
        fault = "secure sums need credentials";
    else if (settings->ship != NULL)
        fault = "a server of secure sums has no data to ship";
    else if (!ring_fits(&grid, chunks))
        fault = "sums of these bits and bound can wrap";
    else if (ring_bytes(&grid, settings->server.stripe_length + MASKED_COUNTS) >
             (size_t)WIRE_NUMBERS_MOST * NUMBER_BYTES)
        fault = "a masked stripe is longer than a frame can be";
    return fault == NULL ? TARRY_OK
                         : diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "network server: %s", fault);
}

int tcp_server_open_roster(tarry_tcp_server *server, tarry_diagnostic *diagnostic)
{
    if (!is_secure(server))
        return TARRY_OK;
    int error =
        credential_roster(server->credential, &server->allocator, &server->roster_file, diagnostic);
    if (error == TARRY_OK)
        memcpy(server->settings.secure.roster, server->roster_file->digest,
               sizeof(server->settings.secure.roster));
    return error;
}

void tcp_server_send_rules(const tarry_tcp_server *server, peer *who)
{
    const tarry_secure_rules *rules = &server->settings.secure;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_secure words = {
        .bits = rules->bits,
        .fraction = rules->fraction,
        .bound = rules->bound,
        .colluders = rules->colluders,
        .least = rules->least,
    };
    if (!is_secure(server))
        return;
    memcpy(words.roster, rules->roster, sizeof(words.roster));
    channel_send(who->channel, frame, wire_secure_encode(&words, frame));
}

/* Why the key is not taken; NULL: it is good. */
static const char *check_key(const tarry_tcp_server *server, const peer *who, const wire_key *words,
                             char text[CREDENTIAL_REFUSAL_SIZE])
{
    uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES];
    key_claim claim = {.worker = who->worker, .numerics = words->numerics};
    if (words->worker != who->worker || words->epoch != 0 ||
        memcmp(words->instance, server->roster.seats[who->worker].instance, WIRE_ID_BYTES) != 0)
        return "its key is not for this place and life";
    memcpy(claim.job, server->job_id, sizeof(claim.job));
    memcpy(claim.instance, words->instance, sizeof(claim.instance));
    memcpy(claim.key, words->key, sizeof(claim.key));
    if (key_proof_verify(server->credential, words->certificate, words->certificate_size,
                         words->signature, words->signature_size, &claim, fingerprint,
                         text) != TARRY_OK)
        return text;
    const uint8_t *listed = roster_file_find(server->roster_file, who->worker);
    return listed != NULL && memcmp(listed, fingerprint, sizeof(fingerprint)) == 0
               ? NULL
               : "its certificate is not in the list of workers (" ROSTER_FILE_NAME ")";
}

bool tcp_server_take_key(void *user, peer *who, const wire_key *words)
{
    tarry_tcp_server *server = user;
    char text[CREDENTIAL_REFUSAL_SIZE] = "";
    if (!is_secure(server) || who->key != NULL) {
        peer_refuse(who, WIRE_REFUSED_FORMAT, "a key that makes no sense here");
        return false;
    }
    const char *fault = check_key(server, who, words, text);
    if (fault != NULL) {
        peer_refuse(who, WIRE_REFUSED_IDENTITY, fault);
        return false;
    }
    const size_t size = WIRE_HEAD_BYTES + WIRE_KEY_FRAME_BYTES;
    who->key = memory_allocate(&server->allocator, size, 1);
    if (who->key == NULL) {
        peer_end(who, 0);
        return false;
    }
    who->key_size = wire_key_encode(words, who->key);
    who->numerics = words->numerics;
    return true;
}

static bool is_there(const peer *who)
{
    return who != NULL && (who->state == PEER_READY || who->state == PEER_TURNING);
}

bool tcp_server_masks_alike(const tarry_tcp_server *server, const peer *who,
                            const wire_ready *ready, char *why, size_t room)
{
    if (!is_secure(server))
        return true;
    if (who->key == NULL || who->numerics != ready->numerics) {
        snprintf(why, room, "has no key for secure sums");
        return false;
    }
    for (uint32_t worker = 0; worker < server->base.host->plan->workers; worker++) {
        const peer *other = tcp_server_peer(server, worker);
        if (worker == who->worker || !is_there(other) || other->numerics == who->numerics)
            continue;
        snprintf(why, room, "computes chunks to other bits than worker %u: sums can't be secure",
                 worker);
        return false;
    }
    return true;
}

/* ---- who hears of whom ---- */

void tcp_server_tell_keys(const tarry_tcp_server *server, peer *who)
{
    for (uint32_t worker = 0;
         is_secure(server) && worker < server->base.host->plan->workers && who->channel != NULL;
         worker++) {
        const peer *other = tcp_server_peer(server, worker);
        if (other != who && is_there(other))
            channel_send(who->channel, other->key, other->key_size);
    }
}

/* Its key, with the epoch that is in the frame, to all others. */
static void spread(const tarry_tcp_server *server, const peer *who)
{
    for (uint32_t worker = 0; worker < server->base.host->plan->workers; worker++) {
        const peer *other = tcp_server_peer(server, worker);
        if (other != who && is_there(other))
            channel_send(other->channel, who->key, who->key_size);
    }
}

void tcp_server_spread_key(const tarry_tcp_server *server, peer *who, uint32_t epoch)
{
    if (!is_secure(server) || bytes_get(who->key + EPOCH_AT, NUMBER_BYTES) == epoch)
        return;
    bytes_put(who->key + EPOCH_AT, epoch, NUMBER_BYTES);
    spread(server, who);
}
