/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

/*
 * `tarry bench`: argv[0] is "bench", argv[1] what to measure ("kernels"), options follow. Prints
 * the figures to stdout, errors to stderr as "tarry: WHAT: WHY". Gives back the exit status: 0, 1
 * (failed), 2 (wrong usage). Sets OpenBLAS to one thread for good.
 */
int command_bench(int argc, char **argv);

#endif
