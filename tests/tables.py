#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the tables of docs/ to bench/tables.py: each is measured by it or listed as nothing to measure, and small ones agree.

    tables.py SOURCE_ROOT TARRY DATA    checks a tree; one line per fault, exit status 1 if there is any
    tables.py SOURCE_ROOT --self-test   shows that planted faults are found
"""

import pathlib
import re
import sys
import tempfile

# Small enough for a build with sanitizers.
REPEATED = ["plan/orders", "traces/dropped", "dynamic/alike", "simulate/dead"]


def faults(docs, bench):
    yield from inventory.faults(docs)
    for name in REPEATED:
        entry, = tables.chosen(name)
        lines = markdown.marked(inventory.read(docs / f"{entry.page}.md"))[entry.name].lines
        try:
            new = markdown.keep(lines, entry.make(bench, lines), entry.clock, entry.clock_rows)
        except runner.Missing as missing:
            print(f"{name}: skipped: {missing}")
            continue
        for difference in markdown.differences(lines, new):
            yield f"docs/{entry.page}.md: {entry.name}: {difference}"


PAGE = """# A page

| settings | |
| --- | --- |
| workers | 200 of them |

<!-- table: times -->
| scheme | seconds |
| --- | --- |
| one | 2.29 |
| two | 1.05 (late) |
<!-- end -->

| names | |
| --- | --- |
| no | figures |
"""
COUNTED = [["one", "2.29"], ["two", "1.05 (late)"]]


def self_test():
    """Each change of a page that holds breaks it in one way."""

    def check(what, text, rows, wanted):
        page = registry.Page("page")
        page.not_measured("settings", "| settings |")
        page.table("times")(lambda bench: (["scheme", "seconds"], rows))
        lines = text.split("\n")
        found = list(inventory.faults_of(page, "page", lines))
        if not found:
            block = markdown.marked(lines)["times"]
            found = list(markdown.differences(block.lines, page.entries["times"].make(None, block.lines)))
        del registry.PAGES["page"]
        if [wanted in fault for fault in found] != [True] * (wanted != ""):
            yield f"{what}: wanted {wanted or 'nothing'}, found {found or 'nothing'}"

    yield from check("a page that holds", PAGE, COUNTED, "")
    yield from check("another figure", PAGE.replace("2.29", "2.28"), COUNTED, "'seconds': 2.28 on the page, now 2.29")
    yield from check("a row more", PAGE, [*COUNTED, ["three", "3"]], "'(nothing)' on the page, now '| three | 3 |'")
    yield from check("no mark", PAGE.replace("<!-- table: times -->\n", ""), COUNTED, "where a block is not open")
    yield from check("no end", PAGE.replace("<!-- end -->\n", ""), COUNTED, "times has no end")
    yield from check("an unknown mark", PAGE + "\n<!-- table: more -->\n<!-- end -->\n", COUNTED, "'more' names nothing")
    yield from check("figures without a mark", PAGE.replace("no | figures", "some | 3 figures"), COUNTED,
                     "page.md:14: figures without a mark")
    yield from check("figures in a console", PAGE + "```\n$ tarry simulate\n3 trials\n```\n", COUNTED,
                     "figures without a mark: $ tarry simulate")
    yield from check("settings that are gone", PAGE.replace("| settings |", "| setting |").replace("200", "some"), COUNTED,
                     "no table begins with | settings |")
    yield from written()


def written():
    """A block is replaced and nothing else; what is kept of it stays."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "page.md"
        path.write_text(PAGE)
        old = markdown.marked(inventory.read(path))["times"].lines
        new = markdown.table(["scheme", "seconds"], [["one", "9"], ["two", "9"]])
        tables.replace(path, "times", markdown.keep(old, new, [], re.compile("two")))
        if path.read_text() != PAGE.replace("2.29", "9"):
            yield f"what was written: {path.read_text()}"
        if markdown.keep(old, new, ["seconds"]) != old:
            yield "a column that is kept does not stay"


def main(root, *arguments):
    docs = pathlib.Path(root) / "docs"
    found = list(self_test() if arguments == ("--self-test",) else faults(docs, harness.Bench(*arguments)))
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "bench"))
    import harness
    import inventory
    import markdown
    import registry
    import runner
    import tables

    sys.exit(main(*sys.argv[1:]))
