#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the tables and figures of docs/ again, and says which cells differ from what the pages have.

TARRY is the binary (an optimised build), DATA the folder with a9a.t, the digits and traces/; what needs more than is there (a
build with tests, gnuplot) is skipped, and said. Simulated figures are functions of the seed, and agree to the digit. What
depends on the machine's speed is measured with --clock alone, and never counts as a difference.

The exit status is 1 if a command fails, or if something differs and is not written.
"""

import argparse
import filecmp
import os
import pathlib
import shutil
import sys

import harness
import inventory
import markdown
import registry
import runner

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"


class Session:
    """Repeats one thing after the other, and counts what differs."""

    def __init__(self, bench, docs, *, write, clock):
        self.bench = bench
        self.docs = docs
        self.write = write
        self.clock = clock
        self.differ = 0
        self.skipped = 0
        self.failed = 0

    def repeat(self, entry):
        if entry.clock is True and not self.clock:
            self.skipped += 1
            print(f"{entry}: depends on the clock, left out (--clock)", flush=True)
            return
        try:
            (self.draw if isinstance(entry, registry.Figures) else self.measure)(entry)
        except runner.Missing as missing:
            self.skipped += 1
            print(f"{entry}: skipped: {missing}", flush=True)
        except runner.Failed as failed:
            self.failed += 1
            print(f"{entry}: failed: {failed}", flush=True)

    def measure(self, entry):
        path = self.docs / f"{entry.page}.md"
        old = markdown.marked(inventory.read(path))[entry.name].lines
        new = entry.make(self.bench, old)
        new = markdown.keep(old, new, entry.by_hand)
        if not self.clock:
            new = markdown.keep(old, new, entry.clock, entry.clock_rows)
        print("\n".join(new))
        found = list(markdown.differences(old, new))
        self.tell(entry, found, counts=entry.clock is not True)
        if found and self.write:
            replace(path, entry.name, new)

    def draw(self, entry):
        folder = os.path.join(self.bench.folder.name, "figures")
        os.makedirs(folder, exist_ok=True)
        entry.make(self.bench, folder)
        figures = self.docs / "figures"
        found = [file for file in entry.files
                 if not (figures / file).exists() or not filecmp.cmp(os.path.join(folder, file), figures / file, False)]
        self.tell(entry, [f"{file} is drawn otherwise" for file in found], counts=True)
        for file in found if self.write else []:
            shutil.copyfile(os.path.join(folder, file), figures / file)

    def tell(self, entry, found, counts):
        print(f"{entry}: {f'{len(found)} differ' if found else 'as on the page'}{', written' * self.write * bool(found)}")
        for line in found:
            print(f"  {line}")
        print(flush=True)
        self.differ += len(found) * counts


def replace(path, name, lines):
    """Puts the lines between the marks of `name`; the page is read anew, as somebody may be writing it."""
    page = inventory.read(path)
    block = markdown.marked(page)[name]
    path.write_text("\n".join(page[:block.first] + lines + page[block.last:]))


def chosen(only):
    """The entries and figures that PAGE or PAGE/NAME names; all of them for None."""
    everything = [entry for name in sorted(registry.PAGES) for entry in
                  [*registry.PAGES[name].entries.values(), *registry.PAGES[name].figures]]
    return [entry for entry in everything if only is None or only in (entry.page, str(entry))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tarry", metavar="TARRY")
    parser.add_argument("data", metavar="DATA", nargs="?", default="../shared/data")
    parser.add_argument("--only", metavar="PAGE[/NAME]", help="these alone")
    parser.add_argument("--write", action="store_true", help="put what differs into the pages")
    parser.add_argument("--clock", action="store_true", help="measure what depends on the machine too; it should be idle")
    parser.add_argument("--jobs", metavar="N", help="trials at the same time (default: the machine's cores)")
    parser.add_argument("--keep", metavar="DIR", help="leave simulations there, and take those of the same binary from there")
    parser.add_argument("--list", action="store_true", help="name everything, and measure nothing")
    parser.add_argument("--docs", metavar="DIR", type=pathlib.Path, default=DOCS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    entries = chosen(options.only)
    if not entries:
        parser.error(f"nothing is called {options.only}; --list says what there is")
    if options.list:
        print("\n".join(map(str, entries)))
        return 0
    session = Session(harness.Bench(options.tarry, options.data, jobs=options.jobs, keep=options.keep, echo=True), options.docs,
                      write=options.write, clock=options.clock)
    for entry in entries:
        session.repeat(entry)
    print(f"{len(entries) - session.skipped - session.failed} repeated, {session.skipped} skipped, {session.failed} failed, {session.differ} figures differ; "
          f"{runner.processor_seconds():.0f} s of processor time")
    return 1 if session.failed or (session.differ and not options.write) else 0


if __name__ == "__main__":
    sys.exit(main())
