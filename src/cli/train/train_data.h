/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TRAIN_DATA_H
#define CLI_TRAIN_DATA_H

#include "cli/train/train_options.h"

/*
 * Reads or makes the training samples, and the test samples if there are any (else *test is NULL);
 * both are the caller's. Fits the plan to how many there are (train_options_fit). Gives back
 * OPTIONS_PROCEED, or the exit status after a complaint.
 */
int train_data_load(train_options *options, dataset **train, dataset **test);

/* Whether the workers alone have the samples, of which only the sizes are known here. */
bool train_data_is_elsewhere(const dataset *data);

#endif
