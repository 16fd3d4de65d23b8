/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An executor whose sums are secure, without a server: worker 0 of two, which has the chunks 0 and
 * 1. The test is its uplink, and has the key of worker 1, whose masks are taken off what is sent.
 */
#include <openssl/evp.h>

#include "edge_plan.h"
#include "executor_rig.h"
#include "privacy/secure/secure_member.h"
#include "runtime/masked_words.h"
#include "test.h"

enum { LOAD = 2, CHUNKS = 3, DIMENSION = 10, STRIPE = 4, STRIPES = 3, WORD = 4 };

static const edge edges[] = {{0, 0}, {0, 1}, {1, 2}};
static const uint32_t holders[CHUNKS] = {0, 0, 1};
static const uint32_t lives[2] = {1, 5};
static const uint8_t digest[TARRY_DIGEST_SIZE] = {9};

typedef struct bench {
    executor_rig rig;
    masking *masks;
    agreement *pair; /* of worker 1, */
    secure_member *other;
    ring grid;
    bool refuses;        /* the lock does */
    double clamped_most; /* as the member says */
    bool shut;           /* compute functions wait */
    uint8_t bound;       /* what they bind their tasks to; 0: nothing */
    int bindings[3];     /* what comes of that, of the same once more, and of something else */

    /* Under the lock. */
    uint8_t parts[STRIPES][WORD * (STRIPE + MASKED_COUNTS)];
    size_t sent; /* stripes */
    size_t locks, refusals, calls;
    int error;
    char why[400];
} bench;

static void post(void *user, const tarry_message *message, bool more)
{
    bench *own = user;
    rig_post(&own->rig, message, more);
}

static void post_part(void *user, const tarry_message *message, const executor_stripe *stripe)
{
    bench *own = user;
    pthread_mutex_lock(&own->rig.lock);
    memcpy(own->parts[message->stripe], stripe->bytes, stripe->size);
    own->sent += stripe->size == ring_bytes(&own->grid, stripe->count + MASKED_COUNTS);
    pthread_cond_broadcast(&own->rig.change);
    pthread_mutex_unlock(&own->rig.lock);
}

static void claim(void *user, size_t first, size_t count)
{
    assert_true(first + count <= DIMENSION);
}

static void give_up(void *user, int error, const char *why)
{
    bench *own = user;
    pthread_mutex_lock(&own->rig.lock);
    own->refusals++;
    own->error = error;
    strncpy(own->why, why, sizeof(own->why) - 1);
    pthread_cond_broadcast(&own->rig.change);
    pthread_mutex_unlock(&own->rig.lock);
}

static int note_attempt(void *user, const tarry_secure_attempt *attempt,
                        tarry_diagnostic *diagnostic)
{
    bench *own = user;
    pthread_mutex_lock(&own->rig.lock);
    own->locks++;
    bool early = own->sent == 0;
    bool refuses = own->refuses;
    pthread_mutex_unlock(&own->rig.lock);
    return refuses || !early || attempt->epoch != 1 ? TARRY_ERROR_FILE : TARRY_OK;
}

/* The gradient of chunk c is the parameter times c + 1, but for its last number. */
static int compute(void *user, const tarry_task *task)
{
    bench *own = user;
    pthread_mutex_lock(&own->rig.lock);
    own->calls++;
    pthread_cond_broadcast(&own->rig.change);
    while (own->shut)
        pthread_cond_wait(&own->rig.change, &own->rig.lock);
    pthread_mutex_unlock(&own->rig.lock);
    if (own->bound != 0) {
        const uint8_t state[TARRY_DIGEST_SIZE] = {own->bound}, other[TARRY_DIGEST_SIZE] = {1};
        own->bindings[0] = tarry_task_bind(task, state);
        own->bindings[1] = tarry_task_bind(task, state);
        own->bindings[2] = tarry_task_bind(task, other);
    }
    for (size_t i = 0; i < DIMENSION; i++)
        task->gradient[i] = task->parameters[0] * (float)(task->chunk + 1);
    task->gradient[DIMENSION - 1] = 1e9F;
    return 0;
}

