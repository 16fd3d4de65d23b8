# SPDX-License-Identifier: Apache-2.0
"""Sums by process groups of torch.distributed: members that sum something else, leave, or never come."""

import threading
import time
from collections.abc import Generator
from typing import Any, cast

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tarry  # noqa: E402
import tarry.torch as tt  # noqa: E402
from tarry._native import ffi, lib  # noqa: E402
from tarry.engine import DONE, FAILED, RUNNING, EngineSum, Group, Member, Progress  # noqa: E402
from tarry.torch.collective import Collective  # noqa: E402

D = 1000


class Wanted:
    """As much of an EngineSum as an engine looks at."""

    forms = None
    dimension = D

    def __init__(self, number: int, dtype: Any = np.float32) -> None:
        self.own = np.random.default_rng(number).standard_normal(D).astype(dtype)
        self.sum = np.full(D, np.nan, dtype=dtype)
        self.dtype = dtype

    def fill(self, place: int, into: Any) -> None:
        into[:] = self.own

    def take(self, numbers: Any) -> None:
        self.sum[:] = numbers


@pytest.fixture(scope="module", autouse=True)
def ended_threads() -> Generator[None]:
    """A group that hangs has a thread until it fails by itself; an interpreter that ends before that may be aborted."""
    yield
    for thread in threading.enumerate():
        if thread.name.startswith("tarry-"):
            thread.join(30)


@pytest.fixture
def engines() -> Generator[list[Collective]]:
    made = [Collective("gloo", "127.0.0.1", timeout=3.0) for _ in range(3)]
    yield made
    for one in made:
        one.close()


def form(engines: list[Collective], epoch: int, *own: int) -> None:
    """At some of the engines, of a group of all."""
    members = tuple(Member(worker, one.address()) for worker, one in enumerate(engines))
    for place in own or range(len(engines)):
        engines[place].form(Group(epoch, place, members))


def start(engine: Collective, number: int, dtype: Any = np.float32) -> Wanted:
    wanted = Wanted(number, dtype)
    engine.start(cast(EngineSum, wanted))
    return wanted


def add_up(engines: list[Collective]) -> None:
    """All start a sum, and have it."""
    wanted = [start(one, number) for number, one in enumerate(engines)]
    assert [one.wait(None) for one in engines] == [Progress(DONE)] * len(engines)
    assert all(np.array_equal(one.sum, wanted[0].sum) for one in wanted)
    assert wanted[0].sum == pytest.approx(np.sum([one.own for one in wanted], axis=0), abs=1e-5)


def test_all_members_have_the_same_bits_of_each_sum(engines: list[Collective]) -> None:
    for epoch in range(1, 6):
        form(engines, epoch)
        add_up(engines)


def test_float64_is_summed_as_such(engines: list[Collective]) -> None:
    form(engines, 1)
    wanted = [start(one, number, np.float64) for number, one in enumerate(engines)]
    assert [one.wait(None) for one in engines] == [Progress(DONE)] * len(engines)
    assert all(np.array_equal(one.sum, wanted[0].sum) for one in wanted)
    assert wanted[0].sum == pytest.approx(np.sum([one.own for one in wanted], axis=0), rel=0, abs=1e-14)


FORMS = {"float32": lib.TARRY_COMPRESS_NONE, "bf16": lib.TARRY_COMPRESS_BF16, "int8": lib.TARRY_COMPRESS_INT8}
LONG = 100_000
STEPS = {"float32": 0.0, "bf16": 1 / 256, "int8": 1 / 127}  # how far rounding takes a number, of the largest


class Case:
    """A sum in forms as the library asks for it, by members of a group."""

    def __init__(self, members: int, up: str, down: str, *, dimension: int = LONG, exact: int = 5) -> None:
        random = np.random.default_rng(dimension + members)
        self.up, self.down, self.exact = up, down, exact
        self.weights = random.standard_normal((1, members), dtype=np.float32)
        self.parts = random.standard_normal((members, dimension), dtype=np.float32)
        self.parts[members - 1] *= members < 3  # one that has nothing
        self.sums = [np.full(dimension, 7, dtype=np.float32) for _ in range(members)]
        self.asked = [self._of(place, members, dimension) for place in range(members)]

    def _of(self, place: int, members: int, dimension: int) -> EngineSum:
        asked = ffi.new("tarry_engine_sum *", {"dimension": dimension, "parts": 1})
        asked.name.step = 3
        if self.parts[place].any():
            asked.part = ffi.from_buffer("float[]", self.parts[place])
        asked.weights = ffi.from_buffer("float[]", self.weights)
        asked.sum = ffi.from_buffer("float[]", self.sums[place], require_writable=True)
        asked.compress, asked.compress_down = FORMS[self.up], FORMS[self.down]
        asked.compress_seed, asked.compress_exact = 11, self.exact
        return EngineSum(asked, members)

    def check(self) -> None:
        """The same bits at all; rounded once on each way, and what is exact not at all."""
        expected: Any = (self.weights[0].astype(float)[:, None] * self.parts).sum(axis=0)
        assert all(np.array_equal(one, self.sums[0]) for one in self.sums)
        off = np.abs(self.sums[0] - expected)
        most = STEPS[self.up] * (np.abs(self.weights[0]) * np.abs(self.parts).max(axis=1)).sum()
        most += STEPS[self.down] * (np.abs(expected).max() + most)
        assert off.max(initial=0) <= most + 1e-5
        assert off[len(off) - self.exact :].max(initial=0) < 1e-5
        if len(off) > 100:
            assert (off > 1e-5).mean() > 0.5


