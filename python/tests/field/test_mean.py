# SPDX-License-Identifier: Apache-2.0
"""A loss that is a mean is noticed at the first step, and nothing else is taken for one."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import pytest

torch: Any = pytest.importorskip("torch")

import tarry.torch as tt  # noqa: E402
from tarry import ArgumentError  # noqa: E402
from tarry.torch.reduction import Reduction  # noqa: E402

F: Any = torch.nn.functional
SAMPLES, PIECE, FEATURES, CLASSES = 64, 16, 6, 5
X = torch.randn(SAMPLES, FEATURES, generator=torch.Generator().manual_seed(1))
LABELS = (X.sum(1).abs() * 2).long() % CLASSES


class Network(torch.nn.Module):
    """With all that a second look at a piece must not change: dropout, a batch norm, a buffer that counts."""

    calls: Any

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        torch.default_generator.manual_seed(2)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(FEATURES, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.2), torch.nn.Linear(8, CLASSES)
        )
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return self.layers(x)


class OwnSum(torch.autograd.Function):
    """A function of the user's own: the sum of squares, times a factor."""

    @staticmethod
    def forward(context: Any, x: Any, factor: float) -> Any:
        context.save_for_backward(x)
        context.factor = factor
        return (x * x).sum() * factor

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        (x,) = context.saved_tensors
        return 2 * x * gradient * context.factor, None


def targets(out: Any) -> Any:
    return F.one_hot(LABELS[: len(out)], CLASSES).float()


def smooth(out: Any, labels: Any, reduction: str) -> Any:
    return F.cross_entropy(out, labels, label_smoothing=0.1, reduction=reduction)


# Of outputs and labels. Means by the graph alone, of every form that people write.
MEANS: dict[str, Callable[[Any, Any], Any]] = {
    "cross_entropy": lambda out, y: F.cross_entropy(out, y),
    "smoothed": lambda out, y: smooth(out, y, "mean"),
    "of probabilities": lambda out, y: F.cross_entropy(out, targets(out)),
    "mse": lambda out, y: F.mse_loss(out, targets(out)),
    "l1": lambda out, y: F.l1_loss(out, targets(out)),
    "bce": lambda out, y: F.binary_cross_entropy_with_logits(out, targets(out)),
    "huber": lambda out, y: F.huber_loss(out, targets(out)),
    "smooth l1": lambda out, y: F.smooth_l1_loss(out, targets(out)),
    "kl": lambda out, y: F.kl_div(out.log_softmax(1), targets(out), reduction="batchmean"),
    "poisson": lambda out, y: F.poisson_nll_loss(out, targets(out)),
    ".mean()": lambda out, y: F.cross_entropy(out, y, reduction="none").mean(),
    "mean of sums": lambda out, y: (out - targets(out)).square().sum(1).mean(),
    "mean of dimensions": lambda out, y: (out - targets(out)).square().mean((0, 1)),
    "mean first": lambda out, y: (out - targets(out)).square().mean(0).sum(),
    "divided": lambda out, y: F.cross_entropy(out, y, reduction="sum") / len(y),
    "divided by a tensor": lambda out, y: F.cross_entropy(out, y, reduction="sum") / torch.tensor(float(len(y))),
    "times 1/n": lambda out, y: (1 / len(y)) * F.cross_entropy(out, y, reduction="sum"),
    "by all numbers": lambda out, y: (out - targets(out)).square().sum() / out.numel(),
    "two tasks": lambda out, y: F.cross_entropy(out, y) + 0.3 * F.mse_loss(out, targets(out)),
    "scaled and cast": lambda out, y: -(-0.5 * F.cross_entropy(out, y)).double().view(1).squeeze(),
}
SUMS: dict[str, Callable[[Any, Any], Any]] = {
    "cross_entropy": lambda out, y: F.cross_entropy(out, y, reduction="sum"),
    "smoothed": lambda out, y: smooth(out, y, "sum"),
    "mse": lambda out, y: F.mse_loss(out, targets(out), reduction="sum"),
    "half": lambda out, y: 0.5 * (out - targets(out)).square().sum(),
    "mean times n": lambda out, y: F.cross_entropy(out, y) * len(y),
    "small mean times n": lambda out, y: 0.01 * (F.cross_entropy(out, y) * len(y)),
    "means of features": lambda out, y: (out - targets(out)).square().mean(1).sum(),
    "divided by features": lambda out, y: (out - targets(out)).square().sum() / out.shape[1],
    "as many features": lambda out, y: (out @ out.t()).square().sum() / len(out),
    "one by one": lambda out, y: cast(Any, sum)(
        F.cross_entropy(one[None], its[None]) for one, its in zip(out, y, strict=True)
    ),
    "stacked": lambda out, y: torch.stack(
        [F.mse_loss(one, its) for one, its in zip(out, targets(out), strict=True)]
    ).sum(),
    "with a mean penalty": lambda out, y: F.cross_entropy(out, y, reduction="sum") + 0.1 * out.square().mean(),
    "contrastive": lambda out, y: F.cross_entropy(out @ out.t(), torch.arange(len(out)), reduction="sum"),
    "of one's own": lambda out, y: OwnSum.apply(out, 1.0),
}


