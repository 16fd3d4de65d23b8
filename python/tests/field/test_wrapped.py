# SPDX-License-Identifier: Apache-2.0
"""Models that something else trains in parallel are refused, with what to pass instead."""

import importlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import tarry.torch as tt  # noqa: E402
from tarry import ArgumentError  # noqa: E402

PARALLEL: Any = importlib.import_module("torch.nn.parallel")
DISTRIBUTED: Any = importlib.import_module("torch.distributed")


def module(name: str) -> Any:
    """Skips if this PyTorch does not have it, or can't import it in this Python (1.13 in 3.11)."""
    try:
        return importlib.import_module(name)
    except (ImportError, ValueError) as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module", autouse=True)
def group() -> Iterator[None]:
    """A process group of one process, as torchrun would make it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store = DISTRIBUTED.TCPStore("127.0.0.1", port, 1, True)
    DISTRIBUTED.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    DISTRIBUTED.destroy_process_group()


def network() -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


def mesh() -> Any:
    return module("torch.distributed.device_mesh").init_device_mesh("cpu", (1,))


def ddp() -> Any:
    return PARALLEL.DistributedDataParallel(network())


class Subclass(PARALLEL.DistributedDataParallel):
    pass


def inherited() -> Any:
    return Subclass(network())


def nested() -> Any:
    return torch.nn.ModuleDict({"body": torch.nn.Sequential(ddp(), torch.nn.Tanh()), "head": torch.nn.Linear(1, 1)})


def data_parallel() -> Any:
    return torch.nn.DataParallel(network())


def compiled() -> Any:
    if not hasattr(torch, "compile"):
        pytest.skip("of PyTorch 2")
    return torch.compile(ddp(), backend="eager")


def fsdp() -> Any:
    sharded: Any = module("torch.distributed.fsdp").FullyShardedDataParallel
    try:
        return sharded(network(), device_id=torch.device("cpu"), use_orig_params=True)
    except TypeError:
        pytest.skip("of PyTorch 2")


def fully_sharded() -> Any:
    found = network()
    if not hasattr(module("torch.distributed.fsdp"), "fully_shard"):
        pytest.skip("of PyTorch 2.6")
    module("torch.distributed.fsdp").fully_shard(found[0], mesh=mesh())
    return found


def distributed_tensors() -> Any:
    tensor = module("torch.distributed.tensor")
    found = network()
    whole = found[2].weight.detach()
    found[2].weight = torch.nn.Parameter(tensor.distribute_tensor(whole, mesh(), [tensor.Replicate()]))
    return found


CASES = {
    ddp: r"the model is a DistributedDataParallel, which sums .*its \.module",
    inherited: r"the model is a DistributedDataParallel",
    nested: r"body\.0, a part of the model, is a DistributedDataParallel",
    data_parallel: r"the model is a DataParallel, .*its \.module",
    compiled: r"_orig_mod, a part of the model, is a DistributedDataParallel",
    fsdp: r"FullyShardedDataParallel, which has only a part of each parameter",
    fully_sharded: r"0, a part of the model, is a FSDPModule, .*before fully_shard",
    distributed_tensors: r"the parameter 2\.weight is a DTensor.*plain tensors",
}


def train(model: Any, parameters: Any = None, wrap: Any = None) -> float:
    optimizer = torch.optim.SGD(list(model.parameters()) if parameters is None else parameters, lr=0.1)
    data = torch.randn(16, 4, generator=torch.Generator().manual_seed(5))
    optimizer = optimizer if wrap is None else wrap(model)
    with tt.join(model, optimizer, data=data, batch=8, piece=4) as job:
        loss = 0.0
        for step in job.steps(2):
            step.compute(lambda x: (model(x).square().sum(), len(x)))
            optimizer.step()
            loss = step.metrics["loss"]
        return loss


@pytest.mark.parametrize("make", CASES)
def test_a_wrapped_model_is_refused(make: Any) -> None:
    with pytest.raises(ArgumentError, match=CASES[make]):
        train(make())


def test_parameters_of_the_optimizer_are_looked_at() -> None:
    model = network()
    with pytest.raises(ArgumentError, match="a parameter of the optimizer is a DTensor"):
        train(model, [*model.parameters(), *distributed_tensors()[2].parameters()])


def test_an_optimizer_of_shards_is_refused() -> None:
    sharding: Any = module("torch.distributed.optim").ZeroRedundancyOptimizer

    def wrap(model: Any) -> Any:
        return sharding(model.parameters(), torch.optim.SGD, lr=0.1)

    with pytest.raises(ArgumentError, match="ZeroRedundancyOptimizer, which steps a part"):
        train(network(), wrap=wrap)


class DataParallel(torch.nn.Module):
    """The user's own, whose name says nothing."""

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.inner = network()

    def forward(self, x: Any) -> Any:
        return self.inner(x)


def test_what_is_inside_and_compiled_models_are_fine() -> None:
    loss = train(ddp().module)
    assert loss == train(DataParallel())
    if hasattr(torch, "compile"):
        assert abs(loss - train(torch.compile(network(), backend="eager"))) < 1e-6
