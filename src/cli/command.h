/* SPDX-License-Identifier: Apache-2.0 */
/* The commands: each takes argv[0] = its name,
 * argv[1..] = its arguments, and gives back the exit status. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

int command_keys(int argc, char **argv);
int command_train(int argc, char **argv);
int command_serve(int argc, char **argv);
int command_work(int argc, char **argv);
int command_plan(int argc, char **argv);
int command_simulate(int argc, char **argv);
int command_privacy(int argc, char **argv);
int command_top(int argc, char **argv);

#endif
