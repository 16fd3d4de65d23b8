# SPDX-License-Identifier: Apache-2.0
"""A convolutional network that reads digits, which this file draws: shifted, thinned and noisy.

tarry run -n 4 python/examples/digits.py
tarry run -n 4 --straggler slow:1,5 python/examples/digits.py --epochs 3
"""

import argparse

import torch
from torch import nn

import tarry.torch as tt

SIDE = 12
# 5 x 7 dots for each digit, a number of 5 bits for each row.
DIGITS = (
    (14, 17, 19, 21, 25, 17, 14),
    (4, 12, 4, 4, 4, 4, 14),
    (14, 17, 1, 2, 4, 8, 31),
    (31, 2, 4, 2, 1, 17, 14),
    (2, 6, 10, 18, 31, 2, 2),
    (31, 16, 30, 1, 1, 17, 14),
    (6, 8, 16, 30, 17, 17, 14),
    (31, 1, 2, 4, 8, 8, 8),
    (14, 17, 17, 14, 17, 17, 14),
    (14, 17, 17, 15, 1, 2, 12),
)


def draw(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures of SIDE x SIDE, and which digits they show."""
    generator = torch.Generator().manual_seed(seed)
    dots = torch.tensor([[[float(row >> (4 - x) & 1) for x in range(5)] for row in digit] for digit in DIGITS])
    labels = torch.randint(10, (count,), generator=generator)
    down, right = (torch.randint(SIDE - size + 1, (count,), generator=generator) for size in (7, 5))
    kept = torch.rand(count, 7, 5, generator=generator) > 0.1
    pictures = 0.3 * torch.randn(count, 1, SIDE, SIDE, generator=generator)
    for place in range(count):
        y, x = int(down[place]), int(right[place])
        pictures[place, 0, y : y + 7, x : x + 5] += dots[labels[place]] * kept[place]
    return pictures, labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--checkpoint", default="", help="a file to go on from")
    options = parser.parse_args()

    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(32 * 9, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loss_of = nn.CrossEntropyLoss(reduction="sum")
    data = draw(8192, seed=1)

    def of_batch(batch: list[torch.Tensor]) -> tuple[torch.Tensor, float, dict[str, float]]:
        pictures, labels = batch
        scores = model(pictures)
        return loss_of(scores, labels), len(labels), {"right": float((scores.argmax(1) == labels).sum())}

    with tt.join(
        model, optimizer, data=data, batch=512, piece=16, seed=1, metrics=("right",), checkpoint=options.checkpoint
    ) as job:
        for step in job.steps(options.epochs * job.permutation.steps_per_epoch):
            step.compute(of_batch)
            optimizer.step()
            if job.chief and step.number % 16 == 15:
                print(f"step {step.number + 1}: loss {step.metrics['loss']:.3f}, {step.metrics['right']:.0%} right")
        found = job.evaluate(draw(2048, seed=2), of_batch, piece=128)
        if job.chief:
            print(f"digits that it has not seen: {found['right']:.1%} right")


if __name__ == "__main__":
    main()
