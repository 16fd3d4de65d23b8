/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a kernel by its name. */
#ifndef TARRY_BENCH_KERNEL_NAME_H
#define TARRY_BENCH_KERNEL_NAME_H

#include <stddef.h>

#include <tarry/error.h>

/* Sets *index to the number of the kernel `text`, if it is one of those that `name_at` names from 0
 * on, until it gives back NULL. Errors: FORMAT. */
int kernel_name_find(const char *text, const char *(*name_at)(size_t index), size_t *index,
                     tarry_diagnostic *diagnostic);

#endif
