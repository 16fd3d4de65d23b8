/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <openssl/rand.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <tarry/allocator.h>
#include <tarry/engine.h>
#include <tarry/error.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/word_digest.h"
#include "coding/kernel.h"
#include "coding/layout.h"
#include "engine/sum_form.h"

/* ---- sealed memory ---- */

/*
 * What processes of one machine share: a file without a name in any folder (memfd), which
 * others open through the /proc of its maker. It is gone with the last process that uses it,
 * however that ends; and it is sealed, so that nobody can take bytes from under those who map it.
 */

/* What others may do with it. */
typedef enum sealed_access {
    SEALED_READ, /* the maker's mapping stays the only one that can write */
    SEALED_WRITE,
} sealed_access;

enum { SEALED_BOOT_BYTES = 36 };

enum {
    SEALED_FIXED = F_SEAL_SHRINK | F_SEAL_GROW,
    SEALED_STEP_BYTES = 64 << 20, /* that the kernel zeroes at a time */
};

/* What the system's last refusal was about: this process's own memory, mappings or descriptors, or
 * something else. */
static int sealed_refusal(int number)
{
    bool lacks = number == ENOMEM || number == ENOSPC || number == EMFILE || number == ENFILE;
    return lacks ? TARRY_ERROR_NO_MEMORY : TARRY_ERROR_SYSTEM;
}

static int sealed_map(int file, size_t bytes, int protection, void **memory)
{
    void *at = mmap(NULL, bytes, protection, MAP_SHARED, file, 0);
    if (at == MAP_FAILED)
        return sealed_refusal(errno);
    *memory = at;
    return TARRY_OK;
}

/* In steps, as the kernel zeroes what it reserves. */
static int sealed_reserve(int file, size_t bytes)
{
    if (bytes == 0 || bytes > INT64_MAX || fchmod(file, S_IRUSR | S_IWUSR) != 0)
        return TARRY_ERROR_SYSTEM;
    for (size_t at = 0; at < bytes; at += SEALED_STEP_BYTES) {
        size_t rest = bytes - at, step = rest < SEALED_STEP_BYTES ? rest : SEALED_STEP_BYTES;
        int number = posix_fallocate(file, (off_t)at, (off_t)step);
        if (number != 0)
            return sealed_refusal(number);
    }
    return TARRY_OK;
}

/* New memory of zeroed bytes, for this user alone, mapped to be written. It is taken from the
 * system now, as a write would end the process if there were none later. The caller owns the
 * mapping and *file. `label`: shown in /proc. Errors: NO_MEMORY (or no mapping or descriptor),
 * SYSTEM. */
static int sealed_make(const char *label, size_t bytes, sealed_access others, void **memory,
                       int *file)
{
    int made = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made < 0)
        return sealed_refusal(errno);
    void *mapped;
    int error = sealed_reserve(made, bytes);
    if (error == TARRY_OK)
        error = sealed_map(made, bytes, PROT_READ | PROT_WRITE, &mapped);
    /* Mappings from before this seal can be written. */
    int seals = SEALED_FIXED | F_SEAL_SEAL | (others == SEALED_READ ? F_SEAL_FUTURE_WRITE : 0);
    if (error == TARRY_OK && fcntl(made, F_ADD_SEALS, seals) != 0) {
        munmap(mapped, bytes);
        error = TARRY_ERROR_SYSTEM;
    }
    if (error != TARRY_OK) {
        close(made);
        return error;
    }
    *memory = mapped;
    *file = made;
    return TARRY_OK;
}

static bool sealed_is_sound(int file, size_t bytes, uid_t owner)
{
    struct stat what;
    int seals = fcntl(file, F_GET_SEALS);
    return fstat(file, &what) == 0 && S_ISREG(what.st_mode) && what.st_uid == owner && bytes > 0 &&
           (uintmax_t)what.st_size == bytes && seals >= 0 && (seals & SEALED_FIXED) == SEALED_FIXED;
}

