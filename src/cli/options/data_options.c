/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/data_options.h"

#define FIELD(name) .offset = offsetof(dataset_source, name)

static const option_entry data_entries[] = {
    {.name = "data",
     .argument = "FILE",
     .help = "Training samples, gzip or plain (default: a synthetic data set)",
     .kind = OPTION_TEXT,
     FIELD(path)},
    {.name = "labels",
     .argument = "FILE",
     .help = "Labels of an IDX file (default: the name of --data with labels-idx1)",
     .kind = OPTION_TEXT,
     FIELD(labels_path)},
    {.name = "zero-based",
     .help = "Indices of a LIBSVM file start at 0 instead of 1",
     .kind = OPTION_FLAG,
     FIELD(zero_based)},
};

option_group data_options_group(dataset_source *source)
{
    return OPTION_GROUP("Data", data_entries, source);
}
