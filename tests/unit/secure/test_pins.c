/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/hex.h"
#include "base/memory.h"
#include "base/random.h"
#include "failing_allocator.h"
#include "pki/authority.h"
#include "runtime/tcp/trust/private_file.h"
#include "secure/secure_memory.h"
#include "seed.h"
#include "test.h"
#include "test_file.h"

OWNED_BY(pins, pins_close)

enum { PATH = 300, TEXT = 512 };

static const pins_target all = {.data = {1, 2, 0xfe}, .samples = 1000};
static const pins_grid grid = {.bits = 32, .fraction = 12, .bound = 400};

typedef struct bench {
    char root[64];
    pins *own;
} bench;

static void begin(bench *its)
{
    strcpy(its->root, "/tmp/tarry-pins-XXXXXX");
    assert_non_null(mkdtemp(its->root));
    assert_ok(pins_open(its->root, NULL, &its->own, NULL));
}

/* As after a death: nothing but the files is left. */
static void live_again(bench *its)
{
    pins_close(its->own);
    assert_ok(pins_open(its->root, NULL, &its->own, NULL));
}

static void end(bench *its)
{
    pins_close(its->own);
    authority_remove(its->root);
}

#define BENCH(name) TEST_WITH(name, bench, its, begin, end)

static void path_of(const bench *its, const char *name, char path[PATH])
{
    snprintf(path, PATH, "%s/secure/%s", its->root, name);
}

static size_t read_pin(const bench *its, const char *name, char text[TEXT])
{
    char path[PATH];
    path_of(its, name, path);
    const size_t size = read_file(path, text, TEXT - 1);
    text[size] = '\0';
    return size;
}

static void write_pin(const bench *its, const char *name, const char *bytes, size_t size)
{
    char path[PATH];
    path_of(its, name, path);
    write_file(path, bytes, size);
}

static pins_lock lock_of(uint8_t job, uint64_t epoch, uint64_t round, uint64_t attempt)
{
    return (pins_lock){
        .job = {job}, .epoch = epoch, .round = round, .attempt = attempt, .kappa = {0xab}};
}

static void advance(bench *its, pins_lock next)
{
    tarry_diagnostic why;
    assert_ok_or(why, pins_advance(its->own, &next, &why));
}

static void refuse(bench *its, pins_lock next)
{
    tarry_diagnostic why;
    assert_int_equal(pins_advance(its->own, &next, &why), TARRY_ERROR_STATE);
    assert_says(why.text, "secure/lock-");
}

static void lock_name(const pins_lock *lock, char name[TEXT])
{
    strcpy(name, "lock-");
    hex_put(name + strlen(name), lock->job, sizeof(lock->job));
}

static void check_pins(bench *its, const pins_target *target, const pins_grid *of, bool pinned)
{
    bool there = !pinned;
    assert_ok(pins_check_target(its->own, target, &there, NULL));
    assert_int_equal(there, pinned);
    assert_ok(pins_check_grid(its->own, of, &there, NULL));
    assert_int_equal(there, pinned);
}

BENCH(what_is_pinned_is_the_only_one)
{
    tarry_diagnostic why;
    bool pinned;
    char text[TEXT];
    for (int look = 0; look < 2; look++) /* which writes nothing */
        check_pins(its, &all, &grid, false);
    assert_ok(pins_write_target(its->own, &all, &why));
    assert_ok(pins_write_grid(its->own, &grid, &why));
    check_pins(its, &all, &grid, true);
    live_again(its);
    check_pins(its, &all, &grid, true);
    read_pin(its, "target", text);
    assert_string_equal(text, "tarry target 1\ndata 0102fe0000000000000000000000000000000000000000"
                              "000000000000000000\nsamples 1000\n");
    read_pin(its, "grid", text);
    assert_string_equal(text, "tarry grid 1\nbits 32\nfraction 12\nbound 400\n");
    pins_target other = all;
    other.samples--;
    assert_int_equal(pins_check_target(its->own, &other, &pinned, &why), TARRY_ERROR_STATE);
    assert_says(why.text, "secure/target says");
    other = all;
    other.data[31] ^= 1;
    assert_int_equal(pins_check_target(its->own, &other, &pinned, &why), TARRY_ERROR_STATE);
    pins_grid finer = grid;
    finer.fraction++;
    assert_int_equal(pins_check_grid(its->own, &finer, &pinned, &why), TARRY_ERROR_STATE);
    assert_says(why.text, "secure/grid says");
    finer = grid;
    finer.bound = 400.00000000000006;
    assert_int_equal(pins_check_grid(its->own, &finer, &pinned, &why), TARRY_ERROR_STATE);
    finer = grid;
    finer.bits = 64;
    assert_int_equal(pins_check_grid(its->own, &finer, &pinned, &why), TARRY_ERROR_STATE);
    check_pins(its, &all, &grid, true);
}

