/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/npy.h"

#include <stdint.h>
#include <string.h>

void npy_write(FILE *stream, const float *values, size_t count)
{
    /* Magic, version and header length take 10 bytes; the data begin at a multiple of 64. */
    enum { HEADER = 118 };
    char header[HEADER + 1];
    int length = snprintf(header, sizeof(header),
                          "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu,), }", count);
    memset(header + length, ' ', (size_t)(HEADER - length));
    header[HEADER - 1] = '\n';
    const unsigned char start[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, HEADER, 0};
    fwrite(start, 1, sizeof(start), stream);
    fwrite(header, 1, HEADER, stream);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof(bits));
        const unsigned char bytes[4] = {(unsigned char)bits, (unsigned char)(bits >> 8),
                                        (unsigned char)(bits >> 16), (unsigned char)(bits >> 24)};
        fwrite(bytes, 1, sizeof(bytes), stream);
    }
}
