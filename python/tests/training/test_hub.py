# SPDX-License-Identifier: Apache-2.0
"""The hub by itself: who is taken, what is refused, and what comes in from anybody."""

import dataclasses
import os
import pathlib
import subprocess
import types
from typing import Any, cast

import pytest

from tarry import ArgumentError, Error, FormatError, SumId, SystemResourceError
from tarry.control import Closed, Control
from tarry.hub import Agreement, Client, Hub, address, blob, storage
from tarry.hub.client import Refused
from tarry.hub.settings import HubSettings, default_listen
from tarry.settings import ServerSettings

AGREEMENT = Agreement(
    dimension=10, units=4, samples=100, batch=8, piece=2, seed=1, replication=0, parts=1,
    settings={"sum": "everywhere"}, engine="direct", exact=0,
    model="weight (2, 5)\nbias (5,)", options="", checkpoint="", checkpoint_seconds=60.0,
)  # fmt: skip


def changed(**more: Any) -> Agreement:
    """A setting of the server is one of its settings."""
    own: Any = {name: more.pop(name) for name in [*more] if name in ServerSettings.__annotations__}
    return dataclasses.replace(AGREEMENT, settings=AGREEMENT.settings | own, **more)


def a_hub(workers: int = 2) -> Hub:
    return Hub(default_listen(), HubSettings(workers, default_listen()))


def test_the_first_state_is_that_of_the_first_worker() -> None:
    state = blob.join({}, b"state of the first")
    with a_hub() as hub:
        first, second = Client(hub.address), Client(hub.address)
        assert first.join(0, AGREEMENT, lambda: state).state is None
        welcome = second.join(1, AGREEMENT, lambda: b"its own")
        assert welcome.state == state and welcome.last is None
        assert (welcome.worker, welcome.workers) == (1, 2)
        first.close()
        second.close()


def test_who_dies_before_its_state_came_leaves_that_to_the_next() -> None:
    with a_hub() as hub:
        first, second = Client(hub.address), Client(hub.address)

        def die() -> bytes:
            first.close()
            raise RuntimeError("it dies")

        with pytest.raises(RuntimeError):
            first.join(0, AGREEMENT, die)
        assert second.join(1, AGREEMENT, lambda: b"its own").state is None
        second.close()


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (changed(samples=99), "data of 99 samples where the others have 100"),
        (changed(batch=6), "a batch of 6 where the others have 8"),
        (changed(model="weight (2, 6)\nbias (5,)"), r"weight \(2, 6\) where the others have weight \(2, 5\)"),
        (changed(model="weight (2, 5)"), r"nothing more where the others have bias \(5,\)"),
        (changed(parts=2), "parts 2 where the others have 1"),
        (changed(sum="server"), "sum 'server' where the others have 'everywhere'"),
        (changed(compress="int8"), "compress 'int8' where the others have 'none'"),
        (changed(compress_down="int8"), "compress_down 'int8' where the others have 'none'"),
        (changed(compress="topk", compress_share=0.1), "compress 'topk' where the others have 'none'"),
        (changed(reproducible=True), "reproducible True where the others have False"),
    ],
)
def test_others_are_refused(other: Agreement, why: str) -> None:
    with a_hub() as hub:
        first, second = Client(hub.address), Client(hub.address)
        first.join(0, AGREEMENT, lambda: b"")
        with pytest.raises(Refused, match=why):
            second.join(1, other, lambda: b"")
        first.close()
        second.close()


@pytest.mark.parametrize(
    ("parts", "told", "why"),
    [
        (2, False, "step 0: the sum looks as if a piece were not finite, but no worker has such a piece. With 2 parts"),
        (2, True, "step 0, what was told"),
        (1, False, "step 0: the gradient of a piece is not finite"),
    ],
)
def test_a_mark_without_a_report_names_its_causes(parts: int, told: bool, why: str) -> None:
    with a_hub() as hub:
        first, second = Client(hub.address), Client(hub.address)
        for number, client in enumerate((first, second)):
            client.join(number, changed(parts=parts, nonfinite="raise"), lambda: b"")
        if told:
            second.tell_nonfinite(0, 1, "what was told")
        with pytest.raises(Error, match=why):
            first.ask_nonfinite(0, marked=True)
        first.close()
        second.close()


def test_a_mark_without_a_report_is_skipped_if_marks_are() -> None:
    """Rounding may make a mark of several parts, and rounding is no reason to end."""
    with a_hub() as hub:
        first, second = Client(hub.address), Client(hub.address)
        for number, client in enumerate((first, second)):
            client.join(number, changed(parts=2, nonfinite="skip"), lambda: b"")
        first.ask_nonfinite(0, marked=True)
        second.ask_nonfinite(0, marked=True)
        first.close()
        second.close()


def test_a_worker_that_is_none_is_refused() -> None:
    with a_hub() as hub:
        client = Client(hub.address)
        with pytest.raises(Refused, match="there is no worker 2 of 2"):
            client.join(2, AGREEMENT, lambda: b"")
        client.close()


