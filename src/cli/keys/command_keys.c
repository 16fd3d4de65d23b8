/* SPDX-License-Identifier: Apache-2.0 */
/* tarry keys: what is to be done. */
#include "cli/command.h"
#include "cli/keys/keys.h"
#include "cli/options/subcommand.h"

int command_keys(int argc, char **argv)
{
    static const subcommand actions[] = {
        {"init", keys_init, "make a new cluster: its authority and all members"},
        {"add", keys_add, "make one more member, or another credential of one"},
        {"revoke", keys_revoke, "shut a member out"},
        {"renew", keys_renew, "make certificates for sums among workers anew"},
        {"roster", keys_roster, "sign the list of workers that may take part in secure sums"},
        {"list", keys_list, "every certificate: whose, until when, revoked or not"},
    };
    const subcommand_set set = {
        .command = "keys",
        .usage = "ACTION [OPTION...] DIR [NAME]",
        .text = "Makes the credentials by which the machines of a cluster know each other.",
        .one = "ACTION",
        .missing = "say what to do",
        .unknown = "is no action",
        .items = actions,
        .count = sizeof(actions) / sizeof(actions[0]),
    };
    return subcommand_run(&set, argc, argv);
}
