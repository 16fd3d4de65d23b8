/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of machines and control groups, from folders that look like a kernel's. */
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/options/machine_room.h"
#include "test.h"
#include "test_file.h"

enum { PATH = 512, MEGA = 1000 * 1000 };

static char root[] = "/tmp/tarry-test-XXXXXX";

/* A file below the root, with the folders that lead to it. */
static void put(const char *name, const char *text)
{
    char path[PATH];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    write_text(path, text);
}

static void drop(const char *folder)
{
    char command[PATH];
    snprintf(command, sizeof(command), "rm -rf %s/%s", root, folder);
    assert_int_equal(system(command), 0);
}

/* A machine of 8 GB, of which 6 are free; none of its processes is in a control group. */
static int begin(void **state)
{
    strcpy(root + strlen(root) - 6, "XXXXXX");
    assert_non_null(mkdtemp(root));
    put("proc/meminfo", "MemTotal:        8000000 kB\nMemFree:          100000 kB\n"
                        "MemAvailable:    6000000 kB\nSwapFree:              0 kB\n");
    put("proc/sys/kernel/threads-max", "60000\n");
    put("proc/sys/kernel/pid_max", "4194304\n");
    put("proc/sys/vm/max_map_count", "65530\n");
    put("proc/self/status", "VmSize:     1000 kB\n");
    return 0;
}

static int end(void **state)
{
    drop("");
    return 0;
}

TEST_SET_UP(a_machine_without_groups_has_what_is_free, begin, end)
{
    const machine_room own = machine_room_find(root, false),
                       children = machine_room_find(root, true);
    assert_true(own.memory_bytes == 8e6 * 1024);
    assert_true(own.free_bytes == 6e6 * 1024);
    assert_string_equal(own.free_by, "free on this machine");
    assert_string_equal(own.threads_by, "vm.max_map_count");
    assert_in_range((uintmax_t)own.threads, 30000, 32765);
    assert_true(children.threads <= 60000 && children.threads > own.threads);
}

TEST_SET_UP(nothing_is_known_of_a_machine_without_files, begin, end)
{
    const machine_room room = machine_room_find("/nowhere/at/all", true);
    assert_true(isinf(room.memory_bytes));
}

TEST_SET_UP(groups_of_version_2_and_those_around_them_limit, begin, end)
{
    put("proc/self/cgroup", "0::/jobs/one\n");
    put("sys/fs/cgroup/jobs/one/memory.max", "max\n");
    put("sys/fs/cgroup/jobs/one/memory.current", "5000000\n");
    put("sys/fs/cgroup/jobs/memory.max", "1000000000\n");
    put("sys/fs/cgroup/jobs/memory.current", "400000000\n");
    put("sys/fs/cgroup/jobs/memory.stat",
        "anon 1\ninactive_file 100000000\nactive_file 50000000\n");
    put("sys/fs/cgroup/jobs/pids.max", "100\n");
    put("sys/fs/cgroup/jobs/pids.current", "30\n");
    const machine_room room = machine_room_find(root, false);
    assert_true(room.memory_bytes == 1000 * MEGA);
    assert_true(room.free_bytes == 750 * MEGA); /* files in memory can be dropped */
    assert_string_equal(room.free_by, "left to this control group");
    assert_true(room.threads == 70);
    assert_string_equal(room.threads_by, "pids.max of the control group");
}

/* In a container the path is one of the machine outside. */
TEST_SET_UP(groups_of_version_1_limit, begin, end)
{
    put("proc/self/cgroup", "9:cpu,cpuacct:/a\n8:memory:/docker/0123\n7:pids:/docker/0123\n0::/\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000000\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "500000000\n");
    put("sys/fs/cgroup/memory/memory.stat", "inactive_file 7\ntotal_inactive_file 200000000\n");
    put("sys/fs/cgroup/pids/pids.max", "max\n");
    machine_room room = machine_room_find(root, false);
    assert_true(room.memory_bytes == 2000.0 * MEGA);
    assert_true(room.free_bytes == 1700.0 * MEGA);
    assert_string_equal(room.threads_by, "vm.max_map_count");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"); /* no limit */
    room = machine_room_find(root, false);
    assert_true(room.free_bytes == 6e6 * 1024);
}
