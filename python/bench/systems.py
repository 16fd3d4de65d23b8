# SPDX-License-Identifier: Apache-2.0
"""One worker of one system: systems.py SYSTEM WORKLOAD. What it prints is workload.Clock's."""

import sys

import torch
import workload as work


def tarry(load: work.Workload) -> None:
    """The delays are the runtime's (TARRY_STRAGGLER), on top of the bare sleep."""
    import time

    import tarry.torch as tt

    model, optimizer = work.model_and_optimizer()
    loss_of = torch.nn.MSELoss(reduction="sum")
    clock = work.Clock(load)
    with tt.join(
        model, optimizer, data=work.data(load.pieces), batch=load.pieces, piece=1, seed=1, shuffle=False
    ) as job:
        for step in job.steps(load.steps):
            for piece in step:
                with piece:
                    x, y = piece.batch
                    time.sleep(load.seconds)
                    piece.backward(loss_of(model(x), y), weight=len(y))
            optimizer.step()
            if not step.lost:
                clock.stepped(step.number + 1)
        clock.tell()


def _begin_gloo(load: work.Workload) -> int:
    torch.distributed.init_process_group("gloo")
    return torch.distributed.get_rank()


def _share(load: work.Workload, rank: int) -> range:
    each = load.pieces // load.workers
    return range(rank * each, (rank + 1) * each)


def ddp(load: work.Workload) -> None:
    """Accumulates without a sum, and sums with the last piece's backward, as its documentation has it."""
    import contextlib

    model, optimizer = work.model_and_optimizer()
    rank = _begin_gloo(load)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    loss_of = torch.nn.MSELoss(reduction="sum")
    x, y = work.data(load.pieces)
    delays, clock, share = work.Delays(load, rank), work.Clock(load), _share(load, rank)
    for step in range(load.steps):
        optimizer.zero_grad()
        for position, unit in enumerate(share):
            last = unit == share[-1]
            with contextlib.nullcontext() if last else parallel.no_sync():
                delays.sleep(step, position, unit)
                loss_of(parallel(x[unit : unit + 1]), y[unit : unit + 1]).backward()
        optimizer.step()
        clock.stepped(step + 1)
    clock.tell()
    torch.distributed.destroy_process_group()


def localsgd(load: work.Workload) -> None:
    """Each worker steps by itself; every fourth step they take the mean of their parameters."""
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

    model, optimizer = work.model_and_optimizer()
    rank = _begin_gloo(load)
    averager = PeriodicModelAverager(period=4, warmup_steps=0)
    loss_of = torch.nn.MSELoss(reduction="sum")
    x, y = work.data(load.pieces)
    delays, clock, share = work.Delays(load, rank), work.Clock(load), _share(load, rank)
    for step in range(load.steps):
        optimizer.zero_grad()
        for position, unit in enumerate(share):
            delays.sleep(step, position, unit)
            loss_of(model(x[unit : unit + 1]), y[unit : unit + 1]).backward()
        optimizer.step()
        averager.average_parameters(model.parameters())
        clock.stepped(step + 1)
    clock.tell()
    torch.distributed.destroy_process_group()


SYSTEMS = {"tarry": tarry, "ddp": ddp, "localsgd": localsgd}

if __name__ == "__main__":
    SYSTEMS[sys.argv[1]](work.Workload.of(sys.argv[2]))
