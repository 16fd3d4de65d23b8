/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/segment.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/memory.h"
#include "memory/sealed.h"

enum {
    BOARD_BYTES = 4096, /* the numbers follow */
    BELL_BYTES = 4096,
    KEY_BYTES = 16,
    BOOT_BYTES = SEALED_BOOT_BYTES,
};
static const uint32_t MAGIC = 0x31474553; /* "SEG1" */

_Static_assert(sizeof(segment_board) <= BOARD_BYTES, "the board has a page");

/* An address, as bytes_put writes it. */
typedef struct location {
    uint32_t process, board_file, bell_file;
    uint64_t count;
    uint64_t processes; /* the name space of process numbers */
    uint32_t user;
    uint8_t boot[BOOT_BYTES];
    uint8_t key[KEY_BYTES];
} location;

/* ---- this machine ---- */

/* Where process numbers mean what they mean here. */
static bool read_here(location *here)
{
    struct stat name_space;
    if (stat("/proc/self/ns/pid", &name_space) != 0 || !sealed_boot(here->boot))
        return false;
    here->processes = name_space.st_ino;
    here->user = geteuid();
    return true;
}

/* ---- addresses ---- */

static void write_address(const location *of, uint8_t *at)
{
    at = bytes_put(at, MAGIC, 4);
    at = bytes_put(at, of->process, 4);
    at = bytes_put(at, of->board_file, 4);
    at = bytes_put(at, of->bell_file, 4);
    at = bytes_put(at, of->count, 8);
    at = bytes_put(at, of->processes, 8);
    memcpy(at, of->boot, BOOT_BYTES);
    memcpy(at + BOOT_BYTES, of->key, KEY_BYTES);
    bytes_put(at + BOOT_BYTES + KEY_BYTES, of->user, 4);
}

static bool read_address(const uint8_t *at, location *of)
{
    of->process = (uint32_t)bytes_get(at + 4, 4);
    of->board_file = (uint32_t)bytes_get(at + 8, 4);
    of->bell_file = (uint32_t)bytes_get(at + 12, 4);
    of->count = bytes_get(at + 16, 8);
    of->processes = bytes_get(at + 24, 8);
    memcpy(of->boot, at + 32, BOOT_BYTES);
    memcpy(of->key, at + 32 + BOOT_BYTES, KEY_BYTES);
    of->user = (uint32_t)bytes_get(at + 32 + BOOT_BYTES + KEY_BYTES, 4);
    return bytes_get(at, 4) == MAGIC && of->process >= 1 && of->process <= INT_MAX &&
           of->board_file <= INT_MAX && of->bell_file <= INT_MAX && of->count >= 1 &&
           of->count <= SEGMENT_MOST;
}

bool segment_read_address(const uint8_t *address, size_t size, size_t *count)
{
    location of;
    if (size != SEGMENT_ADDRESS || !read_address(address, &of))
        return false;
    *count = (size_t)of.count;
    return true;
}

/* Of one machine and user, so that /proc leads from either to the other. */
static bool meet(const location *a, const location *b)
{
    return a->processes == b->processes && a->user == b->user &&
           memcmp(a->boot, b->boot, BOOT_BYTES) == 0;
}

bool segment_addresses_meet(const uint8_t *one, const uint8_t *other)
{
    location a, b;
    return read_address(one, &a) && read_address(other, &b) && meet(&a, &b);
}

int segment_address(const segment *own, uint8_t *address, tarry_diagnostic *diagnostic)
{
    location here = {
        .process = (uint32_t)getpid(),
        .board_file = (uint32_t)own->board_file,
        .bell_file = (uint32_t)own->bell_file,
        .count = own->count,
    };
    if (!read_here(&here))
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "shared memory: /proc can't be read");
    memcpy(here.key, own->board->key, KEY_BYTES);
    write_address(&here, address);
    return TARRY_OK;
}

/* ---- the memory ---- */

static size_t board_bytes(size_t count)
{
    return BOARD_BYTES + count * sizeof(float);
}

struct segment_pool {
    tarry_allocator allocator;
    uint32_t count, most;
    float **memory; /* of each: a board, a bell and the numbers */
    segment *items;
};

static void segment_set(segment *of, void *board, void *bell, size_t count)
{
    of->board = board;
    of->numbers = (float *)((char *)board + BOARD_BYTES);
    of->count = count;
    of->bell = bell;
    of->pooled = false;
}

static void close_file(int file)
{
    if (file >= 0)
        close(file);
}

static void unmap(void *board, void *bell, size_t count)
{
    if (board != NULL)
        munmap(board, board_bytes(count));
    if (bell != NULL)
        munmap(bell, BELL_BYTES);
}

int segment_create(size_t count, segment *own, tarry_diagnostic *diagnostic)
{
    if (count < 1 || count > SEGMENT_MOST)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "shared memory: %zu numbers", count);
    int board_file = -1, bell_file = -1;
    void *bell = NULL, *board = NULL;
    int error =
        sealed_make("tarry-sum", board_bytes(count), SEALED_READ, NULL, &board, &board_file);
    if (error == TARRY_OK)
        error = sealed_make("tarry-bell", BELL_BYTES, SEALED_WRITE, NULL, &bell, &bell_file);
    if (error == TARRY_OK && RAND_bytes(((segment_board *)board)->key, KEY_BYTES) != 1)
        error = TARRY_ERROR_SYSTEM;
    if (error != TARRY_OK) {
        unmap(board, bell, count);
        close_file(board_file);
        close_file(bell_file);
        return diagnose(diagnostic, error, "shared memory: %zu bytes can't be had: %s",
                        board_bytes(count), tarry_error_text(error));
    }
    segment_set(own, board, bell, count);
    own->board_file = board_file;
    own->bell_file = bell_file;
    return TARRY_OK;
}

