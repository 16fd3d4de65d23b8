/* SPDX-License-Identifier: Apache-2.0 */
/* What a program defines that uses cli/text/complain.h. */
#include "cli/text/complain.h"

const char program_name[] = "fuzz";
