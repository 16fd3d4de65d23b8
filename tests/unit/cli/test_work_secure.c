/* SPDX-License-Identifier: Apache-2.0 */
/* What tarry work looks at in a job before the library looks at rules, plan and files. */
#include "cli/work/command_work.h"

#include "edge_plan.h"
#include "pki/authority.h"
#include "test.h"

enum { SAMPLES = 800, CHUNKS = 16 };

typedef struct bench {
    char root[64];
    secure_options options;
    tarry_plan *plan;
    tarry_secure_rules rules;
    job_spec spec;
    tarry_secure_offer offer;
    work_secure *own;
} bench;

static void begin(bench *its)
{
    tarry_diagnostic why;
    *its = (bench){
        .rules = {.bits = 32, .fraction = 15, .bound = 200, .colluders = 1, .least = 400},
        .spec = {.secure = true, .batch = {.rows = SAMPLES, .chunks = CHUNKS}},
    };
    strcpy(its->root, "/tmp/tarry-work-secure-XXXXXX");
    assert_non_null(mkdtemp(its->root));
    secure_options_init(&its->options);
    its->plan = plan_drawn(8, CHUNKS, 2, 1);
    its->offer = (tarry_secure_offer){
        .rules = &its->rules, .job_id = {1}, .plan = its->plan, .data = {7, 7, 7}};
    assert_ok_or(why, work_secure_create(&its->options, its->root, true, &its->own, &why));
}

static void end(bench *its)
{
    work_secure_free(its->own);
    tarry_plan_free(its->plan);
    authority_remove(its->root);
}

#define BENCH(name) TEST_WITH(name, bench, its, begin, end)

static int ask(bench *its, tarry_diagnostic *why)
{
    uint8_t target[TARRY_DIGEST_SIZE];
    assert_ok(work_secure_job(its->own, &its->spec));
    return work_secure_agree(its->own, &its->offer, target, why);
}

static void agree(bench *its)
{
    tarry_diagnostic why;
    assert_ok_or(why, ask(its, &why));
}

static void refuse(bench *its, const char *said)
{
    tarry_diagnostic why;
    assert_int_not_equal(ask(its, &why), TARRY_OK);
    assert_says(why.text, said);
}

BENCH(a_job_over_parts_of_the_samples_is_refused)
{
    agree(its);
    its->spec.batch.batch = 100;
    refuse(its, "sums over batches");
    its->spec.batch.batch = 0;
    its->spec.local.steps = 2;
    refuse(its, "local steps");
    its->spec.local.steps = 0;
    its->spec.everywhere = true;
    refuse(its, "workers would get the sum");
    its->spec.everywhere = false;
    its->spec.secure = false;
    refuse(its, "says nothing of secure sums");
    its->spec.secure = true;
    agree(its);
}

/* In the words of the command line. */
BENCH(weaker_rules_are_refused)
{
    its->rules.colluders = 0;
    refuse(its, "this worker with 1 (--secure-colluders)");
    its->rules.colluders = 1;
    its->rules.least = 99;
    refuse(its, "this worker wants 100 (--secure-least)");
    its->rules.least = 800;
    refuse(its, "800 are to be left (--secure-least)");
}

BENCH(attempts_are_locked)
{
    tarry_secure_attempt attempt = {
        .job_id = {1}, .epoch = 1, .round = 3, .attempt = 1, .kappa = {5}};
    agree(its);
    assert_ok(work_secure_lock(its->own, &attempt, NULL));
    attempt.round = 2;
    assert_int_equal(work_secure_lock(its->own, &attempt, NULL), TARRY_ERROR_STATE);
}
