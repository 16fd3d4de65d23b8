# SPDX-License-Identifier: Apache-2.0
"""Engines in Python under workers over the network, in threads of this process."""

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from network import Crew, Model, serving
from test_everywhere import PLAN, D, do, serial

import tarry
from tarry.engine import DONE, FAILED, RUNNING, EngineSum, Group, Progress


class Board:
    """Where the engines of one process put what they have."""

    def __init__(self) -> None:
        self.change = threading.Condition()
        self.terms: dict[int, dict[bytes, Any]] = {}  # of each epoch, by address


class Adder:
    """Adds what is on the board, once all members have put theirs there; `faults` come one after the other."""

    name = "adder"

    def __init__(self, board: Board, number: int, *faults: str) -> None:
        self.board, self.own, self.faults = board, f"member {number}".encode(), list(faults)
        self.sums, self.abandoned = 0, 0
        self._woken = False
        self._wanted: EngineSum | None = None

    def address(self) -> bytes:
        return self.own

    def _strikes(self, fault: str) -> bool:
        return bool(self.faults) and self.faults[0] == fault and bool(self.faults.pop(0))

    def form(self, group: Group) -> None:
        if self._strikes("form"):
            raise ZeroDivisionError("form")
        assert group.members[group.place].address == self.own
        assert [one.worker for one in group.members] == sorted(one.worker for one in group.members)
        self.group = group

    def start(self, wanted: EngineSum) -> None:
        if self._strikes("start"):
            raise ZeroDivisionError("start")
        term = np.zeros(wanted.dimension, dtype=wanted.dtype)
        wanted.fill(self.group.place, term)
        self._wanted = wanted
        with self.board.change:
            self.board.terms.setdefault(self.group.epoch, {})[self.own] = term
            self.board.change.notify_all()

    def wait(self, until: float | None) -> Progress:
        if self._strikes("wait"):
            raise ZeroDivisionError("wait")
        if self._strikes("fail"):
            return Progress(FAILED, "on command", self.group.members[0].worker)
        with self.board.change:
            there = self.board.terms[self.group.epoch]
            limit = None if until is None else max(0.0, until - time.monotonic())
            self.board.change.wait_for(lambda: self._woken or len(there) == len(self.group.members), limit)
            self._woken = False
        if self._wanted is None or len(there) < len(self.group.members):
            return Progress(RUNNING)
        total: Any = np.sum([there[one.address] for one in self.group.members], axis=0)
        self._wanted.take(total)
        self._wanted = None
        self.sums += 1
        return Progress(DONE)

    def wake(self) -> None:
        with self.board.change:
            self._woken = True
            self.board.change.notify_all()

    def abandon(self) -> None:
        self.abandoned += 1
        self._wanted = None


def preparing(model: Model) -> Callable[[tarry.Job], Model]:
    return lambda job: model


def hire(crew: Crew, engine: Any, worker: int, **settings: Any) -> Model:
    model = Model(D)

    def body(worker: tarry.Worker) -> None:
        for task in worker:
            do(task, model)

    crew.hire(body, prepare=preparing(model), worker=worker, listen="127.0.0.1:0", engine=engine, **settings)
    return model


@pytest.mark.parametrize("parts", [1, 2])
def test_an_engine_makes_the_sums(parts: int) -> None:
    board = Board()
    engines = [Adder(board, worker) for worker in range(3)]
    plan = tarry.Plan(3, 6, replication=2, parts=parts)
    with serving(plan, D, sum="everywhere") as (server, crew):
        models = [hire(crew, engine, worker) for worker, engine in enumerate(engines)]
        server.wait(timeout=20)
        for _ in range(4):
            assert server.round().exact
            server.wait(timeout=20)
    assert sum(engine.sums for engine in engines) >= 2 * 4  # who is late has no part in a sum, and at least two have
    assert all(np.array_equal(model.numbers, models[0].numbers) for model in models)
    assert models[0].numbers == pytest.approx(serial(plan, D, 4), abs=1e-4)


def test_what_an_engine_raises_fails_the_sum_and_costs_none() -> None:
    board, told = Board(), list[str]()
    faults = ("form", "start", "wait", "fail")
    engines = [Adder(board, 0), Adder(board, 1, *faults), Adder(board, 2)]

    def observe(notice: tarry.Notice) -> None:
        told.append(notice.text)

    with serving(PLAN, D, sum="everywhere") as (server, crew):
        models = [hire(crew, engines[0], 0), hire(crew, engines[1], 1, observe=observe), hire(crew, engines[2], 2)]
        server.wait(timeout=20)
        for _ in range(6):
            assert server.round().exact
            server.wait(timeout=20)
    assert engines[1].faults == []
    assert [text for text in told if "Zero" in text or "command" in text] == [
        "ZeroDivisionError: form", "ZeroDivisionError: start", "ZeroDivisionError: wait", "on command",
    ]  # fmt: skip
    assert all(np.array_equal(model.numbers, models[0].numbers) for model in models)
    assert models[0].numbers == pytest.approx(serial(PLAN, D, 6), abs=1e-5)


def test_a_worker_with_another_engine_is_refused() -> None:
    board = Board()
    with serving(PLAN, D, sum="everywhere") as (server, crew):
        for worker in range(2):
            hire(crew, Adder(board, worker), worker)
        server.wait(2, timeout=20)
        with (
            tarry.Worker(
                crew.address, insecure=True, prepare=preparing(Model(D)), worker=2, listen="127.0.0.1:0"
            ) as other,
            pytest.raises(tarry.StateError, match="sums by the engine 'direct', where the others have 'adder'"),
        ):
            other.take(20)
        assert server.round().exact


@pytest.mark.parametrize("way", ["compress", "compress_down"])
def test_an_engine_has_no_part_where_numbers_travel_in_another_form(way: str) -> None:
    """And the library's own has: all of its workers have the same bits."""
    forms: Any = {way: "int8"}
    with serving(PLAN, D, sum="everywhere", **forms) as (server, crew):
        models = [hire(crew, None, worker) for worker in range(2)]
        server.wait(2, timeout=20)
        with (
            tarry.Worker(
                crew.address, insecure=True, prepare=preparing(Model(D)), worker=2, listen="127.0.0.1:0",
                engine=Adder(Board(), 2),
            ) as other,
            pytest.raises(tarry.ArgumentError, match="the engine 'adder' sums float32"),
        ):  # fmt: skip
            other.take(20)
        for _ in range(3):
            assert server.round().exact
            server.wait(2, timeout=20)
        assert np.array_equal(models[0].numbers, models[1].numbers)
        assert not np.array_equal(models[0].numbers, serial(PLAN, D, 3))
        assert models[0].numbers == pytest.approx(serial(PLAN, D, 3), rel=0.05, abs=0.05)


def test_an_engine_needs_a_name_and_a_short_address() -> None:
    class Odd(Adder):
        name = "two words"

    class Long(Adder):
        def address(self) -> bytes:
            return bytes(201)

    with pytest.raises(tarry.ArgumentError, match="its engine's name is none"):
        tarry.Worker("127.0.0.1:1", insecure=True, engine=Odd(Board(), 0))
    with serving(PLAN, D, sum="everywhere") as (server, crew):
        server.open()
        with (
            tarry.Worker(
                crew.address, insecure=True, prepare=preparing(Model(D)), listen="127.0.0.1:0",
                engine=Long(Board(), 0),
            ) as other,
            pytest.raises(tarry.ArgumentError, match="'adder' has an address of 201 bytes"),
        ):  # fmt: skip
            other.take(20)
