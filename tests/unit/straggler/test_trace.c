/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "failing_allocator.h"
#include "straggler/straggler.h"
#include "test.h"
#include "test_file.h"

#define HEADER "step,worker,chunk,seconds\n"

/* The name has ',' and ':' in it, which a FILE may. */
static char path[] = "trace,a:b-XXXXXX";

static int make_file(void **state)
{
    int descriptor = mkstemp(path);
    return descriptor < 0 ? -1 : close(descriptor);
}

static int remove_file(void **state)
{
    return unlink(path);
}

static int create(const char *file, tarry_straggler **straggler, tarry_diagnostic *diagnostic)
{
    char spec[4096];
    snprintf(spec, sizeof(spec), "none+trace:%s", file);
    return tarry_straggler_create(spec, 8, 1, NULL, straggler, diagnostic);
}

TEST(a_trace_is_replayed_modulo_its_size)
{
    char text[2048] = HEADER;
    /* 2 steps, 3 workers, 2 chunks, in reverse;
     * the last line has no end, one ends as on Windows. */
    for (int i = 11; i >= 0; i--) {
        char line[64];
        snprintf(line, sizeof(line), "%d,%d,%d,%d.5%s", i / 6, i / 2 % 3, i % 2, i,
                 i == 5 ? "\r\n" : (i == 0 ? "" : "\n"));
        strcat(text, line);
    }
    write_text(path, text);
    OWNED(tarry_straggler) straggler = NULL;
    assert_ok(create(path, &straggler, NULL));
    for (uint32_t round = 0; round < 5; round++)
        for (uint32_t worker = 0; worker < 8; worker++)
            for (uint32_t position = 0; position < 5; position++) {
                uint64_t cell = round % 2 * 6 + worker % 3 * 2 + position % 2;
                assert_int_equal(
                    tarry_straggler_time_ns(straggler, round, worker, position, 0, 1, 1000000),
                    cell * 1000000000 + 501000000);
                for (uint32_t piece = 0; piece < 4; piece++)
                    assert_int_equal(tarry_straggler_time_ns(straggler, round, worker,
                                                             4 * position + piece, 0, 4, 1000000),
                                     cell * 250000000 + 126000000);
            }
}

/* 2 steps, 3 workers, 2 chunks: six pairs to a step, whoever asks. */
TEST(a_trace_by_chunk_belongs_to_the_chunks)
{
    char text[2048] = HEADER, by_chunk[256];
    for (int i = 0; i < 12; i++) {
        char line[64];
        snprintf(line, sizeof(line), "%d,%d,%d,%d\n", i / 6, i / 2 % 3, i % 2, i);
        strcat(text, line);
    }
    write_text(path, text);
    snprintf(by_chunk, sizeof(by_chunk), "%s/chunk", path);
    tarry_straggler *straggler;
    assert_ok(create(by_chunk, &straggler, NULL));
    assert_true(tarry_straggler_adds(straggler));
    for (uint32_t round = 0; round < 5; round++)
        for (uint32_t worker = 0; worker < 8; worker++)
            for (uint32_t chunk = 0; chunk < 20; chunk++)
                assert_int_equal(
                    tarry_straggler_time_ns(straggler, round, worker, chunk % 3, chunk, 1, 5),
                    (uint64_t)(round % 2 * 6 + chunk % 6) * 1000000000 + 5);
    for (uint32_t piece = 0; piece < 100; piece++)
        assert_int_equal(tarry_straggler_time_ns(straggler, 1, 3, piece % 7, piece, 5, 5),
                         (uint64_t)(6 + piece / 5 % 6) * 200000000 + 5);
    tarry_straggler_free(straggler);
    tarry_diagnostic diagnostic;
    assert_int_equal(create("/chunk", &straggler, &diagnostic), TARRY_ERROR_FORMAT);
    assert_string_equal(diagnostic.text, "straggler term 'trace:/chunk': FILE is missing");
}

