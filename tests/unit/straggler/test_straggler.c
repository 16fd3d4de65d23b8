/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "failing_allocator.h"
#include "seed.h"
#include "straggler/straggler.h"
#include "test.h"

enum { WORKERS = 8, DRAWS = 40000 };

static tarry_straggler *make(const char *spec, uint64_t seed)
{
    tarry_straggler *straggler = NULL;
    assert_ok(tarry_straggler_create(spec, WORKERS, seed, NULL, &straggler, NULL));
    return straggler;
}

/* Mean and standard deviation, in seconds, of a term's draws over rounds and workers. */
static void moments(const char *spec, uint64_t base_ns, double *mean, double *deviation)
{
    OWNED(tarry_straggler) straggler = make(spec, test_seed(spec, 11));
    double sum = 0, square = 0;
    for (uint32_t i = 0; i < DRAWS; i++) {
        uint64_t ns =
            tarry_straggler_time_ns(straggler, i / WORKERS, i % WORKERS, i % 5, 0, 1, base_ns);
        double seconds = (double)ns * 1e-9;
        sum += seconds;
        square += seconds * seconds;
    }
    *mean = sum / DRAWS;
    *deviation = sqrt(fmax(0, square / DRAWS - *mean * *mean));
}

TEST(distributions_have_their_moments)
{
    double mean, deviation;
    const double five_sigma = 5 / sqrt(DRAWS);
    moments("exp:2", 0, &mean, &deviation);
    assert_true(fabs(mean / 2 - 1) < five_sigma && fabs(deviation / 2 - 1) < 3 * five_sigma);
    moments("exp:2/chunk", 0, &mean, &deviation);
    assert_true(fabs(mean / 2 - 1) < five_sigma && fabs(deviation / 2 - 1) < 3 * five_sigma);
    moments("shifted-exp:1,0.5", 3000000000, &mean, &deviation);
    assert_true(fabs(mean - 4.5) < five_sigma && fabs(deviation - 0.5) < 3 * five_sigma);
    /* Pareto(scale 1, shape 4): mean 4/3, variance 4/18. */
    moments("pareto:1,4", 0, &mean, &deviation);
    assert_true(fabs(mean - 4.0 / 3) < five_sigma && fabs(deviation - sqrt(4.0 / 18)) < 0.05);
    /* Weibull(scale 2, shape 2): mean 2 Gamma(3/2), variance 4 (1 - pi/4). */
    moments("weibull:2,2", 0, &mean, &deviation);
    assert_true(fabs(mean - 1.772454) < five_sigma && fabs(deviation - 0.926503) < five_sigma);
    moments("weibull:2,0.5/chunk", 0, &mean, &deviation); /* mean 2 * 2!, variance 4 * (24 - 4) */
    assert_true(fabs(mean - 4) < 9 * five_sigma && fabs(deviation / 8.944 - 1) < 0.15);
    moments("jitter:0.1", 1000000000, &mean, &deviation);
    assert_true(fabs(mean - 1) < five_sigma && fabs(deviation - 0.1) < five_sigma);
    /* max(0, 1 + 2 N): mean Phi(1/2) + 2 phi(1/2) = 1.39560, and never below zero. */
    moments("jitter:2", 1000000000, &mean, &deviation);
    assert_true(fabs(mean - 1.39560) < 2 * five_sigma);
}

/* One factor for all draws of a pair, or one per position. */
TEST(draws_are_per_worker_or_per_chunk)
{
    uint64_t seed = test_seed("per chunk", 5);
    OWNED(tarry_straggler) worker = make("exp:1", seed), chunk = make("exp:1/chunk", seed);
    for (uint32_t j = 0; j < WORKERS; j++) {
        uint64_t first = tarry_straggler_time_ns(worker, 3, j, 0, 0, 1, 0);
        for (uint32_t position = 1; position < 6; position++) {
            assert_int_equal(tarry_straggler_time_ns(worker, 3, j, position, 0, 1, 0), first);
            assert_int_not_equal(tarry_straggler_time_ns(chunk, 3, j, position, 0, 1, 0),
                                 tarry_straggler_time_ns(chunk, 3, j, position - 1, 0, 1, 0));
        }
        assert_int_not_equal(tarry_straggler_time_ns(worker, 4, j, 0, 0, 1, 0), first);
        assert_int_not_equal(tarry_straggler_time_ns(worker, 3, (j + 1) % WORKERS, 0, 0, 1, 0),
                             first);
    }
}

