/* SPDX-License-Identifier: Apache-2.0 */
/* The options of secure sums (docs/privacy.md): of who asks for them, and of who insists. */
#ifndef CLI_SECURE_OPTIONS_H
#define CLI_SECURE_OPTIONS_H

#include "cli/options/options.h"

/* The samples that workers have, where the server has none. */
typedef struct secure_data {
    uint64_t rows;
    uint32_t features, classes; /* classes 0: labels are real numbers */
    bool sparse;
} secure_data;

typedef struct secure_options {
    bool secure;
    uint32_t colluders;     /* workers that may tell the server all they know */
    uint64_t least;         /* samples that none of those holds, at least; 0: an eighth of all */
    int bits;               /* of a masked number: 32 or 64 */
    double bound;           /* of the numbers of a chunk's gradient; 0: chosen by its samples */
    uint64_t chunk_samples; /* that each chunk has at least */
    const char *data_text;  /* taken apart into `data`; NULL: not given */
    secure_data data;
    const char *first; /* the first of them that was given but for `secure`; NULL: none */
} secure_options;

void secure_options_init(secure_options *options);
/* Of a server. `elsewhere`: with the flag that says what data its workers have. */
option_group secure_options_group(secure_options *options, bool elsewhere);

/* That none of the others is given without --secure. Gives back OPTIONS_PROCEED, or EXIT_USAGE
 * after a complaint. */
int secure_options_check(const secure_options *options);

#endif
