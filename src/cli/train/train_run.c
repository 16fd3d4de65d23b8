/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/train_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/output/gnuplot.h"
#include "cli/output/npy.h"
#include "cli/output/output.h"
#include "cli/output/write_signals.h"
#include "cli/runner/runner_local.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "cli/train/train_data.h"
#include "cli/train/train_job.h"
#include "cli/train/train_plot.h"
#include "cli/train/train_report.h"
#include "cli/train/train_table.h"
#include "straggler/straggler.h"

/* Opened before the training, so that it is not for nothing; NULL where not asked for. */
typedef struct train_outputs {
    output_file *report;
    output_file *plot;
    output_file *save;
} train_outputs;

static int open_outputs(const train_options *options, train_outputs *outputs)
{
    int status = output_begin(options->report, &outputs->report);
    if (status == OPTIONS_PROCEED)
        status = output_begin(options->plot, &outputs->plot);
    if (status == OPTIONS_PROCEED)
        status = output_begin(options->save, &outputs->save);
    tarry_diagnostic why;
    if (status == OPTIONS_PROCEED && outputs->plot != NULL && gnuplot_find(&why) != TARRY_OK)
        status = complain(EXIT_FAILED, "--plot: %s", why.text);
    return status;
}

static void discard_outputs(train_outputs *outputs)
{
    output_file_discard(outputs->report);
    output_file_discard(outputs->plot);
    output_file_discard(outputs->save);
}

static int write_report(const train_inputs *inputs, const option_command *command,
                        const train_job *job, const history *past, output_file **file)
{
    json_t *config = options_json(command);
    tarry_diagnostic why = {"out of memory"};
    int error = TARRY_ERROR_NO_MEMORY;
    if (config != NULL)
        error = train_report_write(output_file_stream(*file), inputs, job, config, past, &why);
    json_decref(config);
    if (error != TARRY_OK)
        return complain(EXIT_FAILED, "--report: %s", why.text);
    return output_end(file);
}

typedef struct plot_request {
    const char *command;
    const train_options *options;
    const history *past;
    int error; /* of the script */
    tarry_diagnostic why;
} plot_request;

static void write_plot_script(void *user, FILE *script)
{
    plot_request *request = user;
    const train_options *options = request->options;
    char title[512];
    snprintf(title, sizeof(title),
             "tarry %s: %s, %u workers, %u %s, replication %u, %s part%s\n"
             "stop %s, straggler %s, seed %" PRIu64,
             request->command, train_model_name(options->model), options->run.settings.plan.workers,
             request->past->chunks, run_unit_name(&options->run),
             options->run.settings.plan.replication, options->run.parts,
             strcmp(options->run.parts, "1") == 0 ? "" : "s", options->run.stop, options->straggler,
             options->run.settings.plan.seed);
    request->error = train_plot_script(script, title, gnuplot_is_png(options->plot), request->past,
                                       &request->why);
}

static int write_plot(const train_inputs *inputs, const history *past, output_file **file)
{
    plot_request request = {.command = inputs->command, .options = inputs->options, .past = past};
    tarry_diagnostic why;
    int error = gnuplot_run(write_plot_script, &request, output_file_stream(*file), &why);
    if (request.error != TARRY_OK)
        return complain(EXIT_FAILED, "--plot: %s", request.why.text);
    if (error != TARRY_OK)
        return complain(EXIT_FAILED, "--plot: %s", why.text);
    return output_end(file);
}

/* Writes what there is to write of the rounds done. */
static int write_outputs(const train_inputs *inputs, const option_command *command,
                         const train_job *job, const history *past, train_outputs *outputs)
{
    int status = EXIT_DONE;
    if (outputs->report != NULL)
        status |= write_report(inputs, command, job, past, &outputs->report);
    if (outputs->plot != NULL && past->count > past->first)
        status |= write_plot(inputs, past, &outputs->plot);
    if (outputs->save != NULL && train_job_is_sound(job)) {
        npy_write(output_file_stream(outputs->save), train_job_parameters(job),
                  train_job_dimension(job));
        status |= output_end(&outputs->save);
    }
    return status;
}

