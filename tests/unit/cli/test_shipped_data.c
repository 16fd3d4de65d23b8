/* SPDX-License-Identifier: Apache-2.0 */
/* What a server ships of a data set. */

#include <tarry/tcp.h>

#include "cli/runner/runner.h"
#include "learn/dataset.h"
#include "test.h"

TEST(chunks_are_the_rows_of_their_samples)
{
    float values[] = {1, 2, 3, 4, 5, 6}, labels[] = {0, 1, 0};
    const dataset data = {.rows = 3, .features = 2, .value = values, .label = labels};
    shipped_data *shipped;
    assert_ok(
        shipped_data_create(&data, &(batch_settings){.rows = 3, .chunks = 2}, &shipped, NULL));
    uint8_t expected[2][256];
    const size_t first[] = {0, 1}, count[] = {1, 2};
    for (uint32_t chunk = 0; chunk < 2; chunk++) {
        const void *bytes;
        size_t size = dataset_encoded_size(&data, first[chunk], count[chunk]), got;
        assert_true(size <= sizeof(expected[chunk]));
        dataset_encode(&data, first[chunk], count[chunk], expected[chunk]);
        assert_ok(shipped_data_give(shipped, chunk, &bytes, &got));
        assert_int_equal(got, size);
        assert_memory_equal(bytes, expected[chunk], size);
    }
    const void *bytes;
    size_t size;
    assert_int_equal(shipped_data_give(shipped, 2, &bytes, &size), TARRY_ERROR_ARGUMENT);
    shipped_data_free(shipped);
}

/* Nobody reads the rows before they are asked for. */
TEST(a_chunk_that_no_worker_would_take_is_refused)
{
    const size_t most = (TARRY_TCP_SHIP_MOST - DATASET_CODE_HEAD_BYTES) / sizeof(float);
    dataset data = {.rows = 4, .features = (uint32_t)(most / 2) - 1};
    const batch_settings batch = {.rows = 4, .chunks = 2};
    shipped_data *shipped = NULL;
    tarry_diagnostic why = {{0}};
    assert_ok(shipped_data_create(&data, &batch, &shipped, &why));
    shipped_data_free(shipped);
    shipped = NULL;
    data.features++;
    assert_int_equal(shipped_data_create(&data, &batch, &shipped, &why), TARRY_ERROR_ARGUMENT);
    assert_null(shipped);
    assert_says(why.text, "the samples of chunk 0 are 1073741832 bytes");
    assert_says(why.text, "more chunks are needed");
}
