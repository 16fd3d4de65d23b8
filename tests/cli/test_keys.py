# SPDX-License-Identifier: Apache-2.0
"""tarry keys: one command makes a cluster, its files are for their owner alone, and openssl agrees with them."""

import os
import re
import shutil
import signal
import ssl
import stat
import subprocess
import time
import unittest

from harness import TARRY, TIMEOUT, TarryTest

OPENSSL = shutil.which("openssl")


class Keys(TarryTest):
    def make(self, *options):
        return self.succeed("keys", "init", "c", "--workers", "2", *options)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def table(self):
        head, *rows = [line.split(maxsplit=3) for line in self.succeed("keys", "list", "c").splitlines()]
        rows = [row for row in rows if row[0] != "roster:"]
        self.assertEqual(head, ["name", "serial", "expires", "state"])
        for _, serial, expires, _ in rows:
            self.assertRegex(serial, r"^[0-9a-f]{32}$")
            self.assertRegex(expires, r"^\d{4}-\d{2}-\d{2}$")
        self.assertEqual(len({row[1] for row in rows}), len(rows))
        return [(name, state) for name, _, _, state in rows]

    def openssl(self, *arguments):
        return subprocess.run([OPENSSL, *arguments], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60)

    def verify(self, purpose, member):
        return self.openssl("verify", "-x509_strict", "-purpose", purpose, "-CAfile", "c/ca.pem", "-crl_check",
                            "-CRLfile", "c/revoked.pem", f"c/{member}/cert.pem")


