/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "failing_allocator.h"
#include "privacy/secure/secure_member.h"
#include "seed.h"
#include "test.h"

enum { MOST = 40, WORDS = 50 };

typedef struct group {
    uint32_t workers;
    agreement *pairs[MOST];
    secure_member *members[MOST];
    uint32_t lives[MOST], holders[MOST];
    kappa_context context;
} group;

static agreement *pair_of(uint32_t number)
{
    uint8_t seed[32] = {(uint8_t)number, (uint8_t)(number >> 8), 1};
    agreement *pair = agreement_of_seed(seed);
    assert_non_null(pair);
    return pair;
}

static void group_begin(group *of, uint32_t workers, uint32_t bits)
{
    *of = (group){.workers = workers};
    for (uint32_t j = 0; j < workers; j++) {
        of->pairs[j] = pair_of(j);
        assert_ok(secure_member_create(j, workers, of->pairs[j], NULL, &of->members[j]));
        of->lives[j] = 5;
        of->holders[j] = j;
    }
    for (uint32_t j = 0; j < workers; j++)
        for (uint32_t k = 0; k < workers; k++)
            assert_ok(secure_member_hear(of->members[j], k, 5, agreement_public_key(of->pairs[k])));
    of->context = (kappa_context){.round = 7,
                                  .attempt = 1,
                                  .workers = workers,
                                  .lives = of->lives,
                                  .chunks = workers,
                                  .holders = of->holders,
                                  .colluders = 1};
    assert_true(ring_choose(bits, 1, workers, &of->context.ring));
}

static void group_end(group *of)
{
    for (uint32_t j = 0; j < of->workers; j++) {
        secure_member_free(of->members[j]);
        agreement_free(of->pairs[j]);
    }
}

/* Masks words of all in S, and adds them up. */
static void sum_masked(group *of, uint64_t first, const uint64_t *plain, uint64_t *sum)
{
    memset(sum, 0, WORDS * sizeof(*sum));
    for (uint32_t j = 0; j < of->workers; j++) {
        uint64_t words[WORDS];
        uint8_t kappa[32];
        if (of->lives[j] == 0)
            continue;
        memcpy(words, plain, sizeof(words));
        assert_ok(secure_member_begin(of->members[j], &of->context, kappa));
        assert_ok(secure_member_mask_numbers(of->members[j], first, words, words, WORDS));
        if (of->workers > 2) /* alone in S, it has nobody to share masks with */
            assert_memory_not_equal(words, plain, 16);
        ring_sum(&of->context.ring, words, WORDS, sum);
    }
}

TEST(masks_of_a_group_cancel)
{
    const uint32_t sizes[] = {1, 2, 3, 33, 34, 40};
    random_stream stream = random_stream_make(test_seed("secure member", 1), RANDOM_TEST, 0, 0);
    for (size_t c = 0; c < 12; c++) {
        group of;
        group_begin(&of, sizes[c / 2], c % 2 == 0 ? 32 : 64);
        uint64_t plain[WORDS], sum[WORDS];
        for (size_t i = 0; i < WORDS; i++)
            plain[i] = random_u64(&stream);
        for (uint32_t round = 0; round < 3; round++) {
            const uint32_t gone = random_below(&stream, of.workers);
            of.lives[gone] = of.workers > 1 ? 0 : 5;
            of.context.round++;
            sum_masked(&of, random_u64(&stream) >> 20, plain, sum);
            for (size_t i = 0; i < WORDS; i++)
                assert_true(
                    ring_word(&of.context.ring, sum, i) ==
                    (ring_word(&of.context.ring, plain, i) * (of.workers - (of.workers > 1)))
                            << (64 - of.context.ring.bits) >>
                        (64 - of.context.ring.bits));
            of.lives[gone] = 5;
        }
        group_end(&of);
    }
}

#define GROUP(name) TEST_OF(name, group, of, group_end)

/* The oracle adds the definition's masks one by one. */
GROUP(a_mask_is_the_signed_sum_over_the_neighbours)
{
    group_begin(of, 5, 64);
    of->lives[3] = 0;
    uint8_t kappa[32], secret[32];
    uint64_t words[WORDS] = {0}, wanted[WORDS] = {0};
    assert_ok(secure_member_begin(of->members[2], &of->context, kappa));
    uint64_t counts[MASKED_COUNTS] = {0}, wanted_counts[MASKED_COUNTS] = {0};
    assert_ok(secure_member_mask_numbers(of->members[2], 9, words, words, WORDS));
    assert_ok(secure_member_mask_counts(of->members[2], 9, counts));
    mask_cipher *cipher = mask_cipher_create();
    assert_non_null(cipher);
    for (uint32_t k = 0; k < 5; k++) {
        if (k == 2 || k == 3)
            continue;
        mask_stream with = {.subtract = k > 2};
        agreement_mask_keys keys;
        const agreement_member own = {2, agreement_public_key(of->pairs[2])};
        const agreement_member other = {k, agreement_public_key(of->pairs[k])};
        assert_ok(agreement_secret(of->pairs[k], own.key, secret));
        assert_ok(agreement_make_mask_keys(of->pairs[k], secret, k < 2 ? other : own,
                                           k < 2 ? own : other, kappa, &keys));
        memcpy(with.key, keys.numbers, sizeof(with.key));
        assert_ok(mask_apply(cipher, &with, 1, &of->context.ring, 9, wanted, wanted, WORDS));
        memcpy(with.key, keys.counts, sizeof(with.key));
        assert_ok(mask_apply(cipher, &with, 1, &of->context.ring, MASKED_COUNTS * 9, wanted_counts,
                             wanted_counts, MASKED_COUNTS));
    }
    assert_memory_equal(words, wanted, sizeof(words));
    assert_memory_equal(counts, wanted_counts, sizeof(counts));
    mask_cipher_free(cipher);
}

