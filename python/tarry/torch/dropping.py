# SPDX-License-Identifier: Apache-2.0
"""A piece that nobody wants any more ends in the middle of forward or backward."""

import sys
import weakref
from collections.abc import Callable
from typing import Any

import torch

from ..task import Task


class Dropped(BaseException):
    """Ends a piece; caught by it. No Exception, so that the user's own handlers let it pass."""


def _never() -> bool:
    return False


# PyTorch 1.13 compiles nothing.
_is_compiling: Callable[[], bool] = getattr(getattr(torch, "compiler", None), "is_compiling", _never)
_watched: "weakref.WeakKeyDictionary[torch.nn.Module, Dropping]" = weakref.WeakKeyDictionary()


def _before_forward(module: torch.nn.Module, *_: Any) -> None:
    if not _is_compiling():
        watch = _watched.get(module)
        if watch is not None:
            watch._look()  # pyright: ignore[reportPrivateUsage]


class Dropping:
    """Hooks before each module's forward and at its first parameter's gradient: is the piece wanted?

    While torch.compile traces a module the hooks do nothing, so that they are in no graph. A compiled forward looks
    before it begins if `model` has the compiled module, and piece.backward always looks.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.task: Task | None = None
        self._handles: list[Any] = []
        self._inside: list[Any] = []  # handles of hooks that compiled code may have seen
        self._modules: list[torch.nn.Module] = []
        seen: set[int] = set()
        compiled = {id(inside) for one in model.modules() for inside in _inside_of_compiled(one)}
        for module in model.modules():
            is_watched = _is_wrapper(module) or not any(True for _ in module.children())
            if is_watched and id(module) not in compiled:
                self._watch(module)
            wanted = (one for one in module.parameters(recurse=False) if one.requires_grad)
            first: Any = next(wanted, None)
            if first is not None and id(first) not in seen:
                seen.add(id(first))
                self._handles.append(first.register_hook(self._at_gradient))

    def _watch(self, module: torch.nn.Module) -> None:
        known: Any = module
        _watched[module] = self
        self._modules.append(module)
        if _before_forward not in known._forward_pre_hooks.values():
            handles = self._handles if _is_wrapper(module) else self._inside
            handles.append(known.register_forward_pre_hook(_before_forward))

    def _at_gradient(self, *_: Any) -> None:
        if not _is_compiling():
            self._look()

    def _look(self) -> None:
        """Raises Dropped."""
        task = self.task
        if task is not None and task.cancelled:
            raise Dropped

    def close(self) -> None:
        """Compiled code depends on how many hooks a module has, and would be compiled again without them: there they
        stay, and do nothing."""
        for module in self._modules:
            if _watched.get(module) is self:
                del _watched[module]
        for handle in self._handles if _has_compiled() else [*self._handles, *self._inside]:
            handle.remove()
        self._handles.clear()
        self._inside.clear()
        self._modules.clear()


def _is_wrapper(module: torch.nn.Module) -> bool:
    """True for what torch.compile made of a module: it calls hooks of its own before compiled code."""
    return type(module).__name__ == "OptimizedModule"


def _inside_of_compiled(module: torch.nn.Module) -> list[torch.nn.Module]:
    """Modules that run in the compiled code of this one, which may be compiled in place."""
    if _is_wrapper(module):
        return [one for one in module.modules() if one is not module]
    return list(module.modules()) if getattr(module, "_compiled_call_impl", None) is not None else []


def _has_compiled() -> bool:
    """True if torch.compile has compiled anything in this process."""
    utils: Any = sys.modules.get("torch._dynamo.utils")
    return utils is not None and utils.counters["frames"]["total"] > 0
