/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/output.h"

#include "cli/options/options.h"
#include "cli/text/complain.h"

int output_begin(const char *path, output_file **file)
{
    tarry_diagnostic why;
    if (path == NULL || output_file_open(path, file, &why) == TARRY_OK)
        return OPTIONS_PROCEED;
    return complain(EXIT_FAILED, "%s", why.text);
}

int output_end(output_file **file)
{
    tarry_diagnostic why;
    output_file *closing = *file;
    *file = NULL;
    if (output_file_commit(closing, &why) == TARRY_OK)
        return EXIT_DONE;
    return complain(EXIT_FAILED, "%s", why.text);
}
