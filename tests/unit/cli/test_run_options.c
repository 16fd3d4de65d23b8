/* SPDX-License-Identifier: Apache-2.0 */
/* Options of runs, as the server's machine gets them. */
#include "cli/options/run_options.h"
#include "cli/text/complain.h"
#include "test.h"

#define SECOND UINT64_C(1000000000)

static int set(run_options *options, const char *name, const char *text)
{
    tarry_diagnostic why;
    const option_group groups[] = {run_options_group(RUN_END, NULL, options),
                                   run_options_group(RUN_LIMITS, NULL, options)};
    return option_set(groups, 2, name, text, &why);
}

TEST(limits_that_are_left_open_are_the_library_s)
{
    tarry_server_settings usual;
    tarry_server_settings_init(&usual);
    run_options options;
    run_options_init(&options);
    assert_ok(set(&options, "sum", "everywhere")); /* as any other option */
    const tarry_server_settings *server = &options.settings.server;
    assert_int_equal(server->silence_ns, usual.silence_ns);
    assert_int_equal(server->attempt_limit_ns, usual.attempt_limit_ns);
    assert_int_equal(server->digest_steps, usual.digest_steps);
    assert_int_equal(run_options_settle(&options), OPTIONS_PROCEED);
}

TEST(limits_reach_the_server)
{
    run_options options;
    run_options_init(&options);
    assert_ok(set(&options, "silence", "0.5"));
    assert_int_equal(run_options_settle(&options), OPTIONS_PROCEED); /* of any run */
    assert_ok(set(&options, "attempt-limit", "7"));
    assert_ok(set(&options, "digest-steps", "3"));
    assert_int_equal(run_options_settle(&options), EXIT_USAGE);
    assert_ok(set(&options, "sum", "everywhere"));
    assert_int_equal(run_options_settle(&options), OPTIONS_PROCEED);
    const tarry_server_settings *server = &options.settings.server;
    assert_int_equal(server->silence_ns, SECOND / 2);
    assert_int_equal(server->attempt_limit_ns, 7 * SECOND);
    assert_int_equal(server->digest_steps, 3);
    assert_ok(set(&options, "attempt-limit", "0"));
    assert_int_equal(server->attempt_limit_ns, 0);
    assert_int_equal(set(&options, "silence", "0"), TARRY_ERROR_FORMAT);
    assert_int_equal(set(&options, "digest-steps", "-1"), TARRY_ERROR_FORMAT);
    assert_int_equal(server->silence_ns, SECOND / 2);
}
