/* SPDX-License-Identifier: Apache-2.0 */
/* tarry top: a run on the terminal, live, or as it stands once. */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include <tarry/tcp.h>

typedef struct top_options {
    const char *connect;
    tarry_tcp_security security;
    bool once;
    double interval; /* seconds between two pictures */
} top_options;

/* Both give back the exit status. */
int top_once(const top_options *options);
int top_live(const top_options *options);

#endif
