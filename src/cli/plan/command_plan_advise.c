/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/command_plan_advise.h"

#include "cli/plan/advise_print.h"
#include "cli/plan/candidates_print.h"
#include "cli/text/complain.h"

/* weighed: NULL where no candidates were asked for. */
static int print_json(const option_command *command, const advise_options *options,
                      const advice *found, const candidates *weighed)
{
    json_t *config = options_json(command);
    json_t *pilot = weighed != NULL ? candidates_json(options, weighed) : NULL;
    int error = TARRY_ERROR_NO_MEMORY;
    if (config != NULL && (weighed == NULL || pilot != NULL))
        error = advice_print_json(options, found, config, pilot);
    else
        json_decref(pilot);
    json_decref(config);
    return error == TARRY_OK ? EXIT_DONE
                             : complain(EXIT_FAILED, "plan: %s", tarry_error_text(error));
}

static int print(const option_command *command, const advise_options *options, const advice *found,
                 const candidates *weighed)
{
    if (options->json)
        return print_json(command, options, found, weighed);
    if (weighed != NULL)
        candidates_print_table(options, found, weighed);
    else
        advice_print_table(options, found);
    return EXIT_DONE;
}

int command_plan_advise(int argc, char **argv)
{
    advise_options options;
    advise_options_init(&options);
    option_group groups[ADVISE_GROUPS];
    advise_options_groups(&options, groups);
    const option_command command = {
        "plan",
        "Recommends replication, pieces and parts for given workers, with the predicted time, "
        "memory and upload of each choice, from simulated rounds of all of them. With --pilot, "
        "weighs parts, forms of numbers and local steps against each other.",
        groups, ADVISE_GROUPS};
    config_file *file;
    advice found = {0};
    candidates weighed = {0};
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED)
        status = advise_options_settle(&options);
    if (status == OPTIONS_PROCEED)
        status = advise(&options, &found);
    const bool weighs = options.candidates.pilot != NULL;
    if (status == OPTIONS_PROCEED && weighs)
        status = candidates_weigh(&options, &found, &weighed);
    if (status == OPTIONS_PROCEED)
        status = print(&command, &options, &found, weighs ? &weighed : NULL);
    candidates_free(&weighed);
    advice_free(&found);
    advise_options_release(&options);
    config_free(file);
    return status;
}
