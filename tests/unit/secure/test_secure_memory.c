/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker insists on: each thing that a server might offer instead is refused, in this life
 * of the worker and in the next. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>

#include <tarry/secure.h>

#include "base/hex.h"
#include "base/random.h"
#include "edge_plan.h"
#include "pki/authority.h"
#include "seed.h"
#include "test.h"
#include "test_file.h"

enum { SAMPLES = 800, WORKERS = 8, CHUNKS = 16, PATH_BYTES = 200 };

typedef struct bench {
    char root[64];
    uint32_t colluders;
    uint64_t least, samples;
    uint32_t bits; /* that the owner allows, and so on; 0: the default */
    double bound;
    uint64_t chunk_samples;
    char told[1024]; /* the last line */
    tarry_plan *plan;
    tarry_secure_rules rules;
    tarry_secure_offer offer;
    tarry_secure_memory *own;
    uint8_t target[TARRY_DIGEST_SIZE];
} bench;

static tarry_plan *make_plan(uint64_t seed, uint32_t replication)
{
    return plan_drawn(WORKERS, CHUNKS, replication, seed);
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
    settings.bits = its->bits;
    settings.bound = its->bound;
    settings.chunk_samples = its->chunk_samples;
    settings.bits_name = "--secure-bits";
    settings.bound_name = "--secure-bound";
    settings.chunk_samples_name = "--secure-chunk-samples";
    settings.tell = hear;
    settings.user = its;
    assert_ok_or(why, tarry_secure_memory_open(&settings, &its->own, &why));
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

#define BENCH(name) TEST_WITH(name, bench, its, begin, end)

static void tell_samples(const bench *its)
{
    assert_ok(tarry_secure_memory_samples(its->own, its->samples, CHUNKS, NULL));
}

static void agree(bench *its)
{
    tell_samples(its);
    tarry_diagnostic why;
    assert_ok_or(why, tarry_secure_memory_agree(its->own, &its->offer, its->target, &why));
}

static void refuse(bench *its, const char *said)
{
    tarry_diagnostic why;
    uint8_t target[TARRY_DIGEST_SIZE];
    tell_samples(its);
    assert_int_not_equal(tarry_secure_memory_agree(its->own, &its->offer, target, &why), TARRY_OK);
    assert_says(why.text, said);
}

static int count_entries(const char *folder)
{
    int count = 0;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(entries);
    return count;
}

BENCH(what_was_agreed_on_once_holds)
{
    agree(its);
    assert_says(its->told, "secure sums: numbers are multiples of 2^-15 up to 200 in 32 "
                           "bits; ");
    its->told[0] = '\0';
    agree(its);
    live_again(its);
    agree(its);
    assert_string_equal(its->told, "");
    /* Another job over the same samples. */
    its->offer.job_id[0] = 2;
    agree(its);
    live_again(its);
    agree(its);
}

/* The rules: each may be stricter than the worker's own, and none may be weaker. */
BENCH(weaker_rules_are_refused)
{
    its->rules.colluders = 0;
    refuse(its, "(colluders)");
    its->rules.colluders = 1;
    its->rules.least = 99;
    refuse(its, "--secure-least");
    its->rules.least = 500;
    agree(its);
}

BENCH(every_setting_of_the_worker_counts)
{
    its->least = 401;
    live_again(its);
    refuse(its, "the server would leave 400 samples to one sum, and this worker wants 401 "
                "(--secure-least)");
    its->least = 400;
    its->colluders = 2;
    live_again(its);
    refuse(its, "the server reckons with 1 colluders, and this worker with 2 (colluders)");
    its->colluders = 0;
    live_again(its);
    agree(its);
}

static void refuse_cut(bench *its, const uint64_t *begins, const char *said)
{
    tarry_diagnostic why;
    assert_ok(tarry_secure_memory_samples(its->own, its->samples, CHUNKS, begins));
    assert_int_not_equal(tarry_secure_memory_agree(its->own, &its->offer, its->target, &why),
                         TARRY_OK);
    assert_says(why.text, said);
}

/* Chunks of other sizes than even ones, and cuts that are none. */
BENCH(samples_are_cut_as_told)
{
    uint64_t begins[CHUNKS + 1];
    tarry_diagnostic why;
    for (uint64_t i = 0; i < CHUNKS; i++)
        begins[i] = 40 * i;
    begins[CHUNKS] = SAMPLES; /* the last one has 200; who has it has three more of 40 */
    refuse_cut(its, begins, "allows 800 (--secure-bound; by default 4 for each sample");
    its->bound = 200;
    live_again(its);
    its->rules.least = 600;
    assert_ok(tarry_secure_memory_samples(its->own, SAMPLES, CHUNKS, begins));
    assert_int_not_equal(tarry_secure_memory_agree(its->own, &its->offer, its->target, &why),
                         TARRY_OK);
    assert_says(why.text, "1 colluders may hold all but 480 of 800 samples");
    begins[3] = begins[4] + 1;
    assert_int_equal(tarry_secure_memory_samples(its->own, SAMPLES, CHUNKS, begins),
                     TARRY_ERROR_ARGUMENT);
    begins[3] = 120;
    assert_int_equal(tarry_secure_memory_samples(its->own, SAMPLES + 1, CHUNKS, begins),
                     TARRY_ERROR_ARGUMENT);
    begins[0] = 1;
    assert_int_equal(tarry_secure_memory_samples(its->own, SAMPLES, CHUNKS, begins),
                     TARRY_ERROR_ARGUMENT);
    assert_int_equal(tarry_secure_memory_samples(its->own, 0, CHUNKS, NULL), TARRY_ERROR_ARGUMENT);
    assert_int_equal(tarry_secure_memory_samples(its->own, 1, 0, NULL), TARRY_ERROR_ARGUMENT);
}

BENCH(nothing_is_agreed_on_before_samples_are_told)
{
    tarry_diagnostic why;
    assert_int_equal(tarry_secure_memory_agree(its->own, &its->offer, its->target, &why),
                     TARRY_ERROR_STATE);
    assert_string_equal(why.text, "secure sums: this worker has no samples of its own");
}

/* The second job has a sample less: the difference of the two sums would be that sample's. */
BENCH(a_second_job_with_a_sample_less_is_refused)
{
    agree(its);
    its->offer.job_id[0] = 2;
    its->samples = SAMPLES - 1;
    its->offer.data[0] ^= 1;
    refuse(its, "secure/target says");
    live_again(its);
    refuse(its, "secure/target says");
    its->samples = SAMPLES; /* as many, of which one is another one */
    refuse(its, "secure/target says");
    memset(its->offer.data, 0, sizeof(its->offer.data));
    refuse(its, "no samples of its own");
}

/* What the server has, and not what the owner allows. Nothing is written down. */
BENCH(a_grid_that_the_owner_does_not_allow_is_refused)
{
    static const struct {
        uint32_t bits;
        int32_t fraction;
        double bound;
        const char *said;
    } offers[] = {
        {64, 51, 200, "64 bits, and this worker's owner allows 32 (--secure-bits)"},
        {32, 15, 0.001, "bound is 0.001, and this worker's owner allows 200 (--secure-bound;"},
        {32, 15, 199.99999999999997, "this worker's owner allows 200 (--secure-bound;"},
        {32, 0, 1e6, "bound is 1000000, and this worker's owner allows 200 (--secure-bound;"},
        {32, 14, 200, "to multiples of 2^-14, which is more than 2^4 times as coarse as 32 bits"},
        {32, -7, 200, "to multiples of 2^7, which is more than 2^4 times as coarse"},
    };
    char path[PATH_BYTES];
    const tarry_secure_rules good = its->rules;
    for (size_t i = 0; i < sizeof(offers) / sizeof(offers[0]); i++) {
        its->rules.bits = offers[i].bits;
        its->rules.fraction = offers[i].fraction;
        its->rules.bound = offers[i].bound;
        refuse(its, offers[i].said);
    }
    snprintf(path, sizeof(path), "%s/secure", its->root);
    assert_int_equal(count_entries(path), 0);
    /* Each of the owner's settings allows that, and nothing else. */
    its->bits = 64;
    its->bound = 12.5;
    live_again(its);
    its->rules = good;
    refuse(its, "32 bits, and this worker's owner allows 64 (--secure-bits)");
    assert_ok(tarry_secure_rules_choose(64, 200, CHUNKS, &its->rules));
    refuse(its, "bound is 200, and this worker's owner allows 12.5 (--secure-bound;");
    assert_ok(tarry_secure_rules_choose(64, 12.5, CHUNKS, &its->rules));
    agree(its);
}

/* So many chunks that few bits are left for each number. */
BENCH(a_grid_of_few_steps_is_refused)
{
    tarry_diagnostic why;
    its->samples = its->rules.least = UINT64_C(1) << 32;
    its->bound = 1;
    live_again(its);
    assert_ok(tarry_secure_memory_samples(its->own, its->samples, 1u << 20, NULL));
    assert_ok(tarry_secure_rules_choose(32, 1, 1u << 20, &its->rules));
    assert_int_equal(tarry_secure_memory_agree(its->own, &its->offer, its->target, &why),
                     TARRY_ERROR_STATE);
    assert_says(why.text, "only 1024 steps up to the bound, and 4096 are wanted");
}

TEST(settings_that_are_none_are_refused)
{
    static const double bounds[] = {-1, NAN, INFINITY};
    tarry_secure_memory_settings settings;
    tarry_secure_memory *own;
    tarry_diagnostic why;
    for (int i = 0; i < 4; i++) {
        tarry_secure_memory_settings_init(&settings);
        settings.credentials = "/nonexistent";
        settings.bound = i < 3 ? bounds[i] : 0;
        settings.bits = i == 3 ? 16 : 0;
        assert_int_equal(tarry_secure_memory_open(&settings, &own, &why), TARRY_ERROR_ARGUMENT);
        assert_says(why.text, "bits are 32 or 64, and a bound is positive");
    }
}

/* With all others at the bound, a chunk of few samples would be seen in the sum. */
BENCH(a_chunk_of_few_samples_is_refused)
{
    uint64_t begins[CHUNKS + 1];
    its->bound = 200;
    for (uint64_t i = 0; i <= CHUNKS; i++)
        begins[i] = 50 * i;
    begins[7] = begins[6] + 31; /* chunk 6 */
    live_again(its);
    refuse_cut(its, begins,
               "chunk 6 of the server's plan has 31 samples, and this worker's owner "
               "wants 32 in each at least (--secure-chunk-samples)");
    begins[1] = 1;
    refuse_cut(its, begins, "chunk 0 of the server's plan has 1 samples, and");
    its->chunk_samples = 2;
    live_again(its);
    refuse_cut(its, begins,
               "chunk 0 of the server's plan has 1 samples, and this worker's owner "
               "wants 2");
    its->chunk_samples = 1;
    live_again(its);
    assert_ok(tarry_secure_memory_samples(its->own, SAMPLES, CHUNKS, begins));
    assert_ok(tarry_secure_memory_agree(its->own, &its->offer, its->target, NULL));
    begins[1] = 0; /* and one without any, whose sum is zero */
    refuse_cut(its, begins, "chunk 0 of the server's plan has 0 samples");
}

/* A coarse grid, or a small bound, makes sums count chunks above a threshold. */
BENCH(another_grid_is_refused)
{
    agree(its);
    const tarry_secure_rules agreed = its->rules;
    for (int i = 0; i < 3; i++) {
        const uint32_t bits = i == 0 ? 64 : 32;
        const double bound = i == 1 ? 1e-3 : 200;
        its->rules = agreed;
        its->offer.job_id[0]++;
        assert_ok(tarry_secure_rules_choose(bits, bound, CHUNKS, &its->rules));
        its->bits = bits; /* its owner has another one now, and has not removed the file */
        its->bound = bound;
        live_again(its);
        refuse(its, "secure/grid says");
        live_again(its);
        refuse(its, "secure/grid says");
    }
    its->rules = agreed;
    agree(its);
}

static bool accepts(bench *its)
{
    tarry_diagnostic why;
    tell_samples(its);
    if (tarry_secure_memory_agree(its->own, &its->offer, its->target, &why) == TARRY_OK)
        return true;
    assert_says(why.text, "colluders may hold all but");
    return false;
}

static void name_held(const bench *its, char path[PATH_BYTES])
{
    char digits[2 * TARRY_DIGEST_SIZE + 1];
    hex_put(digits, its->target, sizeof(its->target));
    snprintf(path, PATH_BYTES, "%s/secure/held-%s", its->root, digits);
}

static void remove_file(const bench *its, const char *name)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof(path), "%s/secure/%s", its->root, name);
    assert_int_equal(remove(path), 0);
}

