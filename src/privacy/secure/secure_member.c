/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/secure/secure_member.h"

#include <assert.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/memory.h"
#include "privacy/secure/masks.h"
#include "privacy/secure/ring.h"

/* The place, in the stream of counts, of the first such word of the stripe whose first number has
 * this coordinate in the whole vector. */
static inline uint64_t masked_counts_place(uint64_t coordinate)
{
    return MASKED_COUNTS * coordinate;
}

typedef struct other_member {
    uint32_t epoch; /* 0: nothing was heard of it */
    bool agreed;    /* `secret` is worked out */
    uint8_t key[AGREEMENT_KEY_BYTES], secret[AGREEMENT_KEY_BYTES];
} other_member;

struct secure_member {
    tarry_allocator allocator;
    const agreement *pair;
    mask_cipher *cipher;
    uint32_t id, workers;
    other_member *others; /* workers */
    uint8_t (*keys)[32];  /* workers: those of the context */
    uint32_t *member;     /* workers: who is in S, ascending */
    uint32_t *positions;  /* workers: of the neighbours in S */
    /* Room for all workers; the streams shared with the attempt's neighbours: */
    mask_stream *numbers, *counts;
    uint32_t neighbour_count;
    bool begun, over;
    uint32_t epoch, attempt; /* of the last one begun */
    uint64_t round;
    ring ring;
    uint8_t kappa[KAPPA_BYTES];
};

int secure_member_create(uint32_t id, uint32_t workers, const agreement *pair,
                         const tarry_allocator *allocator, secure_member **self)
{
    assert(id < workers);
    secure_member *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return TARRY_ERROR_NO_MEMORY;
    made->allocator = memory_allocator(allocator);
    made->pair = pair;
    made->id = id;
    made->workers = workers;
    made->cipher = mask_cipher_create();
    made->others = memory_allocate(allocator, workers, sizeof(*made->others));
    made->keys = memory_allocate(allocator, workers, sizeof(*made->keys));
    made->member = memory_allocate(allocator, workers, sizeof(*made->member));
    made->positions = memory_allocate(allocator, workers, sizeof(*made->positions));
    made->numbers = memory_allocate(allocator, workers, sizeof(*made->numbers));
    made->counts = memory_allocate(allocator, workers, sizeof(*made->counts));
    if (made->cipher == NULL || made->others == NULL || made->keys == NULL ||
        made->member == NULL || made->positions == NULL || made->numbers == NULL ||
        made->counts == NULL) {
        secure_member_free(made);
        return TARRY_ERROR_NO_MEMORY;
    }
    *self = made;
    return TARRY_OK;
}

static void wipe_streams(const secure_member *self, mask_stream *streams)
{
    if (streams != NULL)
        OPENSSL_cleanse(streams, self->workers * sizeof(*streams));
}

void secure_member_free(secure_member *self)
{
    if (self == NULL)
        return;
    const tarry_allocator allocator = self->allocator;
    if (self->others != NULL)
        OPENSSL_cleanse(self->others, self->workers * sizeof(*self->others));
    wipe_streams(self, self->numbers);
    wipe_streams(self, self->counts);
    mask_cipher_free(self->cipher);
    memory_release(&allocator, self->others);
    memory_release(&allocator, self->keys);
    memory_release(&allocator, self->member);
    memory_release(&allocator, self->positions);
    memory_release(&allocator, self->numbers);
    memory_release(&allocator, self->counts);
    memory_release(&allocator, self);
}

int secure_member_hear(secure_member *self, uint32_t id, uint32_t epoch,
                       const uint8_t key[AGREEMENT_KEY_BYTES])
{
    if (id >= self->workers || epoch == 0)
        return TARRY_ERROR_ARGUMENT;
    if (id == self->id && memcmp(key, agreement_public_key(self->pair), AGREEMENT_KEY_BYTES) != 0)
        return TARRY_ERROR_ARGUMENT;
    other_member *of = &self->others[id];
    const bool same = memcmp(key, of->key, AGREEMENT_KEY_BYTES) == 0;
    if (epoch == of->epoch && !same)
        return TARRY_ERROR_ARGUMENT;
    if (epoch <= of->epoch)
        return TARRY_OK;
    of->epoch = epoch;
    if (!same) {
        OPENSSL_cleanse(of->secret, sizeof(of->secret));
        of->agreed = false;
        memcpy(of->key, key, AGREEMENT_KEY_BYTES);
    }
    return TARRY_OK;
}

