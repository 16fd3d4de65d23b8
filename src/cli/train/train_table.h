/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TRAIN_TABLE_H
#define CLI_TRAIN_TABLE_H

#include <tarry/error.h>

#include "cli/checkpoint/history.h"

/* Prints what a run did to stdout: its rounds, then its workers,
 * of many only the slowest. Errors: NO_MEMORY. */
int train_table_print(const history *past);

#endif
