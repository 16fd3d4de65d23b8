#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds docs/pairs.md to the one check of settings: its table is what the program of tests/unit/protocol/pairs.c prints.

    pairs.py SOURCE_ROOT PROGRAM            says where they differ; exit status 1 if they do
    pairs.py SOURCE_ROOT PROGRAM --write    writes the table into the page
"""

import difflib
import pathlib
import subprocess
import sys

BEGIN, END = "<!-- pairs -->\n", "<!-- end of pairs -->\n"


def main(root, program, *options):
    page = pathlib.Path(root) / "docs" / "pairs.md"
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    table, end, after = rest.partition(END)
    if not begin or not end:
        print(f"docs/pairs.md: no {BEGIN.strip()} with an {END.strip()}")
        return 1
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    if options == ("--write",):
        page.write_text(before + begin + printed + end + after, encoding="utf-8")
        return 0
    different = list(difflib.unified_diff(table.splitlines(), printed.splitlines(), "docs/pairs.md", "the check",
                                          lineterm="", n=0))
    print(*different, sep="\n", end="\n" if different else "")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
