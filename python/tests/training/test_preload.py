# SPDX-License-Identifier: Apache-2.0
"""`tarry run --preload`: a script sees what it sees in an interpreter of its own, and its errors are told as there."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
import runs

PRELOADED = ("--preload", "json,numpy")
SECONDS = 60
SHOWS = """
import atexit, json, os, random, sys, threading
import numpy
import beside
known = {
    "argv": sys.argv, "name": __name__, "file": __file__, "path": sys.path, "beside": beside.NUMBER,
    "worker": os.environ["TARRY_WORKER"], "threads": os.environ["OMP_NUM_THREADS"],
    "session": os.getsid(0) == os.getpid(),
    "main": sys.modules["__main__"].__dict__ is globals(), "input": sys.stdin.read(),
}
drawn = [random.random(), numpy.random.rand()]
print(json.dumps([known, os.getppid(), drawn]))
atexit.register(print, "the end")
threading.Timer(0.05, lambda: print("a thread's end")).start()
"""


@pytest.fixture
def script(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "beside.py").write_text("NUMBER = 7\n")
    return tmp_path / "script.py"


def start(*words: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tarry.run", "-n", "2", *map(str, words)],
        env=runs.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def run(*words: object) -> tuple[int, list[str], str]:
    with start(*words) as process:
        output, errors = process.communicate(timeout=SECONDS)
        return process.returncode, sorted(output.splitlines()), errors


@pytest.mark.parametrize("module", [False, True])
def test_a_script_sees_what_it_sees_otherwise(
    script: pathlib.Path, monkeypatch: pytest.MonkeyPatch, module: bool
) -> None:
    script.write_text(SHOWS)
    monkeypatch.chdir(script.parent)
    words = ("-m", "script", "a", "-b") if module else (script, "a", "-b")
    parents: list[set[int]] = []
    known: list[object] = []
    for options in (), PRELOADED:
        status, lines, errors = run(*options, *words)
        assert (status, errors) == (0, "")
        assert [line for line in lines if "{" not in line] == [
            f"[{number}] {end}" for number in range(2) for end in ("a thread's end", "the end")
        ]
        told = [json.loads(line[4:]) for line in lines if "{" in line]
        known.append([one[0] for one in told])
        parents.append({one[1] for one in told})
        assert all(told[0][2][i] != told[1][2][i] for i in range(2))  # numbers without a seed are a process's own
    assert known[0] == known[1]
    assert len(parents[1]) == 1 and parents[0] != parents[1]


LEAVES_OPEN = """
import csv, os
rows = csv.writer(open(os.environ["TARRY_WORKER"] + ".csv", "w"))
rows.writerow(["step", 1])
class Kept:
    def rows(self): return rows
kept = Kept()
"""


@pytest.mark.parametrize("module", [False, True])
@pytest.mark.parametrize("options", [(), PRELOADED])
def test_what_a_script_leaves_open_is_flushed(
    script: pathlib.Path, monkeypatch: pytest.MonkeyPatch, module: bool, options: tuple[str, ...]
) -> None:
    script.write_text(LEAVES_OPEN)
    monkeypatch.chdir(script.parent)
    assert run(*options, *(("-m", "script") if module else (script,))) == (0, [], "")
    assert [(script.parent / f"{number}.csv").read_text() for number in range(2)] == ["step,1\n"] * 2


def test_the_system_knows_it_by_its_worker(script: pathlib.Path) -> None:
    script.write_text("print(open('/proc/self/comm').read())\n")
    assert run(*PRELOADED, script)[1] == ["[0] ", "[0] tarry-worker-0", "[1] ", "[1] tarry-worker-1"]


@pytest.mark.parametrize(
    "text",
    [
        "def inner():\n    raise ValueError('in a script')\ninner()\n",
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise KeyError('x') from error\n",
        "import sys\nsys.exit('words')\n",
        "import sys\nsys.exit(5)\n",
        "import beside, missing\n",
        "a = (\n",
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(60)\n",
        "import os\nos._exit(9)\n",
    ],
)
def test_it_ends_as_it_does_otherwise(script: pathlib.Path, text: str) -> None:
    script.write_text(text)
    plain, preloaded = run(script), run(*PRELOADED, script)
    assert plain[0] == preloaded[0] == 1
    plain_lines, lines = (
        sorted(re.sub(r"First failure: worker \d", "First failure", line) for line in errors.splitlines())
        for errors in (plain[2], preloaded[2])
    )
    assert plain_lines == lines


def test_what_optimizers_import_is_imported_before(script: pathlib.Path) -> None:
    script.write_text(
        "import sys, torch\n"
        "before = set(sys.modules)\n"
        "torch.optim.AdamW([torch.zeros(1, requires_grad=True)])\n"
        "print(torch.backends.cuda.is_built() or sorted(set(sys.modules) - before))\n"
    )
    status, lines, errors = run("--preload", "torch", script)
    assert (status, errors) == (0, "") and lines in (["[0] []", "[1] []"], ["[0] True", "[1] True"])


def test_what_can_not_be_imported_is_told(script: pathlib.Path) -> None:
    script.write_text("print('there')\n")
    assert run("--preload", "json,nowhere", script) == (
        1, [], "tarry run: --preload nowhere: ModuleNotFoundError: No module named 'nowhere'\n"
    )  # fmt: skip
    (script.parent / "ends.py").write_text("import os\nos._exit(0)\n")
    assert run("--preload", "ends", script)[2].startswith("tarry run: --preload ends: ModuleNotFoundError")
    assert run("--preload", "no-name", script)[2] == (
        "tarry run: argument --preload: 'no-name' is no name of a module (see tarry run --help)\n"
    )


def test_it_is_imported_again_where_the_process_that_has_it_was_ended(script: pathlib.Path) -> None:
    script.write_text("import os, time\nprint('parent', os.getppid(), flush=True)\ntime.sleep(300)\n")
    with start("--restarts", "1", *PRELOADED, script) as process:
        first = [int(runs.await_line(process, "parent").split()[-1]) for _ in range(2)]
        assert first[0] == first[1]
        os.kill(first[0], signal.SIGKILL)
        again = [int(runs.await_line(process, "parent").split()[-1]) for _ in range(2)]
        assert again[0] == again[1] != first[0]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 130, errors
    assert errors.count("was killed by signal 9 (SIGKILL); it is started again (1 of 1 times)") == 2
    assert errors.endswith("tarry run: interrupted\n")


def test_nobody_is_left_where_the_launcher_is_killed(script: pathlib.Path) -> None:
    script.write_text("import os, time\nprint('process', os.getpid(), os.getppid(), flush=True)\ntime.sleep(300)\n")
    with start(*PRELOADED, script) as process:
        pids: set[int] = set()
        for _ in range(2):
            pids |= {int(word) for word in runs.await_line(process, "process").split()[-2:]}
        process.kill()
        runs.await_true("processes are left", lambda: not any(_is_there(pid) for pid in pids), SECONDS)


def _is_there(pid: int) -> bool:
    """As more than what is left of an ended one that nobody waited for."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