void secure_member_end(secure_member *self)
{
    wipe_streams(self, self->numbers);
    wipe_streams(self, self->counts);
    mask_cipher_forget(self->cipher);
    self->neighbour_count = 0;
    self->over = true;
}

/* Whether the context is beyond all that was begun. */
static bool is_beyond(const secure_member *self, const kappa_context *context)
{
    const uint32_t epoch = context->lives[self->id];
    if (!self->begun || epoch != self->epoch)
        return !self->begun || epoch > self->epoch;
    if (context->round != self->round)
        return context->round > self->round;
    return context->attempt > self->attempt;
}

/* The members of S, and their keys; how many, or 0: one's key is not known. */
static uint32_t list_members(secure_member *self, const uint32_t *lives)
{
    uint32_t members = 0;
    for (uint32_t j = 0; j < self->workers; j++) {
        if (lives[j] == 0)
            continue;
        if (lives[j] != self->others[j].epoch)
            return 0;
        memcpy(self->keys[j], self->others[j].key, AGREEMENT_KEY_BYTES);
        self->member[members++] = j;
    }
    return members;
}

/* The streams of masks with another member, which is the neighbour `place`. */
static int agree(secure_member *self, uint32_t with, uint32_t place)
{
    other_member *of = &self->others[with];
    mask_stream *numbers = &self->numbers[place], *counts = &self->counts[place];
    agreement_mask_keys keys;
    if (!of->agreed) {
        int error = agreement_secret(self->pair, of->key, of->secret);
        if (error != TARRY_OK)
            return error == TARRY_ERROR_ARGUMENT ? TARRY_ERROR_NUMERICAL : error;
        of->agreed = true;
    }
    const agreement_member own = {self->id, agreement_public_key(self->pair)};
    const agreement_member its = {with, of->key};
    const bool lower = self->id < with;
    int error = agreement_make_mask_keys(self->pair, of->secret, lower ? own : its,
                                         lower ? its : own, self->kappa, &keys);
    if (error != TARRY_OK)
        return error;
    numbers->subtract = counts->subtract = lower; /* sign(j - k) */
    memcpy(numbers->key, keys.numbers, sizeof(numbers->key));
    memcpy(counts->key, keys.counts, sizeof(counts->key));
    OPENSSL_cleanse(&keys, sizeof(keys));
    return TARRY_OK;
}

static int agree_with_neighbours(secure_member *self, uint32_t members, uint32_t colluders)
{
    uint32_t position = 0;
    while (self->member[position] != self->id)
        position++;
    const uint32_t degree = mask_graph_degree(members, colluders);
    mask_graph_neighbours(members, colluders, position, self->positions);
    for (uint32_t i = 0; i < degree; i++) {
        int error = agree(self, self->member[self->positions[i]], i);
        if (error != TARRY_OK)
            return error;
    }
    self->neighbour_count = degree;
    return TARRY_OK;
}

int secure_member_begin(secure_member *self, const kappa_context *context,
                        uint8_t kappa[KAPPA_BYTES])
{
    if (context->workers != self->workers || !ring_fits(&context->ring, context->chunks) ||
        context->lives[self->id] == 0)
        return TARRY_ERROR_ARGUMENT;
    const uint32_t members = list_members(self, context->lives);
    if (members == 0)
        return TARRY_ERROR_FORMAT;
    uint8_t wanted[KAPPA_BYTES];
    kappa_context with_keys = *context;
    with_keys.keys = (const uint8_t(*)[32])self->keys;
    if (kappa_digest(&with_keys, wanted) != TARRY_OK)
        return TARRY_ERROR_NO_MEMORY;
    const bool same = self->begun && !self->over && memcmp(wanted, self->kappa, KAPPA_BYTES) == 0;
    if (!same) {
        if (!is_beyond(self, context))
            return TARRY_ERROR_STATE;
        secure_member_end(self);
        self->begun = true;
        self->epoch = context->lives[self->id];
        self->round = context->round;
        self->attempt = context->attempt;
        self->ring = context->ring;
        memcpy(self->kappa, wanted, KAPPA_BYTES);
        int error = agree_with_neighbours(self, members, context->colluders);
        if (error != TARRY_OK) {
            secure_member_end(self);
            return error;
        }
        self->over = false;
    }
    memcpy(kappa, self->kappa, KAPPA_BYTES);
    return TARRY_OK;
}