/* Each plan by itself leaves enough; together they let one worker hold all but few samples. */
BENCH(plans_that_let_colluders_collect_chunks_are_refused)
{
    char path[PATH_BYTES];
    agree(its);
    bool refused = false;
    int plans = 1;
    tarry_plan *next = NULL;
    for (uint64_t seed = 2; !refused && seed < 12; seed++, plans++) {
        tarry_plan_free(next);
        its->offer.plan = next = make_plan(seed, 2);
        refused = !accepts(its);
    }
    assert_true(refused);
    assert_in_range(plans, 2, 10);
    /* The next life has not forgotten, whatever job it is of; and what was refused adds nothing. */
    its->offer.job_id[0]++;
    live_again(its);
    refuse(its, "colluders may hold all but");
    tarry_plan_free(next);
    its->offer.plan = its->plan;
    agree(its);
    /* A worker that remembers nothing would take them all, one after the other. */
    for (uint64_t seed = 2; seed < 12; seed++) {
        name_held(its, path);
        assert_int_equal(remove(path), 0);
        remove_file(its, "target");
        live_again(its);
        its->offer.plan = next = make_plan(seed, 2);
        agree(its);
        tarry_plan_free(next);
    }
}

/* What one worker holds under plans, a flag for each sample. */
static void hold(bool of[WORKERS][SAMPLES], const tarry_plan *plan)
{
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        for (uint32_t slot = 0; slot < tarry_plan_load(plan, worker); slot++) {
            const uint32_t chunk = tarry_plan_chunk(plan, worker, slot);
            for (uint32_t i = 0; i < SAMPLES / CHUNKS; i++)
                of[worker][chunk * (SAMPLES / CHUNKS) + i] = true;
        }
}

