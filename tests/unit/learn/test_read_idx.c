/* SPDX-License-Identifier: Apache-2.0 */
#include "data_file.h"
#include "failing_allocator.h"
#include "test.h"

#define IMAGES "x-images-idx3-ubyte"
#define LABELS "x-labels-idx1-ubyte"

/* The bytes of a string literal, which may hold NULs. */
#define BYTES(literal) (literal), sizeof(literal) - 1

static const dataset_source source = {.path = IMAGES, .labels = LABEL_CLASS};

#define TWO_IMAGES "\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x03"
#define TWO_LABELS "\0\0\x08\x01\0\0\0\x02"

TEST(images_are_scaled_and_labelled)
{
    write_file(IMAGES, BYTES(TWO_IMAGES "\0\x33\xff\x01\x02\x03"));
    write_gzip(LABELS, BYTES(TWO_LABELS "\x04\x09"));
    const float values[] = {0, 0.2F, 1, 1 / 255.0F, 2 / 255.0F, 3 / 255.0F};
    OWNED(dataset) data = read_good(source);
    check_dense(data, 2, 3, values, (float[]){4, 9});
    assert_int_equal(data->classes, 10);

    write_file("other", BYTES(TWO_LABELS "\x01\0"));
    OWNED(dataset)
    named =
        read_good((dataset_source){.path = IMAGES, .labels_path = "other", .labels = LABEL_BINARY});
    check_dense(named, 2, 3, values, (float[]){1, -1});
}

/* More numbers than are taken at a time. */
TEST(images_longer_than_a_piece_are_read)
{
    enum { FEATURES = 5000 };
    OWNED(uint8_t) bytes = checked_calloc(16 + 2 * FEATURES, 1);
    OWNED(float) values = checked_calloc(2 * FEATURES, sizeof(float));
    memcpy(bytes, "\0\0\x08\x03\0\0\0\x02\0\0\0\x32\0\0\0\x64", 16);
    for (size_t i = 0; i < 2 * FEATURES; i++) {
        bytes[16 + i] = (uint8_t)(i % 251);
        values[i] = (float)(i % 251) / 255;
    }
    write_gzip(IMAGES, bytes, 16 + 2 * FEATURES);
    write_file(LABELS, BYTES(TWO_LABELS "\0\x01"));
    OWNED(dataset) data = read_good(source);
    check_dense(data, 2, FEATURES, values, (float[]){0, 1});
    fail_allocations_of(source);
}

TEST(damaged_images_are_refused)
{
    const struct {
        const char *bytes;
        size_t size;
        const char *message;
    } cases[] = {
        {BYTES(""), IMAGES ": byte 0: the file ends within its header"},
        {BYTES("\0\0\x08"), IMAGES ": byte 0: the file ends within its header"},
        {BYTES("ab\x08\x01"), IMAGES ": byte 0: 61 62 is not how an IDX file starts"},
        {BYTES("\0\0\x0a\x01"), IMAGES ": byte 0: element type 0x0a is not 0x08, unsigned bytes"},
        {BYTES("\0\0\x08\0"), IMAGES ": byte 0: the file has no dimensions"},
        {BYTES("\0\0\x08\x03\0\0\0\x02\0\0"), IMAGES ": byte 8: the file ends within its header"},
        {BYTES("\0\0\x08\x02\0\0\0\x02\0\0\0\0"), IMAGES ": byte 8: a dimension of 0"},
        {BYTES("\0\0\x08\x02\0\0\0\x02\x80\0\0\0"),
         IMAGES ": byte 8: a sample has more than 2147483647 numbers"},
        {BYTES("\0\0\x08\x03\0\0\0\x02\x7f\xff\xff\xff\0\0\0\x02"),
         IMAGES ": byte 12: a sample has more than 2147483647 numbers"},
        {BYTES(TWO_IMAGES "\0\0\0\0"),
         IMAGES ": byte 20: the file ends where 2 more numbers should follow"},
        {BYTES(TWO_IMAGES "\0\0\0\0\0\0\0"), IMAGES ": byte 22: more data than the header says"},
        {BYTES("\0\0\x0d\x01\0\0\0\x02\x3f\xc0\0\0\x7f\xc0\0\0"),
         IMAGES ": byte 0: element type 0x0d is not 0x08, unsigned bytes"},
    };
    write_file(LABELS, BYTES(TWO_LABELS "\0\x01"));
    dataset_source forced = source;
    forced.format = DATASET_IDX;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        write_file(IMAGES, cases[i].bytes, cases[i].size);
        expect_error(forced, TARRY_ERROR_FORMAT, cases[i].message);
        if (cases[i].size > 1 && cases[i].bytes[0] == '\0')
            expect_error(source, TARRY_ERROR_FORMAT, cases[i].message);
    }
}

