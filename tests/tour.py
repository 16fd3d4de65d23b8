#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks docs/tour.md.

Usage: tour.py ROOT            every function stands in the file that the page names behind it
       tour.py --count FOLDER  builds the tool in FOLDER with coverage, runs the page's command, and lists the source files
                               that one more round enters; fails if there are more than the page allows, or others than
                               it says

A function counts if a longer run calls it at least once more for each further round.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = "docs/tour.md"
FEW, MANY, MOST = 20, 220, 45  # rounds, rounds, files
COMMAND = ("train", "--processes", "--sum", "everywhere", "--workers", "3", "--pieces", "4", "--evaluate", "1000")
SETUP = ("-Dbuildtype=debugoptimized", "-Db_coverage=true", "-Dc_args=-fprofile-update=atomic", "-Dtests=false",
         "-Dmpi=disabled")


def check_names(root):
    """Complaints about functions and files of the page."""
    text = (root / PAGE).read_text()
    for file in sorted(set(re.findall(r"`(src/[\w/.]+)`", text))):
        if not (root / file).exists():
            yield f"{PAGE}: {file} does not exist"
    # Functions apart by commas or 'and', and the file behind them in parentheses or after 'in'.
    for names, file in re.findall(r"((?:`\w+`(?:,\s+|\s+and\s+)?)+)(?:\s*\(|,?\s+in\s+)`(src/[\w/]+\.c)`", text):
        code = (root / file).read_text() if (root / file).exists() else ""
        for name in re.findall(r"`(\w+)`", names):
            if not re.search(rf"^[\w *]*\b{name}\(", code, re.MULTILINE):
                yield f"{PAGE}: {file} has no function {name}"


def quietly(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{command}\n{done.stdout}")
    return done.stdout


def count_calls(build, rounds):
    """Calls of each function, by (file, name), in a run of so many rounds."""
    for data in build.rglob("*.gcda"):
        data.unlink()
    quietly([build / "src/cli/tarry", *COMMAND, "--rounds", str(rounds)], timeout=300)
    calls = collections.Counter()
    for data in build.rglob("*.gcda"):
        for line in quietly(["gcov", "--json-format", "--stdout", data.name], cwd=data.parent).splitlines():
            if not line.startswith("{"):
                continue
            for file in json.loads(line)["files"]:
                for function in file["functions"]:
                    calls[file["file"], function["name"]] += function["execution_count"]
    return calls


def count(folder):
    build = pathlib.Path(folder).resolve()
    if not (build / "build.ninja").exists():
        quietly(["meson", "setup", build, ROOT, *SETUP])
    quietly(["ninja", "-C", build, "src/cli/tarry"])
    few, many = count_calls(build, FEW), count_calls(build, MANY)
    entered = collections.defaultdict(list)
    for (file, name), calls in many.items():
        if file.endswith(".c") and calls - few[file, name] >= MANY - FEW:
            entered[file[file.rindex("src/"):]].append(name)
    for file, names in sorted(entered.items()):
        print(f"{file}: {', '.join(sorted(names))}")
    print(f"{len(entered)} source files, {sum(map(len, entered.values()))} functions; at most {MOST} files")
    missing = [file for file in sorted(set(re.findall(r"`(src/(?:runtime|protocol|engine)/[\w/]+\.c)`", (ROOT / PAGE).read_text())))
               if file not in entered and not file.endswith("mesh_sum.c")]
    for file in missing:
        print(f"{PAGE}: no step enters {file}")
    return len(entered) > MOST or bool(missing)


def main():
    if sys.argv[1] == "--count":
        return count(sys.argv[2])
    complaints = list(check_names(pathlib.Path(sys.argv[1])))
    print("\n".join(complaints))
    return bool(complaints)


if __name__ == "__main__":
    sys.exit(main())
