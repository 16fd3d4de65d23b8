/* SPDX-License-Identifier: Apache-2.0 */
/* An executor without a server: the test is its uplink, and says when a compute function returns.
 */
#include <sched.h>

#include "compress/compress.h"
#include "edge_plan.h"
#include "executor_rig.h"
#include "failing_allocator.h"
#include "protocol/form.h"
#include "runtime/clock.h"
#include "test.h"

enum { LOAD = 3, DIMENSION = 10, STRIPE = 4, SEED = 7 };

/* One worker computes chunk 0, then 1, then 2; nobody else does: psi is a bit per position. */
static const edge edges[] = {{0, 0}, {0, 1}, {0, 2}};

typedef struct bench {
    executor_rig rig;
    compress_form form;
    residuals *mirror; /* what the executor should keep of what rounding lost; NULL: none */
    bool leaves;       /* its parts are to come as they are; */
    bool late;         /* the same: the round is over */
    float factor[2];   /* that of the round, with POWERSGD */
    uint64_t round;    /* the last that the executor was told of */

    /* Under the lock. */
    size_t claims, claimed_before_part;
    size_t parts_unannounced; /* posted while it was not said to encode */
    bool shut;                /* compute functions wait, */
    size_t let_through;       /* but for so many */
    bool computing;
    bool fails;
    bool heeds;  /* a compute function returns once it is not wanted, */
    bool pulls;  /* or the test takes tasks itself */
    bool closes; /* the executor, as soon as it posts */
    size_t calls, give_ups, changes;
    const float *gradients[LOAD]; /* where those were written that were computed last */
} bench;

static void post(void *user, const tarry_message *message, bool more)
{
    bench *own = user;
    rig_post(&own->rig, message, more);
    if (own->closes)
        executor_close(&own->rig.executor);
}

/* The stripe of the part itself, or that in another form, elsewhere. */
static bool is_what_is_due(const bench *own, const tarry_message *message,
                           const executor_stripe *stripe)
{
    uint8_t packed[4 * STRIPE];
    const float *numbers = worker_slate_part(own->rig.executor.slate) + stripe->first;
    if (own->leaves || own->late)
        return message->form == TARRY_COMPRESS_NONE &&
               stripe->size == stripe->count * sizeof(float) &&
               memcmp(residuals_flush(own->mirror, message->stripe, numbers), stripe->bytes,
                      stripe->size) == 0;
    compress_form form = compress_within(own->form, DIMENSION, stripe->first, stripe->count);
    form.low.odd = message->round % 2 > 0;
    form.low.factor = own->factor;
    if (message->form != form.kind || stripe->size != compress_bytes(form, stripe->count))
        return false;
    if (own->form.kind == TARRY_COMPRESS_NONE)
        return stripe->bytes == numbers;
    const uint64_t key = compress_key(SEED, message->round, message->attempt, 0, message->stripe);
    if (own->mirror != NULL)
        residuals_encode(own->mirror, message->stripe, form, numbers, key, packed);
    else
        compress_encode(form, numbers, stripe->count, key, packed);
    return memcmp(packed, stripe->bytes, stripe->size) == 0;
}

static void post_part(void *user, const tarry_message *message, const executor_stripe *stripe)
{
    bench *own = user;
    size_t start = (size_t)message->stripe * STRIPE;
    if (!executor_answering(&own->rig.executor))
        rig_count(&own->rig, &own->parts_unannounced);
    if (stripe->first == start && stripe->count == (start + STRIPE > DIMENSION ? 2 : STRIPE) &&
        is_what_is_due(own, message, stripe))
        own->claimed_before_part = own->claims;
    post(user, message, false);
}

static void claim(void *user, size_t first, size_t count)
{
    bench *own = user;
    if (first + count <= DIMENSION)
        rig_count(&own->rig, &own->claims);
}

static void give_up(void *user, int error, const char *why)
{
    bench *own = user;
    assert_ok(error);
    rig_count(&own->rig, &own->give_ups);
}

static void changed(void *user)
{
    bench *own = user;
    rig_count(&own->rig, &own->changes);
}

