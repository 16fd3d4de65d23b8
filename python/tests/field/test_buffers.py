# SPDX-License-Identifier: Apache-2.0
"""Unnamed buffers that forward changes: all workers have the values that one piece of each step leaves."""

import os
import pathlib
import random
import signal
import sys
import time
from typing import Any

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "training"))
import runs
from conftest import SEED

torch: Any = pytest.importorskip("torch")
from test_training import same  # noqa: E402

from tarry import FormatError  # noqa: E402
from tarry.hub.buffers import Buffers  # noqa: E402
from tarry.torch import state  # noqa: E402
from tarry.torch.bits import digest_of, same_bits  # noqa: E402
from tarry.torch.buffer_source import BufferSource  # noqa: E402
from tarry.torch.layout import Layout  # noqa: E402
from tarry.torch.members import Members  # noqa: E402
from tarry.torch.permutation import Permutation  # noqa: E402
from tarry.torch.unnamed_buffers import UnnamedBuffers  # noqa: E402

SCRIPT = str(pathlib.Path(__file__).parent / "scripts" / "buffers")


@pytest.mark.parametrize(
    "options",
    [(), ("--sum", "server"), ("--parts", 2, "--reproducible"), ("--engine", "gloo"), ("--local",), ("--named",)],
    ids=["everywhere", "server", "parts", "gloo", "local", "named"],
)
def test_all_workers_have_the_buffers_of_one_piece(options: tuple[object, ...]) -> None:
    """The same as a plain loop of one process, which is told which piece a step keeps."""
    ended = runs.run(SCRIPT, 14, *options, workers=3, options=("--straggler", "exp:0.003"))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = [line.partition("] ")[2] for line in ended.stdout.splitlines()]
    same(lines, 14)
    assert not [line for line in lines if line.startswith("serial")], lines
    off = [float(line.split()[1]) for line in lines if line.startswith("off")]
    # Coded parts are rounded, and a buffer of few digits may be rounded the other way then.
    assert not off or off[0] < (1e-2 if "--parts" in options else 1e-4), lines
    told = [line for line in ended.stderr.splitlines() if "not named by join(buffers=...)" in line]
    assert len([line for line in told if "late" not in line]) == 1, ended.stderr


@pytest.mark.parametrize("where", ["everywhere", "server"])
def test_they_outlive_whoever_had_them(where: str, tmp_path: pathlib.Path) -> None:
    """Workers are killed and come back, and all are killed and begin from the checkpoint."""
    draws = random.Random(SEED)
    print("seed", SEED)
    file = tmp_path / "run.ckpt"
    arguments = (60, "--sum", where, "--checkpoint", str(file), "--seconds", 0.004)
    with runs.running(SCRIPT, *arguments, workers=3, options=("--restarts", 9)) as process:
        for number in (3, 15):
            runs.lines_to(process, f"step 0 {number}\n")
            time.sleep(draws.random() / 50)
            victims = [pid for worker, pid in runs.workers(process).items() if worker != 0]
            os.kill(draws.choice(victims), signal.SIGKILL)
        runs.lines_to(process, "step 0 30\n")
        runs.await_true("there is no checkpoint", file.exists)
        for pid in runs.workers(process).values():
            os.kill(pid, signal.SIGKILL)
        process.kill()
    ended = runs.run(SCRIPT, *arguments, workers=3)
    lines = [line.partition("] ")[2] for line in ended.stdout.splitlines()]
    same(lines, 60)
    assert "other parameters or buffers" not in ended.stderr
    assert not [line for line in lines if line.startswith("serial")], lines
    assert max(float(line.split()[1]) for line in lines if line.startswith("off")) < 1e-3, lines


# ---- without workers ----


class Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.register_buffer("count", torch.zeros(3, dtype=torch.int64))
        self.register_buffer("large", torch.zeros(5000))
        self.register_buffer("named", torch.zeros(2))


def test_what_is_not_changed_is_not_found() -> None:
    model = Small()
    buffers = UnnamedBuffers(model, [model.named])
    model.named += 1
    model.large.data = model.large.data  # the same numbers
    model.count = model.count.clone()
    model.count.copy_(model.count)
    assert buffers.changed(whole=True) == {} and buffers.restore(whole=True) == []
    nothing = torch.full((3,), float("nan"))
    model.register_buffer("nothing", nothing)
    buffers.assign({"nothing": nothing})
    model.nothing = nothing.clone()
    assert buffers.changed(whole=True) == {}


def test_what_is_written_unseen_is_found_where_all_is_compared_and_then_always() -> None:
    model = Small()
    buffers = UnnamedBuffers(model, [model.named])
    model.large.data[7] = 1
    assert buffers.changed(whole=False) == {}
    assert list(buffers.changed(whole=True)) == ["large"]
    assert buffers.restore() == ["large"] and not model.large.any()
    model.large.data[7] = 1
    model.count.data[1] = 1  # a small one is always compared
    assert list(buffers.changed(whole=False)) == ["count", "large"]
    buffers.settle()
    assert buffers.restore(whole=True) == [] and model.count[1] == 1


def test_what_an_evaluation_changes_is_undone_and_what_the_loop_changes_is_not() -> None:
    model = Small()
    buffers = UnnamedBuffers(model, [])
    model.count += 5
    tensor = model.count
    with buffers.undone():
        model.count += 1
        model.large = torch.ones(2, 2)
    assert model.count is tensor and model.count.tolist() == [5, 5, 5] and model.large.shape == (5000,)
    assert same_bits(buffers.common()["count"], tensor)


