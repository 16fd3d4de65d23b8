# SPDX-License-Identifier: Apache-2.0
"""How often torch.compile compiles a model, and breaks its graph, with Tarry and without.

compiled.py prints 'CASE GRAPHS BREAKS' for a model that was compiled before join, called before join, compiled after
join, compiled in place, and 'alone' for each of them without Tarry.
"""

import sys

import torch
from torch._dynamo.utils import counters

import tarry.torch as tt

X = torch.randn(64, 8)


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
        )

    def forward(self, x):
        return self.layers(x)


def compiled(module):
    return torch.compile(module, backend="aot_eager")


def model_of(case):
    torch.manual_seed(1)
    raw = Network()
    if case == "in-place":
        raw.compile(backend="aot_eager")
    model = compiled(raw) if case in ("before", "called") else raw
    if case == "called":
        model(X[:16]).sum().backward()
    return raw, model


def with_tarry(case):
    """Two trainings, and the model by itself between them."""
    raw, model = model_of(case)
    called = model
    for _ in range(2):
        optimizer = torch.optim.SGD(raw.parameters(), lr=0.01)
        with tt.join(model, optimizer, data=X, batch=64, piece=16) as job:
            if case == "after" and called is model:
                called = compiled(raw)
            for step in job.steps(3):
                step.compute(lambda batch, called=called: (called(batch).pow(2).sum(), len(batch)))
                optimizer.step()
        called(X[:16]).pow(2).sum().backward()


def alone(case):
    _, model = model_of(case)
    called = compiled(model) if case == "after" else model
    for _ in range(4):
        called(X[:16]).pow(2).sum().backward()


for case in ("before", "called", "after", "in-place"):
    for name, train in ((case, with_tarry), (f"{case}-alone", alone)):
        torch._dynamo.reset()
        counters.clear()
        train(case)
        sys.stdout.write(f"{name} {counters['stats']['unique_graphs']} {sum(counters['graph_break'].values())}\n")
