# SPDX-License-Identifier: Apache-2.0
"""Trainings with differential privacy: what is summed, what is told, what is refused, and what a kill leaves."""

import dataclasses
import math
import os
import pathlib
import random
import signal
import time
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import runs
from conftest import SEED
from test_at_server import DIMENSION, Doing, sum_after

torch = pytest.importorskip("torch")

import tarry.torch as tt  # noqa: E402
from tarry import ArgumentError, FormatError, NumericalError, StateError, privacy  # noqa: E402
from tarry.dp import Releases, Terms  # noqa: E402
from tarry.hub import Agreement, Client, Hub, Security, blob, storage  # noqa: E402
from tarry.hub.client import Refused  # noqa: E402
from tarry.hub.private import Private  # noqa: E402
from tarry.hub.settings import HubSettings, default_listen  # noqa: E402
from tarry.results import Round, SumId  # noqa: E402
from tarry.settings import ServerSettings  # noqa: E402

WORKERS = 3
DP = "clip:0.7,noise:1,sample:0.1"
HAS_FUNC = hasattr(torch, "func")
with_func = pytest.mark.skipif(not HAS_FUNC, reason="torch.func is of PyTorch 2")


def entries(ledger: pathlib.Path) -> int:
    """How many releases it has."""
    return (os.path.getsize(ledger) - 40) // 16


# ---- the hub, with workers of NumPy ----


def an_agreement(checkpoint: str = "", **more: Any) -> Agreement:
    known: dict[str, Any] = {
        "dimension": DIMENSION, "units": 4, "samples": 1000, "batch": 8, "piece": 2, "seed": 1, "replication": 0,
        "parts": 1, "engine": "direct", "exact": 0, "model": "weight (10,)", "options": "",
        "checkpoint": checkpoint, "checkpoint_seconds": 60.0, "dp": DP,
    }  # fmt: skip
    settings: Any = {"sum": "server"} | {
        name: more.pop(name) for name in [*more] if name in ServerSettings.__annotations__
    }
    return Agreement(settings=settings, **known | more)


def test_nobody_gets_a_sum_without_noise(tmp_path: pathlib.Path) -> None:
    """What comes with rounds, and what the hub is asked for, is the same sum with noise, and counted before."""
    ledger = tmp_path / "run.ckpt.privacy"
    counted: list[int] = []

    def observe(_result: Round, _done: int, _wanted: int) -> None:
        counted.append(entries(ledger))

    settings = HubSettings(2, default_listen(), observe=observe)
    with Hub(default_listen(), settings) as hub:
        workers = [Doing(hub, number, an_agreement(str(tmp_path / "run.ckpt"))) for number in range(2)]
        for worker in workers:
            worker.begin(6)
        training = hub.training
        assert training is not None
        with training.change:
            assert training.change.wait_for(lambda: training.done == 6 or training.failure, timeout=60)
        assert workers[0].client.goes_on(5) is True and workers[0].client.goes_on(6) is None
        assert training.failure is None and training.status()["privacy"] == {"releases": 6, "secret": True}
        client = Client(hub.address)
        client.join(0, an_agreement(str(tmp_path / "run.ckpt")), bytes)
        kind, _, payload = client.after(5)
        assert kind == "sum"
        client.close()
        for worker in workers:
            worker.end()
    found = {5: np.frombuffer(payload, dtype=np.float32)}
    for worker in workers:
        for step, numbers in worker.sums.items():
            if step >= 0:
                assert np.array_equal(found.setdefault(step, numbers), numbers)
    assert sorted(found) == list(range(6)) and counted == list(range(1, 7))
    noise = np.concatenate([(numbers - sum_after(step)) / 0.7 for step, numbers in found.items()])
    assert (noise != 0).mean() > 0.8 and 0.3 < np.square(noise).mean() < 2.2  # 60 numbers on a grid


