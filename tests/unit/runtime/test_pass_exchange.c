/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges whose messages go through a queue that the test reads and tampers with. */
#include "base/memory.h"
#include "failing_allocator.h"
#include "runtime/worker/pass_exchange.h"
#include "test.h"

enum { PARTIES = 3, NUMBERS = 200000, STATE_BYTES = 7 * PASS_PIECE_BYTES + 5, QUEUE = 64 };

typedef struct carried {
    uint32_t from, to;
    size_t size;
    uint8_t *bytes;
} carried;

typedef struct party {
    struct bench *of;
    uint32_t id;
    exchange *exchange;
    unsigned wanted; /* how often it was asked for a state */
} party;

typedef struct bench {
    party parties[PARTIES];
    carried queue[QUEUE];
    size_t first, count;
    float *numbers, *into;
    int tampers; /* with the type of message; -1: none */
} bench;

static const tarry_sum_id SUM = {.step = 3, .term = 1, .attempt = 4, .digest = 77};

static void carry(void *user, uint32_t to, const void *bytes, size_t size)
{
    const party *own = user;
    bench *its = own->of;
    assert_true(its->count < QUEUE && size <= PASS_MOST_BYTES);
    carried *item = &its->queue[(its->first + its->count++) % QUEUE];
    *item = (carried){.from = own->id, .to = to, .size = size, .bytes = malloc(size)};
    assert_non_null(item->bytes);
    memcpy(item->bytes, bytes, size);
    if (item->bytes[0] == its->tampers)
        item->bytes[size - 1] ^= 1;
}

static void want(void *user)
{
    ((party *)user)->wanted++;
}

/* Delivers one message. False: there is none. */
static bool deliver(bench *its)
{
    if (its->count == 0)
        return false;
    carried item = its->queue[its->first];
    its->first = (its->first + 1) % QUEUE;
    its->count--;
    assert_ok(pass_exchange_take(its->parties[item.to].exchange, item.from, item.bytes, item.size));
    free(item.bytes);
    return true;
}

static void deliver_all(bench *its)
{
    while (deliver(its))
        ;
}

static int make(bench *its, uint32_t id, const tarry_allocator *allocator)
{
    its->parties[id] = (party){.of = its, .id = id};
    const pass_exchange_settings settings = {
        .parties = PARTIES, .pass = carry, .user = &its->parties[id]};
    return pass_exchange_create(&settings, allocator, &its->parties[id].exchange);
}

static exchange *of(bench *its, uint32_t id)
{
    return its->parties[id].exchange;
}

static void begin(bench *its)
{
    *its = (bench){.tampers = -1};
    its->numbers = checked_malloc(NUMBERS * sizeof(float));
    its->into = checked_malloc(NUMBERS * sizeof(float));
    for (size_t i = 0; i < NUMBERS; i++)
        its->numbers[i] = (float)i;
    for (uint32_t id = 0; id < PARTIES; id++) {
        assert_ok(make(its, id, NULL));
        of(its, id)->methods->serve(of(its, id), want, &its->parties[id]);
    }
}

static void finish(bench *its)
{
    for (; its->count > 0; its->count--)
        free(its->queue[its->first++ % QUEUE].bytes);
    for (uint32_t id = 0; id < PARTIES; id++)
        pass_exchange_free(of(its, id));
    free(its->into);
    free(its->numbers);
}

#define BENCH(name) TEST_WITH(name, bench, its, begin, finish)

static exchange_progress look(bench *its, uint32_t id)
{
    exchange_progress progress;
    of(its, id)->methods->wait(of(its, id), 0, &progress);
    return progress;
}

static void fetch(bench *its, uint32_t id, uint32_t from, const tarry_sum_id *sum)
{
    memset(its->into, 0, NUMBERS * sizeof(float));
    assert_ok(of(its, id)->methods->fetch(of(its, id), from, sum, its->into, NUMBERS));
}

static void load(bench *its, uint32_t id)
{
    assert_ok(of(its, id)->methods->load(of(its, id), 0, &SUM));
}

