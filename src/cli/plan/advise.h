/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tarry plan --advise: which replication, how many pieces and how many parts are best for given
 * workers. Choices are simulated on the same draws, with the dynamic order, and judged by time, the
 * memory of a worker and how often the data is stored.
 */
#ifndef CLI_ADVISE_H
#define CLI_ADVISE_H

/* The exit status. */
int command_plan_advise(int argc, char **argv);

#endif
