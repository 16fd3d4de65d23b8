# SPDX-License-Identifier: Apache-2.0
"""Runs of the tool for those who measure: their reports, what they print, and the inputs they need."""

import hashlib
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile


class Failed(Exception):
    """A command that should have ended well, and what it said."""


class Missing(Exception):
    """What a measurement needs and isn't there: data, a test's program, gnuplot."""


def processor_seconds():
    """Of all commands that have ended: unlike the clock, it hardly depends on what else the machine does."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def whole_chunks(schemes):
    """The list of schemes, with 1 piece where `tarry` says nothing of pieces; names stay what they were."""
    items = re.split(r",(?=[a-z-]+(?:[:,]|$))", schemes)
    for i, item in enumerate(items):
        if item.split(":")[0] == "tarry" and "pieces=" not in item:
            name = "" if "name=" in item else f"name={item},"
            items[i] = f"tarry:{name}pieces=1" + item.removeprefix("tarry").replace(":", ",", 1)
    return ",".join(items)


def explicit(command, *arguments):
    """What the tables mean where they leave pieces and the order open: whole chunks in the plan's own order, and
    in simulations all gradients kept, whatever memory this machine has."""
    if command in ("train", "serve", "plan") and "--advise" not in arguments:
        return command, "--pieces", "1", "--order", "optimal", *arguments
    if command != "simulate" or "--scheme" not in arguments:
        return command, *arguments
    if "--pieces" not in arguments:
        place = arguments.index("--scheme") + 1
        arguments = *arguments[:place], whole_chunks(arguments[place]), *arguments[place + 1:]
    return command, "--keep", "all", *arguments


class Runner:
    """Runs TARRY. Simulations are kept by their arguments, so that several tables can share one."""

    def __init__(self, tarry, data, *, jobs=None, echo=False, keep=None):
        self.tarry = tarry
        self.data = data
        self.jobs = jobs
        self.echo = echo
        self.folder = tempfile.TemporaryDirectory()
        self.simulated = {}
        self.keep = keep

    def run(self, *arguments):
        return self.call([self.tarry, *explicit(*map(str, arguments))], "tarry")

    def call(self, command, name=None):
        """Runs any command; with echo, says which and what it cost."""
        start = processor_seconds()
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              env=dict(os.environ, TARRY_TEST_LONG="1"))
        if self.echo:
            shown = shlex.join([name or command[0], *command[1:]])
            print(f"$ {shown}  # {processor_seconds() - start:.1f} s of processor time", file=sys.stderr, flush=True)
        return done

    def ended_well(self, *arguments):
        done = self.run(*arguments)
        if done.returncode != 0:
            raise Failed(f"{' '.join(map(str, arguments))}: {done.stderr.strip()}")
        return done

    def report(self, *arguments, command="train"):
        """The JSON report of a run that must end well."""
        path = os.path.join(self.folder.name, "report.json")
        self.ended_well(command, "--quiet", "--report", path, *arguments)
        with open(path) as file:
            return json.load(file)

    def results(self, *arguments):
        """A simulation's results, one per variant, in their order."""
        key = tuple(map(str, arguments))
        if key not in self.simulated:
            self.simulated[key] = self.kept(key) if self.keep else self.simulated_anew(key)
        return self.simulated[key]

    def simulated_anew(self, arguments):
        jobs = ["--jobs", self.jobs] if self.jobs else []
        return self.report(*jobs, *arguments, command="simulate")["results"]

    def kept(self, arguments):
        """The results that an earlier call of the same binary left in the folder `keep`, or new ones, which are left there."""
        name = hashlib.sha256("\0".join([self.digest(), *arguments]).encode()).hexdigest()
        path = os.path.join(self.keep, f"{name[:32]}.json")
        if os.path.exists(path):
            with open(path) as file:
                return json.load(file)
        results = self.simulated_anew(arguments)
        os.makedirs(self.keep, exist_ok=True)
        with open(path, "w") as file:
            json.dump(results, file)
        return results

    def digest(self):
        """Of the binary, in short."""
        with open(self.tarry, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()[:16]

    def simulate(self, *arguments):
        """The same by scheme and parts."""
        return {(row["scheme"], row["parts"]): row for row in self.results(*arguments)}

    def plan(self, *arguments):
        """The figures of a plan."""
        return json.loads(self.ended_well("plan", "--json", *arguments).stdout)

    def bench(self, *arguments):
        """The JSON report of a `tarry-bench`, built beside the tool."""
        return json.loads(self.ended("bench/program/tarry-bench", "bench", *arguments, "--json").stdout)

    def file(self, name):
        """The path of an input in the data folder, or None."""
        path = os.path.join(self.data, name)
        return path if os.path.exists(path) else None

    def needed(self, name):
        """The same; raises Missing."""
        path = self.file(name)
        if path is None:
            raise Missing(f"no {name} in {self.data}")
        return path

    def program(self, path, option):
        """A program of the build that TARRY is of, or of build/, that a build has with -Doption=true; raises Missing."""
        for build in os.path.join(os.path.dirname(self.tarry), "..", ".."), "build":
            if os.access(os.path.join(build, path), os.X_OK):
                return os.path.join(build, path)
        raise Missing(f"no {path}, which a build with -D{option}=true has")

    def ended(self, path, option, *arguments):
        """A run of such a program that must end well; tests take their long form."""
        done = self.call([self.program(path, option), *map(str, arguments)], path)
        if done.returncode != 0:
            raise Failed(f"{path}: {done.stderr.strip()}")
        return done
