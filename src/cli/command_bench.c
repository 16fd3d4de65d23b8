/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <tarry/error.h>

#include "cli/bench_kernels.h"

#define NAME "tarry bench kernels"

enum { DONE = 0, FAILED = 1, USAGE = 2 };

/* Limits of the options; the dimension's is that of BLAS's indices. */
static const double MAX_DIMENSION = 2e9, MAX_INPUTS = 1024, MAX_PARTS = 64, MAX_REPEAT = 1e6;

typedef struct options {
    bench_settings settings;
    bool json;
    bool help;
    bool ended; /* parsing: by --help, or by an error that was told */
} options;

/* Beyond the characters: there are no short options. */
enum {
    KEY_DIMENSION = 256,
    KEY_INPUTS,
    KEY_PARTS,
    KEY_REPEAT,
    KEY_KERNEL,
    KEY_JSON,
    KEY_HELP,
};

static const struct argp_option table[] = {
    {.name = "dimension", .key = KEY_DIMENSION, .arg = "D", .doc = "Numbers of a gradient (1e7)"},
    {.name = "inputs",
     .key = KEY_INPUTS,
     .arg = "LIST",
     .doc = "How many gradients or coded parts are summed (2,4,6,8,12,16)"},
    {.name = "parts", .key = KEY_PARTS, .arg = "L", .doc = "Parts that a gradient is cut into (1)"},
    {.name = "repeat",
     .key = KEY_REPEAT,
     .arg = "TIMES",
     .doc = "Measurements; the best counts (7)"},
    {.name = "kernel",
     .key = KEY_KERNEL,
     .arg = "NAME",
     .doc = "reference, avx2, avx512 (the best)"},
    {.name = "json", .key = KEY_JSON, .doc = "Print JSON"},
    {.name = "help", .key = KEY_HELP, .doc = "Print this help"},
    {0},
};

static const char help_text[] =
    "Measures encoding and decoding in GB/s (1e9 bytes of inputs read and outputs written) beside "
    "the machine's read bandwidth and BLAS's sgemv, all on one thread and in the same memory, with "
    "cold caches.\v"
    "'stored' is the kernel with ordinary stores; 'encode' and 'decode' store past the cache where "
    "gradients are long.";

static int complain(const char *what, const char *why)
{
    fprintf(stderr, "tarry: %s: %s\n", what, why);
    return USAGE;
}

/* A whole number of 1..most, also as 1e7, that ends at one of the characters of `ends`. */
static const char *parse_count(const char *text, const char *ends, double most, size_t *out)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || strchr(ends, *end) == NULL)
        return NULL;
    if (!(value >= 1 && value <= most) || value != floor(value))
        return NULL;
    *out = (size_t)value;
    return end;
}

static int take_count(const char *flag, const char *text, double most, size_t *out)
{
    char why[200];
    if (parse_count(text, "", most, out) != NULL)
        return DONE;
    snprintf(why, sizeof(why), "'%.60s' is not a whole number from 1 to %.0f", text, most);
    return complain(flag, why);
}

static int take_inputs(const char *text, bench_settings *settings)
{
    settings->input_count = 0;
    const char *rest = text;
    while (rest != NULL && settings->input_count < BENCH_LIST_MAX) {
        rest = parse_count(rest, ",", MAX_INPUTS, &settings->inputs[settings->input_count++]);
        if (rest != NULL && *rest++ == '\0')
            return DONE;
    }
    char why[200];
    snprintf(why, sizeof(why),
             "'%.60s' is not a list of at most %d whole numbers from 1 to %.0f, like 2,4,8", text,
             (int)BENCH_LIST_MAX, MAX_INPUTS);
    return complain("--inputs", why);
}

static int take_kernel(const char *name, bench_settings *settings)
{
    char why[200];
    int used =
        snprintf(why, sizeof(why), "'%.60s' is none of those that this processor runs:", name);
    for (size_t index = 0; kernel_at(index) != NULL; index++) {
        if (strcmp(kernel_at(index)->name, name) == 0) {
            settings->kernel = kernel_at(index);
            return DONE;
        }
        used += snprintf(why + used, sizeof(why) - (size_t)used, " %s", kernel_at(index)->name);
    }
    return complain("--kernel", why);
}

static int take_option(int key, const char *text, options *out)
{
    bench_settings *settings = &out->settings;
    size_t count = 0;
    int status = DONE;
    switch (key) {
    case KEY_DIMENSION:
        return take_count("--dimension", text, MAX_DIMENSION, &settings->dimension);
    case KEY_INPUTS:
        return take_inputs(text, settings);
    case KEY_PARTS:
        status = take_count("--parts", text, MAX_PARTS, &count);
        settings->parts = (uint32_t)count;
        return status;
    case KEY_REPEAT:
        status = take_count("--repeat", text, MAX_REPEAT, &count);
        settings->repeat = (uint32_t)count;
        return status;
    case KEY_KERNEL:
        return take_kernel(text, settings);
    case KEY_JSON:
        out->json = true;
        return DONE;
    default:
        out->help = true;
        return DONE;
    }
}

