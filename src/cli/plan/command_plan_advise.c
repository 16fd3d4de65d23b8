/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/command_plan_advise.h"

#include "cli/plan/advise_print.h"
#include "cli/text/complain.h"

static int print(const option_command *command, const advise_options *options, const advice *found)
{
    if (!options->json) {
        advice_print_table(options, found);
        return EXIT_DONE;
    }
    json_t *config = options_json(command);
    int error = TARRY_ERROR_NO_MEMORY;
    if (config != NULL)
        error = advice_print_json(options, found, config);
    json_decref(config);
    return error == TARRY_OK ? EXIT_DONE
                             : complain(EXIT_FAILED, "plan: %s", tarry_error_text(error));
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
        "memory and upload of each choice, from simulated rounds of all of them.",
        groups, ADVISE_GROUPS};
    config_file *file;
    advice found = {0};
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED)
        status = advise_options_settle(&options);
    if (status == OPTIONS_PROCEED)
        status = advise(&options, &found);
    if (status == OPTIONS_PROCEED)
        status = print(&command, &options, &found);
    advice_free(&found);
    advise_options_release(&options);
    config_free(file);
    return status;
}
