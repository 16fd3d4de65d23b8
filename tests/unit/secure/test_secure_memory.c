/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker insists on: each thing that a server might offer instead is refused, in this life
 * of the worker and in the next. */
#include <tarry/secure.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "pki/authority_files.h"

enum { SAMPLES = 800, WORKERS = 8, CHUNKS = 16 };

typedef struct bench {
    char root[64];
    uint32_t colluders;
    uint64_t least, samples;
    char told[1024]; /* the last line */
    tarry_plan *plan;
    tarry_secure_rules rules;
    tarry_secure_offer offer;
    tarry_secure_memory *own;
    uint8_t target[TARRY_DIGEST_SIZE];
} bench;

static tarry_plan *make_plan(uint64_t seed, uint32_t replication)
{
    tarry_plan_settings settings;
    tarry_plan *plan;
    tarry_plan_settings_init(&settings);
    settings.workers = WORKERS;
    settings.chunks = CHUNKS;
    settings.pieces = 1;
    settings.replication = replication;
    settings.design = TARRY_DESIGN_RANDOM;
    settings.seed = seed;
    assert_int_equal(tarry_plan_create(&settings, NULL, &plan, NULL), TARRY_OK);
    return plan;
}

static void hear(void *user, const char *line)
{
    bench *its = user;
    snprintf(its->told, sizeof(its->told), "%s", line);
}

static void live(bench *its)
{
    tarry_diagnostic why;
    tarry_secure_memory_settings settings;
    tarry_secure_memory_settings_init(&settings);
    assert_int_equal(settings.colluders, 1);
    settings.credentials = its->root;
    settings.colluders = its->colluders;
    settings.least = its->least;
    settings.least_name = "--secure-least";
    settings.tell = hear;
    settings.user = its;
    if (tarry_secure_memory_open(&settings, &its->own, &why) != TARRY_OK)
        fail_msg("%s", why.text);
}

static void live_again(bench *its)
{
    tarry_secure_memory_close(its->own);
    live(its);
}

static void begin(bench *its)
{
    *its = (bench){
        .rules = {.bits = 32, .fraction = 15, .bound = 200, .colluders = 1, .least = 400},
        .colluders = 1,
        .samples = SAMPLES,
    };
    strcpy(its->root, "/tmp/tarry-secure-XXXXXX");
    assert_non_null(mkdtemp(its->root));
    its->plan = make_plan(1, 2);
    its->offer = (tarry_secure_offer){
        .rules = &its->rules, .job_id = {1}, .plan = its->plan, .data = {7, 7, 7}};
    live(its);
}

static void end(bench *its)
{
    tarry_secure_memory_close(its->own);
    tarry_plan_free(its->plan);
    authority_remove(its->root);
}

static void tell_samples(const bench *its)
{
    assert_int_equal(tarry_secure_memory_samples(its->own, its->samples, CHUNKS, NULL), TARRY_OK);
}

static void agree(bench *its)
{
    tell_samples(its);
    tarry_diagnostic why;
    if (tarry_secure_memory_agree(its->own, &its->offer, its->target, &why) != TARRY_OK)
        fail_msg("%s", why.text);
}

static void refuse(bench *its, const char *said)
{
    tarry_diagnostic why;
    uint8_t target[TARRY_DIGEST_SIZE];
    tell_samples(its);
    assert_int_not_equal(tarry_secure_memory_agree(its->own, &its->offer, target, &why), TARRY_OK);
    if (strstr(why.text, said) == NULL)
        fail_msg("'%s' does not say '%s'", why.text, said);
}

static void what_was_agreed_on_once_holds(void **state)
{
    (void)state;
    bench its;
    begin(&its);
    agree(&its);
    assert_non_null(strstr(its.told, "secure sums: numbers are multiples of 2^-15 up to 200 in 32 "
                                     "bits; "));
    its.told[0] = '\0';
    agree(&its);
    live_again(&its);
    agree(&its);
    assert_string_equal(its.told, "");
    /* Another job over the same samples. */
    its.offer.job_id[0] = 2;
    agree(&its);
    live_again(&its);
    agree(&its);
    end(&its);
}

/* The rules: each may be stricter than the worker's own, and none may be weaker. */
static void weaker_rules_are_refused(void **state)
{
    (void)state;
    bench its;
    begin(&its);
    its.rules.colluders = 0;
    refuse(&its, "(colluders)");
    its.rules.colluders = 1;
    its.rules.least = 99;
    refuse(&its, "--secure-least");
    its.rules.least = 500;
    agree(&its);
    end(&its);
}

static void every_setting_of_the_worker_counts(void **state)
{
    (void)state;
    bench its;
    begin(&its);
    its.least = 401;
    live_again(&its);
    refuse(&its, "the server would leave 400 samples to one sum, and this worker wants 401 "
                 "(--secure-least)");
    its.least = 400;
    its.colluders = 2;
    live_again(&its);
    refuse(&its, "the server reckons with 1 colluders, and this worker with 2 (colluders)");
    its.colluders = 0;
    live_again(&its);
    agree(&its);
    end(&its);
}

