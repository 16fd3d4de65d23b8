/* SPDX-License-Identifier: Apache-2.0 */
/* tarry privacy: the accountant of differential privacy. */
#include <math.h>
#include <stdio.h>

#include <tarry/version.h>

#include "cli/command.h"
#include "cli/output/gnuplot.h"
#include "cli/output/output.h"
#include "cli/privacy/privacy_options.h"
#include "cli/privacy/privacy_plot.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "cli/text/report_json.h"

/* Opened before the work, so that this is not for nothing; NULL where not asked for. */
typedef struct privacy_outputs {
    output_file *report;
    output_file *plot;
} privacy_outputs;

typedef struct privacy_figures {
    double noise, epsilon;
    double pld, rdp; /* epsilon by either accountant */
} privacy_figures;

static int open_outputs(const privacy_options *options, privacy_outputs *outputs)
{
    int status = output_begin(options->report, &outputs->report);
    if (status == OPTIONS_PROCEED)
        status = output_begin(options->plot, &outputs->plot);
    tarry_diagnostic why;
    if (status == OPTIONS_PROCEED && outputs->plot != NULL && gnuplot_find(&why) != TARRY_OK)
        status = complain(EXIT_FAILED, "--plot: %s", why.text);
    return status;
}

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

typedef struct plot_request {
    const privacy_options *options;
    double noise;
    privacy_curve curve;
} plot_request;

static void write_plot_script(void *user, FILE *script)
{
    const plot_request *request = user;
    privacy_plot_script(script, request->options, request->noise, &request->curve);
}

static int write_plot(const privacy_options *options, double noise, output_file **file)
{
    plot_request request = {.options = options, .noise = noise};
    tarry_diagnostic why;
    if (privacy_curve_make(options, noise, &request.curve, &why) != TARRY_OK ||
        gnuplot_run(write_plot_script, &request, output_file_stream(*file), &why) != TARRY_OK)
        return complain(EXIT_FAILED, "--plot: %s", why.text);
    return output_end(file);
}

static int privacy(const option_command *command, const privacy_options *options)
{
    privacy_outputs outputs = {0};
    privacy_figures figures;
    tarry_diagnostic why = {""};
    int status = open_outputs(options, &outputs);
    if (status == OPTIONS_PROCEED) {
        int error = work_out(options, &figures, &why);
        status = error == TARRY_OK ? EXIT_DONE : complain(EXIT_FAILED, "privacy: %s", why.text);
    }
    if (status == EXIT_DONE)
        print_figures(options, &figures);
    if (status == EXIT_DONE && outputs.report != NULL)
        status = write_report(command, &figures, &outputs.report);
    if (status == EXIT_DONE && outputs.plot != NULL)
        status = write_plot(options, figures.noise, &outputs.plot);
    output_file_discard(outputs.report);
    output_file_discard(outputs.plot);
    return status;
}

int command_privacy(int argc, char **argv)
{
    privacy_options options;
    option_group group;
    privacy_options_init(&options);
    privacy_options_group(&options, &group);
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
