# SPDX-License-Identifier: Apache-2.0
"""What a training with differential privacy refuses, and what it does not tell."""

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, cast

import torch
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase  # pyright: ignore[reportPrivateUsage]

from ..errors import ArgumentError, StateError, refuse

_UNTOLD = (
    "with dp nothing is told of the training samples: no loss, no metrics, no weight and no times. job.evaluate tells "
    "of others, and job.epsilon what was spent"
)


class Untold(dict[str, float]):
    """The metrics of a step, but for those of which nothing is told, for the reason `why`."""

    def __init__(self, why: str = _UNTOLD, known: Mapping[str, float] | None = None) -> None:
        super().__init__(known or {})
        self._why = why

    def __missing__(self, name: str) -> NoReturn:
        raise StateError(f"{name!r}: {self._why}")


def check_model(model: torch.nn.Module) -> None:
    """Each example's gradient has to be its own. Raises ArgumentError."""
    check_norms(model, "dp", "its statistics mix examples. torch.nn.GroupNorm and LayerNorm are of one example")


def check_norms(model: torch.nn.Module, setting: str, why: str) -> None:
    """No norm has statistics that follow the data. Raises ArgumentError."""
    named: Iterable[tuple[str, torch.nn.Module]] = cast(Any, model).named_modules()
    for name, module in named:
        has_buffers = next(iter(module.buffers(recurse=False)), None) is not None
        if isinstance(module, _BatchNorm) or (isinstance(module, _NormBase) and has_buffers):
            raise ArgumentError(f"{setting} does not go with {name or 'the model'}, a {type(module).__name__}: {why}")


def check_options(**given: Any) -> None:
    """Options of `join` that are not the usual ones. Raises ArgumentError."""
    why = {
        "batch": "a step's samples are drawn, sample:Q of all on average",
        "shuffle": "a step's samples are drawn",
        "drop_last": "a step's samples are drawn",
        "metrics": _UNTOLD,
        "buffers": "their changes are not clipped, and have no noise",
        "scaler": "gradients are clipped at their own length",
    }
    refuse("dp", {f"{name}: {why[name]}": bool(is_given) for name, is_given in given.items()})
