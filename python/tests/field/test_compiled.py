# SPDX-License-Identifier: Apache-2.0
"""Models of torch.compile: Tarry adds no graph, no graph break and no recompilation, and pieces still end early."""

import copy
import pathlib
import subprocess
import sys
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import tarry.torch as tt  # noqa: E402
from tarry.task import Task  # noqa: E402

SCRIPT = pathlib.Path(__file__).parent / "scripts" / "compiled.py"


@pytest.mark.skipif(not hasattr(torch, "compiler"), reason="PyTorch 1.13 compiles nothing")
def test_compiled_models_have_as_many_graphs_as_without_tarry() -> None:
    ended = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False, timeout=240)
    assert ended.returncode == 0, ended.stderr
    found = {case: (int(graphs), int(breaks)) for case, graphs, breaks in map(str.split, ended.stdout.splitlines())}
    assert len(found) == 8
    for case in ("before", "called", "after", "in-place"):
        assert found[case] == found[f"{case}-alone"] == (1, 0), found
    assert "tarry_compute_cancelled" not in ended.stderr


class Left(Exception):
    """Ends a training that has shown enough."""


def test_a_piece_that_others_have_done_ends_at_its_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if nothing looks in forward: the model has no module that runs."""
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with (
        pytest.raises(Left),
        tt.join(model, optimizer, data=torch.randn(16, 4), batch=16, piece=4) as job,
    ):
        piece = next(iter(next(job.steps(1))))
        reached: list[str] = []
        with piece:
            loss: Any = torch.nn.functional.linear(piece.batch, model.weight, model.bias).sum()
            monkeypatch.setattr(Task, "cancelled", True)

            def note(_: Any) -> None:
                reached.append("backward")

            loss.register_hook(note)
            piece.backward(loss, weight=4)
            reached.append("behind")
        assert reached == [] and model.weight.grad is None
        raise Left


def test_models_are_copied_and_saved_while_hooks_are_there(tmp_path: pathlib.Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
    with tt.join(model, torch.optim.SGD(model.parameters(), lr=0.1), data=torch.randn(16, 4), batch=16, piece=4):
        copy.deepcopy(model)
        torch.save(model, tmp_path / "model.pt")
    assert not any(module._forward_pre_hooks for module in model.modules())
