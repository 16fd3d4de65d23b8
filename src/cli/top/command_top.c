/* SPDX-License-Identifier: Apache-2.0 */
/* tarry top: how a run on other machines stands. */
#include <locale.h>
#include <stddef.h>

#include "cli/command.h"
#include "cli/options/network_options.h"
#include "cli/options/options.h"
#include "cli/text/complain.h"
#include "cli/text/terminal.h"
#include "cli/top/top.h"
#include "runtime/tcp/net/address.h"

static int read_address(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    (void)values;
    return address_check(text, false, diagnostic);
}

static const option_entry entries[] = {
    {.name = "connect",
     .argument = "ADDRESS",
     .help = "The server: HOST:PORT, [HOST]:PORT or unix:PATH (required)",
     .kind = OPTION_TEXT,
     .offset = offsetof(top_options, connect),
     .read = read_address},
    {.name = "credentials",
     .argument = "DIR",
     .help = "A viewer's folder, made by tarry keys; not needed over a Unix socket",
     .kind = OPTION_TEXT,
     .offset = offsetof(top_options, security.credentials)},
    {.name = "insecure",
     .help = "Plain text in its place, on this machine only",
     .kind = OPTION_FLAG,
     .offset = offsetof(top_options, security.insecure)},
    {.name = "force",
     .help = "With --insecure: to any machine",
     .kind = OPTION_FLAG,
     .offset = offsetof(top_options, security.force)},
    {.name = "once",
     .help = "Print how the run stands once, and end; so it does where it writes to no terminal",
     .kind = OPTION_FLAG,
     .offset = offsetof(top_options, once)},
    {.name = "interval",
     .argument = "SECONDS",
     .help = "Time between two pictures, 0.1 to 3600 (default 0.5, as often as the server tells)",
     .kind = OPTION_REAL,
     .offset = offsetof(top_options, interval),
     .low = 0.1,
     .high = 3600},
};

static int check(const top_options *options)
{
    if (options->connect == NULL)
        return complain(EXIT_USAGE, "top: say where the server is (--connect ADDRESS)");
    return network_security_check(&options->security, "top",
                                  address_text_is_file(options->connect));
}

int command_top(int argc, char **argv)
{
    top_options options = {.interval = 0.5};
    const option_group group = OPTION_GROUP("The run", entries, &options);
    const option_command command = {
        "top", "Shows how a run on other machines stands: its rounds, and each worker.", &group, 1};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED)
        status = check(&options);
    if (status == OPTIONS_PROCEED) {
        setlocale(LC_CTYPE, ""); /* how wide the characters of a note are */
        status = options.once || !terminal_is_there() ? top_once(&options) : top_live(&options);
    }
    config_free(file);
    return status;
}
