/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/work/work_options.h"

#include <string.h>

#include "base/diagnostic.h"
#include "base/parse.h"
#include "cli/options/data_options.h"
#include "cli/options/gone.h"
#include "cli/text/complain.h"
#include "plan/rack/rack.h"
#include "runtime/tcp/net/address.h"
#include "straggler/straggler.h"

#define MOST_SECONDS 1e9

static int read_connect(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    (void)values;
    if (strchr(text, ',') != NULL)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s", gone_option("connect:LIST"));
    return address_check(text, false, diagnostic);
}

/* Workers meet over TCP. */
static int check_tcp(const char *text, bool listening, tarry_diagnostic *diagnostic)
{
    if (strncmp(text, "unix:", 5) == 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: workers meet at HOST:PORT", text);
    return address_check(text, listening, diagnostic);
}

static int read_listen(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    (void)values;
    return check_tcp(text, true, diagnostic);
}

static int read_advertise(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    (void)values;
    return check_tcp(text, false, diagnostic);
}

static int read_straggler_seed(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    work_options *options = values;
    int error = parse_whole(text, 0, UINT64_MAX, &options->straggler_seed, diagnostic);
    options->straggler_seeded = error == TARRY_OK;
    return error;
}

static int read_rack(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    (void)values;
    if (text[0] != '\0' && rack_is_name(text))
        return TARRY_OK;
    return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                    "'%.100s' is not 1 to %d printable characters without blanks", text,
                    TARRY_RACK_BYTES);
}

#define FIELD(name) .offset = offsetof(work_options, name)

static const option_entry server_entries[] = {
    {.name = "connect",
     .argument = "ADDRESS",
     .help = "The server: HOST:PORT or unix:PATH (default 127.0.0.1:7077)",
     .kind = OPTION_TEXT,
     .read = read_connect,
     FIELD(connect)},
    {.name = "worker",
     .argument = "ID",
     .help = "The worker to be, from 0 (default: that of the credentials, or any)",
     .kind = OPTION_U32,
     .most = TARRY_TCP_NO_WORKER - 1,
     FIELD(worker)},
    {.name = "rack",
     .argument = "NAME",
     .help = "The rack or host that this worker shares its fate with: the server's next plan "
             "spreads copies over racks; the host's name is a sensible value (default: none)",
     .kind = OPTION_TEXT,
     .read = read_rack,
     FIELD(rack)},
    {.name = "listen",
     .argument = "ADDRESS",
     .help = "With --sum everywhere of the server: where the other workers connect, HOST:PORT, "
             "port 0 for any (default: this machine's address towards the server, any port)",
     .kind = OPTION_TEXT,
     .read = read_listen,
     FIELD(listen)},
    {.name = "advertise",
     .argument = "ADDRESS",
     .help = "Where the other workers are told to connect instead, HOST:PORT",
     .kind = OPTION_TEXT,
     .read = read_advertise,
     FIELD(advertise)},
    {.name = "dp-key",
     .argument = "FILE",
     .help = "Take part in trainings with differential privacy alone: the key of 32 bytes by which "
             "samples are drawn, which tarry train --processes hands to its workers",
     .kind = OPTION_TEXT,
     FIELD(dp_key)},
    {.name = "patience",
     .argument = "SECONDS",
     .help = "How long to try to reach the server, at first and whenever the connection is lost "
             "(default 300)",
     .kind = OPTION_REAL,
     .high = MOST_SECONDS,
     FIELD(patience)},
    {.name = "grace",
     .argument = "SECONDS",
     .help = "On SIGTERM or Ctrl-C: how long the chunk in hand may take and the round may ask for "
             "what is finished (default 10)",
     .kind = OPTION_REAL,
     .high = MOST_SECONDS,
     FIELD(grace)},
    {.name = "quiet", .help = "Print nothing but errors", .kind = OPTION_FLAG, FIELD(quiet)},
};

static const option_words data_words[] = {
    {"data", "Training samples, the same as the server's, gzip or plain (default: what the server "
             "ships, or makes up)"},
    {NULL, NULL},
};

static const option_entry straggler_entries[] = {
    {.name = "straggler",
     .argument = "SPEC",
     .help = "Make this worker slow or dead for a test, as tarry train --straggler says of all "
             "(default none)",
     .kind = OPTION_TEXT,
     FIELD(straggler)},
    {.name = "straggler-seed",
     .argument = "N",
     .help = "Seed of the SPEC's draws (default: the --seed of the server)",
     .kind = OPTION_TEXT,
     .read = read_straggler_seed,
     FIELD(straggler_seed_text)},
};

void work_options_init(work_options *options)
{
    *options = (work_options){
        .connect = "127.0.0.1:7077",
        .worker = TARRY_TCP_NO_WORKER,
        .patience = 300,
        .grace = 10,
        .source.label_column = -1,
        .straggler = "none",
    };
    secure_options_init(&options->secure);
}

void work_options_groups(work_options *options, option_group groups[WORK_GROUPS])
{
    groups[0] = OPTION_GROUP("The server", server_entries, options);
    groups[1] = network_options_group(&options->network);
    groups[2] = data_options_group(&options->source);
    groups[2].words = data_words;
    groups[3] = OPTION_GROUP("Stragglers", straggler_entries, options);
    groups[4] = secure_options_insist_group(&options->secure);
}

enum { MANY_WORKERS = 65536 };

/* All that can be told of a SPEC before it is known how many workers there are. */
static int check_straggler(const work_options *options)
{
    tarry_straggler *straggler;
    tarry_diagnostic why;
    int error = tarry_straggler_create(options->straggler, MANY_WORKERS, 0, NULL, &straggler, &why);
    if (error == TARRY_ERROR_ARGUMENT)
        return OPTIONS_PROCEED;
    if (error != TARRY_OK)
        return complain(error == TARRY_ERROR_FORMAT ? EXIT_USAGE : EXIT_FAILED, "--straggler: %s",
                        why.text);
    const char *mortal = straggler_mortal_term(straggler);
    tarry_straggler_free(straggler);
    return mortal == NULL
               ? OPTIONS_PROCEED
               : complain(EXIT_USAGE, "--straggler: term '%s' is for tarry simulate", mortal);
}

int work_options_check(const work_options *options)
{
    if (options->source.labels_path != NULL && options->source.path == NULL)
        return complain(EXIT_USAGE, "--labels: has no meaning without --data");
    if (options->secure.secure && options->network.credentials == NULL)
        return complain(EXIT_USAGE,
                        "--secure: needs --credentials: workers know each other by them");
    if (options->secure.secure && options->dp_key != NULL)
        return complain(EXIT_USAGE, "--dp-key: cannot be combined with --secure");
    int status = secure_options_check(&options->secure);
    if (status == OPTIONS_PROCEED)
        status = check_straggler(options);
    if (status == OPTIONS_PROCEED)
        status = network_options_check(&options->network, "work", &options->connect, 1, false);
    if (status == OPTIONS_PROCEED && options->listen != NULL && options->network.insecure)
        status = network_options_check(&options->network, "work", &options->listen, 1, true);
    return status;
}
