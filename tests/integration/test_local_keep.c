/* SPDX-License-Identifier: Apache-2.0 */
/* The local runtime with TARRY_KEEP_CREDITED. The worker machines' steps pass through here, so that
 * a worker can be lost at a chosen point. */
#include <stdatomic.h>

#include <tarry/worker.h>

#include "counting_allocator.h"
#include "summing.h"
#include "test.h"

int __real_tarry_worker_step(tarry_worker *worker, uint64_t now, const tarry_event *event,
                             const tarry_effects **effects);
int __wrap_tarry_worker_step(tarry_worker *worker, uint64_t now, const tarry_event *event,
                             const tarry_effects **effects);

typedef enum death { DEATH_NONE, DEATH_BY_NEWS, DEATH_BY_SIGNAL } death;

enum { ENOUGH_FOLDED = 6 };

/* Worker 0 dies in every round, of `cause`, once that much was folded. */
static struct {
    _Atomic death cause;
    _Atomic uint32_t folded; /* by worker 0 in this round */
    _Atomic uint32_t deaths;
    _Atomic uint32_t recalls; /* news that say what to compute first */
} fate;

/* Answers to worker 0 come so many answers late. */
enum { HELD_BACK = 3 };
static struct {
    bool late;
    tarry_message held[HELD_BACK]; /* the oldest first; its talking thread's */
    size_t count;
    _Atomic uint32_t open, most_open; /* gradients of worker 0 without a fate */
} answers;

/* What the worker is to hear in place of `event`: what stands in `out`, or nothing. News that have
 * sets go on their way at once: they are of other things. */
static const tarry_event *hold_back(const tarry_event *event, tarry_message *out,
                                    tarry_event *instead)
{
    const tarry_message *news = event->message;
    if (event->type != TARRY_EVENT_MESSAGE)
        return event;
    if (news->type == TARRY_MESSAGE_ROUND)
        answers.count = 0;
    if (!answers.late || news->type != TARRY_MESSAGE_NEWS || news->fate == TARRY_FATE_OPEN ||
        news->first != NULL || news->barred != NULL || news->recalled != NULL)
        return event;
    *instead = (tarry_event){.type = TARRY_EVENT_TIME};
    if (answers.count == HELD_BACK) {
        *out = answers.held[0];
        *instead = *event;
        instead->message = out;
        answers.count--;
        memmove(answers.held, answers.held + 1, answers.count * sizeof(*answers.held));
    }
    answers.held[answers.count++] = *news;
    return instead;
}

static void count_open(const tarry_event *event, const tarry_effects *effects)
{
    if (event->type == TARRY_EVENT_COMPUTED && !event->failed && effects->count > 0 &&
        effects->items[0].type == TARRY_EFFECT_SEND)
        atomic_fetch_add(&answers.open, 1);
    for (size_t i = 0; i < effects->count; i++)
        if (effects->items[i].type == TARRY_EFFECT_FOLD ||
            effects->items[i].type == TARRY_EFFECT_DROP)
            atomic_fetch_sub(&answers.open, 1);
    if (atomic_load(&answers.open) > atomic_load(&answers.most_open))
        atomic_store(&answers.most_open, atomic_load(&answers.open));
}

static void watch(const tarry_event *event, const tarry_effects *effects)
{
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        if (effect->type == TARRY_EFFECT_FOLD && effect->worker == 0)
            atomic_store(&fate.folded, effect->begins ? 1 : atomic_load(&fate.folded) + 1);
    }
    if (event->type == TARRY_EVENT_MESSAGE && event->message->type == TARRY_MESSAGE_NEWS &&
        event->message->first != NULL)
        atomic_fetch_add(&fate.recalls, 1);
}

static bool dies(const tarry_event *event, bool is_first)
{
    death cause = atomic_load(&fate.cause);
    if (!is_first || cause == DEATH_NONE || event->type != TARRY_EVENT_MESSAGE ||
        atomic_load(&fate.folded) < ENOUGH_FOLDED)
        return false;
    return event->message->type ==
           (cause == DEATH_BY_NEWS ? TARRY_MESSAGE_NEWS : TARRY_MESSAGE_SIGNAL);
}

static _Atomic(tarry_worker *) first_worker;

int __wrap_tarry_worker_step(tarry_worker *worker, uint64_t now, const tarry_event *event,
                             const tarry_effects **effects)
{
    if (dies(event, worker == atomic_load(&first_worker))) {
        atomic_store(&fate.folded, 0);
        atomic_fetch_add(&fate.deaths, 1);
        return TARRY_ERROR_NUMERICAL;
    }
    bool is_first = worker == atomic_load(&first_worker);
    tarry_message message;
    tarry_event instead;
    if (is_first)
        event = hold_back(event, &message, &instead);
    int error = __real_tarry_worker_step(worker, now, event, effects);
    if (error != TARRY_OK)
        return error;
    for (size_t i = 0; i < (*effects)->count; i++)
        if ((*effects)->items[i].worker == 0)
            atomic_store(&first_worker, worker);
    if (is_first)
        count_open(event, *effects);
    watch(event, *effects);
    return TARRY_OK;
}

