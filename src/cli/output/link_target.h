/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_LINK_TARGET_H
#define CLI_LINK_TARGET_H

/*
 * The path that a rename has to replace to write `path`: what symbolic links lead to, also where
 * there is nothing there yet, and not a link. A link that the system does not follow (of a loop, or
 * of another user in a folder as /tmp) is not followed, and given back itself. The caller releases
 * it, with memory_release. NULL: no memory.
 */
char *link_target(const char *path);

#endif