/* Maps what `path`, a file in /proc, leads to. Errors: NO_MEMORY (or no mapping or
 * descriptor), SYSTEM (it can't be opened or mapped), FORMAT (it is another user's, of another
 * size, or could shrink). */
static int sealed_open(const char *path, size_t bytes, uid_t owner, sealed_access access,
                       void **memory)
{
    bool writes = access == SEALED_WRITE;
    /* Whatever else the path leads to is neither waited for nor becomes this process's terminal. */
    int file = open(path, (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0)
        return sealed_refusal(errno);
    int error = TARRY_ERROR_FORMAT;
    if (sealed_is_sound(file, bytes, owner))
        error = sealed_map(file, bytes, writes ? PROT_READ | PROT_WRITE : PROT_READ, memory);
    close(file);
    return error;
}

/* The kernel's name of the time since this machine started. False: it can't be read. */
static bool sealed_boot(uint8_t text[SEALED_BOOT_BYTES])
{
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    ssize_t got = read(file, text, SEALED_BOOT_BYTES);
    close(file);
    return got == SEALED_BOOT_BYTES;
}

/* ---- sums ---- */

/*
 * A sum's stripes pass through SHARED_SLOTS slots of each segment. A member
 * - copies its coded part's stripe into the slot of its segment, once the stripe that was there
 *   before is gathered;
 * - sums its share of a stripe into the slot, once all members have copied theirs;
 * - gathers the stripe from the slots of all, once all have summed theirs.
 *
 * All that says how far a member is are two counts on its board: stripes copied, stripes summed.
 * Who has copied stripe s + SHARED_SLOTS has gathered stripe s, so that no slot is written again
 * before all have read it.
 *
 * Counts belong to the tag beside them, which stands for the group, and the sum's name and size. A
 * tag goes before the slots of its sum are written again: who has read a slot, and still finds the
 * tag, has read what it stands for.
 */

enum { SHARED_SLOTS = 4 };

typedef struct shared_member {
    uint32_t worker;
    uint8_t address[SEGMENT_ADDRESS];
    segment memory;
    bool open;
    bool begun; /* its coded part of the present sum was seen */
} shared_member;

typedef struct shared_engine {
    tarry_engine base;
    tarry_allocator allocator;
    const kernel *with;
    uint8_t address[SEGMENT_ADDRESS];
    segment own;
    const segment_pool *pool; /* of its process; NULL: none */
    _Atomic bool woken;

    uint32_t count, place; /* of the group; 0: none */
    uint64_t epoch;
    shared_member *members; /* [count], the own one is never opened */
    const float **z;        /* [count] */
    bool *has;              /* [count] */

    tarry_engine_progress progress;
    tarry_engine_sum sum;
    uint64_t tag;
    layout cut;
    size_t slot_numbers; /* from one slot to the next in every segment of the group */
    size_t share_stride; /* from one part's share to the next in a slot; they follow the coded
                            part's stripe */
    share_terms terms;   /* known once all have begun */
    sum_forms forms;
    uint8_t *packed;                   /* a share in its form; NULL: nothing is rounded */
    uint32_t copied, summed, gathered; /* stripes */
} shared_engine;

/* Numbers of a segment unless told otherwise: 1 MB, so that those of many members stay in the last
 * cache. */
enum { SHARED_NUMBERS = 1 << 18 };

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

static bool segment_read_address(const uint8_t *address, size_t size, size_t *count)
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

/* Whether both are of one machine and one user, where either can open the other. */
static bool segment_addresses_meet(const uint8_t *one, const uint8_t *other)
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
    int error = sealed_make("tarry-sum", board_bytes(count), SEALED_READ, &board, &board_file);
    if (error == TARRY_OK)
        error = sealed_make("tarry-bell", BELL_BYTES, SEALED_WRITE, &bell, &bell_file);
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

/* ---- shared ---- */

/* base is the first member. */
static shared_engine *of_base(tarry_engine *base)
{
    return (shared_engine *)base;
}

static void give_address(tarry_engine *base, uint8_t *bytes, size_t *size)
{
    memcpy(bytes, of_base(base)->address, SEGMENT_ADDRESS);
    *size = SEGMENT_ADDRESS;
}

/* The steps of a sum in shared memory, by the rules at the top. */

#define XXH_STATIC_LINKING_ONLY /* a state that needs no allocation */

/* ---- what members say of themselves ---- */

static segment *memory_of(shared_engine *engine, uint32_t place)
{
    return place == engine->place ? &engine->own : &engine->members[place].memory;
}

static segment_board *board_of(shared_engine *engine, uint32_t place)
{
    return memory_of(engine, place)->board;
}

static float *slot_of(shared_engine *engine, uint32_t place, uint32_t stripe)
{
    return memory_of(engine, place)->numbers + stripe % SHARED_SLOTS * engine->slot_numbers;
}

/* Where a member's share of the sum lies in its slot. */
static float *summed_in(shared_engine *engine, uint32_t place, uint32_t stripe)
{
    return slot_of(engine, place, stripe) + engine->cut.stripe_length;
}

static bool is_of(segment_side *side, uint64_t tag)
{
    return atomic_load(&side->tag) == tag;
}

/* Stripes of this sum that the side shows. */
static uint32_t shows(shared_engine *engine, segment_side *side)
{
    return is_of(side, engine->tag) ? atomic_load(&side->count) : 0;
}

/* Says that this side is of another sum, before anything that it showed is overwritten. */
static void side_begin(segment_side *side, uint64_t tag, bool zeros)
{
    atomic_store(&side->tag, 0);
    atomic_store(&side->count, 0);
    atomic_store(&side->zeros, zeros);
    atomic_store(&side->tag, tag);
    atomic_thread_fence(memory_order_release);
}

static void ring_those_who_wait(shared_engine *engine)
{
    for (uint32_t i = 0; i < engine->count; i++)
        if (i != engine->place && engine->members[i].open &&
            atomic_load(&board_of(engine, i)->waits_for) == engine->place + 1)
            segment_ring(memory_of(engine, i));
}

static void side_show(shared_engine *engine, segment_side *side, uint32_t count)
{
    atomic_store(&side->count, count);
    ring_those_who_wait(engine);
}

/* ---- beginning and end ---- */

static uint64_t make_tag(const shared_engine *engine, const tarry_engine_sum *sum)
{
    const uint64_t words[] = {engine->epoch,  engine->count,     sum->name.step,
                              sum->name.term, sum->name.attempt, sum->dimension,
                              sum->parts,     sum->compress,     sum->compress_down};
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, words, sizeof(words));
    XXH3_64bits_update(&state, sum->weights,
                       (size_t)sum->parts * engine->count * sizeof(*sum->weights));
    for (uint32_t i = 0; i < engine->count; i++)
        XXH3_64bits_update(&state, engine->members[i].address, SEGMENT_ADDRESS);
    uint64_t tag = XXH3_64bits_digest(&state);
    return tag == 0 ? 1 : tag;
}

