/* SPDX-License-Identifier: Apache-2.0 */
#include "learn/dataset.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/diagnostic.h"
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
