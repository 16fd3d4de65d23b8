/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Who had the lock may have removed the file between our opening and locking it; then the lock that
 * counts is that of another file, or of none yet. */
static bool is_at(const struct stat *locked, const char *path)
{
    struct stat there;
    return lstat(path, &there) == 0 && there.st_dev == locked->st_dev &&
           there.st_ino == locked->st_ino;
}

static file_lock_state try_once(const char *path, int *descriptor, bool *gone)
{
    *gone = false;
    /* Writable, since NFS locks nothing else. */
    int opened = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (opened < 0)
        return errno == ELOOP || errno == EISDIR ? FILE_LOCK_FOREIGN : FILE_LOCK_UNAVAILABLE;
    struct stat status;
    file_lock_state state = FILE_LOCK_UNAVAILABLE;
    if (fstat(opened, &status) == 0) {
        if (!S_ISREG(status.st_mode) || status.st_size != 0)
            state = FILE_LOCK_FOREIGN;
        else if (flock(opened, LOCK_EX | LOCK_NB) == 0)
            state = FILE_LOCK_TAKEN;
        else if (errno == EWOULDBLOCK)
            state = FILE_LOCK_HELD;
    }
    if (state == FILE_LOCK_TAKEN && is_at(&status, path)) {
        *descriptor = opened;
        return FILE_LOCK_TAKEN;
    }
    *gone = state == FILE_LOCK_TAKEN;
    close(opened);
    return state;
}

file_lock_state file_lock_take(const char *path, int *descriptor)
{
    bool gone;
    file_lock_state state;
    do
        state = try_once(path, descriptor, &gone);
    while (gone);
    return state;
}

void file_lock_drop(const char *path, int descriptor)
{
    struct stat status;
    if (fstat(descriptor, &status) == 0 && is_at(&status, path))
        unlink(path);
    close(descriptor);
}
