#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the fuzzers of a build, as many at a time as there are processors, each from its inputs in fuzz/corpus.

    fuzz.py BUILD [NAME ...]                  each for a minute; a crash fails, and its input stays in BUILD/fuzz
    fuzz.py BUILD --seconds N [NAME ...]      each for so long
    fuzz.py BUILD --runs N [NAME ...]         each so many times, however long that takes
    fuzz.py BUILD --keep [NAME ...]           then makes fuzz/corpus/NAME anew: few inputs that reach all code that
                                              was reached

    fuzz.py BUILD --jobs N [NAME ...]         N at a time

The build is one of clang: meson setup BUILD -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORPUS = ROOT / "fuzz" / "corpus"
# Bytes of an input; longer ones take longer and reach little more.
LONGEST = {"assembly": 256, "checkpoint": 320, "codec": 128, "compress": 2600, "control": 200, "data": 1024, "design": 512, "job": 400, "ledger": 256, "mesh": 200,
           "peer": 320, "plan": 512, "roster": 256, "server": 200, "settings": 512, "status": 1024, "trace": 512, "training": 1024, "view": 130, "worker": 256}
# Lines of a crash that suffice to find it again: what it was, and the input.
TELLING = re.compile(r"^(?:SUMMARY|Base64): .+", re.MULTILINE)
# What a fuzzer may take beyond its time: to start, and for its last execution.
MARGIN_SECONDS = 60
# An undefined step ends the fuzzer; and it has one thread. Memory that was given back is kept from use for a while: in
# 16 MiB there is what many executions gave back; in the 256 of old each went to memory that was not in any cache.
ENVIRONMENT = dict(os.environ, OPENBLAS_NUM_THREADS="1", UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1",
                   ASAN_OPTIONS=":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "quarantine_size_mb=16"])))


def run(fuzzer, name, found, limit, seconds):
    """Fuzzes into `found`; gives back (executions, executions per second), or what went wrong."""
    directories = [found] + [d for d in [CORPUS / name] if d.is_dir()]
    # The search by entropy would take longer than the executions, of which each is short.
    command = [fuzzer, "-entropic=0", limit, f"-max_len={LONGEST.get(name, 4096)}", "-timeout=20",
               "-print_final_stats=1", f"-artifact_prefix={fuzzer.parent}/crash-{name}-", *directories]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              env=ENVIRONMENT, timeout=None if seconds is None else seconds + MARGIN_SECONDS)
    except subprocess.TimeoutExpired:
        return "does not end"
    stats = dict(re.findall(r"^stat::(\w+):\s+(\d+)", done.stdout, re.MULTILINE))
    if done.returncode != 0 or "number_of_executed_units" not in stats:
        print(done.stdout[-8000:])
        return "; ".join(TELLING.findall(done.stdout)) or f"exit status {done.returncode}"
    return int(stats["number_of_executed_units"]), int(stats["average_exec_per_sec"])


def reaching_more(control):
    """From libFuzzer's record of a merge: the files that reach an edge which those before them did not reach. They are
    tried from the shortest to the longest."""
    lines = control.read_text().splitlines()
    count = int(lines[0])
    files = lines[2:2 + count]
    covering = (line.split() for line in lines[2 + count:] if line.startswith("COV "))
    return [pathlib.Path(files[int(number)]) for _, number, *edges in covering if edges]


def keep(fuzzer, name, found):
    """Replaces the kept inputs by those of them and of `found` that cover all edges."""
    with tempfile.TemporaryDirectory() as scratch:
        control = pathlib.Path(scratch) / "control"
        merged = pathlib.Path(scratch) / "merged"
        merged.mkdir()
        everything = pathlib.Path(scratch) / "everything"
        shutil.copytree(found, everything)
        for path in (CORPUS / name).glob("*"):
            shutil.copy(path, everything / f"kept-{path.name}")
        subprocess.run([fuzzer, "-merge=1", f"-merge_control_file={control}", merged, everything],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT, check=True)
        chosen = [path.read_bytes() for path in reaching_more(control)]
    target = CORPUS / name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for number, content in enumerate(chosen):
        (target / f"{number:03}").write_bytes(content)
    print(f"{name}: {len(chosen)} inputs kept, {sum(map(len, chosen))} bytes", flush=True)


def fuzz(folder, name, arguments):
    """Runs one fuzzer and says how it went; gives back what was found, "" for nothing."""
    if arguments.runs is None:
        limit, seconds = f"-max_total_time={arguments.seconds}", arguments.seconds
    else:
        limit, seconds = f"-runs={arguments.runs}", None
    fuzzer = folder / f"fuzz-{name}"
    with tempfile.TemporaryDirectory() as found:
        result = run(fuzzer, name, found, limit, seconds)
        if isinstance(result, str):
            return result
        print(f"{name}: {result[0]} executions, {result[1]} per second", flush=True)
        if arguments.keep:
            keep(fuzzer, name, found)
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_intermixed_args()
    folder = arguments.build.resolve() / "fuzz"
    names = arguments.names or sorted(path.name.removeprefix("fuzz-") for path in folder.glob("fuzz-*")
                                      if path.is_file() and os.access(path, os.X_OK))
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, arguments.jobs)) as pool:
        found = list(pool.map(lambda name: fuzz(folder, name, arguments), names))
    failed = [f"{name}: {what}" for name, what in zip(names, found) if what] if names else ["no fuzzer is there"]
    for line in failed:
        print("failed:", line)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
