/* SPDX-License-Identifier: Apache-2.0 */
/* What a server tells `tarry top`, by way of the document that it writes. */
#ifndef TEST_TOLD_H
#define TEST_TOLD_H

#include "cli/top/command_top.h"

/* `workers` has run->workers entries, whose ids are their places. */
void tell_top(top_run *its, const status_run *run, const status_worker *workers, uint64_t now_ns);

#endif