class Told:
    """A hub's side."""

    def __init__(self) -> None:
        self.told: list[tuple[int, list[str]]] = []
        self.forgotten = 2

    def tell_buffers(self, step: int, names: list[str], values: Any) -> None:
        self.told.append((step, names))
        assert values()

    def buffers_of(self, step: int) -> bytes | None:
        return None if step == self.forgotten else state.encode({"buffers": {"count": torch.full((3,), step)}}, {})


def source_of(model: Any, **agreed: Any) -> tuple[BufferSource, Told]:
    agreement: Any = type("Agreed", (), {"secure": False, "dp": ""} | agreed)
    client: Any = Told()
    order = Permutation(20, 8, 2, seed=1, shuffle=True, drop_last=False)
    return BufferSource(UnnamedBuffers(model, [model.named]), order, client, agreement), client


def test_one_piece_of_each_step_tells_and_only_of_changes() -> None:
    model = Small()
    source, client = source_of(model)
    for step in range(6):
        for unit in range(4 if step % 3 < 2 else 2):
            source.begin_piece(step)
            if step != 1:
                model.count += 1
            assert source.tell(step, unit) == float(unit == source.unit_of(step) and step != 1)
            source.end_piece()
            assert not model.count.any()
    assert client.told == [(step, ["count"]) for step in (0, 2, 3, 4, 5)]


def test_a_late_worker_knows_that_it_lacks_changes() -> None:
    """It may not tell a digest of its state then."""
    model = Small()
    source, _ = source_of(model)
    for step, changed in enumerate((True, False, True, False, True)):
        source.end_step(step, changed=changed)
        assert source.missed == (step == 2)
    assert model.count.tolist() == [4, 4, 4]


def members_of() -> Members:
    model: Any = Small()
    model.register_parameter("weight", torch.nn.Parameter(torch.ones(2)))
    model.register_buffer("other", torch.zeros(3))
    return Members(model, torch.optim.SGD(model.parameters(), lr=1.0), {}, Layout(model, (), ("named",)))


def test_what_steps_change_is_no_difference_of_states() -> None:
    """Nor in a step that changes nothing, which a spectral norm has once its weight hardly moves. A worker that loads a
    state knows what steps have changed."""
    watched, plain, late = members_of(), members_of(), members_of()
    for one in (watched, plain):
        one.unnamed.take({"count": torch.ones(3)})
    watched.model.get_buffer("count").add_(1)  # forward by the loop's body on one worker alone
    watched.unnamed.settle()
    for one in (watched, plain):
        one.unnamed.take({})
    assert watched.digest_of_steps() == plain.digest_of_steps()
    late.load(watched.save({}))
    assert late.digest_of_steps() == plain.digest_of_steps()
    plain.model.get_buffer("other").add_(1)
    plain.unnamed.settle()
    assert watched.digest_of_steps() != plain.digest_of_steps()


def test_a_state_with_malformed_names_is_refused() -> None:
    one = members_of()
    values = state.decode(one.save({}))[0]
    for names in ("count", [1], {"count": 1}):
        with pytest.raises(FormatError, match="names of buffers are malformed"):
            one.load(state.encode(values | {"changing": names}, {}))


@pytest.mark.parametrize("setting", [{"secure": True}, {"dp": "clip:1,noise:1,sample:0.5"}])
def test_private_trainings_keep_them_as_they_were(setting: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    model = Small()
    source, client = source_of(model, **setting)
    for step in range(3):
        source.begin_piece(step)
        model.count += 1
        assert source.tell(step, source.unit_of(step)) == 0.0
        source.end_piece()
    assert not model.count.any() and client.told == []
    assert len(caplog.messages) == 1 and "count" in caplog.messages[0] and next(iter(setting)) in caplog.messages[0]


def test_the_hub_keeps_the_first_of_a_step_and_few_steps() -> None:
    said: list[str] = []
    buffers = Buffers(said.append)
    assert buffers.lacks(3, 0, 3) and not buffers.lacks(4, 0, 3) and not buffers.lacks(1, 2, 3)
    buffers.keep(3, ["a", "b"], b"first")
    buffers.keep(3, ["a"], b"second")
    assert buffers.find(3) == b"first" and not buffers.lacks(3, 0, 3) and buffers.find(2) is None
    buffers.keep(4, ["b", "\x1b[2Jc"], b"next")
    assert len(said) == 2 and "a, b" in said[0] and "the buffer [2Jc" in said[1]
    buffers.forget(3, 4)  # others have gone back to the state after step 3
    assert buffers.find(4) is None and buffers.find(3) == b"first"
    buffers.forget(5, 6)
    assert buffers.find(3) is None


def test_a_digest_tells_of_every_bit() -> None:
    draws = random.Random(SEED)
    print("seed", SEED)
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int8, torch.bool, torch.complex64):
        for size in (0, 1, 3, 70_001):
            numbers = torch.randint(0, 2, (size,), generator=torch.Generator().manual_seed(SEED)).to(dtype)
            known = digest_of([("x", numbers)])
            assert digest_of([("x", numbers.clone())]) == known != digest_of([("y", numbers)])
            assert digest_of([("x", torch.cat([numbers[:1], numbers])[1:])]) == known or size == 0
            for _ in range(3 if size else 0):
                changed = numbers.clone()
                raw = changed.view(torch.uint8)
                raw[draws.randrange(len(raw))] ^= 1 if dtype == torch.bool else 1 << draws.randrange(8)
                assert digest_of([("x", changed)]) != known and not same_bits(changed, numbers)
            if size > 1:
                turned = numbers.flip(0)
                assert torch.equal(turned, numbers) or digest_of([("x", turned)]) != known