/* The longest stripes of which a slot takes the coded part and all parts' shares, as equal as they
 * can be. 0: none. */
static size_t stripe_length(size_t slot_numbers, const tarry_engine_sum *sum, uint32_t count)
{
    size_t part = (sum->dimension - 1) / sum->parts + 1;
    /* A share is at most that much longer than the n-th of its stripe. */
    size_t rounding = (size_t)sum->parts * 2 * LAYOUT_LINE;
    if (slot_numbers <= rounding)
        return 0;
    size_t most =
        (slot_numbers - rounding) / (count + sum->parts) * count / LAYOUT_LINE * LAYOUT_LINE;
    if (most == 0)
        return 0;
    size_t stripes = (part - 1) / most + 1;
    size_t equal = (part - 1) / stripes + 1;
    return (equal + LAYOUT_LINE - 1) / LAYOUT_LINE * LAYOUT_LINE;
}

/* Numbers from slot to slot: as many as the smallest segment has room for. */
static size_t common_slot(const shared_engine *engine)
{
    size_t least = engine->own.count;
    for (uint32_t i = 0; i < engine->count; i++) {
        size_t count;
        if (segment_read_address(engine->members[i].address, SEGMENT_ADDRESS, &count) &&
            count < least)
            least = count;
    }
    return least / SHARED_SLOTS / LAYOUT_LINE * LAYOUT_LINE;
}

