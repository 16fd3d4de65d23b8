/* SPDX-License-Identifier: Apache-2.0 */
/* Held sums and states from one worker to another. */
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/memory.h"
#include "mesh_group.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh_state.h"
#include "test.h"

#define PATIENCE_NS UINT64_C(60000000000)
#define LIMIT_NS UINT64_C(3600000000000) /* of silence; beyond what a busy machine takes */

enum { WRITING_LIMITS = 30 }; /* as in mesh_exchange.c */

enum { TWO = 2, LENGTH = 1000000, STATE_BYTES = 3 << 20 };

static const tarry_sum_id third = {.step = 3, .term = 1, .attempt = 4, .digest = 99};

typedef struct pair {
    mesh_group group;
    exchange *taker, *giver;
    float *held;
    atomic_int wanted;
} pair;

static void pair_make(pair *its)
{
    memset(its, 0, sizeof(*its));
    mesh_group_make_limited(&its->group, TWO, LIMIT_NS);
    mesh_group_form(&its->group);
    its->taker = mesh_exchange(its->group.members[0]);
    its->giver = mesh_exchange(its->group.members[1]);
    its->held = checked_calloc(LENGTH, sizeof(float));
    for (size_t i = 0; i < LENGTH; i++)
        its->held[i] = (float)i / 3;
}

static void pair_free(pair *its)
{
    mesh_group_free(&its->group);
    free(its->held);
}

#define PAIR(name) TEST_OF(name, pair, its, pair_free)

static exchange_progress wait_for(exchange *its)
{
    exchange_progress progress;
    its->methods->wait(its, clock_from_now(PATIENCE_NS), &progress);
    return progress;
}

PAIR(a_held_sum_is_fetched)
{
    OWNED(float) got = calloc(LENGTH, sizeof(float));
    pair_make(its);
    mesh_group_hold(its->giver, &third, its->held, LENGTH);
    for (int again = 0; again < 2; again++) {
        memset(got, 0, LENGTH * sizeof(float));
        assert_ok(mesh_group_fetch(its->taker, 10, &third, got, LENGTH));
        exchange_progress progress = wait_for(its->taker);
        assert_int_equal(progress.state, EXCHANGE_DONE);
        assert_int_equal(progress.got, LENGTH * sizeof(float));
        assert_memory_equal(got, its->held, LENGTH * sizeof(float));
    }
}

/* Another sum, other numbers, another worker, or one that is let go of. */
PAIR(what_is_not_there_fails)
{
    OWNED(float) got = calloc(LENGTH, sizeof(float));
    tarry_sum_id other = third;
    pair_make(its);
    mesh_group_hold(its->giver, &third, its->held, LENGTH);
    other.digest++;
    mesh_group_fetch(its->taker, 10, &other, got, LENGTH);
    exchange_progress progress = wait_for(its->taker);
    assert_int_equal(progress.state, EXCHANGE_FAILED);
    assert_string_equal(progress.why, "worker 10: it does not have it any more");
    mesh_group_fetch(its->taker, 10, &third, got, LENGTH - 1);
    assert_int_equal(wait_for(its->taker).state, EXCHANGE_FAILED);
    mesh_group_fetch(its->taker, 77, &third, got, LENGTH);
    assert_string_equal(wait_for(its->taker).why, "worker 77: it is no member");
    its->taker->methods->load(its->taker, 10, &third); /* nobody offers */
    assert_int_equal(wait_for(its->taker).state, EXCHANGE_FAILED);
    its->giver->methods->hold(its->giver, NULL, NULL);
    mesh_group_fetch(its->taker, 10, &third, got, LENGTH);
    assert_int_equal(wait_for(its->taker).state, EXCHANGE_FAILED);
}