def test_a_worker_gets_the_keys_of_its_pieces_alone() -> None:
    with Hub(default_listen(), HubSettings(3, default_listen())) as hub:
        clients = [Client(hub.address) for _ in range(3)]
        told = [
            client.join(number, an_agreement(replication=2, units=6), bytes).draws
            for number, client in enumerate(clients)
        ]
        for client in clients:
            client.close()
    assert all(len(keys) == 4 for keys in told)
    assert set().union(*told) == set(range(6))
    assert len({key for keys in told for key in keys.values()}) == 6
    for unit in range(6):
        assert len({keys[unit] for keys in told if unit in keys}) == 1


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"sum": "everywhere"}, "sum='everywhere': each worker would have the sum without the noise"),
        ({"reproducible": True}, "reproducible=True"),
        ({"parts": 2}, "parts"),
        ({"compress": "int8"}, "compress"),
        ({"exact": 2}, "metrics or buffers"),
        ({"dp": "clip:1"}, "has no noise"),
        ({"dp": DP + ",delta:0.01"}, "delta:0.01 is not below one in the 1000 samples"),
        ({"dp": DP + ",budget:0.01"}, "budget:0.01 is less than the epsilon of one round"),
    ],
)
def test_the_hub_refuses_what_would_break_the_argument(more: dict[str, Any], why: str) -> None:
    with Hub(default_listen(), HubSettings(1, default_listen())) as hub:
        client = Client(hub.address)
        with pytest.raises(Refused, match=why):
            client.join(0, an_agreement(**more), bytes)
        client.close()


def test_plain_text_over_a_network_is_refused() -> None:
    security = Security(insecure=True)
    settings = HubSettings(1, "127.0.0.1:0", security=security)
    with Hub("127.0.0.1:0", settings) as hub:
        client = Client(hub.address, security.of_worker(0))
        with pytest.raises(Refused, match="dp does not go with plain text over a network"):
            client.join(0, an_agreement(), bytes)
        client.close()


def test_workers_with_other_terms_are_refused() -> None:
    with Hub(default_listen(), HubSettings(2, default_listen())) as hub:
        first, second = Client(hub.address), Client(hub.address)
        first.join(0, an_agreement(), bytes)
        with pytest.raises(Refused, match=r"dp='clip:9,noise:1,sample:0\.1' where the others have 'clip:0\.7"):
            second.join(1, an_agreement(dp="clip:9,noise:1,sample:0.1"), bytes)
        first.close()
        second.close()


def test_a_sum_that_is_not_exact_is_not_released() -> None:
    private = Private(HubSettings(1, default_listen()), an_agreement(), resumes=False)
    sum = np.ones(DIMENSION, dtype=np.float32)
    make: Any = Round
    known: dict[str, Any] = dict.fromkeys(Round.__dataclass_fields__, 0)
    with pytest.raises(StateError, match="the sum of round 7 is not exact, and is not released"):
        private.release(make(**known | {"number": 7, "exact": False}), sum)
    assert (sum == 1).all() and private.status()["releases"] == 0
    private.release(make(**known | {"exact": True}), sum)
    assert (sum != 1).any() and private.status()["releases"] == 1


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_sum_that_is_not_finite_is_not_released(tmp_path: pathlib.Path, wrong: float) -> None:
    path = tmp_path / "run.ckpt"
    private = Private(HubSettings(1, default_listen()), an_agreement(str(path)), resumes=False)
    make: Any = Round
    known: dict[str, Any] = dict.fromkeys(Round.__dataclass_fields__, 0) | {"number": 7, "exact": True}
    sum = np.ones(DIMENSION, dtype=np.float32)
    sum[3] = wrong
    with pytest.raises(NumericalError, match="the sum of round 7 is not finite"):
        private.release(make(**known), sum)
    assert (sum == 0).all() and private.status()["releases"] == 1 and private.mark()["releases"] == 1
    private.close()


