/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/link_target.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

enum { LINKS_MOST = 40 }; /* as many as the kernel follows */

/* The first `length` bytes of one text, and all of another. */
static char *join(const char *text, size_t length, const char *more)
{
    char *joined = memory_allocate(NULL, length + strlen(more) + 1, 1);
    if (joined != NULL) {
        memcpy(joined, text, length);
        strcpy(joined + length, more);
    }
    return joined;
}

/* Where a link points to; a relative one begins in the folder that the link is in. */
static char *follow(const char *link, const char *to)
{
    const char *slash = strrchr(link, '/');
    bool stays = to[0] != '/' && slash != NULL;
    return join(link, stays ? (size_t)(slash - link) + 1 : 0, to);
}

/* Whether `path` is a link to what is not there; `to` is what it says then. */
static bool dangles(const char *path, char to[PATH_MAX])
{
    struct stat status;
    if (stat(path, &status) == 0 || errno != ENOENT)
        return false;
    ssize_t length = readlink(path, to, PATH_MAX - 1);
    if (length <= 0)
        return false;
    to[length] = '\0';
    return true;
}

char *link_target(const char *path)
{
    struct stat status;
    char *real = stat(path, &status) == 0 ? realpath(path, NULL) : NULL;
    const char *begin = real != NULL ? real : path;
    char *target = join(begin, strlen(begin), ""), to[PATH_MAX];
    free(real);
    for (int links = 0; target != NULL && links < LINKS_MOST && dangles(target, to); links++) {
        char *next = follow(target, to);
        memory_release(NULL, target);
        target = next;
    }
    return target;
}
