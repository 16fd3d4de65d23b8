/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "failing_allocator.h"
#include "pki/authority_files.h"
#include "secure/pins.h"
#include "seed.h"

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
    assert_int_equal(pins_open(its->root, NULL, &its->own, NULL), TARRY_OK);
}

/* As after a death: nothing but the files is left. */
static void live_again(bench *its)
{
    pins_close(its->own);
    assert_int_equal(pins_open(its->root, NULL, &its->own, NULL), TARRY_OK);
}

static void end(bench *its)
{
    pins_close(its->own);
    authority_remove(its->root);
}

static void path_of(const bench *its, const char *name, char path[PATH])
{
    snprintf(path, PATH, "%s/secure/%s", its->root, name);
}

static size_t read_file(const bench *its, const char *name, char text[TEXT])
{
    char path[PATH];
    path_of(its, name, path);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t size = fread(text, 1, TEXT - 1, file);
    text[size] = '\0';
    fclose(file);
    return size;
}

static void write_file(const bench *its, const char *name, const char *bytes, size_t size)
{
    char path[PATH];
    path_of(its, name, path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static pins_lock lock_of(uint8_t job, uint64_t epoch, uint64_t round, uint64_t attempt)
{
    return (pins_lock){
        .job = {job}, .epoch = epoch, .round = round, .attempt = attempt, .kappa = {0xab}};
}

static void advance(bench *its, pins_lock next)
{
    tarry_diagnostic why;
    if (pins_advance(its->own, &next, &why) != TARRY_OK)
        fail_msg("%s", why.text);
}

static void refuse(bench *its, pins_lock next)
{
    tarry_diagnostic why;
    assert_int_equal(pins_advance(its->own, &next, &why), TARRY_ERROR_STATE);
    assert_non_null(strstr(why.text, "secure/lock says"));
}

static void the_first_target_is_the_only_one(void **state)
{
    (void)state;
    bench its;
    tarry_diagnostic why;
    bool first;
    char text[TEXT];
    begin(&its);
    for (int life = 0; life < 3; life++) {
        assert_int_equal(pins_hold_target(its.own, &all, &first, &why), TARRY_OK);
        assert_int_equal(first, life == 0);
        assert_int_equal(pins_hold_grid(its.own, &grid, &first, &why), TARRY_OK);
        assert_int_equal(first, life == 0);
        live_again(&its);
    }
    read_file(&its, "target", text);
    assert_string_equal(text, "tarry target 1\ndata 0102fe0000000000000000000000000000000000000000"
                              "000000000000000000\nsamples 1000\n");
    read_file(&its, "grid", text);
    assert_string_equal(text, "tarry grid 1\nbits 32\nfraction 12\nbound 400\n");
    pins_target other = all;
    other.samples--;
    assert_int_equal(pins_hold_target(its.own, &other, &first, &why), TARRY_ERROR_STATE);
    assert_non_null(strstr(why.text, "secure/target says"));
    other = all;
    other.data[31] ^= 1;
    assert_int_equal(pins_hold_target(its.own, &other, &first, &why), TARRY_ERROR_STATE);
    pins_grid finer = grid;
    finer.fraction++;
    assert_int_equal(pins_hold_grid(its.own, &finer, &first, &why), TARRY_ERROR_STATE);
    assert_non_null(strstr(why.text, "secure/grid says"));
    finer = grid;
    finer.bound = 400.00000000000006;
    assert_int_equal(pins_hold_grid(its.own, &finer, &first, &why), TARRY_ERROR_STATE);
    finer = grid;
    finer.bits = 64;
    assert_int_equal(pins_hold_grid(its.own, &finer, &first, &why), TARRY_ERROR_STATE);
    /* What was refused has changed nothing. */
    assert_int_equal(pins_hold_target(its.own, &all, &first, &why), TARRY_OK);
    assert_int_equal(pins_hold_grid(its.own, &grid, &first, &why), TARRY_OK);
    end(&its);
}

static void what_was_sent_is_never_sent_again(void **state)
{
    (void)state;
    bench its;
    begin(&its);
    for (int lives = 0; lives < 2; lives++) {
        uint8_t job = (uint8_t)(7 + lives);
        pins_lock another = lock_of(job, 1, 0, 0);
        advance(&its, another);
        advance(&its, another); /* the same bytes */
        another.kappa[31] = 1;
        refuse(&its, another);
        advance(&its, lock_of(job, 1, 0, 1));
        advance(&its, lock_of(job, 1, 5, 0));
        refuse(&its, lock_of(job, 1, 4, 9));
        refuse(&its, lock_of(job, 0, 9, 9));
        if (lives == 0)
            live_again(&its);
        another = lock_of(job, 1, 5, 0);
        advance(&its, another);
        another.kappa[0] = 0;
        refuse(&its, another);
        refuse(&its, lock_of(job, 1, 0, 1));
        advance(&its, lock_of(job, 2, 0, 0));
        refuse(&its, lock_of(job, 1, UINT64_MAX, UINT64_MAX));
    }
    char text[TEXT];
    read_file(&its, "lock", text);
    assert_string_equal(text,
                        "tarry lock 1\njob 08000000000000000000000000000000\nepoch 2\nround 0\n"
                        "attempt 0\nkappa ab00000000000000000000000000000000000000000000000000"
                        "000000000000\n");
    end(&its);
}

/* Of many moves, each is allowed exactly if it comes after all before it. */
static void a_lock_grows_as_words_do(void **state)
{
    (void)state;
    bench its;
    random_stream random = random_stream_make(test_seed("lock", 1), RANDOM_TEST, 0, 0);
    begin(&its);
    uint64_t most = 0;
    advance(&its, lock_of(1, 0, 0, 0));
    for (int i = 0; i < 120; i++) {
        uint64_t draw = random_u64(&random), a = draw % 3, b = draw / 3 % 3, c = draw / 9 % 5;
        uint64_t place = (a * 3 + b) * 5 + c;
        if (place >= most)
            advance(&its, lock_of(1, a, b, c));
        else
            refuse(&its, lock_of(1, a, b, c));
        most = place > most ? place : most;
        if (draw / 45 % 8 == 0)
            live_again(&its);
    }
    end(&its);
}

/* A damaged file is not a missing one: nothing is sent, whichever byte or end of it is lost. */
static void damage_stops_the_worker(void **state)
{
    (void)state;
    bench its;
    char text[TEXT];
    tarry_diagnostic why;
    bool first;
    begin(&its);
    advance(&its, lock_of(9, 3, 14, 2));
    size_t size = read_file(&its, "lock", text);
    for (size_t less = 0; less < size; less++) {
        write_file(&its, "lock", text, less);
        live_again(&its);
        pins_lock next = lock_of(9, 4, 0, 0);
        assert_int_equal(pins_advance(its.own, &next, &why), TARRY_ERROR_FORMAT);
        assert_non_null(
            strstr(why.text, less == 0 ? "secure/lock: is no such file" : "secure/lock: damaged"));
    }
    static const char *const changes[] = {"tarry lock 2",
                                          "job 0G",
                                          "epoch 03",
                                          "epoch -3",
                                          "round +14",
                                          "attempt 2 ",
                                          "epoch 18446744073709551616"};
    static const char *const from[] = {"tarry lock 1", "job 09",    "epoch 3", "epoch 3",
                                       "round 14",     "attempt 2", "epoch 3"};
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        char changed[TEXT];
        const char *at = strstr(text, from[i]);
        assert_non_null(at);
        snprintf(changed, TEXT, "%.*s%s%s", (int)(at - text), text, changes[i],
                 at + strlen(from[i]));
        write_file(&its, "lock", changed, strlen(changed));
        live_again(&its);
        pins_lock next = lock_of(9, 4, 0, 0);
        assert_int_equal(pins_advance(its.own, &next, &why), TARRY_ERROR_FORMAT);
    }
    write_file(&its, "lock", text, size);
    live_again(&its);
    advance(&its, lock_of(9, 4, 0, 0));

    write_file(&its, "target", "", 0);
    assert_int_equal(pins_hold_target(its.own, &all, &first, &why), TARRY_ERROR_FORMAT);
    write_file(&its, "target", "tarry target 1\n\0more", 20);
    assert_int_equal(pins_hold_target(its.own, &all, &first, &why), TARRY_ERROR_FORMAT);
    memset(text, 'x', sizeof(text));
    write_file(&its, "target", text, sizeof(text));
    assert_int_equal(pins_hold_target(its.own, &all, &first, &why), TARRY_ERROR_FORMAT);
    assert_non_null(strstr(why.text, "secure/target: is no such file"));
    end(&its);
}

/* A link to nowhere, a folder: not what a first use finds. */
static void what_is_no_file_is_not_missing(void **state)
{
    (void)state;
    bench its;
    char path[PATH];
    tarry_diagnostic why;
    bool first;
    begin(&its);
    path_of(&its, "target", path);
    assert_int_equal(symlink("nowhere", path), 0);
    assert_int_equal(pins_hold_target(its.own, &all, &first, &why), TARRY_ERROR_FILE);
    path_of(&its, "grid", path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(pins_hold_grid(its.own, &grid, &first, &why), TARRY_ERROR_FILE);
    /* What can't be written is not sent. */
    path_of(&its, "lock", path);
    assert_int_equal(mkdir(path, 0700), 0);
    pins_lock next = lock_of(1, 1, 1, 1);
    assert_int_equal(pins_advance(its.own, &next, &why), TARRY_ERROR_FILE);
    end(&its);
}

static void one_process_at_a_time(void **state)
{
    (void)state;
    bench its;
    pins *second;
    tarry_diagnostic why;
    struct stat folder;
    char path[PATH];
    begin(&its);
    path_of(&its, "", path);
    assert_int_equal(stat(path, &folder), 0);
    assert_int_equal(folder.st_mode & 0777, 0700);
    assert_int_equal(pins_open(its.root, NULL, &second, &why), TARRY_ERROR_STATE);
    assert_non_null(strstr(why.text, "secure: another worker is using these credentials"));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* The lock is held by the parent, too. */
        pins_close(its.own);
        _exit(pins_open(its.root, NULL, &second, NULL) == TARRY_ERROR_STATE ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    live_again(&its);
    assert_int_equal(pins_open("/nonexistent/folder", NULL, &second, &why), TARRY_ERROR_FILE);
    end(&its);
}

static int open_folder(void *user, const tarry_allocator *allocator)
{
    pins *made;
    int error = pins_open(user, allocator, &made, NULL);
    if (error == TARRY_OK)
        pins_close(made);
    return error;
}

static void no_allocation_has_to_succeed(void **state)
{
    (void)state;
    bench its;
    begin(&its);
    pins_close(its.own);
    assert_int_equal(fail_each_allocation(open_folder, its.root), 1);
    assert_int_equal(pins_open(its.root, NULL, &its.own, NULL), TARRY_OK);
    end(&its);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_target_is_the_only_one),
        cmocka_unit_test(what_was_sent_is_never_sent_again),
        cmocka_unit_test(a_lock_grows_as_words_do),
        cmocka_unit_test(damage_stops_the_worker),
        cmocka_unit_test(what_is_no_file_is_not_missing),
        cmocka_unit_test(one_process_at_a_time),
        cmocka_unit_test(no_allocation_has_to_succeed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
