/* SPDX-License-Identifier: Apache-2.0 */
#include "learn/dataset.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/digest.h"
#include "base/memory.h"
#include "base/random.h"

void dataset_free(dataset *data)
{
    if (data == NULL)
        return;
    tarry_allocator memory = data->allocator;
    memory_release(&memory, data->row_start);
    memory_release(&memory, data->column);
    memory_release(&memory, data->value);
    memory_release(&memory, data->label);
    memory_release(&memory, data);
}

/* Says for one row after the other whether it is held out: selection sampling, Algorithm S of
 * D. Knuth, The Art of Computer Programming, volume 2, section 3.4.2. */
typedef struct selection {
    random_stream stream;
    size_t left; /* rows to come */
    size_t need; /* of which this many are to be selected */
} selection;

static selection selection_make(uint64_t seed, size_t rows, size_t need)
{
    return (selection){
        .stream = random_stream_make(seed, RANDOM_HOLDOUT, 0, 0), .left = rows, .need = need};
}

static bool selection_next(selection *state)
{
    bool selected = random_uniform(&state->stream) * (double)state->left <= (double)state->need;
    state->left--;
    state->need -= selected;
    return selected;
}

static size_t stored_values(const dataset *data, size_t row)
{
    return data->sparse ? data->row_start[row + 1] - data->row_start[row] : data->features;
}

static size_t values_start(const dataset *data, size_t row)
{
    return data->sparse ? data->row_start[row] : row * data->features;
}

/* Room for `rows` rows like those of `data`, with `values` stored values; no row in it yet. */
static dataset *make_like(const dataset *data, size_t rows, size_t values)
{
    tarry_allocator memory = data->allocator;
    dataset *made = memory_allocate(&memory, 1, sizeof(*made));
    if (made == NULL)
        return NULL;
    *made = (dataset){
        .allocator = memory,
        .features = data->features,
        .classes = data->classes,
        .sparse = data->sparse,
    };
    made->value = memory_allocate(&memory, values, sizeof(float));
    made->label = memory_allocate(&memory, rows, sizeof(float));
    if (made->value == NULL || made->label == NULL)
        goto no_memory;
    if (data->sparse) {
        made->row_start = memory_allocate(&memory, rows + 1, sizeof(size_t));
        made->column = memory_allocate(&memory, values, sizeof(uint32_t));
        if (made->row_start == NULL || made->column == NULL)
            goto no_memory;
    }
    return made;

no_memory:
    dataset_free(made);
    return NULL;
}

static void append_row(dataset *to, const dataset *from, size_t row)
{
    size_t values = stored_values(from, row);
    size_t start = values_start(from, row), end = values_start(to, to->rows);
    memcpy(to->value + end, from->value + start, values * sizeof(float));
    if (to->sparse) {
        memcpy(to->column + end, from->column + start, values * sizeof(uint32_t));
        to->row_start[to->rows + 1] = end + values;
    }
    to->label[to->rows++] = from->label[row];
}

int dataset_hold_out(dataset **data, double fraction, uint64_t seed, dataset **held_out,
                     tarry_diagnostic *diagnostic)
{
    const dataset *all = *data;
    if (!(fraction > 0 && fraction < 1))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "share of held-out samples: %g is not between 0 and 1", fraction);
    if (all->rows < 2)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "samples can't be held out of a data set that has only one");
    double wanted = round(fraction * (double)all->rows);
    size_t rows = wanted < 1 ? 1 : (size_t)wanted;
    if (rows > all->rows - 1)
        rows = all->rows - 1;

    size_t values = 0, total = values_start(all, all->rows);
    selection pick = selection_make(seed, all->rows, rows);
    for (size_t row = 0; row < all->rows; row++)
        if (selection_next(&pick))
            values += stored_values(all, row);
    dataset *held = make_like(all, rows, values);
    dataset *kept = make_like(all, all->rows - rows, total - values);
    if (held == NULL || kept == NULL) {
        dataset_free(held);
        dataset_free(kept);
        return diagnose_no_memory(diagnostic, "held-out samples");
    }
    pick = selection_make(seed, all->rows, rows);
    for (size_t row = 0; row < all->rows; row++)
        append_row(selection_next(&pick) ? held : kept, all, row);
    dataset_free(*data);
    *data = kept;
    *held_out = held;
    return TARRY_OK;
}