class Making(Keys):
    def test_one_command_makes_all_members(self):
        text = self.make()
        for word in ("c.", "server", "worker-0 .. worker-1", "viewer", "ca-key.pem"):
            self.assertIn(word, text)
        self.assertEqual(self.files(), ["c"])
        members = ["server", "viewer", "worker", "worker-0", "worker-1"]
        self.assertEqual(sorted(os.listdir(self.path("c"))),
                         sorted(["ca-key.pem", "ca.pem", "issued", "revoked.pem", *members]))
        for member in members:
            self.assertEqual(sorted(os.listdir(self.path("c", member))),
                             ["ca.pem", "cert.pem", "key.pem", "revoked.pem"])
        self.assertEqual(self.table(), [("server", "good"), ("worker-0", "good"), ("worker-1", "good"),
                                        ("worker", "good"), ("viewer", "good")])

    def test_one_worker(self):
        self.assertIn("\n  worker-0                     the worker with id 0\n",
                      self.succeed("keys", "init", "c/", "--workers", "1"))

    def test_only_the_owner_reads_anything(self):
        old = os.umask(0)
        try:
            self.make()
            self.succeed("keys", "add", "c", "worker-7")
            self.succeed("keys", "revoke", "c", "worker-1")
        finally:
            os.umask(old)
        seen = 0
        for folder, _, files in os.walk(self.path("c")):
            self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)
            for name in files:
                self.assertEqual(stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode), 0o600, name)
                seen += 1
        self.assertEqual(seen, 3 + 6 + 6 * 4)

    def test_keys_are_never_shown(self):
        shown = self.make() + self.succeed("keys", "list", "c")
        self.assertNotIn("PRIVATE", shown)
        for line in self.read("c/ca-key.pem").splitlines()[1:-1]:
            self.assertNotIn(line, shown)

    def test_a_cluster_is_never_overwritten(self):
        self.make()
        before = self.read("c/ca-key.pem")
        self.fail_with(1, "tarry: keys: init: c: exists already", "keys", "init", "c", "--workers", "3")
        self.assertEqual(self.read("c/ca-key.pem"), before)
        self.write("file", "kept")
        self.fail_with(1, "tarry: keys: init: file: exists already", "keys", "init", "file", "--workers", "3")
        self.fail_with(1, "tarry: keys: init: no/where: No such file or directory", "keys", "init", "no/where",
                       "--workers", "3")
        self.assertEqual(self.files(), ["c", "file"])

    def test_an_interrupted_cluster_leaves_nothing(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.start("keys", "init", "c", "--workers", "100000")
            end = time.monotonic() + TIMEOUT
            while not self.files() and time.monotonic() < end:
                time.sleep(0.01)
            process.send_signal(number)
            out, err = process.communicate(timeout=TIMEOUT)
            self.assertEqual((process.returncode, out), (1, ""))
            self.assertEqual(err, "tarry: keys: init: interrupted, nothing was made\n")
            self.assertEqual(self.files(), [])

    def test_names_of_flags_take_the_place_of_the_job_file_s(self):
        self.write("job.ini", "workers = 1\nname = one.example\n")
        for folder, flags, names in (("c", [], [b"one.example"]),
                                     ("d", ["--name", "two.example", "--name", "a.example"],
                                      [b"two.example", b"a.example"])):
            self.succeed("keys", "init", folder, "--config", "job.ini", *flags)
            certificate = ssl.PEM_cert_to_DER_cert(self.read(f"{folder}/server/cert.pem"))
            self.assertEqual(re.findall(rb"\w+\.example", certificate), names)

    def test_openssl_agrees(self):
        self.make("--name", "node1.example.org", "--name", "192.0.2.7")
        for purpose, member in (("sslserver", "server"), ("sslclient", "worker-1"), ("sslclient", "worker"),
                                ("sslclient", "viewer"), ("sslclient", "server"), ("sslserver", "worker-0")):
            done = self.verify(purpose, member)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotEqual(self.verify("sslserver", "viewer").returncode, 0)
        text = self.openssl("x509", "-in", "c/server/cert.pem", "-noout", "-subject", "-ext", "subjectAltName").stdout
        self.assertIn("CN = server", text)
        self.assertIn("DNS:tarry-server, DNS:node1.example.org, IP Address:192.0.2.7", text)
        self.succeed("keys", "revoke", "c", "worker-1")
        self.assertIn("certificate revoked", self.verify("sslclient", "worker-1").stderr)
        self.assertEqual(self.verify("sslclient", "worker-0").returncode, 0)


class Changing(Keys):
    def setUp(self):
        super().setUp()
        self.make()

    def test_members_come_and_go(self):
        self.assertIn("c/worker-12", self.succeed("keys", "add", "c", "worker-12"))
        self.assertTrue(os.path.exists(self.path("c", "worker-12", "key.pem")))
        old = self.read("c/revoked.pem")
        self.assertIn("c/revoked.pem", self.succeed("keys", "revoke", "c", "worker-12"))
        self.assertNotEqual(self.read("c/revoked.pem"), old)
        self.assertEqual(self.read("c/revoked.pem"), self.read("c/server/revoked.pem"))
        self.assertIn(("worker-12", "revoked"), self.table())
        self.fail_with(1, "tarry: keys: revoke: worker-12: revoked already", "keys", "revoke", "c", "worker-12")
        key = self.read("c/worker-12/key.pem")
        self.succeed("keys", "add", "c", "worker-12")
        self.assertNotEqual(self.read("c/worker-12/key.pem"), key)
        self.assertEqual([state for name, state in self.table() if name == "worker-12"].count("good"), 1)
        self.assertIn("of every member", self.succeed("keys", "revoke", "c", "server"))
        self.succeed("keys", "add", "c", "server", "--name", "localhost")

    def test_one_of_several_certificates(self):
        """A renewed one is revoked with the others of its name, which is said, unless a serial number is given."""
        def serials():
            rows = [line.split() for line in self.succeed("keys", "list", "c").splitlines()]
            return [row[1] for row in rows if row[0] == "worker-1" and row[3] == "good"]

        for _ in range(2):
            shutil.rmtree(self.path("c", "worker-1"))
            self.succeed("keys", "add", "c", "worker-1")
        first, *others = serials()
        self.assertEqual(len(others), 2)
        self.fail_with(1, "tarry: keys: revoke: worker-1: no certificate with the serial 12ab that is still good (tarry keys "
                          "list c shows them)", "keys", "revoke", "c", "worker-1", "--serial", "12ab")
        self.assertEqual(self.succeed("keys", "revoke", "c", "worker-1", "--serial", first.upper()).splitlines()[0],
                         f"Revoked the certificate {first.upper()} of worker-1; 2 of that name are still good. Copy "
                         "c/revoked.pem over the revoked.pem of the server's machine.")
        self.assertEqual(serials(), others)
        self.assertEqual(self.succeed("keys", "revoke", "c", "worker-1").splitlines(),
                         ["Revoked all 2 certificates of worker-1, the renewed ones included. Copy c/revoked.pem over the "
                          "revoked.pem of the server's machine.",
                          "For another certificate of that name: tarry keys add c worker-1"])
        self.assertEqual(serials(), [])

    def test_what_exists_is_kept(self):
        key = self.read("c/worker-1/key.pem")
        self.fail_like(1, r"tarry: keys: add: c/worker-1: exists already \(revoke worker-1, or move .*\)", "keys", "add",
                       "c", "worker-1")
        self.assertEqual(self.read("c/worker-1/key.pem"), key)

    def test_an_add_that_dies_blocks_nothing(self):
        """In the middle of the first file that it writes, which is the one for the list."""
        before = self.table()
        files = sorted(os.listdir(self.path("c", "issued")))
        died = subprocess.run(["sh", "-c", 'ulimit -f 0 && exec "$@"', "sh", TARRY, "keys", "add", "c", "worker-9"],
                              cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(died.returncode, -signal.SIGXFSZ, died.stderr)
        left = [name for name in os.listdir(self.path("c", "issued")) if name not in files]
        self.assertEqual([(name[32:], os.path.getsize(self.path("c", "issued", name))) for name in left],
                         [(".pem.new", 0)])
        self.assertEqual(self.table(), before)
        self.succeed("keys", "add", "c", "worker-9")
        self.succeed("keys", "revoke", "c", "worker-9")
        self.assertEqual(sorted(self.table()), sorted([*before, ("worker-9", "revoked")]))

    def test_the_roster_follows_who_is_there(self):
        self.assertNotIn("roster", self.succeed("keys", "list", "c"))
        self.assertIn("Signed a roster: number 1, of 2 workers.\n", self.succeed("keys", "roster", "c"))
        first = self.read("c/roster.txt")
        self.assertEqual([line.split()[0] for line in first.splitlines()],
                         ["tarry", "authority", "number", "worker-0", "worker-1", "signature"])
        for member in ("server", "worker-0", "worker-1"):
            self.assertEqual(self.read(f"c/{member}/roster.txt"), first)
        for member in ("worker", "viewer"):
            self.assertFalse(os.path.exists(self.path("c", member, "roster.txt")))
        self.assertIn("is that of before: number 1, of 2 workers.\n", self.succeed("keys", "roster", "c"))
        self.assertEqual(self.read("c/roster.txt").splitlines()[:-1], first.splitlines()[:-1])
        self.assertEqual([name for name, state in self.table() if state == "good, on the roster"],
                         ["worker-0", "worker-1"])
        self.assertTrue(self.succeed("keys", "list", "c").endswith("\nroster: number 1, of 2 workers\n"))
        self.assertIn("on the roster of secure sums: tarry keys roster c", self.succeed("keys", "revoke", "c", "worker-1"))
        self.succeed("keys", "add", "c", "worker-7")
        self.assertIn("number 2, of 2 workers.\n", self.succeed("keys", "roster", "c"))
        self.assertNotIn("worker-1 ", self.read("c/roster.txt"))
        self.assertEqual(self.read("c/worker-7/roster.txt"), self.read("c/roster.txt"))

    @unittest.skipIf(OPENSSL is None, "the openssl command is not there")
    def test_openssl_agrees_with_the_roster(self):
        """Its fingerprints are those of the certificates, and its signature is the authority's."""
        self.succeed("keys", "roster", "c")
        text = self.read("c/roster.txt")
        lines = dict(line.split() for line in text.splitlines()[1:])
        for name, path in (("authority", "c/ca.pem"), ("worker-0", "c/worker-0/cert.pem"),
                           ("worker-1", "c/worker-1/cert.pem")):
            shown = self.openssl("x509", "-in", path, "-noout", "-fingerprint", "-sha256").stdout
            self.assertEqual(shown.split("=")[1].strip().replace(":", "").lower(), lines[name])
        with open(self.path("body"), "w") as body:
            body.write(text[:text.index("signature ")])
        with open(self.path("signature"), "wb") as signature:
            signature.write(bytes.fromhex(lines["signature"]))
        with open(self.path("public.pem"), "w") as public:
            public.write(self.openssl("x509", "-in", "c/ca.pem", "-noout", "-pubkey").stdout)
        done = self.openssl("dgst", "-sha256", "-verify", "public.pem", "-signature", "signature", "body")
        self.assertEqual((done.returncode, done.stdout), (0, "Verified OK\n"))

    def test_a_roster_that_is_none_is_not_written_over(self):
        self.write("c/roster.txt", "nothing")
        for action in ("roster", "list"):
            self.fail_with(1, f"tarry: keys: {action}: c/roster.txt: this is no roster", "keys", action, "c")
        self.assertEqual(self.read("c/roster.txt"), "nothing")

    def test_a_name_with_a_typo(self):
        for action in ("add", "revoke"):
            start = f"tarry: keys: {action}: "
            self.fail_with(2, start + "'vewer' is no member's name (did you mean viewer?)", "keys", action, "c", "vewer")
            for name in ("worker-", "worker-01", "worker-x", "../../etc", "worker-1/.."):
                self.fail_like(2, re.escape(f"{start}'{name}' is no member's name") + ".*", "keys", action, "c", name)
        self.fail_with(1, "tarry: keys: revoke: worker-77: no such member in c", "keys", "revoke", "c", "worker-77")

    def test_broken_directories(self):
        for arguments in (("add", "d", "worker-1"), ("revoke", "d", "worker-1"), ("list", "d")):
            self.fail_with(1, f"tarry: keys: {arguments[0]}: d: No such file or directory", "keys", *arguments)
        os.chmod(self.path("c", "ca-key.pem"), 0o644)
        self.fail_like(1, r"tarry: keys: add: c/ca-key.pem: others may read or write this key \(chmod 600 .*\)", "keys",
                       "add", "c", "worker-9")
        os.chmod(self.path("c", "ca-key.pem"), 0o600)
        self.write("c/ca-key.pem", self.read("c/worker-0/key.pem"))
        self.fail_with(1, "tarry: keys: revoke: c/ca-key.pem: not the key of ca.pem", "keys", "revoke", "c", "worker-0")
        self.write("c/revoked.pem", "nothing")
        self.fail_like(1, "tarry: keys: list: c/revoked.pem: .*", "keys", "list", "c")
        os.unlink(self.path("c", "revoked.pem"))
        self.fail_like(1, "tarry: keys: list: c/revoked.pem: No such file or directory", "keys", "list", "c")


class Usage(Keys):
    def test_help(self):
        text = self.succeed("keys", "--help")
        for action in ("init", "add", "revoke", "roster", "list"):
            self.assertIn(f"tarry keys {action} ", text)
        self.assertIn("--workers=N", self.succeed("keys", "init", "--help"))
        self.assertTrue(self.succeed("keys", "add", "--help").startswith("Usage: tarry keys add [OPTION...] DIR NAME\n"))

    def test_wrong_usage(self):
        self.fail_with(2, "tarry: keys: say what to do (see tarry keys --help)", "keys")
        self.fail_with(2, "tarry: keys: 'lst' is no action (did you mean list?)", "keys", "lst")
        self.fail_with(2, "tarry: keys: 'frobnicate' is no action (see tarry keys --help)", "keys", "frobnicate")
        self.fail_with(2, "tarry: keys init: DIR is missing (see tarry keys init --help)", "keys", "init")
        self.fail_with(2, "tarry: keys init: DIR is empty", "keys", "init", "")
        self.fail_with(2, "tarry: keys add: NAME is missing (see tarry keys add --help)", "keys", "add", "c")
        self.fail_with(2, "tarry: keys list: unexpected argument 'd'", "keys", "list", "c", "d")
        self.fail_with(2, "tarry: keys: init: say how many workers there are (--workers N)", "keys", "init", "c")
        self.fail_like(2, "tarry: --workers: 0 is not in the range 1 to 100000", "keys", "init", "c", "--workers", "0")
        self.fail_with(2, "tarry: --name: 'a,b' is neither a host's name nor an IP address", "keys", "init", "c",
                       "--workers", "1", "--name", "a,b")
        self.fail_with(2, "tarry: --name: more than 32 are given", "keys", "init", "c", "--workers", "1",
                       *["--name=a"] * 33)
        self.fail_with(2, "tarry: keys: add: --name is for the server, not for viewer", "keys", "add", "c", "viewer",
                       "--name", "a")
        self.assertEqual(self.files(), [])