/* In every round the draw that the term without the suffix has in round 0: the distribution is the
 * same, and workers differ. */
TEST(draws_of_the_run_are_those_of_its_first_round)
{
    static const char *const pairs[][2] = {
        {"exp:1", "exp:1/run"},           {"shifted-exp:1,0.5", "shifted-exp:1,0.5/run"},
        {"pareto:1,2", "pareto:1,2/run"}, {"weibull:1,2", "weibull:1,2/run"},
        {"jitter:0.1", "jitter:0.1/run"}, {"exp:1+jitter:0.1", "exp:1/run+jitter:0.1/run"},
    };
    uint64_t seed = test_seed("per run", 9);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        OWNED(tarry_straggler) round = make(pairs[i][0], seed), run = make(pairs[i][1], seed);
        for (uint32_t j = 0; j < WORKERS; j++) {
            uint64_t first = tarry_straggler_time_ns(round, 0, j, 0, 0, 1, 1000000);
            assert_int_not_equal(
                tarry_straggler_time_ns(run, 0, (j + 1) % WORKERS, 0, 0, 1, 1000000), first);
            for (uint64_t t = 0; t < 3; t++)
                for (uint32_t position = 0; position < 3; position++)
                    assert_int_equal(
                        tarry_straggler_time_ns(run, t << 32 | t, j, position, 0, 1, 1000000),
                        first);
        }
    }
}

/* A term that lasts leaves the others as they are. */
TEST(terms_of_the_run_and_of_rounds_go_together)
{
    uint64_t seed = test_seed("per run and round", 10);
    OWNED(tarry_straggler) both = make("exp:1/run+jitter:0.1", seed);
    OWNED(tarry_straggler)
    lasting = make("exp:1/run", seed), passing = make("none+jitter:0.1", seed);
    for (uint64_t round = 0; round < 4; round++)
        for (uint32_t j = 0; j < WORKERS; j++) {
            double run = (double)tarry_straggler_time_ns(lasting, round, j, 0, 0, 1, 0);
            double jitter = (double)tarry_straggler_time_ns(passing, round, j, 0, 0, 1, 1u << 30);
            double time = (double)tarry_straggler_time_ns(both, round, j, 0, 0, 1, 0);
            assert_true(fabs(time - run * jitter * 0x1p-30) < 16);
        }
}

/* A term's draws do not depend on the terms after it, and two equal terms draw anew. */
TEST(terms_draw_independently)
{
    uint64_t seed = test_seed("terms", 6);
    OWNED(tarry_straggler) one = make("exp:1", seed), again = make("exp:1", seed);
    OWNED(tarry_straggler) two = make("exp:1+exp:1", seed), other = make("exp:1", seed + 1);
    for (uint32_t j = 0; j < WORKERS; j++) {
        uint64_t single = tarry_straggler_time_ns(one, 9, j, 2, 0, 1, 0);
        uint64_t both = tarry_straggler_time_ns(two, 9, j, 2, 0, 1, 0);
        assert_int_equal(tarry_straggler_time_ns(again, 9, j, 2, 0, 1, 0), single);
        assert_int_not_equal(tarry_straggler_time_ns(other, 9, j, 2, 0, 1, 0), single);
        assert_true(both > single);
        assert_true(fabs((double)both - 2 * (double)single) > 1000);
    }
}

TEST(dead_are_chosen_first_and_slow_among_the_rest)
{
    uint64_t seed = test_seed("fates", 7);
    for (uint32_t trial = 0; trial < 50; trial++) {
        OWNED(tarry_straggler) straggler = make("slow:2,5+dead:3+slow:8,7+dead:1", seed + trial);
        uint32_t dead = 0, five = 0, seven = 0;
        for (uint32_t j = 0; j < WORKERS; j++) {
            uint64_t ns = tarry_straggler_time_ns(straggler, trial, j, 0, 0, 1, 100);
            dead += tarry_straggler_dead(straggler, j) && ns == UINT64_MAX;
            five += ns == 500;
            seven += ns == 700;
        }
        assert_int_equal(dead, 4);
        assert_int_equal(five, 2);
        assert_int_equal(seven, 2);
    }
}

