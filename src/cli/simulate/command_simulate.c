/* SPDX-License-Identifier: Apache-2.0 */
/* tarry simulate: options, inputs and outputs around the trials. */
#include <string.h>

#include "cli/command.h"
#include "cli/output/gnuplot.h"
#include "cli/output/output.h"
#include "cli/simulate/command_simulate_faults.h"
#include "cli/simulate/simulate_plot.h"
#include "cli/simulate/simulate_report.h"
#include "cli/simulate/simulate_table.h"
#include "cli/text/complain.h"

/* Opened before the trials, so that these are not for nothing; NULL where not asked for. */
typedef struct simulate_outputs {
    output_file *report;
    output_file *plot;
} simulate_outputs;

static int open_outputs(const simulate_options *options, simulate_outputs *outputs)
{
    int status = output_begin(options->report, &outputs->report);
    if (status == OPTIONS_PROCEED)
        status = output_begin(options->plot, &outputs->plot);
    tarry_diagnostic why;
    if (status == OPTIONS_PROCEED && outputs->plot != NULL && gnuplot_find(&why) != TARRY_OK)
        status = complain(EXIT_FAILED, "--plot: %s", why.text);
    return status;
}

static int write_report(const option_command *command, const simulate_trials *trials,
                        const simulate_summary *summaries, output_file **file)
{
    json_t *config = options_json(command);
    int error = TARRY_ERROR_NO_MEMORY;
    if (config != NULL)
        error = simulate_report_write(output_file_stream(*file), trials, summaries, config);
    json_decref(config);
    if (error != TARRY_OK)
        return complain(EXIT_FAILED, "--report: %s", tarry_error_text(error));
    return output_end(file);
}

typedef struct plot_request {
    const simulate_trials *trials;
    const simulate_summary *summaries;
} plot_request;

static void write_plot_script(void *user, FILE *script)
{
    const plot_request *request = user;
    simulate_plot_script(script, gnuplot_is_png(request->trials->options->plot), request->trials,
                         request->summaries);
}

static int write_plot(const simulate_trials *trials, const simulate_summary *summaries,
                      output_file **file)
{
    plot_request request = {trials, summaries};
    tarry_diagnostic why;
    if (gnuplot_run(write_plot_script, &request, output_file_stream(*file), &why) != TARRY_OK)
        return complain(EXIT_FAILED, "--plot: %s", why.text);
    return output_end(file);
}

/* Writes what there is to write of the trials done. */
static int write_outputs(const option_command *command, const simulate_trials *trials,
                         simulate_outputs *outputs)
{
    simulate_summary *summaries;
    if (simulate_summaries_create(trials, &summaries) != TARRY_OK)
        return complain(EXIT_FAILED, "simulate: out of memory");
    int status = EXIT_DONE;
    if (outputs->report != NULL)
        status |= write_report(command, trials, summaries, &outputs->report);
    if (outputs->plot != NULL && trials->done_count > 0)
        status |= write_plot(trials, summaries, &outputs->plot);
    if (!trials->options->quiet && trials->done_count > 0)
        simulate_table_print(trials, summaries);
    simulate_summaries_free(summaries, trials->variants->count);
    return status;
}

/* Whether the other job of this command is asked for, which has options of its own. */
static bool asks_for_faults(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--faults") == 0)
            return true;
    return false;
}

int command_simulate(int argc, char **argv)
{
    if (asks_for_faults(argc, argv))
        return command_simulate_faults(argc, argv);
    simulate_options options;
    simulate_options_init(&options);
    option_group groups[SIMULATE_GROUPS];
    simulate_options_groups(&options, groups);
    const option_command command = {
        "simulate",
        "Compares schemes of gradient coding over modelled workers and links, in virtual time. "
        "With --faults, looks for faults of the protocol instead (tarry simulate --faults --help).",
        groups, SIMULATE_GROUPS};
    config_file *file;
    simulate_variants variants = {0};
    simulate_trials *trials = NULL;
    simulate_outputs outputs = {NULL, NULL};
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED)
        status = simulate_options_check(&options, &variants);
    if (status == OPTIONS_PROCEED)
        status = simulate_trials_create(&options, &variants, &trials);
    if (status == OPTIONS_PROCEED)
        status = open_outputs(&options, &outputs);
    if (status == OPTIONS_PROCEED) {
        status = simulate_trials_run(trials);
        status |= write_outputs(&command, trials, &outputs);
    }
    output_file_discard(outputs.report);
    output_file_discard(outputs.plot);
    simulate_trials_free(trials);
    simulate_variants_free(&variants);
    config_free(file);
    return status;
}
