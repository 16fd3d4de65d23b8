/* SPDX-License-Identifier: Apache-2.0 */
/* What a program defines that uses cli/text/complain.h. */
#include "cli/text/program.h"

const char program_name[] = "tarry";
