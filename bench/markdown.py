# SPDX-License-Identifier: Apache-2.0
"""Pages of docs/ as lists of blocks: tables and console output, some of them between marks that name them.

A marked block stands between `<!-- table: NAME -->` and `<!-- end -->`, each on a line of its own.
"""

import re

MARK = re.compile(r"<!-- table: (\S+) -->$")
END = "<!-- end -->"
RULE = re.compile(r"\|( -+ \|)+$")
FENCE = re.compile(r"( *)```")
COMMAND = re.compile(r" *\$ tarry (simulate|plan|train|bench)\b")
# A cell with a measured value begins with a number, or with a sign or emphasis before one.
NUMBER = re.compile(r"[*<>=~ -]*\d")


class Block:
    """Lines first .. last of a page (from 0, last excluded); name is None outside of marks."""

    def __init__(self, name, first, lines):
        self.name = name
        self.first = first
        self.lines = lines

    @property
    def last(self):
        return self.first + len(self.lines)


def marked(lines):
    """The blocks between marks, in their order. ValueError: a mark without an end, or a name twice."""
    blocks, start = {}, None
    for number, line in enumerate(lines):
        mark = MARK.match(line)
        if mark and start is not None or line == END and start is None:
            raise ValueError(f"line {number + 1}: {line} where a block is {'open' if mark else 'not open'}")
        if mark:
            start = mark[1], number + 1
        elif line == END:
            name, first = start
            if name in blocks:
                raise ValueError(f"line {first}: {name} stands there twice")
            blocks[name] = Block(name, first, lines[first:number])
            start = None
    if start is not None:
        raise ValueError(f"line {start[1]}: {start[0]} has no end")
    return blocks


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def is_numeric(table):
    """Whether a table, as lines, has figures: numbers in a column that isn't the first."""
    return any(NUMBER.match(cell) for line in table[2:] for cell in cells(line)[1:])


def tables(lines):
    """Every table of a page as (number of its first line, lines)."""
    number = 0
    while number < len(lines):
        last = number
        while last < len(lines) and lines[last].startswith("|"):
            last += 1
        if last > number:
            yield number, lines[number:last]
        number = last + 1


def consoles(lines):
    """Every fenced block with a command and what it printed, as (number of its first line, lines)."""
    number = 0
    while number < len(lines):
        if FENCE.match(lines[number]):
            last = number + 1
            while not FENCE.match(lines[last]):
                last += 1
            block = lines[number:last + 1]
            if any(output for _, output in commands(block)):
                yield number, block
            number = last
        number += 1


def commands(block):
    """The commands of a fenced block with what follows each: (lines of the command, lines of its output)."""
    found, open_command = [], False
    for line in block[1:-1]:
        if COMMAND.match(line):
            found.append(([line], []))
        elif found:
            found[-1][0 if open_command else 1].append(line)
        open_command = bool(found) and line.endswith("\\") and (open_command or COMMAND.match(line) is not None)
    return found


def table(header, rows):
    """The lines of a table. ValueError: a row has not as many cells as the header."""
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"{len(row)} cells under {len(header)} headings: {row}")
    return [line_of(header), line_of(["---"] * len(header)), *map(line_of, rows)]


def line_of(row):
    return re.sub(" +", " ", "| " + " | ".join(map(str, row)) + " |")


def is_table(lines):
    return len(lines) > 1 and RULE.match(lines[1]) is not None


def keep(old, new, columns, rows=None):
    """`new` with what `old` has in these columns, and in the rows whose first cell matches `rows` (a pattern, or None).

    Where the two tables don't have the same headings and as many rows, nothing is kept.
    """
    if not is_table(old) or not is_table(new) or old[0] != new[0] or len(old) != len(new):
        return new
    header, merged = cells(new[0]), new[:2]
    for before, after in zip(old[2:], new[2:]):
        past, now = cells(before), cells(after)
        whole = rows is not None and past[0] == now[0] and rows.search(now[0]) is not None
        merged.append(line_of([was if whole or name in columns else cell for name, was, cell in zip(header, past, now)]))
    return merged


def differences(old, new):
    """What differs between two blocks: a line for each cell, or for each line where they aren't alike."""
    if is_table(old) and is_table(new) and len(old) == len(new) and old[0] == new[0]:
        header = cells(new[0])
        for number, (before, after) in enumerate(zip(old[2:], new[2:]), 1):
            before, after = cells(before), cells(after)
            for name, was, now in zip(header, before, after):
                if was != now:
                    yield f"row {number} ({after[0]}), '{name}': {was or 'nothing'} on the page, now {now}"
        return
    for number in range(max(len(old), len(new))):
        was, now = (lines[number] if number < len(lines) else "(nothing)" for lines in (old, new))
        if was != now:
            yield f"line {number + 1}: {was!r} on the page, now {now!r}"
