#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs the library into a folder of its own, and builds and runs what its users would write against that alone.

    installed.py BUILD_ROOT COMPILER SOURCE [--flags="..."] [-- ARGUMENT...]

The compiler is given what pkg-config says, so that a header which is not installed, or that needs one of the tree, is
found out. Where there is no such compiler the test is skipped.
"""

import argparse
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77


def run(*command, **options):
    return subprocess.run(command, check=True, text=True, **options)


def flags_of(root):
    """What pkg-config says of the library that was installed under `root`."""
    found = next(root.rglob("tarry.pc"))
    environment = {**os.environ, "PKG_CONFIG_LIBDIR": f"{found.parent}:/usr/lib/pkgconfig:/usr/share/pkgconfig"}
    prefix = found.parents[2] if found.parents[1].name == "lib" else found.parents[3]
    said = run("pkg-config", f"--define-variable=prefix={prefix}", "--cflags", "--libs", "tarry", env=environment,
               stdout=subprocess.PIPE).stdout
    return shlex.split(said), found.parents[1]


def main():
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("compiler")
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--flags", default="")
    options = parser.parse_args(sys.argv[1:split])
    compiler = shlex.split(options.compiler)
    if shutil.which(compiler[0]) is None:
        print(f"there is no {compiler[0]}")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        run("meson", "install", "-C", options.build, "--no-rebuild", "--quiet", "--tags", "devel,runtime",
            "--destdir", root, stdout=subprocess.DEVNULL)
        flags, libraries = flags_of(root)
        program = root / "program"
        run(*compiler, options.source, *shlex.split(options.flags), *flags, "-lm", "-o", program)
        paths = f"{libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        return subprocess.run([program, *sys.argv[split + 1:]],
                              env={**os.environ, "LD_LIBRARY_PATH": paths}).returncode


if __name__ == "__main__":
    sys.exit(main())
