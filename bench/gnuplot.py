# SPDX-License-Identifier: Apache-2.0
"""Drawings by gnuplot."""

import shutil
import subprocess

import runner


def draw(path, size, lines):
    """Carries out the lines of a script that draws one SVG; raises runner.Missing without gnuplot."""
    if shutil.which("gnuplot") is None:
        raise runner.Missing("no gnuplot")
    head = [f"set terminal svg size {size} background 'white'", f"set output '{path}'", "set key noenhanced",
            "set grid ytics"]
    subprocess.run(["gnuplot"], input="\n".join(head + lines) + "\n", text=True, check=True)


def block(name, rows):
    """A named block of data."""
    return [f"${name} << END", *(" ".join(map(str, row)) for row in rows), "END"]
