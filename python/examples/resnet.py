# SPDX-License-Identifier: Apache-2.0
"""ResNet-18 (He et al., CVPR 2016), written out, on synthetic pictures of 32 x 32: each class has a pattern of its own.

tarry run -n 2 python/examples/resnet.py
"""

import argparse

import torch
from torch import nn

import tarry.torch as tt

CLASSES, SIDE = 10, 32


class Block(nn.Module):
    """Two convolutions, beside a way past them."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.first_norm, self.second_norm = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.past: nn.Module = nn.Identity()
        if stride > 1 or inside != outside:
            self.past = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(self.second_norm(self.second(y)) + self.past(x))


def resnet18(width: int) -> nn.Sequential:
    """Its first layer is that for small pictures; 64 is the width of the paper."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    inside = width
    for stage in range(4):
        outside = width << stage
        layers += [Block(inside, outside, 1 if stage == 0 else 2), Block(outside, outside, 1)]
        inside = outside
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, CLASSES))


class Pictures(torch.utils.data.Dataset):
    """Made as they are asked for, from their number."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.patterns = torch.randn(CLASSES, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        noise = torch.randn(3, SIDE, SIDE, generator=torch.Generator().manual_seed(index))
        return self.patterns[index % CLASSES] + 2 * noise, index % CLASSES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=16, help="of the first stage (default 16; the paper's has 64)")
    parser.add_argument("--checkpoint", default="", help="a file to go on from")
    options = parser.parse_args()

    torch.manual_seed(1)
    model = resnet18(options.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=options.steps)
    loss_of = nn.CrossEntropyLoss(reduction="sum")
    with tt.join(
        model, optimizer, scheduler, data=Pictures(4096), batch=128, piece=8, seed=1, checkpoint=options.checkpoint
    ) as job:
        for step in job.steps(options.steps):
            for piece in step:
                with piece:
                    pictures, labels = piece.batch
                    piece.backward(loss_of(model(pictures), labels), weight=len(labels))
            optimizer.step()
            scheduler.step()
            if job.chief and step.number % 5 == 4:
                print(f"step {step.number + 1}: loss {step.metrics['loss']:.3f}, {step.metrics['seconds']:.2f} s")


if __name__ == "__main__":
    main()
