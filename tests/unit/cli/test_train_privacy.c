/* SPDX-License-Identifier: Apache-2.0 */
/* What stands between a sum and its users: noise, account, budget, and what a kill leaves. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "cli/options/options.h"
#include "cli/text/complain.h"
#include "cli/train/train_job.h"
#include "seed.h"
#include "test.h"

OWNED_BY(tarry_dp, tarry_dp_free)

enum { SAMPLES = 1000, ROUNDS = 60, DIMENSION = 20000, KILLS = 20 };

static const tarry_round_result exact = {.round = 7, .exact = true};

static tarry_dp_terms option_of(const char *text)
{
    tarry_dp_terms option;
    tarry_diagnostic why;
    tarry_dp_terms_init(&option);
    assert_ok(tarry_dp_terms_read(text, &option, &why));
    return option;
}

static tarry_dp *make(const char *text, ledger_file *ledger)
{
    const tarry_dp_terms option = option_of(text);
    tarry_dp *made;
    assert_int_equal(train_privacy_create(&option, SAMPLES, ledger, &made), OPTIONS_PROCEED);
    return made;
}

static void release(tarry_dp *from, float *sum, size_t count)
{
    assert_ok(train_privacy_release(from, &exact, sum, count, NULL));
}

static history_privacy account_of(const tarry_dp *of)
{
    history_privacy account = {0};
    assert_ok(train_privacy_account(of, &account, NULL));
    return account;
}

static double deviation_of(const float *numbers, size_t count)
{
    double square = 0;
    for (size_t i = 0; i < count; i++)
        square += (double)numbers[i] * numbers[i];
    return sqrt(square / (double)count);
}

/* Noise of SIGMA C, once, and other noise the next time and in the next process. */
TEST(each_release_has_noise_of_its_own)
{
    static float sums[3][DIMENSION];
    memset(sums, 0, sizeof(sums));
    OWNED(tarry_dp) one = make("clip:4,noise:1.5,sample:0.1", NULL);
    OWNED(tarry_dp) other = make("clip:4,noise:1.5,sample:0.1", NULL);
    release(one, sums[0], DIMENSION);
    release(one, sums[1], DIMENSION);
    release(other, sums[2], DIMENSION);
    for (size_t i = 0; i < 3; i++) {
        assert_true(fabs(deviation_of(sums[i], DIMENSION) / 6 - 1) < 5 / sqrt(2 * DIMENSION));
        double both = 0;
        for (size_t k = 0; k < DIMENSION; k++)
            both += (double)sums[i][k] * sums[(i + 1) % 3][k] / 36;
        assert_true(fabs(both) < 5 * sqrt(DIMENSION));
    }
    const sampler *a = dp_draws(one), *b = dp_draws(other);
    assert_memory_not_equal(a->key, b->key, sizeof(a->key));
    assert_true(a->rate == 0.1 && account_of(one).secret);
}

TEST(a_seed_repeats_and_says_that_it_does)
{
    float one[100] = {0}, other[100] = {0};
    for (int turn = 0; turn < 2; turn++) {
        OWNED(tarry_dp) of = make("clip:1,noise:1,sample:0.1,seed:3", NULL);
        release(of, turn == 0 ? one : other, 100);
        assert_false(account_of(of).secret);
    }
    assert_memory_equal(one, other, sizeof(one));
}

TEST(only_exact_sums_are_released)
{
    const tarry_round_result estimate = {.round = 7, .exact = false};
    float sum[4] = {1, 2, 3, 4}, before[4] = {1, 2, 3, 4};
    tarry_diagnostic why;
    OWNED(tarry_dp) of = make("clip:1,noise:1,sample:0.1", NULL);
    assert_int_equal(train_privacy_release(of, &estimate, sum, 4, &why), TARRY_ERROR_STATE);
    assert_string_equal(why.text, "the sum of round 7 is not exact, and is not released");
    assert_memory_equal(sum, before, sizeof(sum));
    assert_int_equal(account_of(of).releases, 0);
}

/* NaN or an infinity, at any place: the error names the round, the release counts, and nothing of
 * the sum is left. */
TEST(only_finite_sums_are_released)
{
    const float wrong[] = {NAN, INFINITY, -INFINITY};
    const tarry_round_result result = {.round = 23, .exact = true};
    tarry_diagnostic why;
    char path[64], text[64];
    ledger_file *ledger;
    const ledger_terms terms = {1, 1, 0.1};
    snprintf(path, sizeof(path), "finite.%ld", (long)getpid());
    remove(path);
    assert_ok(ledger_file_open(path, false, &terms, &ledger, &why));
    tarry_dp *of = make("clip:1,noise:1,sample:0.1", ledger);
    for (size_t i = 0; i < 15; i++) {
        float sum[5] = {1, 2, 3, 4, 5};
        sum[i % 5] = wrong[i / 5];
        assert_int_equal(train_privacy_release(of, &result, sum, 5, &why), TARRY_ERROR_NUMERICAL);
        snprintf(text, sizeof(text), "the sum of round 23 is not finite: number %zu is", i % 5);
        assert_says(why.text, text);
        for (size_t k = 0; k < 5; k++)
            assert_true(sum[k] == 0);
        assert_int_equal(tarry_dp_releases(of), i + 1);
        assert_int_equal(ledger_file_releases(ledger), i + 1);
    }
    float sum[5] = {1, 2, 3, 4, 5};
    assert_ok(train_privacy_release(of, &result, sum, 5, &why));
    assert_int_equal(tarry_dp_releases(of), 16);
    sum[2] = NAN;
    assert_int_equal(tarry_dp_release(of, sum, 5, &why), TARRY_ERROR_NUMERICAL);
    assert_says(why.text, "the sum of round 17 is not finite: number 2 is");
    tarry_dp_free(of);
    ledger_file_close(ledger);
    remove(path);
}

