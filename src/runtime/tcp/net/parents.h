/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom one may connect to: the server or relays that lead to it, in the order in which they are
 * tried. They are given as a list, "HOST:PORT,unix:PATH,..."; more may be learned later, and are
 * tried after those. Knows no sockets and no clock.
 */
#ifndef TCP_PARENTS_H
#define TCP_PARENTS_H

#include <stdbool.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

enum {
    PARENTS_MOST = 16,       /* given and learned */
    PARENTS_TEXT_BYTES = 512 /* of one, with the NUL */
};

typedef struct parents {
    char *texts; /* PARENTS_MOST of PARENTS_TEXT_BYTES */
    uint32_t given, count;
    uint32_t current;
    uint32_t untried; /* others than the current one, since parents_settle */
    uint32_t closed;  /* bit i: parent i refuses us for good */
} parents;

/* Checks a list's form. Errors: FORMAT, with a diagnostic that names what is wrong. */
int parents_check(const char *list, tarry_diagnostic *diagnostic);
/* Reads a list that parents_check accepts. Errors: NO_MEMORY. */
int parents_init(parents *self, const char *list, const tarry_allocator *allocator);
void parents_destroy(parents *self, const tarry_allocator *allocator);

/* 0 <= at < count */
const char *parents_text(const parents *self, uint32_t at);
/* That which is to be tried, or is connected to. */
const char *parents_current(const parents *self);
/* It failed: the next one is current. False: all have been tried since parents_settle, and the
 * first one given is current again; it is time to wait. */
bool parents_next(parents *self);
/* The current one refuses us for good. True: all of them do. */
bool parents_close(parents *self);
/* One of them is current from now on, if it is there. */
void parents_choose(parents *self, const char *text);
/* A connection stands, or a wait is over: all may be tried again, from the current one on. */
void parents_settle(parents *self);

/* A list of others takes the place of that which was learned before. Those that are given, what is
 * no address, and more than there is room for, are left out. The current one stays. */
void parents_learn(parents *self, const char *list);

#endif
