# SPDX-License-Identifier: Apache-2.0
"""`tarry run`: what it says of wrong usage, and of workers that end in ways of their own; nobody waits for those."""

import os
import pathlib
import pty
import re
import resource
import signal
import subprocess
import sys

import pytest
import runs

from tarry.run.launcher import main

SOON_SECONDS = 50  # less than the minute that a training waits for workers that may come

# ---- wrong usage ----


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("", "the following arguments are required: SCRIPT"),
        ("{here}", "the following arguments are required: -n"),
        ("-n 2", "the following arguments are required: SCRIPT"),
        ("-n 2 nowhere.py", "there is no script nowhere.py"),
        ("-n 2 /", "there is no script /"),
        ("-n 2 --stragler slow:1,5 {here}", "--stragler: unknown option (did you mean --straggler?)"),
        ("-n 2 --zzz {here}", "--zzz: unknown option (see tarry run --help)"),
        ("-n 0 {here}", "argument -n: 0 is not in the range 1 to 1024"),
        ("-n 1000000 {here}", "argument -n: 1000000 is not in the range 1 to 1024"),
        ("-n two {here}", "argument -n: 'two' is not a whole number"),
        ("-n 2 --restarts -1 {here}", "argument --restarts: -1 is not in the range 0 to 1000000"),
        ("-n 2 --silence 0 {here}", "argument --silence: 0 is not a number of seconds above 0"),
        ("-n 2 --patience nan {here}", "argument --patience: nan is not a number of seconds above 0"),
        ("--workers 0 {here}", "argument --workers: 0 is not in the range 1 to 100000"),
        ("-n 4 --workers 2 {here}", "--workers 2 are less than the 4 of this machine"),
        ("-n 2 --workers 4 {here}", "--workers 4 are more than the 2 of this machine: the others need --listen"),
        ("-n 2 --listen :0 --connect x:1 {here}",
         "--listen is for where the hub is, and --connect for where it is not"),
        ("--workers 4 --connect x:1 {here}", "the following arguments are required: -n"),
        ("-n 2 --workers 4 --connect x:1 {here}", "--workers is told where the hub is"),
        ("-n 2 --start 4 --connect x:1 {here}", "--start is told where the hub is"),
        ("-n 2 --first 2 {here}", "--first needs --connect: where the hub is they begin with 0"),
        ("-n 2 --insecure {here}",
         "--credentials, --insecure and --advertise are for several machines: --listen or --connect"),
        ("-n 2 --listen :0 --insecure --credentials x {here}", "--insecure: cannot be combined with --credentials"),
        ("-n 2 --listen :0 --force {here}", "--force: has no meaning without --insecure"),
        ("-n 2 --listen nowhere --insecure {here}", "'nowhere' is no address: HOST:PORT or unix:PATH is wanted"),
        ("-n 2 --listen 127.0.0.1:65535 --insecure {here}",
         "127.0.0.1:65535: the server would be at the next port, and there is none"),
        ("-n 2 --listen :0 --insecure {here}",
         ":0: plain text is for loopback addresses, unless it is forced (--force, TARRY_INSECURE=force)"),
        ("-n 2 --straggler slow:9,5 {here}", "straggler term 'slow:9,5': K is more than the 2 workers there are"),
    ],
)  # fmt: skip
def test_wrong_usage_is_told_in_a_line(words: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words.format(here=__file__).split())
    assert ended.value.code == 2
    hint = "" if "unknown option" in why else " (see tarry run --help)"
    assert capsys.readouterr().err == f"tarry run: {why}{hint}\n"


def test_processes_that_can_not_be_started_are_told(tmp_path: pathlib.Path) -> None:
    """And those that are there end."""
    script = tmp_path / "sleep.py"
    script.write_text("import time\ntime.sleep(300)\n")

    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))

    ended = subprocess.run(
        [sys.executable, "-m", "tarry.run", "-n", "100", str(script)],
        env=runs.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SOON_SECONDS,
        check=False, preexec_fn=few_files,
    )  # fmt: skip
    assert ended.returncode == 1
    assert "tarry run: a process can't be started: Too many open files\n" in ended.stderr
    # Of the launcher: an interpreter that is ended while it begins may say so, behind its number.
    assert "\nTraceback" not in "\n" + ended.stderr


# ---- workers that end in ways of their own ----


@pytest.mark.parametrize(
    ("what", "told", "where"),
    [
        ("raise", "[1] RuntimeError: before it joins", "everywhere"),
        ("raise", "[1] RuntimeError: before it joins", "server"),
        ("exit", "1 of 2 workers are there", "everywhere"),
        ("raise-in-piece", "[1] RuntimeError: in a piece", "everywhere"),
        ("raise-in-piece", "[1] RuntimeError: in a piece", "server"),
        ("exit-in-piece", "[1] by itself", "everywhere"),
    ],
)
def test_nobody_waits_for_a_worker_that_ends(what: str, told: str, where: str) -> None:
    pytest.importorskip("torch")
    ended = runs.run("wrong", what, "--seconds", 0.01, "--sum", where, workers=2, seconds=SOON_SECONDS)
    assert ended.returncode == 0, ended.stderr
    assert "[0] end 0 12" in ended.stdout and "end 1" not in ended.stdout
    assert told in ended.stderr
    if what == "raise-in-piece":
        assert ended.stderr.splitlines()[-1] == (
            "tarry run: 1 of 2 workers failed; the others did all steps. First failure: worker 1 ended with status 1: "
            "RuntimeError: in a piece"
        )


