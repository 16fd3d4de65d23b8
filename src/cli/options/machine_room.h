/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory and how many threads this process may still have: the machine's, or fewer by a
 * control group (version 1 or 2) or a limit of the shell (ulimit). Memory is promised freely; when
 * it is missing, the kernel kills some process. So who needs much asks here before.
 */
#ifndef CLI_MACHINE_ROOM_H
#define CLI_MACHINE_ROOM_H

#include <stdbool.h>

/* INFINITY, "": nothing is known to limit it. */
typedef struct machine_room {
    double memory_bytes; /* of the machine or of the group, used or not */
    double free_bytes;   /* of these, what can be taken now, caches of files included */
    const char *free_by; /* what limits it, as in "22.5 GB are free on this machine" */
    double threads;      /* that this process or its children may start */
    const char *threads_by;
} machine_room;

/* root: the folder of proc/ and sys/; "" but for tests. Files that are missing or odd set no limit.
 * children: the threads are those of other processes, which have mappings and address spaces of
 * their own. */
machine_room machine_room_find(const char *root, bool children);

#endif
