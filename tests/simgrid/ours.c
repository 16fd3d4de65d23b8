/* SPDX-License-Identifier: Apache-2.0 */
/* What src/sim/links says of the exchanges of exchanges.cpp, with the same arguments. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sim/links/network.h"

static int star_sum(network *links, const group_sum *sum, uint64_t *done_ns)
{
    uint64_t bytes = sum->dimension * sizeof(float), first_ns;
    for (uint32_t from = 1; from < sum->count; from++) {
        uint64_t left_ns = star_up(links, from, 0, bytes, &first_ns);
        done_ns[0] = star_receive(links, first_ns, bytes, left_ns);
    }
    return TARRY_OK;
}

static int run(const char *way, network *links, const group_sum *sum, const uint64_t *ready_ns,
               uint64_t *done_ns)
{
    uint64_t moved;
    if (strcmp(way, "star") == 0)
        return star_sum(links, sum, done_ns);
    if (strcmp(way, "ring") == 0)
        return ring_group_sum(links, sum, ready_ns, done_ns, &moved);
    return direct_sum(links, sum, ready_ns, done_ns, &moved);
}

int main(int count, char **arguments)
{
    if (count != 5)
        return 2;
    const uint32_t members = (uint32_t)strtoul(arguments[2], NULL, 10);
    const double thin = strtod(arguments[4], NULL), rate = 1.25e9;
    double *factor = memory_allocate(NULL, members, sizeof(*factor));
    uint64_t *ready_ns = memory_allocate(NULL, members, sizeof(*ready_ns));
    uint64_t *done_ns = memory_allocate(NULL, members, sizeof(*done_ns));
    if (factor == NULL || ready_ns == NULL || done_ns == NULL)
        return 1;
    for (uint32_t i = 0; i < members; i++)
        factor[i] = i == 0 ? thin : 1;
    const tarry_sim_settings settings = {
        .link = {.latency_ns = 25000, .bytes_per_second = rate},
        .link_factor = factor,
        .server_bytes_per_second = rate / thin,
    };
    const group_sum sum = {.count = members,
                           .dimension = (uint64_t)strtod(arguments[3], NULL) / sizeof(float),
                           .parts = 1};
    network links;
    int error = network_init(&links, &settings, members, NULL);
    if (error == TARRY_OK)
        error = run(arguments[1], &links, &sum, ready_ns, done_ns);
    uint64_t last_ns = 0;
    for (uint32_t i = 0; i < members; i++)
        last_ns = done_ns[i] > last_ns ? done_ns[i] : last_ns;
    printf("%.9f\n", (double)last_ns * 1e-9);
    network_destroy(&links);
    memory_release(NULL, done_ns);
    memory_release(NULL, ready_ns);
    memory_release(NULL, factor);
    return error == TARRY_OK ? 0 : 1;
}