/* A run may have millions of rounds. Without any file that needs them, totals are enough. */
static void keep_rounds(const train_options *options, history *past)
{
    const char *path = options->checkpoint != NULL ? options->checkpoint
                       : options->report != NULL   ? options->report
                                                   : options->plot;
    if (path != NULL)
        history_use_file(past, path);
    else
        history_forget_rounds(past);
}

static int run_job(const train_inputs *inputs, const option_command *command,
                   train_outputs *outputs)
{
    const train_options *options = inputs->options;
    train_job *job = NULL;
    history *past = NULL;
    int status = EXIT_FAILED;
    if (history_create(options->run.settings.plan.workers, tarry_plan_chunks(inputs->plan),
                       &past) != TARRY_OK)
        return complain(EXIT_FAILED, "%s: out of memory", command->name);
    keep_rounds(options, past);
    status = train_job_create(inputs, past, &job);
    if (status == OPTIONS_PROCEED) {
        status = train_job_run(job);
        status |= write_outputs(inputs, command, job, past, outputs);
        if (!options->quiet && train_table_print(past) != TARRY_OK)
            status = complain(EXIT_FAILED, "%s: out of memory", command->name);
    }
    train_job_free(job);
    history_free(past);
    return status;
}

/* A run of which nothing is written. */
static int run_heard(const train_inputs *inputs, train_hear *hear, void *user)
{
    train_job *job = NULL;
    history *past = NULL;
    if (history_create(inputs->options->run.settings.plan.workers, tarry_plan_chunks(inputs->plan),
                       &past) != TARRY_OK)
        return complain(EXIT_FAILED, "%s: out of memory", inputs->command);
    int status = train_job_create(inputs, past, &job);
    if (status == OPTIONS_PROCEED) {
        train_job_run(job);
        status = hear(user, past);
    }
    train_job_free(job);
    history_free(past);
    return status;
}

static int make_straggler(const train_options *options, tarry_straggler **straggler)
{
    tarry_diagnostic why;
    int error = tarry_straggler_create(options->straggler, options->run.settings.plan.workers,
                                       options->run.settings.plan.seed, NULL, straggler, &why);
    if (error != TARRY_OK) {
        bool usage = error == TARRY_ERROR_FORMAT || error == TARRY_ERROR_ARGUMENT;
        return complain(usage ? EXIT_USAGE : EXIT_FAILED, "--straggler: %s", why.text);
    }
    const char *mortal = straggler_mortal_term(*straggler);
    if (mortal == NULL)
        return OPTIONS_PROCEED;
    tarry_straggler_free(*straggler);
    *straggler = NULL;
    return complain(EXIT_USAGE, "--straggler: term '%s' is for tarry simulate", mortal);
}

/* Leaves *costs NULL where none are given. */
static int read_costs(const train_options *options, chunk_cost **costs)
{
    tarry_diagnostic why;
    if (strcmp(options->run.chunk_cost, "learned") == 0 ||
        strcmp(options->run.chunk_cost, "equal") == 0)
        return OPTIONS_PROCEED;
    int error = chunk_cost_create(options->run.chunk_cost, NULL, costs, &why);
    if (error == TARRY_OK)
        return OPTIONS_PROCEED;
    return complain(error == TARRY_ERROR_FORMAT ? EXIT_USAGE : EXIT_FAILED, "--chunk-cost: %s",
                    why.text);
}

static int open_checkpoint(const option_command *command, const train_options *options,
                           const tarry_plan *plan, const dataset *train, const dataset *test,
                           train_checkpoint **keeper)
{
    if (options->checkpoint == NULL)
        return OPTIONS_PROCEED;
    json_t *config = options_json(command);
    if (config == NULL)
        return complain(EXIT_FAILED, "--checkpoint: out of memory");
    const train_identity identity = {config, plan, train, test};
    int status = train_checkpoint_open(options, &identity, keeper);
    json_decref(config);
    return status;
}

/* There are few samples: the plan is another one. */
static int plan_again(const train_options *options, tarry_plan **plan)
{
    if (tarry_plan_chunks(*plan) == run_options_units(&options->run))
        return OPTIONS_PROCEED;
    tarry_plan_free(*plan);
    *plan = NULL;
    return run_options_plan(&options->run, plan);
}

/* What the inputs are made of. */
typedef struct materials {
    tarry_plan *plan;
    tarry_straggler *straggler;
    chunk_cost *costs;
    dataset *train, *test;
} materials;

