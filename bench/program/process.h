/* SPDX-License-Identifier: Apache-2.0 */
/* What processes take, and may take. */
#ifndef BENCH_PROCESS_H
#define BENCH_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

#include <tarry/error.h>

/* Memory that the process has resident. Errors: FILE. */
int bench_resident_bytes(pid_t process, double *bytes, tarry_diagnostic *diagnostic);
/* Processor time that this process has taken. */
uint64_t bench_process_cpu_ns(void);
/* Lets this process, and those that it starts from now on, have so many workers' connections open.
 * Errors: SYSTEM, ARGUMENT (the limit is lower). */
int bench_allow_files(uint32_t workers, tarry_diagnostic *diagnostic);

#endif
