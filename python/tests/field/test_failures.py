# SPDX-License-Identifier: Apache-2.0
"""Workers that fail: the status of the run, and its last lines."""

import dataclasses
import pathlib
import re
import sys
import types
from typing import Any

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "training"))
import runs

pytest.importorskip("torch")
from tarry import Error
from tarry.hub.broken import BrokenPieceError, FailedPiece, FailedPieces
from tarry.run.failures import Errors, Failure, failure_of, first_of, summary
from tarry.torch import failed

SCRIPT = pathlib.Path(__file__).parent / "scripts" / "broken"

AFTER_THE_END = """
import torch, tarry.torch as tt
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with tt.join(model, optimizer, data=torch.ones(64, 3), batch=32, piece=4) as job:
    while job.step(lambda batch: (model(batch).sum(), len(batch)), 3):
        optimizer.step()
try:
    {}["a"]
except KeyError as error:
    raise ValueError(f"worker {job.worker} fails\\nin two lines") from error
"""


def test_a_run_in_which_no_worker_ends_well_has_failed(tmp_path: pathlib.Path) -> None:
    """Although all steps are done."""
    (tmp_path / "fail.py").write_text(AFTER_THE_END)
    ended = runs.run(str(tmp_path / "fail"), workers=2)
    assert ended.returncode == 1, ended.stderr
    last = ended.stderr.splitlines()[-1]
    said = "tarry run: 2 of 2 workers failed after all steps were done. First failure: worker {0} ended with status 1: "
    assert last in [(said + "ValueError: worker {0} fails").format(worker) for worker in range(2)]


def errors_of(text: str) -> Errors:
    found = Errors()
    for line in text.splitlines():
        found.line(line)
    return found


TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\n\n  File "a.py"\n{}\nmore\n'


@pytest.mark.parametrize(
    ("text", "status", "why"),
    [
        (TRACEBACK.format("ValueError: one"), 1, "ValueError: one"),
        (TRACEBACK.format("KeyError: 'a'") + "\nDuring ..:\n\n" + TRACEBACK.format("a.b.Own: two"), 1, "a.b.Own: two"),
        ("usage: a.py\n\na.py: error: wrong\n", 2, "a.py: error: wrong"),
        (TRACEBACK.format("ValueError: was logged, and caught") + "wrong usage\n", 2, "wrong usage"),
        ("something went wrong\n\n", 1, "something went wrong"),
        ("a warning\n", -9, ""),
        ("", 3, ""),
    ],
)
def test_what_a_worker_wrote_last(text: str, status: int, why: str) -> None:
    assert failure_of(1, status, "ended", errors_of(text)).why == why


def test_the_first_failure_is_named() -> None:
    one, other = Failure(0, "ended with status 1", "A: x", 7.0), Failure(2, "was killed by signal 9", "", 3.0)
    assert summary([[other], [dataclasses.replace(other, worker=3, at=4.0)]], 4, complete=True) == (
        "2 of 4 workers failed; the others did all steps. First failure: worker 2 was killed by signal 9"
    )
    assert summary([[one]], 1, complete=False).endswith(" First failure: worker 0 ended with status 1: A: x")
    assert "; the others ended before all steps were done. First" in summary([[one], [other]], 3, complete=False)


def test_a_failure_that_follows_from_another_is_not_the_first() -> None:
    script, killed = Failure(0, "ended", "A: x", 7.0), Failure(1, "was killed", "", 3.0)
    follows = Failure(1, "ended", "tarry.errors.Error: worker 0 is gone", 6.0)
    assert first_of([[script], [follows]]) is script
    assert first_of([[script], [killed]]) is script
    assert first_of([[script, dataclasses.replace(follows, at=9.0)], [follows]]) is script
    assert first_of([[killed, follows]]) is follows
    assert first_of([[dataclasses.replace(script, why="B: long ago", at=1.0), script]]) is script


# ---- pieces that no worker can compute ----

SAMPLE_37 = "sample 37 in piece 1 of step 1 failed at worker"