/* In slots of another size the coded part may come to lie where shares of the sum before still
 * do, which others may be about to read: they are taken back first. In slots of the same size they
 * stay. */
static void take_shape(shared_engine *engine, layout cut, size_t slot)
{
    if (slot != engine->slot_numbers || cut.stripe_length != engine->cut.stripe_length)
        atomic_store(&engine->own.board->summed.tag, 0);
    engine->cut = cut;
    engine->slot_numbers = slot;
    engine->share_stride = share_most(&engine->cut, engine->count);
}

/* Makes the sum's cut and takes memory for it. Errors: NO_MEMORY (also if the segments are too
 * small), ARGUMENT (forms). */
static int shared_sum_begin(shared_engine *engine, const tarry_engine_sum *sum)
{
    int error =
        sum_forms_of(sum, engine->count, engine->members[engine->place].worker, &engine->forms);
    if (error != TARRY_OK)
        return error;
    size_t slot = common_slot(engine), stripe = stripe_length(slot, sum, engine->count);
    if (stripe == 0)
        return TARRY_ERROR_NO_MEMORY;
    uint32_t *places = memory_allocate(&engine->allocator, engine->count, sizeof(*places));
    float *rows =
        memory_allocate(&engine->allocator, (size_t)engine->count * sum->parts, sizeof(*rows));
    layout cut = layout_make(sum->dimension, sum->parts, stripe);
    bool rounds = sum_form_rounds(&engine->forms, TARRY_WAY_UP) ||
                  sum_form_rounds(&engine->forms, TARRY_WAY_DOWN);
    uint8_t *packed = NULL;
    if (rounds)
        packed = memory_allocate(&engine->allocator, share_most(&cut, engine->count) + 1,
                                 2 * sizeof(float)); /* of one number: the most in any form */
    if (places == NULL || rows == NULL || (rounds && packed == NULL)) {
        memory_release(&engine->allocator, packed);
        memory_release(&engine->allocator, rows);
        memory_release(&engine->allocator, places);
        return TARRY_ERROR_NO_MEMORY;
    }
    engine->terms = (share_terms){.places = places, .rows = rows};
    engine->packed = packed;
    engine->sum = *sum;
    take_shape(engine, cut, slot);
    engine->copied = engine->summed = engine->gathered = 0;
    engine->tag = make_tag(engine, sum);
    engine->progress =
        (tarry_engine_progress){.state = TARRY_ENGINE_RUNNING, .suspect = TARRY_ENGINE_NOBODY};
    for (uint32_t i = 0; i < engine->count; i++)
        engine->members[i].begun = false;
    side_begin(&engine->own.board->coded, engine->tag, sum->part == NULL);
    return TARRY_OK;
}

static void shared_sum_end(shared_engine *engine, tarry_engine_state state)
{
    if (state != TARRY_ENGINE_DONE) { /* what is done, others may still want to read */
        atomic_store(&engine->own.board->coded.tag, 0);
        ring_those_who_wait(engine);
    }
    memory_release(&engine->allocator, engine->packed);
    memory_release(&engine->allocator, engine->terms.rows);
    memory_release(&engine->allocator, engine->terms.places);
    engine->terms = (share_terms){0};
    engine->packed = NULL;
    engine->progress.state = state;
}

static void shared_sum_fail(shared_engine *engine, uint32_t suspect, const char *why)
{
    engine->progress.suspect = suspect;
    snprintf(engine->progress.why, sizeof(engine->progress.why), "%.*s",
             (int)sizeof(engine->progress.why) - 1, why);
    shared_sum_end(engine, TARRY_ENGINE_FAILED);
}