/* argp's own messages take two lines: it is kept silent, and this says the same. */
static error_t take_argument(int key, char *text, struct argp_state *state)
{
    options *chosen = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        complain(text, "unexpected argument");
        chosen->ended = true;
        return ECANCELED;
    case ARGP_KEY_ERROR:
        if (!chosen->ended)
            complain(state->argv[state->next - 1],
                     "unknown option, or a value is missing or too many");
        return 0;
    case KEY_DIMENSION:
    case KEY_INPUTS:
    case KEY_PARTS:
    case KEY_REPEAT:
    case KEY_KERNEL:
    case KEY_JSON:
    case KEY_HELP:
        chosen->ended = take_option(key, text, chosen) != DONE || chosen->help;
        return chosen->ended ? ECANCELED : 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_table(const bench_settings *settings, const bench_row *rows)
{
    printf("Kernel %s, d = %zu, %u part%s, one thread, best of %u, GB/s:\n", settings->kernel->name,
           settings->dimension, settings->parts, settings->parts == 1 ? "" : "s", settings->repeat);
    printf("inputs   read  sgemv stored | encode of read of sgemv | decode of read of sgemv\n");
    for (size_t i = 0; i < settings->input_count; i++) {
        const bench_row *row = &rows[i];
        printf("%6zu %6.1f %6.1f %6.1f | %6.1f %7.2f %8.2f | %6.1f %7.2f %8.2f\n", row->inputs,
               row->read, row->sgemv, row->stored, row->encode, row->encode / row->read,
               row->encode / row->sgemv, row->decode, row->decode / row->read,
               row->decode / row->sgemv);
    }
}

/* Gives back whether there was memory. */
static bool print_json(const bench_settings *settings, const bench_row *rows)
{
    json_t *results = json_array();
    for (size_t i = 0; i < settings->input_count; i++) {
        const bench_row *row = &rows[i];
        json_array_append_new(results, json_pack("{s:I, s:f, s:f, s:f, s:f, s:f}", "inputs",
                                                 (json_int_t)row->inputs, "read", row->read,
                                                 "sgemv", row->sgemv, "stored", row->stored,
                                                 "encode", row->encode, "decode", row->decode));
    }
    bool whole = json_array_size(results) == settings->input_count;
    json_t *report =
        json_pack("{s:s, s:{s:s, s:I, s:I, s:I}, s:s, s:o}", "command", "bench kernels", "config",
                  "kernel", settings->kernel->name, "dimension", (json_int_t)settings->dimension,
                  "parts", (json_int_t)settings->parts, "repeat", (json_int_t)settings->repeat,
                  "unit", "GB/s", "results", results);
    whole = whole && report != NULL && json_dumpf(report, stdout, JSON_INDENT(2)) == 0;
    putchar('\n');
    json_decref(report);
    return whole;
}

static int bench_kernels(const options *chosen)
{
    bench_row rows[BENCH_LIST_MAX];
    int error = bench_kernels_run(&chosen->settings, rows);
    if (error != TARRY_OK) {
        complain("bench kernels", tarry_error_text(error));
        return FAILED;
    }
    bool whole = true;
    if (chosen->json)
        whole = print_json(&chosen->settings, rows);
    else
        print_table(&chosen->settings, rows);
    if (fflush(stdout) != 0 || ferror(stdout) || !whole) {
        complain("bench kernels", "can't write the figures");
        return FAILED;
    }
    return DONE;
}

int command_bench(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "--help") == 0) {
        printf("Usage: tarry bench kernels [OPTION...]\n"
               "Measures encoding and decoding against the machine's own limits.\n"
               "`tarry bench kernels --help' lists the options.\n");
        return DONE;
    }
    if (argc < 2)
        return complain("bench", "say what to measure: kernels");
    if (strcmp(argv[1], "kernels") != 0) {
        char why[200];
        snprintf(why, sizeof(why), "'%.60s' can't be measured: kernels", argv[1]);
        return complain("bench", why);
    }
    options chosen = {
        .settings = {.dimension = 10000000,
                     .parts = 1,
                     .repeat = 7,
                     .kernel = kernel_best(),
                     .inputs = {2, 4, 6, 8, 12, 16},
                     .input_count = 6},
    };
    const struct argp parser = {.options = table, .parser = take_argument, .doc = help_text};
    int next = 0;
    error_t error = argp_parse(&parser, argc - 1, argv + 1,
                               ARGP_NO_HELP | ARGP_NO_ERRS | ARGP_NO_EXIT, &next, &chosen);
    if (chosen.help) {
        argp_help(&parser, stdout, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK, (char[]){NAME});
        return DONE;
    }
    return error == 0 ? bench_kernels(&chosen) : USAGE;
}
