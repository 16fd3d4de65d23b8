#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums of many processes on this machine, of which one is killed: python/bench/members.py [--engine ENGINE] ...

Every chunk's gradient is its number plus 1, and two workers have each chunk, so that every sum is known to the digit.
Between two of the rounds one worker is killed (SIGKILL). The script prints each round's time, and fails if a sum was
wrong anywhere, a round was not exact, or workers had different sums. Processes are forked from this one, as that many
interpreters of their own don't fit into memory.
"""

import argparse
import multiprocessing
import os
import random
import signal
import statistics
import sys
from typing import Any

import numpy as np
import torch
from engines import Nothing

import tarry
from tarry.torch.collective import Collective


def _work(told: Any, results: Any, engine: str, worker: int, expected: float) -> None:
    torch.set_num_threads(1)
    own = Collective("gloo", "127.0.0.1") if engine == "gloo" else None
    wrong = steps = 0
    with tarry.Worker(
        told.recv(), insecure=True, worker=worker, prepare=lambda _: Nothing(), listen="127.0.0.1:0", engine=own,
        share_memory=engine == "shared",
    ) as found:  # fmt: skip
        for task in found:
            if task.is_step:
                steps += 1
                wrong += not np.all(task.sum == expected)
            else:
                task.gradient[:] = sum(span.origin + 1 for span in task.spans)
    if own is not None:
        own.close()
    results.put((worker, steps, wrong))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=256)
    parser.add_argument("--engine", choices=("direct", "shared", "gloo"), default="direct")
    parser.add_argument("--dimension", type=float, default=1e4)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1, help="of the choice of who is killed, and when (default 1)")
    options = parser.parse_args()
    count, rounds = options.processes, options.rounds
    draws = random.Random(options.seed)
    victim, last = draws.randrange(count), draws.randrange(rounds // 2, rounds)
    context = multiprocessing.get_context("fork")
    results: Any = context.Queue()
    pipes = [context.Pipe(duplex=False) for _ in range(count)]
    workers = [
        context.Process(target=_work, args=(pipes[i][0], results, options.engine, i, count * (count + 1) / 2))
        for i in range(count)
    ]
    for one in workers:
        one.start()
    with tarry.Server(
        tarry.Plan(count, count, replication=2), int(options.dimension), parameters=1, listen="127.0.0.1:0",
        insecure=True, sum="everywhere", pick="share", keep="credited", silence=60.0,
    ) as server:  # fmt: skip
        for _, end in pipes:
            end.send(server.addresses[0])
        server.wait()
        found: list[tarry.Round] = []
        for number in range(rounds):
            if number == last:
                pid = workers[victim].pid
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
                print(f"seed {options.seed}: worker {victim} is killed before round {number}", flush=True)
            found.append(server.round())
            one = found[-1]
            print(
                f"round {number}: {one.seconds:.3f} s, {one.voters} summed, {one.attempts} attempts, exact {one.exact}"
            )
    told = [results.get() for _ in range(count - 1)]
    for one in workers:
        one.join()
    wrong = sum(bad for _, _, bad in told)
    good = wrong == 0 and all(one.exact for one in found) and all(steps == rounds for _, steps, _ in told)
    seconds = statistics.median(one.seconds for one in found)
    print(f"{count} processes, {options.engine}: median {seconds:.3f} s per round, {wrong} wrong sums")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
