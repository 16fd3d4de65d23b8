# SPDX-License-Identifier: Apache-2.0
"""The hub over TCP: who is taken on by his credential, and what others hear, while the hub goes on."""

import contextlib
import pathlib
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator

import keys as credentials_of
import pytest
import runs
from test_hub import AGREEMENT

from tarry import ArgumentError, FileError, FormatError, SystemResourceError
from tarry.hub import Client, Hub, Security
from tarry.hub.client import NOBODY, Refused
from tarry.hub.settings import HubSettings

pytestmark = credentials_of.needs_openssl
WORKERS = 2
MEMBERS = ("server", "worker", "worker-0", "worker-1", "viewer")
HERE = "127.0.0.1:0"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return credentials_of.make_cluster(tmp_path_factory.mktemp("keys") / "ours", MEMBERS)


@pytest.fixture(scope="module")
def other_keys(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return credentials_of.make_cluster(tmp_path_factory.mktemp("keys") / "theirs", MEMBERS)


class Bench:
    """A hub, and what it has told."""

    def __init__(self, credentials: pathlib.Path | None, **settings: object) -> None:
        self.told: list[str] = []
        security = Security(insecure=True) if credentials is None else Security(str(credentials))
        self.hub = Hub(HERE, HubSettings(WORKERS, HERE, security=security, tell=self.told.append, **settings))  # type: ignore[arg-type]

    def await_told(self, text: str) -> None:
        runs.await_true(f"not told: {text}", lambda: self.has_told(text))

    def has_told(self, text: str) -> bool:
        return any(text in line for line in self.told)

    def refuses(self, credentials: pathlib.Path) -> bool:
        with pytest.raises(Refused, match="revoked"):
            self.join(credentials, 0)
        return True

    def join(self, credentials: pathlib.Path, worker: int, patience: float = 5.0) -> None:
        """As a worker with that credential; leaves again."""
        client = Client(self.hub.address, Security(str(credentials)).of_worker(worker), patience=patience)
        try:
            welcome = client.join(worker, AGREEMENT, lambda: b"")
            assert welcome.worker == worker
        finally:
            client.close()


@pytest.fixture
def bench(keys: pathlib.Path) -> Iterator[Bench]:
    made = Bench(keys)
    with made.hub:
        yield made


def test_workers_come_with_their_own_credentials_or_that_of_any(bench: Bench, keys: pathlib.Path) -> None:
    bench.join(keys, 0)
    bench.join(keys / "worker-1", 1)
    bench.join(keys / "worker", 1)
    assert bench.told == []


def test_a_worker_is_no_other_one(bench: Bench, keys: pathlib.Path) -> None:
    with pytest.raises(Refused, match="the credential of worker-0 is not for worker 1"):
        bench.join(keys / "worker-0", 1)
    bench.join(keys / "worker-1", 1)


def test_a_worker_attends_no_others(bench: Bench, keys: pathlib.Path) -> None:
    client = Client(bench.hub.address, Security(str(keys / "worker-1")).of_workers(None))
    with pytest.raises(Refused, match="the credential of worker-1 is not for worker 0"):
        client.attend(0, 2)
    client.close()
    client = Client(bench.hub.address, Security(str(keys / "worker-1")).of_workers(None))
    assert client.attend(None, 1) == (1, WORKERS)
    client.close()


@pytest.mark.parametrize("name", ["viewer", "server"])
def test_others_have_no_business_with_the_hub(bench: Bench, keys: pathlib.Path, name: str) -> None:
    with pytest.raises(FormatError, match=r"credentials of a server|not a server's, worker's or viewer's"):
        bench.join(keys / name, 0)
    bench.join(keys, 0)


def test_a_worker_is_no_hub(keys: pathlib.Path) -> None:
    with pytest.raises(FormatError, match="not the credentials of a server"):
        Bench(keys / "worker-0")


class Stranger:
    """Speaks TLS with these credentials, as the library would not. Whoever connects is answered by nothing."""

    def __init__(self, folder: pathlib.Path, *, accepting: bool) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if accepting else ssl.PROTOCOL_TLS_CLIENT)
        self.context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        if not accepting:
            self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
            return
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                with contextlib.suppress(OSError):
                    self.context.wrap_socket(connection, server_side=True).recv(1)

    def connect(self, address: str) -> bytes:
        """What the other side says."""
        host, _, port = address.rpartition(":")
        with (
            contextlib.suppress(OSError),  # an alert, or its end
            self.context.wrap_socket(socket.create_connection((host, int(port)))) as connection,
        ):
            connection.sendall(b"\0" * 100)
            return connection.recv(100)
        return b""


