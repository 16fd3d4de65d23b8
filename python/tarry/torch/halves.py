# SPDX-License-Identifier: Apache-2.0
"""Whether a function of a batch gives a sum: compares its loss of a piece with those of the piece's halves."""

import contextlib
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from .evaluation import evaluating
from .reduction import mean_error
from .seeding import kept_random, seed_all, seed_data

if TYPE_CHECKING:
    from .job import Job
    from .step import LossOf

_CLEAR = 1e-3  # relative difference up to which numbers are the same but for rounding


class _CannotSplit(Exception):
    pass


def check_sum(job: "Job", loss_of: "LossOf", step: int, unit: int) -> None:
    """After a piece's backward. The model, its buffers and random numbers are as before; a function that fails here has
    nothing found out about it. Raises ArgumentError for a mean."""
    samples = job.permutation.samples_of(step, unit)
    eagerly = _eagerly()
    if len(samples) < 2 or eagerly is None:
        return
    middle = len(samples) // 2

    def of(batch: Any) -> tuple[float, float]:
        seed_all(job.permutation.seed_of(unit), step, unit)
        loss, weight, *_ = loss_of(batch)
        return float(loss), float(weight)

    try:
        with kept_random(), _kept_buffers(job.model), evaluating(job.model), eagerly:
            whole = of(job.load_batch(step, unit))
            halves = [of(half) for half in _halves(job, step, unit, samples, middle)]
    except Exception:  # whatever the function does not like about half a piece, or about a model in its eval mode
        return
    found = _judge(whole, halves[0], halves[1], middle / len(samples))
    if found == "mean":
        raise mean_error("half a piece has as large a loss as the piece", whole[1])
    if found == "sum":
        job.reduction.settle()


def _judge(whole: tuple[float, float], one: tuple[float, float], other: tuple[float, float], share: float) -> str:
    """Of losses and weights: 'sum', 'mean' or, if it is not clear, ''."""
    (loss, weight), (first, its), (second, theirs) = whole, one, other
    if not weight > 1 or not its > 0 or not theirs > 0 or abs(its + theirs - weight) > 1e-6 * weight:
        return ""
    if not bool(np.isfinite([loss, first, second]).all()) or loss == 0:
        return ""
    from_sum = abs(first + second - loss)
    means = (its * first + theirs * second) / weight, share * first + (1 - share) * second
    from_mean = min(abs(one - loss) for one in means)
    size = abs(loss)
    if from_sum <= _CLEAR * size < from_mean:
        return "sum"
    # A loss that does not depend on the batch has equal halves, and they show nothing.
    apart = abs(first - second)
    if from_mean <= _CLEAR * size and from_sum > 0.25 * size and apart > max(0.1 * _CLEAR * size, 20 * from_mean):
        return "mean"
    return ""


def _eagerly() -> contextlib.AbstractContextManager[Any] | None:
    """In which nothing is compiled for batches of half the size. None: this PyTorch does not have it."""
    if "torch._dynamo" not in sys.modules:
        return contextlib.nullcontext()
    compiler: Any = getattr(torch, "compiler", None)
    return compiler.set_stance("force_eager") if hasattr(compiler, "set_stance") else None


@contextlib.contextmanager
def _kept_buffers(model: torch.nn.Module) -> Generator[None]:
    kept = [(one, one.detach().clone()) for one in model.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for one, copy in kept:
                one.copy_(copy)


def _halves(job: "Job", step: int, unit: int, samples: list[int], middle: int) -> list[Any]:
    parts = slice(0, middle), slice(middle, len(samples))
    batch = job.load_batch(step, unit)
    try:
        return [_part(batch, len(samples), part) for part in parts]
    except _CannotSplit:
        with kept_random():
            seed_data(job.permutation.seed_of(unit), step, unit)
            return [job.moved(job.loader.load(samples[part])) for part in parts]


def _part(batch: Any, samples: int, part: slice) -> Any:
    """Of a batch in tensors and arrays, whose first dimension is of samples, in tuples, lists and dicts, or of a list
    of samples. Raises _CannotSplit."""
    if isinstance(batch, torch.Tensor | np.ndarray):
        known = cast("torch.Tensor", batch)
        if known.ndim == 0 or known.shape[0] != samples:
            raise _CannotSplit
        return known[part]
    if isinstance(batch, Mapping):
        named = cast("Mapping[Any, Any]", batch)
        found = {name: _part(one, samples, part) for name, one in named.items()}
        make: Callable[[Any], Any] = cast(Any, type(named))
        return found if type(named) is dict else make(found)
    if isinstance(batch, list | tuple):
        return _part_of_sequence(cast("Sequence[Any]", batch), samples, part)
    if batch is None or isinstance(batch, bool | int | float):
        return batch
    raise _CannotSplit


def _part_of_sequence(batch: Sequence[Any], samples: int, part: slice) -> Any:
    make: Any = type(batch)
    try:
        found = [_part(one, samples, part) for one in batch]
    except _CannotSplit:
        if len(batch) != samples:
            raise
        return batch[part]
    return make(*found) if hasattr(batch, "_fields") else make(found)
