# SPDX-License-Identifier: Apache-2.0
"""What a loop does wrong, and what it is told: trainings of one worker, in this process."""

import itertools
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import runs

torch = pytest.importorskip("torch")

import tarry.torch as tt  # noqa: E402
from tarry import ArgumentError, Error, FormatError, StateError  # noqa: E402
from tarry.hub import Hub  # noqa: E402
from tarry.hub.settings import HubSettings, default_listen  # noqa: E402
from tarry.hub.training import Training  # noqa: E402
from tarry.torch import state  # noqa: E402
from tarry.torch.permutation import Permutation  # noqa: E402

LENGTH = 16


class Bench:
    """A model with a training of `join`."""

    def __init__(self, **options: Any) -> None:
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.data = (torch.randn(LENGTH, 3), torch.randn(LENGTH, 1))
        known: dict[str, Any] = {"data": self.data, "batch": 8, "piece": 2}
        self.job = tt.join(self.model, self.optimizer, **(known | options))

    def loss(self, piece: Any) -> Any:
        x, y = piece.batch
        return torch.nn.functional.mse_loss(self.model(x), y, reduction="sum")


@pytest.fixture(params=["everywhere", "server"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(sum=request.param)
    with made.job:
        yield made


def test_a_missing_weight_is_told(bench: Bench) -> None:
    with pytest.raises(ArgumentError, match=r"backward needs weight.*weight=len\(y\)"):
        for step in bench.job.steps(1):
            for piece in step:
                with piece:
                    piece.backward(bench.loss(piece))


def test_an_optimizer_that_steps_before_the_sum_is_told(bench: Bench) -> None:
    with pytest.raises(StateError, match="the optimizer steps before the gradients are summed"):
        for step in bench.job.steps(1):
            for piece in step:
                with piece:
                    piece.backward(bench.loss(piece), weight=2)
                bench.optimizer.step()


def test_a_piece_without_backward_is_told(bench: Bench) -> None:
    with pytest.raises(StateError, match="the piece has no gradient"):
        for step in bench.job.steps(1):
            for piece in step:
                with piece:
                    bench.loss(piece)


def test_backward_outside_of_its_piece_is_told(bench: Bench) -> None:
    with pytest.raises(StateError, match="within `with piece:`"):
        for step in bench.job.steps(1):
            for piece in step:
                piece.backward(bench.loss(piece), weight=2)


def test_a_metric_that_is_none_is_told(bench: Bench) -> None:
    with pytest.raises(ArgumentError, match=r"'right' is no metric.*metrics=\('right',\)"):
        for step in bench.job.steps(1):
            for piece in step:
                with piece:
                    piece.add(right=1.0)


def reshape(model: Any) -> None:
    model[0].weight.data = torch.zeros(5, 3)


def replace(model: Any) -> None:
    model[0].weight = torch.nn.Parameter(torch.zeros(4, 3))


def freeze(model: Any) -> None:
    model[2].bias.requires_grad_(False)


def extend(model: Any) -> None:
    model.append(torch.nn.Linear(1, 1))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (reshape, r"the parameter 0\.weight was \(4, 3\) and is \(5, 3\) now"),
        (replace, r"the parameter 0\.weight is another tensor than it was"),
        (freeze, r"the parameter 2\.bias no longer wants a gradient \(requires_grad_\(False\)\).*lr=0"),
        (extend, r"the parameter 3\.weight is new or wants a gradient now"),
    ],
)
def test_parameters_that_change_are_told(bench: Bench, change: Callable[[Any], None], why: str) -> None:
    with pytest.raises(StateError, match=why):
        for step in bench.job.steps(2):
            if step.number == 1:
                change(bench.model)
            for piece in step:
                with piece:
                    piece.backward(bench.loss(piece), weight=2)
            bench.optimizer.step()


def test_names_and_paths_are_taken_in_any_form(tmp_path: pathlib.Path) -> None:
    made = Bench(metrics="right", checkpoint=tmp_path / "run.ckpt", seed=np.int64(3))
    with made.job:
        for step in made.job.steps(1):
            for piece in step:
                with piece:
                    piece.add(right=2.0)
                    piece.backward(made.loss(piece), weight=2)
            made.optimizer.step()
            assert step.metrics["right"] == 1.0
    assert (tmp_path / "run.ckpt").exists()


