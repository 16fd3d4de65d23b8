# SPDX-License-Identifier: Apache-2.0
"""What tarry work and tarry top say where a connection comes to nothing: one line, with what to do about it."""

import os
import socket
import time

from harness import TIMEOUT, TarryTest

JOB = ["--workers", "2", "--chunks", "2", "--replication", "2", "--samples", "100", "--features", "3", "--rounds",
       "1000000", "--quiet"]
LOST = r"tarry: work: %s: no connection for [0-9.]+ s: %s"


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


class Connecting(TarryTest):
    def setUp(self):
        super().setUp()
        self.address = f"127.0.0.1:{free_port()}"
        self.succeed("keys", "init", "keys", "--workers", "2")

    def serve(self, *security):
        server = self.start("serve", "--listen", self.address, *security, *JOB)
        self.addCleanup(self.stop, server)
        host, port = self.address.split(":")
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            with socket.socket() as one:
                if one.connect_ex((host, int(port))) == 0:
                    return
            time.sleep(0.02)
        self.fail("the server does not listen")

    def stop(self, process):
        process.kill()
        process.communicate()

    def work(self, *arguments):
        return ["work", "--connect", self.address, "--patience", "0.5", "--quiet", *arguments]

    def lost(self, reason, *arguments):
        self.fail_like(1, LOST % (self.address, reason), *self.work(*arguments))

    def test_nobody_there(self):
        done = self.run_tarry("work", "--connect", self.address, "--insecure", "--patience", "0.5")
        first, last = done.err.splitlines()
        self.assertRegex(first, f"^{self.address}: Connection refused; tries again in .*s$")
        self.assertRegex(last, LOST % (self.address, "Connection refused"))
        self.assertEqual(done.returncode, 1)
        self.fail_like(1, LOST % ("unix:none", "can't connect: No such file or directory"),
                       "work", "--connect", "unix:none", "--patience", "0.2", "--quiet")

    def test_a_name_that_is_unknown_is_said_once(self):
        name = "a.host.invalid:7077"
        done = self.run_tarry("work", "--connect", name, "--credentials", "keys/worker-0", "--patience", "0.2",
                              "--quiet")
        self.assertEqual((done.returncode, done.err.count(name)), (1, 1), done.err)

    def test_an_address_without_a_host(self):
        for command in (["work", "--credentials", "keys/worker-0"], ["top", "--credentials", "keys/viewer"]):
            self.fail_with(2, "tarry: --connect: :7077: the host is missing", *command, "--connect", ":7077")

    def test_plain_text_to_a_server_with_credentials(self):
        self.serve("--credentials", "keys/server")
        mute = r"(closed by the peer|Connection reset by peer) \(does it want credentials\?\)"
        self.lost(mute, "--insecure")
        self.fail_like(1, rf"tarry: top: {self.address}: {mute}", "top", "--connect", self.address, "--insecure")

    def test_credentials_for_a_server_without(self):
        self.serve("--insecure")
        self.lost(r"ended by the peer in the TLS handshake \(does it speak plain text\?\)",
                  "--credentials", "keys/worker-0")

    def test_another_kind_of_server(self):
        with socket.create_server(("127.0.0.1", int(self.address.split(":")[1]))) as other:
            worker = self.start(*self.work("--insecure"))
            self.addCleanup(self.stop, worker)
            other.settimeout(TIMEOUT)
            while worker.poll() is None:
                try:
                    connection, _ = other.accept()
                except TimeoutError:
                    break
                with connection:
                    connection.recv(1000)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(100))
                other.settimeout(1)
            err = worker.communicate(timeout=TIMEOUT)[1]
            self.assertRegex(err, LOST % (self.address, "what answers does not speak this protocol"))

    def test_the_credentials_of_another_cluster(self):
        self.serve("--credentials", "keys/server")
        self.succeed("keys", "init", "other", "--workers", "1")
        self.lost("peer's certificate: of another cluster than ca.pem", "--credentials", "other/worker-0")

    def test_a_revoked_certificate(self):
        """Who has it is told so, and does not try again; the server's own lines name it."""
        self.succeed("keys", "revoke", "keys", "worker-1")
        # Not that of `serve`, which has read its list by then.
        os.unlink(os.path.join(self.folder, "keys", "worker-1", "revoked.pem"))
        server = self.start("serve", "--listen", self.address, "--credentials", "keys/server", "--wait", "3", *JOB[:-1])
        self.addCleanup(self.stop, server)
        self.assertIn("listening", server.stderr.readline())
        revoked = (rf"tarry: work: {self.address}: refused: the certificate of worker-1 is revoked; tarry keys add makes "
                   "another one, where the authority is")
        self.fail_like(1, revoked, "work", "--connect", self.address, "--credentials", "keys/worker-1", "--quiet")
        told = []
        for line in server.stderr:
            told.append(line)
            if line.startswith("no worker is there yet"):
                break
        self.assertRegex(told[-1], r"^no worker is there yet; 1 connection was refused$")
        lines = [line for line in told if "refused 127.0.0.1: the certificate of worker-1 is revoked" in line]
        self.assertEqual(len(lines), 1, told)

    def test_nobody_is_missing(self):
        self.serve("--insecure")
        for _ in range(2):
            self.addCleanup(self.stop, self.start("work", "--connect", self.address, "--insecure", "--quiet",
                                                  "--straggler", "dead:2"))
        end = time.monotonic() + TIMEOUT
        while "2 workers: 2" not in self.run_tarry("top", "--connect", self.address, "--insecure").out:
            self.assertLess(time.monotonic(), end)
        self.lost("refused: no worker's id is free", "--insecure")

    def test_folders_that_are_no_members(self):
        for command in ("serve", "work"):
            self.fail_with(1, "tarry: --credentials: keys: holds a whole cluster; name the folder of one member in it",
                           command, "--credentials", "keys")
        self.write("keys/worker-0/key.pem", "junk\n")
        self.fail_with(1, "tarry: --credentials: keys/worker-0/key.pem: no private key in PEM, or one with a pass "
                       "phrase", "work", "--credentials", "keys/worker-0")
        self.write("keys/worker-1/cert.pem", "junk\n")
        self.fail_with(1, "tarry: --credentials: keys/worker-1/cert.pem: no certificate in PEM",
                       "work", "--credentials", "keys/worker-1")
