# SPDX-License-Identifier: Apache-2.0
"""Holds the pages of docs/ against what is known to be measured: no table of figures without a way to repeat it."""

import pathlib

import markdown
import pages  # noqa: F401 (enters them)
import registry


def read(path):
    return path.read_text().split("\n")


def faults_of(page, name, lines):
    """What is wrong with one page (None: it isn't known), a line per fault."""
    try:
        marked = markdown.marked(lines)
    except ValueError as error:
        yield f"docs/{name}.md: {error}"
        return
    entries = page.entries if page else {}
    for missing in sorted(entries.keys() - marked.keys()):
        yield f"docs/{name}.md: no mark for the table '{missing}', which bench/pages/{name}.py measures"
    for unknown in sorted(marked.keys() - entries.keys()):
        yield f"docs/{name}.md: the mark '{unknown}' names nothing that bench/pages measures"
    shown = [(first, lines) for first, lines in markdown.tables(lines) if markdown.is_numeric(lines)]
    shown += markdown.consoles(lines)
    unmeasured = [header for header, _ in page.unmeasured] if page else []
    used = set()
    for first, block in shown:
        if any(of.first <= first < of.last for of in marked.values()):
            continue
        known = next((header for header in unmeasured if block_head(block).startswith(header)), None)
        used.add(known)
        if known is None:
            yield f"docs/{name}.md:{first + 1}: figures without a mark: {block_head(block)}"
    for header in unmeasured:
        if header not in used:
            yield f"docs/{name}.md: no table begins with {header}, which is listed as not measured"


def block_head(block):
    """What a block is listed by: a table's heading, a console's first command."""
    return block[0] if block[0].startswith("|") else block[1].strip()


def faults(docs):
    paths = {path.stem: path for path in sorted(pathlib.Path(docs).glob("*.md"))}
    for name in sorted(registry.PAGES.keys() - paths.keys()):
        yield f"docs/{name}.md is not there, and bench/pages measures it"
    for name, path in paths.items():
        yield from faults_of(registry.PAGES.get(name), name, read(path))
    figures = pathlib.Path(docs) / "figures"
    drawn = {file for page in registry.PAGES.values() for group in page.figures for file in group.files}
    drawn |= {file for page in registry.PAGES.values() for file in page.by_hand}
    there = {path.name for path in figures.iterdir()} if figures.exists() else set()
    for name in sorted(drawn ^ there):
        yield f"docs/figures/{name}: {'nothing draws it' if name in there else 'drawn by bench/pages, but not there'}"