@pytest.mark.parametrize("host", ["worker", "tarry-server"])
def test_a_worker_that_poses_as_the_hub_is_not_believed(keys: pathlib.Path, tmp_path: pathlib.Path, host: str) -> None:
    """The role is asked for as well: a worker to whom somebody gave the server's host name is none."""
    cluster = tmp_path / "cluster"
    shutil.copytree(keys, cluster)
    own = cluster / "worker-0"
    ca = ("-CA", cluster / "ca.pem", "-CAkey", cluster / "ca-key.pem")
    credentials_of.openssl(
        "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", *ca, "-subj",
        "/CN=worker-0", "-addext", f"subjectAltName=DNS:{host}", "-addext", "basicConstraints=CA:FALSE",
        "-addext", "extendedKeyUsage=serverAuth,clientAuth", "-keyout", own / "key.pem", "-out", own / "cert.pem",
    )  # fmt: skip
    stranger = Stranger(own, accepting=True)
    with pytest.raises(SystemResourceError, match="peer's certificate: "):
        Client(stranger.address, Security(str(keys)).of_worker(1))
    stranger.listener.close()


def test_another_cluster_is_refused_on_both_sides(bench: Bench, keys: pathlib.Path, other_keys: pathlib.Path) -> None:
    with pytest.raises(SystemResourceError, match=r"of another cluster than ca\.pem"):
        bench.join(other_keys, 0)
    assert Stranger(other_keys / "worker-0", accepting=False).connect(bench.hub.address) == b""
    bench.await_told("is turned away: ")
    bench.join(keys, 0)


def test_who_is_revoked_meanwhile_is_refused(keys: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cluster = tmp_path / "cluster"
    shutil.copytree(keys, cluster)
    bench = Bench(cluster)
    with bench.hub:
        bench.join(cluster, 0)
        credentials_of.revoke(cluster, "worker-0")
        with pytest.raises(Refused, match="revoked"):
            bench.join(cluster, 0)
        bench.await_told("is turned away: the certificate of worker-0 is revoked")
        bench.join(cluster, 1)
        (cluster / "server" / "revoked.pem").write_text("nonsense")
        bench.told.clear()
        runs.await_true("the list is not told", lambda: bench.refuses(cluster) and bench.has_told("revoked.pem: "))
        bench.await_told("; what was read before is in force")


@pytest.mark.parametrize("text", [b'{"type":"join","bytes":0}\n', b"GET / HTTP/1.1\r\n\r\n", b"\0" * 2000, b""])
def test_plain_text_is_refused(bench: Bench, keys: pathlib.Path, text: bytes) -> None:
    host, _, port = bench.hub.address.rpartition(":")
    # The connection may be over before all was sent.
    with socket.create_connection((host, int(port))) as connection, contextlib.suppress(OSError):
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        heard = connection.recv(4096)  # an alert of TLS at most
        assert len(heard) < 10 and b"type" not in heard
    bench.join(keys, 0)


def test_a_worker_in_plain_text_hears_why(bench: Bench) -> None:
    with pytest.raises(SystemResourceError, match="does it want credentials"):
        Client(bench.hub.address, Security(insecure=True).of_worker(0))


def test_a_hub_in_plain_text_is_told(keys: pathlib.Path) -> None:
    bench = Bench(None)
    with bench.hub:
        with pytest.raises(SystemResourceError, match="does it speak plain text"):
            bench.join(keys, 0, patience=0.1)
        client = Client(bench.hub.address, Security(insecure=True).of_worker(0))
        assert client.join(0, AGREEMENT, lambda: b"").worker == 0
        client.close()


def test_plain_text_is_chosen() -> None:
    cases = ((Security(), "there have to be credentials"), (Security(insecure=True), "loopback addresses"))
    for security, why in cases:
        with pytest.raises(ArgumentError, match=why):
            Hub(":0", HubSettings(1, ":0", security=security))
        with pytest.raises(ArgumentError, match=why):
            Client("192.0.2.7:7070", security.of_worker(0))
    with pytest.raises(ArgumentError, match="there have to be credentials"):
        Client(HERE, NOBODY)
    with Hub(":0", HubSettings(1, ":0", security=Security(insecure=True, force=True))):
        pass


def test_many_silent_connections_keep_nobody_out(bench: Bench, keys: pathlib.Path) -> None:
    host, _, port = bench.hub.address.rpartition(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(200)]
    bench.join(keys, 0)
    assert silent[0].recv(1) == b""  # the oldest has made room
    for one in silent:
        one.close()


def test_a_key_that_others_may_read_is_not_used(keys: pathlib.Path, tmp_path: pathlib.Path) -> None:
    own = tmp_path / "server"
    shutil.copytree(keys / "server", own)
    (own / "key.pem").chmod(0o640)
    with pytest.raises(FileError, match="others may read or write this key"):
        Bench(own)


def test_a_folder_without_the_credential_is_told(keys: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileError, match=r"has no cert\.pem, and no folder server with one"):
        Bench(tmp_path)
    assert Security(str(keys)).of_worker(7).folder == str(keys / "worker")
    shutil.copytree(keys / "worker-1", tmp_path / "worker-1")
    with pytest.raises(FileError, match="no folder worker-0 or worker with one"):
        Security(str(tmp_path)).of_worker(0)
    assert Security(str(tmp_path)).of_workers(None).folder == str(tmp_path / "worker-1")
