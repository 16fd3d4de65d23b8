# SPDX-License-Identifier: Apache-2.0
"""One worker of one system: systems.py SYSTEM WORKLOAD. What it prints is workload.Clock's.

Each is used as its documentation has it, with the settings that suit eight processes on one machine best. All but
LocalSGD sum the gradients of the same batch in each step.
"""

import contextlib
import datetime
import os
import sys
import time
from typing import Any

import torch
import workload as work


def tarry(load: work.Workload) -> None:
    """The delays are the runtime's (TARRY_STRAGGLER), on top of the bare sleep."""
    import tarry.torch as tt

    model = work.new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=work.SAMPLES_RATE)
    clock = work.Clock(load, model)
    with tt.join(
        model, optimizer, data=work.data(load.pieces), batch=load.pieces, piece=1, seed=1, shuffle=False
    ) as job:
        for step in job.steps(load.steps + work.COMPARED):
            for piece in step:
                with piece:
                    x, y = piece.batch
                    time.sleep(load.seconds)
                    piece.backward(work.loss_of(model(x), y), weight=len(y))
            if step.number >= load.steps and not step.lost:
                clock.compare()
            optimizer.step()
            if step.number < load.steps and not step.lost:
                clock.stepped(step.number + 1)
        clock.tell()


def _share(load: work.Workload, rank: int) -> range:
    each = load.pieces // load.workers
    return range(rank * each, (rank + 1) * each)


def _accumulate(load: work.Workload, rank: int, step: int, model: Any, delays: work.Delays, x: Any, y: Any) -> None:
    """A step's own share, of which the last backward sums with the others."""
    share = _share(load, rank)
    for position, unit in enumerate(share):
        last = unit == share[-1]
        with contextlib.nullcontext() if last else model.no_sync():
            delays.sleep(step, position, unit)
            loss = work.loss_of(model(x[unit : unit + 1]), y[unit : unit + 1])
            (loss / len(share)).backward()


def ddp(load: work.Workload) -> None:
    """Accumulates without a sum, and sums with the last piece's backward, as its documentation has it."""
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    model = work.new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=work.SAMPLES_RATE)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    (x, y), delays, clock = work.data(load.pieces), work.Delays(load, rank), work.Clock(load, model)
    for step in range(load.steps):
        optimizer.zero_grad()
        _accumulate(load, rank, step, parallel, delays, x, y)
        optimizer.step()
        clock.stepped(step + 1)
    clock.tell()
    torch.distributed.destroy_process_group()


def localsgd(load: work.Workload) -> None:
    """Each worker steps by itself; every fourth step they take the mean of their parameters."""
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    model = work.new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=work.OWN_RATE)
    averager = PeriodicModelAverager(period=4, warmup_steps=0)
    (x, y), delays, clock = work.data(load.pieces), work.Delays(load, rank), work.Clock(load, model)
    share = _share(load, rank)
    for step in range(load.steps):
        optimizer.zero_grad()
        for position, unit in enumerate(share):
            delays.sleep(step, position, unit)
            (work.loss_of(model(x[unit : unit + 1]), y[unit : unit + 1]) / len(share)).backward()
        optimizer.step()
        averager.average_parameters(model.parameters())
        clock.stepped(step + 1)
    clock.tell()
    torch.distributed.destroy_process_group()


def torchft(load: work.Workload) -> None:
    """A replica group for each process; the lighthouse is in the one that measures (TORCHFT_LIGHTHOUSE)."""
    import torchft as ft

    rank = int(os.environ["RANK"])
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    model = work.new_model()
    inner = torch.optim.SGD(model.parameters(), lr=work.SAMPLES_RATE)

    def save() -> dict[str, Any]:
        return {"model": model.state_dict(), "optimizer": inner.state_dict()}

    def restore(state: dict[str, Any]) -> None:
        model.load_state_dict(state["model"])
        inner.load_state_dict(state["optimizer"])

    manager = ft.Manager(
        pg=ft.ProcessGroupGloo(timeout=datetime.timedelta(seconds=5)), load_state_dict=restore, state_dict=save,
        min_replica_size=1, replica_id=f"replica-{rank}", rank=0, world_size=1, hostname="127.0.0.1",
        store_addr="127.0.0.1", store_port=store.port, timeout=datetime.timedelta(seconds=10),
    )  # fmt: skip
    parallel = ft.DistributedDataParallel(manager, model)
    optimizer: Any = ft.Optimizer(manager, inner)
    (x, y), delays, clock = work.data(load.pieces), work.Delays(load, rank), work.Clock(load, model)
    before = 0
    while manager.current_step() < load.steps:
        optimizer.zero_grad()
        _accumulate(load, rank, manager.current_step(), parallel, delays, x, y)
        optimizer.step()
        if manager.current_step() > before:
            before = manager.current_step()
            clock.stepped(before)
    clock.tell()
    manager.shutdown(wait=False)


def hivemind(load: work.Workload) -> None:
    """Peers take pieces at their own pace until there are enough for a batch, and average then."""
    import hivemind as hm

    rank = int(os.environ["RANK"])
    peers = [os.environ["HIVEMIND_PEER"]] if "HIVEMIND_PEER" in os.environ else []
    dht = hm.DHT(initial_peers=peers, host_maddrs=["/ip4/127.0.0.1/tcp/0"], start=True)
    model = work.new_model()
    optimizer = hm.Optimizer(
        dht=dht, run_id="steps", params=model.parameters(), target_batch_size=load.pieces, batch_size_per_step=1,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=work.SAMPLES_RATE), matchmaking_time=1.0,
        averaging_timeout=20.0, delay_state_averaging=False,
        tracker_opts={"min_refresh_period": 0.1, "default_refresh_period": 0.2, "max_refresh_period": 0.5},
    )  # fmt: skip
    if not peers:
        print("peer", dht.get_visible_maddrs()[0], flush=True)
    (x, y), delays, clock = work.data(load.pieces), work.Delays(load, rank), work.Clock(load, model)
    before, taken = 0, 0
    while optimizer.local_epoch < load.steps:
        unit = (rank * load.pieces // load.workers + taken) % load.pieces
        delays.sleep(optimizer.local_epoch, taken % (load.pieces // load.workers), unit)
        optimizer.zero_grad()
        work.loss_of(model(x[unit : unit + 1]), y[unit : unit + 1]).backward()
        optimizer.step(batch_size=1)
        taken += 1
        if optimizer.local_epoch > before:
            before = optimizer.local_epoch
            clock.stepped(before)
    clock.tell()
    time.sleep(2)  # others end with this one's help
    optimizer.shutdown()
    dht.shutdown()


SYSTEMS = {"tarry": tarry, "ddp": ddp, "localsgd": localsgd, "torchft": torchft, "hivemind": hivemind}

if __name__ == "__main__":
    SYSTEMS[sys.argv[1]](work.Workload.of(sys.argv[2]))