def test_a_training_whose_sum_is_not_finite_ends(tmp_path: pathlib.Path) -> None:
    """Nobody gets the sum, and no checkpoint has it."""
    path = tmp_path / "run.ckpt"
    with Hub(default_listen(), HubSettings(1, default_listen())) as hub:
        worker = Doing(hub, 0, an_agreement(str(path), checkpoint_seconds=0.0), fails_at=2)
        worker.begin(9)
        training = hub.training
        assert training is not None
        with training.change:
            assert training.change.wait_for(lambda: training.failure is not None, timeout=60)
        assert isinstance(training.failure, NumericalError) and "the sum of round" in str(training.failure)
        assert training.done == 2 and entries(tmp_path / "run.ckpt.privacy") == 3
        assert worker.client.after(1)[0] == "sum" and worker.client.after(2)[0] == "none"
        worker.worker.close()
        worker.thread.join()
        assert all(np.isfinite(sum).all() for sum in worker.sums.values())
        worker.client.close()
    found = storage.read(str(path))
    assert found is None or found.base <= 2


def test_a_training_without_its_ledger_does_not_go_on(tmp_path: pathlib.Path) -> None:
    """With a ledger and no checkpoint, as after a kill in its first minute, it begins anew and counts on."""
    path = tmp_path / "run.ckpt"
    for count in (3, 3):
        with Hub(default_listen(), HubSettings(1, default_listen())) as hub:
            worker = Doing(hub, 0, an_agreement(str(path)))
            worker.begin(count)
            training = hub.training
            assert training is not None
            with training.change:
                assert training.change.wait_for(lambda t=training, n=count: t.done == n, timeout=60)
            worker.end()
    assert not path.exists() and entries(tmp_path / "run.ckpt.privacy") == 6
    with Hub(default_listen(), HubSettings(1, default_listen())) as hub:
        client = Client(hub.address)
        with pytest.raises(Refused, match="another clip, noise or sample"):
            client.join(0, an_agreement(str(path), dp="clip:0.7,noise:2,sample:0.1"), bytes)
        client.close()


def a_ledger(path: pathlib.Path, count: int) -> dict[str, int]:
    """Of so many releases; gives back what a checkpoint keeps of it."""
    path.unlink(missing_ok=True)
    owner = Releases(Terms.read(DP), 1000, path)
    for _ in range(count):
        owner.release(np.zeros(4, dtype=np.float32))
    mark = dataclasses.asdict(owner.mark)
    owner.close()
    return mark


@pytest.mark.parametrize("is_known", [True, False])
def test_a_ledger_that_was_cut_off_is_refused(tmp_path: pathlib.Path, is_known: bool) -> None:
    """With a mark in the checkpoint, and with the steps alone, as in older checkpoints."""
    path, ledger = tmp_path / "run.ckpt", tmp_path / "run.ckpt.privacy"
    mark = a_ledger(ledger, 9)
    whole = ledger.read_bytes()
    found = storage.Checkpoint(b"", SumId(0, 0, 0, 0), 9, b"", b"", 1, {}, mark if is_known else None)
    for cut in (1, 7, 16, 23, 5 * 16, 9 * 16):
        ledger.write_bytes(whole[:-cut])
        private = Private(HubSettings(1, default_listen()), an_agreement(str(path)), resumes=True)
        count = (len(whole) - 40 - cut) // 16
        with pytest.raises(FormatError, match=f"counts {count} releases, but .* was written after 9 rounds"):
            private.check(found.ledger, 9)
        assert ledger.read_bytes() == whole[:-cut]
    ledger.write_bytes(whole)
    private = Private(HubSettings(1, default_listen()), an_agreement(str(path)), resumes=True)
    private.check(found.ledger, 9)
    assert private.mark() == mark
    private.close()
    a_ledger(ledger, 9)
    private = Private(HubSettings(1, default_listen()), an_agreement(str(path)), resumes=True)
    if is_known:
        with pytest.raises(FormatError, match="is of another run than the checkpoint"):
            private.check(found.ledger, 9)


