/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges whose messages go through a queue that the test reads and tampers with. */
#include "base/memory.h"
#include "failing_allocator.h"
#include "runtime/worker/exchange.h"
#include "test.h"

enum { PARTIES = 3, NUMBERS = 200000, STATE_BYTES = 7 * EXCHANGE_PASSED_BYTES + 5, QUEUE = 2048 };

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

static uint64_t the_time_ns;

static uint64_t now_ns(void)
{
    return the_time_ns;
}

static void carry(void *user, uint32_t to, const void *bytes, size_t size)
{
    const party *own = user;
    bench *its = own->of;
    assert_true(its->count < QUEUE && size <= EXCHANGE_PASSED_BYTES + WIRE_PASS_BYTES);
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
    assert_ok(exchange_take(its->parties[item.to].exchange, item.from, item.bytes, item.size));
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
    const exchange_settings settings = {
        .parties = PARTIES,
        .piece_bytes = EXCHANGE_PASSED_BYTES,
        .now_ns = now_ns,
        .pass = carry,
        .user = &its->parties[id],
    };
    return exchange_create(&settings, allocator, &its->parties[id].exchange);
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
        exchange_free(of(its, id));
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
    const exchange_numbers into = exchange_numbers_at(its->into, NUMBERS);
    assert_ok(of(its, id)->methods->fetch(of(its, id), from, sum, &into));
}

static void load(bench *its, uint32_t id)
{
    assert_ok(of(its, id)->methods->load(of(its, id), 0, &SUM));
}

static void hold_sum(bench *its)
{
    const exchange_numbers numbers = exchange_numbers_at(its->numbers, NUMBERS);
    of(its, 0)->methods->hold(of(its, 0), &SUM, &numbers);
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
    assert_in_range(most, 2, 8); /* four pieces, and as many words that they came */
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
    of(its, 0)->methods->hold(of(its, 0), NULL, NULL);
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
    its->tampers = WIRE_PASS_PIECE;
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
    exchange_lose(of(its, 1), 2, "is gone"); /* not its source */
    assert_int_equal(look(its, 1).state, EXCHANGE_RUNNING);
    exchange_lose(of(its, 1), 0, "is gone");
    assert_int_equal(look(its, 1).state, EXCHANGE_FAILED);
    exchange_lose(of(its, 0), 1, "is gone"); /* its copy is kept for the other */
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

static size_t encode(const wire_pass *message, uint8_t *bytes)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_PASS_BYTES];
    wire_encode(WIRE_PASS, message, frame);
    memcpy(bytes, frame + WIRE_HEAD_BYTES, WIRE_PASS_BYTES);
    return WIRE_PASS_BYTES;
}

BENCH(other_bytes_are_refused)
{
    uint8_t bytes[WIRE_PASS_BYTES + 2] = {0};
    for (unsigned type = 0; type <= WIRE_PASSES; type++) {
        size_t fits = 0;
        for (size_t size = 0; size <= sizeof(bytes); size++) {
            bytes[0] = (uint8_t)type;
            fits += exchange_take(of(its, 0), 1, bytes, size) == TARRY_OK;
        }
        assert_int_equal(fits, type == WIRE_PASSES ? 0 : type == WIRE_PASS_PIECE ? 2 : 1);
    }
    assert_int_equal(exchange_take(of(its, 0), PARTIES, bytes, WIRE_PASS_BYTES),
                     TARRY_ERROR_FORMAT);
    OWNED(uint8_t) longer = calloc(EXCHANGE_PASSED_BYTES + WIRE_PASS_BYTES + 1, 1);
    longer[0] = WIRE_PASS_PIECE;
    assert_int_equal(
        exchange_take(of(its, 0), 1, longer, EXCHANGE_PASSED_BYTES + WIRE_PASS_BYTES + 1),
        TARRY_ERROR_FORMAT);
}

/* Of pieces that its source may not send: none is written. */
BENCH(a_piece_that_is_not_the_next_one_is_refused)
{
    OWNED(uint8_t) bytes = calloc(EXCHANGE_PASSED_BYTES + WIRE_PASS_BYTES, 1);
    hold_sum(its);
    fetch(its, 1, 0, &SUM);
    wire_pass piece = {.type = WIRE_PASS_PIECE, .ticket = 1, .count = 64};
    encode(&piece, bytes);
    assert_int_equal(exchange_take(of(its, 1), 0, bytes, WIRE_PASS_BYTES + 64),
                     TARRY_ERROR_FORMAT); /* nobody has said that it comes */
    for (int i = 0; i < 3; i++)           /* ASK, COMES and a piece */
        assert_true(deliver(its));
    for (int wrong = 0; wrong < 3; wrong++) {
        piece.first = wrong == 0 ? 0 : wrong == 1 ? 1 << 20 : EXCHANGE_PASSED_BYTES;
        piece.count = wrong == 2 ? 63 : 64;
        encode(&piece, bytes);
        assert_int_equal(exchange_take(of(its, 1), 0, bytes, WIRE_PASS_BYTES + piece.count),
                         TARRY_ERROR_FORMAT);
        assert_ok(exchange_take(of(its, 1), 2, bytes, WIRE_PASS_BYTES + piece.count));
    }
    deliver_all(its);
    assert_int_equal(look(its, 1).state, EXCHANGE_DONE);
    assert_memory_equal(its->into, its->numbers, NUMBERS * sizeof(float));
}