/* However the vector is cut into stripes, a number's mask stays what it is, and no count has the
 * mask of a number, or of another count. */
TEST(a_mask_belongs_to_a_coordinate)
{
    random_stream stream = random_stream_make(test_seed("secure cuts", 1), RANDOM_TEST, 0, 0);
    for (uint32_t bits = 32; bits <= 64; bits += 32) {
        group of;
        group_begin(&of, 4, bits);
        const ring *grid = &of.context.ring;
        secure_member *member = of.members[1];
        uint8_t kappa[32];
        uint64_t whole[WORDS] = {0}, seen[WORDS * (1 + MASKED_COUNTS)];
        assert_ok(secure_member_begin(member, &of.context, kappa));
        assert_ok(secure_member_mask_numbers(member, 0, whole, whole, WORDS));
        for (uint32_t repeat = 0; repeat < 100; repeat++) {
            const uint32_t stripe = 1 + random_below(&stream, WORDS);
            uint64_t cut[WORDS] = {0};
            for (uint32_t first = 0; first < WORDS; first += stripe) {
                uint8_t *at = (uint8_t *)cut + ring_bytes(grid, first);
                const uint32_t count = WORDS - first < stripe ? WORDS - first : stripe;
                assert_ok(secure_member_mask_numbers(member, first, at, at, count));
            }
            assert_memory_equal(cut, whole, ring_bytes(grid, WORDS));
        }
        size_t count = 0;
        for (uint32_t first = 0; first < WORDS; first++) {
            uint64_t counts[MASKED_COUNTS] = {0};
            assert_ok(secure_member_mask_counts(member, first, counts));
            for (size_t i = 0; i < MASKED_COUNTS; i++)
                seen[count++] = ring_word(grid, counts, i);
            seen[count++] = ring_word(grid, whole, first);
        }
        for (size_t i = 0; i < count; i++) /* of 250 words of 32 bits: by chance 7 in 1e6 */
            for (size_t k = 0; k < i; k++)
                assert_true(seen[i] != seen[k]);
        group_end(&of);
    }
}

static masked_counts counts_of(const ring *grid, const void *words, bool *good)
{
    masked_counts read;
    *good = masked_counts_get(grid, words, &read);
    return read;
}

/* Counts add up, and a single member that was told something else is found by the check words,
 * whichever it is, in a group of any size. */
TEST(a_sum_over_two_kappas_fails_its_check)
{
    const uint32_t sizes[] = {2, 3, 33, 40};
    for (size_t c = 0; c < 8; c++) {
        group of;
        group_begin(&of, sizes[c / 2], c % 2 == 0 ? 32 : 64);
        const ring *grid = &of.context.ring;
        for (uint32_t liar = 0; liar <= of.workers; liar += liar == 0 ? 1 : of.workers - 1) {
            uint64_t sum[MASKED_COUNTS] = {0};
            of.context.attempt++;
            for (uint32_t j = 0; j < of.workers; j++) {
                const masked_counts own = {.chunks = j + 1, .clamped = 3};
                uint64_t words[MASKED_COUNTS];
                uint8_t kappa[32];
                of.context.terms[31] = j == liar;
                assert_ok(secure_member_begin(of.members[j], &of.context, kappa));
                masked_counts_put(grid, &own, words);
                assert_ok(secure_member_mask_counts(of.members[j], 70, words));
                ring_sum(grid, words, MASKED_COUNTS, sum);
            }
            bool good;
            const masked_counts read = counts_of(grid, sum, &good);
            assert_int_equal(good, liar == of.workers);
            if (good) {
                assert_int_equal(read.chunks, of.workers * (of.workers + 1) / 2);
                assert_int_equal(read.clamped, 3 * of.workers);
            }
        }
        group_end(&of);
    }
}

static int begin(group *of, uint32_t id)
{
    uint8_t kappa[32];
    return secure_member_begin(of->members[id], &of->context, kappa);
}

