/* SPDX-License-Identifier: Apache-2.0 */
/* Which forms and local steps tarry plan --advise --pilot weighs against each other. */
#ifndef CLI_CANDIDATE_OPTIONS_H
#define CLI_CANDIDATE_OPTIONS_H

#include "cli/options/options.h"

enum { CANDIDATE_WORDS = 16, CANDIDATE_WORD_SIZE = 32 };

/* Of a flag, in its order. */
typedef struct candidate_list {
    size_t count;
    char words[CANDIDATE_WORDS][CANDIDATE_WORD_SIZE];
} candidate_list;

typedef struct candidate_options {
    const char *pilot; /* a job file, or "synthetic"; NULL: no candidates are asked for */
    const char *compress, *down, *local_steps; /* as given, or NULL; taken apart into the lists */
    candidate_list forms, downs, steps;
    uint32_t seeds; /* of pilots */
    bool given;     /* one of these, without which the others have no meaning */
} candidate_options;

void candidate_options_init(candidate_options *options);
option_group candidate_options_group(candidate_options *options);
/* Gives back OPTIONS_PROCEED, or EXIT_USAGE after a complaint. */
int candidate_options_check(const candidate_options *options);

/* H of "H[:RATE]"; 1 of "none". */
uint32_t candidate_steps(const char *word);

#endif