def test_a_hub_does_not_resume_with_a_ledger_that_was_cut_off(tmp_path: pathlib.Path) -> None:
    path, ledger = tmp_path / "run.ckpt", tmp_path / "run.ckpt.privacy"
    mark = a_ledger(ledger, 6)
    ledger.write_bytes(ledger.read_bytes()[:-16])
    told = an_agreement(str(path)).message()
    for after, known in ((6, mark), (3, mark), (6, None)):
        state = blob.join({}, b"1234")
        storage.write(str(path), storage.Checkpoint(state, SumId(0, 0, 0, 0), after, b"", b"", 1, told, known))
        why = f"counts 5 releases, but the checkpoint was written after {after} rounds and {6 if known else after}"
        with Hub(default_listen(), HubSettings(1, default_listen())) as hub:
            for dp, text in ((DP, why), ("", "is of a training with dp=")):
                client = Client(hub.address)
                with pytest.raises(Refused, match=text):
                    client.join(0, an_agreement(str(path), dp=dp), bytes)
                client.close()


# ---- clipping ----


class Bench:
    """A training of one worker, in this process."""

    def __init__(self, model: Any = None, **options: Any) -> None:
        torch.manual_seed(1)
        self.model = model or torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.data = (torch.randn(200, 3), torch.randn(200, 1))
        known: dict[str, Any] = {"data": self.data, "piece": 5, "sum": "server", "dp": DP}
        self.job = tt.join(self.model, self.optimizer, **(known | options))

    def loss(self, batch: Any) -> Any:
        return torch.nn.functional.mse_loss(self.model(batch[0]), batch[1], reduction="sum")


def oracle(model: Any, loss_of: Callable[[Any], Any], batch: list[Any], clip: float) -> list[Any]:
    """One example after the other, by autograd alone."""
    parameters = [one for one in model.parameters() if one.requires_grad]
    total = [torch.zeros(one.shape, dtype=torch.float64) for one in parameters]
    for place in range(len(batch[0])):
        found = torch.autograd.grad(loss_of([one[place : place + 1] for one in batch]), parameters)
        length = math.sqrt(sum(float(one.double().square().sum()) for one in found))
        if math.isfinite(length):
            for sum_, one in zip(total, found, strict=True):
                sum_ += one.double() * min(1.0, clip / length if length else 1.0)
    return total


class Tied(torch.nn.Module):
    """Weights that are used twice, a frozen layer, and a norm of one example."""

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.first = torch.nn.Linear(3, 6)
        self.frozen = torch.nn.Linear(6, 6).requires_grad_(False)
        self.norm = torch.nn.GroupNorm(2, 6)
        self.last = torch.nn.Linear(3, 6, bias=False)
        self.last.weight = self.first.weight

    def forward(self, x: Any) -> Any:
        return self.norm(torch.tanh(self.frozen(self.first(x)))) @ self.last.weight[:, :1]


@with_func
@pytest.mark.parametrize("clip", [0.05, 1.0, 1e6])
@pytest.mark.parametrize("tied", [False, True])
def test_clipped_sums_are_those_of_one_example_after_the_other(tied: bool, clip: float) -> None:
    from tarry.torch.clipping import Clipping
    from tarry.torch.layout import Layout

    torch.manual_seed(SEED)
    model = Tied() if tied else torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    batch = [torch.randn(37, 3), torch.randn(37, 1)]
    batch[0][5], batch[1][7], batch[0][9] = math.inf, math.nan, 1e30

    def loss_of(part: Any) -> Any:
        return torch.nn.functional.mse_loss(model(part[0]), part[1], reduction="sum")

    expected = oracle(model, loss_of, batch, clip)
    for most in (8, 100):
        found = Clipping(model, Layout(model, (), (), dp=True), clip, most).sum_of(loss_of, batch, 37)
        for own, other in zip(found, expected, strict=True):
            assert own.dtype == torch.float64
            torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-5 * min(1.0, clip))
    lengths = math.sqrt(sum(float(one.square().sum()) for one in expected))
    assert 0 < lengths <= 37 * clip