static void fail_without(shared_engine *engine, uint32_t place)
{
    char why[64];
    snprintf(why, sizeof(why), "worker %u ended the sum", engine->members[place].worker);
    shared_sum_fail(engine, TARRY_ENGINE_NOBODY, why);
}

/* ---- groups ---- */

static void abandon(tarry_engine *base)
{
    shared_engine *engine = of_base(base);
    if (engine->progress.state == TARRY_ENGINE_RUNNING)
        shared_sum_end(engine, TARRY_ENGINE_IDLE);
    engine->progress =
        (tarry_engine_progress){.state = TARRY_ENGINE_IDLE, .suspect = TARRY_ENGINE_NOBODY};
}

static void release_members(shared_engine *engine, shared_member *members, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (members[i].open)
            segment_close(&members[i].memory);
    memory_release(&engine->allocator, members);
}

static int check_group(const shared_engine *engine, const tarry_engine_group *group,
                       tarry_diagnostic *diagnostic)
{
    if (group->count < 1 || group->place >= group->count)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "group: place %u of %u", group->place,
                        group->count);
    for (uint32_t i = 0; i < group->count; i++) {
        const tarry_engine_member *member = &group->members[i];
        size_t numbers;
        if (!segment_read_address(member->address, member->address_size, &numbers))
            return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                            "group: worker %u has no address in shared memory", member->worker);
        if (i > 0 && member->worker <= group->members[i - 1].worker)
            return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "group: worker %u is out of order",
                            member->worker);
    }
    if (memcmp(group->members[group->place].address, engine->address, SEGMENT_ADDRESS) != 0)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "group: the own address is another one");
    return TARRY_OK;
}

/* Takes over what the old group had open. */
static void adopt_open(shared_engine *engine, shared_member *member)
{
    for (uint32_t i = 0; i < engine->count; i++) {
        shared_member *old = &engine->members[i];
        if (old->open && memcmp(old->address, member->address, SEGMENT_ADDRESS) == 0) {
            member->memory = old->memory;
            member->open = true;
            old->open = false;
            return;
        }
    }
}

/* Errors: as segment_open; *place says who can't be opened then. */
static int open_members(shared_engine *engine, uint32_t *place, tarry_diagnostic *diagnostic)
{
    int error = TARRY_OK;
    for (uint32_t i = 0; i < engine->count && error == TARRY_OK; i++) {
        shared_member *member = &engine->members[i];
        if (i == engine->place || member->open)
            continue;
        error = segment_open(engine->pool, member->address, &member->memory, diagnostic);
        member->open = error == TARRY_OK;
        *place = i;
    }
    return error;
}

static int form(tarry_engine *base, const tarry_engine_group *group, tarry_diagnostic *diagnostic)
{
    shared_engine *engine = of_base(base);
    abandon(base);
    int error = check_group(engine, group, diagnostic);
    if (error != TARRY_OK)
        return error;
    shared_member *members = memory_allocate(&engine->allocator, group->count, sizeof(*members));
    const float **z = memory_allocate(&engine->allocator, group->count, sizeof(*z));
    bool *has = memory_allocate(&engine->allocator, group->count, sizeof(*has));
    if (members == NULL || z == NULL || has == NULL) {
        memory_release(&engine->allocator, has);
        memory_release(&engine->allocator, z);
        memory_release(&engine->allocator, members);
        return diagnose_no_memory(diagnostic, "group");
    }
    for (uint32_t i = 0; i < group->count; i++) {
        members[i].worker = group->members[i].worker;
        memcpy(members[i].address, group->members[i].address, SEGMENT_ADDRESS);
        adopt_open(engine, &members[i]);
    }
    release_members(engine, engine->members, engine->count);
    memory_release(&engine->allocator, engine->z);
    memory_release(&engine->allocator, engine->has);
    engine->members = members;
    engine->z = z;
    engine->has = has;
    engine->count = group->count;
    engine->place = group->place;
    engine->epoch = group->epoch;
    uint32_t place;
    open_members(engine, &place, NULL); /* who can't be opened is looked for again at each start */
    return TARRY_OK;
}

/* ---- waiting ---- */

