# SPDX-License-Identifier: Apache-2.0
"""Workers that step to other bits than the others are found, corrected once, and then refused."""

import collections
import contextlib
import dataclasses
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "training"))
import runs
from conftest import SEED

torch: Any = pytest.importorskip("torch")
from test_hub import AGREEMENT, a_hub  # noqa: E402
from test_training import ends, same  # noqa: E402

from tarry import Error  # noqa: E402
from tarry.hub import Client  # noqa: E402
from tarry.hub.client import Refused  # noqa: E402
from tarry.hub.drift import Digest, Drift  # noqa: E402
from tarry.torch.numerics import kind_of, probe  # noqa: E402

SCRIPT = str(pathlib.Path(__file__).parent / "scripts" / "drift")
DIFFERS, REFUSED = "has other parameters or buffers than", "it is refused"
STEPS = 200  # a worker that the machine holds up loses some of them, and may get a state that differs


def run(steps: int, *arguments: object, workers: int = 3) -> tuple[int, list[str], str]:
    ended = runs.run(SCRIPT, steps, *arguments, workers=workers)
    return ended.returncode, [line.partition("] ")[2] for line in ended.stdout.splitlines()], ended.stderr


def assert_said(errors: str, text: str, count: int) -> None:
    own = [line for line in errors.splitlines() if line.startswith("tarry run: ") and "First failure: " not in line]
    said = [line for line in own if text in line]
    assert len(said) == count, errors


@pytest.mark.parametrize(
    ("workers", "odd", "where"), [(3, 1, "everywhere"), (3, 2, "server"), (2, 1, "everywhere"), (3, 0, "everywhere")]
)
def test_a_worker_that_differs_is_corrected_once_and_then_refused(workers: int, odd: int, where: str) -> None:
    """Of two the chief is right; of three the two that agree are, whoever they are.

    A reproducible training waits for all workers, so that each of them tells its digest.
    """
    _, lines, errors = run(STEPS, "--odd", odd, "--sum", where, "--reproducible", workers=workers)
    assert set(ends(lines)) == {str(worker) for worker in range(workers)} - {str(odd)}, errors
    same(lines, STEPS, workers - 1)
    assert f"worker {odd} {DIFFERS}" in errors
    assert_said(errors, REFUSED, 1)
    assert f"Worker {odd} is (" in errors and f"PyTorch {torch.__version__}" in errors
    assert f"[{odd}] tarry.errors.Error: worker {odd} had other parameters" in errors


@pytest.mark.parametrize(
    "options",
    [("--sum", "everywhere"), ("--sum", "server"), ("--engine", "gloo"), ("--local",), ("--buffer",)],
    ids=["everywhere", "server", "gloo", "local", "buffer"],
)
def test_a_worker_that_differed_once_ends_like_the_others(options: tuple[object, ...]) -> None:
    code, lines, errors = run(STEPS, "--odd", 1, "--first", 31, "--for", 1, *options)
    assert code == 0 and len(ends(lines)) == 3, (lines, errors)
    same(lines, STEPS)
    # A worker that the machine held up may have passed over step 31, and its digest is missing then.
    held_up = any(line.startswith("lost ") and int(line.split()[2]) <= 31 for line in lines)
    assert f"after step 32 worker 1 {DIFFERS}" in errors or held_up, (lines, errors)
    assert_said(errors, REFUSED, 0)


def test_a_chief_that_looks_at_its_model_is_not_blamed() -> None:
    """Its forward changes a batch norm's and a spectral norm's buffers on one worker alone."""
    code, _, errors = run(STEPS, "--watch")
    assert code == 0 and "other parameters or buffers" not in errors, errors


def test_who_was_refused_does_not_come_back() -> None:
    ended = runs.run(SCRIPT, 60, "--odd", 1, "--seconds", 0.01, workers=2, options=("--restarts", 1))
    assert "is started again" in ended.stderr, ended.stderr
    assert "[1] tarry.hub.client.Refused: worker 1 had other parameters" in ended.stderr, ended.stderr
    same([line.partition("] ")[2] for line in ended.stdout.splitlines()], 60, 1)


