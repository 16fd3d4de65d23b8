/* SPDX-License-Identifier: Apache-2.0 */
/* --local-seconds: how long a worker takes local steps in a round. */
#ifndef CLI_LIMIT_OPTION_H
#define CLI_LIMIT_OPTION_H

#include "cli/train/train_options.h"

option_group limit_option_group(train_options *options);

/* Before the options are settled: of copies that may differ only one may count. */
void limit_option_prepare(train_options *options);
/* Afterwards. Gives back OPTIONS_PROCEED, or EXIT_USAGE after a complaint. */
int limit_option_check(const train_options *options);

#endif
