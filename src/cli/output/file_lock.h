/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock that one process at a time has, and that ends with the process however it ends: an empty
 * file that is locked. Who lets it go removes the file; one that a killed process left locks nobody
 * out.
 */
#ifndef CLI_FILE_LOCK_H
#define CLI_FILE_LOCK_H

#include <stdbool.h>

typedef enum file_lock_state {
    FILE_LOCK_TAKEN,
    FILE_LOCK_HELD,        /* by another process, or another descriptor of this one */
    FILE_LOCK_UNAVAILABLE, /* no such file can be made there, or the file system knows no locks */
    FILE_LOCK_FOREIGN,     /* what has the name is no lock: not a file, or not empty */
} file_lock_state;

/* *descriptor is set, for file_lock_drop, if the lock was taken. It is closed by exec. */
file_lock_state file_lock_take(const char *path, int *descriptor);

/* Removes the file, unless another one has its name by now, and lets the lock go. */
void file_lock_drop(const char *path, int descriptor);

#endif