/* Chunks of other sizes than even ones, and cuts that are none. */
static void samples_are_cut_as_told(void **state)
{
    (void)state;
    bench its;
    uint64_t begins[CHUNKS + 1];
    tarry_diagnostic why;
    begin(&its);
    for (uint64_t i = 0; i < CHUNKS; i++)
        begins[i] = 40 * i;
    begins[CHUNKS] = SAMPLES; /* the last one has 200; who has it has three more of 40 */
    its.rules.least = 600;
    assert_int_equal(tarry_secure_memory_samples(its.own, SAMPLES, CHUNKS, begins), TARRY_OK);
    assert_int_not_equal(tarry_secure_memory_agree(its.own, &its.offer, its.target, &why),
                         TARRY_OK);
    assert_non_null(strstr(why.text, "1 colluders may hold all but 480 of 800 samples"));
    begins[3] = begins[4] + 1;
    assert_int_equal(tarry_secure_memory_samples(its.own, SAMPLES, CHUNKS, begins),
                     TARRY_ERROR_ARGUMENT);
    begins[3] = 120;
    assert_int_equal(tarry_secure_memory_samples(its.own, SAMPLES + 1, CHUNKS, begins),
                     TARRY_ERROR_ARGUMENT);
    begins[0] = 1;
    assert_int_equal(tarry_secure_memory_samples(its.own, SAMPLES, CHUNKS, begins),
                     TARRY_ERROR_ARGUMENT);
    assert_int_equal(tarry_secure_memory_samples(its.own, 0, CHUNKS, NULL), TARRY_ERROR_ARGUMENT);
    assert_int_equal(tarry_secure_memory_samples(its.own, 1, 0, NULL), TARRY_ERROR_ARGUMENT);
    end(&its);
}

static void nothing_is_agreed_on_before_samples_are_told(void **state)
{
    (void)state;
    bench its;
    tarry_diagnostic why;
    begin(&its);
    assert_int_equal(tarry_secure_memory_agree(its.own, &its.offer, its.target, &why),
                     TARRY_ERROR_STATE);
    assert_string_equal(why.text, "secure sums: this worker has no samples of its own");
    end(&its);
}

/* The second job has a sample less: the difference of the two sums would be that sample's. */
static void a_second_job_with_a_sample_less_is_refused(void **state)
{
    (void)state;
    bench its;
    begin(&its);
    agree(&its);
    its.offer.job_id[0] = 2;
    its.samples = SAMPLES - 1;
    its.offer.data[0] ^= 1;
    refuse(&its, "secure/target says");
    live_again(&its);
    refuse(&its, "secure/target says");
    its.samples = SAMPLES; /* as many, of which one is another one */
    refuse(&its, "secure/target says");
    memset(its.offer.data, 0, sizeof(its.offer.data));
    refuse(&its, "no samples of its own");
    end(&its);
}

/* A coarse grid, or a small bound, makes sums count chunks above a threshold. */
static void another_grid_is_refused(void **state)
{
    (void)state;
    bench its;
    begin(&its);
    agree(&its);
    const tarry_secure_rules agreed = its.rules;
    for (int i = 0; i < 3; i++) {
        its.rules = agreed;
        its.offer.job_id[0]++;
        if (i == 0)
            its.rules.bound = 1e-3;
        else if (i == 1)
            its.rules.fraction = -3;
        else
            its.rules.bits = 64;
        refuse(&its, "secure/grid says");
        live_again(&its);
        refuse(&its, "secure/grid says");
    }
    its.rules = agreed;
    agree(&its);
    end(&its);
}

/* Each plan by itself leaves enough; together they let one worker hold all but few samples. */
static void plans_that_let_colluders_collect_chunks_are_refused(void **state)
{
    (void)state;
    bench its;
    begin(&its);
    agree(&its);
    bool refused = false;
    int plans = 1;
    for (uint64_t seed = 2; !refused && seed < 12; seed++, plans++) {
        tarry_plan *next = make_plan(seed, 2);
        tarry_diagnostic why;
        its.offer.plan = next;
        tell_samples(&its);
        refused = tarry_secure_memory_agree(its.own, &its.offer, its.target, &why) != TARRY_OK;
        if (refused)
            assert_non_null(strstr(why.text, "colluders may hold all but"));
        tarry_plan_free(next);
    }
    assert_true(refused);
    assert_in_range(plans, 2, 10);
    /* The next life has not forgotten, whatever plan it is offered. */
    its.offer.plan = its.plan;
    live_again(&its);
    refuse(&its, "colluders may hold all but");
    /* A worker that remembers nothing would take them all, one after the other. */
    char path[100];
    snprintf(path, sizeof(path), "%s/secure/held", its.root);
    for (uint64_t seed = 2; seed < 12; seed++) {
        tarry_plan *next = make_plan(seed, 2);
        assert_int_equal(remove(path), 0);
        live_again(&its);
        its.offer.plan = next;
        agree(&its);
        tarry_plan_free(next);
    }
    end(&its);
}

