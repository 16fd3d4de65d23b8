/* SPDX-License-Identifier: Apache-2.0 */
/* Owners of vectors: the library's own, and the one that other tests take. */
#include "failing_allocator.h"
#include "test.h"
#include "vectors_case.h"

static void check(int (*create)(const tarry_allocator *, tarry_vectors **))
{
    for (unsigned element = TARRY_ELEMENT_FLOAT32; element <= TARRY_ELEMENT_FLOAT64; element++) {
        tarry_vectors *vectors;
        assert_ok(create(NULL, &vectors));
        vectors_conform(vectors, (tarry_element)element);
        vectors->methods->free(vectors);
    }
}

TEST(host_memory_conforms)
{
    check(tarry_host_vectors_create);
}

TEST(what_is_far_conforms)
{
    check(far_vectors_create);
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    tarry_vectors *vectors;
    float number = 2;
    int error = tarry_host_vectors_create(allocator, &vectors);
    if (error != TARRY_OK)
        return error;
    error = vectors->methods->reserve(vectors, 2, 7, TARRY_ELEMENT_FLOAT32);
    if (error == TARRY_OK) {
        assert_ok(vectors->methods->write(vectors, 1, 3, 1, &number));
        error = vectors->methods->reserve(vectors, 9, 7, TARRY_ELEMENT_FLOAT32);
        assert_true(((const float *)vectors->methods->host(vectors, 1))[3] == 2);
    }
    if (error == TARRY_OK)
        error = vectors->methods->reserve(vectors, 1, 5, TARRY_ELEMENT_FLOAT64);
    vectors->methods->free(vectors);
    return error;
}

TEST(every_allocation_may_fail)
{
    fail_each_allocation(attempt, NULL);
}
