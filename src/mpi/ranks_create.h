/* SPDX-License-Identifier: Apache-2.0 */
/* How the ranks of a run are made: what is collective. */
#ifndef MPI_RANKS_CREATE_H
#define MPI_RANKS_CREATE_H

#include "mpi/ranks_state.h"

/* Frees all but what MPI may still read. `whole`: all ranks do so, and MPI has nothing left. */
void ranks_release(tarry_mpi *self, bool whole);

/* What the worker and the post call, of a tarry_mpi: ranks.c. */
void ranks_send_up(void *user, const void *frame, size_t size, const float *numbers, size_t count);
void ranks_pass(void *user, uint32_t to, const void *bytes, size_t size);
int ranks_compute(void *user, const tarry_task *task);
void ranks_give_up(void *user);
void ranks_broken(void *user, int error);
void ranks_take(void *user, uint32_t from, int tag, post_block *block);
void ranks_unreachable(void *user, uint32_t rank);
/* The worker is there. */
void ranks_hello(tarry_mpi *self);

#endif