/* The budget allows as many releases as have at most its epsilon, and no more; Renyi's bound, which
 * is larger, does not end it earlier. */
TEST(the_budget_is_used_up_and_not_exceeded)
{
    float sum[4] = {0};
    bool spent = false;
    OWNED(tarry_dp) of = make("clip:1,noise:1.5,sample:0.04,budget:0.6", NULL);
    while (tarry_dp_spent(of, &spent, NULL) == TARRY_OK && !spent)
        release(of, sum, 4);
    history_privacy account = account_of(of);
    assert_true(account.epsilon <= 0.6 && account.epsilon > 0.57);
    assert_true(tarry_dp_bound(of) > 0.6);
    release(of, sum, 4);
    assert_true(account_of(of).epsilon > 0.6);
}

TEST(what_cannot_be_promised_is_refused)
{
    tarry_dp *made = NULL;
    tarry_dp_terms option = option_of("clip:1,noise:1,sample:1,delta:1e-3");
    assert_int_equal(train_privacy_create(&option, 1000, NULL, &made), EXIT_USAGE);
    option = option_of("clip:1,noise:1,sample:1,budget:1");
    assert_int_equal(train_privacy_create(&option, 1000, NULL, &made), EXIT_USAGE);
    assert_null(made);
}

/* What the process that is killed has got out of the release, in memory that outlives it. */
typedef struct seen {
    uint64_t used; /* releases */
    bool begun;
} seen;

static void release_until_killed(const char *path, bool goes_on, seen *shared)
{
    const ledger_terms terms = {1, 1.5, 0.04};
    ledger_file *ledger;
    float sum[64] = {0};
    if (ledger_file_open(path, goes_on, &terms, &ledger, NULL) != TARRY_OK)
        _exit(1);
    const tarry_dp_terms option = option_of("clip:1,noise:1.5,sample:0.04");
    tarry_dp *of;
    if (train_privacy_create(&option, SAMPLES, ledger, &of) != OPTIONS_PROCEED)
        _exit(2);
    shared->begun = true;
    for (;;) {
        if (train_privacy_release(of, &exact, sum, 64, NULL) != TARRY_OK)
            _exit(3);
        __atomic_add_fetch(&shared->used, 1, __ATOMIC_SEQ_CST);
    }
}

static uint64_t releases_in(const char *path)
{
    const ledger_terms terms = {1, 1.5, 0.04};
    ledger_file *ledger;
    assert_ok(ledger_file_open(path, true, &terms, &ledger, NULL));
    uint64_t releases = ledger_file_releases(ledger);
    ledger_file_close(ledger);
    return releases;
}

TEST(the_ledger_covers_all_releases_whenever_it_is_killed)
{
    char path[64];
    random_stream stream = random_stream_make(test_seed("kills", 5), RANDOM_TEST, 0, 0);
    snprintf(path, sizeof(path), "kills.%ld", (long)getpid());
    remove(path);
    seen *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    for (uint64_t kill_number = 1; kill_number <= KILLS; kill_number++) {
        shared->begun = false;
        pid_t child = fork();
        if (child == 0)
            release_until_killed(path, kill_number > 1, shared);
        assert_true(child > 0);
        while (!__atomic_load_n(&shared->begun, __ATOMIC_SEQ_CST))
            usleep(1000);
        usleep(random_below(&stream, 30000));
        int status;
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        uint64_t counted = releases_in(path);
        assert_true(counted >= shared->used && counted <= shared->used + kill_number);
    }
    assert_true(shared->used > 0);
    munmap(shared, sizeof(*shared));
    remove(path);
}

TEST(options_that_are_wrong_are_told)
{
    const char *const wrong[] = {
        "",
        "clip:1",
        "clip:1,noise:1",
        "noise:1,sample:1",
        "clip:0,noise:1,sample:1",
        "clip:1,noise:0,sample:1",
        "clip:1,noise:1,sample:0",
        "clip:1,noise:1,sample:1.1",
        "clip:1,noise:1,sample:1,delta:1",
        "clip:1,noise:1,sample:1,delta:0",
        "clip:1,noise:1,sample:1,budget:0",
        "clip:1,noise:1,sample:1,seed:-1",
        "clip:1,noise:1,sample:1,seed:x",
        "clip:1,noise:1,sample:1,clip:1",
        "clip:1,noise:1,sample:1,,",
        "clip:1,noise:1,sample:1,other:1",
        "clip1,noise:1,sample:1",
        "clip:1,noise:1,sample:0.00000000000000000000000000000000000000001",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        tarry_dp_terms option = {.size = sizeof(option), .clip = 77};
        tarry_diagnostic why;
        if (tarry_dp_terms_read(wrong[i], &option, &why) != TARRY_ERROR_FORMAT || option.clip != 77)
            fail_msg("'%s' is taken", wrong[i]);
    }
    tarry_dp_terms read = option_of("sample:0.5,seed:8,budget:2.5,clip:3,delta:1e-6,noise:4");
    assert_true(read.clip == 3 && read.noise == 4 && read.sample == 0.5 && read.delta == 1e-6 &&
                read.budget == 2.5 && read.seeded && read.seed == 8);
    read = option_of("clip:1,noise:1,sample:1");
    assert_true(read.delta == 1e-5 && isinf(read.budget) && !read.seeded);
}
