# SPDX-License-Identifier: Apache-2.0
"""A small GPT that learns the text of this project's own pages, letter by letter.

tarry run -n 4 python/examples/gpt.py
tarry run -n 4 --straggler slow:1,5 python/examples/gpt.py --steps 100 --checkpoint gpt.ckpt
"""

import argparse
import pathlib

import torch
from torch import nn
from torch.nn import functional

import tarry.torch as tt

CONTEXT, WIDTH, HEADS, LAYERS = 64, 64, 4, 2
LETTERS = 128


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, dropout=0.1, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = self.before_attention(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.before_mlp(x))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, LETTERS, bias=False)
        self.register_buffer("mask", torch.triu(torch.full((CONTEXT, CONTEXT), float("-inf")), 1), persistent=False)

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        count = letters.shape[1]
        x = self.letters(letters) + self.places.weight[:count]
        for block in self.blocks:
            x = block(x, self.mask[:count, :count])
        return self.head(self.norm(x))


class Text(torch.utils.data.Dataset):
    """Stretches of a text, each a letter longer than the context."""

    def __init__(self, text: str) -> None:
        self.letters = torch.tensor([min(ord(letter), LETTERS - 1) for letter in text])

    def __len__(self) -> int:
        return (len(self.letters) - 1) // CONTEXT

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.letters[index * CONTEXT : (index + 1) * CONTEXT + 1]


def read_pages() -> str:
    pages = pathlib.Path(__file__).resolve().parents[2] / "docs"
    return "\n".join(page.read_text() for page in sorted(pages.glob("*.md")))


def loss_of(model: nn.Module, text: torch.Tensor) -> torch.Tensor:
    """Summed over letters."""
    scores = model(text[:, :-1])
    return functional.cross_entropy(scores.flatten(0, 1), text[:, 1:].flatten(), reduction="sum")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=128, help="stretches of a step, over all workers (default 128)")
    parser.add_argument("--piece", type=int, default=4, help="stretches that are computed at once (default 4)")
    parser.add_argument("--checkpoint", default="", help="a file to go on from")
    options = parser.parse_args()

    torch.manual_seed(1)
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    with tt.join(
        model, optimizer, scheduler,
        data=Text(read_pages()), batch=options.batch, piece=options.piece, seed=1, checkpoint=options.checkpoint,
    ) as job:  # fmt: skip
        for step in job.steps(options.steps):
            for piece in step:
                with piece:
                    text = piece.batch
                    piece.backward(loss_of(model, text), weight=text[:, 1:].numel())
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            if job.chief and step.number % 10 == 9:
                print(f"step {step.number + 1}: loss {step.metrics['loss']:.3f}, {step.metrics['seconds']:.2f} s")


if __name__ == "__main__":
    main()
