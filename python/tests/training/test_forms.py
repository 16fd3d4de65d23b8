# SPDX-License-Identifier: Apache-2.0
"""What loops of PyTorch have around a gradient: each gives the parameters that PyTorch alone gives."""

import contextlib
import importlib
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import tarry.torch as tt  # noqa: E402

RECOMPUTED: Any = importlib.import_module("torch.utils.checkpoint")

STEPS, BATCH, PIECE = 6, 12, 4
WORDS = 11


def language() -> Any:
    """The last layer's weights are the first one's."""
    embedding = torch.nn.Embedding(WORDS, 6)
    inner = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Tanh())
    head = torch.nn.Linear(6, WORDS, bias=False)
    head.weight = embedding.weight
    return torch.nn.Sequential(embedding, inner, head)


class Form:
    """A model with what its loop does; PyTorch's own loop, and Tarry's."""

    def __init__(self) -> None:
        torch.default_generator.manual_seed(3)
        self.model = language()
        self.recompute = False
        self.words = torch.randint(WORDS, (60, 5))
        self.optimizer: Any = torch.optim.AdamW(self.model.parameters(), lr=0.02)
        self.scaler: Any = None
        self.around: Callable[[], Any] = contextlib.nullcontext
        self.before_step: Callable[[], Any] = lambda: None
        self.step: Callable[[], Any] = lambda: self.optimizer.step()

    def loss_of(self, words: Any) -> Any:
        with self.around():
            embedding, inner, head = self.model
            x = embedding(words[:, :-1])
            x = RECOMPUTED.checkpoint(inner, x, use_reentrant=False) if self.recompute else inner(x)
            scores = head(x).flatten(0, 1)
            return torch.nn.functional.cross_entropy(scores.float(), words[:, 1:].flatten(), reduction="sum")

    def train(self, by_tarry: bool) -> Any:
        (self._by_tarry if by_tarry else self._alone)()
        return torch.nn.utils.parameters_to_vector(self.model.parameters()).detach()

    def _by_tarry(self) -> None:
        options = {} if self.scaler is None else {"scaler": self.scaler}
        with tt.join(
            self.model, self.optimizer, data=self.words, batch=BATCH, piece=PIECE, shuffle=False, reproducible=True,
            **options,
        ) as job:  # fmt: skip
            for step in job.steps(STEPS):
                for piece in step:
                    with piece:
                        words = piece.batch
                        piece.backward(self.loss_of(words), weight=words[:, 1:].numel())
                assert 0 < step.metrics["loss"] < 5
                self.before_step()
                self.step()

    def _alone(self) -> None:
        for step in range(STEPS):
            begin = step * BATCH % len(self.words)
            batch = self.words[begin : begin + BATCH]
            self.optimizer.zero_grad()
            for words in batch.split(PIECE):
                loss = self.loss_of(words)
                (loss if self.scaler is None else self.scaler.scale(loss)).backward()
            for parameter in self.model.parameters():
                if parameter.grad is not None:
                    parameter.grad /= batch[:, 1:].numel()
            self.before_step()
            self.step()


def tied(_: Form) -> None:
    pass


def frozen(form: Form) -> None:
    for parameter in form.model[1].parameters():
        parameter.requires_grad_(False)


def clipped(form: Form) -> None:
    form.before_step = lambda: torch.nn.utils.clip_grad_norm_(form.model.parameters(), 0.1)


def scheduled(form: Form) -> None:
    scheduler = torch.optim.lr_scheduler.OneCycleLR(form.optimizer, max_lr=0.05, total_steps=STEPS + 1)

    def step() -> None:
        form.optimizer.step()
        scheduler.step()

    form.step = step


def in_groups(form: Form) -> None:
    groups = [{"params": form.model[1].parameters(), "lr": 0.1}, {"params": form.model[0].parameters()}]
    form.optimizer = torch.optim.SGD(groups, lr=0.01, momentum=0.9, nesterov=True, weight_decay=0.1)


def autocast(form: Form) -> None:
    form.around = lambda: torch.autocast("cpu", dtype=torch.bfloat16)


def recomputed(form: Form) -> None:
    form.recompute = True


def in_double(form: Form) -> None:
    form.model.double()


def scaled(form: Form) -> None:
    form.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)

    def step() -> None:
        form.scaler.unscale_(form.optimizer)
        torch.nn.utils.clip_grad_norm_(form.model.parameters(), 0.1)
        form.scaler.step(form.optimizer)
        form.scaler.update()

    form.step = step


FORMS = (tied, frozen, clipped, scheduled, in_groups, autocast, recomputed, in_double)


def has_scaler() -> bool:
    return hasattr(torch.amp, "GradScaler")


@pytest.mark.parametrize("change", [*FORMS, pytest.param(scaled, marks=pytest.mark.skipif("not has_scaler()"))])
def test_a_loop_is_that_of_pytorch(change: Callable[[Form], None]) -> None:
    found: list[Any] = []
    for by_tarry in (True, False):
        form = Form()
        change(form)
        found.append(form.train(by_tarry))
    before = torch.nn.utils.parameters_to_vector(Form().model.parameters()).to(found[0].dtype)
    assert not torch.allclose(found[0], before, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("where", ["everywhere", "server"])
@pytest.mark.skipif("not has_scaler()")
def test_an_infinity_is_skipped_and_the_scale_is_saved(tmp_path: pathlib.Path, where: str) -> None:
    """The scale is halved by all in the same step, and comes back with the checkpoint."""
    path = tmp_path / "run.ckpt"
    scales: list[float] = []
    for steps in (2, 3):
        torch.default_generator.manual_seed(3)
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
        with tt.join(
            model, optimizer, data=torch.ones(8, 2), batch=4, piece=2, checkpoint=path, scaler=scaler, sum=where
        ) as job:
            for step in job.steps(steps):
                before = model.weight.detach().clone()
                for piece in step:
                    with piece:
                        loss = model(piece.batch).sum()
                        piece.backward(loss * torch.inf if step.number == 0 else loss, weight=2)
                scaler.step(optimizer)
                scaler.update()
                scales.append(scaler.get_scale())
                assert torch.equal(model.weight, before) == (step.number == 0)
    assert scales == [2.0**9] * 3
