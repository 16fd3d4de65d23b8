/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/tcp/net/share.h"

static void both_see_the_same_memory(void **state)
{
    (void)state;
    share made = {0}, opened = {0};
    assert_int_equal(share_create(10000, NULL, &made), TARRY_OK);
    assert_int_equal(share_open(made.name, 10000, geteuid(), &opened), TARRY_OK);
    assert_ptr_not_equal(made.memory, opened.memory);
    assert_string_equal(opened.name, "");
    uint8_t *one = made.memory, *other = opened.memory;
    for (size_t i = 0; i < 10000; i++)
        assert_int_equal(other[i], 0);
    one[9999] = 7;
    other[0] = 8;
    assert_int_equal(other[9999], 7);
    assert_int_equal(one[0], 8);
    share_close(&opened);
    assert_null(opened.memory);
    assert_int_equal(one[0], 8);
    share_close(&made);
}

static void names_are_taken_away(void **state)
{
    (void)state;
    share made = {0}, opened = {0};
    char name[SHARE_NAME_BYTES];
    assert_int_equal(share_create(64, NULL, &made), TARRY_OK);
    memcpy(name, made.name, sizeof(name));
    share_unlink(&made);
    assert_int_equal(share_open(name, 64, geteuid(), &opened), TARRY_ERROR_SYSTEM);
    share_close(&made);
    assert_int_equal(share_create(64, NULL, &made), TARRY_OK);
    assert_string_not_equal(made.name, name);
    memcpy(name, made.name, sizeof(name));
    share_close(&made);
    assert_int_equal(share_open(name, 64, geteuid(), &opened), TARRY_ERROR_SYSTEM);
    assert_null(opened.memory);
}

