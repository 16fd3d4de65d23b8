/* SPDX-License-Identifier: Apache-2.0 */
#include "failing_allocator.h"

#include "test.h"

static void *allocate(void *user, size_t count, size_t size)
{
    failing_allocator *state = user;
    if (state->allocations++ >= state->fail_at)
        return NULL;
    void *block = calloc(count, size);
    assert_non_null(block);
    state->live++;
    return block;
}

static void release(void *user, void *block)
{
    failing_allocator *state = user;
    if (block == NULL)
        return;
    assert_true(state->live > 0);
    state->live--;
    free(block);
}

void failing_allocator_init(failing_allocator *state, size_t fail_at)
{
    *state = (failing_allocator){
        .allocator = {.user = state, .allocate = allocate, .release = release},
        .fail_at = fail_at,
    };
}

size_t fail_each_allocation(int (*attempt)(void *user, const tarry_allocator *allocator),
                            void *user)
{
    for (size_t fail_at = 0;; fail_at++) {
        failing_allocator state;
        failing_allocator_init(&state, fail_at);
        int error = attempt(user, &state.allocator);
        assert_int_equal(state.live, 0);
        if (state.allocations <= fail_at) {
            assert_int_equal(error, TARRY_OK);
            return state.allocations;
        }
        assert_int_equal(error, TARRY_ERROR_NO_MEMORY);
    }
}
