/* SPDX-License-Identifier: Apache-2.0 */
/* Where the workers of tarry train are. */
#ifndef CLI_TRAIN_WHERE_H
#define CLI_TRAIN_WHERE_H

#include "cli/options/options.h"

typedef enum train_engine {
    TRAIN_DIRECT,
    TRAIN_MPI,      /* ranks of MPI, and sums as fit them */
    TRAIN_MPI_ONLY, /* sums over MPI in any case */
} train_engine;

typedef struct train_where {
    bool processes;
    int engine; /* a train_engine */
} train_where;

option_group train_where_group(train_where *where);

#endif
