/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/machine_room.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    PATH_SIZE = 4096,
    LINE_SIZE = 4096,
    KILO = 1024,
    MAPPINGS_PER_THREAD = 2, /* its stack and the guard page below it */
    OTHER_MAPPINGS = 1000,
};

/* What the names of files of one version of control groups are. */
typedef struct group_files {
    const char *limit, *usage;
    const char *inactive, *active; /* rows of memory.stat: pages of files, which can be dropped */
} group_files;

static const group_files files_of_version[] = {
    {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"},
    {"memory.max", "memory.current", "inactive_file", "active_file"},
};

/* The number that a file begins with; `missing` if there is none ("max", above all). */
static double read_number(const char *folder, const char *name, double missing)
{
    char path[PATH_SIZE + 64];
    double found = missing;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return missing;
    if (fscanf(file, "%lf", &found) != 1 || !(found >= 0))
        found = missing;
    fclose(file);
    return found;
}

/* The number in the row of a file that begins with the word `name`; `missing` if there is none. */
static double read_row(const char *folder, const char *file_name, const char *name, double missing)
{
    char path[PATH_SIZE + 64], line[LINE_SIZE];
    size_t length = strlen(name);
    double found = missing;
    snprintf(path, sizeof(path), "%s/%s", folder, file_name);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return missing;
    while (fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, name, length) == 0 && (line[length] == ' ' || line[length] == ':'))
            found = strtod(line + length + 1, NULL);
    fclose(file);
    return found;
}

static void limit_free(machine_room *room, double bytes, const char *by)
{
    if (bytes >= room->free_bytes)
        return;
    room->free_bytes = fmax(bytes, 0);
    room->free_by = by;
}

static void limit_threads(machine_room *room, double threads, const char *by)
{
    if (threads >= room->threads)
        return;
    room->threads = fmax(threads, 0);
    room->threads_by = by;
}

/* ---- control groups ---- */

static void look_at_memory(machine_room *room, const char *folder, const group_files *files)
{
    double limit = read_number(folder, files->limit, INFINITY);
    if (limit >= room->memory_bytes)
        return; /* version 1 writes a very large number for no limit */
    double usage = read_number(folder, files->usage, 0);
    double dropped = read_row(folder, "memory.stat", files->inactive, 0) +
                     read_row(folder, "memory.stat", files->active, 0);
    room->memory_bytes = limit;
    limit_free(room, limit - fmax(usage - dropped, 0), "left to this control group");
}

static void look_at_pids(machine_room *room, const char *folder)
{
    double limit = read_number(folder, "pids.max", INFINITY);
    limit_threads(room, limit - read_number(folder, "pids.current", 0),
                  "pids.max of the control group");
}

/* The group's folder and those around it. In a container the path may be one of the machine
 * outside, and the container's files are at the top. */
static void look_at_groups(machine_room *room, const char *top, char *path, bool memory, bool pids,
                           const group_files *files)
{
    char folder[PATH_SIZE];
    for (;;) {
        int length = snprintf(folder, sizeof(folder), "%s%s", top, path);
        bool fits = length > 0 && (size_t)length < sizeof(folder);
        if (fits && memory)
            look_at_memory(room, folder, files);
        if (fits && pids)
            look_at_pids(room, folder);
        char *end = strrchr(path, '/');
        if (end == NULL)
            return;
        *end = '\0';
    }
}

/* Whether the list, with commas between its words, has the word. */
static bool lists(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

/* "NUMBER:CONTROLLERS:PATH" */
static void look_at_hierarchy(machine_room *room, const char *root, char *line)
{
    char top[PATH_SIZE];
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (path == NULL || strlen(root) > PATH_SIZE / 2)
        return;
    *controllers++ = '\0';
    *path++ = '\0';
    if (strcmp(line, "0") == 0 && *controllers == '\0') {
        snprintf(top, sizeof(top), "%s/sys/fs/cgroup", root);
        look_at_groups(room, top, path, true, true, &files_of_version[1]);
        return;
    }
    const char *const names[] = {"memory", "pids"};
    for (size_t i = 0; i < 2; i++) {
        char own[LINE_SIZE];
        if (!lists(controllers, names[i]))
            continue;
        snprintf(own, sizeof(own), "%s", path);
        snprintf(top, sizeof(top), "%s/sys/fs/cgroup/%s", root, names[i]);
        look_at_groups(room, top, own, i == 0, i == 1, &files_of_version[0]);
    }
}

static void look_at_all_groups(machine_room *room, const char *root)
{
    char path[PATH_SIZE], line[LINE_SIZE];
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return;
    while (fgets(line, sizeof(line), file) != NULL)
        look_at_hierarchy(room, root, line);
    fclose(file);
}

/* ---- the machine and the shell ---- */

static double soft_limit(int resource)
{
    struct rlimit limit;
    return getrlimit((__rlimit_resource_t)resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
               ? (double)limit.rlim_cur
               : INFINITY;
}

static void look_at_machine(machine_room *room, const char *root)
{
    char folder[PATH_SIZE];
    snprintf(folder, sizeof(folder), "%s/proc", root);
    double total = read_row(folder, "meminfo", "MemTotal", INFINITY);
    double available = read_row(folder, "meminfo", "MemAvailable", INFINITY);
    double swap = read_row(folder, "meminfo", "SwapFree", 0);
    room->memory_bytes = total * KILO;
    limit_free(room, (available + swap) * KILO, "free on this machine");
    snprintf(folder, sizeof(folder), "%s/proc/sys/kernel", root);
    limit_threads(room, read_number(folder, "threads-max", INFINITY), "kernel.threads-max");
    limit_threads(room, read_number(folder, "pid_max", INFINITY), "kernel.pid_max");
}

/* What bounds the threads of this process alone. */
static void look_at_stacks(machine_room *room, const char *root)
{
    char folder[PATH_SIZE];
    snprintf(folder, sizeof(folder), "%s/proc/sys/vm", root);
    double mappings = read_number(folder, "max_map_count", INFINITY);
    limit_threads(room, (mappings - OTHER_MAPPINGS) / MAPPINGS_PER_THREAD, "vm.max_map_count");
    snprintf(folder, sizeof(folder), "%s/proc/self", root);
    double space = soft_limit(RLIMIT_AS), stack = soft_limit(RLIMIT_STACK);
    double used = read_row(folder, "status", "VmSize", 0) * KILO;
    if (isfinite(space) && isfinite(stack) && stack > 0)
        limit_threads(room, (space - used) / stack, "ulimit -v, by stacks of ulimit -s");
}

static void look_at_shell(machine_room *room, const char *root)
{
    char folder[PATH_SIZE];
    snprintf(folder, sizeof(folder), "%s/proc/self", root);
    double space = soft_limit(RLIMIT_AS);
    double used = read_row(folder, "status", "VmSize", 0) * KILO;
    limit_free(room, space - used, "left by ulimit -v");
    if (geteuid() != 0) /* root may have any number */
        limit_threads(room, soft_limit(RLIMIT_NPROC), "ulimit -u");
}

machine_room machine_room_find(const char *root, bool children)
{
    machine_room room = {INFINITY, INFINITY, "", INFINITY, ""};
    look_at_machine(&room, root);
    look_at_all_groups(&room, root);
    look_at_shell(&room, root);
    if (!children)
        look_at_stacks(&room, root);
    return room;
}