static masking_settings masking_of(bench *own)
{
    return (masking_settings){
        .rules = {.bits = 32,
                  .fraction = own->grid.fraction,
                  .bound = own->grid.bound,
                  .colluders = 1,
                  .least = 1,
                  .roster = {3}},
        .workers = 2,
        .job_id = {4},
        .terms = {8},
        .job = {5},
        .target = {6},
        .member = {.lock = note_attempt,
                   .user = own,
                   .clamped_most = own->clamped_most,
                   .bound_name = "--bound"},
    };
}

/* With a share of numbers that may be beyond the bound; one of ten is. */
static void set_up_with(bench *own, double clamped_most)
{
    *own = (bench){.clamped_most = clamped_most};
    rig_init(&own->rig);
    own->rig.plan = edge_plan_make(2, CHUNKS, 1, edges, CHUNKS, NULL);
    assert_non_null(own->rig.plan);
    assert_true(ring_choose(32, 100, CHUNKS, &own->grid));
    assert_ok(snapshots_init(&own->rig.pool, 1, 1, NULL));
    const masking_settings wishes = masking_of(own);
    assert_ok(masking_create(&wishes, NULL, &own->masks));
    own->pair = agreement_create();
    assert_non_null(own->pair);
    assert_ok(secure_member_create(1, 2, own->pair, NULL, &own->other));
    const executor_settings settings = {
        .compute = compute,
        .user = own,
        .snapshots = &own->rig.pool,
        .masking = own->masks,
        .grid = own->grid,
        .uplink =
            {.post = post, .post_part = post_part, .claim = claim, .give_up = give_up, .user = own},
    };
    const tarry_server_settings server = {.keep = TARRY_KEEP_CREDITED,
                                          .ahead = LOAD,
                                          .conditioning_limit = 1e6,
                                          .dimension = DIMENSION,
                                          .stripe_length = STRIPE};
    assert_ok(executor_init(&own->rig.executor, &settings, own->rig.plan, &server, NULL));
    assert_ok(executor_start(&own->rig.executor));
}

static void set_up(bench *own)
{
    set_up_with(own, 0.1);
}

static void tear_down(bench *own)
{
    rig_end(&own->rig);
    masking_free(own->masks);
    secure_member_free(own->other);
    agreement_free(own->pair);
}

#define BENCH(name) TEST_OF(name, bench, own, tear_down)

static void gives_parameters(bench *own, uint64_t round, float value, const uint8_t hash[32])
{
    float *parameters = snapshots_begin(&own->rig.pool);
    assert_non_null(parameters);
    parameters[0] = value;
    snapshots_set_digest(&own->rig.pool, hash);
    snapshots_commit(&own->rig.pool, round);
}

static void says_round(bench *own, uint64_t round)
{
    rig_say(&own->rig, &(tarry_message){.type = TARRY_MESSAGE_ROUND, .epoch = 1, .round = round});
}

static void expect_report(bench *own)
{
    tarry_message report = rig_next_post(&own->rig);
    assert_int_equal(report.type, TARRY_MESSAGE_REPORT);
    assert_false(report.failed);
}

static void says_credited(bench *own, uint64_t round, uint32_t slot)
{
    rig_say(&own->rig, &(tarry_message){.type = TARRY_MESSAGE_NEWS,
                                        .epoch = 1,
                                        .round = round,
                                        .slot = slot,
                                        .fate = TARRY_FATE_CREDITED});
}

static void says_signal(bench *own, uint64_t round, uint32_t attempt, const uint32_t *named)
{
    const uint64_t psi = 3, stripes = 7;
    rig_say(&own->rig, &(tarry_message){.type = TARRY_MESSAGE_SIGNAL,
                                        .epoch = 1,
                                        .round = round,
                                        .attempt = attempt,
                                        .psi = &psi,
                                        .stripes = &stripes,
                                        .holders = holders,
                                        .lives = named});
}

