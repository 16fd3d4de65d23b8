/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses to listen on, of flags that may be given several times, each with a list. */
#ifndef CLI_LISTEN_LIST_H
#define CLI_LISTEN_LIST_H

#include <stdint.h>

#include <tarry/error.h>

enum { LISTEN_LIST_MOST = 8, LISTEN_LIST_SIZE = 128 };

typedef struct listen_list {
    char text[LISTEN_LIST_MOST][LISTEN_LIST_SIZE];
    const char *address[LISTEN_LIST_MOST]; /* in text, or the caller's own */
    uint32_t count;
} listen_list;

/* Adds the addresses of "ADDRESS,ADDRESS,...". Errors: FORMAT. */
int listen_list_add(listen_list *list, const char *text, tarry_diagnostic *diagnostic);

#endif
