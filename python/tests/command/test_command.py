# SPDX-License-Identifier: Apache-2.0
"""The command `tarry` of the package."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import tarry
from tarry.run import options

ROOT = pathlib.Path(__file__).resolve().parents[3]


def run(path: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`python -m tarry WORD...` with nothing but this folder in PATH."""
    return subprocess.run(
        [sys.executable, "-m", "tarry", *words],
        env={**os.environ, "PATH": str(path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_version_and_help(tmp_path: pathlib.Path) -> None:
    assert run(tmp_path, "--version").stdout == f"tarry {tarry.__version__}\n"
    assert "tarry run " in run(tmp_path, "--help").stdout


def test_run_is_its_own(tmp_path: pathlib.Path) -> None:
    done = run(tmp_path, "run", "--help")
    assert (done.returncode, done.stdout.split("[")[0]) == (0, "usage: tarry run ")


def test_other_commands_go_on_to_the_tool(tmp_path: pathlib.Path) -> None:
    """A program of this system stands for it, and prints its arguments."""
    shutil.copy("/bin/echo", tmp_path / "tarry")
    done = run(tmp_path, "train", "--rounds", "2 3")
    assert (done.returncode, done.stdout) == (0, "train --rounds 2 3\n")


@pytest.mark.parametrize("first_line", ["#!/bin/sh", f"#!{sys.executable}"])
def test_a_script_is_not_the_tool(tmp_path: pathlib.Path, first_line: str) -> None:
    """As the command of the package is itself, in this environment and others."""
    script = tmp_path / "tarry"
    script.write_text(f"{first_line}\n")
    script.chmod(0o755)
    done = run(tmp_path, "train")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tarry: train: the command line tool tarry is not in PATH")


def test_wrong_usage(tmp_path: pathlib.Path) -> None:
    assert run(tmp_path).stderr == "tarry: no command given (see tarry --help)\n"
    assert run(tmp_path, "--no").stderr == "tarry: --no: unknown option (see tarry --help)\n"
    assert run(tmp_path, "--no").returncode == run(tmp_path).returncode == 2


def test_the_manual_page_has_the_options_of_run() -> None:
    page = (ROOT / "man" / "tarry-run.1").read_text()
    described = set(re.findall(r"Fl Fl ([a-z-]+)", page))
    known = set(re.findall(r"--([a-z-]+)", options.parser().format_help()))
    known = {name for name in known if f"--{name}" in options.parser()._option_string_actions}
    assert described == known
