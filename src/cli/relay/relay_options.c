/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/relay/relay_options.h"

#include "cli/text/complain.h"
#include "runtime/tcp/net/address.h"
#include "runtime/tcp/net/parents.h"

#define MOST_SECONDS 1e9

static int read_connect(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    (void)values;
    return parents_check(text, diagnostic);
}

static int read_listen(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    relay_options *options = values;
    return listen_list_add(&options->where, text, diagnostic);
}

static void forget_listen(void *values)
{
    relay_options *options = values;
    options->where.count = 0;
}

static int read_advertise(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    (void)values;
    return address_check(text, false, diagnostic);
}

#define FIELD(name) .offset = offsetof(relay_options, name)

static const option_entry relay_entries[] = {
    {.name = "connect",
     .argument = "ADDRESS",
     .help =
         "The server: HOST:PORT or unix:PATH; several with commas between them: the next one is "
         "tried where one is lost (required)",
     .kind = OPTION_TEXT,
     .read = read_connect,
     FIELD(connect)},
    {.name = "listen",
     .argument = "ADDRESS,...",
     .help = "Where workers connect: HOST:PORT, :PORT for all of the machine's addresses, or "
             "unix:PATH; may be given several times (required)",
     .kind = OPTION_TEXT,
     .read = read_listen,
     .forget = forget_listen,
     FIELD(listen)},
    {.name = "advertise",
     .argument = "ADDRESS",
     .help =
         "Where the workers of other relays are told to connect when they lose theirs (default: "
         "the first address of --listen, unless that is all of them)",
     .kind = OPTION_TEXT,
     .read = read_advertise,
     FIELD(advertise)},
    {.name = "patience",
     .argument = "SECONDS",
     .help = "How long to try to reach the server, at first and whenever the connection is lost "
             "(default 300)",
     .kind = OPTION_REAL,
     .high = MOST_SECONDS,
     FIELD(patience)},
    {.name = "quiet", .help = "Print nothing but errors", .kind = OPTION_FLAG, FIELD(quiet)},
};

void relay_options_init(relay_options *options)
{
    *options = (relay_options){.patience = 300};
}

void relay_options_groups(relay_options *options, option_group groups[RELAY_GROUPS])
{
    groups[0] = OPTION_GROUP("The relay", relay_entries, options);
    groups[1] = network_options_group_without_memory(&options->network);
}

int relay_options_check(const relay_options *options)
{
    if (options->connect == NULL)
        return complain(EXIT_USAGE, "relay: say where the server is (--connect ADDRESS)");
    if (options->where.count == 0)
        return complain(EXIT_USAGE, "relay: say where workers connect (--listen ADDRESS)");
    int status = network_options_check_connect(&options->network, "relay", options->connect);
    if (status == OPTIONS_PROCEED)
        status = network_options_check(&options->network, "relay", options->where.address,
                                       options->where.count, true);
    return status;
}
