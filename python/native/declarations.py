# SPDX-License-Identifier: Apache-2.0
"""What the installed headers declare, as cffi reads it: the whole of tarry/tarry.h and nothing of the system's."""

import re
import subprocess

# A line '# 12 "include/tarry/plan.h" 1' says where the lines after it come from.
_MARKER = re.compile(r'^# \d+ "(?P<file>[^"]*)"')
_CONSTANT = re.compile(r"^#define (?P<name>TARRY_[A-Z_]+) (?P<value>[^\n]+)$", re.MULTILINE)
_NOT_CONSTANTS = ("TARRY_API",)
# What cffi would have to know of the system's headers; the types themselves are known to it.
_OWN_FOLDER = re.compile(r"(^|/)tarry/[a-z_]+\.h$")


def preprocess(compiler, includes):
    """The text of tarry/tarry.h after the preprocessor, with markers."""
    command = [*compiler, "-E", "-D__attribute__(x)=", *(f"-I{folder}" for folder in includes), "-x", "c", "-"]
    source = "#include <tarry/tarry.h>\n"
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


def own_lines(text):
    """The lines that come from Tarry's headers, and the names of these headers."""
    kept, files, own = [], [], False
    for line in text.splitlines():
        marker = _MARKER.match(line)
        if marker:
            own = bool(_OWN_FOLDER.search(marker["file"]))
            if own and marker["file"] not in files:
                files.append(marker["file"])
        elif own and line.strip() and not line.startswith("#"):
            kept.append(line.replace("_Bool", "bool"))
    return kept, files


def constants(files):
    """Declarations of the numbers that headers define."""
    found = []
    for file in files:
        with open(file, encoding="utf-8") as header:
            for constant in _CONSTANT.finditer(header.read()):
                value = constant["value"]
                if constant["name"] in _NOT_CONSTANTS or value.startswith("__"):
                    continue
                real = re.fullmatch(r"[0-9.]+e[0-9]+|[0-9]+\.[0-9]*", value)
                found.append(f"static const double {constant['name']};" if real else f"#define {constant['name']} ...")
    return found


def declarations(compiler, includes):
    lines, files = own_lines(preprocess(compiler, includes))
    return "\n".join([*constants(files), *lines]) + "\n"
