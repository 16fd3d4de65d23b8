# SPDX-License-Identifier: Apache-2.0
"""What a worker steps, as one state: model, optimizer, scheduler, and whatever else has a state_dict."""

import collections
import contextlib
import copy
import hashlib
import threading
from collections.abc import Generator, Mapping
from typing import Any, Protocol, cast

import torch

from ..errors import FormatError, StateError
from . import state
from .bits import digest_of
from .layout import Layout
from .strides import restride
from .unnamed_buffers import UnnamedBuffers

_BUFFERS = "buffers"  # in a state: those that state_dict leaves out
_CHANGING = "changing"  # in a state: names of unnamed buffers that steps have changed


class HasState(Protocol):
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any], /) -> Any: ...


def _without_functions(values: dict[str, Any]) -> dict[str, Any]:
    """Some schedulers have functions of their own in their state, which are the same on all workers; what loads a state
    keeps its own."""
    functions = [name for name, value in values.items() if callable(value)]
    if functions:
        values = copy.copy(values)
        for name in functions:
            del values[name]
    return values


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
        self._holders = {name: _holder_of(model, name) for name in self._following}
        self.unnamed = UnnamedBuffers(model, self._following.values())

    def restore_buffers(self) -> None:
        """The model's buffers are what all workers have, in the tensors that it had: forward may have put others in
        their places."""
        for name, buffer in self._following.items():
            held, key = self._holders[name]
            if held.get(key) is not buffer:
                held[key] = buffer
            buffer.copy_(self._kept[name])

    def change_of_buffers(self) -> list[torch.Tensor]:
        """What forward made of them, less what they were; float32, in the order of the layout. Raises StateError."""
        return [
            (self._now(name).to(torch.float64) - kept.to(torch.float64)).to("cpu", torch.float32).reshape(-1)
            for name, kept in self._kept.items()
        ]

    def _now(self, name: str) -> torch.Tensor:
        held, key = self._holders[name]
        found = held.get(key)
        if found is None or found.shape != self._kept[name].shape:
            now = "is gone" if found is None else f"has the shape {tuple(found.shape)} now"
            raise StateError(
                f"the buffer {name} {now}, and was {tuple(self._kept[name].shape)}: its changes cannot be averaged. "
                "Leave it out of join(buffers=...); then each step takes it from one worker"
            )
        return found.detach()

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
        # With its attributes: PyTorch keeps the versions of modules in one.
        model: dict[str, Any] = self.model.state_dict()
        if self._before:
            model.update((name, self._parameter_before(one)) for name, one in list(model.items()))
        common, hidden = self.unnamed.common(), self.unnamed.hidden()
        model.update((name, kept) for name, kept in (common | self._kept).items() if name in model)
        for name in hidden & model.keys():
            del model[name]
        values: dict[str, Any] = {
            "model": model,
            "optimizer": self.optimizer.state_dict(),
            "others": {name: _without_functions(one.state_dict()) for name, one in self.others.items()},
        }
        if hidden:
            values[_BUFFERS] = {name: common[name] for name in sorted(hidden & common.keys())}
        if self.unnamed.changing:
            values[_CHANGING] = sorted(self.unnamed.changing)
        return state.encode(values, told)

    def _parameter_before(self, one: Any) -> Any:
        """What a saved parameter was before a piece's own steps."""
        return self._before.get(one.data_ptr(), one) if isinstance(one, torch.Tensor) else one

    def digest_of_steps(self) -> bytes:
        """A digest of what the next gradients depend on, which all workers have in common after a step: parameters and
        the buffers of state_dict, but not the optimizer, whose differences reach the parameters. Unnamed buffers that
        steps change are left out: a loop's body that runs forward on one worker alone changes them there. All workers
        leave out the same ones, also in a step that changes none, since states have their names."""
        common, others = self.unnamed.common(), self.unnamed.hidden() | self.unnamed.changing
        known = {name: one for name, one in common.items() if name not in others} | self._kept
        parameters: Any = self.model.named_parameters()
        return digest_of([*parameters, *sorted(known.items())])

    def load(self, text: bytes) -> dict[str, str]:
        """Gives back what was told at `save`. Raises FormatError."""
        values, told = state.decode(text)
        theirs = values.get("others", {})
        changing = values.get(_CHANGING, [])
        if not isinstance(changing, list) or not all(isinstance(name, str) for name in cast("list[Any]", changing)):
            raise FormatError("the state's names of buffers are malformed")
        if set(theirs) != set(self.others):
            raise FormatError(
                f"the state is of a training with {', '.join(theirs) or 'nothing'} beside the optimizer, "
                f"and this one has {', '.join(self.others) or 'nothing'}"
            )
        try:
            with self._saving:
                self._load_model(values["model"], values.get(_BUFFERS, {}))
                self.unnamed.changing = frozenset(cast("list[str]", changing))
                self.optimizer.load_state_dict(values["optimizer"])
                restride(self.optimizer)
                for name, one in self.others.items():
                    one.load_state_dict(values["others"][name])
        except (KeyError, RuntimeError, ValueError) as error:
            raise FormatError(f"the state is of another model: {error}") from None
        return told

    def _load_model(self, model: dict[str, torch.Tensor], hidden: dict[str, torch.Tensor]) -> None:
        """Unnamed buffers are set by themselves: forward may have made them, or changed their shapes."""
        with torch.no_grad():
            self.restore_buffers()
        own, names = self.model.state_dict(), self.unnamed.names()
        unnamed = {name: one for name, one in model.items() if name in names}
        rest = {name: own.get(name, one) if name in unnamed else one for name, one in model.items()}
        given = collections.OrderedDict((name, one) for name, one in rest.items() if name in own or name not in unnamed)
        # The versions of modules. States of older versions of Tarry do not have them.
        vars(given).update(vars(model) if isinstance(model, collections.OrderedDict) else vars(own))
        self.model.load_state_dict(given)
        self.unnamed.assign(unnamed | hidden, exact=True)
        with torch.no_grad():
            for name, buffer in self._following.items():
                self._kept[name].copy_(buffer)


def _holder_of(model: torch.nn.Module, name: str) -> tuple[dict[str, torch.Tensor | None], str]:
    """The dictionary of the module that has the buffer, and its key there."""
    prefix, _, key = name.rpartition(".")
    module: Any = model.get_submodule(prefix)
    return module._buffers, key
