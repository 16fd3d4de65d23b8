# SPDX-License-Identifier: Apache-2.0
"""Data that the model does not learn from, shared out among the workers."""

import math
import os
import pathlib
import random
import signal
from typing import Any

import numpy as np
import pytest
import runs
from hypothesis import given
from hypothesis import strategies as st

from tarry.hub.evaluation import Evaluation, Evaluations

torch = pytest.importorskip("torch")

import tarry.torch as tt  # noqa: E402
from tarry import ArgumentError, Error  # noqa: E402
from tarry.torch.evaluation import look_up  # noqa: E402

WORKERS = 3


@given(st.integers(1, 40), st.randoms(use_true_random=False))
def test_each_piece_counts_once_whoever_is_lost(pieces: int, draws: random.Random) -> None:
    """Workers take pieces, tell of them in any order, twice, or never; the sum is that of all pieces."""
    evaluation = Evaluation(100, pieces)
    held: list[int] = []
    taken = 0
    while (piece := evaluation.take()) is not None:
        taken += 1
        held.append(piece)
        draws.shuffle(held)
        if draws.random() < 0.5:
            evaluation.tell(held[0], {"loss": 0.1 * held[0], "weight": 1.0})
        if draws.random() < 0.3:
            held.pop()  # its worker is lost
    assert taken >= pieces
    evaluation.tell(0, {"loss": 1e9, "weight": 1e9})  # late: it is known
    assert evaluation.take() is None
    assert evaluation.sums() == {"loss": math.fsum(0.1 * one for one in range(pieces)), "weight": pieces}


def test_sums_beyond_all_numbers_are_told() -> None:
    evaluation = Evaluation(2, 2)
    evaluation.tell(0, {"loss": math.inf, "large": 1e308})
    evaluation.tell(1, {"loss": -math.inf, "large": 1e308})
    assert evaluation.take() is None
    sums = evaluation.sums()
    assert math.isnan(sums["loss"]) and sums["large"] == math.inf


def test_old_evaluations_are_forgotten_and_other_data_refused() -> None:
    known = Evaluations()
    for step in range(1000):
        assert known.take((step, 1, "x", 0), 10, 1) == (0, {})
        known.tell((step, 1, "x", 0), 0, {"loss": float(step)})
    assert known.find((999, 1, "x", 0)) == {"loss": 999.0}
    assert known.find((0, 1, "x", 0)) == {}
    known.tell((0, 1, "x", 0), 0, {"loss": 1.0})
    with pytest.raises(ValueError, match="9 samples in 1 pieces where the others have 10 in 1"):
        known.take((999, 1, "x", 0), 9, 1)
    with pytest.raises(ValueError, match="no piece 1 of 1"):
        known.tell((999, 1, "x", 0), 1, {})
    with pytest.raises(ValueError, match="0 pieces"):
        known.take((1000, 1, "x", 0), 9, 0)


def told(lines: list[str]) -> dict[str, set[tuple[str, ...]]]:
    """By step: what workers have been told."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for line in lines:
        if line.startswith("evaluated "):
            _, step, *rest = line.split()
            found.setdefault(step, set()).add(tuple(rest))
    return found


def test_all_workers_have_what_one_process_finds() -> None:
    lines = runs.succeed("evaluating", 12, workers=WORKERS, options=("--straggler", "slow:1,5"))
    found = told(lines)
    assert sorted(found, key=int) == ["3", "6", "9", "12"]
    assert all(len(one) == 1 for one in found.values()), found
    worst = [float(line.split()[1]) for line in lines if line.startswith("apart ")]
    assert len(worst) == WORKERS and max(worst) < 1e-6
    pieces = [int(line.split()[1]) for line in lines if line.startswith("pieces ")]
    assert sum(pieces) >= 4 * 13 and max(pieces) < 4 * 13  # shared out


def test_a_worker_that_dies_in_the_middle_is_not_waited_for(tmp_path: pathlib.Path) -> None:
    with runs.running(
        "evaluating", 6, "--stop", tmp_path / "stands", workers=WORKERS, options=("--restarts", 1)
    ) as process:
        line = runs.await_line(process, "stands in a piece")
        os.kill(int(line.split()[-1]), signal.SIGKILL)
        output, errors = process.communicate(timeout=runs.LIMIT_SECONDS)
    assert process.returncode == 0, output + errors
    found = told([line.partition("] ")[2] for line in output.splitlines()])
    assert {"3", "6"} <= set(found) and all(len(one) == 1 for one in found.values()), output


class Bench:
    def __init__(self) -> None:
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
        next(one for one in self.model.modules() if isinstance(one, torch.nn.BatchNorm1d)).eval()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.job = tt.join(self.model, self.optimizer, data=torch.randn(16, 3), batch=8, piece=2)

    def loss_of(self, x: Any) -> Any:
        assert not torch.is_grad_enabled() and not self.model.training
        draws = float(torch.rand(1)) + random.random() + float(np.random.rand())
        return self.model(x).square().sum(), len(x), {"drawn": draws * len(x)}


def test_nothing_of_the_training_changes() -> None:
    made = Bench()
    with made.job:
        for step in made.job.steps(2):
            for piece in step:
                with piece:
                    piece.backward(made.model(piece.batch).square().sum(), weight=2)
            before = made.model.state_dict()
            before = {name: one.clone() for name, one in before.items()}
            random_state = torch.get_rng_state(), random.getstate(), repr(np.random.get_state())
            grads = [one.grad.clone() for one in made.model.parameters()]
            first = made.job.evaluate(torch.randn(7, 3, generator=torch.Generator().manual_seed(1)), made.loss_of)
            assert first["weight"] == 7 and first["loss"] > 0 and 0 < first["drawn"] < 3
            modes = [one.training for one in made.model.modules()]
            assert modes == [True, True, False, True]
            for name, one in made.model.state_dict().items():
                assert torch.equal(one, before[name])
            assert torch.equal(torch.get_rng_state(), random_state[0]) and random.getstate() == random_state[1]
            assert repr(np.random.get_state()) == random_state[2]
            for own, other in zip(made.model.parameters(), grads, strict=True):
                assert torch.equal(own.grad, other)
            made.optimizer.step()


def test_a_worker_that_has_lost_the_step_gets_what_others_found() -> None:
    made = Bench()
    with made.job:
        step = next(made.job.steps(1))
        step.lost = True
        assert math.isnan(made.job.evaluate(torch.zeros(4, 3), made.loss_of)["loss"])
        step.lost = False
        found = made.job.evaluate(torch.zeros(4, 3), made.loss_of)
        named = made.job.evaluate(torch.zeros(4, 3), made.loss_of, name="zeros")
        assert named == found == look_up(made.job, (0, 1, "name zeros", 0))


def test_what_can_not_be_is_told() -> None:
    made = Bench()
    with made.job:
        with pytest.raises(ArgumentError, match="pieces of 2 of 0 samples"):
            made.job.evaluate(torch.zeros(0, 3), made.loss_of)
        with pytest.raises(ArgumentError, match="pieces of 0 of 4 samples"):
            made.job.evaluate(torch.zeros(4, 3), made.loss_of, piece=0)
        made.job.evaluate(torch.zeros(4, 3), made.loss_of, name="zeros")
        with pytest.raises(Error, match="evaluates 5 samples in 3 pieces where the others have 4 in 2"):
            made.job.client.evaluate((0, 0, "name zeros", 0), 5, 3, None)
