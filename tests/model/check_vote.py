#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the model of the vote (vote.pml) by Spin: its properties hold with the faults of each run below, and every
error that is planted, and every clause that is left out, breaks the property that is named beside it.

    check_vote.py                 all runs, as many at a time as there are processors; about a minute on two
    check_vote.py NAME ...        only these
    check_vote.py --thorough      what holds, with more faults as well: minutes, and some gigabytes
    check_vote.py --trace NAME    the shortest way into a planted error, in words

The last line is 'N passed, N failed'. Every planted error has to stand in docs/collective.md, beside its clause.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

FOLDER = pathlib.Path(__file__).resolve().parent
MODEL = FOLDER / "vote.pml"
PAGE = FOLDER.parent.parent / "docs" / "collective.md"

# How a verifier is made and run. Ends are judged by the model (-E); a search that needs more depth or memory says so.
Search = collections.namedtuple("Search", "model compiler verifier")
SAFETY = Search([], ["-O1", "-DSAFETY", "-DNOREDUCE", "-DHC4"], ["-m200000", "-E"])
SOON = Search([], ["-O0", "-DSAFETY", "-DNOREDUCE", "-DHC4"], ["-m200000", "-E"])  # for few states; is made sooner
ENDLESS = Search(["-DNP", "-DNOPRIO"], ["-O1", "-DNP", "-DNFAIR=4", "-DNOREDUCE", "-DCOLLAPSE"],
                 ["-m200000", "-l", "-f", "-E"])
SHORTEST = Search(["-DSHORT"], ["-O1", "-DSAFETY", "-DBFS", "-DNOREDUCE"], ["-E"])
MEGABYTES = 3000
SECONDS = 300

# A run's definitions, by name=value; breaks: the property that must not hold, or None if all have to.
Run = collections.namedtuple("Run", "name definitions breaks search", defaults=[None, SAFETY])
HOLDS = (
    Run("two faults", "FT=2"),
    Run("two faults, a wrong digest, a failing transfer", "FT=2 FB=1 FF=1 R=1"),
    Run("one fault, a wrong digest, a failing transfer", "FT=1 FB=1 FF=1"),
    Run("two faults, a coordinator that dawdles", "FT=2 NOPRIO R=1"),
    Run("two faults, what is unread is lost", "FT=2 NODRAIN"),
    Run("two faults, a return to a checkpoint", "FT=2 CKPT=1"),
    Run("no endless run with two faults", "FT=2 R=1", search=ENDLESS),
    Run("loads that overwrite the old state", "FT=2 INPLACE"),
    Run("a new attempt at the first failure", "FT=1 EARLYVOID"),
)
THOROUGH = (
    Run("three faults", "FT=3"),
    Run("two faults, a wrong digest, a failing transfer, two rounds", "FT=2 FB=1 FF=1"),
    Run("two faults, a coordinator that dawdles, two rounds", "FT=2 NOPRIO"),
    Run("no endless run with two faults and two rounds", "FT=2", search=ENDLESS),
    Run("two faults, two wrong digests, two failing transfers", "FT=2 FB=2 FF=2 R=1"),
    Run("two faults, two returns to a checkpoint", "FT=2 CKPT=2"),
)
PLANTED = (
    Run("PLANT1", "FT=1", "P5", SOON),
    Run("PLANT1", "FT=2 ONLYP1", "P1", SOON),
    Run("PLANT2", "FT=1", "P7", SOON),
    Run("PLANT2", "FT=1 NOP7 NOERR", "P10", SOON),
    Run("PLANT3", "FT=1", "P9", SOON),
    Run("NOTERM", "FT=1", "P8", SOON),
    Run("NOTAG", "FT=1", "P2", SOON),
    Run("NODIGEST", "FT=1 FB=1", "P2", SOON),
    Run("NOHELD", "FT=1", "P4", SOON),
    Run("NOASIDE", "FT=1 FF=1", "P4", SOON),
    Run("NOMIN2", "FT=2 FW=1 NONOBODY", "P11"),
    Run("ASIDE1", "FT=1 FW=1 FF=1 NOMIN2 NOERR", "P10", SOON),
    Run("NOMATCH", "FT=2 FW=0 FC=0 FB=1 A=2", "P7"),
    Run("PRESENTALL", "FT=1", "P4", SOON),
    Run("TORN", "FT=1", "P6", SOON),
    Run("NOCANCEL", "FT=2", "P4", SOON),
    Run("NOLAST", "FT=2 CKPT=1", "P6", SOON),
    Run("NOLIMIT", "FT=1", "endless", ENDLESS),
)