@pytest.mark.parametrize("where", ["everywhere", "server"])
def test_honest_workers_are_not_blamed_through_deaths(where: str) -> None:
    draws = random.Random(SEED)
    print("seed", SEED)
    with runs.running(SCRIPT, 70, "--sum", where, "--seconds", 0.004, workers=3, options=("--restarts", 9)) as process:
        for number in (1, 3, 7, 15, 31):  # as digests are told
            runs.lines_to(process, f"step 0 {number}\n")
            victims: list[int] = []
            while not victims:  # both may have died, and come again
                victims = [pid for worker, pid in runs.workers(process).items() if worker != 0]
                assert process.poll() is None
                time.sleep(0.02)
            with contextlib.suppress(ProcessLookupError):
                os.kill(draws.choice(victims), signal.SIGKILL)
        output, errors = process.communicate(timeout=runs.LIMIT_SECONDS)
    assert process.returncode == 0, output + errors
    same([line.partition("] ")[2] for line in output.splitlines()], 70)
    assert "other parameters or buffers" not in errors, errors


def test_processors_of_another_kind_have_another_probe() -> None:
    """ATEN_CPU_CAPABILITY has PyTorch compute as on an old processor."""
    code = (
        "import torch; from tarry.torch.numerics import kind_of, probe; d = torch.device('cpu'); "
        "print(probe(d)); print(kind_of(d))"
    )
    environment = runs.environment(ATEN_CPU_CAPABILITY="default")
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    theirs, their_kind = ended.stdout.splitlines()
    here = torch.device("cpu")
    ours, our_kind = probe(here), kind_of(here)
    assert ours == probe(here)
    assert f"PyTorch {torch.__version__}, " in our_kind and " threads" in our_kind
    assert "ATEN_CPU_CAPABILITY=default" in their_kind
    if "CPU capability AVX" in our_kind:
        assert ours != theirs


# ---- without trainings ----


class Bench:
    """Workers that talk to a Drift."""

    def __init__(self, workers: int) -> None:
        self.said: list[str] = []
        self.there = set(range(workers))
        self.drift = Drift(self.said.append, lambda worker: f"kind {worker}", lambda: self.there, wait_seconds=20)
        for worker in self.there:
            self.drift.join(worker, 0, f"kind {worker}")

    def tell(self, step: int, bits: str, of: str = "") -> None:
        """A letter for each worker; a point: it does not tell."""
        for worker, letter in enumerate(bits):
            if letter != ".":
                self.drift.tell(worker, step, Digest(of, letter))

    def ask(self, worker: int, step: int) -> str:
        return self.drift.ask(worker, step, step + 1)[0]

    def blamed(self) -> set[int]:
        return {int(line.partition("worker ")[2].split()[0]) for line in self.said}


def test_most_are_right_and_in_a_tie_the_chiefs_side_is() -> None:
    """By counting, for random digests."""
    draws = random.Random(SEED)
    print("seed", SEED)
    for _ in range(300):
        workers = draws.randrange(2, 7)
        bits = "".join(draws.choice("abc") for _ in range(workers))
        bench = Bench(workers)
        order = list(range(workers))
        draws.shuffle(order)
        for worker in order:
            bench.drift.tell(worker, 1, Digest("", bits[worker]))
        counts = collections.Counter(bits)
        most = [letter for letter in counts if counts[letter] == max(counts.values())]
        right = bits[0] if bits[0] in most else next(letter for letter in bits if letter in most)
        asker = next(worker for worker in order if bits[worker] == right)
        bench.ask(asker, 1)
        assert bench.blamed() == {worker for worker in range(workers) if bits[worker] != right}, bits


def test_nothing_is_decided_before_all_have_told_who_will() -> None:
    bench = Bench(3)
    bench.tell(1, ".ab")
    assert bench.ask(1, 1) == "unknown" and bench.said == []
    bench.tell(1, "b..")
    assert bench.ask(0, 1) == "give" and bench.blamed() == {1}
    late = Bench(3)
    late.tell(1, "aa.")
    late.tell(2, "aa.")  # who lacks step 1 is not waited for any longer
    assert late.ask(0, 1) == "same"
    late.tell(1, "..b")
    assert late.blamed() == {2}
    gone = Bench(3)
    gone.tell(1, "ab.")
    gone.there.remove(2)
    gone.drift.leave(2)
    assert gone.ask(0, 1) == "give" and gone.blamed() == {1}
    new = Bench(2)
    new.there.add(2)
    new.drift.join(2, 5, "")  # has the state after step 5
    new.tell(1, "ab")
    assert new.ask(0, 1) == "give" and new.blamed() == {1}


