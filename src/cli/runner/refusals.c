/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/runner/refusals.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* True if the same was printed a short while ago; else it is remembered as printed now. */
static bool is_known(refusals *self, uint64_t now_ns, const char *from, const char *why)
{
    size_t oldest = 0;
    for (size_t i = 0; i < REFUSALS_KEPT; i++) {
        if (self->said[i].at_ns != 0 && now_ns - self->said[i].at_ns < REFUSALS_NS &&
            strcmp(self->said[i].from, from) == 0 && strcmp(self->said[i].why, why) == 0)
            return true;
        if (self->said[i].at_ns < self->said[oldest].at_ns)
            oldest = i;
    }
    self->said[oldest].at_ns = now_ns;
    strcpy(self->said[oldest].from, from);
    strcpy(self->said[oldest].why, why);
    return false;
}

/* An address without its port: of a Unix socket all of it. */
static void cut_port(const char *peer, char from[REFUSALS_TEXT])
{
    const char *port = strncmp(peer, "unix:", 5) == 0 ? NULL : strrchr(peer, ':');
    const size_t length = port != NULL ? (size_t)(port - peer) : strlen(peer);
    snprintf(from, REFUSALS_TEXT, "%.*s", (int)length, peer);
}

bool refusals_line(refusals *self, uint64_t now_ns, uint32_t worker, const char *peer,
                   const char *why, char line[REFUSALS_LINE])
{
    char from[REFUSALS_TEXT], reason[REFUSALS_TEXT], who[32] = "", more[64] = "";
    cut_port(peer, from);
    snprintf(reason, sizeof(reason), "%s", why);
    if (now_ns - self->since_ns >= REFUSALS_NS) {
        self->since_ns = now_ns;
        self->lines = 0;
    }
    if (self->lines >= REFUSALS_LINES || is_known(self, now_ns, from, reason)) {
        self->unsaid++;
        return false;
    }
    self->lines++;
    if (worker != UINT32_MAX)
        snprintf(who, sizeof(who), " worker %" PRIu32, worker);
    if (self->unsaid > 0)
        snprintf(more, sizeof(more), " (%lu more refusals were not printed)", self->unsaid);
    self->unsaid = 0;
    snprintf(line, REFUSALS_LINE, "refused%s%s%s: %s%s", who,
             from[0] == '\0'  ? " connections"
             : who[0] != '\0' ? " from "
                              : " ",
             from, reason, more);
    return true;
}
