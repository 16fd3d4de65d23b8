# SPDX-License-Identifier: Apache-2.0
"""Owners of vectors in Python: the same table of cases as the library's own, and runs with each."""

import functools
import importlib
import pathlib
import sys
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from network import Crew, serving
from test_engine import Adder, Board, preparing

import tarry
from tarry._native import ffi, lib
from tarry.owner import PLACE_SUM, VectorsCalls

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
NumpyVectors: Any = importlib.import_module("numpy_vectors").NumpyVectors

Array = npt.NDArray[Any]
PLACES = 20
ELEMENTS = {np.float32: lib.TARRY_ELEMENT_FLOAT32, np.float64: lib.TARRY_ELEMENT_FLOAT64}


class FarVectors:
    """NumPy's, as if they were in no host memory."""

    name = "far"

    def __init__(self) -> None:
        self.inner = NumpyVectors()
        for method in ("reserve", "combine", "digest", "read", "write"):
            setattr(self, method, getattr(self.inner, method))


class Calls:
    """An owner as the library calls it."""

    def __init__(self, pointer: Any, dtype: Any) -> None:
        self.pointer, self.dtype = pointer, dtype

    def __getattr__(self, name: str) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            assert getattr(self.pointer.methods, name)(self.pointer, *arguments) == lib.TARRY_OK

        return call

    def put(self, place: int, first: int, numbers: Array) -> None:
        self.write(place, first, len(numbers), ffi.cast("void *", numbers.ctypes.data))

    def get(self, place: int, first: int, count: int) -> Array:
        found = np.full(count, np.nan, self.dtype)
        self.read(place, first, count, ffi.cast("void *", found.ctypes.data))
        return found

    def digest_of(self, place: int, step: int) -> int:
        found = ffi.new("uint64_t *")
        self.digest(place, step, found)
        return found[0]


def host_vectors() -> Any:
    made = ffi.new("tarry_vectors **")
    assert lib.tarry_host_vectors_create(ffi.NULL, made) == lib.TARRY_OK
    return ffi.gc(made[0], made[0].methods.free)


def by_loops(base: Array, numbers: list[Array], coefficients: list[float], dtype: Any) -> Array:
    total = base.astype(float)
    for one, coefficient in zip(numbers, coefficients, strict=True):
        total = (total + np.float32(coefficient).astype(float) * one.astype(float)).astype(dtype).astype(float)
    return total


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dimension", [1, 2, 5, 63, 3001])
@pytest.mark.parametrize("owner", ["numpy", "far", "host"])
def test_an_owner_does_as_the_librarys_own(owner: str, dimension: int, dtype: Any) -> None:
    random = np.random.default_rng(dimension)
    kept = None if owner == "host" else VectorsCalls(NumpyVectors() if owner == "numpy" else cast(Any, FarVectors()))
    calls = Calls(host_vectors() if kept is None else kept.pointer, dtype)
    host = Calls(host_vectors(), dtype)
    mirror = [random.standard_normal(dimension).astype(dtype) for _ in range(PLACES)]
    for one in (calls, host):
        one.reserve(PLACES, dimension, ELEMENTS[dtype])
        for place, numbers in enumerate(mirror):
            one.put(place, 0, numbers)
    for count in (0, 1, 2, 3, PLACES - 2, 40):
        for base in (None, 0, 1):
            for exact in (True, False):
                places = [int(place) for place in random.integers(1, PLACES, count)]
                powers = [float((-1) ** k * 2.0 ** -(k % 5)) for k in range(count)]
                times = powers if exact else [float(one) for one in random.random(count, dtype=np.float32)]
                begin = np.zeros(dimension) if base is None else mirror[base]
                expected = by_loops(begin, [mirror[place] for place in places], times, dtype)
                calls.combine(0, lib.TARRY_NO_PLACE if base is None else base, places, times, count)
                off: Array = np.abs(calls.get(0, 0, dimension) - expected)
                assert off.max() <= (0 if exact else 1e-5)
                calls.put(0, 0, mirror[0])
    for step in range(3):
        assert calls.digest_of(2, step) == host.digest_of(2, step)
    if dimension > 5:
        calls.put(3, 3, np.array([7, 8], dtype))
        mirror[3][3:5] = 7, 8
    calls.reserve(3 * PLACES, dimension, ELEMENTS[dtype])
    for place in range(PLACES):
        first, count = dimension // 3, dimension - dimension // 3 - dimension // 5
        assert np.array_equal(calls.get(place, first, count), mirror[place][first : first + count])


# ---- runs ----

D = 301


