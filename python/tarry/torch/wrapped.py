# SPDX-License-Identifier: Apache-2.0
"""Models that cannot be summed: something else already trains them in parallel, so that they sum gradients themselves
or have only parts of the parameters; or their parameters have no shape or no dense numbers."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ..errors import ArgumentError

# Classes by name, so that none of their modules has to be imported: those of PyTorch, and of packages with the same.
_PACKAGES = ("torch", "torchft", "apex", "fairscale", "deepspeed", "megatron", "horovod")
_MODULE = "pass the module inside it (its .module), and call that in the loop"
_WRAPPERS = {
    "DistributedDataParallel": f"sums gradients in each backward: {_MODULE}",
    "DataParallel": f"spreads each batch over devices: {_MODULE}",
    "ShardedDataParallel": f"sums gradients in each backward: {_MODULE}",
    "DeepSpeedEngine": f"sums gradients in each backward: {_MODULE}",
    "FullyShardedDataParallel": "has only a part of each parameter: pass the model as it was before it was wrapped",
    "FSDPModule": "has only a part of each parameter: pass the model as it was before fully_shard",
    "DDP": "sums gradients in each backward: pass the model as it was before replicate",
    "ReplicateModule": "sums gradients in each backward: pass the model as it was before replicate",
}
_TENSORS = ("DTensor", "ShardedTensor")
_OPTIMIZERS = {
    "ZeroRedundancyOptimizer": "steps a part of the parameters: pass a plain one",
    "SparseAdam": "takes sparse gradients only, and sums are dense, also for sparse=True: pass torch.optim.Adam, SGD "
    "or Adagrad over all parameters of the model",
}


def check_whole(model: torch.nn.Module, optimizer: torch.optim.Optimizer, others: Iterable[object] = ()) -> None:
    """`others` may have optimizers. Raises ArgumentError, with what to pass instead."""
    modules: Any = model
    for name, module in modules.named_modules():
        where = f"{name}, a part of the model," if name else "the model"
        wrapper = _named(module, _WRAPPERS)
        if wrapper:
            raise ArgumentError(f"{where} is a {wrapper}, which {_WRAPPERS[wrapper]}")
    for one in (optimizer, *others):
        kind = _named(one, _OPTIMIZERS)
        if kind:
            raise ArgumentError(f"the optimizer is a {kind}, which {_OPTIMIZERS[kind]}")
    for name, parameter in _parameters(model, optimizer):
        if _named(parameter, ("UninitializedTensorMixin",)):
            raise ArgumentError(
                f"{name} has no shape yet: call the model on one batch, under torch.no_grad(), before "
                "tarry.torch.join, so that its lazy modules get their parameters"
            )
        kind = _named(parameter, _TENSORS) or _named(parameter.data, _TENSORS)
        if kind:
            raise ArgumentError(
                f"{name} is a {kind} and each process has a part of it: pass a model of plain tensors to "
                "tarry.torch.join, as it was before fully_shard, parallelize_module or distribute_tensor"
            )
        if parameter.layout != torch.strided:
            raise ArgumentError(
                f"{name} is a {parameter.layout} tensor, and sums are dense: pass a model of dense ones"
            )


def _named(one: object, names: Any) -> str:
    """The name of the object's class, or of a base of it, if it is among these; else ''."""
    for base in type(one).__mro__:
        if base.__name__ in names and base.__module__.partition(".")[0] in _PACKAGES:
            return base.__name__
    return ""


def _parameters(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Any]]:
    named = {id(one): f"the parameter {name}" for name, one in model.named_parameters()}
    yield from ((named[id(one)], one) for one in model.parameters())
    groups: list[dict[str, Any]] = optimizer.param_groups
    for group in groups:
        yield from (("a parameter of the optimizer", one) for one in group["params"] if id(one) not in named)
