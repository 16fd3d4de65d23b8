/* SPDX-License-Identifier: Apache-2.0 */
/* The books of dynamic orders, recomputed from the sets, and what they must promise. */
#ifndef TEST_BOOKS_H
#define TEST_BOOKS_H

#include "protocol/server/server_state.h"

/* Asserts it of a server between two steps; no-op for one that goes by the plan. */
void books_agree(const tarry_server *server);

#endif
