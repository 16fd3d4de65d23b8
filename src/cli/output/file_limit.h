/* SPDX-License-Identifier: Apache-2.0 */
/* How many files a process may have open at once: for a server, how many workers can connect. */
#ifndef CLI_FILE_LIMIT_H
#define CLI_FILE_LIMIT_H

#include <stdint.h>

/* Raises the limit of this process to `wanted` files, as far as it may; gives back what it is then,
 * which is more where it was more before. */
uint64_t file_limit_raise(uint64_t wanted);

#endif