class Numbers:
    """A replica of float64, from which sums are subtracted; `owner`: whose vectors they are."""

    last = None

    def __init__(self, owner: Any, dtype: Any) -> None:
        self.owner, self.numbers = owner, np.zeros(D, dtype=dtype)

    def save(self) -> bytes:
        return self.numbers.tobytes()

    def load(self, state: bytes) -> None:
        self.numbers[:] = np.frombuffer(state, dtype=self.numbers.dtype)

    def array(self, task: tarry.Task) -> Array:
        return getattr(self.owner, "inner", self.owner).host(task.place)

    def do(self, task: tarry.Task) -> None:
        if task.is_step:
            assert task.place == PLACE_SUM
            self.numbers -= self.array(task)
        else:
            place = np.arange(D) + 1
            self.array(task)[:] = sum(np.sin((span.origin + 1) * place + self.numbers) for span in task.spans)


def expected(units: int, rounds: int) -> Array:
    numbers, place = np.zeros(D), np.arange(D) + 1
    for _ in range(rounds):
        numbers = numbers - sum(np.sin((unit + 1) * place + numbers) for unit in range(units))
    return numbers


class OwnersAdder(Adder):
    owners = True


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("owner", [NumpyVectors, FarVectors])
def test_workers_sum_what_an_owner_has(owner: Any, dtype: Any) -> None:
    """float64 from end to end: a float32 anywhere on the way costs 1e-8."""
    board, plan = Board(), tarry.Plan(3, 6, replication=2)
    models = [Numbers(owner(), dtype) for _ in range(3)]

    def hire(crew: Crew, number: int) -> None:
        model = models[number]

        def body(worker: tarry.Worker) -> None:
            for task in worker:
                model.do(task)

        crew.hire(
            body, prepare=preparing(cast(Any, model)), worker=number, listen="127.0.0.1:0",
            engine=OwnersAdder(board, number), vectors=model.owner,
        )  # fmt: skip

    with serving(plan, D, parameters=1, sum="everywhere", element=np.dtype(dtype).name) as (server, crew):
        for number in range(3):
            hire(crew, number)
        server.wait(timeout=20)
        for _ in range(4):
            assert server.round().exact
            server.wait(timeout=20)
    for model in models:
        assert np.array_equal(model.numbers, models[0].numbers)
    assert models[0].numbers == pytest.approx(expected(6, 4), rel=0, abs=1e-12 if dtype is np.float64 else 1e-3)


def run_local(owners: list[Any] | None, where: str) -> list[Array]:
    """The sums of three rounds of a run whose order of adding is always the same."""
    plan, sums = tarry.Plan(2, 4, replication=1, pieces=1), list[Array]()
    random = np.random.default_rng(1)
    gradients = random.standard_normal((4, D)).astype(np.float32)

    def compute(task: tarry.Task) -> None:
        if task.is_step:
            if task.worker == 0:
                sums.append(task.sum.copy())
        else:
            task.gradient[:] = gradients[task.spans[0].origin] * (task.round + 1)

    replicas = [Numbers(None, np.float32) for _ in range(2)] if where == "everywhere" else None
    with tarry.Local(plan, D, compute, replicas=replicas, vectors=owners, sum=where, pick="plan") as local:  # type: ignore[arg-type]
        for _ in range(3):
            found = local.round(None if where == "everywhere" else np.zeros(D, np.float32))
            if where == "server":
                sums.append(np.array(found.sum))
    return sums


@pytest.mark.parametrize("where", ["everywhere", "server"])
def test_the_same_bits_as_in_the_librarys_memory(where: str) -> None:
    own, others = run_local(None, where), run_local([NumpyVectors(), NumpyVectors()], where)
    assert len(own) >= 2
    assert all(np.array_equal(one, other) for one, other in zip(own, others, strict=False))


def test_what_an_owner_cannot_do_is_refused() -> None:
    plan = tarry.Plan(2, 4, replication=2)
    local = functools.partial(tarry.Local, plan, D, lambda task: None)
    far: list[Any] = [FarVectors(), FarVectors()]
    with pytest.raises(
        tarry.ArgumentError, match="vectors of 'far' are not in host memory: workers have to make the sum"
    ):
        local(vectors=far)
    replicas = [Numbers(None, np.float32) for _ in range(2)]
    with pytest.raises(tarry.ArgumentError, match=r"engine '.*' sums float32 in host memory"):
        local(vectors=far, replicas=replicas, sum="everywhere")
    with pytest.raises(tarry.ArgumentError, match="element is float64"):
        local(replicas=replicas, sum="everywhere", element="float64")
    with pytest.raises(tarry.ArgumentError, match="element float64 goes with sum everywhere"):
        local(element="float64")


def test_what_an_owner_raises_ends_the_round() -> None:
    class Failing(NumpyVectors):
        def combine(self, *_: Any) -> None:
            raise ZeroDivisionError("combine")

    plan = tarry.Plan(2, 4, replication=1)
    owners = [Failing(), Failing()]
    with (
        tarry.Local(plan, D, lambda task: task.gradient.fill(1), vectors=owners) as local,
        pytest.raises((ZeroDivisionError, tarry.Error)),
    ):
        local.round(np.zeros(D, np.float32))