/* Uniform over the range, a worker's own, and the same in every round; the chosen are those of a
 * single factor. */
TEST(slow_workers_draw_their_factors_from_a_range)
{
    enum { TRIALS = 2000, BASE = 1000000 };
    uint64_t seed = test_seed("factors", 12);
    double sum = 0, square = 0;
    uint32_t equal = 0;
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        OWNED(tarry_straggler) range = make("slow:3,2-10+dead:1+slow:1,1e3-1e3", seed + trial);
        OWNED(tarry_straggler) fixed = make("slow:3,2+dead:1+slow:1,1e3", seed + trial);
        double before = 0;
        for (uint32_t j = 0; j < WORKERS; j++) {
            uint64_t ns = tarry_straggler_time_ns(range, 0, j, 0, 0, 1, BASE);
            uint64_t one = tarry_straggler_time_ns(fixed, 0, j, 0, 0, 1, BASE);
            assert_true(tarry_straggler_time_ns(range, trial + 1, j, 2, 1, 1, BASE) == ns);
            if (one != 2 * BASE) {
                assert_true(ns == one);
                continue;
            }
            assert_true(ns >= 2 * BASE && ns <= 10 * BASE);
            double factor = (double)ns / BASE;
            equal += factor == before;
            before = factor;
            sum += factor;
            square += factor * factor;
        }
    }
    const double count = 3 * TRIALS, mean = sum / count;
    assert_true(fabs(mean - 6) < 5 * sqrt(64 / 12.0 / count));
    assert_true(fabs(square / count - mean * mean - 64 / 12.0) < 0.4);
    assert_in_range(equal, 0, 5);
}

/* The dead of the one are the dead of the other: schemes meet the same workers. */
TEST(the_choice_depends_on_the_seed_alone)
{
    uint64_t seed = test_seed("choice", 8);
    uint32_t chosen[WORKERS] = {0};
    for (uint32_t trial = 0; trial < 400; trial++) {
        OWNED(tarry_straggler) one = make("dead:2", seed + trial);
        OWNED(tarry_straggler) two = make("exp:1+dead:2+jitter:1", seed + trial);
        for (uint32_t j = 0; j < WORKERS; j++) {
            assert_int_equal(tarry_straggler_dead(one, j), tarry_straggler_dead(two, j));
            chosen[j] += tarry_straggler_dead(one, j);
        }
    }
    for (uint32_t j = 0; j < WORKERS; j++) /* 100 expected, deviation 8.7 */
        assert_in_range(chosen[j], 55, 145);
}

TEST(added_time_comes_before_factors)
{
    /* With a mean of nothing a shifted exponential is a constant. */
    OWNED(tarry_straggler) straggler = make("slow:8,3+shifted-exp:0.25,0", 1);
    for (uint32_t j = 0; j < WORKERS; j++)
        assert_int_equal(tarry_straggler_time_ns(straggler, 0, j, 0, 0, 1, 1000), 750003000);
}

/* What is added to a chunk is divided among its pieces; factors and the bare time are a piece's. */
TEST(a_piece_takes_its_share)
{
    const uint32_t pieces = 5;
    OWNED(tarry_straggler)
    straggler = make("slow:3,2+shifted-exp:0.25,0.5+weibull:2,2+jitter:0.1", 4);
    for (uint32_t j = 0; j < WORKERS; j++) {
        uint64_t whole = tarry_straggler_time_ns(straggler, 6, j, 1, 1, 1, 5000000);
        for (uint32_t position = 0; position < 12; position++) {
            uint64_t piece =
                tarry_straggler_time_ns(straggler, 6, j, position, position, pieces, 1000000);
            assert_true(fabs((double)piece * pieces - (double)whole) <= pieces);
        }
    }
    /* The draws for the pieces differ where those for the chunks do. */
    OWNED(tarry_straggler) drawn = make("exp:1/chunk", 4);
    for (uint32_t position = 0; position < 12; position++) {
        uint64_t whole = tarry_straggler_time_ns(drawn, 6, 0, position, 0, 1, 0);
        uint64_t piece = tarry_straggler_time_ns(drawn, 6, 0, position, 0, pieces, 0);
        assert_true(fabs((double)piece * pieces - (double)whole) <= pieces);
    }
}