/* What it was told before has been dealt with once it answers. */
static void is_heard(bench *own)
{
    size_t before = rig_get(&own->rig, &own->rig.count);
    rig_say(&own->rig, &(tarry_message){.type = TARRY_MESSAGE_PROBE, .epoch = 1});
    rig_await(&own->rig, &own->rig.count, before + 1);
    own->rig.read = before + 1;
}

static void hears_of_the_other(bench *own)
{
    assert_ok(masking_hear(own->masks, 1, lives[1], agreement_public_key(own->pair)));
}

/* Finishes both chunks, of which the server credits both. */
static void works(bench *own, uint64_t round, float value)
{
    gives_parameters(own, round, value, digest);
    says_round(own, round);
    for (uint32_t slot = 0; slot < LOAD; slot++) {
        expect_report(own);
        says_credited(own, round, slot);
    }
}

static void name_parameters(const bench *own, uint8_t out[32])
{
    static const char label[] = "tarry: parameters and a state, 1";
    uint8_t bytes[sizeof(label) + 64] = {0};
    memcpy(out, digest, 32);
    if (own->bound == 0)
        return;
    memcpy(bytes, label, sizeof(label));
    memcpy(bytes + sizeof(label), digest, 32);
    bytes[sizeof(label) + 32] = own->bound;
    assert_int_equal(EVP_Digest(bytes, sizeof(bytes), out, NULL, EVP_sha256(), NULL), 1);
}

/* Takes the masks of worker 1 off, by the same names of everything, and reads what is left. */
static void assert_part_is(bench *own, uint64_t round, uint32_t attempt, float sum)
{
    const masking_settings wishes = masking_of(own);
    const layout cut = layout_make(DIMENSION, 1, STRIPE);
    uint8_t kappa[KAPPA_BYTES];
    kappa_context context = {
        .round = round,
        .attempt = attempt,
        .ring = own->grid,
        .colluders = wishes.rules.colluders,
        .workers = 2,
        .lives = lives,
        .chunks = CHUNKS,
        .holders = holders,
    };
    memcpy(context.job, wishes.job, 32);
    memcpy(context.target, wishes.target, 32);
    memcpy(context.terms, wishes.terms, 32);
    memcpy(context.plan, own->rig.plan->digest, 32);
    name_parameters(own, context.parameters);
    assert_ok(secure_member_hear(own->other, 0, lives[0], masking_key(own->masks)));
    assert_ok(secure_member_hear(own->other, 1, lives[1], agreement_public_key(own->pair)));
    assert_ok(secure_member_begin(own->other, &context, kappa));
    for (uint32_t index = 0; index < STRIPES; index++) {
        const size_t length = layout_stripe_length(&cut, index);
        uint8_t *words = own->parts[index];
        float numbers[STRIPE];
        uint8_t *behind = words + ring_bytes(&own->grid, length);
        const size_t start = layout_stripe_start(&cut, index);
        masked_counts counts;
        assert_false(masked_counts_get(&own->grid, behind, &counts));
        assert_ok(secure_member_mask_numbers(own->other, start, words, words, length));
        assert_ok(secure_member_mask_counts(own->other, start, behind));
        ring_read(&own->grid, words, length, numbers);
        for (size_t i = 0; i < length; i++) { /* the last of all was clamped to 100, twice */
            bool last = start + i + 1 == DIMENSION;
            assert_float_equal(numbers[i], (last ? 200.0F : sum), 1e-4F);
        }
        assert_true(masked_counts_get(&own->grid, behind, &counts));
        assert_int_equal(counts.chunks, LOAD);
        assert_int_equal(counts.clamped, index == 0 ? LOAD : 0); /* those of the last stripe */
    }
}

BENCH(a_part_is_masked_for_those_who_take_part)
{
    set_up(own);
    hears_of_the_other(own);
    for (uint32_t round = 0; round < 3; round++) {
        pthread_mutex_lock(&own->rig.lock);
        own->sent = 0;
        pthread_mutex_unlock(&own->rig.lock);
        works(own, round, 2 + (float)round);
        says_signal(own, round, 1, lives);
        rig_await(&own->rig, &own->sent, STRIPES);
        assert_int_equal(rig_get(&own->rig, &own->locks), round + 1);
        assert_part_is(own, round, 1, 3 * (2 + (float)round));
    }
    assert_int_equal(rig_get(&own->rig, &own->refusals), 0);
}

