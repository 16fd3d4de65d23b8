# SPDX-License-Identifier: Apache-2.0
"""A parameter that no sample of the batch used has no gradient, as in PyTorch alone, so that no optimizer moves it."""

import contextlib
import importlib
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

RECOMPUTED: Any = importlib.import_module("torch.utils.checkpoint")
STEPS, SAMPLES, PIECE = 5, 32, 8
HAS_FUNC = hasattr(torch, "func")


class GivesNothing(torch.autograd.Function):
    """Takes a parameter, and has no gradient for it."""

    @staticmethod
    def forward(_context: Any, x: Any, _unused: Any) -> Any:
        return x * 1

    @staticmethod
    def backward(_context: Any, gradient: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return gradient, None


class Model(torch.nn.Module):
    """Its branch b is used in ways that tests replace."""

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        torch.default_generator.manual_seed(3)
        self.a, self.b = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)

    def forward(self, x: Any, use_b: Callable[[Any, Any, Any], Any], step: int) -> Any:
        return use_b(self, self.a(x), (x, step))


def first_only(model: Any, found: Any, given: Any) -> Any:
    x, step = given
    return found + model.b(x) if step == 0 else found


def never(_model: Any, found: Any, _given: Any) -> Any:
    return found


def by_one_sample(model: Any, found: Any, given: Any) -> Any:
    """The sample 20 alone."""
    x, _ = given
    chosen = x[:, 0] == 20
    if not chosen.any():
        return found
    return found + torch.zeros_like(found).masked_scatter(chosen[:, None], model.b(x[chosen]))


def times_zero(model: Any, found: Any, given: Any) -> Any:
    return found + 0 * model.b(given[0])


def without_gradient(model: Any, found: Any, given: Any) -> Any:
    x, step = given
    found = GivesNothing.apply(found, model.b.weight)
    return first_only(model, found, (x, step))


def recomputed(model: Any, found: Any, given: Any) -> Any:
    x, step = given
    if step % 2:
        return found
    return found + RECOMPUTED.checkpoint(model.b, x.clone().requires_grad_(), use_reentrant=step == 0)


def tied(model: Any, found: Any, given: Any) -> Any:
    model.c = torch.nn.Linear(4, 1)
    model.c.weight, model.c.bias = model.b.weight, model.b.bias
    x, step = given
    return found + model.c(x) if step == 0 else found


USES = (first_only, never, by_one_sample, times_zero, without_gradient, recomputed, tied)
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.1, weight_decay=0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.1),
}


def samples() -> tuple[Any, Any]:
    x = torch.randn(SAMPLES, 4, generator=torch.Generator().manual_seed(1))
    y = x.sum(1, keepdim=True)
    x[:, 0] = torch.arange(SAMPLES)
    return x / torch.tensor([1.0, 4.0, 4.0, 4.0]), y


def alone(use_b: Any, make: Any, dtype: Any = torch.float32) -> Any:
    """PyTorch's own loop; the slow and obvious one."""
    model = Model().to(dtype)
    optimizer, (x, y) = make(model.parameters()), samples()
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        for piece in range(0, SAMPLES, PIECE):
            part = slice(piece, piece + PIECE)
            (loss_of(model(x[part].to(dtype), use_b, step), y[part]) / SAMPLES).backward()
        optimizer.step()
    return model


def loss_of(found: Any, y: Any) -> Any:
    return 1e-3 * ((found - y) ** 2).sum()


def assert_same(ours: Any, other: Any, step_of_b: int, most: float = 1e-6) -> None:
    """`step_of_b`: after so many steps nothing may have moved b any more, not by a bit."""
    for (name, own), its in zip(ours.named_parameters(), other.parameters(), strict=True):
        apart = float((own - its).abs().max())
        assert apart <= (0 if name.startswith("b") and step_of_b == 0 else most), (name, apart)


