/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarry/version.h>

#include "base/diagnostic.h"
#include "base/number.h"
#include "cli/options/options.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "program/kernel_name.h"
#include "program/kernels.h"

/* Limits of the options; the dimension's is that of BLAS's indices. */
#define MAX_DIMENSION 2000000000
#define MAX_INPUTS 1024
#define MAX_PARTS 64
#define MAX_REPEAT 1000000

typedef struct kernels_options {
    uint64_t dimension;
    const char *inputs; /* as given; NULL: the default list */
    const char *kernel; /* as given; NULL: the best */
    bool json;
    bench_settings settings;
} kernels_options;

static int read_inputs(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    bench_settings *settings = &((kernels_options *)values)->settings;
    settings->input_count = 0;
    for (const char *rest = text; rest != NULL;) {
        char number[32];
        size_t length = strcspn(rest, ",");
        if (settings->input_count == BENCH_LIST_MAX || length >= sizeof(number))
            return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                            "'%s' is not a list of at most %d numbers, like 2,4,8", text,
                            (int)BENCH_LIST_MAX);
        memcpy(number, rest, length);
        number[length] = '\0';
        uint64_t inputs;
        int error = parse_whole(number, 1, MAX_INPUTS, &inputs, diagnostic);
        if (error != TARRY_OK)
            return error;
        settings->inputs[settings->input_count++] = (size_t)inputs;
        rest = rest[length] == ',' ? rest + length + 1 : NULL;
    }
    return TARRY_OK;
}

static const char *name_at(size_t index)
{
    const kernel *found = kernel_at(index);
    return found != NULL ? found->name : NULL;
}

static int read_kernel(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    size_t index;
    int error = kernel_name_find(text, name_at, &index, diagnostic);
    if (error == TARRY_OK)
        ((kernels_options *)values)->settings.kernel = kernel_at(index);
    return error;
}

static const option_entry entries[] = {
    {.name = "dimension",
     .argument = "D",
     .help = "Numbers in a gradient (default 1e7)",
     .kind = OPTION_U64,
     .offset = offsetof(kernels_options, dimension),
     .least = 1,
     .most = MAX_DIMENSION},
    {.name = "inputs",
     .argument = "LIST",
     .help = "How many gradients or coded parts are summed (default 2,4,6,8,12,16)",
     .kind = OPTION_TEXT,
     .offset = offsetof(kernels_options, inputs),
     .read = read_inputs},
    {.name = "parts",
     .argument = "L",
     .help = "Parts that a gradient is cut into (default 1)",
     .kind = OPTION_U32,
     .offset = offsetof(kernels_options, settings.parts),
     .least = 1,
     .most = MAX_PARTS},
    {.name = "repeat",
     .argument = "TIMES",
     .help = "Repeats, of which the best counts (default 7)",
     .kind = OPTION_U32,
     .offset = offsetof(kernels_options, settings.repeat),
     .least = 1,
     .most = MAX_REPEAT},
    {.name = "kernel",
     .argument = "NAME",
     .help = "reference, avx2 or avx512 (default: the best that this processor runs)",
     .kind = OPTION_TEXT,
     .offset = offsetof(kernels_options, kernel),
     .read = read_kernel},
    {.name = "packed",
     .help =
         "Vectors follow each other without padding, where sgemv does best; else each begins at "
         "a page, as vectors do that were allocated one by one",
     .kind = OPTION_FLAG,
     .offset = offsetof(kernels_options, settings.packed)},
    {.name = "json",
     .help = "Print the figures as JSON",
     .kind = OPTION_FLAG,
     .offset = offsetof(kernels_options, json)},
};

static void print_table(const bench_settings *settings, const bench_row *rows)
{
    printf("Kernel %s, d = %zu, %u part%s, %s, one thread, best of %u, GB/s:\n",
           settings->kernel->name, settings->dimension, settings->parts,
           settings->parts == 1 ? "" : "s", settings->packed ? "packed" : "at pages",
           settings->repeat);
    printf("inputs   read  sgemv stored | encode of read of sgemv | decode of read of sgemv\n");
    for (size_t i = 0; i < settings->input_count; i++) {
        const bench_row *row = &rows[i];
        printf("%6zu %6.1f %6.1f %6.1f | %6.1f %7.2f %8.2f | %6.1f %7.2f %8.2f\n", row->inputs,
               row->read, row->sgemv, row->stored, row->encode, row->encode / row->read,
               row->encode / row->sgemv, row->decode, row->decode / row->read,
               row->decode / row->sgemv);
    }
}

static int print_json(const option_command *command, const bench_settings *settings,
                      const bench_row *rows)
{
    json_t *results = json_array();
    for (size_t i = 0; i < settings->input_count; i++) {
        const bench_row *row = &rows[i];
        results = json_append(results, json_pack("{s:I, s:f, s:f, s:f, s:f, s:f}", "inputs",
                                                 (json_int_t)row->inputs, "read", row->read,
                                                 "sgemv", row->sgemv, "stored", row->stored,
                                                 "encode", row->encode, "decode", row->decode));
    }
    json_t *report = json_pack("{s:s, s:s, s:o, s:s, s:s, s:o}", "command", "bench kernels",
                               "version", tarry_version(), "config", options_json(command), "ran",
                               settings->kernel->name, "unit", "GB/s", "results", results);
    return json_write(report, stdout) == TARRY_OK ? EXIT_DONE
                                                  : complain(EXIT_FAILED, "kernels: out of memory");
}

int command_bench_kernels(int argc, char **argv)
{
    kernels_options options = {
        .dimension = 10000000,
        .settings = {.parts = 1,
                     .repeat = 7,
                     .kernel = kernel_best(),
                     .inputs = {2, 4, 6, 8, 12, 16},
                     .input_count = 6},
    };
    const option_group group = OPTION_GROUP("What is measured", entries, &options);
    const option_command command = {
        "kernels",
        "Measures encoding and decoding in GB/s (1e9 bytes of inputs read and outputs written) "
        "beside the machine's read bandwidth and BLAS's sgemv, all on one thread and in the same "
        "memory, with cold caches.\v'stored' is the kernel with ordinary stores; 'encode' and "
        "'decode' store past the cache where gradients are long.",
        &group, 1};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED) {
        bench_row rows[BENCH_LIST_MAX];
        options.settings.dimension = (size_t)options.dimension;
        int error = bench_kernels_run(&options.settings, rows);
        if (error != TARRY_OK)
            status = complain(EXIT_FAILED, "kernels: %s", tarry_error_text(error));
        else if (options.json)
            status = print_json(&command, &options.settings, rows);
        else
            print_table(&options.settings, rows);
        if (status == OPTIONS_PROCEED)
            status = EXIT_DONE;
    }
    config_free(file);
    return status;
}
