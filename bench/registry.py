# SPDX-License-Identifier: Apache-2.0
"""What is measured for which page of docs/, by name; and what isn't measured, and why."""

import re
import shlex

import markdown
import runner

PAGES = {}


class Entry:
    """A marked block of a page, and what makes it anew.

    make(runner, lines) returns its lines; `lines` are those on the page. clock names the columns that depend on the machine and
    its load, or is True where all of it does; clock_rows is a pattern of the first cells of rows that do. by_hand names the
    columns that no command repeats, as they are of another build or day.
    """

    def __init__(self, page, name, make, clock=(), clock_rows=None, by_hand=()):
        self.page = page
        self.name = name
        self.make = make
        self.clock = clock
        self.clock_rows = clock_rows and re.compile(clock_rows)
        self.by_hand = by_hand

    def __str__(self):
        return f"{self.page}/{self.name}"


class Figures:
    """Files of docs/figures that one function draws: make(runner, folder)."""

    def __init__(self, page, files, make, clock):
        self.page = page
        self.name = make.__name__
        self.files = files
        self.make = make
        self.clock = clock

    def __str__(self):
        return f"{self.page}/{self.name}"


class Page:
    def __init__(self, name):
        self.name = name
        self.entries = {}
        self.figures = []
        self.unmeasured = []
        self.by_hand = []  # files of docs/figures that no command draws
        PAGES[name] = self

    def table(self, name, **kept):
        """For a function of the runner that returns (header, rows); what is kept of the page's is said as for Entry."""

        def enter(function):
            self.entries[name] = Entry(self.name, name, lambda tarry, _: filled(*function(tarry)), **kept)
            return function

        return enter

    def console(self, *names):
        """Fenced blocks whose commands stand in them, each above what it prints."""
        for name in names:
            self.entries[name] = Entry(self.name, name, repeat_commands)

    def drawing(self, *files, clock=False):
        """For a function of the runner and a folder that leaves these files there."""

        def enter(function):
            self.figures.append(Figures(self.name, files, function, clock))
            return function

        return enter

    def drawn_by_hand(self, *files):
        self.by_hand += files

    def not_measured(self, why, *headers):
        """Tables whose first lines begin so have nothing to be measured, or no command of ours measures it."""
        self.unmeasured += [(header, why) for header in headers]


def filled(header, rows):
    """The lines of a table that has rows: what measures nothing has failed."""
    if not rows:
        raise runner.Failed(f"nothing was measured for | {' | '.join(map(str, header))} |")
    return markdown.table(header, rows)


TOOK = re.compile(r" in \d[^:,]*(?=: )")


def without_times(line):
    """A line of output without the time that the command itself took."""
    return TOOK.sub(" in -", line)


def repeat_commands(tarry, lines):
    """The lines of a fenced block with the output of its commands as it is now; times that only they took stay."""
    again = [lines[0]]
    for command, before in markdown.commands(lines):
        words = shlex.split(" ".join(line.strip().removesuffix("\\") for line in command))[2:]
        printed = tarry.ended_well(*words).stdout
        after = printed.rstrip("\n").split("\n") if before else []
        past = {without_times(line): line for line in before}
        # An empty line between two commands is the page's.
        after += [""] if before and before[-1] == "" else []
        again += command + [past.get(without_times(line), line) for line in after]
    return again + [lines[-1]]
