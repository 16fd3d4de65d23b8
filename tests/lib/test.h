/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmocka, with the headers that it needs, and cases that need no table:
 *
 *     TEST(what_it_shows)
 *     {
 *         assert_true(...);
 *     }
 *
 * The cases of a file run in the order in which they stand there. `state` in a case is cmocka's.
 */
#ifndef TEST_TEST_H
#define TEST_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tarry/error.h>
#include <tarry/plan.h>
#include <tarry/server.h>
#include <tarry/straggler.h>

#define assert_ok(call) assert_int_equal(call, TARRY_OK)
/* The same, and says the text of the diagnostic `why` that the call has written. */
#define assert_ok_or(why, call)                                                                    \
    do {                                                                                           \
        if ((call) != TARRY_OK)                                                                    \
            fail_msg("%s", (why).text);                                                            \
    } while (0)

/* The text has this part. */
#define assert_says(text, part)                                                                    \
    do {                                                                                           \
        if (strstr(text, part) == NULL)                                                            \
            fail_msg("'%s' does not say '%s'", text, part);                                        \
    } while (0)
/* They differ by at most `apart`; not if one is NaN. */
#define assert_within(found, wanted, apart) within_or_fail(found, wanted, apart, __FILE__, __LINE__)
/* They differ by at most `share` of the second. */
#define assert_relative(found, wanted, share)                                                      \
    assert_within(found, wanted, (share) * ((wanted) < 0 ? -(wanted) : (wanted)))
void within_or_fail(double found, double wanted, double apart, const char *file, int line);

/* malloc and calloc that fail the case in the place of giving NULL. */
void *checked_malloc(size_t size);
void *checked_calloc(size_t count, size_t size);

/*
 * A pointer, or a struct, that is freed at the end of its block; what was declared last, first:
 *
 *     OWNED(tarry_plan) plan = plan_make(&settings);
 *     OWNED(world) all;
 *     world_begin(&all);
 *
 * OWNED_BY says once for each type that it is a pointer to it, and what frees it; OWNED_STRUCT_BY,
 * that it is the struct itself. A case that fails leaves its memory behind.
 */
#define OWNED(type) __attribute__((cleanup(type##_owned_free), unused)) type##_owned
#define OWNED_BY(type, release)                                                                    \
    typedef type *type##_owned;                                                                    \
    static inline void type##_owned_free(type##_owned *of)                                         \
    {                                                                                              \
        release(*of);                                                                              \
    }
#define OWNED_STRUCT_BY(type, release)                                                             \
    typedef type type##_owned;                                                                     \
    static inline void type##_owned_free(type##_owned *of)                                         \
    {                                                                                              \
        release(of);                                                                               \
    }

OWNED_BY(char, free)
OWNED_BY(uint8_t, free)
OWNED_BY(uint32_t, free)
OWNED_BY(uint64_t, free)
OWNED_BY(float, free)
OWNED_BY(double, free)
OWNED_BY(tarry_plan, tarry_plan_free)
OWNED_BY(tarry_server, tarry_server_free)
OWNED_BY(tarry_straggler, tarry_straggler_free)

#define TEST(name) TEST_SET_UP(name, NULL, NULL)

/* set_up runs before the case and tear_down after it, even if it fails; NULL: nothing does. */
#define TEST_SET_UP(name, set_up, tear_down)                                                       \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void name##_add(void)                                      \
    {                                                                                              \
        static test_case added = {                                                                 \
            .file = __FILE__, .line = __LINE__, .test = {#name, name, set_up, tear_down, NULL}};   \
        test_case_add(&added);                                                                     \
    }                                                                                              \
    static void name(void **state)

/*
 * A case with a fixture, of which `end` frees what the case has made:
 *
 *     #define BENCH(name) TEST_OF(name, bench, its, bench_end)
 *
 *     BENCH(what_it_shows)
 *     {
 *         bench_begin(its);
 *         assert_true(its->count > 0);
 *     }
 */
#define TEST_OF(name, type, fixture, end)                                                          \
    static void name##_of(type *fixture);                                                          \
    TEST(name)                                                                                     \
    {                                                                                              \
        type made;                                                                                 \
        name##_of(&made);                                                                          \
        end(&made);                                                                                \
    }                                                                                              \
    static void name##_of(type *fixture)

/* The same, begun by `begin` before the case. */
#define TEST_WITH(name, type, fixture, begin, end)                                                 \
    static void name##_with(type *fixture);                                                        \
    TEST_OF(name, type, fixture, end)                                                              \
    {                                                                                              \
        begin(fixture);                                                                            \
        name##_with(fixture);                                                                      \
    }                                                                                              \
    static void name##_with(type *fixture)

/* Once in a file: set_up runs before its first case and tear_down after its last one. */
#define TEST_GROUP(set_up, tear_down)                                                              \
    __attribute__((constructor)) static void test_group_add(void)                                  \
    {                                                                                              \
        static test_case added = {.file = __FILE__,                                                \
                                  .test = {NULL, NULL, set_up, tear_down, NULL}};                  \
        test_case_add(&added);                                                                     \
    }

/* A case, or with the name NULL the functions of TEST_GROUP. */
typedef struct test_case {
    const char *file;
    int line;
    struct CMUnitTest test;
    struct test_case *next;
} test_case;

/* Before main; `added` stays the caller's. */
void test_case_add(test_case *added);

/*
 * The main function of a program of tests: runs the cases of the file test_NAME.c if the first
 * argument is NAME, which may be left out if there is only one file; of these the ones whose names
 * match the next argument, in which * and ? may stand for characters. Gives back the exit status.
 */
int test_main(int argc, char **argv);

#endif
