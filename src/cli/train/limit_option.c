/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/limit_option.h"

#include <math.h>

#include "cli/text/complain.h"

static const option_entry entries[] = {
    {.name = "local-seconds",
     .argument = "SECONDS",
     .help = "A worker's time for --local-steps in a round, from its first chunk on: then each "
             "chunk has the steps that it has taken, one at least, and means are weighted by them "
             "(FedNova). One copy of a chunk counts",
     .kind = OPTION_REAL,
     .high = 1e9,
     .open = true,
     .offset = offsetof(train_options, local_seconds)},
};

option_group limit_option_group(train_options *options)
{
    return OPTION_GROUP("Partial work", entries, options);
}

void limit_option_prepare(train_options *options)
{
    run_options *run = &options->run;
    if (isnan(options->local_seconds) || run->keep != KEEP_AUTO ||
        run->settings.plan.replication == 1)
        return;
    run->keep = TARRY_KEEP_CREDITED;
    run_options_note(run, "keep");
}

int limit_option_check(const train_options *options)
{
    const tarry_settings *run = &options->run.settings;
    if (isnan(options->local_seconds))
        return OPTIONS_PROCEED;
    if (options->local.steps == 0)
        return complain(EXIT_USAGE, "--local-seconds: has no meaning without --local-steps");
    const struct {
        bool given;
        const char *flag, *why;
    } others[] = {
        {options->verify, "verify", "nobody knows beforehand how many steps a chunk takes"},
        {run->server.reproducible, "reproducible", "a sum that depends on time does not repeat"},
        {run->plan.parts > 1 || run->plan.adaptive_parts, "parts",
         "copies that differ are no parts of one thing"},
        {run->server.sum == TARRY_SUM_EVERYWHERE, "sum", "it is for sums at the server"},
        {run->server.sample_chunks > 0, "sample-chunks", "steps have no mean of chunks drawn"},
        {run->plan.replication > 1 && run->server.keep != TARRY_KEEP_CREDITED, "keep",
         "copies may differ, so that only one may count: credited, or --replication 1"},
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (others[i].given)
            return complain(EXIT_USAGE, "--local-seconds: cannot be combined with this --%s: %s",
                            others[i].flag, others[i].why);
    return OPTIONS_PROCEED;
}