def by_tarry(
    use_b: Any, make: Any, *, dtype: Any = torch.float32, inside: Any = None, before: Any = None, **options: Any
) -> Any:
    """inside: called with optimizer and model at the beginning of each piece; before: before each piece."""
    model = Model().to(dtype)
    optimizer = make(model.parameters())
    with tt.join(model, optimizer, data=samples(), batch=SAMPLES, piece=PIECE, shuffle=False, **options) as job:
        for step in job.steps(STEPS):
            for piece in step:
                if before is not None:
                    before(optimizer)
                with piece:
                    x, y = piece.batch
                    if inside is not None:
                        inside(optimizer)
                    piece.backward(loss_of(model(x.to(dtype), use_b, step.number), y), weight=len(y))
            optimizer.step()
    return model


@pytest.mark.parametrize("use_b", USES)
@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_branch_is_used_as_in_pytorch_alone(use_b: Any, make: Any) -> None:
    for where in ("everywhere", "server"):
        assert_same(by_tarry(use_b, make, sum=where), alone(use_b, make), 0 if use_b is never else 1)


def test_a_gradient_of_zero_is_one() -> None:
    """AdamW decays a parameter whose gradient is 0, and leaves one that has none."""
    start, make = Model(), OPTIMIZERS["adamw"]
    assert not torch.equal(by_tarry(times_zero, make).b.weight, start.b.weight)
    assert torch.equal(by_tarry(never, make).b.weight, start.b.weight)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_gradients_that_are_copied(dtype: Any) -> None:
    make, most = OPTIMIZERS["momentum"], 1e-6 if dtype == torch.float64 else 0.05
    for use_b in (never, first_only):
        ours = by_tarry(use_b, make, dtype=dtype)
        assert_same(ours, alone(use_b, make, dtype), 0 if use_b is never else 1, most)


def test_zero_grad_changes_nothing_wherever_it_stands() -> None:
    make = OPTIMIZERS["adamw"]
    expected = by_tarry(first_only, make)
    for to_none in (True, False):
        for place in ("inside", "before"):

            def clear(optimizer: Any, to_none: bool = to_none) -> None:
                optimizer.zero_grad(set_to_none=to_none)

            found = by_tarry(first_only, make, **{place: clear})
            assert_same(found, expected, 0, 0.0)


def test_compression_gives_unused_parameters_no_gradient() -> None:
    """With 'sign' even a zero arrives as a number."""
    make, start = OPTIMIZERS["adamw"], Model()
    forms: tuple[dict[str, Any], ...] = (
        {"compress": "sign", "sum": "server"},
        {"compress": "topk", "compress_share": 0.4, "sum": "server"},
        {"compress": "int8"},
    )
    for form in forms:
        found = by_tarry(never, make, **form)
        assert torch.equal(found.b.weight, start.b.weight) and not torch.equal(found.a.weight, start.a.weight)


def test_several_backward_calls_in_a_piece() -> None:
    """One of them uses b, with a graph that is kept."""
    model, seen = Model(), list[bool]()
    optimizer = OPTIMIZERS["adamw"](model.parameters())
    with tt.join(model, optimizer, data=samples(), batch=SAMPLES, piece=PIECE, shuffle=False) as job:
        for step in job.steps(3):
            for piece in step:
                with piece:
                    x, y = piece.batch
                    loss = loss_of(model.a(x), y)
                    piece.backward(loss, weight=len(y), retain_graph=True)
                    piece.backward(loss, weight=0)
                    if step.number == 1 and piece.unit == 2:
                        piece.backward(loss_of(model.b(x), y), weight=0)
            seen.append(model.b.weight.grad is not None)
            optimizer.step()
    assert seen == [False, True, False]


def test_steps_by_a_function_and_local_steps() -> None:
    make, start = OPTIMIZERS["adamw"], Model()
    for local in (False, True):
        model = Model()
        optimizer = make(model.parameters())
        with tt.join(model, optimizer, data=samples(), batch=SAMPLES, piece=PIECE) as job:
            inner = job.local_steps(2, make) if local else None

            def function(batch: Any, model: Any = model) -> Any:
                return loss_of(model.a(batch[0]), batch[1]), len(batch[1])

            for step in job.steps(3):
                inner.compute(step, function) if inner is not None else step.compute(function)
                assert model.a.weight.grad is not None and model.b.weight.grad is None
                optimizer.step()
        assert torch.equal(model.b.weight, start.b.weight)