/* The fewest samples that some one worker has not held. */
static uint64_t fewest_left(bool of[WORKERS][SAMPLES])
{
    uint64_t fewest = SAMPLES;
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        uint64_t left = 0;
        for (uint32_t i = 0; i < SAMPLES; i++)
            left += !of[worker][i];
        fewest = left < fewest ? left : fewest;
    }
    return fewest;
}

/*
 * A server's jobs in any order: of four ids, over other samples and with other grids too, which are
 * refused, and the worker is killed at times. The oracle has a flag for each worker and sample, of
 * what was accepted; an offer has to be accepted exactly if it leaves enough with that.
 */
BENCH(no_job_makes_the_samples_held_forgotten)
{
    enum { OFFERS = 300 };
    static bool accepted[WORKERS][SAMPLES], with[WORKERS][SAMPLES];
    random_stream random = random_stream_make(test_seed("offers", 1), RANDOM_TEST, 0, 0);
    int taken = 0, refused = 0;
    memset(accepted, 0, sizeof(accepted));
    its->rules.least = 300;
    const tarry_secure_rules agreed = its->rules;
    for (int i = 0; i < OFFERS; i++) {
        const uint64_t draw = random_u64(&random);
        OWNED(tarry_plan) plan = make_plan(draw / 1000 % 40 + 1, 1 + draw % 2);
        its->offer.job_id[0] = (uint8_t)(draw / 2 % 4 + 1);
        its->offer.plan = plan;
        memcpy(with, accepted, sizeof(with));
        hold(with, plan);
        if (taken > 0 && draw / 8 % 4 == 0) {
            its->offer.data[0] ^= 1; /* other samples, of another job */
            refuse(its, "secure/target says");
            its->offer.data[0] ^= 1;
        } else if (taken > 0 && draw / 8 % 4 == 1) {
            its->rules.fraction++;
            refuse(its, "secure/grid says");
            its->rules = agreed;
        } else if (fewest_left(with) >= agreed.least) {
            agree(its);
            memcpy(accepted, with, sizeof(with));
            taken++;
        } else {
            assert_false(accepts(its));
            refused++;
        }
        if (draw / 32 % 4 == 0)
            live_again(its);
    }
    assert_true(taken > 2 && refused > OFFERS / 10);
}