static void load_of_size(bench *its, uint64_t size)
{
    load(its, 1);
    deliver_all(its);
    assert_ok(of(its, 0)->methods->offer(of(its, 0), &SUM, make_state(size), size));
    deliver_all(its);
    exchange_progress progress = look(its, 1);
    OWNED(uint8_t) expected = make_state(size);
    assert_int_equal(progress.state, EXCHANGE_DONE);
    assert_int_equal(progress.size, size);
    assert_memory_equal(progress.bytes, expected, size);
    of(its, 1)->methods->abandon(of(its, 1));
}

BENCH(states_of_any_size_are_loaded)
{
    for (uint64_t size = 0; size < 20; size++)
        load_of_size(its, size);
    load_of_size(its, EXCHANGE_PASSED_BYTES);
    load_of_size(its, EXCHANGE_PASSED_BYTES + 1);
}

/* Whoever comes while another one gets a state that does gets the same, and the owner is not asked
 * again. */
BENCH(a_state_on_its_way_is_shared)
{
    load(its, 1);
    deliver_all(its);
    offer(its, 0, &SUM);
    load(its, 2);
    deliver_all(its);
    assert_int_equal(its->parties[0].wanted, 1);
    for (uint32_t id = 1; id < PARTIES; id++) {
        exchange_progress progress = look(its, id);
        is_the_state(&progress, &SUM);
    }
}

/* ---- a way that takes time ---- */

enum { LARGE = 64 << 20 };

/* Seconds that a state takes by messages that take so long each way at so many bytes a second, and
 * the most that was on its way. */
static double time_of_load(bench *its, uint64_t delay_ns, double rate, uint64_t *most)
{
    uint64_t free_ns = the_time_ns = 1;
    carried *queue = calloc(1 << 16, sizeof(carried));
    uint64_t *due = calloc(1 << 16, sizeof(uint64_t)), waits = 0;
    size_t first = 0, end = 0;
    *most = 0;
    load(its, 1);
    for (bool offered = false;;) {
        for (; its->count > 0; its->count--) {
            carried item = its->queue[its->first++ % QUEUE];
            uint64_t begins = item.from == 0 && free_ns > the_time_ns ? free_ns : the_time_ns;
            uint64_t passed = begins + (uint64_t)((double)item.size / rate * 1e9);
            free_ns = item.from == 0 ? passed : free_ns;
            waits += item.size;
            *most = waits > *most ? waits : *most;
            /* Sorted by when it is there. */
            size_t place = end++;
            assert_true(end < 1 << 16);
            for (; place > first && due[place - 1] > passed + delay_ns; place--) {
                due[place] = due[place - 1];
                queue[place] = queue[place - 1];
            }
            due[place] = passed + delay_ns;
            queue[place] = item;
        }
        if (first == end && offered)
            break;
        if (first == end) {
            assert_ok(of(its, 0)->methods->offer(of(its, 0), &SUM, make_state(LARGE), LARGE));
            offered = true;
            continue;
        }
        carried item = queue[first];
        the_time_ns = due[first++];
        waits -= item.size;
        assert_ok(exchange_take(of(its, item.to), item.from, item.bytes, item.size));
        free(item.bytes);
    }
    assert_int_equal(look(its, 1).state, EXCHANGE_DONE);
    free(queue);
    free(due);
    return (double)the_time_ns / 1e9;
}

/* Near and far, slow and fast: seven tenths of the way are used, and no more is on it than some
 * round trips' worth. */
BENCH(what_may_come_grows_with_the_round_trip)
{
    static const struct {
        uint64_t delay_ns;
        double rate;
    } ways[] = {{40000000, 125e6}, {1000000, 125e6}, {100000, 1.25e9}, {100000000, 12.5e6}};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        uint64_t most;
        double seconds = time_of_load(its, ways[i].delay_ns, ways[i].rate, &most);
        double round_trip = 2 * (double)ways[i].delay_ns / 1e9;
        double least = LARGE / ways[i].rate + 8 * round_trip; /* it doubles with each */
        assert_true(seconds < least / 0.7);
        assert_true((double)most < 3 * (ways[i].rate * round_trip) + 8 * EXCHANGE_PASSED_BYTES);
        of(its, 1)->methods->abandon(of(its, 1));
    }
}

/* ---- pieces that are lent ---- */

/* A giver whose pieces wait for the test to take them. */
typedef struct lender {
    exchange *exchange;
    void *lent[64];
    size_t first, end;
    bool sums;
    unsigned pumps, reclaimed;
    wire_pass_type said;
} lender;

static void lender_pass(void *user, uint32_t to, const void *bytes, size_t size)
{
    ((lender *)user)->said = (wire_pass_type)((const uint8_t *)bytes)[0];
}

