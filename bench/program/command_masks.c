/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>

#include <tarry/version.h>

#include "cli/options/options.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "privacy/secure/ring.h"
#include "program/masks.h"

#define MAX_DIMENSION 1000000000
#define MAX_NEIGHBOURS 1000
#define MAX_REPEAT 1000000

typedef struct masks_options {
    uint64_t dimension;
    bool json;
    bench_masks_settings settings;
} masks_options;

static const option_entry entries[] = {
    {.name = "dimension",
     .argument = "D",
     .help = "Numbers in a gradient (default 1e7)",
     .kind = OPTION_U64,
     .offset = offsetof(masks_options, dimension),
     .least = 1,
     .most = MAX_DIMENSION},
    {.name = "neighbours",
     .argument = "K",
     .help = "Members with which a worker shares masks (default 4)",
     .kind = OPTION_U32,
     .offset = offsetof(masks_options, settings.neighbours),
     .least = 1,
     .most = MAX_NEIGHBOURS},
    {.name = "repeat",
     .argument = "TIMES",
     .help = "Repeats, of which the best counts (default 7)",
     .kind = OPTION_U32,
     .offset = offsetof(masks_options, settings.repeat),
     .least = 1,
     .most = MAX_REPEAT},
    {.name = "json",
     .help = "Print the figures as JSON",
     .kind = OPTION_FLAG,
     .offset = offsetof(masks_options, json)},
};

static void print_table(const bench_masks_settings *settings, const bench_masks *of)
{
    printf("d = %zu, one thread, best of %u:\n", settings->dimension, settings->repeat);
    printf("memory read %.1f GB/s, AES-128-CTR in cache %.2f GB/s, SHA-256 %.2f GB/s\n", of->read,
           of->aes, of->sha256);
    printf("key pair %.0f us, secret %.0f us, mask key %.1f us\n", of->pair_us, of->secret_us,
           of->key_us);
    printf("1e9 words/s | one mask  of AES | %2u masks each  of AES | ring_add (%s)  reference |"
           "    sum | read\n",
           settings->neighbours, ring_kernel_best()->name);
    for (size_t i = 0; i < 2; i++) {
        const bench_ring *row = &of->rings[i];
        const double aes = of->aes / (i == 0 ? 4 : 8);
        printf("%zu bits     | %8.3f %7.2f | %13.3f %7.2f | %17.3f %10.3f | %6.3f | %5.3f\n",
               i == 0 ? (size_t)32 : (size_t)64, row->mask, row->mask / aes, row->member,
               row->member / aes, row->add, row->reference, row->sum, row->read);
    }
}

static int print_json(const option_command *command, const bench_masks *of)
{
    json_t *rings = json_array();
    for (size_t i = 0; i < 2; i++) {
        const bench_ring *row = &of->rings[i];
        rings = json_append(rings, json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "bits",
                                             (json_int_t)(i == 0 ? 32 : 64), "mask", row->mask,
                                             "member", row->member, "add", row->add, "reference",
                                             row->reference, "sum", row->sum, "read", row->read));
    }
    json_t *report = json_pack(
        "{s:s, s:s, s:o, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "command", "bench masks",
        "version", tarry_version(), "config", options_json(command), "ran",
        ring_kernel_best()->name, "read", of->read, "aes", of->aes, "sha256", of->sha256, "pair_us",
        of->pair_us, "secret_us", of->secret_us, "key_us", of->key_us, "results", rings);
    return json_write(report, stdout) == TARRY_OK ? EXIT_DONE
                                                  : complain(EXIT_FAILED, "masks: out of memory");
}

int command_bench_masks(int argc, char **argv)
{
    masks_options options = {
        .dimension = 10000000,
        .settings = {.neighbours = 4, .repeat = 7},
    };
    const option_group group = OPTION_GROUP("What is measured", entries, &options);
    const option_command command = {
        "masks",
        "Measures what secure sums cost a worker: masks beside the processor's AES, numbers added "
        "to rings beside the machine's read bandwidth, the digest of parameters, and keys; all on "
        "one thread and in the same memory, with cold caches.\v'one mask' is one stream added to "
        "D words; 'masks each' counts a mask for each neighbour.",
        &group, 1};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED) {
        bench_masks measured;
        options.settings.dimension = (size_t)options.dimension;
        int error = bench_masks_run(&options.settings, &measured);
        status = EXIT_DONE;
        if (error != TARRY_OK)
            status = complain(EXIT_FAILED, "masks: %s", tarry_error_text(error));
        else if (options.json)
            status = print_json(&command, &measured);
        else
            print_table(&options.settings, &measured);
    }
    config_free(file);
    return status;
}
