# SPDX-License-Identifier: Apache-2.0
"""Evaluations that one worker makes alone: others never get its result for another question, and it blocks nobody."""

import functools
import pathlib
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "training"))
import runs
from conftest import SEED

torch: Any = pytest.importorskip("torch")

import tarry.torch as tt  # noqa: E402
from tarry import Error  # noqa: E402
from tarry.hub.evaluation import Evaluations, Key  # noqa: E402
from tarry.torch.loader import Loader  # noqa: E402
from tarry.torch.question import question_of  # noqa: E402

SCRIPTS = pathlib.Path(__file__).parent / "scripts"
X = torch.randn(40, 3, generator=torch.Generator().manual_seed(SEED))


def asked(data: Any, function: Any, *, size: int = 8, collate: Any = None, places: Any = None) -> str:
    loader = Loader(data, collate)
    return question_of(loader, np.arange(loader.samples) if places is None else places, size, function, 1)


def plain(batch: Any) -> Any:
    return batch.sum(), len(batch)


def other(batch: Any) -> Any:
    return batch.sum(), len(batch) + 1


def scaled(by: float) -> Callable[[Any], Any]:
    return lambda batch: (by * batch.sum(), len(batch))


FIRST: Callable[[Any], Any] = lambda b: plain(b)  # noqa: E731
SECOND: Callable[[Any], Any] = lambda b: other(b)  # noqa: E731


def counting() -> Callable[[Any], Any]:
    calls = random.randrange(1000)

    def function(batch: Any) -> Any:
        nonlocal calls
        calls += 1
        return plain(batch)

    return function


class Trainer:
    def __init__(self) -> None:
        self.rank = random.randrange(1000)

    def plain(self, batch: Any) -> Any:
        return batch.sum(), len(batch)

    def other(self, batch: Any) -> Any:
        return batch.sum(), len(batch)

    def __call__(self, batch: Any) -> Any:
        return plain(batch)


def test_other_data_or_another_function_is_another_question() -> None:
    changed = X.clone()
    changed[39, 2] += 1
    same = [
        (asked(X, plain), asked(X.clone(), plain)),
        (asked(list(X), plain), asked([one.clone() for one in X], plain)),
        (asked(X, scaled(2.0)), asked(X, scaled(2.0))),
        (asked(X, counting()), asked(X, counting())),
        (asked(X, Trainer().plain), asked(X, Trainer().plain)),
        (asked(X, Trainer()), asked(X, Trainer())),
        (asked(X, functools.partial(scaled, 2.0)), asked(X, functools.partial(scaled, 2.0))),
    ]
    assert all(one == another for one, another in same)
    different = [
        asked(X, plain), asked(X, other), asked(X, scaled(2.0)), asked(X, scaled(3.0)), asked(X, counting()),
        asked(X, Trainer().plain), asked(X, Trainer().other), asked(X, Trainer()), asked(X, FIRST),
        asked(X, SECOND), asked(X, functools.partial(scaled, 2.0)),
        asked(X, functools.partial(scaled, 3.0)), asked(changed, plain), asked(X.double(), plain),
        asked(X[:39], plain), asked((X,), plain), asked(list(X), plain), asked(list(changed), plain),
        asked(X.numpy(), plain), asked(X, plain, size=9), asked(X, plain, collate=list),
        asked(X, plain, places=np.arange(40)[::-1]),
    ]  # fmt: skip
    assert len(set(different)) == len(different)


def test_tensors_that_change_are_read_again() -> None:
    data = X.clone()
    first = asked(data, plain)
    assert asked(data, plain) == first
    data[3] += 1
    second = asked(data, plain)
    assert second != first
    data[3] -= 1
    data[3] = X[3]
    assert asked(data, plain) == first
    for _ in range(20):  # others at the same place in memory
        assert asked(torch.randn(40, 3), plain) not in (first, second)
    with torch.inference_mode():
        assert asked(X.clone(), plain) == first


def test_hub_keeps_more_than_are_in_progress() -> None:
    """Workers that ask different things at once end all the same, whoever comes in between."""
    known, draws = Evaluations(), random.Random(SEED)
    left: dict[Key, tuple[int, dict[str, float]] | None] = {(0, 1, str(one), 0): None for one in range(200)}
    takes = 0
    while left:
        key = draws.choice(list(left))
        told = left[key]
        if told is not None:
            known.tell(key, *told)
        piece, sums = known.take(key, 6, 3)
        takes += 1
        if piece is None:
            assert sums == {"loss": 3.0 * int(key[2])}
            del left[key]
        else:
            left[key] = piece, {"loss": float(key[2])}
    assert takes == 200 * 4, SEED


def test_a_name_says_what_is_the_same() -> None:
    model = torch.nn.Linear(3, 1)
    with tt.join(model, torch.optim.SGD(model.parameters(), lr=0.1), data=X, batch=8, piece=2) as job:
        ones, fives = torch.ones(40, 3), torch.full((40, 3), 5.0)
        before = job.evaluate(X, plain)  # before the first step
        assert before["loss"] == pytest.approx(float(X.sum()) / 40)
        for step in job.steps(2):
            step.compute(lambda batch: (model(batch).square().sum(), len(batch)))
            assert job.evaluate(ones, plain)["loss"] == 3.0
            assert job.evaluate(fives, plain)["loss"] == 15.0
            assert job.evaluate(fives, scaled(2.0))["loss"] == 30.0
            assert [job.evaluate(fives, scaled(one), name=str(one))["loss"] for one in (1.0, 2.0)] == [15.0, 30.0]
        assert job.evaluate(ones, plain)["loss"] == 3.0  # after the last one
        job.client.evaluate((job.done, 0, "name val", 0), 40, 20, None)
        with pytest.raises(Error, match="evaluates 39 samples in 20 pieces where the others have 40 in 20"):
            job.evaluate(X[:39], plain, name="val")


def test_in_a_run_each_gets_the_answer_to_its_own_question() -> None:
    lines = [line.split() for line in runs.succeed(str(SCRIPTS / "alone"), workers=3)]
    found = {(line[1], line[2]): float(line[3]) for line in lines if line[0] == "found"}
    shared = {case for _, case in found if case.startswith("all-")}
    assert len(shared) == 6 and len(found) == 3 * len(shared) + 4, found
    for (worker, case), value in found.items():
        assert value == float(case.rpartition("-")[2]), (worker, case, value)
    pieces = {line[1]: int(line[2]) for line in lines if line[0] == "pieces"}
    assert sum(pieces.values()) < 2 * 16, pieces  # of an evaluation that all make
