/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <tarry/error.h>

#include "failing_allocator.h"
#include "plan/design/field.h"

static field *make(uint32_t order)
{
    field *state = NULL;
    assert_int_equal(field_create(order, NULL, &state), TARRY_OK);
    return state;
}

/* The prime powers up to 64, by hand. */
static const uint32_t orders[] = {2,  3,  4,  5,  7,  8,  9,  11, 13, 16, 17, 19, 23, 25,
                                  27, 29, 31, 32, 37, 41, 43, 47, 49, 53, 59, 61, 64};

enum { ORDERS = sizeof(orders) / sizeof(orders[0]) };

static void prime_powers_are_known(void **state)
{
    (void)state;
    size_t next = 0;
    for (uint32_t order = 0; order <= 64; order++) {
        bool listed = next < ORDERS && orders[next] == order;
        assert_int_equal(field_exists(order), listed);
        next += listed;
    }
    assert_true(field_exists(1021));
    assert_true(field_exists(1024));
    assert_true(field_exists(961));
    assert_false(field_exists(1023));
    assert_true(field_exists(4294967291));
    assert_false(field_exists(UINT32_MAX));
}

/* 0 and 1 are neutral; every element has an opposite, and every one but 0 an inverse. */
static void check_one(const field *f, uint32_t a)
{
    uint32_t order = field_order(f), inverses = 0;
    assert_int_equal(field_add(f, a, 0), a);
    assert_int_equal(field_multiply(f, a, 1), a);
    assert_int_equal(field_multiply(f, a, 0), 0);
    assert_int_equal(field_add(f, a, field_subtract(f, 0, a)), 0);
    for (uint32_t b = 0; b < order; b++)
        inverses += field_multiply(f, a, b) == 1;
    assert_int_equal(inverses, a != 0);
}

static void check_two(const field *f, uint32_t a, uint32_t b)
{
    assert_true(field_add(f, a, b) < field_order(f));
    assert_true(field_multiply(f, a, b) < field_order(f));
    assert_int_equal(field_add(f, a, b), field_add(f, b, a));
    assert_int_equal(field_multiply(f, a, b), field_multiply(f, b, a));
    assert_int_equal(field_add(f, field_subtract(f, a, b), b), a);
}

static void check_three(const field *f, uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t left = field_add(f, field_add(f, a, b), c);
    assert_true(left == field_add(f, a, field_add(f, b, c)));
    left = field_multiply(f, field_multiply(f, a, b), c);
    assert_true(left == field_multiply(f, a, field_multiply(f, b, c)));
    left = field_multiply(f, a, field_add(f, b, c));
    assert_true(left == field_add(f, field_multiply(f, a, b), field_multiply(f, a, c)));
}

static void the_axioms_hold(void **state)
{
    (void)state;
    for (size_t i = 0; i < ORDERS; i++) {
        uint32_t order = orders[i];
        field *f = make(order);
        assert_int_equal(field_order(f), order);
        for (uint32_t a = 0; a < order; a++) {
            check_one(f, a);
            for (uint32_t b = 0; b < order; b++) {
                check_two(f, a, b);
                for (uint32_t c = 0; c < order; c++)
                    check_three(f, a, b, c);
            }
        }
        field_free(f);
    }
}

static void fields_of_prime_order_count_modulo(void **state)
{
    (void)state;
    field *f = make(1021);
    for (uint32_t a = 0; a < 1021; a += 7) {
        for (uint32_t b = 0; b < 1021; b += 5) {
            assert_int_equal(field_add(f, a, b), (a + b) % 1021);
            assert_int_equal(field_multiply(f, a, b), a * b % 1021);
        }
    }
    field_free(f);
}

/* x^2 = x + 1 is the only irreducible polynomial of degree 2 over GF(2). */
static void four_elements_multiply_as_known(void **state)
{
    (void)state;
    field *f = make(4);
    assert_int_equal(field_multiply(f, 2, 2), 3);
    assert_int_equal(field_multiply(f, 2, 3), 1);
    assert_int_equal(field_multiply(f, 3, 3), 2);
    assert_int_equal(field_add(f, 2, 3), 1);
    field_free(f);
    field_free(NULL);
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    (void)user;
    field *f = NULL;
    int error = field_create(27, allocator, &f);
    field_free(f);
    return error;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    assert_int_equal(fail_each_allocation(attempt, NULL), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prime_powers_are_known),
        cmocka_unit_test(the_axioms_hold),
        cmocka_unit_test(fields_of_prime_order_count_modulo),
        cmocka_unit_test(four_elements_multiply_as_known),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
