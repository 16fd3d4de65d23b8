# SPDX-License-Identifier: Apache-2.0
"""Steps of sleep and torch.distributed.all_reduce over Gloo, timed as `tarry-bench step`; bench/everywhere.py runs it.

Usage: step_gloo.py DIMENSION TIMES PROCESSES SECONDS FACTOR.. ; the last process sleeps FACTOR times as long as the
others. Prints a line of the seconds of each step for each FACTOR. With `stop` in place of factors the last process is
stopped by SIGSTOP in the middle of a step, and a line says whether that ends within ten times SECONDS and ten seconds.
"""

import os
import signal
import sys
import tempfile
import time

import torch
import torch.distributed
import torch.multiprocessing

WARM = 1
PATIENCE_SECONDS = 10


def steps(rank, count, vector, times, seconds, factor):
    taken = []
    for _ in range(WARM + times):
        torch.distributed.barrier()
        begin = time.monotonic()
        time.sleep(seconds * (factor if rank == count - 1 else 1))
        torch.distributed.all_reduce(vector)
        ends = torch.tensor([-begin, time.monotonic()], dtype=torch.float64)
        torch.distributed.all_reduce(ends, op=torch.distributed.ReduceOp.MAX)
        vector.fill_(1)
        taken.append(ends.sum().item())
    return taken[WARM:]


def member(rank, store, dimension, times, count, seconds, factors):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=count)
    vector = torch.ones(dimension)
    for factor in factors:
        taken = steps(rank, count, vector, times, seconds, factor)
        if rank == 0:
            print(" ".join(f"{one:.9f}" for one in taken), flush=True)
    torch.distributed.destroy_process_group()


def stopped(rank, store, dimension, count, seconds, begun, done):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=count)
    vector = torch.ones(dimension)
    steps(rank, count, vector, 0, seconds, 1)
    torch.distributed.barrier()
    if rank == 0:
        begun.set()
    time.sleep(seconds)
    torch.distributed.all_reduce(vector)
    done.set()


def stop(store, dimension, count, seconds):
    context = torch.multiprocessing.get_context("spawn")
    begun, done = context.Event(), context.Event()
    members = [context.Process(target=stopped, args=(rank, store, dimension, count, seconds, begun, done))
               for rank in range(count)]
    for one in members:
        one.start()
    begun.wait()
    time.sleep(seconds / 2)
    os.kill(members[-1].pid, signal.SIGSTOP)
    print("ends" if done.wait(10 * seconds + PATIENCE_SECONDS) else "hangs", flush=True)
    for one in members:
        one.kill()
        one.join()


def main():
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dimension, times, count = (int(word) for word in sys.argv[1:4])
    seconds = float(sys.argv[4])
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        if sys.argv[5:] == ["stop"]:
            stop(store, dimension, count, seconds)
        else:
            factors = [float(word) for word in sys.argv[5:]]
            torch.multiprocessing.spawn(member, (store, dimension, times, count, seconds, factors), nprocs=count)


if __name__ == "__main__":
    main()