TEST(nothing_changes_nothing)
{
    const uint64_t odd = UINT64_MAX - 1; /* not a double */
    OWNED(tarry_straggler)
    straggler =
        make("none+slow:0,9+slow:8,1-1+dead:0+exp:0+pareto:0,1+jitter:0/run+weibull:0,1e-3/run+"
             "markov:0,1,9+rack:3,9,0+fail:0+rejoin:1",
             1);
    for (uint32_t j = 0; j < WORKERS; j++) {
        assert_false(tarry_straggler_dead(straggler, j));
        assert_true(tarry_straggler_time_ns(straggler, 1, j, 2, 0, 1, odd) == odd);
    }
    assert_false(tarry_straggler_dead(NULL, 3));
    assert_true(tarry_straggler_time_ns(NULL, 1, 2, 3, 0, 1, odd) == odd);
    tarry_straggler_free(NULL);
}

TEST(huge_values_saturate)
{
    static const char *const specs[] = {
        "exp:1e300",
        "shifted-exp:1e308,1e308",
        "pareto:1e300,1e-300",
        "pareto:1,0.001",
        "weibull:1e300,1e-300",
        "markov:1,0,1e308+rack:8,1e308,1+exp:1e308",
        "slow:8,1e308+jitter:1e308+exp:1e308",
    };
    for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++) {
        OWNED(tarry_straggler) straggler = make(specs[i], 3);
        uint32_t saturated = 0;
        for (uint32_t round = 0; round < 100; round++) {
            uint64_t ns = tarry_straggler_time_ns(straggler, round, 0, 0, 0, 1, UINT64_MAX);
            assert_true(ns == 0 || ns >= UINT64_MAX / 2);
            saturated += ns == UINT64_MAX;
        }
        assert_true(saturated > 30);
    }
}

/* Whether the term makes the worker slower in the round. */
static bool slowed(const tarry_straggler *straggler, uint64_t round, uint32_t worker)
{
    uint64_t ns = tarry_straggler_time_ns(straggler, round, worker, 0, 0, 1, 100);
    assert_true(ns == 100 || ns == 300);
    assert_int_equal(tarry_straggler_time_ns(straggler, round, worker, 5, 7, 1, 100), ns);
    return ns == 300;
}

/* |count / trials - p| within five standard deviations, as if all were independent times `spread`.
 */
static void assert_share(uint32_t count, uint32_t trials, double p, double spread)
{
    double sigma = sqrt(p * (1 - p) / trials) * spread;
    if (!(fabs((double)count / trials - p) <= 5 * sigma))
        fail_msg("%u of %u; expected a share of %g", count, trials, p);
}

TEST(a_markov_worker_changes_at_the_stated_rates)
{
    const double to_slow = 0.05, to_fast = 0.2, share = 0.2;
    OWNED(tarry_straggler) straggler = make("markov:0.05,0.2,3", test_seed("markov", 21));
    uint32_t slow = 0, began = 0, ended = 0, slow_before = 0, pairs = 0, rounds = 6000;
    for (uint32_t j = 0; j < WORKERS; j++) {
        bool before = slowed(straggler, 0, j);
        for (uint32_t round = 1; round <= rounds; round++) {
            bool now = slowed(straggler, round, j);
            slow += now;
            began += now && !before;
            ended += before && !now;
            slow_before += before;
            before = now;
        }
        pairs += rounds;
    }
    /* neighbouring rounds have a correlation of 0.75: the variance is (1 + 0.75) / (1 - 0.75) times
     * larger */
    assert_share(slow, pairs, share, sqrt(7));
    assert_share(began, pairs - slow_before, to_slow, 1);
    assert_share(ended, slow_before, to_fast, 1);
}

