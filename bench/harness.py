# SPDX-License-Identifier: Apache-2.0
"""Claims of the documentation beside their limits: what runs them and prints them as a Markdown table."""

import argparse
import sys

import markdown
import runner

HEADER = ["claim", "measured", "limit", "holds"]


class Claims(list):
    """Functions of a Bench, each of which prints its rows; used as a decorator."""

    def __call__(self, function):
        self.append(function)
        return function


class Bench(runner.Runner):
    """Runs of the tool, whose outcomes are printed as rows, unless they are collected."""

    def __init__(self, tarry, data, **settings):
        super().__init__(tarry, data, **settings)
        self.missed = 0
        self.collecting = None

    def collected(self, claims):
        """The header and rows of these claims, for a table."""
        rows = self.collecting = []
        try:
            for function in claims:
                function(self)
        finally:
            self.collecting = None
        return HEADER, rows

    def show(self, cells):
        if self.collecting is not None:
            self.collecting.append(cells)
        else:
            print(markdown.line_of(cells), flush=True)

    def row(self, what, value, limit, good):
        self.missed += not good
        self.show([what, value, limit, "yes" if good else "**no**"])

    def at_most(self, what, value, limit, digits=3):
        self.row(what, f"{value:.{digits}g}", f"<= {limit:g}", value <= limit)

    def at_least(self, what, value, limit):
        self.row(what, f"{value:.4g}", f">= {limit:g}", value >= limit)

    def note(self, what, value):
        """A figure that no limit is set for."""
        self.show([what, value, "", ""])

    def skip(self, what, why):
        self.note(what, f"skipped: {why}")


def main(claims, description):
    """Runs the claims of a script, and exits with 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("tarry")
    parser.add_argument("data", nargs="?", default="../shared/data")
    parser.add_argument("--only", help="run this claim alone: " + ", ".join(c.__name__ for c in claims))
    options = parser.parse_args()
    bench = Bench(options.tarry, options.data)
    print("\n".join(markdown.table(HEADER, [])))
    for function in claims:
        if options.only in (None, function.__name__):
            try:
                function(bench)
            except runner.Failed as failed:
                sys.exit(str(failed))
    sys.exit(1 if bench.missed else 0)