BENCH(what_was_sent_is_never_sent_again)
{
    for (int lives = 0; lives < 2; lives++) {
        uint8_t job = (uint8_t)(7 + lives);
        pins_lock another = lock_of(job, 1, 0, 0);
        advance(its, another);
        advance(its, another); /* the same bytes */
        another.kappa[31] = 1;
        refuse(its, another);
        advance(its, lock_of(job, 1, 0, 1));
        advance(its, lock_of(job, 1, 5, 0));
        refuse(its, lock_of(job, 1, 4, 9));
        refuse(its, lock_of(job, 0, 9, 9));
        if (lives == 0)
            live_again(its);
        another = lock_of(job, 1, 5, 0);
        advance(its, another);
        another.kappa[0] = 0;
        refuse(its, another);
        refuse(its, lock_of(job, 1, 0, 1));
        advance(its, lock_of(job, 2, 0, 0));
        refuse(its, lock_of(job, 1, UINT64_MAX, UINT64_MAX));
    }
    char text[TEXT];
    read_pin(its, "lock-08000000000000000000000000000000", text);
    const char *last = strstr(text, "digest ");
    assert_non_null(last);
    uint8_t digest_of[PINS_DIGEST_BYTES];
    char digits[TEXT];
    assert_int_equal(digest_of_bytes((const uint8_t *)text, (size_t)(last - text), digest_of), 0);
    hex_put(digits, digest_of, sizeof(digest_of));
    assert_string_equal(last + strlen("digest "), strcat(digits, "\n"));
    text[last - text] = '\0';
    assert_string_equal(text,
                        "tarry lock 2\njob 08000000000000000000000000000000\nepoch 2\nround 0\n"
                        "attempt 0\nkappa ab00000000000000000000000000000000000000000000000000"
                        "000000000000\n");
}

/*
 * A server's moves in four jobs, in any order, over lives of the worker, with kappas of its choice.
 * The oracle writes down all that was allowed: each move has to come after all earlier moves in
 * its job, or repeat the last one with the same kappa.
 */
BENCH(no_job_makes_a_lock_forgotten)
{
    enum { JOBS = 4, MOVES = 600 };
    pins_lock allowed[MOVES];
    size_t count = 0, refused = 0;
    random_stream random = random_stream_make(test_seed("locks", 1), RANDOM_TEST, 0, 0);
    for (int i = 0; i < MOVES; i++) {
        const uint64_t draw = random_u64(&random);
        pins_lock next =
            lock_of((uint8_t)(draw % JOBS), draw / 4 % 3, draw / 12 % 3, draw / 36 % 5);
        bool later = true, same = false;
        next.kappa[0] = (uint8_t)(draw / 180 % 2);
        for (size_t j = 0; j < count; j++) {
            const pins_lock *old = &allowed[j];
            if (old->job[0] != next.job[0])
                continue;
            const uint64_t was = (old->epoch * 3 + old->round) * 5 + old->attempt,
                           is = (next.epoch * 3 + next.round) * 5 + next.attempt;
            same = is > was ? same : is == was && memcmp(old->kappa, next.kappa, 32) == 0;
            later = later && is > was;
        }
        if (later || same) {
            advance(its, next);
            allowed[count++] = next;
        } else {
            refuse(its, next);
            refused++;
        }
        if (draw / 360 % 8 == 0)
            live_again(its);
    }
    assert_true(count > JOBS && refused > MOVES / 4);
}

static void touch(const bench *its, uint32_t job)
{
    pins_lock lock = {.epoch = 1};
    char name[TEXT];
    memcpy(lock.job, &job, sizeof(job));
    lock_name(&lock, name);
    write_pin(its, name, "", 0);
}

