/* SPDX-License-Identifier: Apache-2.0 */
/* The options of tarry serve beside those of training. */
#ifndef CLI_SERVE_OPTIONS_H
#define CLI_SERVE_OPTIONS_H

#include "cli/options/network_options.h"

enum { SERVE_ADDRESSES = 8, SERVE_ADDRESS_SIZE = 128 };

typedef struct serve_options {
    network_options network;
    const char *listen; /* the last --listen; taken apart into `address` */
    char text[SERVE_ADDRESSES][SERVE_ADDRESS_SIZE];
    const char *address[SERVE_ADDRESSES]; /* in text, or the default */
    uint32_t addresses;
    bool ship_data;
    double wait, patience; /* seconds */
    uint32_t decode_threads;
} serve_options;

enum { SERVE_GROUPS = 2 };

void serve_options_init(serve_options *options);
void serve_options_groups(serve_options *options, option_group groups[SERVE_GROUPS]);
/* Gives back OPTIONS_PROCEED, or the exit status after a complaint. */
int serve_options_check(serve_options *options);

#endif
