# SPDX-License-Identifier: Apache-2.0
"""Credentials as `tarry keys` makes them, by the command openssl."""

import hashlib
import pathlib
import shutil
import ssl
import subprocess
from collections.abc import Iterable

import pytest

SECURE_WORKERS = 4  # of the fixture `keys`
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="the command openssl makes the credentials")

_CONFIGURATION = """\
[ca]
default_ca = cluster
[cluster]
database = {0}/index.txt
default_md = sha256
default_crl_days = 2
"""


def openssl(*words: str | pathlib.Path) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def make_cluster(folder: pathlib.Path, names: Iterable[str]) -> pathlib.Path:
    """An authority, and below it a folder for each member."""
    folder.mkdir()
    new = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    ca, ca_key = folder / "ca.pem", folder / "ca-key.pem"
    openssl(*new, "-subj", "/CN=authority", "-keyout", ca_key, "-out", ca)
    for name in names:
        own = folder / name
        own.mkdir()
        more = ("-addext", "subjectAltName=DNS:tarry-server") if name == "server" else ()
        openssl(
            *new, *more, "-CA", ca, "-CAkey", ca_key, "-subj", f"/CN={name}", "-addext", "basicConstraints=CA:FALSE",
            "-addext", "extendedKeyUsage=serverAuth,clientAuth", "-keyout", own / "key.pem", "-out", own / "cert.pem",
        )  # fmt: skip
        (own / "key.pem").chmod(0o600)
        shutil.copy(ca, own / "ca.pem")
    return folder


def _fingerprint(certificate: pathlib.Path) -> str:
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.read_text())).hexdigest()


def sign_roster(folder: pathlib.Path, workers: int) -> None:
    """As `tarry keys roster` does, of worker-0 and those that follow."""
    lines = ["tarry roster 1", f"authority {_fingerprint(folder / 'ca.pem')}", "number 1"]
    lines += [f"worker-{one} {_fingerprint(folder / f'worker-{one}' / 'cert.pem')}" for one in range(workers)]
    text, signature = folder / "roster.body", folder / "roster.signature"
    text.write_text("\n".join(lines) + "\n")
    openssl("dgst", "-sha256", "-sign", folder / "ca-key.pem", "-out", signature, text)
    for name in ("server", *(f"worker-{one}" for one in range(workers))):
        (folder / name / "roster.txt").write_text(f"{text.read_text()}signature {signature.read_bytes().hex()}\n")


def make_secure_cluster(folder: pathlib.Path, workers: int) -> pathlib.Path:
    """Of a server and so many workers that may take part in secure sums."""
    make_cluster(folder, ("server", *(f"worker-{one}" for one in range(workers))))
    sign_roster(folder, workers)
    return folder


def forget_agreements(folder: pathlib.Path) -> None:
    """As if no worker of secure sums had agreed to anything yet."""
    for remembered in folder.glob("worker-*/secure/*"):
        remembered.unlink()


def revoke(folder: pathlib.Path, name: str) -> None:
    """In the server's folder, too."""
    configuration = folder / "ca.conf"
    configuration.write_text(_CONFIGURATION.format(folder))
    (folder / "index.txt").touch()
    ca = ("ca", "-config", configuration, "-keyfile", folder / "ca-key.pem", "-cert", folder / "ca.pem")
    openssl(*ca, "-revoke", folder / name / "cert.pem")
    openssl(*ca, "-gencrl", "-out", folder / "revoked.pem")
    shutil.copy(folder / "revoked.pem", folder / "server" / "revoked.pem")


def context(folder: pathlib.Path, *, accepting: bool) -> ssl.SSLContext:
    """Of a member, towards others of its cluster."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if accepting else ssl.PROTOCOL_TLS_CLIENT)
    made.verify_mode, made.check_hostname = ssl.CERT_REQUIRED, not accepting
    made.load_verify_locations(folder / "ca.pem")
    made.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return made
