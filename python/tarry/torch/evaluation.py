# SPDX-License-Identifier: Apache-2.0
"""A model's loss and metrics over data that it does not learn from, which the workers share out."""

import collections
import contextlib
import math
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader

from ..errors import ArgumentError
from ..hub.evaluation import Key
from . import failed
from .data_kinds import check_columns
from .loader import Loader
from .question import question_of
from .samplers import Indices
from .seeding import kept_random, seed_all
from .source import source_of

if TYPE_CHECKING:
    from .job import Job
    from .step import LossOf, Step

_UNITS = 1 << 32  # random numbers of an evaluation are not those of a step's pieces


@contextlib.contextmanager
def evaluating(model: torch.nn.Module) -> Generator[None]:
    """Each module is as it was afterwards."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad(), kept_random():
            yield
    finally:
        for module in training:
            module.training = True


def evaluate(
    job: "Job",
    step: "Step | None",
    asked: "collections.Counter[str]",
    data: Any,
    loss_of: "LossOf",
    *,
    piece: int | None,
    collate: Callable[[list[Any]], Any] | None,
    name: str,
) -> dict[str, float]:
    """Pieces, one after the other, as long as there are any; then the means over all. `asked` counts the questions of
    this step."""
    source = source_of(data, collate=collate)
    if (job.clipping is not None or job.secret is not None) and job.loader.shares(source.data):
        setting = "secure" if job.secret is not None else "dp"
        raise ArgumentError(f"with {setting} nothing is told of the training samples: evaluate others")
    own = source.collate is None and not isinstance(data, DataLoader)
    loader = Loader(source.data, job.loader.collate if own else source.collate)
    size = job.permutation.piece if piece is None else piece
    check_columns(source.data, size)
    if size < 1 or loader.samples < 1:
        raise ArgumentError(f"pieces of {size} of {loader.samples} samples")
    places = source.places(loader.samples, seed=job.permutation.seed)
    if len(places) == 0:
        raise ArgumentError("the sampler gave no indices")
    question = f"name {name}" if name else question_of(loader, places, size, loss_of, job.permutation.seed)
    key = (job.done, int(step is not None), question, asked[question])
    asked[question] += 1
    if step is not None and step.lost:
        return look_up(job, key)
    return _share(job, key, loader, places, size, loss_of)


def _share(job: "Job", key: Key, loader: Loader, places: Indices, size: int, loss_of: "LossOf") -> dict[str, float]:
    pieces = -(-len(places) // size)
    told: tuple[int, dict[str, float]] | None = None
    with evaluating(job.model):
        while True:
            piece, sums = job.client.evaluate(key, len(places), pieces, told)
            if piece is None:
                return means(sums)
            seed_all(job.permutation.seed, key[0], _UNITS + piece)
            samples = places[piece * size : (piece + 1) * size]
            try:
                told = piece, _sums_of(job, loader, samples, loss_of)
            except Exception as error:
                failed.tell(job, f"piece {piece}", f"an evaluation after {key[0]} steps", samples.tolist(), error)
                raise


def _sums_of(job: "Job", loader: Loader, samples: Indices, loss_of: "LossOf") -> dict[str, float]:
    loss, weight, *more = loss_of(job.moved(loader.load(samples.tolist())))
    found = {name: float(value) for metrics in more for name, value in metrics.items()}
    return found | {"loss": float(loss), "weight": float(weight)}


def means(sums: dict[str, float]) -> dict[str, float]:
    """Each sum over the weight; NaN where nothing is known."""
    weight = sums.get("weight", math.nan)
    found = {name: value / weight if weight else math.nan for name, value in ({"loss": math.nan} | sums).items()}
    return found | {"weight": weight}


def look_up(job: "Job", key: Key) -> dict[str, Any]:
    """What others found, for a worker whose model is not theirs."""
    return means(job.client.look_up(key))