/* The record goes with the samples: the record of others does not count, and is kept. */
BENCH(each_target_has_its_record)
{
    OWNED(tarry_plan) other = make_plan(5, 2);
    its->rules.least = 600; /* one plan, and not a second one */
    agree(its);
    for (int turn = 0; turn < 2; turn++) {
        its->offer.plan = other;
        refuse(its, "colluders may hold all but");
        /* Its owner has other samples now. */
        remove_file(its, "target");
        its->offer.data[0] ^= 1;
        live_again(its);
        agree(its);
        its->offer.plan = its->plan;
        refuse(its, "colluders may hold all but");
        /* And goes back to the first. */
        remove_file(its, "target");
        its->offer.data[0] ^= 1;
        agree(its);
    }
}

/* A first offer that fails any check leaves nothing that a second one would be held to. */
BENCH(nothing_is_written_before_all_checks_pass)
{
    char path[PATH_BYTES];
    OWNED(tarry_plan) thick = make_plan(3, 6);
    its->offer.plan = thick;
    refuse(its, "colluders may hold all but");
    snprintf(path, sizeof(path), "%s/secure", its->root);
    assert_int_equal(count_entries(path), 0);
    its->offer.plan = its->plan;
    its->offer.data[0]++;
    its->rules.fraction++;
    agree(its);
    assert_int_equal(count_entries(path), 3);
    its->offer.plan = thick;
    refuse(its, "colluders may hold all but");
    live_again(its);
    its->offer.plan = its->plan;
    agree(its);
}