/* The gradient of chunk c is the parameter times c + 1. */
static int compute(void *user, const tarry_task *task)
{
    bench *own = user;
    pthread_mutex_lock(&own->rig.lock);
    own->calls++;
    own->computing = true;
    pthread_cond_broadcast(&own->rig.change);
    while (own->shut && own->let_through == 0)
        pthread_cond_wait(&own->rig.change, &own->rig.lock);
    if (own->shut)
        own->let_through--;
    own->computing = false;
    bool fails = own->fails, heeds = own->heeds;
    own->gradients[task->chunk] = task->gradient;
    pthread_mutex_unlock(&own->rig.lock);
    for (size_t i = 0; i < DIMENSION; i++)
        task->gradient[i] =
            task->parameters[0] * (float)(task->chunk + 1) * (float)task->parameter_count;
    while (heeds && !tarry_compute_cancelled(task))
        sched_yield();
    return fails || heeds ? -1 : 0;
}

static int make(bench *own, tarry_keep keep, uint32_t ahead, const tarry_allocator *allocator)
{
    own->rig.plan = edge_plan_make(1, LOAD, 1, edges, LOAD, NULL);
    assert_non_null(own->rig.plan);
    int error = snapshots_init(&own->rig.pool, 1 + form_factor_numbers(own->form), 2, NULL);
    assert_ok(error);
    const executor_settings settings = {
        .compute = own->pulls ? NULL : compute,
        .user = own,
        .snapshots = &own->rig.pool,
        .uplink =
            {
                .post = post,
                .post_part = post_part,
                .claim = claim,
                .give_up = give_up,
                .changed = changed,
                .user = own,
            },
    };
    const tarry_server_settings server = {
        .keep = keep,
        .ahead = ahead,
        .conditioning_limit = 1e6,
        .compress = own->form.kind,
        .compress_share = own->form.share,
        .compress_exact = own->form.exact,
        .compress_rank = own->form.low.rank,
        .compress_matrix_count = own->form.low.count,
        .compress_matrices = own->form.low.matrices,
        .compress_seed = SEED,
        .dimension = DIMENSION,
        .stripe_length = STRIPE,
    };
    return executor_init(&own->rig.executor, &settings, own->rig.plan, &server, allocator);
}

static void begin(bench *own, tarry_keep keep, uint32_t ahead)
{
    rig_init(&own->rig);
    assert_ok(make(own, keep, ahead, NULL));
    assert_ok(executor_start(&own->rig.executor));
}

static void set_up_form(bench *own, tarry_keep keep, uint32_t ahead, compress_form form)
{
    *own = (bench){.form = form};
    begin(own, keep, ahead);
}

static void set_up_ahead(bench *own, tarry_keep keep, uint32_t ahead)
{
    set_up_form(own, keep, ahead, (compress_form){.kind = TARRY_COMPRESS_NONE});
}

static void set_up(bench *own, tarry_keep keep)
{
    set_up_ahead(own, keep, 1);
}

static void tear_down(bench *own)
{
    rig_end(&own->rig);
}

#define BENCH(name) TEST_OF(name, bench, own, tear_down)

static void gives_parameters(bench *own, uint64_t round, float value)
{
    float *parameters = snapshots_begin(&own->rig.pool);
    assert_non_null(parameters);
    parameters[0] = value;
    for (size_t i = 0; i < form_factor_numbers(own->form); i++)
        parameters[1 + i] = own->factor[i] = value + (float)i;
    snapshots_commit(&own->rig.pool, round);
}

static void says_round(bench *own, uint32_t epoch, uint64_t round)
{
    own->round = round;
    rig_say(&own->rig,
            &(tarry_message){.type = TARRY_MESSAGE_ROUND, .epoch = epoch, .round = round});
}

/* The round's parameters are there before it. */
static void begins_round(bench *own, uint32_t epoch, uint64_t round, float value)
{
    gives_parameters(own, round, value);
    says_round(own, epoch, round);
}

static void expect_report(bench *own, uint32_t epoch, uint32_t slot, bool failed)
{
    tarry_message report = rig_next_post(&own->rig);
    assert_int_equal(report.type, TARRY_MESSAGE_REPORT);
    assert_int_equal(report.epoch, epoch);
    assert_int_equal(report.slot, slot);
    assert_int_equal(report.failed, failed);
}

