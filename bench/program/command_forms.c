/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>

#include <tarry/version.h>

#include "cli/options/options.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "program/forms.h"
#include "program/kernel_name.h"

#define MAX_DIMENSION 2000000000
#define MAX_PARTS 64
#define MAX_REPEAT 1000000

typedef struct forms_options {
    uint64_t dimension;
    const char *kernel; /* as given; NULL: the best */
    bool json;
    bench_forms_settings settings;
} forms_options;

static const char *name_at(size_t index)
{
    const compress_kernel *found = compress_kernel_at(index);
    return found != NULL ? found->name : NULL;
}

static int read_kernel(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    size_t index;
    int error = kernel_name_find(text, name_at, &index, diagnostic);
    if (error == TARRY_OK)
        ((forms_options *)values)->settings.kernel = compress_kernel_at(index);
    return error;
}

static const option_entry entries[] = {
    {.name = "dimension",
     .argument = "D",
     .help = "Numbers in a part (default 1e8: larger than any cache)",
     .kind = OPTION_U64,
     .offset = offsetof(forms_options, dimension),
     .least = 1,
     .most = MAX_DIMENSION},
    {.name = "parts",
     .argument = "K",
     .help = "Parts that are summed (default 4)",
     .kind = OPTION_U32,
     .offset = offsetof(forms_options, settings.parts),
     .least = 1,
     .most = MAX_PARTS},
    {.name = "repeat",
     .argument = "TIMES",
     .help = "Repeats, of which the best counts (default 7)",
     .kind = OPTION_U32,
     .offset = offsetof(forms_options, settings.repeat),
     .least = 1,
     .most = MAX_REPEAT},
    {.name = "kernel",
     .argument = "NAME",
     .help = "reference, avx2, avx512 or neon (default: the best that this processor runs)",
     .kind = OPTION_TEXT,
     .offset = offsetof(forms_options, kernel),
     .read = read_kernel},
    {.name = "json",
     .help = "Print the figures as JSON",
     .kind = OPTION_FLAG,
     .offset = offsetof(forms_options, json)},
};

static void print_table(const bench_forms_settings *settings, const bench_forms *of)
{
    printf("Kernel %s, d = %zu, one thread, best of %u, reading %.1f GB/s:\n",
           settings->kernel->name, settings->dimension, settings->repeat, of->read);
    printf("                   encode        | added alone    | sum of %u, 1e9 numbers/s\n",
           settings->parts);
    printf("form          bytes  GB/s of read | 1e9/s of float32 | 1e9/s of float32\n");
    const bench_form *plain = &of->forms[0];
    for (size_t i = 0; i < BENCH_FORMS; i++) {
        const bench_form *form = &of->forms[i];
        printf("%-13s %5.3f %5.1f %7.2f | %5.2f %10.2f | %5.2f %10.2f\n", form->name, form->bytes,
               form->encode, form->encode / of->read, form->add, form->add / plain->add, form->sum,
               form->sum / plain->sum);
    }
}

static int print_json(const option_command *command, const bench_forms_settings *settings,
                      const bench_forms *of)
{
    json_t *results = json_array();
    for (size_t i = 0; i < BENCH_FORMS; i++) {
        const bench_form *form = &of->forms[i];
        results = json_append(results, json_pack("{s:s, s:f, s:f, s:f, s:f}", "form", form->name,
                                                 "bytes", form->bytes, "encode", form->encode,
                                                 "add", form->add, "sum", form->sum));
    }
    json_t *report = json_pack("{s:s, s:s, s:o, s:s, s:f, s:o}", "command", "bench forms",
                               "version", tarry_version(), "config", options_json(command), "ran",
                               settings->kernel->name, "read", of->read, "results", results);
    return json_write(report, stdout) == TARRY_OK ? EXIT_DONE
                                                  : complain(EXIT_FAILED, "forms: out of memory");
}

int command_bench_forms(int argc, char **argv)
{
    forms_options options = {
        .dimension = 100000000,
        .settings = {.parts = 4, .repeat = 7, .kernel = compress_kernel_best()},
    };
    const option_group group = OPTION_GROUP("What is measured", entries, &options);
    const option_command command = {
        "forms",
        "Measures writing and reading coded parts in each form of --compress, beside the "
        "machine's read bandwidth and sums of float32, all on one thread and in the same memory, "
        "with cold caches.\v'encode' is in GB/s (1e9 bytes of numbers read and of the form "
        "written), of float32 a copy. A part is 'added alone' to a vector of D numbers; a 'sum' "
        "takes stripe by stripe all parts, as a server does, so that its own stripe stays in the "
        "cache.",
        &group, 1};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED) {
        bench_forms measured;
        options.settings.dimension = (size_t)options.dimension;
        int error = bench_forms_run(&options.settings, &measured);
        status = EXIT_DONE;
        if (error != TARRY_OK)
            status = complain(EXIT_FAILED, "forms: %s", tarry_error_text(error));
        else if (options.json)
            status = print_json(&command, &options.settings, &measured);
        else
            print_table(&options.settings, &measured);
    }
    config_free(file);
    return status;
}