/* A kill between two of the three files: the record, the grid, and the target at last. */
BENCH(a_kill_between_files_loses_nothing)
{
    static const char *const last[] = {"target", "grid"};
    OWNED(tarry_plan) other = make_plan(5, 2);
    its->rules.least = 600;
    agree(its);
    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; j <= i; j++)
            remove_file(its, last[j]);
        live_again(its);
        its->offer.plan = other;
        refuse(its, "colluders may hold all but");
        its->offer.plan = its->plan;
        agree(its);
    }
}

BENCH(a_plan_with_too_many_copies_is_refused)
{
    OWNED(tarry_plan) thick = make_plan(3, 6);
    its->offer.plan = thick;
    refuse(its, "colluders may hold all but 200 of 800 samples, and 400 are to be left");
}

/* Whatever job was in between, and whether it was refused. */
BENCH(attempts_are_locked_over_jobs)
{
    tarry_diagnostic why;
    tarry_secure_attempt first = {.job_id = {1},
                                  .epoch = 5,
                                  .round = 9,
                                  .attempt = 1,
                                  .kappa = {1}},
                         next = first, other = {.job_id = {2}, .epoch = 1, .kappa = {3}};
    agree(its);
    assert_ok(tarry_secure_memory_lock(its->own, &first, &why));
    for (int life = 0; life < 2; life++) {
        its->offer.job_id[0] = 2;
        agree(its);
        assert_ok(tarry_secure_memory_lock(its->own, &other, &why));
        its->offer.job_id[0] = 3;
        its->offer.data[0] ^= 1;
        refuse(its, "secure/target says");
        its->offer.data[0] ^= 1;
        next = first;
        next.kappa[0] = 2;
        assert_int_equal(tarry_secure_memory_lock(its->own, &next, &why), TARRY_ERROR_STATE);
        next.epoch = 1;
        assert_int_equal(tarry_secure_memory_lock(its->own, &next, &why), TARRY_ERROR_STATE);
        assert_ok(tarry_secure_memory_lock(its->own, &first, &why));
        live_again(its);
    }
}