TEST(damaged_labels_are_refused)
{
    const struct {
        const char *bytes;
        size_t size;
        const char *message;
    } cases[] = {
        {BYTES(""), LABELS ": byte 0: the file ends within its header"},
        {BYTES("\0\0\x08\x02\0\0\0\x02\0\0\0\x01\0\x01"),
         LABELS ": labels have 2 dimensions, not 1"},
        {BYTES("\0\0\x08\x01\0\0\0\x03\0\0\0"), LABELS ": 3 labels for 2 images"},
        {BYTES(TWO_LABELS "\0"),
         LABELS ": byte 9: the file ends where 1 more numbers should follow"},
        {BYTES(TWO_LABELS "\0\0\0"), LABELS ": byte 10: more data than the header says"},
    };
    write_file(IMAGES, BYTES(TWO_IMAGES "\0\0\0\0\0\0"));
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        write_file(LABELS, cases[i].bytes, cases[i].size);
        expect_error(source, TARRY_ERROR_FORMAT, cases[i].message);
    }
    write_file(IMAGES, BYTES("\0\0\x08\x03\0\0\0\0\0\0\0\x01\0\0\0\x01"));
    write_file(LABELS, BYTES("\0\0\x08\x01\0\0\0\0"));
    expect_error(source, TARRY_ERROR_FORMAT, IMAGES ": no samples");
}

/* Memory follows the data that arrive, not what a header says will. */
TEST(headers_that_promise_too_much_take_no_memory)
{
    write_file(IMAGES, BYTES("\0\0\x08\x03\x80\0\0\0\0\0\x70\0\0\0\x70\0"));
    write_file(LABELS, BYTES("\0\0\x08\x01\x80\0\0\0"));
    expect_error(source, TARRY_ERROR_FORMAT,
                 IMAGES ": byte 16: the file ends where 1765411053929234432 more numbers should "
                        "follow");
    failing_allocator counting;
    failing_allocator_init(&counting, SIZE_MAX);
    dataset *data = NULL;
    assert_int_equal(dataset_read(&source, &counting.allocator, &data, NULL), TARRY_ERROR_FORMAT);
    assert_int_equal(counting.allocations, 3); /* two buffers and the labels' name */
}

TEST(a_missing_file_of_labels_is_named)
{
    write_file("a-images-idx3", BYTES(TWO_IMAGES "\0\0\0\0\0\0"));
    expect_error((dataset_source){.path = "a-images-idx3"}, TARRY_ERROR_FILE,
                 "a-labels-idx1: No such file or directory");
    write_file("plain", BYTES(TWO_IMAGES "\0\0\0\0\0\0"));
    expect_error((dataset_source){.path = "plain"}, TARRY_ERROR_ARGUMENT,
                 "plain: no file of labels given, and no \"images-idx3\" in the name to replace");
}

TEST(failed_allocations_are_reported)
{
    write_file(IMAGES, BYTES(TWO_IMAGES "\0\x33\xff\x01\x02\x03"));
    write_file(LABELS, BYTES(TWO_LABELS "\x04\x09"));
    fail_allocations_of(source);
}

TEST_GROUP(data_files_begin, data_files_end)
