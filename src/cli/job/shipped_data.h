/* SPDX-License-Identifier: Apache-2.0 */
/* --ship-data at the server: each chunk's samples as bytes, made when they are first asked for. */
#ifndef CLI_SHIPPED_DATA_H
#define CLI_SHIPPED_DATA_H

#include "learn/batch.h"
#include "learn/dataset.h"

typedef struct shipped_data shipped_data;

/* `data`, borrowed, has the samples of the batch's chunks. Errors: ARGUMENT (a chunk is too large,
 * see tarry/tcp.h), NO_MEMORY. */
int shipped_data_create(const dataset *data, const batch_settings *batch, shipped_data **out,
                        tarry_diagnostic *diagnostic);
void shipped_data_free(shipped_data *shipped); /* NULL is allowed */

/* A tarry_tcp_ship; user is the shipped_data. One thread. */
int shipped_data_give(void *user, uint32_t origin, const void **bytes, size_t *size);

#endif