int dataset_align(dataset *train, dataset *test, tarry_diagnostic *diagnostic)
{
    uint32_t features = train->features > test->features ? train->features : test->features;
    uint32_t classes = train->classes > test->classes ? train->classes : test->classes;
    if ((!train->sparse && train->features < features) ||
        (!test->sparse && test->features < features))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "training data have %" PRIu32 " features, test data %" PRIu32,
                        train->features, test->features);
    train->features = test->features = features;
    train->classes = test->classes = classes;
    return TARRY_OK;
}

/* ---- digest ---- */

enum { BATCH = 1024 };

static int add_size(digest *state, size_t size)
{
    const uint32_t halves[2] = {(uint32_t)size, (uint32_t)((uint64_t)size >> 32)};
    return digest_add_u32(state, halves, 2);
}

static int add_floats(digest *state, const float *values, size_t count)
{
    uint32_t bits[BATCH];
    int failed = 0;
    for (size_t start = 0; start < count && failed == 0; start += BATCH) {
        size_t size = count - start < BATCH ? count - start : BATCH;
        memcpy(bits, values + start, size * sizeof(*bits));
        failed = digest_add_u32(state, bits, size);
    }
    return failed;
}

int dataset_digest(const dataset *data, uint8_t out[32])
{
    digest *state = digest_begin();
    if (state == NULL)
        return TARRY_ERROR_NO_MEMORY;
    const uint32_t head[3] = {data->features, data->classes, data->sparse};
    int failed = digest_add_u32(state, head, 3);
    failed |= add_size(state, data->rows);
    size_t rows = data->label != NULL ? data->rows : 0;
    size_t values = rows * (size_t)data->features;
    if (data->sparse && rows > 0) {
        values = data->row_start[data->rows];
        for (size_t row = 0; row <= data->rows && failed == 0; row++)
            failed = add_size(state, data->row_start[row]);
        failed |= digest_add_u32(state, data->column, values);
    }
    failed |= add_floats(state, data->value, values);
    failed |= add_floats(state, data->label, rows);
    failed |= digest_end(state, out);
    return failed == 0 ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

/* ---- code ---- */

enum { VERSION = 1, NUMBER_BYTES = 4 };

static const uint8_t name[8] = "TARRYROW";

typedef struct range {
    size_t start, count; /* of stored values */
} range;

static range values_of(const dataset *data, size_t first, size_t count)
{
    if (data->sparse)
        return (range){data->row_start[first],
                       data->row_start[first + count] - data->row_start[first]};
    return (range){first * data->features, count * data->features};
}

size_t dataset_encoded_size(const dataset *data, size_t first, size_t count)
{
    size_t values = values_of(data, first, count).count;
    size_t numbers = data->sparse ? 2 * (count + values) : count + values;
    return DATASET_CODE_HEAD_BYTES + numbers * NUMBER_BYTES;
}

static uint8_t *put_floats(uint8_t *at, const float *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &numbers[i], sizeof(bits));
        at = bytes_put(at, bits, sizeof(bits));
    }
    return at;
}

void dataset_encode(const dataset *data, size_t first, size_t count, uint8_t *bytes)
{
    range values = values_of(data, first, count);
    uint8_t *at = bytes;
    memcpy(at, name, sizeof(name));
    at = bytes_put(at + sizeof(name), VERSION, 4);
    at = bytes_put(at, data->sparse, 4);
    at = bytes_put(at, data->features, 4);
    at = bytes_put(at, data->classes, 4);
    at = bytes_put(at, count, 8);
    at = bytes_put(at, values.count, 8);
    at = put_floats(at, data->label + first, count);
    if (data->sparse) {
        for (size_t row = first; row < first + count; row++)
            at = bytes_put(at, data->row_start[row + 1] - data->row_start[row], 4);
        for (size_t i = 0; i < values.count; i++)
            at = bytes_put(at, data->column[values.start + i], 4);
    }
    put_floats(at, data->value + values.start, values.count);
}

static int fail(tarry_diagnostic *diagnostic, const char *what)
{
    return diagnose(diagnostic, TARRY_ERROR_FORMAT, "samples as bytes: %s", what);
}

/* What is read, and what is left of it: the head has said that there is enough. */
typedef struct source {
    const uint8_t *at;
} source;

static uint32_t take(source *from)
{
    uint32_t value = (uint32_t)bytes_get(from->at, NUMBER_BYTES);
    from->at += NUMBER_BYTES;
    return value;
}

