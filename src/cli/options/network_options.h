/* SPDX-License-Identifier: Apache-2.0 */
/* The options of whoever talks over the network: who it is, and whom it trusts. */
#ifndef CLI_NETWORK_OPTIONS_H
#define CLI_NETWORK_OPTIONS_H

#include <stdint.h>

#include <tarry/error.h>
#include <tarry/tcp.h>

#include "cli/options/options.h"

typedef struct network_options {
    tarry_tcp_security security;
    const char *log;
} network_options;

#define NETWORK_GROUPS 2

void network_options_groups(network_options *options, option_group groups[NETWORK_GROUPS]);
/* The first of them, for who keeps no log. */
option_group network_security_group(tarry_tcp_security *security);

/*
 * Checks them for `command` and its addresses: that there are credentials, which are read, or that
 * none are asked for, and then that plain text stays on this machine. Gives back OPTIONS_PROCEED,
 * or the exit status after a complaint.
 */
int network_options_check(const network_options *options, const char *command,
                          const char *const *addresses, uint32_t count, bool listening);
/* The part of that which needs nothing read or looked up: flags that contradict each other, and
 * credentials that are missing; `files`: all addresses are files, which need none. */
int network_security_check(const tarry_tcp_security *security, const char *command, bool files);

/* Seconds as a flag has them. */
uint64_t network_ns(double seconds);

#endif
