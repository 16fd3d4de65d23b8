# SPDX-License-Identifier: Apache-2.0
"""A model of one large parameter w: a step multiplies it by 1 - 2 RATE. Prints each step, and w's mean."""

import argparse
import os
import time

import torch

import tarry.torch as tt

RATE, SAMPLES = 0.01, 4


class Squares(torch.nn.Module):
    def __init__(self, parameters: int) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(parameters))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.w.dot(self.w) * batch.sum()


class Slow:
    """Takes so many seconds to be written, and says when that begins."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def state_dict(self) -> dict[str, float]:
        if self.seconds:
            print(f"writes {os.getpid()}", flush=True)
            time.sleep(self.seconds)
        return {"seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, float]) -> None:
        pass


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("parameters", type=int)
    options.add_argument("steps", type=int)
    options.add_argument("--checkpoint", default="")
    options.add_argument("--each", type=float, default=1.0)
    options.add_argument("--write", type=float, default=0.0)
    options.add_argument("--sum", default="everywhere")
    options.add_argument("--last", type=float, default=0.0, help="seconds that worker 0 takes in its last step")
    wanted = options.parse_args()
    model = Squares(wanted.parameters)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    with tt.join(
        model, optimizer, data=torch.ones(SAMPLES, 1), batch=SAMPLES, piece=1, seed=1, sum=wanted.sum,
        checkpoint=wanted.checkpoint, checkpoint_seconds=wanted.each, extras={"slow": Slow(wanted.write)},
    ) as job:  # fmt: skip
        print(f"begins {job.worker} {job.done}", flush=True)
        for step in job.steps(wanted.steps):
            for piece in step:
                with piece:
                    piece.backward(model(piece.batch), weight=1)
            optimizer.step()
            print(f"step {job.worker} {step.number}", flush=True)
            if wanted.last and job.worker == 0 and step.number == wanted.steps - 1:
                time.sleep(wanted.last)
    w = model.w.detach()
    print(f"ends {job.worker} {job.done} {float(w[0]):.9g} {float(w[-1]):.9g} {float(w.mean()):.9g}", flush=True)


main()
