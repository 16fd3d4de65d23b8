# SPDX-License-Identifier: Apache-2.0
"""The proxy itself: what it is told to do to a link is what happens."""

import contextlib
import random
import socket
import threading
import time
import unittest

import frames
from frames import Kind, Type
from proxy import DOWN, UP, Cutter, Proxy, Watch

WAIT = 60
TRY_SECONDS = 30  # for a measurement that the machine does not disturb


class Echo:
    """Sends back what it gets, and remembers it."""

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.got, self._more = bytearray(), threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                end, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(end,), daemon=True).start()

    def _serve(self, end):
        with end, contextlib.suppress(OSError):
            while data := end.recv(1 << 16):
                with self._more:
                    self.got += data
                    self._more.notify_all()
                end.sendall(data)

    def await_bytes(self, count):
        with self._more:
            assert self._more.wait_for(lambda: len(self.got) >= count, WAIT), f"{len(self.got)} bytes of {count}"


def receive(end, size):
    got = b""
    while len(got) < size:
        data = end.recv(min(size - len(got), 1 << 16))
        if not data:
            break
        got += data
    return got


class ProxyTest(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.echo = self.stack.enter_context(Echo())

    def proxy(self, **settings):
        return self.stack.enter_context(Proxy(self.echo.address, **settings))

    def connect(self, proxy):
        return self.stack.enter_context(socket.create_connection(proxy.address, timeout=WAIT))

    def round_trip(self, end, data):
        """Seconds until all of it has come back."""
        start = time.monotonic()
        sender = threading.Thread(target=end.sendall, args=(data,))
        sender.start()
        self.assertEqual(receive(end, len(data)), data)
        sender.join()
        return time.monotonic() - start

    def measure(self, least, measured):
        """
        measured() gives seconds and how many they should be at most. Nothing is ever sooner than the link allows; a busy
        machine makes it later, but not every time.
        """
        end = time.monotonic() + TRY_SECONDS
        while True:
            took, most = measured()
            self.assertGreaterEqual(took, least)
            if took < most:
                return
            self.assertLess(time.monotonic(), end, f"{took} s is too late each time")

    def test_bytes_are_passed_on(self):
        end = self.connect(self.proxy(framed=False))
        self.round_trip(end, random.Random(1).randbytes(1 << 20))
        end.shutdown(socket.SHUT_WR)
        self.assertEqual(end.recv(1), b"")

    def test_delay(self):
        end = self.connect(self.proxy(delay=0.02))
        self.measure(0.04, lambda: (self.round_trip(end, b"x"), 0.045))

    def test_delay_costs_no_bandwidth(self):
        data = bytes(8 << 20)
        bare, late = self.connect(self.proxy()), self.connect(self.proxy(delay=0.05))
        self.measure(0.1, lambda: (self.round_trip(late, data), 0.1 + 2 * self.round_trip(bare, data)))

    def test_rate(self):
        data = bytes(25_000)
        end = self.connect(self.proxy(rate=125_000))
        self.measure(0.2, lambda: (self.one_way(end, data), 0.22))

    def one_way(self, end, data):
        """Seconds until all of it has arrived."""
        before, start = len(self.echo.got), time.monotonic()
        end.sendall(data)
        self.echo.await_bytes(before + len(data))
        return time.monotonic() - start

    def test_stall(self):
        proxy = self.proxy()
        end = self.connect(proxy)
        self.round_trip(end, b"x")
        self.measure(0.2, lambda: (self.stalled(proxy, end), 0.3))
        self.measure(0.0, lambda: (self.round_trip(end, b"x"), 0.1))

    def stalled(self, proxy, end):
        """Seconds until what is sent into a stall of 0.2 s is back."""
        start = time.monotonic()
        proxy.stall(0.2)
        self.round_trip(end, b"x")
        return time.monotonic() - start

    def test_hole_and_heal(self):
        proxy = self.proxy()
        end = self.connect(proxy)
        self.round_trip(end, b"x")
        proxy.hole()
        end.sendall(b"lost?")
        end.settimeout(0.2)
        self.assertRaises(TimeoutError, end.recv, 1)
        other = self.connect(proxy)  # accepted, as by a host whose packets get lost later
        other.sendall(b"new")
        time.sleep(0.05)
        self.assertEqual(bytes(self.echo.got), b"x")
        proxy.heal()
        end.settimeout(WAIT)
        self.assertEqual(receive(end, 5), b"lost?")
        self.assertEqual(receive(other, 3), b"new")

    def test_one_way(self):
        proxy = self.proxy()
        end = self.connect(proxy)
        self.round_trip(end, b"x")
        proxy.hole(DOWN)
        end.sendall(b"up")
        self.echo.await_bytes(3)
        self.assertEqual(bytes(self.echo.got), b"xup")
        end.settimeout(0.2)
        self.assertRaises(TimeoutError, end.recv, 1)

    def test_shut(self):
        proxy = self.proxy()
        end = self.connect(proxy)
        self.round_trip(end, b"x")
        proxy.shut()
        self.assertRaises(ConnectionResetError, end.recv, 1)
        with self.assertRaises(OSError):
            again = self.connect(proxy)
            again.sendall(b"x")
            if again.recv(1) == b"":
                raise ConnectionResetError
        proxy.heal()
        self.round_trip(self.connect(proxy), b"x")

    def test_watch_stops_within_a_part(self):
        proxy = self.proxy(framed=True)
        seen, struck = [], threading.Event()

        def strike(frame):
            seen.append((frame.round, frame.index))
            proxy.hole(UP)
            struck.set()

        part = frames.message(Type.PART, round=7, index=3, behind=bytes(range(100)))
        report = frames.message(Type.REPORT, round=7)
        proxy.watch(UP, lambda f: f.is_message(Type.PART) and f.round == 7, strike, after=40)
        end = self.connect(proxy)
        for byte in report + frames.frame(Kind.HEARTBEAT) + part + report:  # as they may come, one by one
            end.sendall(bytes([byte]))
        before = len(report) + frames.HEAD_BYTES + frames.HEAD_BYTES + frames.MESSAGE_BYTES + 40
        self.assertEqual(len(receive(end, before)), before)
        self.assertTrue(struck.wait(WAIT))
        end.settimeout(0.1)
        self.assertRaises(TimeoutError, end.recv, 1)
        self.assertEqual(seen, [(7, 3)])
        self.assertEqual(len(self.echo.got), before)
        proxy.heal()
        end.settimeout(WAIT)
        receive(end, len(part) + len(report) - 72)
        self.assertEqual(bytes(self.echo.got[-len(report) - 100 :]), bytes(range(100)) + report)

    def test_cuts_of_random_streams(self):
        """However the bytes come, they all go through in order, and watches strike where they say."""
        generator = random.Random(5)
        for _ in range(200):
            stream = [frames.message(Type(generator.randrange(6, 9)), index=i, behind=bytes(generator.randrange(50)))
                      for i in range(10)]
            watches, expected = [], []
            for i in sorted(generator.sample(range(10), 3)):
                after = generator.choice([-1, 0, 3, None])
                watch = Watch(UP, lambda f, i=i: f.index == i, None, after)
                inside = {-1: 0, None: len(stream[i])}.get(after, min(32 + (after or 0), len(stream[i])))
                expected.append((i, sum(map(len, stream[:i])) + inside))
                watches.append(watch)
            cutter, whole, passed, struck = Cutter(UP, watches), b"".join(stream), b"", []
            rest = whole
            while rest:
                size = generator.randrange(1, 60)
                for piece in cutter.cut(rest[:size]):
                    if isinstance(piece, tuple):
                        struck.append((piece[1].index, len(passed)))
                    else:
                        passed += piece
                rest = rest[size:]
            self.assertEqual((passed + cutter.rest(), watches), (whole, []))
            self.assertEqual(struck, expected)


if __name__ == "__main__":
    unittest.main()