def test_a_step_that_is_made_again_is_no_difference() -> None:
    bench = Bench(2)
    bench.tell(4, "a.", of="first")
    bench.tell(4, ".b", of="second")
    bench.tell(4, "b.", of="second")
    assert bench.ask(0, 4) == "same" and bench.said == []


def test_who_differs_waits_for_a_state_after_the_same_step_and_not_for_ever() -> None:
    bench = Bench(3)
    bench.tell(1, "aab")
    found: list[tuple[str, bytes]] = []
    waiting = threading.Thread(target=lambda: found.append(bench.drift.ask(2, 1, 2)))
    waiting.start()
    while bench.ask(0, 1) != "give":
        pass
    assert bench.drift.ask(1, 1, 2)[0] == "unknown"  # one gives, and the others hear whether it did
    bench.drift.give(2, b"state")
    waiting.join()
    assert found == [("take", b"state")] and bench.ask(1, 1) == "same"
    bench.tell(2, "aac")  # told before it got the state
    assert bench.ask(0, 2) == "same"
    bench.tell(4, "aab")
    assert bench.ask(0, 4) == "same" and len(bench.said) == 2
    with pytest.raises(Error, match="after step 1, got their state, and differs again after step 4: it is refused"):
        bench.ask(2, 4)
    with pytest.raises(Error, match="kind 2; worker 0 is kind 0"):
        bench.drift.join(2, 9, "kind 2")
    bench.drift.join(2, 9, "another kind")


def test_a_difference_that_came_with_a_state_is_not_held_against_a_worker() -> None:
    bench = Bench(3)
    for step in (1, 4, 8):
        bench.tell(step, "aa.")
        bench.drift.tell(2, step, Digest("", "b"), inherited=True)
        assert bench.ask(0, step) == "give" and bench.blamed() == {2}
        bench.drift.give(step + 1, b"state")
        assert bench.ask(2, step) == "take"
    bench.tell(16, "aab")
    assert bench.ask(0, 16) == "give"
    bench.drift.give(17, b"state")
    assert bench.ask(2, 16) == "take"
    bench.tell(32, "aab")
    with pytest.raises(Error, match="after step 16, got their state, and differs again after step 32"):
        bench.ask(2, 32)


def test_who_differs_from_nobody_who_is_left_goes_on() -> None:
    bench = Bench(2)
    bench.tell(1, "ab")
    found: list[str] = []
    waiting = threading.Thread(target=lambda: found.append(bench.ask(1, 1)))
    waiting.start()
    bench.there.remove(0)
    bench.drift.leave(0)
    waiting.join()
    assert found == ["same"] and bench.blamed() == {1}


def test_the_hub_says_which_kinds_do_not_go_together() -> None:
    ours, theirs = (dataclasses.replace(AGREEMENT, numerics=f"numerics {one}") for one in "ab")
    with a_hub() as hub:
        first, second = Client(hub.address), Client(hub.address)
        first.join(0, ours, lambda: b"", kind="(a new one)")
        with pytest.raises(Refused, match=r"'numerics b' where .* It is \(an old one\); worker 0 is \(a new one\)"):
            second.join(1, theirs, lambda: b"", kind="(an old one)\n\x1b[2J"[:12])
        first.close()
        second.close()


@pytest.mark.parametrize(
    "message",
    [
        {"type": "state-digest", "step": -1, "of": "", "bits": ""},
        {"type": "state-digest", "step": 1, "of": "x" * 65, "bits": ""},
        {"type": "state-digest", "step": 1, "of": "", "bits": 7},
        {"type": "state-verdict", "step": 1, "done": "1"},
        {"type": "state-verdict", "step": True, "done": 1},
        {"type": "buffers", "step": 0, "names": "all"},
        {"type": "buffers", "step": 0, "names": [1]},
        {"type": "buffers-of", "step": 1.5},
        {"type": "buffers-of"},
    ],
)
def test_what_is_no_message_ends_its_connection_alone(message: dict[str, Any]) -> None:
    with a_hub() as hub:
        first, second = Client(hub.address), Client(hub.address)
        first.join(0, AGREEMENT, lambda: b"")
        second.join(1, AGREEMENT, lambda: b"")
        first._wire.send(message)  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(Error):
            first.status()
        second.tell_digest(1 << 40, "", "", inherited=False)  # of a step that there is not
        assert second.ask_verdict(1, 1, bytes) == ("unknown", b"")
        assert second.buffers_of(7) is None
        second.tell_buffers(9, ["late"], bytes)
        assert second.buffers_of(9) is None
        second.close()