static void expect_in_order(bench *own, uint32_t epoch, bool failed)
{
    for (uint32_t slot = 0; slot < LOAD; slot++)
        expect_report(own, epoch, slot, failed);
}

/* What needs no computing both threads say, and one may overtake the other. */
static void expect_reports(bench *own, uint32_t epoch, uint32_t finished)
{
    bool came[LOAD] = {false};
    for (uint32_t i = 0; i < LOAD; i++) {
        tarry_message report = rig_next_post(&own->rig);
        assert_int_equal(report.type, TARRY_MESSAGE_REPORT);
        assert_int_equal(report.epoch, epoch);
        assert_in_range(report.slot, 0, LOAD - 1);
        assert_false(came[report.slot]);
        came[report.slot] = true;
        assert_int_equal(report.failed, report.slot >= finished);
    }
}

/* The part is the sum of the chunks whose bits are set, times the parameter. */
static void expect_parts(bench *own, uint32_t epoch, uint64_t psi, float sum)
{
    const uint64_t stripes = 7;
    rig_say(&own->rig, &(tarry_message){.type = TARRY_MESSAGE_SIGNAL,
                                        .epoch = epoch,
                                        .round = own->round,
                                        .attempt = 1,
                                        .psi = &psi,
                                        .stripes = &stripes});
    for (uint32_t stripe = 0; stripe < 3; stripe++) {
        tarry_message part = rig_next_post(&own->rig);
        assert_int_equal(part.type, TARRY_MESSAGE_PART);
        assert_int_equal(part.stripe, stripe);
        size_t last = stripe * STRIPE + (stripe < 2 ? STRIPE : 2) - 1;
        assert_float_equal(worker_slate_part(own->rig.executor.slate)[last], sum, 1e-4F);
    }
}

BENCH(what_is_finished_outlives_a_reconnect)
{
    set_up(own, TARRY_KEEP_ALL);
    gives_parameters(own, 0, 1);
    for (uint32_t epoch = 1; epoch <= 3; epoch++) {
        says_round(own, epoch, 0);
        expect_reports(own, epoch, LOAD);
        assert_int_equal(rig_get(&own->rig, &own->calls), LOAD);
    }
    expect_parts(own, 3, 7, 6);
    assert_int_equal(own->claimed_before_part, 3); /* a stripe each, before it is encoded */
    /* A server that began anew sends other parameters for the same round. */
    begins_round(own, 4, 0, 2);
    expect_in_order(own, 4, false);
    assert_int_equal(rig_get(&own->rig, &own->calls), 2 * LOAD);
    expect_parts(own, 4, 7, 12);
}

/* What is sent is claimed before it is written anew, as the part is. */
TEST(a_part_goes_out_in_another_form)
{
    const compress_form forms[] = {{.kind = TARRY_COMPRESS_BF16},
                                   {.kind = TARRY_COMPRESS_INT8, .exact = 1},
                                   {.kind = TARRY_COMPRESS_INT4, .exact = 2 + STRIPE},
                                   {.kind = TARRY_COMPRESS_TOPK, .share = 300000, .exact = 3},
                                   {.kind = TARRY_COMPRESS_SIGN}};
    for (size_t f = 0; f < 5; f++) {
        bench own;
        set_up_form(&own, TARRY_KEEP_ALL, 1, forms[f]);
        gives_parameters(&own, 0, 1);
        for (uint32_t epoch = 1; epoch <= 2; epoch++) {
            says_round(&own, epoch, 0);
            expect_reports(&own, epoch, LOAD);
            own.claimed_before_part = 0;
            size_t before = rig_get(&own.rig, &own.claims);
            expect_parts(&own, epoch, 7, 6);
            assert_true(own.claimed_before_part >= before + 3);
        }
        tear_down(&own);
    }
}

/* The server says of which stripes the part stands in the last sum: what rounding lost of these is
 * in the next part. */