static void hold_sum(bench *its)
{
    of(its, 0)->methods->hold(of(its, 0), &SUM, its->numbers, NUMBERS);
}

/* What party 1 has asked for comes to nothing. */
static void fails(bench *its)
{
    deliver_all(its);
    assert_int_equal(look(its, 1).state, EXCHANGE_FAILED);
}

static uint8_t *make_state(uint64_t size)
{
    uint8_t *bytes = memory_allocate(NULL, size, 1);
    for (uint64_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(i * 31 + i / 256);
    return bytes;
}

static void offer(bench *its, uint32_t id, const tarry_sum_id *after)
{
    assert_ok(
        of(its, id)->methods->offer(of(its, id), after, make_state(STATE_BYTES), STATE_BYTES));
}

static void is_the_state(const exchange_progress *progress, const tarry_sum_id *after)
{
    uint8_t *expected = make_state(STATE_BYTES);
    assert_int_equal(progress->state, EXCHANGE_DONE);
    assert_int_equal(progress->size, STATE_BYTES);
    assert_memory_equal(progress->bytes, expected, STATE_BYTES);
    assert_true(progress->after.step == after->step);
    memory_release(NULL, expected);
}

BENCH(a_sum_is_fetched_a_few_pieces_at_a_time)
{
    hold_sum(its);
    fetch(its, 1, 0, &SUM);
    size_t most = 0;
    for (; its->count > 0; deliver(its))
        most = its->count > most ? its->count : most;
    assert_in_range(most, 2, 4);
    assert_int_equal(look(its, 1).state, EXCHANGE_DONE);
    assert_memory_equal(its->into, its->numbers, NUMBERS * sizeof(float));
}

BENCH(a_sum_that_is_not_held_or_no_more_fails)
{
    tarry_sum_id other = SUM;
    fetch(its, 1, 0, &SUM); /* not yet */
    fails(its);
    hold_sum(its);
    other.digest++;
    fetch(its, 1, 0, &other); /* other bits */
    fails(its);
    fetch(its, 1, 0, &SUM);
    for (int i = 0; i < 6; i++) /* some pieces come */
        assert_true(deliver(its));
    of(its, 0)->methods->hold(of(its, 0), NULL, NULL, 0);
    fails(its);
}

/* Their copies are gone in the end: else this leaks. */
BENCH(a_state_is_shared_by_those_who_wait)
{
    const tarry_sum_id later = {.step = 4, .term = 1, .attempt = 9, .digest = 5};
    for (uint32_t id = 1; id < PARTIES; id++)
        load(its, id);
    deliver_all(its);
    assert_int_equal(its->parties[0].wanted, 2);
    assert_int_equal(look(its, 1).state, EXCHANGE_RUNNING);
    offer(its, 0, &later);
    deliver_all(its);
    for (uint32_t id = 1; id < PARTIES; id++) {
        exchange_progress progress = look(its, id);
        is_the_state(&progress, &later);
        of(its, id)->methods->abandon(of(its, id));
        assert_int_equal(look(its, id).state, EXCHANGE_IDLE);
    }
}

BENCH(a_state_that_is_none_fails)
{
    const tarry_sum_id earlier = {.step = 2, .term = 1, .attempt = 1, .digest = 5};
    load(its, 1);
    deliver_all(its);
    offer(its, 0, &earlier); /* of no use */
    fails(its);
    load(its, 1);
    deliver_all(its);
    of(its, 0)->methods->offer(of(its, 0), NULL, NULL, 0);
    fails(its);
    of(its, 0)->methods->serve(of(its, 0), NULL, NULL); /* nobody is asked any more */
    load(its, 1);
    deliver_all(its);
    assert_int_equal(its->parties[0].wanted, 2);
    assert_int_equal(look(its, 1).state, EXCHANGE_FAILED);
}

BENCH(a_byte_that_flips_is_found)
{
    its->tampers = PASS_PIECE;
    load(its, 1);
    deliver_all(its);
    offer(its, 0, &SUM);
    fails(its);
}

BENCH(what_is_got_from_one_who_is_gone_fails)
{
    load(its, 1);
    load(its, 2);
    deliver_all(its);
    offer(its, 0, &SUM);
    for (int i = 0; i < 6; i++)
        assert_true(deliver(its));
    pass_exchange_lose(of(its, 1), 2); /* not its source */
    assert_int_equal(look(its, 1).state, EXCHANGE_RUNNING);
    pass_exchange_lose(of(its, 1), 0);
    assert_int_equal(look(its, 1).state, EXCHANGE_FAILED);
    pass_exchange_lose(of(its, 0), 1); /* its copy is kept for the other */
    deliver_all(its);
    exchange_progress progress = look(its, 2);
    is_the_state(&progress, &SUM);
}

BENCH(what_was_abandoned_comes_too_late)
{
    hold_sum(its);
    fetch(its, 1, 0, &SUM);
    for (int i = 0; i < 5; i++)
        assert_true(deliver(its));
    of(its, 1)->methods->abandon(of(its, 1));
    memset(its->into, 0, NUMBERS * sizeof(float));
    deliver_all(its);
    for (size_t i = 0; i < NUMBERS; i++)
        assert_true(its->into[i] == 0);
    load(its, 1);
    deliver_all(its);
    of(its, 1)->methods->abandon(of(its, 1)); /* before it was offered: nobody waits then */
    deliver_all(its);
    offer(its, 0, &SUM);
    assert_int_equal(its->count, 0);
}

BENCH(other_bytes_are_refused)
{
    uint8_t bytes[PASS_MOST_HEAD + 1] = {0};
    for (unsigned type = 0; type <= PASS_PIECE + 1; type++) {
        size_t fits = 0;
        for (size_t size = 0; size <= sizeof(bytes); size++) {
            bytes[0] = (uint8_t)type;
            fits += pass_exchange_take(of(its, 0), 1, bytes, size) == TARRY_OK;
        }
        assert_int_equal(fits, type <= PASS_PIECE);
    }
    assert_int_equal(pass_exchange_take(of(its, 0), PARTIES, bytes, 9), TARRY_ERROR_FORMAT);
    pass_message long_piece = {.type = PASS_ASK_SUM_PIECE, .size = PASS_PIECE_BYTES + 1};
    size_t size = pass_encode(&long_piece, bytes);
    assert_int_equal(pass_exchange_take(of(its, 0), 1, bytes, size), TARRY_ERROR_FORMAT);
    /* A piece from far behind the end. */
    hold_sum(its);
    pass_message far = {
        .type = PASS_ASK_SUM_PIECE, .sum = SUM, .first = UINT64_MAX, .size = PASS_PIECE_BYTES};
    while (its->count > 0)
        free(its->queue[(its->first + --its->count) % QUEUE].bytes);
    size = pass_encode(&far, bytes);
    assert_ok(pass_exchange_take(of(its, 0), 1, bytes, size));
    assert_int_equal(its->queue[its->first].bytes[0], PASS_NONE);
}

static int try_to_load(void *user, const tarry_allocator *allocator)
{
    bench *its = user;
    *its = (bench){.tampers = -1};
    int error = make(its, 0, NULL);
    if (error == TARRY_OK)
        error = make(its, 1, allocator);
    if (error == TARRY_OK) {
        of(its, 0)->methods->serve(of(its, 0), want, &its->parties[0]);
        of(its, 1)->methods->load(of(its, 1), 0, &SUM);
        deliver_all(its);
        offer(its, 0, &SUM);
        deliver_all(its);
        exchange_progress progress = look(its, 1);
        error = progress.state == EXCHANGE_DONE ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
    }
    pass_exchange_free(of(its, 1));
    pass_exchange_free(of(its, 0));
    return error;
}

TEST(each_allocation_may_fail)
{
    bench its;
    fail_each_allocation(try_to_load, &its);
}
