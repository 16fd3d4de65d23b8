/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/write_signals.h"

static void ignore(int number, struct sigaction *before)
{
    const struct sigaction nothing = {.sa_handler = SIG_IGN};
    sigaction(number, NULL, before);
    if (before->sa_handler == SIG_DFL)
        sigaction(number, &nothing, NULL);
}

void write_signals_ignore(write_signals *before)
{
    write_signals unused;
    if (before == NULL)
        before = &unused;
    ignore(SIGPIPE, &before->pipe);
    ignore(SIGXFSZ, &before->size);
}

void write_signals_restore(const write_signals *before)
{
    sigaction(SIGPIPE, &before->pipe, NULL);
    sigaction(SIGXFSZ, &before->size, NULL);
}
