/* SPDX-License-Identifier: Apache-2.0 */
/* --keep: which finished gradients workers keep, and what that takes. */
#ifndef CLI_KEEP_H
#define CLI_KEEP_H

#include <tarry/server.h>

#include "cli/options/options.h"
#include "cli/text/numbers.h"

/* Behind the values of tarry_keep: the one that fits the machine. */
enum { KEEP_AUTO = TARRY_KEEP_CREDITED + 1 };

extern const option_choice keep_choices[];         /* all, credited */
extern const option_choice keep_choices_or_auto[]; /* and auto */

const char *keep_name(tarry_keep keep);

/*
 * --ahead: how many finished gradients may wait for their fate with credited, or KEEP_AHEAD_AUTO.
 * Errors: FORMAT.
 */
#define KEEP_AHEAD_AUTO UINT32_MAX
int keep_read_ahead(const char *text, uint32_t *ahead, tarry_diagnostic *diagnostic);
/* As many as it takes that no worker waits for an answer, where messages take `latency_seconds`
 * each way and a chunk `chunk_seconds` or not much less; at least the usual number. */
uint32_t keep_ahead_of(double latency_seconds, double chunk_seconds);
/* The number, or null where it has no meaning. */
json_t *keep_ahead_json(tarry_keep keep, uint32_t ahead);

/* The option that credited can't be combined with, as `parts` (0: left to auto) and the settings
 * are: "parts", "credit", "fill" or "reproducible"; NULL if there is none. */
const char *keep_obstacle(uint32_t parts, const tarry_server_settings *server);

/* What the vectors of a worker of `load` chunks take: with all its finished gradients and the coded
 * part; with credited, which goes with one part, the running sum, which is the part, the gradient
 * that it computes and those without a fate. */
uint64_t keep_worker_bytes(uint64_t load, uint32_t parts, tarry_keep keep, uint32_t ahead,
                           uint64_t dimension);

/* What workers take for gradients of `dimension` numbers, coded parts included, in bytes. */
typedef struct keep_bytes {
    uint64_t least, most, total; /* per worker; over all */
} keep_bytes;

keep_bytes keep_bytes_of(const tarry_plan *plan, tarry_keep keep, uint32_t ahead,
                         uint64_t dimension);

/*
 * What --keep (KEEP_AUTO too) and server->ahead (KEEP_AHEAD_AUTO too) come to, into server->keep
 * and server->ahead. Credited is chosen where it can be and all would take more than a quarter of
 * this machine's memory. How long answers take is not known beforehand, and room that nothing is
 * written to takes none: workers may then run as far ahead as a quarter of the memory allows, and
 * take what answers make them take. Where credited was asked for, they run the usual number ahead.
 */
void keep_settle(const tarry_plan *plan, int keep, uint64_t dimension,
                 tarry_server_settings *server);

#endif