/* Before anything is made: a plan for very many workers takes long, and much memory itself. */
static int check_room(const option_command *command, const train_options *options,
                      runner_create *create)
{
    const crew_size crew = train_job_crew(options, create);
    char what[NUMBER_TEXT_SIZE + 32];
    tarry_diagnostic why;
    snprintf(what, sizeof(what), "%" PRIu32 " workers on this machine", crew.workers);
    return crew_room_check(&crew, crew_room_bytes(&crew), what, false, &why) == TARRY_OK
               ? OPTIONS_PROCEED
               : complain(EXIT_FAILED, "%s: %s", command->name, why.text);
}

/* How sums are made, by the options, which are checked here. */
static int make_rules(const option_command *command, train_options *options, runner_create *create,
                      materials *made)
{
    int status = train_options_check(options);
    if (status == OPTIONS_PROCEED)
        status = check_room(command, options, create);
    if (status == OPTIONS_PROCEED)
        status = make_straggler(options, &made->straggler);
    if (status == OPTIONS_PROCEED)
        status = read_costs(options, &made->costs);
    if (status == OPTIONS_PROCEED)
        status = run_options_plan(&options->run, &made->plan);
    return status;
}

static int load_samples(train_options *options, materials *made)
{
    int status = train_data_load(options, &made->train, &made->test);
    return status == OPTIONS_PROCEED ? plan_again(options, &made->plan) : status;
}

/* All that needs no outputs. */
static int make_materials(const option_command *command, train_options *options,
                          runner_create *create, materials *made)
{
    int status = make_rules(command, options, create, made);
    return status == OPTIONS_PROCEED ? load_samples(options, made) : status;
}

static void materials_free(materials *made)
{
    dataset_free(made->train);
    dataset_free(made->test);
    tarry_plan_free(made->plan);
    tarry_straggler_free(made->straggler);
    chunk_cost_free(made->costs);
}

static train_inputs inputs_of(const option_command *command, const train_options *options,
                              const materials *made)
{
    return (train_inputs){
        .command = command->name,
        .options = options,
        .plan = made->plan,
        .straggler = made->straggler,
        .costs = made->costs,
        .train = made->train,
        .test = made->test,
    };
}

int train_run(const option_command *command, train_options *options, runner_create *create,
              void *create_user)
{
    materials made = {0};
    train_checkpoint *keeper = NULL;
    train_outputs outputs = {NULL, NULL, NULL};
    /* To the end of the process: events and the last lines come when the job is over. */
    write_signals_ignore(NULL);
    int status = make_rules(command, options, create, &made);
    if (status == OPTIONS_PROCEED)
        status = open_outputs(options, &outputs);
    if (status == OPTIONS_PROCEED)
        status = load_samples(options, &made);
    if (status == OPTIONS_PROCEED)
        status = open_checkpoint(command, options, made.plan, made.train, made.test, &keeper);
    if (status == OPTIONS_PROCEED) {
        train_inputs inputs = inputs_of(command, options, &made);
        inputs.create = create;
        inputs.create_user = create_user;
        inputs.keeper = keeper;
        status = run_job(&inputs, command, &outputs);
    }
    discard_outputs(&outputs);
    train_checkpoint_close(keeper);
    materials_free(&made);
    return status;
}

int train_run_heard(const option_command *command, train_options *options, train_hear *hear,
                    void *user)
{
    materials made = {0};
    int status = make_materials(command, options, runner_local_create, &made);
    if (status == OPTIONS_PROCEED) {
        train_inputs inputs = inputs_of(command, options, &made);
        inputs.create = runner_local_create;
        inputs.silent = true;
        status = run_heard(&inputs, hear, user);
    }
    materials_free(&made);
    return status;
}

int train_run_follow(const option_command *command, train_options *options, train_follow *follow,
                     void *user)
{
    materials made = {0};
    write_signals_ignore(NULL);
    int status = make_materials(command, options, NULL, &made);
    if (status == OPTIONS_PROCEED) {
        train_inputs inputs = inputs_of(command, options, &made);
        inputs.costs = NULL;
        inputs.test = NULL;
        status = train_job_follow(&inputs, follow, user);
    }
    materials_free(&made);
    return status;
}
