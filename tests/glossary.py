#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds what users read to docs/glossary.md, and the links and paths in the tree to files that exist.

The glossary has each term once, in alphabetical order, with the page that explains it, and each is in use. Words that
it replaces stand in no public header, page, manual or help text. A relative link leads to a file and a heading that
exist; a path of the tree that a page or a comment names exists, and so do a file and a public name that a page names.

    glossary.py SOURCE_ROOT TARRY   checks a tree; one line per fault, exit status 1 if there is any
    glossary.py --self-test         shows that planted faults are found
"""

import pathlib
import re
import subprocess
import sys
import tempfile

# Tests whose planted faults name files that do not exist.
WITH_PLANTED = ("glossary.py", "layers.py")
COMMANDS = ["train", "serve", "work", "simulate", "plan", "keys", "top", "plan --advise", "privacy"]
GLOSSARY = "docs/glossary.md"
# A word that is not said, as it is written, and what is said in its place.
REPLACED = {
    r"(?<!half )\b(?:a|the|one|each|every|per|this|last|next|earlier|other|several) turns?\b": "iteration, or sequence",
    r"\buint\d+_t turn\b|\(turn\)": "sequence",
    r"\bdesks?\b": "slate",
    r"\bboards?\b": "shared parameters",
    r"\bwords_heard\b": "updates seen",
    r"\bstir(?:s|red)?\b": "mark dirty",
    r"\bcalm(?:s|ed|_all)?\b": "clear dirty",
    r"\b(?:bury|buries|buried)\b": "free",
    r"\bmortal\b": "simulator only",
    r"\bdone without\b": "'the server continues without it'",
    r"\bge?ts? on of late\b": "pace",
}
ENTRY = re.compile(r"- \*\*(.+?)\*\*")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(r"(?<![\w./-])(?:src|docs|tests|bench|include|tools|deploy|examples|fuzz|man)/[\w./*-]*\w")
# Made by the build.
MADE = {"include/tarry/version.h"}
CODE = {".c", ".h", ".py", ".sh"}
FILE = re.compile(r"`([\w-]+\.(?:c|h|py|sh))`")
NAME = re.compile(r"\b(?:tarry|TARRY)_\w*[a-zA-Z0-9]\b")
# Code names programs of the build and made-up names, too; what has one of these endings is a file of the tree.
NAMED = (".c", ".h", ".py", ".sh", ".md", ".1", ".supp")


def text_of(path):
    return path.read_text(encoding="utf-8")


def pages(root):
    yield from sorted((root / "docs").glob("*.md"))
    yield from (path for path in (root / "README.md", root / "CONTRIBUTING.md") if path.exists())


def read_by_users(root):
    yield from pages(root)
    yield from sorted((root / "man").glob("*.1"))
    yield from sorted((root / "include").rglob("*.h"))


def prose(text):
    """The text without code blocks and inline code, whose words are those of a program; lines stay lines."""
    text = re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), text, flags=re.S | re.M)
    return re.sub(r"`[^`\n]*`", "", text)


def entries_of(text):
    return [(match[1], line) for line in text.split("\n") if (match := ENTRY.match(line))]


def glossary_faults(root):
    text = text_of(root / GLOSSARY)
    blocks = [" ".join(block.split()) for block in re.split(r"\n(?=- \*\*|\n)", text) if block.lstrip().startswith("- **")]
    terms = [ENTRY.match(block)[1] for block in blocks]
    if not terms:
        yield f"{GLOSSARY}: no terms"
    for one, other in zip(terms, terms[1:]):
        if one.lower() == other.lower():
            yield f"{GLOSSARY}: '{one}' stands twice"
        elif one.lower() > other.lower():
            yield f"{GLOSSARY}: '{other}' stands behind '{one}'"
    used = "\n".join(text_of(path) for path in read_by_users(root) if path != root / GLOSSARY).lower()
    for term, block in zip(terms, blocks):
        if not LINK.search(block):
            yield f"{GLOSSARY}: '{term}' names no page"
        if not re.search(rf"(?<![a-z]){re.escape(term.lower())}(?:s|es)?(?![a-z])", used):
            yield f"{GLOSSARY}: '{term}' is in no other page or header"


def word_faults(name, text):
    text = re.sub(r"\n[ *]*", "\n", text)
    for pattern, better in REPLACED.items():
        for match in re.finditer(pattern.replace(" ", r"\s"), text, flags=re.I):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{name}:{line}: '{' '.join(match[0].split())}': say {better}"


def headings(text):
    """The anchors of a page's headings, as GitHub makes them."""
    for title in re.findall(r"^#+ (.*)$", text, flags=re.M):
        yield re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def link_faults(root, path):
    for target in LINK.findall(prose(text_of(path))):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        to = (path.parent / file) if file else path
        if not to.exists():
            yield f"{path.relative_to(root)}: {target} does not exist"
        elif anchor and anchor not in headings(text_of(to)):
            yield f"{path.relative_to(root)}: {target} is no heading there"


