# SPDX-License-Identifier: Apache-2.0
"""What a worker steps, as one state: model, optimizer, scheduler, and whatever else has a state_dict."""

import contextlib
import hashlib
import threading
from collections.abc import Generator, Mapping
from typing import Any, Protocol

import torch

from ..errors import FormatError
from . import state
from .layout import Layout


class HasState(Protocol):
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any], /) -> Any: ...


def _without_functions(values: dict[str, Any]) -> dict[str, Any]:
    """Some schedulers have functions of their own in their state, which are the same on all workers; what loads a state
    keeps its own."""
    return {name: value for name, value in values.items() if not callable(value)}


class Members:
    """Saves and loads them together. Buffers that follow the data are kept apart: forward changes the model's."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        others: Mapping[str, HasState],
        layout: Layout,
    ) -> None:
        self.model, self.optimizer, self.others = model, optimizer, dict(others)
        self._parameters = [parameter for _, parameter in layout.parameters]
        self._saving = threading.Lock()
        self._before: dict[int, torch.Tensor] = {}  # where parameters are another state's, by their place in memory
        self._following = {name: buffer for name, buffer in layout.buffers}
        self._kept = {name: buffer.detach().clone() for name, buffer in layout.buffers}

    def restore_buffers(self) -> None:
        """The model's buffers are what all workers have."""
        for name, buffer in self._following.items():
            buffer.copy_(self._kept[name])

    def change_of_buffers(self) -> list[torch.Tensor]:
        """What forward made of them, less what they were; float32, in the order of the layout."""
        return [
            (buffer.to(torch.float64) - self._kept[name].to(torch.float64)).to("cpu", torch.float32).reshape(-1)
            for name, buffer in self._following.items()
        ]

    def change_buffers(self, change: torch.Tensor) -> None:
        """All workers' buffers change by as much; the numbers lie behind each other."""
        begin = 0
        for kept in self._kept.values():
            part = change[begin : begin + kept.numel()].view(kept.shape).to(kept.device, torch.float64)
            begin += kept.numel()
            moved = kept.to(torch.float64) + part
            kept.copy_(moved if kept.is_floating_point() else moved.round())
        self.restore_buffers()

    @contextlib.contextmanager
    def parameters_may_change(self) -> Generator[list[torch.Tensor]]:
        """Gives copies of the parameters that want a gradient, which they are again afterwards. A state that is saved
        meanwhile, by another thread, has these."""
        kept = [parameter.detach().clone() for parameter in self._parameters]
        with self._saving:
            self._before = {one.data_ptr(): copy for one, copy in zip(self._parameters, kept, strict=True)}
        try:
            yield kept
        finally:
            with torch.no_grad():
                for parameter, copy in zip(self._parameters, kept, strict=True):
                    parameter.copy_(copy)
            with self._saving:
                self._before = {}

    def digest(self) -> bytes:
        """Of all that a gradient may depend on: the model, and what follows its steps, but not the optimizer."""
        with self._saving:
            values: dict[str, Any] = {
                "model": self.model.state_dict(),
                "others": {name: _without_functions(one.state_dict()) for name, one in self.others.items()},
            }
            return hashlib.sha256(state.encode(values, {})).digest()

    def save(self, told: dict[str, str]) -> bytes:
        with self._saving:
            return self._save(told)

    def _save(self, told: dict[str, str]) -> bytes:
        model = {name: self._before.get(one.data_ptr(), one) for name, one in self.model.state_dict().items()}
        model.update((name, kept) for name, kept in self._kept.items() if name in model)
        values: dict[str, Any] = {
            "model": model,
            "optimizer": self.optimizer.state_dict(),
            "others": {name: _without_functions(one.state_dict()) for name, one in self.others.items()},
        }
        return state.encode(values, told)

    def load(self, text: bytes) -> dict[str, str]:
        """Gives back what was told at `save`. Raises FormatError."""
        values, told = state.decode(text)
        theirs = values.get("others", {})
        if set(theirs) != set(self.others):
            raise FormatError(
                f"the state is of a training with {', '.join(theirs) or 'nothing'} beside the optimizer, "
                f"and this one has {', '.join(self.others) or 'nothing'}"
            )
        try:
            self.model.load_state_dict(values["model"])
            self.optimizer.load_state_dict(values["optimizer"])
            for name, one in self.others.items():
                one.load_state_dict(values["others"][name])
        except (KeyError, RuntimeError, ValueError) as error:
            raise FormatError(f"the state is of another model: {error}") from None
        with torch.no_grad():
            for name, buffer in self._following.items():
                self._kept[name].copy_(buffer)
        return told
