/* SPDX-License-Identifier: Apache-2.0 */
#include "program/memory.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tarry/error.h>

#include "base/memory.h"

enum { HUGE_PAGE = 2 << 20 }; /* bytes */

/* What is swapped out can't be measured, so that there is no more than the machine's memory. */
static size_t most_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (size_t)pages * (size_t)page : SIZE_MAX;
}

int bench_memory_create(size_t count, size_t length, size_t alignment, bench_memory *out)
{
    if (length > SIZE_MAX - alignment)
        return TARRY_ERROR_NO_MEMORY;
    size_t stride = (length + alignment - 1) / alignment * alignment;
    if (stride > (most_bytes() - HUGE_PAGE) / sizeof(float) / count)
        return TARRY_ERROR_NO_MEMORY;
    size_t bytes = count * stride * sizeof(float);
    unsigned char *block = memory_allocate(NULL, bytes + HUGE_PAGE, 1);
    if (block == NULL)
        return TARRY_ERROR_NO_MEMORY;
    unsigned char *start = block + (HUGE_PAGE - (uintptr_t)block % HUGE_PAGE);
    /* Only advice: where it is refused, all that is measured has small pages. */
    (void)madvise(start, bytes, MADV_HUGEPAGE);
    float *vectors = (float *)start;
    for (size_t x = 0; x < count * stride; x++)
        vectors[x] = (float)((uint32_t)x * 2654435761U >> 8) * 0x1p-24F - 0.5F;
    *out = (bench_memory){.vectors = vectors, .count = count, .stride = stride, .block = block};
    return TARRY_OK;
}

void bench_memory_free(bench_memory *memory)
{
    memory_release(NULL, memory->block);
}

size_t bench_flush_length(void)
{
    const long least = 64L << 20, most = 1L << 30;
    long bytes = 4 * sysconf(_SC_LEVEL3_CACHE_SIZE);
    bytes = bytes < least ? least : bytes > most ? most : bytes;
    return (size_t)bytes / sizeof(float);
}

typedef float lanes __attribute__((vector_size(64), aligned(4)));

/* Eight lines at a time into four sums, so that no addition waits for the one before. */
static inline __attribute__((always_inline)) float read_lines(const float *vector, size_t length)
{
    lanes a = {0}, b = a, c = a, d = a;
    size_t x = 0;
    for (; length - x >= 8 * BENCH_LINE; x += 8 * BENCH_LINE) {
        const lanes *in = (const lanes *)(vector + x);
        a += in[0];
        b += in[1];
        c += in[2];
        d += in[3];
        a += in[4];
        b += in[5];
        c += in[6];
        d += in[7];
    }
    a += b + c + d;
    float sum = 0;
    for (size_t i = 0; i < BENCH_LINE; i++)
        sum += a[i];
    for (; x < length; x++)
        sum += vector[x];
    return sum;
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static float read_avx2(const float *vector, size_t length)
{
    return read_lines(vector, length);
}

__attribute__((target("avx512f"))) static float read_avx512(const float *vector, size_t length)
{
    return read_lines(vector, length);
}
#endif

float bench_read(const float *vector, size_t length)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        return read_avx512(vector, length);
    if (__builtin_cpu_supports("avx2"))
        return read_avx2(vector, length);
#endif
    return read_lines(vector, length);
}