static void says_stood(bench *own, uint64_t round, const uint32_t stood[3], uint32_t life)
{
    own->round = round;
    for (uint32_t stripe = 0; stripe < 3; stripe++)
        if (life > 1)
            residuals_void(own->mirror, stripe);
        else if (stood[stripe] == 1)
            residuals_commit(own->mirror, stripe);
    rig_say(&own->rig, &(tarry_message){.type = TARRY_MESSAGE_ROUND,
                                        .epoch = life > 1 ? life : 1,
                                        .round = round,
                                        .life = life,
                                        .stood = stood});
}

BENCH(what_rounding_lost_is_in_the_next_part)
{
    const compress_form form = {.kind = TARRY_COMPRESS_TOPK, .share = 300000, .exact = 4};
    set_up_form(own, TARRY_KEEP_ALL, 1, form);
    assert_ok(residuals_create(DIMENSION, STRIPE, NULL, &own->mirror));
    const uint32_t stood[][3] = {{0, 0, 0}, {1, 0, 1}, {1, 1, 0}, {0, 0, 0}};
    for (uint64_t round = 0; round < 4; round++) {
        gives_parameters(own, round, 1 + (float)round);
        says_stood(own, round, stood[round], 1);
        expect_reports(own, 1, LOAD);
        expect_parts(own, 1, 7, 6 * (1 + (float)round));
    }
    assert_non_null(residuals_of(own->mirror, 0));
    /* Another life of the server knows nothing of what was sent to the one before. */
    gives_parameters(own, 4, 1);
    says_stood(own, 4, stood[1], 5);
    expect_reports(own, 5, LOAD);
    expect_parts(own, 5, 7, 6);
    assert_null(residuals_of(own->mirror, 0));
    residuals_free(own->mirror);
}

/* What a part is multiplied with came with the round's parameters, which tasks don't see; where
 * those of the next round are there already, it is sent as it is, and nothing is left of it. */
BENCH(a_part_is_multiplied_with_the_round_s_factor)
{
    const tarry_matrix matrix = {2, 2};
    const compress_form form = {
        .kind = TARRY_COMPRESS_POWERSGD,
        .low = {.rank = 1, .count = 1, .matrices = &matrix, .stripe = STRIPE}};
    assert_int_equal(form_factor_numbers(form), 2);
    set_up_form(own, TARRY_KEEP_ALL, 1, form);
    assert_ok(residuals_create(DIMENSION, STRIPE, NULL, &own->mirror));
    const uint32_t stood[][3] = {{0, 0, 0}, {1, 0, 1}, {1, 1, 0}, {1, 1, 1}};
    for (uint64_t round = 0; round < 4; round++) {
        gives_parameters(own, round, 1 + (float)round);
        says_stood(own, round, stood[round], 1);
        expect_reports(own, 1, LOAD);
        own->claimed_before_part = 0;
        own->late = round == 3;
        if (own->late)
            gives_parameters(own, round + 1, 1);
        expect_parts(own, 1, 7, 6 * (1 + (float)round));
        assert_true(own->claimed_before_part > 0); /* it was as it is due */
    }
    residuals_free(own->mirror);
}

BENCH(who_leaves_leaves_nothing_of_it_behind)
{
    const compress_form form = {.kind = TARRY_COMPRESS_TOPK, .share = 300000};
    set_up_form(own, TARRY_KEEP_ALL, 1, form);
    assert_ok(residuals_create(DIMENSION, STRIPE, NULL, &own->mirror));
    const uint32_t stood[][3] = {{0, 0, 0}, {1, 1, 1}};
    for (uint64_t round = 0; round < 2; round++) {
        gives_parameters(own, round, 1);
        says_stood(own, round, stood[round], 1);
        expect_reports(own, 1, LOAD);
        own->leaves = round == 1;
        if (own->leaves)
            executor_leave(&own->rig.executor, TARRY_NEVER);
        expect_parts(own, 1, 7, 6);
    }
    residuals_commit(own->mirror, 0);
    assert_null(residuals_of(own->mirror, 0));
    residuals_free(own->mirror);
}

/* What was begun before the link broke counts when it is finished; what is there is told at once.
 */
