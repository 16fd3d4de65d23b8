/* SPDX-License-Identifier: Apache-2.0 */
/* Any file is refused, or read as a trace without gaps. */
#include <math.h>

#include "fuzz_file.h"
#include "fuzz_input.h"
#include "straggler/straggler.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_file file = file_make(data, size);
    trace *read = NULL;
    tarry_diagnostic diagnostic;
    if (trace_read(file.path, NULL, &read, &diagnostic) == TARRY_OK) {
        size_t cells = (size_t)read->steps * read->workers * read->chunks;
        require(cells > 0 && cells < size);
        for (size_t i = 0; i < cells; i++)
            require(read->seconds[i] >= 0 && isfinite(read->seconds[i]));
    }
    trace_free(read, NULL);
    file_remove(&file);
    return 0;
}