/* Whether all have copied that stripe; else *place is one who has not. */
static bool all_copied(shared_engine *engine, uint32_t stripe, uint32_t *place)
{
    for (uint32_t i = 0; i < engine->count; i++) {
        segment_side *side = &board_of(engine, i)->coded;
        bool its = is_of(side, engine->tag);
        engine->members[i].begun = engine->members[i].begun || its;
        if (!its || atomic_load(&side->count) <= stripe) {
            *place = i;
            return false;
        }
    }
    return true;
}

static bool all_summed(shared_engine *engine, uint32_t stripe, uint32_t *place)
{
    for (uint32_t i = 0; i < engine->count; i++) {
        if (shows(engine, &board_of(engine, i)->summed) <= stripe) {
            *place = i;
            return false;
        }
    }
    return true;
}

/* The member without which there is no step; none if it is known by now, or a failure. */
static bool shared_sum_laggard(shared_engine *engine, uint32_t *place)
{
    bool summing = engine->gathered < engine->summed;
    if (summing ? all_summed(engine, engine->gathered, place)
                : all_copied(engine, engine->summed, place))
        return false;
    shared_member *member = &engine->members[*place];
    /* What is not there yet won't come from one who is in this sum no more. It may have come just
     * before that. */
    if (!member->begun || is_of(&board_of(engine, *place)->coded, engine->tag))
        return true;
    if (summing && shows(engine, &board_of(engine, *place)->summed) > engine->gathered)
        return false;
    fail_without(engine, *place);
    return false;
}

/* ---- sums ---- */

static int start(tarry_engine *base, const tarry_engine_sum *sum)
{
    shared_engine *engine = of_base(base);
    if (engine->count == 0 || engine->progress.state == TARRY_ENGINE_RUNNING)
        return TARRY_ERROR_STATE;
    int error = shared_sum_begin(engine, sum);
    uint32_t place;
    tarry_diagnostic why;
    if (error != TARRY_OK)
        return error;
    error = open_members(engine, &place, &why);
    if (error == TARRY_ERROR_NO_MEMORY) /* the other one is not to blame */
        shared_sum_fail(engine, TARRY_ENGINE_NOBODY, why.text);
    else if (error != TARRY_OK)
        shared_sum_fail(engine, engine->members[place].worker, why.text);
    return TARRY_OK;
}

static bool is_over(uint64_t until_ns)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec >= until_ns;
}

/* Sleeps until the laggard does something. False: it is time to return. */
static bool sleep_for(shared_engine *engine, uint32_t place, uint64_t until_ns)
{
    segment_board *board = engine->own.board;
    uint32_t expected;
    bool more = true;
    atomic_store(&board->waits_for, place + 1);
    /* From here on it rings. What it did before is seen now. */
    uint32_t heard = atomic_load(engine->own.bell);
    if (shared_sum_laggard(engine, &expected) && expected == place && !atomic_load(&engine->woken))
        more = segment_sleep(&engine->own, heard, until_ns);
    atomic_store(&board->waits_for, 0);
    return more;
}

static void wake(tarry_engine *base)
{
    shared_engine *engine = of_base(base);
    atomic_store(&engine->woken, true);
    segment_ring(&engine->own);
}

/* ---- the steps ---- */

/* The numbers begin .. end - 1 of the own coded part, into the slot of the stripe that begins at
 * `start`. */
static void copy_range(const shared_engine *engine, float *slot, size_t start, size_t begin,
                       size_t end)
{
    memcpy(slot + (begin - start), engine->sum.part + begin, (end - begin) * sizeof(*slot));
}

/* Numbers of a share become what they were if they had been sent. */
static void pass(const shared_engine *engine, tarry_way way, share of, float *numbers)
{
    const size_t length = engine->cut.part_length;
    if (!sum_form_rounds(&engine->forms, way) || of.length == 0)
        return;
    sum_form_encode(&engine->forms, way, length, of.first, of.length, numbers, engine->packed);
    sum_form_decode(sum_form_of(&engine->forms, way, length, of.first, of.length), engine->packed,
                    of.length, numbers);
}

