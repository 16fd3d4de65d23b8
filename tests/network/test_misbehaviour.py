# SPDX-License-Identifier: Apache-2.0
"""
Peers that break the rules in the middle of a run: each is turned away, the log says so, and the training ends where an
undisturbed one does.
"""

import collections
import concurrent.futures
import contextlib
import os
import random
import resource
import signal
import socket
import ssl
import struct
import threading
import time
import unittest

import frames
from cluster import SILENCE, WAIT, NetworkTest, Stalls
from frames import Kind, Reason, Type
from peer import Peer, context

SEED = int(os.environ.get("TARRY_TEST_SEED", "1"))
WORKERS = 4
LIAR = WORKERS - 1  # no process: its place is for those who misbehave
JOB = ["--workers", str(WORKERS), "--chunks", str(WORKERS), "--pieces", "1", "--replication", "2",
       "--design", "cyclic", "--samples",
       "200", "--holdout", "0", "--features", "3000", "--rounds", "100000", "--verify", "--evaluate", "20", "--wait",
       "1"]
SLEEP = ["--straggler", "shifted-exp:0.01,0.002"]
SOON = 5  # seconds for a worker to start and to be let in, if the machine is not busy; a stranger has ten
ENOUGH = 20  # rounds after the last misbehaviour
HELD_UP = SILENCE / 2  # longer than an id's holder may be quiet where another asks for it
CROWD = 4000  # strangers, of whom
CROWD_AT_ONCE = 1500  # stay as long as the server lets them
OPEN_FILES = 512 + WORKERS + 50  # of the server at most
LINES, LINES_A_SECOND = 100, 20  # of its log about those whom it does not know


class Crowd(threading.Thread):
    """Connects again and again, and says nothing, half a HELLO, or the beginning of an endless TLS handshake."""

    WORDS = [b"", frames.hello()[:50], bytes.fromhex("16030100040101ff00")]

    def __init__(self, address):
        super().__init__(daemon=True)
        self.count, self._address, self._over = 0, address, False

    def run(self):
        there = collections.deque()
        while not self._over:
            with contextlib.suppress(OSError):
                there.append(socket.create_connection(self._address, timeout=1))
                self.count += 1
                there[-1].send(self.WORDS[self.count % len(self.WORDS)])
            if len(there) > CROWD_AT_ONCE:
                there.popleft().close()
        for stranger in there:
            stranger.close()

    def await_count(self, count):
        end = time.monotonic() + WAIT
        while self.count < count:
            assert time.monotonic() < end, f"{self.count} of {count} strangers could connect"
            time.sleep(0.01)

    def end(self):
        self._over = True
        self.join(WAIT)