/* Whenever a fetch is given up, or the sum let go of: nothing is written or read any more. */
PAIR(transfers_end_at_once)
{
    OWNED(float) got = calloc(LENGTH, sizeof(float));
    pair_make(its);
    for (uint64_t trial = 0; trial < 20; trial++) {
        mesh_group_hold(its->giver, &third, its->held, LENGTH);
        mesh_group_fetch(its->taker, 10, &third, got, LENGTH);
        exchange_progress progress;
        its->taker->methods->wait(its->taker, clock_from_now(trial * 100000), &progress);
        if (trial % 2 == 0) {
            its->taker->methods->abandon(its->taker);
            memset(got, 0, LENGTH * sizeof(float));
        }
        its->giver->methods->hold(its->giver, NULL, NULL);
        memset(its->held, 7, LENGTH * sizeof(float)); /* the sanitizers see who reads it */
        progress = wait_for(its->taker);
        assert_int_not_equal(progress.state, EXCHANGE_RUNNING);
        for (size_t i = 0; trial % 2 == 0 && i < LENGTH; i++)
            assert_true(got[i] == 0);
    }
}

static void on_wanted(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

static uint8_t *make_state(uint8_t first)
{
    uint8_t *bytes = memory_allocate(NULL, STATE_BYTES, 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < STATE_BYTES; i++)
        bytes[i] = (uint8_t)(first + i * 7);
    return bytes;
}

static void wait_until_wanted(pair *its, int count)
{
    uint64_t until = clock_from_now(PATIENCE_NS);
    while (atomic_load(&its->wanted) < count) {
        exchange_progress progress;
        assert_true(clock_now_ns() < until);
        its->taker->methods->wait(its->taker, clock_from_now(1000000), &progress);
    }
}

PAIR(a_state_is_copied_and_loaded)
{
    tarry_sum_id later = {.step = 4, .term = 1, .attempt = 5, .digest = 5};
    pair_make(its);
    its->giver->methods->serve(its->giver, on_wanted, &its->wanted);
    its->taker->methods->load(its->taker, 10, &third);
    wait_until_wanted(its, 1);
    uint8_t *copy = make_state(1), *expected = make_state(1);
    its->giver->methods->offer(its->giver, &later, copy, STATE_BYTES);
    exchange_progress progress = wait_for(its->taker);
    assert_int_equal(progress.state, EXCHANGE_DONE);
    assert_int_equal(progress.size, STATE_BYTES);
    assert_int_equal(progress.after.step, 4);
    assert_int_equal(progress.after.digest, 5);
    assert_memory_equal(progress.bytes, expected, STATE_BYTES);
    its->taker->methods->abandon(its->taker);

    /* One that is too old is not taken, and none is neither. */
    for (int older = 0; older < 2; older++) {
        const tarry_sum_id second = {.step = 2};
        its->taker->methods->load(its->taker, 10, &third);
        wait_until_wanted(its, 2 + older);
        its->giver->methods->offer(its->giver, &second, older != 0 ? make_state(2) : NULL,
                                   older != 0 ? STATE_BYTES : 0);
        assert_int_equal(wait_for(its->taker).state, EXCHANGE_FAILED);
    }
    free(expected);
}

PAIR(the_loss_of_the_source_ends_it)
{
    pair_make(its);
    its->giver->methods->serve(its->giver, on_wanted, &its->wanted);
    its->taker->methods->load(its->taker, 10, &third);
    wait_until_wanted(its, 1);
    mesh_free(its->group.members[1]);
    its->group.members[1] = NULL;
    assert_int_equal(wait_for(its->taker).state, EXCHANGE_FAILED);
}

/* Neither of two connects to the other for good: the one that should connect hears nothing, and the
 * other one would wait for ever. */
MESH_GROUP(a_source_that_never_connects_ends_it)
{
    static const uint8_t plain[32];
    mesh_group_make_limited(group, TWO, 50000000);
    for (uint32_t i = 0; i < TWO; i++) {
        uint8_t at[TARRY_ENGINE_ADDRESS_MOST];
        size_t size;
        exchange *taker = mesh_exchange(group->members[i]);
        mesh_own_address(group->members[1 - i], at, &size);
        assert_ok(mesh_admit(group->members[i], 10, at, size, plain));
        taker->methods->load(taker, 10, &third);
        assert_int_equal(wait_for(taker).state, EXCHANGE_FAILED);
        mesh_remove(group->members[i], 10);
    }
}

/* ---- transfers that stand still ---- */

/* As if the time were that: the member's thread looks whether what it gets still moves. */
static void look(mesh *self, void *argument)
{
    mesh_exchange_look(self, *(const uint64_t *)argument);
}

static exchange_progress look_at(mesh *self, uint64_t ahead_ns)
{
    exchange *its = mesh_exchange(self);
    exchange_progress progress;
    uint64_t then = clock_from_now(ahead_ns);
    mesh_do(self, look, &then);
    its->methods->wait(its, 0, &progress);
    return progress;
}

/* Until it is given up after so many silence limits, which takes two looks without a move in
 * between: what was on the way when the source came to stand still may come in. */
static exchange_progress look_long_after(mesh *self, uint64_t limits)
{
    uint64_t until = clock_from_now(PATIENCE_NS), ahead = limits * LIMIT_NS;
    exchange_progress progress = look_at(self, ahead - LIMIT_NS / 2);
    assert_int_equal(progress.state, EXCHANGE_RUNNING);
    do {
        assert_true(clock_now_ns() < until);
        progress = look_at(self, ahead);
        ahead += MESH_PACE_AGAIN_NS;
    } while (progress.state == EXCHANGE_RUNNING);
    return progress;
}

/* A member whose thread stands: it reads and sends nothing, as that of one that is stopped, and the
 * system keeps its connections. */
typedef struct standing {
    mesh *member;
    sem_t stands, goes_on;
    pthread_t thread;
} standing;

static void stand(mesh *self, void *argument)
{
    standing *its = argument;
    sem_post(&its->stands);
    sem_wait(&its->goes_on);
}

static void *have_stand(void *argument)
{
    standing *its = argument;
    mesh_do(its->member, stand, its);
    return NULL;
}

static void begin_standing(standing *its, mesh *member)
{
    its->member = member;
    sem_init(&its->stands, 0, 0);
    sem_init(&its->goes_on, 0, 0);
    assert_int_equal(pthread_create(&its->thread, NULL, have_stand, its), 0);
    sem_wait(&its->stands);
}

static void end_standing(standing *its)
{
    sem_post(&its->goes_on);
    pthread_join(its->thread, NULL);
    sem_destroy(&its->stands);
    sem_destroy(&its->goes_on);
}

/* After so many silence limits, in which its owner may write it; it is found again afterwards. */
PAIR(a_state_that_is_never_written_is_given_up)
{
    OWNED(float) got = calloc(LENGTH, sizeof(float));
    standing source;
    pair_make(its);
    its->giver->methods->serve(its->giver, on_wanted, &its->wanted);
    mesh_group_hold(its->giver, &third, its->held, LENGTH);
    its->taker->methods->load(its->taker, 10, &third);
    wait_until_wanted(its, 1);
    begin_standing(&source, its->group.members[1]);
    exchange_progress progress = look_long_after(its->group.members[0], WRITING_LIMITS);
    assert_int_equal(progress.state, EXCHANGE_FAILED);
    assert_string_equal(progress.why, "worker 10: it does not write its state");
    end_standing(&source);
    mesh_group_fetch(its->taker, 10, &third, got, LENGTH);
    assert_int_equal(wait_for(its->taker).state, EXCHANGE_DONE);
    assert_memory_equal(got, its->held, LENGTH * sizeof(float));
}

static void see_asked(mesh *self, void *argument)
{
    *(bool *)argument = self->request.sent;
}

static void see_begun(mesh *self, void *argument)
{
    for (const mesh_link *link = self->links; link != NULL; link = link->next)
        *(bool *)argument = *(bool *)argument || channel_loads(link->channel) > 0;
}

static void wait_until_seen(mesh *self, void (*see)(mesh *self, void *argument))
{
    uint64_t until = clock_from_now(PATIENCE_NS);
    for (bool seen = false; !seen; mesh_do(self, see, &seen))
        assert_true(clock_now_ns() < until);
}

/* In the middle: the source stands until its taker does, which has asked, and the taker until the
 * source stands again, which has begun. So all of it can't be on the way. */
TEST(a_transfer_that_stands_still_ends)
{
    enum { LARGE = 40 << 20 }; /* more than the system takes in on the way */
    uint8_t *large = checked_calloc(LARGE, 1);
    pair its;
    standing source, taker;
    pair_make(&its);
    exchange_lend(its.giver, &third, large, LARGE);
    begin_standing(&source, its.group.members[1]);
    its.taker->methods->load(its.taker, 10, &third);
    wait_until_seen(its.group.members[0], see_asked);
    begin_standing(&taker, its.group.members[0]);
    end_standing(&source);
    wait_until_seen(its.group.members[1], see_begun);
    begin_standing(&source, its.group.members[1]);
    end_standing(&taker);
    exchange_progress progress = look_long_after(its.group.members[0], 1);
    assert_int_equal(progress.state, EXCHANGE_FAILED);
    assert_string_equal(progress.why, "worker 10: nothing came of it for the silence limit");
    end_standing(&source);
    its.taker->methods->load(its.taker, 10, &third);
    progress = wait_for(its.taker);
    assert_int_equal(progress.state, EXCHANGE_DONE);
    assert_int_equal(progress.size, LARGE);
    pair_free(&its);
    free(large);
}

/* The owner takes long to write its state, and a second worker wants a newer state before the first
 * has all of its own: both get what they asked for. */
PAIR(a_state_that_is_written_slowly_comes)
{
    const tarry_sum_id fourth = {.step = 4, .term = 1, .attempt = 5, .digest = 98};
    memset(its, 0, sizeof(*its));
    mesh_group_make_limited(&its->group, TWO + 1, LIMIT_NS);
    mesh_group_form(&its->group);
    its->taker = mesh_exchange(its->group.members[0]);
    its->giver = mesh_exchange(its->group.members[1]);
    exchange *second = mesh_exchange(its->group.members[2]);
    its->giver->methods->serve(its->giver, on_wanted, &its->wanted);
    its->taker->methods->load(its->taker, 10, &third);
    wait_until_wanted(its, 1);
    for (int look = 0; look < 2; look++)
        assert_int_equal(look_at(its->group.members[0], 20 * LIMIT_NS).state, EXCHANGE_RUNNING);
    its->giver->methods->offer(its->giver, &third, make_state(1), STATE_BYTES);
    second->methods->load(second, 10, &fourth);
    wait_until_wanted(its, 2);
    its->giver->methods->offer(its->giver, &fourth, make_state(2), STATE_BYTES);
    exchange_progress progress = wait_for(its->taker);
    assert_int_equal(progress.state, EXCHANGE_DONE);
    assert_true(progress.after.step == 3 && progress.bytes[0] == 1);
    progress = wait_for(second);
    assert_int_equal(progress.state, EXCHANGE_DONE);
    assert_true(progress.after.step == 4 && progress.bytes[0] == 2);
    uint8_t *taken = second->methods->take(second);
    second->methods->abandon(second);
    assert_int_equal(taken[0], 2);
    memory_release(NULL, taken);
}

/* A lent state is there for all who come, and is left alone. */
PAIR(a_state_is_lent)
{
    const tarry_sum_id later = {.step = 4, .term = 1, .attempt = 5, .digest = 98};
    pair_make(its);
    for (int again = 0; again < 3; again++) {
        const tarry_sum_id *after = again < 2 ? &third : &later;
        if (again != 1)
            assert_ok(
                exchange_lend(its->giver, after, (const uint8_t *)its->held + again, STATE_BYTES));
        its->taker->methods->load(its->taker, 10, &third);
        exchange_progress progress = wait_for(its->taker);
        assert_int_equal(progress.state, EXCHANGE_DONE);
        assert_true(progress.size == STATE_BYTES && progress.after.step == after->step);
        assert_memory_equal(progress.bytes, (const uint8_t *)its->held + (again == 2 ? 2 : 0),
                            STATE_BYTES);
    }
    /* More bytes than the wire can count: nobody gets them. */
    exchange_lend(its->giver, &third, (const uint8_t *)its->held, WIRE_BLOB_MOST + 1);
    its->taker->methods->load(its->taker, 10, &third);
    assert_string_equal(wait_for(its->taker).why, "worker 10: it does not have it any more");
}