/* None of the locks makes room for another one. */
BENCH(there_are_so_many_locks_and_not_more)
{
    tarry_diagnostic why;
    char path[PATH];
    advance(its, lock_of(0xff, 1, 0, 0));
    for (uint32_t job = 1; job < PINS_MOST_JOBS - 1; job++)
        touch(its, job << 8);
    write_pin(its, "lock-0100000000000000000000000000000000.new", "", 0); /* of a crash */
    live_again(its);
    advance(its, lock_of(0xfe, 1, 0, 0));
    for (int life = 0; life < 2; life++) {
        pins_lock more = lock_of(0xfd, 1, 0, 0);
        assert_int_equal(pins_advance(its->own, &more, &why), TARRY_ERROR_STATE);
        assert_says(why.text, "secure has the locks of 10000 jobs, and none is "
                              "forgotten to make room: remove those that are over "
                              "(lock-*)");
        live_again(its);
    }
    advance(its, lock_of(0xff, 1, 0, 1));
    refuse(its, lock_of(0xff, 1, 0, 0));
    path_of(its, "lock-fe000000000000000000000000000000", path);
    assert_int_equal(remove(path), 0);
    live_again(its);
    advance(its, lock_of(0xfd, 1, 0, 0));
}

static void write_lock_and_refuse(bench *its, const char *name, const char *text, size_t size)
{
    tarry_diagnostic why;
    pins_lock next = lock_of(9, 4, 0, 0);
    write_pin(its, name, text, size);
    live_again(its);
    assert_int_equal(pins_advance(its->own, &next, &why), TARRY_ERROR_FORMAT);
    assert_says(why.text, ": damaged: ");
}

/* A damaged file does not count as missing: nothing is sent, with any byte or end of it lost. */
BENCH(a_damaged_lock_stops_the_worker)
{
    static const struct {
        const char *from, *to;
    } changes[] = {
        {"tarry lock 2", "tarry lock 1"},
        {"job 09", "job 0G"},
        {"job 09", "job 08"},
        {"epoch 3", "epoch 03"},
        {"epoch 3", "epoch -3"},
        {"epoch 3", "epoch 2"},
        {"round 14", "round +14"},
        {"attempt 2", "attempt 2 "},
        {"kappa ab", "kappa aa"},
        {"digest ", "digest 0"},
        {"epoch 3", "epoch 18446744073709551616"},
    };
    char text[TEXT], name[TEXT];
    const pins_lock first = lock_of(9, 3, 14, 2);
    lock_name(&first, name);
    advance(its, first);
    size_t size = read_pin(its, name, text);
    for (size_t less = 0; less < size; less++)
        write_lock_and_refuse(its, name, text, less);
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        char changed[TEXT];
        const char *at = strstr(text, changes[i].from);
        assert_non_null(at);
        snprintf(changed, TEXT, "%.*s%s%s", (int)(at - text), text, changes[i].to,
                 at + strlen(changes[i].from));
        write_lock_and_refuse(its, name, changed, strlen(changed));
    }
    /* Other jobs go by files of their own. */
    advance(its, lock_of(8, 1, 0, 0));
    write_pin(its, name, text, size);
    live_again(its);
    refuse(its, lock_of(9, 3, 14, 1));
    advance(its, lock_of(9, 4, 0, 0));
}

BENCH(a_damaged_target_stops_the_worker)
{
    char text[TEXT];
    tarry_diagnostic why;
    bool pinned;
    write_pin(its, "target", "", 0);
    assert_int_equal(pins_check_target(its->own, &all, &pinned, &why), TARRY_ERROR_FORMAT);
    write_pin(its, "target", "tarry target 1\n\0more", 20);
    assert_int_equal(pins_check_target(its->own, &all, &pinned, &why), TARRY_ERROR_FORMAT);
    memset(text, 'x', sizeof(text));
    write_pin(its, "target", text, sizeof(text));
    assert_int_equal(pins_check_target(its->own, &all, &pinned, &why), TARRY_ERROR_FORMAT);
    assert_says(why.text, "secure/target: damaged: ");
}

/* A kill leaves the whole old file, and the beginning of the new one under another name. */
BENCH(what_a_kill_leaves_is_not_read)
{
    tarry_diagnostic why;
    advance(its, lock_of(1, 5, 9, 1));
    assert_ok(pins_write_target(its->own, &all, &why));
    write_pin(its, "lock-01000000000000000000000000000000.new", "tarry lock 2\njob 01", 19);
    write_pin(its, "target.new", "tarry tar", 9);
    live_again(its);
    refuse(its, lock_of(1, 5, 9, 0));
    advance(its, lock_of(1, 5, 9, 2));
    bool pinned;
    assert_ok(pins_check_target(its->own, &all, &pinned, &why));
    assert_true(pinned);
}

/* The worker is killed again and again while it writes. All that it was told was written is there
 * in its next life. */