def step_by_function(loss: Callable[[Any, Any], Any], weight: float | None = None, **options: Any) -> Network:
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with tt.join(model, optimizer, data=(X, LABELS), batch=SAMPLES, piece=PIECE, shuffle=False, **options) as job:
        for step in job.steps(2):
            step.compute(lambda b: (loss(model(b[0]), b[1]), len(b[1]) if weight is None else weight))
            optimizer.step()
    return model


def step_by_loop(loss: Callable[[Any, Any], Any], weight: float | None = None) -> None:
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with tt.join(model, optimizer, data=(X, LABELS), batch=SAMPLES, piece=PIECE, shuffle=False) as job:
        for step in job.steps(1):
            for piece in step:
                with piece:
                    x, y = piece.batch
                    piece.backward(loss(model(x), y), weight=len(y) if weight is None else weight)
            optimizer.step()


WORDS = r"the loss is a mean .*reduction='sum'.*multiply.*give weight=1"


@pytest.mark.parametrize("name", MEANS)
def test_a_mean_is_told(name: str) -> None:
    for way in (step_by_function, step_by_loop):
        with pytest.raises(ArgumentError, match=WORDS):
            way(MEANS[name])


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_is_no_mean(name: str) -> None:
    step_by_function(SUMS[name])
    step_by_loop(SUMS[name])


def test_a_mean_of_pieces_is_by_weight_1() -> None:
    step_by_function(MEANS["mse"], 1)
    step_by_loop(MEANS["cross_entropy"], 1)


def test_a_function_of_ones_own_is_told_by_halves() -> None:
    """The graph shows nothing."""
    with pytest.raises(ArgumentError, match="half a piece has as large a loss"):
        step_by_function(lambda out, y: OwnSum.apply(out, 1 / len(y)))
    with pytest.raises(ArgumentError, match="half a piece"):
        step_by_function(lambda out, y: OwnSum.apply(out, 1 / len(y)), sum="server")


def test_looking_at_halves_changes_nothing() -> None:
    """The same bits as where the graph says enough: parameters, dropout, batch norms, buffers."""
    ours = step_by_function(lambda out, y: OwnSum.apply(out, 1.0), reproducible=True)
    other = step_by_function(lambda out, y: (out * out).sum(), reproducible=True)
    for (name, one), its in zip(ours.state_dict().items(), other.state_dict().values(), strict=True):
        assert name == "calls" or torch.equal(one, its) or torch.allclose(one, its, rtol=1e-6, atol=1e-7), name
    assert torch.equal(ours.calls, other.calls)


class Pair(NamedTuple):
    x: Any
    y: Any