static bool lender_lend(void *user, uint32_t to, const wire_pass *piece, const void *bytes,
                        void *owner)
{
    lender *its = user;
    its->lent[its->end++] = owner;
    return its->end < 64;
}

static void lender_pump(void *user)
{
    ((lender *)user)->pumps++;
}

static bool lender_sums(void *user)
{
    return ((lender *)user)->sums;
}

static void lender_release(lender *its)
{
    exchange_released(its->lent[its->first++]);
}

static void lender_reclaim(void *user)
{
    lender *its = user;
    its->reclaimed++;
    while (its->first < its->end)
        lender_release(its);
}

static void lender_make(lender *its)
{
    *its = (lender){.first = 0};
    const exchange_settings settings = {
        .parties = PARTIES,
        .piece_bytes = EXCHANGE_PASSED_BYTES,
        .now_ns = now_ns,
        .pass = lender_pass,
        .lend = lender_lend,
        .pump = lender_pump,
        .sums = lender_sums,
        .reclaim = lender_reclaim,
        .user = its,
    };
    assert_ok(exchange_create(&settings, NULL, &its->exchange));
}

static void lender_free(lender *its)
{
    while (its->first < its->end)
        lender_release(its);
    exchange_free(its->exchange);
}

#define LENDER(name) TEST_WITH(name, lender, its, lender_make, lender_free)

static void ask(const lender *its, uint32_t id)
{
    exchange_take_message(
        its->exchange, id,
        &(wire_pass){
            .type = WIRE_PASS_ASK_STATE, .ticket = 1, .sum = SUM, .until = WIRE_BLOB_MOST});
}

/* A few of each reader are lent at a time. */
LENDER(pieces_are_lent_to_each_in_turn)
{
    OWNED(uint8_t) state = make_state(STATE_BYTES);
    assert_ok(exchange_lend(its->exchange, &SUM, state, STATE_BYTES));
    ask(its, 1);
    ask(its, 2);
    assert_true(exchange_pump(its->exchange) == TARRY_NEVER);
    assert_int_equal(its->end, 8);
    its->pumps = 0;
    lender_release(its);
    assert_int_equal(its->pumps, 1);
    exchange_pump(its->exchange);
    assert_int_equal(its->end, 9);
}

/* While a sum moves there is one piece at a time, and pauses; when it stands still there is none:
 * it may wait for the state. */
LENDER(pieces_give_way_to_sums)
{
    OWNED(uint8_t) state = make_state(STATE_BYTES);
    the_time_ns = 1000000000;
    its->sums = true;
    assert_ok(exchange_lend(its->exchange, &SUM, state, STATE_BYTES));
    ask(its, 1);
    assert_true(exchange_pump(its->exchange) == TARRY_NEVER);
    assert_int_equal(its->end, 1);
    the_time_ns += 5000000; /* which it took */
    lender_release(its);
    uint64_t due = exchange_pump(its->exchange);
    assert_int_equal(due - the_time_ns, 20000000);
    the_time_ns = due - 1;
    assert_true(exchange_pump(its->exchange) == due);
    the_time_ns = due;
    exchange_pump(its->exchange);
    assert_int_equal(its->end, 2);
    lender_release(its);
    its->sums = false;
    exchange_pump(its->exchange);
    assert_int_equal(its->end, 6);
}

/* A reader gets no more than its share of what may be on the way to all. */
LENDER(what_is_on_its_way_is_bounded)
{
    enum { MANY = PARTIES, PIECES = 2000 };
    const uint64_t size = (uint64_t)PIECES * EXCHANGE_PASSED_BYTES;
    OWNED(uint8_t) state = calloc(size, 1);
    assert_ok(exchange_lend(its->exchange, &SUM, state, size));
    for (uint32_t id = 0; id < MANY; id++)
        ask(its, id);
    uint64_t sent = 0;
    for (its->end = 0; exchange_pump(its->exchange) == TARRY_NEVER && its->end > 0; its->end = 0)
        for (its->first = 0; its->first < its->end;) {
            sent += EXCHANGE_PASSED_BYTES;
            lender_release(its);
        }
    assert_in_range(sent, (60 << 20), (64 << 20) + MANY * EXCHANGE_PASSED_BYTES);
    its->first = its->end = 0;
}

/* Nobody reads what was lent before, and those who did are told so. */
LENDER(what_is_lent_anew_is_let_go_of_first)
{
    OWNED(uint8_t) state = make_state(STATE_BYTES), next = make_state(STATE_BYTES);
    assert_ok(exchange_lend(its->exchange, &SUM, state, STATE_BYTES));
    ask(its, 1);
    exchange_pump(its->exchange);
    assert_int_equal(its->end - its->first, 4);
    assert_ok(exchange_lend(its->exchange, &SUM, next, STATE_BYTES));
    assert_int_equal(its->said, WIRE_PASS_NONE);
    assert_int_equal(its->reclaimed, 1);
    assert_int_equal(its->first, its->end);
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
    exchange_free(of(its, 1));
    exchange_free(of(its, 0));
    return error;
}

TEST(each_allocation_may_fail)
{
    bench its;
    fail_each_allocation(try_to_load, &its);
}