static float take_float(source *from)
{
    uint32_t bits = take(from);
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* The numbers that the body of so many rows and values holds; UINT64_MAX: more than there can be.
 */
static uint64_t body_numbers(bool sparse, uint64_t rows, uint64_t values)
{
    if (rows > UINT32_MAX || values > UINT64_MAX / 16)
        return UINT64_MAX;
    return (sparse ? 2U : 1U) * (rows + values);
}

static int read_head(const uint8_t *bytes, size_t size, dataset *made, size_t *values,
                     tarry_diagnostic *diagnostic)
{
    if (size < DATASET_CODE_HEAD_BYTES || memcmp(bytes, name, sizeof(name)) != 0)
        return fail(diagnostic, "these are none");
    source from = {bytes + sizeof(name)};
    uint32_t version = take(&from), sparse = take(&from);
    if (version != VERSION)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "samples as bytes: version %" PRIu32 " is not known", version);
    made->features = take(&from);
    made->classes = take(&from);
    uint64_t rows = bytes_get(from.at, 8), stored = bytes_get(from.at + 8, 8);
    uint64_t numbers = body_numbers(sparse == 1, rows, stored);
    size_t body = size - DATASET_CODE_HEAD_BYTES;
    if (sparse > 1 || made->features == 0 || body % NUMBER_BYTES != 0 ||
        numbers != body / NUMBER_BYTES)
        return fail(diagnostic, "their head does not fit their length");
    if (sparse == 0 && stored != rows * made->features)
        return fail(diagnostic, "rows are not of the same length");
    made->sparse = sparse == 1;
    made->rows = rows;
    *values = stored;
    return TARRY_OK;
}

static bool is_label(float label, label_kind kind, uint32_t classes)
{
    switch (kind) {
    case LABEL_REAL:
        return isfinite(label);
    case LABEL_BINARY:
        return label == 1 || label == -1;
    case LABEL_CLASS:
        return label >= 0 && label < (float)classes && label == floorf(label);
    }
    return false;
}

static int read_rows(source *from, dataset *made, size_t values, tarry_diagnostic *diagnostic)
{
    for (size_t row = 0; row < made->rows; row++) {
        size_t count = take(from);
        if (count > values - made->row_start[row])
            return fail(diagnostic, "a row has more values than there are");
        made->row_start[row + 1] = made->row_start[row] + count;
    }
    if (made->row_start[made->rows] != values)
        return fail(diagnostic, "there are more values than the rows have");
    for (size_t row = 0; row < made->rows; row++) {
        for (size_t i = made->row_start[row]; i < made->row_start[row + 1]; i++) {
            made->column[i] = take(from);
            if (made->column[i] >= made->features ||
                (i > made->row_start[row] && made->column[i] <= made->column[i - 1]))
                return fail(diagnostic, "a row's columns are out of order or range");
        }
    }
    return TARRY_OK;
}

static int read_body(source *from, label_kind labels, dataset *made, size_t values,
                     tarry_diagnostic *diagnostic)
{
    for (size_t row = 0; row < made->rows; row++) {
        made->label[row] = take_float(from);
        if (!is_label(made->label[row], labels, made->classes))
            return fail(diagnostic, "a label is not of the kind that the model wants");
    }
    int error = made->sparse ? read_rows(from, made, values, diagnostic) : TARRY_OK;
    for (size_t i = 0; error == TARRY_OK && i < values; i++) {
        made->value[i] = take_float(from);
        if (!isfinite(made->value[i]))
            error = fail(diagnostic, "a value is not finite");
    }
    return error;
}

int dataset_decode(const uint8_t *bytes, size_t size, label_kind labels,
                   const tarry_allocator *allocator, dataset **out, tarry_diagnostic *diagnostic)
{
    dataset head = {.allocator = memory_allocator(allocator)};
    size_t values = 0;
    int error = read_head(bytes, size, &head, &values, diagnostic);
    if (error != TARRY_OK)
        return error;
    dataset *made = make_like(&head, head.rows, values);
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "samples");
    made->rows = head.rows;
    source from = {bytes + DATASET_CODE_HEAD_BYTES};
    error = read_body(&from, labels, made, values, diagnostic);
    if (error == TARRY_OK)
        *out = made;
    else
        dataset_free(made);
    return error;
}

/* ---- synthetic ---- */

