# SPDX-License-Identifier: Apache-2.0
"""For the documentation site: tables in docstrings, a name and what is said of it, become lists.

    workers     m >= 1
    replication workers that hold each unit,
                1..workers
"""

import re

import griffe

_NAMES = re.compile(r"\w+(, \w+)*")


def _column(lines):
    """Where the text of a table's rows begins; None: it is no table."""
    heads = [line for line in lines if not line.startswith(" ")]
    starts = [re.match(r"\w+(?:, \w+)*(\s+)", head) for head in heads]
    if not heads or lines[0].startswith(" ") or not all(starts) or not any(len(start[1]) > 1 for start in starts):
        return None
    column = max(start.end() for start in starts)
    for line in lines:
        before, first = line[:column].strip(), line[column - 1 : column + 1]
        if not (first[:1] == " " and first[1:].strip()) or (before and not _NAMES.fullmatch(before)):
            return None
    return column


def _list(lines, column):
    """The table's rows as items of a list, each with its name as code."""
    items = []
    for line in lines:
        name, text = line[:column].strip(), line[column:].strip()
        if name:
            names = ", ".join(f"`{one}`" for one in name.split(", "))
            items.append(f"- {names}: {text}")
        else:
            items[-1] += f" {text}"
    return items


def with_lists(text):
    blocks = []
    for block in text.split("\n\n"):
        lines = block.split("\n")
        column = _column(lines)
        blocks.append(block if column is None else "\n".join(_list(lines, column)))
    return "\n\n".join(blocks)


class Tables(griffe.Extension):
    def on_object(self, *, obj, **_):
        if obj.docstring:
            obj.docstring.value = with_lists(obj.docstring.value)