def sum_in_forms(engines: list[Collective], epoch: int, case: Case) -> int:
    """Gives back the bytes that all have sent."""
    form(engines, epoch)
    for one, wanted in zip(engines, case.asked, strict=True):
        one.start(wanted)
    carried: list[Any] = [one._attempt.sum for one in engines]  # pyright: ignore
    assert [one.wait(None) for one in engines] == [Progress(DONE)] * len(engines)
    case.check()
    return sum(one.sent for one in carried)


def test_numbers_travel_in_forms(engines: list[Collective]) -> None:
    assert all(one.forms for one in engines)
    for epoch, (up, down) in enumerate([("bf16", "float32"), ("float32", "int8"), ("int8", "bf16")], 1):
        sum_in_forms(engines, epoch, Case(3, up, down))
    sent = sum_in_forms(engines, 9, Case(3, "int8", "int8"))
    whole = 2 * 2 * LONG * 4
    assert 0 < sent < whole / 3.9
    for epoch, dimension in enumerate((1, 16, 40), 10):
        sum_in_forms(engines, epoch, Case(3, "int8", "int8", dimension=dimension))
    sum_in_forms(engines[:2], 20, Case(2, "int8", "int8"))


def test_an_attempt_that_is_made_again_rounds_as_before(engines: list[Collective]) -> None:
    first, again = Case(3, "int8", "int8"), Case(3, "int8", "int8")
    sum_in_forms(engines, 1, first)
    sum_in_forms(engines, 2, again)
    assert np.array_equal(first.sums[0], again.sums[0])


def test_sums_in_forms_of_two_groups_are_never_mixed(engines: list[Collective]) -> None:
    sum_in_forms(engines, 1, Case(3, "int8", "int8"))
    form(engines, 2, 0, 1)
    form(engines, 3, 2)
    case = Case(3, "int8", "int8")
    for one, wanted in zip(engines, case.asked, strict=True):
        one.start(wanted)
    found = [one.wait(None) for one in engines]
    assert [(one.state, one.why) for one in found] == [(FAILED, "gloo: others sum in another group")] * 3
    assert all((one == 7).all() for one in case.sums)
    sum_in_forms(engines, 4, Case(3, "int8", "int8"))


def test_sums_of_two_groups_are_never_mixed(engines: list[Collective]) -> None:
    """The same members, of which one is at another attempt than the others."""
    form(engines, 1)
    add_up(engines)
    form(engines, 2, 0, 1)
    form(engines, 3, 2)
    wanted = [start(one, number) for number, one in enumerate(engines)]
    found = [one.wait(None) for one in engines]
    assert [(one.state, one.why) for one in found] == [(FAILED, "gloo: others sum in another group")] * 3
    assert all(np.isnan(one.sum).all() for one in wanted)
    form(engines, 4)
    add_up(engines)


def test_a_member_that_has_left_is_met_in_a_new_group(engines: list[Collective]) -> None:
    form(engines, 1)
    add_up(engines)
    form(engines[:2], 2)
    add_up(engines[:2])
    assert left_is_told(engines)
    form(engines, 3)
    add_up(engines)


def left_is_told(engines: list[Collective]) -> bool:
    """Whether the group that the third still has counts as left at its store; waits for that."""
    lasting: Any = engines[2]._lasting  # pyright: ignore[reportPrivateUsage]
    until = time.monotonic() + 20
    while lasting._store.add(f"{lasting._key}/left", 0) == 0 and time.monotonic() < until:
        time.sleep(0.01)
    return lasting._store.add(f"{lasting._key}/left", 0) == 2


def test_who_waits_for_a_member_that_never_comes_can_go_on_without_it(engines: list[Collective]) -> None:
    """At once: the groups that hang fail by themselves much later."""
    form(engines, 1)
    add_up(engines)
    form(engines, 2)
    lost = [start(one, number) for number, one in enumerate(engines[:2])]
    for one in engines[:2]:
        assert one.wait(time.monotonic() + 0.05) == Progress(RUNNING)
    begun = time.monotonic()
    form(engines[:2], 3)
    add_up(engines[:2])
    assert time.monotonic() - begun < 2.5
    assert all(np.isnan(one.sum).all() for one in lost)


def test_a_member_that_never_comes_fails_the_sum_in_the_end(engines: list[Collective]) -> None:
    form(engines, 1, 0, 1)
    for number, one in enumerate(engines[:2]):
        start(one, number)
    found = [one.wait(None) for one in engines[:2]]
    assert all(one.state == FAILED and one.why.startswith("gloo: ") for one in found), found


def test_wake_ends_a_wait(engines: list[Collective]) -> None:
    form(engines, 1, 0)
    start(engines[0], 0)
    threading.Timer(0.05, engines[0].wake).start()
    assert engines[0].wait(None) == Progress(RUNNING)


def join(engine: str) -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tt.join(model, optimizer, data=torch.zeros(4, 2), batch=2, piece=1, engine=engine)


def test_what_is_no_engine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(tarry.ArgumentError, match="engine is 'glue'; it can be 'direct', 'gloo' or 'nccl'"):
        join("glue")
    if not torch.cuda.is_available():
        with pytest.raises(tarry.ArgumentError, match="engine is 'nccl', and this PyTorch finds no GPU"):
            join("nccl")
    for name, value in {"HUB": "192.0.2.1:7077", "WORKER": "1", "WORKERS": "2"}.items():
        monkeypatch.setenv(f"TARRY_{name}", value)
    with pytest.raises(tarry.ArgumentError, match=r"processes of one machine, and the hub is at 192.0.2.1:7077"):
        join("gloo")
