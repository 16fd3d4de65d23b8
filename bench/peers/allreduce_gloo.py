# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.all_reduce over Gloo, timed as `tarry-bench allreduce` times its sums; bench/allreduce.py runs it.

Usage: allreduce_gloo.py DIMENSION TIMES PROCESSES PIECES; each vector is summed in so many pieces at a time. Prints the
seconds of each sum, and ends with 1 if a sum is wrong.
"""

import os
import sys
import tempfile
import time

import torch
import torch.distributed
import torch.multiprocessing

WARM = 2


def holds(vector, expected):
    return torch.equal(vector, expected)


def member(rank, store, dimension, times, count, pieces):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=count)
    pattern = torch.arange(dimension) % 61
    part = (pattern + rank % 7).to(torch.float32)
    expected = sum((pattern + i % 7).to(torch.float32) for i in range(count))
    vector = torch.empty_like(part)
    for at in range(WARM + times):
        vector.copy_(part)  # in place is Gloo's only form; this copy is not timed
        torch.distributed.barrier()
        begin = time.monotonic()
        works = [torch.distributed.all_reduce(piece, async_op=True) for piece in vector.chunk(pieces)]
        for work in works:
            work.wait()
        ends = torch.tensor([-begin, time.monotonic()], dtype=torch.float64)
        torch.distributed.all_reduce(ends, op=torch.distributed.ReduceOp.MAX)
        if not holds(vector, expected):
            sys.exit(f"process {rank} has a wrong sum")
        if rank == 0 and at >= WARM:
            print(f"{ends.sum().item():.9f}", flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    numbers = [int(argument) for argument in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(member, (os.path.join(folder, "store"), *numbers), nprocs=numbers[2])
