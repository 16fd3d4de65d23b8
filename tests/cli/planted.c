/* SPDX-License-Identifier: Apache-2.0 */
/* tarry simulate --faults alone, as it is in a binary in which errors can be planted. */
#include "cli/simulate/command_simulate_faults.h"
#include "cli/text/program.h"

const char program_name[] = "tarry";

int main(int argc, char **argv)
{
    return argc < 2 ? 2 : command_simulate_faults(argc - 1, argv + 1);
}
