# SPDX-License-Identifier: Apache-2.0
"""Buffers that neither a batch norm nor `join(buffers=...)` names: what they were before a piece, and who changed them.

A piece may change them: the iterates of a spectral norm, a running scale, a counter. Each piece begins with the values
that all workers have in common, and its changes are undone afterwards. A step keeps the changes of one of its pieces
(torch/buffer_source.py). Changes by the loop's body, between steps, stay.
"""

import builtins
import contextlib
import dataclasses
from collections.abc import Generator, Iterable, Mapping
from typing import Any, cast

import torch

from ..vectors import Bytes
from .bits import raw, same_bits

_FEW = 4096
_Buffers = dict[str, "torch.Tensor | None"]


@dataclasses.dataclass(eq=False)
class _Slot:
    """One buffer.

    held     the module's own dictionary of buffers, and `key` the name in it
    live     the tensor that the module had when it was looked at last, with its version then
    common   a copy of its value, which all workers have
    bytes    the same if they are few, so that comparing them costs next to nothing
    view     of the bytes of `live`, at `place`; None: they are too many
    fresh    forward has registered it here, and no other worker's value has come yet
    """

    held: _Buffers
    key: str
    hidden: bool  # state_dict leaves it out, or does so in a model that has computed nothing yet
    live: torch.Tensor | None = None
    version: int = 0
    common: torch.Tensor | None = None
    bytes: builtins.bytes = b""
    view: Bytes | None = None
    place: int = 0
    fresh: bool = False

    @property
    def now(self) -> torch.Tensor | None:
        return self.held.get(self.key)

    def adopt(self, value: torch.Tensor | None) -> None:
        """The module's tensor from now on, and its value is common."""
        self._hold(value)
        common = self.common
        if value is not None and common is not None and _are_alike(common, value):
            common.copy_(value)
        else:
            self.common = None if value is None else value.detach().clone()
        self._note()

    def _note(self) -> None:
        live, self.view = self.live, None
        if live is None or live.device.type != "cpu" or not live.is_contiguous() or live.is_inference():
            return
        if 0 < live.numel() * live.element_size() <= _FEW:
            self.place, self.view = live.data_ptr(), raw(live).numpy()
            self.bytes = self.view.tobytes()

    def may_be_other(self) -> bool:
        """True if the module has another tensor, or its tensor was written to: PyTorch counts that, but not writes
        by .data or NumPy, which are seen in a small tensor alone."""
        now = self.held.get(self.key)
        if now is not self.live:
            return True
        if now is None:
            return False
        if self.version < 0 or now._version != self.version:  # pyright: ignore[reportPrivateUsage]
            return True
        if self.view is None:
            return False
        return now.data_ptr() != self.place or self.view.tobytes() != self.bytes

    def put(self, value: torch.Tensor | None) -> None:
        """Gives the module this value, in the tensor that it had if possible: others may refer to that one."""
        live = self.live
        if value is not None and live is not None and _are_alike(live, value) and not live.is_inference():
            live.copy_(value)
            self._hold(live)
        else:
            self._hold(None if value is None else value.detach().clone())
        if value is self.common:
            self._note()
        else:
            self.adopt(self.live)

    def _hold(self, value: torch.Tensor | None) -> None:
        if value is not None and value.requires_grad:
            value = value.detach()
        if self.key in self.held or value is not None:
            self.held[self.key] = value
        self.live = value
        self.version = 0 if value is None else _version(value)