@with_func
@pytest.mark.parametrize("example", [{"x": 1, "y": 2}, [1, 2], (1, (2,))])
def test_batches_of_each_form_are_taken_apart(example: Any) -> None:
    from tarry.torch.clipping import Clipping
    from tarry.torch.layout import Layout

    model = torch.nn.Linear(3, 1)
    data = {1: torch.randn(9, 3), 2: torch.randn(9, 1)}

    def put(form: Any) -> Any:
        if isinstance(form, dict):
            return {name: put(one) for name, one in cast("dict[str, Any]", form).items()}
        return data[form] if isinstance(form, int) else type(form)(put(one) for one in form)

    def leaves(form: Any) -> list[Any]:
        if isinstance(form, torch.Tensor):
            return [form]
        inside: list[Any] = list(cast("dict[str, Any]", form).values() if isinstance(form, dict) else form)
        return [leaf for one in inside for leaf in leaves(one)]

    def loss_of(part: Any) -> Any:
        x, y = leaves(part)
        assert x.shape == (1, 3) and y.shape == (1, 1)
        return torch.nn.functional.mse_loss(model(x), y, reduction="sum"), 1

    found = Clipping(model, Layout(model, (), (), dp=True), 0.1, 4).sum_of(loss_of, put(example), 9)
    expected = oracle(model, lambda part: loss_of(part)[0], [data[1], data[2]], 0.1)
    for own, other in zip(found, expected, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-6)


@with_func
def test_gradients_are_clipped_sums_and_noise_at_all_workers() -> None:
    """In each of 60 steps of three workers with delays. The noise is that of a seed."""
    lines = runs.succeed(
        "private", 60, "--check", "--dp", f"clip:0.7,noise:1.5,sample:0.1,seed:{SEED}", workers=WORKERS,
        options=("--straggler", "exp:0.001+slow:1,5"),
    )  # fmt: skip
    assert len(steps_of(lines)) == 1, lines
    told = [line.split() for line in lines if line.startswith("noise ")]
    assert len(told) == WORKERS
    for _, _, mean, square, count in told:
        assert abs(float(mean)) < 5 / math.sqrt(int(count))
        assert abs(float(square) - 1) < 5 * math.sqrt(2 / int(count))
    drawn = {line.split()[2] for line in lines if line.startswith("drawn ")}
    assert len(drawn) == 1 and abs(int(drawn.pop()) - 3600) < 5 * math.sqrt(36000 * 0.09)


@with_func
def test_with_little_noise_gradients_are_the_clipped_mean() -> None:
    made = Bench(dp="clip:0.7,noise:0.001,sample:0.1")
    with made.job as job:
        for step in job.steps(5):
            drawn = [
                one for unit in range(job.permutation.units) for one in job.permutation.samples_of(step.number, unit)
            ]
            expected = oracle(made.model, made.loss, [one[drawn] for one in made.data], 0.7)
            step.compute(made.loss)
            for parameter, sum_ in zip(made.model.parameters(), expected, strict=True):
                torch.testing.assert_close(parameter.grad.double() * 20, sum_, rtol=0, atol=6 * 0.0007)
            made.optimizer.step()


@with_func
def test_dropout_goes_by_a_seed_that_nobody_knows() -> None:
    """A sample more or less moves the random numbers of those behind it: they have to look drawn anew."""
    seeds: set[Any] = set()
    units = 0
    for _ in range(2):
        made = Bench(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1)))
        with made.job as job:
            for step in job.steps(2):
                step.compute(made.loss)
                made.optimizer.step()
            units = job.permutation.units
            seeds |= {job.permutation.seed_of(unit) for unit in range(units)}
    assert len(seeds) == 2 * units > 0


# ---- what is told, and what is refused ----