def path_faults(root, path):
    for number, line in enumerate(text_of(path).split("\n"), 1):
        for named in PATH.findall(line):
            if path.suffix in CODE and (not named.endswith(NAMED) or "*" in named) or named in MADE:
                continue
            if not any(root.glob(named)):
                yield f"{path.relative_to(root)}:{number}: {named} does not exist"


def name_faults(root):
    """Files and names of the code that pages and manuals name, and that are gone."""
    files = {path.name for path in code(root)}
    names = {name for path in [*code(root), *sorted(root.glob("include/tarry/*.in"))] for name in NAME.findall(text_of(path))}
    for path in read_by_users(root):
        for number, line in enumerate(text_of(path).split("\n"), 1):
            for gone in (*(set(FILE.findall(line)) - files), *(set(NAME.findall(line)) - names)):
                yield f"{path.relative_to(root)}:{number}: {gone} is nowhere in the tree"


def code(root):
    for folder in ("src", "include", "bench", "fuzz", "examples", "tests", "deploy", "python", "tools"):
        yield from (path for path in sorted((root / folder).rglob("*")) if path.suffix in CODE)


def tree_faults(root):
    yield from glossary_faults(root)
    for path in read_by_users(root):
        yield from word_faults(path.relative_to(root), prose(text_of(path)))
    for path in pages(root):
        yield from link_faults(root, path)
    for path in [*read_by_users(root), *code(root)]:
        if path.name not in WITH_PLANTED:
            yield from path_faults(root, path)
    yield from name_faults(root)


def help_faults(tarry):
    for command in COMMANDS:
        run = subprocess.run([tarry, *command.split(), "--help"], capture_output=True, text=True, check=True)
        yield from word_faults(f"tarry {command} --help", run.stdout)


TREE = {
    "docs/glossary.md": "# Glossary\n\n- **chunk** (data partition): A share of the data.\n  [a.md](a.md#one-piece)\n"
                        "- **round**: One sum. [a.md](a.md)\n",
    "docs/a.md": "# A page\n\n## One piece\n\nThe chunks of a round turn up in turn, in half a turn. [up](#one-piece)\n"
                 "`desk` and [the header](../include/tarry/plan.h), `src/base/a*.c`, `a.c`, `tarry_plan_free`\n",
    "include/tarry/plan.h": "/*\n * The chunk, see docs/a.md.\n */\nvoid tarry_plan_free(void);\n",
    "src/base/a.c": "/* As base/b.h and include/tarry/plan.h have it; tests/unit/test-base */\n",
}


def self_test():
    """Each change of a tree that holds breaks it in one way."""

    def check(what, file, old, new, wanted):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in TREE.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text.replace(old, new) if name == file else text)
            found = list(tree_faults(root))
            if [wanted in fault for fault in found] != [True] * (wanted != ""):
                yield f"{what}: wanted {wanted or 'nothing'}, found {found or 'nothing'}"

    page, glossary = "docs/a.md", "docs/glossary.md"
    yield from check("a tree that holds", page, "", "", "")
    yield from check("a term twice", glossary, "**round**", "**Chunk**", "'chunk' stands twice")
    yield from check("a term that nobody uses", glossary, "**round**", "**rank**", "'rank' is in no other page")
    yield from check("a term without a page", glossary, "One sum. [a.md](a.md)", "One sum.", "'round' names no page")
    yield from check("terms that are not sorted", glossary, "- **chunk**", "- **up** [a](a.md)\n- **chunk**",
                     "'chunk' stands behind 'up'")
    yield from check("a word that was replaced", page, "`desk`", "desk", "a.md:6: 'desk': say slate")
    yield from check("a turn", page, "half a turn", "each turn", "a.md:5: 'each turn'")
    yield from check("a turn in a header", "include/tarry/plan.h", "The chunk", "The next\n * turn", "plan.h:2: 'next turn'")
    yield from check("a field of that name", "include/tarry/plan.h", "*/\nvoid", "*/\nuint16_t turn;\nvoid",
                     "plan.h:4: 'uint16_t turn'")
    yield from check("a link to nothing", page, "plan.h)", "span.h)", "../include/tarry/span.h does not exist")
    yield from check("a link to no heading", page, "(#one-piece)", "(#two)", "#two is no heading")
    yield from check("a path to nothing", page, "a*.c", "b*.c", "a.md:6: src/base/b*.c does not exist")
    yield from check("a file that is gone", page, "`a.c`", "`b.c`", "a.md:6: b.c is nowhere")
    yield from check("a name that is gone", page, "plan_free", "plan_done", "a.md:6: tarry_plan_done is nowhere")
    yield from check("a path in a comment", "src/base/a.c", "tarry/plan.h", "tarry/span.h", "a.c:1: include/tarry/span.h")


def main(*arguments):
    if arguments == ("--self-test",):
        found = list(self_test())
    else:
        root, tarry = arguments
        found = [*tree_faults(pathlib.Path(root)), *help_faults(tarry)]
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
