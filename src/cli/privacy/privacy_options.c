/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/privacy/privacy_options.h"

#include <math.h>

#include "cli/output/gnuplot.h"
#include "cli/text/complain.h"

static const option_choice accountants[] = {{"best", TARRY_ACCOUNTANT_BEST},
                                            {"pld", TARRY_ACCOUNTANT_PLD},
                                            {"rdp", TARRY_ACCOUNTANT_RDP},
                                            {0}};

#define FIELD(name) .offset = offsetof(privacy_options, name)

static const option_entry entries[] = {
    {.name = "noise",
     .argument = "SIGMA",
     .help = "Standard deviation of the noise over the sensitivity, which is what one example "
             "changes of a sum at most; prints epsilon",
     .kind = OPTION_REAL,
     .low = 1e-3,
     .high = 1e6,
     FIELD(noise)},
    {.name = "epsilon",
     .argument = "E",
     .help = "In place of --noise: prints the least noise with which the rounds cost E at most",
     .kind = OPTION_REAL,
     .high = 1e6,
     .open = true,
     FIELD(epsilon)},
    {.name = "sample",
     .argument = "Q",
     .help = "The probability with which each example is in a round's batch, 0 to 1 (required)",
     .kind = OPTION_REAL,
     .high = 1,
     FIELD(sample)},
    {.name = "rounds",
     .argument = "T",
     .help = "Sums that are shown (required)",
     .kind = OPTION_U64,
     .least = 1,
     .most = UINT64_C(1) << 40,
     FIELD(rounds)},
    {.name = "delta",
     .argument = "D",
     .help = "The probability with which epsilon may not hold, less than one in the number of "
             "examples (default 1e-5)",
     .kind = OPTION_REAL,
     .low = 0,
     .high = 0.999,
     .open = true,
     FIELD(delta)},
    {.name = "accountant",
     .argument = "NAME",
     .help = "pld: by the distribution of the privacy loss; rdp: by Renyi divergences; best: the "
             "lesser of both (default best)",
     .kind = OPTION_CHOICE,
     .choices = accountants,
     FIELD(accountant)},
    {.name = "report",
     .argument = "FILE",
     .help = "Write the figures as JSON",
     .kind = OPTION_TEXT,
     FIELD(report)},
    {.name = "plot",
     .argument = "FILE",
     .help = "Draw epsilon over the rounds, as .svg or .png",
     .kind = OPTION_TEXT,
     FIELD(plot)},
};

void privacy_options_init(privacy_options *options)
{
    *options =
        (privacy_options){.noise = NAN, .epsilon = NAN, .sample = NAN, .rounds = 0, .delta = 1e-5};
}

void privacy_options_group(privacy_options *options, option_group *group)
{
    *group = OPTION_GROUP("What is shown, and with how much noise", entries, options);
}

int privacy_options_check(const privacy_options *options)
{
    if (isnan(options->noise) == isnan(options->epsilon))
        return complain(EXIT_USAGE, isnan(options->noise)
                                        ? "privacy: --noise or --epsilon is needed"
                                        : "--noise: not with --epsilon, which asks for it");
    if (isnan(options->sample))
        return complain(EXIT_USAGE, "privacy: --sample is needed");
    if (options->rounds == 0)
        return complain(EXIT_USAGE, "privacy: --rounds is needed");
    if (options->plot != NULL && !gnuplot_draws(options->plot))
        return complain(EXIT_USAGE, "--plot: %s: the name has to end in .svg or .png",
                        options->plot);
    return OPTIONS_PROCEED;
}

tarry_privacy_settings privacy_settings_of(const privacy_options *options)
{
    tarry_privacy_settings settings;
    tarry_privacy_settings_init(&settings);
    if (!isnan(options->noise))
        settings.noise = options->noise;
    settings.sample = options->sample;
    settings.steps = options->rounds;
    return settings;
}