/* Each other's share of what was copied, which is all that they read. */
static void pass_up(const shared_engine *engine, float *slot, uint32_t stripe, size_t start)
{
    for (uint32_t i = 0; i < engine->count; i++) {
        share its = share_of(&engine->cut, stripe, engine->count, i);
        if (i != engine->place)
            pass(engine, TARRY_WAY_UP, its, slot + (its.first - start));
    }
}

/* All but the own share, which nobody else reads. */
static void copy_stripe(shared_engine *engine)
{
    uint32_t stripe = engine->copied;
    size_t start = layout_stripe_start(&engine->cut, stripe);
    size_t end = start + layout_stripe_length(&engine->cut, stripe);
    if (engine->sum.part != NULL) {
        share own = share_of(&engine->cut, stripe, engine->count, engine->place);
        float *slot = slot_of(engine, engine->place, stripe);
        copy_range(engine, slot, start, start, own.first);
        copy_range(engine, slot, start, own.first + own.length, end);
        pass_up(engine, slot, stripe, start);
    }
    side_show(engine, &engine->own.board->coded, ++engine->copied);
}

/* Whether all that was read since is of this sum. */
static bool still_of(shared_engine *engine, bool summed)
{
    atomic_thread_fence(memory_order_acquire);
    for (uint32_t i = 0; i < engine->count; i++) {
        segment_board *board = board_of(engine, i);
        if (!is_of(summed ? &board->summed : &board->coded, engine->tag)) {
            fail_without(engine, i);
            return false;
        }
    }
    return true;
}

/* The first stripe: all have begun, so that nobody needs a sum before this one. */
static void begin_summing(shared_engine *engine)
{
    for (uint32_t i = 0; i < engine->count; i++)
        engine->has[i] = !atomic_load(&board_of(engine, i)->coded.zeros);
    share_terms_set(&engine->terms, engine->sum.weights, engine->sum.parts, engine->count,
                    engine->has);
    side_begin(&engine->own.board->summed, engine->tag, false);
}

static void sum_stripe(shared_engine *engine)
{
    uint32_t stripe = engine->summed;
    if (stripe == 0)
        begin_summing(engine);
    share own = share_of(&engine->cut, stripe, engine->count, engine->place);
    size_t offset = own.first - layout_stripe_start(&engine->cut, stripe);
    for (uint32_t t = 0; t < engine->terms.count; t++) {
        uint32_t place = engine->terms.places[t];
        if (place == engine->place) {
            engine->z[t] = engine->sum.part + own.first;
        } else {
            engine->z[t] = slot_of(engine, place, stripe) + offset;
            engine->progress.moved += own.length * sizeof(float);
        }
    }
    share_decode(engine->with, &engine->cut, own, &engine->terms, engine->z, KERNEL_SET,
                 summed_in(engine, engine->place, stripe), engine->share_stride);
    pass(engine, TARRY_WAY_DOWN, own, summed_in(engine, engine->place, stripe));
    if (still_of(engine, false))
        side_show(engine, &engine->own.board->summed, ++engine->summed);
}

static void gather_share(shared_engine *engine, uint32_t stripe, uint32_t place)
{
    share its = share_of(&engine->cut, stripe, engine->count, place);
    const float *from = summed_in(engine, place, stripe);
    for (uint32_t part = 0; part < engine->cut.parts && its.length > 0; part++) {
        size_t exists = layout_exists(&engine->cut, part, its.first, its.length);
        memcpy(engine->sum.sum + part * engine->cut.part_length + its.first,
               from + part * engine->share_stride, exists * sizeof(*from));
        if (place != engine->place)
            engine->progress.moved += exists * sizeof(*from);
    }
}

static void tell_came(const shared_engine *engine, uint32_t stripe)
{
    const tarry_engine_sum *sum = &engine->sum;
    size_t first = layout_stripe_start(&engine->cut, stripe);
    size_t length = layout_stripe_length(&engine->cut, stripe);
    for (uint32_t part = 0; sum->came != NULL && part < engine->cut.parts; part++) {
        size_t exists = layout_exists(&engine->cut, part, first, length);
        if (exists > 0)
            sum->came(sum->user, part * engine->cut.part_length + first, exists);
    }
}

