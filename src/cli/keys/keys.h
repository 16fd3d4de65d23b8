/* SPDX-License-Identifier: Apache-2.0 */
/* The actions of tarry keys, as commands (command.h). */
#ifndef CLI_KEYS_H
#define CLI_KEYS_H

int keys_init(int argc, char **argv);
int keys_add(int argc, char **argv);
int keys_revoke(int argc, char **argv);
int keys_renew(int argc, char **argv);
int keys_roster(int argc, char **argv);
int keys_list(int argc, char **argv);

#endif
