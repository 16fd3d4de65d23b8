/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdalign.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/checkpoint/checkpoint.h"
#include "test.h"

typedef struct place {
    char folder[32], path[64], previous[64], link[64];
    checkpoint_file *file;
} place;

/* What link(2) fails with; 0: it does not. */
static int link_error;

int __real_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to);

int __wrap_link(const char *from, const char *to)
{
    if (link_error == 0)
        return __real_link(from, to);
    errno = link_error;
    return -1;
}

static void open_file(place *its, const char *path)
{
    assert_ok(checkpoint_file_open(path, &its->file, NULL));
}

static void begin(place *its)
{
    *its = (place){.folder = "/tmp/tarry-test-XXXXXX"};
    link_error = 0;
    assert_non_null(mkdtemp(its->folder));
    snprintf(its->path, sizeof(its->path), "%s/ck", its->folder);
    snprintf(its->previous, sizeof(its->previous), "%s/ck.previous", its->folder);
    snprintf(its->link, sizeof(its->link), "%s/link", its->folder);
    open_file(its, its->path);
}

static void end(place *its)
{
    checkpoint_file_close(its->file);
    assert_int_equal(unlink(its->path), 0);
    assert_int_equal(unlink(its->previous), 0);
    assert_int_equal(rmdir(its->folder), 0);
}

#define PLACE(name) TEST_WITH(name, place, its, begin, end)

static void save(const place *its, uint64_t round)
{
    const float numbers[] = {1, 2, 3};
    const float *const vectors[CHECKPOINT_VECTORS] = {numbers};
    const uint8_t text[] = "text";
    const checkpoint_part part = {text, sizeof(text)};
    const checkpoint state = {
        .round = round,
        .config = part,
        .plan = part,
        .server = part,
        .history = part,
        .dimension = 3,
        .vectors = 1,
    };
    assert_ok(checkpoint_file_write(its->file, &state, vectors, NULL));
}

static uint64_t round_at(const char *path)
{
    checkpoint_file *file;
    checkpoint state;
    const uint8_t *vectors[CHECKPOINT_VECTORS];
    tarry_diagnostic fault;
    assert_ok(checkpoint_file_open(path, &file, NULL));
    assert_ok(checkpoint_file_read(file, &state, vectors, NULL, &fault, NULL));
    assert_string_equal(fault.text, "");
    uint64_t round = state.round;
    checkpoint_file_close(file);
    return round;
}

/* How often `name` began to be missing in the watched folder, and how often it was put there. */
static void count_changes(int watch, const char *name, unsigned *gone, unsigned *put)
{
    alignas(struct inotify_event) char bytes[8192];
    ssize_t size;
    *gone = *put = 0;
    while ((size = read(watch, bytes, sizeof(bytes))) > 0) {
        for (const char *at = bytes; at < bytes + size;) {
            const struct inotify_event *event = (const void *)at;
            if (event->len > 0 && strcmp(event->name, name) == 0) {
                *gone += (event->mask & (IN_MOVED_FROM | IN_DELETE)) != 0;
                *put += (event->mask & IN_MOVED_TO) != 0;
            }
            at += sizeof(*event) + event->len;
        }
    }
    assert_int_equal(errno, EAGAIN);
}

/* Five more checkpoints, and how often FILE was missing meanwhile. */
static unsigned times_gone(const place *its)
{
    unsigned gone, put;
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    assert_true(watch >= 0);
    assert_true(inotify_add_watch(watch, its->folder, IN_MOVE | IN_DELETE) >= 0);
    for (uint64_t round = 2; round <= 6; round++) {
        save(its, round);
        assert_int_equal(round_at(its->previous), round - 1);
    }
    count_changes(watch, "ck", &gone, &put);
    assert_int_equal(put, 5);
    close(watch);
    return gone;
}

PLACE(file_is_always_there)
{
    save(its, 1);
    assert_int_equal(times_gone(its), 0);
}

TEST(without_hard_links)
{
    const int errors[] = {EPERM, EOPNOTSUPP, ENOSYS, EMLINK};
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        place its;
        begin(&its);
        link_error = errors[i];
        save(&its, 1);
        assert_int_equal(times_gone(&its), 5);
        end(&its);
    }
}

/* Killed when FILE.previous was a second name of FILE, and FILE.new not renamed yet. */
PLACE(two_names_of_one_file)
{
    save(its, 1);
    assert_int_equal(__real_link(its->path, its->previous), 0);
    save(its, 2);
    assert_int_equal(round_at(its->previous), 1);
}

/* One that somebody removed. */
PLACE(one_before_stays_where_there_is_no_other)
{
    save(its, 1);
    save(its, 2);
    assert_int_equal(unlink(its->path), 0);
    save(its, 3);
    assert_int_equal(round_at(its->previous), 1);
}

PLACE(through_a_link_that_dangles)
{
    struct stat status;
    checkpoint_file_close(its->file);
    assert_int_equal(symlink("ck", its->link), 0);
    open_file(its, its->link);
    assert_false(checkpoint_file_exists(its->file));
    save(its, 1);
    save(its, 2);
    checkpoint_file_close(its->file);
    assert_int_equal(lstat(its->link, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(round_at(its->previous), 1);
    assert_int_equal(unlink(its->path), 0);
    open_file(its, its->link);
    assert_true(checkpoint_file_exists(its->file));
    save(its, 3);
    assert_int_equal(unlink(its->link), 0);
}

PLACE(a_second_one_is_refused)
{
    checkpoint_file *second = NULL;
    tarry_diagnostic why;
    char expected[160];
    snprintf(expected, sizeof(expected),
             "%s: another process goes on with this run, or writes its checkpoints here",
             its->path);
    assert_int_equal(checkpoint_file_open(its->path, &second, &why), TARRY_ERROR_FILE);
    assert_string_equal(why.text, expected);
    assert_null(second);
    save(its, 1);
    save(its, 2);
}
