# SPDX-License-Identifier: Apache-2.0
"""Steps that pieces take by themselves between sums."""

import os
import signal
from typing import Any

import pytest
import runs
from test_training import EACH_SUM, assert_few_lost, same

torch = pytest.importorskip("torch")

import tarry.torch as tt  # noqa: E402
from tarry import ArgumentError  # noqa: E402
from tarry.torch import state  # noqa: E402
from tarry.torch.local_steps import split  # noqa: E402

WORKERS = 3


def apart(lines: list[str]) -> float:
    return max(float(line.split()[1]) for line in lines if line.startswith("apart "))


@EACH_SUM
def test_rounds_are_those_of_one_process(where: str) -> None:
    lines = runs.succeed("local", 15, "--sum", where, workers=WORKERS, options=("--straggler", "slow:1,4"))
    same(lines, 15)
    assert apart(lines) < 1e-5


@EACH_SUM
def test_a_worker_that_is_killed_in_a_round_costs_none(where: str) -> None:
    """It comes back in the middle of others' local steps, and gets the state of before them."""
    with runs.running(
        "local", 60, "--seconds", 0.01, "--report", 5, "--sum", where, workers=WORKERS, options=("--restarts", 2)
    ) as process:
        runs.await_line(process, "step 0 10")
        os.kill(max(runs.workers(process).items())[1], signal.SIGKILL)
        output, errors = process.communicate(timeout=runs.LIMIT_SECONDS)
    assert process.returncode == 0, output + errors
    assert "is started again" in errors
    lines = [line.partition("] ")[2] for line in output.splitlines()]
    same(lines, 60)
    assert apart(lines) < 1e-5
    assert_few_lost(lines)


class Scaler:
    """In place of a GradScaler, which old versions have for GPUs alone."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        pass


class Bench:
    """Two layers with the same weights."""

    def __init__(self, **options: Any) -> None:
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 3))
        self.model[2].weight = self.model[0].weight
        self.outer: Any = torch.optim.SGD(self.model.parameters(), lr=1.0)
        data = torch.randn(16, 3)
        self.job = tt.join(self.model, self.outer, data=data, batch=8, piece=4, metrics=("rows",), **options)

    def loss_of(self, x: Any) -> Any:
        return (self.model(x) - x).square().sum(), len(x), {"rows": len(x)}


def inner(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.1)


def test_a_state_that_is_saved_meanwhile_is_that_of_before() -> None:
    made = Bench()
    before = {name: one.clone() for name, one in made.model.state_dict().items()}
    saved: list[bytes] = []

    def loss_of(x: Any) -> Any:
        saved.append(made.job.members.save({}))
        return made.loss_of(x)

    with made.job:
        step = next(made.job.steps(1))
        made.job.local_steps(2, inner).compute(step, loss_of)
        for name, one in made.model.state_dict().items():
            assert torch.equal(one, before[name])
        assert step.metrics["rows"] == 1.0
        made.outer.step()
    assert not torch.equal(made.model[2].bias, before["2.bias"])
    assert len(saved) == 4
    for text in saved:
        values, _ = state.decode(text)
        for name, one in values["model"].items():
            assert torch.equal(one, before[name]), name


def test_an_exception_leaves_the_parameters_as_they_were() -> None:
    made = Bench()
    before = torch.nn.utils.parameters_to_vector(made.model.parameters()).detach().clone()
    parts = 0

    def fails(x: Any) -> Any:
        nonlocal parts
        parts += 1
        if parts == 2:
            raise KeyError("the user's")
        return made.loss_of(x)

    with pytest.raises(KeyError), made.job:
        made.job.local_steps(2, inner).compute(next(made.job.steps(1)), fails)
    assert torch.equal(torch.nn.utils.parameters_to_vector(made.model.parameters()), before)


def test_batches_of_any_kind_are_split() -> None:
    x, y = torch.arange(7), torch.arange(14).view(7, 2)
    assert [len(one) for one in split(x, 3)] == [3, 2, 2]
    assert [len(one) for one in split(x[:2], 3)] == [1, 1]
    parts = split({"x": x, "more": (x, [y])}, 3)
    assert [len(one["more"][1][0]) for one in parts] == [3, 2, 2]
    assert torch.equal(torch.cat([one["more"][0] for one in parts]), x)
    for wrong in ("text", [x, x[:2]], [], {"x": 1.5}):
        with pytest.raises(ArgumentError, match="can't be split for local steps"):
            split(wrong, 3)


def test_a_scaler_is_refused() -> None:
    made = Bench(scaler=Scaler())
    with made.job, pytest.raises(ArgumentError, match="don't go with a GradScaler"):
        made.job.local_steps(2, inner)


def test_more_steps_than_samples_are_refused() -> None:
    made = Bench()
    with made.job, pytest.raises(ArgumentError, match="5 local steps with pieces of 4 samples"):
        made.job.local_steps(5, inner)