@with_func
def test_nothing_is_told_of_training_samples() -> None:
    made = Bench()
    with made.job as job:
        for step in job.steps(2):
            step.compute(made.loss)
            for name in ("loss", "weight", "seconds", "pieces"):
                assert name not in step.metrics
                with pytest.raises(StateError, match="with dp nothing is told of the training samples"):
                    step.metrics[name]
            made.optimizer.step()
        for data in (made.data, (made.data[0], torch.zeros(200, 1))):
            with pytest.raises(ArgumentError, match="nothing is told of the training samples"):
                job.evaluate(data, lambda batch: (made.loss(batch), len(batch[1])))
        others = (torch.randn(10, 3), torch.randn(10, 1))
        assert job.evaluate(others, lambda batch: (made.loss(batch), len(batch[1])))["loss"] > 0
        expected = privacy.epsilon(noise=1, sample=0.1, steps=2, delta=1e-5)
        assert job.epsilon == expected
    assert job.epsilon == expected


@with_func
def test_what_the_loop_does_wrong_is_told() -> None:
    made = Bench()
    with made.job as job, pytest.raises(StateError, match=r"piece\.private\(loss_of\)"):
        for step in job.steps(1):
            for piece in step:
                with piece:
                    piece.backward(made.loss(piece.batch), weight=1)
    made = Bench()
    with made.job as job, pytest.raises(StateError, match=r"the piece has no gradient: piece\.private"):
        for step in job.steps(1):
            for piece in step:
                with piece:
                    pass
    made = Bench()
    with made.job as job, pytest.raises(StateError, match="comes once"):
        for step in job.steps(1):
            for piece in step:
                with piece:
                    piece.private(made.loss)
                    piece.private(made.loss)
    made = Bench()
    with made.job as job, pytest.raises(ArgumentError, match="dp does not go with local steps"):
        job.local_steps(2, lambda parameters: torch.optim.SGD(parameters, lr=0.1))
    made = Bench()
    with made.job as job, pytest.raises(ArgumentError, match="a loss as a tensor is wanted"):
        for step in job.steps(1):
            step.compute(lambda _: 3.0)  # type: ignore[arg-type]


def test_private_pieces_are_of_private_trainings() -> None:
    made = Bench(dp="", batch=10)
    with made.job as job, pytest.raises(StateError, match="is for a training with dp"):
        for step in job.steps(1):
            for piece in step:
                with piece:
                    piece.private(made.loss)
    made = Bench(dp="", batch=10)
    with made.job as job, pytest.raises(StateError, match="has no differential privacy"):
        _ = job.epsilon
    with pytest.raises(ArgumentError, match="batch: how many samples a step has"):
        Bench(dp="")


@with_func
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"sum": "everywhere"}, "sum='everywhere'"),
        ({"reproducible": True}, "reproducible=True"),
        ({"batch": 20}, "a step's samples are drawn"),
        ({"metrics": "right"}, "dp does not go with metrics"),
        ({"buffers": "x"}, "dp does not go with buffers"),
        ({"shuffle": False}, "dp does not go with shuffle"),
        ({"drop_last": True}, "dp does not go with drop_last"),
        ({"parts": 2}, "parts"),
        ({"compress": "int8"}, "compress"),
        ({"piece": 100}, "pieces of 100 samples, of a batch of 20 on average"),
    ],
)
def test_options_that_do_not_go_with_it_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ArgumentError, match=why):
        Bench(**options)


@with_func
def test_terms_that_can_not_be_read_are_refused() -> None:
    with pytest.raises(FormatError, match="has no noise"):
        Bench(dp="clip:1")


@with_func
@pytest.mark.parametrize(
    "norm", [torch.nn.BatchNorm1d(4), torch.nn.SyncBatchNorm(4), torch.nn.InstanceNorm1d(4, track_running_stats=True)]
)
def test_norms_that_mix_examples_are_refused(norm: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), norm, torch.nn.Linear(4, 1))
    with pytest.raises(ArgumentError, match=f"dp does not go with 1, a {type(norm).__name__}: .*GroupNorm"):
        Bench(model)


@pytest.mark.skipif(HAS_FUNC, reason="PyTorch has torch.func")
def test_older_versions_of_pytorch_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"dp needs torch\.func, which PyTorch has from 2\.0 on, and this is 1"):
        Bench()