@pytest.mark.parametrize(
    ("arguments", "why", "error"),
    [
        (("sample",), SAMPLE_37, "OSError: cannot identify image file 'img_37.jpg'"),
        (("sample", 1), SAMPLE_37, "OSError: cannot identify image file 'img_37.jpg'"),
        (("batch",), SAMPLE_37, "OSError: cannot identify image file 'img_37.jpg'"),
        (("evaluation",), "sample 37 in piece 9 of an evaluation after 2 steps failed at worker",
         "OSError: cannot identify image file 'img_37.jpg'"),
        (("loss",), " of step 2 failed at worker| failed twice in step 2 in the same way",
         "TypeError: a mistake in the script"),
    ],
)  # fmt: skip
def test_a_run_ends_once_if_no_worker_can_go_on(arguments: tuple[object, ...], why: str, error: str) -> None:
    """The reason is said last, with the first traceback."""
    ended = runs.run(str(SCRIPT), *arguments, workers=2, options=("--restarts", 8))
    assert ended.returncode == 1, ended.stderr
    lines = ended.stderr.splitlines()
    place = [number for number, line in enumerate(lines) if line.startswith("tarry run: the training has ended after")]
    assert len(place) == 1, ended.stderr
    said = lines[place[0]]
    assert re.search(why, said) and said.endswith(error), said
    worker = said.partition("at worker ")[2][0] if "at worker" in said else said.partition("first worker ")[2][0]
    last = lines[place[0] + 1 :]
    assert all(line.startswith(f"[{worker}] ") for line in last) and f"[{worker}] {error}" in last
    assert f"[{worker}] Traceback (most recent call last):" in last and any("/broken.py" in line for line in last)
    assert ended.stderr.count("is started again") <= 4, ended.stderr


def failed_piece(worker: int, piece: int, error: str = "A: x", step: int = 1) -> FailedPiece:
    return FailedPiece(worker, f"piece {piece}", f"step {step}", "sample 3", error, "Traceback ...")


def after(workers: int, *failures: FailedPiece) -> list[BrokenPieceError | None]:
    pieces = FailedPieces()
    return [pieces.add(one, workers) for one in failures]


def test_two_workers_that_fail_in_a_piece_end_the_run() -> None:
    *before, error = after(3, failed_piece(1, 4), failed_piece(2, 5), failed_piece(1, 4), failed_piece(0, 4, "B: y"))
    assert before == [None] * 3
    assert str(error) == "sample 3 in piece 4 of step 1 failed at worker 1 and at worker 0: A: x; at worker 0: B: y"
    assert after(2, failed_piece(0, 4), failed_piece(1, 4, step=2)) == [None, None]


def test_a_worker_that_is_alone_fails_twice() -> None:
    _, error = after(1, failed_piece(0, 4), failed_piece(0, 4))
    assert "failed twice at worker 0, and there is no other worker: A: x" in str(error)


def test_workers_that_all_fail_twice_in_a_step_end_the_run() -> None:
    """Each in its own pieces, as by a mistake in the script. Other errors than that may be gone the next time."""
    failures = [failed_piece(0, 4), failed_piece(1, 5), failed_piece(0, 4), failed_piece(1, 6)]
    *before, error = after(2, *failures)
    assert before == [None] * 3
    assert str(error) == (
        "each worker failed twice in step 1 in the same way, first worker 0 (piece 4, sample 3): A: x"
    )
    assert after(2, *failures[:3], failed_piece(1, 6, "B: y"))[-1] is None


class Client:
    def __init__(self) -> None:
        self.told: list[dict[str, str]] = []

    def tell_failed(self, piece: str, step: str, **told: str) -> None:
        self.told.append({"piece": piece, "step": step} | told)
        raise Error("the hub is gone")


@pytest.mark.parametrize("secret", [False, True])
def test_what_a_worker_tells_of_a_piece(secret: bool) -> None:
    """Of private samples the hub learns nothing."""
    client = Client()
    job: Any = types.SimpleNamespace(client=client, clipping=None, secret=object() if secret else None)
    for error in (ValueError("one\ntwo"), KeyboardInterrupt()):
        for _ in range(2):
            failed.tell(job, "piece 1", "step 2", [5, 7], error)
    (told,) = client.told
    error, samples, trace = (
        ("", "", "") if secret else ("ValueError: one", "one of the samples 5, 7", "ValueError: one\ntwo\n")
    )
    assert told == {"piece": "piece 1", "step": "step 2", "samples": samples, "error": error, "traceback": trace}
