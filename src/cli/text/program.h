/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs share that are made of commands: tarry and tarry-bench. */
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

/* What messages, usages and versions call the program. Defined beside its main(). */
extern const char program_name[];

/*
 * The whole of a main(): runs `run`, and complains if what it printed could not be written. A
 * standard descriptor that the caller closed is occupied first; BLAS keeps to the calling thread.
 * Gives back the exit status.
 */
int program_main(int (*run)(int argc, char **argv), int argc, char **argv);

#endif