BENCH(kills_while_it_writes_lose_nothing)
{
    random_stream random = random_stream_make(test_seed("kills", 1), RANDOM_TEST, 0, 0);
    uint64_t done = 0;
    for (int life = 0; life < 12; life++) {
        int ends[2], status;
        pins_close(its->own);
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (pins_open(its->root, NULL, &its->own, NULL) != TARRY_OK)
                _exit(1);
            for (uint64_t round = done + 1;; round++) {
                pins_lock next = lock_of(3, 1, round, 0), other = lock_of(4, 1, round, 0);
                if (pins_advance(its->own, &next, NULL) != TARRY_OK ||
                    write(ends[1], &round, sizeof(round)) != sizeof(round) ||
                    pins_advance(its->own, &other, NULL) != TARRY_OK)
                    _exit(1);
            }
        }
        close(ends[1]);
        for (uint64_t rounds = random_u64(&random) % 20 + 1; rounds > 0; rounds--)
            assert_int_equal(read(ends[0], &done, sizeof(done)), sizeof(done));
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        while (read(ends[0], &done, sizeof(done)) == sizeof(done))
            ;
        close(ends[0]);
        assert_ok(pins_open(its->root, NULL, &its->own, NULL));
        pins_lock again = lock_of(3, 1, done, 0);
        again.kappa[0] ^= 1;
        refuse(its, again);
        done += 2; /* the round after may have been written, and the worker not told */
        advance(its, lock_of(3, 1, done, 0));
        advance(its, lock_of(4, 1, done, 0));
    }
}

/* A link to nowhere, a folder: not what a first use finds. */
BENCH(what_is_no_file_is_not_missing)
{
    char path[PATH], *text;
    size_t size;
    tarry_diagnostic why;
    bool pinned;
    path_of(its, "target", path);
    assert_int_equal(symlink("nowhere", path), 0);
    assert_int_equal(pins_check_target(its->own, &all, &pinned, &why), TARRY_ERROR_FILE);
    path_of(its, "grid", path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(pins_check_grid(its->own, &grid, &pinned, &why), TARRY_ERROR_FILE);
    const uint8_t key[PINS_DIGEST_BYTES] = {0};
    path_of(its, "held-0000000000000000000000000000000000000000000000000000000000000000", path);
    assert_int_equal(symlink("nowhere", path), 0);
    assert_int_equal(pins_recall_held(its->own, key, &text, &size, &why), TARRY_ERROR_FILE);
    /* What can't be written is not sent. */
    path_of(its, "lock-01000000000000000000000000000000", path);
    assert_int_equal(mkdir(path, 0700), 0);
    pins_lock next = lock_of(1, 1, 1, 1);
    assert_int_equal(pins_advance(its->own, &next, &why), TARRY_ERROR_FILE);
}

/* More than a file may have is refused before it is written, not when it is read. */
BENCH(a_record_that_could_not_be_read_is_not_written)
{
    tarry_diagnostic why;
    const uint8_t key[PINS_DIGEST_BYTES] = {7};
    const size_t most = PRIVATE_FILE_MOST_BYTES;
    OWNED(char) text = calloc(most, 1);
    char *again;
    size_t size;
    assert_non_null(text);
    assert_int_equal(pins_write_held(its->own, key, text, most, &why), TARRY_ERROR_STATE);
    assert_says(why.text, "cut the samples into fewer chunks");
    assert_ok(pins_recall_held(its->own, key, &again, &size, &why));
    assert_null(again);
    assert_ok(pins_write_held(its->own, key, text, most - TEXT, &why));
    assert_ok(pins_recall_held(its->own, key, &again, &size, &why));
    assert_int_equal(size, most - TEXT);
    memory_release(NULL, again);
}

BENCH(one_process_at_a_time)
{
    pins *second;
    tarry_diagnostic why;
    struct stat folder;
    char path[PATH];
    path_of(its, "", path);
    assert_int_equal(stat(path, &folder), 0);
    assert_int_equal(folder.st_mode & 0777, 0700);
    assert_int_equal(pins_open(its->root, NULL, &second, &why), TARRY_ERROR_STATE);
    assert_says(why.text, "secure: another worker is using these credentials");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* The lock is held by the parent, too. */
        pins_close(its->own);
        _exit(pins_open(its->root, NULL, &second, NULL) == TARRY_ERROR_STATE ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    live_again(its);
    assert_int_equal(pins_open("/nonexistent/folder", NULL, &second, &why), TARRY_ERROR_FILE);
}

static int open_folder(void *user, const tarry_allocator *allocator)
{
    OWNED(pins) made = NULL;
    return pins_open(user, allocator, &made, NULL);
}

BENCH(no_allocation_has_to_succeed)
{
    pins_close(its->own);
    assert_int_equal(fail_each_allocation(open_folder, its->root), 1);
    assert_ok(pins_open(its->root, NULL, &its->own, NULL));
}
