/* SPDX-License-Identifier: Apache-2.0 */
/* tarry bench: what is to be measured. */
#include "cli/bench.h"
#include "cli/bench_kernels.h"
#include "cli/bench_network.h"
#include "cli/bench_round.h"
#include "cli/bench_simulate.h"
#include "cli/subcommand.h"

int command_bench(int argc, char **argv)
{
    static const subcommand kinds[] = {
        {"kernels", command_bench_kernels, "encoding and decoding beside read bandwidth and BLAS"},
        {"round", command_bench_round, "a round of the local runtime beside its memory traffic"},
        {"network", command_bench_network, "the network runtime beside bare calls of the system"},
        {"simulate", command_bench_simulate, "reports per second of the simulator"},
    };
    const subcommand_set set = {
        .command = "bench",
        .usage = "WHAT [OPTION...]",
        .text = "Measures Tarry against the machine's own limits.",
        .one = "WHAT",
        .missing = "say what to measure",
        .unknown = "can't be measured",
        .items = kinds,
        .count = sizeof(kinds) / sizeof(kinds[0]),
    };
    return subcommand_run(&set, argc, argv);
}
