/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMAND_SIMULATE_FAULTS_H
#define CLI_COMMAND_SIMULATE_FAULTS_H

/* tarry simulate --faults: argv[1..] are its arguments, --faults among them. Gives back the exit
 * status: 1 also if an invariant is broken. */
int command_simulate_faults(int argc, char **argv);

#endif
