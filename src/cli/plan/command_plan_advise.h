/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMAND_PLAN_ADVISE_H
#define CLI_COMMAND_PLAN_ADVISE_H

/* tarry plan --advise: exit status. */
int command_plan_advise(int argc, char **argv);

#endif
