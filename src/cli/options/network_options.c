/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/network_options.h"

#include "cli/options/options.h"
#include "cli/text/complain.h"
#include "runtime/tcp/net/address.h"
#include "runtime/tcp/trust/credential.h"

#define FIELD(name) .offset = offsetof(tarry_tcp_security, name)

static const option_entry security_entries[] = {
    {.name = "credentials",
     .argument = "DIR",
     .help = "This member's folder of those that tarry keys made: TLS 1.3, both sides "
             "authenticated",
     .kind = OPTION_TEXT,
     FIELD(credentials)},
    {.name = "insecure",
     .help = "No credentials and plain text; on this machine alone",
     .kind = OPTION_FLAG,
     FIELD(insecure)},
    {.name = "force",
     .help = "Let --insecure be used over a network, where whoever can connect can take part",
     .kind = OPTION_FLAG,
     FIELD(force)},
};

static const option_entry log_entries[] = {
    {.name = "log",
     .argument = "FILE",
     .help = "Write what happens to the end of FILE, one JSON object per line; '-' is stderr",
     .kind = OPTION_TEXT,
     .offset = offsetof(network_options, log)},
};

option_group network_security_group(tarry_tcp_security *security)
{
    return OPTION_GROUP("Security", security_entries, security);
}

void network_options_groups(network_options *options, option_group groups[NETWORK_GROUPS])
{
    groups[0] = network_security_group(&options->security);
    groups[0].title = "Security and log";
    groups[1] = OPTION_GROUP(NULL, log_entries, options);
}

/* Over a Unix socket the system says who is there. */
static bool all_local(const char *const *addresses, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!address_text_is_file(addresses[i]))
            return false;
    return true;
}

static int check_plain(const char *command, const char *text, bool listening)
{
    address found[ADDRESS_MOST];
    uint32_t count;
    tarry_diagnostic why;
    if (address_resolve(text, listening, found, &count, &why) != TARRY_OK)
        return complain(EXIT_FAILED, "%s: %s", command, why.text);
    for (uint32_t i = 0; i < count; i++) {
        if (!address_is_loopback(&found[i]))
            return complain(EXIT_USAGE,
                            "--insecure: %s is not on this machine alone; use --credentials, or "
                            "--force if everybody who can connect may take part",
                            text);
    }
    return OPTIONS_PROCEED;
}

int network_security_check(const tarry_tcp_security *security, const char *command, bool files)
{
    if (security->force && !security->insecure)
        return complain(EXIT_USAGE, "--force: has no meaning without --insecure");
    if (security->credentials != NULL && security->insecure)
        return complain(EXIT_USAGE, "--insecure: cannot be combined with --credentials");
    if (security->credentials == NULL && !security->insecure && !files)
        return complain(EXIT_USAGE,
                        "%s: needs --credentials (see tarry keys --help), or --insecure on this "
                        "machine alone",
                        command);
    return OPTIONS_PROCEED;
}

int network_options_check(const network_options *options, const char *command,
                          const char *const *addresses, uint32_t count, bool listening)
{
    tarry_diagnostic why;
    credential *own;
    const tarry_tcp_security *security = &options->security;
    int status = network_security_check(security, command, all_local(addresses, count));
    if (status != OPTIONS_PROCEED)
        return status;
    if (security->credentials != NULL) {
        if (credential_load(security->credentials, NULL, &own, &why) != TARRY_OK)
            return complain(EXIT_FAILED, "--credentials: %s", why.text);
        credential_free(own);
        return OPTIONS_PROCEED;
    }
    for (uint32_t i = 0; i < count && !security->force && status == OPTIONS_PROCEED; i++)
        status = check_plain(command, addresses[i], listening);
    return status;
}

uint64_t network_ns(double seconds)
{
    return (uint64_t)(seconds * 1e9);
}
