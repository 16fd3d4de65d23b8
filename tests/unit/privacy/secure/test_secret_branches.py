#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No branch and no address in the code of masks, keys and rings depends on a secret, as far as valgrind sees.

Usage: test_secret_branches.py PROGRAM
"""

import shutil
import subprocess
import sys

SKIPPED = 77
ERROR_STATUS = 99


def status_of(*command):
    return subprocess.run(["valgrind", "--quiet", f"--error-exitcode={ERROR_STATUS}", *command], check=False).returncode


def main():
    if shutil.which("valgrind") is None:
        print("skipped: there is no valgrind")
        return SKIPPED
    if status_of(sys.argv[1], "planted") != ERROR_STATUS:
        print("a planted branch on a secret was not found")
        return 1
    return status_of(sys.argv[1])


if __name__ == "__main__":
    sys.exit(main())
