/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "privacy/keystream.h"
#include "seed.h"
#include "test.h"

enum { SAMPLES = 20000, ROUNDS = 40 };

static sampler make(uint64_t seed, double rate)
{
    privacy_keys keys;
    sampler made = {.rate = rate};
    assert_int_equal(privacy_keys_of_seed(seed, &keys), 0);
    memcpy(made.key, keys.draws, sizeof(made.key));
    return made;
}

static uint8_t drawn[ROUNDS][SAMPLES]; /* whether */

static void draw_all(const sampler *from)
{
    static size_t samples[SAMPLES];
    size_t count;
    memset(drawn, 0, sizeof(drawn));
    for (uint64_t round = 0; round < ROUNDS; round++) {
        assert_int_equal(sampler_draw(from, round, 0, SAMPLES, samples, &count), 0);
        for (size_t i = 0; i < count; i++) {
            assert_true(samples[i] < SAMPLES && (i == 0 || samples[i] > samples[i - 1]));
            drawn[round][samples[i]] = 1;
        }
    }
}

/* So many hits of `trials` with this chance, within 5 standard deviations. */
static void assert_likely(double hits, double trials, double chance)
{
    double expected = trials * chance, deviation = sqrt(expected * (1 - chance));
    if (!(fabs(hits - expected) <= 5 * deviation))
        fail_msg("%g of %g, and %g are likely", hits, trials, expected);
}

TEST(each_sample_is_drawn_at_the_rate)
{
    uint64_t seed = test_seed("rate", 1);
    const double rates[] = {0.5, 0.04, 0.001};
    for (size_t r = 0; r < 3; r++) {
        const sampler from = make(seed, rates[r]);
        double all = 0;
        draw_all(&from);
        for (size_t round = 0; round < ROUNDS; round++) {
            double own = 0;
            for (size_t i = 0; i < SAMPLES; i++)
                own += drawn[round][i];
            assert_likely(own, SAMPLES, rates[r]);
            all += own;
        }
        assert_likely(all, (double)SAMPLES * ROUNDS, rates[r]);
    }
}

/* Sizes of batches of a fixed size would not vary; those of Poisson samples do. */
TEST(sizes_vary_as_binomials_do)
{
    const double rate = 0.1;
    const sampler from = make(test_seed("sizes", 2), rate);
    double squares = 0;
    draw_all(&from);
    for (size_t round = 0; round < ROUNDS; round++) {
        double own = -rate * SAMPLES;
        for (size_t i = 0; i < SAMPLES; i++)
            own += drawn[round][i];
        squares += own * own / (SAMPLES * rate * (1 - rate));
    }
    /* Chi-square of ROUNDS degrees: 99.99 % of it. */
    assert_true(squares > 14 && squares < 84);
}

TEST(draws_are_independent)
{
    const double rate = 0.2;
    const sampler from = make(test_seed("independence", 3), rate);
    draw_all(&from);
    double neighbours = 0, apart = 0, rounds = 0, far = 0;
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i + 64 < SAMPLES; i++) {
            neighbours += drawn[round][i] & drawn[round][i + 1];
            apart += drawn[round][i] & drawn[round][i + 64];
            rounds += drawn[round][i] & drawn[(round + 1) % ROUNDS][i];
            far += drawn[round][i] & drawn[(round + 1) % ROUNDS][i + 1];
        }
    }
    const double trials = (double)ROUNDS * (SAMPLES - 64);
    assert_likely(neighbours, trials, rate * rate);
    assert_likely(apart, trials, rate * rate);
    assert_likely(rounds, trials, rate * rate);
    assert_likely(far, trials, rate * rate);
}

TEST(pieces_draw_what_the_whole_does)
{
    const sampler from = make(test_seed("pieces", 4), 0.3);
    size_t whole[1000], pieces[1000], count, found = 0, more;
    assert_int_equal(sampler_draw(&from, 5, 137, 1000, whole, &count), 0);
    for (size_t first = 0; first < 1000; first += 77) {
        size_t own = first + 77 < 1000 ? 77 : 1000 - first;
        assert_int_equal(sampler_draw(&from, 5, 137 + first, own, pieces + found, &more), 0);
        found += more;
    }
    assert_int_equal(found, count);
    assert_memory_equal(pieces, whole, count * sizeof(*whole));
}

TEST(all_or_none_can_be_drawn)
{
    size_t samples[300], count;
    const sampler all = make(1, 1), none = make(1, 0);
    assert_int_equal(sampler_draw(&all, 0, 10, 300, samples, &count), 0);
    assert_int_equal(count, 300);
    assert_int_equal(samples[299], 309);
    assert_int_equal(sampler_draw(&none, 0, 10, 300, samples, &count), 0);
    assert_int_equal(count, 0);
}

TEST(another_key_draws_others)
{
    size_t one[1000], other[1000], count, again;
    const sampler from = make(1, 0.5), to = make(2, 0.5);
    assert_int_equal(sampler_draw(&from, 0, 0, 1000, one, &count), 0);
    assert_int_equal(sampler_draw(&to, 0, 0, 1000, other, &again), 0);
    assert_memory_not_equal(one, other, 300 * sizeof(*one));
}
