/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes.h"
#include "base/digest.h"
#include "privacy/secure/secure_member.h"
#include "test.h"

enum { WORKERS = 4, CHUNKS = 3 };

typedef struct scene {
    uint32_t lives[WORKERS], holders[CHUNKS];
    uint8_t keys[WORKERS][32];
    kappa_context context;
} scene;

static void set(scene *at)
{
    memset(at, 0, sizeof(*at));
    for (uint32_t j = 0; j < WORKERS; j++) {
        at->lives[j] = j == 2 ? 0 : j + 10;
        memset(at->keys[j], (int)(j + 1), 32);
    }
    for (uint32_t i = 0; i < CHUNKS; i++)
        at->holders[i] = i % 2;
    at->context = (kappa_context){
        .round = 0x102030405060708,
        .attempt = 3,
        .ring = {.bits = 32, .fraction = -5, .bound = 2.5},
        .colluders = 1,
        .workers = WORKERS,
        .lives = at->lives,
        .keys = (const uint8_t(*)[32])at->keys,
        .chunks = CHUNKS,
        .holders = at->holders,
    };
    memset(at->context.terms, 21, 32);
    memset(at->context.job, 22, 32);
    memset(at->context.target, 23, 32);
    memset(at->context.plan, 24, 32);
    memset(at->context.parameters, 25, 32);
}

TEST(kappa_is_the_digest_of_its_text)
{
    scene at;
    set(&at);
    uint8_t text[1024] = "tarry secure sums: kappa 2", wanted[32], out[32];
    uint8_t *end = text + strlen((char *)text) + 1;
    for (int i = 21; i <= 25; i++, end += 32)
        memset(end, i, 32);
    end = bytes_put(end, 0x102030405060708, 8);
    end = bytes_put(end, 3, 4);
    end = bytes_put(end, 32, 4);
    end = bytes_put(end, UINT32_C(0) - 5, 4);
    end = bytes_put_f64(end, 2.5);
    end = bytes_put(end, 1, 4);
    end = bytes_put(end, WORKERS, 4);
    for (uint32_t j = 0; j < WORKERS; j++)
        end = bytes_put(end, at.lives[j], 4);
    end = bytes_put(end, CHUNKS, 4);
    for (uint32_t i = 0; i < CHUNKS; i++)
        end = bytes_put(end, at.holders[i], 4);
    end = bytes_put(end, WORKERS - 1, 4);
    for (uint32_t j = 0; j < WORKERS; j++) {
        memcpy(end, at.keys[j], j == 2 ? 0 : 32);
        end += j == 2 ? 0 : 32;
    }
    assert_int_equal(digest_of_bytes(text, (size_t)(end - text), wanted), 0);
    assert_ok(kappa_digest(&at.context, out));
    assert_memory_equal(out, wanted, 32);
}

/* Flips each bit of the value in turn. */
static void each_bit_counts(scene *at, void *value, size_t size)
{
    uint8_t before[32], after[32], *bytes = value;
    assert_ok(kappa_digest(&at->context, before));
    for (size_t i = 0; i < 8 * size; i++) {
        bytes[i / 8] ^= (uint8_t)(1U << i % 8);
        assert_ok(kappa_digest(&at->context, after));
        assert_memory_not_equal(before, after, 32);
        bytes[i / 8] ^= (uint8_t)(1U << i % 8);
    }
}

TEST(everything_in_it_counts)
{
    scene at;
    set(&at);
    kappa_context *of = &at.context;
    each_bit_counts(&at, of->terms, 32);
    each_bit_counts(&at, of->job, 32);
    each_bit_counts(&at, of->target, 32);
    each_bit_counts(&at, of->plan, 32);
    each_bit_counts(&at, of->parameters, 32);
    each_bit_counts(&at, &of->round, sizeof(of->round));
    each_bit_counts(&at, &of->attempt, sizeof(of->attempt));
    each_bit_counts(&at, &of->ring.bits, sizeof(of->ring.bits));
    each_bit_counts(&at, &of->ring.fraction, sizeof(of->ring.fraction));
    each_bit_counts(&at, &of->ring.bound, sizeof(of->ring.bound));
    each_bit_counts(&at, &of->colluders, sizeof(of->colluders));
    each_bit_counts(&at, at.lives, sizeof(at.lives));
    each_bit_counts(&at, at.holders, sizeof(at.holders));
    for (uint32_t j = 0; j < WORKERS; j++) {
        if (at.lives[j] != 0)
            each_bit_counts(&at, at.keys[j], 32);
    }
}

/* A life cut off one list and put at the head of the other one makes another text. */
TEST(lists_do_not_run_into_each_other)
{
    scene at;
    set(&at);
    const uint32_t all[] = {5, 0, 0, 0, 0, 1};
    uint8_t one[32], other[32];
    at.context.workers = 2;
    at.context.lives = all;
    at.context.chunks = 4;
    at.context.holders = all + 2;
    assert_ok(kappa_digest(&at.context, one));
    at.context.workers = 3;
    at.context.chunks = 3;
    at.context.holders = all + 3;
    assert_ok(kappa_digest(&at.context, other));
    assert_memory_not_equal(one, other, 32);
}