BENCH(a_chunk_in_progress_outlives_a_reconnect)
{
    set_up(own, TARRY_KEEP_ALL);
    begins_round(own, 1, 0, 1);
    expect_in_order(own, 1, false);
    gives_parameters(own, 1, 1);
    rig_set(&own->rig, &own->shut, true);
    says_round(own, 1, 1);
    rig_await(&own->rig, &own->calls, LOAD + 1);
    says_round(own, 2, 1);
    says_round(own, 3, 1);
    rig_say(&own->rig, &(tarry_message){.type = TARRY_MESSAGE_PROBE, .epoch = 3, .round = 1});
    assert_int_equal(rig_next_post(&own->rig).type, TARRY_MESSAGE_ALIVE);
    rig_set(&own->rig, &own->shut, false);
    expect_in_order(own, 3, false);
    assert_int_equal(rig_get(&own->rig, &own->calls), 2 * LOAD);
    expect_parts(own, 3, 7, 6);
}

BENCH(who_leaves_finishes_its_chunk_and_answers_the_signal)
{
    set_up(own, TARRY_KEEP_ALL);
    assert_true(executor_idle(&own->rig.executor));
    gives_parameters(own, 0, 1);
    rig_set(&own->rig, &own->shut, true);
    says_round(own, 1, 0);
    rig_await(&own->rig, &own->calls, 1);
    executor_leave(&own->rig.executor, TARRY_NEVER);
    assert_false(executor_idle(&own->rig.executor));
    rig_set(&own->rig, &own->shut, false);
    expect_reports(own, 1, 1);
    expect_parts(own, 1, 1, 1);
    assert_int_equal(rig_get(&own->rig, &own->changes), 0);
    rig_say(&own->rig, &(tarry_message){.type = TARRY_MESSAGE_FINISH, .epoch = 1});
    rig_await(&own->rig, &own->changes, 1);
    assert_true(executor_idle(&own->rig.executor));
    /* Another round finds nobody who computes. */
    begins_round(own, 1, 1, 1);
    expect_reports(own, 1, 0);
    assert_false(executor_answering(&own->rig.executor));
    assert_int_equal(rig_get(&own->rig, &own->parts_unannounced), 0);
    assert_int_equal(rig_get(&own->rig, &own->calls), 1);
}

static void grace_ends(tarry_keep keep)
{
    bench own;
    set_up(&own, keep);
    gives_parameters(&own, 0, 1);
    rig_set(&own.rig, &own.shut, true);
    says_round(&own, 1, 0);
    rig_await(&own.rig, &own.calls, 1);
    executor_leave(&own.rig.executor, clock_now_ns() + 20000000);
    expect_reports(&own, 1, 0);
    pthread_mutex_lock(&own.rig.lock);
    assert_true(own.computing); /* still: its result comes to nothing */
    pthread_mutex_unlock(&own.rig.lock);
    rig_set(&own.rig, &own.shut, false);
    rig_say(&own.rig, &(tarry_message){.type = TARRY_MESSAGE_PROBE, .epoch = 1});
    assert_int_equal(rig_next_post(&own.rig).type, TARRY_MESSAGE_ALIVE);
    tear_down(&own);
}

TEST(a_chunk_is_handed_back_when_the_grace_is_over)
{
    grace_ends(TARRY_KEEP_ALL);
    grace_ends(TARRY_KEEP_CREDITED);
}

/* There are two places for gradients, and one that failed needs none. */
BENCH(chunks_that_fail_take_no_place)
{
    set_up(own, TARRY_KEEP_CREDITED);
    own->fails = true;
    begins_round(own, 1, 0, 1);
    expect_in_order(own, 1, true);
    assert_int_equal(rig_get(&own->rig, &own->calls), LOAD);
}

static void says_fate(bench *own, uint32_t slot, tarry_fate fate)
{
    rig_say(&own->rig,
            &(tarry_message){.type = TARRY_MESSAGE_NEWS, .epoch = 1, .slot = slot, .fate = fate});
}

/* Three are finished before the first answer comes: the last two are decided by news and by the
 * signal. */
