/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/keep.h"

#include <unistd.h>

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
    if (parts > 1)
        return "parts";
    if (server->credit != TARRY_CREDIT_CHUNK)
        return "credit";
    if (server->fill == TARRY_FILL_STALE)
        return "fill";
    return server->reproducible ? "reproducible" : NULL;
}

/* All: the finished gradients and the part. Credited: the running sum, which is the part, and two
 * gradients. */
static uint64_t vectors_bytes(uint64_t load, uint32_t parts, tarry_keep keep, uint64_t dimension)
{
    uint64_t gradients = keep == TARRY_KEEP_ALL ? load : load > 0 ? 2 : 0;
    return (gradients * dimension + (dimension + parts - 1) / parts) * sizeof(float);
}

keep_bytes keep_bytes_of(const tarry_plan *plan, tarry_keep keep, uint64_t dimension)
{
    keep_bytes bytes = {.least = UINT64_MAX};
    for (uint32_t worker = 0; worker < tarry_plan_workers(plan); worker++) {
        uint64_t own =
            vectors_bytes(tarry_plan_load(plan, worker), tarry_plan_parts(plan), keep, dimension);
        bytes.total += own;
        bytes.least = own < bytes.least ? own : bytes.least;
        bytes.most = own > bytes.most ? own : bytes.most;
    }
    return bytes;
}

tarry_keep keep_choose(const tarry_plan *plan, const tarry_server_settings *server,
                       uint64_t dimension)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page <= 0 || keep_obstacle(tarry_plan_parts(plan), server) != NULL)
        return TARRY_KEEP_ALL;
    double all = (double)keep_bytes_of(plan, TARRY_KEEP_ALL, dimension).total;
    return all > GENEROUS_SHARE * (double)pages * (double)page ? TARRY_KEEP_CREDITED
                                                               : TARRY_KEEP_ALL;
}
