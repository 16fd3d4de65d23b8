/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/checkpoint/checkpoint.h"
#include "test.h"
#include "test_file.h"

typedef struct place {
    char folder[32], path[64], other[64];
} place;

static void begin(place *its)
{
    *its = (place){.folder = "/tmp/tarry-test-XXXXXX"};
    assert_non_null(mkdtemp(its->folder));
    snprintf(its->path, sizeof(its->path), "%s/lock", its->folder);
    snprintf(its->other, sizeof(its->other), "%s/other", its->folder);
}

static void end(const place *its)
{
    assert_int_equal(rmdir(its->folder), 0);
}

#define PLACE(name) TEST_WITH(name, place, its, begin, end)

PLACE(one_at_a_time)
{
    struct stat status;
    int first, second = -1;
    for (int again = 0; again < 2; again++) {
        assert_int_equal(file_lock_take(its->path, &first), FILE_LOCK_TAKEN);
        assert_int_equal(fcntl(first, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        assert_int_equal(stat(its->path, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0600);
        assert_int_equal(file_lock_take(its->path, &second), FILE_LOCK_HELD);
        assert_int_equal(second, -1);
        file_lock_drop(its->path, first);
        assert_int_not_equal(stat(its->path, &status), 0);
    }
}

PLACE(a_killed_process_lets_it_go)
{
    int ready[2], lock;
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        if (file_lock_take(its->path, &lock) == FILE_LOCK_TAKEN && write(ready[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    assert_true(child > 0);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    assert_int_equal(file_lock_take(its->path, &lock), FILE_LOCK_HELD);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(access(its->path, F_OK), 0);
    assert_int_equal(file_lock_take(its->path, &lock), FILE_LOCK_TAKEN);
    file_lock_drop(its->path, lock);
}

PLACE(what_is_no_lock_is_left_alone)
{
    int lock;
    assert_int_equal(symlink(its->other, its->path), 0);
    assert_int_equal(file_lock_take(its->path, &lock), FILE_LOCK_FOREIGN);
    assert_int_not_equal(access(its->other, F_OK), 0);
    assert_int_equal(unlink(its->path), 0);
    assert_int_equal(mkdir(its->path, 0700), 0);
    assert_int_equal(file_lock_take(its->path, &lock), FILE_LOCK_FOREIGN);
    assert_int_equal(rmdir(its->path), 0);
    assert_int_equal(mkfifo(its->path, 0600), 0);
    assert_int_equal(file_lock_take(its->path, &lock), FILE_LOCK_FOREIGN);
    assert_int_equal(unlink(its->path), 0);
    write_text(its->path, "mine");
    assert_int_equal(file_lock_take(its->path, &lock), FILE_LOCK_FOREIGN);
    assert_int_equal(unlink(its->path), 0);
    /* Nor what came to have the name meanwhile. */
    assert_int_equal(file_lock_take(its->path, &lock), FILE_LOCK_TAKEN);
    write_text(its->other, "");
    assert_int_equal(rename(its->other, its->path), 0);
    file_lock_drop(its->path, lock);
    assert_int_equal(unlink(its->path), 0);
}

TEST(where_none_can_be_made)
{
    int lock;
    assert_int_equal(file_lock_take("/nowhere/at/all", &lock), FILE_LOCK_UNAVAILABLE);
    assert_int_equal(file_lock_take("/proc/lock", &lock), FILE_LOCK_UNAVAILABLE);
}

/* While it has the lock a process makes a file that nobody else's may be there with. */
static int take_turns(const place *its, int turns)
{
    for (int lock; turns > 0;) {
        if (file_lock_take(its->path, &lock) != FILE_LOCK_TAKEN)
            continue;
        int alone = open(its->other, O_CREAT | O_EXCL | O_WRONLY, 0600);
        if (alone < 0)
            return 1;
        close(alone);
        unlink(its->other);
        file_lock_drop(its->path, lock);
        turns--;
    }
    return 0;
}

PLACE(those_who_remove_it_never_let_two_in)
{
    enum { PROCESSES = 4, TURNS = 500 };
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0)
            _exit(take_turns(its, TURNS));
        assert_true(children[i] > 0);
    }
    int failed = 0, status;
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        failed += status != 0;
    }
    assert_int_equal(failed, 0);
}
