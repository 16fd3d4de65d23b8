/* SPDX-License-Identifier: Apache-2.0 */
#include "program/process.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/diagnostic.h"

enum { OTHER_FILES = 64 };

int bench_resident_bytes(pid_t process, double *bytes, tarry_diagnostic *diagnostic)
{
    char name[64];
    unsigned long all, resident;
    snprintf(name, sizeof(name), "/proc/%ld/statm", (long)process);
    FILE *file = fopen(name, "r");
    int found = file != NULL ? fscanf(file, "%lu %lu", &all, &resident) : 0;
    if (file != NULL)
        fclose(file);
    if (found != 2)
        return diagnose(diagnostic, TARRY_ERROR_FILE, "%s can't be read", name);
    *bytes = (double)resident * (double)sysconf(_SC_PAGESIZE);
    return TARRY_OK;
}

uint64_t bench_process_cpu_ns(void)
{
    struct timespec taken = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &taken);
    return (uint64_t)taken.tv_sec * UINT64_C(1000000000) + (uint64_t)taken.tv_nsec;
}

int bench_allow_files(uint32_t workers, tarry_diagnostic *diagnostic)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "limit of open files: %s", strerror(errno));
    limit.rlim_cur = limit.rlim_max;
    if (limit.rlim_max < (rlim_t)workers + OTHER_FILES || setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "%u workers: this process may have no more than %llu files open", workers,
                        (unsigned long long)limit.rlim_max);
    return TARRY_OK;
}
