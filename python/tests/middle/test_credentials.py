# SPDX-License-Identifier: Apache-2.0
"""Over TLS: who has the right credential takes part, and others hear why not, while the server serves the former."""

import pathlib
import shutil
import threading

import keys as credentials_of
import numpy as np
import pytest

import tarry

pytestmark = credentials_of.needs_openssl
MEMBERS = ("server", "worker-0", "worker-1")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return credentials_of.make_cluster(tmp_path_factory.mktemp("keys") / "ours", MEMBERS)


@pytest.fixture(scope="module")
def other_keys(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return credentials_of.make_cluster(tmp_path_factory.mktemp("keys") / "theirs", MEMBERS)


def work(address: str, credentials: pathlib.Path, worker: int | None = None, patience: float = 20.0) -> None:
    with tarry.Worker(address, credentials=credentials, worker=worker, patience=patience) as one:
        for task in one:
            task.gradient[:] = task.parameters


def test_a_wrong_credential_is_told_and_the_right_ones_go_on(keys: pathlib.Path, other_keys: pathlib.Path) -> None:
    plan = tarry.Plan(2, replication=2)
    with tarry.Server(plan, dimension=1, listen="127.0.0.1:0", credentials=keys / "server") as server:
        server.open()
        address = server.addresses[0]
        with pytest.raises(tarry.SystemResourceError, match="certificate"):  # the server may get another one meanwhile
            work(address, other_keys / "worker-0", patience=0.5)
        with pytest.raises(tarry.Error, match="credential"):
            work(address, keys / "worker-1", worker=0)
        threads = [threading.Thread(target=work, args=(address, keys / f"worker-{one}")) for one in range(2)]
        for thread in threads:
            thread.start()
        server.wait(timeout=20)
        total = np.zeros(1, np.float32)
        server.round(np.array([3], np.float32), out=total)
        assert total.tolist() == [6]
    for thread in threads:
        thread.join()


def test_a_credential_that_lacks_a_file_is_told(keys: pathlib.Path, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "worker-0"
    shutil.copytree(keys / "worker-0", folder)
    (folder / "key.pem").unlink()
    with pytest.raises(tarry.Error, match=r"key\.pem"):
        work("127.0.0.1:1", folder)


def test_the_credential_of_a_worker_is_none_of_a_server(keys: pathlib.Path) -> None:
    with pytest.raises(tarry.Error, match="worker-0"):
        tarry.Server(tarry.Plan(1), 1, listen="127.0.0.1:0", credentials=keys / "worker-0")