def test_an_exception_of_the_users_comes_through(bench: Bench) -> None:
    with pytest.raises(ZeroDivisionError):
        for step in bench.job.steps(1):
            for piece in step:
                with piece:
                    _ = 1 / 0


@pytest.mark.parametrize("where", ["everywhere", "server"])
def test_after_an_exception_another_training_works(where: str) -> None:
    for _ in range(2):
        made = Bench(sum=where)
        with pytest.raises(ZeroDivisionError), made.job:
            for step in made.job.steps(1):
                for piece in step:
                    with piece:
                        _ = 1 / 0
    made = Bench()
    with made.job:
        for step in made.job.steps(2):
            for piece in step:
                with piece:
                    piece.backward(made.loss(piece), weight=2)
            made.optimizer.step()
    assert made.job.done == 2


def is_closed(training: Training) -> bool:
    try:
        return not training.address
    except StateError:
        return True


def test_the_last_sum_comes_though_the_run_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub has it, whatever has ended the rounds since."""
    with Hub(default_listen(), HubSettings(1, default_listen())) as hub:
        for name, value in (("HUB", hub.address), ("WORKER", "0"), ("WORKERS", "1")):
            monkeypatch.setenv(f"TARRY_{name}", value)
        made = Bench(sum="server")
        training = hub.training
        assert training is not None
        with pytest.raises(Error, match="a disk is full"), made.job:
            for step in made.job.steps(1):
                pieces = iter(step)
                for piece in itertools.islice(pieces, 4):
                    with piece:
                        piece.backward(made.loss(piece), weight=2)
                with training.change:
                    assert training.change.wait_for(lambda: training.done == 1, timeout=60)
                training.end(Error("a disk is full"))
                runs.await_true("the rounds go on", lambda: is_closed(training))
                assert not list(pieces) and step.metrics["weight"] == 8
                made.optimizer.step()
        assert made.job.done == 1


@pytest.mark.parametrize("where", ["everywhere", "server"])
def test_gradients_after_the_end_are_no_memory_of_the_library(where: str) -> None:
    made = Bench(sum=where)
    with made.job:
        for step in made.job.steps(1):
            for piece in step:
                with piece:
                    piece.backward(made.loss(piece), weight=2)
    for parameter in made.model.parameters():
        assert parameter.grad is not None and bool(torch.isfinite(parameter.grad).all())
    made = Bench()
    with pytest.raises(ZeroDivisionError), made.job:
        for step in made.job.steps(1):
            for piece in step:
                with piece:
                    _ = 1 / 0
    assert all(parameter.grad is None for parameter in made.model.parameters())


def test_the_step_is_that_of_one_process() -> None:
    """One step of SGD on the whole batch, to float32's rounding."""
    made, plain = Bench(shuffle=False), Bench(shuffle=False)
    with made.job:
        for step in made.job.steps(1):
            for piece in step:
                with piece:
                    piece.backward(made.loss(piece), weight=2)
            made.optimizer.step()
    plain.job.close()
    x, y = (one[:8] for one in made.data)
    torch.nn.functional.mse_loss(plain.model(x), y).backward()
    plain.optimizer.step()
    for own, other in zip(made.model.parameters(), plain.model.parameters(), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"batch": 17}, "a batch of 17 of 16 samples"),
        ({"piece": 9}, "pieces of 9 samples, of a batch of 8"),
        ({"data": ()}, "the data have no samples"),
        ({"data": (torch.zeros(16), torch.zeros(15))}, "tensors of 15 and 16 samples"),
        ({"data": iter([1, 2])}, "a list_iterator: a dataset that is read by number is wanted"),
        (
            {"data": torch.utils.data.DataLoader(torch.zeros(16), batch_size=None)},
            "batch_size=None, so its dataset gives",
        ),
        ({"metrics": ("loss",)}, "metrics have the same name"),
        ({"buffers": ("mean",)}, "the model has no buffer 'mean'"),
        ({"sum": "server", "engine": "gloo"}, "engine 'gloo' is for sums among workers, and sum is 'server'"),
        ({"sum": "somewhere"}, "sum is 'somewhere', and there are everywhere, server"),
    ],
)
def test_arguments_that_can_not_be_are_told(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ArgumentError, match=why):
        Bench(**options)