# ---- ledger, budget and deaths ----


def epsilons(lines: list[str]) -> set[float]:
    return {float(line.split()[4]) for line in lines if line.startswith("end ")}


def steps_of(lines: list[str]) -> set[tuple[str, str]]:
    """Steps and digests of all workers: one, where they agree."""
    return {(line.split()[2], line.split()[3]) for line in lines if line.startswith("end ")}


@with_func
def test_the_budget_ends_the_training_with_its_model_saved(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "run.ckpt"
    arguments = (1000, "--dp", "clip:0.7,noise:1.5,sample:0.1,budget:1.5", "--checkpoint", file)
    lines = runs.succeed("private", *arguments, workers=WORKERS)
    (found,) = steps_of(lines)
    (epsilon,) = epsilons(lines)
    steps = int(found[0])
    assert 5 < steps < 1000 and entries(tmp_path / "run.ckpt.privacy") == steps
    assert epsilon <= 1.5 < privacy.epsilon(noise=1.5, sample=0.1, steps=steps + 1, delta=1e-5)
    ended = runs.run("private", *arguments, workers=2)  # the next run has nothing left
    assert ended.returncode == 0, ended.stderr
    again = [line.partition("] ")[2] for line in ended.stdout.splitlines()]
    assert steps_of(again) == {found} and epsilons(again) == {epsilon}
    assert f"the budget ends the training after step {steps}" in ended.stderr
    assert f"{steps} sums were released: epsilon {epsilon:.4g}, delta 1e-05" in ended.stderr


@with_func
def test_the_ledger_counts_through_kills_and_resumes(tmp_path: pathlib.Path) -> None:
    draws = random.Random(SEED)
    print("seed", SEED)
    file, ledger = tmp_path / "run.ckpt", tmp_path / "run.ckpt.privacy"
    seen = begun = 0
    arguments = ("--checkpoint", file, "--seconds", 0.002, "--report", 1)
    for _ in range(3):
        with runs.running("private", 100_000, *arguments, workers=WORKERS) as process:
            begun = int(runs.await_line(process, "begins").split()[-1])
            number = begun + draws.randrange(5, 25)
            runs.await_line(process, f"step 0 {number}")
            runs.await_true("there is no checkpoint", file.exists)
            time.sleep(draws.random() / 20)
            process.kill()
            for child in runs.workers(process).values():
                os.kill(child, signal.SIGKILL)
        seen += number - begun  # the optimizer of step `number` may not have stepped
        assert entries(ledger) >= seen
    before = entries(ledger)
    lines = runs.succeed("private", begun + 200, *arguments[:2], workers=2)
    (found,) = steps_of(lines)
    assert found[0] == str(begun + 200)
    after = entries(ledger)
    assert before < after and after >= begun + 200
    assert epsilons(lines) == {privacy.epsilon(noise=1, sample=0.1, steps=after, delta=1e-5)}
    ledger.rename(tmp_path / "away")
    ended = runs.run("private", begun + 201, *arguments[:2], workers=1)
    assert ended.returncode != 0 and "run.ckpt.privacy: No such file" in ended.stderr


@with_func
def test_a_worker_that_dies_costs_no_release(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "run.ckpt"
    steps = 150
    with runs.running(
        "private", steps, "--seconds", 0.005, "--report", 1, "--checkpoint", file, workers=WORKERS,
        options=("--restarts", 3), preloaded=False,
    ) as process:  # fmt: skip
        runs.await_line(process, "step 0 10")
        os.kill(runs.workers(process)[2], signal.SIGKILL)
        output, errors = process.communicate(timeout=runs.LIMIT_SECONDS)
    assert process.returncode == 0, output + errors
    lines = [line.partition("] ")[2] for line in output.splitlines()]
    (found,) = steps_of(lines)
    assert found[0] == str(steps) and entries(tmp_path / "run.ckpt.privacy") == steps