def definitions_of(run):
    planted = [run.name] if run.breaks else []
    return ["-D" + definition for definition in [*planted, *run.definitions.split()]]


def command(words, folder, seconds=SECONDS):
    """What it printed; a failure to end in time, or at all, is told in the text."""
    try:
        done = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return f"{words[0]}: does not end within {seconds} s"
    return done.stdout


def search(run, how, folder):
    """Makes the verifier in the folder, and gives back what it printed."""
    said = command(["spin", *how.model, *definitions_of(run), "-a", MODEL], folder)
    said += command([os.environ.get("CC", "cc"), "-w", *how.compiler, f"-DMEMLIM={MEGABYTES}", "-o", "pan",
                     "pan.c"], folder)
    return command(["./pan", *how.verifier], folder) if (folder / "pan").exists() else said


def trail(run, how, folder):
    """The run into the error, in words."""
    return command(["spin", *how.model, *definitions_of(run), "-k", f"{MODEL.name}.trail", "-t", MODEL], folder)


def broken(run, said, folder):
    """The property that was found broken, None if all hold, or '?' if the search says neither."""
    if "non-progress cycle (at" in said:
        return "endless"
    if "assertion violated" in said:
        line = re.search(r"\.pml:(\d+), Error: assertion violated", trail(run, run.search, folder))
        name = line and re.search(r"/\* (P\d+)\b", MODEL.read_text().splitlines()[int(line[1]) - 1])
        return name[1] if name else "?"
    whole = "errors: 0" in said and "not completed" not in said and "too small" not in said
    return None if whole else "?"


def check(run):
    """Carries a run out and says how it went; true if it is as it should be."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        said = search(run, run.search, folder)
        found = broken(run, said, folder)
        steps = trail(run, run.search, folder) if found and not run.breaks else ""
    states = re.search(r"([\d.e+]+) states, stored", said)
    good = found == run.breaks
    print(f"{run.name} ({run.definitions}): {'all hold' if found is None else found + ' broken'}, "
          f"{int(float(states[1])) if states else 0:,} states, {time.monotonic() - begun:.0f} s"
          + ("" if good else f": FAIL, {run.breaks or 'none'} wanted"), flush=True)
    if not good:
        print(said[-2000:], steps[-4000:], sep="\n", flush=True)
    return good


def undocumented():
    page = PAGE.read_text(encoding="utf-8")
    return sorted({run.name for run in PLANTED if f"`{run.name}`" not in page})


def show_trace(name):
    run = next((run for run in PLANTED if run.name == name), None)
    if run is None or run.search is ENDLESS:
        sys.exit(f"check_vote.py: {name}: no planted error, or one without a shortest trace")
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        search(run, SHORTEST, folder)
        print(trail(run, SHORTEST, folder).split("spin: trail ends")[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--thorough", action="store_true")
    parser.add_argument("--trace", metavar="NAME")
    arguments = parser.parse_args()
    if shutil.which("spin") is None:
        sys.exit("check_vote.py: spin is not there; tools/setup.sh check installs it")
    if arguments.trace:
        return show_trace(arguments.trace)
    runs = [*HOLDS, *(THOROUGH if arguments.thorough else ()), *PLANTED]
    unknown = set(arguments.names) - {run.name for run in runs}
    if unknown:
        sys.exit(f"check_vote.py: {', '.join(sorted(unknown))}: unknown")
    chosen = [run for run in runs if not arguments.names or run.name in arguments.names]
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        good = list(pool.map(check, chosen))
    missing = undocumented()
    if missing:
        print(f"docs/collective.md: without {', '.join(missing)}")
    passed = sum(good) + (not missing)
    print(f"{passed} passed, {len(good) + 1 - passed} failed")
    return 1 if passed <= len(good) else 0


if __name__ == "__main__":
    sys.exit(main())
