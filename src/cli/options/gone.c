/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/gone.h"

#include <stddef.h>
#include <string.h>

#define RELAYS                                                                                     \
    "no longer exists; let workers connect to the server, with --sum everywhere if its network "   \
    "is too slow"

/* In alphabetical order. */
static const struct {
    const char *name, *sentence;
} gone[] = {
    {"chunk-norm", "no longer exists; leave it out, as workers report no norms"},
    {"connect:LIST", "takes one address, the server's; second connections no longer exist"},
    {"early", "no longer exists; use --sum everywhere to make sums faster where vectors take long"},
    {"importance", "no longer exists; use --sample-chunks K or --batch N for cheaper rounds"},
    {"relay", RELAYS},
    {"relay-batch", RELAYS},
    {"relay-deaths", RELAYS},
    {"relay-grace", RELAYS},
    {"relay-notice", RELAYS},
    {"relays", RELAYS},
    {"sample-chunks:norm", "sampling by norm no longer exists; write K for uniform sampling"},
};

const char *gone_option(const char *name)
{
    for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++)
        if (strcmp(gone[i].name, name) == 0)
            return gone[i].sentence;
    return NULL;
}
