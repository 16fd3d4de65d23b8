/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as samples that a server ships. What is read is written as the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "learn/dataset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int labels = LABEL_REAL; labels <= LABEL_CLASS; labels++) {
        dataset *read;
        if (dataset_decode(data, size, (label_kind)labels, NULL, &read, NULL) != TARRY_OK)
            continue;
        uint8_t *again = malloc(size);
        if (again == NULL || dataset_encoded_size(read, 0, read->rows) != size)
            abort();
        dataset_encode(read, 0, read->rows, again);
        if (memcmp(again, data, size) != 0)
            abort();
        free(again);
        dataset_free(read);
    }
    return 0;
}