int secure_member_mask_numbers(secure_member *self, uint64_t first, const void *from, void *words,
                               size_t count)
{
    if (!self->begun || self->over)
        return TARRY_ERROR_STATE;
    return mask_apply(self->cipher, self->numbers, self->neighbour_count, &self->ring, first, from,
                      words, count);
}

int secure_member_mask_counts(secure_member *self, uint64_t first, void *words)
{
    if (!self->begun || self->over)
        return TARRY_ERROR_STATE;
    return mask_apply(self->cipher, self->counts, self->neighbour_count, &self->ring,
                      masked_counts_place(first), words, words, MASKED_COUNTS);
}

/* ---- agreement ---- */

static const char agreement_label[] = "tarry secure sums: mask keys 2";

struct agreement {
    EVP_PKEY *pair;
    EVP_KDF *derivation;
    uint8_t public_key[AGREEMENT_KEY_BYTES];
};

/* Takes the pair, also on failure. */
static agreement *agreement_of(EVP_PKEY *pair)
{
    agreement *self = OPENSSL_zalloc(sizeof(*self));
    if (self == NULL) {
        EVP_PKEY_free(pair);
        return NULL;
    }
    size_t size = sizeof(self->public_key);
    self->pair = pair;
    self->derivation = EVP_KDF_fetch(NULL, OSSL_KDF_NAME_HKDF, NULL);
    if (pair == NULL || self->derivation == NULL ||
        EVP_PKEY_get_raw_public_key(pair, self->public_key, &size) != 1 ||
        size != sizeof(self->public_key)) {
        agreement_free(self);
        return NULL;
    }
    return self;
}

agreement *agreement_create(void)
{
    return agreement_of(EVP_PKEY_Q_keygen(NULL, NULL, "X25519"));
}

agreement *agreement_of_seed(const uint8_t seed[AGREEMENT_KEY_BYTES])
{
    return agreement_of(
        EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, seed, AGREEMENT_KEY_BYTES));
}

void agreement_free(agreement *self)
{
    if (self == NULL)
        return;
    EVP_PKEY_free(self->pair);
    EVP_KDF_free(self->derivation);
    OPENSSL_clear_free(self, sizeof(*self));
}

const uint8_t *agreement_public_key(const agreement *self)
{
    return self->public_key;
}

/* One bit, 0 if all bytes are; without a branch on any. */
static bool any_bit(const uint8_t *bytes, size_t count)
{
    unsigned any = 0;
    for (size_t i = 0; i < count; i++)
        any |= bytes[i];
    return any != 0;
}

int agreement_secret(const agreement *self, const uint8_t other[AGREEMENT_KEY_BYTES],
                     uint8_t secret[AGREEMENT_KEY_BYTES])
{
    int error = TARRY_ERROR_NO_MEMORY;
    uint8_t made[AGREEMENT_KEY_BYTES] = {0};
    size_t size = sizeof(made);
    EVP_PKEY *peer = EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, other, AGREEMENT_KEY_BYTES);
    EVP_PKEY_CTX *context =
        peer == NULL ? NULL : EVP_PKEY_CTX_new_from_pkey(NULL, self->pair, NULL);
    if (context == NULL || EVP_PKEY_derive_init(context) != 1 ||
        EVP_PKEY_derive_set_peer(context, peer) != 1)
        goto done;
    /* OpenSSL refuses a result of zeros itself. */
    error = TARRY_ERROR_ARGUMENT;
    if (EVP_PKEY_derive(context, made, &size) != 1 || size != sizeof(made) ||
        !any_bit(made, sizeof(made)))
        goto done;
    memcpy(secret, made, sizeof(made));
    error = TARRY_OK;
done:
    OPENSSL_cleanse(made, sizeof(made));
    EVP_PKEY_CTX_free(context);
    EVP_PKEY_free(peer);
    return error;
}

