#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the documentation site out of the tree: its pages, the manual, the headers and the Python package.

    build.py FOLDER     FOLDER/site gets it; index.html is the start

A page is at the place where its file is in the tree, so that links between files stay links between pages: a file that
is not Markdown becomes a page that shows it. mkdocs-material and mkdocstrings come in a virtual environment of FOLDER; the
site itself loads nothing from anywhere else. Broken links and headings, and pages that no menu has, are errors.
"""

import ast
import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOLS = ("mkdocs-material >= 9.5, < 10", "mkdocstrings[python] >= 0.26", "ruff")
# The Python modules, and what belongs together of each; errors and the rest follow. None: a module that is one group.
PYTHON_MODULES = {
    "tarry": {
        "Plans and stragglers": ("Plan", "Conditioning", "Straggler"),
        "Sums in one process": ("Local",),
        "Sums over the network": ("Server", "Worker", "Job", "Notice"),
        "Settings of a server": ("ServerSettings",),
        "What a worker computes": ("Task", "Span"),
        "What a round brings": ("Round", "WorkerState"),
        "Where everyone gets the sum": ("Replica", "SumId"),
        "Simulation": ("simulate",),
    },
    "tarry.torch": {"Training": ("join", "Job", "Step", "Piece")},
    "tarry.torch.accelerate": None,
    "tarry.privacy": None,
    "tarry.dp": None,
    "tarry.pictures": None,
}

# The menus, by files of docs/; a page that is in none of them goes to the last one.
MENUS = {
    "Guide": ("README", "train", "simulate", "python", "torch", "plan", "deploy", "security", "privacy", "mpi",
              "stragglers", "data-formats"),
    "Reference": ("api", "reports", "pairs", "glossary"),
    "How it works": ("architecture", "protocol", "collective", "dynamic", "evolution", "parts", "compression", "sampling", "conditioning", "local-steps", "fill",
                     "network", "wire", "kernels", "simulator", "testing", "fuzzing"),
    "Measurements": ("measurements", "regimes", "gossip", "experiments", "traces", "scale", "reliability", "tried"),
}
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
XREF = re.compile(r'<a class="Xr" href="([^"]*)[.]html">(.*?)</a>')
LANGUAGES = {".c": "c", ".h": "c", ".py": "python", ".sh": "bash", ".yaml": "yaml", ".yml": "yaml", ".conf": "ini",
             ".service": "ini", ".toml": "toml"}


class Pages:
    """The pages' source, in a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.wanted = []  # files that pages link to
        self.made = set()

    def write(self, path, text):
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def page(self, path):
        """A Markdown file of the tree, with its links led to pages."""
        self.made.add(path)
        parts = re.split(r"(^```.*?^```$)", (ROOT / path).read_text(encoding="utf-8"), flags=re.S | re.M)
        parts[::2] = [LINK.sub(lambda link: link[1] + self.target(path, link[2]) + link[3], part) for part in parts[::2]]
        self.write(path, "".join(parts))

    def target(self, path, link):
        """Where a link of this page leads on the site."""
        name, _, heading = link.partition("#")
        if not name or "://" in name or name.startswith("mailto:"):
            return link
        file = pathlib.Path(os.path.normpath(path.parent / name))
        if not (ROOT / file).exists():
            sys.exit(f"site: {path}: {link} is not there")
        if file.suffix in (".svg", ".png"):
            (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, self.folder / file)
            return link
        self.wanted.append(file)
        page = name.rstrip("/") + "/README.md" if (ROOT / file).is_dir() else name if file.suffix == ".md" else name + ".md"
        return page + (f"#{heading}" if heading else "")

    def linked(self):
        """Pages of all files that pages link to, and of those that these link to."""
        while self.wanted:
            file = self.wanted.pop()
            if file in self.made:
                continue
            self.made.add(file)
            if (ROOT / file).is_dir():
                self.listing(file)
            elif file.suffix == ".md":
                self.page(file)
            elif file.parent.name == "man":
                self.manual(file)
            elif file.suffix == ".ipynb":
                self.notebook(file)
            else:
                self.source(file)

    def listing(self, folder):
        inside = subprocess.run(["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, text=True, check=False)
        files = [pathlib.Path(name) for name in inside.stdout.split("\0") if name]
        files = files or [path.relative_to(ROOT) for path in sorted((ROOT / folder).rglob("*")) if path.is_file()]
        files = [file for file in files if file.name != "meson.build"]
        items = [f"- [{file.relative_to(folder)}]({file.relative_to(folder)}.md)" for file in files]
        self.wanted += files
        self.write(folder / "README.md", f"# {folder}\n\n" + "\n".join(items) + "\n")

    def source(self, file):
        text = (ROOT / file).read_text(encoding="utf-8")
        title = file.relative_to("include") if file.is_relative_to("include/tarry") else file
        language = LANGUAGES.get(file.suffix, "text")
        self.write(file.with_name(file.name + ".md"), f"# {title}\n\n`````` {language}\n{text}``````\n")

    def notebook(self, file):
        """Its texts, its code, and what that printed and drew."""
        text = []
        for cell in json.loads((ROOT / file).read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"]).rstrip("\n")
            text.append(source if cell["cell_type"] == "markdown" else f"``` python\n{source}\n```")
            for output in cell.get("outputs", ()):
                if "text" in output:
                    text.append("``` text\n" + "".join(output["text"]).rstrip("\n") + "\n```")
                elif "image/png" in output.get("data", ()):
                    picture = file.with_name(f"{file.stem}-{len(text)}.png")
                    (self.folder / picture).parent.mkdir(parents=True, exist_ok=True)
                    (self.folder / picture).write_bytes(base64.b64decode(output["data"]["image/png"]))
                    text.append(f"![what the code above draws]({picture.name})")
        self.write(file.with_name(file.name + ".md"), "\n\n".join(text) + "\n")

    def manual(self, file):
        """A manual page: its sections' text is HTML, under headings of Markdown."""
        made = subprocess.run(["mandoc", "-T", "html", "-O", "fragment,man=%N.%S.html", ROOT / file], capture_output=True,
                              text=True, check=True).stdout
        text = [f"# {file.stem}(1)\n"]
        for section in made.split('<section class="Sh">')[1:]:
            heading, body = section.split("</h1>", 1)
            heading = " ".join(re.sub(r"<[^>]*>", "", heading).split())
            body = XREF.sub(lambda link: link[0] if (ROOT / "man" / link[1]).exists() else link[2], body.split("</section>")[0])
            text.append(f"## {heading.capitalize()}\n\n<div>\n{body.strip()}\n</div>\n")
        self.write(file.with_name(file.name + ".md"), "\n".join(text))

    def python(self, module):
        """A module: each name that it has to offer, those of a group together."""
        page = pathlib.Path("python") / f"{module}.md"
        if PYTHON_MODULES[module] is None:
            self.write(page, f"# {module}\n\n::: {module}\n    options: {{show_root_heading: false}}\n")
            return
        file = ROOT / "python" / module.replace(".", "/") / "__init__.py"
        [offered] = [ast.literal_eval(line.value) for line in ast.parse(file.read_text(encoding="utf-8")).body
                     if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "__all__"]
        groups = {title: [name for name in names if name in offered] for title, names in PYTHON_MODULES[module].items()}
        listed = {name for names in groups.values() for name in names}
        groups["Errors"] = [name for name in offered if name.endswith("Error") or name.startswith("Interrupted")]
        groups["More"] = [name for name in offered if name not in listed and name not in groups["Errors"]]
        text = [f"# {module}\n\n::: {module}\n    options: {{members: false, show_root_heading: false}}\n"]
        for title, names in groups.items():
            if names:
                text.append(f"## {title}\n")
                text += [f"::: {module}.{name}\n    options: {{heading_level: 3}}\n" for name in names]
        self.write(page, "\n".join(text))


def titled(files, title):
    return [{title(file): f"{file}.md"} for file in files]


def navigation(pages):
    """The menus as mkdocs has them."""
    listed = {name for names in MENUS.values() for name in names}
    there = {path.stem for path in (ROOT / "docs").glob("*.md")}
    menus = {menu: [f"docs/{name}.md" for name in names if name in there] for menu, names in MENUS.items()}
    menus["Measurements"] += [f"docs/{name}.md" for name in sorted(there - listed)]
    headers = [file.relative_to(ROOT) for file in sorted((ROOT / "include" / "tarry").glob("*.h"))]
    manual = [file.relative_to(ROOT) for file in sorted((ROOT / "man").glob("*.1"))]
    pages.wanted += [pathlib.Path(page) for names in menus.values() for page in names] + headers + manual
    pages.linked()
    for module in PYTHON_MODULES:
        pages.python(module)
    menus["Reference"] += [
        {"Python": [f"python/{module}.md" for module in PYTHON_MODULES]},
        {"Commands": titled(manual, lambda file: f"{file.stem}(1)")},
        {"C headers": titled(headers, lambda file: file.name)},
    ]
    in_menus = {*headers, *manual, *(pathlib.Path(page) for names in menus.values() for page in names
                                     if isinstance(page, str))}
    others = sorted(pages.made - in_menus - {pathlib.Path("README.md"), pathlib.Path("CONTRIBUTING.md"),
                                            pathlib.Path("CHANGELOG.md")})
    files = [{str(file): f"{file}/README.md" if (ROOT / file).is_dir() else f"{file}.md"} for file in others]
    project = ["CONTRIBUTING.md", "CHANGELOG.md", {"Files that pages name": files}]
    return [{"Start": "README.md"}, *({menu: entries} for menu, entries in menus.items()), {"Project": project}]


def environment(folder):
    """The interpreter of a virtual environment with the tools."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *TOOLS], check=True)
    return python


def main(folder):
    if shutil.which("mandoc") is None:
        sys.exit("site: mandoc is not there: please install it")
    python = environment(folder / "tools")
    source = folder / "pages"
    shutil.rmtree(source, ignore_errors=True)
    pages = Pages(source)
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        pages.page(pathlib.Path(name))
    menus = navigation(pages)
    config = folder / "mkdocs.yml"
    config.write_text(f"INHERIT: {os.path.relpath(ROOT / 'tools' / 'site' / 'mkdocs.yml', folder)}\n"
                      f"docs_dir: pages\nsite_dir: site\nnav: {json.dumps(menus)}\n")
    # Not --quiet, with which warnings would not count; and without the notice of what may come after mkdocs-material.
    ended = subprocess.run([python, "-m", "mkdocs", "build", "--strict", "--config-file", config],
                           env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, check=False)
    if ended.returncode != 0:
        sys.exit(f"{ended.stdout}\nsite: mkdocs ended with status {ended.returncode}")
    print(f"the site is in {os.path.relpath(folder / 'site', ROOT)}: open index.html, or, to search, too, "
          f"python3 -m http.server --directory {os.path.relpath(folder / 'site', ROOT)}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]).resolve())