@pytest.mark.skipif(not hasattr(torch.amp, "GradScaler"), reason="of PyTorch 2")
def test_a_scaler_skips_what_has_no_gradient() -> None:
    model, start = Model(), Model()
    optimizer, scaler = OPTIMIZERS["adamw"](model.parameters()), torch.amp.GradScaler("cpu", init_scale=8.0)
    with tt.join(model, optimizer, data=samples(), batch=SAMPLES, piece=PIECE, scaler=scaler) as job:
        for step in job.steps(3):
            step.compute(lambda batch: (loss_of(model.a(batch[0]), batch[1]), len(batch[1])))
            scaler.step(optimizer)
            scaler.update()
    assert torch.equal(model.b.weight, start.b.weight) and not torch.equal(model.a.weight, start.a.weight)


@pytest.mark.skipif(not HAS_FUNC, reason="torch.func is of PyTorch 2")
def test_differential_privacy_tells_nobody_who_used_what() -> None:
    """Each parameter has a gradient with noise, and no count is summed."""
    model = Model()
    optimizer = OPTIMIZERS["adamw"](model.parameters())
    with tt.join(model, optimizer, data=samples(), piece=PIECE, sum="server", dp="clip:1,noise:1,sample:0.5") as job:
        assert job.layout.dimension == sum(one.numel() for one in model.parameters())
        for step in job.steps(1):
            step.compute(lambda batch: loss_of(model.a(batch[0]), batch[1]))
            assert model.b.weight.grad is not None
            optimizer.step()


# ---- several workers ----


def assert_ends(lines: list[str], workers: int, most: float) -> None:
    apart = [line.split()[2:] for line in lines if line.startswith("apart ")]
    assert len(apart) == 4 * workers, lines
    assert max(float(x) for _, x in apart) < most, apart
    assert {float(x) for name, x in apart if name == "never"} == {0.0}
    ends = [line.split()[2:] for line in lines if line.startswith("end ")]
    assert len({digest for _, _, digest in ends}) == 1 and {steps for steps, _, _ in ends} == {"9"}


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (("--parts", 2), 1e-4),
        (("--busy", "--sum", "everywhere"), 1e-4),
        (("--sum", "server", "--parts", 2), 1e-4),
        (("--engine", "gloo", "--compress", "int8"), 2.0),
    ],
    ids=["parts", "busy", "parts at the server", "gloo in int8"],
)
def test_workers_agree_on_what_was_used(words: tuple[object, ...], most: float) -> None:
    workers = 3 if "--busy" in words else 2  # two of three go on without the third
    assert_ends(runs.succeed("unused", *words, workers=workers), workers, most)


@credentials_of.needs_openssl
def test_secure_sums_tell_what_was_used(keys: pathlib.Path) -> None:
    options = ("--listen", "127.0.0.1:0", "--credentials", keys)
    workers = credentials_of.SECURE_WORKERS
    lines = runs.succeed("unused", "--secure", "--sum", "server", workers=workers, options=options)
    assert_ends(lines, workers, 1e-3)


def test_what_ends_in_the_middle_leaves_no_gradient_of_a_task() -> None:
    """A task's memory is freed when the training ends."""
    model = Model()
    optimizer = OPTIMIZERS["adamw"](model.parameters())
    with (
        contextlib.suppress(ZeroDivisionError),
        tt.join(model, optimizer, data=samples(), batch=SAMPLES, piece=PIECE) as job,
    ):
        for step in job.steps(1):
            for piece in step:
                with piece:
                    x, y = piece.batch
                    piece.backward(loss_of(model(x, first_only, 0), y), weight=len(y))
                    raise ZeroDivisionError
    assert all(one.grad is None or one.grad.isfinite().all() for one in model.parameters())