GROUP(attempts_only_go_on)
{
    group_begin(of, 3, 32);
    uint64_t once[WORDS] = {0}, twice[WORDS] = {0};
    assert_int_equal(secure_member_mask_numbers(of->members[0], 0, once, once, WORDS),
                     TARRY_ERROR_STATE);
    assert_ok(begin(of, 0));
    assert_ok(secure_member_mask_numbers(of->members[0], 0, once, once, WORDS));
    /* The same again: the same bytes. */
    assert_ok(begin(of, 0));
    assert_ok(secure_member_mask_numbers(of->members[0], 0, twice, twice, WORDS));
    assert_memory_equal(once, twice, sizeof(once));
    /* Other content under the same number, or a lower one, is refused, and changes nothing. */
    of->context.terms[0]++;
    assert_int_equal(begin(of, 0), TARRY_ERROR_STATE);
    of->context.terms[0]--;
    of->context.attempt--;
    assert_int_equal(begin(of, 0), TARRY_ERROR_STATE);
    of->context.round--;
    of->context.attempt = 9;
    assert_int_equal(begin(of, 0), TARRY_ERROR_STATE);
    memset(twice, 0, sizeof(twice));
    assert_ok(secure_member_mask_numbers(of->members[0], 0, twice, twice, WORDS));
    assert_memory_equal(once, twice, sizeof(once));
    /* A later life, round or attempt is not. */
    of->context.round++;
    assert_ok(begin(of, 0));
    of->context.round++;
    of->context.attempt = 1;
    assert_ok(begin(of, 0));
    assert_ok(secure_member_hear(of->members[0], 0, 6, agreement_public_key(of->pairs[0])));
    of->lives[0] = 6;
    of->context.round = 0;
    assert_ok(begin(of, 0));
    /* What is over can't be begun again. */
    secure_member_end(of->members[0]);
    assert_int_equal(secure_member_mask_numbers(of->members[0], 0, once, once, WORDS),
                     TARRY_ERROR_STATE);
    assert_int_equal(begin(of, 0), TARRY_ERROR_STATE);
    of->context.attempt++;
    assert_ok(begin(of, 0));
}

GROUP(keys_belong_to_lives)
{
    group_begin(of, 3, 32);
    agreement *later = pair_of(99);
    const uint8_t *key = agreement_public_key(later);
    assert_int_equal(secure_member_hear(of->members[0], 3, 1, key), TARRY_ERROR_ARGUMENT);
    assert_int_equal(secure_member_hear(of->members[0], 1, 0, key), TARRY_ERROR_ARGUMENT);
    assert_int_equal(secure_member_hear(of->members[0], 1, 5, key), TARRY_ERROR_ARGUMENT);
    assert_int_equal(secure_member_hear(of->members[0], 0, 6, key), TARRY_ERROR_ARGUMENT);
    assert_ok(secure_member_hear(of->members[0], 1, 4, key));
    assert_ok(begin(of, 0)); /* life 5 is still the one */
    of->lives[1] = 6;
    of->context.attempt++;
    assert_int_equal(begin(of, 0), TARRY_ERROR_FORMAT);
    assert_ok(secure_member_hear(of->members[0], 1, 6, key));
    uint64_t words[2][WORDS] = {{0}};
    assert_ok(begin(of, 0));
    assert_ok(secure_member_mask_numbers(of->members[0], 0, words[0], words[0], WORDS));
    /* The other one, in its new life, has the same masks. */
    secure_member *other;
    uint8_t kappa[32];
    assert_ok(secure_member_create(1, 3, later, NULL, &other));
    for (uint32_t k = 0; k < 3; k++)
        assert_ok(secure_member_hear(other, k, k == 1 ? 6 : 5,
                                     k == 1 ? key : agreement_public_key(of->pairs[k])));
    assert_ok(secure_member_hear(of->members[2], 1, 6, key));
    assert_ok(secure_member_begin(other, &of->context, kappa));
    assert_ok(secure_member_mask_numbers(other, 0, words[0], words[0], WORDS));
    assert_ok(begin(of, 2));
    assert_ok(secure_member_mask_numbers(of->members[2], 0, words[0], words[0], WORDS));
    assert_memory_equal(words[0], words[1], sizeof(words[0]));
    of->lives[0] = 0;
    of->context.attempt++;
    assert_int_equal(begin(of, 0), TARRY_ERROR_ARGUMENT); /* it is not in S itself */
    secure_member_free(other);
    agreement_free(later);
}

GROUP(a_key_of_small_order_ends_the_attempt)
{
    group_begin(of, 3, 32);
    const uint8_t zeros[32] = {0};
    assert_ok(secure_member_hear(of->members[0], 1, 6, zeros));
    of->lives[1] = 6;
    assert_int_equal(begin(of, 0), TARRY_ERROR_NUMERICAL);
    uint64_t words[WORDS] = {0};
    assert_int_equal(secure_member_mask_numbers(of->members[0], 0, words, words, WORDS),
                     TARRY_ERROR_STATE);
    assert_int_equal(begin(of, 0), TARRY_ERROR_STATE);
}

static int create(void *user, const tarry_allocator *allocator)
{
    secure_member *self;
    int error = secure_member_create(0, 3, user, allocator, &self);
    if (error == TARRY_OK)
        secure_member_free(self);
    return error;
}

TEST(each_allocation_may_fail)
{
    agreement *pair = pair_of(1);
    assert_int_equal(fail_each_allocation(create, pair), 7);
    agreement_free(pair);
}
