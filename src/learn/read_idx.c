/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "learn/reader.h"

/* The third byte of a file: what its elements are,
 * each with its first byte the most significant. */
enum {
    IDX_UINT8 = 0x08,
    IDX_INT8 = 0x09,
    IDX_INT16 = 0x0B,
    IDX_INT32 = 0x0C,
    IDX_FLOAT = 0x0D,
    IDX_DOUBLE = 0x0E
};

enum { PIECE = 4096 }; /* elements taken at a time */

typedef struct idx_header {
    int type;
    size_t element_bytes;
    unsigned dimensions;
    uint64_t samples;  /* the first dimension */
    uint64_t features; /* the product of the others */
} idx_header;

static size_t element_size(int type)
{
    switch (type) {
    case IDX_UINT8:
    case IDX_INT8:
        return 1;
    case IDX_INT16:
        return 2;
    case IDX_INT32:
    case IDX_FLOAT:
        return 4;
    case IDX_DOUBLE:
        return 8;
    default:
        return 0;
    }
}

bool idx_starts(const uint8_t *bytes, size_t count)
{
    return count >= 2 && bytes[0] == 0 && bytes[1] == 0;
}

static uint64_t big_endian(const uint8_t *bytes, size_t count)
{
    uint64_t number = 0;
    for (size_t i = 0; i < count; i++)
        number = number << 8 | bytes[i];
    return number;
}

static double element(int type, const uint8_t *bytes)
{
    uint64_t bits = big_endian(bytes, element_size(type));
    switch (type) {
    case IDX_UINT8:
        return (double)bits;
    case IDX_INT8:
        return (int8_t)bits;
    case IDX_INT16:
        return (int16_t)bits;
    case IDX_INT32:
        return (int32_t)bits;
    case IDX_FLOAT: {
        uint32_t half = (uint32_t)bits;
        float number;
        memcpy(&number, &half, sizeof(number));
        return (double)number;
    }
    default: {
        double number;
        memcpy(&number, &bits, sizeof(number));
        return number;
    }
    }
}

/* Takes `count` bytes of a header. */
static int header_bytes(input *in, size_t count, const uint8_t **bytes)
{
    size_t got;
    int error = input_bytes(in, count, bytes, &got);
    if (error == TARRY_OK && got < count)
        error = input_fail(in, "the file ends within its header");
    return error;
}

static int read_header(input *in, idx_header *header)
{
    const uint8_t *bytes;
    int error = header_bytes(in, 4, &bytes);
    if (error != TARRY_OK)
        return error;
    if (bytes[0] != 0 || bytes[1] != 0)
        return input_fail(in, "%02x %02x is not how an IDX file starts", bytes[0], bytes[1]);
    if (element_size(bytes[2]) == 0)
        return input_fail(in, "unknown element type 0x%02x", bytes[2]);
    if (bytes[3] == 0)
        return input_fail(in, "the file has no dimensions");
    *header = (idx_header){
        .type = bytes[2],
        .element_bytes = element_size(bytes[2]),
        .dimensions = bytes[3],
        .features = 1,
    };
    for (unsigned k = 0; k < header->dimensions; k++) {
        error = header_bytes(in, 4, &bytes);
        if (error != TARRY_OK)
            return error;
        uint64_t size = big_endian(bytes, 4);
        if (k == 0) {
            header->samples = size;
            continue;
        }
        header->features *= size;
        if (size == 0)
            return input_fail(in, "a dimension of 0");
        if (header->features > INT32_MAX)
            return input_fail(in, "a sample has more than %d numbers", INT32_MAX);
    }
    return TARRY_OK;
}

/* Takes and decodes up to PIECE of the `left` elements still to come. */
static int next_piece(input *in, const idx_header *header, uint64_t left, float *values,
                      size_t *count)
{
    const uint8_t *bytes;
    size_t got, size = header->element_bytes;
    size_t wanted = left < PIECE ? (size_t)left : PIECE;
    int error = input_bytes(in, wanted * size, &bytes, &got);
    if (error != TARRY_OK)
        return error;
    if (got < wanted * size) {
        in->position += got;
        return input_fail(in, "the file ends where %" PRIu64 " more numbers should follow",
                          left - got / size);
    }
    for (size_t i = 0; i < wanted; i++) {
        double number = element(header->type, bytes + i * size);
        values[i] = (float)number;
        if (isfinite(values[i]))
            continue;
        in->position += i * size;
        return input_fail(in, isfinite(number) ? "a number does not fit a float"
                                               : "a number is not finite");
    }
    *count = wanted;
    return TARRY_OK;
}

static int check_end(input *in)
{
    const uint8_t *bytes;
    size_t got;
    int error = input_bytes(in, 1, &bytes, &got);
    if (error == TARRY_OK && got > 0)
        error = input_fail(in, "more data than the header says");
    return error;
}

static int read_images(input *in, const idx_header *header, dataset_builder *builder)
{
    float values[PIECE];
    size_t count;
    float scale = header->type == IDX_UINT8 ? 255 : 1;
    for (uint64_t left = header->samples * header->features; left > 0; left -= count) {
        int error = next_piece(in, header, left, values, &count);
        if (error != TARRY_OK)
            return error;
        for (size_t i = 0; i < count; i++)
            values[i] /= scale;
        error = builder_add_values(builder, values, count);
        if (error != TARRY_OK)
            return error;
    }
    return check_end(in);
}

static int read_labels(input *in, const idx_header *header, dataset_builder *builder)
{
    float values[PIECE];
    size_t count;
    for (uint64_t left = header->samples; left > 0; left -= count) {
        int error = next_piece(in, header, left, values, &count);
        for (size_t i = 0; i < count && error == TARRY_OK; i++) {
            error = builder_add_label(builder, values[i], in);
            in->position += header->element_bytes;
        }
        if (error != TARRY_OK)
            return error;
    }
    return check_end(in);
}

int read_idx(input *images, input *labels, dataset_builder *builder)
{
    idx_header image_header, label_header;
    int error = read_header(images, &image_header);
    if (error == TARRY_OK)
        error = read_header(labels, &label_header);
    if (error != TARRY_OK)
        return error;
    if (label_header.dimensions != 1)
        return input_fail_whole(labels, "labels have %u dimensions, not 1",
                                label_header.dimensions);
    if (label_header.samples != image_header.samples)
        return input_fail_whole(labels, "%" PRIu64 " labels for %" PRIu64 " images",
                                label_header.samples, image_header.samples);
    builder->features = (uint32_t)image_header.features;
    error = read_images(images, &image_header, builder);
    return error != TARRY_OK ? error : read_labels(labels, &label_header, builder);
}