def test_a_training_that_can_not_be_is_refused() -> None:
    nowhere = AGREEMENT.message() | {"settings": {"sum": "nowhere"}}
    for message, why in ((changed(replication=3).message(), "replication 3"), (nowhere, "sum must be server or every")):
        with a_hub() as hub:
            client = Client(hub.address)
            with pytest.raises(Refused, match=why):
                client.join(0, cast(Agreement, types.SimpleNamespace(message=lambda of=message: of)), lambda: b"")
            client.close()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"sum": "nowhere"}, "sum must be server or everywhere, not 'nowhere'"),
        ({"sum": "server", "compress_rank": -1}, "compress_rank must be"),
        ({"sum": "server", "silence": None}, "unknown settings of a server: silence"),
        ({"sum": "server", "secure": 32}, "unknown settings of a server: secure"),
        ({"sum": "server", "reproducible": "false"}, "reproducible is 'false', and must be True or False"),
        (
            {"sum": "server", "of_tomorrow": 1},
            "a worker of another version: unknown settings of a server: of_tomorrow",
        ),
        ("everywhere", "a worker of another version"),
        ({"sum": "server", "compress_matrices": 5}, "compress_matrices is 5, and must be pairs"),
        ({"sum": "server", "compress_matrices": [[1]]}, "must be pairs of rows and columns"),
    ],
)
def test_settings_that_a_server_can_not_have_are_refused(settings: Any, why: str) -> None:
    with pytest.raises((ArgumentError, FormatError), match=why):
        Agreement.of(AGREEMENT.message() | {"settings": settings})


def test_settings_that_do_not_count_do_not_differ() -> None:
    """The share of what is sent, where all is."""
    assert AGREEMENT.difference(changed(compress_share=0.1)) == ""


@pytest.mark.parametrize("text", [b"\n", b"{}", b"[1]", b'{"bytes": -1}', b'{"bytes": 5}', b"\xff\xfe", b"x" * 100_000])
def test_anything_may_come_in(text: bytes) -> None:
    """The hub ends that connection, and goes on."""
    with a_hub() as hub:
        stranger = Control(connect=hub.address, insecure=True)
        connection = stranger.accept()
        assert not isinstance(connection, str)
        connection.say(1, text)
        with pytest.raises(Closed):
            connection.take(bytes)
        stranger.close()
        client = Client(hub.address)
        assert client.join(0, AGREEMENT, lambda: b"").state is None
        client.close()


def test_no_hub_is_said() -> None:
    with pytest.raises(SystemResourceError, match="no hub at unix:@tarry-nobody"):
        Client("unix:@tarry-nobody", patience=0.1)
    with pytest.raises(ArgumentError, match="is no address"):
        address.split("somewhere")


@pytest.mark.skipif(
    os.geteuid() != 0 or not pathlib.Path("/usr/bin/python3").exists(), reason="needs another user, and a Python for it"
)
def test_another_user_is_not_heard() -> None:
    code = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect('\\0' + sys.argv[1]); print(s.recv(9))"
    with a_hub() as hub:
        ended = subprocess.run(
            ["/usr/bin/python3", "-c", code, hub.address.removeprefix("unix:@")],
            user=65534, capture_output=True, text=True, timeout=20, check=False, cwd="/",
        )  # fmt: skip
        assert ended.returncode != 0 or ended.stdout.strip() == "b''", ended.stderr


# ---- what is kept ----


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: pathlib.Path) -> None:
    state = blob.join(
        {"__metadata__": {"a": "b"}, "x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, b"1234"
    )
    known = storage.Checkpoint(state, SumId(3, 2, 1, 99), 7, b"server", bytes(range(16)), 4, AGREEMENT.message())
    path = str(tmp_path / "x.ckpt")
    storage.write(path, known)
    found = storage.read(path)
    assert found is not None and found == known
    assert storage.read(str(tmp_path / "none")) is None


@pytest.mark.parametrize("cut", [0, 4, 20, 300])
def test_a_checkpoint_that_is_cut_off_is_none(tmp_path: pathlib.Path, cut: int) -> None:
    path = tmp_path / "x.ckpt"
    state = blob.join({}, b"1234")
    storage.write(str(path), storage.Checkpoint(state, SumId(3, 2, 1, 99), 7, b"s", bytes(16), 4, AGREEMENT.message()))
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(FormatError):
        storage.read(str(path))


def test_the_log_goes_back_and_forgets_what_was_cut_off(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "x.log")
    log = storage.SumLog(path)
    assert log.last is None and log.term == 1
    for step in (1, 2, 3):
        log.append(SumId(step, 1, step, 10 * step))
    log.append(SumId(1, 2, 0, 0))  # back to the state after step 1
    log.close()
    assert storage.SumLog(path).term == 3
    log = storage.SumLog(path)
    log.append(SumId(2, 2, 1, 77))
    log.close()
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"step": 3, "te')
    log = storage.SumLog(path)
    assert log.last == (SumId(2, 2, 1, 77), SumId(1, 1, 1, 10))
    assert log.term == 3
    log.append(SumId(3, 3, 1, 5))
    log.close()
    log = storage.SumLog(path)
    assert log.last == (SumId(3, 3, 1, 5), SumId(2, 2, 1, 77))
    log.close()
