/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "protocol/order.h"
#include "seed.h"
#include "test.h"

enum { MOST_LOAD = 150, WORDS = 3 };

/* Slot by slot, as the header says it. */
static uint32_t oracle(const order_sets *of)
{
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t slot = 0; slot < of->load; slot++)
            if (!bitset_test(of->done, slot) && !bitset_test(of->failed, slot) &&
                !bitset_test(of->barred, slot) && (pass == 1 || bitset_test(of->first, slot)))
                return slot;
    return of->load;
}

/* Sparse ones and dense ones; bits beyond the load may be anything. */
static void draw(random_stream *stream, uint64_t *set)
{
    uint32_t density = random_below(stream, 4);
    for (size_t word = 0; word < WORDS; word++) {
        set[word] = random_u64(stream);
        for (uint32_t i = 0; i < density; i++)
            set[word] |= random_u64(stream);
        if (random_below(stream, 3) == 0)
            set[word] = 0;
    }
}

TEST(the_next_one_is_the_first_that_is_wanted)
{
    random_stream stream = random_stream_make(test_seed("order", 1), RANDOM_TEST, 0, 0);
    uint32_t some = 0, none = 0;
    for (uint32_t run = 0; run < 50000; run++) {
        uint64_t done[WORDS], failed[WORDS], first[WORDS], barred[WORDS];
        draw(&stream, done);
        draw(&stream, failed);
        draw(&stream, first);
        draw(&stream, barred);
        order_sets sets = {random_below(&stream, MOST_LOAD + 1), done, failed, first, barred};
        uint32_t next = order_next(&sets);
        assert_int_equal(next, oracle(&sets));
        if (next < sets.load)
            some++;
        else
            none++;
    }
    assert_true(some > 10000 && none > 1000);
}
