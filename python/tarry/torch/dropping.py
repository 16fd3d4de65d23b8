# SPDX-License-Identifier: Apache-2.0
"""A piece that nobody wants any more ends in the middle of forward or backward."""

from typing import Any

import torch

from ..task import Task


class Dropped(BaseException):
    """Ends a piece; caught by it. No Exception, so that the user's own handlers let it pass."""


class Dropping:
    """Hooks before each module's forward and at its first parameter's gradient: is the piece wanted?."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.task: Task | None = None
        self._handles: list[Any] = []
        seen: set[int] = set()
        for module in model.modules():
            if not any(True for _ in module.children()):
                self._handles.append(module.register_forward_pre_hook(self._look))
            wanted = (one for one in module.parameters(recurse=False) if one.requires_grad)
            first: Any = next(wanted, None)
            if first is not None and id(first) not in seen:
                seen.add(id(first))
                self._handles.append(first.register_hook(self._look))

    def _look(self, *_: Any) -> None:
        task = self.task
        if task is not None and task.cancelled:
            raise Dropped

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