BENCH(several_gradients_wait_for_their_fates)
{
    set_up_ahead(own, TARRY_KEEP_CREDITED, 2);
    begins_round(own, 1, 0, 3);
    expect_in_order(own, 1, false);
    says_fate(own, 1, TARRY_FATE_CREDITED);
    says_fate(own, 0, TARRY_FATE_DROPPED);
    expect_parts(own, 1, 6, 3 * (2 + 3));                  /* chunks 1 and 2 */
    assert_int_equal(rig_get(&own->rig, &own->claims), 2); /* of each fold */
    for (uint32_t slot = 1; slot < LOAD; slot++)
        assert_ptr_not_equal(own->gradients[slot], own->gradients[slot - 1]);
    assert_ptr_not_equal(own->gradients[0], own->gradients[2]);
}

/* Who holds reports back needs to know. */
BENCH(says_whether_another_report_follows)
{
    set_up(own, TARRY_KEEP_ALL);
    begins_round(own, 1, 0, 1);
    for (uint32_t slot = 0; slot < LOAD; slot++) {
        expect_report(own, 1, slot, false);
        assert_int_equal(own->rig.more[slot], slot + 1 < LOAD);
    }
}

/* There is room for three, but memory is written to only as answers make a worker run ahead. */
BENCH(room_that_answers_spare_is_not_used)
{
    set_up_ahead(own, TARRY_KEEP_CREDITED, 2);
    gives_parameters(own, 0, 1);
    rig_set(&own->rig, &own->shut, true);
    says_round(own, 1, 0);
    for (uint32_t slot = 0; slot < LOAD; slot++) {
        rig_await(&own->rig, &own->calls, slot + 1);
        if (slot > 0) { /* while the next is computed the one before is folded */
            says_fate(own, slot - 1, TARRY_FATE_CREDITED);
            rig_await(&own->rig, &own->claims, slot);
            rig_say(&own->rig, &(tarry_message){.type = TARRY_MESSAGE_PROBE, .epoch = 1});
            assert_int_equal(rig_next_post(&own->rig).type, TARRY_MESSAGE_ALIVE);
        }
        rig_count(&own->rig, &own->let_through);
        expect_report(own, 1, slot, false);
    }
    assert_ptr_equal(own->gradients[2], own->gradients[0]);
}

BENCH(the_running_sum_is_claimed_before_it_changes)
{
    set_up(own, TARRY_KEEP_CREDITED);
    begins_round(own, 1, 0, 1);
    expect_report(own, 1, 0, false);
    assert_int_equal(rig_get(&own->rig, &own->claims), 0);
    rig_say(&own->rig, &(tarry_message){.type = TARRY_MESSAGE_NEWS,
                                        .epoch = 1,
                                        .slot = 0,
                                        .sequence = 1,
                                        .fate = TARRY_FATE_CREDITED});
    rig_await(&own->rig, &own->claims, 1);
}

BENCH(a_frame_that_is_none_is_a_reason_to_give_up)
{
    set_up(own, TARRY_KEEP_ALL);
    const uint8_t garbage[5] = {255, 255, 255, 255, 255};
    assert_ok(executor_deliver(&own->rig.executor, garbage, sizeof(garbage)));
    rig_await(&own->rig, &own->give_ups, 1);
    /* It goes on with what makes sense. */
    begins_round(own, 1, 0, 1);
    expect_report(own, 1, 0, false);
}

static int make_and_destroy(void *user, const tarry_allocator *allocator)
{
    bench own = {0};
    int error = make(&own, *(tarry_keep *)user, 1, allocator);
    executor_close(&own.rig.executor);
    executor_destroy(&own.rig.executor);
    snapshots_destroy(&own.rig.pool);
    tarry_plan_free(own.rig.plan);
    return error;
}

TEST(each_allocation_may_fail)
{
    for (tarry_keep keep = TARRY_KEEP_ALL; keep <= TARRY_KEEP_CREDITED; keep++)
        assert_in_range(fail_each_allocation(make_and_destroy, &keep), 10, 60);
}

static void says_finish(bench *own, uint32_t epoch)
{
    rig_say(&own->rig,
            &(tarry_message){.type = TARRY_MESSAGE_FINISH, .epoch = epoch, .round = own->round});
}