static void only_ones_own_segments_are_opened(void **state)
{
    (void)state;
    share made = {0}, opened = {0};
    assert_int_equal(share_create(4096, NULL, &made), TARRY_OK);
    assert_int_equal(share_open(made.name, 4097, geteuid(), &opened), TARRY_ERROR_FORMAT);
    assert_int_equal(share_open(made.name, 4095, geteuid(), &opened), TARRY_ERROR_FORMAT);
    assert_int_equal(share_open(made.name, 4096, geteuid() + 1, &opened), TARRY_ERROR_FORMAT);
    static const char *const names[] = {"",
                                        "/",
                                        "1/2",
                                        "1/2/",
                                        "1//0123456789abcdef0123456789abcdef",
                                        "/2/0123456789abcdef0123456789abcdef",
                                        "self/2/0123456789abcdef0123456789abcdef",
                                        "1/2/0123456789abcdef0123456789abcde",
                                        "1/2/0123456789abcdef0123456789abcdeff",
                                        "1/2/0123456789abcdef0123456789abcdeg",
                                        "1/../0123456789abcdef0123456789abcdef",
                                        "12345678901/2/0123456789abcdef0123456789abcdef",
                                        "1/12345678901/0123456789abcdef0123456789abcdef"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_int_equal(share_open(names[i], 4096, geteuid(), &opened), TARRY_ERROR_FORMAT);
    /* For this user alone, and of this size for good. */
    struct stat what;
    assert_int_equal(fstat(made.fd, &what), 0);
    assert_int_equal(what.st_mode & 0777, 0600);
    assert_int_equal(ftruncate(made.fd, 100), -1);
    assert_int_equal(ftruncate(made.fd, 8192), -1);
    /* Another one under the same number is not what was named. */
    share other = {0};
    char name[SHARE_NAME_BYTES];
    int fd = made.fd;
    memcpy(name, made.name, sizeof(name));
    share_close(&made);
    assert_int_equal(share_create(4096, NULL, &other), TARRY_OK);
    assert_int_equal(other.fd, fd);
    assert_int_equal(share_open(name, 4096, geteuid(), &opened), TARRY_ERROR_SYSTEM);
    share_close(&other);
    assert_int_equal(share_create(0, NULL, &made), TARRY_ERROR_SYSTEM);
}

static void hosts_are_told_apart(void **state)
{
    (void)state;
    static const uint8_t zeros[SHARE_HOST_BYTES];
    uint8_t one[SHARE_HOST_BYTES], other[SHARE_HOST_BYTES];
    share_host(one);
    share_host(other);
    assert_memory_equal(one, other, sizeof(one));
    if (access("/proc/sys/kernel/random/boot_id", R_OK) == 0)
        assert_memory_not_equal(one, zeros, sizeof(one));
}

static void parameters_are_those_of_their_round(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    share made = {0}, opened = {0};
    float numbers[COUNT], copy[COUNT];
    size_t bytes = share_parameters_bytes(COUNT);
    assert_int_equal(share_create(bytes, NULL, &made), TARRY_OK);
    assert_int_equal(share_open(made.name, bytes, geteuid(), &opened), TARRY_OK);
    assert_false(share_copy(&opened, 0, copy, COUNT, NULL)); /* nothing was published */
    for (uint64_t round = 0; round < 5; round++) {
        for (size_t i = 0; i < COUNT; i++)
            numbers[i] = (float)(i + round);
        share_publish(&made, round, numbers, COUNT, NULL);
        assert_false(share_copy(&opened, round + 1, copy, COUNT, NULL));
        assert_true(share_copy(&opened, round, copy, COUNT, NULL));
        assert_memory_equal(copy, numbers, sizeof(numbers));
    }
    share_close(&opened);
    share_close(&made);
}

static void count_call(void *user)
{
    ++*(int *)user;
}

/* Whoever copies can say in between that it is there. */
static void long_copies_pause(void **state)
{
    (void)state;
    enum { LONG_COUNT = 5 << 20 };
    int calls = 0;
    const sealed_pause pause = {count_call, &calls};
    share made = {0};
    float *numbers = malloc(LONG_COUNT * sizeof(*numbers));
    float *copy = calloc(LONG_COUNT, sizeof(*copy));
    assert_true(numbers != NULL && copy != NULL);
    for (size_t i = 0; i < LONG_COUNT; i++)
        numbers[i] = (float)i;
    assert_int_equal(share_create(share_parameters_bytes(LONG_COUNT), NULL, &made), TARRY_OK);
    share_publish(&made, 0, numbers, LONG_COUNT, &pause);
    assert_true(calls >= 2);
    calls = 0;
    assert_true(share_copy(&made, 0, copy, LONG_COUNT, &pause));
    assert_true(calls >= 2);
    assert_memory_equal(copy, numbers, LONG_COUNT * sizeof(*copy));
    calls = 0;
    share_publish(&made, 1, numbers, 1000, &pause);
    assert_int_equal(calls, 0);
    share_close(&made);
    free(copy);
    free(numbers);
}

enum { TORN_COUNT = 20000, TORN_ROUNDS = 3000 };

/* In another process, as it is used. */
static int publish_all(share *made)
{
    float *numbers = malloc(TORN_COUNT * sizeof(*numbers));
    if (numbers == NULL)
        return 1;
    for (uint64_t round = 0; round <= TORN_ROUNDS; round++) {
        for (size_t i = 0; i < TORN_COUNT; i++)
            numbers[i] = (float)round;
        share_publish(made, round, numbers, TORN_COUNT, NULL);
    }
    free(numbers);
    return 0;
}

static void torn_copies_are_noticed(void **state)
{
    (void)state;
    share made = {0};
    size_t bytes = share_parameters_bytes(TORN_COUNT), good = 0;
    float *copy = malloc(TORN_COUNT * sizeof(*copy));
    assert_non_null(copy);
    assert_int_equal(share_create(bytes, NULL, &made), TARRY_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(publish_all(&made));
    const _Atomic uint64_t *present = (const _Atomic uint64_t *)made.memory + 1; /* the round */
    for (uint64_t round = 0; round < TORN_ROUNDS;) {
        round = *present;
        if (!share_copy(&made, round, copy, TORN_COUNT, NULL))
            continue;
        good++;
        for (size_t i = 0; i < TORN_COUNT; i++)
            assert_true(copy[i] == (float)round);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    printf("%zu copies\n", good);
    assert_true(good >= 1); /* the last one stays */
    free(copy);
    share_close(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_see_the_same_memory),
        cmocka_unit_test(names_are_taken_away),
        cmocka_unit_test(only_ones_own_segments_are_opened),
        cmocka_unit_test(hosts_are_told_apart),
        cmocka_unit_test(parameters_are_those_of_their_round),
        cmocka_unit_test(long_copies_pause),
        cmocka_unit_test(torn_copies_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
