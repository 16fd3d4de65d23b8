#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds and tests the project in its configurations, one after the other.

    check.py               the configuration 'check': every test once, those of the Python package among them
    check.py all           all of them but 'check', 'torch', 'long' and 'coverage', the model of the vote, the guided tour, and the layout of
                           the sources: in one configuration or another every test, with sanitizers and without
    check.py NAME ...      only these, or 'model', 'tour' or 'format'

A line says which stage of how many runs, how much of it is done, and how long it has taken. The output of each failed test is
shown. At the end its complaints are shown again, and where the log is. The last line is 'N passed, N failed', summed over all
configurations, and the exit status is 1 if anything failed. Ctrl-C stops what runs (exit status 130). Builds are kept in
build-check/, and taken up again.
"""

import collections
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILDS = ROOT / "build-check"
JOBS = str(os.cpu_count() or 1)
TESTS_AT_ONCE = str(2 * (os.cpu_count() or 1))  # many of them wait more than they compute

# tests: prefixes of test names, () for none and None for all; but: prefixes of those to leave out; long: some tests have
# a longer form, which is run here. Configurations of the same folder share a build. packages: what pip brings into a virtual
# environment, whose Meson and interpreter are taken; such a configuration is run only by its name. needed: nothing is built
# but what its tests need. also: commands that have to succeed in its environment. apart: run only by its name. full: what other
# configurations try of one command in turn its tests try of every one.
Configuration = collections.namedtuple("Configuration", "name compiler options tests but long folder packages needed also apart full",
                                       defaults=[(), False, None, (), False, (), False, False])

STAGES = ("setup", "build", "tests")
ALL = None
THREADED = ("engine/", "runtime/", "integration/", "network/soak", "network/misbehaviour", "network/namespaces",
            "cli/worlds")
# Real processes: one run of all of them with sanitizers, and one without, is what they are worth.
PROCESSES = ("network/", "deploy/", "mpi/ranks", "mpi/train")
# The same worlds to the bit in every build: once with sanitizers, once without.
WORLDS = ("scenario/planted",)
# Without what a debugger reads, which takes a fifth of the time to build.
OPTIMIZED = ("-Doptimization=2", "-Ddebug=false")
PLAIN = (*OPTIMIZED, "-Dpython=true", "-Dpython_tests=true")
# Lines and functions are what sanitizers tell; all that a debugger reads takes GCC a quarter of the time to compile.
SANITIZED = ("-Doptimization=1", "-Ddebug=false", "-Dc_args=-g1", "-Db_sanitize=address,undefined")
CONFIGURATIONS = (
    # The debug build of Python runs what the other one runs, at a third of its speed.
    Configuration("check", "gcc", PLAIN, ALL, ("python/exits-debug",), folder="optimized", apart=True),
    Configuration("gcc-sanitized", "gcc", SANITIZED, ALL),
    Configuration("long", "gcc", SANITIZED, ("plan/evolve_slowness", "engine/shared_kill", "network/faults",
                                         "network/soak", "mpi/ranks"),
                  long=True, folder="gcc-sanitized", apart=True),
    # What has threads is clang's in the next one.
    Configuration("clang-sanitized", "clang", (*SANITIZED, "-Db_lundef=false"), ALL,
                  (*PROCESSES, *WORLDS, *THREADED, "cli/")),
    Configuration("threads", "clang", ("-Dbuildtype=debug", "-Doptimization=1", "-Db_sanitize=thread",
                                       "-Db_lundef=false"), THREADED, ("engine/shared_kill",), needed=True),
    # Valgrind, too, looks at unsanitized programs alone, and interpreters load such libraries.
    Configuration("optimized", "gcc", PLAIN, (*PROCESSES, "cli/", "privacy/secure/secret-branches", "python/"), full=True),
    Configuration("coverage", "gcc", ("-Dbuildtype=debugoptimized", "-Db_coverage=true",
                                      "-Dc_args=-fprofile-update=atomic"), ALL, apart=True),
    # Open MPI is that of all others.
    Configuration("mpich", "gcc", (*OPTIMIZED, "-Dmpi=enabled", "-Dmpi_package=mpich"), ("mpi/",),
                  needed=True),
    # A newer PyTorch than the system's; another build of the package index may be several gigabytes. What is typed is judged
    # by what its packages say of themselves: their versions, and those of who judges, are fixed.
    # What depends on no version of PyTorch is left to the system's.
    Configuration("torch", "gcc", (*PLAIN, "-Dtools=false", "-Dtests=false", "-Dmpi=disabled"), ("python/",),
                  ("python/machines", "python/command", "python/exits", "python/private-audit"),
                  packages=("torch==2.13.0", "numpy==2.4.6", "cffi", "meson", "ninja", "pytest==9.2.0", "pytest-timeout",
                            "hypothesis==6.170.17", "matplotlib", "dp-accounting", "accelerate", "ruff==0.17.6",
                            "pyright[nodejs]==1.1.414"),
                  also=("ruff check python", "ruff format --check python", "pyright")),
)

# A failing allocation is NULL in production too; a leak or an undefined step ends the test.
ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": f"halt_on_error=1:suppressions={ROOT / 'tests' / 'thread-sanitizer.supp'}",
    "MALLOC_PERTURB_": "0",
}


# What a failed test's output has to say, whatever it was written with; so many lines of it, the last ones if none has it.
COMPLAINT = re.compile(r"FAIL|ERROR|\w+Error\b|error:|Sanitizer|Assertion")
COMPLAINTS = 8


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.complaints = []

    def add(self, good):
        self.passed += good
        self.failed += not good

    def complain(self, name, output):
        said = [line.strip()[:200] for line in output.splitlines() if line.strip()]
        lines = [line for line in said if COMPLAINT.search(line)] or said[-COMPLAINTS:]
        self.complaints += [name, *("    " + line for line in lines[:COMPLAINTS])]

    def name_log(self, log):
        self.complaints.append(f"    log: {log.relative_to(ROOT)}")

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed" + (f", {self.skipped} skipped" if self.skipped else "")


def run(command, **options):
    """Runs a command from the project's root with its output on ours; true if it succeeded."""
    sys.stdout.flush()
    return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, **options).returncode == 0