static void gather_stripe(shared_engine *engine)
{
    uint32_t stripe = engine->gathered;
    for (uint32_t i = 0; i < engine->count; i++)
        gather_share(engine, stripe, i);
    if (!still_of(engine, true))
        return;
    tell_came(engine, stripe);
    if (++engine->gathered == engine->cut.stripes)
        shared_sum_end(engine, TARRY_ENGINE_DONE);
}

/* One step of the sum. False: there is none now, or it ended. */
static bool shared_sum_step(shared_engine *engine)
{
    uint32_t place, stripes = engine->cut.stripes;
    if (engine->progress.state != TARRY_ENGINE_RUNNING)
        return false;
    if (engine->gathered < engine->summed && all_summed(engine, engine->gathered, &place))
        gather_stripe(engine);
    else if (engine->summed < engine->copied && all_copied(engine, engine->summed, &place))
        sum_stripe(engine);
    else if (engine->copied < stripes && engine->copied < engine->gathered + SHARED_SLOTS)
        copy_stripe(engine);
    else
        return false;
    return true;
}

static void wait_for_sum(tarry_engine *base, uint64_t until_ns, tarry_engine_progress *progress)
{
    shared_engine *engine = of_base(base);
    bool more = true;
    while (more && engine->progress.state == TARRY_ENGINE_RUNNING &&
           !atomic_exchange(&engine->woken, false)) {
        uint32_t place;
        if (shared_sum_step(engine))
            more = until_ns == 0 || !is_over(until_ns);
        else if (until_ns == 0)
            more = false;
        else if (shared_sum_laggard(engine, &place))
            more = sleep_for(engine, place, until_ns);
    }
    *progress = engine->progress;
}

/* ---- life ---- */

bool shared_engine_reaches(const tarry_engine *engine, const uint8_t *address, size_t size)
{
    size_t numbers;
    return segment_read_address(address, size, &numbers) &&
           segment_addresses_meet(((const shared_engine *)engine)->address, address);
}

static void free_engine(tarry_engine *base)
{
    shared_engine *engine = of_base(base);
    abandon(base);
    release_members(engine, engine->members, engine->count);
    memory_release(&engine->allocator, engine->z);
    memory_release(&engine->allocator, engine->has);
    segment_close(&engine->own);
    tarry_allocator allocator = engine->allocator;
    memory_release(&allocator, engine);
}

static const tarry_engine_methods methods = {
    .name = "shared",
    .address = give_address,
    .form = form,
    .start = start,
    .wait = wait_for_sum,
    .wake = wake,
    .abandon = abandon,
    .free = free_engine,
    .forms = true,
};

int shared_engine_create(size_t numbers, segment_pool *pool, const tarry_allocator *allocator,
                         tarry_engine **out, tarry_diagnostic *diagnostic)
{
    shared_engine *engine = memory_allocate(allocator, 1, sizeof(*engine));
    if (engine == NULL)
        return diagnose_no_memory(diagnostic, "engine");
    size_t count = numbers == 0 ? SHARED_NUMBERS : numbers;
    int error = pool != NULL ? segment_pool_add(pool, count, &engine->own, diagnostic)
                             : segment_create(count, &engine->own, diagnostic);
    if (error != TARRY_OK) {
        memory_release(allocator, engine);
        return error;
    }
    error = segment_address(&engine->own, engine->address, diagnostic);
    if (error != TARRY_OK) {
        segment_close(&engine->own);
        memory_release(allocator, engine);
        return error;
    }
    engine->base.methods = &methods;
    engine->pool = pool;
    engine->allocator = memory_allocator(allocator);
    engine->with = kernel_best();
    engine->progress.suspect = TARRY_ENGINE_NOBODY;
    *out = &engine->base;
    return TARRY_OK;
}