/* Masks are of the state, too, that a round's tasks were bound to; another round has another one.
 */
BENCH(a_part_is_masked_for_those_with_the_same_state)
{
    set_up(own);
    hears_of_the_other(own);
    for (uint32_t round = 0; round < 3; round++) {
        pthread_mutex_lock(&own->rig.lock);
        own->sent = 0;
        own->bound = round < 2 ? (uint8_t)(7 + round) : 0;
        pthread_mutex_unlock(&own->rig.lock);
        works(own, round, 2);
        says_signal(own, round, 1, lives);
        rig_await(&own->rig, &own->sent, STRIPES);
        assert_part_is(own, round, 1, 6);
        assert_ok(own->bindings[0]);
        assert_ok(own->bindings[1]);
        assert_int_equal(own->bindings[2], TARRY_ERROR_STATE);
    }
    assert_int_equal(rig_get(&own->rig, &own->refusals), 0);
}

/* Who gives some workers other parameters in the middle of a round would learn what these make of
 * a chunk, if the others' gradients are zero. */
TEST(other_parameters_within_a_round_end_it)
{
    for (unsigned between = 0; between < 2; between++) {
        bench own;
        set_up(&own);
        hears_of_the_other(&own);
        if (between) { /* two chunks */
            rig_set(&own.rig, &own.shut, true);
            gives_parameters(&own, 0, 2, digest);
            says_round(&own, 0);
            rig_await(&own.rig, &own.calls, 1);
            gives_parameters(&own, 0, 3, digest);
            rig_set(&own.rig, &own.shut, false);
            for (uint32_t slot = 0; slot < LOAD; slot++) {
                expect_report(&own);
                says_credited(&own, 0, slot);
            }
        } else { /* them and the signal */
            works(&own, 0, 2);
            gives_parameters(&own, 0, 3, digest);
        }
        says_signal(&own, 0, 1, lives);
        rig_await(&own.rig, &own.refusals, 1);
        is_heard(&own);
        assert_non_null(strstr(own.why, "other parameters"));
        assert_int_equal(rig_get(&own.rig, &own.sent), 0);
        assert_int_equal(rig_get(&own.rig, &own.locks), 0);
        tear_down(&own);
    }
}

/* Numbers that are all at the bound would leave the others to be seen in the sum. */
TEST(a_part_with_too_many_clamped_numbers_is_not_sent)
{
    static const double most[] = {0, 0.0999, 0.5};
    for (unsigned i = 0; i < 3; i++) {
        bench own;
        set_up_with(&own, most[i]);
        hears_of_the_other(&own);
        works(&own, 7, 2);
        says_signal(&own, 7, 1, lives);
        if (i == 2) {
            rig_await(&own.rig, &own.sent, STRIPES);
        } else {
            rig_await(&own.rig, &own.refusals, 1);
            says_signal(&own, 7, 2, lives); /* nor in another attempt */
            is_heard(&own);
            assert_int_equal(own.error, TARRY_ERROR_STATE);
            assert_non_null(strstr(own.why, "in round 7, 10 % of this worker's numbers are beyond "
                                            "the bound of 100"));
            assert_int_equal(rig_get(&own.rig, &own.sent), 0);
            assert_int_equal(rig_get(&own.rig, &own.locks), 0);
        }
        tear_down(&own);
    }
}

BENCH(a_lock_that_is_not_written_ends_it)
{
    set_up(own);
    own->refuses = true;
    hears_of_the_other(own);
    works(own, 0, 2);
    says_signal(own, 0, 1, lives);
    rig_await(&own->rig, &own->refusals, 1);
    rig_set(&own->rig, &own->refuses, false); /* what could be written later changes nothing */
    is_heard(own);
    assert_int_equal(own->error, TARRY_ERROR_FILE);
    assert_int_equal(rig_get(&own->rig, &own->refusals), 1);
    assert_int_equal(rig_get(&own->rig, &own->locks), 1);
    assert_int_equal(rig_get(&own->rig, &own->sent), 0);
}

