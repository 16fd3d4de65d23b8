# SPDX-License-Identifier: Apache-2.0
"""Pieces of one sample, which batch norms cannot normalize unless the sample has several positions."""

import warnings
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.nn.modules.batchnorm import _BatchNorm  # pyright: ignore[reportPrivateUsage]

from .permutation import Permutation
from .samplers import Sampled

if TYPE_CHECKING:
    from .order import Order

_REFUSAL = "Expected more than 1 value per channel"  # what PyTorch says
_MOST_STEPS = 100_000  # of a sampler's first epoch that are looked at


def tell_of_lone_samples(model: torch.nn.Module, order: "Order") -> None:
    """Warns if a batch norm in training mode will get pieces of one sample."""
    norms: list[str] = [
        name for name, one in cast(Any, model).named_modules() if isinstance(one, _BatchNorm) and one.training
    ]
    advice = advice_of(order) if norms else ""
    if advice:
        warnings.warn(
            f"{advice} The batch norm {norms[0]!r} cannot train on one sample with one value per channel",
            stacklevel=3,
        )


def advice_of(order: "Order") -> str:
    """Which pieces have one sample, and what to do. "": none, as far as is known."""
    if isinstance(order, Permutation):
        last = order.samples - (order.steps_per_epoch - 1) * order.batch  # with drop_last as large as the others
        for size, where in ((order.batch, "each batch"), (last, "the last batch of each epoch")):
            if size <= order.batch and (size % order.piece == 1 or order.piece == 1):
                return _advice(order, where, size)
        return ""
    if isinstance(order, Sampled):
        for step in range(min(order.steps_per_epoch, _MOST_STEPS)):
            pieces = order.pieces(step)
            if any(len(one) == 1 for one in pieces):
                size = sum(len(one) for one in pieces)
                is_last = step == order.steps_per_epoch - 1 and step > 0
                return _advice(order, "the last batch of an epoch" if is_last else f"the batch of step {step}", size)
    return ""


def _advice(order: "Order", where: str, size: int) -> str:
    what = f"{where} has {size} sample{'s' if size > 1 else ''}, and a piece of it has only one"
    change = f"change piece={order.piece} so that it does not leave one sample of {size}"
    if size == 1:
        change = f"change batch={order.batch} so that it does not leave one sample"
    if "last" in where:
        return f"{what}. Give join drop_last=True to leave that batch out, or {change}."
    return f"{what}. For join, {change}; drop_last=True does not help here."


def explain(error: ValueError, samples: int, order: "Order", where: str) -> str:
    """Why a piece of one sample failed, for all workers. "": it failed for another reason."""
    if samples != 1 or _REFUSAL not in str(error):
        return ""
    advice = advice_of(order) or f"change piece={order.piece}, or give join drop_last=True."
    return f"{where} has one sample, and a batch norm needs more than one value per channel in training: {advice}"
