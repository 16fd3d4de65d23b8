/* SPDX-License-Identifier: Apache-2.0 */
/* The options of tarry serve beside those of training. */
#ifndef CLI_SERVE_OPTIONS_H
#define CLI_SERVE_OPTIONS_H

#include "cli/options/listen_list.h"
#include "cli/options/network_options.h"

typedef struct serve_options {
    network_options network;
    const char *listen; /* the last --listen; taken apart into `where` */
    listen_list where;  /* or the default */
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