def _version(tensor: torch.Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version  # pyright: ignore[reportPrivateUsage]


def _are_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and one.device == other.device


def _is_plain(tensor: torch.Tensor | None) -> bool:
    """Sparse, quantized and other special tensors are left to the model."""
    if tensor is None:
        return True
    usual = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    return usual and tensor.layout == torch.strided and not tensor.is_quantized and not tensor.is_meta


def _is_longer(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    """True if one has more of the same than the other: a cache (of positions, masks) that has grown. How long a cache
    is, its module may remember elsewhere, so it is left to each worker."""
    if one is None or other is None or one.dtype != other.dtype or one.dim() != other.dim() or one.shape == other.shape:
        return False
    both = tuple(slice(0, min(sizes)) for sizes in zip(one.shape, other.shape, strict=True))
    return all(part.stop > 0 for part in both) and same_bits(one[both], other[both])


class UnnamedBuffers:
    """For the training's thread, but `common` and `hidden` for any."""

    def __init__(self, model: torch.nn.Module, named: Iterable[torch.Tensor]) -> None:
        """named: buffers that are merged by average, and left alone here."""
        self._model = model
        self._named = {id(one) for one in named}
        self._others: set[tuple[int, str]] = set()  # places of the named ones
        self._slots: dict[str, _Slot] = {}
        self._aliases: dict[str, str] = {}  # other names of the same, if a module is in several places
        self._quiet: set[str] = set()  # those that were changed without PyTorch counting it, as through .data
        self.changing: frozenset[str] = frozenset()  # names of those that steps have changed so far
        self._counted = 0
        self._dicts: list[_Buffers] | None = None
        self._find()

    # ---- between pieces ----

    @torch.no_grad()
    def changed(self, *, whole: bool) -> dict[str, torch.Tensor]:
        """What a piece has made of those that it changed.

        whole  compares all numbers: PyTorch doesn't count what is written through .data or by NumPy. A buffer that was
               found so once is compared each time
        """
        self._find()
        found = {
            name: slot for name, slot in self._slots.items() if self._is_other(name, slot, whole=whole) or slot.fresh
        }
        return {name: slot.now for name, slot in found.items() if slot.now is not None}

    @torch.no_grad()
    def restore(self, *, whole: bool = False) -> list[str]:
        """Undoes what a piece changed. Returns the names."""
        self._find()
        found = [name for name, slot in self._slots.items() if self._is_other(name, slot, whole=whole)]
        for name in found:
            self._slots[name].put(self._slots[name].common)
        return found

    @torch.no_grad()
    def settle(self, *, whole: bool = False) -> None:
        """Changes by the loop's body are common: all workers' bodies do the same."""
        self._find()
        for name, slot in self._slots.items():
            if self._is_other(name, slot, whole=whole):
                slot.adopt(slot.now)

    @contextlib.contextmanager
    def undone(self) -> Generator[None]:
        """What is changed meanwhile is undone, as by an evaluation."""
        self.settle()
        try:
            yield
        finally:
            self.restore()

    @torch.no_grad()
    def assign(self, values: Mapping[str, torch.Tensor], *, exact: bool = False) -> None:
        """Common values that came from another worker; the rest stays.

        exact  sets caches, too, that are longer or shorter here
        """
        self._find()
        for name, value in values.items():
            slot = self._slots.get(self._aliases.get(name, name)) or self._made(name)
            if slot is None:
                continue  # the model has no such module
            old = slot.live
            if exact or not (_is_longer(old, value) or _is_longer(value, old)):
                slot.put(value.to(old.device if old is not None else self._device()))
            slot.fresh = False

    def take(self, values: Mapping[str, torch.Tensor]) -> None:
        """A step is over, and these are its changes."""
        self.changing |= values.keys()
        self.assign(values)

    # ---- states ----

    def common(self) -> dict[str, torch.Tensor]:
        """Values by name, of those that the model has a value for."""
        found = {name: slot.common for name, slot in list(self._slots.items())}
        found |= {alias: found[name] for alias, name in list(self._aliases.items())}
        return {name: value for name, value in found.items() if value is not None}

    def names(self) -> set[str]:
        """Of all, those without a value included."""
        return set(self._slots) | set(self._aliases)

    def hidden(self) -> set[str]:
        """Names of those that `state_dict` leaves out, at least in a model that has computed nothing yet."""
        found = {name for name, slot in list(self._slots.items()) if slot.hidden}
        return found | {alias for alias, name in list(self._aliases.items()) if name in found}

    # ---- looking ----

    def _is_other(self, name: str, slot: _Slot, *, whole: bool) -> bool:
        """True if the value is not the common one. A tensor that has taken the other's place with the same value, or as
        a cache that has grown, is taken over."""
        moved = slot.may_be_other()
        seen = moved or name in self._quiet or (whole and slot.view is None)
        if not seen or not _is_plain(slot.now):
            return False
        now = slot.now
        if now is None or slot.common is None:
            return now is not slot.common
        longer = _is_longer(now, slot.common) or _is_longer(slot.common, now)
        if not (longer or same_bits(now, slot.common)):
            if not moved:
                self._quiet.add(name)
            return True
        if moved:
            slot.adopt(now)
        return False

    def _find(self) -> None:
        """Those that the model has got since the last look, which are common from now on."""
        if self._dicts is not None and sum(map(len, self._dicts)) == self._counted:
            return
        first = self._dicts is None
        places = {(id(slot.held), slot.key): name for name, slot in self._slots.items()}
        modules = _modules_of(self._model)
        for prefix, module in modules:
            held = _buffers_of(module)
            for key, value in held.items():
                name = f"{prefix}.{key}" if prefix else key
                known = places.get((id(held), key))
                if known is not None and known != name:
                    self._aliases[name] = known
                if first and id(value) in self._named:
                    self._others.add((id(held), key))
                if known is not None or (id(held), key) in self._others or not _is_plain(value):
                    continue
                slot = _Slot(held, key, hidden=not first or key in _hidden_of(module), fresh=not first)
                slot.adopt(value)
                places[id(held), key] = name
                self._slots[name] = slot
        self._dicts = list({id(module): _buffers_of(module) for _, module in modules}.values())
        self._counted = sum(map(len, self._dicts))

    def _made(self, name: str) -> _Slot | None:
        """A buffer that another worker's model has registered on the way."""
        prefix, _, key = name.rpartition(".")
        module = dict(_modules_of(self._model)).get(prefix)
        if module is None or hasattr(module, key):
            return None
        module.register_buffer(key, None, persistent=False)
        self._find()
        return self._slots.get(name)

    def _device(self) -> torch.device:
        first = next(self._model.parameters(), None)
        return torch.device("cpu") if first is None else first.device


def _modules_of(model: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
    return list(cast(Any, model).named_modules(remove_duplicate=False))


def _buffers_of(module: torch.nn.Module) -> _Buffers:
    return cast(Any, module)._buffers


def _hidden_of(module: torch.nn.Module) -> "set[str]":
    return cast(Any, module)._non_persistent_buffers_set
