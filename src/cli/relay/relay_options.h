/* SPDX-License-Identifier: Apache-2.0 */
/* The options of tarry relay. */
#ifndef CLI_RELAY_OPTIONS_H
#define CLI_RELAY_OPTIONS_H

#include "cli/options/listen_list.h"
#include "cli/options/network_options.h"

typedef struct relay_options {
    network_options network;
    const char *connect; /* NULL: not given */
    const char *listen;  /* the last --listen; taken apart into `where` */
    listen_list where;
    const char *advertise; /* NULL: chosen */
    double patience;       /* seconds */
    bool quiet;
} relay_options;

enum { RELAY_GROUPS = 2 };

void relay_options_init(relay_options *options);
void relay_options_groups(relay_options *options, option_group groups[RELAY_GROUPS]);
/* Gives back OPTIONS_PROCEED, or the exit status after a complaint. */
int relay_options_check(const relay_options *options);

#endif
