/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/runner/crew_room.h"

#include <stdio.h>

#include "base/diagnostic.h"
#include "cli/options/machine_room.h"
#include "cli/text/numbers.h"

/* Measured with a model of 100 parameters: 0.26 to 0.41 MB for 500 to 4,000 threads, and 0.5 to
 * 1.15 MB where they sum among themselves, which also know each other. */
static const double THREAD_WORKER_BYTES = 0.25e6;
static const double MEMBER_BYTES = 0.2e6, ACQUAINTANCE_BYTES = 100;
/* 8 MB of its 17 MB are a process's own. */
static const double PROCESS_WORKER_BYTES = 6e6;

enum {
    THREADS_PER_WORKER = 2, /* one talks, one computes, */
    MEMBER_THREADS = 3,     /* and one sums with others */
    PROCESS_THREADS = 4,    /* those, one of the network, and the first */
};

double crew_room_bytes(const crew_size *crew)
{
    const double workers = crew->workers;
    double bytes = workers * (crew->processes ? PROCESS_WORKER_BYTES : THREAD_WORKER_BYTES);
    if (crew->everywhere && !crew->processes)
        bytes += workers * (MEMBER_BYTES + ACQUAINTANCE_BYTES * workers);
    return bytes;
}

static double threads_of(const crew_size *crew)
{
    int each = crew->processes    ? PROCESS_THREADS
               : crew->everywhere ? MEMBER_THREADS
                                  : THREADS_PER_WORKER;
    return (double)crew->workers * each;
}

int crew_room_check(const crew_size *crew, double bytes, const char *what, bool tell,
                    tarry_diagnostic *diagnostic)
{
    const machine_room room = machine_room_find("", crew->processes);
    char need[NUMBER_TEXT_SIZE], have[NUMBER_TEXT_SIZE];
    const double threads = threads_of(crew);
    if (threads > room.threads) {
        whole_text((uint64_t)threads, need);
        whole_text((uint64_t)room.threads, have);
        return diagnose(diagnostic, TARRY_ERROR_NO_MEMORY,
                        "%u workers take %s threads, and %s are allowed (%s); use fewer workers, "
                        "or allow more",
                        crew->workers, need, have, room.threads_by);
    }
    bytes_text(bytes, need);
    bytes_text(room.free_bytes, have);
    if (tell && bytes > room.free_bytes / 2 && bytes <= room.free_bytes)
        fprintf(stderr, "%s take at least %s of memory; %s are %s\n", what, need, have,
                room.free_by);
    if (bytes <= room.free_bytes)
        return TARRY_OK;
    return diagnose(diagnostic, TARRY_ERROR_NO_MEMORY, "%s take at least %s, and %s are %s", what,
                    need, have, room.free_by);
}