/* It returns by itself when the round is over, and what it left is not taken for finished. */
BENCH(a_compute_function_learns_that_it_is_not_wanted)
{
    set_up(own, TARRY_KEEP_ALL);
    own->heeds = true;
    begins_round(own, 1, 0, 1);
    rig_await(&own->rig, &own->calls, 1);
    says_finish(own, 1);
    begins_round(own, 1, 1, 1);
    rig_await(&own->rig, &own->calls, 2);
    assert_int_equal(own->rig.count, 0);
}

static void takes(bench *own, uint32_t chunk, const tarry_task **task)
{
    assert_ok(executor_take(&own->rig.executor, TARRY_NEVER, task));
    assert_int_equal((*task)->chunk, chunk);
    for (size_t i = 0; i < DIMENSION; i++)
        (*task)->gradient[i] = (*task)->parameters[0] * (float)(chunk + 1);
}

static void set_up_pulled(bench *own)
{
    *own = (bench){.pulls = true};
    begin(own, TARRY_KEEP_ALL, 1);
}

BENCH(tasks_are_taken_and_given_back)
{
    const tarry_task *task, *other;
    set_up_pulled(own);
    assert_int_equal(executor_take(&own->rig.executor, 0, &task), TARRY_ERROR_STATE);
    begins_round(own, 1, 0, 1);
    for (uint32_t slot = 0; slot < LOAD; slot++) {
        takes(own, slot, &task);
        assert_int_equal(executor_take(&own->rig.executor, TARRY_NEVER, &other), TARRY_ERROR_STATE);
        assert_false(tarry_compute_cancelled(task));
        assert_ok(tarry_task_give(task, slot == 1 ? -1 : 0));
        expect_report(own, 1, slot, slot == 1);
    }
    expect_parts(own, 1, 5, 4);
}

/* What comes after the end of its round counts for nothing, and the next task is the next round's.
 */
BENCH(a_task_that_is_given_back_too_late_counts_for_nothing)
{
    const tarry_task *task;
    set_up_pulled(own);
    begins_round(own, 1, 0, 1);
    takes(own, 0, &task);
    const tarry_task copy = *task;
    says_finish(own, 1);
    while (!tarry_compute_cancelled(task))
        sched_yield();
    begins_round(own, 1, 1, 2);
    assert_true(task->parameters[0] == 1);
    assert_int_equal(tarry_task_give(task, 0), TARRY_ERROR_STATE);
    assert_int_equal(tarry_task_give(&copy, 0), TARRY_ERROR_STATE);
    for (uint32_t slot = 0; slot < LOAD; slot++) {
        takes(own, slot, &task);
        assert_ok(tarry_task_give(task, 0));
        expect_report(own, 1, slot, false);
    }
    expect_parts(own, 1, 7, 12);
}

static void *take_the_last(void *argument)
{
    bench *own = argument;
    const tarry_task *task;
    assert_ok(executor_take(&own->rig.executor, TARRY_NEVER, &task));
    return (void *)task;
}

/* Its end waits for those who wait for a task, and for what is out, unless that is given up. */
BENCH(who_waits_for_a_task_hears_of_the_end)
{
    pthread_t waits;
    void *taken;
    const tarry_task *task;
    set_up_pulled(own);
    begins_round(own, 1, 0, 1);
    takes(own, 0, &task);
    executor_abandon(&own->rig.executor);
    assert_int_equal(tarry_task_give(task, 0), TARRY_ERROR_STATE);
    says_finish(own, 1);
    pthread_create(&waits, NULL, take_the_last, own);
    executor_close(&own->rig.executor);
    pthread_join(waits, &taken);
    assert_null(taken);
}

/* While the lock is let go to say that a task's round is over, nobody waits who could be told. */
BENCH(an_end_while_a_report_is_sent_is_not_missed)
{
    set_up_pulled(own);
    begins_round(own, 1, 0, 1);
    while (executor_idle(&own->rig.executor))
        sched_yield();
    gives_parameters(own, 1, 2);
    own->closes = true;
    assert_null(take_the_last(own));
    assert_int_equal(own->rig.count, 1);
}
