/* SPDX-License-Identifier: Apache-2.0 */
/* What others can do to a segment, and what is refused of what they show. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "engine/shared.h"
#include "test.h"

enum { NUMBERS = 1000, BOARD_FILE = 8, BELL_FILE = 12 }; /* places in an address */

static int open_again(int file, int flags)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    return open(path, flags);
}

TEST(others_read_a_segment_and_ring_its_bell)
{
    segment own, other;
    uint8_t address[SEGMENT_ADDRESS];
    assert_ok(segment_create(NUMBERS, &own, NULL));
    assert_ok(segment_address(&own, address, NULL));
    assert_ok(segment_open(NULL, address, &other, NULL));
    own.numbers[NUMBERS - 1] = 5;
    atomic_store(&own.board->coded.tag, 77);
    assert_int_equal(other.count, NUMBERS);
    assert_true(other.numbers[NUMBERS - 1] == 5);
    assert_true(atomic_load(&other.board->coded.tag) == 77);
    uint32_t heard = atomic_load(own.bell);
    segment_ring(&other);
    assert_true(atomic_load(own.bell) == heard + 1);
    assert_true(segment_sleep(&own, heard, UINT64_MAX)); /* it rang since */
    assert_false(segment_sleep(&own, heard + 1, 1));     /* that time has come */
    segment_close(&own);
    assert_true(other.numbers[NUMBERS - 1] == 5); /* what is open outlives its owner */
    segment_close(&other);
}

TEST(nobody_else_writes_or_cuts_a_segment)
{
    segment own;
    assert_ok(segment_create(NUMBERS, &own, NULL));
    struct stat status;
    int file = open_again(own.board_file, O_RDWR);
    assert_true(file >= 0 && fstat(file, &status) == 0);
    size_t bytes = (size_t)status.st_size;
    assert_true(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) == MAP_FAILED);
    assert_int_equal(errno, EPERM);
    assert_int_equal(pwrite(file, "x", 1, 0), -1);
    assert_int_equal(ftruncate(file, 0), -1);
    assert_int_equal(ftruncate(file, status.st_size + 1), -1);
    assert_int_equal(ftruncate(own.bell_file, 0), -1);
    close(file);
    segment_close(&own);
}

/* A file of so many bytes that is no segment, in place of the one in the address. */
static void check_refused(const uint8_t *address, size_t place, off_t bytes, int seals)
{
    uint8_t changed[SEGMENT_ADDRESS];
    segment other;
    tarry_diagnostic why;
    int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(file >= 0 && ftruncate(file, bytes) == 0);
    assert_true(fcntl(file, F_ADD_SEALS, seals) == 0);
    memcpy(changed, address, sizeof(changed));
    bytes_put(changed + place, (uint64_t)file, 4);
    assert_int_equal(segment_open(NULL, changed, &other, &why), TARRY_ERROR_SYSTEM);
    assert_string_equal(why.text, "its memory can't be opened");
    close(file);
}

TEST(what_is_short_or_may_shrink_is_refused)
{
    enum { FIXED = F_SEAL_SHRINK | F_SEAL_GROW };
    segment own;
    uint8_t address[SEGMENT_ADDRESS];
    struct stat board, bell;
    assert_ok(segment_create(NUMBERS, &own, NULL));
    assert_ok(segment_address(&own, address, NULL));
    assert_int_equal(fstat(own.board_file, &board), 0);
    assert_int_equal(fstat(own.bell_file, &bell), 0);
    check_refused(address, BOARD_FILE, board.st_size, F_SEAL_GROW);
    check_refused(address, BOARD_FILE, board.st_size - 1, FIXED);
    check_refused(address, BOARD_FILE, 0, FIXED);
    check_refused(address, BOARD_FILE, board.st_size, FIXED); /* its key is none */
    check_refused(address, BELL_FILE, bell.st_size, F_SEAL_GROW);
    check_refused(address, BELL_FILE, bell.st_size - 1, FIXED);
    segment_close(&own);
}

/* Nothing is mapped for a member that opens what lies in the pool. */
TEST(members_of_a_pool_read_the_same_memory)
{
    segment_pool *pool;
    segment own[2], other, outside;
    uint8_t address[SEGMENT_ADDRESS];
    assert_ok(segment_pool_create(2, NULL, &pool));
    for (uint32_t i = 0; i < 2; i++)
        assert_ok(segment_pool_add(pool, NUMBERS, &own[i], NULL));
    assert_int_equal(segment_pool_add(pool, NUMBERS, &other, NULL), TARRY_ERROR_STATE);
    assert_ok(segment_address(&own[1], address, NULL));
    assert_ok(segment_open(pool, address, &other, NULL));
    assert_ptr_equal(other.board, own[1].board);
    assert_ptr_equal(other.numbers, own[1].numbers);
    assert_ptr_equal(other.bell, own[1].bell);
    assert_true((uintptr_t)other.board % _Alignof(segment_board) == 0);
    segment_close(&other);
    own[1].numbers[NUMBERS - 1] = 5; /* still there */
    /* Its place there is no file of another process. */
    assert_int_equal(segment_open(NULL, address, &other, NULL), TARRY_ERROR_SYSTEM);
    address[SEGMENT_ADDRESS - 5] ^= 1; /* another key */
    assert_int_equal(segment_open(pool, address, &other, NULL), TARRY_ERROR_SYSTEM);
    /* What is not in the pool is opened as ever. */
    assert_ok(segment_create(NUMBERS, &outside, NULL));
    assert_ok(segment_address(&outside, address, NULL));
    assert_ok(segment_open(pool, address, &other, NULL));
    assert_ptr_not_equal(other.board, outside.board);
    segment_close(&other);
    segment_close(&outside);
    segment_close(&own[0]);
    segment_close(&own[1]);
    segment_pool_free(pool);
}

/* A member that lacks descriptors, or mappings, says so of itself. */
TEST(a_lack_of_descriptors_is_the_own_one)
{
    segment own, other;
    uint8_t address[SEGMENT_ADDRESS];
    tarry_diagnostic why;
    struct rlimit before, none;
    assert_ok(segment_create(NUMBERS, &own, NULL));
    assert_ok(segment_address(&own, address, NULL));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int opened = segment_open(NULL, address, &other, &why);
    int made = segment_create(NUMBERS, &other, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(made, TARRY_ERROR_NO_MEMORY);
    assert_int_equal(opened, TARRY_ERROR_NO_MEMORY);
    assert_non_null(strstr(why.text, "ulimit -n"));
    segment_close(&own);
}

TEST(sizes_that_make_no_sense_are_refused)
{
    segment own;
    assert_int_equal(segment_create(0, &own, NULL), TARRY_ERROR_ARGUMENT);
    assert_int_equal(segment_create((size_t)SEGMENT_MOST + 1, &own, NULL), TARRY_ERROR_ARGUMENT);
}
