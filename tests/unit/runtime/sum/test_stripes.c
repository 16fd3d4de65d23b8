/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "failing_allocator.h"
#include "runtime/sum/stripes.h"
#include "seed.h"
#include "test.h"

enum { LENGTH = 100, MOST = 40 };

TEST(keeps_the_order_of_a_queue)
{
    stripe items[5];
    stripe_queue one = {0}, other = {0};
    assert_null(stripe_queue_pop(&one));
    stripe_queue_push(&one, &items[0]);
    stripe_queue_push(&one, &items[1]);
    stripe_queue_append(&one, &other); /* which is empty */
    stripe_queue_push(&other, &items[2]);
    stripe_queue_push(&other, &items[3]);
    stripe_queue_append(&one, &other);
    assert_null(stripe_queue_pop(&other));
    stripe_queue_push(&one, &items[4]);
    for (uint32_t i = 0; i < 5; i++)
        assert_ptr_equal(stripe_queue_pop(&one), &items[i]);
    assert_null(stripe_queue_pop(&one));
    stripe_queue_append(&other, &one);
    assert_null(stripe_queue_pop(&other));
}

/* Random takes and gives: whatever is lent out is nobody else's. */
TEST(lends_each_to_one)
{
    failing_allocator memory;
    failing_allocator_init(&memory, SIZE_MAX);
    random_stream stream = random_stream_make(test_seed("stripes", 1), RANDOM_TEST, 0, 0);
    stripes pool;
    stripes_init(&pool, LENGTH, &memory.allocator);
    stripe *lent[MOST];
    uint32_t count = 0;
    for (uint32_t turn = 0; turn < 5000; turn++) {
        uint32_t what = random_below(&stream, 9);
        if (what < 4 && count < MOST) {
            lent[count] = stripes_take(&pool);
            assert_non_null(lent[count]);
            for (size_t i = 0; i < LENGTH; i++)
                lent[count]->numbers[i] = (float)turn;
            lent[count++]->index = turn;
        } else if (what < 8 && count > 0) {
            uint32_t at = random_below(&stream, count);
            for (size_t i = 0; i < LENGTH; i++)
                assert_true(lent[at]->numbers[i] == (float)lent[at]->index);
            stripes_give(&pool, lent[at]);
            lent[at] = lent[--count];
        } else {
            stripes_trim(&pool);
        }
        assert_int_equal(pool.used, count);
    }
    while (count > 0)
        stripes_give(&pool, lent[--count]);
    stripes_destroy(&pool);
    assert_int_equal(memory.live, 0);
}

TEST(gives_memory_back_when_it_is_not_needed)
{
    failing_allocator memory;
    failing_allocator_init(&memory, SIZE_MAX);
    stripes pool;
    stripes_init(&pool, LENGTH, &memory.allocator);
    stripe *lent[8];
    for (uint32_t i = 0; i < 8; i++)
        lent[i] = stripes_take(&pool);
    size_t all = memory.live;
    for (uint32_t i = 0; i < 8; i++)
        stripes_give(&pool, lent[i]);
    stripes_trim(&pool); /* eight were needed since the last time */
    assert_int_equal(memory.live, all);
    lent[0] = stripes_take(&pool);
    lent[1] = stripes_take(&pool);
    stripes_give(&pool, lent[0]);
    stripes_trim(&pool);
    assert_int_equal(memory.live, all / 8 * 2);
    stripes_give(&pool, lent[1]);
    stripes_destroy(&pool);
    assert_int_equal(memory.live, 0);
}

static int take_and_give(void *user, const tarry_allocator *allocator)
{
    stripes pool;
    stripes_init(&pool, LENGTH, allocator);
    stripe *item = stripes_take(&pool);
    if (item != NULL)
        stripes_give(&pool, item);
    stripes_destroy(&pool);
    return item == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
}

TEST(does_without_memory)
{
    assert_true(fail_each_allocation(take_and_give, NULL) >= 2);
}
