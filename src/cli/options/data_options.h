/* SPDX-License-Identifier: Apache-2.0 */
/* The options that say where samples are: --data and how to read it. */
#ifndef CLI_DATA_OPTIONS_H
#define CLI_DATA_OPTIONS_H

#include "cli/options/options.h"
#include "learn/dataset.h"

/* Without --data the path is NULL; what the labels are is no option. */
option_group data_options_group(dataset_source *source);

#endif
