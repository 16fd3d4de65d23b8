/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench.h"
#include "cli/bench_memory.h"
#include "coding/kernel.h"

/* What a call wrote. */
typedef struct output {
    int status;
    char out[20000];
    char err[2000];
} output;

static void read_back(FILE *file, char *text, size_t size)
{
    rewind(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

static int redirect(int descriptor, FILE *file)
{
    fflush(NULL);
    int saved = dup(descriptor);
    assert_true(saved >= 0);
    assert_true(dup2(fileno(file), descriptor) >= 0);
    return saved;
}

static void restore(int descriptor, int saved)
{
    fflush(NULL);
    assert_true(dup2(saved, descriptor) >= 0);
    close(saved);
}

/* Runs `tarry bench` with the words of `arguments`. */
static output run(const char *arguments)
{
    char words[300], *argv[20] = {(char[]){"bench"}}, *rest = NULL;
    int argc = 1;
    snprintf(words, sizeof(words), "%s", arguments);
    for (char *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    FILE *out = tmpfile(), *err = tmpfile();
    assert_non_null(out);
    assert_non_null(err);
    int saved_out = redirect(STDOUT_FILENO, out), saved_err = redirect(STDERR_FILENO, err);
    output result = {.status = command_bench(argc, argv)};
    restore(STDOUT_FILENO, saved_out);
    restore(STDERR_FILENO, saved_err);
    read_back(out, result.out, sizeof(result.out));
    read_back(err, result.err, sizeof(result.err));
    return result;
}

static void every_kernel_is_measured(void **state)
{
    (void)state;
    for (size_t index = 0; kernel_at(index) != NULL; index++) {
        char arguments[200];
        snprintf(arguments, sizeof(arguments),
                 "kernels --json --dimension 1e3 --inputs 1,17 --parts 3 --repeat 2 --kernel %s",
                 kernel_at(index)->name);
        output result = run(arguments);
        assert_int_equal(result.status, 0);
        assert_string_equal(result.err, "");
        json_t *report = json_loads(result.out, 0, NULL);
        assert_non_null(report);
        const json_t *config = json_object_get(report, "config");
        assert_string_equal(json_string_value(json_object_get(config, "kernel")),
                            kernel_at(index)->name);
        assert_int_equal(json_integer_value(json_object_get(config, "parts")), 3);
        const json_t *rows = json_object_get(report, "results");
        assert_int_equal(json_array_size(rows), 2);
        const json_t *row = json_array_get(rows, 1);
        assert_int_equal(json_integer_value(json_object_get(row, "inputs")), 17);
        const char *figures[] = {"read", "sgemv", "stored", "encode", "decode"};
        for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++)
            assert_true(json_real_value(json_object_get(row, figures[i])) > 0);
        json_decref(report);
    }
}

static void the_table_has_a_line_per_number_of_inputs(void **state)
{
    (void)state;
    output result = run("kernels --dimension 100 --inputs 3,5 --repeat 1");
    assert_int_equal(result.status, 0);
    assert_non_null(strstr(result.out, "d = 100, 1 part, one thread, best of 1"));
    assert_non_null(strstr(result.out, "\n     3 "));
    assert_non_null(strstr(result.out, "\n     5 "));
}

static void help_goes_to_stdout(void **state)
{
    (void)state;
    output result = run("kernels --help");
    assert_int_equal(result.status, 0);
    assert_non_null(strstr(result.out, "--inputs=LIST"));
    assert_non_null(strstr(result.out, "Usage: tarry bench kernels"));
    assert_string_equal(result.err, "");
    result = run("--help");
    assert_int_equal(result.status, 0);
    assert_non_null(strstr(result.out, "kernels"));
}

static void wrong_usage_is_one_clear_line(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *message;
    } cases[] = {
        {"", "tarry: bench: say what to measure: kernels\n"},
        {"disks", "tarry: bench: 'disks' can't be measured: kernels\n"},
        {"kernels --dimension 0",
         "tarry: --dimension: '0' is not a whole number from 1 to 2000000000\n"},
        {"kernels --dimension 1.5",
         "tarry: --dimension: '1.5' is not a whole number from 1 to 2000000000\n"},
        {"kernels --parts nan", "tarry: --parts: 'nan' is not a whole number from 1 to 64\n"},
        {"kernels --repeat 3x", "tarry: --repeat: '3x' is not a whole number from 1 to 1000000\n"},
        {"kernels --inputs 2,,3", "tarry: --inputs: '2,,3' is not a list of at most 32 whole "
                                  "numbers from 1 to 1024, like 2,4,8\n"},
        {"kernels --inputs 2,", "tarry: --inputs: '2,' is not a list of at most 32 whole numbers "
                                "from 1 to 1024, like 2,4,8\n"},
        {"kernels --kernel mmx", NULL},
        {"kernels --fast", "tarry: --fast: unknown option, or a value is missing or too many\n"},
        {"kernels --inputs",
         "tarry: --inputs: unknown option, or a value is missing or too many\n"},
        {"kernels more", "tarry: more: unexpected argument\n"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        output result = run(cases[i].arguments);
        assert_int_equal(result.status, 2);
        assert_string_equal(result.out, "");
        if (cases[i].message != NULL)
            assert_string_equal(result.err, cases[i].message);
    }
    output result = run("kernels --kernel mmx");
    assert_non_null(strstr(result.err, "tarry: --kernel: 'mmx' is none of those"));
    assert_non_null(strstr(result.err, " reference"));
}

static void too_much_memory_is_an_error(void **state)
{
    (void)state;
    output result = run("kernels --dimension 2e9 --inputs 1024");
    assert_int_equal(result.status, 1);
    assert_string_equal(result.out, "");
    assert_string_equal(result.err, "tarry: bench kernels: out of memory\n");
}

static void reading_is_a_sum(void **state)
{
    (void)state;
    float values[300];
    for (size_t length = 0; length <= 300; length += 7) {
        for (size_t x = 0; x < length; x++)
            values[x] = (float)(x + 1);
        assert_true(bench_read(values, length) == (float)(length * (length + 1) / 2));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_is_measured),
        cmocka_unit_test(the_table_has_a_line_per_number_of_inputs),
        cmocka_unit_test(help_goes_to_stdout),
        cmocka_unit_test(wrong_usage_is_one_clear_line),
        cmocka_unit_test(too_much_memory_is_an_error),
        cmocka_unit_test(reading_is_a_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