def test_a_script_that_fails_everywhere_is_over_at_once() -> None:
    ended = runs.run("wrong", "raise-everywhere", workers=3, seconds=SOON_SECONDS)
    assert ended.returncode == 1
    assert ended.stderr.count("] RuntimeError: before it joins") == 3
    assert sorted(re.findall(r"tarry run: worker (\d) ended with status 1", ended.stderr)) == ["0", "1", "2"]


@pytest.mark.parametrize("where", ["everywhere", "server"])
def test_a_round_that_lacks_workers_who_are_gone_is_the_last(where: str) -> None:
    """With two parts it takes two workers: the one that is left hears why it is over, and waits for nobody."""
    pytest.importorskip("torch")
    arguments = ("--parts", 2, "--seconds", 0.01, "--sum", where)
    ended = runs.run("wrong", "raise-in-piece", *arguments, workers=2, seconds=SOON_SECONDS)
    assert ended.returncode == 1
    assert "[1] RuntimeError: in a piece" in ended.stderr
    assert re.search(r"\[0\] tarry.errors.Error: .*, and nobody comes back", ended.stderr)
    assert re.search(r"tarry run: the training has ended after step 2 of 12: .*, and nobody comes back", ended.stderr)


def test_ctrl_c_shows_no_tracebacks() -> None:
    pytest.importorskip("torch")
    with runs.running("wrong", "nothing", "--steps", 100_000, "--seconds", 0.01, workers=2) as process:
        runs.await_line(process, "step 2")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=runs.LIMIT_SECONDS)
    assert process.returncode == 130
    assert errors == "tarry run: interrupted\n"


def test_ctrl_c_before_they_join(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "sleep.py"
    script.write_text("import sys, time\nprint('a word', file=sys.stderr)\nprint('there')\ntime.sleep(300)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "tarry.run", "-n", "2", str(script)],
        env=runs.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for _ in range(2):
        runs.await_line(process, "there")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=SOON_SECONDS)
    assert process.returncode == 130
    assert sorted(errors.splitlines()) == ["[0] a word", "[1] a word", "tarry run: interrupted"]


# ---- checkpoints ----


def test_a_full_disk_is_told(tmp_path: pathlib.Path) -> None:
    """A file system of 8 kB, which the log of sums fills."""
    pytest.importorskip("torch")
    mounted = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=8k none {tmp_path}"
    if subprocess.run([*mounted, mount], capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    words = runs.command("wrong", "nothing", "--steps", 1000, "--checkpoint", tmp_path / "run.ckpt", workers=2)
    ended = subprocess.run(
        [*mounted, f'{mount} && "$@"', "sh", *words],
        env=runs.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=runs.LIMIT_SECONDS,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    assert re.search(r"the training has ended after step \d+ of 1000: the log \S+/run.ckpt.log can't be written: "
                     "No space left on device", ended.stderr)  # fmt: skip
    assert not re.search("^Traceback", ended.stderr, re.M)  # but those of workers


def test_a_checkpoint_without_its_log_is_gone_on_from(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("torch")
    file = tmp_path / "run.ckpt"
    assert runs.run("wrong", "nothing", "--checkpoint", file, workers=2).returncode == 0
    (tmp_path / "run.ckpt.log").unlink()
    ended = runs.run("wrong", "nothing", "--steps", 20, "--checkpoint", file, workers=2)
    assert ended.returncode == 0, ended.stderr
    assert "run.ckpt.log is not that of the checkpoint: it is begun anew" in ended.stderr
    assert "resumed after step 12" in ended.stderr
    assert "end 1 20" in ended.stdout and "step 11" not in ended.stdout and "step 12" in ended.stdout


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ("folder", "the checkpoint {file} can't be read: Is a directory"),
        ("text", "{file} is no checkpoint of a training: no state: its header is cut off"),
        ("nowhere", "the log {file}.log can't be written: No such file or directory"),
    ],
)
def test_a_checkpoint_that_is_none_is_told(tmp_path: pathlib.Path, made: str, why: str) -> None:
    pytest.importorskip("torch")
    file = tmp_path / "run.ckpt"
    if made == "folder":
        file.mkdir()
    elif made == "text":
        file.write_text("no")
    else:
        file = tmp_path / "nowhere" / "run.ckpt"
    ended = runs.run("wrong", "nothing", "--checkpoint", file, workers=1, seconds=SOON_SECONDS)
    assert ended.returncode == 1
    assert why.format(file=file) in ended.stderr


# ---- on a terminal ----


def test_one_line_of_progress_on_a_terminal() -> None:
    pytest.importorskip("torch")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        runs.command("wrong", "nothing", "--steps", 40, "--seconds", 0.02, workers=2),
        env=runs.environment(), stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other side is closed
            break
        shown += piece
    os.close(ours)
    assert process.wait(timeout=SOON_SECONDS) == 0
    text = shown.decode()
    assert re.search(r"step \d+ of 40, \d+ ms, 2 workers, \d+ s", text)
    # What remains on the screen: each wiped line is gone.
    remains = [line.rpartition("\r\x1b[K")[2] for line in text.split("\r\n")]
    assert not any("of 40" in line for line in remains), remains
    assert "[0] step 39" in remains