/* A key that comes too late is that of a later life. */
BENCH(nothing_is_sent_to_a_life_that_nobody_told_of)
{
    set_up(own);
    works(own, 0, 2);
    says_signal(own, 0, 1, lives);
    is_heard(own);
    assert_int_equal(rig_get(&own->rig, &own->sent), 0);
    assert_int_equal(rig_get(&own->rig, &own->refusals), 0);
    assert_int_equal(rig_get(&own->rig, &own->locks), 0);
}

BENCH(a_signal_that_breaks_a_rule_ends_it)
{
    const uint32_t other_life[2] = {2, 5};
    set_up(own);
    hears_of_the_other(own);
    works(own, 0, 2);
    says_signal(own, 0, 1, other_life);
    rig_await(&own->rig, &own->refusals, 1);
    assert_int_equal(own->error, TARRY_ERROR_STATE);
    assert_string_not_equal(own->why, "");
    assert_int_equal(rig_get(&own->rig, &own->sent), 0);
}

/* ---- without an executor ---- */

typedef struct
try {
    bench *own;
    masking_attempt attempt;
}
try;

static try attempt_of(bench *own)
{
    return (try){.own = own,
                 .attempt = {.epoch = lives[0],
                             .round = 3,
                             .attempt = 1,
                             .plan = own->rig.plan,
                             .parameters = digest,
                             .holders = holders,
                             .lives = lives,
                             .version = 7}};
}

static int begins(const try *its, bool *ready)
{
    tarry_diagnostic why = {{0}};
    int error = masking_begin(its->own->masks, &its->attempt, ready, &why);
    assert_int_equal(error == TARRY_OK, why.text[0] == '\0');
    return error;
}

BENCH(masks_are_made_once_for_one_content)
{
    bool ready;
    set_up(own);
    hears_of_the_other(own);
    try its = attempt_of(own);
    assert_ok(begins(&its, &ready));
    assert_true(ready);
    assert_ok(begins(&its, &ready)); /* the next stripe */
    assert_true(ready);
    assert_int_equal(own->locks, 1);
    its.attempt.version++;
    assert_int_equal(begins(&its, &ready), TARRY_ERROR_STATE);
}

BENCH(attempts_never_go_back)
{
    bool ready;
    set_up(own);
    hears_of_the_other(own);
    try its = attempt_of(own);
    its.attempt.attempt = 2;
    assert_ok(begins(&its, &ready));
    its.attempt.attempt = 1;
    assert_int_equal(begins(&its, &ready), TARRY_ERROR_STATE);
    its.attempt.attempt = 2;
    its.attempt.round = 2;
    assert_int_equal(begins(&its, &ready), TARRY_ERROR_STATE);
    its.attempt.round = 4;
    its.attempt.attempt = 1;
    assert_ok(begins(&its, &ready));
}

BENCH(a_key_that_is_none_is_not_heard)
{
    const uint8_t zeros[MASKING_KEY_BYTES] = {0};
    set_up(own);
    assert_int_equal(masking_hear(own->masks, 0, 1, masking_key(own->masks)), TARRY_ERROR_ARGUMENT);
    assert_int_equal(masking_hear(own->masks, 2, 1, agreement_public_key(own->pair)),
                     TARRY_ERROR_ARGUMENT);
    assert_int_equal(masking_hear(own->masks, 1, 0, agreement_public_key(own->pair)),
                     TARRY_ERROR_ARGUMENT);
    assert_ok(masking_hear(own->masks, 1, lives[1], zeros));
    bool ready;
    const try its = attempt_of(own);
    assert_int_equal(begins(&its, &ready), TARRY_ERROR_NUMERICAL);
    assert_int_equal(own->locks, 0);
}
