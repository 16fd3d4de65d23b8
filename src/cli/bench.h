/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

/*
 * `tarry bench`: argv[0] is "bench", argv[1] what to measure ("kernels", "round",
 * "simulate"), options follow.
 * Prints the figures to stdout. Gives back the exit status.
 */
int command_bench(int argc, char **argv);

#endif