/* HKDF without a salt: the secret is of one curve, and all that the key is for is in `info`. */
static int derive(const agreement *self, const uint8_t secret[AGREEMENT_KEY_BYTES],
                  const uint8_t *info, size_t info_size, uint8_t *out, size_t size)
{
    EVP_KDF_CTX *context = EVP_KDF_CTX_new(self->derivation);
    if (context == NULL)
        return TARRY_ERROR_NO_MEMORY;
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)"SHA256", 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)secret,
                                          AGREEMENT_KEY_BYTES),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)(uintptr_t)info, info_size),
        OSSL_PARAM_construct_end(),
    };
    int good = EVP_KDF_derive(context, out, size, parameters);
    EVP_KDF_CTX_free(context);
    return good == 1 ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

int agreement_make_mask_keys(const agreement *self, const uint8_t secret[AGREEMENT_KEY_BYTES],
                             agreement_member lower, agreement_member higher,
                             const uint8_t kappa[32], agreement_mask_keys *keys)
{
    uint8_t made[2 * MASK_KEY_BYTES];
    uint8_t info[sizeof(agreement_label) + 2 * (4 + AGREEMENT_KEY_BYTES) + 32], *at = info;
    memcpy(at, agreement_label, sizeof(agreement_label));
    at = bytes_put(at + sizeof(agreement_label), lower.id, 4);
    memcpy(at, lower.key, AGREEMENT_KEY_BYTES);
    at = bytes_put(at + AGREEMENT_KEY_BYTES, higher.id, 4);
    memcpy(at, higher.key, AGREEMENT_KEY_BYTES);
    memcpy(at + AGREEMENT_KEY_BYTES, kappa, 32);
    int error = derive(self, secret, info, sizeof(info), made, sizeof(made));
    if (error == TARRY_OK) {
        memcpy(keys->numbers, made, MASK_KEY_BYTES);
        memcpy(keys->counts, made + MASK_KEY_BYTES, MASK_KEY_BYTES);
    }
    OPENSSL_cleanse(made, sizeof(made));
    return error;
}

/* ---- kappa ---- */

static const char kappa_label[] = "tarry secure sums: kappa 2";

/* What is encoded goes straight into the digest. */
typedef struct encoder {
    digest *state;
    int failed;
} encoder;

static void add_bytes(encoder *to, const uint8_t *bytes, size_t count)
{
    to->failed |= digest_add_bytes(to->state, bytes, count);
}

static void add_number(encoder *to, uint64_t number, unsigned bytes)
{
    uint8_t text[8];
    bytes_put(text, number, bytes);
    add_bytes(to, text, bytes);
}

static void add_f64(encoder *to, double number)
{
    uint8_t text[8];
    bytes_put_f64(text, number);
    add_bytes(to, text, sizeof(text));
}

static void add_list(encoder *to, const uint32_t *numbers, uint32_t count)
{
    add_number(to, count, 4);
    to->failed |= digest_add_u32(to->state, numbers, count);
}

static void add_keys(encoder *to, const kappa_context *context)
{
    uint32_t members = 0;
    for (uint32_t j = 0; j < context->workers; j++)
        members += context->lives[j] != 0;
    add_number(to, members, 4);
    for (uint32_t j = 0; j < context->workers; j++) {
        if (context->lives[j] != 0)
            add_bytes(to, context->keys[j], sizeof(context->keys[j]));
    }
}

/* The canonical encoding, field by field. */
static void encode(encoder *to, const kappa_context *context)
{
    add_bytes(to, (const uint8_t *)kappa_label, sizeof(kappa_label));
    add_bytes(to, context->terms, sizeof(context->terms));
    add_bytes(to, context->job, sizeof(context->job));
    add_bytes(to, context->target, sizeof(context->target));
    add_bytes(to, context->plan, sizeof(context->plan));
    add_bytes(to, context->parameters, sizeof(context->parameters));
    add_number(to, context->round, 8);
    add_number(to, context->attempt, 4);
    add_number(to, context->ring.bits, 4);
    add_number(to, (uint32_t)context->ring.fraction, 4);
    add_f64(to, context->ring.bound);
    add_number(to, context->colluders, 4);
    add_list(to, context->lives, context->workers);
    add_list(to, context->holders, context->chunks);
    add_keys(to, context);
}