/* Deviation of the noise on a score of unit deviation: it turns about a tenth of binary labels. */
static const double noise = 0.3;

static uint32_t output_count(const synthetic_settings *settings)
{
    return settings->labels == LABEL_CLASS ? settings->classes : 1;
}

/* The hidden model, outputs x features, and the scores of a sample behind it. */
static double *draw_hidden(const synthetic_settings *settings, const tarry_allocator *allocator)
{
    size_t outputs = output_count(settings), features = settings->features;
    if (outputs > SIZE_MAX / features - 1)
        return NULL;
    double *hidden = memory_allocate(allocator, outputs * (features + 1), sizeof(double));
    if (hidden == NULL)
        return NULL;
    for (uint32_t k = 0; k < outputs; k++) {
        random_stream stream = random_stream_make(settings->seed, RANDOM_SYNTHETIC, k, 0);
        for (size_t i = 0; i < features; i++)
            hidden[k * features + i] = random_normal(&stream) / sqrt((double)features);
    }
    return hidden;
}

static float label_of(label_kind kind, const double *scores, uint32_t outputs)
{
    if (kind == LABEL_REAL)
        return (float)scores[0];
    if (kind == LABEL_BINARY)
        return scores[0] < 0 ? -1 : 1;
    uint32_t best = 0;
    for (uint32_t k = 1; k < outputs; k++)
        if (scores[k] > scores[best])
            best = k;
    return (float)best;
}

/* Each sample has a stream of its own, so that the first
 * samples do not depend on how many there are. */
static void draw_sample(const synthetic_settings *settings, size_t row, const double *hidden,
                        double *scores, float *sample, float *label)
{
    uint32_t outputs = output_count(settings);
    random_stream stream = random_stream_make(settings->seed, RANDOM_SYNTHETIC, (uint32_t)row,
                                              1 + (uint32_t)(row >> 32));
    for (uint32_t i = 0; i < settings->features; i++)
        sample[i] = (float)random_normal(&stream);
    for (uint32_t k = 0; k < outputs; k++) {
        const double *weights = hidden + (size_t)k * settings->features;
        scores[k] = noise * random_normal(&stream);
        for (uint32_t i = 0; i < settings->features; i++)
            scores[k] += weights[i] * sample[i];
    }
    *label = label_of(settings->labels, scores, outputs);
}

static int check_settings(const synthetic_settings *settings, tarry_diagnostic *diagnostic)
{
    if (settings->rows < 1)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "synthetic data: no rows");
    if (settings->features < 1 || settings->features > INT32_MAX)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "synthetic data: %" PRIu32 " features are not 1..%d", settings->features,
                        INT32_MAX);
    if (settings->labels == LABEL_CLASS &&
        (settings->classes < 2 || settings->classes > DATASET_MAX_CLASSES))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "synthetic data: %" PRIu32 " classes are not 2..%d", settings->classes,
                        DATASET_MAX_CLASSES);
    return TARRY_OK;
}

int dataset_synthetic(const synthetic_settings *settings, const tarry_allocator *allocator,
                      dataset **out, tarry_diagnostic *diagnostic)
{
    int error = check_settings(settings, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_allocator memory = memory_allocator(allocator);
    double *hidden = NULL;
    dataset *data = memory_allocate(&memory, 1, sizeof(*data));
    if (data == NULL)
        goto no_memory;
    data->allocator = memory;
    data->rows = settings->rows;
    data->features = settings->features;
    data->classes = settings->labels == LABEL_CLASS    ? settings->classes
                    : settings->labels == LABEL_BINARY ? 2
                                                       : 0;
    hidden = draw_hidden(settings, &memory);
    data->label = memory_allocate(&memory, data->rows, sizeof(float));
    if (data->rows <= SIZE_MAX / data->features)
        data->value = memory_allocate(&memory, data->rows * data->features, sizeof(float));
    if (hidden == NULL || data->label == NULL || data->value == NULL)
        goto no_memory;
    double *scores = hidden + (size_t)output_count(settings) * data->features;
    for (size_t row = 0; row < data->rows; row++)
        draw_sample(settings, row, hidden, scores, data->value + row * data->features,
                    &data->label[row]);
    memory_release(&memory, hidden);
    *out = data;
    return TARRY_OK;

no_memory:
    memory_release(&memory, hidden);
    dataset_free(data);
    return diagnose_no_memory(diagnostic, "synthetic data");
}
