/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "failing_allocator.h"
#include "test.h"

TEST(overflow_and_exhaustion_give_null)
{
    assert_null(memory_allocate(NULL, SIZE_MAX / 2, 3));
    assert_null(vector_allocate(NULL, SIZE_MAX / 4));
    failing_allocator failing;
    failing_allocator_init(&failing, 0);
    assert_null(memory_allocate(&failing.allocator, 1, 1));
    assert_null(vector_allocate(&failing.allocator, 1));
}

TEST(vectors_begin_at_a_cache_line_and_are_zero)
{
    failing_allocator counting;
    failing_allocator_init(&counting, SIZE_MAX);
    for (size_t length = 0; length < 100; length++) {
        float *vector = vector_allocate(&counting.allocator, length);
        assert_non_null(vector);
        assert_int_equal((uintptr_t)vector % 64, 0);
        for (size_t i = 0; i < length; i++)
            assert_true(vector[i] == 0);
        memset(vector, 0xff, length * sizeof(float));
        vector_release(&counting.allocator, vector);
    }
    assert_int_equal(counting.live, 0);
    vector_release(NULL, NULL);
    memory_release(NULL, NULL);
}

TEST(buffers_grow_and_keep_what_they_hold)
{
    assert_int_equal(memory_room(0, 1, 16), 16);
    assert_int_equal(memory_room(16, 16, 16), 16);
    assert_int_equal(memory_room(16, 17, 16), 32);
    assert_int_equal(memory_room(16, 100, 16), 128);
    assert_int_equal(memory_room(SIZE_MAX / 2 + 1, SIZE_MAX, 16), SIZE_MAX);
    failing_allocator counting;
    failing_allocator_init(&counting, SIZE_MAX);
    uint32_t *numbers = NULL;
    size_t room = 0;
    for (uint32_t count = 0; count < 1000; count++) {
        if (count == room) {
            room = memory_room(room, count + 1, 4);
            numbers = memory_grow(&counting.allocator, numbers, count, room, sizeof(*numbers));
            assert_non_null(numbers);
            assert_int_equal(counting.live, 1);
            for (size_t i = count; i < room; i++)
                assert_int_equal(numbers[i], 0);
        }
        numbers[count] = count;
    }
    counting.fail_at = counting.allocations;
    assert_null(memory_grow(&counting.allocator, numbers, 1000, 2000, sizeof(*numbers)));
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(numbers[i], i);
    memory_release(&counting.allocator, numbers);
    assert_int_equal(counting.live, 0);
}

TEST(texts_are_joined)
{
    failing_allocator failing;
    char *joined = memory_text(NULL, "folder/name", 7, "file");
    assert_string_equal(joined, "folder/file");
    memory_release(NULL, joined);
    joined = memory_text(NULL, "", 0, "");
    assert_string_equal(joined, "");
    memory_release(NULL, joined);
    failing_allocator_init(&failing, 0);
    assert_null(memory_text(&failing.allocator, "a", 1, ""));
}
