#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a step's sum takes, by engine: python/bench/engines.py [--processes N,..] [--dimension D,..] [--rounds R]

Processes on this machine, whose gradients take no time. For Tarry's engines milliseconds are from the signal to the end
of the round, so that coding and the vote are in them: direct in shared memory, direct over connections, and Gloo
(tarry.torch.collective). The last is all_reduce of torch.distributed over Gloo alone, without a vote. Medians over
rounds, and the least of them in brackets.
"""

import argparse
import datetime
import multiprocessing
import statistics
import time
from typing import Any

import numpy as np
import torch
import torch.distributed

import tarry
from tarry.torch.collective import Collective

SKIPPED = 5  # rounds: connections are made, and the shape of sums is found
ENGINES = ("direct, shared memory", "direct, connections", "gloo", "all_reduce")


class Nothing:
    """A replica without a state."""

    last: tarry.SumId | None = None

    def save(self) -> bytes:
        return b""

    def load(self, state: bytes) -> None:
        pass


def _work(address: str, engine: str, worker: int) -> None:
    torch.set_num_threads(1)
    own = Collective("gloo", "127.0.0.1") if engine == "gloo" else None
    with tarry.Worker(
        address, insecure=True, worker=worker, prepare=lambda _: Nothing(), listen="127.0.0.1:0", engine=own,
        share_memory=engine == "direct, shared memory",
    ) as found:  # fmt: skip
        for task in found:
            if not task.is_step:
                task.gradient[:] = 1
    if own is not None:
        own.close()


def by_tarry(engine: str, processes: int, dimension: int, rounds: int) -> list[float]:
    plan = tarry.Plan(processes, processes, replication=2)
    context = multiprocessing.get_context("spawn")
    with tarry.Server(
        plan, dimension, parameters=1, listen="127.0.0.1:0", insecure=True, sum="everywhere", pick="share",
        keep="credited", silence=30.0,
    ) as server:  # fmt: skip
        workers = [
            context.Process(target=_work, args=(server.addresses[0], engine, worker)) for worker in range(processes)
        ]
        for one in workers:
            one.start()
        server.wait()
        found = [server.round() for _ in range(SKIPPED + rounds)][SKIPPED:]
    for one in workers:
        one.join()
    return [one.seconds - one.seconds_to_signal for one in found]


def _reduce(rank: int, processes: int, port: int, dimension: int, rounds: int, results: Any) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=processes, timeout=datetime.timedelta(seconds=60)
    )
    numbers = torch.from_numpy(np.ones(dimension, dtype=np.float32))
    seconds: list[float] = []
    for _ in range(SKIPPED + rounds):
        torch.distributed.barrier()
        begun = time.perf_counter()
        torch.distributed.all_reduce(numbers)
        seconds.append(time.perf_counter() - begun)
    if rank == 0:
        results.put(seconds[SKIPPED:])
    torch.distributed.destroy_process_group()


def alone(processes: int, dimension: int, rounds: int) -> list[float]:
    context = multiprocessing.get_context("spawn")
    results: Any = context.Queue()
    with tarry.Server(tarry.Plan(1, 1), 1, listen="127.0.0.1:0", insecure=True) as free:
        port = int(free.addresses[0].rpartition(":")[2])
    workers = [
        context.Process(target=_reduce, args=(rank, processes, port, dimension, rounds, results))
        for rank in range(processes)
    ]
    for one in workers:
        one.start()
    found = results.get()
    for one in workers:
        one.join()
    return found


def _words(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1e3:.1f} ({min(seconds) * 1e3:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", default="4,8")
    parser.add_argument("--dimension", default="1e6,1e7")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    print(f"PyTorch {torch.__version__}; milliseconds")
    print(" | ".join(["processes", "d", *ENGINES]))
    for processes in map(int, options.processes.split(",")):
        for dimension in (int(float(one)) for one in options.dimension.split(",")):
            found = [by_tarry(engine, processes, dimension, options.rounds) for engine in ENGINES[:-1]]
            found.append(alone(processes, dimension, options.rounds))
            print(" | ".join([str(processes), f"{dimension:.0e}", *map(_words, found)]), flush=True)


if __name__ == "__main__":
    main()