def test_batches_of_every_form_are_halved() -> None:
    def as_dict(samples: list[Any]) -> Any:
        return {"x": torch.stack([one for one, _ in samples]), "more": {"y": [y for _, y in samples]}}

    def as_pair(samples: list[Any]) -> Any:
        return Pair(torch.stack([one for one, _ in samples]), torch.tensor([int(y) for _, y in samples]))

    class Odd:
        """Nothing that knows how it is cut."""

        def __init__(self, samples: list[Any]) -> None:
            self.x = torch.stack([one for one, _ in samples])

    def of_dict(batch: Any) -> Any:
        assert len(batch["x"]) == len(batch["more"].pop("y"))  # it changes its batch
        return batch["x"]

    def of_odd(batch: Any) -> Any:
        return batch.x

    def of_list(batch: Any) -> Any:
        return batch[0]

    forms: tuple[tuple[Any, Any], ...] = ((as_dict, of_dict), (as_pair, of_odd), (Odd, of_odd), (None, of_list))
    for collate, inputs_of in forms:
        model = Network()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        data = list(zip(X, LABELS, strict=True))
        with (
            pytest.raises(ArgumentError, match="half a piece"),
            tt.join(model, optimizer, data=data, batch=SAMPLES, piece=PIECE, collate=collate) as job,
        ):
            for step in job.steps(1):

                def loss_of(batch: Any, model: Any = model, inputs_of: Any = inputs_of) -> Any:
                    x = inputs_of(batch)
                    return OwnSum.apply(model(x), 1 / len(x)), len(x)

                step.compute(loss_of)


def test_a_function_that_fails_with_half_a_piece_trains_on() -> None:
    def strict(out: Any, y: Any) -> Any:
        if len(y) != PIECE:
            raise ValueError("pieces of 16")
        return OwnSum.apply(out, 1.0)

    step_by_function(strict)


def test_local_steps_want_sums_too() -> None:
    def inner_of(parameters: Any) -> Any:
        return torch.optim.SGD(parameters, lr=1e-3)

    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.7)
    with (
        pytest.raises(ArgumentError, match=WORDS),
        tt.join(model, optimizer, data=(X, LABELS), batch=SAMPLES, piece=PIECE) as job,
    ):
        inner = job.local_steps(2, inner_of)
        for step in job.steps(1):
            inner.compute(step, lambda b: (F.cross_entropy(model(b[0]), b[1]), len(b[1])))


def test_a_mean_over_tokens_is_told() -> None:
    out = torch.randn(40, CLASSES, requires_grad=True)
    labels = torch.where(torch.arange(40) < 25, torch.arange(40) % CLASSES, torch.tensor(-100))
    with pytest.raises(ArgumentError, match="its weight is 25"):
        Reduction().look(F.cross_entropy(out, labels), 25.0)
    Reduction().look(F.cross_entropy(out, labels, reduction="sum"), 25.0)
    with pytest.raises(ArgumentError):
        Reduction().look(F.cross_entropy(out, labels, reduction="sum") / (labels >= 0).sum(), 25.0)


def test_what_is_unclear_passes() -> None:
    for constant in (2.0, 4.0):  # halves of squares, in pieces of as many samples
        look, x = Reduction(), torch.randn(int(constant), 3, requires_grad=True)
        look.look(x.square().sum() / constant, constant)
        assert look.unclear
    look, x = Reduction(), torch.randn(9, 9, requires_grad=True)
    look.look(x.square().sum() / 9, 9.0)  # by samples or by features
    look.look(x.square().mean() * x.exp().sum(), 9.0)
    look.look(x.norm(), 9.0)
    assert look.unclear


@pytest.mark.skipif(not hasattr(torch, "compile"), reason="of PyTorch 2")
def test_a_compiled_loss_is_looked_at() -> None:
    def mean(out: Any, y: Any) -> Any:
        return F.cross_entropy(out, y)

    def total(out: Any, y: Any) -> Any:
        return F.cross_entropy(out, y, reduction="sum")

    with pytest.raises(ArgumentError, match=WORDS):
        step_by_function(torch.compile(mean, backend="aot_eager"))
    step_by_function(torch.compile(total, backend="aot_eager"))
