/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/secure/secure_member.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <string.h>
#include <tarry/error.h>

#include "base/memory.h"
#include "privacy/secure/mask_graph.h"

typedef struct other {
    uint32_t epoch; /* 0: nothing was heard of it */
    bool agreed;    /* `secret` is worked out */
    uint8_t key[AGREEMENT_KEY_BYTES], secret[AGREEMENT_KEY_BYTES];
} other;

struct secure_member {
    tarry_allocator allocator;
    const agreement *pair;
    mask_cipher *cipher;
    uint32_t id, workers;
    other *others;       /* workers */
    uint8_t (*keys)[32]; /* workers: those of the context */
    uint32_t *member;    /* workers: who is in S, ascending */
    uint32_t *positions; /* workers: of the neighbours in S */
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
    other *of = &self->others[id];
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
    other *of = &self->others[with];
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
