/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/gone.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define CSV "no longer exists; docs/data-formats.md has a line that makes LIBSVM of CSV"
#define DESIGN "no longer exists; write a file with examples/designs.py, and use file:PATH"
#define LINKS "no longer exists; tarry/sim.h has it for programs"
#define PILOT                                                                                      \
    "no longer exists; compare tarry simulate --scheme tarry:compress=FORM and tarry train "       \
    "--compress FORM --report"
#define RELAYS                                                                                     \
    "no longer exists; let workers connect to the server, with --sum everywhere if its network "   \
    "is too slow"
#define RULE "no longer exists; use dynamic, whose rounds are shorter"
#define SHAPE "no longer exists; use everywhere, whose sums are direct"

/* In alphabetical order. */
static const struct {
    const char *name, *sentence;
} gone[] = {
    {"chunk-norm", "no longer exists; leave it out, as workers report no norms"},
    {"command:relay", RELAYS},
    {"compress:topk:dense",
     "dense rounds no longer exist; use topk:F with a larger F, or int4 for all rounds"},
    {"connect:LIST", "takes one address, the server's; second connections no longer exist"},
    {"decode-threads", "no longer exists; leave it out, as the number of cores decides"},
    {"design:affine", DESIGN},
    {"design:difference", DESIGN},
    {"design:projective", DESIGN},
    {"early", "no longer exists; use --sum everywhere to make sums faster where vectors take long"},
    {"faults", "no longer exists; it is a program for developers now, "
               "build/tests/worlds/tarry-worlds of a build with tests"},
    {"format", "no longer exists; leave it out, as the first bytes of a file tell its format"},
    {"importance", "no longer exists; use --sample-chunks K or --batch N for cheaper rounds"},
    {"interval", "no longer exists; pictures come as often as the server tells, twice a second"},
    {"label-column", CSV},
    {"local-seconds", "no longer exists; use fewer --local-steps, or leave out late chunks with "
                      "--stop deadline:SECONDS"},
    {"log-time", LINKS},
    {"member:relay", RELAYS},
    {"no-share", "no longer exists; leave it out, as a server shares no memory with workers"},
    {"order:dynamic:capacity", RULE},
    {"order:dynamic:fewest", RULE},
    {"order:dynamic:share", "no longer exists; use dynamic, which is the same"},
    {"parts:auto",
     "no longer exists; write --parts N, with the number that tarry plan --advise gives"},
    {"pilot", PILOT},
    {"pilot-seeds", PILOT},
    {"plot", "no longer exists; draw the JSON of --report, as examples/plot.py does"},
    {"relay-batch", RELAYS},
    {"relay-deaths", RELAYS},
    {"relay-grace", RELAYS},
    {"relay-notice", RELAYS},
    {"relays", RELAYS},
    {"sample-chunks:norm", "sampling by norm no longer exists; write K for uniform sampling"},
    {"shape", "no longer exists; leave it out, as every sum among workers is direct"},
    {"slow-links", LINKS},
    {"sum:auto", SHAPE},
    {"sum:grid", SHAPE},
    {"sum:tree", SHAPE},
    {"up-bandwidth", LINKS},
    {"usage", "no longer exists; use --help"},
    {"vectors",
     "no longer exists; tarry train --verify compares the sums of a run with the true ones"},
};

const char *gone_option(const char *name)
{
    for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++)
        if (strcmp(gone[i].name, name) == 0)
            return gone[i].sentence;
    return NULL;
}

const char *gone_value(const char *option, const char *value)
{
    char name[64];
    snprintf(name, sizeof(name), "%s:%s", option, value);
    return gone_option(name);
}