BENCH(attempts_are_locked_over_lives)
{
    tarry_diagnostic why;
    tarry_secure_attempt attempt = {
        .job_id = {1}, .epoch = 1, .round = 3, .attempt = 1, .kappa = {5}};
    agree(its);
    assert_ok(tarry_secure_memory_lock(its->own, &attempt, &why));
    assert_ok(tarry_secure_memory_lock(its->own, &attempt, &why));
    live_again(its);
    agree(its);
    assert_ok(tarry_secure_memory_lock(its->own, &attempt, &why));
    attempt.kappa[0] = 6; /* the same attempt, of another group, plan or parameters */
    assert_int_equal(tarry_secure_memory_lock(its->own, &attempt, &why), TARRY_ERROR_STATE);
    attempt.round = 2;
    assert_int_equal(tarry_secure_memory_lock(its->own, &attempt, &why), TARRY_ERROR_STATE);
    attempt.epoch = 2;
    assert_ok(tarry_secure_memory_lock(its->own, &attempt, &why));
}

/* A file that was cut anywhere, or has another byte, is refused with its name. */
BENCH(damaged_files_stop_it)
{
    char paths[3][PATH_BYTES], kept[8192], damaged[8192];
    agree(its);
    snprintf(paths[0], PATH_BYTES, "%s/secure/target", its->root);
    snprintf(paths[1], PATH_BYTES, "%s/secure/grid", its->root);
    name_held(its, paths[2]);
    random_stream random = random_stream_make(test_seed("damage", 1), RANDOM_TEST, 0, 0);
    for (size_t i = 0; i < 3; i++) {
        const size_t size = read_file(paths[i], kept, sizeof(kept));
        assert_in_range(size, 1, sizeof(kept) - 1);
        for (int j = 0; j < 40; j++) {
            const size_t at = random_u64(&random) % size;
            memcpy(damaged, kept, size);
            damaged[at] ^= j % 3 == 0 ? 0x40 : 1; /* often another digit */
            write_file(paths[i], damaged, j % 2 == 0 ? at : size);
            live_again(its);
            refuse(its, strrchr(paths[i], '/') + 1);
        }
        for (size_t at = 0; at < size; at++) { /* whole lines are missing, among others */
            write_file(paths[i], kept, at);
            refuse(its, strrchr(paths[i], '/') + 1);
        }
        write_file(paths[i], kept, size);
    }
    live_again(its);
    agree(its);
    /* One that is missing was lost: the target says that there was one. */
    assert_int_equal(remove(paths[2]), 0);
    refuse(its, ": is missing: what workers held under earlier plans is not known");
    remove_file(its, "target");
    agree(its);
}

/* Sums of so many numbers at the bound fit, and would not with half the step. */
TEST(the_finest_grid_is_chosen)
{
    static const uint64_t chunks[] = {1, 2, 12, 1000, 1000000};
    static const double bounds[] = {1e-20, 0.3, 1, 4000, 1e9};
    tarry_secure_rules rules = {.colluders = 3, .least = 5};
    for (size_t i = 0; i < 5; i++) {
        for (size_t j = 0; j < 5; j++) {
            for (uint32_t bits = 32; bits <= 64; bits += 32) {
                assert_ok(tarry_secure_rules_choose(bits, bounds[j], chunks[i], &rules));
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