int kappa_digest(const kappa_context *context, uint8_t out[KAPPA_BYTES])
{
    encoder to = {.state = digest_begin()};
    if (to.state == NULL)
        return TARRY_ERROR_NO_MEMORY;
    encode(&to, context);
    to.failed |= digest_end(to.state, out);
    return to.failed == 0 ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

/* ---- mask graph ---- */

/* How far apart on the circle neighbours may be; 0: all are neighbours. */
static uint32_t reach_of(uint32_t members, uint32_t colluders)
{
    const uint64_t wanted =
        colluders < MASK_GRAPH_DEGREE ? MASK_GRAPH_DEGREE : (uint64_t)colluders + 1;
    const uint64_t reach = (wanted + 1) / 2;
    if (members <= MASK_GRAPH_COMPLETE || 2 * reach >= members - 1)
        return 0;
    return (uint32_t)reach;
}

uint32_t mask_graph_degree(uint32_t members, uint32_t colluders)
{
    const uint32_t reach = reach_of(members, colluders);
    return reach == 0 ? members - 1 : 2 * reach;
}

void mask_graph_neighbours(uint32_t members, uint32_t colluders, uint32_t position,
                           uint32_t *neighbours)
{
    const uint32_t reach = reach_of(members, colluders);
    for (uint32_t other = 0; other < members; other++) {
        const uint32_t ahead = other >= position ? other - position : members - (position - other);
        const uint32_t apart = ahead < members - ahead ? ahead : members - ahead;
        if (other != position && (reach == 0 || apart <= reach))
            *neighbours++ = other;
    }
}

/* ---- rules ---- */

static bool holds(const secure_signal *signal, uint32_t worker, uint32_t chunk)
{
    for (uint32_t i = signal->chunk_offset[chunk]; i < signal->chunk_offset[chunk + 1]; i++) {
        if (signal->holder_worker[i] == worker)
            return true;
    }
    return false;
}

/* Whether some chunk is taken from the worker. */
static bool is_taken_from(const secure_signal *signal, uint32_t worker)
{
    for (uint32_t s = signal->worker_offset[worker]; s < signal->worker_offset[worker + 1]; s++) {
        if (signal->holders[signal->slot_chunk[s]] == worker)
            return true;
    }
    return false;
}

static secure_rule check_holders(const secure_signal *signal)
{
    for (uint32_t i = 0; i < signal->chunks; i++) {
        if (signal->holders[i] >= signal->workers || !holds(signal, signal->holders[i], i))
            return SECURE_RULE_HOLDER;
    }
    for (uint32_t i = 0; i < signal->chunks; i++) {
        if (signal->lives[signal->holders[i]] == 0)
            return SECURE_RULE_AWAY;
    }
    return SECURE_RULE_NONE;
}

static secure_rule check_own(const secure_signal *signal)
{
    const uint32_t life = signal->lives[signal->id];
    if (life != 0 && life != signal->epoch)
        return SECURE_RULE_LIFE;
    if (life == 0)
        return SECURE_RULE_NONE;
    secure_rule broken = SECURE_RULE_NONE;
    for (uint32_t s = signal->worker_offset[signal->id]; s < signal->worker_offset[signal->id + 1];
         s++) {
        const uint32_t chunk = signal->slot_chunk[s];
        const bool wanted = signal->holders[chunk] == signal->id;
        const bool has = signal->has(signal->user, chunk);
        if (wanted && !has)
            return SECURE_RULE_MISSING;
        if (has && !wanted)
            broken = SECURE_RULE_LEFT_OUT;
    }
    return broken;
}

secure_rule secure_rules_check(const secure_signal *signal)
{
    secure_rule broken = check_holders(signal);
    for (uint32_t j = 0; j < signal->workers && broken == SECURE_RULE_NONE; j++) {
        if (signal->lives[j] != 0 && !is_taken_from(signal, j))
            broken = SECURE_RULE_IDLE;
    }
    return broken == SECURE_RULE_NONE ? check_own(signal) : broken;
}

/* ---- masked counts ---- */

void masked_counts_put(const ring *of, const masked_counts *counts, void *words)
{
    memset(words, 0, ring_bytes(of, MASKED_COUNTS));
    ring_count(of, words, MASKED_CHUNKS, counts->chunks);
    ring_count(of, words, MASKED_CLAMPED, counts->clamped);
}

bool masked_counts_get(const ring *of, const void *words, masked_counts *counts)
{
    uint64_t any = 0;
    for (size_t i = 0; i < MASKED_CHECKS; i++)
        any |= ring_word(of, words, MASKED_CHECK + i);
    counts->chunks = ring_word(of, words, MASKED_CHUNKS);
    counts->clamped = ring_word(of, words, MASKED_CLAMPED);
    return any == 0;
}
