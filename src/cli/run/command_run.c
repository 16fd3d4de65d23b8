/* SPDX-License-Identifier: Apache-2.0 */
/* tarry run: what it does is written in Python, and this goes on as that. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/command.h"
#include "cli/text/complain.h"

/* As 'python3 -m tarry' but for what it says without the package, and for files of the current
 * folder: they hide no module. */
static const char start[] = "import sys\n"
                            "sys.path[:] = [place for place in sys.path if place]\n"
                            "try:\n"
                            "    from tarry.__main__ import main\n"
                            "except ModuleNotFoundError as error:\n"
                            "    if error.name != 'tarry':\n"
                            "        raise\n"
                            "    sys.exit(f'tarry: run: {sys.executable} does not have the Python "
                            "package tarry: see tarry-run(1)')\n"
                            "sys.exit(main(sys.argv[1:]))\n";

int command_run(int argc, char **argv)
{
    char **words = memory_allocate(NULL, (size_t)argc + 4, sizeof(*words));
    if (words == NULL)
        return complain(EXIT_FAILED, "run: out of memory");
    words[0] = "python3";
    words[1] = "-c";
    words[2] = (char *)start;
    memcpy(words + 3, argv, (size_t)argc * sizeof(*words));
    words[3 + argc] = NULL;
    execvp(words[0], words);
    int error = errno;
    memory_release(NULL, words);
    return complain(EXIT_FAILED, "run: python3: %s: see tarry-run(1)", strerror(error));
}
