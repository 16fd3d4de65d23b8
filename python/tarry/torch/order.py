# SPDX-License-Identifier: Apache-2.0
"""Which samples a step of a training has, as `join` is told it."""

from typing import Any, Protocol

import torch

from ..dp import Terms
from ..hub import Client
from . import secure as secure_sums
from .clipping import check_version
from .data_kinds import check_columns
from .drawn import Drawn
from .permutation import Permutation
from .private import check_model, check_options
from .samplers import Called, Sampled
from .source import Source

Order = Permutation | Drawn | Sampled | Called


class _Claims(Protocol):
    worker: int
    client: Client
    permutation: Order


def order_of(
    source: Source,
    samples: int,
    model: torch.nn.Module,
    *,
    batch: int | None,
    piece: int,
    seed: int,
    dp: str,
    secure: bool,
    **others: Any,
) -> Order:
    """`others` are options of join that do not go with `dp` or `secure`. Raises ArgumentError, FormatError."""
    check_columns(source.data, source.batch if batch is None else batch)
    if secure:
        secure_sums.check_options(batch=batch is not None, drop_last=source.drop_last, dp=dp, **others)
        secure_sums.check_model(model)
        return Permutation(samples, samples, piece, seed=seed, shuffle=False, drop_last=False)
    if dp:
        check_version()
        shuffle = source.shuffle is False
        check_options(batch=batch is not None, shuffle=shuffle, drop_last=source.drop_last, **others)
        check_model(model)
        return Drawn(samples, piece, Terms.read(dp), seed=seed)
    return source.order(samples, batch, piece, seed=seed)


def hold_to_others(job: _Claims, step: int) -> None:
    """Indices that came from a sampler are the same at all workers. Raises Error if they are not."""
    claim = job.permutation.claim(step) if isinstance(job.permutation, Sampled | Called) else None
    if claim is not None:
        job.client.hold_order(job.worker, claim.place, claim.what, claim.digest)