/* Threads die as they happen to run: it goes on until that many have. */
static void run(summing *job, int rounds, death cause, uint32_t deaths)
{
    const int most = 50 * rounds;
    atomic_store(&fate.cause, cause);
    atomic_store(&fate.folded, 0);
    atomic_store(&fate.deaths, 0);
    atomic_store(&fate.recalls, 0);
    atomic_store(&first_worker, NULL);
    atomic_store(&answers.open, 0);
    atomic_store(&answers.most_open, 0);
    job->local_settings.server.keep = TARRY_KEEP_CREDITED;
    summing_begin(job);
    for (int round = 0; round < rounds || (atomic_load(&fate.deaths) < deaths && round < most);
         round++) {
        tarry_round_result result;
        tarry_diagnostic diagnostic;
        assert_ok_or(diagnostic, summing_round(job, &result, &diagnostic));
        assert_true(result.exact);
        assert_true(result.expected_error == 0);
        /* One copy of each chunk counts. */
        assert_int_equal(result.copies_coded, tarry_plan_chunks(job->plan));
        if (!(summing_error(job) <= 1e-5))
            fail_msg("round %d: error %g", round, summing_error(job));
    }
    assert_true(atomic_load(&fate.deaths) >= deaths);
    summing_end(job);
}

TEST(sums_of_credited_gradients_are_exact)
{
    const tarry_design designs[] = {TARRY_DESIGN_CYCLIC, TARRY_DESIGN_FRACTIONAL,
                                    TARRY_DESIGN_RANDOM};
    const size_t stripes[] = {0, 7, 1000};
    for (size_t i = 0; i < 3; i++) {
        summing job;
        summing_init(&job);
        job.plan_settings.design = designs[i];
        job.plan_settings.chunks = i == 2 ? 96 : 8;
        job.local_settings.server.stripe_length = stripes[i];
        run(&job, 50, DEATH_NONE, 0);
    }
}

/* Stragglers are in the middle of a chunk of an older round when the next one begins. */
TEST(stragglers_do_not_disturb_later_rounds)
{
    summing job;
    summing_init(&job);
    job.plan_settings.chunks = 32;
    job.dimension = 5000;
    job.straggler_spec = "pareto:0.0002,1.1/chunk";
    run(&job, 40, DEATH_NONE, 0);
}

TEST(dynamic_orders_fold_as_well)
{
    summing job;
    summing_init(&job);
    job.plan_settings.chunks = 64;
    job.straggler_spec = "shifted-exp:0.0002,0.0002/chunk";
    job.local_settings.server.pick = TARRY_PICK_SHARE;
    run(&job, 20, DEATH_BY_SIGNAL, 2); /* who rests comes back as well */
}

TEST(a_worker_without_chunks_has_nothing_to_fold)
{
    summing job;
    summing_init(&job);
    job.plan_settings.chunks = job.plan_settings.replication = 2;
    job.plan_settings.design = TARRY_DESIGN_RANDOM;
    run(&job, 20, DEATH_NONE, 0);
}

TEST(a_worker_lost_after_its_chunks_were_credited_costs_no_exactness)
{
    const death causes[] = {DEATH_BY_NEWS, DEATH_BY_SIGNAL};
    for (size_t i = 0; i < 2; i++) {
        summing job;
        summing_init(&job);
        job.plan_settings.chunks = 64;
        job.straggler_spec = "shifted-exp:0.0005,0.0001/chunk";
        run(&job, 20, causes[i], 2);
        if (causes[i] == DEATH_BY_SIGNAL)
            assert_true(atomic_load(&fate.recalls) > 0);
    }
}

/* It has several gradients without a fate when it is lost, and those never come. */
TEST(a_worker_that_runs_ahead_is_lost)
{
    const death causes[] = {DEATH_BY_NEWS, DEATH_BY_SIGNAL};
    for (size_t i = 0; i < 2; i++) {
        summing job;
        summing_init(&job);
        job.plan_settings.chunks = 64;
        job.straggler_spec = "shifted-exp:0.0005,0.0001/chunk";
        job.local_settings.server.ahead = 3 * HELD_BACK; /* answers before a recall are not heard */
        answers.late = true;
        run(&job, 20, causes[i], 2);
        answers.late = false;
        assert_true(atomic_load(&answers.most_open) > HELD_BACK);
    }
}

/* 64 chunks for each of 4 workers: the sum, a gradient, those that it runs ahead, and the
 * parameters.
 */
static void holds_no_more_than(uint32_t ahead, size_t vectors)
{
    summing job;
    summing_init(&job);
    job.dimension = 50000;
    job.plan_settings.workers = 4;
    job.plan_settings.chunks = 128;
    job.plan_settings.replication = 2;
    job.local_settings.server.keep = TARRY_KEEP_CREDITED;
    job.local_settings.server.ahead = ahead;
    summing_begin(&job);
    tarry_runtime_free(job.local, true);
    counting_allocator held;
    counting_allocator_init(&held);
    assert_ok(tarry_local_create(job.plan, &job.local_settings, &held.allocator, &job.local, NULL));
    tarry_round_result result;
    for (int round = 0; round < 3; round++)
        assert_ok(summing_round(&job, &result, NULL));
    assert_true(summing_error(&job) <= 1e-5);
    size_t vector = job.dimension * sizeof(float);
    assert_in_range(atomic_load(&held.most), vectors * 4 * vector,
                    vectors * 4 * vector + 2 * vector);
    summing_end(&job);
    assert_int_equal(atomic_load(&held.live), 0);
}

TEST(memory_does_not_grow_with_the_chunks)
{
    holds_no_more_than(0, 2);
    holds_no_more_than(1, 3);
    holds_no_more_than(TARRY_USUAL_AHEAD, TARRY_USUAL_AHEAD + 2);
    holds_no_more_than(64, 65); /* as many as with all: it has 64 chunks */
}