def quietly(command, **options):
    """The same, but its output is shown only if it fails."""
    result = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, errors="replace", **options)
    if result.returncode != 0:
        print(result.stdout, flush=True)
    return result.returncode == 0


# How ninja counts what it builds, and Meson the tests that have ended.
COUNT = re.compile(r"^\s*\[?(\d+)/(\d+)\]?\s")
FAILED_TEST = re.compile(r"^\s*\d+/\d+ .* (FAIL|TIMEOUT|ERROR|UNEXPECTEDPASS)\s")
# How long what was told to stop may take, before it is killed.
STOP_SECONDS = 10


class Progress:
    """Says how far a stage is: on a terminal in one line that is drawn again, elsewhere at each quarter."""

    def __init__(self, stage):
        self._stage, self._start, self._said = stage, time.monotonic(), 0
        self._done = self._of = self._failed = 0
        self._terminal = sys.stdout.isatty()
        self.draw()

    def see(self, line):
        count = COUNT.match(line)
        if not count or int(count[2]) < 1:
            return
        self._done, self._of = int(count[1]), int(count[2])
        self._failed += FAILED_TEST.match(line) is not None
        quarter = 4 * self._done // self._of
        if not self._terminal and self._said < quarter < 4:
            self._said = quarter
            print(self, flush=True)

    def draw(self):
        if self._terminal:
            print(f"\r\x1b[K{self}", end="", flush=True)

    def end(self):
        self.draw()
        print("" if self._terminal else self, flush=True)

    def __str__(self):
        minutes, seconds = divmod(int(time.monotonic() - self._start), 60)
        counts = f"{self._done} of {self._of}, " if self._of else ""
        return f"{self._stage}: {counts}{f'{self._failed} failed, ' if self._failed else ''}{minutes}:{seconds:02}"


def lines_of(stream, progress):
    """The lines of a pipe as they come. The progress is drawn each second."""
    rest = b""
    while True:
        if select.select([stream], [], [], 1)[0]:
            piece = os.read(stream.fileno(), 1 << 16)
            if not piece:
                break
            *lines, rest = (rest + piece).split(b"\n")
            yield from (line.decode(errors="replace") + "\n" for line in lines)
        progress.draw()
    yield rest.decode(errors="replace")


