# SPDX-License-Identifier: Apache-2.0
"""Claims of the documentation beside their limits: what runs them and prints them as a Markdown table."""

import argparse
import json
import os
import subprocess
import sys
import tempfile


class Claims(list):
    """Functions of a Bench, each of which prints its rows; used as a decorator."""

    def __call__(self, function):
        self.append(function)
        return function


class Bench:
    def __init__(self, tarry, data):
        self.tarry = tarry
        self.data = data
        self.missed = 0
        self.folder = tempfile.TemporaryDirectory()

    def run(self, *arguments):
        return subprocess.run([self.tarry, *map(str, arguments)], capture_output=True, text=True)

    def report(self, *arguments, command="train"):
        """The JSON report of a run that must end well."""
        path = os.path.join(self.folder.name, "report.json")
        done = self.run(command, "--quiet", "--report", path, *arguments)
        if done.returncode != 0:
            sys.exit(f"{command} {' '.join(map(str, arguments))}: {done.stderr.strip()}")
        with open(path) as file:
            return json.load(file)

    def simulate(self, *arguments):
        """The results of a simulation, by scheme and parts."""
        results = self.report(*arguments, command="simulate")["results"]
        return {(row["scheme"], row["parts"]): row for row in results}

    def row(self, what, value, limit, good):
        self.missed += not good
        print(f"| {what} | {value} | {limit} | {'yes' if good else '**no**'} |", flush=True)

    def at_most(self, what, value, limit, digits=3):
        self.row(what, f"{value:.{digits}g}", f"<= {limit:g}", value <= limit)

    def at_least(self, what, value, limit):
        self.row(what, f"{value:.4g}", f">= {limit:g}", value >= limit)

    def note(self, what, value):
        """A figure that no limit is set for."""
        print(f"| {what} | {value} | | |", flush=True)

    def skip(self, what, why):
        self.note(what, f"skipped: {why}")

    def file(self, name):
        path = os.path.join(self.data, name)
        return path if os.path.exists(path) else None


def main(claims, description):
    """Runs the claims of a script, and exits with 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("tarry")
    parser.add_argument("data", nargs="?", default="../shared/data")
    parser.add_argument("--only", help="run this claim alone: " + ", ".join(c.__name__ for c in claims))
    options = parser.parse_args()
    bench = Bench(options.tarry, options.data)
    print("| claim | measured | limit | holds |\n| --- | --- | --- | --- |")
    for function in claims:
        if options.only in (None, function.__name__):
            function(bench)
    sys.exit(1 if bench.missed else 0)