/* Round 0 is like any other, for states that change every other round and for such that last. */
TEST(a_markov_worker_starts_in_its_long_run_state)
{
    uint64_t seed = test_seed("markov start", 22);
    static const char *const specs[] = {"markov:0.25,0.75,3", "markov:0.0005,0.0015,3"};
    for (size_t i = 0; i < 2; i++)
        for (uint64_t round = 0; round < 3; round++) {
            uint32_t slow = 0, trials = 1000;
            for (uint32_t trial = 0; trial < trials; trial++) {
                OWNED(tarry_straggler) straggler = make(specs[i], seed + trial);
                for (uint32_t j = 0; j < WORKERS; j++)
                    slow += slowed(straggler, round, j);
            }
            assert_share(slow, trials * WORKERS, 0.25, 1);
        }
}

TEST(a_markov_state_is_a_function_of_the_round)
{
    uint64_t seed = test_seed("markov pure", 23);
    OWNED(tarry_straggler)
    straggler = make("markov:0.001,0.001,3", seed), again = make("markov:0.001,0.001,3", seed);
    static bool seen[3000];
    uint32_t changes = 0;
    for (uint32_t round = 0; round < 3000; round++)
        seen[round] = slowed(straggler, round, 1);
    for (uint32_t round = 3000; round-- > 0;) {
        assert_int_equal(slowed(again, round, 1), seen[round]);
        changes += round > 0 && seen[round] != seen[round - 1];
    }
    assert_in_range(changes, 1, 30); /* 3 expected, where each round by itself would give 1500 */
    (void)slowed(straggler, UINT64_C(1) << 33, 1); /* far away, and yet soon found */
}

TEST(racks_slow_down_together)
{
    OWNED(tarry_straggler) straggler = make("rack:3,3,0.3", test_seed("rack", 24));
    uint32_t hits[3] = {0}, both = 0, rounds = 4000;
    for (uint32_t round = 0; round < rounds; round++) {
        bool hit[3];
        for (uint32_t j = 0; j < WORKERS; j++) /* racks of 3, 3 and 2 */
            if (j % 3 == 0)
                hits[j / 3] += hit[j / 3] = slowed(straggler, round, j);
            else
                assert_int_equal(slowed(straggler, round, j), hit[j / 3]);
        both += hit[0] && hit[1];
    }
    for (uint32_t rack = 0; rack < 3; rack++)
        assert_share(hits[rack], rounds, 0.3, 1);
    assert_share(both, rounds, 0.09, 1);
    OWNED(tarry_straggler) usual = make("rack:1,3", test_seed("rack", 24));
    uint32_t slow = 0;
    for (uint32_t round = 0; round < rounds; round++)
        slow += slowed(usual, round, 7);
    assert_share(slow, rounds, 0.05, 1);
}

TEST(racks_die_together)
{
    OWNED(tarry_straggler) straggler = make("rack:4,inf,0.2", test_seed("rack death", 25));
    uint32_t deaths = 0, rounds = 4000;
    for (uint32_t round = 0; round < rounds; round++)
        for (uint32_t j = 0; j < WORKERS; j++) {
            uint32_t first = 99, position = 99;
            bool fails = tarry_straggler_fails(straggler, round, j, 5, &position);
            assert_int_equal(tarry_straggler_fails(straggler, round, j / 4 * 4, 5, &first), fails);
            assert_int_equal(position, first);
            deaths += fails && j % 4 == 0;
            assert_false(slowed(straggler, round, j)); /* until then */
        }
    assert_share(deaths, 2 * rounds, 0.2, 1);
}

TEST(deaths_come_at_their_rate_anywhere)
{
    enum { LOAD = 4 };
    uint32_t at[LOAD + 1] = {0}, deaths = 0, dead = 0, rounds = 5000;
    OWNED(tarry_straggler)
    straggler = make("exp:1+fail:0.1+dead:1+rejoin:2.5", test_seed("fail", 26));
    for (uint32_t round = 0; round < rounds; round++)
        for (uint32_t j = 0; j < WORKERS; j++) {
            uint32_t position;
            if (!tarry_straggler_fails(straggler, round, j, LOAD, &position))
                continue;
            dead += tarry_straggler_dead(straggler, j);
            deaths++;
            assert_in_range(position, 0, LOAD);
            at[position]++;
        }
    assert_int_equal(dead, 0);
    assert_share(deaths, (WORKERS - 1) * rounds, 0.1, 1);
    for (uint32_t position = 0; position <= LOAD; position++)
        assert_share(at[position], deaths, 1.0 / (LOAD + 1), 1);
    assert_true(tarry_straggler_rejoin_ns(straggler) == 2500000000);
    OWNED(tarry_straggler) always = make("fail:1", 1);
    uint32_t position = 9;
    assert_true(tarry_straggler_fails(always, 3, 2, 0, &position));
    assert_int_equal(position, 0);
    assert_true(tarry_straggler_rejoin_ns(always) == UINT64_MAX);
    assert_false(tarry_straggler_fails(NULL, 3, 2, 4, &position));
    assert_true(tarry_straggler_rejoin_ns(NULL) == UINT64_MAX);
}

