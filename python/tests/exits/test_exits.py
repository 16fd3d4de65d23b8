# SPDX-License-Identifier: Apache-2.0
"""However a program ends, its interpreter does: it does not hang, and it does not crash.

TARRY_TEST_PYTHON names another interpreter to try than this one, such as a debug build.
"""

import os
import pathlib
import subprocess
import sys

import pytest
from situations import SITUATIONS

PYTHON = os.environ.get("TARRY_TEST_PYTHON", sys.executable)
SCRIPT = pathlib.Path(__file__).with_name("situations.py")
LIMIT_SECONDS = 40


@pytest.mark.parametrize("name", SITUATIONS)
def test_it_ends(name: str) -> None:
    wanted = SITUATIONS[name]
    ended = subprocess.run(
        [PYTHON, "-X", "faulthandler", str(SCRIPT), name],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False,
    )  # fmt: skip
    told = f"{ended.stdout}\n{ended.stderr}"
    assert "Fatal Python error" not in told, told
    assert ended.returncode == wanted.status, told
    assert wanted.out in ended.stdout, told
    assert wanted.error in ended.stderr, told
    if not wanted.error and wanted.status >= 0:
        lines = [line for line in ended.stderr.splitlines() if "ResourceWarning" not in line]
        assert "Traceback" not in "\n".join(lines), told