def test_a_model_without_parameters_is_told() -> None:
    model = torch.nn.ReLU()
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    with pytest.raises(ArgumentError, match="no parameter that wants a gradient"):
        tt.join(model, optimizer, data=torch.zeros(8), batch=4, piece=2)


# ---- what trainings are made of ----


@pytest.mark.parametrize(
    ("samples", "batch", "piece", "drop_last"), [(10, 4, 3, False), (10, 4, 3, True), (7, 7, 2, False)]
)
def test_each_epoch_has_each_sample_once(samples: int, batch: int, piece: int, drop_last: bool) -> None:
    order = Permutation(samples, batch, piece, seed=5, shuffle=True, drop_last=drop_last)
    epochs: list[list[int]] = []
    for epoch in range(3):
        found: list[int] = []
        for place in range(order.steps_per_epoch):
            step = epoch * order.steps_per_epoch + place
            assert order.epoch_of(step) == epoch
            for unit in range(order.units):
                found += [int(one) for one in order.indices(step, unit)]
        assert len(set(found)) == len(found) == (samples // batch * batch if drop_last else samples)
        epochs.append(found)
    assert epochs[0] != epochs[1]
    again = Permutation(samples, batch, piece, seed=5, shuffle=True, drop_last=drop_last)
    assert [int(one) for one in again.indices(order.steps_per_epoch, 0)] == epochs[1][:piece]


def test_states_come_back_as_they_were() -> None:
    values: dict[str, Any] = {
        "a": [1, 2.5, None, "x", True, (torch.arange(6).reshape(2, 3), float("inf"))],
        "b": {
            0: {"y": torch.tensor(1.5, dtype=torch.bfloat16)},
            "z": torch.zeros(0, 3),
            "w": torch.tensor([True, False]),
        },
    }
    text = state.encode(values, {"steps": "3"})
    found, told = state.decode(text)
    assert told["steps"] == "3"
    assert found["a"][:5] == values["a"][:5] and found["a"][5][1] == float("inf")
    assert isinstance(found["a"][5], tuple) and torch.equal(found["a"][5][0], values["a"][5][0])
    assert torch.equal(found["b"][0]["y"], values["b"][0]["y"]) and found["b"]["z"].shape == (0, 3)
    assert torch.equal(found["b"]["w"], values["b"]["w"])
    assert state.encode(found, {"steps": "3"}) == text


def test_a_scheduler_with_functions_in_its_state_is_saved(tmp_path: pathlib.Path) -> None:
    """As OneCycleLR of PyTorch 1.13 has."""

    class Scheduler:
        def __init__(self) -> None:
            self.steps, self.anneal = 0, self.step

        def step(self) -> None:
            self.steps += 1

        def state_dict(self) -> dict[str, Any]:
            return dict(self.__dict__)

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            self.__dict__.update(state_dict)

    for steps in (1, 3):
        scheduler = Scheduler()
        made = Bench(checkpoint=tmp_path / "run.ckpt", extras={"scheduler": scheduler})
        with made.job:
            for step in made.job.steps(steps):
                for piece in step:
                    with piece:
                        piece.backward(made.loss(piece), weight=2)
                made.optimizer.step()
                scheduler.step()
        assert scheduler.steps == steps


def test_what_can_not_be_saved_is_told() -> None:
    with pytest.raises(FormatError, match=r"\.model\.f: a function can't be saved without pickle"):
        state.encode({"model": {"f": lambda: 0}}, {})


@pytest.mark.parametrize("text", [b"", b"abc", bytes(8), b"\xff" * 40])
def test_a_state_that_is_none_is_told(text: bytes) -> None:
    with pytest.raises(FormatError):
        state.decode(text)
