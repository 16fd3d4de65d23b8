# SPDX-License-Identifier: Apache-2.0
"""A model's loss and metrics over data that it does not learn from, which the workers share out."""

import contextlib
import math
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import torch

from .loader import Loader
from .seeding import kept_random, seed_all

if TYPE_CHECKING:
    from .job import Job
    from .step import LossOf

_UNITS = 1 << 32  # random numbers of an evaluation are not those of a step's pieces


@contextlib.contextmanager
def _evaluating(model: torch.nn.Module) -> Generator[None]:
    """Each module is as it was afterwards."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad(), kept_random():
            yield
    finally:
        for module in training:
            module.training = True


def evaluate(job: "Job", key: tuple[int, ...], loader: Loader, size: int, loss_of: "LossOf") -> dict[str, float]:
    """Pieces of `size` samples, one after the other, as long as there are any; then the means over all."""
    samples = loader.samples
    pieces = -(-samples // size)
    told: tuple[int, dict[str, float]] | None = None
    with _evaluating(job.model):
        while True:
            piece, sums = job.client.evaluate(key, samples, pieces, told)
            if piece is None:
                return means(sums)
            seed_all(job.permutation.seed, key[0], _UNITS + piece)
            told = piece, _sums_of(job, loader, range(piece * size, min((piece + 1) * size, samples)), loss_of)


def _sums_of(job: "Job", loader: Loader, samples: range, loss_of: "LossOf") -> dict[str, float]:
    loss, weight, *more = loss_of(job.moved(loader.load(list(samples))))
    found = {name: float(value) for metrics in more for name, value in metrics.items()}
    return found | {"loss": float(loss), "weight": float(weight)}


def means(sums: dict[str, float]) -> dict[str, float]:
    """Each sum over the weight; NaN where nothing is known."""
    weight = sums.get("weight", math.nan)
    found = {name: value / weight if weight else math.nan for name, value in ({"loss": math.nan} | sums).items()}
    return found | {"weight": weight}


def look_up(job: "Job", key: tuple[int, ...]) -> dict[str, Any]:
    """What others found, for a worker whose model is not theirs."""
    return means(job.client.look_up(key))
