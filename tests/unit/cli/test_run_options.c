/* SPDX-License-Identifier: Apache-2.0 */
/* Options of runs, as the server's machine gets them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/options/run_options.h"
#include "cli/text/complain.h"

#define SECOND UINT64_C(1000000000)

static int set(run_options *options, const char *name, const char *text)
{
    tarry_diagnostic why;
    const option_group groups[] = {run_options_group(RUN_END, NULL, options),
                                   run_options_group(RUN_LIMITS, NULL, options)};
    return option_set(groups, 2, name, text, &why);
}

static void limits_that_are_left_open_are_the_library_s(void **state)
{
    (void)state;
    tarry_server_settings usual;
    tarry_server_settings_init(&usual);
    run_options options;
    run_options_init(&options);
    assert_int_equal(set(&options, "sum", "everywhere"), TARRY_OK); /* as any other option */
    const tarry_server_settings *server = &options.settings.server;
    assert_int_equal(server->silence_ns, usual.silence_ns);
    assert_int_equal(server->attempt_limit_ns, usual.attempt_limit_ns);
    assert_int_equal(server->digest_steps, usual.digest_steps);
    assert_int_equal(run_options_settle(&options), OPTIONS_PROCEED);
}

static void limits_reach_the_server(void **state)
{
    (void)state;
    run_options options;
    run_options_init(&options);
    assert_int_equal(set(&options, "silence", "0.5"), TARRY_OK);
    assert_int_equal(run_options_settle(&options), OPTIONS_PROCEED); /* of any run */
    assert_int_equal(set(&options, "attempt-limit", "7"), TARRY_OK);
    assert_int_equal(set(&options, "digest-steps", "3"), TARRY_OK);
    assert_int_equal(run_options_settle(&options), EXIT_USAGE);
    assert_int_equal(set(&options, "sum", "everywhere"), TARRY_OK);
    assert_int_equal(run_options_settle(&options), OPTIONS_PROCEED);
    const tarry_server_settings *server = &options.settings.server;
    assert_int_equal(server->silence_ns, SECOND / 2);
    assert_int_equal(server->attempt_limit_ns, 7 * SECOND);
    assert_int_equal(server->digest_steps, 3);
    assert_int_equal(set(&options, "attempt-limit", "0"), TARRY_OK);
    assert_int_equal(server->attempt_limit_ns, 0);
    assert_int_equal(set(&options, "silence", "0"), TARRY_ERROR_FORMAT);
    assert_int_equal(set(&options, "digest-steps", "-1"), TARRY_ERROR_FORMAT);
    assert_int_equal(server->silence_ns, SECOND / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_that_are_left_open_are_the_library_s),
        cmocka_unit_test(limits_reach_the_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