TEST(every_malformed_trace_is_named)
{
    static const struct {
        const char *text, *where, *what;
    } cases[] = {
        {"", ":1: ", "the header must be 'step,worker,chunk,seconds'"},
        {"0,0,0,1\n", ":1: ", "the header must be"},
        {HEADER, ": ", "no lines after the header"},
        {HEADER "\n", ":2: ", "step '' is not a number"},
        {HEADER "0,0,0\n", ":2: ", "expected 4 fields"},
        {HEADER "0,0,0,1,2\n", ":2: ", "expected 4 fields"},
        {HEADER "0,0,0,1\n0,x,0,1\n", ":3: ", "worker 'x' is not a number"},
        {HEADER "0,0,-1,1\n", ":2: ", "chunk '-1' is not a number of 0 or more"},
        {HEADER "0,0,0.5,1\n", ":2: ", "chunk '0.5' is not a whole number"},
        {HEADER "1048576,0,0,1\n", ":2: ", "step '1048576' is not a whole number up to 1048575"},
        {HEADER "0,0,0,-1\n", ":2: ", "seconds '-1' is not a number of 0 or more"},
        {HEADER "0,0,0,nan\n", ":2: ", "seconds 'nan' is not a number"},
        {HEADER "0,0,0, 1\n", ":2: ", "seconds ' 1' is not a number"},
        {HEADER "0,0,0,1\n0,0,0,1\n", ":3: ", "step 0, worker 0, chunk 0 stands twice"},
        {HEADER "0,0,0,1\n0,0,2,1\n", ": ", "step 0, worker 0, chunk 1 is missing"},
        {HEADER "0,0,0,1\n1,1,0,1\n0,1,0,1\n", ": ", "step 1, worker 0, chunk 0 is missing"},
        {HEADER "1048575,1048575,1048575,1\n", ": ", "step 0, worker 0, chunk 0 is missing"},
        {HEADER "0,0,0,"
                "0000000000000000000000000000000000000000000000000000000000000000000000000000000000"
                "0000000000000000000000000000000000000000000000000000000000000000000000000000000000"
                "0000000000000000000000000000000000000000000000000000000000000000000000000000000000"
                "0000000000000000000000000000000000000000000000000000000000000000000000000000000000"
                "1\n",
         ":2: ", "line too long"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char expected[512];
        tarry_straggler *straggler = NULL;
        tarry_diagnostic diagnostic = {""};
        write_text(path, cases[i].text);
        assert_int_equal(create(path, &straggler, &diagnostic), TARRY_ERROR_FORMAT);
        snprintf(expected, sizeof(expected), "%s%s%s", path, cases[i].where, cases[i].what);
        if (strncmp(diagnostic.text, expected, strlen(expected)) != 0)
            fail_msg("'%s' instead of '%s'", diagnostic.text, expected);
        assert_null(straggler);
    }
}

TEST(files_that_cannot_be_read_are_named)
{
    tarry_straggler *straggler = NULL;
    tarry_diagnostic diagnostic;
    assert_int_equal(create("no-such-file", &straggler, &diagnostic), TARRY_ERROR_FILE);
    assert_string_equal(diagnostic.text, "no-such-file: No such file or directory");
    assert_int_equal(create(".", &straggler, &diagnostic), TARRY_ERROR_FILE);
    assert_string_equal(diagnostic.text, ".: Is a directory");
    assert_null(straggler);
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    (void)user;
    char spec[64];
    OWNED(tarry_straggler) straggler = NULL;
    snprintf(spec, sizeof(spec), "trace:%s+dead:1+trace:%s", path, path);
    return tarry_straggler_create(spec, 4, 1, allocator, &straggler, NULL);
}

TEST(each_allocation_may_fail)
{
    static char text[1 << 14] = HEADER;
    size_t length = strlen(text);
    for (int i = 0; i < 600; i++) /* more than the first room for cells */
        length +=
            (size_t)snprintf(text + length, sizeof(text) - length, "%d,%d,0,1\n", i / 20, i % 20);
    write_text(path, text);
    assert_in_range(fail_each_allocation(attempt, NULL), 12, 20);
}

/* Replays recorded traces where the test data is at hand. */
TEST(recorded_traces_are_read)
{
    static const struct {
        const char *name;
        uint32_t steps, workers, chunks;
        double first;
    } traces[] = {{"sequence_imbalance.csv", 45, 32, 8, 1.4129},
                  {"slow_worker.csv", 44, 4, 32, 3.2094}};
    const char *data = getenv("TARRY_TEST_DATA");
    for (size_t i = 0; i < sizeof(traces) / sizeof(*traces); i++) {
        char file[4096];
        snprintf(file, sizeof(file), "%s/traces/%s", data != NULL ? data : "", traces[i].name);
        if (data == NULL || access(file, R_OK) != 0) {
            print_message("%s is not there: skipped\n", traces[i].name);
            skip();
        }
        trace *read = NULL;
        assert_ok(trace_read(file, NULL, &read, NULL));
        assert_int_equal(read->steps, traces[i].steps);
        assert_int_equal(read->workers, traces[i].workers);
        assert_int_equal(read->chunks, traces[i].chunks);
        assert_float_equal(trace_seconds(read, 0, 0, 0), traces[i].first, 1e-5);
        assert_float_equal(trace_seconds(read, traces[i].steps, traces[i].workers, 0),
                           traces[i].first, 1e-5);
        trace_free(read, NULL);
    }
}

TEST_GROUP(make_file, remove_file)