/* ---- a pool ---- */

int segment_pool_create(uint32_t most, const tarry_allocator *allocator, segment_pool **made)
{
    segment_pool *pool = memory_allocate(allocator, 1, sizeof(*pool));
    if (pool == NULL)
        return TARRY_ERROR_NO_MEMORY;
    pool->allocator = memory_allocator(allocator);
    pool->most = most;
    pool->memory = memory_allocate(allocator, most, sizeof(*pool->memory));
    pool->items = memory_allocate(allocator, most, sizeof(*pool->items));
    if (pool->memory == NULL || pool->items == NULL) {
        segment_pool_free(pool);
        return TARRY_ERROR_NO_MEMORY;
    }
    *made = pool;
    return TARRY_OK;
}

void segment_pool_free(segment_pool *pool)
{
    if (pool == NULL)
        return;
    tarry_allocator allocator = pool->allocator;
    for (uint32_t i = 0; i < pool->count; i++)
        vector_release(&allocator, pool->memory[i]);
    memory_release(&allocator, pool->items);
    memory_release(&allocator, pool->memory);
    memory_release(&allocator, pool);
}

int segment_pool_add(segment_pool *pool, size_t count, segment *own, tarry_diagnostic *diagnostic)
{
    if (count < 1 || count > SEGMENT_MOST)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "shared memory: %zu numbers", count);
    if (pool->count == pool->most)
        return diagnose(diagnostic, TARRY_ERROR_STATE, "shared memory: the pool has %u segments",
                        pool->most);
    size_t bytes = BELL_BYTES + board_bytes(count);
    float *memory = vector_allocate(&pool->allocator, bytes / sizeof(float));
    if (memory == NULL)
        return diagnose_no_memory(diagnostic, "shared memory");
    segment_board *board = (segment_board *)((char *)memory + BELL_BYTES);
    if (RAND_bytes(board->key, KEY_BYTES) != 1) {
        vector_release(&pool->allocator, memory);
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "shared memory: no random numbers");
    }
    segment_set(own, board, memory, count);
    own->pooled = true;
    own->board_file = own->bell_file = (int)pool->count;
    pool->memory[pool->count] = memory;
    pool->items[pool->count++] = *own;
    return TARRY_OK;
}

/* False: the pool does not have it. */
static bool find_pooled(const segment_pool *pool, const location *of, segment *found)
{
    if (pool == NULL || of->process != (uint32_t)getpid() || of->board_file >= pool->count)
        return false;
    const segment *item = &pool->items[of->board_file];
    if (memcmp(item->board->key, of->key, KEY_BYTES) != 0 || item->count != of->count)
        return false;
    *found = *item;
    return true;
}

/* ---- what others show ---- */

/* Maps a file of another process. Errors: as sealed_open. */
static int open_memory(const location *of, uint32_t file, sealed_access access, size_t bytes,
                       void **memory)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%u/fd/%u", of->process, file);
    return sealed_open(path, bytes, of->user, access, memory);
}

int segment_open(const segment_pool *pool, const uint8_t *address, segment *other,
                 tarry_diagnostic *diagnostic)
{
    location of, here;
    if (!read_here(&here))
        return diagnose(diagnostic, TARRY_ERROR_NO_MEMORY,
                        "this process can't read /proc, or has no more open files (ulimit -n)");
    if (!read_address(address, &of) || !meet(&of, &here))
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM,
                        "its memory is another machine's or another user's");
    if (find_pooled(pool, &of, other))
        return TARRY_OK;
    size_t count = (size_t)of.count;
    void *board = NULL, *bell = NULL;
    int error = open_memory(&of, of.board_file, SEALED_READ, board_bytes(count), &board);
    if (error == TARRY_OK)
        error = open_memory(&of, of.bell_file, SEALED_WRITE, BELL_BYTES, &bell);
    bool same = error == TARRY_OK && memcmp(((segment_board *)board)->key, of.key, KEY_BYTES) == 0;
    if (!same)
        unmap(board, bell, count);
    if (error == TARRY_ERROR_NO_MEMORY)
        return diagnose(diagnostic, error,
                        "this process can't map the memory of one worker more: it has too little "
                        "memory, or too many mappings (vm.max_map_count) or open files (ulimit "
                        "-n)");
    if (!same)
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "its memory can't be opened");
    segment_set(other, board, bell, count);
    other->board_file = other->bell_file = -1;
    return TARRY_OK;
}

void segment_close(segment *of)
{
    if (of->pooled)
        return;
    unmap(of->board, of->bell, of->count);
    close_file(of->board_file);
    close_file(of->bell_file);
}

/* ---- the bell ---- */

static long futex(_Atomic uint32_t *word, int operation, uint32_t value,
                  const struct timespec *until)
{
    return syscall(SYS_futex, word, operation, value, until, NULL, FUTEX_BITSET_MATCH_ANY);
}

void segment_ring(const segment *of)
{
    atomic_fetch_add(of->bell, 1);
    futex(of->bell, FUTEX_WAKE, INT_MAX, NULL);
}

bool segment_sleep(const segment *own, uint32_t heard, uint64_t until_ns)
{
    const uint64_t second = UINT64_C(1000000000);
    struct timespec until = {.tv_sec = (time_t)(until_ns / second),
                             .tv_nsec = (long)(until_ns % second)};
    long result =
        futex(own->bell, FUTEX_WAIT_BITSET, heard, until_ns == UINT64_MAX ? NULL : &until);
    return result == 0 || errno != ETIMEDOUT;
}
