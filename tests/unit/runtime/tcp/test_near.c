/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <unistd.h>

#include "failing_allocator.h"
#include "runtime/tcp/net/shm.h"

static void stripes_lie_where_the_layout_says(void **state)
{
    (void)state;
    layout cut = layout_make(1000, 2, 96);
    shm_part *part;
    assert_int_equal(shm_part_create(&cut, NULL, NULL, &part), TARRY_OK);
    assert_int_equal(part->memory.bytes, cut.part_length * sizeof(float));
    stripe *items[16];
    uint32_t count = 0;
    for (stripe *item; (item = shm_part_take(part, &cut, count % cut.stripes)) != NULL; count++) {
        assert_ptr_equal(item->numbers,
                         (float *)part->memory.memory + 96 * (size_t)(count % cut.stripes));
        assert_ptr_equal(item->owner, part);
        items[count] = item;
    }
    assert_int_equal(count, 2 * cut.stripes);
    for (uint32_t i = 0; i < count; i++)
        shm_part_give(part, items[i]);
    assert_non_null(shm_part_take(part, &cut, 0));
    shm_part_give(part, items[count - 1]);
    shm_part_retire(part);
    shm_part_retire(NULL);
}

/* A decode thread may still read what its worker, which is gone, has sent. */
static void memory_stays_while_it_is_lent(void **state)
{
    (void)state;
    layout cut = layout_make(1000, 1, 500);
    shm_part *part;
    failing_allocator counted;
    failing_allocator_init(&counted, SIZE_MAX);
    assert_int_equal(shm_part_create(&cut, NULL, &counted.allocator, &part), TARRY_OK);
    share seen = {0};
    char name[SHARE_NAME_BYTES];
    memcpy(name, part->memory.name, sizeof(name));
    stripe *one = shm_part_take(part, &cut, 0), *other = shm_part_take(part, &cut, 1);
    shm_part_retire(part);
    assert_int_equal(share_open(name, 4000, geteuid(), &seen), TARRY_ERROR_SYSTEM);
    one->numbers[499] = 1;
    shm_part_give(part, one);
    assert_true(counted.live > 0);
    other->numbers[499] = 1;
    shm_part_give(part, other);
    assert_int_equal(counted.live, 0);
}

static int create(void *user, const tarry_allocator *allocator)
{
    shm_part *part;
    int error = shm_part_create(user, NULL, allocator, &part);
    if (error == TARRY_OK)
        shm_part_retire(part);
    return error;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    layout cut = layout_make(1000, 1, 500);
    assert_int_equal(fail_each_allocation(create, &cut), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stripes_lie_where_the_layout_says),
        cmocka_unit_test(memory_stays_while_it_is_lent),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
