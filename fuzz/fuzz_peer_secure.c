/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secure sums in fuzz_peer.c. No connection is encrypted, and nobody has a certificate: a worker's
 * stands for itself as its number, and a signature is good if it is even. What is masked is of no
 * matter to the server, except for the count of chunks and the check words.
 */
#include <string.h>

#include "base/bytes.h"
#include "fuzz_peer.h"
#include "protocol/wire/wire_bodies.h"
#include "runtime/masked_words.h"
#include "runtime/tcp/trust/credential.h"

int __wrap_tcp_server_check_secure(const tarry_tcp_server_settings *settings, uint32_t chunks,
                                   tarry_diagnostic *diagnostic);
int __wrap_tcp_server_open_roster(tarry_tcp_server *server, tarry_diagnostic *diagnostic);
int __wrap_key_proof_verify(const credential *self, const uint8_t *certificate,
                            size_t certificate_size, const uint8_t *signature,
                            size_t signature_size, const key_claim *claim,
                            uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES],
                            char text[CREDENTIAL_REFUSAL_SIZE]);
const uint8_t *__wrap_roster_file_find(const roster_file *self, uint32_t worker);

/* ---- what credentials are for ---- */

/* Without any. */
int __wrap_tcp_server_check_secure(const tarry_tcp_server_settings *settings, uint32_t chunks,
                                   tarry_diagnostic *diagnostic)
{
    (void)diagnostic;
    const ring grid = tcp_server_grid(&settings->secure);
    return settings->secure.bits == 0 || ring_fits(&grid, chunks) ? TARRY_OK : TARRY_ERROR_ARGUMENT;
}

int __wrap_tcp_server_open_roster(tarry_tcp_server *server, tarry_diagnostic *diagnostic)
{
    (void)diagnostic;
    memset(server->settings.secure.roster, 7, sizeof(server->settings.secure.roster));
    return TARRY_OK;
}

int __wrap_key_proof_verify(const credential *self, const uint8_t *certificate,
                            size_t certificate_size, const uint8_t *signature,
                            size_t signature_size, const key_claim *claim,
                            uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES],
                            char text[CREDENTIAL_REFUSAL_SIZE])
{
    (void)self;
    (void)claim;
    require(certificate_size > 0 && signature_size > 0);
    strcpy(text, "its signature is odd");
    memset(fingerprint, certificate[certificate_size - 1], CREDENTIAL_FINGERPRINT_BYTES);
    return signature[signature_size - 1] % 2 == 0 ? TARRY_OK : TARRY_ERROR_FORMAT;
}

const uint8_t *__wrap_roster_file_find(const roster_file *self, uint32_t worker)
{
    static uint8_t listed[FUZZ_MOST_WORKERS][CREDENTIAL_FINGERPRINT_BYTES];
    (void)self;
    require(worker < FUZZ_MOST_WORKERS);
    memset(listed[worker], (int)worker, CREDENTIAL_FINGERPRINT_BYTES);
    return listed[worker];
}

/* ---- the server's settings, and what it says ---- */

bool fuzz_is_secure(const run *its)
{
    return its->server->settings.secure.bits != 0;
}

void fuzz_secure_settings(const run *its, uint8_t sizes, tarry_tcp_server_settings *settings)
{
    ring grid;
    require(ring_choose((sizes & 0x10) != 0 ? 64 : 32, 1, its->plan->chunks, &grid));
    settings->secure = (tarry_secure_rules){.bits = grid.bits,
                                            .fraction = grid.fraction,
                                            .bound = grid.bound,
                                            .colluders = 1 + sizes % 2,
                                            .least = 1};
    settings->server.secure = grid.bits;
    settings->server.keep = TARRY_KEEP_CREDITED;
    settings->server.stop = TARRY_STOP_EXACT;
    settings->server.fill = TARRY_FILL_NONE;
    settings->server.compress = settings->server.compress_down = TARRY_COMPRESS_NONE;
    settings->ship = NULL;
}

bool fuzz_secure_hear(const run *its, visitor *who, const wire_head *head, const uint8_t *body)
{
    const tarry_secure_rules *rules = &its->server->settings.secure;
    wire_welcome told;
    wire_key key;
    switch (head->kind) {
    case WIRE_WELCOME:
        require(wire_welcome_decode(head, body, &told, NULL) == TARRY_OK);
        require(told.terms.secure.bits == rules->bits);
        require(rules->bits == 0 || told.terms.secure.fraction == rules->fraction);
        return false;
    case WIRE_KEY:
        require(wire_decode(head, body, &key) == TARRY_OK);
        require(rules->bits != 0 && key.worker < its->plan->workers && key.worker != who->worker);
        require(key.epoch > 0 && key.certificate[key.certificate_size - 1] == key.worker);
        require(key.signature[key.signature_size - 1] % 2 == 0);
        return true;
    default:
        return false;
    }
}

void fuzz_secure_hear_signal(const run *its, visitor *who, const tarry_message *signal)
{
    require((signal->holders != NULL) == fuzz_is_secure(its));
    who->chunks = 0;
    for (uint32_t chunk = 0; signal->holders != NULL && chunk < its->plan->chunks; chunk++) {
        require(signal->holders[chunk] < its->plan->workers);
        require(signal->lives[signal->holders[chunk]] > 0);
        who->chunks += signal->holders[chunk] == who->worker;
    }
}

/* ---- what it is told ---- */

size_t fuzz_secure_draw_key(const visitor *who, input *in, uint8_t kind, uint8_t *frame)
{
    const uint8_t off = kind >= 0xf0 ? take(in) : 0;
    const uint8_t certificate = (uint8_t)(who->worker + (off & 1));
    const uint8_t signature[2] = {3, (uint8_t)(off >> 1 & 1)};
    wire_key words = {
        .worker = who->worker + (off >> 2 & 1),
        .epoch = off >> 3 & 1,
        .key = {(uint8_t)(1 + off / 32)},
        .numerics = kind / 16,
        .certificate_size = 1,
        .signature_size = sizeof(signature),
        .certificate = &certificate,
        .signature = signature,
    };
    memcpy(words.instance, who->instance, sizeof(words.instance));
    words.instance[0] ^= off >> 4 & 1;
    return wire_encode(WIRE_KEY, &words, frame);
}

size_t fuzz_secure_draw_part(const run *its, input *in, uint8_t kind, const visitor *who,
                             uint8_t *frame)
{
    const uint8_t place = take(in), off = kind >= 0xf0 ? take(in) : 0;
    const codec_shape none = {0};
    const ring grid = tcp_server_grid(&its->server->settings.secure);
    tarry_message message = fuzz_peer_part(who, place, off);
    message.form = (tarry_compress)(off >> 5 & 1);
    const size_t length = fuzz_peer_numbers(its, message.stripe);
    const size_t bytes = ring_bytes(&grid, length + MASKED_COUNTS + (off >> 4 & 1));
    uint8_t *words = frame + WIRE_HEAD_BYTES + CODEC_HEADER_BYTES;
    wire_message_head(CODEC_HEADER_BYTES, bytes, frame);
    codec_encode(&none, &message, frame + WIRE_HEAD_BYTES);
    memset(words, place, bytes);
    const masked_counts counts = {.chunks = who->chunks + (off >> 6 & 1), .clamped = place};
    masked_counts_put(&grid, &counts, words + ring_bytes(&grid, length));
    ring_count(&grid, words + ring_bytes(&grid, length), MASKED_CHECK + off % MASKED_CHECKS,
               off >> 7);
    return WIRE_HEAD_BYTES + CODEC_HEADER_BYTES + bytes;
}
