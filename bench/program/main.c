/* SPDX-License-Identifier: Apache-2.0 */
/* tarry-bench: what is to be measured. */
#include "cli/options/options.h"
#include "cli/text/complain.h"
#include "program/allreduce.h"
#include "program/connections.h"
#include "program/forms.h"
#include "program/join.h"
#include "program/kernels.h"
#include "program/masks.h"
#include "program/network.h"
#include "program/round.h"
#include "program/sampling.h"
#include "program/simulate.h"
#include "program/step.h"

const char program_name[] = "tarry-bench";

static int run(int argc, char **argv)
{
    static const subcommand kinds[] = {
        {"kernels", command_bench_kernels, "encoding and decoding beside read bandwidth and BLAS"},
        {"forms", command_bench_forms, "forms of coded parts beside read bandwidth and float32"},
        {"masks", command_bench_masks, "masks of secure sums beside AES and read bandwidth"},
        {"round", command_bench_round, "a round of the local runtime beside its memory traffic"},
        {"network", command_bench_network, "the network runtime beside bare calls of the system"},
        {"connections", command_bench_connections, "a server with thousands of workers"},
        {"allreduce", command_bench_allreduce, "sums among processes of this machine"},
        {"join", command_bench_join, "a state over a long link, beside sums"},
        {"step", command_bench_step, "steps of workers that all get the sum"},
        {"sampling", command_bench_sampling, "what sampling chunks is worth"},
        {"simulate", command_bench_simulate, "reports per second of the simulator"},
    };
    const subcommand_set set = {
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

int main(int argc, char **argv)
{
    return program_main(run, argc, argv);
}