static void a_plan_with_too_many_copies_is_refused(void **state)
{
    (void)state;
    bench its;
    begin(&its);
    tarry_plan *thick = make_plan(3, 6);
    its.offer.plan = thick;
    refuse(&its, "colluders may hold all but 200 of 800 samples, and 400 are to be left");
    tarry_plan_free(thick);
    end(&its);
}

static void attempts_are_locked_over_lives(void **state)
{
    (void)state;
    bench its;
    tarry_diagnostic why;
    tarry_secure_attempt attempt = {
        .job_id = {1}, .epoch = 1, .round = 3, .attempt = 1, .kappa = {5}};
    begin(&its);
    agree(&its);
    assert_int_equal(tarry_secure_memory_lock(its.own, &attempt, &why), TARRY_OK);
    assert_int_equal(tarry_secure_memory_lock(its.own, &attempt, &why), TARRY_OK);
    live_again(&its);
    agree(&its);
    assert_int_equal(tarry_secure_memory_lock(its.own, &attempt, &why), TARRY_OK);
    attempt.kappa[0] = 6; /* the same attempt, of another group, plan or parameters */
    assert_int_equal(tarry_secure_memory_lock(its.own, &attempt, &why), TARRY_ERROR_STATE);
    attempt.round = 2;
    assert_int_equal(tarry_secure_memory_lock(its.own, &attempt, &why), TARRY_ERROR_STATE);
    attempt.epoch = 2;
    assert_int_equal(tarry_secure_memory_lock(its.own, &attempt, &why), TARRY_OK);
    end(&its);
}

static void damaged_files_stop_it(void **state)
{
    (void)state;
    static const char *const names[] = {"held", "target", "grid"};
    bench its;
    char path[100];
    begin(&its);
    agree(&its);
    for (size_t i = 0; i < 3; i++) {
        char kept[8192];
        snprintf(path, sizeof(path), "%s/secure/%s", its.root, names[i]);
        FILE *file = fopen(path, "r+");
        assert_non_null(file);
        size_t size = fread(kept, 1, sizeof(kept), file);
        rewind(file);
        fputs("tarry hell 1", file);
        fclose(file);
        live_again(&its);
        refuse(&its, names[i]);
        file = fopen(path, "w");
        assert_non_null(file);
        assert_int_equal(fwrite(kept, 1, size, file), size);
        fclose(file);
    }
    live_again(&its);
    agree(&its);
    end(&its);
}

/* Sums of so many numbers at the bound fit, and would not with half the step. */
static void the_finest_grid_is_chosen(void **state)
{
    (void)state;
    static const uint64_t chunks[] = {1, 2, 12, 1000, 1000000};
    static const double bounds[] = {1e-20, 0.3, 1, 4000, 1e9};
    tarry_secure_rules rules = {.colluders = 3, .least = 5};
    for (size_t i = 0; i < 5; i++) {
        for (size_t j = 0; j < 5; j++) {
            for (uint32_t bits = 32; bits <= 64; bits += 32) {
                assert_int_equal(tarry_secure_rules_choose(bits, bounds[j], chunks[i], &rules),
                                 TARRY_OK);
                const double most = ldexp(bounds[j] * (double)chunks[i], rules.fraction);
                assert_true(most < ldexp(1, (int)bits - 1));
                assert_true(2 * most >= ldexp(1, (int)bits - 1) || rules.fraction == 126);
                assert_true(rules.bits == bits && rules.bound == bounds[j]);
            }
        }
    }
    assert_true(rules.colluders == 3 && rules.least == 5);
    assert_int_equal(tarry_secure_rules_choose(16, 1, 1, &rules), TARRY_ERROR_ARGUMENT);
    assert_int_equal(tarry_secure_rules_choose(32, 0, 1, &rules), TARRY_ERROR_ARGUMENT);
    assert_int_equal(tarry_secure_rules_choose(32, NAN, 1, &rules), TARRY_ERROR_ARGUMENT);
    assert_int_equal(tarry_secure_rules_choose(32, INFINITY, 1, &rules), TARRY_ERROR_ARGUMENT);
    assert_int_equal(tarry_secure_rules_choose(32, 1, 0, &rules), TARRY_ERROR_ARGUMENT);
    assert_true(rules.bits == 64 && rules.bound == bounds[4]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_agreed_on_once_holds),
        cmocka_unit_test(weaker_rules_are_refused),
        cmocka_unit_test(every_setting_of_the_worker_counts),
        cmocka_unit_test(samples_are_cut_as_told),
        cmocka_unit_test(nothing_is_agreed_on_before_samples_are_told),
        cmocka_unit_test(a_second_job_with_a_sample_less_is_refused),
        cmocka_unit_test(another_grid_is_refused),
        cmocka_unit_test(plans_that_let_colluders_collect_chunks_are_refused),
        cmocka_unit_test(a_plan_with_too_many_copies_is_refused),
        cmocka_unit_test(attempts_are_locked_over_lives),
        cmocka_unit_test(damaged_files_stop_it),
        cmocka_unit_test(the_finest_grid_is_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