def stop(process):
    """Stops a process and its group. Meson and ninja then stop the processes that they started."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
            process.wait(STOP_SECONDS)
            return
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def watched(command, stage, log, **options):
    """Runs a command from the project's root, says how far it is, and returns its status and its output. The output also
    goes to the file `log`. The command has a process group of its own, so that Ctrl-C comes to this program alone."""
    progress, output = Progress(stage), []
    with log.open("w") as file, subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                                 stderr=subprocess.STDOUT, start_new_session=True, **options) as process:
        try:
            for line in lines_of(process.stdout, progress):
                output.append(line)
                file.write(line)
                progress.see(line)
        except KeyboardInterrupt:
            stop(process)
            progress.end()
            print(f"stopped; the output of this stage is in {log.relative_to(ROOT)}", flush=True)
            raise
    progress.end()
    return process.returncode, "".join(output)


def failed_steps(output):
    """Of ninja's output what failed steps printed; its last lines if none did."""
    shown, kept = False, []
    for line in output.splitlines():
        shown = line.startswith("FAILED: ") or (shown and not COUNT.match(line))
        if shown:
            kept.append(line)
    return "\n".join(kept or output.splitlines()[-COMPLAINTS:])


def folder_of(configuration):
    return BUILDS / (configuration.folder or configuration.name)


def environment_of(configuration):
    """The environment of its programs; None: pip failed."""
    if not configuration.packages:
        return dict(os.environ)
    programs = BUILDS / f"{configuration.name}-packages" / "bin"
    if not (programs / "python").exists():
        venv.create(programs.parent, with_pip=True)
    if not quietly([programs / "python", "-m", "pip", "install", *configuration.packages]):
        return None
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}


def failed_stage(tally, stage, output, log):
    name = f"--- {stage}"
    print(name, output, sep="\n", flush=True)
    tally.add(False)
    tally.complain(name, output)
    tally.name_log(log)


def set_up(configuration, tally, stage, environment):
    folder, log = folder_of(configuration), BUILDS / f"{configuration.name}-setup.txt"
    BUILDS.mkdir(exist_ok=True)
    command = ["meson", "setup", folder, "-Dwerror=true", *configuration.options]
    if (folder / "build.ninja").exists() and watched([*command, "--reconfigure"], stage, log, env=environment)[0] == 0:
        return True
    shutil.rmtree(folder, ignore_errors=True)
    status, output = watched(command, stage, log, env=environment)
    if status != 0:
        failed_stage(tally, stage, output, log)
    return status == 0


def build(configuration, tally, stage, environment):
    folder = folder_of(configuration)
    needed = needed_files(folder, configuration) if configuration.needed else []
    log = folder / "meson-logs" / "build.txt"
    status, output = watched(["ninja", "-C", folder, "-j", JOBS, *needed], stage, log, env=environment)
    if status != 0:
        failed_stage(tally, stage, failed_steps(output), log)
    else:
        tally.add(True)
    return status == 0


def made(configuration, tally, setup, building, environment):
    return set_up(configuration, tally, setup, environment) and build(configuration, tally, building, environment)


def introspect(folder, what):
    listed = subprocess.run(["meson", "introspect", what, folder], cwd=ROOT, check=True, capture_output=True)
    return json.loads(listed.stdout)


def chosen_tests(folder, configuration):
    return [test for test in introspect(folder, "--tests")
            if (configuration.tests is ALL or test["name"].startswith(configuration.tests))
            and not test["name"].startswith(configuration.but)]


def needed_files(folder, configuration):
    """What has to be built for its tests."""
    needed = {target for test in chosen_tests(folder, configuration) for target in test["depends"]}
    return [os.path.relpath(file, folder) for target in introspect(folder, "--targets") if target["id"] in needed
            for file in target["filename"]]


def steady_addresses():
    """Sanitizers of this age do not know the widest randomisation of addresses: a prefix that turns it off."""
    prefix = ["setarch", "-R"]
    works = shutil.which(prefix[0]) and subprocess.run([*prefix, "true"], check=False,
                                                       capture_output=True).returncode == 0
    return prefix if works else []


def run_tests(configuration, tally, stage, environment):
    folder = folder_of(configuration)
    all_tests = configuration.tests is ALL and not configuration.but
    names = [] if all_tests else [test["name"] for test in chosen_tests(folder, configuration)]
    if not all_tests and not names:
        return
    logs = folder / "meson-logs"
    results = logs / "testlog.json"
    results.unlink(missing_ok=True)
    command = [*steady_addresses(), "meson", "test", "-C", folder, "--no-rebuild", "--timeout-multiplier", "4",
               "--num-processes", TESTS_AT_ONCE, *names]
    forms = {"TARRY_TEST_LONG": configuration.long, "TARRY_TEST_FULL": configuration.full}
    environment = {**environment, **ENVIRONMENT, **{name: "1" for name, asked in forms.items() if asked}}
    log = logs / "tests.txt"
    status, output = watched(command, stage, log, env=environment)
    tests = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    failed = 0
    for test in tests:
        if test["result"] == "SKIP":
            tally.skipped += 1
            continue
        good = test["result"] in ("OK", "EXPECTEDFAIL")
        tally.add(good)
        failed += not good
        if not good:
            name = f"--- {configuration.name}: {test['name']}: {test['result']}"
            output = test.get("stdout", "") + "\n" + test.get("stderr", "")
            print(name, output, sep="\n")
            tally.complain(name, output)
    if failed > 0:
        tally.name_log(logs / "testlog.txt")
    elif status != 0:
        failed_stage(tally, stage, output, log)


