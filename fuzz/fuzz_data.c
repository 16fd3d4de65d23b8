/* SPDX-License-Identifier: Apache-2.0 */
/* Any files are refused, or read as samples that are what the settings ask for. The first bytes
 * choose format, labels and, of IDX, where the second file begins. */
#include <math.h>

#include "fuzz_file.h"
#include "fuzz_input.h"
#include "learn/dataset.h"

static void check_label(const dataset *read, label_kind labels, float label)
{
    require(isfinite(label));
    if (labels == LABEL_BINARY)
        require(label == 1 || label == -1);
    if (labels == LABEL_CLASS)
        require(label >= 0 && label < (float)read->classes && label == floorf(label));
}

static void check_samples(const dataset *read, label_kind labels)
{
    require(read->rows > 0);
    for (size_t row = 0; row < read->rows; row++)
        check_label(read, labels, read->label[row]);
    size_t values = read->sparse ? read->row_start[read->rows] : read->rows * read->features;
    for (size_t i = 0; i < values; i++)
        require(isfinite(read->value[i]));
    for (size_t row = 0; row < read->rows && read->sparse; row++) {
        size_t first = read->row_start[row], end = read->row_start[row + 1];
        for (size_t i = first; i < end; i++)
            require(read->column[i] < read->features &&
                    (i == first || read->column[i - 1] < read->column[i]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {.data = data, .left = size};
    dataset_source source = {
        .format = (dataset_format)(take(&in) % (DATASET_IDX + 1)),
        .labels = (label_kind)(take(&in) % (LABEL_CLASS + 1)),
    };
    size_t split = take(&in);
    split = split < in.left ? split : in.left;
    fuzz_file labels = file_make(in.data, split);
    fuzz_file samples = file_make(in.data + split, in.left - split);
    source.path = samples.path;
    source.labels_path = labels.path;

    dataset *read = NULL;
    tarry_diagnostic diagnostic;
    if (dataset_read(&source, NULL, &read, &diagnostic) == TARRY_OK)
        check_samples(read, source.labels);
    dataset_free(read);
    file_remove(&samples);
    file_remove(&labels);
    return 0;
}
