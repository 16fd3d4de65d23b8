/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secure sums: whose copies are summed, what is masked once, and what the server reads in the end.
 * The sum is worked out anew here, number by number, of all chunks' gradients: nothing of that is
 * the library's.
 */
#include "worlds/invariants.h"

#include <math.h>
#include <string.h>

void invariants_of_holders(cluster *it, const tarry_effect *signal)
{
    const server_model *model = &it->model;
    const tarry_message *told = &signal->message;
    if (!it->secure.on) {
        if (told->holders != NULL || told->lives != NULL)
            invariant_broken(it, "holders_cover_once", "told, but sums are not secure");
        return;
    }
    uint32_t group = 0;
    for (uint32_t chunk = 0; chunk < model->chunks; chunk++) {
        group |= model->psi[chunk];
        if (set_size(model->psi[chunk]) != 1 || told->holders[chunk] >= it->workers ||
            model->psi[chunk] != bit(told->holders[chunk]))
            invariant_broken(it, "holders_cover_once", "chunk %u at %u, but psi is %#x", chunk,
                             told->holders[chunk], model->psi[chunk]);
    }
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        uint32_t life = group & bit(worker) ? model->members[worker].epoch : 0;
        if (told->lives[worker] != life)
            invariant_broken(it, "holders_cover_once", "worker %u in life %u, told %u", worker,
                             life, told->lives[worker]);
    }
}

void invariants_of_masks(cluster *it, uint32_t worker, uint32_t stripe,
                         const uint8_t kappa[KAPPA_BYTES], const uint64_t *plain)
{
    secure_world *world = &it->secure;
    uint32_t known = world->masked_count < SECURE_MASKED ? world->masked_count : SECURE_MASKED;
    size_t bytes = ring_bytes(&world->ring, (size_t)it->model.stripe_size[stripe] + MASKED_COUNTS);
    for (uint32_t i = 0; i < known; i++) {
        const secure_masked *at = &world->masked[i];
        bool same = at->worker == worker && at->stripe == stripe &&
                    memcmp(at->kappa, kappa, KAPPA_BYTES) == 0;
        if (same && memcmp(at->plain, plain, bytes) != 0)
            invariant_broken(it, "no_mask_covers_two_plaintexts", "worker %u, stripe %u", worker,
                             stripe);
        if (same)
            return;
    }
    secure_masked *next = &world->masked[world->masked_count++ % SECURE_MASKED];
    next->worker = worker;
    next->stripe = stripe;
    memcpy(next->kappa, kappa, KAPPA_BYTES);
    memcpy(next->plain, plain, bytes);
}

/* What the number counts as; *out: whether it was out of range, or none. */
static int64_t whole_of(const cluster *it, float number, bool *out)
{
    double bound = it->secure.ring.bound, value = (double)number;
    *out = !isfinite(value) || fabs(value) > bound;
    if (!isfinite(value))
        return 0;
    value = value > bound ? bound : value < -bound ? -bound : value;
    return (int64_t)nearbyint(ldexp(value, it->secure.ring.fraction));
}

/* The low bits of what the ring's word should be. */
static uint64_t word_of(const cluster *it, uint64_t value)
{
    return it->secure.ring.bits == 64 ? value : value & UINT32_MAX;
}

/* The server's check of a stripe: true if the masks have cancelled and every chunk is counted once.
 */
static bool counts_of(const cluster *it, uint32_t stripe, masked_counts *counts)
{
    const ring *of = &it->secure.ring;
    const uint8_t *words = (const uint8_t *)it->secure.sum[stripe];
    return masked_counts_get(of, words + ring_bytes(of, (size_t)it->model.stripe_size[stripe]),
                             counts) &&
           counts->chunks == it->model.chunks;
}

/* Checks the stripe's numbers and how many chunks are in them; gives back how many numbers of
 * chunks are out of range. */
static uint64_t check_stripe(cluster *it, uint32_t stripe)
{
    const ring *of = &it->secure.ring;
    const cluster_record all = {
        .round = it->model.round, .parameters = it->parameters, .plan = it->number};
    uint32_t numbers = (uint32_t)it->model.stripe_size[stripe];
    uint64_t clamped = 0;
    float read[SECURE_NUMBERS];
    ring_read(of, it->secure.sum[stripe], numbers, read);
    for (uint32_t i = 0; i < numbers; i++) {
        int64_t sum = 0;
        for (uint32_t chunk = 0; chunk < it->model.chunks; chunk++) {
            bool out;
            sum += whole_of(it, secure_number(it, &all, chunk, stripe * SECURE_NUMBERS + i), &out);
            clamped += out;
        }
        uint64_t word = ring_word(of, it->secure.sum[stripe], i);
        if (word != word_of(it, (uint64_t)sum))
            invariant_broken(it, "secure_sum_is_the_integer_sum",
                             "stripe %u, number %u: %#llx, not %lld", stripe, i,
                             (unsigned long long)word, (long long)sum);
        if (read[i] != (float)ldexp((double)sum, -of->fraction) && it->broken == NULL &&
            (sum < 0 ? -sum : sum) < INT64_C(1) << 53)
            invariant_broken(it, "secure_sum_is_the_integer_sum", "stripe %u, number %u is read %g",
                             stripe, i, (double)read[i]);
    }
    masked_counts counts = {0};
    if (!counts_of(it, stripe, &counts))
        invariant_broken(it, "secure_sum_is_the_integer_sum", "stripe %u has %llu chunks of %u",
                         stripe, (unsigned long long)counts.chunks, it->model.chunks);
    return clamped;
}

/* A stripe with a part of the misled worker must fail the server's check. */
static void check_tear(cluster *it, uint32_t stripe)
{
    masked_counts counts;
    if (counts_of(it, stripe, &counts))
        invariant_broken(it, "other_terms_tear_the_sum",
                         "worker %u was told other terms, and stripe %u passes for a sum",
                         it->secure.misled, stripe);
}

/* True if the misled worker and others have sent their parts of the stripe. */
static bool has_other_masks(const cluster *it, uint32_t stripe)
{
    uint32_t senders = it->secure.senders[stripe], misled = it->secure.misled;
    return misled < it->workers && (senders & bit(misled)) != 0 && set_size(senders) > 1;
}

/* One number for the whole vector, which the first stripe has. */
static void check_clamped(cluster *it, uint64_t clamped)
{
    for (uint32_t stripe = 0; stripe < it->stripes; stripe++) {
        const uint64_t wanted = stripe == 0 ? clamped : 0;
        masked_counts counts = {0};
        if (!counts_of(it, stripe, &counts) || counts.clamped != wanted)
            invariant_broken(it, "clamped_numbers_are_counted_once",
                             "stripe %u counts %llu numbers out of range, not %llu", stripe,
                             (unsigned long long)counts.clamped, (unsigned long long)wanted);
    }
}

void invariants_of_secure_sum(cluster *it)
{
    bool torn = false;
    uint64_t clamped = 0;
    for (uint32_t stripe = 0; stripe < it->stripes; stripe++) {
        bool other = has_other_masks(it, stripe);
        torn = torn || other;
        if (other)
            check_tear(it, stripe);
        else
            clamped += check_stripe(it, stripe);
    }
    it->counts.torn += torn;
    if (!torn && it->broken == NULL)
        check_clamped(it, clamped);
}