def run_also(configuration, tally, environment):
    for command in configuration.also:
        done = subprocess.run(command.split(), cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        tally.add(done.returncode == 0)
        if done.returncode != 0:
            name = f"--- {configuration.name}: {command}"
            print(name, done.stdout, sep="\n")
            tally.complain(name, done.stdout)


def measure_coverage():
    folder = BUILDS / "coverage"
    return quietly(["gcovr", "--root", ROOT, "--filter", "src/", "--txt", folder / "coverage.txt",
                    "--json-summary", folder / "coverage.json", folder])


def show_coverage():
    folder = BUILDS / "coverage"
    print((folder / "coverage.txt").read_text())
    summary = json.loads((folder / "coverage.json").read_text())
    print(f"line coverage of src/: {summary['line_percent']:.1f}% "
          f"({summary['line_covered']} of {summary['line_total']} lines)")


def check_format():
    folders = ("bench", "examples", "fuzz", "include", "src", "tests")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.[ch]")]
    return quietly(["clang-format", "--dry-run", "-Werror", *sorted(sources)])


def check_model():
    return quietly([sys.executable, ROOT / "tests" / "model" / "check_vote.py"])


def count_tour():
    return quietly([sys.executable, ROOT / "tests" / "tour.py", "--count", BUILDS / "tour"])


# What no configuration builds, by name: the check, and what is said of its result.
CHECKS = {
    "model": (check_model, "the vote keeps its properties, and what is planted breaks them", "does not hold"),
    "tour": (count_tour, "a step enters as many source files as docs/tour.md allows", "enters others (tests/tour.py --count)"),
    "format": (check_format, "as .clang-format says", "differs (make format mends it)"),
}


def main(names):
    known = [configuration.name for configuration in CONFIGURATIONS] + [*CHECKS]
    for name in names:
        if name not in [*known, "all"]:
            sys.exit(f"check.py: {name}: unknown; known are all, {', '.join(known)}")
    if "all" in names:
        apart = {configuration.name for configuration in CONFIGURATIONS if configuration.packages or configuration.apart}
        names = [name for name in known if name not in apart]
    names = names or known[:1]
    chosen = [configuration for configuration in CONFIGURATIONS if configuration.name in names]
    stages = [f"{configuration.name}: {what}" for configuration in chosen for what in STAGES]
    stages += [name for name in CHECKS if name in names]
    numbered = {stage: f"[{number}/{len(stages)}] {stage}" for number, stage in enumerate(stages, 1)}
    total, covered = Tally(), False
    for configuration in chosen:
        start, tally = time.monotonic(), Tally()
        setup, building, testing = (numbered[f"{configuration.name}: {what}"] for what in STAGES)
        environment = environment_of(configuration)
        if environment is None:
            tally.add(False)
        elif made(configuration, tally, setup, building, {**environment, "CC": configuration.compiler}):
            if configuration.name == "coverage":
                for data in (BUILDS / "coverage").rglob("*.gcda"):
                    data.unlink()
            run_tests(configuration, tally, testing, environment)
            run_also(configuration, tally, environment)
            if configuration.name == "coverage":
                covered = measure_coverage()
                tally.add(covered)
        print(f"{configuration.name}: {tally} in {time.monotonic() - start:.0f} s", flush=True)
        for field in ("passed", "failed", "skipped", "complaints"):
            setattr(total, field, getattr(total, field) + getattr(tally, field))
    for name, (check, well, badly) in CHECKS.items():
        if name in names:
            good = check()
            total.add(good)
            print(f"{numbered[name]}: {well if good else badly}", flush=True)
    if covered:
        show_coverage()
    print(*total.complaints, sep="\n", end="\n" if total.complaints else "")
    print(total)
    return total.failed > 0


def interrupt(_number, _frame):
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
