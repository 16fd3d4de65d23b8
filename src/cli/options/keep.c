/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/keep.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "cli/options/parse.h"

/* The share of the memory that gradients may take before auto saves it. */
#define GENEROUS_SHARE 0.25

const option_choice keep_choices[] = {
    {"all", TARRY_KEEP_ALL},
    {"credited", TARRY_KEEP_CREDITED},
    {NULL, 0},
};

const option_choice keep_choices_or_auto[] = {
    {"all", TARRY_KEEP_ALL},
    {"credited", TARRY_KEEP_CREDITED},
    {"auto", KEEP_AUTO},
    {NULL, 0},
};

const char *keep_name(tarry_keep keep)
{
    return option_choice_name(keep_choices, (int)keep);
}

const char *keep_obstacle(uint32_t parts, const tarry_server_settings *server)
{
    if (parts != 1)
        return "parts";
    if (server->credit != TARRY_CREDIT_CHUNK)
        return "credit";
    if (server->fill == TARRY_FILL_STALE)
        return "fill";
    return server->reproducible ? "reproducible" : NULL;
}

int keep_read_ahead(const char *text, uint32_t *ahead, tarry_diagnostic *diagnostic)
{
    if (strcmp(text, "auto") == 0) {
        *ahead = KEEP_AHEAD_AUTO;
        return TARRY_OK;
    }
    uint64_t number;
    int error = parse_whole(text, 0, KEEP_AHEAD_AUTO - 1, &number, diagnostic);
    if (error == TARRY_OK)
        *ahead = (uint32_t)number;
    return error;
}

uint32_t keep_ahead_of(double latency_seconds, double chunk_seconds)
{
    const double margin = 1.25; /* for chunks that take less than they should */
    double chunks = ceil(margin * 2 * latency_seconds / chunk_seconds);
    return (uint32_t)fmin(fmax(chunks, TARRY_USUAL_AHEAD), KEEP_AHEAD_AUTO - 1);
}

json_t *keep_ahead_json(tarry_keep keep, uint32_t ahead)
{
    return keep == TARRY_KEEP_CREDITED ? json_integer(ahead) : json_null();
}

uint64_t keep_worker_bytes(uint64_t load, uint32_t parts, tarry_keep keep, uint32_t ahead,
                           uint64_t dimension)
{
    uint64_t gradients = keep == TARRY_KEEP_CREDITED && ahead < load ? ahead + UINT64_C(1) : load;
    return (gradients * dimension + (dimension + parts - 1) / parts) * sizeof(float);
}

keep_bytes keep_bytes_of(const tarry_plan *plan, tarry_keep keep, uint32_t ahead,
                         uint64_t dimension)
{
    keep_bytes bytes = {.least = UINT64_MAX};
    for (uint32_t worker = 0; worker < tarry_plan_workers(plan); worker++) {
        uint64_t own = keep_worker_bytes(tarry_plan_load(plan, worker), tarry_plan_parts(plan),
                                         keep, ahead, dimension);
        bytes.total += own;
        bytes.least = own < bytes.least ? own : bytes.least;
        bytes.most = own > bytes.most ? own : bytes.most;
    }
    return bytes;
}

/* The most that all workers can run ahead within so many bytes, but the usual number at least. */
static uint32_t furthest_ahead(const tarry_plan *plan, uint64_t dimension, double bytes)
{
    double each = bytes / tarry_plan_workers(plan) / ((double)dimension * sizeof(float));
    return (uint32_t)fmin(fmax(floor(each) - 2, TARRY_USUAL_AHEAD), KEEP_AHEAD_AUTO - 1);
}

void keep_settle(const tarry_plan *plan, int keep, uint64_t dimension,
                 tarry_server_settings *server)
{
    bool asked = keep != KEEP_AUTO, open = server->ahead == KEEP_AHEAD_AUTO;
    server->keep = asked ? (tarry_keep)keep : TARRY_KEEP_ALL;
    server->ahead = open ? TARRY_USUAL_AHEAD : server->ahead;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (asked || pages <= 0 || page <= 0 || keep_obstacle(tarry_plan_parts(plan), server) != NULL)
        return;
    double generous = GENEROUS_SHARE * (double)pages * (double)page;
    if ((double)keep_bytes_of(plan, TARRY_KEEP_ALL, 0, dimension).total <= generous)
        return;
    server->keep = TARRY_KEEP_CREDITED;
    server->ahead = open ? furthest_ahead(plan, dimension, generous) : server->ahead;
}