class Misbehaviour(NetworkTest):
    def begin(self, keys=None, *options):
        self.keys_folder = keys
        self.stalls = self.enterContext(Stalls())
        self.training = self.cluster([*JOB, *options], keys=keys)
        self.address = self.training.serve()
        start = time.monotonic()
        for worker in range(WORKERS):
            if worker != LIAR:
                self.training.work(worker, self.address, *SLEEP)
        self.training.server.await_log("joined")
        self.joins = time.monotonic() - start
        self.training.server.await_log("round", exact=True)

    def finish(self):
        """The run goes on for some rounds, and all of it was right."""
        server = self.training.server
        done = server.log("round")[-1]["round"]
        server.await_log("round", round=done + ENOUGH)
        self.assertEqual(server.end(), 1, server.told())  # interrupted
        report = self.training.report()
        self.assert_exact_or_said(report)
        rounds = len(report["rounds"])
        expected = self.trained([*JOB[:JOB.index("--wait")], "--rounds", str(rounds)])
        self.assertAlmostEqual(report["final"]["loss"], expected["final"]["loss"], delta=1e-5)
        print(f"{self.id().rpartition('.')[2]}: the machine stood still for {self.stalls.longest() * 1e3:.0f} ms")
        if self.stalls.longest() < SILENCE / 8:  # else each process may have stood still by itself
            self.assertEqual([line for line in server.log("left_out") if line["worker"] != LIAR], [])

    def refusals(self):
        return len(self.training.server.log("refused"))

    def assert_refused(self, what, before):
        """The log has a refusal more than before."""
        for _ in range(200):
            if self.refusals() > before:
                return
            self.training.server.await_log("round", round=self.training.server.log("round")[-1]["round"] + 1)
        self.fail(f"{what}: not logged as refused")

    def await_refusal(self, words):
        """A line with these words; those that only count others come once a second."""
        end = time.monotonic() + WAIT
        while not any(words in line["text"] for line in self.training.server.log("refused")):
            self.assertLess(time.monotonic(), end, f"no refusal says '{words}'\n{self.training.server.told()}")
            time.sleep(0.02)

    def misbehave(self, what, reason, behave, tls=None):
        """A connection on which behave(peer) is refused for `reason`; None: closed, with or without a word."""
        with self.subTest(what):
            before = self.refusals()
            with Peer(self.address, tls) as peer:
                behave(peer)
                said = peer.end()
            if reason is not None:
                self.assertIsNotNone(said, "closed without a word")
                self.assertEqual(Reason(said[0]), reason, said[1])
            self.assert_refused(what, before)

    def test_before_it_is_let_in(self):
        self.begin()
        draw = random.Random(SEED)
        garbage = draw.randbytes(4000)
        for what, reason, said in [
            ("garbage", None, garbage),
            ("text", None, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
            ("a huge length", None, frames.frame(Kind.HELLO, b"x" * 96, length=2**32 - 1)),
            ("a huge message", None, frames.frame(Kind.MESSAGE, b"x" * 24, length=2**31)),
            ("no such kind", None, frames.frame(99, b"x")),
            ("another protocol", Reason.FORMAT, frames.hello(magic=b"OTHER\0")),
            ("only newer versions", Reason.VERSION, frames.hello(oldest=frames.VERSION + 1, newest=frames.VERSION + 1)),
            ("only an older version", Reason.VERSION, frames.hello(oldest=1, newest=1)),
            ("another ranking", Reason.RANKING, frames.hello(ranking=1)),
            ("no such role", Reason.FORMAT, frames.hello(role=7)),
            ("a rack with a blank", Reason.FORMAT, frames.hello(rack=b"a b")),
            ("a rack that moves the cursor", Reason.FORMAT, frames.hello(rack=b"\x1b[2J")),
            ("a rack too long", Reason.FORMAT, frames.hello(rack=b"x" * 64)),
            ("no such worker", Reason.RANGE, frames.hello(WORKERS)),
            ("a message before HELLO", Reason.FORMAT, frames.message(Type.REPORT)),
            ("READY before HELLO", Reason.FORMAT, frames.ready(frames.ZEROS)),
            ("what only servers say", Reason.FORMAT, frames.frame(Kind.PARAMETERS, bytes(20))),
            ("an id that is taken", Reason.TAKEN, frames.hello(0)),
            ("half a HELLO", None, frames.hello()[:50]),
            ("nothing", None, b""),
        ]:
            self.misbehave(what, reason, lambda peer, said=said: (peer.send(said), self.hang_up(peer, reason)))
        self.finish()

    def hang_up(self, peer, reason):
        """Says no more, so that whoever waits for the rest of a frame hears of it."""
        if reason is None:
            with contextlib.suppress(OSError):  # it may have been closed already
                peer.socket.shutdown(1)

    def test_as_a_worker(self):
        self.begin()
        for what, reason, behave in [
            ("HELLO twice", Reason.FORMAT, lambda p: p.send(frames.hello(LIAR), frames.hello(LIAR))),
            ("another plan", Reason.DATA, lambda p: p.join(LIAR, plan=bytes(range(32)))),
            ("other data", Reason.DATA, lambda p: p.join(LIAR, data=bytes(range(32)))),
            ("data that are not shipped", Reason.FORMAT,
             lambda p: (p.join(LIAR), p.send(frames.frame(Kind.FETCH, struct.pack("<BxxxI", 3, 0))))),
            ("what only servers say", Reason.FORMAT,
             lambda p: (p.join(LIAR), p.send(frames.frame(Kind.PARAMETERS, bytes(20))))),
            ("no such type", Reason.FORMAT, lambda p: (p.join(LIAR), p.send(frames.message(77)))),
            ("sets that reports have not", Reason.FORMAT,
             lambda p: (p.join(LIAR), p.send(frames.message(Type.REPORT, flags=2, behind=b"x")))),
            ("a part of another length", Reason.FORMAT,
             lambda p: (p.join(LIAR), p.send(frames.message(Type.PART, behind=bytes(400))))),
            ("a stripe that there is not", Reason.FORMAT,
             lambda p: (p.join(LIAR), p.send(frames.message(Type.PART, index=9, behind=bytes(12_000))))),
            ("a part beyond all lengths", None,
             lambda p: (p.join(LIAR), p.send(frames.frame(Kind.MESSAGE, bytes(24), length=2**25)))),
            ("STATUS", Reason.FORMAT, lambda p: (p.join(LIAR), p.send(frames.frame(Kind.STATUS, bytes(153))))),
            ("a flood of reports", Reason.FLOOD, lambda p: self.flood(p, Type.REPORT)),
            ("a flood of reports in batches", Reason.FLOOD,
             lambda p: (p.join(LIAR), self.repeat(p, frames.frame(Kind.BATCH, bytes(16) + 1024 * bytes(16))))),
            ("a batch of no reports", None,
             lambda p: (p.join(LIAR), p.send(frames.frame(Kind.BATCH, bytes(16))))),
            ("a batch that ends in a report", Reason.FORMAT,
             lambda p: (p.join(LIAR), p.send(frames.frame(Kind.BATCH, bytes(16 + 24))))),
            ("a batch with bytes that are reserved", Reason.FORMAT,
             lambda p: (p.join(LIAR), p.send(frames.frame(Kind.BATCH, bytes(13) + b"\1" + bytes(2 + 32))))),
            ("a flood of what only servers say", Reason.FLOOD, lambda p: self.flood(p, Type.FINISH)),
            ("a flood of heartbeats", Reason.FLOOD, lambda p: (p.join(LIAR), self.repeat(p, frames.frame(Kind.HEARTBEAT)))),
            ("READY again and again", Reason.FLOOD, lambda p: self.repeat(p, frames.ready(p.join(LIAR).plan))),
        ]:
            self.misbehave(what, reason, behave)
        self.finish()

    def test_the_same_data_are_fetched_again_and_again(self):
        """More than it can need, though never much at a time."""
        self.begin(None, "--ship-data")
        fetch = frames.frame(Kind.FETCH, struct.pack("<BxxxI", 3, 1))
        with Peer(self.address) as peer:
            peer.join(LIAR)
            for times in range(1000):
                self.assertTrue(peer.send(fetch))
                got = peer.await_kind(Kind.BLOB, Kind.REFUSED)
                if got[0].kind == Kind.REFUSED:
                    break
            self.assertEqual(Reason(frames.refusal(got[1])[0]), Reason.FLOOD)
            self.assertGreater(times, WORKERS)
        self.assert_refused("fetches", 0)
        self.finish()

    def test_a_crowd_of_strangers(self):
        """Thousands who say nothing, or not all of it, keep no member out, and the rounds go on."""
        self.begin(self.crowd_keys())
        self.bear_a_crowd()

    def test_a_crowd_that_takes_all_files(self):
        """There is one for a member all the same."""
        self.begin(self.crowd_keys())
        server = self.training.server.pid
        few = len(os.listdir(f"/proc/{server}/fd")) + 30
        resource.prlimit(server, resource.RLIMIT_NOFILE, (few, few))
        self.bear_a_crowd()

    def bear_a_crowd(self):
        crowd, begun = Crowd(self.address), time.monotonic()
        crowd.start()
        try:
            crowd.await_count(CROWD // 4)
            joins = time.monotonic()
            self.training.work(LIAR, self.address, *SLEEP)
            self.training.server.await_log("joined", worker=LIAR)
            joins = time.monotonic() - joins
            done = self.training.server.log("round")[-1]["round"]
            self.training.server.await_log("round", round=done + ENOUGH)
            crowd.await_count(CROWD)
            files = len(os.listdir(f"/proc/{self.training.server.pid}/fd"))
        finally:
            crowd.end()
        self.assertLess(files, OPEN_FILES)
        self.assertLess(joins, max(SOON, 5 * self.joins))
        self.await_refusal("made room for others")
        refused = self.training.server.log("refused")
        self.assertLess(len(refused), LINES + LINES_A_SECOND * (time.monotonic() - begun))  # not one for each
        self.finish()

    def crowd_keys(self):
        return None

    def repeat(self, peer, frame):
        end = time.monotonic() + WAIT
        while peer.send(frame * 100) and time.monotonic() < end:
            pass

    def flood(self, peer, type):
        peer.join(LIAR)
        round = peer.await_message(Type.ROUND)
        senseless = frames.message(type, round=round.round, epoch=round.epoch, index=12345)
        end = time.monotonic() + WAIT
        while peer.send(senseless * 1000) and time.monotonic() < end:
            pass

    def test_an_id_is_asked_for_while_the_server_is_held_up(self):
        """Its holder was well all the time, though the server has not heard it yet when it hears the other."""
        self.begin(None, "--silence", str(SILENCE))
        server = self.training.server
        files = len(os.listdir(f"/proc/{server.pid}/fd"))
        with Peer(self.address) as peer:
            while len(os.listdir(f"/proc/{server.pid}/fd")) == files:
                server.await_log("round", round=server.log("round")[-1]["round"] + 1)
            server.signal(signal.SIGSTOP)
            peer.send(frames.hello(0))
            time.sleep(HELD_UP)
            server.signal(signal.SIGCONT)
            kind, body = peer.await_kind(Kind.REFUSED, Kind.WELCOME)
        self.assertEqual(kind.kind, Kind.REFUSED)
        self.assertEqual(Reason(frames.refusal(body)[0]), Reason.TAKEN)
        self.finish()

    def test_an_old_round_is_replayed(self):
        """What a worker says of a round that is over is dropped: it is not refused, and nothing of it is summed."""
        self.begin()
        with Peer(self.address) as peer:
            welcome = peer.join(LIAR)
            poison = struct.pack("<f", 1e30) * welcome.dimension
            old = peer.await_message(Type.ROUND)
            for _ in range(20):
                new = peer.await_message(Type.ROUND)
                for epoch in (old.epoch, new.epoch, old.epoch + 1):
                    self.assertTrue(peer.send(
                        frames.message(Type.REPORT, round=old.round, epoch=epoch),
                        frames.message(Type.PART, round=old.round, epoch=epoch, attempt=1, behind=poison),
                        frames.message(Type.PART, round=new.round, epoch=epoch + 7, attempt=1, behind=poison)))
                old = new
        self.assertEqual(self.refusals(), 0)
        self.finish()


class MisbehaviourOverTls(Misbehaviour):
    """The same over TLS where that makes sense, and what TLS is there for."""

    test_as_a_worker = test_an_old_round_is_replayed = test_the_same_data_are_fetched_again_and_again = None
    test_an_id_is_asked_for_while_the_server_is_held_up = None

    def member(self, name):
        return os.path.join(self.keys_folder, name)

    def crowd_keys(self):
        return self.keys(WORKERS)

    def test_before_it_is_let_in(self):
        self.begin(self.keys(WORKERS))
        self.misbehave("plain text", None, lambda p: p.send(frames.hello(LIAR)))
        self.misbehave("garbage", None, lambda p: (p.send(os.urandom(4000)), self.hang_up(p, None)))
        self.finish()

    def test_in_the_middle_of_a_handshake(self):
        """A member that takes its time makes no room for a crowd that came later and says nothing of use."""
        self.begin(self.keys(WORKERS))
        got, said = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context(self.member(f"worker-{LIAR}")).wrap_bio(got, said, server_hostname="tarry-server")
        with socket.create_connection(self.address, timeout=WAIT) as member:
            with self.assertRaises(ssl.SSLWantReadError):
                tls.do_handshake()
            member.sendall(said.read())
            got.write(member.recv(1 << 16))
            crowd = Crowd(self.address)
            crowd.start()
            crowd.await_count(OPEN_FILES * 2)
            crowd.end()
            self.drive(member, got, said, tls.do_handshake)
            tls.write(frames.hello(LIAR))
            welcome = self.drive(member, got, said, lambda: tls.read(frames.HEAD_BYTES))
        self.assertEqual(frames.look(welcome).kind, Kind.WELCOME)
        self.finish()

    def drive(self, member, got, said, step):
        """Brings what TLS says to the server, and what the server says to TLS, until it has done a step."""
        while True:
            try:
                done = step()
                member.sendall(said.read())
                return done
            except ssl.SSLWantReadError:
                member.sendall(said.read())
                data = member.recv(1 << 16)
                self.assertTrue(data, "the server has closed the connection")
                got.write(data)

    def test_credentials(self):
        self.begin(self.keys(WORKERS))
        self.tarry("keys", "init", "--workers", "4", "others", folder=self.training.folder)
        stranger = os.path.join(self.training.folder, "others", f"worker-{LIAR}")
        liar = self.member(f"worker-{LIAR}")
        for what, reason, worker, folder in [
            ("another's id", Reason.IDENTITY, 0, liar),
            ("an id that is taken", Reason.TAKEN, 0, self.member("worker")),
            ("a viewer as a worker", Reason.IDENTITY, LIAR, self.member("viewer")),
        ]:
            self.misbehave(what, reason, lambda p, worker=worker: p.send(frames.hello(worker)), context(folder))
        old = context(liar)
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_2
        self.fail_to_connect("TLS 1.2", old)
        self.fail_to_connect("no certificate", context(None, authority=liar))
        self.fail_to_connect("another authority's member", context(stranger, authority=liar))
        with Peer(self.address, context(liar)) as peer:  # until it is revoked, it is one of them
            peer.join(LIAR)
            self.assertIsNotNone(peer.await_message(Type.ROUND))
            before = self.refusals()
            with concurrent.futures.ThreadPoolExecutor() as pool:
                revoked = pool.submit(self.tarry, "keys", "revoke", self.keys_folder, f"worker-{LIAR}",
                                      folder=self.training.folder)
                self.assertEqual(Reason(peer.end()[0]), Reason.REVOKED)
                revoked.result()
            self.assert_refused("a revoked worker that is there", before)
        self.fail_to_connect("a revoked certificate", context(liar))
        self.finish()

    def fail_to_connect(self, what, tls):
        """Nothing that it says after such a handshake is heard: the connection ends, and that is logged."""
        with self.subTest(what):
            before = self.refusals()
            with contextlib.suppress(ssl.SSLError), Peer(self.address, tls) as peer:
                peer.send(frames.hello(LIAR))
                self.assertIsNone(peer.receive())
            self.assert_refused(what, before)


if __name__ == "__main__":
    unittest.main()
