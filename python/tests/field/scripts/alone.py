# SPDX-License-Identifier: Apache-2.0
"""The chief, and then worker 1, evaluates alone between evaluations that all make.

Prints 'found WORKER CASE VALUE', where a case ends in the right value, and 'pieces WORKER N' of the last one.
"""

import sys
import time

import torch

import tarry.torch as tt

X = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
mean = lambda batch: (batch.sum(), len(batch))  # noqa: E731
pieces = 0


def doubled(batch):
    return 2 * batch.sum(), len(batch)


def slow(batch):
    global pieces
    pieces += 1
    time.sleep(0.02)
    return batch.sum(), len(batch)


def found(case, result):
    sys.stdout.write(f"found {job.worker} {case} {result['loss']}\n")
    sys.stdout.flush()


def filled(value):
    return torch.full((64, 1), float(value))


with tt.join(model, optimizer, data=X, batch=64, piece=8) as job:
    if job.chief:
        found("chief-before-7", job.evaluate(filled(7), mean))
    found("all-before-2", job.evaluate(filled(2), mean))
    for step in job.steps(3):
        step.compute(lambda batch: (model(batch).square().sum(), len(batch)))
        optimizer.step()
        if step.number == 1:
            if job.chief:
                found("chief-data-1", job.evaluate(filled(1), mean))
                found("chief-function-5", job.evaluate(filled(5), mean))
            time.sleep(0.2)
            found("all-data-5", job.evaluate(filled(5), mean))
            found("all-function-10", job.evaluate(filled(5), doubled))
            found("all-named-3", job.evaluate([torch.full((1,), 3.0)] * 64, mean, name="threes"))
        if step.number == 2 and job.worker == 1:
            found("one-9", job.evaluate(filled(9), mean))
    found("all-after-4", job.evaluate(filled(4), mean))
    found("all-shared-6", job.evaluate(filled(6), slow, piece=4))
    sys.stdout.write(f"pieces {job.worker} {pieces}\n")
