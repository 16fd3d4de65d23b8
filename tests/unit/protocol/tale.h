/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stories of dynamic orders: workers say what they are at, and what a message tells a worker to
 * compute is checked. After each event the books are.
 */
#ifndef TEST_TALE_H
#define TEST_TALE_H

#include "books.h"
#include "story.h"

enum { MOST_WORKERS = 4 };

typedef struct tale {
    story told;
    uint16_t sequence[MOST_WORKERS]; /* of each worker's last word */
} tale;

/*
 * The plan and the settings, with TARRY_PICK_SHARE: every worker holds all chunks (up to 8), worker
 * 0 in their order, the others in the opposite one; silence_ns of 800 ms.
 */
void all_hold_all(tale *it, uint32_t workers, uint32_t chunks, uint32_t parts);
void tale_make_server(tale *it);
/* Makes the server; all join and the first round starts, at 0 ms; its messages are to be expected.
 */
void tale_begin(tale *it);
void tale_end(tale *it);
/* A case with one (test.h). */
#define TALE(name) TEST_OF(name, tale, it, tale_end)
/*
 * Begun: two workers and four chunks. 0 and 2 are the share of worker 0 (its positions 0 and 2), 3
 * and 1 that of worker 1 (the same positions).
 */
void two_share_four(tale *it);

/* The worker's next word: `next` is the position that it is at then; its load: it rests. */
tarry_message word_of(tale *it, uint32_t worker, tarry_message_type type, uint32_t next);
void finishes(tale *it, uint32_t worker, uint32_t slot, uint32_t next);
void fails_at(tale *it, uint32_t worker, uint32_t slot, uint32_t next);
void is_at(tale *it, uint32_t worker, uint32_t slot);

/* Sets as texts of bits. */
void assert_set(const uint64_t *set, const char *text);
void expect_order(tale *it, uint32_t worker, tarry_message_type type, const char *first,
                  const char *barred);
/* Whatever follows from the event is not the point. */
void expect_anything(tale *it);
/* The same of what has happened: tale_begin, finishes, fails_at, is_at. */
void has_begun(tale *it);
void has_finished(tale *it, uint32_t worker, uint32_t slot, uint32_t next);
void has_failed_at(tale *it, uint32_t worker, uint32_t slot, uint32_t next);
void has_been_at(tale *it, uint32_t worker, uint32_t slot);

/* Where the server takes the worker to be. */
uint32_t at_which(const tale *it, uint32_t worker);

#endif
