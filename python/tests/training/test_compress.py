# SPDX-License-Identifier: Apache-2.0
"""Gradients that are sent in fewer bytes: exact but for what the form costs, the same bits on all workers, through
deaths and resumes."""

import os
import pathlib
import signal
from typing import Any

import pytest
import runs
from conftest import FULL
from test_training import WORKERS, lines_with_a_kill, same, worst

torch = pytest.importorskip("torch")

import tarry.torch as tt  # noqa: E402
from tarry import ArgumentError  # noqa: E402

# How far a step's gradient may be from that of one process, of its largest number, and how far it is at least.
FORMS = {
    "bf16": (("--compress", "bf16"), 0.02, 1e-5),
    "int8": (("--compress", "int8"), 0.05, 1e-4),
    "int4": (("--compress", "int4"), 2.0, 1e-2),
    "topk": (("--compress", "topk", "--share", 0.3), 2.0, 1e-2),
    "sign": (("--compress", "sign"), 10.0, 1e-2),  # of gradients that become small, with residuals of those before
    "powersgd": (("--compress", "powersgd", "--rank", 2), 5.0, 1e-2),
    "down": (("--down", "int8"), 0.05, 1e-4),
    "both": (("--compress", "int8", "--down", "int8"), 0.1, 1e-4),
}
AT_SERVER_FORMS = ("bf16", "int8", "int4", "topk", "sign", "powersgd")
AMONG_WORKERS = ("bf16", "int8", "down", "both")
# Where the sum is made, and the form.
ALL_FORMS = [*(("server", form) for form in AT_SERVER_FORMS), *(("everywhere", form) for form in AMONG_WORKERS)]
EACH_FORM = pytest.mark.parametrize(("where", "form"), ALL_FORMS)
AT_SERVER = ("--sum", "server")


def told(lines: list[str], what: str) -> list[list[float]]:
    return [[float(word) for word in line.split()[1:]] for line in lines if line.startswith(f"{what} ")]


@EACH_FORM
def test_gradients_are_what_the_form_gives_and_what_rides_is_exact(where: str, form: str) -> None:
    words, most, least = FORMS[form]
    lines = runs.succeed("small", 40, "--check", "--sum", where, *words, workers=WORKERS)
    same(lines, 40)
    assert least < worst(lines) < most
    assert all(found < 1e-5 for (found,) in told(lines, "exact"))


@pytest.mark.parametrize("form", ["int4", "topk"])
def test_what_rounding_lost_comes_later(form: str) -> None:
    """The sums of all steps are off by what was lost last, however many there were. Without it they would be off by as
    much as the square root of their number."""
    words, _, _ = FORMS[form]
    few, many = (
        runs.succeed("small", steps, "--check", "--seconds", 0, *AT_SERVER, *words, workers=2) for steps in (2, 200)
    )
    assert max(most for most, _ in told(few, "off")) > 0.01
    assert max(last for _, last in told(many, "off")) < 5 * max(most for most, _ in told(few, "off"))


SPARSE = ("--reproducible", "--hidden", 64, "--samples", 480, "--compress", "topk", "--share", 0.01)


def test_a_hundredth_of_the_numbers_leaves_most_of_each_gradient_for_later() -> None:
    sparse = runs.succeed("small", 40, "--check", *AT_SERVER, *SPARSE, workers=WORKERS)
    assert all(apart >= 0.5 for each in told(sparse, "each") for apart in each)
    assert min(last for _, last in told(sparse, "off")) > 0.6


@pytest.mark.parametrize(("where", "form"), ALL_FORMS if FULL else [("server", "int4"), ("everywhere", "both")])
def test_a_killed_worker_costs_no_step_and_comes_back(where: str, form: str) -> None:
    words, most, _ = FORMS[form]
    lines = lines_with_a_kill("--sum", where, *words)
    assert worst(lines) < 2 * most
    assert all(found < 1e-5 for (found,) in told(lines, "exact"))


@pytest.mark.parametrize(
    ("where", "form"),
    [("server", "int8"), ("everywhere", "both"), *([("server", "bf16"), ("everywhere", "int8")] if FULL else [])],
)
def test_it_goes_on_from_its_checkpoint_and_repeats(tmp_path: pathlib.Path, where: str, form: str) -> None:
    """What is rounded by chance is so by the seed; where the server sums and a training goes on, the chances are those
    of other rounds."""
    words, most, _ = FORMS[form]
    arguments = ("--reproducible", "--sum", where, *words)
    once, again = (same(runs.succeed("small", 30, *arguments, workers=WORKERS), 30) for _ in range(2))
    assert once == again
    file = tmp_path / "run.ckpt"
    with runs.running(
        "small", 100_000, "--report", 1, "--seconds", 0.01, *arguments, "--checkpoint", file, workers=WORKERS
    ) as process:
        runs.await_line(process, "step 0 5")
        runs.await_true("no checkpoint was written", file.exists)
        for child in runs.workers(process).values():
            os.kill(child, signal.SIGKILL)
        process.kill()
    lines = runs.succeed("small", 60, "--check", *arguments, "--checkpoint", file, workers=WORKERS)
    begun = {int(line.split()[2]) for line in lines if line.startswith("begins ")}
    assert len(begun) == 1 and 0 < begun.pop() < 60
    resumed = same(lines, 60)
    assert worst(lines) < most
    if where == "everywhere":
        assert resumed == same(runs.succeed("small", 60, *arguments, workers=WORKERS), 60)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"compress": "int7"}, "compress is 'int7', and there are none, bf16, int8"),
        ({"compress": "int4"}, "compress='int4' goes with sum='server', and sum is 'everywhere'"),
        ({"compress": "int8", "engine": "nccl"}, "compress='int8' goes with engine='direct' and 'gloo': 'nccl' sums"),
        ({"compress": "int8", "sum": "server", "parts": 2}, "compress='int8' goes with one part, and parts is 2"),
        ({"compress": "topk", "sum": "server"}, r"compress_share is 0\.0: 'topk' sends a share"),
        ({"compress": "topk", "sum": "server", "compress_share": 0.6}, r"compress_share is 0\.6"),
        ({"compress": "int8", "sum": "server", "compress_share": 0.1}, "compress_share is for compress='topk'"),
        ({"compress": "powersgd", "sum": "server"}, "compress_rank is 0: 'powersgd' sends matrices of 1 to 64 columns"),
        ({"compress": "sign", "sum": "server", "compress_rank": 2}, "compress_rank is for compress='powersgd'"),
        ({"compress": "powersgd", "compress_rank": 2}, "compress='powersgd' goes with sum='server'"),
        ({"compress_down": "int4"}, "compress_down is 'int4', and there are none, bf16, int8"),
        ({"compress_down": "int8", "sum": "server"}, "compress_down='int8' goes with sum='everywhere'"),
        ({"compress_down": "bf16", "engine": "nccl"}, "compress_down='bf16' goes with engine='direct' and 'gloo'"),
        ({"compress_down": "int8", "parts": 2}, "compress_down='int8' goes with one part, and parts is 2"),
    ],
)
def test_what_can_not_be_is_told(options: dict[str, Any], why: str) -> None:
    model = torch.nn.Linear(3, 1)
    with pytest.raises(ArgumentError, match=why):
        tt.join(model, torch.optim.SGD(model.parameters(), lr=0.1), data=torch.zeros(8, 3), batch=4, piece=2, **options)