TEST(measured_seconds_join_the_spec)
{
    const double seconds[WORKERS] = {1, 2, 0, INFINITY, 0.5, 0.5, 0.5, 0.5};
    tarry_straggler *straggler = NULL;
    assert_ok(straggler_create_measured("shifted-exp:1,0+slow:8,2", WORKERS, seconds, 1, NULL,
                                        &straggler, NULL));
    assert_true(tarry_straggler_adds(straggler));
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        bool dead = isinf(seconds[worker]);
        assert_int_equal(tarry_straggler_dead(straggler, worker), dead);
        for (uint32_t place = 0; place < 8; place++)
            assert_int_equal(tarry_straggler_time_ns(straggler, place, worker, place, place, 4, 0),
                             dead ? UINT64_MAX : (uint64_t)((1 + seconds[worker]) * 2 / 4 * 1e9));
    }
    tarry_straggler_free(straggler);
    assert_ok(straggler_create_measured("slow:1,2", WORKERS, NULL, 1, NULL, &straggler, NULL));
    assert_false(tarry_straggler_adds(straggler));
    tarry_straggler_free(straggler);
    /* 16 terms leave no room. */
    char spec[128] = "none";
    for (int i = 1; i < STRAGGLER_MAX_TERMS; i++)
        strcat(spec, "+none");
    assert_int_equal(straggler_create_measured(spec, WORKERS, seconds, 1, NULL, &straggler, NULL),
                     TARRY_ERROR_FORMAT);
}

TEST(terms_say_what_they_are)
{
    static const struct {
        const char *spec;
        bool adds;
        const char *mortal;
    } cases[] = {
        {"none", false, NULL},
        {"jitter:1+slow:1,2+dead:1+markov:.1,.1,2+rack:2,2", false, NULL},
        {"none+exp:1", true, NULL},
        {"shifted-exp:1,1", true, NULL},
        {"pareto:1,1", true, NULL},
        {"weibull:1,1", true, NULL},
        {"exp:1+fail:0", true, "fail"},
        {"rejoin:1", false, "rejoin"},
        {"rack:2,2+rack:2,inf,0.1", false, "rack:K,inf"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        OWNED(tarry_straggler) straggler = make(cases[i].spec, 1);
        const char *mortal = straggler_mortal_term(straggler);
        assert_int_equal(tarry_straggler_adds(straggler), cases[i].adds);
        assert_int_equal(mortal == NULL, cases[i].mortal == NULL);
        if (mortal != NULL)
            assert_string_equal(mortal, cases[i].mortal);
    }
    assert_false(tarry_straggler_adds(NULL));
    assert_null(straggler_mortal_term(NULL));
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    OWNED(tarry_straggler) straggler = NULL;
    tarry_diagnostic diagnostic;
    return tarry_straggler_create(user, WORKERS, 1, allocator, &straggler, &diagnostic);
}

static int attempt_measured(void *user, const tarry_allocator *allocator)
{
    const double seconds[WORKERS] = {1, 2, 3, 4, 5, 6, 7, 8};
    OWNED(tarry_straggler) straggler = NULL;
    return straggler_create_measured(user, WORKERS, seconds, 1, allocator, &straggler, NULL);
}

TEST(each_allocation_may_fail)
{
    char spec[] = "slow:1,2+dead:1+exp:1";
    assert_int_equal(fail_each_allocation(attempt, spec), 3);
    assert_int_equal(fail_each_allocation(attempt_measured, spec), 5);
}
