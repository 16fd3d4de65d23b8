#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what the shared library shows with what its public headers declare: the same functions, no more, no less.

    exports.py LIBRARY HEADER_FOLDER...
"""

import pathlib
import re
import subprocess
import sys


def exported(library):
    """The defined dynamic symbols; a version's own name (type A) is none of them."""
    output = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    rows = (line.split() for line in output.splitlines())
    return {name.split("@")[0] for _, kind, name in rows if kind != "A"}


def declared(folders):
    """(functions, those without TARRY_API) of all headers; a typedef of a function's type declares none."""
    functions, hidden = set(), set()
    for path in sorted(path for folder in folders for path in pathlib.Path(folder).glob("*.h")):
        text = re.sub(r"/\*.*?\*/|//[^\n]*|^\s*#[^\n]*", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
        text, blocks = re.subn(r'\bextern\s*"C"\s*\{(.*)\}', r"\1", text, flags=re.DOTALL)
        if "TARRY_API" in text and blocks != 1:
            raise SystemExit(f"{path}: its functions are not in one block of extern \"C\"")
        text = re.sub(r"\{[^{}]*\}", "", text)
        for statement in text.split(";"):
            name = re.search(r"\b(\w+)\s*\(", statement)
            if name is None or re.match(r"\s*typedef\b", statement):
                continue
            functions.add(name[1])
            if "TARRY_API" not in statement:
                hidden.add(name[1])
    return functions, hidden


def main(library, folders):
    shown = exported(library)
    functions, hidden = declared(folders)
    faults = [f"{name} is shown, but has no place in the library's name space"
              for name in sorted(shown) if not name.startswith("tarry_")]
    faults += [f"{name} is declared without TARRY_API" for name in sorted(hidden)]
    faults += [f"{name} is declared, but not shown" for name in sorted(functions - shown)]
    faults += [f"{name} is shown, but not declared" for name in sorted(shown - functions)]
    if not functions:
        faults.append(f"{folders}: no declarations found")
    print("\n".join(faults) if faults else f"{len(shown)} functions, all declared and shown")
    return bool(faults)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
