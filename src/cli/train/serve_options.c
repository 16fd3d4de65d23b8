/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/serve_options.h"

#include <string.h>

#include "base/diagnostic.h"
#include "runtime/tcp/net/address.h"

#define MOST_SECONDS 1e9

static int read_listen(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    serve_options *options = values;
    return listen_list_add(&options->where, text, diagnostic);
}

static void forget_listen(void *values)
{
    serve_options *options = values;
    options->where.count = 0;
}

#define FIELD(name) .offset = offsetof(serve_options, name)

static const option_entry serve_entries[] = {
    {.name = "listen",
     .argument = "ADDRESS,...",
     .help = "Where workers connect: HOST:PORT, :PORT for all of the machine's addresses, or "
             "unix:PATH; may be given several times (default 127.0.0.1:7077)",
     .kind = OPTION_TEXT,
     .read = read_listen,
     .forget = forget_listen,
     FIELD(listen)},
    {.name = "ship-data",
     .help = "Send workers the samples of their chunks; else they have the data",
     .kind = OPTION_FLAG,
     FIELD(ship_data)},
    {.name = "wait",
     .argument = "SECONDS",
     .help = "How long to wait for all workers before the first round (default 60)",
     .kind = OPTION_REAL,
     .high = MOST_SECONDS,
     FIELD(wait)},
    {.name = "patience",
     .argument = "SECONDS",
     .help = "How long to wait for workers to come back when too few are left for a sum (default "
             "600; 0: the run ends)",
     .kind = OPTION_REAL,
     .high = MOST_SECONDS,
     FIELD(patience)},
    {.name = "decode-threads",
     .argument = "N",
     .help = "Threads that add up coded parts (default: chosen by the number of cores)",
     .kind = OPTION_U32,
     .least = 1,
     .most = 256,
     FIELD(decode_threads)},
};

void serve_options_init(serve_options *options)
{
    *options = (serve_options){.wait = 60, .patience = 600};
}

void serve_options_groups(serve_options *options, option_group groups[SERVE_GROUPS])
{
    groups[0] = OPTION_GROUP("Workers", serve_entries, options);
    groups[1] = network_options_group(&options->network);
}

int serve_options_check(serve_options *options)
{
    if (options->where.count == 0)
        options->where.address[options->where.count++] = "127.0.0.1:7077";
    return network_options_check(&options->network, "serve", options->where.address,
                                 options->where.count, true);
}
