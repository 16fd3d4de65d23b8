/* SPDX-License-Identifier: Apache-2.0 */
/* --keep: which finished gradients workers keep, and what that takes. */
#ifndef CLI_KEEP_H
#define CLI_KEEP_H

#include <tarry/server.h>

#include "cli/options.h"

/* Behind the values of tarry_keep: the one that fits the machine. */
enum { KEEP_AUTO = TARRY_KEEP_CREDITED + 1 };

extern const option_choice keep_choices[];         /* all, credited */
extern const option_choice keep_choices_or_auto[]; /* and auto */

const char *keep_name(tarry_keep keep);

/* The option that credited can't be combined with, as `parts` and the settings are: "parts",
 * "credit", "fill" or "reproducible"; NULL if there is none. */
const char *keep_obstacle(uint32_t parts, const tarry_server_settings *server);

/* What workers take for gradients of `dimension` numbers, coded parts included, in bytes. */
typedef struct keep_bytes {
    uint64_t least, most, total; /* per worker; over all */
} keep_bytes;

keep_bytes keep_bytes_of(const tarry_plan *plan, tarry_keep keep, uint64_t dimension);

/* What auto comes to: credited where it can be and all would take more than a quarter of this
 * machine's memory. */
tarry_keep keep_choose(const tarry_plan *plan, const tarry_server_settings *server,
                       uint64_t dimension);

#endif
