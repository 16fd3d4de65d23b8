/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include <tarry/privacy.h>
#include <tarry/version.h>

#include "cli/command.h"
#include "cli/options/options.h"
#include "cli/output/output.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"

typedef struct privacy_options {
    double noise;    /* NAN: not given */
    double epsilon;  /* NAN: not given */
    double sample;   /* NAN: not given */
    uint64_t rounds; /* 0: not given */
    double delta;
    int accountant;     /* a tarry_accountant */
    const char *report; /* NULL: not given */
} privacy_options;

/* The options of tarry privacy. */

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
};

/* Gives back OPTIONS_PROCEED, or the exit status after a complaint. */
static int privacy_options_check(const privacy_options *options)
{
    if (isnan(options->noise) == isnan(options->epsilon))
        return complain(EXIT_USAGE, isnan(options->noise)
                                        ? "privacy: --noise or --epsilon is needed"
                                        : "--noise: not with --epsilon, which asks for it");
    if (isnan(options->sample))
        return complain(EXIT_USAGE, "privacy: --sample is needed");
    if (options->rounds == 0)
        return complain(EXIT_USAGE, "privacy: --rounds is needed");
    return OPTIONS_PROCEED;
}

/* What the library is asked with; the noise is 1 where none is given. */
static tarry_privacy_settings privacy_settings_of(const privacy_options *options)
{
    tarry_privacy_settings settings;
    tarry_privacy_settings_init(&settings);
    if (!isnan(options->noise))
        settings.noise = options->noise;
    settings.sample = options->sample;
    settings.steps = options->rounds;
    return settings;
}

/* tarry privacy: the accountant of differential privacy. */

typedef struct privacy_figures {
    double noise, epsilon;
    double pld, rdp; /* epsilon by either accountant */
} privacy_figures;

static int work_out(const privacy_options *options, privacy_figures *figures, tarry_diagnostic *why)
{
    tarry_privacy_settings settings = privacy_settings_of(options);
    tarry_accountant accountant = (tarry_accountant)options->accountant;
    int error = TARRY_OK;
    if (isnan(options->noise))
        error = tarry_privacy_noise(&settings, options->epsilon, options->delta, accountant, NULL,
                                    &settings.noise, why);
    if (error == TARRY_OK)
        error = tarry_privacy_epsilon(&settings, options->delta, TARRY_ACCOUNTANT_PLD, NULL,
                                      &figures->pld, why);
    if (error == TARRY_OK)
        error = tarry_privacy_epsilon(&settings, options->delta, TARRY_ACCOUNTANT_RDP, NULL,
                                      &figures->rdp, why);
    figures->noise = settings.noise;
    figures->epsilon = accountant == TARRY_ACCOUNTANT_PLD   ? figures->pld
                       : accountant == TARRY_ACCOUNTANT_RDP ? figures->rdp
                                                            : fmin(figures->pld, figures->rdp);
    return error;
}

static void print_epsilon(const char *name, double epsilon, const char *more)
{
    if (isfinite(epsilon))
        printf("%-21s %.5g%s\n", name, epsilon, more);
    else
        printf("%-21s no bound%s\n", name, more);
}

static void print_figures(const privacy_options *options, const privacy_figures *figures)
{
    char rounds[NUMBER_TEXT_SIZE];
    whole_text(options->rounds, rounds);
    printf("%-21s %.6g of the sensitivity\n", "noise", figures->noise);
    printf("%-21s %s, each example in a batch with probability %.6g\n", "rounds", rounds,
           options->sample);
    printf("%-21s %.3g\n", "delta", options->delta);
    print_epsilon("epsilon", figures->epsilon, "");
    print_epsilon("  by the losses", figures->pld, " (pld)");
    print_epsilon("  by divergences", figures->rdp, " (rdp)");
}

static int write_report(const option_command *command, const privacy_figures *figures,
                        output_file **file)
{
    json_t *report = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "command", "privacy",
                               "version", tarry_version(), "config", options_json(command), "noise",
                               number_json(figures->noise), "epsilon",
                               number_json(figures->epsilon), "epsilon_pld",
                               number_json(figures->pld), "epsilon_rdp", number_json(figures->rdp));
    int error = json_write(report, output_file_stream(*file));
    if (error != TARRY_OK)
        return complain(EXIT_FAILED, "--report: %s", tarry_error_text(error));
    return output_end(file);
}

static int privacy(const option_command *command, const privacy_options *options)
{
    output_file *report = NULL;
    privacy_figures figures;
    tarry_diagnostic why = {""};
    int status = output_begin(options->report, &report);
    if (status == OPTIONS_PROCEED) {
        int error = work_out(options, &figures, &why);
        status = error == TARRY_OK ? EXIT_DONE : complain(EXIT_FAILED, "privacy: %s", why.text);
    }
    if (status == EXIT_DONE)
        print_figures(options, &figures);
    if (status == EXIT_DONE && report != NULL)
        status = write_report(command, &figures, &report);
    output_file_discard(report);
    return status;
}

int command_privacy(int argc, char **argv)
{
    privacy_options options = {.noise = NAN, .epsilon = NAN, .sample = NAN, .delta = 1e-5};
    const option_group group =
        OPTION_GROUP("What is shown, and with how much noise", entries, &options);
    const option_command command = {
        "privacy",
        "Says what sums with noise cost in privacy, or how much noise they need: for a training "
        "that "
        "clips each example, draws each batch by chance, and adds Gaussian noise to each sum.",
        &group, 1};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED)
        status = privacy_options_check(&options);
    if (status == OPTIONS_PROCEED)
        status = privacy(&command, &options);
    config_free(file);
    return status;
}
