# SPDX-License-Identifier: Apache-2.0
"""NaN and infinity in gradients, and batches whose weights sum up to zero: all workers act alike."""

import copy
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import keys as credentials_of
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "training"))
import runs

torch: Any = pytest.importorskip("torch")

import tarry.torch as tt  # noqa: E402
from tarry import ArgumentError, Error  # noqa: E402

SCRIPT = str(pathlib.Path(__file__).parent / "scripts" / "nonfinite")
SAMPLES, BATCH, PIECE = 32, 16, 4
BAD = 21  # a sample of the second batch: piece 1, which has samples 20 to 23
X = torch.randn(SAMPLES, 3, generator=torch.Generator().manual_seed(1))
Y = X.sum(1, keepdim=True)
Tamper = Callable[[Any, Any], Any]


class Network(torch.nn.Module):
    """With a buffer that is averaged, one that each step takes from a piece, and a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        torch.default_generator.manual_seed(2)
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 1))
        self.register_buffer("last", torch.zeros(1))

    def forward(self, x: Any) -> Any:
        self.last: Any = x.detach().sum().reshape(1)
        return self.layers(x)


def state_of(model: Any, *optimizers: Any) -> str:
    return str([copy.deepcopy(one.state_dict()) for one in (model, *optimizers)])


def train(
    tamper: Tamper = lambda loss, _: loss,
    *,
    steps: int = 4,
    weight: Callable[[Any], float] = len,
    inputs: Any = X,
    local: int = 0,
    **options: Any,
) -> tuple[list[bool], list[bool], list[dict[str, float]], Any]:
    """For each step whether it was skipped, and whether it changed model or optimizers; metrics; the model."""
    model = Network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.1)
    other = torch.optim.SGD(model.layers[0].parameters(), lr=0.05, momentum=0.9, weight_decay=0.1)
    skipped: list[bool] = []
    changed: list[bool] = []
    metrics: list[dict[str, float]] = []
    with tt.join(model, optimizer, other, data=(inputs, Y), batch=BATCH, piece=PIECE, shuffle=False, **options) as job:
        inner = job.local_steps(local, lambda some: torch.optim.SGD(some, lr=0.01)) if local else None

        def loss_of(batch: Any) -> tuple[Any, float]:
            return tamper(((model(batch[0]) - batch[1]) ** 2).sum(), batch[0]), weight(batch[0])

        for step in job.steps(steps):
            before = state_of(model, optimizer, other)
            (inner.compute(step, loss_of) if inner is not None else step.compute(loss_of))
            assert all(one.grad is not None for one in model.parameters())
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            other.step()
            assert all(one.grad is not None for one in model.parameters())
            skipped.append(step.skipped)
            changed.append(state_of(model, optimizer, other) != before)
            metrics.append(step.metrics)
    return skipped, changed, metrics, model


def spoiled(value: float = float("nan")) -> Any:
    found = X.clone()
    found[BAD] = value
    return found


FORMS: dict[str, dict[str, Any]] = {
    "everywhere": {},
    "server": {"sum": "server"},
    "gloo": {"engine": "gloo"},
    "int8": {"compress": "int8"},
    "topk": {"sum": "server", "compress": "topk", "compress_share": 0.1},
    "local steps": {"local": 2},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_step_with_nan_is_skipped_as_a_whole(form: str) -> None:
    skipped, changed, metrics, model = train(inputs=spoiled(), nonfinite="skip", **FORMS[form])
    assert skipped == [False, True, False, True]
    assert changed == [True, False, True, False]
    assert [one["weight"] for one in metrics] == [16, 12, 16, 12]
    assert all(torch.tensor(one["loss"]).isfinite() for one in metrics)
    assert all(bool(one.isfinite().all()) for one in model.state_dict().values())


@pytest.mark.parametrize("form", FORMS)
def test_nan_ends_the_training_and_is_named(form: str) -> None:
    where = r"step 1, piece 1 of worker 0: the gradient of layers\.0\.weight has 15 NaN of 15 numbers"
    with pytest.raises(Error, match=rf"{where}; its samples are 20, 21, 22, 23\. The optimizer did not step"):
        train(inputs=spoiled(), **FORMS[form])


def test_infinity_is_named() -> None:
    with pytest.raises(Error, match=r"piece 1 of worker 0: .* has 15 (NaN|infinite)"):
        train(lambda loss, x: loss * float("inf") if (x == X[BAD]).any() else loss)


def test_a_sum_beyond_float32_of_finite_pieces_is_told() -> None:
    def large(loss: Any, _: Any) -> Any:
        return loss * (2e38 / torch.autograd.grad(loss, [bias], retain_graph=True)[0].abs().max().detach())

    model = torch.nn.Linear(3, 1)
    bias = model.bias
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for policy, why in (("raise", "each piece's gradient is finite, but their sum is not"), ("skip", "")):
        with tt.join(
            model, optimizer, data=(X, Y + 9), batch=BATCH, piece=PIECE, nonfinite=policy
        ) as job:  # fmt: skip

            def one_step(job: tt.Job = job) -> None:
                for step in job.steps(1):
                    step.compute(lambda b: (large(((model(b[0]) - b[1]) ** 2).sum(), b), len(b[0])))
                    assert step.skipped
                    optimizer.step()

            if why:
                with pytest.raises(Error, match=why):
                    one_step()
            else:
                one_step()


def test_nan_may_be_allowed() -> None:
    skipped, _, metrics, model = train(inputs=spoiled(), nonfinite="allow", steps=2)
    assert skipped == [False, False] and metrics[1]["weight"] == 16
    assert not model.layers[0].weight.isfinite().all()


def test_a_scaler_allows_infinities_and_skips_itself() -> None:
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    class Scaler:
        def scale(self, loss: Any) -> Any:
            return loss

        def state_dict(self) -> dict[str, Any]:
            return {}

        def load_state_dict(self, _: dict[str, Any]) -> None: ...

    data = (spoiled(float("inf")), Y)
    with tt.join(model, optimizer, data=data, batch=BATCH, piece=PIECE, shuffle=False, scaler=Scaler()) as job:
        for step in job.steps(2):
            step.compute(lambda b: (((model(b[0]) - b[1]) ** 2).sum(), len(b[0])))
    assert not model.weight.grad.isfinite().all()


@pytest.mark.parametrize("form", FORMS)
def test_a_batch_without_weight_is_skipped(form: str) -> None:
    """The second of two batches has nothing that counts: its samples are among the last 16."""
    last = {tuple(one.tolist()) for one in X[BATCH:]}

    def weight(x: Any) -> float:
        return 0 if tuple(x[0].tolist()) in last else len(x)

    def masked(loss: Any, x: Any) -> Any:
        return loss * 0 if tuple(x[0].tolist()) in last else loss

    skipped, changed, metrics, _ = train(masked, weight=weight, **FORMS[form])
    assert skipped == [False, True, False, True]
    assert changed == [True, False, True, False]
    assert [one["weight"] for one in metrics] == [16, 0, 16, 0]
    assert metrics[1]["loss"] != metrics[1]["loss"]  # there is none


def test_a_mean_over_nothing_is_told() -> None:
    empty = torch.zeros(0)
    with pytest.raises(Error, match=r"its weight is 0 \(a mean over nothing is NaN\)"):
        train(lambda loss, _: loss * empty.mean(), weight=lambda _: 0)


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("local", [0, 2])
def test_a_weight_that_counts_nothing_is_told(weight: float, local: int) -> None:
    with pytest.raises(ArgumentError, match=f"weight must be 0 or more, and finite.*{weight}"):
        train(weight=lambda _: weight, local=local)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"nonfinite": "ignore", "batch": BATCH}, "nonfinite is 'ignore'; it can be 'raise', 'skip', 'allow'"),
        ({"nonfinite": "raise", "dp": "clip:1,noise:1,sample:0.5"}, "dp does not go with nonfinite"),
    ],
)
def test_policies_that_can_not_be_are_told(options: dict[str, Any], why: str) -> None:
    model = torch.nn.Linear(3, 1)
    with pytest.raises(ArgumentError, match=why):
        tt.join(model, torch.optim.SGD(model.parameters(), lr=1.0), data=X, piece=PIECE, **options)


# ---- several workers ----


@pytest.mark.parametrize("where", ["everywhere", "server"])
def test_all_workers_skip_and_all_end_alike(where: str) -> None:
    lines = runs.succeed(SCRIPT, "skip", where, workers=3)
    ends = [line.split() for line in lines if line.startswith("end ")]
    assert len(ends) == 3 and len({one[2] for one in ends}) == 1, lines
    skipped = {line.split()[2] for line in lines if line.startswith("skipped ")}
    assert skipped == {"1", "3"}
    ended = runs.run(SCRIPT, "raise", where, workers=3)
    assert ended.returncode == 1
    last = ended.stderr.strip().splitlines()[-1]
    assert "First failure: worker " in last and "Error: step 1, piece 5 of worker" in last
    assert "its samples are 52, 53, 54, 55" in last
    for worker in range(3):
        (line,) = (one for one in ended.stderr.splitlines() if one.startswith(f"[{worker}] tarry.errors.Error"))
        assert line.partition("Error: ")[2] == last.partition("Error: ")[2]


@credentials_of.needs_openssl
def test_secure_sums_tell_that_a_piece_is_not_finite_but_not_which(keys: pathlib.Path) -> None:
    workers, options = credentials_of.SECURE_WORKERS, ("--listen", "127.0.0.1:0", "--credentials", keys)
    lines = runs.succeed("secret", 3, "--nonfinite", "skip", workers=workers, options=options)
    assert {line.split()[2] for line in lines if line.startswith("skipped ")} == {"1"}
    ended = runs.run("secret", 3, "--nonfinite", "raise", workers=workers, options=options)
    assert ended.returncode == 1
    assert "step 1: the gradient of a piece is not finite. With secure only the worker" in ended.stderr
    names = [line for line in ended.stderr.splitlines() if "its samples are" in line]
    assert names and all("step 1, piece 4 of worker" in line and not line.startswith("tarry") for line in names)
